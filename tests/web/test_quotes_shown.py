"""Results in stablecoins in the API, pages, tables and agents' responses."""

import re

import orjson
import pytest
from quoted import RAW, derive, observe_quote, quote_trade
from service import NOW, address
from teller import Teller
from test_board import observe
from test_records import move, show

from agents.answers import trim_bot, trim_trade
from chain.reading.currencies import STABLECOINS
from chain.stored.derived import NOT_POLLED
from models import Bot, Trade, Wallet
from web.api.trades import TRADE_KINDS
from web.site import facts
from web.site.candor import find_strip
from web.site.cards import describe_bot

W, OTHER = address("w"), address("other")
USDC, USDT = STABLECOINS[:2]
DAY = 86_400


@pytest.fixture
def bot(service):
    made = service.make_bot("Ada", W)
    service.observe_results(W, 7, matched=1)
    service.observe_span(W, realized=7, trades=1, matched=1)
    coverage = {**NOT_POLLED, "state": "complete", "receipts": 3, "note": None}
    Wallet.update(forward_realized=7, coverage=orjson.dumps(coverage).decode()).where(
        Wallet.address == W
    ).execute()
    return made


def text_of(answer):
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


# ---- bots ----------------------------------------------------------------------------------------
def test_results_and_record_list_each_stablecoin(service, bot):
    before = show(service, bot)["results"]
    sales = {"matched": 2, "partial": 1, "unmatched": 4, "winning": 1, "cross_sells": 3}
    money = {"realized": -1_250_000, "volume": 20_000_000, "fee_lamports": 25_000}
    observe_quote(W, **sales, **money, trades=5, cost_left=300_000, cost_left_receipts=2)
    observe_quote(W, "USDT", realized=1, trades=2, matched=1)
    shown = show(service, bot)
    sol, usdc, usdt = shown["results"]["byCurrency"]
    counts = {"matchedSells": 2, "partialSells": 1, "unmatchedSells": 4, "winningSells": 1}
    results = {"realizedRaw": "-1250000", "realized": "-1.25", "maxDrawdownRaw": "1250000"}
    # Realized PnL minus the cost that left.
    results |= {"costLeftRaw": "300000", "worstCaseRaw": "-1550000"}
    volume = {"volumeRaw": "20000000", "volume": "20"}
    known = {name: value for name, value in usdc.items() if name not in RATES}
    named = {"currency": "USDC", "mint": USDC.mint, "decimals": 6}
    assert known == named | counts | results | volume
    assert (usdt["mint"], usdt["realized"]) == (USDT.mint, "0.000001")
    assert (sol["currency"], sol["realizedRaw"]) == ("SOL", "7")
    assert shown["record"]["byCurrency"][1:] == [usdc, usdt]
    # None of it is in SOL.
    assert {**shown["results"], "byCurrency": None} == {**before, "byCurrency": None}
    listed = service.get("/api/v1/bots", bot.publish_key.text).json["data"]
    assert listed[0]["results"] == shown["results"]


RATES = ("returnPct", "winRate", "positions", "positionsWon", "positionsOpen")


def test_untraded_currencies_are_not_listed(service, bot):
    derive(W, {USDC.mint: {"reconciliation": None, "averageCost": None, "positions": []}})
    told = show(service, bot)["results"]["byCurrency"]
    assert [one["currency"] for one in told] == ["SOL"]
    assert show(service, service.make_bot("Mute"))["results"] is None


def test_record_covers_all_wallets_and_results_the_current_one(service, bot):
    """-4 USDC with the first wallet, 1 with the second."""
    observe_quote(W, realized=-4_000_000, matched=4)
    move(service, bot, OTHER)
    service.observe_results(OTHER, 1)
    service.observe_span(OTHER, realized=1, trades=1)
    observe_quote(OTHER, realized=1_000_000, matched=2)
    shown = show(service, bot)
    record, results = (shown[name]["byCurrency"][-1] for name in ("record", "results"))
    assert (record["realized"], record["matchedSells"]) == ("-3", 6)
    assert (results["realized"], results["matchedSells"]) == ("1", 2)


