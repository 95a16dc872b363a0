"""Trades in which another wallet fills the pool or helps to pay the price, in the same transaction;
and honest trades that look alike.

Ada sells 100 CAT for 50 SOL or 50 USDC, or buys 100 CAT for 2 SOL. Her friend has 100 SOL; a puppet
is an account of an unknown program.
"""

from contextlib import nullcontext

import pytest
from scene import FEE, Scene
from story import RENT, address

from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.verify import judge

CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
RFQ = "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH"
WRAPPER, PUPPETEER = address("a wrapper nobody knows"), address("a puppeteer nobody knows")
SOL, PRICE, RAW = 10**9, 50 * 10**9, 100
FED = {"fed_market", "value_unexplained"}
TABLE = table()


class Market:
    """A pool of CAT against `money`: SOL on a curve, wrapped SOL, or USDC."""

    def __init__(self, money):
        self.money = money
        people = {"ada": 200, "friend": 100, "pool": 5_000, "puppet": 100, "curve": 5_000}
        self.scene = Scene(**{name: sol * SOL for name, sol in people.items()})
        for owner in people:
            for mint in ("CAT", "SOL", "USDC"):
                self.scene.holds(owner, mint, 10**12)
        self.scene.lamports["app"] = SOL
        self.scene.holds("app", "SOL", 0).holds("router", "CAT", 0).holds("router", "SOL", 0)
        self.where = "curve" if money == "lamports" else "pool"
        self.vault = "curve" if money == "lamports" else f"pool's {money}"

    def sell(self, who="ada", raw=RAW, price=PRICE, inside=nullcontext):
        scene = self.scene
        if self.money == "lamports":
            with scene.call(PUMP, who, f"{who}'s CAT", "curve's CAT", "curve"), inside():
                scene.send("CAT", who, "curve", raw)
                scene.shift("curve", who, price)
            return
        with scene.call(CPMM, who, f"{who}'s CAT", f"{who}'s {self.money}", "pool"), inside():
            scene.send("CAT", who, "pool", raw)
            scene.send(self.money, "pool", who, price)

    def buy(self, who="ada", raw=RAW, price=PRICE, inside=nullcontext):
        scene = self.scene
        program = PUMP if self.money == "lamports" else CPMM
        with scene.call(program, who, f"{who}'s CAT", self.vault, self.where), inside():
            self.give(who, price)
            scene.send("CAT", self.where, who, raw)

    def give(self, source, amount):
        """Money into the pool, shown by an instruction."""
        if self.money == "lamports":
            self.scene.pay(source, "curve", amount)
        else:
            self.scene.send(self.money, source, "pool", amount)

    # what fills up the pool
    def plain(self):
        self.give("friend", PRICE)

    def purchase(self):
        self.buy("friend", 90, PRICE)

    def program_vault(self):
        """Its own lamports without an instruction; tokens by the program's signature."""
        with self.scene.call(PUPPETEER, "puppet", self.vault):
            if self.money == "lamports":
                self.scene.shift("puppet", "curve", PRICE)
            else:
                self.give("puppet", PRICE)

    def liquidity(self):
        with self.scene.call(CPMM, "friend", "friend's CAT", self.vault):
            self.give("friend", PRICE)
            self.scene.send("CAT", "friend", self.where, 100)

    def read(self, payer="ada", *signers, wallet="ada"):
        receipt = parse_receipt(self.scene.receipt(payer, *signers))
        return read_entry(receipt, address(wallet), TABLE)


MONEY = pytest.mark.parametrize("money", ["lamports", "SOL", "USDC"])
FEEDS = pytest.mark.parametrize("feed", ["plain", "purchase", "program_vault", "liquidity"])
SIGNERS = pytest.mark.parametrize("signers", [(), ("friend",)])


def assert_fed(found, *kinds):
    assert found.kind in kinds and set(found.flags) >= FED, (found.kind, found.flags)
    mints = [mint for mint, _, _ in found.tokens]
    verdict = judge(found.kind, found.flags, mints, None, found.explained_percent)
    assert verdict == ("none", "value_unexplained")


