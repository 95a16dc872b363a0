"""Receipts: both encodings of real ones give the numbers in truth.csv; incomplete ones are
rejected.
"""

import copy
import hashlib
import json
import struct
from types import SimpleNamespace

import orjson
import pytest
from corpus import read_truth
from damage import JSON, at, paths_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import VerifyKey
from sampling import examples
from scene import Scene
from story import ADA, VENUE, Story, account_of, address

from chain.addresses import SYSTEM, TOKEN, b58decode, b58encode
from chain.ledger.ledger import Ledger
from chain.reading.entries import Entry, read_entry
from chain.reading.flows import _named_as_own, associated_address, read_effect, touches
from chain.reading.programs import TIP_ACCOUNTS, table
from chain.reading.receipts import BadReceipt, Operation, digest_receipt, parse_receipt

PROGRAMS = table()


@pytest.fixture(scope="module")
def real(receipts):
    """signature -> the plain result of getTransaction, 102 from mainnet."""
    return {path.stem: json.loads(path.read_text()) for path in (receipts / "json").glob("*.json")}


NUMBERS = {
    "lamportChange": "lamports",
    "feeLamports": "fee",
    "wsolChange": "wrapped",
    "rentLamports": "rent",
    "solChangeLamports": "sol",
    "tipLamports": "tip",
}


def numbers(raw, wallet):
    """A wallet's numbers by their columns in truth.csv."""
    effect = read_effect(parse_receipt(raw), wallet, TIP_ACCOUNTS)
    found = {column: getattr(effect, name) for column, name in NUMBERS.items()}
    return found | {"tokenChangesRaw": {mint: change for mint, change, _ in effect.tokens}}


# ---- real receipts -------------------------------------------------------------------------------
def test_every_recorded_receipt_has_its_expected_numbers(receipts, real):
    rows = read_truth(receipts)
    assert len(rows) == 143
    for row in rows:
        wanted = {column: json.loads(row[column]) for column in (*NUMBERS, "tokenChangesRaw")}
        assert numbers(real[row["signature"]], row["wallet"]) == wanted, row["signature"]


def test_owners_and_sponsors_are_told_apart(receipts, real):
    """Flags of truth.csv that are facts of the receipt: an inferred owner, a wallet that isn't
    among the keys, rent paid by somebody else.
    """
    for row in read_truth(receipts):
        receipt = parse_receipt(real[row["signature"]])
        effect = read_effect(receipt, row["wallet"], TIP_ACCOUNTS)
        flags = row["flags"].split()
        assert effect.inferred == ("owner_inferred" in flags)
        assert (row["wallet"] not in receipt.keys) == ("wallet_not_in_keys" in flags)
        assert (effect.sponsored > 0) == ("sponsored_rent" in flags)
        assert touches(receipt, row["wallet"])


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


@pytest.mark.parametrize(
    ("header", "writable"),
    [
        ({}, "abcde"),
        ({"numReadonlySignedAccounts": 1}, "abde"),
        ({"numReadonlyUnsignedAccounts": 1}, "abce"),
        ({"numReadonlySignedAccounts": 2, "numReadonlyUnsignedAccounts": 1}, "ae"),
    ],
)
def test_a_header_says_which_accounts_are_writable(header, writable):
    """Signers are a, b and c. The last of the signers, and of d, are read-only; e is loaded."""
    scene = Scene(**dict.fromkeys("abcde", 10**9))
    scene.pay("a", "b", 1)
    raw = scene.receipt("a", "b", "c")
    message = raw["transaction"]["message"]
    message["accountKeys"] = [address(one) for one in "abcd"]
    message["header"] = {"numRequiredSignatures": 3, **header}
    raw["meta"]["loadedAddresses"] = {"writable": [address("e")], "readonly": []}
    assert parse_receipt(raw).writable == set(map(address, writable))


