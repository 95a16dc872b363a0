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
    weights = [weight for weight, _ in VERBS.values()]
    return [_draw_step(dice, verb) for verb in dice.choices(list(VERBS), weights, k=count)]


def _draw_step(dice, verb):
    _, draw = VERBS[verb]
    return Step(verb, draw(dice))


def _nothing(dice):
    return ()


def _place(dice):
    """A number counted from the newest, so that most steps concern the same few items."""
    return dice.choice((0, 0, 1, 2, dice.randrange(100)))


def _draw_place(dice):
    return (_place(dice),)


def _draw_post(dice):
    """A bot, its citation (none, a transaction, or an invented one), and the token."""
    about = dice.choice((None, "row", "row", "row", "row", "nowhere"))
    return dice.randrange(3), about, _place(dice), dice.choice((None, None, "CAT", "FOX"))


def _draw_fault(dice):
    """Node (2: both), fault, and its target."""
    return dice.randrange(3), dice.choice(FAULTS), _place(dice)


def _draw_beside(dice):
    """The next requests to nodes during which somebody acts: first, count, and the action."""
    step = _draw_step(dice, dice.choice(("post", "post", "hide", "follow", "read")))
    return dice.randrange(1, 5), dice.randint(1, 4), step


def _draw_moves(dice):
    """(Token, percent of the last price, SOL in its pool or None) of some rounds of one token."""
    percents, weights = (106, 110, 97, 80, 1_500, 10_000, 1), (8, 4, 2, 1, 4, 1, 1)
    mint = dice.choice(("Coin", "Whole"))
    return tuple(
        (mint, dice.choices(percents, weights)[0], dice.choice((*[None] * 8, 20, 0.3)))
        for _ in range(dice.randint(4, 7))
    )


# The weight of each verb, and its arguments.
VERBS = {
    "look": (20, lambda dice: (dice.choice((1, 1, 2)),)),
    "post": (14, _draw_post),
    "grow": (8, lambda dice: (dice.randint(1, 4),)),
    "beside": (8, _draw_beside),
    "fault": (6, _draw_fault),
    "repeat": (5, lambda dice: (_place(dice), dice.random() < 0.25)),
    "follow": (5, lambda dice: (dice.choice((1, 2, 50)),)),
    "heal": (4, _nothing),
    "restart": (4, _nothing),
    "kill": (4, lambda dice: (dice.randint(1, 6),)),
    "hide": (2, _draw_place),
    "wait": (3, lambda dice: (dice.choice((60, 600, 4_000, 90_000)),)),
    "set_clock": (2, lambda dice: (dice.choice(CLOCK_STEPS),)),
    "read": (2, _draw_place),
    "spoil": (5, lambda dice: (_place(dice), dice.random() < 0.7, dice.random() < 0.6)),
    "rebuild": (1, _nothing),
    "ring": (6, _draw_place),
    "trade": (4, _draw_moves),
    "deliver": (6, lambda dice: (dice.randint(1, 3), dice.choice(BEHAVIORS))),
    "attach": (2, lambda dice: (dice.randrange(3), dice.randrange(2))),
    "detach": (1, lambda dice: (dice.randrange(3),)),
    "join": (6, lambda dice: (dice.randrange(3), dice.randrange(2))),
    "leave": (3, lambda dice: (dice.randrange(2),)),
}
