"""Results in stablecoins in the API, on pages, next to posts, in tables and agents' responses."""

import csv
import re

import orjson
import pytest
from quoted import RAW, derive, observe_quote, quote_trade
from service import NOW, address, signature
from teller import Teller
from test_board import observe
from test_pages import text_of
from test_records import move, show
from test_said_and_did import receipt_of, say

from accounts import verification
from agents.answers import trim_bot, trim_post, trim_trade
from chain.reading.currencies import STABLECOINS
from chain.stored.derived import NOT_POLLED
from models import Post, Trade, Wallet
from web.api.stream import list_events
from web.api.trades import TRADE_KINDS
from web.site import facts
from web.site.candor import find_strip
from web.site.cards import describe_bot

W, OTHER, M = address("w"), address("other"), address("mint")
USDC, USDT = STABLECOINS[:2]
DAY = 86_400
EMPTY = {"reconciliation": None, "averageCost": None, "positions": []}


@pytest.fixture
def bot(service):
    made = service.make_bot("Ada", W)
    service.observe_results(W, 7, matched=1)
    service.observe_span(W, realized=7, trades=1, matched=1)
    coverage = {**NOT_POLLED, "state": "complete", "receipts": 3, "note": None}
    Wallet.update(forward_realized=7, coverage=orjson.dumps(coverage).decode()).execute()
    return made


@pytest.fixture
def path(bot):
    return f"/bots/{bot.bot.uid}"


# ---- bots ----------------------------------------------------------------------------------------
RATES = ("returnPct", "winRate", "positions", "positionsWon", "positionsOpen")


def test_results_and_record_list_each_traded_stablecoin(service, bot):
    derive(W, {USDC.mint: EMPTY})
    before = show(service, bot)["results"]
    assert [one["currency"] for one in before["byCurrency"]] == ["SOL"]
    sales = {"matched": 2, "partial": 1, "unmatched": 4, "winning": 1, "cross_sells": 3}
    money = {"realized": -1_250_000, "volume": 20_000_000, "fee_lamports": 25_000}
    observe_quote(W, **sales, **money, trades=5, cost_left=300_000, cost_left_receipts=2)
    observe_quote(W, "USDT", realized=1, trades=2, matched=1)
    shown = show(service, bot)
    sol, usdc, usdt = shown["results"]["byCurrency"]
    assert {name: value for name, value in usdc.items() if name not in RATES} == {
        **{"currency": "USDC", "mint": USDC.mint, "decimals": 6},
        **{"matchedSells": 2, "partialSells": 1, "unmatchedSells": 4, "winningSells": 1},
        **{"realizedRaw": "-1250000", "realized": "-1.25", "maxDrawdownRaw": "1250000"},
        # Realized PnL minus the cost that left.
        **{"costLeftRaw": "300000", "worstCaseRaw": "-1550000"},
        **{"volumeRaw": "20000000", "volume": "20"},
    }
    assert (usdt["mint"], usdt["realized"]) == (USDT.mint, "0.000001")
    assert (sol["currency"], sol["realizedRaw"]) == ("SOL", "7")
    assert shown["record"]["byCurrency"][1:] == [usdc, usdt]
    # None of it is in SOL.
    assert {**shown["results"], "byCurrency": None} == {**before, "byCurrency": None}
    (listed,) = service.get("/api/v1/bots", bot.publish_key.text).json["data"]
    assert listed["results"] == shown["results"]
    assert trim_bot(shown)["results"]["byCurrency"][1]["realizedRaw"] == "-1250000"


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


def test_each_stablecoin_reconciles(service, bot, path):
    """100 arrived, 60 paid for holdings, 2 earned: 42 are left."""
    lines = dict.fromkeys(RAW, "0") | {"closingRaw": "42000000", "realizedRaw": "2000000"}
    lines |= {"openCostRaw": "60000000", "receivedRaw": "100000000", "costLeftReceipts": 0}
    derive(W, {USDC.mint: {**EMPTY, "reconciliation": lines}})
    in_sol = {f"{name.removesuffix('Raw')}Lamports": "0" for name in RAW} | {"costLeftReceipts": 0}
    Wallet.update(reconciliation=orjson.dumps(in_sol).decode()).execute()
    (told,) = show(service, bot)["reconciliation"]["byCurrency"]
    assert told == {"mint": USDC.mint, "currency": "USDC", "decimals": 6, **lines}
    page = text_of(service.get(f"{path}?tab=record"))
    for line in ("after the last transaction 42", "Received +100", "tokens still held −60"):
        assert line in page


def find_description(page):
    return re.search(r'property="og:description" content="([^"]+)"', page.text)[1]


def draw(service, bot):
    """The contents of a bot's picture."""
    shown = show(service, bot)
    with service.app.app_context():
        return describe_bot(shown, find_strip(bot.bot.uid))


