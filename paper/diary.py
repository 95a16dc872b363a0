"""Put the lines of a trader's diary into sentences, and choose those worth a post. Pure."""

import re
from collections.abc import Mapping
from typing import Any

# Facts of a line that the voice is not given.
UNPOSTED_FACTS = {
    "code",
    "marks",
    "id",
    "ends",
    "key",
    "windowMs",
    "closeIds",
    "evidence",
    "expiresAt",
    "until",
    "n",
    "side",
    "slippageSol",
    "feesSol",
}
# Sorts of lines that are posted.
NEWS = {"bought", "reduced", "closed", "begun", "lesson", "guarded", "standard", "under_review"}

TICKER = re.compile(r"[$#]?[^\W\d_][\w$-]*")
# In the place of a symbol, where a trader as a whole is put off.
EVERY_TRADE = "every trade"

# Every effect counts alike: positions that were opened while the pause ran and are closed now.
MEANWHILE = "{n} positions opened meanwhile have closed since, together {resultSol} SOL."
LINES = {
    "decision buy": "Decided to buy {symbol} for {sol} SOL: {detail}.",
    "decision sell": "Decided to sell {amount} {symbol}: {detail}.",
    "fill bought": (
        "Bought {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}."
    ),
    "fill reduced": "Sold {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}.",
    "fill closed": "Closed {symbol} for {sol} SOL ({reason}): {resultSol} SOL net, {returnPct}%.",
    "fill failed": "An attempt in {symbol} failed and cost {feesSol} SOL.",
    "fill slipped": (
        "An attempt in {symbol} would have filled far worse than quoted: it failed and cost"
        " {feesSol} SOL."
    ),
    "fill not_filled": "The order in {symbol} was not filled: {why}.",
    "refusal": "Refused {symbol}: {detail}.",
    "pause begun": "Paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause begun half_size": "Entries at half the size ({rule}): {numbers}; {n} closes counted.",
    "pause begun long_cooldown": (
        "Four times the cool-down after a close ({rule}): {numbers}; {n} closes counted."
    ),
    "pause observed": "Would have paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause ended": (
        "The pause ({rule}, {effect}) is over; {n} positions opened in it were closed, together"
        " {resultSol} SOL."
    ),
    "pause would_have pause_family": (
        "The pause that was not applied ({rule}) would have stopped all entries; " + MEANWHILE
    ),
    "pause would_have pause_mint": (
        "The pause that was not applied ({rule}) would have stopped entries in one token; there, "
        + MEANWHILE
    ),
    "pause would_have half_size": (
        "The pause that was not applied ({rule}) would have halved the size of entries; "
        + MEANWHILE
        + " At the size they had."
    ),
    "pause would_have long_cooldown": (
        "The pause that was not applied ({rule}) would have made the cool-down after a close four"
        " times as long; " + MEANWHILE
    ),
    "lesson lesson": "{text}",
    "review under_review": "Under review: {detail}.",
    "review cleared": "The review was cleared: {detail}.",
    "review upheld": "The review was upheld: {detail}.",
    "phase guarded": "Back to Guarded Start: {why}.",
    "phase standard": "Guarded Start is over: {why}.",
    "unreadable": "A line whose details cannot be read.",
    "phase reset": "A new account period begins: {why}.",
}


def quote_symbol(symbol: str) -> str:
    """Return a token's name for a sentence: in quotation marks where it is no plain word, since
    whoever made the token wrote it, and nothing in it may read as a fact.
    """
    is_plain = TICKER.fullmatch(symbol) and symbol.upper() != "SOL"
    return symbol if is_plain else f"“{re.sub('[“”]', '', symbol)}”"


def format_line(kind: str, facts: Mapping[str, Any]) -> str:
    """Return the sentence of a diary line; where its facts are not as they should be, one that
    names its kind only.
    """
    try:
        return _line_of(kind, facts).format(
            **{name: _plain(name, value) for name, value in facts.items()}
        )
    except (KeyError, IndexError):
        return f"A {kind} whose details cannot be read."


def _line_of(kind: str, facts: Mapping[str, Any]) -> str:
    what = f"{kind} {facts.get('what')}"
    keys = f"{what} {facts.get('effect')}", what, kind
    return next(LINES[key] for key in (*keys, "unreadable") if key in LINES)


def _plain(name: str, value: Any) -> Any:
    """Return a code as words, the name of a token as one, any other fact as it is."""
    if name == "symbol" and isinstance(value, str) and value != EVERY_TRADE:
        return quote_symbol(value)
    return (
        value.replace("_", " ")
        if name in ("reason", "rule", "effect", "why") and isinstance(value, str)
        else value
    )


def find_news(kind: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the facts of a line for the voice, or None where it is not worth a post."""
    if facts.get("what") not in NEWS:
        return None
    told = {name: value for name, value in facts.items() if name not in UNPOSTED_FACTS}
    return {**told, "kind": "close" if facts["what"] == "closed" else kind}
