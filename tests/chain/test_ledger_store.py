"""From stored entries to rows: the stored bytes don't depend on the order of arrival or on how
often receipts are booked. Direct changes are reported and repaired.
"""

import hashlib
import json
import random
from types import SimpleNamespace

import ground
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, Lookout, ledger_of, store_post, watch
from node import FakeNode
from service import add_risk
from story import Story, address, market
from teller import (
    ANY_STEP,
    FEE,
    SOL_STEP,
    STEP,
    Silent,
    Teller,
    mint_of,
    name_accounts,
    play,
    write_sol_steps,
    write_steps,
)
from test_coverage import there_and_back
from textledgers import TextLedger

import models
import storage
from accounts.auto_posts import update_posts
from chain.ledger import coverage, ledger, sales
from chain.ledger.coverage import Progress
from chain.ledger.inventory import SOL, Opening
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import Booked, see_side
from chain.reading.currencies import STABLECOINS
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.store import (
    LedgerStore,
    PendingLedger,
    read_untouched,
)
from chain.stored.tables import RiskTotal, RunningTotal, TokenTotal, TradeMint
from chain.stored.trades import (
    digest_columns,
    make_trade_row,
    mark_differing_trades,
    replace_trades,
    trade_uid,
)
from models import Attachment, Post, Trade, Wallet, WalletSignature
from observing import rebuilding
from operate import doctor, inspection, schema
from web.api.trades import count_sides

ADA, PROGRAMS = address("ada"), table()
ORDER = RunningTotal.money, RunningTotal.view, RunningTotal.hour
DONE = Progress(polled=True, listed=True, confirmed=True, closed=True)


SEED, FLAG = st.integers(0, 10**6), st.booleans()


def drawing(count):
    return effort(
        max_examples=ground.examples(count),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@pytest.fixture
def empty(db):
    ground.hurry()

    def make():
        for model in reversed(schema.TABLES):
            model.delete().execute()
        wallet = watch(ADA)
        wallet.backfilled, wallet.polled_at = True, BEGIN
        wallet.save()
        return wallet

    return make


def entries_of(chain, indexed=True):
    """Entries as fetched, listed at BEGIN."""
    rows = chain.touching(ADA)
    return [
        read_entry(
            parse_receipt({**row.receipt, "transactionIndex": row.index if indexed else None}),
            ADA,
            PROGRAMS,
        )._replace(seen_at=BEGIN)
        for row in rows
    ]


def store(wallet, entries):
    """Store as fetching does; existing rows stay."""
    for e in entries:
        WalletSignature.insert(
            wallet=wallet,
            signature=e.signature,
            slot=e.slot,
            tx_index=e.tx_index,
            state="stored",
            entry=e.dump(),
            seen_at=BEGIN,
        ).on_conflict_ignore().execute()


def rebuild(wallet, entries):
    store(wallet, entries)
    ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    return ledger_of([ADA])


def test_failed_writes_are_repeated_next_time(empty):
    """The disk is full at the end of the first transaction, which is rolled back."""
    entries = entries_of(market(length=20))
    truth, wallet, full = rebuild(empty(), entries), empty(), [False, True]

    def follow_up(wallet, changed, now):
        update_posts(wallet, changed, now)
        if full.pop():
            raise OSError("no space left on device")

    store(wallet, entries)
    ledger_store = LedgerStore(follow_up)
    ledger_store.apply(wallet)
    with pytest.raises(OSError, match="no space"):
        ledger_store.publish(wallet, DONE, BEGIN)
    assert not Trade.select().exists() and not RunningTotal.select().exists()
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth


MISSING = st.sets(st.integers(0, 24), max_size=4)


def lose(entries, missing):
    return [entry for place, entry in enumerate(entries) if place not in missing]


def write_accounts(steps, choices, before):
    """A wallet older than its history, with two accounts per mint."""
    teller = Teller(lamports=10**12, **before)
    for _ in play(name_accounts(teller, steps, iter(choices)), teller, Silent()):
        pass
    return teller.entries


ENTRIES = st.one_of(
    st.builds(lambda seed, indexed: entries_of(market(seed, length=30), indexed), SEED, FLAG),
    st.builds(
        write_accounts,
        st.lists(STEP, min_size=4, max_size=24),
        st.lists(FLAG, min_size=80),
        st.dictionaries(st.sampled_from(["A", "A/2", "B", "B/2"]), st.integers(1, 60)),
    ),
    st.lists(SOL_STEP, min_size=3, max_size=20).map(lambda drawn: write_sol_steps(drawn).entries),
    st.lists(ANY_STEP, min_size=3, max_size=20).map(
        lambda drawn: write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    ),
)


@drawing(60)
@given(entries=ENTRIES, missing=st.just(set()) | MISSING, in_order=FLAG, seed=SEED)
def test_order_and_batches_give_the_bytes_of_one_build(empty, entries, missing, in_order, seed):
    """Some entries are never found, some are stored by another process, some arrive twice, and
    processes restart. Afterwards, a rebuild restores edited rows.
    """
    entries, dice = lose(entries, missing), random.Random(seed)
    rebuild(empty(), sorted(entries, key=lambda one: one.slot))
    truth, wallet = ledger_of([ADA]), empty()
    feed(wallet, entries if in_order else dice.sample(entries, len(entries)), dice)
    assert ledger_of([ADA]) == truth
    kept = Wallet.get()
    assert (kept.imbalance, kept.stablecoin_imbalance) == (0, "{}")
    Wallet.update(reconciliation="{}", imbalance=2, average_cost=None).execute()
    RunningTotal.update(cost_left=RunningTotal.cost_left + 1, failed_cost=9).execute()
    Trade.update(cost_left=5, beside_sol=3, counterparties="[1]").execute()
    mark_differing_trades(wallet.id)
    rebuild(wallet, [])
    assert ledger_of([ADA]) == truth


def feed(wallet, entries, dice):
    """Book entries in batches, and publish and restart now and then."""
    ledger_store, rest = LedgerStore(update_posts), list(entries)
    while rest:
        size = dice.randint(1, 9)
        batch, rest = rest[:size], rest[size:]
        known = {s for (s,) in WalletSignature.select(WalletSignature.signature).tuples()}
        others = dice.sample(entries, min(3, len(entries))) if dice.random() < 0.2 else []
        store(wallet, batch + others)
        if others or dice.random() < 0.2:
            ledger_store.forget(wallet.id)
        ledger_store.apply(wallet, [one for one in batch if one.signature not in known])
        if dice.random() < 0.6:
            ledger_store.publish(wallet, DONE, BEGIN)
        if dice.random() < 0.1:
            ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)


