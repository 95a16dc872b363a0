"""Order within a slot, the closing check, and claims about how complete a history is."""

import itertools
import random

import pytest
from scene import Scene
from story import RENT, account_of, address
from textledgers import FUNDED, TextLedger

from chain.ledger import coverage
from chain.ledger.coverage import Gap, Seen, find_overtaken, is_explained, order_entries
from chain.ledger.inventory import Opening
from chain.ledger.ledger import Ledger
from chain.reading.entries import read_entry
from chain.reading.flows import Holding
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

ADA, PROGRAMS = address("ada"), table()


def in_one_slot(text, indexed=False):
    """The entries of a small ledger: the first transfer, and the rest in one slot."""
    first, *rest = TextLedger(text).teller.entries
    index = itertools.count() if indexed else itertools.repeat(None)
    return [first, *(one._replace(slot=200, tx_index=next(index)) for one in rest)]


# Only the balances tell the order.
CROWDED = """
buy 100 A for 5000
sell 40 A for 3000
buy 7 A for 900
lose 3 A
failed -5
"""
# 10 lamports leave, and 10 return.
THERE_AND_BACK = """
native_transfer -10
native_transfer 10
"""


def held(lamports):
    return {"ada": Seen(1, None, 0, lamports)}


# ---- order ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("indexed", [True, False])
def test_transaction_index_or_balances_order_a_slot(indexed):
    entries = in_one_slot(CROWDED, indexed)
    last = entries[-1]._replace(slot=210)
    for seed in range(20):
        drawn = random.Random(seed).sample([*entries[:-1], last], len(entries))
        assert order_entries(drawn) == [*entries[:-1], last]


def test_earlier_balances_decide_between_two_orders():
    """Both join by themselves; with the earlier balance only one does."""
    first, *pair = in_one_slot(THERE_AND_BACK)
    for two in itertools.permutations(pair):
        assert order_entries([first, *two]) == [first, *pair]
        assert order_entries(two, held(FUNDED)) == pair
    assert {e.flags for e in order_entries(pair)} == {("order_unresolved",)}


def test_equal_receipts_stay_unresolved_and_flagged():
    """Two notes that don't change ada's balances could be in either order: sorted by signature and
    flagged.
    """
    entries = in_one_slot("other 0\nother 0")
    first, *notes = order_entries(reversed(entries))
    assert [e.signature for e in notes] == sorted(e.signature for e in entries[1:])
    assert (first.flags, {e.flags for e in notes}) == ((), {("order_unresolved",)})


def test_after_a_gap_only_the_slot_decides():
    """The earlier balance doesn't join because something is missing, but the slot still has one
    order.
    """
    _, *entries = in_one_slot(CROWDED)
    assert order_entries(reversed(entries), held(77)) == entries


def opened_again():
    """Two of ada's entries in one slot without an index: she sends 10 CAT away, and her account is
    reopened for DOG, of which 7 arrive; then she sends 3 of them away.
    """
    scene = Scene(ada=10**9, friend=10**9).holds("ada", "CAT", 10)
    scene.holds("friend", "CAT", 0).holds("friend", "DOG", 7)
    where = account_of("ada", "CAT")
    scene.send("CAT", "ada", "friend", 10)
    scene.close(where, "ada")
    scene.open("ada", "ada", "DOG", word=where)
    scene.send("DOG", account_of("friend", "DOG"), where, 7)
    receipts = [scene.receipt("friend", "ada")]
    scene = Scene(ada=10**9, friend=10**9).holds("ada", "DOG", 7, word=where)
    scene.holds("friend", "DOG", 0)
    scene.send("DOG", where, account_of("friend", "DOG"), 3)
    receipts.append(scene.receipt("friend", "ada"))
    return [read_entry(parse_receipt(one), ADA, PROGRAMS) for one in receipts]


def test_a_reopened_account_joins_by_its_first_balance():
    """7 DOG arrived and 3 left; the 10 CAT from the beginning left."""
    entries, where = opened_again(), address(account_of("ada", "CAT"))
    cat = Seen(1, address("CAT"), 10, RENT)
    assert order_entries(reversed(entries), {where: cat}) == entries
    assert find_overtaken(entries, {where: cat}) == set()
    # The same amount of FOX is not CAT.
    assert find_overtaken(entries, {where: cat._replace(mint=address("FOX"))}) == {where}
    ledger = Ledger()
    for entry in entries:
        ledger.apply(entry)
    assert ledger.chain.gaps == [] and ledger.chain.openings == {address("CAT")}
    assert {one.mint: one.amount for one in ledger.list_positions()} == {address("DOG"): 7 - 3}


def test_a_slot_of_more_than_seven_stays_unresolved():
    for count, flags in ((7, ()), (8, ("order_unresolved",))):
        entries = in_one_slot("native_transfer -10\n" * count)
        assert {one.flags for one in order_entries(reversed(entries))[1:]} == {flags}


