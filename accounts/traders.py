"""Changes of paper traders by an owner or the operator, from the site or the command line.

Each function is one short transaction that raises Problem and rolls back if the change isn't
allowed. `now` is UTC milliseconds. Every change of the account or phase increments the trader's
version, so that a running tick of the job notices it and starts over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from accounts import influencers, owners, quotas
from accounts.fields import check_choice, check_line, check_name, find_free_handle
from accounts.problem import Problem, invalid, refuse_full, refuse_unknown
from config import Config
from models import Bot, Owner
from paper.account import STARTING_CASH
from paper.engine import TWINS
from paper.own import NAME, OwnFiles
from paper.player import OwnFault
from paper.rules import Phase
from paper.store import show_phase
from paper.strategies import ALL_FAMILIES, COPY, BadSetting, Strategy, parse_settings
from paper.tables import DiaryEntry, PaperOrder, PaperPosition, Period, Review, Trader
from storage import new_uid, writing
from voice import builtin as speech

# {public name: whole number, or bot ID}
Settings = Mapping[str, int | str]
START_MODES, ADAPTIVE = ("guarded", "standard"), ("off", "observe", "on")
MAX_REASON = 500


@dataclass(frozen=True)
class NewTrader:
    """`recovery_code` is None if the owner already existed."""

    trader: Trader
    owner: Owner
    recovery_code: str | None


def create_trader(
    name: str,
    family: str,
    now: int,
    start: str = "guarded",
    owner: Owner | None = None,
    voice: Mapping[str, Any] | None = None,
    bio: str = "",
    settings: Settings | None = None,
    adaptive: str = "observe",
    config: Config | None = None,
    own: OwnFiles | None = None,
) -> NewTrader:
    """Create a trader with its first account period and, without `owner`, a new owner.

    `voice` has any of the names in influencers.VOICE. `settings` is {public name: value} for the
    family. `config` has the owner's quotas, or is None if the operator creates the trader. `own`
    are strategy files that it may use, as `own:NAME`. Only the operator can choose one.
    """
    columns: dict[str, Any] = {
        "name": check_name(name),
        "bio": influencers.check_bio(bio),
        "start_mode": check_choice("start", start, START_MODES),
        "adaptive": check_choice("adaptive", adaptive, ADAPTIVE),
        "settings": check_settings(family, settings or {}, own),
        "family": family,
        "created_at": now,
        "phase": show_phase(Phase(start, since=now)),
    }
    with writing():
        if config and owner:
            refuse_full(quotas.find_use(config, "traders", owner.id))
        handle, code = find_free_handle(columns["name"], Trader, "trader"), None
        persona = influencers.check_voice({**speech.default_persona(handle), **(voice or {})})
        if owner is None:
            owner, code = owners.create_owner(now)
        owners.check_present(owner.id)
        trader = Trader.create(
            uid=new_uid("trader"),
            owner=owner,
            handle=handle,
            likeness=influencers.find_free_likeness(columns["name"]),
            voice=persona,
            **columns,
        )
        _open_periods(trader, 1, now)
        return NewTrader(trader, owner, code)


def check_settings(family: str, given: Settings, own: OwnFiles | None = None) -> str:
    try:
        find_strategy(family, given, own)
    except BadSetting as error:
        raise invalid(error.field, str(error)) from None
    if family == COPY:
        bot = Bot.get_or_none(Bot.uid == given["bot"])
        if bot is None:
            raise invalid("bot", "there is no such bot")
        if bot.retired_at is not None:
            raise invalid("bot", "is retired, so its wallets aren't observed anymore")
    return orjson.dumps(given).decode()


def find_strategy(family: str, given: Settings, own: OwnFiles | None) -> Strategy:
    """Return a family's strategy, or one of the operator's own files if `own` is given.

    Raises BadSetting, which names the setting, or Problem, which names the family.
    """
    if own is None or not NAME.fullmatch(family):
        check_choice("family", family, tuple(ALL_FAMILIES))
        return parse_settings(family, given)
    try:
        return own.read_strategy(family, given)
    except OwnFault as error:
        raise invalid("family", str(error)) from None


def find_trader(uid: str) -> Trader:
    found: Trader | None = Trader.get_or_none(Trader.uid == uid)
    return found or refuse_unknown("trader")


def list_traders() -> list[Trader]:
    return list(Trader.select(Trader, Owner).join(Owner).order_by(Trader.id))


def set_profile(
    trader: Trader,
    name: str | None = None,
    bio: str | None = None,
    voice: Mapping[str, Any] | None = None,
) -> None:
    """Change the given fields. Existing posts stay as they are."""
    with writing():
        # Another request may have changed the trader.
        trader = Trader.get_by_id(trader.id)
        owners.check_present(trader.owner_id)
        influencers.change_texts(trader, name, bio, voice)
        if trader.dirty_fields:
            trader.save(only=trader.dirty_fields)


def reset_trader(trader: Trader, reason: str, now: int) -> Period:
    """Close the account period, open the next one, and return it.

    Nothing is deleted. Open reviews must be decided and positions closed first.
    """
    reason = check_line("reason", reason, MAX_REASON)
    with writing():
        period = find_period(trader)
        if _is(find_review(period), "under_review"):
            raise Problem(
                "under_review", "the account is under review; clear or uphold the review first"
            )
        _cancel_orders(period)
        open_ones = (Period.trader == trader) & Period.closed_at.is_null()
        Period.update(closed_at=now, closing_reason=reason).where(open_ones).execute()
        opened = _open_periods(trader, period.number + 1, now)
        _change_phase(trader, Phase(trader.start_mode, since=now))
        _note(opened, "phase", now, what="reset", why=reason)
        return opened


def _cancel_orders(period: Period) -> None:
    if (
        PaperPosition.select()
        .where(PaperPosition.period == period, PaperPosition.closed_at.is_null())
        .exists()
    ):
        raise Problem(
            "positions_open",
            "positions are still open; close them first so that their outcome is recorded",
        )
    PaperOrder.update(state="cancelled").where(
        PaperOrder.period == period, PaperOrder.state == "open"
    ).execute()


def _open_periods(trader: Trader, number: int, now: int) -> Period:
    """Open an account for the trader and each of its twins, and return the trader's."""
    cash = dict.fromkeys(("starting_cash", "cash", "peak", "day_equity"), STARTING_CASH)
    earlier = Period.select().where(Period.trader == trader, Period.number == number - 1)
    before = {one.twin: one for one in earlier}
    opened = [
        Period.create(
            trader=trader,
            number=number,
            twin=twin,
            next_order=before[twin].next_order if twin in before else 1,
            next_position=before[twin].next_position if twin in before else 1,
            opened_at=now,
            **cash,
        )
        for twin in range(TWINS + 1)
    ]
    return opened[0]


