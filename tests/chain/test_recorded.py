"""Recorded transactions: mainnet receipts have the numbers and kinds of truth.csv, and the recorded
history those of the oracle. value.txt and ordinary.txt have made-up ones.
"""

import csv
import json

import pytest
from solders import message as wire
from solders.hash import Hash
from solders.instruction import CompiledInstruction
from solders.pubkey import Pubkey
from solders.signature import Signature

from chain.reading.entries import read_entry
from chain.reading.flows import read_effect, touches
from chain.reading.programs import TIP_ACCOUNTS, table
from chain.reading.receipts import digest_receipt, parse_receipt

PROGRAMS = table()
# What `decide_kind` doesn't decide.
FACTS = {"owner_inferred", "sponsored_rent"}
NUMBERS = {
    "lamportChange": "lamports",
    "feeLamports": "fee",
    "wsolChange": "wrapped",
    "rentLamports": "rent",
    "solChangeLamports": "sol",
    "tipLamports": "tip",
}
# Rows read as the alternative in truth.csv. A remainder of one mint is a residue: 907 units of 4.7
# million USDC, 238,744 of 1.9 million. A full purchase and sale in one receipt is a round trip. No
# other row uses an alternative.
BY_AN_ALTERNATIVE = {
    "2NYtCvU8XhiyM7WPXgaG": ("swap", {"residue"}),
    "4pjZqY6ZKG9wr56PnX3T": ("buy", {"residue"}),
    "33LHUzKfhBvU68kYib22": ("round_trip", set()),
}
TRADES = ("buy", "sell", "swap")


@pytest.fixture(scope="module")
def readings(recorded_rows):
    """[(row of truth.csv, its flags, receipt, entry), ...]"""
    found = []
    for row, raw in recorded_rows:
        receipt = parse_receipt(raw, row["signature"])
        entry = read_entry(receipt, row["wallet"], PROGRAMS)
        found.append((row, set(row["flags"].split()), receipt, entry))
    return found


def test_every_recorded_receipt_has_its_expected_numbers(readings):
    """And those flags of truth.csv that are facts of the receipt: an inferred owner, a wallet that
    isn't among the keys, rent paid by somebody else.
    """
    assert len(readings) == 143
    for row, flags, receipt, entry in readings:
        effect = read_effect(receipt, row["wallet"])
        found = {column: getattr(effect, name) for column, name in NUMBERS.items()}
        assert found == {column: json.loads(row[column]) for column in NUMBERS}, row["signature"]
        changes = {mint: change for mint, change, _ in effect.tokens}
        assert changes == json.loads(row["tokenChangesRaw"]) and touches(receipt, row["wallet"])
        assert FACTS.intersection(entry.flags) == FACTS & flags
        assert (row["wallet"] not in receipt.keys) == ("wallet_not_in_keys" in flags)


def test_every_recorded_transaction_has_its_expected_kind(readings):
    for row, told, _, entry in readings:
        flags = set(entry.flags) - FACTS
        if alternative := BY_AN_ALTERNATIVE.get(row["signature"][:20]):
            assert f"alt={entry.kind}" in told and (entry.kind, flags) == alternative
            continue
        assert entry.kind == row["kind"], row["signature"]
        if entry.kind == "other":
            assert {"ambiguous", "fee_only"} & told <= flags
        # A keeper keeps a little of two mints, so there is no single one.
        if "keeper" not in row["flags"]:
            assert entry.mint == (row["mint"] or None)


def test_every_recorded_trade_keeps_its_price_to_the_lamport(readings):
    """At least 96% of every real purchase, sale, swap and round trip is explained, and nothing is
    split off.
    """
    priced = [entry for *_, entry in readings if entry.kind in (*TRADES, "round_trip")]
    for one in priced:
        assert one.explained_percent >= 96 and "value_unexplained" not in one.flags
        assert (one.venue_sol, one.venue_tokens) == (one.sol, one.tokens)
    wanted = sum(row["kind"] in TRADES for row, *_ in readings)
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


# ---- the recorded history ------------------------------------------------------------------------
def test_json_and_jsonparsed_receipts_read_the_same(history):
    """The recorded history has both encodings of each receipt from the runtime."""
    assert len(history["transactions"]) > 700
    for one in history["transactions"]:
        plain, parsed = parse_receipt(one["json"]), parse_receipt(one["jsonParsed"])
        for name in ("keys", "signers", "tokens", "before", "after"):
            assert getattr(plain, name) == getattr(parsed, name)
        assert digest_receipt(plain) == digest_receipt(parsed)
        for wallet in history["wallets"]:
            if touches(plain, wallet):
                assert read_entry(plain, wallet, PROGRAMS) == read_entry(parsed, wallet, PROGRAMS)


