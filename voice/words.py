"""Sentences for each event, in any tone, and the words for results and reasons. Optional clauses
are in `voice/clauses.toml`.

`voice.builtin` combines them. Posts are seeded by the order of these lists, so changing a list
changes later posts, but not existing ones.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources

DEFAULT_TONE = "plain"
# The clauses of a tone, by event.
Clauses = Mapping[str, Sequence[str]]
TONES: dict[str, Clauses] = tomllib.loads(
    resources.files("voice").joinpath("clauses.toml").read_text("utf-8")
)


# Sentences by kind of fact, or by kind and `what`, without a period. A write-off is a close without
# proceeds. Any sentence whose facts are all known may be picked; the last one needs the fewest and
# is the fallback.
SPEECH = {
    "buy": (
        "Bought {amount} {symbol} for {paid} {currency}",
        "Picked up {amount} {symbol} for {paid} {currency}",
        "In {symbol}: {amount} for {paid} {currency}",
        "{paid} {currency} into {symbol}, for {amount}",
        "Took {amount} {symbol} for {paid} {currency}",
        "Opened {symbol}, {amount} for {paid} {currency}",
        "Entry in {symbol}: {paid} {currency}, {amount} received",
        "Long {symbol}: {paid} {currency} for {amount}",
        "Added {amount} {symbol} for {paid} {currency}",
        "Bought into {symbol}, {amount} for {paid} {currency}",
        "Bought {symbol}",
    ),
    "sell": (
        "Sold {amount} {symbol} for {paid} {currency}",
        "Let go of {amount} {symbol} for {paid} {currency}",
        "Out of {amount} {symbol} for {paid} {currency}",
        "{amount} {symbol} sold for {paid} {currency}",
        "Took {paid} {currency} for {amount} {symbol}",
        "Exit from {symbol}: {amount} for {paid} {currency}",
        "Parted with {amount} {symbol} for {paid} {currency}",
        "{paid} {currency} back from {symbol}, for {amount}",
        "Cashed {amount} {symbol} for {paid} {currency}",
        "A sale in {symbol}: {amount} for {paid} {currency}",
        "Sold {symbol}",
    ),
    "swap": (
        "Swapped {fromAmount} {fromSymbol} for {amount} {symbol}",
        "Traded {fromAmount} {fromSymbol} for {amount} {symbol}",
        "Swapped into {symbol}",
    ),
    "round_trip": (
        "Bought and sold {symbol} in the same transaction",
        "In and out of {symbol} in a single transaction",
        "Bought and sold {symbol} in one go",
    ),
    "fill bought": (
        "Bought {amount} {symbol} for {sol} SOL on paper",
        "Picked up {amount} {symbol} for {sol} SOL on paper",
        "In {symbol} on paper: {amount} for {sol} SOL",
        "Paper buy: {amount} {symbol} for {sol} SOL",
        "Opened {symbol} on paper, {amount} for {sol} SOL",
        "{sol} SOL into {symbol} on paper, for {amount}",
        "New paper position: {amount} {symbol} for {sol} SOL",
        "Long {symbol} on paper: {sol} SOL for {amount}",
        "Took {amount} {symbol} on paper for {sol} SOL",
        "Paper entry in {symbol}: {sol} SOL, {amount} received",
        "Bought {symbol} on paper",
    ),
    "fill reduced": (
        "Sold some {symbol} on paper: {amount} for {sol} SOL",
        "Trimmed {symbol} on paper: {amount} sold for {sol} SOL",
        "Part of {symbol} sold on paper, {amount} for {sol} SOL",
        "{sol} SOL back from {symbol} on paper, for {amount}",
        "Lighter in {symbol} on paper: {amount} for {sol} SOL",
        "Sold some {symbol} on paper",
    ),
    "close": (
        "Sold {amount} {symbol} for {sol} SOL on paper",
        "Out of {symbol} on paper: {amount} sold for {sol} SOL",
        "Closed {symbol} on paper, {amount} for {sol} SOL",
        "Paper exit from {symbol}: {amount} sold for {sol} SOL",
        "Done with {symbol} on paper: {amount} for {sol} SOL",
        "{symbol} is sold on paper: {amount} for {sol} SOL",
        "Left {symbol} on paper, {sol} SOL for {amount}",
        "Paper position in {symbol} closed: {sol} SOL for {amount}",
        "Exited {symbol} on paper, {amount} for {sol} SOL",
        "No more {symbol} on paper: {amount} sold for {sol} SOL",
        "Closed {symbol} on paper",
    ),
    "write-off": (
        "Wrote off {amount} {symbol} on paper",
        "Closed {symbol} on paper for nothing",
        "Wrote off {symbol} on paper",
    ),
    "refusal": (
        "Passed on {symbol} on paper: {detail}",
        "Skipped {symbol} on paper: {detail}",
        "Passed on {symbol} on paper",
    ),
    "pause begun": (
        "Paused on paper: {numbers}",
        "Taking a break on paper: {numbers}",
        "Paused on paper",
    ),
    "pause begun pause_mint": (
        "No more entries in one token on paper for now: {numbers}",
        "One token is off my paper list for now: {numbers}",
        "No more entries in one token on paper for now",
    ),
    "pause begun half_size": (
        "Half the size on paper for now: {numbers}",
        "Cutting my paper entries to half the size: {numbers}",
        "Half the size on paper for now",
    ),
    "pause begun long_cooldown": (
        "Waiting longer before I buy a token again on paper: {numbers}",
        "Longer waits between paper trades in a token: {numbers}",
        "Waiting longer before I buy a token again on paper",
    ),
    "pause observed": (
        "Would have paused on paper: {numbers}",
        "A reason to pause on paper, only noted: {numbers}",
        "Would have paused on paper",
    ),
    "pause ended": ("The pause on paper is over", "Done pausing on paper"),
    "pause would_have": (
        "The paper pause that was only noted would be over by now",
        "A paper pause that was never applied has run out",
    ),
    "lesson": (
        "Counted on paper: {text}",
        "From my paper trades: {text}",
        "Counted my paper trades",
    ),
    "phase guarded": (
        "Back to Guarded Start on paper: {why}",
        "Guarded Start again on paper: {why}",
        "Back to Guarded Start on paper",
    ),
    "phase standard": (
        "Guarded Start is over on paper: {why}",
        "Done with Guarded Start on paper: {why}",
        "Guarded Start is over on paper",
    ),
    "review": (
        "My paper record is under review: {detail}",
        "A review of my paper record is open: {detail}",
        "My paper record is under review",
    ),
}
# Sentences about a result, by its sign. The share follows if it is known.
RESULTS = {
    "gain": ("Up {result} {currency}", "A gain of {result} {currency}"),
    "loss": ("Down {result} {currency}", "A loss of {result} {currency}"),
    "even": ("Flat", "Even to the last digit"),
}
# A purchase's risk, if known.
PLANS = (
    "Stop {stopPct}% below the entry, {sharePct}% of the account",
    "{sharePct}% of the account, with a stop {stopPct}% lower",
    "The stop is {stopPct}% below, the size {sharePct}% of the account",
)
# Why a trader entered or left, as the end of a sentence. They don't claim that it turned out well.
REASONS = {
    "momentum": "on momentum",
    "mean_reversion": "far below its mean",
    "breakout": "on a breakout",
    "new_pair": "as a new token with volume",
    "flow": "after tracked wallets bought",
    "trailing_stop": "on the trailing stop",
    "stop": "on the stop",
    "time_stop": "on the time stop",
    "mean_reached": "back at its mean",
    "take_profit": "at the target price",
    "they_sell": "after tracked wallets sold",
    "copy": "after the bot I copy bought",
    "bot_sold": "after the bot I copy sold",
    "price_gone": "with no price left to sell at",
    "liquidity_gone": "with its liquidity gone",
}
# Lines that default personas say occasionally.
CATCHPHRASES = (
    "Measure first, speak later.",
    "The tape never sleeps.",
    "Small steps, open eyes.",
    "Let the chart cool down.",
    "No heroes here.",
    "Curiosity over conviction.",
    "The pool decides.",
    "Patience is a position.",
    "Losers teach.",
    "Write it down.",
    "Stay liquid.",
    "Trust the stop.",
)
