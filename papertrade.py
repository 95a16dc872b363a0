"""Paper mode, the job: play the scout's snapshots through all traders, then write their posts.

Everything is decided in paper/; this module moves data and asks no provider. A tick reads what is
new, plays it moment by moment, stores it in one transaction and then writes the posts, each with
the voice that its trader has now.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import orjson
from peewee import OperationalError

from accounts import conduct, influencers
from config import Config
from paper import (
    adaptive,
    diary,
    engine,
    flows,
    load,
    measured,
    measured_store,
    proof,
    rows,
    store,
)
from paper.account import public_id
from paper.faults import FaultKey, Faults, OwnFault
from paper.fills import RECORDED_COSTS
from paper.guard import DAY_MS
from paper.market import Token
from paper.orders import drop_orders
from paper.own import OwnFiles
from paper.recent import Market
from paper.tables import Period
from paper.tables import Trader as StoredTrader
from paper.trader import DiaryLine, ReviewReason, Trader
from paper.twins import name_twin
from storage import writing
from voice import builtin, language_model

log = logging.getLogger("candor.paper")
# Older snapshots are not traded on any more.
BACKLOG_MS = 2 * 3_600_000
# The scout's interval where the scout is switched off.
DEFAULT_INTERVAL_MS = 60_000
RECENT_POSTS = 20
# Lines of the diaries considered for posts in one tick; the rest follow.
MAX_LINES = 1_000
# Passes of one tick, each without what went wrong in the one before.
MAX_PASSES = 20
# Tokens a trader may have trouble with before it is put off as a whole.
MAX_TROUBLED_TOKENS = 3
# Troubles that health names.
MAX_NAMED_TROUBLES = 5
# What went wrong is tried again, ever less often.
FIRST_PAUSE_MS, MAX_PAUSE_MS = 60_000, 3_600_000
# What the optional model may take in one tick.
MODEL_SECONDS = 20


@dataclass
class Trouble:
    """An internal error with a trader, a token, or a token for one trader, which is put off: not
    played for a while.
    """

    # Who it is about, and the class of the exception.
    what: str
    tries: int = 0
    # Put off until then (ms).
    until: int = 0
    # Whether the trader's diary names it.
    noted: bool = False


class Pass(NamedTuple):
    """What playing the new snapshots once brought about; nothing is stored yet."""

    loaded: list[load.LoadedTrader]
    market: Market | None
    rounds: int


class Written(NamedTuple):
    """How many posts were written, and why the optional model wrote none (None where it did)."""

    posts: int
    model_problem: str | None


class PaperJob:
    """The job of one process: `run_tick` plays what the scout took since the last tick."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.interval_ms = int(config.scout_interval_seconds * 1000) or DEFAULT_INTERVAL_MS
        # Nothing was played by this process yet.
        self.fresh = True
        self.market: Market | None = None
        self.costs = RECORDED_COSTS
        # By row id.
        self.tokens: dict[int, Token] = {}
        self.troubles: dict[FaultKey, Trouble] = {}
        self.own = OwnFiles(config.data_dir, config.own_strategies)

    def run_tick(self, now: int) -> tuple[str | None, str]:
        """Run one tick; return (problem or None, details for health as JSON). `now` in ms."""
        self.own.begin()
        measured_store.measure_swaps(now)
        self.costs = measured_store.refresh_costs(now)
        try:
            rounds = self.play(now)
        except store.Outdated:
            # A trader was reviewed or reset since: the next tick plays the same again.
            rounds = 0
        written = self.write_posts(now)
        self.troubles = {key: one for key, one in self.troubles.items() if one.until > now}
        details = {"rounds": rounds, "posts": written.posts, "writer": written.model_problem}
        return self._name_troubles(), orjson.dumps(details).decode()

    def play(self, now: int) -> int:
        """Play what the scout took since the last tick and store it; return the number of rounds.
        Raises Outdated; then nothing was stored.

        A pass in which something went wrong with a trader is discarded and played again without
        that trader, so that nobody's fills depend on what an unstored trader took from a pool.
        """
        cursor, newest = load.find_cursor(), load.find_newest()
        if newest <= cursor and not load.has_traders():
            # Nobody trades, so no order of the process before this one is open, either.
            self.fresh = False
            return 0
        # A market that was played and not stored is of no use.
        last, self.market = self.market, None
        for _ in range(MAX_PASSES):
            faults = Faults()
            played = self._play_pass(last and last.copy_at(now), cursor, newest, now, faults)
            if not self._put_off(faults, now):
                break
        else:
            raise RuntimeError("paper mode finds no traders that can be played together")
        sol_cents = played.market.sol_cents if played.market else None
        notes = self._list_notes(now)
        store.store_round(played.loaded, max(cursor, newest), now, notes, sol_cents)
        for key, trouble in self.troubles.items():
            trouble.noted = trouble.noted or key.trader is not None
        self.market, self.fresh = played.market, False
        return played.rounds

    def _play_pass(
        self, market: Market | None, cursor: int, newest: int, now: int, faults: Faults
    ) -> Pass:
        """Play the new snapshots through the traders that are not put off. Nothing is stored."""
        loaded = load.load_traders(
            now,
            faults,
            {key.trader for key in self._list_put_off(now) if key.trader and key.mint is None},
            self.own.read_strategy,
        )
        own = [one.trader for one in loaded if not one.row.twin]
        for trader in own:
            with faults.isolate(trader.id):
                self._begin(trader, now)
        first = load.find_first_new(cursor, now - BACKLOG_MS) if loaded else None
        rounds = 0
        if first is not None:
            market = self._update_market(market, loaded, first, cursor, now, faults)
            rounds = self._play_rounds(
                market, loaded, first, range(cursor + 1, newest + 1), now, faults
            )
        for one in loaded:
            with faults.isolate(one.trader.id):
                store.check_round(one)
        return Pass(loaded, market, rounds)

    def _begin(self, trader: Trader, now: int) -> None:
        """Run a trader's heartbeat; orders left open by the last process are dropped."""
        trader.put_off = frozenset(
            key.mint for key in self._list_put_off(now) if key.trader == trader.id and key.mint
        )
        for mint in sorted(trader.put_off):
            trouble = self.troubles[FaultKey(trader.id, mint)]
            if not trouble.noted:
                trader.add_line(
                    "refusal", now, mint, reason="put_off", detail=trouble.what, symbol=mint[:6]
                )
        drop_orders(trader, now, all_of_them=self.fresh)
        for twin in trader.twins:
            drop_orders(twin, now, all_of_them=self.fresh)
            twin.journal.entries = []
        adaptive.check_account(trader, now)
        adaptive.run_heartbeat(trader, now)

    def _update_market(
        self,
        market: Market | None,
        loaded: Sequence[load.LoadedTrader],
        first: int,
        cursor: int,
        now: int,
        faults: Faults,
    ) -> Market:
        """Return the market as it was at the cursor: the one of the last tick, or one made from the
        snapshots before `first`.
        """
        self.tokens = load.find_tokens(faults)
        if market is None:
            market = Market(self.interval_ms)
            load.load_memories(market, now)
            begin = first - market.horizon_ms
            market.begin(begin, load.find_silences(load.find_oldest_mark(loaded, begin), begin))
            for snapshot in load.list_snapshots(self.tokens, begin, range(cursor + 1), faults):
                with faults.isolate():
                    faults.mint = snapshot.mint
                    market.push(snapshot, now)
        market.eligible = measured.list_eligible(measured_store.list_errors(now))
        market.costs = self.costs
        market.follow(self.tokens.values(), flows.see_flows(now - DAY_MS, cursor + 1))
        return market

    def _play_rounds(
        self,
        market: Market,
        loaded: Sequence[load.LoadedTrader],
        first: int,
        new: range,
        now: int,
        faults: Faults,
    ) -> int:
        """Play the snapshots taken since `first` whose id is in the range `new`, moment by moment;
        return the number of moments.
        """
        rounds = 0
        for at, group in groupby(
            load.list_snapshots(self.tokens, first, new, faults), lambda one: one.at
        ):
            engine.play(
                market,
                [one.trader for one in loaded if one.row.created_at <= at and not one.row.twin],
                list(group),
                now,
                faults,
            )
            rounds += 1
        return rounds

    # ---- trouble of one trader or token ----------------------------------------------------------
    def _list_put_off(self, now: int) -> list[FaultKey]:
        return [key for key, trouble in self.troubles.items() if trouble.until > now]

    def _put_off(self, faults: Faults, now: int) -> bool:
        """Put off what went wrong; return whether something of a trader is among it."""
        traders = load.list_trader_rows() if faults.found else {}
        for key, error in faults.found.items():
            self._note(self._widen(key, error, now), error, traders, now)
        return any(key.trader is not None for key in faults.found)

    def _widen(self, key: FaultKey, error: Exception, now: int) -> FaultKey:
        """Return the key of the trader as a whole where it has trouble with many tokens, or its
        strategy file failed.
        """
        if key.trader is None:
            return key
        if isinstance(error, OwnFault):
            return FaultKey(key.trader, None)
        tokens = [one for one in self._list_put_off(now) if one.trader == key.trader]
        return FaultKey(key.trader, None) if len(tokens) >= MAX_TROUBLED_TOKENS else key

    def _note(
        self, key: FaultKey, error: Exception, traders: Mapping[int, rows.TraderRow], now: int
    ) -> None:
        """Note a trouble, logged with its stack the first time, and lengthen its pause."""
        trouble = self.troubles.get(key)
        if trouble is None:
            row = traders.get(key.trader) if key.trader is not None else None
            who = f"@{row.handle}" if row else ""
            where = " in ".join(part for part in (who, key.mint) if part) or "paper mode"
            why = f"after an internal error ({type(error).__name__})"
            if isinstance(error, OwnFault):
                why = f"because {error}"
            trouble = self.troubles[key] = Trouble(f"{where} is put off {why}")
            log.error("%s", trouble.what, exc_info=error)
        elif trouble.until > now:
            # Of this tick, or not tried again yet.
            return
        trouble.tries += 1
        trouble.until = now + min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (trouble.tries - 1))

    def _list_notes(self, now: int) -> list[store.PeriodLine]:
        """List the lines for the diaries of traders that are put off as a whole, one each."""
        unnoted = {
            key.trader: trouble
            for key, trouble in self.troubles.items()
            if key.trader is not None and key.mint is None and not trouble.noted
        }
        traders = load.list_trader_rows() if unnoted else {}
        return [
            store.PeriodLine(
                traders[trader].period,
                DiaryLine(
                    "refusal",
                    now,
                    {"reason": "put_off", "detail": trouble.what, "symbol": diary.EVERY_TRADE},
                ),
            )
            for trader, trouble in unnoted.items()
            if trader in traders
        ]

    def _name_troubles(self) -> str | None:
        named = [trouble.what for trouble in self.troubles.values()]
        rest = len(named) - MAX_NAMED_TROUBLES
        more = f"; and {rest} more" if rest > 0 else ""
        return "; ".join(named[:MAX_NAMED_TROUBLES]) + more or None

    # ---- posts -----------------------------------------------------------------------------------
    def write_posts(self, now: int) -> Written:
        """Write and store posts about the news in the diaries.

        A line that fails to become a post stays without one, and does not keep the others from it.
        """
        entries, faults = store.list_unposted(MAX_LINES), Faults()
        authors: dict[int, Author] = {}
        silent = conduct.list_silent() if entries else set()
        posts: list[dict[str, Any]] = []
        model = language_model.Writer(self.config, time.monotonic() + MODEL_SECONDS)
        for entry in entries:
            if entry.trader in silent:
                continue
            with faults.isolate(entry.trader):
                post = self._write_post(entry, authors, model, now)
                posts += [post] if post else []
        for key, error in faults.found.items():
            if isinstance(error, OperationalError):
                # The database failed, not the words of a trader.
                raise error
            self._note(FaultKey(None, f"the words of trader {key.trader}"), error, {}, now)
        if entries:
            with writing():
                # Checked again: the owner may have left or been banned since.
                silent = conduct.list_silent()
                posts = [post for post in posts if post["trader"] not in silent]
                store.store_posts(posts, entries[-1].id)
        return Written(len(posts), model.problem)

    def _write_post(
        self,
        entry: rows.UnpostedRow,
        authors: dict[int, "Author"],
        model: language_model.Writer,
        now: int,
    ) -> dict[str, Any] | None:
        """Return the row of a post about one line of a diary, or None where it is no news."""
        facts = diary.find_news(entry.kind, orjson.loads(entry.facts))
        if facts is None:
            return None
        if entry.trader not in authors:
            history = store.read_post_history(entry.trader, RECENT_POSTS)
            voice = influencers.read_voice(entry.voice)
            authors[entry.trader] = Author(entry.handle, voice, *history)
        author = authors[entry.trader]
        body = author.write(facts, model)
        return {
            "uid": public_id(author.handle, "post", author.posts),
            "entry": entry.id,
            "trader": entry.trader,
            "body": body.text,
            "writer": body.writer,
            "mint": entry.mint,
            "symbol": facts.get("symbol"),
            "event_at": entry.at,
            "created_at": now,
        }


