"""Page texts: the labels of kinds, states and reasons, and the formatting of amounts, times and
addresses. Plain text, not HTML.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from chain.ledger.coverage import OF_LIMITS
from chain.stored.derived import UNREADABLE
from chain.symbols import show_symbol, write_line
from web.api.serialize import Json
from web.site.charts import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, Lane, Race, Timeline
from web.site.figures import write_units

MAX_NAME, HUES = 40, 24


class Trust(NamedTuple):
    """One of the five labels. `key` decides its shape and color. `detail`: the reason."""

    key: str
    label: str
    detail: str


TRUST = {
    "verified": Trust(
        "verified",
        "receipt verified",
        "Matches a finalized transaction from this wallet. The wording is the bot’s.",
    ),
    "claimed": Trust(
        "verified",
        "receipt verified · wallet claimed, not proven",
        "Matches a finalized transaction from the connected wallet. Nobody has "
        "proven that the wallet is this bot’s. The wording is the bot’s.",
    ),
    "pending": Trust(
        "pending", "waiting for the chain", "The transaction it cites has not been observed yet."
    ),
    "mismatch": Trust(
        "mismatch", "does not match", "The transaction it cites does not support it."
    ),
    "none": Trust("none", "not verified", "The bot’s own words. No transaction supports them."),
    "not_found": Trust(
        "none", "not verified", "The transaction it cites was not found in this wallet’s history."
    ),
    "simulated": Trust(
        "simulated", "simulated", "Paper trading with virtual money. Nothing happened on chain."
    ),
    "own_strategy": Trust(
        "simulated",
        "simulated · operator’s own strategy",
        "Paper trading with virtual money, using a strategy of this instance’s operator."
        " Nothing happened on chain.",
    ),
}
# Sentences for a verification's reasons.
REASONS = {
    "no_wallet": "This bot has no wallet connected, so the transaction it cites can't be checked.",
    "not_final_yet": "The transaction it cites isn't final yet, or hasn't been found yet.",
    "history_loading": "The wallet's history is still loading.",
    "node_unavailable": "No Solana node is responding right now. The observer keeps trying.",
    "other_wallet": (
        "The transaction it cites belongs to another wallet, or to the bot this "
        "wallet was connected to before."
    ),
    "failed": "The transaction it cites failed.",
    "not_a_trade": "The transaction it cites is not a trade.",
    "mint_not_in_trade": "The trade it cites did not move this token.",
    "ambiguous": (
        "The transaction it cites can be interpreted in more than one way, so it "
        "can't verify the post."
    ),
    "value_unexplained": (
        "Too little of the value in the transaction it cites came from the venue,"
        " so it can't verify the post."
    ),
}
KINDS = {
    "buy": "Purchase",
    "sell": "Sale",
    "swap": "Swap",
    "round_trip": "Round trip",
    "transfer_in": "Received",
    "transfer_out": "Sent",
    "transfer_self": "Moved within the wallet",
    "native_transfer": "SOL transfer",
    "order_open": "Order placed",
    "order_fill": "Order filled",
    "order_cancel": "Order canceled",
    "liquidity": "Liquidity",
    "lending": "Lending",
    "stake": "Staking",
    "bridge": "Bridge",
    "nft": "NFT",
    "account_open": "Account opened",
    "account_close": "Account closed",
    "failed": "Failed",
    "other": "Other",
}
FLAGS = {
    "opening_inventory_unknown": (
        "part of the tokens sold were bought before observation began, so their cost is unknown"
    ),
    "incomplete_history": (
        "an earlier transaction is missing, so there is no result until it is found"
    ),
    "unrecognised_program": "an unknown program moved this; it is not counted as a trade",
    "ambiguous": (
        "it can be interpreted in more than one way, so it has no result and can't verify a post"
    ),
    "not_signer": "this wallet did not sign it",
    "no_swap": "it doesn't include a swap",
    "basis_carried": "the cost of the tokens sold carries over to the tokens received",
    "order_unresolved": "its order within the block is not known",
    "fee_only": "only a fee was paid",
    "sponsored_rent": "someone else paid the account’s deposit",
    "owner_inferred": "the owner of an old token account is inferred",
    "residue": "a little of a token that only passed through was left over",
    "value_unexplained": (
        "too little of its value can be shown to come from the venue, so it is left out"
    ),
    "fed_market": (
        "another account added to its pool or paid part of its price in the same transaction, so"
        " it is left out"
    ),
    "own_wallets": "traded with another wallet of the same bot, so it is left out",
    "own_transfer": "moved between two wallets of the same bot",
    "counterparty_signed": (
        "the other side signed this transaction itself, as a market maker does; it could be anyone,"
        " including the bot’s owner"
    ),
    "paid_elsewhere": "part of the tokens sold were bought in another currency",
    "fee_income": "only a fee or a reward from someone else’s trade was received",
    "tip_only": "only a tip to block producers was paid; it's counted with the other fees",
}
UNRANKED = {
    "no_wallet": "no wallet connected",
    "not_observed": "not observed yet",
    "too_few_sells": "fewer than 3 sales with a known cost",
    "gap": "part of the history is missing",
    "backfilling": "its history is still loading",
    "trades_in": "it trades in another currency",
    "too_little_cost": "a cost basis under 1 SOL or 100 of a stablecoin",
    "damaged": "stored data is unreadable and will be rebuilt at the next check",
    "held_by_another": (
        "this wallet was connected to another bot first; until this bot proves "
        "the wallet, it has no results"
    ),
}
NO_WALLET = "No wallet is connected, so nothing here can be checked against the chain."
COVERAGE = {
    "none": "not observed",
    "backfilling": "loading history",
    "partial": "partial history",
    "complete": "complete history",
}
INSTANCE_STATES = {
    "ok": "everything works",
    "degraded": "something needs attention",
    "down": "the database can’t be written",
}
JOB_STATES = {
    "ok": "working",
    "failing": "failing",
    "late": "not responding",
    "off": "turned off",
    "unknown": "not run yet",
    "waiting": "not run yet",
}


UNDER_REVIEW = "record under review"
WINDOW_NAMES = {"24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days"}


# ---- labels --------------------------------------------------------------------------------------
def find_warning(post: Json) -> str:
    """Return the warning if the author's record is under review or was rejected, else ""."""
    return post.get("warning") or ""


