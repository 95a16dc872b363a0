"""What wallets did in stablecoins, as it is stored: whatever order transactions came in the same
rows, no row in SOL another one, and whatever is changed behind the books' back named and mended.
"""

import random

import ground
import orjson
import pytest
from lookout import BEGIN, Lookout, ledger_of, read_quotes, watch
from node import FakeNode
from story import address, market
from test_ledger import Teller
from test_ledger_store import ADA, DONE, entries_of, rebuild, store

import storage
from chain.ledger import ledger, quote_book
from chain.ledger.sums import IN_SOL, Sums
from chain.reading.quotes import QUOTES
from chain.stored.quote_tables import QuoteTrade
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal
from models import Attachment, Trade, Wallet, WalletSignature
from observing import rebuilding
from operate import content_checks, inspection, schema

USDC, USDT, _ = (quote.mint for quote in QUOTES)


@pytest.fixture
def fresh(db):
    ground.hurry()

    def make():
        for model in reversed(schema.TABLES):
            model.delete().execute()
        wallet = watch(ADA)
        wallet.backfilled, wallet.polled_at = True, BEGIN
        wallet.save()
        return wallet

    return make


@pytest.fixture
def foxes(monkeypatch):
    """The story's FOX, which all swaps bring, is a stablecoin, and so is CAT, which they take."""
    return take_for_quotes(monkeypatch, {address("FOX"), address("CAT")})


def quote_totals():
    return RunningTotal.select().where(RunningTotal.money != IN_SOL)


def take_for_quotes(monkeypatch, mints):
    for module in (ledger, quote_book):
        monkeypatch.setattr(module, "MINTS", frozenset(mints))
    return mints


# ---- by hand -------------------------------------------------------------------------------------
def test_rows_of_a_wallet_and_of_its_attachment(fresh):
    """10 A for 100 raw USDC; an hour later 4 of them for 60 (60 - 40 = 20) and 5 B for 50, in the
    next hour these for 70 (20). The wallet is connected before the sale of A, whose cost is unknown
    in that view; all that is left there are 20 for B.
    """
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10)
    first = t.entries[-1].slot
    Attachment.update(attached_at=1000 * first + 1).execute()
    hour = first // 3_600 + 1
    t.slot = hour * 3_600
    t.swap("A", 4, USDC, 60).swap(USDC, 50, "B", 5)
    t.slot += 3_600
    t.swap("B", 5, USDC, 70)
    rebuild(wallet, t.entries)
    whole, sales = read_quotes(wallet)
    bought = {"volume": 100, "trades": 1, "fee_lamports": 5}
    sold = {"realized": 20, "cost": 40, "matched": 1, "winning": 1}
    assert [[view, money, at, Sums(*sums)] for view, money, at, *sums in whole] == [
        [0, USDC, hour - 1, Sums(**bought)],
        [0, USDC, hour, Sums(**sold, volume=210, trades=3, fee_lamports=15)],
        [
            *(0, USDC, hour + 1),
            Sums(40, 90, 280, 4, matched=2, winning=2, fee_lamports=20),
        ],
        [1, USDC, hour, Sums(volume=110, trades=2, unmatched=1, fee_lamports=10)],
        [
            *(1, USDC, hour + 1),
            Sums(20, 50, 180, 3, matched=1, unmatched=1, winning=1, fee_lamports=15),
        ],
    ]
    assert [sale[2:8] for sale in sales] == [
        ("buy", -100, "not_applicable", None, None, None),
        ("sell", 60, "matched", 20, 60, 40),
        ("buy", -50, "not_applicable", None, None, None),
        ("sell", 70, "matched", 20, 70, 50),
    ]


