"""Money that a wallet leaves on an order book and gets back next to a trade; honest trades there.

Ada bought 100 CAT for 1 SOL (and the fee): 1 CAT cost 10,000,050 lamports. The market price of a
CAT is 200,000 lamports.
"""

from contextlib import nullcontext

import pytest
from scene import FEE, History, Scene
from story import address

from chain.reading.instructions import WRAPPED_SOL
from chain.stored.verify import judge

OPENBOOK = "srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX"
BOOKS = [
    OPENBOOK,
    "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin",
    "opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb",
    "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY",
    "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms",
]
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
SERUM_SWAP = "22Y43yTVxuUkoRKdm9thyRhQ3SdgQS7c7kB6UNCiaczD"
KAMINO = "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD"
WRAPPER = address("a wrapper nobody knows")
SOL, PRICE, COST = 10**9, 200_000, (10**9 + FEE) // 100
UNEXPLAINED = "value_unexplained"


class Book:
    """A market of CAT for `money`: SOL, or DOG, another token."""

    def __init__(self, program=OPENBOOK, money="SOL"):
        self.program, self.money = program, money
        people = {"ada": 100, "friend": 100, "market": 1, "other": 1, "curve": 100}
        self.scene = Scene(**{name: sol * SOL for name, sol in people.items()})
        for owner in people:
            for mint in ("CAT", "SOL", "DOG"):
                raw = 0 if (owner, mint) == ("ada", "CAT") else 50 * SOL
                self.scene.holds(owner, mint, raw)
        self.history = History(self.scene)
        with self.scene.call(PUMP, "ada", "ada's CAT", "curve"):
            self.scene.pay("ada", "curve", SOL)
            self.scene.send("CAT", "curve", "ada", 100)
        assert self.then().entry.kind == "buy"

    def then(self, *signers):
        return self.history.then("ada", *signers)

    def call(self, market="market", program=None):
        vaults = (f"{market}'s CAT", f"{market}'s {self.money}")
        return self.scene.call(program or self.program, "ada", market, *vaults)

    def deposit(self, amount, market="market", mint=None):
        with self.call(market):
            self.scene.send(mint or self.money, "ada", market, amount)

    def settle(self, amount, market="market", mint=None):
        with self.call(market):
            self.scene.send(mint or self.money, market, "ada", amount)

    def order(self, raw=1):
        self.deposit(raw, mint="CAT")

    def order_and_settle(self, lamports=PRICE, raw=1):
        self.order(raw)
        self.settle(lamports)

    @property
    def parked(self):
        mint = WRAPPED_SOL if self.money == "SOL" else address(self.money)
        return self.history.ledger.deposits.parked[mint]


def assert_refused(booked, kind="sell"):
    assert (booked.entry.kind, booked.result) == (kind, None)
    assert UNEXPLAINED in booked.flags and not booked.counts
    mints = [mint for mint, _, _ in booked.entry.tokens]
    verdict = judge(kind, booked.flags, mints, None, booked.entry.explained_percent)
    assert verdict == ("none", UNEXPLAINED)


def assert_sold(booked, lamports=PRICE, raw=1, fee=FEE):
    assert (booked.entry.kind, booked.status, booked.flags) == ("sell", "matched", ())
    assert booked.result == lamports - fee - COST * raw


# ---- deceptions ----------------------------------------------------------------------------------
@pytest.mark.parametrize("program", BOOKS)
def test_parked_sol_settled_next_to_a_small_order(program):
    book = Book(program)
    book.deposit(10 * SOL)
    assert book.then().entry.kind == "native_transfer" and book.parked == 10 * SOL
    book.order_and_settle(10 * SOL + PRICE)
    assert_refused(book.then())
    totals = book.history.ledger.totals
    assert (totals.realized, totals.matched, totals.volume) == (0, 0, SOL + FEE)
    # What the refused order gave is parked too: nobody knows whether it was taken.
    assert book.parked == 0
    book.order_and_settle()
    assert_refused(book.then())


def test_every_loop_is_refused():
    book = Book()
    for _ in range(3):
        book.deposit(10 * SOL)
        book.then()
        book.order_and_settle(10 * SOL)
        assert_refused(book.then())
    assert book.history.ledger.totals.realized == 0