def test_each_stablecoin_reconciles(service, bot):
    # 100 arrived, 60 paid for holdings, 2 earned: 42 are left.
    lines = dict.fromkeys(RAW, "0") | {"closingRaw": "42000000", "realizedRaw": "2000000"}
    lines |= {"openCostRaw": "60000000", "receivedRaw": "100000000", "costLeftReceipts": 0}
    derive(W, {USDC.mint: {"reconciliation": lines, "averageCost": None, "positions": []}})
    Wallet.update(reconciliation=orjson.dumps(SOL_BOOKS).decode()).execute()
    (told,) = show(service, bot)["reconciliation"]["byCurrency"]
    assert told == {"mint": USDC.mint, "currency": "USDC", "decimals": 6, **lines}
    page = text_of(service.get(f"/bots/{bot.bot.uid}?tab=record"))
    assert "Balance after the last transaction 42" in page and "Received +100" in page
    assert "Cost of tokens still held −60" in page


BOOKS = """
opening closing realized unmatchedProceeds openCost costLeft received sent overhead failedCost other
difference gap
"""
SOL_BOOKS = {f"{name}Lamports": "0" for name in BOOKS.split()} | {"costLeftReceipts": 0}


# ---- trades --------------------------------------------------------------------------------------
def test_a_trade_shows_its_result_in_its_currency(service, bot, key):
    kinds = {"sold": "sell", "crossed": "sell", "swapped": "swap", "in_sol": "sell"}
    for slot, (name, kind) in enumerate([*kinds.items(), ("moved", "transfer_in")]):
        service.observe_trade(W, name, slot, kind=kind)
    sold = {"change": 12_500_000, "status": "matched", "result": 2_500_000, "matched_raw": "1000"}
    money = {"proceeds": 12_500_000, "cost": 10_000_000}
    quote_trade("trade_sold", **sold, **money, lots='[["trade_x","1000",10000000]]')
    quote_trade("trade_crossed", change=7_000_000, status="unmatched", paid_elsewhere=True)
    trades = {one["id"]: one for one in service.get("/api/v1/trades", key).json["data"]}
    in_sol = ("resultLamports", "resultSol", "proceedsLamports", "costLamports")
    lot = {"tradeId": "trade_x", "amountRaw": "1000", "costRaw": "10000000", "costLamports": None}
    result = {"resultRaw": "2500000", "result": "2.5", "returnPct": "25", "lots": [lot]}
    result |= {"proceedsRaw": "12500000", "costRaw": "10000000"}
    how = {"status": "matched", "method": "fifo", "currency": "USDC"}
    matched = {"matchedRaw": "1000", "unmatchedRaw": "0"}
    realized = trades["trade_sold"]["realized"]
    assert realized == how | result | matched | dict.fromkeys(in_sol)
    crossed = trades["trade_crossed"]
    assert (crossed["realized"]["result"], crossed["flags"]) == (None, ["paid_elsewhere"])
    currencies = {
        "sold": "USDC",
        "crossed": "USDC",
        "swapped": None,
        "in_sol": "SOL",
        "moved": None,
    }
    for name, currency in currencies.items():
        assert trades[f"trade_{name}"]["currency"] == currency
    for query, names in (
        ("currency=USDC", {"trade_sold", "trade_crossed"}),
        ("currency=SOL", {"trade_in_sol"}),
        ("currency=USDC&kind=buy,swap", set()),
        ("kind=swap,transfer_in", {"trade_swapped", "trade_moved"}),
        ("kind=trade", {"trade_sold", "trade_crossed", "trade_swapped", "trade_in_sol"}),
    ):
        found = service.get(f"/api/v1/trades?{query}", key).json["data"]
        assert {one["id"] for one in found} == names, query
    # A hook's text for people: 2.5 of 10.
    assert " · +2.500 USDC (+25.0%) · " in facts.write_trade(trades["trade_sold"])
    page = text_of(service.get(f"/bots/{bot.bot.uid}?tab=trades"))
    assert "Result in USDC: +2.5 USDC." in page
    assert "were bought in another currency, so the sale has no result in either" in page


