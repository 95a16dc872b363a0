"""The strategy families. Pure.

A strategy is a frozen set of settings with two methods, which decide when to enter and when to
exit. Returns are in basis points (1% = 100). Periods count snapshots, so that nothing depends on
how punctual the scout was. All arithmetic uses integers. The order of FAMILIES is fixed and isn't a
ranking. COPY is listed separately.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

from chain.amounts import exact
from paper.account import Position
from paper.fills import ONE
from paper.market import Check, Flow, Snapshot, Token, View

# Exits at any price, because a stop with a limit could fail in a crash.
STOPS = ("stop", "trailing_stop")
# The mint's authority could freeze purchased tokens.
FREEZABLE = Check("freeze_authority", "warn")
BOT_ID = re.compile(r"bot_[0-9A-Za-z]{1,40}")
# A smaller share of a position isn't sold, apart from rounding.
LEAST_SHARE_BPS = 100
# A sale's proceeds can't be estimated.
FEE_UNKNOWN = Check("transfer_fee", "unknown")


@dataclass(frozen=True, slots=True)
class Enter:
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Exit:
    """A reason to sell a position, or a share of it in basis points."""

    # trailing_stop | stop | time_stop | mean_reached | take_profit | they_sell | bot_sold
    reason: str
    share: int = ONE


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: str
    detail: str


Decision = Enter | Exit | Refusal | None
Kind = TypeVar("Kind")


class BadSetting(ValueError):
    """A strategy setting doesn't exist or is out of bounds. `field` is its public name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def setting(default: int, low: int, high: int) -> Any:
    """Declare a setting with its default and its inclusive bounds."""
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Strategy:
    # The share of the equity for one position.
    size_bps: int = setting(1_000, 10, 2_500)
    max_positions: int = setting(4, 1, 10)
    # How long the same token isn't entered again.
    cooldown_seconds: int = setting(300, 0, 86_400)
    # The time from the deciding snapshot to the earliest fill.
    latency_ms: int = setting(6_000, 1_000, 60_000)
    # A snapshot older than this isn't traded on.
    latency_budget_ms: int = setting(90_000, 10_000, 600_000)
    liquidity_floor_usd: int = setting(5_000, 0, 10_000_000)
    stop_bps: int = setting(1_000, 50, 9_000)
    # Relative to the quote at the decision.
    slippage_limit_bps: int = setting(500, 10, 5_000)
    time_stop: int = setting(45, 2, 2_000)
    # If 1, tokens with an active freeze authority are entered, too.
    allow_freezable: int = setting(0, 0, 1)

    family: ClassVar[str] = ""

    def prepare(self, views: Sequence[View]) -> None:
        """Prepare for decisions about these tokens. Strategies in their own process use this."""

    def enter(self, view: View) -> Enter | Refusal | None:
        raise NotImplementedError

    def leave(self, view: View, position: Position) -> Exit | None:
        raise NotImplementedError

    def refuse(self, view: View, now: int) -> Refusal | None:
        age, liquidity = now - view.last.at, view.last.liquidity
        if age > self.latency_budget_ms:
            return Refusal(
                "stale_snapshot",
                f"the last snapshot is {age // 1000} s old, over the limit of"
                f" {self.latency_budget_ms // 1000} s",
            )
        if liquidity is not None and liquidity < self.liquidity_floor_usd * 100:
            return Refusal(
                "low_liquidity",
                f"{liquidity // 100} USD of liquidity, below the minimum of"
                f" {self.liquidity_floor_usd} USD",
            )
        if view.token.has_check("fail"):
            failed = ", ".join(key for key, status in view.token.checks if status == "fail")
            return Refusal("failed_check", f"structural check failed: {failed}")
        if FREEZABLE in view.token.checks and not self.allow_freezable:
            return Refusal("freezable", "its freeze authority could freeze purchased tokens")
        if FEE_UNKNOWN in view.token.checks:
            return Refusal("fee_unknown", "its transfer fee is unknown")
        return None

    def stop(self, view: View, position: Position) -> Exit | None:
        fallen = _moved(position.entry_price, view.last.known_price) <= -self.stop_bps
        return Exit("stop") if fallen else None

    def leave_late(self, view: View, position: Position) -> Exit | None:
        late = position.held >= self.time_stop
        return self.stop(view, position) or (Exit("time_stop") if late else None)


