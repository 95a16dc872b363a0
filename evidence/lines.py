"""Write evidence as lines: claims about each receipt of a wallet and each post of a bot.

Lines are in order of arrival. There are 1,000 on a page, which is named by its digest, the SHA-256
of its bytes in hex.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BaseModel, Field

from chain.amounts import show_raw
from chain.stored.trades import DIGESTED
from storage import read_rows

PAGE_SIZE = 1_000
Line = dict[str, Any]
Json = dict[str, Any]
# From an instance, which is untrusted.
ADDRESS = Annotated[str, Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{32,44}$")]
SIGNATURE = Annotated[str, Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{64,88}$")]
DIGEST = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SLOT = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
RAW = Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
TEXT = Annotated[str, Field(max_length=100_000)]
NAME = Annotated[str, Field(max_length=40)]
MOMENT = Annotated[int, Field(ge=0, lt=2**53, strict=True)]
ID = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]


class ClaimedReceipt(BaseModel):
    """The members that every receipt line needs for the comparison."""

    signature: SIGNATURE
    slot: SLOT


# ---- pages ---------------------------------------------------------------------------------------
class Paged(NamedTuple):
    """A table that is shown as lines, in order of row IDs.

    `lines` is the SQL for the rows of an `owner` above the id `after`. It selects the id, then the
    arguments of `show`.
    """

    kind: str
    table: str
    owner_column: str
    lines: str
    show: Callable[[list[Any]], Line]


class Page(NamedTuple):
    """`last` is the last line's ID."""

    kind: str
    number: int
    lines: list[Line]
    last: int

    @property
    def body(self) -> bytes:
        return orjson.dumps({"page": self.number, self.kind: self.lines})

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def is_full(self) -> bool:
        return len(self.lines) == PAGE_SIZE


class Named(NamedTuple):
    pages: list[Json]
    tail: Page

    @property
    def digests(self) -> list[str]:
        return [*(one["digest"] for one in self.pages), self.tail.digest]


def _read_after(paged: Paged, owner: int, number: int, after: int) -> Page:
    last, lines = after, []
    for line_id, *values in read_rows(paged.lines.format(owner=owner, after=after, most=PAGE_SIZE)):
        last = line_id
        lines.append(paged.show(values))
    return Page(paged.kind, number, lines, last)


def read_page(paged: Paged, owner: int, number: int) -> Page:
    """Read page `number`, counted from 1. Pages after the last one are empty."""
    if number == 1:
        return _read_after(paged, owner, 1, 0)
    sql = (
        f"SELECT id FROM {paged.table} WHERE {paged.owner_column} = {owner}"
        f" ORDER BY id LIMIT 1 OFFSET {(number - 1) * PAGE_SIZE - 1}"
    )
    for (last,) in read_rows(sql):
        return _read_after(paged, owner, number, last)
    return Page(paged.kind, number, [], 0)


def name_pages(paged: Paged, owner: int) -> Named:
    """Return the names of the full pages. One page is read at a time."""
    named: list[Json] = []
    page = _read_after(paged, owner, 1, 0)
    while page.is_full:
        named.append({"page": page.number, "digest": page.digest})
        page = _read_after(paged, owner, page.number + 1, page.last)
    return Named(named, page)


# ---- receipts ------------------------------------------------------------------------------------
# Members of a line and their trade columns: text and numbers, amounts (as text), and JSON.
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
    first, *rest = column.split("_")
    return first + "".join(one.capitalize() for one in rest)


# New trade columns are claimed under their own names.
PLAIN |= {
    name_member(name): name
    for name in DIGESTED
    if name not in {*PLAIN.values(), *AMOUNTS.values(), *NESTED.values()}
}
COLUMNS = (*PLAIN.values(), *AMOUNTS.values(), *NESTED.values())
AMOUNTS_FROM, NESTED_FROM = len(PLAIN), len(PLAIN) + len(AMOUNTS)
# A signature that was listed before its block time counts from then (Entry.happened_at).
RECEIPT_LINES = f"""
SELECT t.id, {", ".join(f"t.{name}" for name in COLUMNS)},
       r.digest, CASE WHEN s.seen_at < t.block_time * 1000 THEN s.seen_at END
FROM trade t LEFT JOIN receipt r ON r.signature = t.signature
LEFT JOIN sighting s ON s.wallet_id = t.wallet_id AND s.signature = t.signature
WHERE t.wallet_id = {{owner}} AND t.id > {{after}} ORDER BY t.id LIMIT {{most}}"""