def test_what_a_wallet_tells_of_its_quotes(fresh):
    wallet = fresh()
    rebuild(wallet, Teller().gain(USDC, 500).swap(USDC, 100, "A", 10).entries)
    (books,) = orjson.loads(Wallet.get().by_quote).values()
    told = {name: value for name, value in books["reconciliation"].items() if value not in ("0", 0)}
    assert told == {"closingRaw": "400", "receivedRaw": "500", "openCostRaw": "100"}
    assert books["averageCost"] == {"realizedRaw": "0", "matchedSells": 0}
    assert [(one["mint"], one["costRaw"]) for one in books["positions"]] == [("A", "100")]


def test_books_that_do_not_close_in_a_stablecoin_are_told(fresh):
    """A purchase of which the entry says 97, and the balances 100: 500 came in, 400 are left and 97
    were paid for what is held, so 3 are missing.
    """
    wallet, t = fresh(), Teller().gain(USDC, 500).swap(USDC, 100, "A", 10)
    rebuild(wallet, t.entries)
    assert Wallet.get().quote_imbalance == "{}"
    tokens = [(m, -97 if m == USDC else change, d) for m, change, d in t.entries[-1].tokens]
    t.entries[-1] = t.entries[-1]._replace(tokens=tuple(tokens))
    wallet = fresh()
    rebuild(wallet, t.entries)
    told = Wallet.get()
    assert orjson.loads(told.quote_imbalance) == {USDC: -3} and told.imbalance == 0
    (books,) = orjson.loads(told.by_quote).values()
    assert books["reconciliation"]["differenceRaw"] == "-3"
    (found,) = content_checks.check_sums(storage.database.execute_sql)
    assert (found.level, ADA in found.text) == ("wrong", True)
    assert f"do not balance: -3 raw units of {USDC} are missing" in found.text
    Wallet.update(imbalance=-7).execute()
    (found,) = content_checks.check_sums(storage.database.execute_sql)
    assert f"-7 lamports and -3 raw units of {USDC} are missing" in found.text


def test_a_wallet_without_stablecoins_has_no_rows(fresh):
    rebuild(fresh(), Teller().buy("A", 10, 100).sell("A", 10, 130).entries)
    assert Wallet.get().by_quote == "{}"
    assert not quote_totals().count() + QuoteTrade.select().count()


# ---- in any order --------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(1, 7))
def test_fold_equals_refold(fresh, foxes, seed):
    entries, dice = entries_of(market(seed, length=30)), random.Random(seed)
    truth, wallet, ledger_store = rebuild(fresh(), entries), fresh(), LedgerStore()
    rest = entries if seed % 2 else dice.sample(entries, len(entries))
    assert quote_totals().count() == 0
    while rest:
        size = dice.randint(1, 8)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if dice.random() < 0.7:
            ledger_store.publish(wallet, DONE, BEGIN)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth and quote_totals().count()


@pytest.mark.parametrize("seed", range(3))
def test_no_row_in_sol_is_another_one(fresh, monkeypatch, seed):
    entries = entries_of(market(seed, length=40))
    take_for_quotes(monkeypatch, ())
    alone = orjson.loads(rebuild(fresh(), entries))
    take_for_quotes(monkeypatch, {address("FOX"), address("CAT")})
    beside = orjson.loads(rebuild(fresh(), entries))
    for one, other in zip(alone, beside, strict=True):
        address_, trades, mints, traded, forward, risk, in_quotes, *told, by_quote = other
        assert in_quotes != [[], []] and by_quote != "{}"
        own = [address_, trades, mints, traded, forward, risk]
        assert one == [*own, [[], []], *told, "{}"]


# ---- named and mended ----------------------------------------------------------------------------
@pytest.fixture
def seen(settings, db, foxes):
    chain = market(3, ("ada",), 36)
    return Lookout.begin(settings, FakeNode(chain), wallets=[ADA]).settle()


def places(seen):
    found = inspection.inspect(seen.config, seen.now, False, sleep=lambda _: None)
    return {(one.table, str(one.field).partition("(")[0]) for one in found if one.level != "look"}