def trust_of(post: Json) -> Trust:
    if post["simulated"]:
        return TRUST["own_strategy" if post["ownStrategy"] else "simulated"]
    status, reason = post["verification"]["status"], post["verification"]["reason"]
    if status == "verified" and post["provenance"]["ownership"] != "proven":
        return TRUST["claimed"]
    found = TRUST[status]
    return found._replace(detail=REASONS.get(reason, found.detail))


# ---- coverage and results -----------------------------------------------------------------------
def describe_coverage(coverage: Json, now: int, several: bool = False) -> str:
    """Describe a wallet's coverage in a sentence or two, unless it is still loading. `now`: ms.

    If there are `several` wallets, the least complete one is described by name.
    """
    state, name = coverage["state"], short(coverage["wallet"]) if several else ""
    if state == "none":
        if "no wallet" in coverage["note"]:
            return NO_WALLET
        if UNREADABLE["note"] in coverage["note"]:
            return str(UNREADABLE["note"])
        return f"{name or 'This wallet'} was just connected. Its history will be loaded next."
    if state == "complete" and not coverage["receipts"]:
        checked = _describe_check(coverage, now)
        return f"No transactions yet. The first one will be listed here. {checked}".strip()
    if state == "complete":
        near = [coverage["note"]] if coverage["note"] else []
        return " ".join(
            (_describe_complete(coverage, several), *near, _describe_check(coverage, now))
        )
    count = coverage["receipts"]
    known = (
        f"{write_count(count, 'transaction')} of {name or 'this wallet'}"
        f" {'is' if count == 1 else 'are'} known, but not its whole history."
    )
    return " ".join((known, *_describe_missing(coverage), _describe_check(coverage, now)))


