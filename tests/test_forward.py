"""The forward record: what a wallet did since a bot attached it, apart from what it did before."""

import random
from unittest import mock

from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of
from story import market
from test_ledger import Teller
from test_ledger_store import ADA, DONE, empty, entries_of, rebuild, store

from accounts.auto_posts import update_posts
from chain.ledger.coverage import order_entries
from chain.ledger.forward import Forward, Span, SpanHoldings
from chain.ledger.inventory import Inventory
from chain.ledger.ledger import Ledger
from chain.ledger.risk import ALL
from chain.ledger.sums import WHOLE, Sums, read_sums
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal
from models import Attachment, WalletSignature

# a fixture
assert empty


def play(entries, *spans, backfilled=True):
    """(Forward, the wallet's Ledger) after these entries; `spans`: (begin, end or None) in Unix
    seconds, numbered from 1.
    """
    ledger = Ledger(backfilled=backfilled)
    forward = Forward(
        tuple(
            Span(number, begin * 1000, end and end * 1000)
            for number, (begin, end) in enumerate(spans, 1)
        )
    )
    for entry in entries:
        forward.apply(entry, ledger)
    return forward, ledger


def last(forward, number=1):
    return forward.records[number].last


def after(teller):
    """The Unix second after the last transaction."""
    return teller.entries[-1].block_time + 1


def test_luck_from_before_counts_for_nothing():
    """Four lots of 10@100, sold for 200 each before the attachment: 400 gained, none of it here.
    Then 10@100 sold for 150: 50.
    """
    t = Teller()
    for _ in range(4):
        t.buy("A", 10, 100).sell("A", 10, 200)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    forward, ledger = play(t.entries, (begin, None))
    assert ledger.totals.realized == 450
    assert last(forward) == Sums(realized=50, cost=100, volume=250, trades=2, matched=1, winning=1)


def test_luck_that_was_not_sold_yet_has_no_result():
    """10@100 from before go first and have no cost here. 4 of 10@200 bought after go with them:
    4/14 of 140 are 40, their cost is 80.
    """
    t = Teller().buy("A", 10, 100)
    begin = after(t)
    t.buy("A", 10, 200).sell("A", 14, 140)
    forward, ledger = play(t.entries, (begin, None))
    totals = last(forward)
    assert (totals.realized, totals.partial, totals.matched) == (40 - 80, 1, 0)
    assert ledger.totals.realized == 140 - 100 - 80
    # 6 of 10@200 are left
    assert forward.find_holdings(ledger) == {1: SpanHoldings(100, 120, 1, 40 - 80)}


def test_cost_does_not_come_in_by_a_swap():
    """10@100 from before are swapped for 5 B, sold for 900: what B cost is unknown."""
    t = Teller().buy("A", 10, 100)
    begin = after(t)
    t.swap("A", 10, "B", 5).sell("B", 5, 900)
    forward, ledger = play(t.entries, (begin, None))
    assert ledger.totals.realized == 800
    totals = last(forward)
    assert (totals.realized, totals.unmatched, totals.carried, totals.cost_left) == (0, 1, 0, 0)


def test_each_span_begins_anew_and_all_count():
    """10@100 bought in the first, sold for 70 in the second: in neither a result, and the first
    still holds 100 of cost. 10@50 in the second, sold for 40: a loss of 10.
    """
    t = Teller().gain("B", 1)
    first = after(t)
    t.buy("A", 10, 100)
    end = after(t)
    t.gain("B", 1)
    second = after(t)
    t.sell("A", 10, 70).buy("A", 10, 50).sell("A", 10, 40)
    forward, ledger = play(t.entries, (first, end), (second, None))
    assert (last(forward, 1).realized, last(forward, 1).trades) == (0, 1)
    assert (last(forward, 2).realized, last(forward, 2).unmatched) == (-10, 1)
    assert forward.find_holdings(ledger) == {
        1: SpanHoldings(0, 100, 1),
        2: SpanHoldings(100, 0, 0, 40 - 50),
    }


