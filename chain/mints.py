"""Parse a mint account and check what it allows. Pure.

Layouts: SPL Token `state::Mint` (82 bytes) and Token-2022 `extension` (type-length-value entries
from byte 166). Extensions have the names and shape of a node's jsonParsed encoding.

A check is `fail` if the mint can stop holders from selling or lets someone take their tokens,
`warn` if someone has a power they could use or there is a fee, `pass` if the account rules it out,
and `unknown` if it couldn't be read. It isn't a verdict on the token.
"""

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from chain import addresses
from chain.addresses import TOKEN, TOKEN_2022
from chain.amounts import exact

MINT_BYTES, INITIALIZED_AT, TYPE_AT, EXTENSIONS_AT, IS_MINT = 82, 45, 165, 166, 1
# Minimum transfer fee, in basis points, for `fail` instead of `warn`.
HIGH_FEE = 1000
# With more decimals, a 64-bit supply would be fewer than 18.5 million whole tokens.
MAX_DECIMALS = 12


Check = Callable[["Mint"], tuple[str, str]]


class NotAMint(ValueError):
    """The account isn't an initialized, readable token mint."""


@dataclass(frozen=True)
class Mint:
    """`supply` is in raw units. `extensions` is {jsonParsed name: state}, or None if unreadable.

    Extensions that aren't in EXTENSIONS are left out.
    """

    supply: int
    decimals: int
    mint_authority: str | None
    freeze_authority: str | None
    extensions: dict[str, Any] | None = field(default_factory=dict)

    @property
    def metadata(self) -> tuple[str | None, str | None]:
        """(symbol, name) from the token-metadata extension: untrusted text, or None."""
        state = (self.extensions or {}).get("tokenMetadata") or {}
        return state.get("symbol"), state.get("name")

    @property
    def transfer_fee_bps(self) -> int | None:
        """The higher of the two fees, or None if the extensions couldn't be read."""
        if self.extensions is None:
            return None
        state = self.extensions.get("transferFeeConfig")
        return max(_list_fees(state)) if state else 0


def parse_mint(account: Any) -> Mint:
    """Parse a node's account value ({"data", "owner"}). Raises NotAMint with the reason."""
    if not account:
        raise NotAMint("the node has no account at this address")
    if account.get("owner") not in (TOKEN, TOKEN_2022):
        raise NotAMint("the account is not owned by a token program")
    try:
        raw = base64.b64decode(account["data"][0], validate=True)
    except (KeyError, IndexError, TypeError, ValueError):
        raise NotAMint("the account data couldn't be read") from None
    return _parse_bytes(raw, account["owner"])


def _parse_bytes(raw: bytes, owner: str) -> Mint:
    extended = owner == TOKEN_2022 and len(raw) >= EXTENSIONS_AT and raw[TYPE_AT] == IS_MINT
    if (len(raw) != MINT_BYTES and not extended) or not raw[INITIALIZED_AT]:
        raise NotAMint("the account is not an initialized mint")
    supply, decimals = struct.unpack_from("<QB", raw, 36)
    extensions = _parse_extensions(raw[EXTENSIONS_AT:])
    return Mint(supply, decimals, _option(raw, 0), _option(raw, 46), extensions)


def _option(raw: bytes, at: int) -> str | None:
    return addresses.b58encode(raw[at + 4 : at + 36]) if any(raw[at : at + 4]) else None


def _parse_extensions(raw: bytes) -> dict[str, Any] | None:
    found, at = {}, 0
    try:
        while at + 4 <= len(raw):
            kind, length = struct.unpack_from("<HH", raw, at)
            if not kind:
                break
            state = raw[at + 4 : at + 4 + length]
            if len(state) < length:
                return None
            if kind in EXTENSIONS:
                name, parse = EXTENSIONS[kind]
                found[name] = parse(state)
            at += 4 + length
    except struct.error:
        return None
    return found


