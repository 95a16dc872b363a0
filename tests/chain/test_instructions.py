"""What native instructions move: a node's decoding and raw bytes give the same Operation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story import address

from chain.addresses import ASSOCIATED, STAKE, SYSTEM, TOKEN, TOKEN_2022, VOTE, b58decode
from chain.reading.receipts import Operation, read_data, read_parsed

A, B, C, D = (address(word) for word in "ABCD")
N = 2**40 + 7


KEYS = {"A": A, "B": B, "C": C, "D": D, "SYSTEM": SYSTEM, "STAKE": STAKE, "VOTE": VOTE}
KEYS |= {"TOKEN": TOKEN, "TOKEN_2022": TOKEN_2022, "ASSOCIATED": ASSOCIATED}
# Each instruction as a node decodes it, then its accounts, bytes (hex; keys have 32, N has 8) and
# Operation.
SAME = """
SYSTEM transfer source=A destination=B lamports=N
    A B | 02000000 N | transfer source=A target=B amount=N
SYSTEM transferWithSeed source=A sourceBase=C destination=B lamports=N
    A C B | 0b000000 N 010000000000000073 SYSTEM | transfer source=A target=B amount=N
SYSTEM createAccount source=A newAccount=B lamports=N space=165 owner=TOKEN
    A B | 00000000 N a500000000000000 TOKEN | create source=A target=B amount=N
SYSTEM createAccountWithSeed source=A newAccount=B base=A seed=seed lamports=N space=165 owner=TOKEN
    A B | 03000000 A 040000000000000073656564 N | create source=A target=B amount=N
SYSTEM createAccountAllowPrefund source=A newAccount=B lamports=N space=165 owner=TOKEN
    B A | 0d000000 N a500000000000000 TOKEN | create source=A target=B amount=N
SYSTEM createAccountAllowPrefund newAccount=B lamports=0 space=165 owner=TOKEN
    B | 0d0000000000000000000000 a500000000000000 TOKEN | nothing
SYSTEM withdrawFromNonce nonceAccount=A destination=B lamports=N
    A B C D | 05000000 N | withdraw source=A target=B amount=N
SYSTEM allocate account=A space=165
    A | 08000000 a500000000000000 | allocate target=A
SYSTEM allocateWithSeed account=A base=B seed=s space=165 owner=TOKEN
    A B | 09000000 B 010000000000000073 a500000000000000 TOKEN | allocate target=A
STAKE withdraw stakeAccount=A destination=B lamports=N
    A B C D | 04000000 N | withdraw source=A target=B amount=N
VOTE withdraw voteAccount=A destination=B lamports=N
    A B C | 03000000 N | withdraw source=A target=B amount=N
TOKEN transfer source=A destination=B authority=C amount=N
    A B C | 03 N | send source=A target=B authority=C amount=N
TOKEN_2022 transferChecked source=A mint=D destination=B authority=C tokenAmount=N
    A D B C | 0c N 06 | send source=A target=B authority=C amount=N mint=D
TOKEN_2022 transferCheckedWithFee source=A mint=D destination=B authority=C tokenAmount=N
    A D B C | 1a01 N 060500000000000000 | send source=A target=B authority=C amount=N mint=D
TOKEN transfer source=A destination=B multisigAuthority=C signers=D amount=N
    A B C D | 03 N | send source=A target=B authority=C amount=N
TOKEN_2022 initializeTransferFeeConfig mint=A transferFeeBasisPoints=5
    A B C D | 1a00000000000000000000000000 | nothing
TOKEN initializeAccount account=A mint=D owner=C
    A D C B | 01 | initialize target=A authority=C mint=D
TOKEN initializeAccount2 account=A mint=D owner=C
    A D B | 10 C | initialize target=A authority=C mint=D
TOKEN initializeAccount3 account=A mint=D owner=C
    A D | 12 C | initialize target=A authority=C mint=D
TOKEN_2022 mintToChecked mint=D account=B mintAuthority=C tokenAmount=N
    D B C | 0e N 06 | mint target=B authority=C amount=N mint=D
