"""Find which addresses can be wallets, and which of them can have a private key. Pure."""

from chain.base58 import is_base58
from chain.reading.instructions import WRAPPED_SOL
from chain.reading.programs import Programs, table

# The addresses of the runtime itself: native programs, loaders and the incinerator
# (docs.anza.xyz/runtime/programs and the crate solana-sdk-ids).
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
# The sysvars (docs.anza.xyz/runtime/sysvars and the crate solana-sdk-ids).
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
# Curve25519 in Edwards form (RFC 8032, 5.1): the prime of its field, and d.
PRIME = 2**255 - 19
D = -121665 * pow(121666, -1, PRIME) % PRIME


def is_address(text: object) -> bool:
    return is_base58(text, 32)


def is_nobodys(address: str, programs: Programs | None = None) -> bool:
    """Return whether this is a program, a sysvar or wrapped SOL. `programs` is this instance's
    table.
    """
    return (
        address in NATIVE
        or address in SYSVARS
        or address == WRAPPED_SOL
        or address in (programs or table()).names
    )


def is_on_curve(raw: bytes) -> bool:
    """Return whether these 32 bytes are a point on the curve. Program-derived addresses aren't.

    A point satisfies -x² + y² = 1 + d x² y², so x² = (y² - 1) / (d y² + 1) must be a square
    (Euler).
    """
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    numerator, denominator = y * y - 1, D * y * y + 1
    return pow(numerator * denominator, (PRIME - 1) // 2, PRIME) in (0, 1)
