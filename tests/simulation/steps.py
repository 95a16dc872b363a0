"""What is done to an instance, drawn from a seed before anything happens: a prefix of the steps, or
some of them, can be played again.
"""

from typing import Any, NamedTuple

YEAR = 365 * 86_400
FAULTS = ("withhold", "drop", "forge", "unindex", "fail", "lag", "slow", "forget")
SETTINGS_BACK = (-3, -3_600, -YEAR, 5, 3_600, 86_400, YEAR)


class Step(NamedTuple):
    """A verb of World, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self):
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


def draw_steps(dice, count):
    """So many steps. Numbers of posts, transactions and nodes are taken modulo what there is."""
    names = list(WEIGHTS)
    chosen = dice.choices(names, [WEIGHTS[name] for name in names], k=count)
    return [Step(name, DRAWS.get(name, _nothing)(dice)) for name in chosen]


def _nothing(dice):
    return ()


def _place(dice):
    return dice.randrange(1_000)


def _draw_post(dice):
    """Bot, what it names: nothing, a transaction, or one that never was; and which token."""
    about = dice.choice((None, "row", "row", "row", "nowhere"))
    return dice.randrange(3), about, _place(dice), dice.choice((None, None, "CAT", "FOX"))


def _draw_fault(dice):
    """Node, fault, and where it strikes."""
    return dice.randrange(2), dice.choice(FAULTS), _place(dice)


def _draw_beside(dice):
    """At which of the next requests to a node, and what somebody else does meanwhile."""
    name = dice.choice(("post", "post", "hide", "follow", "read"))
    return dice.randrange(1, 12), Step(name, DRAWS.get(name, _nothing)(dice))


WEIGHTS = {
    "look": 20,
    "post": 12,
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
    "spoil": 2,
    "rebuild": 1,
}
DRAWS = {
    "look": lambda dice: (dice.choice((1, 1, 2)),),
    "post": _draw_post,
    "grow": lambda dice: (dice.randint(1, 4),),
    "beside": _draw_beside,
    "fault": _draw_fault,
    "repeat": lambda dice: (_place(dice), dice.random() < 0.25),
    "follow": lambda dice: (dice.choice((1, 2, 50)),),
    "kill": lambda dice: (dice.randint(1, 12),),
    "hide": lambda dice: (_place(dice),),
    "wait": lambda dice: (dice.choice((60, 600, 4_000, 90_000)),),
    "set_clock": lambda dice: (dice.choice(SETTINGS_BACK),),
    "read": lambda dice: (_place(dice),),
    "spoil": lambda dice: (_place(dice), dice.random() < 0.5),
}
