"""Where value came from and where money went, as readers see it: API, board, health, pages."""

import csv
import re

import orjson
import pytest
from service import NOW, address, signature
from test_pages import COVERAGE, text_of

from chain.reading.currencies import STABLECOINS
from chain.stored.derived import NOT_POLLED
from models import Post, Wallet

W, M, POOL = address("w"), address("m"), address("pool")
TOKEN = f"{M[:4]}…{M[-4:]}"
USDC = STABLECOINS[0].mint
# Millions of lamports: 10 SOL at first, 12 at last: 3 earned, 1 from sales of unknown cost, 2 spent
# on holdings, 1 on tokens that left, 5 received, 3 sent, 0.5 and 0.25 in fees, and 0.25 less
# through other transactions.
MILLIONS = {"opening": 10_000, "realized": 3_000, "unmatchedProceeds": 1_000, "openCost": 2_000}
MILLIONS |= {"costLeft": 1_000, "received": 5_000, "sent": 3_000, "overhead": 500}
MILLIONS |= {"failedCost": 250, "other": -250, "closing": 12_000, "difference": 0, "gap": 0}
BOOKS = {f"{name}Lamports": str(n * 10**6) for name, n in MILLIONS.items()}
BOOKS["costLeftReceipts"] = 2
AVERAGE = {"realizedLamports": "2900000000", "matchedSells": 3}
COST_LEFT = {"costLeftLamports": "1000000000", "costLeftReceipts": 2}


def dump(value):
    return orjson.dumps(value).decode()


def update(**columns):
    Wallet.update(**columns).where(Wallet.address == W).execute()


def observe_books(**changes):
    """Write the wallet's reconciliation as the ledger store does."""
    books = dump({**BOOKS, **changes})
    update(reconciliation=books, average_cost=dump(AVERAGE), coverage=dump(COVERAGE))


def observe_sale(service, name, **more):
    """10.0001 SOL for one of a token with 3 decimals."""
    given = {"kind": "sell", "mint": M, "raw": -1_000, "sol": 10_000_100_000, "realized": "matched"}
    service.observe_trade(W, name, 1, **{**given, "result": 1, **more})


@pytest.fixture
def profile(service, bot):
    """profile() -> the text of the bot's tabs"""
    tabs = [f"/bots/{bot.bot.uid}{tab}" for tab in ("", "?tab=trades", "?tab=record")]
    return lambda: " ".join(text_of(service.get(tab)) for tab in tabs)


# ---- where money went ----------------------------------------------------------------------------
def test_a_bot_shows_where_its_money_went(service, bot, get, profile):
    """3 sales have a known cost; 1 doesn't."""
    told = {"unmatchedSells": 1, "carriedLots": 2, "realizedSol": "3", "volumeSol": "1"}
    service.observe_results(W, 3_000_000_000, **told, **COST_LEFT)
    observe_books()
    shown = get(f"bots/{bot.bot.uid}").json
    # No ledger derived it, so stablecoins are unknown.
    assert shown["reconciliation"] == {**BOOKS, "byCurrency": None}
    assert (shown["reconciliationReason"], shown["averageCost"]) == (None, AVERAGE)
    assert COST_LEFT.items() <= shown["results"].items()
    page = profile()
    lines = """
        before the first transaction 10
        Realized PnL +3
        Proceeds of sales with unknown cost +1
        Cost of tokens still held −2
        Cost of tokens moved out unsold −1
        Received +5
        Sent −3
        Fees and tips outside of trades −0.5
        Fees of failed transactions −0.25
        tokens without a price −0.25
        after the last transaction 12
        Unaccounted for: must be zero 0
    """
    table = page[page.index("Balance before") :]
    places = [table.index(f"{line.strip()} ") for line in lines.strip().splitlines()]
    assert places == sorted(places) and "Moved by missing transactions" not in page
    for said in (
        "Cost moved out unsold – 1.000 SOL",
        "Every lamport is accounted for.",
        "from 3 sales; 1 more sale is left out: purchase price unknown",
        "its sales made +2.900 SOL (3 sales with a known cost)",
    ):
        assert said in page


