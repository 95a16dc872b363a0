"""Several wallets of one bot as one: what two wallets do together is what one owner does who holds
the accounts of both.
"""

import random
from collections import Counter, defaultdict, deque

import pytest
from chain.ledger.forward import Forward, Span, SpanHoldings
from chain.ledger.group_book import OWN_WALLETS, Family, begin_group, rebuild_group
from chain.ledger.group_book import Member as Wallet
from chain.ledger.groups import (
    GroupLedger,
    LedSpan,
    Stay,
    join_parts,
    join_seen,
    merge_slot,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from story import FEE, RENT, VENUE, Story, account_of, address
from teller import Teller
from test_quote_store import take_for_quotes

from chain.ledger.average import Pool
from chain.ledger.coverage import UNRESOLVED, order_entries
from chain.ledger.ledger import Ledger
from chain.ledger.lots import Seen
from chain.ledger.risk import ALL
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored.store import PendingLedger, apply_entry
from chain.stored.summary import show_positions, show_reconciliation, show_results

PROGRAMS = table()
ADA, EVE = 1, 2
NAMES = {ADA: "ada", EVE: "eve"}
ADDRESSES = {number: address(name) for number, name in NAMES.items()}


# ---- from a story to books -----------------------------------------------------------------------
class Told:
    """What a chain tells of wallets, alone and together."""

    def __init__(self, chain):
        self.receipts = {
            row.signature: parse_receipt({**row.receipt, "transactionIndex": row.index})
            for row in chain.rows
        }
        self.raw = [row.receipt for row in chain.rows]

    def entries(self, wallet):
        """The entries of a wallet in chain order."""
        read = (read_entry(one, ADDRESSES[wallet], PROGRAMS) for one in self.receipts.values())
        return order_entries(one for one in read if one.balances)

    def read(self, signature, wallets):
        first, *others = sorted(wallets)
        partners = frozenset(ADDRESSES[one] for one in others)
        return read_entry(self.receipts[signature], ADDRESSES[first], PROGRAMS, partners=partners)

    def join(self, parts):
        return join_parts(parts, self.read)

    def list_slots(self, wallets):
        listed = [(one, entry) for one in wallets for entry in self.entries(one)]
        return sorted(listed, key=lambda one: one[1].slot)


def rebuild(told, span, *stays, members=(ADA, EVE), lead=ADA):
    """The books of a span (begins, ends) that a wallet led, and of those beside it (number, wallet,
    begins, ends), in Unix seconds, None for no end.
    """
    others = tuple(Stay(number, one, *map(ms, when)) for number, one, *when in stays)
    led = LedSpan(Span(1, *map(ms, span)), lead, others)
    family = Family(lead, frozenset(members), (led,), ADDRESSES)
    ledgers = {one: GroupLedger() for one in family.wallets}
    rows = []
    begun = begin_group(family, ledgers, told.join)
    return rebuild_group(begun, lambda: told.list_slots(family.wallets), rows.append), rows


def ms(second):
    return None if second is None else second * 1_000


def alone(told, wallet, *spans):
    pending = PendingLedger(Ledger(), Forward(tuple(spans)))
    owner = Wallet(wallet, ADDRESSES[wallet])
    return pending, [apply_entry(owner, pending, one) for one in told.entries(wallet)]


def last(pending, number=1):
    return pending.forward.records[number].last


def now(story):
    """The Unix second of the last transaction."""
    return story.rows[-1].receipt["blockTime"]


def two_people(seed, length=40):
    """Two wallets that trade, are given to by strangers, and send one another what they have."""
    dice, story = random.Random(seed), Story()
    for person in NAMES.values():
        story.fund(person, 10**10)
    while len(story.rows) < length:
        person, other = dice.sample(["ada", "eve"], 2)
        mint, some = dice.choice(["CAT", "DOG"]), dice.randint(1, 1_000)
        held = story.tokens.get(account_of(person, mint), [0, 0, 0])[2]
        price = dice.randint(200_000, 9_000_000)
        verb = dice.choice(["buy", "sell", "send", "pay", "receive", "swap", "fail", "for"])
        if verb in ("sell", "send", "swap") and held < some:
            continue
        if dice.random() < 0.25:
            story.same_slot()
        if verb == "send":
            story.transact(person, [("tokens", mint, person, other, some)])
        elif verb == "pay":
            story.transact(person, [("lamports", person, other, price)])
        elif verb == "for":
            # Who pays is not who gets it.
            moves = [("lamports", person, "maker", price), ("tokens", mint, "maker", other, some)]
            story.transact(person, moves, venue="6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P")
        elif verb == "swap":
            story.swap(person, mint, some, "FOX", dice.randint(1, 500))
        elif verb == "fail":
            story.fail(person)
        elif verb == "receive":
            story.receive(person, mint, some)
        else:
            getattr(story, verb)(person, mint, some, price)
    return story


# ---- what one receipt says -----------------------------------------------------------------------
def union_of(raw):
    """From the bare balances of a receipt: by mint, what the accounts of both gained; None: SOL,
    token accounts and all.
    """
    meta, keys = raw["meta"], raw["transaction"]["message"]["accountKeys"]
    own = set(ADDRESSES.values())
    change, places = Counter(), {n for n, key in enumerate(keys) if key["pubkey"] in own}
    for sign, side in ((-1, "preTokenBalances"), (1, "postTokenBalances")):
        for row in meta[side]:
            if row["owner"] in own:
                change[row["mint"]] += sign * int(row["uiTokenAmount"]["amount"])
                places.add(row["accountIndex"])
    change[None] = sum(meta["postBalances"][n] - meta["preBalances"][n] for n in places)
    return {mint: amount for mint, amount in change.items() if amount}


@given(st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_what_two_wallets_did_is_what_their_accounts_gained_together(seed):
    told = Told(two_people(seed, 25).chain())
    for raw in told.raw:
        signature = raw["transaction"]["signatures"][0]
        entry = told.read(signature, {ADA, EVE})
        found = {mint: change for mint, change, _ in entry.tokens}
        sol = entry.sol + entry.sponsored
        assert {**found, **({None: sol} if sol else {})} == union_of(raw)
        parts = [told.read(signature, {one}) for one in NAMES]
        assert {b.address for b in entry.balances} == {
            b.address for part in parts for b in part.balances
        }
        assert entry.fee == sum(part.fee for part in parts)


def test_the_kind_is_the_one_owners():
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.receive("ada", "CAT", 1)
    paid = story.transact("ada", [("lamports", "ada", "eve", 10**6)])
    moves = [("lamports", "ada", "maker", 500_000), ("tokens", "CAT", "maker", "eve", 100)]
    bought = story.transact("ada", moves, venue="6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P")
    sent = story.transact("eve", [("tokens", "CAT", "eve", "ada", 100)])
    told = Told(story.chain())
    kinds = {
        name: [told.read(name, wallets).kind for wallets in ({ADA}, {EVE}, {ADA, EVE})]
        for name in (paid, bought, sent)
    }
    assert kinds[paid] == ["native_transfer", "native_transfer", "transfer_self"]
    # One paid for what the other got: for each alone no trade.
    assert kinds[bought][2] == "buy" and "buy" not in kinds[bought][:2]
    assert kinds[sent] == ["transfer_in", "transfer_out", "transfer_self"]


# ---- lots ----------------------------------------------------------------------------------------
class Queue:
    """First in, first out, written apart: per mint [[units, cost or None]...]."""

    def __init__(self):
        self.lots, self.realized = defaultdict(deque), 0

    def put(self, mint, units, cost):
        self.lots[mint].append([units, cost, units, cost])

    def take(self, mint, units):
        taken = []
        while units:
            lot = self.lots[mint][0]
            part = min(units, lot[2])
            lot[2] -= part
            units -= part
            if lot[1] is None:
                taken.append((part, None))
            else:
                cost = lot[1] * part // lot[0] if lot[2] else lot[3]
                lot[3] -= cost
                taken.append((part, cost))
            if not lot[2]:
                self.lots[mint].popleft()
        return taken

    def sell(self, mint, units, proceeds):
        taken, given = self.take(mint, units), 0
        for place, (part, cost) in enumerate(taken):
            rest = place == len(taken) - 1
            share = proceeds - given if rest else proceeds * part // units
            given += share
            if cost is not None:
                self.realized += share - cost


@given(st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_one_queue_of_lots_for_all_wallets(seed):
    """Every joined transaction, booked by a queue of its own: the same realized result."""
    told, queue = Told(two_people(seed).chain()), Queue()
    for signature in told.receipts:
        entry = told.read(signature, {ADA, EVE})
        moved = {mint: change for mint, change, _ in entry.tokens}
        if entry.kind == "buy":
            ((mint, units),) = moved.items()
            queue.put(mint, units, -entry.sol)
        elif entry.kind == "sell":
            ((mint, units),) = moved.items()
            queue.sell(mint, -units, entry.sol)
        elif entry.kind == "swap":
            carry(queue, moved, -entry.sol)
        else:
            for mint, change in moved.items():
                queue.put(mint, change, None) if change > 0 else queue.take(mint, -change)
    pending, _ = rebuild(told, (0, None), (2, EVE, 0, None))
    assert pending.ledger.totals.realized == queue.realized
    assert {mint: sum(lot[2] for lot in lots) for mint, lots in queue.lots.items() if lots} == {
        one.mint: one.amount for one in pending.ledger.positions()
    }


def carry(queue, moved, spent):
    (given_mint, given), (got_mint, got) = sorted(moved.items(), key=lambda one: one[1])
    taken = queue.take(given_mint, -given)
    groups, whole = [[taken[0]]], -given
    for one in taken[1:]:
        if got * sum(units for units, _ in groups[-1]) // whole:
            groups.append([one])
        else:
            groups[-1].append(one)
    if len(groups) > 1 and not got * sum(units for units, _ in groups[-1]) // whole:
        groups[-2:] = [groups[-2] + groups[-1]]
    left, rest = got, spent
    for place, group in enumerate(groups):
        units, is_last = sum(part for part, _ in group), place == len(groups) - 1
        part = left if is_last else got * units // whole
        cost = rest if is_last else spent * units // whole
        left, rest = left - part, rest - cost
        known = None if any(c is None for _, c in group) else sum(c for _, c in group) + cost
        if part:
            queue.put(got_mint, part, known)


@given(st.integers(0, 10**9))
@settings(max_examples=8, deadline=None)
def test_the_books_close_and_every_quantity_is_the_chains(seed):
    story = two_people(seed)
    told = Told(story.chain())
    pending, rows = rebuild(told, (0, None), (2, EVE, 0, None))
    assert show_reconciliation(pending.ledger)["differenceLamports"] == "0"
    assert not pending.ledger.gaps and not pending.ledger.opened
    held = Counter()
    for mint, owner, amount in story.tokens.values():
        if owner in NAMES.values() and amount:
            held[address(mint)] += amount
    assert held == {one.mint: one.amount for one in pending.ledger.positions()}
    words = [name for name in story.lamports if name in NAMES.values()]
    words += [word for word, account in story.tokens.items() if account[1] in NAMES.values()]
    assert pending.ledger.totals.closing == sum(story.lamports[word] for word in words)
    # Each wallet's row of each transaction, once.
    assert len({row["uid"] for row in rows}) == len(rows)
    assert Counter(row["wallet"] for row in rows) == {one: len(told.entries(one)) for one in NAMES}
    realized = sum(row["result"] or 0 for row in rows)
    assert realized == pending.ledger.totals.realized


@given(st.integers(0, 10**9))
@settings(max_examples=6, deadline=None)
def test_since_both_were_attached_from_the_beginning_the_record_is_the_whole(seed):
    told = Told(two_people(seed).chain())
    pending, _ = rebuild(told, (0, None), (2, EVE, 0, None))
    whole = pending.ledger.totals
    assert last(pending)[:7] == (
        *(whole.realized, whole.volume, whole.trades),
        *(whole.matched, whole.partial, whole.unmatched, whole.winning),
    )
    found = pending.forward.find_holdings(pending.ledger)
    assert found[1].open_cost == pending.ledger.inventory.sum_open_cost()
    assert pending.forward.find_stays() == {2: (0, 0)}


@given(st.integers(0, 10**9))
@settings(max_examples=6, deadline=None)
def test_a_family_of_one_has_the_rows_of_one(seed):
    told = Told(two_people(seed).chain())
    pending, rows = rebuild(told, (0, None), members=(ADA,))
    single, expected = alone(told, ADA, Span(1, 0, None))
    assert rows == expected
    assert show_results(pending.ledger) == show_results(single.ledger)
    assert show_positions(pending.ledger) == show_positions(single.ledger)
    assert pending.hours == single.hours
    assert pending.forward.records[1].rows == single.forward.records[1].rows
    assert pending.risk == single.risk


# ---- a token sent to another wallet of one's own -------------------------------------------------
def trip(seller):
    """100 CAT bought by ada, sold for 900,000 by the seller."""
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    if seller == "eve":
        story.transact("ada", [("tokens", "CAT", "ada", "eve", 100)])
    story.sell(seller, "CAT", 100, 900_000)
    return Told(story.chain())


def test_sold_from_the_other_wallet_it_earned_the_same():
    results = {}
    for seller in ("ada", "eve"):
        pending, rows = rebuild(trip(seller), (0, None), (2, EVE, 0, None))
        results[seller] = pending.ledger.totals
        sale = next(row for row in rows if row["kind"] == "sell")
        # Bought for 500,000 and a fee, sold for 900,000 less a fee; the rent is no cost.
        assert (sale["cost"], sale["proceeds"]) == (500_000 + FEE, 900_000 - FEE)
        assert sale["result"] == 400_000 - 2 * FEE and sale["realized"] == "matched"
        bought = next(row["uid"] for row in rows if row["kind"] == "buy")
        assert bought in sale["lots"]
        assert last(pending).realized == sale["result"]
    # Sending it cost a fee, and nothing left.
    assert results["eve"].overhead == results["ada"].overhead + FEE
    assert results["eve"].cost_left == results["ada"].cost_left == 0
    assert results["eve"].sent == results["ada"].sent == 0


def test_each_row_is_its_wallets():
    _, rows = rebuild(trip("eve"), (0, None), (2, EVE, 0, None))
    sent = [row for row in rows if OWN_WALLETS in row["flags"]]
    assert [(row["wallet"], row["kind"]) for row in sent] == [
        (ADA, "account_open"),
        (EVE, "account_open"),
    ]
    # The rent of eve's account, which is all that the two paid but the fee, was ada's.
    assert [row["sol_change"] for row in sent] == [-FEE - RENT, 0]
    assert ["-100" in row["token_changes"] for row in sent] == [True, False]


def test_beside_a_trade_the_other_wallets_row_is_a_move_between_own_ones():
    """Ada pays for 100 CAT that eve gets: one purchase, and one row without a venue or a token."""
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
    moves = [("lamports", "ada", "maker", 500_000), ("tokens", "CAT", "maker", "eve", 100)]
    story.transact("ada", moves, venue=VENUE)
    _, rows = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, None))
    shown = {row["kind"]: (row["venue"], row["mint"]) for row in rows[-2:]}
    assert shown == {"buy": ("pump.fun", address("CAT")), "transfer_self": (None, None)}


# ---- whose when ----------------------------------------------------------------------------------
def test_what_came_before_is_not_told_anew():
    """Eve's older units stand before ada's in one queue; what ada had sold at a loss before eve
    came stays her loss.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.buy("eve", "CAT", 100, 1_000)
    story.buy("ada", "CAT", 100, 900_000)
    story.sell("ada", "CAT", 100, 100_000)
    before = now(story)
    story.buy("ada", "DOG", 1, 1_000)
    told = Told(story.chain())
    single, _ = alone(told, ADA, Span(1, 0, None))
    pending, _ = rebuild(told, (0, None), (2, EVE, before + 1, None))
    # 100,000 less a fee, for 900,000 and a fee.
    assert last(single).realized == last(pending).realized == -800_000 - 2 * FEE


def test_who_comes_later_brings_units_of_unknown_cost():
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.buy("eve", "CAT", 100, 1_000)
    begins = now(story) + 1
    story.sell("eve", "CAT", 50, 800_000)
    story.buy("eve", "DOG", 10, 300_000)
    story.transact("eve", [("tokens", "DOG", "eve", "ada", 10)])
    story.sell("ada", "DOG", 10, 700_000)
    told = Told(story.chain())
    pending, _ = rebuild(told, (0, None), (2, EVE, begins, None))
    record = last(pending)
    # The sale of CAT has no result, that of DOG has: 700,000 - 300,000 and two fees.
    assert (record.realized, record.matched, record.unmatched) == (400_000 - 2 * FEE, 1, 1)
    found = pending.forward.find_holdings(pending.ledger)
    # What eve brought had a cost for her, of which the record knows nothing.
    assert found[1].carried_in == 1_000 + FEE
    assert pending.forward.find_stays() == {2: (1_000 + FEE, 0)}


def test_who_comes_in_the_second_of_its_sale_came_before_it():
    """Half of eve's 100 CAT are sold just as she comes, at a cost that the record does not know."""
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
    story.buy("eve", "CAT", 100, 1_000)
    story.sell("eve", "CAT", 50, 800_000)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, now(story), None))
    assert pending.forward.find_stays() == {2: (1_000 + FEE, 0)}
    assert (last(pending).unmatched, last(pending).matched) == (1, 0)


