"""Paper mode, the job: plays the scout's snapshots through all traders and lets them speak of it.
It asks no provider of prices.

Everything is decided in paper/; this module moves data. A tick reads what is new, plays it moment
by moment, stores it in one transaction and then writes the posts, each in the words its persona has
now.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import orjson
from peewee import OperationalError

from config import Config
from paper import adaptive, diary, engine, load, rows, store
from paper.book import public_id
from paper.faults import Faults
from paper.guard import DAY
from paper.market import Market, Token
from paper.orders import drop_orders
from paper.refill import find_differences
from paper.tables import Period, Trader
from paper.trader import Alarm, DiaryLine
from paper.trader import Trader as Player
from storage import writing
from voice import builtin, language_model

log = logging.getLogger("candor.paper")
# older snapshots are not traded on any more
BACKLOG_MS = 2 * 3_600_000
# the scout's, where it is switched off
USUAL_INTERVAL_MS = 60_000
RECENT_POSTS = 20
# of the diaries, gone through for news in one tick; the rest follow
MAX_ENTRIES = 1_000
# of one tick, each without what went wrong in the one before
MAX_PASSES = 20
# tokens a trader may have trouble with before it is put off as a whole
MAX_TROUBLES = 3
# named in health
TOLD_TROUBLES = 5
# what went wrong is tried again, ever less often
FIRST_REST_MS, MAX_REST_MS = 60_000, 3_600_000
# the optional model may write for so long in one tick
MODEL_SECONDS = 20


@dataclass
class Trouble:
    """What went wrong inside with a trader, with a token of a trader, or with a token."""

    # who it is about, and the kind of the exception
    what: str
    tries: int = 0
    # ms: left alone until then
    until: int = 0
    # in the trader's diary
    told: bool = False


# (trader id or None, mint or None)
TroubleKey = tuple[int | None, str | None]


class Desk:
    """The job in one process, which runs its ticks one after the other."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.interval_ms = int(config.scout_interval_seconds * 1000) or USUAL_INTERVAL_MS
        # nothing was played by this process yet
        self.fresh = True
        self.market: Market | None = None
        # by row id
        self.tokens: dict[int, Token] = {}
        self.troubles: dict[TroubleKey, Trouble] = {}

    def run_tick(self, now: int) -> tuple[str | None, str]:
        """One tick; (problem or None, details for health as JSON). `now` in ms."""
        try:
            rounds = self.play(now)
        except store.Outdated:
            # A trader was reviewed or reset meanwhile: the next tick plays the same again.
            rounds = 0
        posts, trouble = self.speak(now)
        self.troubles = {key: one for key, one in self.troubles.items() if one.until > now}
        return (
            self._tell_troubles(),
            orjson.dumps({"rounds": rounds, "posts": posts, "writer": trouble}).decode(),
        )

    def play(self, now: int) -> int:
        """Play what the scout took since the last tick; the number of rounds. Outdated: nothing was
        stored.

        A pass in which something of a trader went wrong is thrown away and played again without it:
        nobody's fills may depend on what somebody took from a pool who is not stored.
        """
        cursor, newest = load.find_cursor(), load.find_newest()
        # one that was played and not stored is of no use
        kept, self.market = self.market, None
        for _ in range(MAX_PASSES):
            faults = Faults()
            seats, market, rounds = self._play_pass(
                kept and kept.copy(), cursor, newest, now, faults
            )
            new = self._put_off(faults, now)
            if not new:
                break
        else:
            raise RuntimeError("paper mode finds no traders that can be played together")
        store.store_round(seats, max(cursor, newest), self._list_notes(now))
        for key, trouble in self.troubles.items():
            trouble.told = trouble.told or key[0] is not None
        self.market, self.fresh = market, False
        return rounds

    def _play_pass(
        self, market: Market | None, cursor: int, newest: int, now: int, faults: Faults
    ) -> tuple[list[load.Seat], Market | None, int]:
        """(seats, market, rounds) of the traders that are not put off. Nothing is stored."""
        seats = load.list_seats(
            now,
            faults,
            {trader for trader, mint in self._left_alone(now) if trader and mint is None},
        )
        for seat in seats:
            with faults.of(seat.player.id):
                self._begin(seat.player, now)
        first = load.find_first_new(cursor, now - BACKLOG_MS) if seats else None
        rounds = 0
        if first is not None:
            market = self._update_market(market, first, cursor, now, faults)
            rounds = self._play_rounds(
                market, seats, first, range(cursor + 1, newest + 1), now, faults
            )
        for seat in seats:
            with faults.of(seat.player.id):
                store.check_round(seat)
        return seats, market, rounds

    def _begin(self, player: Player, now: int) -> None:
        """A heartbeat. What was on its way when the last process ended is taken as not filled."""
        player.put_off = frozenset(
            mint for trader, mint in self._left_alone(now) if trader == player.id and mint
        )
        for mint in sorted(player.put_off):
            trouble = self.troubles[player.id, mint]
            if not trouble.told:
                player.say(
                    "refusal", now, mint, reason="put_off", detail=trouble.what, symbol=mint[:6]
                )
        if self.fresh:
            drop_orders(player, now)
        adaptive.check_account(player, now)
        adaptive.beat(player, now)

    def _update_market(
        self, market: Market | None, first: int, cursor: int, now: int, faults: Faults
    ) -> Market:
        """The market as it stood at the cursor: kept from the last tick, or read from the time
        before `first`.
        """
        self.tokens = load.find_tokens(faults)
        if market is None:
            market = Market(self.interval_ms)
            for snapshot in load.list_snapshots(
                self.tokens, first - market.horizon_ms, range(cursor + 1), faults
            ):
                with faults.of():
                    faults.mint = snapshot.mint
                    market.push(snapshot, now)
        market.follow(self.tokens.values(), load.find_flows(now - DAY))
        return market

    def _play_rounds(
        self,
        market: Market,
        seats: Sequence[load.Seat],
        first: int,
        new: range,
        now: int,
        faults: Faults,
    ) -> int:
        """Play the snapshots whose id is in the range `new`, from the time `first` on, moment by
        moment.
        """
        rounds = 0
        for at, group in groupby(
            load.list_snapshots(self.tokens, first, new, faults), lambda one: one.at
        ):
            engine.play(
                market,
                [seat.player for seat in seats if seat.row.created_at <= at],
                list(group),
                now,
                faults,
            )
            rounds += 1
        return rounds

    # ---- trouble of one trader or token ----------------------------------------------------------
    def _left_alone(self, now: int) -> list[TroubleKey]:
        """The keys of what is put off now."""
        return [key for key, trouble in self.troubles.items() if trouble.until > now]

    def _put_off(self, faults: Faults, now: int) -> bool:
        """Remember what went wrong, logging each once with its stack; whether a trader's is among
        it.
        """
        names = load.list_names() if faults.found else {}
        for (trader, mint), error in faults.found.items():
            self._note(self._widen(trader, mint, now), error, names, now)
        return any(trader is not None for trader, _ in faults.found)

    def _widen(self, trader: int | None, mint: str | None, now: int) -> TroubleKey:
        """A trader with trouble in many tokens is put off as a whole."""
        tokens = [key for key in self._left_alone(now) if key[0] == trader and trader is not None]
        return (trader, None) if len(tokens) >= MAX_TROUBLES else (trader, mint)

    def _note(
        self, key: TroubleKey, error: Exception, names: Mapping[int, rows.TraderRow], now: int
    ) -> None:
        trader, mint = key
        trouble = self.troubles.get(key)
        if trouble is None:
            who = f"@{names[trader].handle}" if trader is not None and trader in names else ""
            where = " in ".join(part for part in (who, mint) if part) or "paper mode"
            trouble = self.troubles[key] = Trouble(
                f"{where} is put off after an internal error ({type(error).__name__})"
            )
            log.error("%s", trouble.what, exc_info=error)
        elif trouble.until > now:
            # of this tick, or known and not retried
            return
        trouble.tries += 1
        trouble.until = now + min(MAX_REST_MS, FIRST_REST_MS * 2 ** (trouble.tries - 1))

    def _list_notes(self, now: int) -> list[tuple[int, DiaryLine]]:
        """Lines for the diaries of traders that are put off as a whole: one for each trouble."""
        quiet = {
            trader: trouble
            for (trader, mint), trouble in self.troubles.items()
            if trader is not None and mint is None and not trouble.told
        }
        names = load.list_names() if quiet else {}
        return [
            (
                names[trader].period,
                DiaryLine(
                    "refusal",
                    now,
                    {"reason": "put_off", "detail": trouble.what, "symbol": "every trade"},
                ),
            )
            for trader, trouble in quiet.items()
            if trader in names
        ]

    def _tell_troubles(self) -> str | None:
        """What health says of all that is put off, or None."""
        told = [trouble.what for trouble in self.troubles.values()]
        more = f"; and {len(told) - TOLD_TROUBLES} more" if len(told) > TOLD_TROUBLES else ""
        return "; ".join(told[:TOLD_TROUBLES]) + more or None

    # ---- posts -----------------------------------------------------------------------------------
    def speak(self, now: int) -> tuple[int, str | None]:
        """Write posts about the news in the diaries; (how many, why the optional model did not
        write, or None).

        A line that cannot be put into words stays without a post: silence, and the others are
        heard.
        """
        entries, faults = store.list_unspoken(MAX_ENTRIES), Faults()
        speakers: dict[int, Speaker] = {}
        posts: list[dict[str, Any]] = []
        model = language_model.Writer(self.config, time.monotonic() + MODEL_SECONDS)
        for entry in entries:
            with faults.of(entry.trader):
                post = self._speak_of(entry, speakers, model, now)
                posts += [post] if post else []
        for (trader, _), error in faults.found.items():
            if isinstance(error, OperationalError):
                # the database's trouble is nobody's words
                raise error
            self._note((None, f"the words of trader {trader}"), error, {}, now)
        if entries:
            store.store_posts(posts, entries[-1].id)
        return len(posts), model.problem

    def _speak_of(
        self,
        entry: rows.UnspokenRow,
        speakers: dict[int, "Speaker"],
        model: language_model.Writer,
        now: int,
    ) -> dict[str, Any] | None:
        """The row of a post about one line of a diary, or None where it is no news."""
        facts = diary.find_news(entry.kind, orjson.loads(entry.facts))
        if facts is None:
            return None
        if entry.trader not in speakers:
            said = store.list_said(entry.trader, RECENT_POSTS)
            speakers[entry.trader] = Speaker(entry.handle, orjson.loads(entry.voice), *said)
        uid, body = speakers[entry.trader].speak(facts, model)
        return {
            "uid": uid,
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
class Speaker:
    """A trader with its voice and what it said lately."""

    handle: str
    persona: dict[str, Any]
    # of its posts
    count: int
    recent: list[str]

    def speak(
        self, facts: Mapping[str, Any], model: language_model.Writer
    ) -> tuple[str, language_model.Text]:
        """(id, writer.Text) of its next post. The built-in words depend on nothing but persona,
        facts, number and recent posts.
        """
        self.count += 1
        built_in = builtin.write(
            self.persona, facts, f"{self.handle}|post|{self.count}", self.recent
        )
        text = model.write(self.persona, facts, built_in)
        self.recent = [*self.recent[1 - RECENT_POSTS :], text.text]
        return public_id(self.handle, "post", self.count), text


def rebuild_trader(trader: Any, now: int) -> list[str]:
    """Fill a trader's stored decisions again, in all its account periods; what came out different,
    as sentences.

    Nothing is edited: a difference opens a review of the period, whose record stays as it is.
    """
    found = []
    for period in list(Period.select().where(Period.trader == trader).order_by(Period.number)):
        differences = find_differences(load.find_account(period, trader.handle))
        if differences:
            alarm = Alarm(
                f"refill_differs:{now}",
                "refill_differs",
                "filling the stored decisions again gave something else",
                now,
            )
            with writing():
                store.store_alarms(period.id, [alarm])
                Trader.update(version=Trader.version + 1).where(Trader.id == trader.id).execute()
        found += [f"period {period.number}, {difference}" for difference in differences]
    return found