def test_a_missing_reconciliation_has_a_reason(service, bot, get, profile):
    def find_reason():
        shown = get(f"bots/{bot.bot.uid}").json
        assert shown["reconciliation"] is None and shown["averageCost"] is None
        return shown["reconciliationReason"]

    assert find_reason() == "not_observed"
    service.observe_results(W, 1, realizedSol="1", volumeSol="1")
    for state, reason in (("complete", "damaged"), ("backfilling", "backfilling")):
        update(coverage=dump({**NOT_POLLED, "state": state, "note": None}))
        assert find_reason() == reason
    assert "Not available: its history is still loading" in profile()
    # A claim of a proven wallet.
    observe_books()
    update(bot_since=NOW)
    assert find_reason() == "held_by_another"
    mute = service.make_bot("Mute")
    shown = service.get(f"/api/v1/bots/{mute.bot.uid}", mute.publish_key.text).json
    assert shown["reconciliationReason"] == "no_wallet"


def test_an_imbalance_is_named(service, profile):
    service.observe_results(W, 1, realizedSol="1", volumeSol="1")
    for difference, gaps, said, rest in (
        (-1_200_000_000, -1_200_000_000, "Gaps in the history moved −1.200 SOL", "zero 0 "),
        (7, 0, "+0.000000007 SOL is unaccounted for. This is a bug", "zero +0.000000007 "),
        (-3, -10, "+0.000000007 SOL is unaccounted for", "zero +0.000000007 "),
    ):
        observe_books(differenceLamports=str(difference), gapLamports=str(gaps))
        page = profile()
        assert said in page and rest in page
        assert ("Moved by missing transactions" in page) == bool(gaps)


def test_health_and_the_status_page_name_wallets_that_do_not_balance(service, bot):
    before = service.get("/api/health").json
    assert before["walletObserver"]["differences"] == []
    assert "don’t balance" not in text_of(service.get("/status"))
    for lamports, left, by_currency, said in (
        (-7, {}, {}, "−0.000000007 SOL"),
        (0, {USDC: -1_500_000}, {"USDC": "-1.5"}, "−1.5 USDC"),
        (-7, {USDC: -1_500_000}, {"USDC": "-1.5"}, "−0.000000007 SOL and −1.5 USDC"),
    ):
        update(imbalance=lamports, stablecoin_imbalance=dump(left))
        after = service.get("/api/health").json
        found = {"wallet": W, "differenceLamports": str(lamports), "byCurrency": by_currency}
        assert after["walletObserver"]["differences"] == [found]
        assert after["walletObserver"]["walletsWithDifference"] == 1
        assert after["status"] == before["status"]
        page = text_of(service.get("/status"))
        assert "The books of 1 wallet don’t balance to the last lamport" in page
        assert f"{W} by {said}." in page


# ---- the leaderboard -----------------------------------------------------------------------------
def test_the_floor_ranks_by_result_minus_cost_left(service, bot, get):
    def board(sort):
        rows = get(f"leaderboard?record=all&sort={sort}").json["data"]
        return [(row["name"], row["rank"], row["costLeftLamports"]) for row in rows]

    # 900 - 800 = 100, 500 - 0 = 500, 400 - 300 = 100
    for name, realized, cost_left in (("Hider", 900, 800), ("Plain", 500, 0), ("Twin", 400, 300)):
        service.make_bot(name, address(name))
        service.observe_results(address(name), realized, costLeftLamports=str(cost_left))
    service.observe_results(W, 50)
    hider, plain, twin = ("Hider", 2, "800"), ("Plain", 1, "0"), ("Twin", 2, "300")
    assert board("pnl_floor") == [plain, hider, twin, ("Ada", 4, "0")]
    # Hidden losses keep their rank by result.
    assert [row[:2] for row in board("pnl")][:2] == [("Hider", 1), ("Plain", 2)]
    page = service.get("/leaderboard?record=all&sort=pnl_floor")
    assert "+0.0000009 worst case +0.0000001 " in text_of(page)
    assert re.search(r'sort=pnl_floor&amp;window=all" aria-current="true">worst case', page.text)


