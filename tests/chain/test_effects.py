"""One transaction's effect on a wallet, or on two of one owner: every field computed by hand."""

from dataclasses import asdict

import pytest
from scene import FEE, Scene
from story import RENT, account_of, address

from chain.addresses import WRAPPED_SOL
from chain.reading.flows import Balance, read_effect
from chain.reading.receipts import parse_receipt

SOL = 10**9
ADA, EVE, CAT, DOG, FOX = (address(word) for word in ("ada", "eve", "CAT", "DOG", "FOX"))
TIPS = {address("validator")}


def effect_of(raw, wallet=ADA):
    return read_effect(parse_receipt(raw), wallet, TIPS)


def account(owner, mint):
    return address(account_of(owner, mint))


def day(err=None):
    """Ada, with 20 SOL, 2 more wrapped, and 1,000 CAT, tips 7 lamports, wraps 1 SOL, opens an
    account of FOX and sends eve 100 CAT; eve pays her 3 SOL.
    """
    scene = Scene(ada=20 * SOL, eve=5 * SOL, validator=SOL)
    scene.holds("ada", "CAT", 1_000).holds("ada", "SOL", 2 * SOL).holds("eve", "CAT", 0)
    scene.pay("ada", "validator", 7)
    scene.wrap("ada", SOL)
    scene.open("ada", "ada", "FOX")
    scene.send("CAT", "ada", "eve", 100)
    scene.pay("eve", "ada", 3 * SOL)
    raw = scene.receipt("ada", "eve")
    raw["meta"]["err"] = err
    return raw


PAID = 7 + SOL + RENT + FEE
ADAS = [
    Balance(account("ada", "CAT"), CAT, 6, 1_000, 900, RENT, RENT),
    Balance(account("ada", "FOX"), FOX, 6, 0, 0, 0, RENT),
    Balance(
        account("ada", "SOL"), WRAPPED_SOL, 6, 2 * SOL, 3 * SOL, RENT + 2 * SOL, RENT + 3 * SOL
    ),
]
EVES = Balance(account("eve", "CAT"), CAT, 6, 0, 100, RENT, RENT)


def test_effects_on_the_fee_payer_are_read():
    """3 SOL arrived; wrapped SOL and rent in own accounts are still hers."""
    assert asdict(effect_of(day())) == {
        "wallet": ADA,
        "lamports": 3 * SOL - PAID,
        "fee": FEE,
        "wrapped": SOL,
        "rent": RENT,
        "sponsored": 0,
        "sol": 3 * SOL - 7 - FEE,
        "tip": 7,
        "tokens": ((CAT, -100, 6),),
        "balances": (
            Balance(ADA, None, 9, 0, 0, 20 * SOL, 23 * SOL - PAID),
            *sorted(ADAS, key=lambda one: one.address),
        ),
        "unowned": (),
        "inferred": False,
        "own": frozenset({ADA, *(one.address for one in ADAS)}),
        # The address of FOX was empty.
        "sponsors": ((None, 0),),
    }


def test_effects_on_another_signer_are_read():
    found = effect_of(day(), EVE)
    assert (found.lamports, found.fee, found.wrapped, found.rent) == (-3 * SOL, 0, 0, 0)
    assert (found.sol, found.tip, found.tokens) == (-3 * SOL, 0, ((CAT, 100, 6),))
    assert found.balances == (Balance(EVE, None, 9, 0, 0, 5 * SOL, 2 * SOL), EVES)
    assert (found.wallet, found.own) == (EVE, {EVE, EVES.address})


def test_a_failed_transaction_tips_nobody():
    assert effect_of(day(err={"InstructionError": [0, {"Custom": 1}]})).tip == 0


