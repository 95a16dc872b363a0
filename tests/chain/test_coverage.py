"""Order within a slot, the closing check, and claims about how complete a history is."""

import itertools
import random

import pytest
from scene import Scene
from story import RENT, Story, account_of, address

from chain.ledger import coverage
from chain.ledger.coverage import (
    GIVEN_UP,
    IS_PROGRAM,
    OLDER,
    BalanceChain,
    Gap,
    Progress,
    Seen,
    decide_state,
    find_overtaken,
    is_explained,
    order_entries,
)
from chain.ledger.inventory import Opening
from chain.ledger.ledger import Ledger
from chain.reading.entries import read_entry
from chain.reading.flows import Holding
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

PROGRAMS = table()


def entries_of(story, person, indexed=True):
    """The person's entries from a node with or without transactionIndex."""
    rows = story.chain().touching(address(person))
    return [
        read_entry(
            parse_receipt({**row.receipt, "transactionIndex": row.index if indexed else None}),
            address(person),
            PROGRAMS,
        )
        for row in rows
    ]


def crowded():
    """Five of ada's transactions in one slot, among others; only her balances tell their order."""
    story = Story()
    story.fund("ada", 10**9)
    for verb, *how in (
        ("buy", "CAT", 100, 5_000),
        ("sell", "CAT", 40, 3_000),
        ("buy", "CAT", 7, 900),
        ("give", "CAT", 3),
        ("fail",),
    ):
        getattr(story, verb)("ada", *how)
        story.same_slot()
    story.slot += 10
    story.sell("ada", "CAT", 64, 9_000)
    return story


# ---- order ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("indexed", [True, False])
def test_transaction_index_or_balances_order_a_slot(indexed):
    entries = entries_of(crowded(), "ada", indexed)
    for seed in range(20):
        assert order_entries(random.Random(seed).sample(entries, len(entries))) == entries


def there_and_back(earlier=0):
    """Ada's entries: she gets 50, then 10 leave and the same 10 return in a slot without indices,
    with fees paid by others. `earlier` transactions change the signatures.
    """
    story = Story()
    for _ in range(earlier):
        story.mention("eve")
    story.fund("ada", 50)
    story.transact("bank", [("lamports", "ada", "eve", 10)])
    story.same_slot()
    story.transact("bank", [("lamports", "eve", "ada", 10)])
    return entries_of(story, "ada", indexed=False)


def test_earlier_balances_decide_between_two_orders():
    """Both join by themselves; with the earlier balance only one does."""
    first, *pair = there_and_back()
    for two in itertools.permutations(pair):
        assert order_entries([first, *two]) == [first, *pair]
        assert order_entries(two, {address("ada"): Seen(1, None, 0, 50)}) == pair
    assert {e.flags for e in order_entries(pair)} == {("order_unresolved",)}


def test_equal_receipts_stay_unresolved_and_flagged():
    """Two notes that don't change ada's balances could be in either order: sorted by signature and
    flagged.
    """
    story = Story()
    story.fund("ada", 50)
    story.mention("ada")
    story.same_slot()
    story.mention("ada")
    entries = entries_of(story, "ada", indexed=False)
    ordered = order_entries(reversed(entries))
    assert [e.signature for e in ordered[1:]] == sorted(e.signature for e in entries[1:])
    assert [e.flags for e in ordered] == [(), ("order_unresolved",), ("order_unresolved",)]


def test_after_a_gap_only_the_slot_decides():
    """The earlier balance doesn't join because something is missing, but the slot still has one
    order.
    """
    entries = entries_of(crowded(), "ada", indexed=False)
    missing = {address("ada"): Seen(1, None, 0, 77)}
    assert order_entries(reversed(entries[1:]), missing) == entries[1:]


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
    return [read_entry(parse_receipt(one), address("ada"), PROGRAMS) for one in receipts]


def test_a_reopened_account_joins_by_its_first_balance():
    entries = opened_again()
    held = {address(account_of("ada", "CAT")): Seen(1, address("CAT"), 10, RENT)}
    assert order_entries(reversed(entries), held) == entries
    assert find_overtaken(entries, held) == set()
    ledger = Ledger()
    for entry in entries:
        ledger.apply(entry)
    # The same amount of FOX is not CAT.
    (where,) = held
    fox = {where: held[where]._replace(mint=address("FOX"))}
    assert find_overtaken(entries, fox) == {where}
    # 7 DOG arrived and 3 left; the 10 CAT from the beginning left.
    assert ledger.chain.gaps == [] and ledger.chain.openings == {address("CAT")}
    assert {one.mint: one.amount for one in ledger.list_positions()} == {address("DOG"): 7 - 3}


def test_an_oversized_slot_stays_unresolved():
    story = Story()
    story.fund("ada", 10**9)
    for n in range(8):
        story.transact("ada", [("lamports", "ada", "eve", n + 1)])
        story.same_slot()
    entries = entries_of(story, "ada", indexed=False)
    assert all("order_unresolved" in e.flags for e in order_entries(entries)[1:])


def test_balances_decide_whether_an_account_moved_unseen():
    """Whatever the signature order, nothing is missing."""
    sorted_alike = set()
    for earlier in range(6):
        first, *pair = there_and_back(earlier)
        seen = {address("ada"): Seen(first.slot, None, 0, 50)}
        assert find_overtaken(reversed(pair), seen) == set()
        sorted_alike.add(pair[0].signature < pair[1].signature)
    assert sorted_alike == {True, False}