def test_parked_sol_that_comes_back_in_parts():
    book = Book()
    book.deposit(10 * SOL)
    book.then()
    for _ in range(3):
        book.order_and_settle(3 * SOL)
        assert_refused(book.then())
    assert book.parked == SOL


def test_parked_tokens_that_others_bought():
    """An ask of 90 CAT rests, and others take it: its proceeds come with a small order."""
    book = Book()
    book.deposit(90, mint="CAT")
    assert book.then().entry.kind == "transfer_out"
    book.order_and_settle(20 * SOL)
    assert_refused(book.then())


def test_parked_tokens_that_come_back_next_to_a_small_purchase():
    """SOL go in, and CAT that a friend would have had to buy come out."""
    book = Book()
    book.deposit(90, mint="CAT")
    book.then()
    book.deposit(PRICE)
    book.settle(90, mint="CAT")
    assert_refused(book.then(), "buy")


def test_parked_tokens_exchanged_for_others():
    book = Book(money="DOG")
    book.deposit(10 * SOL)
    assert book.then().entry.kind == "transfer_out" and book.parked == 10 * SOL
    book.order_and_settle(10 * SOL)
    assert_refused(book.then(), "swap")


def test_parked_through_an_account_of_wrapped_sol_opened_for_it():
    book = Book()
    scene = book.scene
    scene.close("ada's SOL", "ada")
    scene.open("ada", "ada", "SOL")
    scene.wrap("ada", 10 * SOL)
    book.deposit(10 * SOL)
    scene.close("ada's SOL", "ada")
    book.then()
    assert book.parked == 10 * SOL
    scene.open("ada", "ada", "SOL")
    book.order_and_settle(10 * SOL)
    scene.close("ada's SOL", "ada")
    assert_refused(book.then())


@pytest.mark.parametrize("when", ["deposit", "settle", "both"])
def test_parked_inside_a_program_that_nobody_knows(when):
    book = Book()
    with book.scene.call(WRAPPER, "ada") if when != "settle" else nullcontext():
        book.deposit(10 * SOL)
    book.then()
    with book.scene.call(WRAPPER, "ada") if when != "deposit" else nullcontext():
        book.order_and_settle(10 * SOL)
    assert_refused(book.then())


def test_settled_by_a_program_that_orders_and_settles_in_one_call():
    book = Book()
    book.deposit(10 * SOL)
    book.then()
    with book.call(program=SERUM_SWAP):
        book.order_and_settle(10 * SOL)
    assert_refused(book.then())


def test_parked_from_an_account_that_lets_the_wallet_spend():
    book = Book()
    with book.call():
        book.scene.send("SOL", "friend", "market", 10 * SOL, authority="ada")
    book.then()
    assert book.parked == 10 * SOL
    book.order_and_settle(10 * SOL)
    assert_refused(book.then())


def test_parked_in_a_transaction_that_also_trades():
    """The curve pays 1 SOL for 5 CAT by itself; the deposit is sent and no cost of it."""
    book = Book()
    with book.scene.call(PUMP, "ada", "ada's CAT", "curve"):
        book.scene.send("CAT", "ada", "curve", 5)
        book.scene.shift("curve", "ada", SOL)
    book.deposit(10 * SOL)
    sold = book.then()
    assert_sold(sold, SOL, 5)
    assert sold.entry.beside_sol == -10 * SOL
    book.order_and_settle(10 * SOL)
    booked = book.then()
    assert_refused(booked)


@pytest.mark.parametrize("how", ["own call", "settlement"])
def test_lamports_put_into_an_account_of_open_orders(how):
    """The book moves them back without an instruction that shows it: they are received."""
    book = Book()
    book.scene.create("ada", "open orders", 10 * SOL)
    assert book.then().entry.kind == "account_open"
    book.order_and_settle() if how == "own call" else book.order()
    with book.scene.call(OPENBOOK, "ada", "market", "open orders", "market's CAT", "market's SOL"):
        if how == "settlement":
            book.scene.send("SOL", "market", "ada", PRICE)
        book.scene.shift("open orders", "ada", 10 * SOL)
    booked = book.then()
    assert_sold(booked)
    assert booked.entry.beside_sol == 10 * SOL


