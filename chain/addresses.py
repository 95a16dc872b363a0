"""Addresses: strict base58 (Bitcoin's alphabet), well-known ones, and the curve check. Pure."""

# ---- base58 --------------------------------------------------------------------------------------
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
DIGITS = {letter: digit for digit, letter in enumerate(ALPHABET)}


def b58encode(raw: bytes) -> str:
    """Each leading zero byte becomes a leading `1`."""
    number, letters = int.from_bytes(raw, "big"), []
    while number:
        number, digit = divmod(number, 58)
        letters.append(ALPHABET[digit])
    zeros = len(raw) - len(raw.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(letters))


def b58decode(text: str) -> bytes:
    """Raises ValueError for other characters."""
    number = 0
    try:
        for letter in text:
            number = number * 58 + DIGITS[letter]
    except KeyError:
        raise ValueError("not a base58 character") from None
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def is_base58(text: object, size: int) -> bool:
    # A byte takes 1 to 1.366 letters. Don't decode anything longer.
    if not isinstance(text, str) or not size <= len(text) <= size * 11 // 8:
        return False
    try:
        return len(b58decode(text)) == size
    except ValueError:
        return False


# ---- addresses -----------------------------------------------------------------------------------
SYSTEM = "11111111111111111111111111111111"
TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
ASSOCIATED = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
STAKE = "Stake11111111111111111111111111111111111111"
VOTE = "Vote111111111111111111111111111111111111111"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
TOKEN_PROGRAMS = (TOKEN, TOKEN_2022)
# Native programs, loaders and the incinerator (docs.anza.xyz/runtime/programs and the crate
# solana-sdk-ids).
NATIVE = frozenset(
    """
    11111111111111111111111111111111
    AddressLookupTab1e1111111111111111111111111
    BPFLoader1111111111111111111111111111111111
    BPFLoader2111111111111111111111111111111111
    BPFLoaderUpgradeab1e11111111111111111111111
    ComputeBudget111111111111111111111111111111
    Config1111111111111111111111111111111111111
    Ed25519SigVerify111111111111111111111111111
    Feature111111111111111111111111111111111111
    KeccakSecp256k11111111111111111111111111111
    LoaderV411111111111111111111111111111111111
    NativeLoader1111111111111111111111111111111
    Secp256r1SigVerify1111111111111111111111111
    Stake11111111111111111111111111111111111111
    StakeConfig11111111111111111111111111111111
    Vote111111111111111111111111111111111111111
    ZkE1Gama1Proof11111111111111111111111111111
    ZkTokenProof1111111111111111111111111111111
    1nc1nerator11111111111111111111111111111111
""".split()
)
# Source: docs.anza.xyz/runtime/sysvars and the crate solana-sdk-ids.
SYSVARS = frozenset(
    """
    Sysvar1111111111111111111111111111111111111
    Sysvar1nstructions1111111111111111111111111
    SysvarC1ock11111111111111111111111111111111
    SysvarEpochRewards1111111111111111111111111
    SysvarEpochSchedu1e111111111111111111111111
    SysvarFees111111111111111111111111111111111
    SysvarLastRestartS1ot1111111111111111111111
    SysvarRecentB1ockHashes11111111111111111111
    SysvarRent111111111111111111111111111111111
    SysvarRewards111111111111111111111111111111
    SysvarS1otHashes111111111111111111111111111
    SysvarS1otHistory11111111111111111111111111
    SysvarStakeHistory1111111111111111111111111
""".split()
)
PRIME = 2**255 - 19
D = -121665 * pow(121666, -1, PRIME) % PRIME


def is_address(text: object) -> bool:
    return is_base58(text, 32)


def is_on_curve(raw: bytes) -> bool:
    """Return whether these 32 bytes are a point on the curve. Program-derived addresses aren't.

    A point satisfies -x² + y² = 1 + d x² y², so x² = (y² - 1) / (d y² + 1) must be a square
    (Euler).
    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    numerator, denominator = y * y - 1, D * y * y + 1
    return pow(numerator * denominator, (PRIME - 1) // 2, PRIME) in (0, 1)