def test_accounts_that_moved_unseen_are_found():
    """Ada received a whole SOL: if she has a lamport less, something was missed. Without the
    purchase, the sale begins with 7 CAT of unknown origin.
    """
    story = Story()
    for verb, *how in (("fund", 10**9), ("buy", "CAT", 7, 10_000), ("sell", "CAT", 7, 9_000)):
        getattr(story, verb)("ada", *how)
    sent, *later = entries_of(story, "ada")
    (cat,) = {b.address for b in later[1].balances} - {address("ada")}
    for lamports, found in ((10**9, set()), (10**9 - 1, {address("ada")})):
        seen = {address("ada"): Seen(sent.slot, None, 0, lamports)}
        # In any order of arrival, and without changing observed entries.
        assert find_overtaken(reversed(later), seen) == found
        assert seen == {address("ada"): Seen(sent.slot, None, 0, lamports)}
    opened = {cat: Seen(sent.slot, None, 0, 0)}
    assert find_overtaken([sent, later[1]], opened) == {address("ada"), cat}
    assert find_overtaken([], opened) == set()


def test_recorded_slots_sort_the_same_by_balances_and_index(history):
    """The balances alone resolve almost all recorded slots with several receipts of a wallet, and
    always correctly.
    """
    programs, resolved, slots = table([history["venue"]]), 0, 0
    receipts = [parse_receipt(one["json"]) for one in history["transactions"]]
    index = {one["signature"]: one["index"] for one in history["transactions"]}
    for wallet in history["wallets"]:
        read = [read_entry(one, wallet, programs) for one in receipts]
        ordered = order_entries(entry for entry in read if entry.balances)
        for _, group in itertools.groupby(ordered, key=lambda entry: entry.slot):
            several = list(group)
            places = [index[one.signature] for one in several]
            is_resolved = not any("order_unresolved" in one.flags for one in several)
            slots += len(several) > 1
            resolved += len(several) > 1 and is_resolved
            assert places == sorted(places) or not is_resolved
    assert slots > 100 and resolved > 0.95 * slots


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
GAP = Gap(5, 9, "balance_break")
UNTOUCHED = {"an account": Opening.untouched("an account", "A", 5, 0)}
FAILING = "Observing this wallet is failing and will be retried: no node answers."
WAITING = {**DONE, "pending": 1, "stuck": 1}


@pytest.mark.parametrize(
    "chain, progress, state, gaps, note",
    [
        ({}, {}, "none", [], coverage.NOT_POLLED),
        ({}, {"polled": True}, "backfilling", [], coverage.FETCHING),
        ({}, {**DONE, "pending": 1}, "backfilling", [], coverage.FETCHING),
        # One full scan proves nothing.
        ({}, {**DONE, "confirmed": False}, "backfilling", [], coverage.UNCONFIRMED),
        ({}, {**DONE, "closed": False}, "backfilling", [], coverage.UNCONFIRMED),
        ({}, DONE, "complete", [], None),
        ({"gaps": [GAP]}, DONE, "partial", [GAP], coverage.HAS_GAPS),
        ({"gaps": [GAP]}, {**DONE, "confirmed": False}, "partial", [GAP], coverage.HAS_GAPS),
        # Gaps don't count until everything is fetched.
        ({"gaps": [GAP]}, {**DONE, "pending": 1}, "backfilling", [], coverage.FETCHING),
        ({"untouched": UNTOUCHED}, DONE, "partial", [], coverage.OLDER),
        ({}, {**DONE, "pending": 2, "stuck": 2}, "partial", [], coverage.STUCK),
        (
            *({}, {**WAITING, "refused": ((7, "no meta"),)}, "partial"),
            *([Gap(7, 7, "receipt_refused: no meta")], coverage.HAS_GAPS),
        ),
        (
            *({"gaps": [GAP]}, {**DONE, "unexplained": (("a", 3, 8), ("b", 3, 8))}, "partial"),
            *([Gap(3, 8, "closing_balance"), GAP], coverage.HAS_GAPS),
        ),
        ({}, {**DONE, "capped": True}, "partial", [], coverage.CAPPED),
        ({}, {**DONE, "accounts_capped": True}, "partial", [], coverage.ACCOUNTS_CAPPED),
        ({"gaps": [GAP]}, {**DONE, "program": True}, "none", [], coverage.IS_PROGRAM),
    ],
)
def test_coverage_state_is_reported(chain, progress, state, gaps, note):
    assert decide_state(BalanceChain(**chain), Progress(**progress)) == (state, gaps, note)


@pytest.mark.parametrize("filled, is_told", [(0, False), (79, False), (80, True), (340, True)])
def test_a_wallet_near_a_limit_is_reported_from_80_percent(filled, is_told):
    state, _, note = decide_state(BalanceChain(), Progress(**DONE, filled=filled))
    assert state == "complete"
    assert note == (f"This wallet has used {filled}% of this service's limit." if is_told else None)


@pytest.mark.parametrize(
    "chain, more, notes",
    [
        ({}, {"given_up": True}, [GIVEN_UP]),
        ({"untouched": UNTOUCHED}, {"given_up": True}, [OLDER, GIVEN_UP]),
        ({}, {"trouble": "no node answers"}, [FAILING]),
        ({}, {"program": True, "trouble": "no node answers"}, [IS_PROGRAM, FAILING]),
        ({}, {"given_up": True, "trouble": "no node answers"}, [GIVEN_UP, FAILING]),
    ],
)
def test_notes_are_joined_in_their_order(chain, more, notes):
    chain = BalanceChain(**chain)
    state, gaps, note = decide_state(chain, Progress(**DONE, **more))
    assert note == " ".join(notes)
    if "program" not in more:
        assert (state, gaps) == decide_state(chain, Progress(**DONE))[:2]