def test_the_parsed_message_matches_the_signed_one(real):
    """The 43 receipts in json encoding are self-checking: the message reassembled from our reading
    is the one all signers signed.
    """
    plain = [
        raw
        for raw in real.values()
        if isinstance(raw["transaction"]["message"]["accountKeys"][0], str)
    ]
    assert len(plain) == 43 and {raw.get("version", "legacy") for raw in plain} == {"legacy", 0, 1}
    for raw in plain:
        receipt, header = parse_receipt(raw), raw["transaction"]["message"]["header"]
        message, signers = (
            write_message(raw, receipt),
            receipt.keys[: header["numRequiredSignatures"]],
        )
        assert receipt.signers == set(signers)
        for signer, signature in zip(signers, raw["transaction"]["signatures"], strict=True):
            VerifyKey(b58decode(signer)).verify(message, b58decode(signature))


CONFIGURED = (
    (3, "priorityFee", "<Q"),
    (4, "computeUnitLimit", "<I"),
    (8, "loadedAccountsDataSizeLimit", "<I"),
    (16, "heapSize", "<I"),
)


def write_message(raw, receipt):
    """The signed bytes of a legacy, v0 or v1 message: keys, instructions and data as we read them;
    header, blockhash and look-ups from the JSON.
    """
    message, version = raw["transaction"]["message"], raw.get("version", "legacy")
    told = message["header"]
    header = bytes(
        (
            told["numRequiredSignatures"],
            told["numReadonlySignedAccounts"],
            told["numReadonlyUnsignedAccounts"],
        )
    )
    keys = [b58decode(key) for key in receipt.keys[: len(message["accountKeys"])]]
    blockhash = b58decode(message["recentBlockhash"])
    calls = [
        (receipt.keys.index(one.program), bytes(map(receipt.keys.index, one.accounts)), one.data)
        for one in receipt.instructions
    ]
    if version == 1:
        return b"\x81" + header + write_v1(message["transactionConfig"], keys, blockhash, calls)
    packed = [bytes([program]) + compact(a) + compact(data) for program, a, data in calls]
    body = header + compact(keys) + blockhash + compact(packed)
    if version == "legacy":
        return body
    tables = [
        b58decode(one["accountKey"])
        + compact(bytes(one["writableIndexes"]))
        + compact(bytes(one["readonlyIndexes"]))
        for one in message["addressTableLookups"]
    ]
    return b"\x80" + body + compact(tables)


def write_v1(settings, keys, blockhash, calls):
    """SIMD-0385"""
    given = [one for one in CONFIGURED if settings[one[1]] is not None]
    mask = struct.pack("<I", sum(bits for bits, _, _ in given))
    values = b"".join(struct.pack(form, settings[name]) for _, name, form in given)
    heads = b"".join(struct.pack("<BBH", program, len(a), len(data)) for program, a, data in calls)
    bodies = b"".join(a + data for _, a, data in calls)
    counts = bytes([len(calls), len(keys)])
    return mask + blockhash + counts + b"".join(keys) + values + heads + bodies


def compact(parts):
    """Parts or bytes with a length prefix: seven bits per byte, lowest first."""
    number, size = len(parts), b""
    while number > 127:
        number, size = number >> 7, size + bytes([number & 127 | 128])
    return size + bytes([number]) + (parts if isinstance(parts, bytes) else b"".join(parts))


def test_inner_instructions_belong_to_their_callers(real):
    """All instructions keep their order and number; each one's height is its caller's plus one, if
    the node gives heights.
    """
    for raw in real.values():
        groups = {g["index"]: g["instructions"] for g in raw["meta"].get("innerInstructions") or []}
        for place, top in enumerate(parse_receipt(raw).instructions):
            assert len(list(top.tree())) == 1 + len(groups.get(place, []))
            heights = [row.get("stackHeight") for row in groups.get(place, [])]
            if None not in heights:
                assert [height for one in top.inner for height in depths(one, 2)] == heights


def depths(instruction, depth):
    yield depth
    for one in instruction.inner:
        yield from depths(one, depth + 1)


def test_every_transaction_version_is_read(real):
    versions = {str(raw.get("version", "absent")) for raw in real.values()}
    assert versions == {"absent", "legacy", "0", "1"}
    assert all(
        parse_receipt(raw, signature).signature == signature for signature, raw in real.items()
    )