@pytest.mark.parametrize("whole, joining", [(True, True), (True, False), (False, True)])
def test_the_past_of_several_is_known_where_that_of_each_is(whole, joining):
    ledger = GroupLedger(backfilled=whole)
    ledger.absorb(GroupLedger(backfilled=joining))
    assert ledger.backfilled == (whole and joining)


def test_who_leaves_takes_along_what_it_holds():
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    story.transact("ada", [("tokens", "CAT", "ada", "eve", 100)])
    left = now(story) + 1
    story.sell("eve", "CAT", 100, 1)
    story.buy("ada", "DOG", 1, 1_000)
    told = Told(story.chain())
    pending, _ = rebuild(told, (0, None), (2, EVE, 0, left), members=(ADA,))
    found = pending.forward.find_holdings(pending.ledger)
    # Its cost left without a sale, with the attachment that ended.
    assert pending.forward.find_stays() == {2: (0, 500_000 + FEE)}
    assert found[1].open_cost == 1_000 + FEE and last(pending).realized == 0


@pytest.mark.parametrize("later", [False, True])
def test_leaving_counts_before_the_next_transaction_tells_of_it(later):
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.buy("eve", "CAT", 100, 500_000)
    left = now(story) + 1
    if later:
        story.fund("ada", 1)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, left), members=(ADA,))
    found = pending.forward.find_holdings(pending.ledger)
    assert pending.forward.find_stays() == {2: (0, 500_000 + FEE)}
    assert found[1].open_cost == 0


