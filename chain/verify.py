"""When does a post's signature stand for a trade? contract.md section 4. Pure; an observed trade is
the only evidence.
"""

from collections.abc import Collection

VERIFIED_KINDS = frozenset(("buy", "sell", "swap", "order_fill"))


def judge(
    kind: str, flags: Collection[str], mints: Collection[str], post_mint: str | None
) -> tuple[str, str | None]:
    """(status, reason) of a post whose signature is a trade row of its own wallet.

    `mints`: tokens the trade moved. Status `verified`, reason None; or `mismatch` with failed |
    not_a_trade | mint_not_in_trade.
    """
    if kind == "failed":
        return "mismatch", "failed"
    if kind not in VERIFIED_KINDS and "ambiguous" not in flags:
        return "mismatch", "not_a_trade"
    if post_mint is not None and post_mint not in mints:
        return "mismatch", "mint_not_in_trade"
    return "verified", None
