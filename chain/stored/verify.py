"""Judge whether a post's signature proves an observed trade (docs/verified.md). Pure."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from chain.reading.value import list_venue_changes

# The (status, reason) of a transaction by a wallet that wasn't the bot's at the time.
OTHER_WALLET = ("mismatch", "other_wallet")
# The (status, reason, ...) of a post, judged by one of the trades it may cite.
Judgment = TypeVar("Judgment", bound=tuple[Any, ...])
VERIFIED_KINDS = frozenset(("buy", "sell", "swap", "round_trip", "order_fill"))


def judge(
    kind: str,
    flags: Collection[str],
    mints: Collection[str],
    post_mint: str | None,
    explained_percent: int | None,
) -> tuple[str, str | None]:
    """Return (status, reason) of a post that cites a trade.

    `verified` has no reason. `mismatch` has failed | not_a_trade | mint_not_in_trade. `none`, which
    neither verifies nor contradicts the post, has ambiguous | value_unexplained. An order's fill
    counts only if the wallet received something. `mints` are the tokens that the trade moved.
    `explained_percent` is as in an Entry.
    """
    if kind == "failed":
        return "mismatch", "failed"
    if "ambiguous" in flags:
        return "none", "ambiguous"
    if kind not in VERIFIED_KINDS or (kind == "order_fill" and explained_percent is None):
        return "mismatch", "not_a_trade"
    if "value_unexplained" in flags:
        return "none", "value_unexplained"
    if post_mint is not None and post_mint not in mints:
        return "mismatch", "mint_not_in_trade"
    return "verified", None


def choose(judged: Sequence[Judgment]) -> Judgment | None:
    """Return the judgment that decides about a post: the first one that verifies it, or else the
    first one.

    There may be several, because several of a bot's wallets may take part in one transaction.
    """
    return next((one for one in judged if one[0] == "verified"), judged[0] if judged else None)


def list_moved_mints(
    kind: str,
    mint: str | None,
    token_changes: Iterable[Sequence[Any]],
    beside_tokens: Iterable[Sequence[Any]],
) -> set[str]:
    """Return the tokens that passed through the venue.

    Rows are (mint, raw change, decimals). An order that sells for SOL or a stablecoin gave up its
    token when it was opened.
    """
    whole, beside = list(token_changes), list(beside_tokens)
    mints = {change.mint for change in list_venue_changes(whole, beside)}
    is_sold = kind == "order_fill" and all(mint != row[0] for row in (*whole, *beside))
    is_named = kind == "round_trip" or is_sold
    return mints | {mint} if mint and is_named else mints
