"""Read bots' current and past attachments, with their holdings and totals."""

import contextlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

import storage
from chain.ledger.inventory import SOL
from chain.ledger.sales import UNEXPLAINED
from chain.ledger.totals import ALL_HISTORY, HOUR_MS, NOTHING, Holdings, Span, Sums, add_up
from chain.reading.entries import Entry
from chain.reading.kinds import DUST, TRADES
from chain.stored.trades import LISTED_TRADE
from storage import Rows

# ---- exchanges between wallets of one bot --------------------------------------------------------
# A trade against another wallet of the bot. It is also UNEXPLAINED, so it doesn't have a price.
OWN_WALLETS = "own_wallets"
OWN_TRANSFER = "own_transfer"
OWN_FLAGS = frozenset((OWN_WALLETS, OWN_TRANSFER))

# (mint or "" for SOL, whether it increased)
Direction = tuple[str, bool]


def mark_own(entry: Entry, others: Iterable[Entry | None]) -> Entry:
    """Flag an entry that traded against another wallet of the bot.

    `others` are the entries of the bot's other wallets for the same transaction, or None if one is
    unreadable.
    """
    mine = _list_directions(entry)
    if not any(one is None or _exchange(mine, _list_directions(one)) for one in others):
        return entry
    flags = {OWN_WALLETS, UNEXPLAINED} if _is_trade(entry) else {OWN_TRANSFER}
    return entry._replace(flags=tuple(sorted({*entry.flags, *flags})))


def _is_trade(entry: Entry) -> bool:
    """Whether it could have a price or verify a post."""
    return entry.kind in TRADES or entry.kind == "order_fill" or "ambiguous" in entry.flags


def _exchange(mine: set[Direction], theirs: set[Direction]) -> bool:
    return any((mint, not rose) in theirs for mint, rose in mine)


def _list_directions(entry: Entry) -> set[Direction]:
    if entry.kind == "failed":
        return set()
    is_trade = _is_trade(entry)
    sol = (entry.venue_sol if is_trade else entry.sol) + entry.fee + entry.tip
    tokens = entry.venue_tokens if is_trade else entry.tokens
    found = {(mint, change > 0) for mint, change, _ in tokens if mint not in entry.residues}
    if abs(sol) >= DUST:
        found.add(("", sol > 0))
    if entry.kind == "round_trip" and entry.mint:
        # Bought and sold back.
        found |= {(entry.mint, True), (entry.mint, False)}
    return found


# ---- transactions that wallets of one bot share --------------------------------------------------
class Sibling(NamedTuple):
    """Another wallet of the bot, and the period (ms) when the bot had both, perhaps open."""

    wallet: int
    begins_ms: int
    ends_ms: int | None

    def is_held_at(self, seconds: int | None) -> bool:
        """Return True if the block time isn't known yet."""
        end_ms = math.inf if self.ends_ms is None else self.ends_ms
        return seconds is None or self.begins_ms <= seconds * 1000 < end_ms


# Raised by Entry.load.
UNREADABLE = (ValueError, TypeError, LookupError)
Shared = Mapping[str, Sequence[tuple[int, Entry | None]]]

SIBLINGS = """
SELECT o.wallet_id, a.attached_at, a.detached_at, o.attached_at, o.detached_at
FROM attachment a JOIN attachment o ON o.bot_id = a.bot_id AND o.wallet_id <> a.wallet_id
WHERE a.wallet_id = {wallet} AND (a.detached_at IS NULL OR a.detached_at > o.attached_at)
AND (o.detached_at IS NULL OR o.detached_at > a.attached_at)"""
SHARED = """
SELECT wallet_id, signature, slot, tx_index, entry FROM sighting
WHERE wallet_id IN ({wallets}) AND state = 'stored' AND entry IS NOT NULL"""
OF_WALLET = f"""{SHARED} AND signature IN (
    SELECT signature FROM sighting WHERE wallet_id = {{wallet}} AND state = 'stored')"""
BOOKED = f"""
SELECT t.flags, s.signature, s.slot, s.tx_index, s.entry FROM {LISTED_TRADE}
WHERE s.wallet_id = ? AND s.state = 'stored' AND s.entry IS NOT NULL AND s.signature IN """


def read_siblings(rows: Rows, wallet_id: int) -> tuple[Sibling, ...]:
    found = set()
    for wallet, begins, ends, other_begins, other_ends in rows(SIBLINGS.format(wallet=wallet_id)):
        known = [one for one in (ends, other_ends) if one is not None]
        found.add(Sibling(wallet, max(begins, other_begins), min(known, default=None)))
    return tuple(sorted(found, key=lambda one: (one.wallet, one.begins_ms, one.ends_ms or 0)))


