"""Deceptive histories by someone who knows the rules: income hidden behind others' losses to a
pool, behind repayments, or behind an address that was paid earlier.

Ada sells 1 CAT for 200,000 lamports, or 195,000 after the fee. Nothing else is proceeds.
"""

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from scene import FEE, RENT, Scene
from story import account_of, address

from chain.addresses import b58encode
from chain.ledger.ledger import WHOLE, Ledger
from chain.reading.entries import read_entry
from chain.reading.kinds import find_discriminator
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
LIMIT = "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X"
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
WRAPPER, HOOK = address("a program nobody knows"), address("a hook nobody knows")
SOL, PRICE = 10**9, 200_000


def scene_of(**lamports):
    scene = Scene(**{"ada": 20 * SOL, "curve": 100 * SOL, "friend": 50 * SOL, **lamports})
    for owner, raw in (("ada", 1_000), ("curve", 10**9), ("friend", 5_000)):
        scene.holds(owner, "CAT", raw)
    return scene


def sell(scene, seller, raw, lamports, to=None):
    """A sale on a bonding curve; the program moves lamports without an instruction."""
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


def test_an_address_funded_earlier_becomes_a_permanent_account():
    """Somebody else paid its rent (sponsored); the rest is a gift."""
    scene = scene_of(**{"ada's SOL": 3 * SOL})
    scene.adopt("ada's SOL", "ada")
    sell(scene, "ada", 1, PRICE)
    found = entry(scene)
    assert (found.sponsored, found.beside_sol) == (RENT, 3 * SOL - RENT)
    assert "sponsored_rent" in found.flags
    assert (found.kind, found.venue_sol) == ("sell", PRICE - FEE)


def test_a_programs_own_sale_on_the_same_curve_is_passed_on():
    """The curve lost 10 SOL to the wrapper's account, which passes them on, so no balance shows
    it.
    """
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


def test_a_transfer_hook_sells_on_the_same_curve():
    scene = scene_of(puppet=SOL).holds("puppet", "CAT", 5_000)
    with scene.call(PUMP, "ada", "ada's CAT", "curve's CAT", "puppet"):
        with scene.hooked_send("CAT", "ada", "curve", 1, HOOK):
            sell(scene, "puppet", 5_000, 10 * SOL, to="ada")
        scene.shift("curve", "ada", PRICE)
    assert not is_priced(entry(scene))


@pytest.mark.parametrize("seen", [SOL, 10 * SOL])
def test_a_repayment_counts_once(seen):
    """The vault sends some with an instruction and 10 SOL without; the amount is repaid once."""
    scene = scene_of(vault=50 * SOL)
    scene.pay("vault", "ada", seen)
    with scene.call(WRAPPER, "ada", "vault"):
        scene.shift("vault", "ada", 10 * SOL)
    scene.pay("ada", "vault", seen)
    sell(scene, "ada", 1, PRICE)
    assert not is_priced(entry(scene, "vault"))


def test_a_loan_moved_without_instructions_is_not_a_gain():
    """10 SOL arrive without an instruction and are returned with one: the sale keeps its price."""
    scene = scene_of(vault=50 * SOL)
    with scene.call(WRAPPER, "ada", "vault"):
        scene.shift("vault", "ada", 10 * SOL)
    sell(scene, "ada", 1, PRICE)
    scene.pay("ada", "vault", 10 * SOL)
    found = entry(scene)
    assert (found.kind, found.venue_sol, found.explained_percent) == ("sell", PRICE - FEE, 100)


def test_a_strangers_swap_next_to_a_fill_is_not_a_fill():
    """A keeper fills Ada's order of 1,000 CAT with 10 DOG; a friend buys 9,990 DOG for her."""
    scene = scene_of(keeper=SOL).holds("order", "CAT", 1_000).holds("keeper", "DOG", 10)
    scene.holds("keeper", "CAT", 0).holds("ada", "DOG", 0).holds("curve", "DOG", 10**9)
    fill = b58encode(find_discriminator("fill_order"))
    with scene.call(LIMIT, "keeper", "order", "ada", "ada's DOG", "order's CAT", data=fill):
        scene.send("CAT", "order", "keeper", 1_000)
        scene.send("DOG", "keeper", "ada", 10)
    with scene.call(PUMP, "friend", "ada's DOG", "curve's DOG", "curve"):
        scene.pay("friend", "curve", 9 * SOL)
        scene.send("DOG", "curve", "ada", 9_990)
    found = read_entry(parse_receipt(scene.receipt("keeper", "friend")), address("ada"), table())
    assert (found.kind, found.explained_percent) == ("order_fill", 100)
    assert [change for _, change, _ in found.venue_tokens] == [10]