def test_a_deposit_by_a_friend_in_the_same_transaction():
    book = Book()
    with book.call():
        book.scene.send("SOL", "friend", "market", 10 * SOL)
    book.order_and_settle(10 * SOL)
    assert_refused(book.then("friend"))


def test_a_withdrawal_next_to_a_trade_elsewhere_is_received():
    book = Book()
    book.deposit(10 * SOL)
    book.then()
    book.settle(10 * SOL)
    with book.scene.call(PUMP, "ada", "ada's CAT", "curve"):
        book.scene.send("CAT", "ada", "curve", 1)
        book.scene.shift("curve", "ada", PRICE)
    booked = book.then()
    assert_sold(booked)
    assert (booked.entry.beside_sol, book.parked) == (10 * SOL, 0)


# ---- honest twins --------------------------------------------------------------------------------
@pytest.mark.parametrize("program", BOOKS)
def test_orders_settled_at_once_keep_their_results(program):
    book = Book(program)
    for _ in range(3):
        book.order_and_settle(raw=10)
        assert_sold(book.then(), raw=10)
    assert book.parked == 0


def test_a_purchase_settled_at_once_keeps_its_cost():
    book = Book()
    book.deposit(PRICE)
    book.settle(1, mint="CAT")
    booked = book.then()
    assert (booked.entry.kind, booked.flags, booked.side.through) == ("buy", (), -PRICE - FEE)
    assert book.parked == 0


def test_what_came_back_whole_is_parked_no_more():
    book = Book()
    book.deposit(10 * SOL)
    book.then()
    book.settle(10 * SOL)
    assert book.then().entry.kind == "native_transfer" and book.parked == 0
    book.order_and_settle()
    assert_sold(book.then())


def test_money_parked_at_another_market():
    book = Book()
    book.deposit(10 * SOL, "other")
    book.then()
    book.order_and_settle()
    assert_sold(book.then())
    assert book.parked == 10 * SOL


@pytest.mark.parametrize("inside", [False, True])
def test_an_exchange_in_one_instruction_settles_nothing(inside):
    """A router's swap on the market where Ada's bid rests takes its price at once."""
    book = Book()
    book.deposit(10 * SOL)
    book.then()
    with book.scene.call(JUPITER, "ada") if inside else nullcontext(), book.call():
        book.scene.send("CAT", "ada", "market", 1)
        book.scene.send("SOL", "market", "ada", PRICE)
    assert_sold(book.then())


def test_a_purchase_for_somebody_else_parks_nothing():
    book = Book()
    with book.call():
        book.scene.send("SOL", "ada", "market", PRICE)
        book.scene.send("CAT", "market", "friend", 1)
    book.then()
    assert book.parked == 0


def test_rent_of_open_orders_that_comes_back_is_no_price():
    book = Book()
    book.scene.create("ada", "open orders", 23_357_760)
    book.then()
    book.order_and_settle()
    with book.scene.call(OPENBOOK, "open orders", "ada"):
        book.scene.shift("open orders", "ada", 23_357_760)
    assert_sold(book.then())


# ---- what is told --------------------------------------------------------------------------------
def test_money_at_a_lender_is_parked_until_it_comes_back():
    book = Book()
    with book.scene.call(KAMINO, "ada"):
        book.scene.send("SOL", "ada", "other", 10 * SOL)
    assert book.then().entry.kind == "lending" and book.parked == 10 * SOL
    with book.scene.call(KAMINO, "ada"):
        book.scene.send("SOL", "other", "ada", 4 * SOL)
    book.then()
    assert book.parked == 6 * SOL


def test_a_loan_that_is_paid_back_is_not_parked():
    book = Book()
    with book.scene.call(KAMINO, "ada"):
        book.scene.send("SOL", "other", "ada", 4 * SOL)
    book.then()
    with book.scene.call(KAMINO, "ada"):
        book.scene.send("SOL", "ada", "other", 4 * SOL)
    book.then()
    assert book.parked == 0