def test_a_profile_has_tiles_curve_and_table_for_each_currency(service, bot, path):
    derive(W, {})
    assert "In USDC" not in service.get(path).text
    now, traded = NOW // 1000, {"winning": 1, "unmatched": 2, "cross_sells": 2}
    observe_quote(W, at=now - 2 * DAY, realized=1_500_000, trades=2, matched=1, winning=1)
    observe_quote(W, at=now, realized=1_100_000, trades=5, matched=2, **traded)
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
    # Shared views name it next to the result in SOL.
    assert "+1.100 USDC" in text_of(service.get(f"/embed{path}"))
    assert "+1.100 USDC" in find_description(page)
    content = draw(service, bot)
    assert content["small"][1].startswith("+1.100 USDC · wallet ")
    assert (content["result"], content["beside"]) == ("+0.000000007 SOL", "")


def test_a_bot_without_sol_trades_shows_no_sol_results(service, bot, path):
    """It sold twice for USDC, and paid 5,000 lamports for a failed transaction."""
    zero = {"volumeSol": "0", "volumeLamports": "0", "winningSells": 0, "matched": 0}
    service.observe_results(W, 0, **zero, failedTransactions=1, failedCostLamports="5000")
    observe_quote(W, "USDT", at=NOW // 1000)
    observe_quote(W, at=NOW // 1000, realized=1_500_000, trades=4, matched=2, winning=1)
    overview, record = service.get(path), service.get(f"{path}?tab=record")
    for page in (overview, record):
        assert "went to 0 SOL" not in page.text and "+1.500 USDC" in text_of(page)
    embedded = text_of(service.get(f"/embed{path}"))
    assert "0 SOL" not in text_of(overview) and "0 SOL" not in embedded
    assert re.search(r"Fees outside of trades \S+( SOL)? 0\.000005 SOL", text_of(record))
    assert "Realized PnL, all known history, from 2 sales +1.500 USDC" in embedded
    assert "+1.500 USDC realized, from 2 sales; " in find_description(overview)
    badge = service.get(f"{path}/badge.svg").text
    assert "on Candor: +1.500 USDC; " in badge and "SOL" not in badge
    content = draw(service, bot)
    assert content["result"] == "+1.500 USDC" and content["small"][1].startswith("wallet ")
    assert content["told"] == "Realized PnL: from 2 sales"


def test_the_board_currency_can_be_chosen_without_javascript(service, bot):
    observe_quote(W, realized=1_500_000, trades=9, matched=3, winning=3)
    assert '<option value="USDC">USDC</option>' in service.get("/leaderboard").text
    quoted = service.get("/leaderboard?window=all&record=forward&currency=USDC&ownership=")
    for said in ("Realized PnL, USDC", "+1.500 worst case +1.500 "):
        assert said in text_of(quoted)
    assert '<option value="USDC" selected>USDC</option>' in quoted.text
    empty = text_of(service.get("/leaderboard?currency=PYUSD"))
    assert "No bot on this list has traded in PYUSD yet. Results in SOL , or connect a bot" in empty
    narrow = service.get("/leaderboard?currency=PYUSD&window=24h")
    assert "All time , results in SOL" in text_of(narrow)
    link = "/leaderboard?record=forward&amp;sort=pnl&amp;window=all&amp;currency=PYUSD"
    assert f'href="{link}"' in narrow.text


# ---- trades --------------------------------------------------------------------------------------
def test_a_trade_shows_its_result_in_its_currency(service, bot, get, path):
    for slot, name in enumerate(("sold", "crossed")):
        service.observe_trade(W, name, slot, kind="sell")
    sold = {"change": 12_500_000, "status": "matched", "result": 2_500_000, "matched_raw": "1000"}
    money = {"proceeds": 12_500_000, "cost": 10_000_000}
    quote_trade("trade_sold", **sold, **money, lots='[["trade_x","1000",10000000]]')
    quote_trade("trade_crossed", change=7_000_000, status="unmatched", paid_elsewhere=True)
    crossed, trade = get("trades").json["data"]
    lot = {"tradeId": "trade_x", "amountRaw": "1000", "costRaw": "10000000", "costLamports": None}
    in_sol = ("resultLamports", "resultSol", "proceedsLamports", "costLamports")
    assert trade["realized"] == {
        **{"status": "matched", "method": "fifo", "currency": "USDC"},
        **{"resultRaw": "2500000", "result": "2.5", "returnPct": "25", "lots": [lot]},
        **{"proceedsRaw": "12500000", "costRaw": "10000000"},
        **{"matchedRaw": "1000", "unmatchedRaw": "0", **dict.fromkeys(in_sol)},
    }
    assert trim_trade(trade)["realized"]["result"] == "2.5"
    assert (crossed["realized"]["result"], crossed["flags"]) == (None, ["paid_elsewhere"])
    # A hook's text for people: 2.5 of 10.
    assert " · +2.500 USDC (+25.0%) · " in facts.write_trade(trade)
    page = text_of(service.get(f"{path}?tab=trades"))
    assert "Result in USDC: +2.5 USDC." in page
    assert "were bought in another currency, so the sale has no result in either" in page
    *_, row = csv.DictReader(service.get(f"{path}/trades.csv").text.splitlines())
    money = {"resultRaw": "2500000", "proceedsRaw": "12500000", "costRaw": "10000000"}
    told = {"currency": "USDC", "status": "matched", **money, "resultLamports": ""}
    assert told.items() <= row.items()


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
    found = get("trades?limit=100&kind=trade").json["data"]
    assert {one["kind"] for one in found} == {"buy", "sell", "swap", "round_trip"}


# ---- posts ---------------------------------------------------------------------------------------
# 879.5 of a token for 338.1 USDC, at a cost of 352.7: 14.6 less, 4.1395% of the cost.
SOLD = {"change": 338_100_000, "status": "matched", "matched_raw": "879500"}
SOLD |= {"result": -14_600_000, "proceeds": 338_100_000, "cost": 352_700_000}
CHANGES = orjson.dumps([[M, "-879500", 3], [USDC.mint, "338100000", 6]]).decode()


def sell(service, name="sale", **quoted):
    """Observe a sale for USDC, and verify the posts about it."""
    service.observe_trade(W, name, 1, kind="sell", sol=-5_000, token_changes=CHANGES)
    quote_trade(f"trade_{name}", **quoted)
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature(name)}, NOW)


