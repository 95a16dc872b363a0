"""What the books of several wallets are made of: whose wallet when, one transaction seen from two
wallets, and how whole the history of all is. Each by hand.
"""

import pytest
from story import FEE, Story, address

from chain.effects import Balance
from chain.entries import Entry
from chain.forward import Span
from chain.group_book import NO_FAMILY, begin_group
from chain.group_reading import Reader, apply_all, keep_all
from chain.groups import UNRESOLVED, GroupLedger, Stay, join_coverages, join_parts, merge_slot
from chain.inventory import Position
from chain.lots import Opening
from chain.packing import pack
from chain.programs import table

ADA, EVE = 1, 2


def make_part(signature="sent", wallet="ada", **told):
    """What a transaction was to one wallet."""
    balance = Balance(wallet, None, 9, 0, 0, 100, 90)
    entry = Entry(
        *(signature, 50, None, 1_700_000_000, "transfer_out", "a venue", "CAT"),
        *((), (), 0, 0, 0, 0, (), (balance,)),
    )
    return entry._replace(**told)


# ---- whose when
@pytest.mark.parametrize(
    "begins, ends, shared",
    [
        (0, None, True),
        (0, 10, False),
        (0, 11, True),
        (19, None, True),
        (20, None, False),
        (12, 15, True),
    ],
)
def test_a_stay_is_beside_a_span_that_it_shares_a_moment_with(begins, ends, shared):
    """The span is from 10 to 20, its end left out, as the end of a stay is."""
    stay = Stay(1, EVE, begins, ends)
    assert stay.overlaps(Span(1, 10, 20)) is shared
    assert stay.overlaps(Span(1, 10, None)) is (ends is None or ends > 10)


def test_a_stay_is_over_at_its_end():
    stay = Stay(1, EVE, 0, 10)
    assert [stay.is_over(now) for now in (9, 10)] == [False, True]
    assert not Stay(1, EVE, 0, None).is_over(10)


# ---- in one order
def test_a_place_that_one_wallet_was_told_is_known_to_both():
    """Eve's node told that it was the seventh of the block; the sixth came before it."""
    ours = [(ADA, make_part()), (EVE, make_part(wallet="eve", tx_index=7))]
    before = (EVE, make_part("sixth", "eve", tx_index=6))
    first, second = merge_slot([*ours, before], {})
    assert {number: (part.signature, part.tx_index) for number, part in first.items()} == {
        EVE: ("sixth", 6)
    }
    assert {number: (part.signature, part.tx_index) for number, part in second.items()} == {
        ADA: ("sent", 7),
        EVE: ("sent", 7),
    }


def test_what_joins_at_the_balances_of_both_is_in_order():
    """Ada's account alone would join either way; eve's tells that hers came second."""
    still = Balance("ada", None, 9, 0, 0, 90, 90)
    held = Balance("eve", None, 9, 0, 0, 5, 8)
    came = make_part(
        "zz came", "eve", balances=(held._replace(lamports_before=2, lamports_after=5),)
    )
    both = [
        (ADA, make_part("aa sent", balances=(still,))),
        (EVE, make_part("aa sent", "eve", balances=(held,))),
    ]
    assert [set(one) for one in merge_slot([*both, (EVE, came)], {})] == [{EVE}, {ADA, EVE}]


def test_of_a_place_that_nobody_knows_each_part_says_so_once():
    """Two transactions that hold in either order; one part says so already."""
    still = Balance("ada", None, 9, 0, 0, 90, 90)
    one = make_part("one", balances=(still,), flags=("z",))
    other = make_part("other", balances=(still,), flags=(UNRESOLVED,))
    flags = [parts[ADA].flags for parts in merge_slot([(ADA, one), (ADA, other)], {})]
    assert flags == [(UNRESOLVED, "z"), (UNRESOLVED,)]