def test_a_batch_is_ordered_after_earlier_entries(empty):
    """In a slot without indices, only the earlier balance decides, even from an earlier batch."""
    entries = [one._replace(seen_at=BEGIN) for one in there_and_back()]
    truth = rebuild(empty(), entries)
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    for batch in (entries[:1], entries[1:]):
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth and b"order_unresolved" not in truth


def test_a_rebuild_writes_only_differences(empty):
    """Followers page by row ID, so a trade keeps it. A late older receipt changes only the sales it
    affects.
    """
    story = Story()
    story.fund("ada", 10**9)
    first = story.buy("ada", "CAT", 10, 1_000_000)
    for _ in range(3):
        story.buy("ada", "CAT", 10, 2_000_000)
        story.sell("ada", "CAT", 5, 3_000_000)
    entries, wallet = entries_of(story.chain()), empty()
    rebuild(wallet, [one for one in entries if one.signature != first])
    before = {one.signature: one for one in Trade.select()}
    rebuild(wallet, entries)
    after = {one.signature: one for one in Trade.select()}
    changed = [after[one].kind for one in before if after[one].digest != before[one].digest]
    assert changed == ["sell"] * 3
    for signature, one in before.items():
        assert (after[signature].id, after[signature].uid) == (one.id, one.uid)
    rows = list(Trade.select().dicts())
    same = {row["signature"]: {n: v for n, v in row.items() if n != "id"} for row in rows}
    assert replace_trades(wallet.id, same) == set()


@pytest.mark.parametrize("slot", [0, 2**40], ids=["before all", "after all"])
def test_a_wrong_stored_slot_is_corrected(empty, slot):
    wallet, entries = empty(), entries_of(market(length=12))
    truth = rebuild(wallet, entries)
    numbers = dict(Trade.select(Trade.signature, Trade.id).tuples())
    Trade.update(slot=slot).where(Trade.signature == entries[5].signature).execute()
    assert mark_differing_trades(wallet.id) == 1
    assert rebuild(wallet, []) == truth
    assert dict(Trade.select(Trade.signature, Trade.id).tuples()) == numbers