def test_a_currency_filter_finds_every_trade_showing_it(service, get):
    since = get("trades").json["newestCursor"]
    for slot, kind in enumerate(TRADE_KINDS):
        service.observe_trade(W, f"sol_{kind}", slot, kind=kind)
        service.observe_trade(W, f"usdc_{kind}", slot, kind=kind)
        quote_trade(f"trade_usdc_{kind}")
    for name in ("sol", "usdc"):
        service.observe_trade(W, f"{name}_filled", 50, kind="order_fill")
    Trade.update(realized="matched").where(Trade.uid == "trade_sol_filled").execute()
    quote_trade("trade_usdc_filled", status="matched")
    shown = {one["id"]: one["currency"] for one in get("trades?limit=100").json["data"]}
    for symbol in ("SOL", "USDC"):
        names = ("buy", "sell", "round_trip", "filled")
        wanted = {f"trade_{symbol.lower()}_{name}" for name in names}
        assert {uid for uid, currency in shown.items() if currency == symbol} == wanted
        for query in ("", "&kind=order_fill,buy,sell,round_trip", f"&since={since}"):
            found = get(f"trades?limit=100&currency={symbol}{query}").json["data"]
            assert {one["id"] for one in found} == wanted, (symbol, query)


def test_csv_results_are_in_their_currency(service, bot):
    service.observe_trade(W, "sold", 1, kind="sell")
    service.observe_trade(W, "plain", 2, kind="sell")
    quote_trade("trade_sold", change=5, status="matched", result=-3, proceeds=5, cost=8)
    head, _, row = service.get(f"/bots/{bot.bot.uid}/trades.csv").text.splitlines()
    told = dict(zip(head.split(","), row.split(","), strict=True))
    names = ("currency", "status", "resultRaw", "proceedsRaw", "costRaw", "resultLamports")
    assert [told[name] for name in names] == ["USDC", "matched", "-3", "5", "8", ""]


# ---- pages ---------------------------------------------------------------------------------------
def test_a_profile_has_tiles_curve_and_table_for_each_currency(service, bot):
    path = f"/bots/{bot.bot.uid}"
    derive(W, {})
    assert "In USDC" not in service.get(path).text
    now = NOW // 1000
    observe_quote(W, at=now - 2 * DAY, realized=1_500_000, trades=2, matched=1, winning=1)
    observe_quote(
        W, at=now, realized=1_100_000, trades=5, matched=2, winning=1, unmatched=2, cross_sells=2
    )
    page = service.get(path)
    text = text_of(page)
    assert "Realized PnL +1.100 USDC worst case +1.100 USDC ; from 2 sales; 2 more sales" in text
    assert 'aria-label="Realized PnL by day in USDC"' in page.text
    # The table's days: +1.5, then -0.4, which makes 1.1.
    assert "−0.400 +1.100" in text and "+1.500 +1.500" in text
    assert "In USDT" not in text
    ids = re.findall(r'\bid="([^"]+)"', page.text)
    assert len(ids) == len(set(ids))
    record = text_of(service.get(f"{path}?tab=record"))
    assert "Results in USDC" in record and "Sales with unknown cost 2 2" in record


def test_the_board_currency_can_be_chosen_without_javascript(service, bot):
    observe_quote(W, realized=1_500_000, trades=9, matched=3, winning=3)
    page = service.get("/leaderboard").text
    assert '<option value="USDC">USDC</option>' in page
    quoted = service.get("/leaderboard?window=all&record=forward&currency=USDC&ownership=")
    text = text_of(quoted)
    assert "Realized PnL, USDC" in text and "+1.50" in text and "worst case" in text
    assert '<option value="USDC" selected>USDC</option>' in quoted.text
    empty = text_of(service.get("/leaderboard?currency=PYUSD"))
    assert "No bot on this list has traded in PYUSD yet. Results in SOL , or connect a bot" in empty
    narrow = service.get("/leaderboard?currency=PYUSD&window=24h")
    assert "All time , results in SOL" in text_of(narrow)
    assert (
        'href="/leaderboard?record=forward&amp;sort=pnl&amp;window=all&amp;currency=PYUSD"'
        in narrow.text
    )


