"""A market for paper mode, and a trader in it."""

import orjson

import papertrade
from accounts import traders
from market.tables import Snapshot, Token
from paper.tables import Trader
from simulation.machinery import demand
from storage import database

# An easy market: every rise is bought.
SETTINGS = {"lookback": 2, "riseBps": 50, "meanOver": 3, "cooldownSeconds": 0}
# Decimals, initial prices (SOL per whole token) and transfer fees: one token is indivisible and
# expensive.
COINS = {"Coin": (6, "0.001", 0), "Whole": (0, "0.3", 100)}
OWED = """
SELECT p.id, p.cash - p.starting_cash + p.lost_fees - COALESCE(SUM(o.cash), 0)
FROM period p LEFT JOIN position o ON o.period_id = p.id GROUP BY p.id"""


class Market:
    """A world's prices, in billionths of a SOL."""

    def __init__(self, world):
        self._world = world
        self._prices = {mint: int(float(price) * 10**9) for mint, (_, price, _) in COINS.items()}
        self._pool = dict.fromkeys(COINS, 500)

    def open(self, now):
        """List the tokens and create a trader."""
        checks = [{"key": "supply", "label": "", "status": "pass", "detail": "", "checkedAt": now}]
        for mint, (decimals, _, kept) in COINS.items():
            Token.create(
                mint=mint,
                symbol=mint,
                name=mint,
                decimals=decimals,
                transfer_fee_bps=kept,
                discovered_at=now - 10**9,
                tracked_at=now - 10**9,
                checks=orjson.dumps(checks).decode(),
            )
        traders.create_trader("Sim", "momentum", now - 10**6, "standard", settings=SETTINGS)

    def move(self, mint, percent, pool):
        """Store a snapshot of each token: one price, and perhaps its pool, changes."""
        self._prices[mint] = max(1, self._prices[mint] * percent // 100)
        self._pool[mint] = pool or self._pool[mint]
        now = self._world.clock.now()
        for token in list(Token.select()):
            volume = str(50_000 + now % 10**9 // 1_000)
            sol = self._pool[token.mint]
            Snapshot.create(
                token=token,
                taken_at=now,
                expires_at=now + 10**8,
                source="dexscreener",
                price_sol=f"{self._prices[token.mint] / 10**9:.9f}",
                pool_sol=str(sol),
                liquidity_usd=str(300 * sol),
                volume24h_usd=volume,
                volume5m_usd=volume,
                venue="raydium",
            )

    def check(self):
        """Check that a trader's money adds up to the lamport."""
        for period, owed in database.execute_sql(OWED).fetchall():
            demand(owed == 0, f"account period {period} is {owed} lamports off")

    def check_end(self):
        """Check that refilling the stored decisions gives the same result."""
        for trader in list(Trader.select()):
            different = papertrade.rebuild_trader(trader, self._world.clock.now())
            demand(not different, f"filled again: {different}")