def test_a_digest_covers_all_derived_data_by_name():
    """The value is pinned, because changing it would rewrite all trades at startup."""
    entry = entries_of(market(length=5))[-1]
    sale = Booked(entry, see_side(entry, SOL), entry.flags, "matched", 2**60, lots=(("s", 1, 2),))
    row = make_trade_row(SimpleNamespace(id=3, address=ADA), 7, {WHOLE: sale})
    told = {name: row[name] for name in sorted(row) if name not in ("uid", "wallet", "digest")}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    assert row["digest"] == hashlib.sha256(text.encode()).hexdigest()[:24]
    assert digest_columns(dict(reversed(told.items()))) == row["digest"]
    assert digest_columns({**told, "venue": b"7"}) != digest_columns({**told, "venue": "7"})
    assert (row["uid"], row["wallet"]) == (trade_uid(ADA, entry.signature), 3)


def test_checking_stored_rows_keeps_none_in_memory(empty):
    """Starting with many long histories would otherwise exhaust memory."""
    wallet, again = empty(), LedgerStore(update_posts)
    entries = entries_of(market(length=20))
    rebuild(wallet, entries)
    assert again.apply(wallet).chain.count == len(entries) and again._pending[wallet.id].rows == {}
    Trade.update(digest="").where(Trade.signature == entries[3].signature).execute()
    again.forget(wallet.id)
    again.apply(wallet)
    assert list(again._pending[wallet.id].rows) == [entries[3].signature]


STEPS = ("lose newest", "lose", "find", "look", "publish", "restart")


@drawing(25)
@given(seed=SEED, steps=st.lists(st.sampled_from(STEPS), max_size=14))
def test_rereading_gives_the_trades_of_a_fresh_build(empty, seed, steps):
    """Receipts become unreadable and return, including the newest, within one ledger's lifetime: no
    publication has missing or extra rows.
    """
    entries, dice = spread(market(seed, length=14)), random.Random(seed)
    wallet, ledger_store, lost = empty(), LedgerStore(update_posts), []
    store(wallet, entries)
    for step in [*steps, "find", "publish"]:
        if step.startswith("lose") and len(lost) < len(entries):
            rest = [one for one in entries if one not in lost]
            lost.append(rest[-1] if step == "lose newest" else dice.choice(rest))
            rewrite(lost[-1].signature, state="pending", entry=None)
            ledger_store.forget(wallet.id)
        elif step == "find":
            for one in lost:
                rewrite(one.signature, state="stored", entry=one.dump())
            ledger_store.apply(wallet, lost)
            lost = []
        elif step == "restart":
            ledger_store = LedgerStore(update_posts)
        elif step in ("look", "publish"):
            ledger_store.apply(wallet)
        if step == "publish":
            ledger_store.publish(wallet, DONE, BEGIN)
            published = ledger_of([ADA])
            for model in (models.Arrival, TradeMint, Trade, RunningTotal):
                model.delete().execute()
            rebuild(wallet, [])
            assert ledger_of([ADA]) == published