# ---- the beginning of all
@pytest.mark.parametrize("whole", [True, False])
def test_the_books_of_all_begin_with_what_each_wallet_begins_with(whole):
    """Eve holds 5 DOG that no receipt touches; all was listed where it was of both."""
    opening = Opening.untouched("eve's DOG", "DOG", 5, 6)
    eve = GroupLedger(backfilled=whole, untouched={"eve's DOG": opening})
    family = NO_FAMILY._replace(lead=ADA, members=frozenset({ADA, EVE}))
    books = begin_group(family, {ADA: GroupLedger(), EVE: eve}, lambda parts: parts[ADA]).ledger
    assert (books.untouched, books.backfilled) == ({"eve's DOG": opening}, whole)
    assert books.positions() == [Position("DOG", 5, 6, None, 5)]


def test_rows_that_nobody_keeps_are_only_named():
    family = NO_FAMILY._replace(lead=ADA, members=frozenset({ADA}), addresses={ADA: "ada"})
    kept = []
    for keeps in (keep_all, lambda row: row["slot"] > 50):
        books = begin_group(family, {ADA: GroupLedger()}, lambda parts: parts[ADA])
        apply_all(books, [(ADA, make_part()), (ADA, make_part("later", slot=51))], keeps)
        kept.append({one: bool(row) for one, row in books.wallet_rows[ADA].items()})
    assert kept == [{"sent": True, "later": True}, {"sent": False, "later": True}]


# ---- one transaction of two wallets
def test_of_one_wallet_nothing_is_read_anew():
    part = make_part()
    assert join_parts({ADA: part}, None) is part


def test_read_as_one_owners_it_keeps_what_the_receipt_does_not_tell():
    """Its place, whether that is known, and when it was first seen: at 70, not at 80."""

    def read(signature, wallets):
        assert (signature, wallets) == ("sent", {ADA, EVE})
        return make_part(flags=("z",), kind="transfer_self")

    flags = (UNRESOLVED, "of the part")
    parts = {
        ADA: make_part(tx_index=4, flags=flags, seen_at=80),
        EVE: make_part(wallet="eve", tx_index=4, flags=flags, seen_at=70),
    }
    joined = join_parts(parts, read)
    assert (joined.kind, joined.flags) == ("transfer_self", (UNRESOLVED, "z"))
    assert (joined.tx_index, joined.seen_at) == (4, 70)
    unseen = {number: part._replace(seen_at=None, flags=()) for number, part in parts.items()}
    assert join_parts(unseen, read)[-1] is None and join_parts(unseen, read).flags == ("z",)
    unseen[EVE] = parts[EVE]
    assert join_parts(unseen, read).seen_at == 70


def test_a_stored_transaction_is_read_as_one_owners():
    """Ada gives eve 40 CAT: between two accounts of one owner nothing moved but the fee."""
    story = Story()
    story.fund("ada", FEE)
    story.receive("ada", "CAT", 100)
    story.receive("eve", "CAT", 1)
    signature = story.transact("ada", [("tokens", "CAT", "ada", "eve", 40)])
    body = pack(story.rows[-1].receipt)
    family = NO_FAMILY._replace(addresses={ADA: address("ada"), EVE: address("eve")})
    reader = Reader(lambda sql: [(body,)] if signature in sql else [], family, table())
    told = reader.read(signature, frozenset({ADA, EVE}))
    assert (told.kind, told.sol, told.tokens) == ("transfer_self", -FEE, ())
    assert {one.before for one in told.balances if one.mint} == {100, 1}


def test_what_is_gone_or_never_was_a_signature_is_not_looked_for_in_vain():
    """Nothing is stored; and what is no signature is refused whatever is stored under it."""
    for stored, signature in (((), "5" * 88), (((b"",),), "no signature")):
        reader = Reader(lambda sql, stored=stored: stored, NO_FAMILY, table())
        with pytest.raises(ValueError, match="^the transaction is not stored$"):
            reader.read(signature, frozenset({ADA, EVE}))


def refuse(signature, wallets):
    raise ValueError("the transaction is not stored")


