"""Receipts: whose accounts they touch, what a digest covers, and which ones are refused."""

import hashlib

import orjson
import pytest
from damage import JSON, at, paths_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from scene import Scene
from story import ADA, VENUE, Story, account_of, address

from chain.addresses import SYSTEM, TOKEN, WRAPPED_SOL, b58encode
from chain.ledger.ledger import Ledger
from chain.reading.entries import Entry, read_entry
from chain.reading.flows import touches
from chain.reading.programs import table
from chain.reading.receipts import BadReceipt, Operation, digest_receipt, parse_receipt

PROGRAMS = table()
CAT_ACCOUNT = address(account_of("ada", "CAT"))


def read(raw, known=frozenset()):
    return read_entry(parse_receipt(raw), ADA, PROGRAMS, known)


@pytest.fixture
def received():
    """A stranger sends ada 700 CAT, which opens her account; she isn't among the keys."""
    story = Story()
    story.receive("ada", "CAT", 700)
    return story.rows[-1].receipt


def test_an_unknown_owner_is_filled_in_once_the_account_is_known(received):
    """A receipt from 2021 names no owners. An account that is neither associated nor named counts
    only once other receipts show its owner.
    """
    for row in received["meta"]["preTokenBalances"] + received["meta"]["postTokenBalances"]:
        del row["owner"], row["programId"]
    blind, told = (read(received, frozenset(known)) for known in ((), (CAT_ACCOUNT,)))
    assert blind.flags == ("owner_inferred",) and blind.tokens == ()
    assert told.tokens == ((address("CAT"), 700, 6),)
    assert CAT_ACCOUNT in set(blind.unowned) - set(told.unowned)


def test_a_receipt_lists_the_wallets_it_touches(received):
    """Ada's account of CAT has an owner, so it is hers; a stranger's must be known."""
    receipt = parse_receipt(received)
    stranger, elsewhere = address("a stranger"), frozenset({address("an account elsewhere")})
    assert ADA not in receipt.keys and touches(receipt, ADA) and touches(receipt, address("maker"))
    assert not touches(receipt, stranger) and not touches(receipt, stranger, elsewhere)
    assert touches(receipt, stranger, elsewhere | {address(account_of("maker", "CAT"))})


def test_a_receipt_digest_covers_its_named_fields(chain):
    """Computed here from the node's JSON, without the code that reads receipts."""
    row = chain.rows[5]
    meta, sides = row.receipt["meta"], {}
    for side, name in enumerate(("preTokenBalances", "postTokenBalances")):
        for one in meta[name]:
            ui, both = one["uiTokenAmount"], [None, None]
            shown = [one["mint"], one["owner"], ui["amount"], ui["decimals"]]
            sides.setdefault(row.keys[one["accountIndex"]], both)[side] = shown
    accounts = zip(row.keys, meta["preBalances"], meta["postBalances"], strict=True)
    told = {
        "signature": row.signature,
        "slot": row.slot,
        "failed": meta["err"] is not None,
        "fee": meta["fee"],
        "accounts": [list(one) for one in accounts],
        "tokens": [[name, *sides[name]] for name in sorted(sides)],
    }
    digest = hashlib.sha256(orjson.dumps(told)).hexdigest()
    assert digest_receipt(parse_receipt(row.receipt)) == digest


@pytest.mark.parametrize(
    ("signed", "unsigned", "writable"),
    [(None, None, "abcde"), (1, None, "abde"), (None, 1, "abce"), (2, 1, "ae")],
)
def test_a_header_says_which_accounts_are_writable(signed, unsigned, writable):
    """Signers are a, b and c. The last of the signers, and of d, are read-only; e is loaded."""
    scene = Scene(**dict.fromkeys("abcde", 10**9))
    scene.pay("a", "b", 1)
    raw = scene.receipt("a", "b", "c")
    header = {"numReadonlySignedAccounts": signed, "numReadonlyUnsignedAccounts": unsigned}
    raw["transaction"]["message"] |= {
        "accountKeys": [address(one) for one in "abcd"],
        "header": {name: n for name, n in header.items() if n} | {"numRequiredSignatures": 3},
    }
    raw["meta"]["loadedAddresses"] = {"writable": [address("e")], "readonly": []}
    assert parse_receipt(raw).writable == set(map(address, writable))


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


GONE = object()


def put(raw, path, value):
    """Write a value to a place such as `meta.preBalances.0`, or delete it."""
    steps = [int(step) if step.lstrip("-").isdigit() else step for step in path.split(".")]
    place, last = at(raw, steps)
    if value is GONE:
        del place[last]
    else:
        place[last] = value


def assert_refused(raw, why, *signature):
    with pytest.raises(BadReceipt, match=f"^{why}$"):
        parse_receipt(raw, *signature)


