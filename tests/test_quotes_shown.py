"""Results in stablecoins as the interface, the pages, the tables and an agent are shown them."""

import re

import orjson
import pytest
from quoted import RAW, derive, observe_quote, quote_trade
from service import NOW, address
from teller import Teller
from test_board import observe
from test_records import move, show

from agents.answers import trim_bot, trim_trade
from chain.reading.quotes import QUOTES
from models import Bot, Wallet
from web.api import quote_results
from web.api.serialize import show_coverage
from web.site import facts
from web.site.candor import find_strip
from web.site.share_cards import describe_bot

W, OTHER = address("w"), address("other")
USDC, USDT, _ = QUOTES
DAY = 86_400


@pytest.fixture
def bot(service):
    made = service.make_bot("Ada", W)
    service.observe_results(W, 7, matched=1)
    service.observe_span(W, realized=7, trades=1, matched=1)
    coverage = {**show_coverage(W, None), "state": "complete", "receipts": 3, "note": None}
    Wallet.update(forward_realized=7, coverage=orjson.dumps(coverage).decode()).where(
        Wallet.address == W
    ).execute()
    return made


def text_of(answer):
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


# ---- bots ----------------------------------------------------------------------------------------
def test_results_and_record_tell_each_stablecoin_by_itself(service, bot):
    before = show(service, bot)["results"]
    observe_quote(
        W,
        realized=-1_250_000,
        volume=20_000_000,
        trades=5,
        matched=2,
        partial=1,
        unmatched=4,
        winning=1,
        cost_left=300_000,
        cost_left_receipts=2,
        fee_lamports=25_000,
        cross_sells=3,
    )
    observe_quote(W, "USDT", realized=1, trades=2)
    shown = show(service, bot)
    usdc, usdt = shown["results"]["byQuote"]
    assert usdc == {
        "mint": USDC.mint,
        "symbol": "USDC",
        "decimals": 6,
        "realizedRaw": "-1250000",
        "realized": "-1.25",
        "worstCaseRaw": "-1550000",
        "worstCase": "-1.55",
        "returnPct": None,
        "winRate": None,
        "positions": 0,
        "positionsWon": 0,
        "positionsOpen": 0,
        "matchedSells": 2,
        "partialSells": 1,
        "unmatchedSells": 4,
        "winningSells": 1,
        "crossQuoteSells": 3,
        "volumeRaw": "20000000",
        "volume": "20",
        "observedTrades": 5,
        "feeLamports": "25000",
        "costLeftRaw": "300000",
        "costLeft": "0.3",
        "costLeftReceipts": 2,
    }
    assert (usdt["mint"], usdt["realized"]) == (USDT.mint, "0.000001")
    assert shown["record"]["byQuote"] == [usdc, usdt]
    # Nothing of it is in SOL.
    assert {**shown["results"], "byQuote": None} == {**before, "byQuote": None}
    listed = service.get("/api/v1/bots", bot.publish_key.text).json["data"]
    assert listed[0]["results"] == shown["results"]


def test_unknown_is_null_and_nothing_moved_is_empty(service, bot):
    assert show(service, bot)["results"]["byQuote"] is None
    assert show(service, bot)["record"]["byQuote"] is None
    derive(W, {})
    shown = show(service, bot)
    assert shown["results"]["byQuote"] == shown["record"]["byQuote"] == []
    # Held and never traded with.
    derive(W, {USDC.mint: {"reconciliation": None, "averageCost": None, "positions": []}})
    (held,) = show(service, bot)["results"]["byQuote"]
    assert (held["symbol"], held["realizedRaw"], held["observedTrades"]) == ("USDC", "0", 0)
    assert show(service, service.make_bot("Mute"))["results"] is None


def test_the_record_holds_all_wallets_and_results_the_present_one(service, bot):
    """-4 USDC with the first wallet, 1 with the second."""
    observe_quote(W, realized=-4_000_000, matched=4)
    move(service, bot, OTHER)
    service.observe_results(OTHER, 1)
    service.observe_span(OTHER, realized=1, trades=1)
    observe_quote(OTHER, realized=1_000_000, matched=2)
    shown = show(service, bot)
    (record,), (results,) = shown["record"]["byQuote"], shown["results"]["byQuote"]
    assert (record["realized"], record["matchedSells"]) == ("-3", 6)
    assert (results["realized"], results["matchedSells"]) == ("1", 2)