def _key(state: bytes, at: int = 0) -> str | None:
    """Return None if the key is all zeros."""
    (key,) = struct.unpack_from("32s", state, at)
    return addresses.b58encode(key) if any(key) else None


def _fee(state: bytes, at: int) -> dict[str, int]:
    epoch, most, points = struct.unpack_from("<QQH", state, at)
    return {"epoch": epoch, "maximumFee": most, "transferFeeBasisPoints": points}


def _transfer_fee(state: bytes) -> dict[str, Any]:
    return {
        "transferFeeConfigAuthority": _key(state),
        "olderTransferFee": _fee(state, 72),
        "newerTransferFee": _fee(state, 90),
    }


def _default_state(state: bytes) -> dict[str, Any]:
    (number,) = struct.unpack_from("B", state)
    return {"accountState": {1: "initialized", 2: "frozen"}.get(number)}


def _pausable(state: bytes) -> dict[str, Any]:
    return {"authority": _key(state), "paused": bool(struct.unpack_from("B", state, 32)[0])}


def _scaled(state: bytes) -> dict[str, Any]:
    multiplier, changes_at, later = struct.unpack_from("<dqd", state, 32)
    return {
        "multiplier": repr(multiplier),
        "newMultiplierEffectiveTimestamp": changes_at,
        "newMultiplier": repr(later),
    }


def _metadata(state: bytes) -> dict[str, Any]:
    # Skip the update authority and the mint.
    at, texts = 64, []
    for _ in ("name", "symbol"):
        (length,) = struct.unpack_from("<I", state, at)
        (text,) = struct.unpack_from(f"{length}s", state, at + 4)
        texts.append(text.decode("utf-8", "replace"))
        at += 4 + length
    return {"name": texts[0], "symbol": texts[1]}


# Those that matter here, by number in the program's ExtensionType.
EXTENSIONS = {
    1: ("transferFeeConfig", _transfer_fee),
    3: ("mintCloseAuthority", lambda state: {"closeAuthority": _key(state)}),
    6: ("defaultAccountState", _default_state),
    9: ("nonTransferable", lambda state: {}),
    12: ("permanentDelegate", lambda state: {"delegate": _key(state)}),
    14: ("transferHook", lambda state: {"authority": _key(state), "programId": _key(state, 32)}),
    19: ("tokenMetadata", _metadata),
    25: ("scaledUiAmountConfig", _scaled),
    26: ("pausableConfig", _pausable),
}


def check_mint(account: Any, now_ms: int) -> list[dict[str, Any]]:
    """Return all checks, in the order of CHECKS. `account` is a node's value or None."""
    try:
        mint, why = parse_mint(account), ""
    except NotAMint as error:
        mint, why = None, str(error)
    found = []
    for key, (label, check) in CHECKS.items():
        status, detail = check(mint) if mint else ("unknown", why)
        told = {"key": key, "label": label, "status": status, "detail": detail}
        found.append({**told, "checkedAt": now_ms})
    return found


def _power(holder: str | None, held: str, ruled_out: str) -> tuple[str, str]:
    return ("warn", f"{holder} {held}") if holder else ("pass", ruled_out)


def check_mint_authority(mint: Mint) -> tuple[str, str]:
    return _power(mint.mint_authority, "can create more tokens", "nobody can create more tokens")


def check_freeze_authority(mint: Mint) -> tuple[str, str]:
    return _power(
        mint.freeze_authority,
        "can freeze any holder's account",
        "nobody can freeze a holder's account",
    )


def check_supply(mint: Mint) -> tuple[str, str]:
    if mint.supply == 0:
        return "warn", "no tokens exist"
    if mint.supply == 1:
        return "warn", "only one unit exists, as with a collectible"
    amount = exact(mint.supply, mint.decimals)
    return "pass", f"{Decimal(amount):,f} tokens exist"


def check_decimals(mint: Mint) -> tuple[str, str]:
    if mint.decimals == 0:
        return "warn", "it can't be divided"
    return ("pass" if mint.decimals <= MAX_DECIMALS else "warn"), f"{mint.decimals} decimals"