@pytest.mark.parametrize(
    "kept, results",
    [
        # Eve's 100 CAT cost 1,000,000: half are sold for 2,000,000, half leave. A gain; then 10 of
        # ada's, for 3,000,000 and 1,000,000, are a loss.
        (0, (2, 1)),
        # Ada held one: it is one position, 2,000,000 + 1,000,000 - 1,000,000 - 3,000,000 - 20.
        (1, (1, 0)),
    ],
)
def test_a_position_ends_when_the_rest_leaves_with_a_wallet(kept, results):
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
    story.buy("eve", "CAT", 100, 1_000_000)
    if kept:
        story.buy("ada", "CAT", kept, 20)
    story.sell("eve", "CAT", 50, 2_000_000)
    left = now(story) + 1
    story.buy("ada", "CAT", 10, 3_000_000)
    story.sell("ada", "CAT", 10 + kept, 1_000_000)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, left), members=(ADA,))
    record = pending.forward.records[1]
    stretch = record.risk.rows[ALL]
    assert (stretch.closed, stretch.won, stretch.uncounted) == (*results, 0)
    assert not record.risk.positions


def test_one_that_leaves_whole_with_a_wallet_counts_for_nothing():
    """Eve's CAT leaves unsold; ada's DOG, of which she goes on to hold 5 of 10, does not end."""
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
    story.buy("eve", "CAT", 100, 1_000_000)
    story.buy("ada", "DOG", 10, 1_000_000)
    story.sell("ada", "DOG", 5, 700_000)
    left = now(story) + 1
    story.fund("ada", 1)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, left), members=(ADA,))
    stretch = pending.forward.records[1].risk.rows[ALL]
    assert (stretch.closed, stretch.won, stretch.uncounted) == (0, 0, 1)


