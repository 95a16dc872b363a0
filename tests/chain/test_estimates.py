"""Estimated values of open positions, in lamports, with age and source."""

import re

import orjson
import pytest
from service import NOW, address

from chain.amounts import UNKNOWN, Scale
from market.tables import Token
from models import Wallet
from web.api.bots import parse_price

W, M = address("w"), address("m")
# The year 5138.
FAR = 10**11
HELD = {"mint": M, "amountRaw": "1500500", "decimals": 3}
HELD |= {"costLamports": "90", "unknownBasisRaw": "0"}


def hold(**changes):
    Wallet.update(positions=orjson.dumps([{**HELD, **changes}]).decode()).execute()


@pytest.fixture
def bot(service):
    """It has 1,500.5 of M, a mint with 3 decimals."""
    bot = service.make_bot("Ada", W)
    service.observe_results(W, 7)
    hold()
    return bot


def quote(**columns):
    given = {"price_sol": "0.0000012345", "source": "dexscreener", "quoted_at": NOW, **columns}
    Token.create(mint=M, held=True, **given)


@pytest.fixture
def read(service, bot):
    """read("trades") -> this tab of the bot's page"""
    return lambda tab: service.get(f"/bots/{bot.bot.uid}?tab={tab}").text


@pytest.fixture
def find_position(get, bot):
    def find():
        (position,) = get(f"bots/{bot.bot.uid}").json["openPositions"]
        return position

    return find


def test_value_is_the_amount_times_the_last_price(get, bot, find_position):
    """1,500.5 at 1,234.5 lamports are 1,852,367.25; the fraction is dropped."""
    quote()
    position = find_position()
    assert position["estimate"] == {
        **{"valueLamports": "1852367", "valueSol": "0.001852367"},
        **{"priceSol": "0.0000012345", "priceAt": "2026-11-05T12:00:00Z"},
        **{"source": "dexscreener", "stale": True},
    }
    assert (position["costLamports"], position["estimateReason"]) == ("90", None)
    assert get(f"bots/{bot.bot.uid}").json["results"]["realizedLamports"] == "7"


@pytest.mark.parametrize(
    "columns, reason",
    [(None, "no_price"), ({"price_sol": None}, "no_price"), ({"absurd": "jump"}, "price_doubtful")],
)
def test_without_a_credible_price_there_is_no_value(find_position, columns, reason):
    if columns:
        quote(**columns)
    position = find_position()
    assert (position["estimate"], position["estimateReason"]) == (None, reason)


def test_a_price_is_exact_or_ignored():
    assert parse_price("1.5e-7") * 10**8 == 15
    for text in (None, "", "x", "0", "-1", "NaN", "Infinity", "1e999999", "1e-99"):
        assert parse_price(text) is None


def test_the_page_shows_price_and_age_and_estimates_the_unrealized_result(read):
    """Worth 1,852,367 lamports at a cost of 90: 1,852,277 more."""
    quote()
    page = read("holdings")
    for part in ("dexscreener, <time", ", stale", "+0.001852277", ">Total<"):
        assert part in page
    assert "Value and unrealized PnL are estimates" in page
    hold(unknownBasisRaw="500")
    page = read("holdings")
    assert re.search(r"0\.5\s*(<[^>]+>\s*)*at unknown cost", page)
    assert ">Total<" not in page and "+0.0018" not in page


# ---- tokens that display a multiple of their raw units -------------------------------------------
@pytest.mark.parametrize(
    "changes_at, amount, value", [(FAR, "3001", "3704734"), (1, "15005", "18523672")]
)
def test_positions_use_the_current_multiplier(find_position, changes_at, amount, value):
    """1,500.5 times 2 at 1,234.5 lamports are 3,704,734.5, times 10 are 18,523,672.5."""
    quote(scale=Scale("2.0", changes_at, "10.0").dump())
    position = find_position()
    assert (position["amountRaw"], position["amount"]) == ("1500500", amount)
    assert (position["estimate"]["valueLamports"], position["costLamports"]) == (value, "90")


def test_trades_use_the_multiplier_of_their_time(service, get, read):
    """1.5 tokens, bought an hour before the multiplier became 10: 3 at the time."""

    def find_change():
        (trade,) = get("trades").json["data"]
        (change,) = trade["tokenChanges"]
        return change["changeRaw"], change["change"], change["multiplier"]

    service.observe_trade(W, "one", 5, mint=M, raw=1_500)
    quote(scale=Scale("2.0", NOW // 1000, "10.0").dump())
    assert find_change() == ("1500", "3", "2")
    Token.update(scale=Scale("2.0", 7, "10.0").dump()).execute()
    assert find_change() == ("1500", "15", "10") and "+15" in read("trades")
    Token.update(scale=UNKNOWN.dump()).execute()
    assert find_change() == ("1500", None, None)
    assert "+15" not in read("trades") and service.get(f"/tokens/{M}").status_code == 200


def test_an_unknown_multiplier_has_a_reason_and_no_amount(find_position, read):
    quote(scale=UNKNOWN.dump())
    position = find_position()
    assert (position["amount"], position["estimate"]) == (None, None)
    assert position["estimateReason"] == "multiplier_unknown"
    assert "unknown multiplier" in read("holdings")
