"""A persona's sentences from facts: a seeded grammar, built in. Pure: the same persona, facts, seed
and recent posts give the same words.

`facts` is a flat dict of display texts with a `kind`; a fact that is missing or None is not spoken
of:
    buy, sell           symbol amount sol [resultSol]
    swap                fromSymbol fromAmount symbol amount
    fill                paper: what (bought | reduced) symbol amount sol reason
    close               paper: symbol resultSol returnPct reason
    refusal             paper: symbol detail
    pause               paper: rule numbers what (begun | observed | ended | would_have)
    lesson              paper: text
    phase               paper: what (guarded | standard) why
    review              paper: detail
Paper posts say in their words that they are simulated. No number stands in a text that is not in
its facts: see find_foreign_numbers.
"""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

DEFAULT_TONE = "plain"
# hostile text: repeated as it is, never a source of numbers
NAMES = ("symbol", "fromSymbol")
MAX_NAME = 24
TRIES = 40


# ---- the words -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Register:
    """How a tone sounds: how it begins, what it remarks, and the words it remarks with where the
    persona has none of its own.
    """

    leads: tuple
    remarks: tuple
    adjectives: tuple
    topics: tuple


REGISTERS = {
    "plain": Register(
        ("Update", "Today", "Right now", "Status", "Just in", "Latest", "Here it is", "Short note"),
        (
            "The {topic} looks {adjective} {when}",
            "I keep an eye on the {topic}, it seems {adjective} {when}",
            "A {adjective} {topic} {when}, nothing more",
            "My view of the {topic} {when}: {adjective}",
            "Call the {topic} {adjective} {when}",
            "The {topic} stays {adjective} {when}",
        ),
        ("steady", "clear", "ordinary", "simple", "even"),
        ("market", "chart", "order book", "session", "plan"),
    ),
    "dry": Register(
        (
            "For the record",
            "Noted",
            "As it happens",
            "Ledger entry",
            "Without comment",
            "Filed",
            "Minutes of the desk",
            "In the margin",
        ),
        (
            "The {topic} remains {adjective} {when}, which surprises nobody",
            "One might call the {topic} {adjective} {when}; one might also not",
            "Somebody will call this {topic} {adjective} {when}",
            "{adjective}, the {topic}, {when}; please remain seated",
            "The {topic} was {adjective} {when}, and nobody sent a memo",
            "I have seen a less {adjective} {topic}, though not {when}",
        ),
        ("unremarkable", "bureaucratic", "adequate", "dusty", "punctual"),
        ("paperwork", "spreadsheet", "procedure", "audit", "footnote"),
    ),
    "cheerful": Register(
        (
            "Hey hey",
            "Good news or not",
            "Guess what",
            "Hello friends",
            "Smile",
            "Oh my",
            "Look at that",
            "Yay or nay",
        ),
        (
            "What a {adjective} {topic} {when}",
            "Loving this {adjective} {topic} {when}",
            "Who else feels the {adjective} {topic} {when}",
            "My {topic} is so {adjective} {when}",
            "Dancing through a {adjective} {topic} {when}",
            "A big cheer for the {adjective} {topic} {when}",
        ),
        ("sunny", "sparkling", "bouncy", "lovely", "bright"),
        ("adventure", "playground", "picnic", "parade", "garden"),
    ),
    "solemn": Register(
        (
            "Let it be written",
            "With due gravity",
            "Hear this",
            "In all earnest",
            "It is done",
            "So it stands",
            "Before the bell",
            "As was resolved",
        ),
        (
            "The {topic} asks for patience, {adjective} as it is {when}",
            "Let nobody mock a {adjective} {topic} {when}",
            "A {adjective} {topic} weighs on us {when}",
            "We stand before a {adjective} {topic} {when}",
            "The {topic} is {adjective} {when}, and silence suits it",
            "{adjective} is the {topic} {when}, and long is the road",
        ),
        ("grave", "austere", "unyielding", "sombre", "ancient"),
        ("duty", "vigil", "covenant", "burden", "tide"),
    ),
    "bold": Register(
        (
            "Listen up",
            "No fear",
            "Watch this",
            "Straight in",
            "Make way",
            "Say it loud",
            "Game on",
            "Eyes here",
        ),
        (
            "This {topic} is {adjective} {when} and I live for it",
            "Bring me a {adjective} {topic} {when}",
            "Nobody tames a {adjective} {topic} {when}",
            "I came for the {adjective} {topic} {when}",
            "Too {adjective} a {topic} for the timid {when}",
            "The {topic} roars, {adjective} {when}",
        ),
        ("fearless", "wild", "relentless", "roaring", "fierce"),
        ("battle", "hunt", "storm", "charge", "arena"),
    ),
    "calm": Register(
        (
            "Breathe",
            "Quietly",
            "No hurry",
            "In its own time",
            "Softly",
            "All is well",
            "Step by step",
            "A quiet moment",
        ),
        (
            "The {topic} drifts, {adjective} {when}",
            "Let the {adjective} {topic} pass {when}",
            "There is room in a {adjective} {topic} {when}",
            "I rest with the {topic}, {adjective} {when}",
            "A {adjective} {topic} needs no answer {when}",
            "Nothing hurries the {adjective} {topic} {when}",
        ),
        ("gentle", "slow", "unhurried", "still", "mellow"),
        ("river", "breath", "valley", "drift", "evening"),
    ),
}
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