def test_the_recorded_history_has_its_expected_kinds(history, expected):
    """With the marker every row matches the oracle; without it, the trades are exchanges by an
    unknown program.
    """
    marked = table([history["venue"]])
    raw = {one["signature"]: one["json"] for one in history["transactions"]}
    for wallet in history["wallets"]:
        for row in expected[wallet]["rows"]:
            receipt = parse_receipt(raw[row["signature"]])
            entry = read_entry(receipt, wallet, marked)
            # The chain's market maker signs; the oracle doesn't say so.
            flags = {*entry.flags} - FACTS - {"fee_only", "counterparty_signed"}
            assert (entry.kind, flags) == (row["kind"], set(row["flags"]))
            if row["kind"] in TRADES:
                blind = read_entry(receipt, wallet, PROGRAMS)
                assert (blind.kind, {*blind.flags} - FACTS) == ("other", {"unrecognised_program"})


# ---- the messages as signed ----------------------------------------------------------------------
@pytest.fixture(scope="module")
def real(receipts):
    """The plain results of getTransaction, 102 from mainnet."""
    return [json.loads(path.read_text()) for path in (receipts / "json").glob("*.json")]


def test_the_parsed_message_matches_the_signed_one(real):
    """The 43 receipts in json encoding are self-checking: the message reassembled from our reading
    is the one all signers signed.
    """
    plain = [
        raw for raw in real if isinstance(raw["transaction"]["message"]["accountKeys"][0], str)
    ]
    assert len(plain) == 43 and {raw.get("version", "legacy") for raw in plain} == {"legacy", 0, 1}
    for raw in plain:
        receipt, signatures = parse_receipt(raw), raw["transaction"]["signatures"]
        message, signers = write_message(raw, receipt), receipt.keys[: len(signatures)]
        assert receipt.signers == set(signers)
        for signer, signature in zip(signers, signatures, strict=True):
            found = Signature.from_string(signature)
            assert found.verify(Pubkey.from_string(signer), message)


def write_message(raw, receipt):
    """The signed bytes of a legacy, v0 or v1 message: keys, instructions and data as we read them;
    header, blockhash and look-ups from the JSON.
    """
    message, version = raw["transaction"]["message"], raw.get("version", "legacy")
    signers, signed, unsigned = (
        message["header"][f"num{name}"]
        for name in ("RequiredSignatures", "ReadonlySignedAccounts", "ReadonlyUnsignedAccounts")
    )
    find, header = receipt.keys.index, wire.MessageHeader(signers, signed, unsigned)
    keys = list(map(Pubkey.from_string, receipt.keys[: len(message["accountKeys"])]))
    blockhash = Hash.from_string(message["recentBlockhash"])
    calls = [
        CompiledInstruction(find(one.program), one.data, bytes(map(find, one.accounts)))
        for one in receipt.instructions
    ]
    if version == "legacy":
        legacy = wire.Message.new_with_compiled_instructions
        told = legacy(signers, signed, unsigned, keys, blockhash, calls)
    elif version == 1:
        names = "priorityFee", "computeUnitLimit", "loadedAccountsDataSizeLimit", "heapSize"
        config = wire.TransactionConfig(*(message["transactionConfig"][name] for name in names))
        told = wire.MessageV1(header, config, blockhash, keys, calls)
    else:
        tables = [
            wire.MessageAddressTableLookup(
                Pubkey.from_string(one["accountKey"]),
                bytes(one["writableIndexes"]),
                bytes(one["readonlyIndexes"]),
            )
            for one in message["addressTableLookups"]
        ]
        told = wire.MessageV0(header, keys, blockhash, calls, tables)
    return wire.to_bytes_versioned(told)


def test_inner_instructions_belong_to_their_callers(real):
    """All instructions keep their order and number; each one's height is its caller's plus one, if
    the node gives heights.
    """
    for raw in real:
        groups = {g["index"]: g["instructions"] for g in raw["meta"].get("innerInstructions") or []}
        for place, top in enumerate(parse_receipt(raw).instructions):
            heights = [row.get("stackHeight") for row in groups.get(place, [])]
            depths = list(list_depths(top, 1))[1:]
            assert len(depths) == len(heights) and (None in heights or depths == heights)


def list_depths(instruction, depth):
    yield depth
    for one in instruction.inner:
        yield from list_depths(one, depth + 1)