def test_an_unknown_owner_is_filled_in_once_the_account_is_known(real):
    """A receipt from 2021 names no owners. An account that is neither associated nor named counts
    only once other receipts show its owner.
    """
    story = Story()
    story.fund("ada", 10**9)
    signature = story.receive("ada", "CAT", 700)
    raw = copy.deepcopy(story.chain().by_signature[signature].receipt)
    for side in ("preTokenBalances", "postTokenBalances"):
        for row in raw["meta"][side]:
            del row["owner"], row["programId"]
    mine, wallet = address(account_of("ada", "CAT")), ADA
    receipt = parse_receipt(raw, signature)
    blind, told = (
        read_effect(receipt, wallet, TIP_ACCOUNTS, known)
        for known in (frozenset(), frozenset((mine,)))
    )
    assert blind.inferred and blind.tokens == () and mine in blind.unowned
    assert told.tokens == ((address("CAT"), 700, 6),) and mine not in told.unowned
    assert read_entry(receipt, wallet, PROGRAMS).flags == ("owner_inferred",)


def test_a_receipt_lists_the_wallets_it_touches():
    """Ada's account of CAT has an owner, so it is hers; the venue is nobody's."""
    story = Story()
    story.fund("ada", 10**9)
    signature = story.receive("ada", "CAT", 700)
    receipt = parse_receipt(story.chain().by_signature[signature].receipt)
    stranger, elsewhere = address("a stranger"), frozenset({address("an account elsewhere")})
    assert ADA not in receipt.keys and touches(receipt, ADA)
    assert not touches(receipt, stranger) and not touches(receipt, stranger, elsewhere)
    assert touches(receipt, stranger, elsewhere | {address(account_of("maker", "CAT"))})
    assert touches(receipt, address("maker"))


def test_associated_token_addresses_are_derived():
    """Two well-known addresses: the USDC and wrapped SOL accounts of the all-ones address (System
    program).
    """
    real_pair = (
        "7T8ckKtdc5DH7ACS5AnCny7rVXYJPEsaAbdBri1FhPxY",
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    )
    assert associated_address(*real_pair) == "BeWvKX4GCSzfQdWgvzH1nzNFujCAktbV2wYrUMGpQz3"


def test_a_receipt_digest_covers_its_named_fields(chain):
    """Computed here from the node's JSON, without the code that reads receipts."""
    row = chain.rows[5]
    meta, slot = row.receipt["meta"], row.slot
    sides = {}
    for side, name in enumerate(("preTokenBalances", "postTokenBalances")):
        for one in meta[name]:
            amount = one["uiTokenAmount"]
            sides.setdefault(row.keys[one["accountIndex"]], [None, None])[side] = [
                one["mint"],
                one["owner"],
                amount["amount"],
                amount["decimals"],
            ]
    accounts = zip(row.keys, meta["preBalances"], meta["postBalances"], strict=True)
    told = {
        "signature": row.signature,
        "slot": slot,
        "failed": meta["err"] is not None,
        "fee": meta["fee"],
        "accounts": [list(one) for one in accounts],
        "tokens": [[name, *sides[name]] for name in sorted(sides)],
    }
    text = orjson.dumps(told)
    assert digest_receipt(parse_receipt(row.receipt)) == hashlib.sha256(text).hexdigest()


# ---- what is refused -----------------------------------------------------------------------------
def buy_some():
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 1_000, 250_000)
    return story.rows[-1].receipt


@pytest.fixture
def raw():
    """A receipt that a test may change: ada buys 1,000 CAT for 250,000 lamports."""
    return buy_some()