# ---- drawn by chance -----------------------------------------------------------------------------
class Drawn:
    """A randomly assembled transaction; `lamports` and `tokens` count what pools paid Ada, minus
    what she paid them.
    """

    def __init__(self):
        self.scene = scene_of(vault=90 * SOL, puppet=90 * SOL, pool=SOL)
        for owner, mint, raw in (
            *(("ada", "DOG", 500), ("curve", "DOG", 10**9), ("friend", "DOG", 5_000)),
            *(("puppet", "CAT", 5_000), ("pool", "CAT", 10**9), ("pool", "DOG", 10**9)),
            *(("ada", "SOL", 5 * SOL), ("pool", "SOL", 90 * SOL), ("friend", "SOL", 30 * SOL)),
        ):
            self.scene.holds(owner, mint, raw)
        for word in ("purse", "chest"):
            self.scene.lamports[word] = 2 * SOL
        self.scene.holds("friend", "SOL", 4 * SOL, word="gift of SOL")
        self.scene.holds("friend", "CAT", 400, word="gift of CAT")
        self.lamports, self.tokens = 0, {"CAT": 0, "DOG": 0}
        self.used = set()

    def once(self, name):
        fresh = name not in self.used
        self.used.add(name)
        return fresh

    # trades
    def sell(self, mint, raw, lamports):
        with self.scene.call(PUMP, "ada", f"ada's {mint}", f"curve's {mint}", "curve"):
            self.scene.send(mint, "ada", "curve", raw)
            self.scene.shift("curve", "ada", lamports)
        self.lamports += lamports
        self.tokens[mint] -= raw

    def sell_for_wrapped(self, mint, raw, lamports):
        with self.scene.call(CPMM, "ada", f"ada's {mint}", f"pool's {mint}", "ada's SOL"):
            self.scene.send(mint, "ada", "pool", raw)
            self.scene.send("SOL", "pool", "ada", lamports)
        self.lamports += lamports
        self.tokens[mint] -= raw

    def buy(self, mint, raw, lamports):
        with self.scene.call(PUMP, "ada", f"ada's {mint}", f"curve's {mint}", "curve"):
            self.scene.pay("ada", "curve", lamports)
            self.scene.send(mint, "curve", "ada", raw)
        self.lamports -= lamports
        self.tokens[mint] += raw

    # what is none
    def pay(self, mint, raw, lamports):
        self.scene.pay("friend", "ada", lamports)

    def pay_into_an_account(self, mint, raw, lamports):
        self.scene.pay("friend", f"ada's {mint}", lamports)

    def lend(self, mint, raw, lamports):
        self.scene.pay("friend", "ada", lamports)
        self.scene.pay("ada", "friend", lamports)

    def give(self, mint, raw, lamports):
        self.scene.send(mint, "friend", "ada", raw)

    def give_wrapped(self, mint, raw, lamports):
        self.scene.send("SOL", "friend", "ada", lamports)

    def withdraw(self, mint, raw, lamports):
        self.scene.withdraw("nonce", "vault", "ada", lamports)

    def hand_over(self, mint, raw, lamports):
        if self.once("gift"):
            self.scene.hand_over("gift of CAT" if mint == "CAT" else "gift of SOL", "ada")

    def close(self, mint, raw, lamports):
        if self.once("gift"):
            self.scene.close("gift of SOL", "ada")

    def adopt(self, mint, raw, lamports):
        word = "purse" if mint == "CAT" else "chest"
        if self.once(word):
            self.scene.adopt(word, "ada")
            self.scene.close(word, "ada")

    def shift(self, mint, raw, lamports):
        with self.scene.call(WRAPPER, "ada", "vault"):
            self.scene.shift("vault", "ada", lamports)

    def collect(self, mint, raw, lamports):
        with self.scene.call(PUMP, "ada", "vault"):
            self.scene.shift("vault", "ada", lamports)

    def treat(self, mint, raw, lamports):
        with self.scene.call(PUMP, "friend", f"ada's {mint}", f"curve's {mint}", "curve"):
            self.scene.pay("friend", "curve", lamports)
            self.scene.send(mint, "curve", "ada", raw)

    def sell_for_her(self, mint, raw, lamports):
        sell(self.scene, "puppet", raw, lamports, to="ada")

    def sell_and_hand_on(self, mint, raw, lamports):
        sell(self.scene, "puppet", raw, lamports)
        with self.scene.call(WRAPPER, "ada", "puppet"):
            self.scene.shift("puppet", "ada", lamports)


TRADING = ("sell", "sell_for_wrapped", "buy")
PARTS = tuple(name for name in vars(Drawn) if name[0] != "_" and name != "once")
# a mint, raw units of it, lamports
AMOUNTS = (st.sampled_from(("CAT", "DOG")), st.integers(1, 100), st.integers(10**6, 2 * SOL))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.tuples(st.sampled_from(TRADING), *AMOUNTS),
    st.lists(st.tuples(st.sampled_from(PARTS), *AMOUNTS), max_size=4),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_price_never_exceeds_what_pools_paid(trade, others, place, wrapped):
    """At least one trade among gifts and other people's trades, with instructions or inside an
    unknown call: all priced SOL and tokens passed through a pool, and the sums reconcile.
    """
    drawn = Drawn()
    with drawn.scene.call(WRAPPER, "ada", "vault") if wrapped else nullcontext():
        for name, *amounts in [*others[:place], trade, *others[place:]]:
            getattr(drawn, name)(*amounts)
    found = entry(drawn.scene, "friend")
    ledger = Ledger()
    booked = ledger.apply(found)[WHOLE]
    assert ledger.reconcile().difference == 0
    if not is_priced(found):
        assert booked.result is None and not ledger.totals.volume
        return
    through = {mint: change for mint, change, _ in found.venue_tokens}
    assert found.venue_sol <= drawn.lamports - FEE
    for mint, paid in drawn.tokens.items():
        assert through.get(address(mint), 0) <= paid
