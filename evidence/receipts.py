"""What is claimed of each receipt of a wallet, in the order of arrival, in pages of 1,000.

One function makes the lines, of the instance that claims and of the auditor who works them out.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from chain.amounts import show_lamports
from chain.stored.trades import DIGESTED
from evidence.pages import Line, Paged

# What a line says of a receipt, and the column of the trade that holds it: texts and numbers,
# amounts (as text), and what is stored as JSON.
PLAIN = {
    "tradeId": "uid",
    "signature": "signature",
    "slot": "slot",
    "transactionIndex": "tx_index",
    "blockTime": "block_time",
    "kind": "kind",
    "venue": "venue",
    "mint": "mint",
    "currency": "currency",
    "status": "realized",
    "matchedRaw": "matched_raw",
    "unmatchedRaw": "unmatched_raw",
    "explainedPercent": "explained",
}
AMOUNTS = {
    "solChangeLamports": "sol_change",
    "feeLamports": "fee",
    "tipLamports": "tip",
    "rentLamports": "rent",
    "besideLamports": "beside_sol",
    "result": "result",
    "proceeds": "proceeds",
    "cost": "cost",
    "costLeftLamports": "cost_left",
}
NESTED = {
    "tokenChanges": "token_changes",
    "besideTokens": "beside_tokens",
    "counterparties": "counterparties",
    "flags": "flags",
    "lots": "lots",
}


def name_member(column: str) -> str:
    """Return the name of a column as JSON has it."""
    first, *rest = column.split("_")
    return first + "".join(one.capitalize() for one in rest)


# Every other derived column stands under its own name.
PLAIN |= {
    name_member(name): name
    for name in DIGESTED
    if name not in {*PLAIN.values(), *AMOUNTS.values(), *NESTED.values()}
}
COLUMNS = (*PLAIN.values(), *AMOUNTS.values(), *NESTED.values())
AMOUNTS_FROM, NESTED_FROM = len(PLAIN), len(PLAIN) + len(AMOUNTS)
# A signature that was listed before its block time counts from then (Entry.happened_at).
LINES = f"""
SELECT t.id, {", ".join(f"t.{name}" for name in COLUMNS)},
       r.digest, CASE WHEN s.seen_at < t.block_time * 1000 THEN s.seen_at END
FROM trade t LEFT JOIN receipt r ON r.signature = t.signature
LEFT JOIN sighting s ON s.wallet_id = t.wallet_id AND s.signature = t.signature
WHERE t.wallet_id = {{owner}} AND t.id > {{after}} ORDER BY t.id LIMIT {{most}}"""


def make_line(columns: Mapping[str, Any], digest: str | None, seen_at: int | None) -> Line:
    """What is claimed of a receipt. `columns`: of its trade; `digest`: of digests; `seen_at`:
    when it was listed (ms), where that was before its block time.
    """
    return _make_line([columns[name] for name in COLUMNS], digest, seen_at)


def _make_line(told: list[Any], digest: str | None, seen_at: int | None) -> Line:
    """As make_line; `told`: the values of COLUMNS. Thousands of lines may be made at once."""
    line: Line = dict(zip(PLAIN, told[:AMOUNTS_FROM], strict=True))
    line["receipt"], line["seenAtMs"] = digest, seen_at
    amounts, nested = told[AMOUNTS_FROM:NESTED_FROM], told[NESTED_FROM:]
    line.update(zip(AMOUNTS, map(show_lamports, amounts), strict=True))
    line.update(zip(NESTED, map(show_json, nested), strict=True))
    return line


def show_json(text: str | None) -> Any:
    """Return the value of a JSON column, or the text itself if it is damaged: evidence shows what
    is stored.
    """
    try:
        return orjson.loads(text or "null")
    except ValueError:
        return text


def show_receipt(values: list[Any]) -> Line:
    """Make the line of a row of LINES."""
    *told, digest, seen_at = values
    return _make_line(told, digest, seen_at)


RECEIPTS = Paged("receipts", "trade", "wallet_id", LINES, show_receipt)