MALFORMED = r"malformed: \w+"
UNSIGNED = "an amount is not an unsigned 64-bit integer"
NO_NUMBER = "a token amount is not a whole number"
NO_ADDRESS = "an address is not base58 of 32 bytes"
DECODED = ["meta", "innerInstructions", 0, "instructions"]
LAMPORTS, TOKENS = (
    [*DECODED, 0, "parsed", "info", "lamports"],
    [*DECODED, 2, "parsed", "info", "amount"],
)
REFUSED = [
    ("no meta", ["meta"], None),
    ("no meta", ["meta"], []),
    (MALFORMED, ["transaction"], "x"),
    (MALFORMED, ["transaction", "signatures"], []),
    ("unequal lengths of accounts and balances", ["meta", "preBalances"], [1, 2, 3]),
    ("unequal lengths of accounts and balances", ["meta", "postBalances"], []),
    ("lamports are not conserved", ["meta", "fee"], 5_001),
    ("lamports are not conserved", ["meta", "preBalances", 0], 1),
    (UNSIGNED, ["meta", "fee"], -1),
    (UNSIGNED, ["meta", "fee"], 5_000.0),
    (UNSIGNED, ["meta", "fee"], "5000"),
    (UNSIGNED, ["meta", "fee"], True),
    (UNSIGNED, ["meta", "fee"], 2**64),
    (UNSIGNED, ["slot"], None),
    ("a slot is too large", ["slot"], 2**63),
    ("a block time is too large", ["blockTime"], 10**15),
    (UNSIGNED, ["transactionIndex"], -1),
    (UNSIGNED, ["transactionIndex"], "4"),
    (NO_NUMBER, ["meta", "postTokenBalances", 0, "uiTokenAmount", "amount"], 12),
    (NO_NUMBER, ["meta", "postTokenBalances", 0, "uiTokenAmount", "amount"], "1.5"),
    (NO_NUMBER, ["meta", "postTokenBalances", 0, "uiTokenAmount", "amount"], "-1"),
    (NO_NUMBER, ["meta", "postTokenBalances", 0, "uiTokenAmount", "amount"], "１"),
    (UNSIGNED, ["meta", "postTokenBalances", 0, "uiTokenAmount", "amount"], str(2**64)),
    (
        "a number of decimals is too large",
        ["meta", "postTokenBalances", 0, "uiTokenAmount", "decimals"],
        10**9,
    ),
    (MALFORMED, ["meta", "postTokenBalances", 0, "accountIndex"], 99),
    (NO_ADDRESS, ["meta", "postTokenBalances", 0, "mint"], None),
    (NO_ADDRESS, ["meta", "postTokenBalances", 0, "owner"], 7),
    (NO_ADDRESS, ["transaction", "message", "accountKeys", 1, "pubkey"], 7),
    (NO_ADDRESS, ["transaction", "message", "accountKeys", 1, "pubkey"], "0OIl"),
    (MALFORMED, ["transaction", "message", "instructions"], None),
    (NO_ADDRESS, ["transaction", "message", "instructions", 0, "programId"], ["x"]),
    (UNSIGNED, LAMPORTS, 2**64),
    *((MALFORMED, LAMPORTS, told) for told in (1.5, 5e3, float("inf"), "1.5", " 7", True, None)),
    *((MALFORMED, TOKENS, told) for told in (1.5, float("inf"), "1_0", "-1", "１", True)),
    (
        "an instruction's data is too long",
        ["transaction", "message", "instructions", -1, "data"],
        "1" * 20_000,
    ),
]


@pytest.mark.parametrize(
    "why, path, value",
    REFUSED,
    ids=[f"{'.'.join(map(str, path))}={str(value)[:12]}" for _, path, value in REFUSED],
)
def test_a_receipt_with_an_invalid_part_is_refused(raw, why, path, value):
    place, last = at(raw, path)
    place[last] = value
    with pytest.raises(BadReceipt, match=f"^{why}$"):
        parse_receipt(raw)


@pytest.mark.parametrize(
    "why, path, largest",
    [
        ("a slot", ["slot"], 2**63 - 1),
        ("a transaction's place", ["transactionIndex"], 2**31 - 1),
        # The last second of the year 9999.
        ("a block time", ["blockTime"], 253_402_300_799),
        (
            "a number of decimals",
            ["meta", "postTokenBalances", 0, "uiTokenAmount", "decimals"],
            255,
        ),
    ],
)
def test_numbers_may_be_as_large_as_storage_allows(raw, why, path, largest):
    place, last = at(raw, path)
    place[last] = largest
    parse_receipt(raw)
    place[last] = largest + 1
    with pytest.raises(BadReceipt, match=f"^{why} is too large$"):
        parse_receipt(raw)