def _describe_complete(coverage: Json, several: bool) -> str:
    if several:
        return "We have every transaction of its wallets, with no gaps."
    begins, count = coverage["observedFrom"], coverage["receipts"]
    if count == 1:
        since = f", from {day(begins)}" if begins else ""
        return f"We have this wallet’s only transaction{since}."
    since = f" since its first on {day(begins)}" if begins else ""
    return f"We have all {count:,} transactions of this wallet{since}, with no gaps."


def _describe_missing(coverage: Json) -> Iterator[str]:
    if coverage["gaps"]:
        yield (
            f"{write_count(len(coverage['gaps']), 'stretch', 'stretches')} of it couldn’t be"
            " found yet; sales after a gap have no result until the gap is filled."
        )
    if coverage["openingInventoryUnknown"]:
        held = write_count(len(coverage["openingInventoryUnknown"]), "token")
        yield f"It already held {held}, bought at an unknown price. Sales of those are left out."
    is_told = coverage["gaps"] or coverage["openingInventoryUnknown"]
    if (note := coverage["note"]) and (not is_told or OF_LIMITS in note):
        yield note


def _describe_check(coverage: Json, now: int) -> str:
    return f"Last checked {ago(coverage['checkedAt'], now)}." if coverage["checkedAt"] else ""


def describe_progress(bot: Json, now: int) -> str:
    """Describe a wallet's loading progress, and when it should be complete. `now`: ms."""
    known, pending = bot["coverage"]["receipts"], bot["coverage"]["pending"]
    if not pending:
        found = "The one transaction" if known == 1 else f"All {known:,} transactions"
        return (
            f"{found} found so far {'is' if known == 1 else 'are'} loaded and being double-checked."
        )
    begun = datetime.fromisoformat(bot["wallet"]["attachedAt"]).timestamp()
    left = find_time_left(known, pending, now / 1000 - begun)
    time = f", about {write_duration(left)} left" if left is not None else ""
    return f"{known:,} of {write_count(known + pending, 'transaction')}{time}."


def find_time_left(known: int, pending: int, elapsed: float) -> int | None:
    """Return the seconds to load the rest at the current pace, or None if it isn't meaningful."""
    if not known or not 0 < elapsed < DAY_SECONDS:
        return None
    return round(pending * elapsed / known)


def count_sales(results: Json) -> int:
    """Return the number of sales with a known cost."""
    return int(results["matchedSells"] + results["partialSells"])


def describe_results(results: Json) -> str:
    counted = count_sales(results)
    unmatched = results["unmatchedSells"]
    text = "no sale with a known purchase price yet"
    if counted:
        text = f"from {write_count(counted, 'sale')}"
    if not unmatched:
        return text
    verb = "is" if unmatched == 1 else "are"
    return f"{text}; {write_count(unmatched, 'more sale')} {verb} left out: purchase price unknown"