def test_a_tip_is_a_transfer_by_the_wallet_to_a_tip_account():
    """Transfers by eve, transfers to her, and an account that ada opens there don't count."""
    scene = Scene(ada=SOL, eve=SOL, validator=SOL)
    scene.pay("eve", "validator", 5)
    scene.pay("ada", "eve", 11)
    scene.create("ada", "validator", 13)
    scene.pay("ada", "validator", 17)
    scene.pay("ada", "validator", 19)
    raw = scene.receipt("ada", "eve")
    assert (effect_of(raw).tip, effect_of(raw, EVE).tip) == (17 + 19, 5)


def test_an_account_counts_on_the_side_where_the_wallet_owns_it():
    """Ada gives eve her account with all 1,000 CAT and its rent."""
    scene = Scene(ada=SOL, eve=SOL).holds("ada", "CAT", 1_000)
    scene.hand_over(account_of("ada", "CAT"), "eve")
    raw, where = scene.receipt("ada"), account("ada", "CAT")
    gave, got = effect_of(raw), effect_of(raw, EVE)
    assert gave.balances[1] == Balance(where, CAT, 6, 1_000, 0, RENT, 0)
    assert (gave.tokens, gave.rent, gave.sol) == (((CAT, -1_000, 6),), -RENT, -RENT - FEE)
    # It existed before, so its rent was not sponsored here.
    assert got.balances[1] == Balance(where, CAT, 6, 0, 1_000, 0, RENT)
    assert (got.tokens, got.rent, got.sponsored, got.sol) == (((CAT, 1_000, 6),), RENT, 0, RENT)


def reopened(scene, mint, word):
    """Close the account and reopen it for DOG, of which 1,000 arrive."""
    scene.holds("friend", "DOG", 1_000)
    if mint != "SOL":
        scene.send(mint, "ada", "friend", 1_000)
    scene.close(word, "ada")
    scene.open("ada", "ada", "DOG", word=word)
    scene.send("DOG", account_of("friend", "DOG"), word, 1_000)
    return scene.receipt("ada", "friend"), address(word)


def test_a_reopened_account_has_each_mint_on_its_side():
    """1,000 CAT left and 1,000 DOG arrived at one address; its rent was returned and paid again."""
    scene = Scene(ada=SOL, friend=SOL).holds("ada", "CAT", 1_000).holds("friend", "CAT", 0)
    raw, where = reopened(scene, "CAT", account_of("ada", "CAT"))
    found = effect_of(raw)
    assert set(found.tokens) == {(CAT, -1_000, 6), (DOG, 1_000, 6)}
    assert (found.lamports, found.rent, found.sponsored, found.sol) == (-FEE, 0, 0, -FEE)
    assert found.balances[1:] == (
        Balance(where, CAT, 6, 1_000, 0, RENT, 0),
        Balance(where, DOG, 6, 0, 1_000, 0, RENT),
    )


def test_existing_wrapped_sol_is_unwrapped():
    """Ada got back 2 wrapped SOL and the rent, and paid the rent of DOG: no wrapped SOL is left."""
    scene = Scene(ada=SOL, friend=SOL).holds("ada", "SOL", 2 * SOL)
    raw, _ = reopened(scene, "SOL", account_of("ada", "SOL"))
    found = effect_of(raw)
    assert (found.lamports, found.wrapped, found.rent) == (2 * SOL - FEE, -2 * SOL, 0)
    assert (found.sol, found.tokens) == (-FEE, ((DOG, 1_000, 6),))


def test_a_strangers_earlier_balance_is_not_the_wallets():
    """Eve gives ada her empty account of CAT; ada closes it and reopens it for DOG."""
    scene = Scene(ada=SOL, eve=SOL, friend=SOL).holds("eve", "CAT", 1_000)
    scene.holds("friend", "CAT", 0).holds("friend", "DOG", 1_000)
    word = account_of("eve", "CAT")
    scene.send("CAT", "eve", "friend", 1_000)
    scene.hand_over(word, "ada")
    scene.close(word, "ada")
    scene.open("ada", "ada", "DOG", word=word)
    scene.send("DOG", account_of("friend", "DOG"), word, 1_000)
    raw = scene.receipt("ada", "eve", "friend")
    gave, got = effect_of(raw, EVE), effect_of(raw)
    assert gave.tokens == ((CAT, -1_000, 6),) and got.tokens == ((DOG, 1_000, 6),)
    assert gave.balances[1:] == (Balance(address(word), CAT, 6, 1_000, 0, RENT, 0),)
    assert got.balances[1:] == (Balance(address(word), DOG, 6, 0, 1_000, 0, RENT),)