def assert_whole(found, kind, flags=()):
    assert (found.kind, found.flags, found.explained_percent) == (kind, flags, 100)


# ---- fed pools -----------------------------------------------------------------------------------
@MONEY
@FEEDS
@SIGNERS
@pytest.mark.parametrize("when", ["before", "after", "wrapped", "inside"])
def test_a_pool_filled_up_in_the_same_transaction(money, feed, signers, when):
    market = Market(money)
    fill = getattr(market, feed)
    with market.scene.call(WRAPPER, "friend", "pool") if when == "wrapped" else nullcontext():
        if when in ("before", "wrapped"):
            fill()
        market.sell()
        if when == "after":
            fill()
        if when == "inside":
            # an unknown program that the trade calls, as a hook would be
            with market.scene.call(PUPPETEER, "puppet", market.vault):
                fill()
    assert_fed(market.read("ada", *signers), "sell", "swap")


@MONEY
@SIGNERS
def test_a_round_trip_around_a_friends_purchase(money, signers):
    market = Market(money)
    market.buy(price=10 * SOL)
    market.purchase()
    market.sell()
    found = market.read("ada", *signers)
    # in USDC the tokens net to a gain of one mint, which is no kind of a trade
    assert_fed(found, "round_trip") if money != "USDC" else assert_unpriced(found)


def assert_unpriced(found):
    assert found.kind == "other" and "ambiguous" in found.flags


@MONEY
@pytest.mark.parametrize("program", [CPMM, PUPPETEER])
@SIGNERS
def test_a_purchase_from_a_pool_that_a_friend_fills_with_tokens(money, program, signers):
    market = Market(money)
    with market.scene.call(program, "friend", "friend's CAT", "pool"):
        market.scene.send("CAT", "friend", market.where, RAW)
    market.buy(price=2 * SOL)
    assert_fed(market.read("ada", *signers), "buy", "swap")


@MONEY
def test_liquidity_around_a_sale(money):
    """The friend adds 200 and gets 150 back: he lost the 50 that Ada got."""
    market = Market(money)
    scene = market.scene
    with scene.call(CPMM, "friend", "friend's CAT", market.vault):
        market.give("friend", 2 * PRICE)
    market.sell()
    with scene.call(CPMM, "friend", "friend's CAT", market.vault):
        if money == "lamports":
            scene.shift("curve", "friend", PRICE)
        else:
            scene.send(money, "pool", "friend", PRICE)
    assert_fed(market.read("ada", "friend"), "sell", "swap")


@pytest.mark.parametrize("side", ["buy", "sell"])
def test_lamports_that_a_program_moves_into_a_vault_of_wrapped_sol(side):
    """No instruction shows them; anybody may then sync the vault."""
    market = Market("SOL")
    with market.scene.call(PUPPETEER, "puppet", "pool's SOL"):
        market.scene.shift("puppet", "pool's SOL", PRICE)
    market.scene.tokens["pool's SOL"][2] += PRICE
    getattr(market, side)()
    assert_fed(market.read(), side)


def test_a_pool_further_up_the_route():
    """Ada's SOL buys CAT cheaply from a pool that a friend filled, and another pool pays for it."""
    market = Market("SOL")
    scene = market.scene
    scene.send("CAT", "friend", "curve", 90)
    with scene.call(JUPITER, "ada", "ada's SOL", "router's CAT"):
        with scene.call(CPMM, "curve"):
            scene.send("SOL", "ada", "curve", SOL)
            scene.send("CAT", "curve", "router", RAW)
        with scene.call(CPMM, "pool"):
            scene.send("CAT", "router", "pool", RAW)
            scene.send("USDC", "pool", "ada", 10 * SOL)
    assert_fed(market.read("ada", "friend"), "swap", "buy")


