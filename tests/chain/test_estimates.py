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


@pytest.fixture
def bot(service):
    """It has 1,500.5 of M, a mint with 3 decimals."""
    bot = service.make_bot("Ada", W)
    service.observe_results(W, 7)
    held = {"mint": M, "amountRaw": "1500500", "decimals": 3}
    position = {**held, "costLamports": "90", "unknownBasisRaw": "0"}
    Wallet.update(positions=orjson.dumps([position]).decode()).execute()
    return bot


def quote(**columns):
    given = {"price_sol": "0.0000012345", "source": "dexscreener", "quoted_at": NOW, **columns}
    Token.create(mint=M, held=True, **given)


def show(service, bot):
    shown = service.get(f"/api/v1/bots/{bot.bot.uid}", bot.publish_key.text).json
    (position,) = shown["openPositions"]
    return position, shown


def test_value_is_the_amount_times_the_last_price(service, bot):
    """1,500.5 at 1,234.5 lamports are 1,852,367.25; the fraction is dropped."""
    quote()
    position, shown = show(service, bot)
    assert position["estimate"] == {
        "valueLamports": "1852367",
        "valueSol": "0.001852367",
        "priceSol": "0.0000012345",
        "source": "dexscreener",
        "priceAt": "2026-11-05T12:00:00Z",
        "stale": True,
    }
    assert (position["costLamports"], position["estimateReason"]) == ("90", None)
    assert shown["results"]["realizedLamports"] == "7"


@pytest.mark.parametrize(
    "columns, reason",
    [(None, "no_price"), ({"price_sol": None}, "no_price"), ({"absurd": "jump"}, "price_doubtful")],
)
def test_without_a_credible_price_there_is_no_value(service, bot, columns, reason):
    if columns:
        quote(**columns)
    position, _ = show(service, bot)
    assert (position["estimate"], position["estimateReason"]) == (None, reason)


@pytest.mark.parametrize("text", [None, "", "x", "0", "-1", "NaN", "Infinity", "1e999999", "1e-99"])
def test_an_invalid_price_is_ignored(text):
    assert parse_price(text) is None


def test_a_price_is_exact():
    assert parse_price("1.5e-7") * 10**8 == 15


def test_the_page_shows_price_source_and_age(service, bot):
    quote()
    page = service.get(f"/bots/{bot.bot.uid}?tab=holdings").text
    assert "dexscreener, <time" in page and ", stale" in page
    assert "Value and unrealized PnL are estimates" in page


# ---- tokens that display a multiple of their raw units -------------------------------------------
@pytest.mark.parametrize(
    "changes_at, amount, value", [(FAR, "3001", "3704734"), (1, "15005", "18523672")]
)
def test_positions_use_the_current_multiplier(service, bot, changes_at, amount, value):
    """1,500.5 times 2 at 1,234.5 lamports are 3,704,734.5, times 10 are 18,523,672.5."""
    quote(scale=Scale("2.0", changes_at, "10.0").dump())
    position, shown = show(service, bot)
    assert (position["amountRaw"], position["amount"]) == ("1500500", amount)
    assert position["estimate"]["valueLamports"] == value
    assert (position["costLamports"], shown["results"]["realizedLamports"]) == ("90", "7")


def test_trades_use_the_multiplier_of_their_time(service, bot):
    """1.5 tokens, bought an hour before the multiplier became 10: 3 at the time, also in the
    post.
    """
    service.observe_trade(W, "one", 5, mint=M, raw=1_500)
    quote(scale=Scale("2.0", NOW // 1000, "10.0").dump())
    (trade,) = service.get(f"/api/v1/trades?botId={bot.bot.uid}", bot.publish_key.text).json["data"]
    (change,) = trade["tokenChanges"]
    assert (change["changeRaw"], change["change"], change["multiplier"]) == ("1500", "3", "2")
    assert trade["realized"]["matchedRaw"] == "0"
    Token.update(scale=Scale("2.0", 7, "10.0").dump()).execute()
    (trade,) = service.get(f"/api/v1/trades?botId={bot.bot.uid}", bot.publish_key.text).json["data"]
    assert trade["tokenChanges"][0]["change"] == "15"
    assert "+15" in service.get(f"/bots/{bot.bot.uid}?tab=trades").text


def test_a_trade_with_an_unknown_multiplier_has_no_amount(service, bot):
    service.observe_trade(W, "one", 5, mint=M, raw=1_500)
    quote(scale=UNKNOWN.dump())
    (trade,) = service.get(f"/api/v1/trades?botId={bot.bot.uid}", bot.publish_key.text).json["data"]
    (change,) = trade["tokenChanges"]
    assert (change["changeRaw"], change["change"], change["multiplier"]) == ("1500", None, None)
    for path in (f"/bots/{bot.bot.uid}?tab=trades", f"/tokens/{M}"):
        assert service.get(path).status_code == 200


def test_an_unknown_multiplier_has_a_reason_and_no_amount(service, bot):
    quote(scale=UNKNOWN.dump())
    position, _ = show(service, bot)
    assert (position["amount"], position["estimate"]) == (None, None)
    assert position["estimateReason"] == "multiplier_unknown"
    page = service.get(f"/bots/{bot.bot.uid}?tab=holdings").text
    assert "unknown multiplier" in page


def test_the_page_estimates_the_unrealized_result_and_its_total(service, bot):
    """Worth 1,852,367 lamports at a cost of 90: 1,852,277 more."""
    quote()
    path = f"/bots/{bot.bot.uid}?tab=holdings"
    text = " ".join(re.sub(r"<[^>]+>", " ", service.get(path).text).split())
    assert "Value and unrealized PnL are estimates" in text
    assert "+0.001852277" in service.get(path).text and "Total" in text
    held = {"mint": M, "amountRaw": "1500500", "decimals": 3}
    part = {**held, "costLamports": "90", "unknownBasisRaw": "500"}
    Wallet.update(positions=orjson.dumps([part]).decode()).execute()
    text = service.get(path).text
    assert "0.5 at unknown cost" in text and "Total" not in text and "+0.0018" not in text
