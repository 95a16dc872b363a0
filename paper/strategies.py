"""The four strategy families. A strategy is a frozen set of settings with two pure methods: when to
enter, when to leave.

Returns are basis points (1 % = 100), spans count snapshots, so that nothing depends on how punctual
the scout was. All arithmetic is on integers. The order of FAMILIES is fixed and ranks nothing.
"""

from dataclasses import dataclass, field, fields

from chain.amounts import exact

# basis points in a whole
ONE = 10_000


@dataclass(frozen=True, slots=True)
class Enter:
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Exit:
    # trailing_stop | stop | time_stop | mean_reached | take_profit | they_sell
    reason: str
    # of the position, basis points
    share: int = ONE


@dataclass(frozen=True, slots=True)
class Refusal:
    """There was a reason to enter, and a reason not to."""

    reason: str
    detail: str


class BadSetting(ValueError):
    """A strategy setting that does not exist or is out of bounds; `field` is its public name."""

    def __init__(self, field, message):
        super().__init__(message)
        self.field = field


def setting(default, low, high):
    return field(default=default, metadata={"low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """What all families share."""

    # of the equity, for one position
    size_bps: int = setting(1_000, 10, 2_500)
    max_positions: int = setting(4, 1, 10)
    # before the same token is entered again
    cooldown_seconds: int = setting(300, 0, 86_400)
    # from the deciding snapshot to the earliest fill
    latency_ms: int = setting(6_000, 1_000, 60_000)
    # a snapshot older than this is not traded on
    latency_budget_ms: int = setting(90_000, 10_000, 600_000)
    liquidity_floor_usd: int = setting(5_000, 0, 10_000_000)
    stop_bps: int = setting(1_000, 50, 9_000)
    time_stop: int = setting(45, 2, 2_000)

    family = ""

    def refuse(self, view, now):
        """What keeps every family from entering."""
        age, liquidity = now - view.last.at, view.last.liquidity
        if age > self.latency_budget_ms:
            return Refusal(
                "stale_snapshot",
                f"the last snapshot is {age // 1000} s old, over the budget of"
                f" {self.latency_budget_ms // 1000} s",
            )
        if liquidity is not None and liquidity < self.liquidity_floor_usd * 100:
            return Refusal(
                "low_liquidity",
                f"{liquidity // 100} USD of liquidity, under the floor of"
                f" {self.liquidity_floor_usd} USD",
            )
        if view.token.has("fail"):
            failed = ", ".join(key for key, status in view.token.checks if status == "fail")
            return Refusal("failed_check", f"structural check failed: {failed}")
        return None

    def leave_late(self, view, position):
        """The stop under the entry and the time stop."""
        if _moved(position.entry_price, view.last.price) <= -self.stop_bps:
            return Exit("stop")
        return Exit("time_stop") if position.held >= self.time_stop else None


@dataclass(frozen=True, kw_only=True)
class Momentum(Strategy):
    """Follows a rise that volume confirms, until it gives a part of its height back."""

    lookback: int = setting(5, 2, 13)
    rise_bps: int = setting(600, 50, 50_000)
    mean_over: int = setting(12, 3, 14)
    trail_bps: int = setting(1_200, 100, 9_000)

    family = "momentum"

    def enter(self, view):
        window, last = view.window, view.window[-1]
        if len(window) < max(self.mean_over, self.lookback + 1):
            return None
        past = window[-1 - self.lookback]
        if last.price * ONE < past.price * (ONE + self.rise_bps) or not _more(
            past.volume, last.volume
        ):
            return None
        if last.price * self.mean_over <= view.past(self.mean_over - 1).prices + last.price:
            return None
        return Enter(
            "momentum",
            f"up {exact(_moved(past.price, last.price), 2)} % over {self.lookback} snapshots with"
            " rising volume, above its mean",
        )

    def leave(self, view, position):
        if view.last.price * ONE <= position.high * (ONE - self.trail_bps):
            return Exit("trailing_stop")
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class MeanReversion(Strategy):
    """Buys a fall the pool's liquidity does not share, and sells when the price is back at its
    mean.
    """

    mean_over: int = setting(12, 4, 13)
    # k times ten: 20 is two standard deviations
    deviations_tenths: int = setting(20, 5, 60)
    # least distance to the mean: a calm token's noise does not pay the costs
    gap_bps: int = setting(300, 0, 9_000)
    # share of the window's mean liquidity that must still be there
    holds_bps: int = setting(9_500, 5_000, ONE)
    time_stop: int = setting(30, 2, 2_000)

    family = "mean_reversion"

    def enter(self, view):
        past, last = view.past(self.mean_over), view.window[-1]
        # count times the distance under the mean
        below = past.prices - last.price * past.count
        if past.count < self.mean_over or below * ONE < past.prices * self.gap_bps:
            return None
        # count**2 times the variance
        spread = past.count * past.squares - past.prices * past.prices
        if 100 * below * below < self.deviations_tenths**2 * spread:
            return None
        detail = (
            f"{exact(below * ONE // past.prices, 2)} % under its mean over {past.count} snapshots"
            " while liquidity holds"
        )
        return self._falling(past, last) or Enter("mean_reversion", detail)

    def _falling(self, past, last):
        if last.liquidity is None:
            return Refusal("liquidity_unknown", "whether liquidity holds is not known")
        if (
            not past.liquidities
            or last.liquidity * past.liquidities * ONE < past.liquidity * self.holds_bps
        ):
            return Refusal("liquidity_falling", "liquidity is falling with the price")
        return None

    def leave(self, view, position):
        past = view.past(self.mean_over)
        if past.count and view.last.price * past.count >= past.prices:
            return Exit("mean_reached")
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class Breakout(Strategy):
    """Buys a new high, or a new discovery, that comes with a multiple of its volume; takes half the
    profit early.
    """

    lookback: int = setting(12, 3, 13)
    # above the old high
    margin_bps: int = setting(200, 0, 50_000)
    # of the window's mean volume
    volume_bps: int = setting(20_000, 11_000, 1_000_000)
    # how long a discovery is new
    new_seconds: int = setting(3_600, 0, 86_400)
    # ... and what must be known of it
    new_snapshots: int = setting(4, 2, 13)
    min_age_seconds: int = setting(3_600, 0, 30 * 86_400)
    profit_bps: int = setting(2_000, 100, 100_000)
    profit_share_bps: int = setting(5_000, 1_000, 9_000)
    time_stop: int = setting(60, 2, 2_000)

    family = "breakout"

    def enter(self, view):
        past, last = view.past(self.lookback), view.window[-1]
        new = (
            last.at - view.token.discovered_at <= self.new_seconds * 1000
            and past.count >= self.new_snapshots - 1
        )
        if not new and past.count < self.lookback or not self._loud(past, last):
            return None
        if last.price * ONE > past.top * (ONE + self.margin_bps):
            detail = (
                f"a new high of {past.count} snapshots with {_times(past, last)} times its volume"
            )
            return self._young(view.token, last.at) or Enter("breakout", detail)
        if new and last.price > past.last:
            detail = f"newly discovered and rising with {_times(past, last)} times its volume"
            return self._young(view.token, last.at) or Enter("new_discovery", detail)
        return None

    def _loud(self, past, last):
        return (
            last.volume is not None
            and last.volume * past.volumes * ONE >= past.volume * self.volume_bps > 0
        )

    def _young(self, token, now):
        if token.age(now) < self.min_age_seconds * 1000:
            return Refusal(
                "too_young",
                f"{token.age(now) // 60_000} minutes old, under the minimum of"
                f" {self.min_age_seconds // 60}",
            )
        if not token.checks or token.has("unknown"):
            return Refusal("checks_unknown", "its mint checks are not all known")
        return None

    def leave(self, view, position):
        if (
            not position.reduced
            and _moved(position.entry_price, view.last.price) >= self.profit_bps
        ):
            return Exit("take_profit", self.profit_share_bps)
        return self.leave_late(view, position)


@dataclass(frozen=True, kw_only=True)
class FlowFollower(Strategy):
    """Enters what several observed wallets of different owners bought, and leaves when they sell."""

    owners: int = setting(2, 2, 20)
    window_minutes: int = setting(30, 1, 1_440)
    sellers: int = setting(1, 1, 20)
    time_stop: int = setting(60, 2, 2_000)

    family = "flow"

    def enter(self, view):
        flows = [
            flow
            for flow in view.flows
            if view.last.at - self.window_minutes * 60_000 <= flow.at <= view.last.at
        ]
        bought = [flow for flow in flows if flow.side == "buy"]
        owners = {flow.owner for flow in bought} - {
            flow.owner for flow in flows if flow.side == "sell"
        }
        if not bought:
            return None
        if len(owners) >= self.owners:
            return Enter(
                "flow",
                f"bought by wallets of {len(owners)} owners within {self.window_minutes} minutes",
            )
        if len({flow.wallet for flow in bought}) == 1:
            return Refusal("one_wallet", "a single observed wallet bought it")
        return Refusal(
            "too_few_owners",
            f"bought by wallets of {len(owners)} of the {self.owners} owners it takes",
        )

    def leave(self, view, position):
        sold = {
            flow.owner
            for flow in view.flows
            if flow.side == "sell" and position.opened_at <= flow.at <= view.last.at
        }
        return Exit("they_sell") if len(sold) >= self.sellers else self.leave_late(view, position)


FAMILIES = {
    strategy.family: strategy for strategy in (Momentum, MeanReversion, Breakout, FlowFollower)
}


def decide(view, position, strategy, now):
    """Enter, Exit, Refusal or None (nothing to do) for one token, from what is known at `now`.
    Pure: the same arguments, the same answer.
    """
    if position:
        return strategy.leave(view, position)
    found = strategy.enter(view)
    return strategy.refuse(view, now) or found if type(found) is Enter else found


def parse_settings(family, given):
    """The strategy of a family with some settings given by their public names. Raises BadSetting
    naming the field and what is allowed.
    """
    if family not in FAMILIES:
        raise BadSetting("family", f"must be one of: {', '.join(FAMILIES)}")
    known = {public_name(one.name): one for one in fields(FAMILIES[family])}
    return FAMILIES[family](
        **{
            _known(known, name).name: _bounded(known[name], name, value)
            for name, value in given.items()
        }
    )


def _known(known, name):
    if name not in known:
        raise BadSetting(name, f"is no setting of this family; there are: {', '.join(known)}")
    return known[name]


def _bounded(one, name, value):
    low, high = one.metadata["low"], one.metadata["high"]
    if type(value) is not int or not low <= value <= high:
        raise BadSetting(name, f"must be a whole number from {low} to {high}")
    return value


def show_settings(strategy):
    return {public_name(one.name): getattr(strategy, one.name) for one in fields(strategy)}


def public_name(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _moved(before, now):
    """Basis points from one price to another, cut toward minus infinity."""
    return (now - before) * ONE // before


def _more(before, now):
    return before is not None and now is not None and now > before


def _times(past, last):
    return exact(last.volume * past.volumes * 10 // past.volume, 1)