def read_shared(rows: Rows, wallet_id: int, siblings: Collection[Sibling]) -> Shared:
    if not siblings:
        return {}
    return _by_signature(rows(OF_WALLET.format(wallets=_list(siblings), wallet=wallet_id)))


def mark_new(new: Sequence[Entry], siblings: Collection[Sibling]) -> list[Entry]:
    if not siblings:
        return list(new)
    found: list[tuple[Any, ...]] = []
    for part in storage.in_parts(entry.signature for entry in new):
        sql = f"{SHARED.format(wallets=_list(siblings))} AND signature IN ({storage.mark(part)})"
        found += storage.database.execute_sql(sql, part).fetchall()
    return list(mark_entries(new, siblings, _by_signature(found)))


def has_other_marks(wallet_id: int, signatures: Iterable[str]) -> bool:
    """Whether one of these trades is stored with other marks than its entry has now."""
    siblings = read_siblings(storage.read_rows, wallet_id)
    for part in storage.in_parts(signatures):
        sql = f"{BOOKED} ({storage.mark(part)})"
        booked: dict[str, set[str]] = {}
        entries = []
        for flags, *stored in storage.database.execute_sql(sql, (wallet_id, *part)).fetchall():
            with contextlib.suppress(*UNREADABLE):
                entry = Entry.load(*stored)
                booked[entry.signature] = set(OWN_FLAGS.intersection(orjson.loads(flags)))
                entries.append(entry)
        for entry in mark_new(entries, siblings):
            if OWN_FLAGS & set(entry.flags) != booked[entry.signature]:
                return True
    return False


def mark_entries(
    entries: Iterable[Entry], siblings: Collection[Sibling], shared: Shared
) -> Iterator[Entry]:
    for entry in entries:
        held = {one.wallet for one in siblings if one.is_held_at(entry.block_time)}
        others = (other for number, other in shared.get(entry.signature, ()) if number in held)
        yield mark_own(entry, others) if entry.signature in shared else entry


def _by_signature(rows: Iterable[tuple[Any, ...]]) -> Shared:
    found: defaultdict[str, list[tuple[int, Entry | None]]] = defaultdict(list)
    for number, *stored in rows:
        try:
            found[stored[0]].append((number, Entry.load(*stored)))
        except UNREADABLE:
            # Only the sibling's ledger stops, but its exchanges can't be read.
            found[stored[0]].append((number, None))
    return found


def _list(siblings: Collection[Sibling]) -> str:
    return ", ".join(sorted({str(one.wallet) for one in siblings}))


# ---- attachments ---------------------------------------------------------------------------------
# IDs of the wallets that are attached now, each once.
HELD = "(SELECT wallet_id FROM attachment WHERE detached_at IS NULL)"
# Reads only the index of open rows.
COUNT_HELD = "(SELECT COUNT(*) FROM attachment WHERE detached_at IS NULL)"
# For queries over a few wallets.
IS_HELD = """EXISTS (
SELECT 1 FROM attachment a WHERE a.wallet_id = w.id AND a.detached_at IS NULL)"""
# The primary attachment of bot `b`: its first open one.
LEAD = """(
SELECT l.id FROM attachment l WHERE l.bot_id = b.id AND l.detached_at IS NULL
ORDER BY l.attached_at, l.id LIMIT 1)"""
# Like LEAD, but a retired bot keeps the attachments that ended when it retired.
LAST_LEAD = """(
SELECT l.id FROM attachment l
WHERE l.bot_id = b.id AND (l.detached_at IS NULL OR l.detached_at = b.retired_at)
ORDER BY l.attached_at, l.id LIMIT 1)"""
# Plain SQL for speed: it runs before each step of a poll.
SPANS = "SELECT id, attached_at, detached_at FROM attachment WHERE wallet_id = {wallet}"
HOLDINGS = f"SELECT id, {', '.join(Holdings._fields)} FROM attachment WHERE wallet_id = {{wallet}}"
REPLACE_HOLDINGS = f"""
UPDATE attachment SET {", ".join(f"{name} = ?" for name in Holdings._fields)} WHERE id = ?"""


def read_spans(rows: Rows, wallet_id: int) -> tuple[Span, ...]:
    """In order of start, then of creation."""
    spans = (Span(*row) for row in rows(SPANS.format(wallet=wallet_id)))
    return tuple(sorted(spans, key=lambda span: (span.begins_ms, span.number)))


def replace_holdings(wallet_id: int, right: dict[int, Holdings]) -> bool:
    """Update holdings in the caller's transaction. Return whether anything changed."""
    if not right:
        return False
    stored = {
        number: Holdings(*held)
        for number, *held in storage.read_rows(HOLDINGS.format(wallet=wallet_id))
    }
    moved = {number: held for number, held in right.items() if stored.get(number) != held}
    for number, holdings in moved.items():
        storage.database.execute_sql(REPLACE_HOLDINGS, (*holdings, number))
    return bool(moved)


