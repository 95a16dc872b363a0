"""The forward record as it is stored: what a wallet did since a bot attached it."""

import random

from chain.ledger.forward import Forward
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of
from story import market
from teller import Teller
from test_ledger_store import ADA, DONE, empty, entries_of, rebuild, store

import chain.stored.store
from accounts.auto_posts import update_posts
from chain.ledger.ledger import Ledger
from chain.stored.forward_store import replace_forward
from chain.stored.store import LedgerStore
from chain.stored.tables import ForwardTotal
from models import Attachment, WalletSignature

# a fixture
assert empty


def after(teller):
    """The Unix second after the last transaction."""
    return teller.entries[-1].block_time + 1


def test_nothing_is_replaced_for_a_wallet_that_no_bot_had():
    assert replace_forward(Forward(), Ledger()) is False


def attach_at(wallet, *spans):
    """Instead of its attachment: one for each (begin, end or None), in Unix seconds."""
    ForwardTotal.delete().execute()
    Attachment.delete().execute()
    for begin, end in spans:
        Attachment.create(
            bot=wallet.bot_id,
            wallet=wallet,
            attached_at=begin * 1000,
            detached_at=end and end * 1000,
        )


@effort(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), data=st.data())
def test_the_order_of_arrival_leaves_no_trace(empty, seed, data):
    """Spans that begin and end anywhere, made known anywhere between transactions that come in any
    order and in any batches: the rows of one rebuild.
    """
    entries = entries_of(market(seed, length=30))
    times = st.sampled_from(sorted({entry.block_time for entry in entries}))
    first, end, second = sorted(data.draw(st.lists(times, min_size=3, max_size=3)))
    spans = (first, end), (second, None)
    wallet = empty()
    attach_at(wallet, *spans)
    truth = rebuild(wallet, entries), read_holdings()
    dice, wallet, ledger_store = random.Random(seed), empty(), LedgerStore(update_posts)
    rest, told = dice.sample(entries, len(entries)), False
    while rest or not told:
        size = dice.randint(1, 12)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if not told and (dice.random() < 0.2 or not rest):
            attach_at(wallet, *spans)
            told = True
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
    assert (ledger_of([ADA]), read_holdings()) == truth


def read_holdings():
    columns = Attachment.carried_in, Attachment.open_cost, Attachment.open_positions
    return list(Attachment.select(*columns).order_by(Attachment.attached_at).tuples())


def test_a_rebuild_mends_the_stored_record(empty):
    """10@100 sold for 150: 50. Rows that are wrong, missing or too many are as they were."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    t.buy("A", 10, 100).sell("A", 10, 150).buy("A", 1, 7)
    truth = rebuild(wallet, t.entries)
    bought, sold, _ = ForwardTotal.select().order_by(ForwardTotal.time)
    assert (bought.realized, sold.realized, read_holdings()) == (0, 50, [(0, 7, 1)])
    ForwardTotal.update(realized=1).where(ForwardTotal.time == bought.time).execute()
    ForwardTotal.update(time=9).where(ForwardTotal.time == sold.time).execute()
    Attachment.update(open_cost=None).execute()
    assert rebuild(wallet, []) == truth
    assert read_holdings() == [(0, 7, 1)]


def test_a_rebuild_of_what_is_stored_holds_no_long_past(empty, monkeypatch):
    """The totals of 20,000 seconds would take 11 MB, which Python would keep."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    for _ in range(20):
        t.buy("A", 10, 100).sell("A", 10, 150)
    rebuild(wallet, t.entries)
    assert ForwardTotal.select().count() == 40
    monkeypatch.setattr(chain.stored.store, "SLOTS_AT_ONCE", 4)
    most, settle = [], chain.stored.store.settle_past

    def spy(forward, stored):
        most.extend(len(record.rows) for record in forward.records.values())
        settle(forward, stored)

    monkeypatch.setattr(chain.stored.store, "settle_past", spy)
    LedgerStore().apply(wallet)
    # Those of four slots, and of the second before, which might have gone on.
    assert len(most) >= 10 and max(most) <= 5


def test_a_rebuild_writes_nothing_anew_where_the_clock_of_the_chain_runs_ahead(empty, monkeypatch):
    """All was seen in one second, so the totals of that second change with each trade."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    t.buy("A", 10, 100).sell("A", 10, 150).buy("A", 1, 7)
    store(wallet, t.entries)
    WalletSignature.update(seen_at=t.entries[0].block_time * 1000).execute()
    Attachment.update(attached_at=0).execute()
    rebuild(wallet, [])
    assert ForwardTotal.select().count() == 1
    monkeypatch.setattr(chain.stored.store, "SLOTS_AT_ONCE", 1)
    again = LedgerStore()
    again.apply(wallet)
    (record,) = again._pending[wallet.id].forward.records.values()
    assert record.rows == {}


def test_what_happens_after_the_end_is_another_spans(empty):
    """Known only later: 10@100 sold for 150 within the first, 10@100 sold for 90 after it."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    end = after(t)
    t.buy("A", 10, 100).sell("A", 10, 90)
    wallet, ledger_store = empty(), LedgerStore(update_posts)
    attach_at(wallet, (begin, None))
    store(wallet, t.entries)
    realized = []
    for _ in range(2):
        ledger_store.apply(wallet)
        ledger_store.publish(wallet, DONE, BEGIN)
        realized.append(
            ForwardTotal.select(ForwardTotal.realized).order_by(ForwardTotal.time.desc()).scalar()
        )
        Attachment.update(detached_at=end * 1000).execute()
    assert realized == [40, 50]


def test_what_is_found_later_went_by_its_block_time(empty):
    """10@100 sold for 150 in the span, all listed only after it ended: 50."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    wallet = empty()
    attach_at(wallet, (begin, after(t)))
    rebuild(wallet, t.entries)
    assert WalletSignature.select().where(WalletSignature.seen_at < after(t) * 1000).count() == 0
    assert ForwardTotal.select().order_by(ForwardTotal.time.desc()).first().realized == 50


def test_when_it_was_seen_is_read_with_each_entry(empty):
    """10@100 sold for 40, listed before the end: after a rebuild, too."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100)
    end = after(t)
    t.sell("A", 10, 40)
    wallet = empty()
    attach_at(wallet, (begin, end))
    rebuild(wallet, t.entries)
    assert ForwardTotal.select().order_by(ForwardTotal.time.desc()).first().realized == 0
    WalletSignature.update(seen_at=end * 1000 - 1).execute()
    rebuild(wallet, [])
    assert ForwardTotal.select().order_by(ForwardTotal.time.desc()).first().realized == -60