def make_line(columns: Mapping[str, Any], digest: str | None, seen_at: int | None) -> Line:
    """`seen_at` is when the signature was listed (ms), if that is before its block time."""
    return _make_line([columns[name] for name in COLUMNS], digest, seen_at)


def _make_line(told: list[Any], digest: str | None, seen_at: int | None) -> Line:
    """Like `make_line`, but from the values of COLUMNS, which is faster for thousands of lines."""
    line: Line = dict(zip(PLAIN, told[:AMOUNTS_FROM], strict=True))
    line["receipt"], line["seenAtMs"] = digest, seen_at
    amounts, nested = told[AMOUNTS_FROM:NESTED_FROM], told[NESTED_FROM:]
    line.update(zip(AMOUNTS, map(show_raw, amounts), strict=True))
    line.update(zip(NESTED, map(show_json, nested), strict=True))
    return line


def show_json(text: str | None) -> Any:
    """Return the text if the JSON is damaged, because evidence shows the stored data."""
    try:
        return orjson.loads(text or "null")
    except ValueError:
        return text


RECEIPTS = Paged(
    "receipts",
    "trade",
    "wallet_id",
    RECEIPT_LINES,
    lambda values: _make_line(values[:-2], values[-2], values[-1]),
)


# ---- posts ---------------------------------------------------------------------------------------
def _shown(sql: str) -> Any:
    return Field(json_schema_extra={"sql": sql})


def _list_sql(shape: type[BaseModel]) -> dict[str, str]:
    """Return {name: SQL} for the members of a model that have SQL."""
    told = {name: field.json_schema_extra for name, field in shape.model_fields.items()}
    return {name: str(extra["sql"]) for name, extra in told.items() if isinstance(extra, dict)}


class ClaimedWords(BaseModel):
    """The texts that are hashed as `words` in a post's leaf."""

    salt: Annotated[str, Field(max_length=80)] | None = _shown("p.salt")
    eventId: TEXT = _shown("p.event_id")
    body: TEXT = _shown("p.body")
    symbol: TEXT | None = _shown("p.symbol")
    reason: TEXT | None = _shown("p.reason")


class ClaimedPost(BaseModel):
    """A post's line, in the order of its members. `words` is null once the post is hidden."""

    id: ID = _shown("p.uid")
    createdAtMs: SLOT = _shown("p.created_at")
    eventAtMs: SLOT = _shown("p.event_at")
    checkedAtMs: SLOT | None = _shown("p.checked_at")
    wallet: ADDRESS | None = _shown("w.address")
    signature: SIGNATURE | None = _shown("p.signature")
    mint: ADDRESS | None = _shown("p.mint")
    status: Annotated[str, Field(max_length=20)] = _shown("p.status")
    reason: Annotated[str, Field(max_length=80)] | None = _shown("p.status_reason")
    tradeId: ID | None = _shown("t.uid")
    isClaim: bool = _shown("p.claim")
    delaySeconds: SLOT | None = _shown("p.delay")
    hiddenAtMs: SLOT | None = _shown("p.hidden_at")
    source: NAME = _shown("p.source")
    channel: NAME = _shown("p.channel")
    log: ID | None = _shown("l.uid")
    logIndex: SLOT | None = _shown("p.leaf_id - l.first_leaf")
    words: ClaimedWords | None


POST, WORDS = _list_sql(ClaimedPost), _list_sql(ClaimedWords)
POST_LINES = f"""
SELECT p.id, {", ".join((*POST.values(), *WORDS.values()))}
FROM post p LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN log_leaf f ON f.id = p.leaf_id
LEFT JOIN log l ON l.id = (SELECT MAX(id) FROM log WHERE first_leaf <= f.id)
WHERE p.bot_id = {{owner}} AND p.id > {{after}} ORDER BY p.id LIMIT {{most}}"""


def show_post(values: list[Any]) -> Line:
    line: Line = dict(zip(POST, values, strict=False))
    words = dict(zip(WORDS, values[len(POST) :], strict=True))
    line["isClaim"] = bool(line["isClaim"])
    line["words"] = words if line["hiddenAtMs"] is None else None
    return line


POSTS = Paged("posts", "post", "bot_id", POST_LINES, show_post)
