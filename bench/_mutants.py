"""Forty mistakes somebody could make in paper/, each with the file of quick tests that must notice
it. `python -m bench mutants` makes them, one at a time, in a copy.
"""

from typing import NamedTuple

ENGINE, FILLS, STRATEGIES = "test_engine.py", "test_fills.py", "test_strategies.py"
BACKTESTS = "test_backtests.py"


class Mutant(NamedTuple):
    """A mistake: in a module of paper/ the text `old`, which is there once, becomes `new`."""

    module: str
    old: str
    new: str
    test: str


MUTANTS = (
    # ---- what a pool pays
    Mutant("pools", "sol = pool.sol + flow", "sol = pool.sol - flow", FILLS),
    Mutant("pools", "payable=max(0, pool.payable + flow)", "payable=pool.payable", FILLS),
    Mutant("pools", "left = abs(flow) * whole // (whole + volume)", "left = abs(flow)", FILLS),
    Mutant(
        "pools",
        "return left if flow > 0 else -left\n\n\ndef _drain",
        "return left\n\n\ndef _drain",
        FILLS,
    ),
    Mutant("pools", "left = abs(flow) * now.sol // before.sol", "left = abs(flow)", FILLS),
    Mutant("pools", "return snapshot.liquidity // 2", "return snapshot.liquidity", FILLS),
    Mutant("pools", "max(0, sol - CURVE_VIRTUAL_SOL)", "sol", FILLS),
    Mutant("fills", 'return max(0, flow) if side == "buy" else flow', "return flow", FILLS),
    Mutant("fills", "min(pool.payable, pool.sol * raw", "max(0, pool.sol * raw", FILLS),
    Mutant(
        "fills", "pool.sol * raw // (pool.tokens + raw))", "pool.sol * raw // pool.tokens)", FILLS
    ),
    Mutant("fills", "net = lamports - _fee(lamports, fee_bps)", "net = lamports", FILLS),
    Mutant("fills", "return -(-lamports * bps // ONE)", "return lamports * bps // ONE", FILLS),
    Mutant("fills", "got * (ONE - WIDE_BPS) // ONE", "got", FILLS),
    Mutant("fills", "return raw - _fee(raw, bps)", "return raw", FILLS),
    # ---- what an attempt costs, and when it fails
    Mutant("fills", "< order.least * _share(order, taken)", "< 0", FILLS),
    Mutant("fills", "place = 5_000 + _chance(", "place = 5_000 + 0 * _chance(", FILLS),
    Mutant("fills", "% ONE < FAILURE_BPS", "% ONE < 2 * FAILURE_BPS", FILLS),
    Mutant("fills", "liquidity < GONE_USD_CENTS", "liquidity <= GONE_USD_CENTS", FILLS),
    Mutant("fills", "* GONE_SHARE < (liquidity", "* GONE_SHARE <= (liquidity", FILLS),
    Mutant("fills", "WIDE_BPS = 500", "WIDE_BPS = 400", FILLS),
    # ---- when an order fills
    Mutant("decisions", "due_at=snapshot.at + latency,", "due_at=snapshot.at,", ENGINE),
    Mutant("orders", "if at > order.expires_at:", "if at >= order.expires_at:", ENGINE),
    Mutant("orders", "market.quoted_at[order.mint] < order.due_at", "False", ENGINE),
    Mutant("orders", "order.attempts >= MAX_ATTEMPTS", "order.attempts > MAX_ATTEMPTS", ENGINE),
    Mutant("orders", "if trader.account.cash + done.cash < 0:", "if False:", ENGINE),
    Mutant("recent", 'if flaw == "pair_changed":', "if False:", ENGINE),
    # ---- money
    Mutant("account", "self.lost_fees -= order.lost", "pass", ENGINE),
    Mutant("account", "self.cash += fill.cash", "self.cash += fill.cash + fill.rent", ENGINE),
    Mutant("account", "+ (0 if order.mint in self.positions else RENT)", "", ENGINE),
    Mutant("positions", "MAX_UNPRICED_MS = DAY_MS", "MAX_UNPRICED_MS = 2 * DAY_MS", ENGINE),
    # ---- decisions
    Mutant("decisions", "limit_bps = ONE if reason in STOPS else", "limit_bps = 0 or", ENGINE),
    Mutant("decisions", "MAX_POOL_SHARE_BPS = 200", "MAX_POOL_SHARE_BPS = 400", ENGINE),
    Mutant("decisions", "at - cooldown for close", "at for close", ENGINE),
    Mutant("strategies", "<= -self.stop_bps", "< -2 * self.stop_bps", STRATEGIES),
    Mutant(
        "strategies",
        "return now.volume5m > before.volume5m",
        "return now.volume > before.volume",
        STRATEGIES,
    ),
    Mutant(
        "strategies",
        "position.high * (ONE - self.trail_bps)",
        "position.entry_price * (ONE - self.trail_bps)",
        STRATEGIES,
    ),
    Mutant(
        "strategies",
        "if age > self.latency_budget_ms:",
        "if age > 2 * self.latency_budget_ms:",
        STRATEGIES,
    ),
    Mutant("market", "if snapshot.price > before.price * JUMP_BOUND:", "if False:", STRATEGIES),
    # ---- evidence
    Mutant("backtests", "if one.closed_at < start]", "]", BACKTESTS),
    Mutant("recent", "if flow.at <= last.at and", "if", BACKTESTS),
)
