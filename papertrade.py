"""The paper mode job runs all traders on the scout's snapshots, then writes their posts.

paper/ makes every decision. This module moves data and never calls a price provider. A tick reads
new snapshots, processes them in time order, stores the result in one transaction and then writes
posts, each in its trader's current voice.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson
from peewee import OperationalError

from accounts import conduct, influencers
from config import Config
from paper import brain, engine, measured, store
from paper.account import public_id
from paper.engine import Market, drop_orders, name_twin
from paper.fills import RECORDED_COSTS
from paper.market import SKEW_MS, Token
from paper.own import OwnFiles
from paper.player import DiaryLine, FaultKey, Faults, OwnFault, Player, ReviewReason
from paper.rules import DAY_MS
from paper.tables import DiaryEntry, Period, Trader
from storage import writing
from voice import builtin, language_model

log = logging.getLogger("candor.paper")
# Don't trade on older snapshots.
BACKLOG_MS = 2 * 3_600_000
# The scout's interval while the scout is off.
DEFAULT_INTERVAL_MS = 60_000
RECENT_POSTS = 20
# Diary lines considered for posts per tick. The rest follow later.
MAX_LINES = 1_000
# Passes per tick. Each pass omits the tokens and traders that failed in the one before.
MAX_PASSES = 20
MAX_TROUBLED_TOKENS = 3
MAX_NAMED_TROUBLES = 5
FIRST_PAUSE_MS, MAX_PAUSE_MS = 60_000, 3_600_000
MODEL_SECONDS = 20


@dataclass
class Trouble:
    """An internal error with a trader, a token, or one trader's token, which is suspended."""

    what: str
    tries: int = 0
    # Suspended until this time (ms).
    until: int = 0
    # Whether the trader's diary mentions it.
    noted: bool = False

    def tell(self, now: int, mint: str | None) -> DiaryLine:
        symbol = mint[:6] if mint else brain.EVERY_TRADE
        facts = {"reason": "put_off", "detail": self.what, "symbol": symbol}
        return DiaryLine("refusal", now, facts, mint)


@dataclass
class Pass:
    cursor: int
    newest: int
    now: int
    # None means that it must be rebuilt.
    market: Market | None
    traders: list[Player] = field(default_factory=list)
    rounds: int = 0
    faults: Faults = field(default_factory=Faults)