def test_a_bot_without_sol_trades_shows_no_sol_results(service, bot):
    """It sold twice for USDC, and paid 5,000 lamports for a failed transaction."""
    zero = {"volumeSol": "0", "volumeLamports": "0", "winningSells": 0, "matched": 0}
    service.observe_results(W, 0, **zero, failedTransactions=1, failedCostLamports="5000")
    coverage = {**NOT_POLLED, "state": "complete", "receipts": 3, "note": None}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    observe_quote(W, "USDT", at=NOW // 1000)
    observe_quote(W, at=NOW // 1000, realized=1_500_000, trades=4, matched=2, winning=1)
    path = f"/bots/{bot.bot.uid}"
    overview, record = service.get(path), service.get(f"{path}?tab=record")
    for page in (overview, record):
        assert "went to 0 SOL" not in page.text and "+1.500 USDC" in text_of(page)
    embedded = text_of(service.get(f"/embed{path}"))
    assert "0 SOL" not in text_of(overview) and "0 SOL" not in embedded
    assert re.search(r"Fees outside of trades \S+( SOL)? 0\.000005 SOL", text_of(record))
    assert "Realized PnL, all known history, from 2 sales +1.500 USDC" in embedded
    told = "+1.500 USDC realized, from 2 sales; complete history."
    assert find_description(overview) == told
    badge = service.get(f"{path}/badge.svg").text
    assert "on Candor: +1.500 USDC; " in badge and "SOL" not in badge
    content = draw(service, bot)
    assert content["result"] == "+1.500 USDC" and content["small"][1].startswith("wallet ")
    assert content["told"] == "Realized PnL: from 2 sales"


def find_description(page):
    return re.search(r'property="og:description" content="([^"]+)"', page.text)[1]


def draw(service, bot):
    """The contents of a bot's picture."""
    shown = show(service, bot)
    with service.app.app_context():
        return describe_bot(shown, find_strip(bot.bot.uid))


def test_shared_views_of_a_bot_name_its_stablecoins(service, bot):
    observe_quote(W, realized=-1_500_000, trades=9, matched=3)
    uid = bot.bot.uid
    assert "−1.500 USDC" in text_of(service.get(f"/embed/bots/{uid}"))
    assert "−1.500 USDC" in find_description(service.get(f"/bots/{uid}"))
    content = draw(service, bot)
    assert content["small"][1].startswith("−1.500 USDC · wallet ")
    assert (content["result"], content["beside"]) == ("+0.000000007 SOL", "")


def test_tools_report_stablecoins(service, bot):
    observe_quote(W, realized=5, trades=9, matched=3)
    assert trim_bot(show(service, bot))["results"]["byCurrency"][1]["realizedRaw"] == "5"
    service.observe_trade(W, "sold", 1, kind="sell")
    quote_trade("trade_sold", change=5, status="matched", result=-3, proceeds=5, cost=8)
    (trade,) = service.get("/api/v1/trades", bot.publish_key.text).json["data"]
    assert trim_trade(trade)["realized"]["result"] == "-0.000003"
    assert Bot.select().count() == 1


# ---- from transactions to what is shown ----------------------------------------------------------
def test_the_documented_example_is_correct(service):
    """docs/results.md: 40 USDC for a million raw A, another million for SOL, 1.5 million sold for
    90 USDC: 90 / 1.5 for the first million, minus 40.
    """
    made = service.make_bot("Ada", W)
    told = Teller().gain(USDC.mint, 40_000_000).swap(USDC.mint, 40_000_000, "A", 1_000_000)
    told.buy("A", 1_000_000, 50_000).swap("A", 1_500_000, USDC.mint, 90_000_000)
    observe(W, told.entries)
    shown = show(service, made)
    usdc = shown["results"]["byCurrency"][-1]
    # Bought for 40, sold for 90.
    assert (usdc["realized"], usdc["partialSells"], usdc["volume"]) == ("20", 1, "130")
    (books,) = shown["reconciliation"]["byCurrency"]
    # 30 of the proceeds belong to tokens bought with SOL, and nothing bought with the 40 USDC is
    # left.
    assert (books["receivedRaw"], books["unmatchedProceedsRaw"]) == ("40000000", "30000000")
    assert (books["closingRaw"], books["differenceRaw"]) == ("90000000", "0")
    assert shown["results"]["realizedLamports"] == "0"
    trade = shown["latestTrades"][0]
    sale = trade["realized"]
    assert (trade["kind"], trade["currency"], trade["mint"]) == ("sell", "USDC", "A")
    assert (sale["result"], sale["costRaw"], sale["proceedsRaw"]) == ("20", "40000000", "60000000")
    assert (sale["status"], trade["flags"][-1]) == ("partial", "paid_elsewhere")
    path = "/api/v1/leaderboard?currency=USDC&record=all"
    (row,) = service.get(path, made.publish_key.text).json["data"]
    assert (row["realized"], row["unrankedReason"]) == ("20", "too_few_sells")