def test_a_fee_account_that_fills_up_the_pool():
    """The puppet took a fee inside the call; what it pours into the curve is no pool's money."""
    market = Market("lamports")
    scene = market.scene
    with scene.call(PUMP, "ada", "ada's CAT", "curve's CAT", "curve", "puppet"):
        scene.send("CAT", "ada", "curve", RAW)
        scene.send("CAT", "ada", "puppet", 1)
        scene.shift("curve", "ada", PRICE)
    with scene.call(PUPPETEER, "puppet", "curve"):
        scene.shift("puppet", "curve", PRICE)
    assert_fed(market.read(), "sell")


# ---- gifts on the paying side --------------------------------------------------------------------
@MONEY
@pytest.mark.parametrize("payer, signers", [("friend", ("friend",)), ("puppet", ())])
def test_a_little_of_a_purchase_is_paid_inside_the_call_by_another(money, payer, signers):
    market = Market(money)
    market.buy(price=2 * SOL - 80_000_000, inside=_pays(market, payer, 80_000_000))
    assert_fed(market.read("ada", *signers), "buy", "swap")


def _pays(market, payer, amount):
    def pays():
        market.give(payer, amount)
        return nullcontext()

    return pays


@MONEY
@pytest.mark.parametrize("payer, signers", [("friend", ("friend",)), ("puppet", ())])
def test_a_little_of_the_tokens_sold_is_supplied_by_another(money, payer, signers):
    market = Market(money)

    def supplies():
        market.scene.send("CAT", payer, market.where, 4)
        return nullcontext()

    market.sell(raw=96, inside=supplies)
    assert_fed(market.read("ada", *signers), "sell", "swap")


@pytest.mark.parametrize("back", [0, 1])
def test_a_gift_is_no_trade_for_a_grain_in_return(back):
    market = Market("SOL")

    def supplies():
        market.scene.send("CAT", "puppet", "pool", 4)
        market.scene.send("SOL", "pool", "puppet", back)
        return nullcontext()

    market.sell(raw=96, inside=supplies)
    assert_fed(market.read(), "sell")


@MONEY
@pytest.mark.parametrize("when", ["before", "after", "wrapped"])
@pytest.mark.parametrize("how", ["plain", "program_vault"])
def test_a_purchase_that_others_pay_for_at_the_pool_itself(money, how, when):
    """Ada pays 2, and somebody pours 50 into the account that she pays."""
    market = Market(money)
    with market.scene.call(WRAPPER, "friend") if when == "wrapped" else nullcontext():
        if when != "after":
            getattr(market, how)()
        market.buy(price=2 * SOL)
        if when == "after":
            getattr(market, how)()
    assert_fed(market.read("ada", "friend"), "buy", "swap")


@MONEY
def test_a_sale_whose_tokens_others_pour_into_the_pool(money):
    market = Market(money)
    market.scene.send("CAT", "friend", market.where, 1_000)
    market.sell()
    assert_fed(market.read("ada", "friend"), "sell", "swap")


# ---- honest twins --------------------------------------------------------------------------------
@MONEY
def test_a_relayer_pays_the_fee_and_the_rent(money):
    market = Market(money)
    market.scene.open("friend", "ada", "DOG")
    market.sell()
    found = market.read("friend", "ada")
    assert (found.explained_percent, found.sponsored) == (100, RENT)
    assert not FED & set(found.flags)


@MONEY
def test_a_relayer_pays_rent_inside_the_call(money):
    market = Market(money)

    def opens():
        market.scene.open("friend", "app", "CAT")
        return nullcontext()

    market.buy(inside=opens)
    assert not FED & set(market.read("friend", "ada").flags)


@MONEY
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("side", ["buy", "sell"])
def test_a_bundle_of_wallets_on_the_same_side(money, wrapped, side):
    market = Market(money)
    wrapper = market.scene.call(WRAPPER, "friend", "puppet", market.vault)
    with wrapper if wrapped else nullcontext():
        getattr(market, side)("friend", 90, PRICE)
        getattr(market, side)()
        getattr(market, side)("puppet", 80, PRICE)
    found = market.read("ada", "friend")
    assert (found.explained_percent, FED & set(found.flags)) == (100, set())