def test_a_span_between_two_transactions_brings_in_what_all_of_them_held():
    """Ada's 100 CAT of known cost were held when it began, and when it was over, and so were eve's
    10 DOG; what both do later is no part of it.
    """
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    story.buy("eve", "DOG", 10, 30_000)
    begins = now(story) + 1
    story.sell("ada", "CAT", 100, 700_000)
    pending, _ = rebuild(Told(story.chain()), (begins, begins + 1), (2, EVE, 0, None))
    (found,) = pending.forward.find_holdings(pending.ledger).values()
    assert found == SpanHoldings(500_000 + 30_000 + 2 * FEE, 0, 0, 0)
    assert pending.forward.find_stays() == {2: (30_000 + FEE, 0)}
    assert pending.ledger.totals.realized == 200_000 - 2 * FEE


def test_a_span_that_waits_brings_in_what_all_of_them_hold():
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
        story.buy(person, "CAT", 100, 500_000)
    later = now(story) + 1
    pending, _ = rebuild(Told(story.chain()), (later, None), (2, EVE, 0, None))
    found = pending.forward.find_holdings(pending.ledger)
    assert found == {1: SpanHoldings(2 * (500_000 + FEE), 0, 0)}
    assert pending.forward.find_stays() == {2: (500_000 + FEE, 0)}
    # The next transaction changes nothing of it.
    story.fund("ada", 1)
    pending, _ = rebuild(Told(story.chain()), (later, None), (2, EVE, 0, None))
    assert pending.forward.find_holdings(pending.ledger) == found
    assert pending.forward.find_stays() == {2: (500_000 + FEE, 0)}