# ---- where value came from -----------------------------------------------------------------------
def test_a_trade_page_shows_where_its_value_came_from(service, get, profile):
    """10.0001 SOL and -1 token in all, with 10 SOL and +0.5 outside the venue: the trade is the
    rest.
    """
    parties = dump([POOL, *map(address, "abcd")])
    beside = {"beside_sol": 10_000_000_000, "beside_tokens": dump([[M, "500", 3]])}
    flags = '["counterparty_signed"]'
    observe_sale(service, "gifted", explained=98, counterparties=parties, flags=flags, **beside)
    page = profile()
    pool, a, b = (f"{one[:4]}…{one[-4:]}" for one in (POOL, address("a"), address("b")))
    for said in (
        "98% of what it received left accounts its venue trades with:"
        f" {pool}, {a}, {b} and 2 more.",
        f"not part of the trade: +10.00 SOL, +0.5 {TOKEN}. The trade itself moved +0.0001 SOL.",
        f"Sale −1.5 {TOKEN} +0.0001 SOL",
        "The other side signed this transaction itself",
    ):
        assert said in page
    assert "+0.0001 SOL" in text_of(service.get(f"/tokens/{M}"))
    (row,) = get(f"activity?mint={M}").json["data"]
    assert (row["kind"], row["explainedShare"]) == ("sell", "0.98")
    assert row["outsideVenue"]["solLamports"] == "10000000000"


def test_tokens_bought_and_sent_on_at_once_were_bought(service, bot, get, profile):
    """2 of a token with 3 decimals were bought for 0.5 SOL and sent on in the same transaction."""
    beside = dump([[M, "-2000", 3]])
    more = {"kind": "buy", "mint": M, "sol": -500_000_000, "explained": 100}
    service.observe_trade(W, "sent", 1, token_changes="[]", beside_tokens=beside, **more)
    (row,) = get(f"activity?mint={M}").json["data"]
    told = {"side": "buy", "amountRaw": "2000", "amount": "2", "decimals": 3}
    told |= {"solChangeLamports": "-500000000", "explainedShare": "1.00"}
    assert told.items() <= row.items()
    (gone,) = row["outsideVenue"]["tokenChanges"]
    assert gone["changeRaw"] == "-2000"
    page = profile()
    assert f"Purchase +2 {TOKEN} −0.5000 SOL" in page
    assert f"not part of the trade: −2 {TOKEN}." in page
    assert f'href="/tokens/{M}"' in service.get(f"/bots/{bot.bot.uid}?tab=trades").text
    assert "2 −0.5000 SOL" in text_of(service.get(f"/tokens/{M}"))
    (row,) = csv.DictReader(service.get(f"/bots/{bot.bot.uid}/trades.csv").text.splitlines())
    told = {"solChangeLamports": "-500000000", "tokenChanges": ""}
    told |= {"outsideLamports": "0", "outsideTokenChanges": f"{M} -2"}
    assert told.items() <= row.items()


def test_a_larger_gift_hides_neither_the_sale_nor_its_lots(service, profile):
    """1.5 sold, 5 arrived from outside, so the balance rose."""
    lots, gift = dump([[None, "1500", None]]), dump([[M, "5000", 3]])
    observe_sale(service, "small", raw=3_500, beside_tokens=gift, lots=lots)
    assert "held before observation began 1.5 unknown" in profile()
    assert "1.5 +10.00 SOL" in text_of(service.get(f"/tokens/{M}"))


def test_an_unexplained_trade_counts_nowhere_and_verifies_nothing(service, key, profile):
    service.post({"eventId": "1", "body": "Sold.", "signature": signature("fake")}, key)
    unknown = {"realized": "unmatched", "result": None, "explained": 3}
    observe_sale(service, "fake", **unknown, flags='["value_unexplained"]')
    page = profile()
    assert "Only 3% of what it gave and received passed through the venue." in page
    assert "no result: value not explained" in page and "so it is left out" in page
    Post.update(status="none", status_reason="value_unexplained").execute()
    page = text_of(service.get("/"))
    assert "not verified" in page and "came from the venue, so it can't verify the post." in page


def test_kinds_and_flags_have_plain_words(service, profile):
    fee = "Only a fee or a reward from someone else’s trade was received"
    for slot, (kind, flags, said) in enumerate(
        (
            ("round_trip", [], "Round trip"),
            ("other", ["fee_income"], fee),
            ("other", ["tip_only"], "Only a tip to block producers was paid"),
        )
    ):
        service.observe_trade(W, f"t{slot}", slot, kind=kind, flags=dump(flags))
        assert said in profile()
