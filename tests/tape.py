"""For tests of paper mode: a market whose snapshots the test writes round by round, and traders
with scripted decisions.
"""

from dataclasses import dataclass, field

from paper import engine
from paper.account import Account, find_exclusion
from paper.engine import Market, run_heartbeat
from paper.market import Check, SnapshotRow, Token, parse_snapshot
from paper.player import Player
from paper.rules import Phase
from paper.strategies import Enter, Exit, Strategy, setting

MINUTE, DAY = 60_000, 86_400_000
# A round moment.
START = 1_800_000_000_000
# SOL per token, SOL in the pool; the pool also has a million tokens with six decimals.
PRICE, POOL = ("0.001", "1000")


@dataclass(frozen=True, kw_only=True)
class Told(Strategy):
    """Enters and exits in the given rounds."""

    enter_at: tuple = setting((), 0, 0)
    leave_at: tuple = setting((), 0, 0)
    share: int = setting(10_000, 1, 10_000)
    mints: tuple = setting(("A", "B", "C", "D"), 0, 0)
    cooldown_seconds: int = setting(0, 0, 0)
    family = "told"

    def enter(self, view):
        return (
            Enter("told", "told to")
            if view.token.mint in self.mints and number_of(view.last) in self.enter_at
            else None
        )

    def leave(self, view, position):
        return Exit("told", self.share) if number_of(view.last) in self.leave_at else None


def number_of(snapshot):
    return (snapshot.at - START) // MINUTE


def token(mint="A", **more):
    return Token(
        mint,
        f"{mint}{mint}",
        6,
        **{
            "pair_created_at": START - 30 * DAY,
            "discovered_at": START - 30 * DAY,
            "checks": (Check("mint_authority", "pass"),),
            **more,
        },
    )


def quote(
    number, mint="A", price=PRICE, pool=POOL, liquidity="300000", volume=None, at=None, **more
):
    """A snapshot; IDs rise with the rounds, and so does the volume, so that each is a new quote."""
    told = f"{50_000 + number / 100:.2f}" if volume is None else volume
    return parse_snapshot(
        SnapshotRow(
            number * 10 + ord(mint[0]) - 64,
            mint,
            START + number * MINUTE if at is None else at,
            price,
            pool,
            liquidity,
            told,
            **{"venue": "raydium", "volume5m_usd": told, **more},
        )
    )


def trader(ident=1, strategy=None, phase="standard", **more):
    return Player(
        ident,
        f"trader-{ident}",
        strategy or Told(),
        Account(),
        phase=Phase(phase, since=START),
        **more,
    )


def told(*enter, leave=(), ident=1, phase="standard", **more):
    """A trader that enters and exits at these rounds. `more`: settings, `adaptive`, `reviewed`."""
    about = {key: more.pop(key) for key in ("adaptive", "reviewed") if key in more}
    return trader(ident, Told(enter_at=enter, leave_at=tuple(leave), **more), phase, **about)


@dataclass
class Tape:
    """Consecutive one-minute rounds; `now` is the time of the snapshots."""

    traders: list
    mints: str = "A"
    market: Market = None
    number: int = -1
    # Default values of a quote.
    quiet: dict = field(default_factory=dict)

    def __post_init__(self):
        self.market = self.market or Market(MINUTE, [token(mint) for mint in self.mints])

    @property
    def now(self):
        return START + self.number * MINUTE

    def play(self, rounds=1, **quotes):
        """Play rounds in which each token has its usual quote, or `A={"price": ...}`; `A=None`: no
        snapshot of it.
        """
        for _ in range(rounds):
            self.number += 1
            shown = {mint: quotes.get(mint, {}) for mint in self.mints}
            snapshots = [
                quote(self.number, mint, **{**self.quiet, **values})
                for mint, values in shown.items()
                if values is not None
            ]
            for one in self.traders:
                run_heartbeat(one, self.now)
            if snapshots:
                engine.play(self.market, self.traders, snapshots, self.now)
        return self

    def skip(self, rounds):
        self.number += rounds
        return self


def said(trader, kind=None, what=None):
    """The diary's facts of a kind or subkind."""
    return [
        entry.facts
        for entry in trader.journal.entries
        if kind in (None, entry.kind) and what in (None, entry.facts.get("what"))
    ]


def fills(trader):
    return [fill for fill, _ in trader.journal.fills]


def why_excluded(trader, position):
    about = position.pipeline, position.marks, position.reason
    return find_exclusion(*about, reviewed=trader.reviewed)


def network_fees(trader):
    """Network costs of a trader's attempts, in lamports."""
    return sum(fill.network_fee for fill in fills(trader))


def adds_up(trader):
    """Check conservation to the lamport: cash, closes, open positions and lost fees account for
    every lamport, and costs for the difference between gross and net.
    """
    account = trader.account
    closed = [one for one in trader.journal.positions.values() if one.closed_at is not None]
    held = list(account.positions.values())
    brought = sum(one.cash for one in closed + held)
    assert account.cash == account.starting_cash + brought - account.lost_fees >= 0
    for one in closed + held:
        assert one.cash == one.gross - one.slippage - one.fees - one.rent and one.fees >= 0
    assert all(one.rent == 0 for one in closed)
    return True
