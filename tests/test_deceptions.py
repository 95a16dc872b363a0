"""Histories made to deceive by somebody who has read the rules: what comes in hides behind what a
pool lost to others, behind what was paid back, behind an address that was paid for before.

Ada sells 1 CAT for 200,000 lamports, or 195,000 after the fee; all else is no proceeds of hers.
"""

import pytest
from scene import FEE, RENT, Scene
from story import account_of, address

from chain.entries import read_entry
from chain.programs import table
from chain.receipts import parse_receipt

PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
WRAPPER, HOOK = address("a program nobody knows"), address("a hook nobody knows")
SOL, PRICE = 10**9, 200_000


def scene_of(**lamports):
    scene = Scene(**{"ada": 20 * SOL, "curve": 100 * SOL, "friend": 50 * SOL, **lamports})
    for owner, raw in (("ada", 1_000), ("curve", 10**9), ("friend", 5_000)):
        scene.holds(owner, "CAT", raw)
    return scene


def sell(scene, seller, raw, lamports, to=None):
    """A sale on a bonding curve: the program moves the lamports by itself."""
    to = to or seller
    with scene.call(PUMP, seller, account_of(seller, "CAT"), account_of("curve", "CAT"), to):
        scene.send("CAT", seller, "curve", raw)
        scene.shift("curve", to, lamports)


def entry(scene, *signers):
    return read_entry(parse_receipt(scene.receipt("ada", *signers)), address("ada"), table())


def is_priced(found):
    return found.kind in ("buy", "sell", "swap", "round_trip") and (
        "value_unexplained" not in found.flags
    )


def test_an_address_paid_for_before_becomes_a_temporary_account():
    """3 SOL lay at the address; the account is in no token balance, opened and closed inside."""
    scene = scene_of(purse=3 * SOL)
    scene.adopt("purse", "ada")
    sell(scene, "ada", 1, PRICE)
    scene.close("purse", "ada")
    found = entry(scene)
    assert (found.kind, found.beside_sol, found.venue_sol) == ("sell", 3 * SOL, PRICE - FEE)


def test_an_address_paid_for_before_becomes_a_standing_account():
    """Its rent was paid by somebody else (sponsored), the rest is a gift."""
    scene = scene_of(**{"ada's SOL": 3 * SOL})
    scene.adopt("ada's SOL", "ada")
    sell(scene, "ada", 1, PRICE)
    found = entry(scene)
    assert (found.sponsored, found.beside_sol) == (RENT, 3 * SOL - RENT)
    assert (found.kind, found.venue_sol) == ("sell", PRICE - FEE)


def test_a_programs_own_sale_on_the_same_curve_is_handed_on():
    """The curve lost 10 SOL to the wrapper's account, which no balance shows: it hands them on."""
    scene = scene_of(puppet=SOL).holds("puppet", "CAT", 5_000)
    with scene.call(WRAPPER, "ada", "puppet", "curve"):
        sell(scene, "puppet", 5_000, 10 * SOL)
        sell(scene, "ada", 1, PRICE)
        scene.shift("puppet", "ada", 10 * SOL)
    assert not is_priced(entry(scene))


def test_a_friends_sale_on_the_same_curve_pays_the_wallet():
    scene = scene_of()
    sell(scene, "ada", 1, PRICE)
    sell(scene, "friend", 5_000, 10 * SOL, to="ada")
    assert not is_priced(entry(scene, "friend"))


def test_a_hook_that_sells_on_the_same_curve():
    scene = scene_of(puppet=SOL).holds("puppet", "CAT", 5_000)
    with scene.call(PUMP, "ada", "ada's CAT", "curve's CAT", "puppet"):
        with scene.hooked_send("CAT", "ada", "curve", 1, HOOK):
            sell(scene, "puppet", 5_000, 10 * SOL, to="ada")
        scene.shift("curve", "ada", PRICE)
    assert not is_priced(entry(scene))


def test_a_friends_purchase_on_the_same_curve_leaves_the_price():
    """Inside a wrapper too: what the friend paid is no price of what Ada got."""
    scene = scene_of()
    with scene.call(WRAPPER, "ada", "friend", "curve"):
        sell(scene, "ada", 1, PRICE)
        with scene.call(PUMP, "friend", "friend's CAT", "curve's CAT", "curve"):
            scene.pay("friend", "curve", SOL)
            scene.send("CAT", "curve", "friend", 100)
    found = entry(scene, "friend")
    assert (found.kind, found.venue_sol, found.explained_percent) == ("sell", PRICE - FEE, 100)


@pytest.mark.parametrize("seen", [SOL, 10 * SOL])
def test_what_was_paid_back_counts_once(seen):
    """The vault sends some in plain sight and 10 SOL unseen; the same is paid back once."""
    scene = scene_of(vault=50 * SOL)
    scene.pay("vault", "ada", seen)
    with scene.call(WRAPPER, "ada", "vault"):
        scene.shift("vault", "ada", 10 * SOL)
    scene.pay("ada", "vault", seen)
    sell(scene, "ada", 1, PRICE)
    assert not is_priced(entry(scene, "vault"))


def test_a_loan_that_programs_move_unseen_is_no_gain():
    """10 SOL come unseen and go back in plain sight: the sale keeps its price."""
    scene = scene_of(vault=50 * SOL)
    with scene.call(WRAPPER, "ada", "vault"):
        scene.shift("vault", "ada", 10 * SOL)
    sell(scene, "ada", 1, PRICE)
    scene.pay("ada", "vault", 10 * SOL)
    found = entry(scene)
    assert (found.kind, found.venue_sol, found.explained_percent) == ("sell", PRICE - FEE, 100)
