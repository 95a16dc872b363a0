"""What native instructions move: a node's decoding and the bytes give the same Operation."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story import address

from chain.base58 import b58decode
from chain.instructions import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    VOTE,
    Operation,
    read_batch,
    read_data,
    read_parsed,
)

A, B, C, D = (address(word) for word in "ABCD")
N = 2**40 + 7


def u32(number):
    return struct.pack("<I", number)


def u64(number):
    return struct.pack("<Q", number)


def text(word):
    return u64(len(word)) + word


def pubkey(one):
    return b58decode(one)


# what, program, the node's decoding, accounts, bytes, the Operation
SAME = [
    (
        "transfer",
        SYSTEM,
        ("transfer", {"source": A, "destination": B, "lamports": N}),
        (A, B),
        u32(2) + u64(N),
        Operation("transfer", A, B, amount=N),
    ),
    (
        "transfer with seed",
        SYSTEM,
        (
            "transferWithSeed",
            {
                "source": A,
                "sourceBase": C,
                "destination": B,
                "lamports": N,
                "sourceSeed": "s",
                "sourceOwner": SYSTEM,
            },
        ),
        (A, C, B),
        u32(11) + u64(N) + text(b"s") + pubkey(SYSTEM),
        Operation("transfer", A, B, amount=N),
    ),
    (
        "create",
        SYSTEM,
        (
            "createAccount",
            {"source": A, "newAccount": B, "lamports": N, "space": 165, "owner": TOKEN},
        ),
        (A, B),
        u32(0) + u64(N) + u64(165) + pubkey(TOKEN),
        Operation("create", A, B, amount=N),
    ),
    (
        "create with seed",
        SYSTEM,
        (
            "createAccountWithSeed",
            {
                "source": A,
                "newAccount": B,
                "base": A,
                "seed": "seed",
                "lamports": N,
                "space": 165,
                "owner": TOKEN,
            },
        ),
        (A, B),
        u32(3) + pubkey(A) + text(b"seed") + u64(N) + u64(165) + pubkey(TOKEN),
        Operation("create", A, B, amount=N),
    ),
    (
        "create on lamports that lie there",
        SYSTEM,
        (
            "createAccountAllowPrefund",
            {"source": A, "newAccount": B, "lamports": N, "space": 165, "owner": TOKEN},
        ),
        (B, A),
        u32(13) + u64(N) + u64(165) + pubkey(TOKEN),
        Operation("create", A, B, amount=N),
    ),
    (
        "create without a payer",
        SYSTEM,
        (
            "createAccountAllowPrefund",
            {"newAccount": B, "lamports": 0, "space": 165, "owner": TOKEN},
        ),
        (B,),
        u32(13) + u64(0) + u64(165) + pubkey(TOKEN),
        None,
    ),
    (
        "withdraw from a nonce account",
        SYSTEM,
        ("withdrawFromNonce", {"nonceAccount": A, "destination": B, "lamports": N}),
        (A, B, C, D),
        u32(5) + u64(N),
        Operation("withdraw", A, B, amount=N),
    ),
    (
        "allocate",
        SYSTEM,
        ("allocate", {"account": A, "space": 165}),
        (A,),
        u32(8) + u64(165),
        Operation("allocate", target=A),
    ),
    (
        "allocate with seed",
        SYSTEM,
        (
            "allocateWithSeed",
            {"account": A, "base": B, "seed": "s", "space": 165, "owner": TOKEN},
        ),
        (A, B),
        u32(9) + pubkey(B) + text(b"s") + u64(165) + pubkey(TOKEN),
        Operation("allocate", target=A),
    ),
    (
        "withdraw stake",
        STAKE,
        ("withdraw", {"stakeAccount": A, "destination": B, "lamports": N}),
        (A, B, C, D),
        u32(4) + u64(N),
        Operation("withdraw", A, B, amount=N),
    ),
    (
        "withdraw from a vote account",
        VOTE,
        ("withdraw", {"voteAccount": A, "destination": B, "lamports": N}),
        (A, B, C),
        u32(3) + u64(N),
        Operation("withdraw", A, B, amount=N),
    ),
    (
        "token transfer",
        TOKEN,
        ("transfer", {"source": A, "destination": B, "authority": C, "amount": str(N)}),
        (A, B, C),
        b"\x03" + u64(N),
        Operation("send", A, B, C, N),
    ),
    (
        "checked token transfer",
        TOKEN_2022,
        (
            "transferChecked",
            {
                "source": A,
                "mint": D,
                "destination": B,
                "authority": C,
                "tokenAmount": {"amount": str(N), "decimals": 6},
            },
        ),
        (A, D, B, C),
        b"\x0c" + u64(N) + b"\x06",
        Operation("send", A, B, C, N, D),
    ),
    (
        "token transfer with its fee",
        TOKEN_2022,
        (
            "transferCheckedWithFee",
            {
                "source": A,
                "mint": D,
                "destination": B,
                "authority": C,
                "tokenAmount": {"amount": str(N), "decimals": 6},
                "feeAmount": {"amount": "5", "decimals": 6},
            },
        ),
        (A, D, B, C),
        b"\x1a\x01" + u64(N) + b"\x06" + u64(5),
        Operation("send", A, B, C, N, D),
    ),
    (
        "token transfer of several signers",
        TOKEN,
        (
            "transfer",
            {
                "source": A,
                "destination": B,
                "multisigAuthority": C,
                "signers": [D],
                "amount": str(N),
            },
        ),
        (A, B, C, D),
        b"\x03" + u64(N),
        Operation("send", A, B, C, N),
    ),
    (
        "a mint's own fee",
        TOKEN_2022,
        ("initializeTransferFeeConfig", {"mint": A, "transferFeeBasisPoints": 5}),
        (A, B, C, D),
        b"\x1a\x00\x00\x00" + bytes(10),
        None,
    ),
    *(
        (
            f"open, kind {data[0]}",
            TOKEN,
            (name, {"account": A, "mint": D, "owner": C}),
            accounts,
            data,
            Operation("initialize", None, A, C, mint=D),
        )
        for name, accounts, data in (
            ("initializeAccount", (A, D, C, B), b"\x01"),
            ("initializeAccount2", (A, D, B), b"\x10" + pubkey(C)),
            ("initializeAccount3", (A, D), b"\x12" + pubkey(C)),
        )
    ),
    (
        "mint checked",
        TOKEN_2022,
        (
            "mintToChecked",
            {
                "mint": D,
                "account": B,
                "mintAuthority": C,
                "tokenAmount": {"amount": str(N), "decimals": 6},
            },
        ),
        (D, B, C),
        b"\x0e" + u64(N) + b"\x06",
        Operation("mint", None, B, C, N, D),
    ),
    (
        "burn checked",
        TOKEN_2022,
        (
            "burnChecked",
            {
                "account": A,
                "mint": D,
                "authority": C,
                "tokenAmount": {"amount": str(N), "decimals": 6},
            },
        ),
        (A, D, C),
        b"\x0f" + u64(N) + b"\x06",
        Operation("burn", A, None, C, N, D),
    ),
    (
        "give an account to nobody",
        TOKEN,
        ("setAuthority", {"account": A, "authority": C, "authorityType": "accountOwner"}),
        (A, C),
        b"\x06\x02\x00",
        Operation("assign", A, authority=None),
    ),
    (
        "mint",
        TOKEN,
        ("mintTo", {"mint": D, "account": B, "mintAuthority": C, "amount": str(N)}),
        (D, B, C),
        b"\x07" + u64(N),
        Operation("mint", None, B, C, N, D),
    ),
    (
        "burn",
        TOKEN,
        ("burn", {"account": A, "mint": D, "authority": C, "amount": str(N)}),
        (A, D, C),
        b"\x08" + u64(N),
        Operation("burn", A, None, C, N, D),
    ),
    (
        "close",
        TOKEN,
        ("closeAccount", {"account": A, "destination": B, "owner": C}),
        (A, B, C),
        b"\x09",
        Operation("close", A, B, C),
    ),
    (
        "hand over an account",
        TOKEN,
        (
            "setAuthority",
            {
                "account": A,
                "authority": C,
                "authorityType": "accountOwner",
                "newAuthority": B,
            },
        ),
        (A, C),
        b"\x06\x02\x01" + pubkey(B),
        Operation("assign", A, authority=B),
    ),
    (
        "another authority of an account",
        TOKEN,
        (
            "setAuthority",
            {
                "account": A,
                "authority": C,
                "authorityType": "closeAccount",
                "newAuthority": B,
            },
        ),
        (A, C),
        b"\x06\x03\x01" + pubkey(B),
        None,
    ),
    (
        "approve",
        TOKEN,
        ("approve", {"source": A, "delegate": B, "owner": C, "amount": str(N)}),
        (A, B, C),
        b"\x04" + u64(N),
        Operation("approve", A, None, C, N),
    ),
    (
        "approve checked",
        TOKEN_2022,
        (
            "approveChecked",
            {
                "source": A,
                "mint": D,
                "delegate": B,
                "owner": C,
                "tokenAmount": {"amount": str(N), "decimals": 6},
            },
        ),
        (A, D, B, C),
        b"\x0d" + u64(N) + b"\x06",
        Operation("approve", A, None, C, N, D),
    ),
    *(
        (
            f"lamports beyond rent, kind {kind}",
            TOKEN_2022,
            (name, {"source": A, "destination": B, "authority": C}),
            (A, B, C),
            bytes([kind]),
            Operation("unread", A, B),
        )
        for kind, name in ((38, "withdrawExcessLamports"), (45, "unwrapLamports"))
    ),
    (
        "associated account",
        ASSOCIATED,
        ("create", {"source": A, "account": B, "wallet": C, "mint": D}),
        (A, B, C, D, SYSTEM, TOKEN),
        b"",
        Operation("associate", A, B, C, mint=D),
    ),
    (
        "associated account that may be there already",
        ASSOCIATED,
        ("createIdempotent", {"source": A, "account": B, "wallet": C, "mint": D}),
        (A, B, C, D, SYSTEM, TOKEN),
        b"\x01",
        Operation("associate", A, B, C, mint=D),
    ),
]


@pytest.mark.parametrize(
    "program, parsed, accounts, data, operation",
    [row[1:] for row in SAME],
    ids=[row[0] for row in SAME],
)
def test_both_encodings_say_the_same(program, parsed, accounts, data, operation):
    kind, info = parsed
    assert read_data(program, accounts, data) == operation
    assert read_parsed(program, {"type": kind, "info": info}) == operation


@pytest.mark.parametrize("row", SAME, ids=[row[0] for row in SAME])
def test_half_an_instruction_moves_nothing(row):
    """Without its accounts nothing can be told of an instruction."""
    assert read_data(row[1], (), row[4]) is None


@pytest.mark.parametrize("row", [row for row in SAME if row[1] in (SYSTEM, STAKE, VOTE)])
def test_an_amount_that_is_cut_off_moves_nothing(row):
    """A number of four bytes and one of eight: 11 of the 12 say nothing."""
    assert read_data(row[1], row[3], row[4][:11]) is None


@given(st.sampled_from([SYSTEM, STAKE, VOTE, TOKEN, TOKEN_2022, ASSOCIATED]), st.binary())
def test_whatever_the_bytes_say_is_an_operation_or_none(program, data):
    found = read_data(program, (A, B, C, D, A, B), data)
    assert found is None or (found.name and 0 <= found.amount < 2**64)


def test_bundled_token_instructions_are_taken_apart():
    """Kind 255 of the Token program: number of accounts and length before each one's data."""
    send, close = b"\x03" + u64(N), b"\x09"
    data = b"\xff" + bytes([3, len(send)]) + send + bytes([3, len(close)]) + close
    parts = list(read_batch(TOKEN, (A, B, C, A, D, C), data))
    assert parts == [((A, B, C), send), ((A, D, C), close)]
    assert [read_data(TOKEN, *part) for part in parts] == [
        Operation("send", A, B, C, N),
        Operation("close", A, D, C),
    ]
    assert list(read_batch(SYSTEM, (A, B, C), data)) == []
