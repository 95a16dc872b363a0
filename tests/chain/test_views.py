"""Views of a ledger: a wallet's record since a bot attached it, apart from its earlier record."""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor

from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from story import ADA, market
from teller import ANY_STEP, STEP, USDC, Teller, play, rebuild, write_steps

from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL
from chain.ledger.ledger import Ledger
from chain.ledger.totals import ALL_HISTORY, Account, Holdings, Span, Spans, Totals
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt


def spans_of(*spans):
    """`spans`: (begin, end or None) in Unix seconds, numbered from 1."""
    return Spans(
        tuple(
            Span(number, begin * 1000, end and end * 1000)
            for number, (begin, end) in enumerate(spans, 1)
        )
    )


def view(entries, *spans, backfilled=True):
    """The Ledger after these entries."""
    ledger = Ledger(backfilled, spans_of(*spans))
    for entry in entries:
        ledger.apply(entry)
    return ledger


def totals(ledger, number=1, money=SOL):
    return ledger.accounts[money, number].totals


def after(teller):
    """The Unix second after the last transaction."""
    return teller.entries[-1].block_time + 1


def test_entries_without_a_block_time_count_in_no_window():
    """10@100 at an unknown time, sold for 150 at a known one: its cost is unknown here."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100).sell("A", 10, 150)
    t.entries[2] = t.entries[2]._replace(block_time=None)
    ledger = view(t.entries, (begin, None))
    assert ledger.totals.realized == 50
    assert (totals(ledger).realized, totals(ledger).trades, totals(ledger).unmatched) == (0, 1, 1)


def test_entries_without_a_block_time_count_in_no_span():
    """5@50 bought in the span, then 10@100 at an unknown time; 15 are sold for 300. 5 of 15 sold
    for 100, 50 more than their cost; the others' cost is unknown, and they sold for 200.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 5, 50).buy("A", 10, 100).sell("A", 15, 300)
    t.entries[3] = t.entries[3]._replace(block_time=None)
    ledger = view(t.entries, (begin, None))
    assert ledger.totals.realized == 300 - 50 - 100
    assert totals(ledger) == Totals(
        **{"realized": 50, "cost": 50, "volume": 350, "trades": 2, "partial": 1, "winning": 1},
        **{"proceeds": 100, "unmatched_proceeds": 200},
    )


