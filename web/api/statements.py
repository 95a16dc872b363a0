"""The statements behind bots, trades and tokens, each with the type of its rows: the fields are
the columns, by name and in order. `Any`: a word of a shape's Literal. Portable to PostgreSQL but
for the `?`.

Times are UTC milliseconds but for `block_time`, which is Unix seconds. Amounts are lamports, or
JSON and text as they are stored.
"""

from typing import Annotated, Any, NamedTuple

from chain.stored.attachments import LEAD
from chain.stored.tables import NUMBER_OF_MINT, WALLET_PARTS, Changes, Lots, Names
from models import BOT_OF_TRADE


# ---- trades --------------------------------------------------------------------------------------
class TradePosition(NamedTuple):
    """The place of a trade in every list of trades. `place`: inside its slot."""

    slot: int
    place: int
    id: int


class TradeRow(NamedTuple):
    """A trade and whose it is, as models.Trade has it. `explained` is 0 to 100."""

    slot: int
    place: int
    id: int
    uid: str
    bot: str
    wallet: str
    signature: str
    tx_index: int | None
    block_time: int | None
    kind: Any
    venue: str | None
    mint: str | None
    token_changes: Changes
    sol_change: int
    fee: int
    tip: int
    rent: int
    currency: str
    realized: Any
    result: int | None
    proceeds: int | None
    cost: int | None
    matched_raw: str
    unmatched_raw: str
    lots: Lots
    paid_elsewhere: int
    flags: Names
    beside_sol: int
    beside_tokens: Changes
    explained: int | None
    counterparties: Names
    copied: int | None
    copied_reason: Any

    @property
    def position(self) -> TradePosition:
        """Its place in every list of trades."""
        return TradePosition(self.slot, self.place, self.id)


TRADE_COLUMNS = """
SELECT t.slot, t.place, t.id, t.uid, b.uid AS bot, w.address AS wallet, t.signature, t.tx_index,
       t.block_time, t.kind, t.venue, t.mint, t.token_changes, t.sol_change, t.fee, t.tip, t.rent,
       t.currency, t.realized, t.result, t.proceeds, t.cost, t.matched_raw, t.unmatched_raw, t.lots,
       t.paid_elsewhere, t.flags, t.beside_sol, t.beside_tokens, t.explained, t.counterparties,
       c.lamports AS copied, c.reason AS copied_reason
"""
ITS_BOT = f"JOIN wallet w ON w.id = t.wallet_id JOIN bot b ON b.id = {BOT_OF_TRADE}"
COPIED = "LEFT JOIN copied_trade c ON c.trade_id = t.id"
TRADE = f"{TRADE_COLUMNS}FROM trade t {ITS_BOT} {COPIED}"
# What moved a mint, of a table of such rows.
OF_MINT = f"{{}}.mint_id = {NUMBER_OF_MINT.format('?')}"
TRADE_OF_MINT = (
    f"{TRADE_COLUMNS}FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT} {COPIED}"
)


class WalletSpan(NamedTuple):
    """What a list of trades takes from a wallet: all of it, or what a bot has a claim to.

    `begins`, `ends`: ms, or None. It begins with its first block time, and ends before its last.
    """

    wallet_id: int
    address: str
    coverage: str | None
    begins: int | None
    ends: int | None


SPAN_OF_WALLET = """
SELECT w.id AS wallet_id, w.address, w.coverage, NULL AS begins, NULL AS ends FROM wallet w
"""
SPAN_OF_BOT = """
SELECT w.id AS wallet_id, w.address, w.coverage,
       CASE WHEN w.bot_id = b.id THEN w.bot_since END AS begins,
       CASE WHEN w.earlier_bot_id = b.id THEN w.bot_since END AS ends
FROM bot b JOIN wallet w ON w.bot_id = b.id OR w.earlier_bot_id = b.id
"""


class OriginRow(NamedTuple):
    """The purchase that a sale was matched with."""

    uid: str
    block_time: int | None
    signature: str


ORIGIN = "SELECT uid, block_time, signature FROM trade WHERE uid IN "


class ActivityRow(NamedTuple):
    """A buy, a sale or one side of a swap of a token."""

    slot: int
    place: int
    id: int
    side: Any
    bot: str
    bot_name: str
    wallet: str
    token_changes: Changes
    sol_change: int
    block_time: int | None
    signature: str
    trade: str
    kind: Any
    flags: Names
    currency: str
    beside_sol: int
    beside_tokens: Changes
    explained: int | None

    @property
    def position(self) -> TradePosition:
        """Its place in the list."""
        return TradePosition(self.slot, self.place, self.id)


ACTIVITY = f"""
SELECT m.slot, m.place, m.trade_id AS id, m.side, b.uid AS bot, b.name AS bot_name,
       w.address AS wallet, t.token_changes, t.sol_change, t.block_time, t.signature,
       t.uid AS trade, t.kind, t.flags, t.currency, t.beside_sol, t.beside_tokens, t.explained
FROM trade_mint m JOIN trade t ON t.id = m.trade_id {ITS_BOT}
"""
TRADERS_OF_MINT = "SELECT COUNT(*) FROM token_trader WHERE mint = ? AND side = ?"


