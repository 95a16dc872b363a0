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


def sign(letter):
    return letter * 88


def list_one(letter, slot=5, **more):
    return {"signature": sign(letter), "slot": slot, **more}


# ---- lists of signatures
def test_a_page_is_newest_first_without_repeats():
    """Ordered by slot, then index; without an index it is first in its slot."""
    page = [
        list_one("A", 7, transactionIndex=2),
        list_one("B", 8),
        list_one("C", 7, transactionIndex=9, err=None),
        list_one("D", 7),
        list_one("B", 8),
    ]
    assert check_page(page) == [
        ListedSignature(sign("B"), 8, None),
        ListedSignature(sign("C"), 7, 9),
        ListedSignature(sign("A"), 7, 2),
        ListedSignature(sign("D"), 7, None),
    ]
    assert check_page([]) == []


def test_page_numbers_fit_their_columns():
    for slot, index in ((0, 0), (LAST, 2**31 - 1)):
        assert check_page([list_one("A", slot, transactionIndex=index)]) == [
            ListedSignature(sign("A"), slot, index)
        ]


@pytest.mark.parametrize(
    "entry",
    [
        *(sign("A"), None, {"slot": 5}, {"signature": sign("A")}),
        *({"signature": word, "slot": 5} for word in (5, "A" * 63, "A" * 89, "0" * 88)),
        *(list_one("A", slot=slot) for slot in (-1, 2**63, "5", True)),
        *(list_one("A", transactionIndex=index) for index in (-1, 2**31, 1.0)),
    ],
)
def test_one_malformed_entry_invalidates_the_page(entry):
    with pytest.raises(ValueError, match="^a malformed signature entry$"):
        check_page([list_one("B"), entry])


def test_a_transaction_the_node_lacks_is_not_an_error():
    assert check_receipt(None, sign("A")) == (None, None)


# ---- accounts
def test_token_accounts_must_be_addresses():
    rows = [{"pubkey": ADA, "account": {}}, {"pubkey": EVE}]
    assert check_accounts({"value": rows}) == [ADA, EVE]
    assert check_accounts({"value": []}) == []


@pytest.mark.parametrize("word", ["ada", "", 5, None, ADA + "1" * 9])
def test_a_token_account_needs_an_address(word):
    with pytest.raises(ValueError, match="^a malformed address$"):
        check_accounts({"value": [{"pubkey": EVE}, {"pubkey": word}]})


def hold(amount, lamports=2_039_280, owner=ADA, program=TOKEN, cut=72):
    """A token account: mint, owner and amount in 72 bytes."""
    data = b58decode(MINT) + b58decode(owner) + amount.to_bytes(8, "little")
    encoded = base64.b64encode(data[:cut]).decode()
    return {"lamports": lamports, "owner": program, "data": [encoded, "base64"]}


def read_holdings(*accounts, owned=((ADA, ACCOUNT),), slot=9):
    return check_holdings({"context": {"slot": slot}, "value": list(accounts)}, owned)


@pytest.mark.parametrize("program", [TOKEN, TOKEN_2022])
def test_token_account_holdings_are_read(program):
    """513 is 1 and 2 * 256: the amount is little-endian."""
    assert hold(513)["data"][0] == base64.b64encode(
        b58decode(MINT) + b58decode(ADA) + bytes([1, 2, 0, 0, 0, 0, 0, 0])
    ).decode("ascii")
    assert read_holdings(hold(513, program=program)) == (9, [Holding(9, 513, 2_039_280, MINT)])
    assert read_holdings(hold(0, program=program)) == (9, [Holding(9, 0, 2_039_280, None)])


def test_closed_and_foreign_accounts_are_empty():
    anothers = (hold(5, owner=EVE), hold(5, program=SYSTEM), hold(5, cut=71), None)
    owned = [(ADA, ACCOUNT)] * len(anothers)
    assert read_holdings(*anothers, owned=owned) == (9, [Holding(9, 0, 0, None)] * len(anothers))