def _of_extension(name: str, absent: str) -> Callable[[Callable[[Any], tuple[str, str]]], Check]:
    """The check passes if the mint doesn't have the extension."""

    def wrap(judge: Callable[[Any], tuple[str, str]]) -> Check:
        def check(mint: Mint) -> tuple[str, str]:
            if mint.extensions is None:
                return "unknown", "the mint's extensions couldn't be read"
            return judge(mint.extensions[name]) if name in mint.extensions else ("pass", absent)

        return check

    return wrap


def _list_fees(state: Any) -> list[int]:
    names = ("olderTransferFee", "newerTransferFee")
    return [state[name]["transferFeeBasisPoints"] for name in names]


@_of_extension("transferFeeConfig", "the token charges no transfer fee")
def check_transfer_fee(state: Any) -> tuple[str, str]:
    """Judge the higher of the two fees: the change is at most two epochs away."""
    older, newer = _list_fees(state)
    authority = state["transferFeeConfigAuthority"]
    change = f"; {authority} can change it" if authority else ""
    if max(older, newer) == 0:
        return ("warn" if authority else "pass"), f"a fee of 0%{change}"
    fee = f"{older / 100:g}%"
    if older != newer:
        fee += f", changing to {newer / 100:g}%"
    status = "fail" if max(older, newer) >= HIGH_FEE else "warn"
    return status, f"every transfer costs {fee}{change}"


@_of_extension("permanentDelegate", "only the holder can move their tokens")
def check_permanent_delegate(state: Any) -> tuple[str, str]:
    delegate = state["delegate"]
    if delegate:
        return "fail", f"{delegate} can take or burn any holder's tokens"
    return "pass", "there is no delegate"


@_of_extension("transferHook", "no program runs on transfers")
def check_transfer_hook(state: Any) -> tuple[str, str]:
    if state["programId"]:
        return "warn", f"program {state['programId']} runs on every transfer and can refuse it"
    return _power(
        state["authority"],
        "can add a program that may block transfers",
        "no program runs on transfers, and none can be added",
    )


@_of_extension("defaultAccountState", "new accounts can be used immediately")
def check_default_account_state(state: Any) -> tuple[str, str]:
    if state["accountState"] == "initialized":
        return "pass", "new accounts can be used immediately"
    if state["accountState"] == "frozen":
        return "fail", "new accounts start frozen"
    return "unknown", "new accounts start in an unknown state"


@_of_extension("pausableConfig", "transfers can't be paused")
def check_pausable(state: Any) -> tuple[str, str]:
    if state["paused"]:
        return "fail", "all transfers are paused"
    return _power(state["authority"], "can pause all transfers", "the pause authority was revoked")


@_of_extension("nonTransferable", "it can be transferred")
def check_non_transferable(state: Any) -> tuple[str, str]:
    return "fail", "it can't be transferred or sold"


@_of_extension("mintCloseAuthority", "the mint can't be closed")
def check_close_authority(state: Any) -> tuple[str, str]:
    held = "can close the mint once no tokens exist and open a new one at the same address"
    return _power(state["closeAuthority"], held, "the close authority was revoked")


CHECKS = {
    "mint_authority": ("Mint authority", check_mint_authority),
    "freeze_authority": ("Freeze authority", check_freeze_authority),
    "supply": ("Supply", check_supply),
    "decimals": ("Decimals", check_decimals),
    "transfer_fee": ("Transfer fee", check_transfer_fee),
    "permanent_delegate": ("Permanent delegate", check_permanent_delegate),
    "transfer_hook": ("Transfer hook", check_transfer_hook),
    "default_account_state": ("Default account state", check_default_account_state),
    "pausable": ("Pausable", check_pausable),
    "non_transferable": ("Non-transferable", check_non_transferable),
    "close_authority": ("Close authority", check_close_authority),
}