def test_what_cannot_be_read_is_added_up_and_has_no_price():
    """Ada sent 40 of her 100 CAT to eve and paid 5 of fee and 2 of tip; eve got the 40, 7 DOG and
    rent of 3 that a stranger put in: together CAT did not move.
    """
    parts = {
        ADA: make_part(
            kind="sell",
            sol=-20,
            fee=5,
            tip=2,
            rent=1,
            sponsored=4,
            tokens=(("CAT", -40, 6),),
            others=(("escrow", "CAT", 0, 40),),
            residues=("FOX",),
            beside_sol=9,
            beside_tokens=(("FOX", 1, 0),),
            explained_percent=99,
            counterparties=("somebody",),
            balances=(Balance("b", "CAT", 6, 100, 60, 2, 2), Balance("d", None, 9, 0, 0, 90, 70)),
        ),
        EVE: make_part(
            wallet="eve",
            kind="transfer_in",
            sol=30,
            rent=3,
            sponsored=3,
            tokens=(("CAT", 40, 6), ("DOG", 7, 0)),
            balances=(Balance("c", "CAT", 6, 0, 40, 0, 2), Balance("a", None, 9, 0, 0, 0, 30)),
        ),
    }
    joined = join_parts(parts, refuse)
    assert (joined.kind, joined.flags) == ("other", ("ambiguous",))
    assert (joined.venue, joined.mint, joined.residues, joined.others) == (None, None, (), ())
    assert (joined.sol, joined.fee, joined.tip, joined.rent) == (10, 5, 2, 4)
    assert (joined.sponsored, joined.tokens) == (7, (("DOG", 7, 0),))
    assert [one.address for one in joined.balances] == ["a", "b", "c", "d"]
    assert (joined.beside_sol, joined.beside_tokens) == (0, ())
    assert (joined.explained_percent, joined.counterparties) == (None, ())
    failed = {number: part._replace(kind="failed") for number, part in parts.items()}
    assert join_parts(failed, refuse).kind == "failed"


# ---- how whole
def cover(state, **told):
    nothing = dict.fromkeys(("observedFrom", "observedTo", "firstSlot", "lastSlot", "checkedAt"))
    counts = {"receipts": 0, "pending": 0}
    lists = {"gaps": [], "openingInventoryUnknown": []}
    return {"state": state, "note": None, **nothing, **counts, **lists, **told}


def test_several_are_as_whole_as_the_least_of_them():
    """Seen since the first of them was, and up to what the slowest has seen."""
    gap = {"fromSlot": 5, "toSlot": 8, "reason": "balance_break"}
    ada = cover(
        "partial",
        observedFrom=10,
        observedTo=90,
        firstSlot=3,
        lastSlot=80,
        checkedAt=95,
        receipts=4,
        pending=1,
        gaps=[gap],
        openingInventoryUnknown=["FOX", "CAT"],
        note="A gap.",
    )
    eve = cover(
        "complete",
        observedFrom=20,
        observedTo=70,
        firstSlot=2,
        lastSlot=85,
        checkedAt=75,
        receipts=6,
        openingInventoryUnknown=["CAT"],
        note="All is here.",
    )
    assert join_coverages({"ada": ada, "eve": eve, "bob": cover("partial", pending=2)}) == {
        "state": "partial",
        "observedFrom": 10,
        "observedTo": 70,
        "firstSlot": 2,
        "lastSlot": 85,
        "checkedAt": 75,
        "receipts": 4 + 6,
        "pending": 1 + 2,
        "gaps": [{**gap, "wallet": "ada"}],
        "openingInventoryUnknown": ["CAT", "FOX"],
        "note": "ada: A gap.",
        "worst": ["ada", "bob"],
    }


@pytest.mark.parametrize(
    "states, worst",
    [
        (("complete", "complete"), []),
        (("complete", "none"), ["1"]),
        (("none", "backfilling"), ["0"]),
        (("partial", "backfilling"), ["1"]),
    ],
)
def test_who_is_least_whole_is_named_where_not_all_is_whole(states, worst):
    told = {str(number): cover(state) for number, state in enumerate(states)}
    joined = join_coverages(told)
    assert joined["worst"] == worst and joined["note"] is None
    assert joined["state"] == (told[worst[0]]["state"] if worst else "complete")
