"""The lines of a trader's diary as sentences, and which of them are worth a post. Pure."""

UNSPEAKABLE = {"code", "marks", "id", "ends", "key", "windowMs", "closeIds", "expiresAt", "until", "n", "effect", "side", "slippageSol", "feesSol"}
NEWS = {"bought", "reduced", "closed", "begun", "lesson", "guarded", "standard", "under_review"}

LINES = {
    "decision buy": "Decided to buy {symbol} for {sol} SOL: {detail}.",
    "decision sell": "Decided to sell {amount} {symbol}: {detail}.",
    "fill bought": "Bought {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}.",
    "fill reduced": "Sold {amount} {symbol} for {sol} SOL, fees {feesSol}, slippage {slippageSol}.",
    "fill closed": "Closed {symbol} for {sol} SOL ({reason}): {resultSol} SOL net, {returnPct} %.",
    "fill failed": "An attempt in {symbol} failed and cost {feesSol} SOL.",
    "fill not_filled": "The order in {symbol} was not filled: {why}.",
    "refusal": "Refused {symbol}: {detail}.",
    "pause begun": "Paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause observed": "Would have paused ({rule}, {effect}): {numbers}; {n} closes counted.",
    "pause ended": "The pause ({rule}, {effect}) is over; {n} positions opened in it were closed, together {resultSol} SOL.",
    "pause would_have": "The pause that was not applied ({rule}, {effect}) would have kept out {n} positions that were closed since, together {resultSol} SOL.",
    "lesson lesson": "{text}",
    "review under_review": "Under review: {detail}.",
    "review cleared": "The review was cleared: {detail}.",
    "review upheld": "The review was upheld: {detail}.",
    "phase guarded": "Back to Guarded Start: {why}.",
    "phase standard": "Guarded Start is over: {why}.",
    "phase reset": "A new account period begins: {why}.",
}


def tell(kind, facts):
    """The line of one diary entry."""
    line = LINES.get(kind) or LINES[f"{kind} {facts['what']}"]
    return line.format(**{name: value.replace("_", " ") if name in ("reason", "rule", "effect", "why") else value for name, value in facts.items()})


def find_news(kind, facts):
    """What the persona may speak of, as facts for the voice, or None where the line is no news."""
    if facts.get("what") not in NEWS:
        return None
    spoken = {name: value for name, value in facts.items() if name not in UNSPEAKABLE}
    return {**spoken, "kind": "close" if facts["what"] == "closed" else kind}