def test_what_it_takes_along_in_a_stablecoin_has_no_result_there(monkeypatch):
    """Eve's 50 FOX, for 100 CAT, leave with her; ada's own are sold for 150, at 100: 50."""
    take_for_quotes(monkeypatch, {address("CAT")})
    story = Story()
    for person in NAMES.values():
        story.fund(person, 10**9)
        story.receive(person, "CAT", 1_000)
    story.swap("eve", "CAT", 100, "FOX", 50)
    left = now(story) + 1
    story.swap("ada", "CAT", 100, "FOX", 50)
    story.swap("ada", "FOX", 50, "CAT", 150)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, left), members=(ADA,))
    pending.forward.find_stays()
    (record,) = pending.forward.records[1].quotes.records.values()
    assert (record.last.matched, record.last.realized) == (1, 50)
    assert not record.ledger.lots.get(address("FOX"))


def test_what_has_no_block_time_moves_lots_and_counts_in_no_span():
    """Nobody knows whether ada bought before the span: in it the sale has no result, in the whole
    it has 900,000 - 500,000 and two fees.
    """
    told = trip("eve")
    bought = told.raw[2]["transaction"]["signatures"][0]
    told.receipts[bought] = parse_receipt({**told.raw[2], "transactionIndex": 0, "blockTime": None})
    pending, _ = rebuild(told, (0, None), (2, EVE, 0, None))
    record = last(pending)
    assert pending.ledger.totals.realized == 400_000 - 2 * FEE
    assert (record.realized, record.matched, record.unmatched) == (0, 0, 1)


