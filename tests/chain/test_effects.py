"""One transaction's effect on a wallet: every field computed by hand. See histories.py for the
format; value.txt has more.
"""

import pytest
from histories import TIP, TextHistory

from chain.addresses import WRAPPED_SOL
from chain.reading.flows import Balance, Effect, read_effect
from chain.reading.receipts import parse_receipt

SOL, FEE, RENT, FUNDED = 10**9, 5_000, TextHistory.rent, 5 * 10**9


def read(text):
    """(read_effect of the last transaction, the address of a word)"""
    history = TextHistory(text)
    receipt = parse_receipt(history.listed[-1].receipt)

    def effect_on(word):
        return read_effect(receipt, history.address(word), {TIP})

    return effect_on, history.address


def test_effects_on_two_signers_are_read():
    """Ada, with 6 SOL, 2 more wrapped, and 1,000 CAT, tips 7 lamports, wraps 1 SOL, opens an
    account of FOX and sends eve 100 CAT; eve pays her 3 SOL. Her wrapped SOL and rent stay hers.
    """
    effect_on, address = read("""
        bank: bank>ada 1000 CAT; bank>ada 3000005; bank>eve 5000000
        bank: +eve CAT by bank; +ada SOL by bank
        wrap ada 2000000
        ada+eve: ada>tip .007; wrap ada 1000000; +ada FOX; ada>eve 100 CAT; eve>ada 3000000
    """)
    ada, eve, cat, fox = map(address, ("ada", "eve", "CAT", "FOX"))
    tokens = [
        Balance(address("ada's CAT"), cat, 6, 1_000, 900, RENT, RENT),
        Balance(address("ada's FOX"), fox, 6, 0, 0, 0, RENT),
        Balance(
            *(address("ada's SOL"), WRAPPED_SOL, 6, 2 * SOL, 3 * SOL),
            *(RENT + 2 * SOL, RENT + 3 * SOL),
        ),
    ]
    paid = 7 + SOL + RENT + FEE
    assert effect_on("ada") == Effect(
        wallet=ada,
        lamports=3 * SOL - paid,
        fee=FEE,
        wrapped=SOL,
        rent=RENT,
        sponsored=0,
        sol=3 * SOL - 7 - FEE,
        tip=7,
        tokens=((cat, -100, 6),),
        balances=(
            Balance(ada, None, 9, 0, 0, 6 * SOL, 9 * SOL - paid),
            *sorted(tokens, key=lambda one: one.address),
        ),
        own=frozenset({ada, *(one.address for one in tokens)}),
        # The address of FOX was empty.
        sponsors=((None, 0),),
    )
    eves = Balance(address("eve's CAT"), cat, 6, 0, 100, RENT, RENT)
    assert effect_on("eve") == Effect(
        *(eve, -3 * SOL, 0, 0, 0, 0, -3 * SOL, 0, ((cat, 100, 6),)),
        balances=(Balance(eve, None, 9, 0, 0, 5 * SOL, 2 * SOL), eves),
        own=frozenset({eve, eves.address}),
    )


OPENED = "+ada FOX by relayer"


@pytest.mark.parametrize(
    "moves, sponsors",
    [
        (OPENED, {"relayer": RENT}),
        (f"{OPENED}; ada>relayer .005", {"relayer": RENT - 5}),
        (f"ada>relayer 2000; {OPENED}; ada>relayer .005", {}),
        (f"{OPENED}; bob>relayer 2000", {"relayer": RENT}),
        (f"{OPENED}; ada>bob 2000", {"relayer": RENT}),
        (f"{OPENED}; +ada DOG by relayer; ada>relayer 2000.005", {"relayer": RENT - 5}),
        ("+ada FOX", {}),
        ("relayer>ada'CAT .04", {}),
        ("+bob FOX by relayer", {}),
        # 100 more than the rent become wrapped SOL: a gift, not rent.
        ("do create relayer order 2000.1; become order ada SOL 100", {"relayer": RENT}),
        # Bob's 10 arrived first; wrapped SOL is the part above the rent.
        (
            "bob>order .01; do create relayer order 2000; become order ada SOL 10",
            {"bob": 10, "relayer": RENT - 10},
        ),
        ("do adopt funded ada", {None: RENT}),
        # 90 were already there.
        ("relayer>begun .03; become begun ada FOX", {None: 90, "relayer": 30}),
    ],
)
def test_the_rent_payer_of_a_received_account_is_known(moves, sponsors):
    effect_on, address = read(f"""
        bank: bank>ada 1 CAT; bank>bob 5000; do create bank funded 3000; do create bank begun 0.09
        carl+bob: {moves}
    """)
    found = effect_on("ada")
    assert {who: given for who, given in found.sponsors if given} == {
        who and address(who): given for who, given in sponsors.items()
    }
    assert found.sponsored == sum(sponsors.values())
    assert found.sol == found.lamports + found.wrapped + found.rent - found.sponsored