MALFORMED, UNSIGNED = r"malformed: \w+", "an amount is not an unsigned 64-bit integer"
NO_ADDRESS = "an address is not base58 of 32 bytes"
UNEQUAL = "unequal lengths of accounts and balances"
NOT_CONSERVED = "lamports are not conserved"
NOT_WHOLE = "a token amount is not a whole number"
BALANCE, MESSAGE = "meta.postTokenBalances.0", "transaction.message"
HELD, DECIMALS = (f"{BALANCE}.uiTokenAmount.{name}" for name in ("amount", "decimals"))
INNER = "meta.innerInstructions.0.instructions"
LAMPORTS, TOKENS = f"{INNER}.0.parsed.info.lamports", f"{INNER}.2.parsed.info.amount"
NEEDED = ["meta.preBalances", "transaction", MESSAGE, f"{MESSAGE}.instructions"]
REFUSED = [
    *((path, value, MALFORMED) for path in NEEDED for value in (None, GONE)),
    *((path, GONE, MALFORMED) for path in ("meta", "slot", "meta.err", "meta.fee")),
    (f"{MESSAGE}.accountKeys", GONE, MALFORMED),
    (f"{MESSAGE}.accountKeys.0", None, MALFORMED),
    *(("meta", value, "no meta") for value in (None, [])),
    ("transaction", "x", MALFORMED),
    ("transaction.signatures", [], MALFORMED),
    ("transaction.signatures.0", "5" * 10, "another transaction's receipt"),
    ("meta.preBalances", [1, 2, 3], UNEQUAL),
    ("meta.postBalances", [], UNEQUAL),
    ("meta.fee", 5_001, NOT_CONSERVED),
    ("meta.preBalances.0", 1, NOT_CONSERVED),
    *(("meta.fee", value, UNSIGNED) for value in (-1, 5_000.0, "5000", True, 2**64, None)),
    ("slot", None, UNSIGNED),
    *(("transactionIndex", value, UNSIGNED) for value in (-1, "4")),
    *((HELD, value, NOT_WHOLE) for value in (12, "1.5", "-1", "１")),
    (HELD, str(2**64), UNSIGNED),
    (f"{BALANCE}.accountIndex", 99, MALFORMED),
    (f"{BALANCE}.mint", None, NO_ADDRESS),
    (f"{BALANCE}.owner", 7, NO_ADDRESS),
    *((f"{MESSAGE}.accountKeys.1.pubkey", value, NO_ADDRESS) for value in (7, "0OIl")),
    (f"{MESSAGE}.instructions.0.programId", ["x"], NO_ADDRESS),
    (LAMPORTS, 2**64, UNSIGNED),
    *((LAMPORTS, value, MALFORMED) for value in (1.5, 5e3, float("inf"), "1.5", " 7", True, None)),
    *((TOKENS, value, MALFORMED) for value in (1.5, float("inf"), "1_0", "-1", "１", True)),
]


@pytest.mark.parametrize(
    "path, value, why",
    REFUSED,
    ids=[f"{path}={'gone' if value is GONE else str(value)[:12]}" for path, value, _ in REFUSED],
)
def test_a_receipt_with_an_invalid_part_is_refused(raw, path, value, why):
    put(raw, path, value)
    assert_refused(raw, why)


@pytest.mark.parametrize("nothing", [None, [], "receipt", 5, {}, {"meta": {}}], ids=str)
def test_what_is_no_receipt_is_refused(nothing):
    assert_refused(nothing, MALFORMED)


# 10 KiB of data are 14,100 letters at most, each `1` a zero byte. A block time may be up to the
# last second of the year 9999.
DATA = f"{MESSAGE}.instructions.-1.data"
LARGEST = {
    "a slot": ("slot", 2**63 - 1, 2**63),
    "a transaction's place": ("transactionIndex", 2**31 - 1, 2**31),
    "a block time": ("blockTime", 253_402_300_799, 253_402_300_800),
    "a number of decimals": (DECIMALS, 255, 256),
    "an instruction's data": (DATA, "1" * 14_100, "1" * 14_101),
}


@pytest.mark.parametrize("what", LARGEST)
def test_values_may_be_as_large_as_storage_allows(raw, what):
    path, largest, larger = LARGEST[what]
    put(raw, path, largest)
    parse_receipt(raw)
    put(raw, path, larger)
    assert_refused(raw, f"{what} is too l(arge|ong)")


def test_lamports_beyond_four_times_the_supply_are_refused(raw):
    """All its accounts have 2**61 - 1 lamports together, or one more."""
    before, after = raw["meta"]["preBalances"], raw["meta"]["postBalances"]
    more = 2**61 - 1 - sum(before)
    before[0], after[0] = before[0] + more, after[0] + more
    parse_receipt(raw)
    before[0], after[0] = before[0] + 1, after[0] + 1
    assert_refused(raw, "a sum of lamports is too large")


