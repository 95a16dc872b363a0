"""Orders that a keeper fills through a pool, which have results, and fills from the keeper's own
funds, which don't.

Ada bought 1,000 CAT for 10 SOL (and the fee). Her order sells 400 of them, which cost 4 SOL (and
2,000 lamports), for 5 SOL; or it spends 4 SOL for 400 CAT. The keeper keeps anything more that the
pool pays.
"""

import pytest
from scene import FEE, History, Scene
from story import RENT, address

from chain.base58 import b58encode
from chain.reading.currencies import find_stablecoin
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.kinds import discriminators
from chain.stored.trades import derive_columns
from chain.stored.verify import judge, list_moved_mints

LIMIT = "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X"
CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
RFQ = "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH"
SOL, SOLD, PRICE, RAW = 10**9, 5 * 10**9, 4 * 10**9, 400
MARGIN = 30_000_000
COST = (10 * SOL + FEE) * RAW // 1_000
# The rent of an order's account.
ORDER = 3_480_000
USDC = find_stablecoin("USDC").mint


def step(name):
    (data,) = discriminators(name)
    return b58encode(data)


class Orders:
    """`sells`: CAT for SOL; otherwise SOL for CAT."""

    def __init__(self, sells=True):
        self.sells = sells
        self.given, self.got = ("CAT", "SOL") if sells else ("SOL", "CAT")
        people = {"ada": 100, "keeper": 100, "friend": 100, "pool": 1, "curve": 5_000, "puppet": 1}
        self.scene = Scene(**{name: sol * SOL for name, sol in people.items()})
        for owner in people:
            for mint in ("CAT", "DOG", "SOL"):
                raw = 0 if (owner, mint) == ("ada", "CAT") else 900 * SOL
                self.scene.holds(owner, mint, raw)
        self.history = History(self.scene)
        self.totals = self.history.ledger.totals
        with self.scene.call(PUMP, "ada", "ada's CAT", "curve"):
            self.scene.pay("ada", "curve", 10 * SOL)
            self.scene.send("CAT", "curve", "ada", 1_000)
        self.then("ada")

    def then(self, *signers):
        return self.history.then(*signers)

    def call(self, name, *more):
        named = ("keeper", "ada", "order", f"order's {self.given}", f"ada's {self.got}", *more)
        return self.scene.call(LIMIT, *named, data=step(name))

    def open(self):
        with self.call("initialize_order"):
            self.scene.create("ada", "order", ORDER)
            self.scene.open("ada", "order", self.given)
            self.scene.send(self.given, "ada", "order", RAW if self.sells else PRICE)
        booked = self.then("ada")
        assert booked.entry.kind == "order_open"
        return booked

    def take(self, amount):
        """The keeper takes what the order gives."""
        with self.call("pre_flash_fill_order", "keeper's CAT", "keeper's SOL"):
            self.scene.send(self.given, "order", "keeper", amount)

    def swap(self, given, got, who="keeper"):
        with self.scene.call(CPMM, who, f"{who}'s CAT", f"{who}'s SOL", "pool"):
            self.scene.send(self.given, who, "pool", given)
            self.scene.send(self.got, "pool", who, got)

    def deliver(self, amount, closes=True, source="keeper"):
        with self.call("flash_fill_order", "keeper's CAT", "keeper's SOL"):
            self.scene.send(self.got, source, "ada", amount)
            if closes:
                self.scene.close(f"order's {self.given}", "ada")
                self.scene.shift("order", "ada", self.scene.lamports["order"])

    def fill(self):
        """A keeper's fill, whole."""
        given, got = (RAW, SOLD) if self.sells else (PRICE, RAW)
        self.take(given)
        self.swap(given, got + (MARGIN if self.sells else 1))
        self.deliver(got)

    def feed(self, how):
        """Somebody else fills up the pool that the keeper trades with."""
        if how == "plain":
            self.scene.send(self.got, "friend", "pool", SOLD)
        elif how == "keeper's own":
            self.scene.send(self.got, "keeper", "pool", SOLD)
        elif how == "purchase":
            self.sells, self.given, self.got = not self.sells, self.got, self.given
            self.swap(SOLD, 3, "friend")
            self.sells, self.given, self.got = not self.sells, self.got, self.given
        elif how == "liquidity":
            with self.scene.call(CPMM, "friend", "friend's CAT", "friend's SOL", "pool"):
                self.scene.send(self.got, "friend", "pool", SOLD)
        else:
            with self.scene.call(address("a puppeteer nobody knows"), "puppet", "pool"):
                self.scene.send(self.got, "puppet", "pool", SOLD)


