"""Describe a transaction next to a post's words: one sentence and one result, as markup for pages
and as text for feeds, previews and copies.

The post's wording isn't checked. The result always has a sign, so that readers can compare them.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from markupsafe import Markup

from chain.reading.currencies import find_stablecoin
from notify.messages import Event
from web.api import bots, stream
from web.api.serialize import Json
from web.site import figures, words
from web.site.money import venue_changes, venue_sol

# Sentences by kind. `{tokens}` is an amount with its token. `{sol}` and `{paid}` have no sign.
DEEDS = {
    "buy": "bought {tokens} for {paid}",
    "sell": "sold {tokens} for {paid}",
    "swap": "swapped {gave} for {got}",
    "round_trip": "bought and sold {token} in one transaction",
    "transfer_in": "received {tokens}",
    "transfer_out": "sent {tokens}",
    "transfer_self": "moved {tokens} within the wallet",
    "native_transfer": "moved {sol}",
    "order_fill": "filled an order: {tokens}",
    "order_open": "placed an order",
    "order_cancel": "canceled an order",
    "liquidity": "added or removed liquidity",
    "lending": "lent, borrowed or repaid",
    "stake": "staked or unstaked",
    "bridge": "bridged tokens",
    "nft": "moved an NFT",
    "account_open": "opened a token account",
    "account_close": "closed a token account",
    "failed": "failed",
    "other": "did something other than trade",
}
# Sentences for unknown amounts.
PLAIN_DEEDS = {
    "buy": "bought",
    "sell": "sold",
    "swap": "swapped tokens",
    "round_trip": "bought and sold in one transaction",
    "transfer_in": "received tokens",
    "transfer_out": "sent tokens",
    "transfer_self": "moved tokens within the wallet",
    "order_fill": "filled an order",
    "native_transfer": "moved SOL",
}
AMBIGUOUS = "can be interpreted in more than one way"
NO_RESULT = {
    "unmatched": "purchase price unknown",
    "partial": "for the part with a known purchase price",
}


class Fact(NamedTuple):
    """What a transaction did. Fields are empty if they don't apply.

    `told` is the sentence. `result` and `change` are a sale's result in SOL or a stablecoin, and as
    a percentage. `note`: the result's limits. `share` is how much of the value came from
    the venue, unless all of it did. `at` is when it happened, and `when` is text about that time.
    """

    told: str
    result: str
    change: str
    note: str
    share: str
    at: str | None
    when: str


NAME = Markup("<bdi>{}</bdi>")


def fact_of(post: Json, symbols: Mapping[str, str] | None = None) -> Fact | None:
    """Return what a post's transaction did, as markup, or None until it is observed."""
    receipt = post["receipt"]
    if receipt is None:
        return None
    result, share = receipt["result"], receipt["resultPct"]
    return Fact(
        _tell(post, receipt, symbols or {}),
        "" if result is None else _write_money(result, receipt["currency"], sign=True),
        "" if result is None or share is None else figures.change(share),
        NO_RESULT.get(receipt["realized"], ""),
        _tell_share(receipt),
        receipt["eventAt"],
        ", before connecting" if receipt["beforeConnecting"] else "",
    )


def find_text(post: Json) -> Fact | None:
    fact = fact_of(post)
    return fact and Fact(*map(_strip, fact))


def _strip(part: Any) -> Any:
    return part.striptags() if isinstance(part, Markup) else part


def write_fact(post: Json) -> str:
    """Write the whole strip on one line, or "" until the transaction is observed.

    `Sold 879.5 FERN for 0.3381 SOL · −0.0146 SOL (−4.1%) · 20 Nov 2026 16:44`
    """
    fact = find_text(post)
    if fact is None:
        return ""
    change = f" ({fact.change})" if fact.change else ""
    at = words.brief(fact.at) + fact.when if fact.at else ""
    result = fact.result and fact.result + change
    return " · ".join(part for part in (fact.told, result, fact.note, fact.share, at) if part)


def write_trade(trade: Json) -> str:
    seen = {"status": "verified", "reason": None}
    return write_fact({"receipt": _show_receipt(trade), "verification": seen, "hiddenAt": None})


def _show_receipt(trade: Json) -> Json:
    moved = {one["mint"]: one["change"] for one in venue_changes(trade)}
    realized, own = trade["realized"], moved.get(trade["mint"])
    return {
        **trade,
        "amount": own and own.lstrip("-"),
        "moved": moved,
        "solChange": venue_sol(trade),
        "realized": realized["status"],
        "result": realized["result"],
        "resultPct": realized["returnPct"],
        "beforeConnecting": False,
    }