def test_a_failed_transaction_may_name_any_amount(raw):
    """Transfers of 2**63 lamports together; the failed transaction moved nothing."""
    told = [row["parsed"]["info"] for row in raw["meta"]["innerInstructions"][0]["instructions"]]
    paid, *others = [info for info in told if "lamports" in info]
    paid["lamports"] = 2**63 - 1 - sum(info["lamports"] for info in others)
    parse_receipt(raw)
    paid["lamports"] += 1
    assert_refused(raw, "a sum of transfers is too large")
    raw["meta"]["err"] = {"InstructionError": [0, {"Custom": 1}]}
    assert parse_receipt(raw).failed


def test_another_transactions_receipt_is_refused(raw):
    assert_refused(raw, "another transaction's receipt", "5" * 88)


def test_a_receipt_without_accounts_is_refused(raw):
    raw["transaction"]["message"].update(accountKeys=[], instructions=[])
    lists = ("preBalances", "postBalances", "preTokenBalances", "postTokenBalances")
    raw["meta"] |= {"fee": 0} | {name: [] for name in lists}
    assert_refused(raw, "a receipt without an account")


def test_more_wrapped_sol_than_lamports_is_refused(received):
    """An account can't have more wrapped SOL than lamports: such a receipt would create SOL."""
    held = received["meta"]["postTokenBalances"][0]
    lamports = received["meta"]["postBalances"][held["accountIndex"]]
    held |= {"mint": WRAPPED_SOL}
    held["uiTokenAmount"]["amount"] = str(lamports)
    parse_receipt(received)
    for more in (lamports + 1, 2**63):
        held["uiTokenAmount"]["amount"] = str(more)
        assert_refused(received, "an account holds more wrapped SOL than lamports")


def test_excessive_nesting_is_refused(raw):
    """64 nested calls are read, more than any chain allows; one more is refused."""
    call = {"programId": address("p"), "accounts": [], "data": ""}
    inner = [{**call, "stackHeight": height} for height in range(2, 66)]
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": inner[:-1]}]
    assert len(list(parse_receipt(raw).instructions[0].tree())) == 64
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": inner}]
    assert_refused(raw, "instructions nest too deep")


def test_bundled_token_instructions_are_named_after_the_token_program(raw):
    """A transfer (kind 3) of 7 and a closing (9) in one instruction (kind 255): the number of
    accounts and the length precede each one's data. Then a separate call of another program, whose
    data begins alike.
    """
    a, b, c, d = (address(word) for word in "ABCD")
    send = b"\x03" + (7).to_bytes(8, "little")
    data = b"\xff" + bytes([3, len(send)]) + send + bytes([3, 1]) + b"\x09"
    top = {"programId": TOKEN, "accounts": [a, b, c, a, d, c], "data": b58encode(data)}
    inner = {"programId": SYSTEM, "accounts": [a], "data": b58encode(b"\xff\1\0"), "stackHeight": 2}
    raw["transaction"]["message"]["instructions"] = [top]
    raw["meta"]["innerInstructions"] = [{"index": 0, "instructions": [inner]}]
    (top,) = parse_receipt(raw).instructions
    assert top.operation is None and top.inner[0].accounts == (a, b, c)
    assert [(one.program, one.operation, one.data) for one in top.inner] == [
        (TOKEN, Operation("send", a, b, c, 7), send),
        (TOKEN, Operation("close", a, d, c), b"\x09"),
        (SYSTEM, None, b"\xff\1\0"),
    ]
    assert not top.inner[2].inner


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


# Of two accounts. Rewards of other types aren't rent, and rent never increases a balance.
LISTED = [(ADA, -59, "Rent"), (CAT_ACCOUNT, -7, "Rent"), (ADA, 5, "Fee")]


@pytest.mark.parametrize(
    "lost, rewards, fails, why",
    [
        (66, LISTED, False, None),
        *((59, [(ADA, told, "Rent")], False, NOT_CONSERVED) for told in (0, -58, -60)),
        (-59, [(ADA, 59, "Rent")], False, UNSIGNED),
        (59, [(address("nobody here"), -59, "Rent")], False, MALFORMED),
        # A failed transaction stores only some of the accounts.
        *((kept, LISTED, True, None) for kept in (0, 59, 66)),
        (67, LISTED, True, NOT_CONSERVED),
    ],
)
def test_collected_rent_must_match_the_missing_lamports(raw, lost, rewards, fails, why):
    """Older runtimes list it as rewards."""
    raw["meta"]["postBalances"][0] -= lost
    raw["meta"]["err"] = {"InstructionError": [0, "Custom"]} if fails else None
    raw["meta"]["rewards"] = [
        {"pubkey": key, "lamports": told, "rewardType": kind, "commission": None}
        for key, told, kind in rewards
    ]
    if why:
        assert_refused(raw, why)
    else:
        assert parse_receipt(raw).rents == {ADA: 59, CAT_ACCOUNT: 7}