def test_a_sale_without_a_time_closes_no_position():
    """Of 4@40, two leave at an unknown time and two sell for 30: the position cost 40 and lost.
    1@10, which left at an unknown time, has no sale; the token's next position lost 5.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("C", 4, 40).sell("C", 2, 90).sell("C", 2, 30)
    t.buy("D", 1, 10).sell("D", 1, 90).buy("D", 1, 10).sell("D", 1, 5)
    for place in (3, 6):
        t.entries[place] = t.entries[place]._replace(block_time=None)
    ledger = view(t.entries, (begin, None))
    told = ledger.accounts[SOL, 1].sums
    assert (told.positions, told.positions_won, told.held) == (2, 0, 0)
    assert totals(ledger).realized == 10 - 5


def test_an_attachment_without_entries_holds_nothing():
    t = Teller().buy("A", 10, 100)
    ledger = view(t.entries, (after(t), None))
    assert (SOL, 1) not in ledger.accounts
    assert ledger.find_holdings() == {1: Holdings()}


def seen(entries, at):
    return [entry._replace(seen_at=at * 1000) for entry in entries]


def test_a_fast_chain_clock_hides_no_loss():
    """10@100 sold for 40, seen a second before the disconnection, though its block time is later:
    -60. Entries seen after the end follow the chain's clock.
    """
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 10, 100)
    end = after(t)
    t.sell("A", 10, 40)
    ledger = view(seen(t.entries, end - 1), (begin, end))
    assert totals(ledger).realized == -60
    ledger = view(seen(t.entries, end + 1_000), (begin, end))
    assert (totals(ledger).realized, totals(ledger).trades) == (0, 1)


def test_entries_seen_before_an_attachment_are_earlier():
    """Sold for 200 by a fast clock, seen before the bot connected the wallet."""
    t = Teller().buy("A", 10, 100).sell("A", 10, 200)
    begin = t.entries[-1].block_time
    ledger = view(seen(t.entries, begin - 1), (begin, None))
    assert (SOL, 1) not in ledger.accounts


def test_entries_dated_before_a_span_by_a_clock_set_back_do_not_count():
    """5@50 bought in the span, then 5@90 at a time before it; 10 are sold for 200: 100 - 50."""
    t = Teller().gain("B", 1)
    begin = after(t)
    t.buy("A", 5, 50).buy("A", 5, 90).sell("A", 10, 200)
    t.entries[3] = t.entries[3]._replace(block_time=begin - 1)
    told = totals(view(t.entries, (begin, None)))
    assert (told.trades, told.volume, told.realized, told.partial) == (2, 250, 50, 1)


def test_a_wallet_without_a_bot_has_no_view():
    ledger = Teller().gain("A", 1).ledger
    assert ledger.find_holdings() == {} and list(ledger.accounts) == [(SOL, ALL_HISTORY)]


def test_hours_follow_the_latest_time_in_every_view():
    """50 gained in hour 5 by the chain's clock, which then steps back to hour 4: another 30. Both
    count in hour 5; the hour never decreases.
    """
    t = Teller().gain("B", 1).buy("A", 10, 100).sell("A", 5, 100).sell("A", 5, 80)
    hours = [3, 4, 4, 5, 4]
    entries = [e._replace(block_time=h * 3600) for e, h in zip(t.entries, hours, strict=True)]
    ledger = view(entries, (4 * 3600, None))
    assert ledger.hour == 5
    assert [ledger.accounts[SOL, number].days for number in (ALL_HISTORY, 1)] == [1, 1]


# ---- stablecoins ---------------------------------------------------------------------------------
# ---- an oracle written apart ---------------------------------------------------------------------
@dataclass
class Seer:
    """First in, first out in one currency, as one view sees it. Piles are [mint, amount, cost,
    amount left, cost left, since]; a cost from before the view is unknown in it.
    """

    begins: int
    counts: bool = False
    when: int = -1
    piles: list = field(default_factory=list)
    sums: Counter = field(default_factory=Counter)

    def count(self, **sums):
        if self.counts:
            self.sums.update(sums)

    def put(self, mint, amount, cost):
        if cost is not None:
            self.count(trades=1, volume=cost)
        self.piles.append([mint, amount, cost, amount, cost, self.when])

    def cut(self, mint, amount):
        """(part, cost, since, the cost if the view knows it) of each pile."""
        for pile in self.piles:
            part = min(pile[3], amount) if pile[0] == mint else 0
            if part:
                pile[3], amount, cost = pile[3] - part, amount - part, None
                if pile[2] is not None:
                    cost = floor(Fraction(pile[2] * part, pile[1])) if pile[3] else pile[4]
                    pile[4] -= cost
                yield part, cost, pile[5], cost if pile[5] >= self.begins else None

    def take(self, mint, amount):
        self.count(cost_left=sum(seen or 0 for *_, seen in self.cut(mint, amount)))

    def sell(self, mint, amount, proceeds):
        parts = list(self.cut(mint, amount))
        shares = split(proceeds, [part for part, *_ in parts])
        seen = [(n, one[3]) for n, one in zip(shares, parts, strict=True) if one[3] is not None]
        gross, cost = sum(n for n, _ in seen), sum(cost for _, cost in seen)
        status = "matched" if len(seen) == len(parts) else "partial" if seen else "unmatched"
        self.count(trades=1, volume=abs(proceeds), realized=gross - cost, cost=cost)
        self.count(winning=gross > cost, unmatched_proceeds=proceeds - gross, **{status: 1})

    def swap(self, mint, amount, other, got, spent):
        groups = [[]]
        for part in self.cut(mint, amount):
            if got * sum(one[0] for one in groups[-1]) >= amount:
                groups.append([])
            groups[-1].append(part)
        if len(groups) > 1 and got * sum(one[0] for one in groups[-1]) < amount:
            groups[-2:] = [groups[-2] + groups[-1]]
        sizes = [sum(one[0] for one in group) for group in groups]
        self.count(trades=self.in_sol)
        for group, new, paid in zip(groups, split(got, sizes), split(spent, sizes), strict=True):
            is_known = all(one[1] is not None for one in group)
            cost = sum(one[1] for one in group) + paid if is_known else None
            self.piles.append([other, new, cost, new, cost, min(self.when, *(x[2] for x in group))])
            is_seen = all(one[3] is not None for one in group)
            carried = is_seen and self.in_sol
            self.count(carried=carried, cost_left=0 if is_seen else sum(x[3] or 0 for x in group))

    def sum_open_cost(self):
        return sum(pile[4] for pile in self.piles if pile[2] is not None and pile[5] >= self.begins)

    def count_held(self):
        """Count tokens with some known cost."""
        known = (one for one in self.piles if one[2] is not None and one[5] >= self.begins)
        return len({one[0] for one in known if one[3]})


def split(total, sizes):
    """Divide by size, rounded down; the last gets the rest."""
    cuts = [floor(total * Fraction(size, sum(sizes))) for size in sizes[:-1]]
    return [*cuts, total - sum(cuts)]


class Watched(Teller):
    """A Teller in one currency whose entries happen at `times`, before a Seer of all history and
    one per span. `held`: tokens by span when it ended.
    """

    def __init__(self, money, times, spans):
        self.money, self.times, self.spans, self.held, self.now = money, iter(times), spans, {}, 0
        self.seers = {ALL_HISTORY: Seer(-1, True), **{one.number: Seer(one[1]) for one in spans}}
        for seer in self.seers.values():
            seer.in_sol = money == SOL
        super().__init__(Ledger(spans=Spans(spans)))

    def book(self, entry):
        entry = self.entries[-1] = entry._replace(block_time=next(self.times))
        when = -1 if entry.happened_at is None else entry.happened_at
        self.now = max(self.now, when)
        for number, begins, ends in self.spans:
            if ends and self.now >= ends:
                self.held.setdefault(number, self.seers[number].count_held())
            self.seers[number].counts = when >= begins and not (ends and self.now >= ends)
        for seer in self.seers.values():
            seer.when = when
        super().book(entry)

    def buy(self, mint, raw, cost):
        if self.money == SOL:
            return super().buy(mint, raw, cost)
        return self.swap("Q", cost, mint, raw)

    def sell(self, mint, raw, proceeds):
        if self.money == SOL:
            return super().sell(mint, raw, proceeds)
        return self.swap(mint, raw, "Q", proceeds)


SUMS = (
    *("realized", "cost", "matched", "partial", "unmatched", "winning", "volume", "trades"),
    *("carried", "cost_left", "unmatched_proceeds"),
)


class All:
    """Feeds all seers of a Watched. A swap spends SOL."""

    def __init__(self, teller):
        self.teller = teller

    def __getattr__(self, verb):
        def tell(*how):
            if verb == "swap" and self.teller.money != SOL:
                how = (*how[:-1], 0)
            for seer in self.teller.seers.values():
                getattr(seer, verb)(*how)

        return tell


@settings(max_examples=examples(100), deadline=None)
@given(
    steps=st.lists(STEP, max_size=30),
    jumps=st.lists(st.none() | st.integers(-40, 40), min_size=32, max_size=32),
    at=st.lists(st.integers(90, 450), min_size=3, max_size=3).map(sorted),
    money=st.sampled_from([SOL, USDC]),
)
def test_every_view_matches_the_oracle(steps, jumps, at, money):
    """Over all history and since each of two attachments, in SOL and in a stablecoin. The chain's
    clock sometimes steps back, and some times are unknown.
    """
    times = [None if jump is None else 110 + 10 * n + jump for n, jump in enumerate(jumps)]
    begin, end, again = (1000 * one for one in at)
    teller = Watched(money, times, (Span(1, begin, end), Span(2, again, None)))
    if money != SOL:
        teller.gain("Q", 10**9)
        steps = [(*one[:3], abs(one[3]) + 1) if one[0] == "sell" else one for one in steps]
    for _ in play(steps, teller, All(teller)):
        for number, seer in teller.seers.items():
            account = teller.ledger.accounts.get((money, number), Account())
            told = {name: getattr(account.totals, name) for name in SUMS}
            assert told == {name: seer.sums[name] for name in SUMS}
    if money != SOL:
        return
    realized = [one.sums["realized"] for number, one in teller.seers.items() if number]
    assert teller.ledger.find_forward_realized() == sum(realized)
    for number, told in teller.ledger.find_holdings().items():
        seer = teller.seers[number]
        held = teller.held.get(number, seer.count_held())
        assert told == (held, seer.sums["realized"])


@settings(max_examples=examples(100), deadline=None)
@given(drawn=st.lists(ANY_STEP, max_size=30), missing=st.integers(0, 40))
def test_a_span_from_the_beginning_equals_all_history(drawn, missing):
    """In every currency: sums, risk, and each transaction's results, also after a gap."""
    entries = write_steps(drawn, Teller(lamports=10**12, Q=90, A=20)).entries
    entries = entries[:missing] + entries[missing + 1 :]
    ledger, made = rebuild(entries, spans=Spans((Span(1, 0, None),)))
    for money in ledger.inventories:
        assert [one[money, 1] for one in made if (money, 1) in one] == [
            one[money, ALL_HISTORY] for one in made if (money, ALL_HISTORY) in one
        ]
        whole = ledger.accounts[money, ALL_HISTORY]
        # A view doesn't count balances.
        alike = replace(whole.totals, opening=0, closing=0, gaps=0)
        assert ledger.accounts.get((money, 1), Account()) == replace(whole, totals=alike)
    positions = [one for one in ledger.list_positions() if one.cost is not None]
    assert ledger.find_holdings() == {1: Holdings(len(positions), ledger.totals.realized)}


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_market_seen_from_the_beginning_equals_all_history(seed):
    rows = market(seed, length=40).touching(ADA)
    receipts = [parse_receipt({**row.receipt, "transactionIndex": row.index}) for row in rows]
    entries = order_entries(read_entry(one, ADA, table()) for one in receipts)
    ledger = view(entries, (0, None))
    whole = replace(ledger.totals, opening=0, closing=0, gaps=0)
    assert totals(ledger) == whole
    held = sum(one.cost is not None for one in ledger.list_positions())
    assert ledger.find_holdings()[1].open_positions == held
