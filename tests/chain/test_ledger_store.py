"""From stored entries to rows: the stored bytes don't depend on the order of arrival or on how
often receipts are booked.
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
from lookout import BEGIN, ledger_of, watch
from service import add_risk
from story import Story, address, market
from teller import STEP, Silent, Teller, account, play

import models
import storage
from accounts.auto_posts import update_posts
from chain.ledger.coverage import Progress
from chain.ledger.inventory import SOL, Opening
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import Booked, see_side
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.store import (
    LedgerStore,
    PendingLedger,
    list_entries,
    read_untouched,
)
from chain.stored.tables import RiskTotal, RunningTotal, TokenTotal, TradeMint
from chain.stored.trades import (
    digest_columns,
    list_moved,
    make_trade_row,
    mark_differing_trades,
    replace_trades,
    to_json,
    trade_uid,
)
from models import Post, Trade, Wallet, WalletSignature
from operate import schema

ADA, PROGRAMS = address("ada"), table()
ORDER = RunningTotal.money, RunningTotal.view, RunningTotal.hour
DONE = Progress(polled=True, listed=True, confirmed=True, closed=True)


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


@effort(
    max_examples=ground.examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**6), indexed=st.booleans(), data=st.data())
def test_incremental_and_full_builds_are_equal(empty, seed, indexed, data):
    """Receipts in any order and batches, some twice, some lost from memory: byte for byte one
    rebuild's ledger.
    """
    entries = entries_of(market(seed, length=30), indexed)
    truth, dice = rebuild(empty(), entries), random.Random(data.draw(st.integers(0, 10**6)))
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    rest = dice.sample(entries, len(entries)) if data.draw(st.booleans()) else list(entries)
    while rest:
        size = dice.randint(1, 12)
        batch, rest = rest[:size], rest[size:]
        known = {s for (s,) in WalletSignature.select(WalletSignature.signature).tuples()}
        store(wallet, batch + dice.sample(entries, 3 if dice.random() < 0.2 else 0))
        new = [e for e in batch if e.signature not in known]
        if dice.random() < 0.3 or WalletSignature.select().count() != len(known) + len(new):
            # A restart, or another process stored some.
            ledger_store.forget(wallet.id)
        ledger_store.apply(wallet, new)
        if dice.random() < 0.7:
            ledger_store.publish(wallet, DONE, BEGIN)
        if dice.random() < 0.1:
            ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth


@effort(
    max_examples=ground.examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    steps=st.lists(STEP, min_size=4, max_size=24),
    choices=st.lists(st.booleans(), min_size=80),
    before=st.dictionaries(st.sampled_from(["A", "A/2", "B", "B/2"]), st.integers(1, 60)),
    missing=st.sets(st.integers(0, 24), max_size=4),
    seed=st.integers(0, 10**6),
)
def test_discovery_order_does_not_matter(empty, steps, choices, before, missing, seed):
    """A wallet older than its history, two accounts per mint, gaps: whatever is found first, the
    ledger equals one rebuild's.
    """
    teller, picks, dice = Teller(lamports=10**12, **before), iter(choices), random.Random(seed)
    steps = [
        (
            verb,
            account(teller, mint, picks),
            *([more[0], account(teller, more[1], picks), *more[2:]] if verb == "swap" else more),
        )
        for verb, mint, *more in steps
    ]
    for _ in play(steps, teller, Silent()):
        pass
    entries = [e for n, e in enumerate(teller.entries) if n not in missing]
    truth = rebuild(empty(), entries)
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    rest = list(entries) if dice.random() < 0.5 else dice.sample(entries, len(entries))
    while rest:
        size = dice.randint(1, 4)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if dice.random() < 0.5:
            ledger_store.publish(wallet, DONE, BEGIN)
        if dice.random() < 0.1:
            ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert ledger_of([ADA]) == truth


def test_a_batch_is_ordered_after_earlier_entries(empty):
    """Ten lamports leave and return in a slot without indices: only the earlier balance decides,
    even if it came in an earlier batch.
    """
    story = Story()
    story.fund("ada", 50)
    story.transact("bank", [("lamports", "ada", "eve", 10)])
    story.same_slot()
    story.transact("bank", [("lamports", "eve", "ada", 10)])
    first, *pair = entries_of(story.chain(), indexed=False)
    truth = rebuild(empty(), [first, *pair])
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    for batch in ([first], pair):
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
    entries = entries_of(story.chain())
    wallet = empty()
    rebuild(wallet, [e for e in entries if e.signature != first])
    before = {t.signature: (t.id, t.uid, t.digest) for t in Trade.select()}
    rebuild(wallet, entries)
    after = {t.signature: (t.id, t.uid, t.digest) for t in Trade.select()}
    assert all(after[s][:2] == before[s][:2] for s in before)
    changed = {s for s in before if after[s] != before[s]}
    assert {Trade.get(Trade.signature == s).kind for s in changed} == {"sell"} and len(changed) == 3
    rows = [dict(t) for t in Trade.select().dicts()]
    assert (
        replace_trades(
            wallet.id,
            {
                row["signature"]: {name: value for name, value in row.items() if name != "id"}
                for row in rows
            },
        )
        == set()
    )


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
    owner = SimpleNamespace(id=3, address=ADA)
    row = make_trade_row(
        owner,
        7,
        {
            WHOLE: Booked(
                entry, see_side(entry, SOL), entry.flags, "matched", 2**60, lots=(("s", 1, 2),)
            )
        },
    )
    told = {name: row[name] for name in sorted(row) if name not in ("uid", "wallet", "digest")}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    assert row["digest"] == hashlib.sha256(text.encode()).hexdigest()[:24]
    assert digest_columns(dict(reversed(told.items()))) == row["digest"]
    assert row["uid"] == trade_uid(ADA, entry.signature) and row["wallet"] == 3


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


@effort(
    max_examples=ground.examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_rereading_gives_the_trades_of_a_fresh_build(empty, seed, data):
    """Receipts become unreadable and return, including the newest, within one ledger's lifetime: no
    publication has missing or extra rows.
    """
    entries, dice = (
        entries_of(market(seed, length=14)),
        random.Random(data.draw(st.integers(0, 10**6))),
    )
    entries = [
        entry._replace(block_time=BEGIN // 1000 + n * 1_700) for n, entry in enumerate(entries)
    ]
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    store(wallet, entries)
    lost = []
    for step in [
        *data.draw(
            st.lists(
                st.sampled_from(["lose newest", "lose", "find", "look", "publish", "restart"]),
                max_size=14,
            )
        ),
        "find",
        "publish",
    ]:
        if step.startswith("lose") and len(lost) < len(entries):
            rest = [e for e in entries if e not in lost]
            lost.append(rest[-1] if step == "lose newest" else dice.choice(rest))
            WalletSignature.update(state="pending", entry=None).where(
                WalletSignature.signature == lost[-1].signature
            ).execute()
            ledger_store.forget(wallet.id)
        elif step == "find":
            new, lost = lost, []
            for e in new:
                WalletSignature.update(state="stored", entry=e.dump()).where(
                    WalletSignature.signature == e.signature
                ).execute()
            ledger_store.apply(wallet, new)
        elif step == "look":
            ledger_store.apply(wallet)
        elif step == "publish":
            ledger_store.apply(wallet)
            ledger_store.publish(wallet, DONE, BEGIN)
            said, hours = (
                ledger_of([ADA]),
                list(RunningTotal.select().order_by(*ORDER).tuples()),
            )
            for model in (models.Arrival, TradeMint, Trade, RunningTotal):
                model.delete().execute()
            rebuild(wallet, [])
            assert (
                ledger_of([ADA]),
                list(RunningTotal.select().order_by(*ORDER).tuples()),
            ) == (said, hours)
        elif step == "restart":
            ledger_store = LedgerStore(update_posts)


def test_rows_that_are_no_longer_trades_are_dropped(empty):
    wallet = empty()
    entries = entries_of(market(length=12))
    rebuild(wallet, entries)
    gone = entries[4].signature
    WalletSignature.delete().where(WalletSignature.signature == gone).execute()
    rebuild(wallet, [])
    assert (
        not Trade.select().where(Trade.signature == gone).exists()
        and Trade.select().count() == len(entries) - 1
    )
    assert not TradeMint.select().where(TradeMint.trade.not_in(Trade.select())).exists()


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
    story.sell("ada", "CAT", 4, 600_000)
    rebuild(empty(), entries_of(story.chain()))
    t = Trade.select().order_by(Trade.slot.desc()).get()
    assert (t.kind, t.realized, t.result, t.proceeds, t.cost, t.matched_raw, t.unmatched_raw) == (
        "sell",
        "matched",
        193_000,
        595_000,
        402_000,
        "4",
        "0",
    )
    assert (
        orjson.loads(t.lots) == [[trade_uid(ADA, bought), "4", "402000"]]
        and t.venue == "pump.fun"
        and (t.sol_change, t.fee, t.rent) == (595_000, 5_000, 0)
    )
    assert t.uid == trade_uid(ADA, t.signature) and orjson.loads(t.token_changes) == [
        [address("CAT"), "-4", 6]
    ]
    wallet = Wallet.get()
    assert (
        orjson.loads(wallet.results)["realizedSol"] == "0.000193"
        and wallet.last_trade_at == t.block_time * 1000
    )
    assert orjson.loads(wallet.positions) == [
        {
            "mint": address("CAT"),
            "amountRaw": "6",
            "decimals": 6,
            "costLamports": "603000",
            "unknownBasisRaw": "0",
        }
    ]


@pytest.mark.parametrize(
    "kind, flags, sides",
    [
        ("buy", [], ["buy", "sell", None, "sell", "sell"]),
        ("sell", ["residue"], ["buy", "sell", None, "sell", "sell"]),
        ("swap", [], ["buy", "sell", None, "sell", "sell"]),
        ("swap", ["value_unexplained"], [None] * 5),
        ("round_trip", [], [None] * 5),
        ("transfer_in", [], [None] * 5),
    ],
)
def test_only_venue_amounts_were_bought_or_sold(kind, flags, sides):
    """All 5 C were outside the venue; so were 6 of the 5 D that arrived, and all of E: one of each
    was sold.
    """
    changes = [["A", "1", 6], ["B", "-1", 6], ["C", "5", 6], ["D", "5", 6]]
    row = {
        **{"kind": kind, "flags": to_json(flags), "mint": "A", "slot": 7, "place": 3},
        "currency": "",
        "token_changes": to_json(changes),
        "beside_tokens": to_json([["C", "5", 6], ["D", "6", 6], ["E", "1", 6]]),
    }
    assert list_moved(row) == [
        (mint, side, 7, 3) for mint, side in zip("ABCDE", sides, strict=True)
    ]


def test_the_stablecoin_itself_is_not_bought_or_sold():
    row = {
        **{"kind": "sell", "flags": "[]", "mint": "A", "currency": "USD", "slot": 7, "place": 3},
        "token_changes": to_json([["A", "-1", 6], ["USD", "5", 6]]),
        "beside_tokens": "[]",
    }
    assert list_moved(row) == [("A", "sell", 7, 3), ("USD", None, 7, 3)]


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
    wallet, story = empty(), Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    story.sell("ada", "CAT", 100, 700_000)
    first, _, last = entries_of(story.chain())
    rebuild(wallet, [first, last])
    told = orjson.loads(Wallet.get().coverage)
    between = {"fromSlot": first.slot, "toSlot": last.slot}
    assert told["state"] == "partial" and told["openingInventoryUnknown"] == [address("CAT")]
    assert told["gaps"] == [
        {**between, "reason": "balance_break"},
        {**between, "reason": "opening_balance"},
    ]


def test_an_entry_survives_storage(empty):
    wallet, entries = empty(), entries_of(market(length=40))
    store(wallet, entries)
    assert sorted(list_entries(wallet.id), key=lambda e: (e.slot, e.tx_index)) == entries


def test_a_changed_kind_updates_every_post_naming_it(empty):
    """The program table changed, so seven hundred purchases no longer are: each post naming one is
    checked again, however many rows changed.
    """
    wallet, story = empty(), Story()
    story.fund("ada", 10**10)
    signatures = [story.buy("ada", "CAT", 1, 1_000) for _ in range(700)]
    entries = entries_of(story.chain())
    for n in (1, 350, 699):
        Post.create(
            uid=f"post_{n}",
            bot=wallet.bot,
            source="bot",
            channel="api",
            event_id=str(n),
            body="b",
            signature=signatures[n],
            wallet=wallet,
            status="pending",
            event_at=0,
            created_at=BEGIN,
        )
    rebuild(wallet, entries)
    assert {p.status for p in Post.select()} == {"verified"}
    for e in entries[1:]:
        WalletSignature.update(entry=e._replace(kind="lending").dump()).where(
            WalletSignature.signature == e.signature
        ).execute()
    rebuild(wallet, [])
    assert {(p.status, p.status_reason) for p in Post.select()} == {("mismatch", "not_a_trade")}


def post_of(wallet, signature, source="bot", **more):
    return Post.create(
        **{
            "uid": f"post_{source}",
            "bot": wallet.bot,
            "source": source,
            "channel": "api",
            "event_id": "e",
            "body": "b",
            "signature": signature,
            "wallet": wallet,
            "status": "pending",
            "event_at": 0,
            "created_at": BEGIN,
            **more,
        }
    )


def verification_of(post):
    post = Post.get_by_id(post.id)
    return post.status, post.status_reason, post.trade_id is not None


def told():
    return [
        post
        for (post,) in (
            models.Arrival.select(models.Arrival.post)
            .where(models.Arrival.kind == "verification")
            .order_by(models.Arrival.id)
            .tuples()
        )
    ]


@pytest.mark.parametrize("source", ["bot", "observer"])
@pytest.mark.parametrize(
    "mint, right",
    [(None, ("verified", None, True)), ("FOX", ("mismatch", "mint_not_in_trade", True))],
)
def test_a_verified_post_waits_while_its_trade_is_missing(empty, source, mint, right):
    """A checked post's receipt becomes unreadable: the post waits again and its followers are
    notified; when the trade returns, so does the label.
    """
    wallet, story = empty(), Story()
    story.fund("ada", 10**9)
    bought = story.buy("ada", "CAT", 10, 1_000_000)
    entries = entries_of(story.chain())
    post = post_of(wallet, bought, source, mint=mint and address(mint))
    rebuild(wallet, entries)
    assert verification_of(post) == right and told() == [post.id]
    WalletSignature.update(state="pending", entry=None).where(
        WalletSignature.signature == bought
    ).execute()
    rebuild(wallet, [])
    assert verification_of(post) == ("pending", None, False) and told() == [post.id] * 2
    WalletSignature.update(state="stored", entry=entries[1].dump()).where(
        WalletSignature.signature == bought
    ).execute()
    rebuild(wallet, [])
    assert verification_of(post) == right and told() == [post.id] * 3


def test_a_deleted_trade_leaves_no_verified_post(empty):
    """The row was deleted by hand while the ledger was in memory: the next publication withdraws
    the label, and the next rebuild restores both.
    """
    wallet, story, ledger_store = empty(), Story(), LedgerStore(update_posts)
    story.fund("ada", 10**9)
    bought = story.buy("ada", "CAT", 10, 1_000_000)
    store(wallet, entries_of(story.chain()))
    post = post_of(wallet, bought)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    Trade.delete().where(Trade.signature == bought).execute()
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


@effort(
    max_examples=ground.examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_a_window_equals_the_sum_of_its_trades(empty, seed, data):
    """Hourly totals against the sum of all trades: applied at once, in parts, late, and by a new
    process.
    """
    wallet, begin = empty(), BEGIN // 1000
    entries = [
        entry._replace(block_time=begin + n * 1_700)
        for n, entry in enumerate(entries_of(market(seed)))
    ]
    first = data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries)))
    ledger_store = LedgerStore(update_posts)
    for part in (
        [e for e, early in zip(entries, first, strict=False) if early],
        [e for e, early in zip(entries, first, strict=False) if not early],
    ):
        store(wallet, part)
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
        check_windows(begin, len(entries))
    RunningTotal.delete().execute()
    rebuild(wallet, [])
    check_windows(begin, len(entries))


def test_wrong_missing_and_extra_totals_are_repaired(empty):
    wallet = empty()
    rebuild(
        wallet,
        [
            entry._replace(block_time=BEGIN // 1000 + n * 1_700)
            for n, entry in enumerate(entries_of(market(7)))
        ],
    )
    rows = RunningTotal.select().order_by(*ORDER)
    right = list(rows.tuples())
    assert len(right) > 5
    hours = [row.hour for row in rows]
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


def check_windows(begin, count):
    for hour in {(begin + n * 1_700) // 3600 for n in range(count + 1)} | {0}:
        summed = storage.database.execute_sql(SUMS, (hour * 3600,)).fetchone()
        rows = RunningTotal.select().order_by(RunningTotal.hour)
        last, before = list(rows), list(rows.where(RunningTotal.hour < hour))
        found = [
            (getattr(last[-1], name) if last else 0) - (getattr(before[-1], name) if before else 0)
            for name in SUMMED
        ]
        assert found == [int(value or 0) for value in summed]


def test_entries_without_a_block_time_count_in_the_hour_before():
    """7,200 seconds are two hours; without indices, places in a slot are counted."""
    t = Teller().gain("A", 1).gain("A", 1).gain("A", 1)
    times, slots = (7_200, None, 7_199, 10_800), (5, 5, 6, 6)
    pending, told = PendingLedger(Ledger()), []
    for entry, time, slot in zip(t.entries, times, slots, strict=True):
        entry = entry._replace(block_time=time, slot=slot, tx_index=None)
        place, _ = pending.book(entry)
        told.append((place, pending.ledger.hour, pending.last_time))
    assert told == [
        (0, 2, 7_200),
        (1, 2, 7_200),
        (0, 2, 7_199),
        (1, 3, 10_800),
    ]
    assert pending.first_time == 7_200
    assert pending.book(entry._replace(slot=7, tx_index=9))[0] == 9


def test_a_row_for_an_untouched_balance_is_an_opening():
    found = read_untouched(lambda sql: [("an account", "A", "5", 6)], 1)
    assert found == {"an account": Opening((0, 2**63, 0, "an account"), "A", 5, 6)}
