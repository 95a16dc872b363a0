"""Stored stablecoin trades: the order of arrival doesn't change the rows, rows in SOL are
unaffected, and direct changes are reported and repaired.
"""

import random

import ground
import orjson
import pytest
import sampling
from lookout import BEGIN, Lookout, ledger_of, watch
from node import FakeNode
from story import address, market
from teller import Teller
from test_ledger_store import ADA, DONE, entries_of, rebuild, store

import storage
from chain.ledger import coverage, ledger, sales
from chain.reading.currencies import STABLECOINS
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal
from models import Attachment, Trade, Wallet
from observing import rebuilding
from operate import doctor, inspection, schema

USDC, USDT, *_ = (quote.mint for quote in STABLECOINS)
SUMS = ("realized", "cost", "volume", "trades", "matched", "unmatched", "winning", "fee_lamports")


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
    """The story's FOX, which all swaps return, is a stablecoin, and so is CAT, which they use."""
    return take_for_quotes(monkeypatch, {address("FOX"), address("CAT")})


def take_for_quotes(monkeypatch, mints):
    for module in (coverage, ledger, sales):
        monkeypatch.setattr(module, "MINTS", frozenset(mints))
    return mints


def in_stablecoins():
    return RunningTotal.select().where(RunningTotal.money != "")


def priced():
    """Trades with a result or a cost in a stablecoin."""
    return Trade.select().where(Trade.currency != "").order_by(Trade.slot)


# ---- by hand -------------------------------------------------------------------------------------
def test_a_wallet_and_its_span_have_rows(fresh):
    """In full: 10 A for 100 raw USDC, 4 of them sold for 60: 60 - 40 = 20, then 5 B bought for 50
    and sold for 70: 20. The span begins after the first purchase, with 10 A of unknown cost, so
    there the first sale is unmatched. Everything is within an hour, so each has one row.
    """
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10)
    first = t.entries[-1].slot
    Attachment.update(attached_at=1000 * first + 1).execute()
    t.swap("A", 4, USDC, 60).swap(USDC, 50, "B", 5).swap("B", 5, USDC, 70)
    rebuild(wallet, t.entries)
    whole, since = in_stablecoins().order_by(RunningTotal.view)
    assert (whole.view, since.view) == (0, Attachment.get().id)
    fee = t.entries[-1].fee
    assert [getattr(whole, name) for name in SUMS] == [
        *(20 + 20, 40 + 50, 100 + 60 + 50 + 70, 4, 2, 0, 2, 4 * fee)
    ]
    assert [getattr(since, name) for name in SUMS] == [*(20, 50, 60 + 50 + 70, 3, 1, 1, 1, 3 * fee)]
    assert [(one.realized, one.result, one.proceeds, one.cost) for one in priced()] == [
        ("not_applicable", None, None, None),
        ("matched", 20, 60, 40),
        ("not_applicable", None, None, None),
        ("matched", 20, 70, 50),
    ]


def test_exchanging_stablecoins_has_a_price_in_neither(fresh):
    """100 USDC became 90 USDT: no trade has a result, and 90 USDT sold for SOL have no cost."""
    wallet, t = fresh(), Teller().gain(USDC, 500).swap(USDC, 100, USDT, 90)
    rebuild(wallet, t.entries)
    assert not priced().count()
    assert [(one.realized, one.trades) for one in in_stablecoins()] == []
    books = orjson.loads(Wallet.get().by_stablecoin)
    assert {books[mint]["reconciliation"]["otherRaw"] for mint in (USDC, USDT)} == {"-100", "90"}
    assert orjson.loads(Wallet.get().stablecoin_imbalance) == {}


def test_a_wallet_shows_its_stablecoin_results(fresh):
    wallet = fresh()
    rebuild(wallet, Teller().gain(USDC, 500).swap(USDC, 100, "A", 10).entries)
    (books,) = orjson.loads(Wallet.get().by_stablecoin).values()
    told = {name: value for name, value in books["reconciliation"].items() if value not in ("0", 0)}
    assert told == {"closingRaw": "400", "receivedRaw": "500", "openCostRaw": "100"}
    assert books["averageCost"] == {"realizedRaw": "0", "matchedSells": 0}
    assert [(one["mint"], one["costRaw"]) for one in books["positions"]] == [("A", "100")]