def test_the_books_close_in_each_stablecoin(service, bot):
    # 100 came in, 60 were paid for what is held, 2 were earned: 42 are left.
    lines = dict.fromkeys(RAW, "0") | {
        "closingRaw": "42000000",
        "realizedRaw": "2000000",
        "openCostRaw": "60000000",
        "receivedRaw": "100000000",
        "costLeftReceipts": 0,
    }
    derive(W, {USDC.mint: {"reconciliation": lines, "averageCost": None, "positions": []}})
    Wallet.update(reconciliation=orjson.dumps(SOL_BOOKS).decode()).execute()
    (told,) = show(service, bot)["reconciliation"]["byQuote"]
    assert told == {"mint": USDC.mint, "symbol": "USDC", "decimals": 6, **lines}
    page = text_of(service.get(f"/bots/{bot.bot.uid}?tab=record"))
    assert "Balance after the last transaction 42" in page and "Received +100" in page
    assert "Paid for what it still holds −60" in page


SOL_BOOKS = {
    f"{name}Lamports": "0"
    for name in (
        *("opening", "closing", "realized", "unmatchedProceeds", "openCost", "costLeft"),
        *("received", "sent", "overhead", "failedCost", "other", "difference", "gap"),
    )
} | {"costLeftReceipts": 0}