@pytest.mark.parametrize("hedged", [False, True])
@pytest.mark.parametrize("temporary", [False, True])
def test_a_maker_on_the_other_side(hedged, temporary):
    """A maker that signs may sell what it got in the same transaction."""
    market = Market("SOL")
    scene = market.scene
    if temporary:
        scene.close("friend's SOL", "friend")
        scene.open("friend", "friend", "SOL")
        scene.wrap("friend", PRICE)
    with scene.call(RFQ, "ada", "friend", "ada's CAT", "ada's SOL"):
        scene.send("CAT", "ada", "friend", RAW)
        scene.send("SOL", "friend", "ada", PRICE)
    if hedged:
        market.sell("friend")
    if temporary:
        scene.close("friend's SOL", "friend")
    assert_whole(market.read("ada", "friend"), "sell", ("counterparty_signed",))


def test_the_makers_own_purchase():
    """The taker wrapped its SOL outside the call, and pays an application 0.1 %."""
    market = Market("SOL")
    scene = market.scene
    with scene.call(RFQ, "ada", "friend", "ada's CAT", "ada's SOL"):
        scene.send("CAT", "ada", "friend", RAW)
        scene.send("SOL", "friend", "ada", PRICE)
        scene.send("SOL", "ada", "app", PRICE // 1_000)
    found = market.read("ada", wallet="friend")
    assert (found.kind, found.flags) == ("buy", ("counterparty_signed",))


@MONEY
def test_a_router_with_an_application_fee(money):
    """Another user's fee goes to the same application in the same transaction."""
    market = Market(money)

    def fee():
        market.scene.send("CAT", "ada", "app's CAT", 1)
        return nullcontext()

    market.scene.holds("app", "CAT", 0)
    market.scene.send("CAT", "friend", "app", 1)
    with market.scene.call(JUPITER, "ada", "ada's CAT", "app's CAT"):
        market.sell(inside=fee)
    found = market.read("ada", "friend")
    assert not FED & set(found.flags)


@MONEY
def test_a_bots_fee_wallet(money):
    market = Market(money)
    market.sell()
    market.scene.pay("ada", "app", SOL // 100)
    market.scene.pay("friend", "app", SOL // 100)
    assert not FED & set(market.read("ada", "friend").flags)


def test_wrapped_sol_opened_and_closed_around_a_purchase():
    market = Market("SOL")
    scene = market.scene
    scene.close("ada's SOL", "ada")
    scene.open("ada", "ada", "SOL")
    scene.wrap("ada", 3 * SOL)
    market.buy(price=2 * SOL)
    scene.close("ada's SOL", "ada")
    found = market.read()
    assert (found.kind, found.flags, found.explained_percent) == ("buy", (), 100)
    assert found.venue_sol == -2 * SOL - FEE


@MONEY
def test_rent_repaid_to_a_relayer(money):
    market = Market(money)
    market.scene.open("friend", "ada", "DOG")
    market.scene.pay("ada", "friend", RENT)
    market.buy()
    assert not FED & set(market.read("friend", "ada").flags)


@MONEY
def test_a_small_opposite_trade_by_a_stranger_is_within_the_tolerance(money):
    market = Market(money)
    market.sell()
    market.buy("friend", 1, PRICE // 100)
    found = market.read("ada", "friend")
    assert (found.explained_percent, FED & set(found.flags)) == (99, set())


def test_a_launch_and_its_first_purchase():
    """The launch mints the supply into the curve; whoever signed it, buying is buying."""
    market = Market("lamports")
    scene = market.scene
    with scene.call(PUMP, "friend", "curve", "curve's PUP"):
        scene.open("friend", "curve", "PUP")
        scene.mint("PUP", "curve", 10**9, "curve")
    scene.open("ada", "ada", "PUP")
    with scene.call(PUMP, "ada", "ada's PUP", "curve", "curve's PUP"):
        scene.pay("ada", "curve", SOL)
        scene.send("PUP", "curve", "ada", 1_000)
    assert_whole(market.read("ada", "friend"), "buy")
