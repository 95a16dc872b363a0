"""Which part of a value passed through the venue, to the unit: others' payments, pools that others
filled, rent, tips and accounts that exist only inside the transaction.

Ada is the wallet; test_value.py has the scene. `FEE` is 5,000 lamports.
"""

import pytest
from histories import PROGRAMS
from scene import FEE
from story import RENT, account_of, address
from test_value import CPMM, PUMP, SOL, entry, scene_of

from chain.addresses import WRAPPED_SOL, b58encode
from chain.reading.entries import read_entry
from chain.reading.kinds import find_discriminator
from chain.reading.programs import TIP_ACCOUNTS, table
from chain.reading.receipts import parse_receipt

START, END = (
    b58encode(find_discriminator(f"flash_take_order_{word}")) for word in ("start", "end")
)
LIMO, KAMINO = PROGRAMS["limo"], PROGRAMS["kamino"]
FED = ("fed_market", "value_unexplained")


def sell(scene, raw, lamports):
    """Tokens go into the curve, and its program moves lamports out without an instruction."""
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.send("CAT", "ada", "curve", raw)
        scene.shift("curve", "ada", lamports)


def buy(scene, who, raw, lamports):
    with scene.call(PUMP, who, account_of(who, "CAT"), "curve"):
        scene.pay(who, "curve", lamports)
        scene.send("CAT", "curve", who, raw)


@pytest.mark.parametrize(
    "friends, percent, flags",
    # The keeper's lamport for the order counts: she pays 1,000 of 1,001, or 100 of 1,001.
    [(0, 99, ()), (900, 9, ("value_unexplained",))],
)
def test_others_cannot_pay_for_a_fill(friends, percent, flags):
    """A keeper takes ada's order around a purchase of 100 CAT for 1,000 lamports."""
    scene = scene_of(keeper=SOL, order=SOL)
    scene.noop(LIMO, "ada", "keeper", "order", data=START)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve", "friend"):
        scene.pay("ada", "curve", 1_000 - friends)
        if friends:
            scene.pay("friend", "curve", friends)
        scene.send("CAT", "curve", "ada", 100)
    with scene.call(LIMO, "ada", "keeper", "order", data=END):
        scene.pay("keeper", "order", 1)
    found = entry(scene, "keeper", "ada", "friend")
    assert (found.kind, found.explained_percent, found.flags) == ("order_fill", percent, flags)


def test_one_lamport_from_a_friend_is_a_payment():
    """Of 2 SOL and a lamport, she paid 99%, rounded down, but nobody else may pay any part."""
    scene = scene_of()
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.pay("ada", "curve", 2 * SOL)
        scene.pay("friend", "curve", 1)
        scene.send("CAT", "curve", "ada", 100)
    found = entry(scene, "ada", "friend")
    assert (found.explained_percent, found.flags) == (99, FED)


def test_a_friends_tip_is_not_a_payment():
    tip = min(TIP_ACCOUNTS)
    scene = scene_of(**{tip: SOL})
    scene.address = lambda word, known=scene.address: word if word == tip else known(word)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.pay("ada", "curve", 2 * SOL)
        scene.pay("friend", tip, SOL)
        scene.send("CAT", "curve", "ada", 100)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.explained_percent, found.flags) == ("buy", 100, ())


def test_a_signer_who_takes_back_most_of_his_payment_paid_the_rest():
    """He gives 900 CAT and takes 700 back: 200 of the 300 sold were his."""
    scene = scene_of()
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), account_of("friend", "CAT"), "curve"):
        scene.send("CAT", "friend", "curve", 900)
        scene.send("CAT", "curve", "friend", 700)
        scene.send("CAT", "ada", "curve", 100)
        scene.shift("curve", "ada", SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.flags) == ("sell", FED)


@pytest.mark.parametrize(
    "receiver, percent, flags",
    [
        # Ada gives 97 to the curve and 3 to a collector of fees, which isn't a pool below 5%.
        ("collector", 100, ()),
        # 97 + 3 given by her, 100 by him.
        ("curve", 50, FED),
    ],
)
def test_tokens_poured_into_a_pool_are_part_of_what_was_given(receiver, percent, flags):
    scene = scene_of().holds("collector", "CAT", 0)
    scene.send("CAT", "friend", receiver, 100)
    with scene.call(CPMM, "ada", account_of("ada", "CAT"), "curve", "collector"):
        scene.send("CAT", "ada", "curve", 97)
        scene.send("CAT", "ada", "collector", 3)
        scene.shift("curve", "ada", SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.explained_percent, found.flags) == ("sell", percent, flags)


def test_what_others_fed_is_a_share_of_the_gain():
    """A curve takes 1 SOL from ada for 100 CAT, 2 SOL from a friend for 50, and pays ada 3 SOL for
    hers: she gained 2 SOL, and the curve lost nothing but her own.
    """
    scene = scene_of()
    buy(scene, "ada", 100, SOL)
    buy(scene, "friend", 50, 2 * SOL)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.send("CAT", "ada", "curve", 100)
        scene.shift("curve", "ada", 3 * SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.explained_percent, found.flags) == ("round_trip", 0, FED)


