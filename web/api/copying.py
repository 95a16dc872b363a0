"""Show copying results: their shapes, and how rows become them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from paper.copying import MODEL, SHOWN_SIZE, SIZES
from storage.rows import Damaged, Part, read, write_marks
from web.api.serialize import fill
from web.api.shapes import TypedDict, Whole, described

Excluded = Literal[
    "no_call",
    "no_pool",
    "no_event",
    "vault_not_told",
    "quote_not_sol",
    "route",
    "venue_unreadable",
    "not_reproduced",
    "transfer_fee",
    "own_token",
    "own_pool",
    "nothing_left_to_buy",
    "unknown_cost",
    "not_a_purchase",
    "too_small",
]


class CopySize(TypedDict):
    """A follower that spends the same amount on each of the bot's purchases."""

    sizeLamports: Annotated[Whole, described("amount spent on each purchase")]
    returnBps: Annotated[
        int | None,
        described("best case: the follower's SOL stays in the pool until the sale; rounded down"),
    ]
    worstReturnBps: Annotated[
        int | None,
        described("worst case: others take the follower's SOL out of the pool before the sale"),
    ]
    evenBotReturnBps: Annotated[
        int | None, described("the bot's return with each purchase counted as the same size")
    ]
    keptPct: Annotated[
        int | None,
        described(
            "best-case return as a share of the bot's gain; also null if the bot had no gain"
        ),
    ]
    spentLamports: Annotated[
        Whole, described("amount spent on tokens bought and sold, including network costs")
    ]
    receivedLamports: Whole
    salesUsed: int
    coveredPct: Annotated[int, described("share of the known cost of the bot's sales")]
    reason: Annotated[
        Literal["too_few_sales", "too_few_tokens", "not_representative", "not_worked_out"] | None,
        described(
            "reason if there is no return: fewer than 10 sales or 3 tokens used, less than"
            " half of the cost covered, or not calculated yet"
        ),
    ]


class Copying(TypedDict):
    """The simulated proceeds of a follower, based on the reserves in the bot's transactions,
    without a delay or other trades in between. It isn't used for ranking.
    """

    model: str
    sizes: list[CopySize]
    sales: Annotated[int, described("the bot's sales for SOL with a known cost")]
    tokens: Annotated[
        int, described("tokens in the sales used; this and the fields below assume 1 SOL")
    ]
    topTokenPct: Annotated[
        int | None,
        described(
            "the largest gain in one token, as a percentage of all gains; null without a gain"
        ),
    ]
    excluded: Annotated[
        dict[Excluded, int], described("number of excluded parts of sales, by reason")
    ]


# Rows of paper.tables.CopyTotal.
TOTALS = """
SELECT bot_id, size, return_bps, worst_bps AS worst_return_bps, bot_bps AS even_bot_return_bps,
       kept AS kept_pct, spent, received, sales, used AS sales_used, covered AS covered_pct, tokens,
       top_token, reason, excluded FROM copy_total WHERE """
EXCLUDED = Part(list[tuple[str, int]])


def find_sizes(bot_ids: Sequence[int]) -> dict[int, CopySize]:
    """Return {bot number: its CopySize for 1 SOL}."""
    sql = f"{TOTALS}size = ? AND bot_id IN ({write_marks(bot_ids)})"
    return {row.bot_id: fill(CopySize, row) for row in read(sql, (SHOWN_SIZE, *bot_ids))}


def find_copying(bot_id: int) -> Copying:
    found = read(f"{TOTALS}bot_id = ?", (bot_id,), excluded=EXCLUDED)
    rows = {row.size: row for row in found}
    shown = rows.get(SHOWN_SIZE)
    excluded = shown.excluded if shown and not isinstance(shown.excluded, Damaged) else []
    return {
        "model": MODEL,
        "sizes": [_show_size(one, rows.get(one)) for one in SIZES],
        "sales": shown.sales if shown else 0,
        "tokens": shown.tokens if shown else 0,
        "topTokenPct": shown.top_token if shown else None,
        "excluded": {reason: count for reason, count in excluded},
    }


def _show_size(size: int, row: Any) -> CopySize:
    """`row` is None if it isn't computed yet."""
    if row is not None:
        return fill(CopySize, row)
    nothing: Any = dict.fromkeys(CopySize.__annotations__)
    counts = {"spentLamports": "0", "receivedLamports": "0", "salesUsed": 0, "coveredPct": 0}
    known = {"sizeLamports": str(size), **counts, "reason": "not_worked_out"}
    return cast(CopySize, {**nothing, **known})