@dataclass(frozen=True, kw_only=True)
class Momentum(Strategy):
    """Follow a rise that volume confirms, until part of it is lost again."""

    lookback: int = setting(5, 2, 13)
    rise_bps: int = setting(600, 50, 50_000)
    mean_over: int = setting(12, 3, 14)
    trail_bps: int = setting(1_200, 100, 9_000)

    family: ClassVar[str] = "momentum"

    def enter(self, view: View) -> Enter | Refusal | None:
        window, last = view.window, view.window[-1]
        if len(window) < max(self.mean_over, self.lookback + 1):
            return None
        past, price = window[-1 - self.lookback], last.known_price
        if price * ONE < past.known_price * (ONE + self.rise_bps):
            return None
        if price * self.mean_over <= sum(list_prices(window[-self.mean_over :])):
            return None
        volume = compare_volume([past], last)
        if volume is None or volume.now <= volume.total:
            return UNKNOWN_VOLUME if volume is None else None
        rise = exact(_moved(past.known_price, price), 2)
        return Enter(
            "momentum",
            f"up {rise}% over {self.lookback} snapshots with rising volume, above its mean",
        )

    def leave(self, view: View, position: Position) -> Exit | None:
        if view.last.known_price * ONE <= position.high * (ONE - self.trail_bps):
            return Exit("trailing_stop")
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class MeanReversion(Strategy):
    """Buy a fall without a matching drop in the pool's liquidity. Sell back at the mean."""

    mean_over: int = setting(12, 4, 13)
    # The distance below the mean, in tenths of a standard deviation.
    deviations_tenths: int = setting(20, 5, 60)
    # The minimum distance to the mean. The noise of a calm token doesn't cover the costs.
    gap_bps: int = setting(300, 0, 9_000)
    # The minimum liquidity, as a share of the window's mean.
    holds_bps: int = setting(9_500, 5_000, ONE)
    time_stop: int = setting(30, 2, 2_000)

    family: ClassVar[str] = "mean_reversion"

    def enter(self, view: View) -> Enter | Refusal | None:
        past, last = view.list_before(self.mean_over), view.last
        prices = list_prices(past)
        count, total = len(prices), sum(prices)
        below = total - last.known_price * count
        if count < self.mean_over or below * ONE < total * self.gap_bps:
            return None
        # The variance, times count**2.
        spread = count * sum(price * price for price in prices) - total * total
        if 100 * below * below < self.deviations_tenths**2 * spread:
            return None
        fall = exact(below * ONE // total, 2)
        detail = f"{fall}% below its mean over {count} snapshots while liquidity holds"
        return self._refuse_falling(past, last) or Enter("mean_reversion", detail)

    def _refuse_falling(self, past: Sequence[Snapshot], last: Snapshot) -> Refusal | None:
        if last.liquidity is None:
            return Refusal("liquidity_unknown", "it's unknown whether liquidity holds")
        known = [one.liquidity for one in past if one.liquidity is not None]
        if not known or last.liquidity * len(known) * ONE < sum(known) * self.holds_bps:
            return Refusal("liquidity_falling", "liquidity is falling with the price")
        return None

    def leave(self, view: View, position: Position) -> Exit | None:
        prices = list_prices(view.list_before(self.mean_over))
        if prices and view.last.known_price * len(prices) >= sum(prices):
            # In a crash, the mean drops to the price, so check the stop first. It has no limit.
            return self.stop(view, position) or Exit("mean_reached")
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class Breakout(Strategy):
    """Buy a new high, or a rising new pair, at a multiple of its usual volume. Sell half early."""

    lookback: int = setting(12, 3, 13)
    # How far above the old high the price must be.
    margin_bps: int = setting(200, 0, 50_000)
    # The multiple of the window's mean.
    volume_bps: int = setting(20_000, 11_000, 1_000_000)
    # How long a pair counts as new.
    new_seconds: int = setting(86_400, 0, 86_400)
    # How many snapshots a new pair must have.
    new_snapshots: int = setting(4, 2, 13)
    min_age_seconds: int = setting(3_600, 0, 30 * 86_400)
    # Orders for tokens that rise fast fill only at a higher price.
    slippage_limit_bps: int = setting(2_000, 10, 5_000)
    profit_bps: int = setting(2_000, 100, 100_000)
    profit_share_bps: int = setting(5_000, 1_000, 9_000)
    time_stop: int = setting(60, 2, 2_000)

    family: ClassVar[str] = "breakout"

    def enter(self, view: View) -> Enter | Refusal | None:
        past, last = view.list_before(self.lookback), view.last
        prices, price = list_prices(past), last.known_price
        created_at = view.token.pair_created_at
        new = (
            created_at is not None
            and last.at - created_at <= self.new_seconds * 1000
            and len(past) >= self.new_snapshots - 1
        )
        is_high = price * ONE > max(prices, default=0) * (ONE + self.margin_bps)
        is_rising = new and price > (prices[-1] if prices else 0)
        if (not new and len(past) < self.lookback) or not (is_high or is_rising):
            return None
        volume = compare_volume(past, last)
        if volume is None:
            return UNKNOWN_VOLUME
        if not volume.is_over(self.volume_bps):
            return None
        kind = f"a new high of {len(past)} snapshots" if is_high else "a new, rising pair"
        return self._refuse_young(view.token, last.at) or Enter(
            "breakout" if is_high else "new_pair", f"{kind} with {volume.times} its volume"
        )

    def _refuse_young(self, token: Token, now: int) -> Refusal | None:
        if token.age_ms(now) < self.min_age_seconds * 1000:
            return Refusal(
                "too_young",
                f"{token.age_ms(now) // 60_000} minutes old, under the minimum of"
                f" {self.min_age_seconds // 60}",
            )
        if not token.checks or token.has_check("unknown"):
            return Refusal("checks_unknown", "some of its mint checks are unknown")
        return None

    def leave(self, view: View, position: Position) -> Exit | None:
        if (
            not position.reduced
            and _moved(position.entry_price, view.last.known_price) >= self.profit_bps
        ):
            return Exit("take_profit", self.profit_share_bps)
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class FlowFollower(Strategy):
    """Enter tokens that observed wallets of several owners bought. Exit when they sell."""

    owners: int = setting(2, 2, 20)
    window_minutes: int = setting(30, 1, 1_440)
    sellers: int = setting(1, 1, 20)
    time_stop: int = setting(60, 2, 2_000)

    family: ClassVar[str] = "flow"

    def enter(self, view: View) -> Enter | Refusal | None:
        now, since = view.last.at, view.last.at - self.window_minutes * 60_000
        bought, sold = (pick_flows(view.flows, side, since, now) for side in ("buy", "sell"))
        if not bought:
            return None
        owners = {flow.owner for flow in bought} - {flow.owner for flow in sold}
        if len(owners) >= self.owners:
            return Enter(
                "flow",
                f"bought by wallets of {len(owners)} owners within {self.window_minutes} minutes",
            )
        if len({flow.wallet for flow in bought}) == 1:
            return Refusal("one_wallet", "only one observed wallet bought it")
        return Refusal(
            "too_few_owners",
            f"bought by wallets of {len(owners)} of the {self.owners} required owners",
        )

    def leave(self, view: View, position: Position) -> Exit | None:
        sold = pick_flows(view.flows, "sell", position.opened_at, view.last.at)
        if len({flow.owner for flow in sold}) >= self.sellers:
            return self.stop(view, position) or Exit("they_sell")
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class Copy(Strategy):
    """Buy what one observed bot buys, after the latency. Sell the same share when it sells."""

    bot: str = field(default="", metadata={"form": BOT_ID})
    # The time from the snapshot on which the bot's purchase is seen to the earliest fill.
    latency_ms: int = setting(6_000, 0, 60_000)
    # An older purchase isn't copied. Shorter than the cool-down, or the same purchase would be
    # copied again after a stop.
    fresh_seconds: int = setting(180, 10, 300)
    cooldown_seconds: int = setting(300, 300, 86_400)
    # Trades are known for a day.
    time_stop: int = setting(60, 2, 1_000)

    family: ClassVar[str] = "copy"

    def is_fresh(self, flows: Sequence[Flow], at: int) -> bool:
        bought = pick_flows(flows, "buy", at - self.fresh_seconds * 1000, at, self.bot)
        return bool(bought) and not pick_flows(flows, "sell", bought[-1].at, at, self.bot)

    def enter(self, view: View) -> Enter | None:
        if not self.is_fresh(view.flows, view.last.at):
            return None
        return Enter("copy", "bought by the bot it copies")

    def leave(self, view: View, position: Position) -> Exit | None:
        bought = pick_flows(view.flows, "buy", 0, position.opened_at, self.bot)
        since = bought[-1].at if bought else position.opened_at
        left = ONE
        for one in pick_flows(view.flows, "sell", since, view.last.at, self.bot):
            left = left * (ONE - one.share_bps) // ONE
        more = position.raw * ONE - position.bought_raw * left
        share = -(-more // position.raw)
        if share >= LEAST_SHARE_BPS:
            return self.stop(view, position) or Exit("bot_sold", share)
        return self.leave_late(view, position)


def pick_flows(
    flows: Sequence[Flow], side: str, since: int, until: int, bot: str | None = None
) -> list[Flow]:
    return [
        one
        for one in flows
        if one.side == side and since <= one.at <= until and bot in (None, one.bot)
    ]


FAMILIES = {
    strategy.family: strategy for strategy in (Momentum, MeanReversion, Breakout, FlowFollower)
}
COPY = Copy.family
ALL_FAMILIES: dict[str, type[Strategy]] = {**FAMILIES, COPY: Copy}


def decide(view: View, position: Position | None, strategy: Strategy, now: int) -> Decision:
    if position:
        return strategy.leave(view, position)
    found = strategy.enter(view)
    if isinstance(found, Enter):
        return strategy.refuse(view, now) or found
    return found


def parse_settings(family: str, given: Mapping[str, Any]) -> Strategy:
    """Create a strategy from settings by public name. Raises BadSetting."""
    if family not in ALL_FAMILIES:
        raise BadSetting("family", f"must be one of: {', '.join(ALL_FAMILIES)}")
    known = {public_name(one.name): one for one in fields(ALL_FAMILIES[family])}
    if family == COPY and "bot" not in given:
        raise BadSetting("bot", "is required: the ID of the bot to copy, such as bot_4f1c")
    for name, value in given.items():
        about = find_setting(known, name, "family").metadata
        if "low" in about:
            check_bounds(name, value, about["low"], about["high"])
        elif not isinstance(value, str) or not about["form"].fullmatch(value):
            raise BadSetting(name, "must be the ID of a bot, such as bot_4f1c")
    return ALL_FAMILIES[family](**{known[name].name: value for name, value in given.items()})


def find_setting(known: Mapping[str, Kind], name: str, whose: str) -> Kind:
    if name not in known:
        raise BadSetting(name, f"isn't a setting of this {whose}; choose from: {', '.join(known)}")
    return known[name]


def check_bounds(name: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise BadSetting(name, f"must be a whole number from {low} to {high}")


def show_settings(strategy: Strategy) -> dict[str, int | str]:
    settings = [one.name for one in fields(strategy) if one.metadata]
    return {public_name(name): getattr(strategy, name) for name in settings}


def public_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _moved(before: int, now: int) -> int:
    return (now - before) * ONE // before


# ---- volume --------------------------------------------------------------------------------------
# The volume of a day isn't used instead, because it also changes with what happened a day ago.
UNKNOWN_VOLUME = Refusal(
    "volume_unknown", "its volume over five minutes or an hour is unknown, now or before"
)


class Volume(NamedTuple):
    """A window's volume now, and the sum of `windows` before it, in USD cents."""

    now: int
    total: int
    windows: int

    def is_over(self, bps: int) -> bool:
        """Compare with this share (basis points) of the preceding mean, which must be positive."""
        return self.now * self.windows * ONE >= self.total * bps > 0

    @property
    def times(self) -> str:
        """The multiple of the preceding mean as text, such as `2.4 times`."""
        return f"{exact(self.now * self.windows * 10 // self.total, 1)} times"


def compare_volume(past: Sequence[Snapshot], last: Snapshot) -> Volume | None:
    """Return the volume of five minutes, or else of an hour, with that of earlier snapshots."""
    for length in ("volume5m", "volume1h"):
        now, *before = (getattr(one, length) for one in (last, *past))
        known = [one for one in before if one is not None]
        if now is not None and known:
            return Volume(now, sum(known), len(known))
    return None


def list_prices(snapshots: Sequence[Snapshot]) -> list[int]:
    return [one.known_price for one in snapshots]