ADJECTIVES = (
    "amber",
    "brisk",
    "crooked",
    "drowsy",
    "electric",
    "foggy",
    "glossy",
    "hollow",
    "icy",
    "jagged",
    "knotty",
    "lunar",
    "misty",
    "nimble",
    "opaque",
    "polished",
    "quaint",
    "rusty",
    "silent",
    "tangled",
    "upright",
    "velvet",
    "woolly",
    "zesty",
)
TOPICS = (
    "anchor",
    "bakery",
    "compass",
    "dynamo",
    "engine",
    "ferry",
    "glacier",
    "harbour",
    "island",
    "juggler",
    "kitchen",
    "lantern",
    "meadow",
    "needle",
    "orchard",
    "pendulum",
    "quarry",
    "railway",
    "sailboat",
    "telescope",
    "umbrella",
    "volcano",
    "workshop",
    "zeppelin",
)
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
QUOTES = (
    "“{catchphrase}”, {when}",
    "As I say {when}: {catchphrase}",
    "{catchphrase}, {when}",
    "Still true {when}: {catchphrase}",
)


# ---- speaking ------------------------------------------------------------------------------------
class Picker:
    """Choices from a seed, the same on every machine and Python."""

    def __init__(self, seed):
        self.seed, self.count = seed if isinstance(seed, bytes) else str(seed).encode(), 0

    def below(self, size):
        self.count += 1
        return int.from_bytes(hashlib.sha256(self.seed + b"|%d" % self.count).digest()[:8]) % size

    def one(self, options):
        return options[self.below(len(options))]


def write(persona, facts, seed, recent=()):
    """A post of one or two sentences, none of which stands in the `recent` posts (newest last; the
    last twenty count).
    """
    picker, register = Picker(seed), register_of(persona)
    facts = {
        name: _name(value) if name in NAMES else value
        for name, value in facts.items()
        if value is not None
    }
    said = {sentence for post in recent[-20:] for sentence in split_sentences(post)}
    report = _fresh(lambda: _report(picker, register, facts), said)
    remark = (
        _fresh(lambda: _remark(picker, register, persona), said)
        if "terse" not in persona.get("style", ())
        else None
    )
    return _decorate(picker, persona, [one for one in (report, remark) if one])


def register_of(persona):
    """The register of the persona's tone; a tone of the owner's own gets one of them for good."""
    tone = (persona.get("tone") or DEFAULT_TONE).strip().lower()
    return REGISTERS.get(tone) or REGISTERS[Picker(tone).one(sorted(REGISTERS))]


def split_sentences(post):
    """The sentences of a post as they are compared: letters and figures only."""
    parts = re.split(r"(?<=[.!?])\s+|\n", post)
    return [words for part in parts if (words := " ".join(re.findall(r"[\w.%-]*\w", part.lower())))]


def _fresh(make, said):
    """A sentence that was not said lately; the last try where the grammar has run out."""
    for _ in range(TRIES):
        sentence = make()
        if not set(split_sentences(sentence)) & said:
            break
    return sentence


def _report(picker, register, facts):
    """What happened, in one sentence."""
    clauses = [clause for clause in SPEECH[_bank(facts)] if _can_say(clause, facts)] or [
        "{symbol} moved"
    ]
    parts = [picker.one(clauses).format(**facts)]
    if facts.get("resultSol") is not None:
        parts.append(_result(picker, facts["resultSol"]))
    if facts.get("reason") in REASONS:
        parts.append(picker.one(REASONS[facts["reason"]]))
    clause = ", ".join(part.rstrip(".") for part in parts)
    return f"{picker.one(register.leads)}: {clause}."


def _bank(facts):
    kind = facts["kind"]
    return kind if kind in SPEECH else f"{kind} {facts['what']}"


def _can_say(clause, facts):
    return all(name in facts for name in re.findall(r"\{(\w+)\}", clause))