def write_outcome(post: Json) -> str:
    """Write only the result of a post's sale, such as `−0.0146 SOL`, or "" if unknown."""
    fact = find_text(post)
    return fact.result if fact else ""


def _write_money(amount: str, currency: str, sign: bool = False) -> Any:
    stablecoin = find_stablecoin(currency)
    if stablecoin is None:
        return figures.sol(amount, sign)
    raw = int(Decimal(amount).scaleb(stablecoin.decimals))
    return figures.units(raw, stablecoin.symbol, stablecoin.decimals, sign)


def _find_paid(receipt: Json) -> str | None:
    """Return the payment of a purchase or sale, in whole units without a sign."""
    stablecoin = find_stablecoin(receipt["currency"] or "")
    if stablecoin is None:
        paid: str | None = receipt["solChange"]
    else:
        paid = receipt["moved"].get(stablecoin.mint)
    return None if paid is None else paid.lstrip("-")


def _tell(post: Json, receipt: Json, symbols: Mapping[str, str]) -> Any:
    reason = post["verification"]["reason"]
    deed = AMBIGUOUS if reason == "ambiguous" else _tell_deed(receipt, symbols)
    if reason == "mint_not_in_trade" and not post["hiddenAt"]:
        said = NAME.format(_find_claim(post, receipt, symbols))
        return Markup("Post says {}. The transaction {}.").format(said, deed)
    if reason is not None:
        return Markup("The transaction {}.").format(deed)
    return deed[:1].upper() + deed[1:]


def _find_claim(post: Json, receipt: Json, symbols: Mapping[str, str]) -> str:
    """Return the token's name, or else its address. It is never from the post's words."""
    claimed = _find_name(post["mint"], None, symbols)
    moved = _find_name(receipt["mint"], receipt["symbol"], symbols)
    return words.short(post["mint"]) if claimed == moved else claimed


def _tell_deed(receipt: Json, symbols: Mapping[str, str]) -> Any:
    """Return what happened, in lowercase and without a period."""
    kind, name = receipt["kind"], _find_name(receipt["mint"], receipt["symbol"], symbols)
    paid = _find_paid(receipt)
    parts = {
        "token": NAME.format(name),
        "tokens": _tell_tokens(receipt["amount"], name),
        "sol": receipt["solChange"] and figures.sol(receipt["solChange"].lstrip("-")),
        "paid": paid and _write_money(paid, receipt["currency"] or "SOL"),
        **_tell_sides(receipt, symbols),
    }
    deed = DEEDS.get(kind, DEEDS["other"])
    is_told = all(parts[one] for one in parts if f"{{{one}}}" in deed)
    return Markup(deed if is_told else PLAIN_DEEDS[kind]).format(**parts)


def _tell_tokens(amount: str | None, name: str) -> Any:
    if amount is None or not name:
        return ""
    return Markup("{} {}").format(figures.tokens(amount), NAME.format(name))


def _tell_sides(receipt: Json, symbols: Mapping[str, str]) -> dict[str, Any]:
    """Return the tokens that a swap gave and received. The largest of each is enough for a line."""
    known = {receipt["mint"]: receipt["symbol"]} if receipt["symbol"] else {}
    sides = {"gave": "", "got": ""}
    for mint, change in receipt["moved"].items():
        if change is None:
            continue
        side = "gave" if change.startswith("-") else "got"
        name = _find_name(mint, known.get(mint), symbols)
        sides[side] = sides[side] or _tell_tokens(change.lstrip("-"), name)
    return sides


def _find_name(mint: str | None, symbol: str | None, symbols: Mapping[str, str]) -> str:
    found = words.name_token(mint, symbol or symbols.get(mint or ""))
    return found or (words.short(mint) if mint else "")


def _tell_share(receipt: Json) -> str:
    share = receipt["explainedShare"]
    if share in (None, "1.00"):
        return ""
    return f"{figures.write_percent(share)} of the value came from the venue"


# ---- notifications for people --------------------------------------------------------------------
def list_notices(base_url: str, after: int, limit: int) -> list[Event]:
    events = stream.list_events(base_url, after, limit)
    return [event._replace(fact=write_line(event.kind, event.shown)) for event in events]


def write_line(kind: str, shown: Json | None) -> str:
    """Write what the chain shows about an event on one line, or "" if nothing."""
    if shown is None:
        return ""
    if kind == "trade":
        bot = bots.find_bot(shown["botId"])
        return f"{words.plain(bot.name) if bot else ''}: {write_trade(shown)}"
    if kind == "coverage":
        state = shown["coverage"]["state"] if shown["coverage"] else "none"
        return f"{words.plain(shown['botName'])}: {words.COVERAGE[state]}"
    return write_fact(shown)