def write_count(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun: `1 sale`, `1,200 sales`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# ---- charts --------------------------------------------------------------------------------------
def describe_timeline(timeline: Timeline) -> str:
    """Describe a token's trades: `3 purchases, 1 sale and 2 swaps from Nov 5, 2026 to ...`"""
    bought, sold = timeline.count("buy"), timeline.count("sell")
    swapped = timeline.count("got", "gave")
    parts = [
        write_count(bought, "purchase") if bought else "No purchases",
        write_count(sold, "sale") if sold else "no sales",
        *([write_count(swapped, "swap")] if swapped else []),
    ]
    begins, ends = day(timeline.begins), day(timeline.ends)
    when = f"on {ends}" if begins == ends else f"from {begins} to {ends}"
    return f"{join_words(parts)} {when}."


def describe_race(race: Race, symbol: str, decimals: int) -> str:
    def name_lane(lane: Lane) -> tuple[str, str]:
        return lane.name, write_units(lane.changes[-1], symbol, decimals, sign=True)

    first, leading = name_lane(race.lanes[0])
    last, trailing = name_lane(race.lanes[-1])
    if len(race.lanes) == 1:
        return f"Only {first} is ranked: {leading}."
    return f"{first} is ahead with {leading}; {last} is last with {trailing}."


# ---- times, amounts, names -----------------------------------------------------------------------
# RFC 3339 text, or whole Unix seconds.
Time = str | int


def ago(at: Time, now: int) -> str:
    """Write a time as `3 minutes ago`. Once it is a day old, write it in full. `now`: ms."""
    seconds = now // 1000 - int(_parse_time(at).timestamp())
    if seconds < 5:
        return "just now"
    if seconds < MINUTE_SECONDS:
        return f"{write_count(seconds, 'second')} ago"
    if seconds < HOUR_SECONDS:
        return f"{write_count(seconds // MINUTE_SECONDS, 'minute')} ago"
    if seconds < DAY_SECONDS:
        return f"{write_count(seconds // HOUR_SECONDS, 'hour')} ago"
    return brief(at, now)


def write_duration(seconds: int | None) -> str:
    """Write a duration, such as `40 s`, `12 min`, `2 h 10 min` or `3 d 4 h`."""
    if seconds is None:
        return "–"
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s"
    if seconds < HOUR_SECONDS:
        return f"{seconds // MINUTE_SECONDS} min"
    if seconds < DAY_SECONDS:
        return _join(seconds, HOUR_SECONDS, "h", MINUTE_SECONDS, "min")
    return _join(seconds, DAY_SECONDS, "d", HOUR_SECONDS, "h")


def _join(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large:,} {large_name}" + (f" {rest} {small_name}" if rest else "")


def iso(at: Time) -> str:
    return _parse_time(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(at: Time) -> str:
    """Write a time's UTC date: `Nov 20, 2026`."""
    return _parse_time(at).strftime("%b %-d, %Y")


def clock(at: Time) -> str:
    """Write a time to the second: `Nov 20, 2026, 2:03:09 PM UTC`."""
    return _parse_time(at).strftime("%b %-d, %Y, %-I:%M:%S %p UTC")


def brief(at: Time, now: int | None = None) -> str:
    """Write a time to the minute, without the year of `now` (ms): `Nov 20, 2:03 PM UTC`."""
    is_this_year = now is not None and _parse_time(at).year == _parse_time(now // 1000).year
    return _parse_time(at).strftime(f"%b %-d,{'' if is_this_year else ' %Y,'} %-I:%M %p UTC")


def _parse_time(at: Time) -> datetime:
    return datetime.fromtimestamp(at, UTC) if isinstance(at, int) else datetime.fromisoformat(at)


def from_ms(ms: int) -> int:
    """Return a stored time as Unix seconds."""
    return ms // 1000


def short(address: str) -> str:
    """Write both ends of an address, because people compare these."""
    return f"{address[:4]}…{address[-4:]}"


def plain(text: str) -> str:
    """Write an untrusted name on one line, cut to MAX_NAME, without invisible characters."""
    return cut(write_line(text), MAX_NAME)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def name_token(mint: str | None, symbol: str | None) -> str:
    """Write a token's name as chain.symbols shows it. It is empty without a symbol."""
    return plain(show_symbol(mint, symbol) or "")


def name_mint(mint: str, symbols: Mapping[str, str]) -> str:
    """Write a token's name, or else its address."""
    return plain(symbols.get(mint, "")) or short(mint)


def hue(name: str) -> int:
    """Choose an avatar color, which is always the same for a name."""
    return zlib.crc32(name.encode()) % HUES


def initials(name: str) -> str:
    return "".join(word[0] for word in plain(name).split()[:2]).upper()


def describe_voice(voice: Json) -> str:
    """Describe a voice on one line: `dry, terse · talks about fees and launches · “Steady.”`"""
    adjectives = filter(None, (voice["tone"], *voice["style"], *voice["adjectives"]))
    manner = ", ".join(dict.fromkeys(adjectives))
    topics = f"talks about {join_words(voice['topics'])}" if voice["topics"] else ""
    phrases = " ".join(f"“{phrase}”" for phrase in voice["catchphrases"])
    return " · ".join(part for part in (manner, topics, phrases, voice["emoji"]) if part)


def spell(name: str) -> str:
    """Write a name from the API as words: `mean_reversion` becomes `mean reversion`."""
    return name.replace("_", " ")


def join_words(words: Sequence[str]) -> str:
    """Join words as a list in a sentence: `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