def test_an_escrow_comes_and_goes_with_its_wallet():
    """10 A for 100 lie in escrow, and 5 more at hand: of neither the joined ledger knows the cost.
    Where a wallet leaves whose cost is known, all of it goes along.
    """
    own = Teller(GroupLedger()).buy("A", 15, 150)
    own.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    joined = GroupLedger()
    joined.absorb(own.ledger)
    assert [(one.amount, one.cost) for one in joined.inventory.escrows["e"].slices] == [(10, None)]
    assert [(lot.left, lot.left_cost) for lot in joined.lots["A"]] == [(5, None)]
    assert joined.release(own.ledger) == {"A": 0}
    assert not joined.inventory.escrows and not joined.lots.get("A")
    same = Teller(GroupLedger()).buy("A", 15, 150)
    same.write("order_open", changes=[("A", -10)], orders=[("e", "A", 10)])
    assert same.ledger.release(own.ledger) == {"A": 150}


def test_two_wallets_orders_may_lie_at_one_address():
    """Ada has 10 A for 100 in it when eve comes with 5 for 20: 100 are known. Eve goes with her 5,
    and ada takes her 10 back and sells them for 60: 40 are lost.
    """
    tellers = []
    for raw, cost in ((10, 100), (5, 20)):
        teller = Teller(GroupLedger()).buy("A", raw, cost)
        tellers.append(teller.write("order_open", changes=[("A", -raw)], orders=[("e", "A", raw)]))
    ada, eve = tellers
    # Both tellers name accounts and transactions alike.
    eve.ledger.seen.clear()
    for one in eve.ledger.inventory.escrows["e"].slices:
        one.lot.origin = "eve bought"
    ada.ledger.absorb(eve.ledger)
    assert [(one.amount, one.cost) for one in slices_of(ada, "e")] == [(10, 100), (5, None)]
    assert ada.ledger.inventory.escrows["e"].pool == Pool(10, 100, 5)
    assert ada.ledger.inventory.sum_open_cost() == 100
    assert ada.ledger.release(eve.ledger) == {"A": 0}
    assert [(one.amount, one.cost) for one in slices_of(ada, "e")] == [(10, 100)]
    ada.write("order_cancel", changes=[("A", 10)], orders=[("e", "A", -10)])
    assert ada.sell("A", 10, 60).sale == ("matched", 60 - 100, 60, 100)


