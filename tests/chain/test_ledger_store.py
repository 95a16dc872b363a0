"""From stored entries to rows: the stored bytes don't depend on the order of arrival or on how
often receipts are booked. Direct changes are reported and repaired.
"""

import hashlib
import json
import random

import ground
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of, store_post, watch
from peewee import fn
from service import add_risk
from story import Story, address, market
from teller import (
    ANY_STEP,
    FEE,
    SOL_STEP,
    STEP,
    USDC,
    Silent,
    Teller,
    mint_of,
    name_accounts,
    play,
    write_sol_steps,
    write_steps,
)
from test_coverage import THERE_AND_BACK, in_one_slot
from textledgers import TextLedger

import models
import storage
from accounts.auto_posts import update_posts
from chain.ledger import coverage, ledger, sales
from chain.ledger.coverage import Progress
from chain.ledger.inventory import SOL, Opening
from chain.ledger.ledger import Ledger
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.store import LedgerStore, PendingLedger, read_untouched
from chain.stored.tables import RiskTotal, RunningTotal, TokenTotal, TradeMint
from chain.stored.trades import digest_columns, mark_differing_trades, replace_trades, trade_uid
from models import Attachment, Post, Trade, Wallet, WalletSignature
from operate import doctor, schema
from web.api.trades import count_sides

ADA, PROGRAMS = address("ada"), table()
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


def tell(text):
    """A Story from its verbs: `fund ada 50; buy ada CAT 7 900`."""
    story = Story()
    for part in text.split("; "):
        verb, *how = part.split()
        getattr(story, verb)(*[int(one) if one.isdigit() else one for one in how])
    return story


def store(wallet, entries):
    """Store as fetching does; existing rows stay."""
    for e in entries:
        place = {"wallet": wallet, "signature": e.signature, "slot": e.slot, "tx_index": e.tx_index}
        WalletSignature.insert(
            state="stored", entry=e.dump(), seen_at=BEGIN, **place
        ).on_conflict_ignore().execute()


def publish(ledger_store, wallet, new=()):
    ledger_store.apply(wallet, new)
    ledger_store.publish(wallet, DONE, BEGIN)


def rebuild(wallet, entries=()):
    store(wallet, entries)
    publish(LedgerStore(update_posts), wallet)
    return ledger_of([ADA])


def book(wallet, text):
    """Rebuild with a ledger as text."""
    written = TextLedger(text)
    for begins, _ in written.spans:
        Attachment.update(attached_at=begins).execute()
    rebuild(wallet, written.teller.entries)


# ---- one result, whatever the order --------------------------------------------------------------
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
    with pytest.raises(OSError, match="no space"):
        publish(ledger_store, wallet)
    assert not Trade.select().exists() and not RunningTotal.select().exists()
    publish(ledger_store, wallet)
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
    forge(wallet, dice)
    assert rebuild(wallet) == truth


def forge(wallet, dice):
    """Edit rows, and move, add and delete some."""
    Wallet.update(reconciliation="{}", imbalance=2, average_cost=None).execute()
    RunningTotal.update(cost_left=RunningTotal.cost_left + 1, failed_cost=9).execute()
    last = RunningTotal.select(fn.MAX(RunningTotal.hour)).scalar()
    RunningTotal.update(hour=RunningTotal.hour + 99).where(RunningTotal.hour == last).execute()
    add_risk(wallet, 99, [5])
    for view, mint in ((99, "M"), (0, "never sold")):
        sums = {"realized": 1, "sales": 1, "winning": 1}
        TokenTotal.create(wallet=wallet, money=SOL, view=view, mint=mint, **sums)
    RiskTotal.delete().where(RiskTotal.view == 0).execute()
    Trade.update(cost_left=5, beside_sol=3, counterparties="[1]").execute()
    first = Trade.id == Trade.select(fn.MIN(Trade.id)).scalar()
    Trade.update(slot=dice.choice((0, 2**40))).where(first).execute()
    assert mark_differing_trades(wallet.id) == Trade.select().count()


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
    publish(ledger_store, wallet)


def test_a_batch_is_ordered_after_earlier_entries(empty):
    """In a slot without indices, only the earlier balance decides, even from an earlier batch."""
    entries = [one._replace(seen_at=BEGIN) for one in in_one_slot(THERE_AND_BACK)]
    truth = rebuild(empty(), entries)
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    for batch in (entries[:1], entries[1:]):
        store(wallet, batch)
        publish(ledger_store, wallet, batch)
    assert ledger_of([ADA]) == truth and b"order_unresolved" not in truth