def test_lamports_beyond_four_times_the_supply_are_refused(raw):
    """All its accounts have 2**61 - 1 lamports together, or one more."""
    rest = 2**61 - 1 - sum(raw["meta"]["preBalances"][1:])
    raw["meta"]["postBalances"][0] += rest - raw["meta"]["preBalances"][0]
    raw["meta"]["preBalances"][0] = rest
    parse_receipt(raw)
    raw["meta"]["preBalances"][0] += 1
    raw["meta"]["postBalances"][0] += 1
    with pytest.raises(BadReceipt, match="^a sum of lamports is too large$"):
        parse_receipt(raw)


def test_a_failed_transaction_may_name_any_amount(raw):
    """Transfers of 2**63 lamports together; the failed transaction moved nothing."""
    told = [row["parsed"]["info"] for row in raw["meta"]["innerInstructions"][0]["instructions"]]
    paid, *others = [info for info in told if "lamports" in info]
    paid["lamports"] = 2**63 - 1 - sum(info["lamports"] for info in others)
    parse_receipt(raw)
    paid["lamports"] += 1
    with pytest.raises(BadReceipt, match="^a sum of transfers is too large$"):
        parse_receipt(raw)
    raw["meta"]["err"] = {"InstructionError": [0, {"Custom": 1}]}
    assert parse_receipt(raw).failed


@pytest.mark.parametrize(
    "path",
    "meta slot transaction meta.err meta.fee meta.preBalances transaction.message"
    " transaction.message.accountKeys transaction.message.instructions".split(),
)
def test_a_receipt_missing_a_part_is_refused(raw, path):
    place, last = at(raw, path.split("."))
    del place[last]
    with pytest.raises(BadReceipt):
        parse_receipt(raw)
    for nothing in (None, [], "receipt", 5, {}, {"meta": {}}):
        with pytest.raises(BadReceipt):
            parse_receipt(nothing)


def test_another_transactions_receipt_is_refused(raw):
    with pytest.raises(BadReceipt, match="^another transaction's receipt$"):
        parse_receipt(raw, "5" * 88)


def test_a_receipt_without_accounts_is_refused(raw):
    raw["transaction"]["message"].update(accountKeys=[], instructions=[])
    raw["meta"].update(
        fee=0, preBalances=[], postBalances=[], preTokenBalances=[], postTokenBalances=[]
    )
    with pytest.raises(BadReceipt, match="^a receipt without an account$"):
        parse_receipt(raw)


def test_more_wrapped_sol_than_lamports_is_refused():
    """An account can't have more wrapped SOL than lamports: such a receipt would create SOL."""
    story = Story()
    story.fund("ada", 10**9)
    story.receive("ada", "CAT", 5)
    raw = copy.deepcopy(story.chain().rows[-1].receipt)
    held = raw["meta"]["postTokenBalances"][0]
    lamports = raw["meta"]["postBalances"][held["accountIndex"]]
    held["mint"] = "So11111111111111111111111111111111111111112"
    held["uiTokenAmount"]["amount"] = str(lamports)
    parse_receipt(raw)
    for more in (lamports + 1, 2**63):
        held["uiTokenAmount"]["amount"] = str(more)
        with pytest.raises(BadReceipt, match="^an account holds more wrapped SOL than lamports$"):
            parse_receipt(raw)


def test_excessive_nesting_is_refused(raw):
    """64 nested calls are read, more than any chain allows; one more is refused."""
    inner = [
        {"programId": address("p"), "accounts": [], "data": "", "stackHeight": height}
        for height in range(2, 66)
    ]
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": inner[:-1]}]
    assert len(list(parse_receipt(raw).instructions[0].tree())) == 64
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": inner}]
    with pytest.raises(BadReceipt, match="^instructions nest too deep$"):
        parse_receipt(raw)