SIDES = pytest.mark.parametrize("sells", [True, False])


def assert_unpriced(orders, booked):
    """No result and no known cost; what left the order left its cost."""
    assert booked.entry.kind == "order_fill" and booked.result is None
    assert (orders.totals.matched, orders.totals.realized) == (0, 0)
    lots = orders.history.ledger.inventories[""].lots[address("CAT")]
    assert [lot.cost for lot in lots if lot.origin == booked.entry.signature] in ([], [None])
    assert booked.cost_left == (COST if orders.sells else 0)


# ---- honest ones ---------------------------------------------------------------------------------
def test_a_sale_through_a_pool_has_its_result():
    """5 SOL less their cost; the rent of both accounts comes back and is no price."""
    orders = Orders()
    orders.open()
    assert orders.history.ledger.deposits.parked[WRAPPED_SOL] == ORDER + RENT
    orders.fill()
    booked = orders.then("keeper")
    assert (booked.entry.kind, booked.entry.mint, booked.flags) == (
        "order_fill",
        address("CAT"),
        (),
    )
    assert booked.entry.sol == SOLD + ORDER + RENT
    assert (booked.status, booked.proceeds, booked.cost) == ("matched", SOLD, COST)
    assert booked.result == SOLD - COST and booked.sold == address("CAT")
    totals = orders.totals
    assert (totals.matched, totals.winning, totals.realized) == (1, 1, SOLD - COST)
    assert (totals.trades, totals.volume) == (2, 10 * SOL + FEE + SOLD)
    assert orders.history.ledger.deposits.parked[WRAPPED_SOL] == 0
    entry = booked.entry
    moved = list_moved_mints(entry.kind, entry.mint, entry.tokens, entry.beside_tokens)
    verdict = judge(entry.kind, booked.flags, moved, address("CAT"), entry.explained_percent)
    assert verdict == ("verified", None)


def test_a_purchase_through_a_pool_has_its_cost():
    """400 CAT for the 4 SOL that left the order, and nothing for its rent."""
    orders = Orders(sells=False)
    orders.open()
    assert orders.history.ledger.deposits.parked[WRAPPED_SOL] == PRICE + ORDER + RENT
    orders.fill()
    booked = orders.then("keeper")
    assert (booked.entry.kind, booked.flags, booked.side.kind) == ("order_fill", (), "buy")
    lots = orders.history.ledger.inventories[""].lots[address("CAT")]
    assert [(lot.amount, lot.cost) for lot in lots] == [(1_000, 10 * SOL + FEE), (RAW, PRICE)]
    assert (orders.totals.trades, orders.totals.volume) == (2, 10 * SOL + FEE + PRICE)


def test_recurring_purchases_have_theirs():
    """Four times 1 SOL for 100 CAT; the last one closes the order."""
    orders = Orders(sells=False)
    orders.open()
    for number in range(4):
        orders.take(SOL)
        orders.swap(SOL, 101)
        orders.deliver(100, closes=number == 3)
        orders.then("keeper")
    lots = orders.history.ledger.inventories[""].lots[address("CAT")]
    assert [(lot.amount, lot.cost) for lot in lots[1:]] == [(100, SOL)] * 4
    assert orders.history.ledger.deposits.parked[WRAPPED_SOL] == 0