def test_windows_are_differences(service, bot):
    """1 USDC forty days before NOW, 3 more ten days before."""
    now = NOW // 1000
    observe_quote(W, at=now - 40 * DAY, realized=1_000_000, trades=1)
    observe_quote(W, at=now - 10 * DAY, realized=4_000_000, trades=3)
    for source in (quote_results.OF_RESULTS, quote_results.OF_RECORD):
        found = quote_results.find_since(source, bot.bot.id, now // 3_600 - 30 * 24)
        assert (found[USDC.mint].realized, found[USDC.mint].trades) == (3_000_000, 2)
    windows = show(service, bot)["riskWindows"]
    assert [one["byQuote"]["record"][0]["realizedRaw"] for one in windows[:2]] == ["0", "0"]


# ---- trades --------------------------------------------------------------------------------------
def test_a_trade_tells_its_result_in_the_stablecoin_or_why_it_has_none(service, bot):
    derive(W, {})
    for slot, (name, kind) in enumerate(
        (("sold", "swap"), ("crossed", "swap"), ("swapped", "swap"), ("in_sol", "sell"))
    ):
        service.observe_trade(W, name, slot, kind=kind)
    service.observe_trade(W, "moved", 9, kind="transfer_in")
    service.observe_trade(W, "odd", 10, kind="swap", flags='["value_unexplained"]')
    quote_trade(
        "trade_sold",
        change=12_500_000,
        status="matched",
        result=2_500_000,
        proceeds=12_500_000,
        cost=10_000_000,
        matched_raw="1000",
    )
    quote_trade("trade_crossed", change=7_000_000, status="unmatched", paid_elsewhere=True)
    trades = {
        one["id"]: one for one in service.get("/api/v1/trades", bot.publish_key.text).json["data"]
    }
    assert trades["trade_sold"]["quote"] == {
        "mint": USDC.mint,
        "symbol": "USDC",
        "decimals": 6,
        "side": "sell",
        "changeRaw": "12500000",
        "change": "12.5",
        "status": "matched",
        "realizedRaw": "2500000",
        "realized": "2.5",
        "costRaw": "10000000",
        "cost": "10",
        "proceedsRaw": "12500000",
        "proceeds": "12.5",
        "matchedRaw": "1000",
        "unmatchedRaw": "0",
        "costInOtherCurrency": False,
    }
    assert trades["trade_sold"]["quoteReason"] is None
    crossed = trades["trade_crossed"]["quote"]
    assert (crossed["status"], crossed["realized"], crossed["costInOtherCurrency"]) == (
        "unmatched",
        None,
        True,
    )
    reasons = {name: one["quoteReason"] for name, one in trades.items() if one["quote"] is None}
    assert reasons == {
        "trade_swapped": "no_stablecoin",
        "trade_in_sol": "in_sol",
        "trade_moved": "not_a_trade",
        "trade_odd": "value_unexplained",
    }
    # What a hook tells people.
    # 2.5 of 10
    assert " · +2.500 USDC (+25.0%) · " in facts.write_trade(trades["trade_sold"])
    assert " · paid for in another currency · " in facts.write_trade(trades["trade_crossed"])
    page = text_of(service.get(f"/bots/{bot.bot.uid}?tab=trades"))
    assert "Proceeds 12.5 USDC, less the cost 10 USDC: +2.5 USDC." in page
    assert "was paid for in another currency, so it has a result in neither" in page


def test_tables_have_the_stablecoin_in_columns_of_its_own(service, bot):
    service.observe_trade(W, "sold", 1, kind="swap")
    service.observe_trade(W, "plain", 2, kind="sell")
    quote_trade("trade_sold", change=5, status="matched", result=-3, proceeds=5, cost=8)
    head, _, row = service.get(f"/bots/{bot.bot.uid}/trades.csv").text.splitlines()
    told = dict(zip(head.split(","), row.split(","), strict=True))
    assert (told["quoteSymbol"], told["quoteStatus"], told["quoteRealizedRaw"]) == (
        "USDC",
        "matched",
        "-3",
    )
    assert (told["quoteProceedsRaw"], told["quoteCostRaw"], told["resultLamports"]) == (
        "5",
        "8",
        "",
    )


# ---- pages ---------------------------------------------------------------------------------------
def test_a_profile_has_tiles_and_a_curve_with_its_table_for_each_currency(service, bot):
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
    assert "Realized PnL +1.100 USDC from 2 sales; 2 more sales are left out" in text
    assert "2 sales for USDC took what had been paid for in SOL or another stablecoin: that" in text
    assert 'aria-label="Realized PnL and volume in USDC as a table"' in page.text
    # The days of the table: +1.5, then -0.4, which makes 1.1.
    assert "−0.400 +1.100" in text and "+1.500 +1.500" in text
    assert "In USDT" not in text
    ids = re.findall(r'\bid="([^"]+)"', page.text)
    assert len(ids) == len(set(ids))
    record = text_of(service.get(f"{path}?tab=record"))
    assert "Record in USDC" in record and "Sales paid for in another currency 2 2" in record


def test_the_board_lets_the_currency_be_chosen_without_a_script(service, bot):
    observe_quote(W, realized=1_500_000, trades=9, matched=3, winning=3)
    page = service.get("/leaderboard").text
    link = re.search(r'href="([^"]+quote=USDC)"', page).group(1).replace("&amp;", "&")
    quoted = service.get(link)
    text = text_of(quoted)
    assert "Realized PnL, USDC" in text and "+1.50" in text and "Worst case, USDC" in text
    assert re.search(r'quote=USDC" aria-current="true">USDC</a>', quoted.text)
    assert 'sort=volume&amp;window=all&amp;quote=USDC">' in quoted.text
    empty = text_of(service.get("/leaderboard?quote=PYUSD"))
    assert "No bot of this list has traded in PYUSD yet. Results in SOL , or connect a bot" in empty
    narrow = service.get("/leaderboard?quote=PYUSD&window=24h")
    assert "All time , results in SOL" in text_of(narrow)
    assert (
        'href="/leaderboard?record=forward&amp;sort=pnl&amp;window=all&amp;quote=PYUSD"'
        in narrow.text
    )


def test_of_a_bot_that_never_traded_for_sol_nothing_in_sol_is_shown(service, bot):
    """It sold twice for USDC. Of SOL it paid 5,000 lamports, for a failed transaction."""
    zero = {"volumeSol": "0", "volumeLamports": "0", "winningSells": 0}
    service.observe_results(
        W, 0, matched=0, **zero, failedTransactions=1, failedCostLamports="5000"
    )
    coverage = {**show_coverage(W, None), "state": "complete", "receipts": 3, "note": None}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    observe_quote(W, "USDT", at=NOW // 1000)
    observe_quote(W, at=NOW // 1000, realized=1_500_000, trades=4, matched=2, winning=1)
    for path in ("", "?tab=record"):
        page = service.get(f"/bots/{bot.bot.uid}{path}")
        assert "went to 0 SOL" not in page.text and "+1.500 USDC" in text_of(page)
    overview = text_of(service.get(f"/bots/{bot.bot.uid}"))
    assert "Nothing was bought or sold for SOL" in overview and "0 SOL no sale" not in overview
    assert "Other fees 0.000005 SOL" in overview and "Max drawdown" not in overview
    embedded = text_of(service.get(f"/embed/bots/{bot.bot.uid}"))
    assert "0 SOL" not in embedded
    assert "Realized PnL in USDC, all known history, from 2 sales +1.500 USDC" in embedded
    card = service.get(f"/bots/{bot.bot.uid}").text
    described = re.search(r'property="og:description" content="([^"]+)"', card).group(1)
    assert described == "+1.500 USDC realized, from 2 sales; complete history."
    badge = service.get(f"/bots/{bot.bot.uid}/badge.svg").text
    assert "on Candor: +1.500 USDC; " in badge and "SOL" not in badge
    shown = orjson.loads(orjson.dumps(show(service, bot)))
    with service.app.app_context():
        content = describe_bot(shown, find_strip(bot.bot.uid))
    assert content["result"] == "+1.500 USDC" and content["small"][1].startswith("wallet ")
    assert content["told"] == "Realized PnL: from 2 sales"


def test_what_is_shared_of_a_bot_names_its_stablecoins(service, bot):
    observe_quote(W, realized=-1_500_000, trades=9, matched=3)
    uid = bot.bot.uid
    assert "−1.500 USDC" in text_of(service.get(f"/embed/bots/{uid}"))
    card = service.get(f"/bots/{uid}").text
    assert "−1.500 USDC" in re.search(r'property="og:description" content="([^"]+)"', card).group(1)


def test_an_agent_is_told_of_them(service, bot):
    observe_quote(W, realized=5, trades=9, matched=3)
    assert trim_bot(show(service, bot))["results"]["byQuote"][0]["realizedRaw"] == "5"
    service.observe_trade(W, "sold", 1, kind="swap")
    quote_trade("trade_sold", change=5, status="matched", result=-3, proceeds=5, cost=8)
    (trade,) = service.get("/api/v1/trades", bot.publish_key.text).json["data"]
    assert trim_trade(trade)["quote"]["realizedRaw"] == "-3"
    assert Bot.select().count() == 1


def test_the_picture_of_a_bot_names_them_in_small(service, bot):
    observe_quote(W, realized=-1_500_000, trades=9, matched=3)
    shown = orjson.loads(orjson.dumps(show(service, bot)))
    with service.app.app_context():
        content = describe_bot(shown, find_strip(bot.bot.uid))
    assert content["small"][1].startswith("−1.500 USDC · wallet ")
    assert (content["result"], content["beside"]) == ("+0.000000007 SOL", "")


# ---- from transactions to what is shown ----------------------------------------------------------
def test_the_example_of_the_docs(service):
    """docs/results.md: 40 USDC for a million raw A, another million for SOL, 1.5 million sold for
    90 USDC: 90 / 1.5 for the first million, less 40.
    """
    made = service.make_bot("Ada", W)
    told = Teller().gain(USDC.mint, 40_000_000).swap(USDC.mint, 40_000_000, "A", 1_000_000)
    told.buy("A", 1_000_000, 50_000).swap("A", 1_500_000, USDC.mint, 90_000_000)
    observe(W, told.entries)
    shown = show(service, made)
    (usdc,) = shown["results"]["byQuote"]
    assert (usdc["realized"], usdc["partialSells"], usdc["crossQuoteSells"]) == ("20", 1, 1)
    # Bought with 40, sold for 90.
    assert (usdc["volume"], usdc["observedTrades"]) == ("130", 2)
    (books,) = shown["reconciliation"]["byQuote"]
    # 30 of the proceeds are of what SOL paid for, and nothing that 40 USDC paid for is left.
    assert (books["receivedRaw"], books["unmatchedProceedsRaw"]) == ("40000000", "30000000")
    assert (books["closingRaw"], books["differenceRaw"]) == ("90000000", "0")
    assert shown["results"]["realizedLamports"] == "0"
    sale = shown["latestTrades"][0]["quote"]
    assert (sale["realized"], sale["cost"], sale["proceeds"]) == ("20", "40", "60")
    assert (sale["status"], sale["costInOtherCurrency"]) == ("partial", True)
    (row,) = service.get("/api/v1/leaderboard?quote=USDC&record=all", made.publish_key.text).json[
        "data"
    ]
    assert (row["realized"], row["unrankedReason"]) == ("20", "too_few_sells")
