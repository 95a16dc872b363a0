"""What native instructions move: a node's decoding and raw bytes give the same Operation."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene import Scene
from story import RENT, account_of, address

from chain.addresses import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    VOTE,
    WRAPPED_SOL,
    b58decode,
)
from chain.reading.flows import Move, is_read, list_moves, place_calls
from chain.reading.receipts import (
    Instruction,
    Operation,
    parse_receipt,
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
def test_both_encodings_read_the_same(program, parsed, accounts, data, operation):
    kind, info = parsed
    assert read_data(program, accounts, data) == operation
    assert read_parsed(program, {"type": kind, "info": info}) == operation


@pytest.mark.parametrize("row", SAME, ids=[row[0] for row in SAME])
def test_a_truncated_instruction_moves_nothing(row):
    """Without its accounts, an instruction can't be read."""
    assert read_data(row[1], (), row[4]) is None


@pytest.mark.parametrize("row", [row for row in SAME if row[1] in (SYSTEM, STAKE, VOTE)])
def test_a_truncated_amount_moves_nothing(row):
    """A four-byte and an eight-byte number: 11 of the 12 bytes mean nothing."""
    assert read_data(row[1], row[3], row[4][:11]) is None


@given(st.sampled_from([SYSTEM, STAKE, VOTE, TOKEN, TOKEN_2022, ASSOCIATED]), st.binary())
def test_any_bytes_are_an_operation_or_none(program, data):
    found = read_data(program, (A, B, C, D, A, B), data)
    assert found is None or (found.name and 0 <= found.amount < 2**64)


def test_bundled_token_instructions_are_split():
    """Kind 255 of the Token program: the number of accounts and the length precede each
    instruction's data.
    """
    send, close = b"\x03" + u64(N), b"\x09"
    data = b"\xff" + bytes([3, len(send)]) + send + bytes([3, len(close)]) + close
    parts = list(read_batch(TOKEN, (A, B, C, A, D, C), data))
    assert parts == [((A, B, C), send), ((A, D, C), close)]
    assert [read_data(TOKEN, *part) for part in parts] == [
        Operation("send", A, B, C, N),
        Operation("close", A, D, C),
    ]
    assert list(read_batch(SYSTEM, (A, B, C), data)) == []


# ---- what moved, and by which call ---------------------------------------------------------------
PUMP, HOOK = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P", address("a hook")


def moves_of(raw, *programs):
    """Moves in order; the calls are the outermost ones of these programs."""
    receipt = parse_receipt(raw)
    calls = [one for one in receipt.instructions if one.program in programs]
    return list_moves(receipt, place_calls(receipt, calls))


def move(mint, source, target, amount, authority, call=None, opens=False):
    words = (None if word is None else address(word) for word in (source, target, authority))
    source, target, authority = words
    mint = WRAPPED_SOL if mint == "SOL" else address(mint)
    return Move(mint, source, target, amount, authority, call, opens)


@pytest.mark.parametrize("named", [True, False])
def test_moves_are_listed_in_order_with_their_call(named):
    """`named`: whether the instructions name the mint. Otherwise the accounts do, one of which has
    no balance because it is closed immediately.
    """
    scene = Scene(ada=10**9, curve=10**9).holds("ada", "CAT", 10).holds("curve", "CAT", 50)
    with scene.call(PUMP, "ada"):
        scene.pay("ada", "curve", 5)
        scene.send("CAT", "curve", "ada", 3)
    scene.open("ada", "ada", "FOX")
    scene.pay("ada", account_of("ada", "FOX"), 10)
    with scene.call(PUMP, "ada"):
        with scene.hooked_send("CAT", "ada", "curve", 2, HOOK):
            scene.pay("ada", "curve", 7)
        scene.mint("FOX", "ada", 4, "minter")
    scene.tokens[account_of("ada", "FOX")][2] = 0
    scene.close(account_of("ada", "FOX"), account_of("ada", "CAT"))
    raw = scene.receipt("ada", "curve")
    if not named:
        every = [one for group in raw["meta"]["innerInstructions"] for one in group["instructions"]]
        for one in every:
            if one.get("parsed", {}).get("type") == "transferChecked":
                one["parsed"]["info"].pop("mint")
    cat, of_curve, fox = (
        account_of(*who) for who in (("ada", "CAT"), ("curve", "CAT"), ("ada", "FOX"))
    )
    assert moves_of(raw, PUMP) == [
        move("SOL", "ada", "curve", 5, "ada", 0),
        move("CAT", of_curve, cat, 3, "curve", 0),
        move("SOL", "ada", fox, RENT, "ada", None, True),
        move("SOL", "ada", fox, 10, "ada"),
        move("CAT", cat, of_curve, 2, "ada", 1),
        # A hook isn't anybody's call.
        move("SOL", "ada", "curve", 7, "ada"),
        move("FOX", None, fox, 4, "minter", 1),
        move("SOL", fox, cat, RENT + 10, "ada"),
    ]


def test_closing_moves_the_remaining_balance():
    """CAT contains FOX's rent, and that of a second FOX when CAT itself is closed."""
    scene = Scene(ada=10**9).holds("ada", "CAT", 0)
    cat, fox = account_of("ada", "CAT"), account_of("ada", "FOX")
    for _ in range(2):
        scene.open("ada", "ada", "FOX")
        scene.close(fox, cat)
    scene.close(cat, "eve")
    amounts = [one.amount for one in moves_of(scene.receipt("ada"))]
    assert amounts == [RENT, RENT, RENT, RENT, 3 * RENT]


def test_funding_a_new_account_pays_for_opening_it():
    """Even if paid earlier; tokens sent there pay for nothing."""
    scene = Scene(ada=10**9).holds("ada", "CAT", 30)
    scene.pay("ada", "spot", RENT)
    scene.adopt("spot", "ada")
    scene.tokens["spot"] = ["CAT", "ada", 0]
    scene.send("CAT", "ada", "spot", 30)
    scene.pay("ada", "eve", 1)
    told = [(one.target, one.amount, one.opens) for one in moves_of(scene.receipt("ada"))]
    spot, eve = address("spot"), address("eve")
    assert told == [(spot, RENT, True), (spot, 30, False), (eve, 1, False)]


@pytest.mark.parametrize(
    "program, name, read",
    [
        (SYSTEM, "transfer", True),
        (SYSTEM, None, True),
        (TOKEN, "send", True),
        (TOKEN, "unread", False),
        (TOKEN_2022, "unread", False),
        (PUMP, None, False),
        (PUMP, "transfer", False),
    ],
)
def test_every_move_of_some_programs_is_read(program, name, read):
    operation = Operation(name) if name else None
    assert is_read(Instruction(program, (), operation, b"")) is read
