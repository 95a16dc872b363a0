"""A loan taken and repaid in one transaction is a cost of the trade, not a second kind. Loans that
hide a gift, a deposit or a debt stay unexplained.

Ada borrows 10, buys 100 CAT with 10, sells them for 12 elsewhere, and repays 10 and a fee.
"""

import pytest
from scene import FEE, Scene
from story import address

from chain.ledger.ledger import WHOLE, Ledger
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
MARGINFI = "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA"
KAMINO = "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD"
WRAPPER = address("a wrapper nobody knows")
SOL = 10**9
LOAN, SPENT, BROUGHT, LENDERS_FEE = 10 * SOL, 10 * SOL, 12 * SOL, SOL // 100
TABLE = table()


class Arbitrage:
    def __init__(self, lender=MARGINFI):
        people = dict.fromkeys(("ada", "friend", "lender", "pool", "curve", "other"), 100 * SOL)
        self.scene, self.lender = Scene(**people), lender
        for owner in people:
            for mint in ("CAT", "SOL", "SHARE"):
                self.scene.holds(owner, mint, 10**12 if mint != "SHARE" else 10**6)

    def lend(self, source, target, amount, mint="SOL"):
        with self.scene.call(self.lender, "lender", "ada", f"ada's {mint}"):
            self.scene.send(mint, source, target, amount)

    def borrow(self, amount=LOAN):
        self.lend("lender", "ada", amount)

    def repay(self, amount=LOAN, source="ada", to="lender"):
        self.lend(source, to, amount)

    def trade(self):
        scene = self.scene
        with scene.call(CPMM, "ada", "ada's SOL", "ada's CAT", "pool"):
            scene.send("SOL", "ada", "pool", SPENT)
            scene.send("CAT", "pool", "ada", 100)
        with scene.call(CPMM, "ada", "ada's SOL", "ada's CAT", "other"):
            scene.send("CAT", "ada", "other", 100)
            scene.send("SOL", "other", "ada", BROUGHT)

    def sell(self, lamports):
        with self.scene.call(PUMP, "ada", "ada's CAT", "curve's CAT", "curve"):
            self.scene.send("CAT", "ada", "curve", 1)
            self.scene.shift("curve", "ada", lamports)

    def read(self, *signers):
        return read_entry(parse_receipt(self.scene.receipt("ada", *signers)), address("ada"), TABLE)


def assert_result(found, result):
    ledger = Ledger()
    booked = ledger.apply(found)[WHOLE]
    assert (found.kind, booked.result) == ("round_trip", result)
    assert (found.explained_percent, found.flags) == (100, ())
    assert ledger.reconcile().difference == 0


# ---- honest --------------------------------------------------------------------------------------
@pytest.mark.parametrize("lender", [MARGINFI, KAMINO])
@pytest.mark.parametrize("fee", [0, LENDERS_FEE])
def test_an_arbitrage_with_a_loan_has_a_result(lender, fee):
    arbitrage = Arbitrage(lender)
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay(LOAN + fee)
    assert_result(arbitrage.read(), BROUGHT - SPENT - fee - FEE)


def test_the_lenders_fee_goes_to_another_account():
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.trade()
    with arbitrage.scene.call(MARGINFI, "lender", "ada", "ada's SOL"):
        arbitrage.scene.send("SOL", "ada", "lender", LOAN)
        arbitrage.scene.send("SOL", "ada", "friend", LENDERS_FEE)
    assert_result(arbitrage.read(), BROUGHT - SPENT - LENDERS_FEE - FEE)


def test_wrapped_sol_opened_for_the_loan_and_closed():
    arbitrage = Arbitrage()
    scene = arbitrage.scene
    scene.close("ada's SOL", "ada")
    scene.open("ada", "ada", "SOL")
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay(LOAN + LENDERS_FEE)
    scene.close("ada's SOL", "ada")
    assert_result(arbitrage.read(), BROUGHT - SPENT - LENDERS_FEE - FEE)


def test_calls_that_open_and_end_the_loan_move_nothing():
    arbitrage = Arbitrage()
    arbitrage.scene.noop(MARGINFI, "ada", "lender")
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay()
    arbitrage.scene.noop(MARGINFI, "ada", "lender")
    assert_result(arbitrage.read(), BROUGHT - SPENT - FEE)


def test_two_loans_inside_a_wrapper():
    arbitrage = Arbitrage()
    with arbitrage.scene.call(WRAPPER, "ada"):
        arbitrage.borrow()
        arbitrage.borrow(SOL)
        arbitrage.trade()
        arbitrage.repay(LOAN + SOL)
    found = arbitrage.read()
    assert (found.kind, found.flags, found.explained_percent) == ("round_trip", (), 100)