def slices_of(teller, address):
    return teller.ledger.inventory.escrows[address].slices


def test_an_account_that_was_handed_over_is_as_its_owner_saw_it():
    """Eve opened it and gave it to ada, who buys 100 A for 1,000 and, once eve came, sells them for
    400: no gap, and 600 are lost. The same where eve is gone again.
    """
    eve = GroupLedger(seen={"ada's A": Seen(100, "A", 0, 0), "eve": Seen(100, None, 0, 5)})
    for goes in (False, True):
        ada = Teller(GroupLedger()).buy("A", 100, 1_000)
        ada.ledger.absorb(eve)
        assert ada.ledger.seen["eve"] == eve.seen["eve"]
        if goes:
            ada.ledger.release(eve)
            assert "eve" not in ada.ledger.seen
        ada.sell("A", 100, 400)
        assert ada.ledger.gaps == [] and ada.sale == ("matched", 400 - 1_000, 400, 1_000)


def test_whoever_is_asked_first_an_account_is_its_present_owners():
    gave, has = {"a": Seen(9, "A", 0, 0)}, {"a": Seen(7, "A", 5, 2), "b": Seen(7, None, 0, 1)}
    assert join_seen((gave, has)) == join_seen((has, gave)) == has


def test_the_order_of_two_wallets_in_one_slot_may_be_unknown():
    """Each wallet has one transaction in the slot, and any order of the two holds."""
    story = Story()
    for person in NAMES.values():
        story.receive(person, "CAT", 5)
    story.receive("ada", "CAT", 5)
    story.same_slot()
    story.receive("eve", "CAT", 5)
    told = Told(story.chain())
    listed = [(number, told.entries(number)[-1]) for number in (EVE, ADA)]
    assert [flags_of(one) for one in merge_slot(listed, {})] == [{ADA: ()}, {EVE: ()}]
    placeless = [(number, entry._replace(tx_index=None)) for number, entry in listed]
    flagged = [flags_of(one) for one in merge_slot(placeless, {})]
    assert sorted(flagged, key=list) == [{ADA: (UNRESOLVED,)}, {EVE: (UNRESOLVED,)}]


