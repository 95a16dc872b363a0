"""Written histories: ordinary and odd ones, from the accounting rules only (ordinary.txt); what a
market paid and what only arrived at the same time (value.txt); and deceptive ones by someone who
knows the rules, each next to an honest twin that keeps its result (attacks.txt). histories.py
explains the format. At the end, transactions assembled by chance.
"""

import re
from collections import Counter

import pytest
from histories import TextHistory, read_file
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from scene import FEE

from chain.ledger.ledger import WHOLE

ORDINARY, VALUE, ATTACKS = map(read_file, ("ordinary.txt", "value.txt", "attacks.txt"))
LISTED = [*ORDINARY, *VALUE, *ATTACKS]


@pytest.mark.parametrize("title, text", LISTED, ids=[title for title, _ in LISTED])
def test_each_written_history_has_its_stated_results(title, text):
    TextHistory(text, title).check()


def test_titles_are_unique():
    assert len({title for title, _ in LISTED}) == len(LISTED) >= 500


HEALED = [one for one in ORDINARY if "healed" in one[1]]


@pytest.mark.parametrize("title, text", HEALED, ids=[title for title, _ in HEALED])
def test_a_repaired_gap_leaves_no_trace(title, text):
    """Once the node returns everything, every sale has its full result."""
    history = TextHistory(text, title)
    history.hidden.clear()
    history.check(healed=True)


# ---- drawn by chance -----------------------------------------------------------------------------
BEFORE = """
bank: bank>ada 20000000; bank>ada 1000 CAT; bank>ada 500 DOG
wrap ada 5000000
friend: do open friend friend CAT purse; friend>purse 400 CAT; do create friend chest 2000000
"""
BUY = "pump(ada curve){ada>curve PAID; curve>ada RAW MINT}"
TRADES = [
    BUY,
    "pump(ada curve){ada>curve RAW MINT; curve~>ada PAID}",
    "cpmm(ada pool){ada>pool RAW MINT; pool>ada PAID SOL}",
]
OTHERS = [
    # Payments, gifts and a loan.
    *("friend>ada PAID", "ada>friend PAID", "friend>ada PAID; ada>friend PAID"),
    *("friend>ada'MINT PAID", "friend>ada RAW MINT", "friend>ada PAID SOL"),
    *("do withdraw nonce vault ada PAID", "do withdraw stake vault ada PAID"),
    # Accounts that change hands.
    *("do hand_over purse ada", "do adopt chest ada; do close chest ada"),
    # Programs that trade nothing.
    *("jup(ada){}", "odd(ada vault){vault~>ada PAID}", "pump(ada vault){vault~>ada PAID}"),
    # Other people's trades.
    "pump(friend curve ada){friend>curve PAID; curve>ada RAW MINT}",
    "pump(ada curve friend){ada>curve PAID; curve>friend RAW MINT}",
    "pump(twin curve ada){twin>curve RAW CAT; curve~>ada PAID}",
    "pump(twin curve){twin>curve RAW CAT; curve~>twin PAID}; odd(ada twin){twin~>ada PAID}",
]
# A mint, raw units of it, and lamports.
AMOUNTS = (st.sampled_from(("CAT", "DOG")), st.integers(1, 100), st.integers(10**6, 2 * 10**9))


def fill_in(part, mint, raw, lamports):
    words = {"MINT": mint, "RAW": str(raw), "PAID": f"{lamports // 1000}.{lamports % 1000:03}"}
    return re.sub("MINT|RAW|PAID", lambda found: words[found[0]], part)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(TRADES), *AMOUNTS), max_size=1),
    st.lists(
        st.tuples(st.sampled_from(TRADES + OTHERS), *AMOUNTS),
        max_size=4,
        unique_by=lambda one: one[0] if re.search("purse|chest", one[0]) else one,
    ),
    st.integers(0, 4),
    st.booleans(),
)
def test_a_price_never_exceeds_what_pools_paid(trade, others, place, wrapped):
    """Often a trade among gifts and other people's trades, with instructions or inside an unknown
    call: venue and outside add up, all priced SOL and tokens passed through a pool, and the sums
    reconcile.
    """
    parts = [*others[:place], *trade, *others[place:]]
    text = "; ".join(fill_in(*part) for part in parts)
    text = f"odd(ada vault){{{text}}}" if wrapped else text or "jup(){}"
    history = TextHistory(f"{BEFORE}ada+friend: {text}")
    told = history.read()
    found = told.entries[-1]
    through = {mint: change for mint, change, _ in found.venue_tokens}
    beside = {mint: change for mint, change, _ in found.beside_tokens}
    whole = {mint: through.get(mint, 0) + beside.get(mint, 0) for mint in through | beside}
    assert {mint: change for mint, change in whole.items() if change} == {
        mint: change for mint, change, _ in found.tokens
    }
    assert found.venue_sol + found.beside_sol == found.sol
    is_trade = found.kind in ("buy", "sell", "swap", "round_trip")
    assert found.explained_percent in (range(101) if is_trade else (None,))
    assert told.ledger.reconcile().difference == 0
    if not is_trade or "value_unexplained" in found.flags:
        assert told.booked[found.signature][WHOLE].result is None
        assert not told.ledger.totals.volume
        return
    # What pools paid her, minus what she paid them.
    paid = Counter({"SOL": -FEE})
    for part, mint, raw, lamports in parts:
        if part in TRADES:
            sign = -1 if part == BUY else 1
            paid.update({"SOL": sign * lamports, mint: -sign * raw})
    assert found.venue_sol <= paid["SOL"]
    for mint in ("CAT", "DOG"):
        assert through.get(history.address(mint), 0) <= paid[mint]