def find_period(trader: Trader) -> Period:
    return Period.get(Period.trader == trader, Period.twin == 0, Period.closed_at.is_null())


# ---- reviews -------------------------------------------------------------------------------------
def open_review(trader: Trader, reason: str, now: int) -> None:
    """Put a trader under review, as the operator. Its headline is hidden from then on."""
    reason = check_line("reason", reason, MAX_REASON)
    with writing():
        period = find_period(trader)
        if _is(find_review(period), "under_review", "upheld"):
            raise Problem(
                "under_review",
                "the account is already under review, or an earlier review was upheld",
            )
        facts = {"code": "operator", "detail": reason, "symbol": None}
        reasons = [{"key": f"operator:{now}", **facts, "at": now}]
        told = orjson.dumps(reasons).decode()
        Review.create(period=period, state="under_review", reasons=told, opened_at=now)
        _change_phase(trader)
        _note(period, "review", now, what="under_review", **facts)


def decide_review(trader: Trader, state: str, reason: str, now: int) -> None:
    """Decide an open review.

    `cleared` shows the headline again. With `upheld`, the record stays but doesn't count, and the
    trader restarts guarded.
    """
    reason = check_line("reason", reason, MAX_REASON)
    with writing():
        period = find_period(trader)
        review = find_review(period)
        if review is None or not _is(review, "under_review"):
            raise Problem("no_review", "there is no open review of this trader")
        Review.update(state=state, decided_at=now, decision=reason).where(
            Review.id == review.id
        ).execute()
        _note(period, "review", now, what=state, detail=reason)
        if state == "upheld":
            _note(period, "phase", now, what="guarded", why="a review was upheld")
        _change_phase(trader, Phase(since=now) if state == "upheld" else None)


def find_review(period: Period) -> Review | None:
    reviews = Review.select().where(Review.period == period)
    last: Review | None = reviews.order_by(Review.id.desc()).first()
    return last


def _is(review: Review | None, *states: str) -> bool:
    return review is not None and review.state in states


def _change_phase(trader: Trader, phase: Phase | None = None) -> None:
    told = {"phase": show_phase(phase)} if phase else {}
    Trader.update(version=Trader.version + 1, **told).where(Trader.id == trader.id).execute()


def _note(period: Period, kind: str, now: int, **facts: str | None) -> None:
    DiaryEntry.create(period=period, at=now, kind=kind, facts=orjson.dumps(facts).decode())


def list_own(config: Config) -> OwnFiles:
    """Return the strategy files that the operator may choose. `close` ends their processes."""
    return OwnFiles(config.data_dir, config.own_strategies)