@dataclass
class Author:
    """A trader with its voice and its last posts."""

    handle: str
    persona: dict[str, Any]
    # How many it has written.
    posts: int
    recent: list[str]

    def write(self, facts: Mapping[str, Any], model: language_model.Writer) -> language_model.Text:
        """Write its next post. The built-in words depend on nothing but persona, facts, number and
        recent posts.
        """
        self.posts += 1
        seed = f"{self.handle}|post|{self.posts}"
        built_in = builtin.write(self.persona, facts, seed, self.recent)
        text = model.write(self.persona, facts, built_in)
        self.recent = [*self.recent[1 - RECENT_POSTS :], text.text]
        return text


def rebuild_trader(trader: Any, now: int) -> list[str]:
    """Fill the stored decisions of a trader and of its random-entry twins again, in all its account
    periods; return what came out different, as sentences.

    A difference opens a review of the trader's period and changes nothing else: what is compared
    with a wrong twin says nothing either.
    """
    found = []
    for period in list_periods(trader):
        whose = f"random entries {period.twin}, " if period.twin else ""
        handle = name_twin(trader.handle, period.twin) if period.twin else trader.handle
        differences = proof.find_differences(period, handle)
        found += [f"period {period.number}, {whose}{difference}" for difference in differences]
        if differences:
            own = Period.get(
                Period.trader == trader, Period.number == period.number, Period.twin == 0
            )
            _open_review(trader, own.id, now)
    return found


def _open_review(trader: Any, period: int, now: int) -> None:
    reason = "filling the stored decisions again gave something else"
    alarm = ReviewReason(f"refill_differs:{now}", "refill_differs", reason, now)
    with writing():
        store.store_review(period, [alarm])
        StoredTrader.update(version=StoredTrader.version + 1).where(
            StoredTrader.id == trader.id
        ).execute()


def list_periods(trader: Any) -> list[Period]:
    """List all account periods of a trader and its twins, the first ones first."""
    periods = Period.select().where(Period.trader == trader)
    return list(periods.order_by(Period.number, Period.twin))
