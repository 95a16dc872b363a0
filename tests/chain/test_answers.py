"""Nodes' responses, from JSON to plain values; invalid ones are rejected with a reason."""

import base64

import pytest
from story import address

from chain.addresses import SYSTEM, TOKEN, TOKEN_2022, b58decode
from chain.reading.flows import Holding
from chain.rpc import (
    ListedSignature,
    check_accounts,
    check_block,
    check_decimals,
    check_holdings,
    check_page,
    check_receipt,
    check_time,
)

ADA, EVE, MINT, ACCOUNT = map(address, ("ada", "eve", "a mint", "ada's account"))
# The largest signed 64-bit number.
LAST = 2**63 - 1
A, B, C, D = (letter * 88 for letter in "ABCD")


# ---- signatures and blocks -----------------------------------------------------------------------
def listed(signature, slot=5, **more):
    return {"signature": signature, "slot": slot, **more}


def test_a_page_is_newest_first_without_repeats():
    """Ordered by slot, then index; without an index it is first in its slot."""
    page = [
        listed(A, 7, transactionIndex=2),
        listed(B, LAST),
        listed(C, 7, transactionIndex=2**31 - 1, err=None),
        listed(D, 7),
        listed(B, LAST),
        listed("E" * 88, 0, transactionIndex=0),
    ]
    assert check_page(page) == [
        ListedSignature(B, LAST, None),
        ListedSignature(C, 7, 2**31 - 1),
        ListedSignature(A, 7, 2),
        ListedSignature(D, 7, None),
        ListedSignature("E" * 88, 0, 0),
    ]
    assert check_page([]) == []


def test_a_transaction_the_node_lacks_is_not_an_error():
    assert check_receipt(None, A) == (None, None)


def test_a_block_gives_transaction_positions():
    assert check_block({"signatures": [B, A]}) == {B: 0, A: 1}


def test_a_time_is_in_seconds_before_the_year_10000():
    """9999-12-31 23:59:59 UTC is 253,402,300,799."""
    for seconds in (None, 0, 253_402_300_799):
        assert check_time(seconds) == seconds


# ---- accounts and mints --------------------------------------------------------------------------
def hold(amount, lamports=2_039_280, owner=ADA, program=TOKEN, cut=72):
    """A token account: mint, owner and little-endian amount in 72 bytes."""
    data = b58decode(MINT) + b58decode(owner) + amount.to_bytes(8, "little")
    encoded = base64.b64encode(data[:cut]).decode()
    return {"lamports": lamports, "owner": program, "data": [encoded, "base64"]}


def read_holdings(*accounts, owned=((ADA, ACCOUNT),), slot=9):
    return check_holdings({"context": {"slot": slot}, "value": list(accounts)}, owned)


def test_token_accounts_are_listed():
    rows = [{"pubkey": ADA, "account": {}}, {"pubkey": EVE}]
    assert check_accounts({"value": rows}) == [ADA, EVE]
    assert check_accounts({"value": []}) == []


EMPTY = Holding(9, 0, 0, None)
WALLET = {"lamports": 77, "owner": SYSTEM, "data": ["", "base64"]}
# (owner, account, the node's value, what it holds)
ACCOUNTS = {
    "a token account": (ADA, ACCOUNT, hold(513), Holding(9, 513, 2_039_280, MINT)),
    "a zero balance": (ADA, ACCOUNT, hold(0), Holding(9, 0, 2_039_280, None)),
    "Token-2022": (ADA, ACCOUNT, hold(5, program=TOKEN_2022), Holding(9, 5, 2_039_280, MINT)),
    "another's account": (ADA, ACCOUNT, hold(5, owner=EVE), EMPTY),
    "another program's": (ADA, ACCOUNT, hold(5, program=SYSTEM), EMPTY),
    "a short account": (ADA, ACCOUNT, hold(5, cut=71), EMPTY),
    "a closed account": (ADA, ACCOUNT, None, EMPTY),
    "a wallet": (ADA, ADA, WALLET, Holding(9, 0, 77, None, False)),
    "a program": (ADA, ADA, {**WALLET, "executable": True}, Holding(9, 0, 77, None, True)),
    "no flag": (ADA, ADA, {**WALLET, "executable": "yes"}, Holding(9, 0, 77, None, False)),
    "a rich wallet": (ADA, ADA, {"lamports": 2**64 - 1}, Holding(9, 0, 2**64 - 1, None, False)),
    "Eve's account": (EVE, ACCOUNT, hold(5, owner=EVE), Holding(9, 5, 2_039_280, MINT)),
}


