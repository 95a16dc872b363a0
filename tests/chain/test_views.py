"""Views of a ledger: a wallet's record since a bot attached it, apart from its earlier record."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import All, Oracle, Watched
from sampling import examples
from teller import (
    ANY_STEP,
    STEP,
    USDC,
    Silent,
    Teller,
    name_accounts,
    play,
    rebuild,
    write_steps,
)
from textledgers import list_ledgers

from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE
from chain.ledger.totals import ALL_HISTORY, Account, Holdings, Span, Spans

LEDGERS = list_ledgers("""
# a purchase at an unknown time has an unknown cost in an attachment
gain 1 B
attach
undated buy 10 A for 100
sell 10 A for 150               => matched 150-100 | since: unmatched | since: trades 1

# 5 of 15 units were bought in the attachment
gain 1 B
attach
buy 5 A for 50
undated buy 10 A for 100
sell 15 A for 300               => matched 300-150 | since: partial 100-50 | since: volume 50+300
                                 | since: unmatched_proceeds 200

# a sale at an unknown time closes no position, and the next one has its own result
gain 1 B
attach
buy 4 C for 40
undated sell 2 C for 90
sell 2 C for 30                 => since: positions 1 | since: won 0 | since: open 0
buy 1 D for 10
undated sell 1 D for 90
buy 1 D for 10
sell 1 D for 5                  => since: positions 2 | since: won 0 | since: realized 10-5

# a loss seen before the disconnection counts, though its block is dated later
gain 1 B
attach
buy 10 A for 100
detach
seen 130 sell 10 A for 40       => since: realized 40-100

# a loss seen after the disconnection is dated by its block
gain 1 B
attach
buy 10 A for 100
detach
seen 1130 sell 10 A for 40      => since: realized 0 | since: trades 1

# a sale seen before an attachment is older, though its block is dated later
buy 10 A for 100
attach
seen 120 sell 10 A for 200      => matched 200-100 | since: trades 0

# a purchase that a clock set back dates before an attachment is older
gain 1 B
attach
buy 5 A for 50
dated 120 buy 5 A for 90
sell 10 A for 200               => since: partial 100-50 | since: trades 2 | since: volume 50+200

# a purchase in the very second of an attachment belongs to it
gain 1 B
attach
dated 121 buy 5 A for 50        => since: holding 1
sell 5 A for 70                 => since: matched 70-50 | since: trades 2 | since: holding 0

# a cost that a swap carries into an attachment stays older
buy 2 A for 10
attach
buy 4 A for 10
swap 6 A for 6 B
sell 6 B for 60                 => matched 60-20 | since: partial 40-10

# a swap at an unknown time makes the cost unknown in an attachment
gain 1 B
attach
buy 5 A for 50
undated swap 5 A for 5 C
sell 5 C for 70                 => matched 70-50 | since: unmatched

# a day is counted once; a clock set back starts no earlier one
dated 172800 buy 10 A for 100
dated 176400 sell 5 A for 100
dated 172799 sell 5 A for 80    => days 1 | realized 180-100
dated 259200 buy 1 A for 1      => days 2
""")


@pytest.mark.parametrize("title", LEDGERS)
def test_an_attachment_counts_what_happened_in_it(title):
    LEDGERS[title].check()


def test_an_attachment_without_entries_holds_nothing():
    entries = Teller().buy("A", 10, 100).entries
    for spans, held in (((), {}), ((Span(1, 10**6, None),), {1: Holdings()})):
        ledger, _ = rebuild(entries, spans=Spans(spans))
        assert ledger.find_holdings() == held and list(ledger.accounts) == [WHOLE]


# ---- an oracle written apart ---------------------------------------------------------------------
SUMS = (
    *("realized", "cost", "proceeds", "matched", "partial", "unmatched", "winning", "volume"),
    *("trades", "carried", "cost_left", "unmatched_proceeds"),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    steps=st.lists(STEP, max_size=40),
    jumps=st.lists(st.none() | st.integers(-40, 40), min_size=42, max_size=42),
    at=st.lists(st.integers(90, 500), min_size=3, max_size=3).map(sorted),
    money=st.sampled_from([SOL, SOL, USDC]),
)
def test_every_view_matches_the_oracle(steps, jumps, at, money):
    """Over all history and since each of two attachments, in SOL and in a stablecoin, after each
    step. The chain's clock sometimes steps back, and some times are unknown.
    """
    times = [None if jump is None else 110 + 10 * n + jump for n, jump in enumerate(jumps)]
    begin, end, again = (1000 * one for one in at)
    teller = Watched((Span(1, begin, end), Span(2, again, None)), money, times)
    if money != SOL:
        teller.gain("Q", 10**9)
        steps = [(*one[:3], abs(one[3]) + 1) if one[0] == "sell" else one for one in steps]
    whole = teller.oracles[ALL_HISTORY]
    for verb in play(steps, teller, All(teller)):
        for number, oracle in teller.oracles.items():
            account = teller.ledger.accounts.get((money, number), Account())
            told = {name: getattr(account.totals, name) for name in SUMS}
            assert told == {name: oracle.sums[name] for name in SUMS}
        assert [teller.lots(mint, money) for mint in "ABC"] == [whole.lots(mint) for mint in "ABC"]
        if verb == "sell":
            assert teller.made[money, ALL_HISTORY].result == whole.results[-1]
    if money != SOL:
        return
    realized = [one.sums["realized"] for number, one in teller.oracles.items() if number]
    assert teller.ledger.find_forward_realized() == sum(realized)
    for number, told in teller.ledger.find_holdings().items():
        oracle = teller.oracles[number]
        held = teller.held.get(number, oracle.count_held())
        assert told == (held, oracle.sums["realized"])


@settings(max_examples=examples(100), deadline=None)
@given(
    before=st.dictionaries(
        st.sampled_from(["A", "A/2", "B", "B/2"]), st.integers(1, 60), min_size=1
    ),
    steps=st.lists(STEP, max_size=30),
    choices=st.lists(st.booleans(), min_size=90),
)
def test_late_opening_inventory_still_matches_the_oracle(before, steps, choices):
    """Two accounts per mint, some with balances from before; the oracle gets all of those at once,
    in order of appearance.
    """
    teller = Teller(lamports=10**12, **before)
    steps = name_accounts(teller, steps, iter(choices))
    for _ in play(steps, teller, Silent()):
        pass
    oracle, met = Oracle(), set()
    for one in [one for entry in teller.entries for one in entry.balances[1:]]:
        if one.address not in met:
            met.add(one.address)
            oracle.put(one.mint, one.before, None)
    for _ in play(steps, Teller(lamports=10**12, **before), oracle):
        pass
    ledger, made = rebuild(teller.entries)
    booked = [one[WHOLE] for one in made]
    assert [one.result for one in booked if one.side.kind == "sell"] == oracle.results
    assert ledger.totals.realized == oracle.sums["realized"]


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