def test_a_sale_on_a_curve_that_pays_lamports_unshown():
    orders = Orders()
    orders.open()
    orders.take(RAW)
    with orders.scene.call(PUMP, "keeper", "keeper's CAT", "curve's CAT", "curve"):
        orders.scene.send("CAT", "keeper", "curve", RAW)
        orders.scene.shift("curve", "keeper", SOLD + MARGIN)
    orders.deliver(SOLD)
    assert orders.then("keeper").result == SOLD - COST


def test_a_sale_paid_through_an_account_of_wrapped_sol_opened_for_it():
    orders = Orders()
    orders.open()
    scene = orders.scene
    scene.close("keeper's SOL", "keeper")
    scene.open("keeper", "keeper", "SOL")
    orders.fill()
    scene.close("keeper's SOL", "keeper")
    assert orders.then("keeper").result == SOLD - COST


def test_a_sale_for_a_stablecoin_is_about_the_token_sold(monkeypatch):
    """400 CAT for 70 USDC; what they cost in USDC is unknown."""
    mints = {"SOL": WRAPPED_SOL, "USDC": USDC}
    monkeypatch.setattr("scene.Scene.known", mints)
    orders = Orders()
    orders.open()
    scene = orders.scene
    for owner in ("ada", "keeper", "pool"):
        scene.holds(owner, "USDC", 90)
    orders.take(RAW)
    with scene.call(CPMM, "keeper", "keeper's CAT", "keeper's USDC", "pool"):
        scene.send("CAT", "keeper", "pool", RAW)
        scene.send("USDC", "pool", "keeper", 71)
    orders.got = "USDC"
    orders.deliver(70)
    booked = orders.then("keeper")
    row = derive_columns(address("ada"), 0, orders.history.made)
    assert (row["kind"], row["mint"], row["currency"]) == ("order_fill", address("CAT"), USDC)
    assert (row["realized"], booked.entry.mint) == ("unmatched", address("CAT"))


def test_a_route_over_another_token():
    orders = Orders()
    orders.open()
    orders.take(RAW)
    with orders.scene.call(CPMM, "keeper", "keeper's CAT", "keeper's DOG", "pool"):
        orders.scene.send("CAT", "keeper", "pool", RAW)
        orders.scene.send("DOG", "pool", "keeper", 70)
    with orders.scene.call(CPMM, "keeper", "keeper's DOG", "keeper's SOL", "pool"):
        orders.scene.send("DOG", "keeper", "pool", 70)
        orders.scene.send("SOL", "pool", "keeper", SOLD)
    orders.deliver(SOLD)
    assert orders.then("keeper").result == SOLD - COST


def test_a_cancelled_order_is_no_income():
    orders = Orders(sells=False)
    orders.open()
    with orders.call("cancel_order"):
        orders.scene.send("SOL", "order", "ada", PRICE)
        orders.scene.close("order's SOL", "ada")
        orders.scene.shift("order", "ada", ORDER)
    booked = orders.then("ada")
    assert (booked.entry.kind, booked.result) == ("order_cancel", None)
    assert orders.history.ledger.deposits.parked[WRAPPED_SOL] == 0
    assert orders.history.ledger.reconcile().other == 0


# ---- deceptions ----------------------------------------------------------------------------------
@SIDES
def test_a_fill_out_of_a_pocket(sells):
    orders = Orders(sells)
    orders.open()
    given, got = (RAW, 90 * SOL) if sells else (PRICE, 9_000)
    orders.take(given)
    orders.deliver(got)
    booked = orders.then("keeper")
    assert booked.flags == ("counterparty_signed",)
    assert_unpriced(orders, booked)


@SIDES
def test_a_fill_topped_up_out_of_a_pocket(sells):
    """The pool pays its part; the keeper adds to it."""
    orders = Orders(sells)
    orders.open()
    given, got = (RAW, SOLD) if sells else (PRICE, RAW)
    orders.take(given)
    orders.swap(given, got)
    orders.deliver(2 * got)
    assert_unpriced(orders, orders.then("keeper"))


