"""What is claimed of each receipt of a wallet, in the order of arrival, in pages of 1,000.

One function makes the lines, of the instance that claims and of the auditor who works them out.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from chain.amounts import show_lamports
from chain.digests import digest_receipt
from chain.packing import read_stored
from storage import database

PAGE_SIZE = 1_000
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
    "resultLamports": "result",
    "proceedsLamports": "proceeds",
    "costLamports": "cost",
    "costLeftLamports": "cost_left",
}
NESTED = {
    "tokenChanges": "token_changes",
    "besideTokens": "beside_tokens",
    "counterparties": "counterparties",
    "flags": "flags",
    "lots": "lots",
}
COLUMNS = (*PLAIN.values(), *AMOUNTS.values(), *NESTED.values())
# A signature that was listed before its block time counts from then (Entry.happened_at). What lies
# before a page is passed over in the index alone.
LINES = f"""
SELECT {", ".join(f"t.{name}" for name in COLUMNS)}, r.signature IS NOT NULL, r.digest,
       CASE WHEN s.seen_at < t.block_time * 1000 THEN s.seen_at END
FROM trade t LEFT JOIN receipt r ON r.signature = t.signature
LEFT JOIN sighting s ON s.wallet_id = t.wallet_id AND s.signature = t.signature
WHERE t.wallet_id = ? AND t.id >= (
    SELECT id FROM trade WHERE wallet_id = ? ORDER BY id LIMIT 1 OFFSET ?)
ORDER BY t.id LIMIT ?"""
Line = dict[str, Any]


class Page(NamedTuple):
    """A page of lines as JSON, which its digest names: SHA-256 of these bytes, in hex."""

    number: int
    lines: int
    body: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def is_full(self) -> bool:
        return self.lines == PAGE_SIZE


def make_line(columns: Mapping[str, Any], digest: str | None, seen_at: int | None) -> Line:
    """What is claimed of a receipt. `columns`: of its trade; `digest`: of chain.digests; `seen_at`:
    when it was listed (ms), where that was before its block time.
    """
    return {
        **{name: columns[column] for name, column in PLAIN.items()},
        "receipt": digest,
        "seenAtMs": seen_at,
        **{name: show_lamports(columns[column]) for name, column in AMOUNTS.items()},
        **{name: _show_nested(columns[column]) for name, column in NESTED.items()},
    }


def _show_nested(text: str) -> Any:
    """The value of a JSON column; what is no JSON stands as the text that it is."""
    try:
        return orjson.loads(text)
    except ValueError:
        return text


def list_pages(wallet_id: int) -> Iterator[Page]:
    """Yield the pages of a wallet, one at a time in memory; the last may be empty, none is then."""
    number = 1
    while (page := read_page(wallet_id, number)).is_full:
        yield page
        number += 1
    yield page


def read_page(wallet_id: int, number: int) -> Page:
    """Read page `number` (from 1) of a wallet; one beyond the last is empty."""
    offset = (number - 1) * PAGE_SIZE
    rows = database.execute_sql(LINES, (wallet_id, wallet_id, offset, PAGE_SIZE)).fetchall()
    lines = [_read_line(row) for row in rows]
    return Page(number, len(lines), orjson.dumps({"page": number, "receipts": lines}))


def _read_line(row: tuple[Any, ...]) -> Line:
    *values, is_stored, digest, seen_at = row
    columns = dict(zip(COLUMNS, values, strict=True))
    if is_stored and not digest:
        digest = _digest_stored(columns["signature"])
    return make_line(columns, digest, seen_at)


def _digest_stored(signature: str) -> str | None:
    """The digest of a stored transaction, worked out now; None where it cannot be read."""
    found = database.execute_sql("SELECT body FROM receipt WHERE signature = ?", (signature,))
    row = found.fetchone()
    receipt = row and read_stored(row[0], signature)
    return None if receipt is None else digest_receipt(receipt)