def test_what_was_in_an_account_before_it_was_opened_is_beside_the_trade():
    """Half a SOL waits at the address of ada's wrapped SOL account. She opens it there, sells 100
    CAT for 3 SOL into it, and closes it.
    """
    where = account_of("ada", "SOL")
    scene = scene_of(**{where: SOL // 2}).holds("pool", "CAT", 0).holds("pool", "SOL", 9 * SOL)
    scene.adopt(where, "ada")
    with scene.call(CPMM, "ada", "pool"):
        scene.send("CAT", "ada", "pool", 100)
        scene.send("SOL", "pool", "ada", 3 * SOL)
    scene.close(where, "ada")
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.beside_sol) == ("sell", 3 * SOL - FEE, SOL // 2)


def test_rent_from_a_friend_does_not_swallow_his_other_gifts():
    """He opens ada's accounts of FOX and OWL, and sends 70 FOX in between."""
    scene = scene_of().holds("friend", "FOX", 500)
    scene.open("friend", "ada", "FOX")
    scene.send("FOX", "friend", "ada", 70)
    scene.open("friend", "ada", "OWL")
    sell(scene, 100, SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.sponsored) == ("sell", 2 * RENT)
    assert (found.beside_tokens, found.beside_sol) == (((address("FOX"), 70, 6),), 0)


def test_counterparties_are_sorted_by_their_loss_in_what_the_wallet_got():
    """One pool gives 40 CAT, the other 60; a SOL refund makes nobody a counterparty."""
    scene = scene_of().holds("pool", "CAT", 500)
    with scene.call(CPMM, "ada", account_of("ada", "CAT"), "curve", "pool"):
        scene.pay("ada", "curve", 2 * SOL)
        scene.send("CAT", "pool", "ada", 40)
        scene.send("CAT", "curve", "ada", 60)
        scene.shift("curve", "ada", SOL // 2)
    found = entry(scene, "ada")
    assert found.kind == "buy"
    assert found.counterparties == tuple(
        address(account_of(who, "CAT")) for who in ("curve", "pool")
    )


def test_what_two_pools_were_fed_is_added_up():
    """A friend pays a SOL into each of two curves, whose only payments are a SOL each to ada."""
    scene = scene_of(second=50 * SOL).holds("second", "CAT", 10**6)
    for curve in ("curve", "second"):
        scene.pay("friend", curve, SOL)
        with scene.call(PUMP, "ada", account_of("ada", "CAT"), curve):
            scene.send("CAT", "ada", curve, 100)
            scene.shift(curve, "ada", SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.explained_percent, found.flags) == ("sell", 0, FED)


def test_burned_shares_are_not_the_main_mint():
    """Ada burns 10 shares of a pool and gets a SOL."""
    scene = scene_of().holds("ada", "LP", 10)
    with scene.call(CPMM, "ada", account_of("ada", "LP"), "curve"):
        scene.burn("LP", "ada", 10)
        scene.shift("curve", "ada", SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.mint) == ("liquidity", None)


def test_rent_that_waited_at_each_of_two_addresses_is_not_a_gift():
    """Half a SOL more waits at the second."""
    scene = scene_of(purse=RENT, chest=RENT + SOL // 2)
    for word in ("purse", "chest"):
        scene.adopt(word, "ada")
    sell(scene, 100, SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.sponsored, found.beside_sol) == ("sell", 2 * RENT, SOL // 2)


def test_lamports_without_an_instruction_are_drawn_from_each_account_in_turn():
    """Two banks lose 3 and 2 SOL, of which ada gets 4 and a stranger 1."""
    scene = scene_of(bank=9 * SOL, vault=9 * SOL, stranger=SOL)
    with scene.call(KAMINO, "ada", "bank", "vault"):
        scene.shift("bank", "ada", 3 * SOL)
        scene.shift("vault", "ada", SOL)
        scene.shift("vault", "stranger", SOL)
    found = entry(scene, "ada")
    names = sorted(address(word) for word in ("bank", "vault"))
    lost = {address("bank"): 3 * SOL, address("vault"): 2 * SOL}
    first = lost[names[0]]
    assert found.kind == "lending"
    assert found.parked == (
        (names[0], WRAPPED_SOL, -first),
        (names[1], WRAPPED_SOL, first - 4 * SOL),
    )


def test_a_round_trip_that_others_fed_by_as_much_as_she_gave():
    """Ada pays a SOL for 100 CAT and sells them for a SOL, into a curve that a friend paid half a
    SOL before: half of what she got.
    """
    scene = scene_of()
    buy(scene, "friend", 50, SOL // 2)
    buy(scene, "ada", 100, SOL)
    sell(scene, 100, SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.explained_percent) == ("round_trip", 50)


def test_rent_that_the_network_collected_went_to_nobody():
    """One account pays ada a SOL, another 500 lamports of rent."""
    taxed, bank = sorted(("bank", "vault"), key=address)
    scene = scene_of(bank=9 * SOL, vault=9 * SOL)
    with scene.call(KAMINO, "ada", "bank", "vault"):
        scene.shift(bank, "ada", SOL)
    told = scene.receipt("ada")
    keys = [one["pubkey"] for one in told["transaction"]["message"]["accountKeys"]]
    told["meta"]["postBalances"][keys.index(address(taxed))] -= 500
    told["meta"]["rewards"] = [
        {"pubkey": address(taxed), "lamports": -500, "rewardType": "Rent", "commission": None}
    ]
    found = read_entry(parse_receipt(told), address("ada"), table())
    assert (found.kind, found.parked) == ("lending", ((address(bank), WRAPPED_SOL, -SOL),))