# ---- what arrived --------------------------------------------------------------------------------
class HeadRow(NamedTuple):
    """The highest numbers at one moment: everything that has arrived is at or below them."""

    arrival: int
    post: int
    trade: int


HEAD = """
SELECT (SELECT COALESCE(MAX(id), 0) FROM arrival) AS arrival,
       (SELECT COALESCE(MAX(id), 0) FROM post) AS post,
       (SELECT COALESCE(MAX(id), 0) FROM trade) AS trade
"""


class NewestRow(NamedTuple):
    """The public ids of the newest there is, None where there is none."""

    bot: str | None
    post: str | None
    trader: str | None
    season: str | None
    mint: str | None


NEWEST = """
SELECT (SELECT uid FROM bot WHERE id = (SELECT MAX(id) FROM bot)) AS bot,
       (SELECT uid FROM post WHERE id = (SELECT MAX(id) FROM post)) AS post,
       (SELECT uid FROM trader WHERE id = (SELECT MAX(id) FROM trader)) AS trader,
       (SELECT uid FROM season WHERE id = (SELECT MAX(id) FROM season)) AS season,
       (SELECT n.address FROM trade_mint m JOIN mint n ON n.id = m.mint_id
        WHERE m.id = (SELECT MAX(id) FROM trade_mint)) AS mint
"""


class ArrivalRow(NamedTuple):
    """A post or a trade that arrived, a verification or a wallet's coverage that changed."""

    id: int
    kind: str
    post_id: int | None
    trade_id: int | None
    wallet_id: int | None


ARRIVALS = (
    "SELECT id, kind, post_id, trade_id, wallet_id FROM arrival WHERE id > ? ORDER BY id LIMIT ?"
)


class CoverageRow(NamedTuple):
    """What is known of a wallet, and whose it is. `coverage`: JSON."""

    id: int
    address: str
    coverage: str | None
    bot: str
    bot_name: str


COVERAGES = """
SELECT w.id, w.address, w.coverage, b.uid AS bot, b.name AS bot_name
FROM wallet w JOIN bot b ON b.id = w.bot_id"""


class StateRow(NamedTuple):
    """What is known of a wallet; `coverage`: JSON."""

    address: str
    coverage: str | None


class ArrivedRow(NamedTuple):
    """The number of an arrival and of the row that arrived."""

    arrival: int
    row_id: int


ARRIVED_POSTS = "SELECT r.id AS arrival, p.id AS row_id FROM post p CROSS JOIN arrival r"
LAST_POST = """
SELECT post_id FROM arrival WHERE kind = 'post' AND id <= ? ORDER BY id DESC LIMIT 1"""
# The newest trade that had arrived by then and that no rebuild took back.
LAST_TRADE = """
SELECT trade_id FROM arrival WHERE trade_id IS NOT NULL AND id <= ? ORDER BY id DESC LIMIT 1
"""


# ---- bots ----------------------------------------------------------------------------------------
BOTS_CALLED = """
SELECT uid FROM bot WHERE uid = ? OR handle = ? OR LOWER(name) = ? ORDER BY id LIMIT ?"""
MINTS_CALLED = "SELECT mint FROM token WHERE LOWER(symbol) = ? ORDER BY id LIMIT ?"


class BotRow(NamedTuple):
    """A bot with the wallet that leads. `voice` and `coverage` are JSON.

    `since`: when a mere claim of a wallet that another bot had proven begins, else None.
    """

    id: int
    uid: str
    handle: str
    name: str
    bio: str
    voice: str
    avatar_url: str | None
    auto_post: int
    created_at: int
    retired_at: int | None
    address: str | None
    attached_at: int | None
    ownership: Any
    results: Annotated[dict[str, Any] | None, WALLET_PARTS["results"]]
    coverage: str | None
    positions: Annotated[list[dict[str, Any]] | None, WALLET_PARTS["positions"]]
    reconciliation: Annotated[dict[str, Any] | None, WALLET_PARTS["reconciliation"]]
    average_cost: Annotated[dict[str, Any] | None, WALLET_PARTS["average_cost"]]
    by_quote: Annotated[dict[str, Any] | None, WALLET_PARTS["by_quote"]]
    last_trade_at: int | None
    last_post_at: int | None
    since: int | None


BOT = f"""
SELECT b.id, b.uid, b.handle, b.name, b.bio, b.voice, b.avatar_url, b.auto_post, b.created_at,
       b.retired_at, w.address, a.attached_at, a.ownership, w.results, w.coverage, w.positions,
       w.reconciliation, w.average_cost, w.by_quote, w.last_trade_at,
       (SELECT p.created_at FROM post p WHERE p.bot_id = b.id ORDER BY p.id DESC LIMIT 1)
       AS last_post_at, w.bot_since AS since
FROM bot b LEFT JOIN attachment a ON a.id = {LEAD}
LEFT JOIN wallet w ON w.id = a.wallet_id
"""


class FormerWalletRow(NamedTuple):
    """A wallet that a bot held before."""

    bot_id: int
    address: str


FORMER_WALLETS = """
SELECT a.bot_id, w.address FROM attachment a JOIN wallet w ON w.id = a.wallet_id
WHERE a.detached_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM attachment c
    WHERE c.bot_id = a.bot_id AND c.wallet_id = a.wallet_id AND c.detached_at IS NULL)
AND a.bot_id IN """
