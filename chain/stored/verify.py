"""Judge whether a post's signature proves an observed trade (docs/verified.md). Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from chain.reading.beside import list_venue_changes

VERIFIED_KINDS = frozenset(("buy", "sell", "swap", "round_trip", "order_fill"))
# With one of these an `ambiguous` transaction stands for no trade of the wallet.
NO_PROOF = frozenset(("not_signer", "no_swap"))


def is_trade(kind: str, flags: Collection[str]) -> bool:
    """An `ambiguous` swap proves a post if the wallet signed it and nothing else ran."""
    return kind in VERIFIED_KINDS or ("ambiguous" in flags and not NO_PROOF & set(flags))


def judge(
    kind: str,
    flags: Collection[str],
    mints: Collection[str],
    post_mint: str | None,
    explained_percent: int | None,
) -> tuple[str, str | None]:
    """(status, reason): `verified`, None; or `mismatch` with failed | not_a_trade |
    value_unexplained | mint_not_in_trade. An order's fill counts only if it brought the wallet
    something. `mints`: tokens the trade moved; `explained_percent`: as in an Entry.
    """
    if kind == "failed":
        return "mismatch", "failed"
    if not is_trade(kind, flags):
        return "mismatch", "not_a_trade"
    if kind == "order_fill" and explained_percent is None:
        return "mismatch", "not_a_trade"
    if "value_unexplained" in flags:
        return "mismatch", "value_unexplained"
    if post_mint is not None and post_mint not in mints:
        return "mismatch", "mint_not_in_trade"
    return "verified", None


def list_moved_mints(
    kind: str,
    mint: str | None,
    token_changes: Iterable[Sequence[Any]],
    beside_tokens: Iterable[Sequence[Any]],
) -> set[str]:
    """Tokens that passed through the venue. Rows are (mint, raw change, decimals)."""
    mints = {change.mint for change in list_venue_changes(token_changes, beside_tokens)}
    return mints | {mint} if mint and kind == "round_trip" else mints