def test_bundled_token_instructions_are_named_after_the_token_program(raw):
    """Two transfers (kind 3) of 7 and 8 in one instruction (kind 255), then a separate call."""
    raw, words = raw, "ABC"
    send = [b"\x03" + amount.to_bytes(8, "little") for amount in (7, 8)]
    data = b"\xff" + b"".join(bytes([3, len(one)]) + one for one in send)
    accounts = [address(word) for word in words * 2]
    message = raw["transaction"]["message"]
    message["instructions"] = [
        {"programId": TOKEN, "accounts": accounts, "data": b58encode(data), "stackHeight": None}
    ]
    inner = {"programId": SYSTEM, "accounts": [], "data": "", "stackHeight": 2}
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": [inner]}]
    (top,) = parse_receipt(raw).instructions
    assert top.operation is None
    assert [one.program for one in top.inner] == [TOKEN, TOKEN, SYSTEM]
    source, target, authority = (address(word) for word in words)
    assert [one.operation for one in top.inner] == [
        Operation("send", source, target, authority, 7),
        Operation("send", source, target, authority, 8),
        None,
    ]
    assert [one.data for one in top.inner] == [*send, b""]
    assert top.inner[0].accounts == (source, target, authority)


def test_instruction_data_is_read_up_to_the_programs_limit(raw):
    """10 KiB are 14,100 letters at most. Each `1` is a zero byte."""
    last = raw["transaction"]["message"]["instructions"][-1]
    last["data"] = "1" * 14_100
    assert parse_receipt(raw).instructions[-1].data == bytes(14_100)
    last["data"] += "1"
    with pytest.raises(BadReceipt, match="too long"):
        parse_receipt(raw)


def deceive():
    """A sale inside an unknown call, beside an account handed over and a withdrawal."""
    scene = Scene(ada=10**9, curve=10**9, friend=10**9)
    scene.holds("ada", "CAT", 100).holds("curve", "CAT", 0).holds("friend", "SOL", 10**9)
    with scene.call(address("a wrapper"), "ada"), scene.call(VENUE, "ada", "ada's CAT", "curve"):
        scene.send("CAT", "ada", "curve", 100)
        scene.shift("curve", "ada", 10**6)
    scene.hand_over("friend's SOL", "ada")
    scene.withdraw("nonce", "friend", "ada", 5)
    return scene.receipt("ada", "friend")


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from([buy_some, deceive]), st.data())
def test_made_up_receipts_are_read_or_refused(make, data):
    """Any part of a receipt is replaced by anything: BadReceipt, or amounts that fit their
    columns.
    """
    raw = make()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(paths_of(raw))[1:]))
        place, last = at(raw, path)
        place[last] = data.draw(JSON)
    try:
        receipt = parse_receipt(raw)
    except BadReceipt:
        return
    entry = read_entry(receipt, ADA, PROGRAMS)
    assert Entry.load(entry.signature, entry.slot, entry.tx_index, entry.dump()) == entry
    assert entry.venue_sol + entry.beside_sol == entry.sol
    Ledger().apply(entry)
    numbers = (receipt.slot, receipt.tx_index or 0, receipt.block_time or 0)
    for amount in (*numbers, entry.sol, entry.fee, entry.tip, entry.rent):
        assert type(amount) is int and -(2**63) <= amount < 2**63