def test_unreconciled_stablecoins_are_reported(fresh):
    """The entry of a purchase says 97 and the balances 100: 500 came in, 400 are left, and 97 were
    paid for holdings, so 3 are missing.
    """
    wallet, t = fresh(), Teller().gain(USDC, 500).swap(USDC, 100, "A", 10)
    rebuild(wallet, t.entries)
    assert Wallet.get().stablecoin_imbalance == "{}"
    tokens = [(m, -97 if m == USDC else change, d) for m, change, d in t.entries[-1].tokens]
    t.entries[-1] = t.entries[-1]._replace(tokens=tuple(tokens))
    wallet = fresh()
    rebuild(wallet, t.entries)
    told = Wallet.get()
    assert orjson.loads(told.stablecoin_imbalance) == {USDC: -3} and told.imbalance == 0
    (books,) = orjson.loads(told.by_stablecoin).values()
    assert books["reconciliation"]["differenceRaw"] == "-3"
    (found,) = doctor.check_sums(storage.database.execute_sql)
    assert (found.level, ADA in found.text) == ("wrong", True)
    assert f"don't balance: -3 raw units of {USDC} are missing" in found.text
    Wallet.update(imbalance=-7).execute()
    (found,) = doctor.check_sums(storage.database.execute_sql)
    assert f"-7 lamports and -3 raw units of {USDC} are missing" in found.text


def test_a_wallet_without_stablecoins_has_no_rows(fresh):
    rebuild(fresh(), Teller().buy("A", 10, 100).sell("A", 10, 130).entries)
    assert Wallet.get().by_stablecoin == "{}"
    assert not in_stablecoins().count() + priced().count()


# ---- in any order --------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", sampling.sample(range(1, 7), 2))
def test_incremental_and_full_builds_are_equal(fresh, foxes, seed):
    entries, dice = entries_of(market(seed, length=30)), random.Random(seed)
    truth, wallet, ledger_store = rebuild(fresh(), entries), fresh(), LedgerStore()
    rest = entries if seed % 2 else dice.sample(entries, len(entries))
    assert in_stablecoins().count() == 0
    while rest:
        size = dice.randint(1, 8)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if dice.random() < 0.7:
            ledger_store.publish(wallet, DONE, BEGIN)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth and in_stablecoins().count()


# ---- named and mended ----------------------------------------------------------------------------
@pytest.fixture
def seen(settings, db, foxes):
    chain = market(3, ("ada",), 36)
    return Lookout.begin(settings, FakeNode(chain), wallets=[ADA]).settle()


def places(seen):
    found = inspection.inspect(seen.config, seen.now, False, sleep=lambda _: None)
    return {(one.table, str(one.field).partition("(")[0]) for one in found if one.level != "look"}


def test_silent_changes_are_named_and_repaired(seen):
    assert places(seen) == set()
    truth = seen.ledger()
    some = in_stablecoins().where(RunningTotal.view == 0).dicts().get()
    RunningTotal.update(realized=some["realized"] + 1).where(
        RunningTotal.view == 0,
        RunningTotal.money == some["money"],
        RunningTotal.hour == some["hour"],
    ).execute()
    RunningTotal.create(**{**some, "view": 7})
    Trade.update(result=5).where(Trade.currency != "").execute()
    Wallet.update(by_stablecoin=None).execute()
    key = f"{some['money']} 0 {some['hour']}"
    assert places(seen) == {
        ("running_total", f"{key} realized"),
        ("running_total", f"{some['money']} 7 {some['hour']}"),
        ("trade", "result"),
        ("wallet", "by_stablecoin"),
    }
    rebuilding.rebuild(seen.observer.state, list(Wallet.select()), seen.now)
    assert places(seen) == set() and seen.ledger() == truth


def test_a_removed_stablecoin_leaves_no_line(fresh, monkeypatch):
    wallet, t = fresh(), Teller().gain(USDC, 500).swap(USDC, 100, "A", 90)
    rebuild(wallet, t.entries)
    for left in ([USDC, USDT], [USDT]):
        take_for_quotes(monkeypatch, left)
        rebuild(wallet, [])
        here = {USDC} & set(left)
        assert {row.currency for row in priced()} == here
        assert {row.money for row in in_stablecoins()} == here


def test_entries_without_a_block_time_are_in_no_stablecoin_span(fresh):
    """10 A for 100 raw USDC at an unknown time, 5 sold for 60: known overall, 60 - 50 = 10. In the
    span the purchase doesn't count and its units have unknown cost, so the sale is unmatched.
    """
    wallet, t = fresh(), Teller()
    t.gain(USDC, 500).swap(USDC, 100, "A", 10).swap("A", 5, USDC, 60)
    bought = t.entries[-2]
    entries = [e._replace(block_time=None) if e is bought else e for e in t.entries]
    Attachment.update(attached_at=0).execute()
    rebuild(wallet, entries)
    ends = {row.view: row for row in in_stablecoins().order_by(RunningTotal.hour)}
    whole, since = ends[0], ends[Attachment.get().id]
    assert (whole.realized, whole.matched, whole.volume, whole.trades) == (10, 1, 160, 2)
    assert (since.realized, since.matched, since.unmatched) == (0, 0, 1)
    assert (since.volume, since.trades) == (60, 1)