def spread(chain):
    """Its entries, 1,700 seconds apart."""
    entries = enumerate(entries_of(chain))
    return [one._replace(block_time=BEGIN // 1000 + n * 1_700) for n, one in entries]


def rewrite(signature, **columns):
    """Change a stored transaction."""
    changed = WalletSignature.update(**columns).where(WalletSignature.signature == signature)
    assert changed.execute() == 1


def test_rows_that_are_no_longer_trades_are_dropped(empty):
    """One transaction is gone, and another is no trade under other rules."""
    wallet, t = empty(), Teller().buy("A", 10, 100).buy("B", 10, 100).buy("C", 10, 100)
    rebuild(wallet, t.entries)
    _, first, second, _ = t.entries
    WalletSignature.delete().where(WalletSignature.signature == first.signature).execute()
    rewrite(second.signature, entry=second._replace(kind="other").dump())
    rebuild(wallet, [])
    assert list_sides() == [{"B": None}, {"C": "buy"}]
    assert not Trade.select().where(Trade.signature == first.signature).exists()


def list_sides():
    """{mint: bought, sold or neither} of each transaction with tokens."""
    trades = {one.id: {} for one in Trade.select().order_by(Trade.slot)}
    for one in TradeMint.select().order_by(TradeMint.id):
        trades[one.trade_id][one.mint.address] = one.side
    return [sides for sides in trades.values() if sides]


def test_differences_include_deleted_rows(empty):
    """Posts that name either are checked again."""
    wallet = empty()
    rebuild(wallet, entries_of(market(length=6)))
    one, other = (dict(row) for row in Trade.select().limit(2).dicts())
    del one["id"]
    changed = replace_trades(
        wallet.id, {one["signature"]: {**one, "digest": "another"}, other["signature"]: None}
    )
    assert changed == {one["signature"], other["signature"]}
    assert not Trade.select().where(Trade.signature == other["signature"]).exists()


def test_a_trade_row_contains_the_ledgers_amounts(empty):
    """Bought 10 for 1,000,000 and a fee of 5,000; sold 4 of them for 600,000 minus the fee: 595,000
    - 1,005,000 * 4 // 10.
    """
    story = Story()
    story.fund("ada", 10**9)
    bought = story.buy("ada", "CAT", 10, 1_000_000)
    sold = story.sell("ada", "CAT", 4, 600_000)
    rebuild(empty(), entries_of(story.chain()))
    t, wallet = Trade.get(Trade.signature == sold), Wallet.get()
    assert (t.uid, t.kind, t.venue, t.realized) == (
        *(trade_uid(ADA, sold), "sell", "pump.fun", "matched"),
    )
    assert (t.result, t.proceeds, t.cost) == (193_000, 595_000, 402_000)
    assert (t.matched_raw, t.unmatched_raw) == ("4", "0")
    assert (t.sol_change, t.fee, t.rent) == (595_000, 5_000, 0)
    assert orjson.loads(t.lots) == [[trade_uid(ADA, bought), "4", "402000"]]
    assert orjson.loads(t.token_changes) == [[address("CAT"), "-4", 6]]
    assert orjson.loads(wallet.results)["realizedSol"] == "0.000193"
    assert wallet.last_trade_at == t.block_time * 1000
    (position,) = orjson.loads(wallet.positions)
    held = {"mint": address("CAT"), "amountRaw": "6", "decimals": 6}
    assert position == {**held, "costLamports": "603000", "unknownBasisRaw": "0"}


# Each transaction and, after `=>`, which side of each of its mints was traded.
TRADED = """
gain 20 C => C -
buy 10 A for 100 => A buy
sell 120 -4 A of A beside 900 -1 A 2 B => A sell, B -
buy -100 10 D of D [value_unexplained] => D -
swap -1 A 2 B of B [value_unexplained] => A -, B -
swap 1 A -1 D of A beside 6 D => A buy, D sell
round_trip 50 1 A of A => A -
round_trip 50 of A => A -
round_trip 50 1 B of C => B -, C -
buy -100 10 A of A beside -10 A => A buy
sell 60 -4 B of B beside 4 B => B sell
swap -7 C 3 D 1 E of D beside 7 C left E [residue] => C sell, D buy, E -
gain 500 Q => Q -
swap -100 Q 10 A of A => A buy, Q -
swap -10 A 120 Q of Q => A sell, Q -
"""


def test_only_venue_amounts_were_bought_or_sold(empty):
    """Also of tokens that were sent on or received in the same transaction; not of a round trip,
    of value without an explanation, or of the stablecoin that paid.
    """
    rows = [line.split(" => ") for line in TRADED.strip().splitlines()]
    rebuild(empty(), TextLedger("\n".join(told for told, _ in rows)).teller.entries)
    sides = [dict(one.split() for one in expected.split(", ")) for _, expected in rows]
    assert list_sides() == [
        {mint_of(mint): None if side == "-" else side for mint, side in one.items()}
        for one in sides
    ]
    assert not mark_differing_trades(Wallet.get().id)
    for one in TradeMint.select():
        assert (one.slot, one.place) == (one.trade.slot, one.trade.place)


def test_coverage_has_the_shape_of_the_api(empty):
    chain = market(length=12)
    wallet = empty()
    rebuild(wallet, entries_of(chain))
    said, rows = orjson.loads(Wallet.get().coverage), chain.touching(ADA)
    assert said == {
        "state": "complete",
        "observedFrom": "2026-11-05T12:08:20Z",
        "observedTo": said["observedTo"],
        "firstSlot": rows[0].slot,
        "lastSlot": rows[-1].slot,
        "checkedAt": "2026-11-05T12:00:00Z",
        "receipts": len(rows),
        "pending": 0,
        "gaps": [],
        "openingInventoryUnknown": [],
        "note": None,
    }


def test_missing_parts_are_listed_by_slot_with_reasons(empty):
    """A purchase that was never found shows in lamports and in the account it opened."""
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    story.sell("ada", "CAT", 100, 700_000)
    first, _, last = entries_of(story.chain())
    rebuild(empty(), [first, last])
    told = orjson.loads(Wallet.get().coverage)
    assert told["state"] == "partial" and told["openingInventoryUnknown"] == [address("CAT")]
    between = {"fromSlot": first.slot, "toSlot": last.slot}
    reasons = "balance_break", "opening_balance"
    assert told["gaps"] == [{**between, "reason": reason} for reason in reasons]


def test_a_changed_kind_updates_every_post_naming_it(empty):
    """The program table changed, so seven hundred purchases no longer are: each post naming one is
    checked again, however many rows changed.
    """
    wallet, t = empty(), Teller()
    for _ in range(700):
        t.buy("A", 1, 1_000)
    bought = t.entries[1:]
    for n in (1, 350, 699):
        store_post(wallet, bought[n].signature, n)
    rebuild(wallet, t.entries)
    assert {one.status for one in Post.select()} == {"verified"}
    for one in bought:
        rewrite(one.signature, entry=one._replace(kind="lending").dump())
    rebuild(wallet, [])
    found = {(one.status, one.status_reason) for one in Post.select()}
    assert found == {("mismatch", "not_a_trade")}


def verification_of(post):
    post = Post.get_by_id(post.id)
    return post.status, post.status_reason, post.trade_id is not None


def told():
    """The posts whose followers were told of a verification, in order."""
    rows = models.Arrival.select(models.Arrival.post).order_by(models.Arrival.id).tuples()
    return [post for (post,) in rows.where(models.Arrival.kind == "verification")]


@pytest.mark.parametrize("source", ["bot", "observer"])
@pytest.mark.parametrize(
    "mint, right",
    [(None, ("verified", None, True)), ("FOX", ("mismatch", "mint_not_in_trade", True))],
)
def test_a_verified_post_waits_while_its_trade_is_missing(empty, source, mint, right):
    """A checked post's receipt becomes unreadable: the post waits again and its followers are
    notified; when the trade returns, so does the label.
    """
    wallet, (funded, bought) = empty(), buy_cats()
    post = store_post(wallet, bought.signature)
    Post.update(source=source, mint=mint and address(mint)).execute()
    for n in (1, 3):
        rebuild(wallet, [funded, bought])
        assert verification_of(post) == right and told() == [post.id] * n
        rewrite(bought.signature, state="pending", entry=None)
        rebuild(wallet, [])
        assert verification_of(post) == ("pending", None, False) and told() == [post.id] * (n + 1)
        rewrite(bought.signature, state="stored", entry=bought.dump())


def buy_cats():
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 10, 1_000_000)
    return entries_of(story.chain())


def test_a_deleted_trade_leaves_no_verified_post(empty):
    """The row was deleted by hand while the ledger was in memory: the next publication withdraws
    the label, and the next rebuild restores both.
    """
    wallet, entries, ledger_store = empty(), buy_cats(), LedgerStore(update_posts)
    store(wallet, entries)
    post = store_post(wallet, entries[1].signature)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    Trade.delete().where(Trade.signature == entries[1].signature).execute()
    ledger_store.publish(wallet, DONE, BEGIN)
    assert verification_of(post) == ("pending", None, False)
    rebuild(wallet, [])
    assert verification_of(post) == ("verified", None, True)


# ---- windows of time -----------------------------------------------------------------------------
SUMS = """SELECT COALESCE(SUM(result), 0), COALESCE(SUM(CASE WHEN kind IN ('buy', 'sell') THEN
    ABS(sol_change) END), 0), SUM(CASE WHEN kind IN ('buy', 'sell', 'swap', 'round_trip')
    THEN 1 END), SUM(CASE realized WHEN 'matched' THEN 1 END),
SUM(CASE realized WHEN 'partial' THEN 1 END), SUM(CASE WHEN realized = 'unmatched'
    AND flags NOT LIKE '%incomplete_history%' THEN 1 END),
SUM(CASE WHEN result > 0 THEN 1 END), SUM(cost_left),
SUM(CASE WHEN result IS NOT NULL THEN cost END),
SUM(CASE WHEN result IS NOT NULL THEN proceeds END) FROM trade WHERE block_time >= ?"""
SUMMED = (
    *("realized", "volume", "trades", "matched", "partial", "unmatched", "winning"),
    *("cost_left", "cost", "proceeds"),
)


@drawing(12)
@given(seed=SEED, first=st.lists(FLAG, min_size=24, max_size=24))
def test_a_window_equals_the_sum_of_its_trades(empty, seed, first):
    """Hourly totals against the sum of all trades: applied at once, in parts, late, and by a new
    process.
    """
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    entries = spread(market(seed, length=24))
    for is_first in (True, False):
        store(
            wallet, [one for one, early in zip(entries, first, strict=False) if early == is_first]
        )
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
        check_windows(len(entries))
    RunningTotal.delete().execute()
    rebuild(wallet, [])
    check_windows(len(entries))


def check_windows(count):
    """Every window that begins with an hour."""
    rows = list(RunningTotal.select().where(RunningTotal.view == 0).order_by(RunningTotal.hour))
    for hour in {(BEGIN // 1000 + n * 1_700) // 3600 for n in range(count + 1)} | {0}:
        summed = storage.database.execute_sql(SUMS, (hour * 3600,)).fetchone()
        ends = rows[-1:], [row for row in rows if row.hour < hour][-1:]
        last, before = [[getattr(end[0], name) if end else 0 for name in SUMMED] for end in ends]
        found = [after - sooner for after, sooner in zip(last, before, strict=True)]
        assert found == [int(value or 0) for value in summed]


def test_wrong_missing_and_extra_totals_are_repaired(empty):
    wallet = empty()
    rebuild(wallet, spread(market(7)))
    rows = RunningTotal.select().order_by(*ORDER)
    right, hours = list(rows.tuples()), [row.hour for row in rows]
    assert len(right) > 5
    RunningTotal.update(volume=1).where(RunningTotal.hour == hours[1]).execute()
    RunningTotal.delete().where(RunningTotal.hour == hours[2]).execute()
    RunningTotal.update(hour=hours[-1] + 99).where(RunningTotal.hour == hours[3]).execute()
    assert list(rows.tuples()) != right
    rebuild(wallet, [])
    assert list(rows.tuples()) == right


def test_risk_rows_of_a_removed_span_are_dropped(empty):
    """Also of a token without sales; correct rows stay unchanged."""
    wallet = empty()
    rebuild(wallet, entries_of(market(7)))
    stretches, tokens = RiskTotal.select().tuples(), TokenTotal.select().tuples()
    right = sorted(stretches, key=repr), sorted(tokens, key=repr)
    assert all(right)
    add_risk(wallet, 99, [5])
    for view, mint in ((99, "M"), (0, "never sold")):
        TokenTotal.create(
            wallet=wallet, money=SOL, view=view, mint=mint, realized=1, sales=1, winning=1
        )
    rebuild(wallet, [])
    assert (sorted(stretches.clone(), key=repr), sorted(tokens.clone(), key=repr)) == right


def test_entries_without_a_block_time_count_in_the_hour_before():
    """7,200 seconds are two hours; without indices, places in a slot are counted."""
    t = Teller().gain("A", 1).gain("A", 1).gain("A", 1)
    times, slots = (7_200, None, 7_199, 10_800), (5, 5, 6, 6)
    pending, told = PendingLedger(Ledger()), []
    for entry, time, slot in zip(t.entries, times, slots, strict=True):
        entry = entry._replace(block_time=time, slot=slot, tx_index=None)
        place, _ = pending.book(entry)
        told.append((place, pending.ledger.hour, pending.last_time))
    assert told == [(0, 2, 7_200), (1, 2, 7_200), (0, 2, 7_199), (1, 3, 10_800)]
    assert pending.first_time == 7_200
    assert pending.book(entry._replace(slot=7, tx_index=9))[0] == 9


def test_a_row_for_an_untouched_balance_is_an_opening():
    found = read_untouched(lambda sql: [("an account", "A", "5", 6)], 1)
    assert found == {"an account": Opening((0, 2**63, 0, "an account"), "A", 5, 6)}


# ---- where the money went -----------------------------------------------------------------------
def publish(wallet, entries):
    rebuild(wallet, entries)
    return Wallet.get(Wallet.address == ADA)


def test_every_sum_has_its_documented_name(empty):
    """10@100 A: 4 sold for 60 (20), 2 lost (20 of cost), 4 become 2 D (40). 3 B of unknown cost
    sold for 30. 5@? and 5@50 C sold for 200: half of it minus 50 (50), the other half unmatched.
    The worst case is 70 - 20 - 40. 40 and 50 sold for 60 and 100: 70 on 90. The position in A lost,
    that in C won, and that in D is open.
    """
    t = Teller().buy("A", 10, 100).sell("A", 4, 60).lose("A", 2).swap("A", 4, "D", 2)
    t.write("failed", -FEE, FEE).gain("B", 3).sell("B", 3, 30)
    t.gain("C", 5).buy("C", 5, 50).sell("C", 10, 200)
    wallet, row = publish(empty(), t.entries), RunningTotal.get()
    assert (row.failed, row.failed_cost, row.overhead) == (1, FEE, FEE)
    assert (row.cost_left, row.cost_left_receipts, row.carried) == (20, 1, 1)
    assert json.loads(wallet.average_cost) == {"realizedLamports": "70", "matchedSells": 1}
    assert wallet.by_stablecoin == "{}"
    assert json.loads(wallet.results) == {
        "realizedLamports": "70",
        "realizedSol": "0.00000007",
        "worstCaseLamports": "10",
        "worstCaseSol": "0.00000001",
        "returnPct": "77.78",
        "winRate": "0.5000",
        "positions": 2,
        "positionsWon": 1,
        "positionsOpen": 1,
        "matchedSells": 1,
        "partialSells": 1,
        "unmatchedSells": 1,
        "winningSells": 2,
        "volumeLamports": str(100 + 60 + 30 + 50 + 200),
        "volumeSol": "0.00000044",
        "observedTrades": 6,
        "failedTransactions": 1,
        "failedCostLamports": str(FEE),
        "overheadLamports": str(FEE),
        "costLeftLamports": "20",
        "costLeftReceipts": 1,
        "carriedLots": 1,
        "openPositions": 1,
    }
    held = {"mint": "D", "amountRaw": "2", "decimals": 0}
    assert json.loads(wallet.positions) == [{**held, "costLamports": "40", "unknownBasisRaw": "0"}]
    assert json.loads(wallet.reconciliation) == {
        "openingLamports": "0",
        "closingLamports": str(10**12 - 100 + 60 - 2 * FEE + 30 - 50 + 200),
        "realizedLamports": "70",
        "unmatchedProceedsLamports": str(30 + 100),
        "openCostLamports": "40",
        "costLeftLamports": "20",
        "costLeftReceipts": 1,
        "receivedLamports": str(10**12),
        "sentLamports": "0",
        "overheadLamports": str(FEE),
        "failedCostLamports": str(FEE),
        "otherLamports": "0",
        "differenceLamports": "0",
        "gapLamports": "0",
    }


def test_there_is_no_reconciliation_until_the_history_is_complete(empty):
    wallet = empty()
    wallet.backfilled = False
    wallet.save()
    assert publish(wallet, Teller().buy("A", 10, 100).entries).reconciliation is None


def test_a_trade_shows_value_from_outside_its_venue(empty):
    t = Teller().buy("A", 10, 100)
    t.write("sell", 120, FEE, [("A", -4)], "A", beside_sol=900, beside=[("A", -1), ("B", 2)])
    publish(empty(), t.entries)
    sale = Trade.get(Trade.kind == "sell")
    assert (sale.sol_change, sale.beside_sol, sale.result, sale.cost_left) == (1020, 900, 80, 10)
    assert json.loads(sale.beside_tokens) == [["A", "-1", 0], ["B", "2", 0]]
    assert json.loads(sale.token_changes) == [["A", "-5", 0], ["B", "2", 0]]
    assert (sale.explained, sale.counterparties) == (None, "[]")


def test_each_wallet_that_traded_a_token_counts_once(empty):
    t = Teller().buy("A", 10, 100).buy("A", 5, 60).buy("B", 7, 70).sell("A", 4, 60)
    publish(empty(), t.entries)
    assert count_sides("A") == {"buy": 1, "sell": 1}
    bought = TradeMint.get(TradeMint.side == "buy")
    for n in range(2):
        other = watch(f"other {n}")
        for slot in range(3):
            TradeMint.create(
                trade=bought.trade, wallet=other, mint=bought.mint, side="buy", slot=slot
            )
    assert count_sides("A") == {"buy": 3, "sell": 1}
    assert count_sides("C") == {"buy": 0, "sell": 0}


# ---- stablecoins --------------------------------------------------------------------------------
USDC, USDT, *_ = (quote.mint for quote in STABLECOINS)


def take_for_quotes(monkeypatch, mints):
    for module in (coverage, ledger, sales):
        monkeypatch.setattr(module, "MINTS", frozenset(mints))


def in_stablecoins():
    return RunningTotal.select().where(RunningTotal.money != "")


def priced():
    """Trades with a result or a cost in a stablecoin."""
    return Trade.select().where(Trade.currency != "").order_by(Trade.slot)


COUNTED = ("realized", "cost", "volume", "trades", "matched", "unmatched", "winning")


def test_a_wallet_and_its_span_have_rows(empty):
    """In full: 10 A for 100 raw USDC, 4 of them sold for 60: 60 - 40 = 20, then 5 B bought for 50
    and sold for 70: 20. The span begins after the first purchase, with 10 A of unknown cost, so
    there the first sale is unmatched. Everything is within an hour, so each has one row. An
    exchange of stablecoins is no trade.
    """
    wallet, t = empty(), Teller().gain(USDC, 500).swap(USDC, 100, "A", 10)
    Attachment.update(attached_at=1000 * t.entries[-1].slot + 1).execute()
    t.swap("A", 4, USDC, 60).swap(USDC, 50, "B", 5).swap("B", 5, USDC, 70).swap(USDC, 10, USDT, 9)
    rebuild(wallet, t.entries)
    whole, since = in_stablecoins().where(RunningTotal.money == USDC).order_by(RunningTotal.view)
    assert (whole.view, since.view) == (0, Attachment.get().id)
    assert [getattr(whole, name) for name in COUNTED] == [40, 90, 280, 4, 2, 0, 2]
    assert [getattr(since, name) for name in COUNTED] == [20, 50, 180, 3, 1, 1, 1]
    assert (whole.fee_lamports, since.fee_lamports) == (4 * FEE, 3 * FEE)
    assert [(one.realized, one.result, one.proceeds, one.cost) for one in priced()] == [
        ("not_applicable", None, None, None),
        ("matched", 20, 60, 40),
        ("not_applicable", None, None, None),
        ("matched", 20, 70, 50),
    ]


def test_a_wallet_shows_its_stablecoin_results(empty):
    wallet = empty()
    rebuild(wallet, Teller().gain(USDC, 500).swap(USDC, 100, "A", 10).entries)
    (books,) = orjson.loads(Wallet.get().by_stablecoin).values()
    told = {name: value for name, value in books["reconciliation"].items() if value not in ("0", 0)}
    assert told == {"closingRaw": "400", "receivedRaw": "500", "openCostRaw": "100"}
    assert books["averageCost"] == {"realizedRaw": "0", "matchedSells": 0}
    assert [(one["mint"], one["costRaw"]) for one in books["positions"]] == [("A", "100")]


def test_books_that_do_not_balance_are_reported(empty):
    """Two purchases say 97, and the balances 100: 3 are missing."""
    t = Teller().gain(USDC, 500).swap(USDC, 100, "A", 10).buy("B", 10, 100)
    ask = storage.database.execute_sql
    rebuild(empty(), t.entries)
    assert [one.level for one in doctor.check_sums(ask)] == ["fine"]
    tokens = [(m, -97 if m == USDC else change, d) for m, change, d in t.entries[-2].tokens]
    t.entries[-2] = t.entries[-2]._replace(tokens=tuple(tokens))
    t.entries[-1] = t.entries[-1]._replace(sol=-97)
    wallet = publish(empty(), t.entries)
    assert (wallet.imbalance, json.loads(wallet.stablecoin_imbalance)) == (-3, {USDC: -3})
    assert json.loads(wallet.reconciliation)["differenceLamports"] == "-3"
    (books,) = json.loads(wallet.by_stablecoin).values()
    assert books["reconciliation"]["differenceRaw"] == "-3"
    missing = f"-3 raw units of {USDC} are missing"
    for told in (f"don't balance: -3 lamports and {missing}", f"don't balance: {missing}"):
        (found,) = doctor.check_sums(ask)
        assert found.level == "wrong" and ADA in found.text and told in found.text
        Wallet.update(imbalance=0).execute()


def places(seen):
    found = inspection.inspect(seen.config, seen.now, False, sleep=lambda _: None)
    return {(one.table, str(one.field).partition("(")[0]) for one in found if one.level != "look"}


def test_silent_changes_are_named_and_repaired(settings, db, monkeypatch):
    """FOX, which all swaps return, and CAT, which they use, are stablecoins."""
    take_for_quotes(monkeypatch, {address("FOX"), address("CAT")})
    seen = Lookout.begin(settings, FakeNode(market(3, ("ada",), 36)), wallets=[ADA]).settle()
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


def test_a_removed_stablecoin_leaves_no_line(empty, monkeypatch):
    wallet, t = empty(), Teller().gain(USDC, 500).swap(USDC, 100, "A", 90)
    rebuild(wallet, t.entries)
    for left in ([USDC, USDT], [USDT]):
        take_for_quotes(monkeypatch, left)
        rebuild(wallet, [])
        here = {USDC} & set(left)
        assert {row.currency for row in priced()} == here
        assert {row.money for row in in_stablecoins()} == here