# ---- rent that others put in ---------------------------------------------------------------------
def opened(scene):
    scene.open("relayer", "ada", "FOX")


def repaid_in_part(scene):
    opened(scene)
    scene.pay("ada", "relayer", 5)


def repaid_before_and_more(scene):
    scene.pay("ada", "relayer", RENT)
    opened(scene)
    scene.pay("ada", "relayer", 5)


def repaid_by_another(scene):
    opened(scene)
    scene.pay("eve", "relayer", RENT)


def paid_to_another(scene):
    opened(scene)
    scene.pay("ada", "eve", RENT)


def repaid_for_one_of_two(scene):
    opened(scene)
    scene.open("relayer", "ada", "DOG")
    scene.pay("ada", "relayer", RENT + 5)


def opened_by_herself(scene):
    scene.open("ada", "ada", "FOX")


def topped_up(scene):
    scene.pay("relayer", account_of("ada", "CAT"), 40)


def opened_for_another(scene):
    scene.open("relayer", "eve", "FOX")


def opened_with_wrapped(scene):
    """The relayer gives 100 more than the rent, which become ada's wrapped SOL: a gift, not
    rent.
    """
    scene.create("relayer", "spot", RENT + 100)
    scene.tokens["spot"] = ["SOL", "ada", 100]


def opened_by_two(scene):
    """Eve's 10 arrived first; wrapped SOL is the part above the rent."""
    scene.pay("eve", "spot", 10)
    scene.create("relayer", "spot", RENT)
    scene.tokens["spot"] = ["SOL", "ada", 10]


def lay_there(scene):
    scene.adopt("paid for", "ada")


def lay_there_in_part(scene):
    scene.pay("relayer", "begun", 30)
    scene.tokens["begun"] = ["FOX", "ada", 0]


RELAYER, BEFORE = address("relayer"), None


@pytest.mark.parametrize(
    "how, sponsors",
    [
        (opened, {RELAYER: RENT}),
        (repaid_in_part, {RELAYER: RENT - 5}),
        (repaid_before_and_more, {RELAYER: 0}),
        (repaid_by_another, {RELAYER: RENT}),
        (paid_to_another, {RELAYER: RENT}),
        (repaid_for_one_of_two, {RELAYER: RENT - 5}),
        (opened_by_herself, {}),
        (topped_up, {}),
        (opened_for_another, {}),
        (opened_with_wrapped, {RELAYER: RENT}),
        (opened_by_two, {EVE: 10, RELAYER: RENT - 10}),
        (lay_there, {BEFORE: RENT}),
        (lay_there_in_part, {BEFORE: 90, RELAYER: 30}),
    ],
)
def test_the_rent_payer_of_a_received_account_is_known(how, sponsors):
    """A million lamports above the rent are at the adopted wrapped SOL account; 90 lamports where
    an account is only started.
    """
    scene = Scene(ada=SOL, eve=SOL, relayer=SOL, begun=90, **{"paid for": RENT + 10**6})
    scene.holds("ada", "CAT", 1)
    how(scene)
    found = effect_of(scene.receipt("eve"))
    assert {who: given for who, given in found.sponsors if given} == {
        who: given for who, given in sponsors.items() if given
    }
    assert found.sponsored == sum(sponsors.values())
    assert found.sol == found.lamports + found.wrapped + found.rent - found.sponsored
