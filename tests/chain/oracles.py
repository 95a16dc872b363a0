"""An independent implementation of docs/results.md, in fractions rounded where the page rounds. It
shares no code with the ledger.
"""

from collections import Counter
from fractions import Fraction
from itertools import count
from math import floor
from typing import NamedTuple

from teller import Teller, mint_of

from chain.ledger.inventory import SOL
from chain.ledger.ledger import Ledger
from chain.ledger.totals import ALL_HISTORY, Spans


class Piece(NamedTuple):
    """Units taken from a pile. `seen` is their cost if the view knows it."""

    amount: int
    cost: int | None
    since: int
    seen: int | None
    tag: object


def split(total, sizes):
    """Divide by size, rounded down; the last gets the rest."""
    cuts = [floor(total * Fraction(size, sum(sizes))) for size in sizes[:-1]]
    return [*cuts, total - sum(cuts)]


class Oracle:
    """First in, first out in one currency, as a view from `begins` sees it: earlier costs are
    unknown in it, and entries count only while `counts`. `sums` have the names of Totals.

    `piles`: [mint, amount, cost, amount left, cost left, since, tag], oldest first.
    """

    def __init__(self, begins=-1, counts=True, in_sol=True):
        self.begins, self.counts, self.in_sol = begins, counts, in_sol
        self.when, self.piles, self.sums, self.results = -1, [], Counter(), []

    def count(self, **sums):
        if self.counts:
            self.sums.update(sums)

    def add(self, mint, amount, cost, since=None, tag=None):
        if amount > 0:
            since = self.when if since is None else since
            self.piles.append([mint_of(mint), amount, cost, amount, cost, since, tag])

    def cut(self, mint, amount):
        """Take the oldest units."""
        pieces = []
        for pile in self.piles:
            part = min(pile[3], amount) if pile[0] == mint_of(mint) else 0
            if part:
                pile[3], amount, cost = pile[3] - part, amount - part, None
                if pile[2] is not None:
                    cost = floor(Fraction(pile[2] * part, pile[1])) if pile[3] else pile[4]
                    pile[4] -= cost
                seen = cost if pile[5] >= self.begins else None
                pieces.append(Piece(part, cost, pile[5], seen, pile[6]))
        assert not amount
        return pieces

    # ---- steps -----------------------------------------------------------------------------------
    def put(self, mint, amount, cost):
        if cost is not None:
            self.count(trades=1, volume=cost)
        self.add(mint, amount, cost)

    def take(self, mint, amount):
        left = sum(one.seen or 0 for one in self.cut(mint, amount))
        self.count(cost_left=left)
        return left

    def sell(self, mint, amount, proceeds):
        pieces = self.cut(mint, amount)
        shares = split(proceeds, [one.amount for one in pieces])
        seen = [(n, one) for n, one in zip(shares, pieces, strict=True) if one.seen is not None]
        gross, cost = sum(n for n, _ in seen), sum(one.seen for _, one in seen)
        dark = amount - sum(one.amount for _, one in seen)
        status = "unmatched" if not seen else "matched" if dark * 1000 < amount else "partial"
        self.count(trades=1, volume=abs(proceeds), realized=gross - cost, cost=cost, proceeds=gross)
        self.count(winning=gross > cost, unmatched_proceeds=proceeds - gross, **{status: 1})
        self.results.append(gross - cost if seen else None)
        return pieces, status

    def swap(self, mint, amount, other, got, spent=0):
        """Pieces too small for a unit of the other mint join the next one."""
        groups = [[]]
        for piece in self.cut(mint, amount):
            if got * sum(one.amount for one in groups[-1]) >= amount:
                groups.append([])
            groups[-1].append(piece)
        if len(groups) > 1 and got * sum(one.amount for one in groups[-1]) < amount:
            groups[-2:] = [groups[-2] + groups[-1]]
        sizes = [sum(one.amount for one in group) for group in groups]
        self.count(trades=self.in_sol)
        for group, new, paid in zip(groups, split(got, sizes), split(spent, sizes), strict=True):
            is_known = all(one.cost is not None for one in group)
            cost = sum(one.cost for one in group) + paid if is_known else None
            since = min(self.when, *(one.since for one in group))
            self.add(other, new, cost, since, any(one.tag for one in group))
            if all(one.seen is not None for one in group):
                self.count(carried=self.in_sol)
            else:
                self.count(other=-paid, cost_left=sum(one.seen or 0 for one in group))

    # ---- afterwards ------------------------------------------------------------------------------
    def list_known(self):
        return [one for one in self.piles if one[2] is not None and one[5] >= self.begins]

    def sum_open_cost(self):
        return sum(one[4] for one in self.list_known())

    def count_held(self):
        """Count tokens with some known cost."""
        return len({one[0] for one in self.list_known() if one[3]})

    def lots(self, mint):
        """As teller.show_lots."""
        piles = [one for one in self.piles if one[0] == mint and one[3]]
        return " ".join(f"{one[3]}@{'?' if one[2] is None else one[4]}" for one in piles)


class Watched(Teller):
    """A Teller in one currency whose entries happen at `times`, before an oracle of all history and
    one per span. `held`: tokens by span when it ended.
    """

    def __init__(self, spans=(), money=SOL, times=None, oracle=Oracle):
        self.money, self.spans, self.held, self.now = money, spans, {}, 0
        self.times = count(110, 10) if times is None else iter(times)
        self.oracles = {one.number: oracle(one.begins_ms, False, money == SOL) for one in spans}
        self.oracles[ALL_HISTORY] = oracle(-1, True, money == SOL)
        super().__init__(Ledger(spans=Spans(spans)))

    def book(self, entry):
        entry = self.entries[-1] = entry._replace(block_time=next(self.times))
        when = -1 if entry.happened_at is None else entry.happened_at
        self.now = max(self.now, when)
        for number, begins, ends in self.spans:
            if ends and self.now >= ends:
                self.held.setdefault(number, self.oracles[number].count_held())
            self.oracles[number].counts = when >= begins and not (ends and self.now >= ends)
        for oracle in self.oracles.values():
            oracle.when = when
        super().book(entry)

    def buy(self, mint, raw, cost):
        if self.money == SOL:
            return super().buy(mint, raw, cost)
        return self.swap("Q", cost, mint, raw)

    def sell(self, mint, raw, proceeds):
        if self.money == SOL:
            return super().sell(mint, raw, proceeds)
        return self.swap(mint, raw, "Q", proceeds)


class All:
    """Feeds all oracles of a Watched. A swap spends SOL."""

    def __init__(self, teller):
        self.teller = teller

    def __getattr__(self, verb):
        def tell(*how):
            if verb == "swap" and self.teller.money != SOL:
                how = (*how[:-1], 0)
            for oracle in self.teller.oracles.values():
                getattr(oracle, verb)(*how)

        return tell