def test_what_has_no_block_time_counts_for_nothing():
    """10@100 at an unknown time, then sold for 150 at a known one: its cost is unknown here."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    t.entries[2] = t.entries[2]._replace(block_time=None)
    forward, ledger = play(t.entries, (begin, None))
    assert ledger.totals.realized == 50
    assert (last(forward).realized, last(forward).trades, last(forward).unmatched) == (0, 1, 1)


def test_what_has_no_block_time_counts_for_nothing_within_a_span_either():
    """5@50 bought in the span, then 10@100 at an unknown time; 15 are sold for 300. 5 of 15 brought
    100, 50 more than they cost; what the others cost is unknown.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 5, 50).buy("A", 10, 100).sell("A", 15, 300)
    t.entries[3] = t.entries[3]._replace(block_time=None)
    forward, ledger = play(t.entries, (begin, None))
    assert ledger.totals.realized == 300 - 50 - 100
    assert last(forward) == Sums(realized=50, cost=50, volume=350, trades=2, partial=1, winning=1)


def test_a_sale_at_no_known_time_takes_its_position_out_of_the_count():
    """Of 4@40 two go at no known time and two for 30, a gain of 10: that position does not count.
    Nor does 1@10, which went whole at no known time; the next one of that token does, and lost 5.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("C", 4, 40).sell("C", 2, 90).sell("C", 2, 30)
    t.buy("D", 1, 10).sell("D", 1, 90).buy("D", 1, 10).sell("D", 1, 5)
    for place in (3, 6):
        t.entries[place] = t.entries[place]._replace(block_time=None)
    forward, _ = play(t.entries, (begin, None))
    told = forward.records[1].risk.rows[ALL]
    assert (told.closed, told.won, told.uncounted) == (1, 0, 1)
    assert last(forward).realized == 10 - 5


def test_a_wallet_that_no_bot_had_has_no_record():
    assert Forward().sum_realized() is None
    assert Forward().find_holdings(Ledger()) == {}


def test_an_attachment_that_saw_nothing_tells_what_it_came_with():
    t = Teller().buy("A", 10, 100)
    forward, ledger = play(t.entries, (after(t), None))
    assert forward.records == {}
    assert forward.find_holdings(ledger) == {1: SpanHoldings(100, 0, 0)}


@effort(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_from_before_the_first_transaction_on_it_is_the_whole(seed):
    ledger = Ledger()
    entries = order_entries(entries_of(market(seed, length=40)), {})
    forward, ledger = play(entries, (0, None))
    assert last(forward) == read_sums(ledger.totals)
    assert forward.find_holdings(ledger)[1].open_cost == ledger.inventory.sum_open_cost()
    assert forward.find_holdings(ledger)[1].carried_in == 0


@effort(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_booked_once_or_twice_it_is_the_same(seed, data):
    """Spans that begin anywhere, some of them with nothing held, and transactions without a block
    time: what shares the wallet's ledger while it can holds what a ledger of its own does.
    """
    entries = order_entries(entries_of(market(seed, length=30)), {})
    places = st.integers(0, len(entries) - 1)
    for place in data.draw(st.sets(places, max_size=2)):
        entries[place] = entries[place]._replace(block_time=None)
    times = sorted(entry.block_time for entry in entries if entry.block_time is not None)
    begin, end = times[0] + data.draw(st.integers(-1, 1)), times[data.draw(places) // 2] + 1
    spans = [(begin, end), (end, None)] if data.draw(st.booleans()) else [(begin, None)]
    shared = play(entries, *spans)
    with mock.patch.object(Inventory, "has_known_cost", return_value=True):
        apart = play(entries, *spans)
    assert [tell(number, *shared) for number in shared[0].records] == [
        tell(number, *apart) for number in apart[0].records
    ]


def tell(number, forward, ledger):
    """All that is derived of a span."""
    record = forward.records[number]
    risk = record.risk.rows, record.risk.token_rows
    return number, record.last, risk, forward.find_holdings(ledger)[number]


# ---- stored ----------------------------------------------------------------------------------
def list_since():
    """The running totals of attachments, in order."""
    return list(RunningTotal.select().where(RunningTotal.view != WHOLE).order_by(RunningTotal.hour))


def find_last():
    return list_since()[-1]


def attach_at(wallet, *spans):
    """Instead of its attachment: one for each (begin, end or None), in Unix seconds."""
    RunningTotal.delete().where(RunningTotal.view != WHOLE).execute()
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
    t.buy("A", 10, 100)
    t.slot += 3_600
    t.sell("A", 10, 150)
    t.slot += 3_600
    t.buy("A", 1, 7)
    truth = rebuild(wallet, t.entries)
    bought, sold, _ = list_since()
    assert (bought.realized, sold.realized, read_holdings()) == (0, 50, [(0, 7, 1)])
    mine = RunningTotal.view != WHOLE
    RunningTotal.update(realized=1).where(mine, RunningTotal.hour == bought.hour).execute()
    RunningTotal.update(hour=9).where(mine, RunningTotal.hour == sold.hour).execute()
    Attachment.update(open_cost=None).execute()
    assert rebuild(wallet, []) == truth
    assert read_holdings() == [(0, 7, 1)]


def test_a_rebuild_writes_nothing_where_the_clock_of_the_chain_runs_ahead(empty):
    """All was seen in one second, and happened in it; hours are those of block times."""
    t = Teller().gain("B", 1)
    wallet = empty()
    attach_at(wallet, (after(t), None))
    t.buy("A", 10, 100).sell("A", 10, 150).buy("A", 1, 7)
    store(wallet, t.entries)
    WalletSignature.update(seen_at=t.entries[0].block_time * 1000).execute()
    Attachment.update(attached_at=0).execute()
    rebuild(wallet, [])
    assert find_last().hour == t.entries[-1].block_time // 3_600
    again = LedgerStore()
    again.apply(wallet)
    assert again._pending[wallet.id].totals.rows == {}


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
        realized.append(find_last().realized)
        Attachment.update(detached_at=end * 1000).execute()
    assert realized == [40, 50]


def seen(entries, at):
    return [entry._replace(seen_at=at * 1000) for entry in entries]


def test_a_clock_of_the_chain_that_runs_ahead_hides_no_loss():
    """10@100 sold for 40, seen a second before the wallet was given up, though by the chain's clock
    it is yet to come: -60. What was seen after the end went by the chain's clock, and stays there.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100)
    end = after(t)
    t.sell("A", 10, 40)
    forward, _ = play(seen(t.entries, end - 1), (begin, end))
    assert last(forward).realized == -60
    forward, _ = play(seen(t.entries, end + 1_000), (begin, end))
    assert (last(forward).realized, last(forward).trades) == (0, 1)


def test_what_was_seen_before_an_attachment_is_from_before():
    """Sold for 200 by a clock that runs ahead, seen before the bot took the wallet."""
    t = Teller().buy("A", 10, 100).sell("A", 10, 200)
    begin = t.entries[-1].block_time
    forward, _ = play(seen(t.entries, begin - 1), (begin, None))
    assert forward.records == {}


def test_what_is_found_later_went_by_its_block_time(empty):
    """10@100 sold for 150 in the span, all listed only after it ended: 50."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    wallet = empty()
    attach_at(wallet, (begin, after(t)))
    rebuild(wallet, t.entries)
    assert WalletSignature.select().where(WalletSignature.seen_at < after(t) * 1000).count() == 0
    assert find_last().realized == 50


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
    assert find_last().realized == 0
    WalletSignature.update(seen_at=end * 1000 - 1).execute()
    rebuild(wallet, [])
    assert find_last().realized == -60