def test_accounts_that_moved_unseen_are_found():
    """If ada has a lamport less than she received, something was missed. Without the purchase, the
    sale begins with 7 A of unknown origin.
    """
    sent, bought, sold = TextLedger("buy 7 A for 10000\nsell 7 A for 9000").teller.entries
    # In any order of arrival and of signatures.
    assert find_overtaken([sold, bought], held(FUNDED)) == set()
    _, left, returned = in_one_slot(THERE_AND_BACK)
    for names in itertools.permutations("ab"):
        pair = [one._replace(signature=n) for one, n in zip((returned, left), names, strict=True)]
        assert find_overtaken(pair, held(FUNDED)) == set()
    assert find_overtaken([sold, bought], held(FUNDED - 1)) == {"ada"}
    opened = {"ada's A": Seen(sent.slot, None, 0, 0)}
    assert find_overtaken([sent, sold], opened) == {"ada", "ada's A"}


# ---- the closing check ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "seen, held, verdict",
    [
        (Seen(10, "A", 5, 7), Holding(10, 5, 7, "A"), True),
        (Seen(10, "A", 5, 7), Holding(99, 5, 7, "A"), True),
        (Seen(10, "A", 5, 7), Holding(10, 6, 7, "A"), False),
        (Seen(10, "A", 5, 7), Holding(10, 5, 8, "A"), False),
        # The same amount of another mint. For a zero balance, a node names no mint.
        (Seen(10, "A", 5, 7), Holding(10, 5, 7, "B"), False),
        (Seen(10, "A", 0, 7), Holding(10, 0, 7), True),
        (Seen(10, "A", 5, 7), Holding(9, 0, 0), None),
        # The node lags and proves nothing.
        (Seen(10, "A", 5, 7), Holding(9, 5, 7, "A"), None),
        (None, Holding(10, 0, 0), True),
        (None, Holding(10, 0, 1), False),
        (None, Holding(10, 1, 0, "A"), False),
    ],
)
def test_a_balance_is_explained_or_not(seen, held, verdict):
    assert is_explained(seen, held) is verdict


# ---- what is said --------------------------------------------------------------------------------
DONE = {"polled": True, "listed": True, "confirmed": True, "closed": True}
PROGRESS = {
    **{word: {word: True} for word in "polled capped accounts_capped program given_up".split()},
    **{"done": DONE, "unconfirmed": {"confirmed": False}, "open": {"closed": False}},
    **{"waiting": {"pending": 1}, "stuck": {"pending": 2, "stuck": 2}},
    **{"79%": {"filled": 79}, "80%": {"filled": 80}, "trouble": {"trouble": "no node answers"}},
    "unexplained": {"unexplained": (("a", 3, 8), ("b", 3, 8))},
    "refused": {"refused": ((7, "no meta"),)},
}
OLD = {"untouched": {"an account": Opening.untouched("an account", "A", 5, 0)}}
# In order.
GAPS = {
    "unexplained": Gap(3, 8, "closing_balance"),
    "gap": Gap(5, 9, "balance_break"),
    "refused": Gap(7, 7, "receipt_refused: no meta"),
}
CHAINS = {"old": OLD, "gap": {"gaps": [GAPS["gap"]]}}
NOTES = {
    "NEAR": "This wallet has used 80% of this service's limit.",
    "FAILING": "Observing this wallet is failing and will be retried: no node answers.",
}
# Progress, the state and the notes. One full scan proves nothing, and gaps don't count until
# everything is fetched.
SAID = """
                         => none NOT_POLLED
polled                   => backfilling FETCHING
done waiting             => backfilling FETCHING
done unconfirmed         => backfilling UNCONFIRMED
done open                => backfilling UNCONFIRMED
done                     => complete
done gap                 => partial HAS_GAPS
done gap unconfirmed     => partial HAS_GAPS
done gap waiting         => backfilling FETCHING
done old                 => partial OLDER
done stuck               => partial STUCK
done stuck refused       => partial HAS_GAPS
done gap unexplained     => partial HAS_GAPS
done capped              => partial CAPPED
done accounts_capped     => partial ACCOUNTS_CAPPED
done capped 80%          => partial CAPPED
done accounts_capped 80% => partial ACCOUNTS_CAPPED
done gap program         => none IS_PROGRAM
done 79%                 => complete
done 80%                 => complete NEAR
done given_up            => complete GIVEN_UP
done old given_up        => partial OLDER GIVEN_UP
done trouble             => complete FAILING
done trouble program     => none IS_PROGRAM FAILING
done trouble given_up    => complete GIVEN_UP FAILING
"""


@pytest.mark.parametrize("line", SAID.strip("\n").splitlines())
def test_coverage_state_is_reported(line):
    words, (state, *notes) = (part.split() for part in line.split("=>"))
    chain, progress = {}, {}
    for word in words:
        chain |= CHAINS.get(word, {})
        progress |= PROGRESS.get(word, {})
    told = [NOTES.get(name) or getattr(coverage, name) for name in notes]
    gaps = [gap for word, gap in GAPS.items() if word in words and state == "partial"]
    assert coverage.decide_state(coverage.BalanceChain(**chain), coverage.Progress(**progress)) == (
        state,
        gaps,
        " ".join(told) or None,
    )
