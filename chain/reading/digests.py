"""A transaction digest that is equal for all honest nodes, whatever they add. Pure."""

import hashlib

import orjson

from chain.reading.receipts import Receipt, TokenBalance


def digest_receipt(receipt: Receipt) -> str:
    """Return the SHA-256, in hex, of everything that affects a number (docs/check.md)."""
    told = {
        "signature": receipt.signature,
        "slot": receipt.slot,
        "failed": receipt.failed,
        "fee": receipt.fee,
        "accounts": list(zip(receipt.keys, receipt.before, receipt.after, strict=True)),
        "tokens": [
            [address, _show_side(before), _show_side(after)]
            for address, (before, after) in sorted(receipt.tokens.items())
        ],
    }
    return hashlib.sha256(orjson.dumps(told)).hexdigest()


def _show_side(side: TokenBalance | None) -> list[str | int | None] | None:
    return None if side is None else [side.mint, side.owner, str(side.amount), side.decimals]