class PaperJob:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.interval_ms = int(config.scout_interval_seconds * 1000) or DEFAULT_INTERVAL_MS
        # True until this process has processed snapshots.
        self.fresh = True
        self.market: Market | None = None
        self.costs = RECORDED_COSTS
        self.troubles: dict[FaultKey, Trouble] = {}
        self.own = OwnFiles(config.data_dir, config.own_strategies)

    def run_tick(self, now: int) -> tuple[str | None, str]:
        """Return a problem or None, and details for health as JSON. `now`: ms."""
        self.own.begin()
        measured.measure_swaps(now)
        self.costs = measured.refresh_costs(now)
        try:
            rounds = self.play(now)
        except store.Outdated:
            # A trader was reviewed or reset during this tick, so the next tick replays it.
            rounds = 0
        posts, model_problem = self.write_posts(now)
        self.troubles = {key: one for key, one in self.troubles.items() if one.until > now}
        details = {"rounds": rounds, "posts": posts, "writer": model_problem}
        return self._name_troubles(), orjson.dumps(details).decode()

    def play(self, now: int) -> int:
        """Process and store the snapshots since the last tick. Return the number of rounds.

        If a trader fails, the pass is discarded and replayed without it, so that no fill depends on
        a trader that isn't stored. If Outdated is raised, nothing was stored.
        """
        cursor, newest = store.find_cursor(), store.find_newest()
        has_traders = store.has_traders()
        if newest <= cursor and not has_traders:
            # Without traders, the previous process can't have left open orders.
            self.fresh = False
            return 0
        if has_traders and (newest > cursor or store.list_copied()):
            store.see_flows(now - DAY_MS, cursor + 1, now)
            newest = store.find_newest()
        # If the result isn't stored, this market can't be used again.
        market, self.market = self.market, None
        if market and market.newest_at > now + SKEW_MS:
            # The clock was set back, so every new snapshot would count as out of date.
            market = None
        for _ in range(MAX_PASSES):
            played = Pass(cursor, newest, now, market)
            self._play_pass(played)
            if not self._suspend(played.faults, now):
                break
            market = None
        else:
            raise RuntimeError(
                f"paper mode gave up after {MAX_PASSES} passes, because a trader failed in each one"
            )
        sol_cents = played.market.sol_cents if played.market else None
        notes = self._list_notes(now)
        store.store_round(played.traders, max(cursor, newest), now, notes, sol_cents)
        for key, trouble in self.troubles.items():
            trouble.noted = trouble.noted or key.trader is not None
        self.market, self.fresh = played.market, False
        return played.rounds

    def _play_pass(self, one: Pass) -> None:
        now, faults = one.now, one.faults
        skipped = {
            key.trader for key in self._list_suspended(now) if key.trader and key.mint is None
        }
        one.traders = store.load_traders(now, faults, skipped, self.own.read_strategy)
        own = [trader for trader in one.traders if not trader.row.twin]
        for trader in own:
            with faults.isolate(trader.id):
                self._begin(trader, now)
        first = store.find_first_new(one.cursor, now - BACKLOG_MS) if own else None
        if first is not None:
            tokens = store.find_tokens(faults)
            one.market = market = self._update_market(one, tokens, first)
            new = range(one.cursor + 1, one.newest + 1)
            snapshots = store.list_snapshots(tokens, first, new, faults)
            for at, group in groupby(snapshots, lambda one: one.at):
                playing = [trader for trader in own if trader.row.created_at <= at]
                engine.play(market, playing, list(group), now, faults)
                one.rounds += 1
        for trader in one.traders:
            with faults.isolate(trader.id):
                store.check_round(trader)

    def _begin(self, trader: Player, now: int) -> None:
        trader.put_off = frozenset(
            key.mint for key in self._list_suspended(now) if key.trader == trader.id and key.mint
        )
        for mint in sorted(trader.put_off):
            trouble = self.troubles[FaultKey(trader.id, mint)]
            if not trouble.noted:
                trader.journal.entries.append(trouble.tell(now, mint))
        drop_orders(trader, now, all_of_them=self.fresh)
        for twin in trader.twins:
            drop_orders(twin, now, all_of_them=self.fresh)
            twin.journal.entries = []
        engine.check_account(trader, now)
        engine.run_heartbeat(trader, now)

    def _update_market(self, one: Pass, tokens: Mapping[int, Token], first: int) -> Market:
        """Return the market at the cursor, rebuilt from older snapshots if necessary."""
        market, now, faults = one.market, one.now, one.faults
        if market is None:
            market = Market(self.interval_ms)
            store.load_memories(market, now)
            begin = first - market.horizon_ms
            oldest = store.find_oldest_mark(one.traders, begin)
            market.begin(begin, store.find_silences(oldest, begin))
            for snapshot in store.list_snapshots(tokens, begin, range(one.cursor + 1), faults):
                with faults.isolate(mint=snapshot.mint):
                    market.push(snapshot, now)
                    market.note_sol([snapshot])
        market.eligible = measured.list_eligible(measured.list_errors(now))
        market.costs = self.costs
        market.follow(tokens.values(), store.list_flows(now - DAY_MS))
        return market

    # ---- trouble of one trader or token ----------------------------------------------------------
    def _list_suspended(self, now: int) -> list[FaultKey]:
        return [key for key, trouble in self.troubles.items() if trouble.until > now]

    def _suspend(self, faults: Faults, now: int) -> bool:
        """Suspend what failed. Return whether a trader is among it."""
        traders = store.list_trader_rows() if faults.found else {}
        for key, error in faults.found.items():
            self._note(self._widen(key, error, now), error, traders, now)
        return any(key.trader is not None for key in faults.found)

    def _widen(self, key: FaultKey, error: Exception, now: int) -> FaultKey:
        if key.trader is None:
            return key
        if isinstance(error, OwnFault):
            return FaultKey(key.trader, None)
        tokens = [one for one in self._list_suspended(now) if one.trader == key.trader]
        return FaultKey(key.trader, None) if len(tokens) >= MAX_TROUBLED_TOKENS else key

    def _note(
        self, key: FaultKey, error: Exception, traders: Mapping[int, store.Row], now: int
    ) -> None:
        """Record a failure and extend its suspension. The first time, log the stack trace."""
        trouble = self.troubles.get(key)
        if trouble is None:
            row = traders.get(key.trader) if key.trader is not None else None
            who = f"@{row.handle}" if row else ""
            where = " in ".join(part for part in (who, key.mint) if part) or "paper mode"
            why = f"after an internal error ({type(error).__name__})"
            if isinstance(error, OwnFault):
                why = f"because {error}"
            trouble = self.troubles[key] = Trouble(f"{where} is suspended {why}")
            log.error("%s", trouble.what, exc_info=error)
        elif trouble.until > now:
            # The failure is from this tick, or wasn't retried yet.
            return
        trouble.tries += 1
        trouble.until = now + min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (trouble.tries - 1))

    def _list_notes(self, now: int) -> list[store.Columns]:
        unnoted = {
            key.trader: trouble
            for key, trouble in self.troubles.items()
            if key.trader is not None and key.mint is None and not trouble.noted
        }
        traders = store.list_trader_rows() if unnoted else {}
        return [
            store.show(trouble.tell(now, None), DiaryEntry, period=traders[trader].period)
            for trader, trouble in unnoted.items()
            if trader in traders
        ]

    def _name_troubles(self) -> str | None:
        named = [trouble.what for trouble in self.troubles.values()]
        rest = len(named) - MAX_NAMED_TROUBLES
        more = f"; and {rest} more" if rest > 0 else ""
        return "; ".join(named[:MAX_NAMED_TROUBLES]) + more or None

    # ---- posts -----------------------------------------------------------------------------------
    def write_posts(self, now: int) -> tuple[int, str | None]:
        """Write posts about news in the diaries. Return their number, and why the model wrote none.

        If the post for a line fails, that line stays without a post and doesn't block the others.
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
                # The database failed, not this trader's text.
                raise error
            self._note(FaultKey(None, f"trader {key.trader}'s post text"), error, {}, now)
        if entries:
            with writing():
                # An owner may have been deleted or banned since the first check.
                silent = conduct.list_silent()
                posts = [post for post in posts if post["trader"] not in silent]
                store.store_posts(posts, entries[-1].id)
        return len(posts), model.problem

    def _write_post(
        self,
        entry: store.Row,
        authors: dict[int, "Author"],
        model: language_model.Writer,
        now: int,
    ) -> dict[str, Any] | None:
        facts = brain.find_news(entry.kind, orjson.loads(entry.facts))
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
    handle: str
    persona: dict[str, Any]
    posts: int
    recent: list[str]

    def write(self, facts: Mapping[str, Any], model: language_model.Writer) -> language_model.Text:
        """The built-in text depends only on the persona, facts, number and recent posts."""
        self.posts += 1
        seed = f"{self.handle}|post|{self.posts}"
        built_in = builtin.write(self.persona, facts, seed, self.recent)
        text = model.write(self.persona, facts, built_in)
        self.recent = [*self.recent[1 - RECENT_POSTS :], text.text]
        return text


def rebuild_trader(trader: Any, now: int) -> list[str]:
    """Recompute the fills of all stored decisions of a trader and its random-entry twins.

    Returns the differences as sentences. Any of them opens a review of the trader's period, even in
    a twin, because it makes the comparison meaningless.
    """
    found = []
    periods = Period.select().where(Period.trader == trader)
    for period in list(periods.order_by(Period.number, Period.twin)):
        whose = f"random entries {period.twin}, " if period.twin else ""
        differences = store.find_differences(period, name_twin(trader.handle, period.twin))
        found += [f"period {period.number}, {whose}{difference}" for difference in differences]
        if differences:
            own = Period.get(
                Period.trader == trader, Period.number == period.number, Period.twin == 0
            )
            _open_review(trader, own.id, now)
    return found


def _open_review(trader: Any, period: int, now: int) -> None:
    reason = "recomputing the fills of the stored decisions gave a different result"
    alarm = ReviewReason(f"refill_differs:{now}", "refill_differs", reason, now)
    with writing():
        store.store_review(period, [alarm])
        Trader.update(version=Trader.version + 1).where(Trader.id == trader.id).execute()
