"""Paper mode, the job: plays the scout's snapshots through all traders and lets them speak of it. It asks no provider of prices.

Everything is decided in paper/; this module moves data. A tick reads what is new, plays it moment by moment, stores it in one transaction and then
writes the posts, each in the words its persona has now.
"""
import time
from dataclasses import dataclass
from itertools import groupby

import orjson

import paperbooks
import voice
import writer
from models import Period, Trader, writing
from paper import diary, engine
from paper.book import public_id
from paper.guard import DAY
from paper.market import Market
from paper.refill import find_differences

BACKLOG_MS = 2 * 3_600_000             # older snapshots are not traded on any more
USUAL_INTERVAL_MS = 60_000             # the scout's, where it is switched off
RECENT_POSTS = 20
MOST_ENTRIES = 1_000                   # of the diaries, gone through for news in one tick; the rest follow
MODEL_SECONDS = 20                     # the optional model may write for so long in one tick


class Desk:
    """The job in one process, which runs its ticks one after the other."""

    def __init__(self, config):
        self.config = config
        self.interval_ms = int(config.scout_interval_seconds * 1000) or USUAL_INTERVAL_MS
        self.fresh = True                                  # nothing was played by this process yet
        self.market, self.tokens = None, {}

    def run_tick(self, now):
        """One tick; (problem or None, details for health as JSON). `now` in ms."""
        try:
            rounds = self.play(now)
        except paperbooks.Outdated:
            rounds = 0                                     # a trader was reviewed or reset meanwhile: the next tick plays the same again
        posts, trouble = self.speak(now)
        return None, orjson.dumps({"rounds": rounds, "posts": posts, "writer": trouble}).decode()

    def play(self, now):
        """Play what the scout took since the last tick; the number of rounds. Outdated: nothing was stored."""
        cursor, newest = paperbooks.find_cursor(), paperbooks.find_newest()
        seats = paperbooks.list_seats(now)
        for seat in seats:
            self._begin(seat.player, now)
        first = paperbooks.find_first_new(cursor, now - BACKLOG_MS) if seats else None
        market, self.market = self.market, None            # one that was played and not stored is of no use
        if first is not None:
            market = self._update_market(market, first, cursor, now)
        rounds = 0 if first is None else self._play_rounds(market, seats, first, range(cursor + 1, newest + 1), now)
        paperbooks.store_round(seats, max(cursor, newest))
        self.market, self.fresh = market, False
        return rounds

    def _begin(self, player, now):
        """A heartbeat. What was on its way when the last process ended is taken as not filled."""
        if self.fresh:
            engine.drop_orders(player, now)
        engine.check_account(player, now)
        engine.beat(player, now)

    def _update_market(self, market, first, cursor, now):
        """The market as it stood at the cursor: kept from the last tick, or read from the time before `first`."""
        self.tokens = paperbooks.find_tokens()
        if market is None:
            market = Market(self.interval_ms)
            for snapshot in paperbooks.list_snapshots(self.tokens, first - market.horizon_ms, range(cursor + 1)):
                market.push(snapshot, now)
        market.follow(self.tokens.values(), paperbooks.find_flows(now - DAY))
        return market

    def _play_rounds(self, market, seats, first, new, now):
        """Play the snapshots whose id is in the range `new`, from the time `first` on, moment by moment."""
        rounds = 0
        for at, group in groupby(paperbooks.list_snapshots(self.tokens, first, new), lambda one: one.at):
            engine.play(market, [seat.player for seat in seats if seat.created_at <= at], list(group), now)
            rounds += 1
        return rounds

    # ---- posts ------------------------------------------------------------------------------------------------------------
    def speak(self, now):
        """Write posts about the news in the diaries; (how many, why the optional model did not write, or None)."""
        entries, speakers, posts = paperbooks.list_unspoken(MOST_ENTRIES), {}, []
        model = writer.Writer(self.config, time.monotonic() + MODEL_SECONDS)
        for ident, trader, handle, persona, kind, at, mint, facts in entries:
            facts = diary.find_news(kind, orjson.loads(facts))
            if facts is None:
                continue
            if trader not in speakers:
                speakers[trader] = Speaker(handle, orjson.loads(persona), *paperbooks.list_said(trader, RECENT_POSTS))
            uid, body = speakers[trader].speak(facts, model)
            posts.append({"uid": uid, "entry": ident, "trader": trader, "body": body.text, "writer": body.writer, "mint": mint,
                          "symbol": facts.get("symbol"), "event_at": at, "created_at": now})
        if entries:
            paperbooks.store_posts(posts, entries[-1][0])
        return len(posts), model.problem


@dataclass
class Speaker:
    """A trader with its voice and what it said lately."""

    handle: str
    persona: dict
    count: int                         # of its posts
    recent: list

    def speak(self, facts, model):
        """(id, writer.Text) of its next post. The built-in words depend on nothing but persona, facts, number and recent posts."""
        self.count += 1
        built_in = voice.write(self.persona, facts, f"{self.handle}|post|{self.count}", self.recent)
        text = model.write(self.persona, facts, built_in)
        self.recent = [*self.recent[1 - RECENT_POSTS:], text.text]
        return public_id(self.handle, "post", self.count), text


def rebuild_trader(trader, now):
    """Fill a trader's stored decisions again, in all its account periods; what came out different, as sentences.

    Nothing is edited: a difference opens a review of the period, whose record stays as it is.
    """
    found = []
    for period in list(Period.select().where(Period.trader == trader).order_by(Period.number)):
        differences = find_differences(paperbooks.find_account(period, trader.handle))
        if differences:
            alarm = engine.Alarm(f"refill_differs:{now}", "refill_differs", "filling the stored decisions again gave something else", now)
            with writing():
                paperbooks.store_alarms(period.id, [alarm])
                Trader.update(version=Trader.version + 1).where(Trader.id == trader.id).execute()
        found += [f"period {period.number}, {difference}" for difference in differences]
    return found
