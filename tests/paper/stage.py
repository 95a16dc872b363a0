"""A market in the tables and a job that plays it minute by minute, for tests of paper mode."""

import ground
import orjson
from tape import MINUTE, START

import papertrade
from accounts import traders
from market.tables import Snapshot, Token
from paper.tables import DiaryEntry, PaperPosition, Period
from web.api import paper

# Momentum enters in round 13, and its stop sells.
RISE = (
    ["0.001"] * 12
    + [f"0.00{number}" for number in (1040, 1085, 1130, 1180, 1230, 1280)]
    + ["0.0011"] * 4
)
CHECKS = orjson.dumps(
    [{"key": "supply", "label": "", "status": "pass", "detail": "", "checkedAt": START}]
).decode()


class Stage:
    def __init__(self, settings):
        self.config, self.round, self.tokens = settings, 0, {}
        self.restart()

    def restart(self, **changes):
        """Continue in a new process, with changed settings."""
        self.config = ground.change(self.config, **changes)
        self.job = papertrade.PaperJob(self.config)

    @property
    def now(self):
        return START + self.round * MINUTE

    def trader(self, name="Ada Paper", family="momentum", **more):
        return traders.create_trader(name, family, START - MINUTE, **more).trader

    def show(self, trader):
        return paper.find_trader(trader.uid, self.now)

    def rebuild(self, *made):
        """All differences that a rebuild of these traders finds."""
        return [told for one in made for told in papertrade.rebuild_trader(one, self.now)]

    def list_token(self, mint="MintA", **more):
        columns = {"decimals": 6, "checks": CHECKS, **more}
        columns = dict.fromkeys(("discovered_at", "tracked_at"), START - 10**9) | columns
        self.tokens[mint] = Token.create(mint=mint, symbol=mint[-1] * 2, name=mint, **columns)
        return self

    def snapshot(self, mint="MintA", price="0.001", **more):
        volume = str(50_000 + self.round * 100)
        columns = {
            **{"pool_sol": "1000", "liquidity_usd": "300000", "venue": "raydium"},
            **{"volume24h_usd": volume, "volume5m_usd": volume, "source": "dexscreener"},
            **{"taken_at": self.now, "expires_at": self.now + 10**7, **more},
        }
        return Snapshot.create(token=self.tokens[mint], price_sol=price, **columns)

    def record(self, prices, *mints):
        """Add a snapshot for each price, a minute apart, without a tick."""
        for price in prices:
            for mint in mints or ("MintA",):
                self.snapshot(mint, price)
            self.round += 1
        return self

    def tick(self):
        """Return the problem and the details."""
        return self.job.run_tick(self.now + 5_000)

    def play(self, prices, *mints):
        """Add snapshots and run a tick for each price, a minute apart. Return the last problem."""
        problem = None
        for price in prices:
            for mint in mints or ("MintA",):
                self.snapshot(mint, price)
            problem, _ = self.tick()
            self.round += 1
        return problem


def facts(kind):
    """The facts of all diary lines of a kind."""
    lines = DiaryEntry.select().where(DiaryEntry.kind == kind).order_by(DiaryEntry.id)
    return [orjson.loads(row.facts) for row in lines]


def adds_up(period):
    period = Period.get_by_id(period.id)
    held = PaperPosition.select().where(PaperPosition.period == period)
    cash = period.starting_cash + sum(row.cash for row in held) - period.lost_fees
    return period.cash == cash
