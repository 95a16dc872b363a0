"""Kinds of transactions: every row of truth.csv and of the recorded history. The kinds of made-up
transactions are in the histories of value.txt and ordinary.txt.
"""

import csv

from story import ADA, Story, address

from chain.reading.entries import read_entry
from chain.reading.flows import read_effect
from chain.reading.kinds import decide_kind
from chain.reading.programs import TIP_ACCOUNTS, table
from chain.reading.receipts import parse_receipt

# Rows read as the alternative in truth.csv. A remainder of one mint is a residue: 907 units of 4.7
# million USDC, 238,744 of 1.9 million. A full purchase and sale in one receipt is a round trip. No
# other row uses an alternative.
BY_AN_ALTERNATIVE = {
    "2NYtCvU8XhiyM7WPXgaG": ("swap", ("residue",)),
    "4pjZqY6ZKG9wr56PnX3T": ("buy", ("residue",)),
    "33LHUzKfhBvU68kYib22": ("round_trip", ()),
}
TRADES = ("buy", "sell", "swap")
PROGRAMS = table()


def kind_of(raw, wallet, programs=PROGRAMS):
    receipt = parse_receipt(raw)
    return decide_kind(receipt, read_effect(receipt, wallet, TIP_ACCOUNTS), programs)


def test_every_recorded_transaction_has_its_expected_kind(recorded_rows):
    for row, raw in recorded_rows:
        kind, told = kind_of(raw, row["wallet"]), row["flags"].split()
        if alternative := BY_AN_ALTERNATIVE.get(row["signature"][:20]):
            assert f"alt={kind.kind}" in told
            assert (kind.kind, kind.flags) == alternative
            continue
        assert kind.kind == row["kind"], row["signature"]
        if kind.kind == "other":
            assert {"ambiguous", "fee_only"} & set(told) <= set(kind.flags)
        # A keeper keeps a little of two mints, so there is no single one.
        if "keeper" not in row["flags"]:
            assert kind.mint == (row["mint"] or None)


def test_every_recorded_trade_keeps_its_price_to_the_lamport(recorded_rows):
    """At least 96% of every real purchase, sale, swap and round trip is explained, and nothing is
    split off.
    """
    entries = [
        read_entry(parse_receipt(raw), row["wallet"], PROGRAMS) for row, raw in recorded_rows
    ]
    priced = [one for one in entries if one.kind in (*TRADES, "round_trip")]
    for one in priced:
        assert one.explained_percent >= 96 and "value_unexplained" not in one.flags
        assert (one.venue_sol, one.venue_tokens) == (one.sol, one.tokens)
    wanted = sum(row["kind"] in TRADES for row, _ in recorded_rows)
    assert len(priced) == wanted + len(BY_AN_ALTERNATIVE)


def test_every_recorded_program_is_known(receipts):
    """ID, family and tips of programs.csv against the table; for a wrapper without a family, the
    called programs decide.
    """
    with open(receipts / "programs.csv", newline="") as file:
        family = {row["id"]: row["family"] for row in csv.DictReader(file)}
    tips = {one for one, its in family.items() if its == "tip"}
    deciding = "swap order lending liquidity stake bridge nft".split()
    decided = {one: its for one, its in family.items() if its in deciding}
    assert {one: PROGRAMS.family(one) for one in decided} == decided
    assert tips <= TIP_ACCOUNTS and family.keys() - tips <= PROGRAMS.names.keys()


def test_the_recorded_history_has_its_expected_kinds(history, expected):
    """With the marker every row matches the oracle; without it, the trades are exchanges by an
    unknown program.
    """
    marked = table([history["venue"]])
    raw = {one["signature"]: one["json"] for one in history["transactions"]}
    for wallet in history["wallets"]:
        for row in expected[wallet]["rows"]:
            kind = kind_of(raw[row["signature"]], wallet, marked)
            # The chain's market maker signs; the oracle doesn't say so.
            flags = set(kind.flags) - {"fee_only", "counterparty_signed"}
            assert (kind.kind, flags) == (row["kind"], set(row["flags"]))
            if row["kind"] in TRADES:
                blind = kind_of(raw[row["signature"]], wallet)
                assert (blind.kind, blind.flags) == ("other", ("unrecognised_program",))


def test_a_program_that_the_operator_adds_is_a_venue():
    """As a marker (EXTRA_SWAP_PROGRAMS), or in DATA_DIR/programs.csv."""
    venue, story = address("a venue of tomorrow"), Story()
    story.fund("ada", 10**9)
    moves = [("lamports", "ada", "maker", 500_000), ("tokens", "CAT", "maker", "ada", 100)]
    story.transact("ada", moves, venue)
    added = f"id,name,family,source\n{venue},Tomorrow,swap,https://tomorrow.example\n"
    unknown, marked, known = (
        kind_of(story.rows[-1].receipt, ADA, programs)
        for programs in (PROGRAMS, table([venue]), table((), added))
    )
    assert unknown.flags == ("unrecognised_program",) and marked.kind == "buy"
    assert (known.kind, known.venue, known.flags) == ("buy", "Tomorrow", ())