def test_a_rebuild_writes_only_differences(empty):
    """Followers page by row ID, so a trade keeps it. A late older receipt changes only the sales it
    affects. Rows that already match aren't held in memory, which long histories would exhaust.
    """
    more = "; buy ada CAT 10 2000000; sell ada CAT 5 3000000" * 3
    story = tell(f"fund ada 1000000000; buy ada CAT 10 1000000{more}")
    entries, wallet = entries_of(story.chain()), empty()
    rebuild(wallet, [entries[0], *entries[2:]])
    before = {one.signature: one for one in Trade.select()}
    rebuild(wallet, entries)
    after = {one.signature: one for one in Trade.select()}
    changed = [after[one].kind for one in before if after[one].digest != before[one].digest]
    assert changed == ["sell"] * 3
    for signature, one in before.items():
        assert (after[signature].id, after[signature].uid) == (one.id, one.uid)
    for edited in ([], [entries[3].signature]):
        Trade.update(digest="").where(Trade.signature.in_(edited)).execute()
        again = LedgerStore(update_posts)
        again.apply(wallet)
        assert list(again._pending[wallet.id].rows) == edited
    rows = list(Trade.select().dicts())
    same = {row["signature"]: {n: v for n, v in row.items() if n != "id"} for row in rows}
    assert replace_trades(wallet.id, same) == set()
    # Posts that name a changed or deleted one are checked again.
    first, *_, last = same
    changed = {first: {**same[first], "digest": "another"}, last: None}
    assert replace_trades(wallet.id, same | changed) == {first, last}


def test_a_digest_is_pinned_and_covers_types():
    """Another one would rewrite all trades at startup."""
    told = hashlib.sha256(b'{"a":"7","b":1}').hexdigest()[:24]
    assert digest_columns({"b": 1, "a": "7"}) == told
    assert digest_columns({"a": b"7"}) != digest_columns({"a": "7"})


STEPS = ("lose newest", "lose", "find", "reread", "look", "publish", "restart")