TOKEN_2022 burnChecked account=A mint=D authority=C tokenAmount=N
    A D C | 0f N 06 | burn source=A authority=C amount=N mint=D
TOKEN setAuthority account=A authority=C authorityType=accountOwner
    A C | 060200 | assign source=A
TOKEN mintTo mint=D account=B mintAuthority=C amount=N
    D B C | 07 N | mint target=B authority=C amount=N mint=D
TOKEN burn account=A mint=D authority=C amount=N
    A D C | 08 N | burn source=A authority=C amount=N mint=D
TOKEN closeAccount account=A destination=B owner=C
    A B C | 09 | close source=A target=B authority=C
TOKEN setAuthority account=A authority=C authorityType=accountOwner newAuthority=B
    A C | 060201 B | assign source=A authority=B
TOKEN setAuthority account=A authority=C authorityType=closeAccount newAuthority=B
    A C | 060301 B | nothing
TOKEN approve source=A delegate=B owner=C amount=N
    A B C | 04 N | approve source=A authority=C amount=N
TOKEN_2022 approveChecked source=A mint=D delegate=B owner=C tokenAmount=N
    A D B C | 0d N 06 | approve source=A authority=C amount=N mint=D
TOKEN_2022 withdrawExcessLamports source=A destination=B authority=C
    A B C | 26 | unread source=A target=B
TOKEN_2022 unwrapLamports source=A destination=B authority=C
    A B C | 2d | unread source=A target=B
ASSOCIATED create source=A account=B wallet=C mint=D
    A B C D SYSTEM TOKEN |  | associate source=A target=B authority=C mint=D
ASSOCIATED createIdempotent source=A account=B wallet=C mint=D
    A B C D SYSTEM TOKEN | 01 | associate source=A target=B authority=C mint=D
"""


def read_fields(words):
    told = dict(word.split("=") for word in words)
    return {name: N if one == "N" else KEYS.get(one, one) for name, one in told.items()}


def read_case(decoded, raw):
    """Return (program, the node's decoding, accounts, bytes, Operation)."""
    program, kind, *words = decoded.split()
    accounts, data, operation = (part.split() for part in raw.split("|"))
    info = read_fields(words)
    if "tokenAmount" in info:
        info["tokenAmount"] = {"amount": str(N), "decimals": 6}
    if "amount" in info:
        info["amount"] = str(N)
    parts = [
        N.to_bytes(8, "little")
        if one == "N"
        else b58decode(KEYS[one])
        if one in KEYS
        else bytes.fromhex(one)
        for one in data
    ]
    name, *told = operation
    expected = None if name == "nothing" else Operation(name, **read_fields(told))
    accounts = tuple(KEYS[one] for one in accounts)
    return KEYS[program], {"type": kind, "info": info}, accounts, b"".join(parts), expected


LINES = SAME.strip().splitlines()
CASES = [read_case(*pair) for pair in zip(LINES[::2], LINES[1::2], strict=True)]


@pytest.mark.parametrize(
    "program, parsed, accounts, data, operation",
    CASES,
    ids=[line.split(" ")[1] for line in LINES[::2]],
)
def test_both_encodings_read_the_same(program, parsed, accounts, data, operation):
    """Without its accounts it moves nothing, nor does a native program with 11 of the 12 bytes of
    its two numbers.
    """
    assert read_data(program, accounts, data) == read_parsed(program, parsed) == operation
    assert read_data(program, (), data) is None
    if program in (SYSTEM, STAKE, VOTE):
        assert read_data(program, accounts, data[:11]) is None


@given(st.sampled_from([SYSTEM, STAKE, VOTE, TOKEN, TOKEN_2022, ASSOCIATED]), st.binary())
def test_any_bytes_are_an_operation_or_none(program, data):
    found = read_data(program, (A, B, C, D, A, B), data)
    assert found is None or (found.name and 0 <= found.amount < 2**64)