def test_whatever_is_changed_behind_the_books_back_is_named_and_mended(seen):
    assert places(seen) == set()
    truth = seen.ledger()
    some = quote_totals().where(RunningTotal.view == 0).get()
    RunningTotal.update(realized=some.realized + 1).where(
        RunningTotal.view == 0, RunningTotal.money == some.money, RunningTotal.hour == some.hour
    ).execute()
    RunningTotal.create(**{**some.__data__, "view": 7})
    QuoteTrade.update(result=5).execute()
    Wallet.update(by_quote=None).execute()
    assert places(seen) == {
        ("running_total", "TotalKey"),
        ("quote_trade", "SaleKey"),
        ("wallet", "by_quote"),
    }
    rebuilding.rebuild(seen.observer.state, list(Wallet.select()), seen.now)
    assert places(seen) == set() and seen.ledger() == truth


def test_a_trade_that_is_gone_takes_its_quote_along(seen):
    ground.hurry()
    Trade.delete().where(Trade.id == QuoteTrade.select().get().trade_id).execute()
    assert ("quote_trade", "SaleKey") in places(seen)
    rebuilding.rebuild(seen.observer.state, list(Wallet.select()), seen.now)
    assert places(seen) == set()


def test_a_trade_that_is_read_anew_as_none_has_no_line_in_a_quote(fresh):
    """Its venue is known by now, and lends: 10 A for 100 USDC are no purchase."""
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10).swap(USDC, 50, "B", 5)
    rebuild(wallet, t.entries)
    first, second = t.entries[-2:]
    dump = first._replace(kind="lending").dump()
    WalletSignature.update(entry=dump).where(WalletSignature.signature == first.signature).execute()
    rebuild(wallet, [])
    told = {row.signature: row.id for row in Trade.select()}
    assert first.signature in told
    assert [row.trade_id for row in QuoteTrade.select()] == [told[second.signature]]


def test_a_transaction_that_is_not_listed_any_more_leaves_no_line_in_a_quote(fresh):
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10).swap(USDC, 50, "B", 5)
    rebuild(wallet, t.entries)
    first, second = t.entries[-2:]
    WalletSignature.delete().where(WalletSignature.signature == first.signature).execute()
    rebuild(wallet, [])
    assert not Trade.select().where(Trade.signature == first.signature).exists()
    assert [row.trade.signature for row in QuoteTrade.select()] == [second.signature]


def test_what_is_no_stablecoin_any_more_leaves_no_line(fresh, monkeypatch):
    """One was exchanged for the other: the same trade stays told of in the one that still is."""
    wallet, t = fresh(), Teller().gain(USDC, 500).swap(USDC, 100, USDT, 90)
    rebuild(wallet, t.entries)
    for left in ([USDC, USDT], [USDC], []):
        take_for_quotes(monkeypatch, left)
        rebuild(wallet, [])
        assert {row.quote for row in QuoteTrade.select()} == set(left)
        assert {row.money for row in quote_totals()} == set(left)


def test_what_has_no_block_time_counts_in_no_span_in_no_quote(fresh):
    """10 A for 100 raw USDC at an unknown time, 5 sold for 60: known in the whole, 60 - 50 = 10. In
    the span the purchase does not count, and its units have unknown cost: the sale is unmatched.
    """
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10).swap("A", 5, USDC, 60)
    bought = t.entries[-2]
    entries = [e._replace(block_time=None) if e is bought else e for e in t.entries]
    Attachment.update(attached_at=0).execute()
    rebuild(wallet, entries)
    ends = {row.view: row for row in quote_totals().order_by(RunningTotal.hour)}
    whole, since = ends[0], ends[Attachment.get().id]
    assert (whole.realized, whole.matched, whole.volume, whole.trades) == (10, 1, 160, 2)
    assert (since.realized, since.matched, since.unmatched) == (0, 0, 1)
    assert (since.volume, since.trades) == (60, 1)