@drawing(25)
@given(seed=SEED, steps=st.lists(st.sampled_from(STEPS), max_size=14))
def test_rereading_gives_the_trades_of_a_fresh_build(empty, seed, steps):
    """Receipts become unreadable and return, including the newest, and aren't trades under other
    rules, within one ledger's lifetime: no publication has missing or extra rows.
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
        elif step == "reread":
            one = dice.choice(entries)
            rewrite(one.signature, entry=one._replace(kind="other").dump())
            ledger_store.forget(wallet.id)
        elif step == "restart":
            ledger_store = LedgerStore(update_posts)
        elif step in ("look", "publish"):
            ledger_store.apply(wallet)
        if step == "publish":
            ledger_store.publish(wallet, DONE, BEGIN)
            published = ledger_of([ADA])
            for model in (models.Arrival, TradeMint, Trade, RunningTotal):
                model.delete().execute()
            assert rebuild(wallet) == published


def spread(chain):
    """Its entries, 1,700 seconds apart."""
    entries = enumerate(entries_of(chain))
    return [one._replace(block_time=BEGIN // 1000 + n * 1_700) for n, one in entries]


def rewrite(signature, **columns):
    """Change a stored transaction."""
    changed = WalletSignature.update(**columns).where(WalletSignature.signature == signature)
    assert changed.execute() == 1


def list_sides():
    """{mint: bought, sold or neither} of each transaction with tokens."""
    trades = {one.id: {} for one in Trade.select().order_by(Trade.slot)}
    for one in TradeMint.select().order_by(TradeMint.id):
        trades[one.trade_id][one.mint.address] = one.side
    return [sides for sides in trades.values() if sides]


def test_a_trade_row_contains_the_ledgers_amounts(empty):
    """Bought 10 for 1,000,000 and a fee of 5,000; sold 4 of them for 600,000 minus the fee: 595,000
    - 1,005,000 * 4 // 10.
    """
    story = tell("fund ada 1000000000; buy ada CAT 10 1000000; sell ada CAT 4 600000")
    _, bought, sold = [row.signature for row in story.rows]
    rebuild(empty(), entries_of(story.chain()))
    t, cat = Trade.get(Trade.signature == sold), address("CAT")
    told = trade_uid(ADA, sold), "sell", "pump.fun", "matched"
    assert (t.uid, t.kind, t.venue, t.realized) == told
    assert (t.result, t.proceeds, t.cost) == (193_000, 595_000, 402_000)
    assert (t.matched_raw, t.unmatched_raw) == ("4", "0")
    assert (t.sol_change, t.fee, t.rent) == (595_000, 5_000, 0)
    assert json.loads(t.lots) == [[trade_uid(ADA, bought), "4", "402000"]]
    assert json.loads(t.token_changes) == [[cat, "-4", 6]]
    assert Wallet.get().last_trade_at == t.block_time * 1000


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
    book(empty(), "\n".join(told for told, _ in rows))
    sides = [dict(one.split() for one in expected.split(", ")) for _, expected in rows]
    assert list_sides() == [
        {mint_of(mint): None if side == "-" else side for mint, side in one.items()}
        for one in sides
    ]
    assert not mark_differing_trades(Wallet.get().id)
    for one in TradeMint.select():
        assert (one.slot, one.place) == (one.trade.slot, one.trade.place)
    # The first sale of the table.
    sale = Trade.select().where(Trade.kind == "sell").order_by(Trade.slot).get()
    assert (sale.sol_change, sale.beside_sol, sale.result, sale.cost_left) == (1020, 900, 80, 10)
    assert json.loads(sale.beside_tokens) == [["A", "-1", 0], ["B", "2", 0]]
    assert json.loads(sale.token_changes) == [["A", "-5", 0], ["B", "2", 0]]
    assert (sale.explained, sale.counterparties) == (None, "[]")


def test_coverage_has_the_shape_of_the_api(empty):
    chain = market(length=12)
    rebuild(empty(), entries_of(chain))
    said, rows = json.loads(Wallet.get().coverage), chain.touching(ADA)
    times = {"observedFrom": "2026-11-05T12:08:20Z", "checkedAt": "2026-11-05T12:00:00Z"}
    slots = {"firstSlot": rows[0].slot, "lastSlot": rows[-1].slot}
    empty_lists = {"gaps": [], "openingInventoryUnknown": []}
    told = {"state": "complete", "receipts": len(rows), "pending": 0, "note": None}
    del said["observedTo"]
    assert said == times | slots | empty_lists | told


@pytest.mark.parametrize(
    "mint, right",
    [(None, ("verified", None, True)), ("FOX", ("mismatch", "mint_not_in_trade", True))],
)
def test_a_verified_post_waits_while_its_trade_is_missing(empty, mint, right):
    """A checked post's receipt becomes unreadable: the post waits again and its followers are
    notified; when the trade returns, so does the label. Under other rules it isn't a trade.
    """
    story = tell("fund ada 1000000000; buy ada CAT 10 1000000")
    wallet, (funded, bought) = empty(), entries_of(story.chain())
    post = store_post(wallet, bought.signature)
    Post.update(mint=mint and address(mint)).execute()
    for n in (1, 3):
        rebuild(wallet, [funded, bought])
        assert judgment() == right and told() == [post.id] * n
        rewrite(bought.signature, state="pending", entry=None)
        rebuild(wallet)
        assert judgment() == ("pending", None, False) and told() == [post.id] * (n + 1)
        rewrite(bought.signature, state="stored", entry=bought.dump())
    rebuild(wallet)
    rewrite(bought.signature, entry=bought._replace(kind="lending").dump())
    rebuild(wallet)
    assert judgment() == ("mismatch", "not_a_trade", True)


def judgment():
    post = Post.get()
    return post.status, post.status_reason, post.trade_id is not None


def told():
    """The posts whose followers were notified of a verification, in order."""
    rows = models.Arrival.select(models.Arrival.post).order_by(models.Arrival.id).tuples()
    return [post for (post,) in rows.where(models.Arrival.kind == "verification")]


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
        store(wallet, [e for e, early in zip(entries, first, strict=False) if early == is_first])
        publish(ledger_store, wallet)
        check_windows(len(entries))
    RunningTotal.delete().execute()
    rebuild(wallet)
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


def test_entries_without_a_block_time_count_in_the_hour_before():
    """7,200 seconds are two hours; without indices, places in a slot are counted."""
    t = Teller().gain("A", 1).gain("A", 1).gain("A", 1)
    times, slots = (7_200, None, 7_199, 10_800), (5, 5, 6, 6)
    pending, told = PendingLedger(Ledger()), []
    for entry, time, slot in zip(t.entries, times, slots, strict=True):
        entry = entry._replace(block_time=time, slot=slot, tx_index=None)
        told.append((pending.book(entry).place, pending.ledger.hour, pending.last_time))
    assert told == [(0, 2, 7_200), (1, 2, 7_200), (0, 2, 7_199), (1, 3, 10_800)]
    assert pending.first_time == 7_200
    assert pending.book(entry._replace(slot=7, tx_index=9)).place == 9


def test_a_row_for_an_untouched_balance_is_an_opening():
    found = read_untouched(lambda sql: [("an account", "A", "5", 6)], 1)
    assert found == {"an account": Opening((0, 2**63, 0, "an account"), "A", 5, 6)}


# ---- where the money went ------------------------------------------------------------------------
# 10@100 A: 4 sold for 60 (20), 2 lost (20 of cost), 4 become 2 D (40). 3 B of unknown cost sold for
# 30. 5@? and 5@50 C sold for 200: half of it minus 50 (50), the other half unmatched. The worst
# case is 70 - 20 - 40. 40 and 50 sold for 60 and 100: 70 on 90. The position in A lost, that in C
# won, and that in D is open.
BOOKED = """
buy 10 A for 100
sell 4 A for 60
lose 2 A
swap 4 A for 2 D
failed -5
gain 3 B
sell 3 B for 30
gain 5 C
buy 5 C for 50
sell 10 C for 200
"""
RESULTS = {
    **{"realizedLamports": "70", "realizedSol": "0.00000007"},
    **{"worstCaseLamports": "10", "worstCaseSol": "0.00000001"},
    **{"returnPct": "77.78", "winRate": "0.5000"},
    **{"positions": 2, "positionsWon": 1, "positionsOpen": 1, "openPositions": 1},
    **{"matchedSells": 1, "partialSells": 1, "unmatchedSells": 1, "winningSells": 2},
    **{"volumeLamports": str(100 + 60 + 30 + 50 + 200), "volumeSol": "0.00000044"},
    **{"observedTrades": 6, "carriedLots": 1, "costLeftLamports": "20", "costLeftReceipts": 1},
    **{"failedTransactions": 1, "failedCostLamports": "5", "overheadLamports": "5"},
}
RECONCILED = {
    **{"openingLamports": "0", "closingLamports": str(10**12 - 100 + 60 - 10 + 30 - 50 + 200)},
    **{"realizedLamports": "70", "unmatchedProceedsLamports": str(30 + 100)},
    **{"openCostLamports": "40", "costLeftLamports": "20", "costLeftReceipts": 1},
    **{"receivedLamports": str(10**12), "sentLamports": "0", "overheadLamports": "5"},
    **{"failedCostLamports": "5", "otherLamports": "0"},
    **{"differenceLamports": "0", "gapLamports": "0"},
}


def test_every_sum_has_its_documented_name(empty):
    book(empty(), BOOKED)
    wallet, row = Wallet.get(), RunningTotal.get()
    assert (row.failed, row.failed_cost, row.overhead) == (1, FEE, FEE)
    assert (row.cost_left, row.cost_left_receipts, row.carried) == (20, 1, 1)
    # A was held for 30 seconds, C for 10.
    risk = RiskTotal.get()
    assert (risk.best, risk.worst, risk.median_holding) == (50, 20 - 20, 10)
    assert risk.holdings == "[[10,1],[30,1]]"
    tokens = TokenTotal.select().order_by(TokenTotal.mint)
    told = [(one.mint, one.realized, one.sales, one.winning) for one in tokens]
    assert told == [("A", 20, 1, 1), ("C", 50, 1, 1)]
    assert json.loads(wallet.results) == RESULTS
    assert json.loads(wallet.reconciliation) == RECONCILED
    assert json.loads(wallet.average_cost) == {"realizedLamports": "70", "matchedSells": 1}
    held = {"mint": "D", "amountRaw": "2", "decimals": 0}
    assert json.loads(wallet.positions) == [{**held, "costLamports": "40", "unknownBasisRaw": "0"}]
    assert wallet.by_stablecoin == "{}"
    # There is no reconciliation until the history is complete.
    wallet.backfilled = False
    rebuild(wallet)
    assert Wallet.get().reconciliation is None


def test_each_wallet_that_traded_a_token_counts_once(empty):
    book(empty(), "buy 10 A for 100\nbuy 5 A for 60\nbuy 7 B for 70\nsell 4 A for 60")
    assert count_sides("A") == {"buy": 1, "sell": 1}
    bought = TradeMint.get(TradeMint.side == "buy")
    for n in range(2):
        same = {"trade": bought.trade, "mint": bought.mint, "side": "buy"}
        other = watch(f"other {n}")
        for slot in range(3):
            TradeMint.create(wallet=other, slot=slot, **same)
    assert count_sides("A") == {"buy": 3, "sell": 1}
    assert count_sides("C") == {"buy": 0, "sell": 0}


# ---- stablecoins --------------------------------------------------------------------------------
def in_stablecoins():
    return RunningTotal.select().where(RunningTotal.money != "")


IN_USDC = """
gain 500 Q
swap 100 Q for 10 A
attach
swap 4 A for 60 Q
swap 50 Q for 5 B
swap 5 B for 70 Q
swap 10 Q for 9 K
"""
COUNTED = ("realized", "cost", "volume", "trades", "matched", "unmatched", "winning")


def test_a_wallet_and_its_span_have_rows_per_stablecoin(empty):
    """10 A for 100, 4 of them sold for 60: 60 - 40 = 20, then 5 B bought for 50 and sold for 70:
    20. In the span, 10 A have an unknown cost, so the first sale is unmatched. Everything is within
    an hour, so each has one row. An exchange of stablecoins isn't a trade.
    """
    book(empty(), IN_USDC)
    whole, since = in_stablecoins().where(RunningTotal.money == USDC).order_by(RunningTotal.view)
    assert (whole.view, since.view) == (0, Attachment.get().id)
    assert [getattr(whole, name) for name in COUNTED] == [40, 90, 280, 4, 2, 0, 2]
    assert [getattr(since, name) for name in COUNTED] == [20, 50, 180, 3, 1, 1, 1]
    assert (whole.fee_lamports, since.fee_lamports) == (4 * FEE, 3 * FEE)
    priced = Trade.select().where(Trade.currency != "").order_by(Trade.slot)
    assert [(one.realized, one.result, one.proceeds, one.cost) for one in priced] == [
        ("not_applicable", None, None, None),
        ("matched", 20, 60, 40),
        ("not_applicable", None, None, None),
        ("matched", 20, 70, 50),
    ]
    books = json.loads(Wallet.get().by_stablecoin)[USDC]
    told = {name: value for name, value in books["reconciliation"].items() if value not in ("0", 0)}
    closing = 500 - 100 + 60 - 50 + 70 - 10
    assert told == {
        **{"closingRaw": str(closing), "receivedRaw": "500", "realizedRaw": "40"},
        **{"openCostRaw": "60", "otherRaw": "-10"},
    }
    assert books["averageCost"] == {"realizedRaw": "40", "matchedSells": 2}
    assert [(one["mint"], one["costRaw"]) for one in books["positions"]] == [("A", "60")]


def test_books_that_do_not_balance_are_reported(empty):
    """Two purchases say 97, and the balances 100: 3 are missing."""
    t = Teller().gain(USDC, 500).swap(USDC, 100, "A", 10).buy("B", 10, 100)
    ask = storage.database.execute_sql
    rebuild(empty(), t.entries)
    assert [one.level for one in doctor.check_sums(ask)] == ["fine"]
    tokens = [(m, -97 if m == USDC else change, d) for m, change, d in t.entries[-2].tokens]
    t.entries[-2] = t.entries[-2]._replace(tokens=tuple(tokens))
    t.entries[-1] = t.entries[-1]._replace(sol=-97)
    rebuild(empty(), t.entries)
    wallet = Wallet.get()
    assert (wallet.imbalance, json.loads(wallet.stablecoin_imbalance)) == (-3, {USDC: -3})
    assert json.loads(wallet.reconciliation)["differenceLamports"] == "-3"
    (books,) = json.loads(wallet.by_stablecoin).values()
    assert books["reconciliation"]["differenceRaw"] == "-3"
    missing = f"-3 raw units of {USDC} are missing"
    for told in (f"don't balance: -3 lamports and {missing}", f"don't balance: {missing}"):
        (found,) = doctor.check_sums(ask)
        assert found.level == "wrong" and ADA in found.text and told in found.text
        Wallet.update(imbalance=0).execute()


def test_a_removed_stablecoin_leaves_no_line(empty, monkeypatch):
    wallet = empty()
    book(wallet, "gain 500 Q\nswap 100 Q for 90 A")
    for left in ({USDC}, set()):
        for module in (coverage, ledger, sales):
            monkeypatch.setattr(module, "MINTS", {mint_of("K"), *left})
        rebuild(wallet)
        assert {row.currency for row in Trade.select() if row.currency} == left
        assert {row.money for row in in_stablecoins()} == left
