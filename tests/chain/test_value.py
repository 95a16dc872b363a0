"""Value that came from a market, and value that only arrived at the same time: the histories of
value.txt (histories.py explains the format), and transactions assembled by chance.
"""

from contextlib import nullcontext
from pathlib import Path

import pytest
from histories import PROGRAMS, TextHistory, list_variants
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from scene import FEE, Scene
from story import RENT, account_of, address

from chain.ledger.ledger import WHOLE, Ledger
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

HISTORIES = list_variants(Path(__file__).with_name("value.txt").read_text())
PUMP, CPMM, JUPITER, MARKER = (PROGRAMS[name] for name in ("pump", "cpmm", "jup", "memo"))
WRAPPER = address("a program nobody knows")
SOL = 10**9


@pytest.mark.parametrize("title, text", HISTORIES, ids=[title for title, _ in HISTORIES])
def test_only_what_a_market_paid_is_a_price(title, text):
    TextHistory(text, title).check()


def scene_of(**lamports):
    """Ada has 20 SOL and 1,000 CAT; a curve of CAT has 100 SOL, and a friend 50."""
    scene = Scene(**{"ada": 20 * SOL, "curve": 100 * SOL, "friend": 50 * SOL, **lamports})
    for owner, raw in (("ada", 1_000), ("curve", 10**9), ("friend", 5_000)):
        scene.holds(owner, "CAT", raw)
    return scene


def entry(scene, payer, *signers, programs=(), **how):
    receipt = parse_receipt(scene.receipt(payer, *signers, **how))
    return read_entry(receipt, address("ada"), table(programs))


def test_a_read_only_account_cannot_move_anything():
    scene = scene_of(payer=SOL)
    with scene.call(WRAPPER, "ada"):
        scene.send("CAT", "friend", "ada", 5)
    found = entry(scene, "payer", "friend", readonly=("ada",))
    assert (found.kind, found.flags) == ("transfer_in", ())


def test_a_sale_that_paid_in_more_sol_than_it_returned_is_unexplained():
    """A marker makes everything one call. A curve pays a million lamports for 100 CAT, and two
    million go into a friend's new account: rent is no price, but nothing came out either.
    """
    scene = scene_of()
    scene.noop(MARKER)
    with scene.call(PUMP, "ada", "ada's CAT", "curve"):
        scene.send("CAT", "ada", "curve", 100)
        scene.pay("curve", "ada", 10**6)
        scene.pay("ada", "friend's FOX", RENT)
    scene.tokens["friend's FOX"] = ["FOX", "friend", 0]
    found = entry(scene, "ada", programs=[MARKER])
    assert (found.kind, found.venue_sol) == ("sell", 10**6 - RENT - FEE)
    assert (found.explained_percent, found.flags) == (0, ("value_unexplained",))


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
        self._sell_for("ada", mint, raw, lamports)
        self.lamports += lamports
        self.tokens[mint] -= raw

    def sell_for_wrapped(self, mint, raw, lamports):
        with self.scene.call(CPMM, "ada", f"ada's {mint}", f"pool's {mint}", "ada's SOL"):
            self.scene.send(mint, "ada", "pool", raw)
            self.scene.send("SOL", "pool", "ada", lamports)
        self.lamports += lamports
        self.tokens[mint] -= raw

    def buy(self, mint, raw, lamports):
        self._buy_for("ada", "ada", mint, raw, lamports)
        self.lamports -= lamports
        self.tokens[mint] += raw

    # other moves
    def pay(self, mint, raw, lamports):
        self.scene.pay("friend", "ada", lamports)

    def pay_into_an_account(self, mint, raw, lamports):
        self.scene.pay("friend", f"ada's {mint}", lamports)

    def lend(self, mint, raw, lamports):
        self.scene.pay("friend", "ada", lamports)
        self.scene.pay("ada", "friend", lamports)

    def spend(self, mint, raw, lamports):
        self.scene.pay("ada", "friend", lamports)

    def give(self, mint, raw, lamports):
        self.scene.send(mint, "friend", "ada", raw)

    def give_wrapped(self, mint, raw, lamports):
        self.scene.send("SOL", "friend", "ada", lamports)

    def withdraw(self, mint, raw, lamports):
        self.scene.withdraw("nonce" if mint == "CAT" else "stake", "vault", "ada", lamports)

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

    def idle(self, mint, raw, lamports):
        self.scene.noop(JUPITER, "ada")

    def shift(self, mint, raw, lamports):
        with self.scene.call(WRAPPER, "ada", "vault"):
            self.scene.shift("vault", "ada", lamports)

    def collect(self, mint, raw, lamports):
        with self.scene.call(PUMP, "ada", "vault"):
            self.scene.shift("vault", "ada", lamports)

    # other people's trades
    def treat(self, mint, raw, lamports):
        self._buy_for("friend", "ada", mint, raw, lamports)

    def treat_a_friend(self, mint, raw, lamports):
        self._buy_for("ada", "friend", mint, raw, lamports)

    def sell_for_her(self, mint, raw, lamports):
        self._sell_for("puppet", "CAT", raw, lamports, to="ada")

    def sell_and_hand_on(self, mint, raw, lamports):
        self._sell_for("puppet", "CAT", raw, lamports)
        with self.scene.call(WRAPPER, "ada", "puppet"):
            self.scene.shift("puppet", "ada", lamports)

    def _sell_for(self, seller, mint, raw, lamports, to=None):
        """A sale on a bonding curve; the program moves lamports without an instruction."""
        to = to or seller
        with self.scene.call(PUMP, seller, account_of(seller, mint), f"curve's {mint}", to):
            self.scene.send(mint, seller, "curve", raw)
            self.scene.shift("curve", to, lamports)

    def _buy_for(self, payer, owner, mint, raw, lamports):
        with self.scene.call(PUMP, payer, account_of(owner, mint), f"curve's {mint}", "curve"):
            self.scene.pay(payer, "curve", lamports)
            self.scene.send(mint, "curve", owner, raw)