def test_a_wallet_has_lamports_and_may_be_a_program():
    wallet = {"lamports": 77, "owner": SYSTEM, "data": ["", "base64"]}
    accounts = (
        wallet,
        {**wallet, "executable": True},
        {**wallet, "executable": "yes"},
        {**wallet, "lamports": 2**64 - 1},
    )
    assert read_holdings(*accounts, owned=[(ADA, ADA)] * 4)[1] == [
        Holding(9, 0, 77, None, False),
        Holding(9, 0, 77, None, True),
        Holding(9, 0, 77, None, False),
        Holding(9, 0, 2**64 - 1, None, False),
    ]


def test_holdings_keep_the_requested_order():
    wallet = {"lamports": 77}
    owned = [(ADA, ADA), (EVE, ACCOUNT)]
    assert read_holdings(wallet, hold(5, owner=EVE), owned=owned, slot=LAST) == (
        LAST,
        [Holding(LAST, 0, 77), Holding(LAST, 5, 2_039_280, MINT)],
    )


COUNTS = "^the number of results doesn't match the number of accounts$"


@pytest.mark.parametrize("slot, accounts", [(-1, 1), (2**63, 1), ("9", 1), (9, 0), (9, 2)])
def test_each_requested_account_has_one_entry_from_one_slot(slot, accounts):
    with pytest.raises(ValueError, match=COUNTS):
        read_holdings(*[hold(1)] * accounts, slot=slot)


@pytest.mark.parametrize("lamports", [-1, 2**64, None, "5", True])
def test_lamports_fit_64_bits(lamports):
    with pytest.raises(ValueError, match="^no lamports$"):
        read_holdings(hold(5, lamports=lamports))


# ---- mints, blocks and times
def tell_mint(data, owner=TOKEN):
    return {"owner": owner, "data": [base64.b64encode(data).decode(), "base64"]}


def test_decimals_are_one_byte_of_a_mint():
    accounts = [
        tell_mint(b"\x06"),
        tell_mint(b"\x00", TOKEN_2022),
        None,
        tell_mint(b"\x06", SYSTEM),
        tell_mint(b""),
        tell_mint(b"\x06\x01"),
        tell_mint(b"\xff"),
    ]
    found = check_decimals({"value": accounts}, list("ABCDEFG"))
    assert found == {"A": 6, "B": 0, "G": 255}


@pytest.mark.parametrize("count", [0, 2])
def test_each_requested_mint_has_one_entry(count):
    with pytest.raises(ValueError, match=COUNTS):
        check_decimals({"value": [None] * count}, [MINT])


def test_a_block_gives_transaction_positions():
    assert check_block({"signatures": [sign("B"), sign("A")]}) == {sign("B"): 0, sign("A"): 1}


def test_a_time_is_in_seconds_before_the_year_10000():
    """9999-12-31 23:59:59 UTC is 253,402,300,799."""
    for seconds in (None, 0, 253_402_300_799):
        assert check_time(seconds) == seconds
    for word in (-1, 253_402_300_800, 1.5, "1", True, {}):
        with pytest.raises(ValueError, match="^no block time$"):
            check_time(word)


# ---- what is no list -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "check, things, results",
    [
        (check_page, "signatures", [None, {}, {"value": []}, "page", 7]),
        (check_accounts, "token accounts", [None, [], {}, {"value": None}, {"value": [{}]}]),
        (
            lambda result: check_holdings(result, [(ADA, ADA)]),
            "accounts",
            [None, {}, {"context": {}}, {"context": {"slot": 9}}],
        ),
        (
            read_holdings,
            "accounts",
            ["word", 7, {"lamports": 1}, {"lamports": 1, "data": [], "owner": TOKEN}],
        ),
        (
            lambda result: check_decimals(result, [MINT]),
            "accounts",
            [None, {}, {"value": [{}]}, {"value": ["mint"]}],
        ),
        (check_block, "signatures", [None, {}, {"signatures": None}, {"signatures": [[]]}]),
    ],
    ids=["page", "token accounts", "holdings", "one holding", "mints", "block"],
)
def test_a_malformed_list_is_refused(check, things, results):
    for result in results:
        with pytest.raises(ValueError, match=f"^the response is not a list of {things}$"):
            check(result)