def flags_of(parts):
    return {number: entry.flags for number, entry in parts.items()}


def test_a_wallet_older_than_its_history_makes_no_gap_of_the_others():
    """Eve held SOL before the first transaction that a node still gives: no gap, only a beginning
    that nobody saw.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.lamports["eve"] = 10**9
    story.buy("ada", "CAT", 100, 500_000)
    story.buy("eve", "DOG", 100, 500_000)
    story.sell("eve", "DOG", 100, 900_000)
    story.sell("ada", "CAT", 100, 900_000)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, None))
    assert not pending.ledger.gaps and pending.ledger.opened
    assert pending.ledger.totals.matched == 2
    assert pending.ledger.totals.realized == 2 * (400_000 - 2 * FEE)


def test_nor_does_it_in_a_stablecoin(monkeypatch):
    """As above: eve's first transaction comes after the first that moved the stablecoin, CAT."""
    take_for_quotes(monkeypatch, {address("CAT")})
    story = Story()
    story.fund("ada", 10**9)
    story.receive("ada", "CAT", 1_000)
    story.lamports["eve"] = 10**9
    story.buy("eve", "DOG", 100, 500_000)
    story.swap("ada", "CAT", 100, "FOX", 50)
    story.swap("ada", "FOX", 50, "CAT", 150)
    pending, _ = rebuild(Told(story.chain()), (0, None), (2, EVE, 0, None))
    for book in (pending.quotes, pending.forward.records[1].quotes):
        (record,) = book.records.values()
        assert not record.ledger.gaps and (record.last.matched, record.last.realized) == (1, 50)


@given(st.integers(0, 10**9), st.data())
@settings(max_examples=6, deadline=None)
def test_a_missing_transaction_is_a_gap_of_all(seed, data):
    story = two_people(seed)
    told = Told(story.chain())
    gone = data.draw(st.sampled_from([one.signature for one in told.entries(EVE)[1:-1]]))
    del told.receipts[gone]
    pending, _ = rebuild(told, (0, None), (2, EVE, 0, None))
    own = {one: alone(told, one)[0].ledger for one in NAMES}
    assert bool(pending.ledger.gaps) == any(one.gaps for one in own.values())
    assert pending.ledger.reconcile().imbalance == 0