TRADING = ("sell", "sell_for_wrapped", "buy")
PARTS = tuple(name for name in vars(Drawn) if name[0] != "_" and name != "once")
# a mint, raw units of it, lamports
AMOUNTS = (st.sampled_from(("CAT", "DOG")), st.integers(1, 100), st.integers(10**6, 2 * SOL))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(TRADING), *AMOUNTS), max_size=1),
    st.lists(st.tuples(st.sampled_from(PARTS), *AMOUNTS), max_size=4),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_price_never_exceeds_what_pools_paid(trade, others, place, wrapped):
    """Often a trade among gifts and other people's trades, with instructions or inside an unknown
    call: venue and outside add up, all priced SOL and tokens passed through a pool, and the sums
    reconcile.
    """
    drawn = Drawn()
    with drawn.scene.call(WRAPPER, "ada", "vault") if wrapped else nullcontext():
        for name, *amounts in [*others[:place], *trade, *others[place:]]:
            getattr(drawn, name)(*amounts)
    found = entry(drawn.scene, "ada", "friend")
    through = {mint: change for mint, change, _ in found.venue_tokens}
    beside = {mint: change for mint, change, _ in found.beside_tokens}
    whole = {mint: through.get(mint, 0) + beside.get(mint, 0) for mint in through | beside}
    assert {mint: change for mint, change in whole.items() if change} == {
        mint: change for mint, change, _ in found.tokens
    }
    assert found.venue_sol + found.beside_sol == found.sol
    is_trade = found.kind in ("buy", "sell", "swap", "round_trip")
    assert found.explained_percent in (range(101) if is_trade else (None,))
    ledger = Ledger()
    booked = ledger.apply(found)[WHOLE]
    assert ledger.reconcile().difference == 0
    if not is_trade or "value_unexplained" in found.flags:
        assert booked.result is None and not ledger.totals.volume
        return
    assert found.venue_sol <= drawn.lamports - FEE
    for mint, paid in drawn.tokens.items():
        assert through.get(address(mint), 0) <= paid
