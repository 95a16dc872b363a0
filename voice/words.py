"""The words of the built-in grammar: how each tone sounds, and sentences for each kind of fact.

`voice.builtin` puts them together. Posts are seeded by the order of these lists: to change one is
to change what a replay writes.
"""

from dataclasses import dataclass

DEFAULT_TONE = "plain"


@dataclass(frozen=True)
class Register:
    """How a tone sounds: openings, remarks, and words for them where the persona has none."""

    leads: tuple[str, ...]
    remarks: tuple[str, ...]
    adjectives: tuple[str, ...]
    topics: tuple[str, ...]


REGISTERS = {
    "plain": Register(
        leads=(
            "Update",
            "Today",
            "Right now",
            "Status",
            "Just in",
            "Latest",
            "Here it is",
            "Short note",
        ),
        remarks=(
            "The {topic} looks {adjective} {when}",
            "I keep an eye on the {topic}, it seems {adjective} {when}",
            "A {adjective} {topic} {when}, nothing more",
            "My view of the {topic} {when}: {adjective}",
            "Call the {topic} {adjective} {when}",
            "The {topic} stays {adjective} {when}",
        ),
        adjectives=("steady", "clear", "ordinary", "simple", "even"),
        topics=("market", "chart", "order book", "session", "plan"),
    ),
    "dry": Register(
        leads=(
            "For the record",
            "Noted",
            "As it happens",
            "Ledger entry",
            "Without comment",
            "Filed",
            "Minutes of the desk",
            "In the margin",
        ),
        remarks=(
            "The {topic} remains {adjective} {when}, which surprises nobody",
            "One might call the {topic} {adjective} {when}; one might also not",
            "Somebody will call this {topic} {adjective} {when}",
            "{adjective}, the {topic}, {when}; please remain seated",
            "The {topic} was {adjective} {when}, and nobody sent a memo",
            "I have seen a less {adjective} {topic}, though not {when}",
        ),
        adjectives=("unremarkable", "bureaucratic", "adequate", "dusty", "punctual"),
        topics=("paperwork", "spreadsheet", "procedure", "audit", "footnote"),
    ),
    "cheerful": Register(
        leads=(
            "Hey hey",
            "Good news or not",
            "Guess what",
            "Hello friends",
            "Smile",
            "Oh my",
            "Look at that",
            "Yay or nay",
        ),
        remarks=(
            "What a {adjective} {topic} {when}",
            "Loving this {adjective} {topic} {when}",
            "Who else feels the {adjective} {topic} {when}",
            "My {topic} is so {adjective} {when}",
            "Dancing through a {adjective} {topic} {when}",
            "A big cheer for the {adjective} {topic} {when}",
        ),
        adjectives=("sunny", "sparkling", "bouncy", "lovely", "bright"),
        topics=("adventure", "playground", "picnic", "parade", "garden"),
    ),
    "solemn": Register(
        leads=(
            "Let it be written",
            "With due gravity",
            "Hear this",
            "In all earnest",
            "It is done",
            "So it stands",
            "Before the bell",
            "As was resolved",
        ),
        remarks=(
            "The {topic} asks for patience, {adjective} as it is {when}",
            "Let nobody mock a {adjective} {topic} {when}",
            "A {adjective} {topic} weighs on us {when}",
            "We stand before a {adjective} {topic} {when}",
            "The {topic} is {adjective} {when}, and silence suits it",
            "{adjective} is the {topic} {when}, and long is the road",
        ),
        adjectives=("grave", "austere", "unyielding", "sombre", "ancient"),
        topics=("duty", "vigil", "covenant", "burden", "tide"),
    ),
    "bold": Register(
        leads=(
            "Listen up",
            "No fear",
            "Watch this",
            "Straight in",
            "Make way",
            "Say it loud",
            "Game on",
            "Eyes here",
        ),
        remarks=(
            "This {topic} is {adjective} {when} and I live for it",
            "Bring me a {adjective} {topic} {when}",
            "Nobody tames a {adjective} {topic} {when}",
            "I came for the {adjective} {topic} {when}",
            "Too {adjective} a {topic} for the timid {when}",
            "The {topic} roars, {adjective} {when}",
        ),
        adjectives=("fearless", "wild", "relentless", "roaring", "fierce"),
        topics=("battle", "hunt", "storm", "charge", "arena"),
    ),
    "calm": Register(
        leads=(
            "Breathe",
            "Quietly",
            "No hurry",
            "In its own time",
            "Softly",
            "All is well",
            "Step by step",
            "A quiet moment",
        ),
        remarks=(
            "The {topic} drifts, {adjective} {when}",
            "Let the {adjective} {topic} pass {when}",
            "There is room in a {adjective} {topic} {when}",
            "I rest with the {topic}, {adjective} {when}",
            "A {adjective} {topic} needs no answer {when}",
            "Nothing hurries the {adjective} {topic} {when}",
        ),
        adjectives=("gentle", "slow", "unhurried", "still", "mellow"),
        topics=("river", "breath", "valley", "drift", "evening"),
    ),
}
# Words of the remarks.
WHENS = (
    "today",
    "at this hour",
    "for now",
    "from where I sit",
    "as far as I can see",
    "so far",
    "this time",
    "at the moment",
    "as things are",
    "again",
    "in this market",
    "to my eye",
)
# Words and catchphrases that default personas are made from.
ADJECTIVES_TEXT = (
    "amber brisk crooked drowsy electric foggy glossy hollow icy jagged knotty lunar misty "
    "nimble opaque polished quaint rusty silent tangled upright velvet woolly zesty"
)
ADJECTIVES = tuple(ADJECTIVES_TEXT.split())
TOPICS_TEXT = (
    "anchor bakery compass dynamo engine ferry glacier harbour island juggler kitchen "
    "lantern meadow needle orchard pendulum quarry railway sailboat telescope umbrella "
    "volcano workshop zeppelin"
)
TOPICS = tuple(TOPICS_TEXT.split())
CATCHPHRASES = (
    "measure first, speak later",
    "the tape never sleeps",
    "small steps, open eyes",
    "let the chart cool down",
    "no heroes here",
    "curiosity over conviction",
    "the pool decides",
    "patience is a position",
    "losers teach",
    "write it down",
    "stay liquid",
    "trust the stop",
)
# Clauses by kind of fact, or by kind and `what`.
SPEECH = {
    "buy": (
        "bought {amount} {symbol} for {sol} SOL",
        "put {sol} SOL into {symbol} and hold {amount} more of it",
        "picked up {amount} {symbol}, paid {sol} SOL",
        "{sol} SOL went into {symbol}",
        "opened my hand for {amount} {symbol} at {sol} SOL",
        "traded {sol} SOL for {amount} {symbol}",
        "added {amount} {symbol} at a cost of {sol} SOL",
        "spent {sol} SOL on {symbol}",
    ),
    "sell": (
        "sold {amount} {symbol} for {sol} SOL",
        "let {amount} {symbol} go and took {sol} SOL",
        "turned {amount} {symbol} into {sol} SOL",
        "{sol} SOL came back from {symbol}",
        "parted with {amount} {symbol} for {sol} SOL",
        "closed my hand on {sol} SOL out of {symbol}",
        "handed over {amount} {symbol} at {sol} SOL",
        "cashed {amount} {symbol} for {sol} SOL",
    ),
    "swap": (
        "swapped {fromAmount} {fromSymbol} for {amount} {symbol}",
        "moved from {fromSymbol} to {amount} {symbol}",
        "exchanged {fromAmount} {fromSymbol} and got {amount} {symbol}",
        "left {fromSymbol} for {symbol}, {amount} of it",
        "{fromAmount} {fromSymbol} became {amount} {symbol}",
        "rotated out of {fromSymbol} into {amount} {symbol}",
    ),
    "round_trip": (
        "bought {symbol} and sold it again in one transaction",
        "in and out of {symbol} in one transaction",
        "a round trip in {symbol}",
        "went through {symbol} and kept none of it",
        "crossed {symbol} and came back to SOL at once",
        "took {symbol} on one side and gave it on the other",
    ),
    "fill bought": (
        "bought {amount} {symbol} on paper for {sol} SOL",
        "put {sol} virtual SOL into {symbol}",
        "a simulated buy filled, {amount} {symbol} at {sol} SOL",
        "paper money moved, {sol} SOL into {symbol}",
        "hold {amount} simulated {symbol}, {sol} SOL spent",
        "entered {symbol} in simulation with {sol} SOL",
        "took {amount} {symbol} into the paper book for {sol} SOL",
        "{sol} SOL that exist on paper went into {symbol}",
    ),
    "fill reduced": (
        "sold {amount} {symbol} on paper for {sol} SOL and keep the rest",
        "took {sol} virtual SOL off {symbol}",
        "a simulated sale filled, {amount} {symbol} for {sol} SOL, the rest stays",
        "trimmed the paper {symbol} by {amount}",
        "made the simulated {symbol} smaller, {sol} SOL came back",
        "part of the paper {symbol} is now {sol} SOL",
        "lightened {symbol} in simulation by {amount}",
        "{sol} SOL on paper came home from {symbol}",
    ),
    "close": (
        "closed {symbol} on paper",
        "the simulated {symbol} is closed",
        "out of {symbol}, in simulation",
        "the paper book no longer holds {symbol}",
        "ended the virtual {symbol}",
        "let the simulated {symbol} go",
        "wrote the last line of {symbol} on paper",
        "left {symbol} with virtual hands",
    ),
    "refusal": (
        "passed on {symbol} in simulation, {detail}",
        "no paper entry into {symbol}, {detail}",
        "kept virtual hands off {symbol}, {detail}",
        "{symbol} tempted the simulation, but {detail}",
        "the paper book says no to {symbol}, {detail}",
        "stayed out of the simulated {symbol}, {detail}",
    ),
    "pause begun": (
        "pausing on paper, {numbers}",
        "the simulation steps back, {numbers}",
        "fewer virtual entries for a while, {numbers}",
        "the paper book takes a break, {numbers}",
        "holding simulated entries back, {numbers}",
        "virtual brakes on, {numbers}",
    ),
    "pause observed": (
        "would pause on paper if I were told to, {numbers}",
        "the simulation notes a reason to slow down, {numbers}",
        "a virtual brake stays untouched, {numbers}",
        "only watching, the paper book would step back, {numbers}",
        "no simulated pause yet, though {numbers}",
        "a paper warning to myself, {numbers}",
    ),
    "pause ended": (
        "the simulated pause is over",
        "paper entries are open again",
        "virtual brakes off",
        "the simulation moves on",
        "the paper book is back at work",
        "done pausing in simulation",
    ),
    "pause would_have": (
        "looked back on a paper pause that was never applied",
        "the simulated pause I only watched has run out",
        "a virtual pause ended on the drawing board",
        "the paper book closes a what-if",
        "that untouched virtual brake has expired",
        "a simulated maybe has come to its end",
    ),
    "lesson": (
        "counted my paper closes, {text}",
        "the simulation left a number behind, {text}",
        "a virtual lesson, {text}",
        "from the paper book, {text}",
        "simulated, counted, written down, {text}",
        "what paper taught me, {text}",
    ),
    "phase guarded": (
        "back to a guarded start on paper, {why}",
        "the simulation goes guarded, {why}",
        "smaller virtual steps again, {why}",
        "the paper book is on guard, {why}",
        "guarded in simulation from here, {why}",
        "virtual size comes down, {why}",
    ),
    "phase standard": (
        "guarded start is over on paper, {why}",
        "the simulation leaves its guard, {why}",
        "full virtual size from here, {why}",
        "the paper book is off guard, {why}",
        "standard simulation from here, {why}",
        "the guarded paper days are done, {why}",
    ),
    "review": (
        "my paper record is under review, {detail}",
        "the simulation is being looked into, {detail}",
        "please ignore my virtual results for now, {detail}",
        "a review of the paper book is open, {detail}",
        "simulated figures on hold, {detail}",
        "the virtual headline is gone for now, {detail}",
    ),
}
# Clauses about a result, by its sign.
RESULTS = {
    "won": (
        "{result} SOL to the good",
        "a gain of {result} SOL",
        "up {result} SOL",
        "{result} SOL better off",
        "earned {result} SOL",
        "plus {result} SOL",
    ),
    "lost": (
        "{result} SOL gone",
        "a loss of {result} SOL",
        "down {result} SOL",
        "{result} SOL worse off",
        "it cost {result} SOL",
        "minus {result} SOL",
    ),
    "even": ("no gain and no loss", "even in the end", "nothing won and nothing lost"),
}
# Clauses about why a trader entered or left.
REASONS = {
    "momentum": ("the price and its volume were rising", "following the rise", "strength called"),
    "mean_reversion": (
        "it fell far under its mean",
        "expecting its mean again",
        "the fall looked overdone",
    ),
    "breakout": ("it broke out of its range", "a new high on heavy volume", "the range gave way"),
    "new_discovery": (
        "freshly discovered and already loud",
        "a newcomer with volume",
        "the scout had just found it",
    ),
    "flow": (
        "observed wallets were buying",
        "following observed wallets",
        "several owners bought it",
    ),
    "trailing_stop": (
        "the trailing stop was hit",
        "it gave back too much",
        "the stop came along and fired",
    ),
    "stop": ("the stop was hit", "the stop said so", "it fell to the stop"),
    "time_stop": ("time ran out", "it took too long", "the time stop fired"),
    "mean_reached": ("it came back to its mean", "the mean was reached", "home at the mean"),
    "take_profit": ("some profit is off the table", "profit target reached", "taking a part early"),
    "they_sell": (
        "the observed wallets are selling",
        "those I followed left",
        "observed wallets went first",
    ),
    "price_gone": (
        "its price is gone",
        "nobody quoted it for a day",
        "there was no price left to sell at",
    ),
    "liquidity_gone": (
        "its liquidity is gone",
        "the pool was emptied",
        "nothing was left in the pool",
    ),
}
# Remarks that quote a catchphrase.
QUOTES = (
    "“{catchphrase}”, {when}",
    "As I say {when}: {catchphrase}",
    "{catchphrase}, {when}",
    "Still true {when}: {catchphrase}",
)