@SIDES
@pytest.mark.parametrize("who", ["keeper", "friend"])
def test_a_fill_that_somebody_helps_to_pay_at_the_pool(sells, who):
    """More goes into the pool than left the order, and so more comes out."""
    orders = Orders(sells)
    orders.open()
    given, got = (RAW, SOLD) if sells else (PRICE, RAW)
    orders.take(given)
    orders.swap(given, got)
    orders.swap(10 * given, 10 * got, who)
    if who == "friend":
        orders.scene.send(orders.got, "friend", "keeper", 10 * got)
    orders.deliver(11 * got)
    assert_unpriced(orders, orders.then("keeper", "friend"))


@SIDES
@pytest.mark.parametrize("how", ["plain", "keeper's own", "purchase", "liquidity", "puppet"])
@pytest.mark.parametrize("signed", [False, True])
def test_a_fill_from_a_pool_that_is_filled_up(sells, how, signed):
    orders = Orders(sells)
    orders.open()
    orders.feed(how)
    orders.fill()
    signers = ("keeper", "friend") if signed else ("keeper",)
    assert_unpriced(orders, orders.then(*signers))


def test_a_fill_that_another_token_pays_for():
    """The keeper adds DOG: the pool pays for those, too."""
    orders = Orders()
    orders.open()
    orders.take(RAW)
    orders.swap(RAW, 1_000)
    with orders.scene.call(CPMM, "keeper", "keeper's DOG", "keeper's SOL", "pool"):
        orders.scene.send("DOG", "keeper", "pool", 10**9)
        orders.scene.send("SOL", "pool", "keeper", SOLD)
    orders.deliver(SOLD)
    assert_unpriced(orders, orders.then("keeper"))


def test_a_fill_together_with_another_order_that_gives_more():
    """A friend's order gives 900 CAT to the same keeper; all that the pool pays goes to Ada."""
    orders = Orders()
    orders.open()
    orders.scene.holds("another", "CAT", 900)
    orders.take(RAW)
    with orders.scene.call(LIMIT, "keeper", "another", "another's CAT", "keeper's CAT"):
        orders.scene.send("CAT", "another", "keeper", 900)
    orders.swap(RAW + 900, 3 * SOLD)
    orders.deliver(3 * SOLD)
    assert_unpriced(orders, orders.then("keeper"))


def test_lamports_in_an_orders_account_are_no_proceeds():
    """90 SOL lie in it and come with its rent: the result is that of the 5 SOL a pool paid."""
    orders = Orders()
    orders.open()
    orders.scene.pay("friend", "order", 90 * SOL)
    orders.then("friend")
    orders.fill()
    booked = orders.then("keeper")
    assert booked.result == SOLD - COST and booked.other == 90 * SOL + ORDER + RENT


def test_a_fill_of_an_order_that_nobody_saw_open():
    orders = Orders()
    orders.open()
    late = History(orders.scene)
    orders.fill()
    booked = late.then("keeper")
    assert (booked.entry.kind, booked.result, booked.proceeds) == ("order_fill", None, None)


def test_a_fill_by_a_request_for_a_quote_of_a_signer():
    """A friend who signs is the maker: his pocket pays, not a pool."""
    orders = Orders()
    orders.open()
    orders.take(RAW)
    with orders.scene.call(RFQ, "keeper", "friend", "keeper's CAT", "keeper's SOL"):
        orders.scene.send("CAT", "keeper", "friend", RAW)
        orders.scene.send("SOL", "friend", "keeper", 90 * SOL)
    orders.deliver(90 * SOL)
    assert_unpriced(orders, orders.then("keeper", "friend"))


def test_tokens_for_tokens_out_of_a_pocket_carry_no_cost():
    """An order of 400 CAT for DOG: 9 DOG from the keeper himself are a lot of unknown cost."""
    orders = Orders()
    orders.open()
    orders.take(RAW)
    orders.got = "DOG"
    orders.deliver(9)
    booked = orders.then("keeper")
    (lot,) = [
        one
        for one in orders.history.ledger.inventories[""].lots[address("DOG")]
        if one.origin == booked.entry.signature
    ]
    assert (lot.amount, lot.cost, booked.cost_left) == (9, None, COST)