def test_a_receipt_shows_its_stablecoin_result(service, bot, get, key):
    post = say(service, key)
    sell(service, **SOLD)
    told = receipt_of(service, key, post)
    result = {"kind": "sell", "currency": "USDC", "result": "-14.6", "resultSol": None}
    assert (result | {"resultPct": "-4.14"}).items() <= told.items()
    shown = [get("feed").json["data"][0], get(f"posts/{post}").json]
    shown.append(get(f"bots/{bot.bot.uid}").json["feed"][0])
    streamed = list_events("http://here", 0, 100)
    shown += [one.shown for one in streamed if one.kind in ("post", "verification")]
    assert [one["receipt"] for one in shown] == [told] * 5
    trimmed = trim_post(get(f"posts/{post}").json)["receipt"]
    assert (trimmed["currency"], trimmed["result"]) == ("USDC", "-14.6")
    since = get("feed?limit=1").json["newestCursor"]
    later = say(service, key, name="later")
    (arrived,) = get(f"feed?since={since}").json["data"]
    assert (arrived["id"], arrived["receipt"]) == (later, None)
    sell(service, "later", **SOLD)
    (arrived,) = get(f"feed?since={since}").json["data"]
    assert arrived["receipt"]["result"] == told["result"]


def test_a_purchase_found_later_gives_a_post_its_result(service):
    """1,000 A for 40 USDC, found after its sale for 55 and the post about that: 15 earned."""
    key = service.make_bot("Ada", W).publish_key.text
    teller = Teller().gain(USDC.mint, 40_000_000).swap(USDC.mint, 40_000_000, "A", 1_000)
    bought = teller.entries[-1]
    sold = teller.swap("A", 1_000, USDC.mint, 55_000_000).entries[-1]
    service.post({"eventId": "1", "body": "Sold."}, key)
    observe(W, [one for one in teller.entries if one is not bought])
    Post.update(trade=Trade.get(Trade.signature == sold.signature)).execute()
    (before,) = service.get("/api/v1/feed", key).json["data"]
    assert before["receipt"]["result"] is None
    observe(W, [bought])
    (after,) = service.get("/api/v1/feed", key).json["data"]
    told = after["receipt"]
    # 15 of 40
    assert (told["realized"], told["result"], told["resultPct"]) == ("matched", "15", "37.5")


def test_only_what_was_bought_in_the_same_currency_has_a_result(service, key):
    wholly, partly = (say(service, key, name=name) for name in ("wholly", "partly"))
    sell(service, "wholly", change=338_100_000, status="unmatched", paid_elsewhere=True)
    page = service.get(f"/posts/{wholly}").text
    assert "purchase price unknown" in page and 'class="result"' not in page
    (item,) = service.get("/feed.json?label=verified").json["items"]
    assert item["title"].startswith("[receipt verified · wallet claimed, not proven] ")
    split = {**SOLD, "status": "partial", "unmatched_raw": "9", "paid_elsewhere": True}
    sell(service, "partly", **split)
    page = text_of(service.get(f"/posts/{partly}"))
    assert "−14.60 USDC" in page and "for the part with a known purchase price" in page


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
