"""What the books of several wallets are made of: whose wallet when, one transaction seen from two
wallets, and how whole the history of all is. Each by hand.
"""

import pytest
from story import FEE, Story, address

from chain.ledger.coverage import UNRESOLVED
from chain.ledger.forward import Span
from chain.ledger.group_book import (
    NO_FAMILY,
    OWN_WALLETS,
    Family,
    apply_parts,
    begin_group,
    find_main,
)
from chain.ledger.groups import (
    GroupLedger,
    LedSpan,
    Stay,
    join_coverages,
    join_parts,
    merge_slot,
)
from chain.ledger.inventory import Position
from chain.ledger.lots import Opening
from chain.reading.effects import Balance
from chain.reading.entries import Entry
from chain.reading.packing import pack
from chain.reading.programs import table
from chain.stored.group_reading import (
    ADDRESSES,
    IS_BESIDE,
    SPANS,
    STAYS,
    Reader,
    apply_all,
    keep_all,
    read_family,
)

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


# ---- who belongs to whom
def stored(number, spans=(), stays=(), beside=(), wallets=()):
    """What a database answers of a wallet."""
    return {
        SPANS.format(wallet=number): spans,
        STAYS.format(wallet=number): stays,
        IS_BESIDE.format(wallet=number): beside,
        ADDRESSES.format(wallets=", ".join(map(str, wallets))): [(n, f"W{n}") for n in wallets],
    }.__getitem__


def test_a_family_is_who_is_beside_a_wallet_now_and_who_was():
    """Attached by bot 4 from 20 to 50, beside wallet 3, and by bot 5 from 100 on, beside wallet 2,
    which is still there, and 6, which left. Wallet 7 came to bot 4 after that.
    """
    rows = stored(
        1,
        spans=[(8, 5, 100, None), (9, 4, 20, 50)],
        stays=[(3, 4, 3, 30, 40), (6, 4, 7, 50, None), (1, 5, 2, 110, None), (2, 5, 6, 99, 101)],
        wallets=[1, 2, 3, 6],
    )
    earlier = LedSpan(Span(9, 20, 50), 1, (Stay(3, 3, 30, 40),))
    now = LedSpan(Span(8, 100, None), 1, (Stay(1, 2, 110, None), Stay(2, 6, 99, 101)))
    names = {1: "W1", 2: "W2", 3: "W3", 6: "W6"}
    assert read_family(rows, 1) == Family(1, frozenset({1, 2}), (earlier, now), names)


def test_who_stands_beside_another_has_no_members_and_who_was_always_alone_no_family():
    beside = stored(1, spans=[(9, 4, 20, 50)], beside=[(6,)], wallets=[1])
    led = LedSpan(Span(9, 20, 50), 1)
    assert read_family(beside, 1) == Family(1, frozenset(), (led,), {1: "W1"})
    assert read_family(stored(1, spans=[(9, 4, 20, None)]), 1) is None
    before = stored(1, spans=[(9, 4, 20, None)], stays=[(3, 4, 3, 10, 20)])
    assert read_family(before, 1) is None


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


# ---- the rows of both
COLUMNS = (
    "wallet kind venue mint sol_change fee token_changes beside_sol beside_tokens explained"
    " counterparties flags"
).split()


def tell_rows(joined, **parts):
    """What the rows of ada's and eve's part of a transaction tell."""
    members = frozenset({ADA, EVE})
    family = NO_FAMILY._replace(lead=ADA, members=members, addresses={ADA: "ada", EVE: "eve"})
    books = begin_group(family, {ADA: GroupLedger(), EVE: GroupLedger()}, lambda mine: joined)
    rows = apply_parts(books, {ADA: parts["ada"], EVE: parts["eve"]})
    return [tuple(row[name] for name in COLUMNS) for row in rows]


def test_rows_of_what_is_no_trade_tell_what_each_wallet_gave_under_one_kind():
    """Alone it looked as if ada sold 40 CAT and eve was given 7 DOG; together it is a deposit."""
    parts = {
        "ada": make_part(
            kind="sell",
            sol=30,
            fee=5,
            tokens=(("CAT", -40, 6),),
            beside_sol=2,
            beside_tokens=(("DOG", 1, 0),),
            explained_percent=95,
            counterparties=("a pool",),
        ),
        "eve": make_part(wallet="eve", venue=None, mint="DOG", sol=0, tokens=(("DOG", 7, 0),)),
    }
    joined = make_part(kind="liquidity", venue="a pool", mint="SHARE", sol=30, fee=5)
    told, rest = ("liquidity", "a pool", "SHARE"), (0, "[]", None, "[]", f'["{OWN_WALLETS}"]')
    assert tell_rows(joined, **parts) == [
        (ADA, *told, 30, 5, '[["CAT","-40",6]]', *rest),
        (EVE, *told, 0, 0, '[["DOG","7",0]]', *rest),
    ]


@pytest.mark.parametrize("kind", ["buy", "order_fill"])
def test_rows_of_a_trade_tell_all_of_it_in_one_and_what_the_other_gave_beside_it(kind):
    """Eve signs and pays 100 and a fee for 40 CAT that ada gets: her row is the trade's, which says
    how much of it is explained, so that no post rests on the other row.
    """
    ada = make_part(kind="transfer_in", venue=None, mint="CAT", tokens=(("CAT", 40, 6),))
    eve = make_part(wallet="eve", sol=-105, fee=5)
    joined = make_part(
        kind=kind,
        mint="CAT",
        sol=-105,
        fee=5,
        tokens=(("CAT", 40, 6),),
        beside_sol=-3,
        beside_tokens=(("DOG", 1, 0),),
        explained_percent=99,
        counterparties=("a pool",),
        flags=("sponsored_rent",),
    )
    cat, own = '[["CAT","40",6]]', f'["{OWN_WALLETS}"]'
    beside = (-3, '[["DOG","1",0]]', 99, '["a pool"]', f'["{OWN_WALLETS}","sponsored_rent"]')
    assert tell_rows(joined, ada=ada, eve=eve) == [
        (ADA, "transfer_self", None, None, 0, 0, cat, 0, "[]", None, "[]", own),
        (EVE, kind, "a venue", "CAT", -105, 5, cat, *beside),
    ]


@pytest.mark.parametrize(
    "ada, eve, main",
    [
        (("buy", None), ("transfer_in", "a venue"), ADA),
        (("transfer_in", "a venue"), ("buy", None), EVE),
        (("buy", None), ("buy", "a venue"), ADA),
        (("other", None), ("other", "a venue"), EVE),
        (("other", "a venue"), ("other", None), ADA),
        (("other", None), ("other", None), ADA),
    ],
)
def test_the_row_of_a_trade_is_the_wallets_that_saw_it_or_that_a_program_acted_for(ada, eve, main):
    parts = {
        number: make_part(kind=kind, venue=venue) for number, (kind, venue) in ((2, eve), (1, ada))
    }
    assert find_main(parts, make_part(kind="buy")) == main


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
    rent of 3 that a stranger put in: together CAT did not move. Nobody knows whether they swapped,
    so it is not called `ambiguous`, which would verify a post.
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
    assert (joined.kind, joined.flags) == ("other", ())
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