def test_venue_amounts_are_the_total_minus_outside_amounts():
    """900 of 1,000 CAT were bought and 100 given; 7 DOG arrived from outside the venue and were
    sold.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 1_000, 250_000)
    whole = read_entry(parse_receipt(story.chain().rows[-1].receipt), ADA, PROGRAMS)
    cat, dog = address("CAT"), address("DOG")
    split = whole._replace(beside_sol=50_000, beside_tokens=((cat, 100, 6), (dog, 7, 0)))
    assert (whole.venue_sol, whole.venue_tokens) == (whole.sol, whole.tokens)
    assert split.venue_sol == whole.sol - 50_000
    assert sorted(split.venue_tokens) == sorted(((cat, 900, 6), (dog, -7, 0)))


def test_minting_to_an_account_does_not_make_it_own():
    """In a receipt without owners, spending from an account proves ownership, minting into one
    doesn't. A Token-2022 account is found by the call that opened it: its associated address isn't
    derived.
    """
    told = [
        Operation("mint", target="theirs", authority="W"),
        Operation("send", source="ours", target="theirs", authority="W"),
        Operation("send", source="another's", target="ours", authority="V"),
        Operation("initialize", target="opened", authority="W"),
        Operation("associate", "payer", "associated", "W"),
        *(
            Operation(name, source=f"to {name}", authority="W")
            for name in ("approve", "close", "burn")
        ),
    ]
    receipt = SimpleNamespace(operations=told)
    assert list(_named_as_own(receipt, "W")) == [
        *("ours", "opened", "associated"),
        *("to approve", "to close", "to burn"),
    ]


# ---- rent that older runtimes collected ----------------------------------------------------------
def collect(raw, account, lamports, told=None):
    """Charge rent to an account within a transaction, and list it (`told` lamports) as nodes do."""
    keys = [key["pubkey"] for key in raw["transaction"]["message"]["accountKeys"]]
    place = keys.index(account)
    raw["meta"]["postBalances"][place] -= lamports
    row = {
        "pubkey": account,
        "lamports": -lamports if told is None else told,
        "postBalance": raw["meta"]["postBalances"][place],
        "rewardType": "Rent",
        "commission": None,
    }
    raw["meta"].setdefault("rewards", []).append(row)
    return raw


CAT_ACCOUNT = address(account_of("ada", "CAT"))


def test_collected_rent_is_a_cost_and_keeps_the_kind(raw):
    """59 lamports of rent are charged to the wallet during a purchase, and 7 to its account."""
    before = read_entry(parse_receipt(raw), ADA, PROGRAMS)
    receipt = parse_receipt(collect(collect(raw, ADA, 59), CAT_ACCOUNT, 7))
    after = read_entry(receipt, ADA, PROGRAMS)
    assert receipt.rents == {ADA: 59, CAT_ACCOUNT: 7}
    assert after.sol == before.sol - 59 - 7
    same = [(e.kind, e.mint, e.flags, e.tokens, e.explained_percent) for e in (before, after)]
    assert same[0] == same[1] and after.kind == "buy"


def test_a_strangers_rent_is_not_a_cost(raw):
    before = numbers(raw, ADA)
    assert numbers(collect(raw, address("maker"), 59), ADA) == before


def test_collected_rent_is_neither_a_transfer_nor_a_closing():
    story = Story()
    story.fund("ada", 10**9)
    story.transact("ada", [])
    idle = story.rows[-1].receipt
    assert read_entry(parse_receipt(idle), ADA, PROGRAMS).kind == "other"
    assert read_entry(parse_receipt(collect(idle, ADA, 59)), ADA, PROGRAMS).kind == "other"


@pytest.mark.parametrize(
    "lamports, told, why",
    [
        *((59, told, "lamports are not conserved") for told in (-58, -60, 0)),
        # It never increases a balance.
        (-59, 59, UNSIGNED),
    ],
)
def test_rent_that_does_not_match_the_difference_is_refused(raw, lamports, told, why):
    with pytest.raises(BadReceipt, match=f"^{why}$"):
        parse_receipt(collect(raw, ADA, lamports, told))


def test_rent_of_an_unnamed_account_is_refused(raw):
    collect(raw, ADA, 59)["meta"]["rewards"][0]["pubkey"] = address("nobody here")
    with pytest.raises(BadReceipt, match=f"^{MALFORMED}$"):
        parse_receipt(raw)


@pytest.mark.parametrize("kept, taken", [(0, True), (59, True), (66, True), (67, False)])
def test_a_failed_transaction_stores_some_accounts_rent(raw, kept, taken):
    """59 and 7 lamports are listed, `kept` of which accounts lost."""
    collect(collect(raw, ADA, 59), CAT_ACCOUNT, 7)
    raw["meta"]["err"] = {"InstructionError": [0, "Custom"]}
    raw["meta"]["postBalances"][0] += 66 - kept
    if taken:
        assert parse_receipt(raw).rents == {ADA: 59, CAT_ACCOUNT: 7}
        return
    with pytest.raises(BadReceipt, match="^lamports are not conserved$"):
        parse_receipt(raw)


def test_other_rewards_are_not_rent(raw):
    collect(raw, ADA, 0)["meta"]["rewards"][0]["rewardType"] = "Fee"
    raw["meta"]["rewards"][0]["lamports"] = 59
    assert parse_receipt(raw).rents == {}
