"""The steps of a run, drawn from a seed before it starts, so that a prefix or a subset can be
replayed.
"""

from typing import Any, NamedTuple

YEAR = 365 * 86_400
FAULTS = ("withhold", "drop", "forge", "unindex", "fail", "lag", "slow", "forget")
CLOCK_STEPS = (-3, -3_600, -YEAR, 5, 3_600, 86_400, YEAR)

BEHAVIORS = ("well", "well", "down", "busy", "lost")


class Step(NamedTuple):
    """A verb of World, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self):
        return f"{self.name}({', '.join(map(str, self.arguments))})"


def draw_steps(dice, count):
    """This many steps. Numbers of posts, transactions and nodes are taken modulo their counts."""
    names = list(WEIGHTS)
    chosen = dice.choices(names, [WEIGHTS[name] for name in names], k=count)
    return [Step(name, DRAWS.get(name, _nothing)(dice)) for name in chosen]


def _nothing(dice):
    return ()


def _place(dice):
    """A number counted from the newest, so that most steps concern the same few items."""
    return dice.choice((0, 0, 1, 2, dice.randrange(100)))


def _draw_post(dice):
    """A bot, its citation (none, a transaction, or an invented one), and the token."""
    about = dice.choice((None, "row", "row", "row", "row", "nowhere"))
    return dice.randrange(3), about, _place(dice), dice.choice((None, None, "CAT", "FOX"))


def _draw_fault(dice):
    """Node (2: both), fault, and its target."""
    return dice.randrange(3), dice.choice(FAULTS), _place(dice)


def _draw_beside(dice):
    """The next requests to nodes during which somebody acts: first, count, and the action."""
    name = dice.choice(("post", "post", "hide", "follow", "read"))
    step = Step(name, DRAWS.get(name, _nothing)(dice))
    return dice.randrange(1, 5), dice.randint(1, 4), step


def _draw_moves(dice):
    """(Token, percent of the last price, SOL in its pool or None) of some rounds of one token."""
    percents, weights = (106, 110, 97, 80, 1_500, 10_000, 1), (8, 4, 2, 1, 4, 1, 1)
    mint = dice.choice(("Coin", "Whole"))
    return tuple(
        (mint, dice.choices(percents, weights)[0], dice.choice((*[None] * 8, 20, 0.3)))
        for _ in range(dice.randint(4, 7))
    )


WEIGHTS = {
    "look": 20,
    "post": 14,
    "grow": 8,
    "beside": 8,
    "fault": 6,
    "repeat": 5,
    "follow": 5,
    "heal": 4,
    "restart": 4,
    "kill": 4,
    "hide": 2,
    "wait": 3,
    "set_clock": 2,
    "read": 2,
    "spoil": 5,
    "rebuild": 1,
    "ring": 6,
    "trade": 4,
    "deliver": 6,
    "attach": 2,
    "detach": 1,
    "join": 6,
    "leave": 3,
}
DRAWS = {
    "look": lambda dice: (dice.choice((1, 1, 2)),),
    "post": _draw_post,
    "grow": lambda dice: (dice.randint(1, 4),),
    "beside": _draw_beside,
    "fault": _draw_fault,
    "repeat": lambda dice: (_place(dice), dice.random() < 0.25),
    "follow": lambda dice: (dice.choice((1, 2, 50)),),
    "kill": lambda dice: (dice.randint(1, 6),),
    "hide": lambda dice: (_place(dice),),
    "wait": lambda dice: (dice.choice((60, 600, 4_000, 90_000)),),
    "set_clock": lambda dice: (dice.choice(CLOCK_STEPS),),
    "read": lambda dice: (_place(dice),),
    "ring": lambda dice: (_place(dice),),
    "trade": _draw_moves,
    "deliver": lambda dice: (dice.randint(1, 3), dice.choice(BEHAVIORS)),
    "attach": lambda dice: (dice.randrange(3), dice.randrange(2)),
    "detach": lambda dice: (dice.randrange(3),),
    "join": lambda dice: (dice.randrange(3), dice.randrange(2)),
    "leave": lambda dice: (dice.randrange(2),),
    "spoil": lambda dice: (_place(dice), dice.random() < 0.7, dice.random() < 0.6),
}