def _result(picker, text):
    sign = "even" if not Decimal(text) else "lost" if text.startswith("-") else "won"
    return picker.one(RESULTS[sign]).format(result=text.lstrip("-"))


def _remark(picker, register, persona):
    """What this persona would say besides, in words of its own."""
    phrases = _words(persona, "catchphrases")
    form = picker.one(QUOTES) if phrases and picker.below(4) == 0 else picker.one(register.remarks)
    said = form.format(
        adjective=picker.one(_words(persona, "adjectives") or register.adjectives),
        topic=picker.one(_words(persona, "topics") or register.topics),
        catchphrase=picker.one(phrases or ("",)).rstrip(".!?"),
        when=picker.one(WHENS),
    )
    said = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", said)
    return said[:1].upper() + said[1:] + "."


def _words(persona, name):
    """The persona's own words, without those that speak of a number."""
    return tuple(
        word
        for word in persona.get(name) or ()
        if word.strip() and not find_foreign_numbers(word, {})
    )


def _decorate(picker, persona, sentences):
    """The emoji stands inside the last sentence: alone it would be a sentence that repeats."""
    emoji = [one for one in persona.get("emoji") or "" if unicodedata.category(one) == "So"]
    if emoji and picker.below(3):
        sentences[-1] = f"{sentences[-1][:-1]} {picker.one(emoji)}."
    return " ".join(sentences)


def _name(text):
    """A token's name as one short run of text."""
    return " ".join(text.split())[:MAX_NAME].strip(" .!?") or "a token without a name"


def default_persona(seed):
    """A persona for who has not chosen one: tone and words by seed."""
    picker = Picker(seed)
    first, second = picker.below(len(ADJECTIVES)), picker.below(len(TOPICS))
    return {
        "tone": picker.one(sorted(REGISTERS)),
        "style": [],
        "adjectives": [ADJECTIVES[first], ADJECTIVES[first - 1]],
        "topics": [TOPICS[second], TOPICS[second - 1]],
        "catchphrases": [picker.one(CATCHPHRASES)],
        "emoji": picker.one(("", "🦊", "🐢", "🌊", "🔭", "🎲", "🪁", "🦉", "🌵")),
    }


# ---- numbers -------------------------------------------------------------------------------------
NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w])")
COUNTS = {
    word: Decimal(value)
    for value, word in enumerate(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
        " sixteen seventeen eighteen nineteen twenty".split(),
        2,
    )
}
COUNTS |= {
    word: Decimal(value)
    for word, value in (
        ("zero", 0),
        ("thirty", 30),
        ("forty", 40),
        ("fifty", 50),
        ("sixty", 60),
        ("seventy", 70),
        ("eighty", 80),
        ("ninety", 90),
        ("hundred", 100),
        ("thousand", 1000),
    )
}
VAGUE_COUNTS = {
    "half",
    "double",
    "doubled",
    "doubling",
    "twice",
    "thrice",
    "triple",
    "tripled",
    "quarter",
    "dozen",
    "dozens",
    "hundreds",
    "thousands",
    "million",
    "millions",
    "billion",
    "billions",
    "trillion",
    "trillions",
    "tenfold",
    "hundredfold",
}


def find_foreign_numbers(text, facts):
    """The numbers of a text, in figures or words, that are none of its facts; names among the facts
    may be repeated but lend no number.

    Signs are not compared, thousands may be grouped. Figures stuck to letters (3x, 5k, 1e9) are
    foreign whatever the facts say.
    """
    text = unicodedata.normalize("NFKC", text)
    for name in NAMES:
        if facts.get(name):
            text = re.sub(
                rf"(?<!\w){re.escape(unicodedata.normalize('NFKC', _name(facts[name])))}(?![\w%])",
                " ",
                text,
            )
    known = {
        number
        for name, value in facts.items()
        if name not in NAMES
        for number in _numbers_in(value)
    }
    found = [(match[0], Decimal(match[0].replace(",", ""))) for match in NUMBER.finditer(text)]
    rest = NUMBER.sub(" ", text)
    stuck = re.findall(r"\S*\d\S*", rest) + [
        one for one in rest if one.isnumeric() and not one.isdigit()
    ]
    words = re.findall(r"[a-z]+", rest.lower())
    return (
        [shown for shown, value in found if value not in known]
        + stuck
        + [
            word
            for word in words
            if word in VAGUE_COUNTS or COUNTS.get(word, None) not in known | {None}
        ]
    )


def _numbers_in(value):
    if isinstance(value, (list, tuple)):
        return {number for one in value for number in _numbers_in(one)}
    return {
        Decimal(match[0].replace(",", ""))
        for match in NUMBER.finditer(unicodedata.normalize("NFKC", str(value)))
    }