def test_a_borrowed_token_is_sold_and_bought_back():
    """Ada borrows 100 CAT, sells them for 12 and buys them back for 10."""
    arbitrage = Arbitrage()
    scene = arbitrage.scene
    arbitrage.lend("lender", "ada", 100, "CAT")
    with scene.call(CPMM, "ada", "ada's SOL", "ada's CAT", "other"):
        scene.send("CAT", "ada", "other", 100)
        scene.send("SOL", "other", "ada", BROUGHT)
    with scene.call(CPMM, "ada", "ada's SOL", "ada's CAT", "pool"):
        scene.send("SOL", "ada", "pool", SPENT)
        scene.send("CAT", "pool", "ada", 100)
    arbitrage.lend("ada", "lender", 100, "CAT")
    assert_result(arbitrage.read(), BROUGHT - SPENT - FEE)


def test_a_purchase_with_borrowed_money():
    """She repays out of her own wrapped SOL: the lender's fee is a cost of the purchase."""
    arbitrage = Arbitrage()
    scene = arbitrage.scene
    arbitrage.borrow()
    with scene.call(CPMM, "ada", "ada's SOL", "ada's CAT", "pool"):
        scene.send("SOL", "ada", "pool", SPENT)
        scene.send("CAT", "pool", "ada", 100)
    arbitrage.repay(LOAN + LENDERS_FEE)
    found = arbitrage.read()
    assert (found.kind, found.venue_sol) == ("buy", -SPENT - LENDERS_FEE - FEE)


# ---- hostile -------------------------------------------------------------------------------------
def assert_no_price(found):
    ledger = Ledger()
    booked = ledger.apply(found)[WHOLE]
    assert booked.result is None and not ledger.totals.volume
    assert "ambiguous" in found.flags or "value_unexplained" in found.flags
    assert ledger.reconcile().difference == 0


def test_a_loan_that_is_not_repaid_in_full():
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay(LOAN - 1)
    assert_no_price(arbitrage.read())


@pytest.mark.parametrize("signers", [(), ("friend",)])
@pytest.mark.parametrize("repaid", [0, SOL, LOAN - 1])
def test_a_loan_that_a_friend_repays(signers, repaid):
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.sell(SOL)
    arbitrage.repay(LOAN - repaid, source="friend")
    if repaid:
        arbitrage.repay(repaid)
    assert_no_price(arbitrage.read(*signers))


@pytest.mark.parametrize("more", [SOL, 100 * SOL])
def test_a_deposit_next_to_a_loan(more):
    """A tenth more than the loan is no fee."""
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay(LOAN + more)
    assert_no_price(arbitrage.read())


def test_a_loan_repaid_to_another_account():
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.repay(LOAN, to="friend")
    assert_no_price(arbitrage.read())


@pytest.mark.parametrize("way", [("lender", "ada"), ("ada", "lender")])
def test_shares_of_a_lender_that_move_too(way):
    arbitrage = Arbitrage()
    arbitrage.borrow()
    arbitrage.trade()
    arbitrage.lend(*way, 10**3, "SHARE")
    arbitrage.repay()
    assert_no_price(arbitrage.read())


@pytest.mark.parametrize("how", ["pay", "send", "lender"])
def test_a_gift_next_to_a_dust_loan_and_a_dust_sale(how):
    """30 SOL from a friend, or out of the lender unseen: the sale brought 200,000 lamports."""
    arbitrage = Arbitrage()
    scene = arbitrage.scene
    arbitrage.borrow(1_000)
    arbitrage.sell(200_000)
    if how == "pay":
        scene.pay("friend", "ada", 30 * SOL)
    elif how == "send":
        scene.send("SOL", "friend", "ada", 30 * SOL)
    else:
        with scene.call(MARGINFI, "lender", "ada"):
            scene.shift("lender", "ada", 30 * SOL)
    arbitrage.repay(1_000)
    found = arbitrage.read("friend")
    assert "value_unexplained" in found.flags or found.venue_sol == 200_000 - FEE


def test_a_lender_that_fills_up_the_pool():
    """The lender is the attacker's: out of the loan's account 5 SOL go to the pool."""
    arbitrage = Arbitrage()
    arbitrage.borrow()
    with arbitrage.scene.call(MARGINFI, "lender", "other"):
        arbitrage.scene.send("SOL", "lender", "other", 5 * SOL)
    arbitrage.trade()
    arbitrage.repay()
    found = arbitrage.read()
    assert "fed_market" in found.flags
    assert_no_price(found)