def test_holdings_are_read_in_the_requested_order():
    owners, accounts, values, holdings = zip(*ACCOUNTS.values(), strict=True)
    slot, found = read_holdings(*values, owned=[*zip(owners, accounts, strict=True)])
    assert slot == 9 and dict(zip(ACCOUNTS, found, strict=True)) == dict(
        zip(ACCOUNTS, holdings, strict=True)
    )
    assert read_holdings(hold(5), slot=LAST) == (LAST, [Holding(LAST, 5, 2_039_280, MINT)])


def tell_mint(data, owner=TOKEN):
    return {"owner": owner, "data": [base64.b64encode(data).decode(), "base64"]}


def test_decimals_are_one_byte_of_a_mint():
    other, foreign = tell_mint(b"\x00", TOKEN_2022), tell_mint(b"\x06", SYSTEM)
    invalid = [None, foreign, tell_mint(b""), tell_mint(b"\x06\x01")]
    accounts = [tell_mint(b"\x06"), other, *invalid, tell_mint(b"\xff")]
    assert check_decimals({"value": accounts}, list("ABCDEFG")) == {"A": 6, "B": 0, "G": 255}


# ---- what is refused -----------------------------------------------------------------------------
NO_ENTRIES = (
    *(A, None, {"slot": 5}, {"signature": A}),
    *(listed(word) for word in (5, "A" * 63, "A" * 89, "0" * 88)),
    *(listed(A, slot=slot) for slot in (-1, 2**63, "5", True)),
    *(listed(A, transactionIndex=index) for index in (-1, 2**31, 1.0)),
)
NO_LIST = "the response is not a list of"
COUNTS = "the number of results doesn't match the number of accounts"
WRONG_BLOCK, NO_ACCOUNT = {"signatures": [[]]}, {"value": [{}]}
WORDS = ("ada", "", 5, None, ADA + "1" * 9)
NO_HOLDINGS = (None, {}, {"context": {}}, {"context": {"slot": 9}})
NO_HOLDING = ("word", 7, {"lamports": 1}, {"lamports": 1, "data": [], "owner": TOKEN})
NO_MINTS = (None, {}, {"value": [{}]}, {"value": ["mint"]})


def check_word(word):
    return check_accounts({"value": [{"pubkey": EVE}, {"pubkey": word}]})


def check_mints(result):
    return check_decimals(result, [MINT])


@pytest.mark.parametrize(
    "reason, check, results",
    [
        ("a malformed signature entry", lambda one: check_page([listed(B), one]), NO_ENTRIES),
        ("a malformed address", check_word, WORDS),
        ("no lamports", lambda n: read_holdings(hold(5, n)), (-1, 2**64, None, "5", True)),
        ("no block time", check_time, (-1, 253_402_300_800, 1.5, "1", True, {})),
        (COUNTS, lambda slot: read_holdings(hold(1), slot=slot), (-1, 2**63, "9")),
        (COUNTS, lambda count: read_holdings(*[hold(1)] * count), (0, 2)),
        (COUNTS, lambda count: check_mints({"value": [None] * count}), (0, 2)),
        (f"{NO_LIST} signatures", check_page, (None, {}, {"value": []}, "page", 7)),
        (f"{NO_LIST} signatures", check_block, (None, {}, {"signatures": None}, WRONG_BLOCK)),
        (f"{NO_LIST} token accounts", check_accounts, (None, [], {}, {"value": None}, NO_ACCOUNT)),
        (f"{NO_LIST} accounts", lambda one: check_holdings(one, [(ADA, ADA)]), NO_HOLDINGS),
        (f"{NO_LIST} accounts", read_holdings, NO_HOLDING),
        (f"{NO_LIST} accounts", check_mints, NO_MINTS),
    ],
)
def test_a_malformed_response_is_refused_with_its_reason(reason, check, results):
    for result in results:
        with pytest.raises(ValueError, match=f"^{reason}$"):
            check(result)