# ---- who owns past trades ------------------------------------------------------------------------
class Holder(NamedTuple):
    """A bot that had a wallet, the kind of ownership, and since when (ms)."""

    bot: int | str
    ownership: str
    attached_at: int


HOLDERS = "SELECT bot_id, ownership, attached_at FROM attachment WHERE wallet_id = {wallet}"


class Past(NamedTuple):
    """The bot that owns a wallet's trades from before `until` (ms)."""

    bot: int | str
    until: int


def find_past(holders: Sequence[Holder], bot: int | str) -> Past | None:
    """Return the earlier owner of a wallet's trades, or None if they all belong to its last holder.

    A bot that only claims a wallet after another bot had it gets the trades since its first claim.
    Earlier trades belong to the bot that last proved the wallet, or to its first holder if no bot
    did.
    """
    proofs = [place for place, one in enumerate(holders) if one.ownership == "proven"]
    begin = proofs[-1] if proofs else 0
    if holders[begin].bot == bot:
        return None
    claims = (one.attached_at for one in holders[begin:] if one.bot == bot)
    return Past(holders[begin].bot, next(claims))


def is_own_trade(
    holders: Sequence[Holder], bot: int | str, at: int, block_time: int | None
) -> bool:
    """Return whether a wallet's trade belonged to a bot while the bot had the wallet.

    `holders` are the wallet's, in order. `at` is in ms, `block_time` in seconds.
    """
    mine = [place for place, one in enumerate(holders) if one.bot == bot and one.attached_at <= at]
    past = find_past(holders[: mine[-1] + 1], bot) if mine else None
    return past is None or (block_time is not None and block_time * 1000 >= past.until)


class Source(NamedTuple):
    """How to read an attachment's sums. `view` and `which` are SQL over `attachment a`."""

    view: str
    which: str


# All history of currently attached wallets, and what happened while wallets were attached.
OF_RESULTS = Source(str(ALL_HISTORY), "a.detached_at IS NULL")
OF_RECORD = Source("a.id", "a.forward_realized IS NOT NULL")


def write_last(name: str, view: str, money: str = f"'{SOL}'", until: int | None = None) -> str:
    """Return the SQL condition that joins attachment `a` with its last `running_total`, as `name`.

    `view` and `money` are SQL. `until` is the hour before which the row must be.
    """
    before = "" if until is None else f" AND l.hour < {until}"
    return f"""{name}.wallet_id = a.wallet_id AND {name}.money = {money}
    AND {name}.view = {view} AND {name}.hour = (
        SELECT MAX(l.hour) FROM running_total l WHERE l.wallet_id = a.wallet_id
        AND l.money = {money} AND l.view = {view}{before})"""


# {last} is the condition from write_last.
TOTALS = f"""
WITH moneys (money) AS (VALUES {{moneys}})
SELECT a.bot_id, k.money, a.detached_at, t.drawdown,
       {", ".join(f"t.{name}" for name in Sums._fields)}
FROM attachment a CROSS JOIN moneys k LEFT JOIN running_total t ON {{last}}
WHERE {{which}} AND a.bot_id IN ({{bots}})"""


def list_totals(
    rows: Rows,
    source: Source,
    bots: Collection[int],
    moneys: Collection[str],
    until: int | None = None,
) -> Iterator[tuple[int, str, Sums, int | None]]:
    """Yield (bot, currency, sums, drawdown or None) for each of these bots' attachments.

    With `until` (an hour counted from 1970), only earlier sums count. Holdings at a disconnect
    count as moved out unsold.
    """
    if not bots:
        return
    sql = TOTALS.format(
        moneys=", ".join(f"('{money}')" for money in moneys),
        last=write_last("t", source.view, "k.money", until),
        which=source.which,
        bots=", ".join(map(str, bots)),
    )
    for bot, money, detached_at, drawdown, *told in rows(sql):
        sums = NOTHING if drawdown is None else Sums._make(told)
        if detached_at is not None and (until is None or detached_at < until * HOUR_MS):
            sums = sums.give_up()
        yield bot, money, sums, drawdown


def read_totals(
    rows: Rows,
    source: Source,
    bots: Collection[int],
    moneys: Collection[str],
    until: int | None = None,
) -> dict[tuple[int, str], Sums]:
    """Return {(bot, money): sums over all its attachments}, as in list_totals."""
    found: dict[tuple[int, str], Sums] = {}
    for bot, money, sums, _ in list_totals(rows, source, bots, moneys, until):
        found[bot, money] = add_up((found.get((bot, money), NOTHING), sums))
    return found
