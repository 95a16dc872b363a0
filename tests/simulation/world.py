"""An instance of Candor and its surroundings, in one thread, and how to perform each step.

Everything that is a separate thread or process in reality has its own connection here. After a step
that ends with a kill, a new process starts with what is on the disk.
"""

import contextlib
import random
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ground
import open_queries
from node import connect
from service import GENEROUS, hide_post
from story import address

import jobs
import storage
from accounts import hooks, influencers, wallets
from accounts.problem import Problem
from accounts.tables import Hook
from app import create_app, fill_memory
from models import Address, Receipt, Wallet
from notify.outbox import Outbox
from observer import Observer
from observing.rebuilding import rebuild
from observing.subscriptions import list_subscriptions, make_due
from papertrade import PaperJob
from simulation import invariants
from simulation.clients import Follower, Poster, Receiver, StreamReader
from simulation.machinery import Clock, Killed, Scythe, Violation, apart, demand, ruled
from simulation.market import Market
from simulation.nodes import Node
from simulation.tale import COMMON, PEOPLE, Tale
from web.site import facts

# Worlds with an already observed beginning.
SHARE_COMMON = 0.8
# If every node fails, everything may be postponed for this long.
REST_SECONDS = 700.0
# After a day, everything has been listed and searched again.
DAY_SECONDS = 90_000
PAGES = ("/api/health", "/api/v1/bots", "/api/v1/trades", "/api/v1/feed", "/api/v1/leaderboard")
MINT_WORDS = {None: None, "CAT": address("CAT"), "FOX": address("FOX")}


class Start(NamedTuple):
    """The start of a world: a database with its bots and hook, and the time."""

    data: bytes
    bots: tuple[Any, ...] = ()
    hook: Any = None
    seconds: float = 1_000.0


class Grounds:
    """The worlds' application without its caches, their settings and initial databases."""

    def __init__(self, folder=None):
        in_memory = Path("/dev/shm")
        where = folder or tempfile.mkdtemp(dir=in_memory if in_memory.is_dir() else None)
        self.folder = Path(where)
        settings = ground.settings_of(self.folder / "data", SOLANA_WS_URLS="off")
        self.config = ground.change(
            settings, **GENEROUS, hooks_private="on", max_wallet_changes_per_day=10**6
        )
        ground.copy_empty(self.config)
        self.path = self.config.database_path
        self.empty = Start(self.path.read_bytes())
        self.app = create_app(self.config)
        storage.database.close_all()
        self.watched = self._watch()

    def _watch(self):
        """A start at which the common beginning of most tales was already observed."""
        tale = Tale(random.Random(0), is_common=True, people=PEOPLE[0])
        # Not a seed of a world that begins there, which would draw the same secrets.
        with World("watched", self, tale, self.empty) as world:
            world.look(4)
            world.database.close_all()
            return Start(self.path.read_bytes(), tuple(world.bots), world.hook, world.clock())

    def begin(self, start):
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self.path.write_bytes(start.data)


class World:
    """`play(step)` runs a step and checks the invariants; `settle` ends all faults and checks the
    final ones. As a context manager, it controls this thread's clocks.
    """

    def __init__(self, seed, grounds, tale=None, start=None):
        self.grounds, self.config = grounds, grounds.config
        self.dice = random.Random(f"world {seed}")
        self.tale = tale or Tale(self.dice, self.dice.random() < SHARE_COMMON)
        self._start = start or (grounds.watched if self.tale.is_common else grounds.empty)
        self.clock = Clock(self._start.seconds)
        self.tip = self.tale.chain.rows[COMMON - 1].slot
        self.nodes, self.app = [Node(self), Node(self)], grounds.app
        self.market, self.receiver = Market(self), Receiver()
        # Until then, nodes may fail altogether, which isn't our bug.
        self.faulty_until = 0.0
        # Another process's steps during the next requests to nodes, or None.
        self._beside, self._settling_seconds = [], REST_SECONDS
        self._ruled = ruled(self.clock, self.dice)

    # ---- its life --------------------------------------------------------------------------------
    def __enter__(self):
        self.grounds.begin(self._start)
        self._watched, open_queries.is_watched = open_queries.is_watched, False
        path = self.config.database_path
        self.scythe = Scythe(path, path.with_name("killed.db"))
        self._ruled.__enter__()
        self.database = None
        self.restart()
        with self.speaking():
            self._settle_in()
        self.poster = Poster(self, self.bots)
        self.followers = [Follower(self), StreamReader(self)]
        return self

    def _settle_in(self):
        """Create bots, a hook and a trader unless they exist."""
        now, self.bots, self.hook = self.clock.now(), list(self._start.bots), self._start.hook
        holders = [(person, address(person)) for person in self.tale.people]
        holders.insert(1, ("nobody", None))
        for word, wallet in holders[len(self.bots) :]:
            made = influencers.create_bot(self.config, f"Bot of {word}", now, wallet)
            self.bots.append(made)
        if self.hook is None:
            how = {"events": ("post", "verification"), "trusted": True}
            owner = self.bots[0].owner
            self.hook = hooks.add_hook(self.config, owner, "http://127.0.0.1/in", now, **how)
            self.market.open(now)
            for _ in range(3):
                self.clock.sleep(60)
                self.market.move("Coin", 100, None)

    def __exit__(self, *exc):
        self.database.close_all()
        self.scythe.put_away()
        open_queries.is_watched = self._watched
        self._ruled.__exit__(*exc)

    def play(self, step):
        # The order of two events in one millisecond is unknown.
        self.clock.sleep(0.001)
        try:
            getattr(self, step.name)(*step.arguments)
        except Killed:
            self.database.close_all()
            self.scythe.restore()
            self.restart()
        except (Violation, AssertionError):
            raise
        except Exception as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        with self.speaking():
            invariants.check(self)

    def settle(self):
        """End all faults; the known state must become the true one."""
        self.heal()
        self.scythe.raise_up(0)
        self._beside, self.tip = [], self.tale.chain.rows[-1].slot
        with self.speaking():
            self._hold_all()
        self.clock.sleep(self._settling_seconds)
        for turn in range(24):
            self.look(1)
            with self.speaking():
                invariants.check(self)
                left = invariants.list_unsettled(self)
            if not left:
                break
            self.clock.sleep(20_000 if turn % 3 == 2 else 60)
        demand(not left, f"not settled: {left}")
        for one in self.followers:
            one.read_all()
        with self.speaking():
            self._deliver_all()
            invariants.check_end(self)

    def _deliver_all(self):
        """The receiver works again: within some hours it gets everything."""
        for _ in range(40):
            self.receiver.is_told = False
            self.deliver(2)
            # After a day of failures, its owner must request a ping.
            if Hook.get_by_id(self.hook.id).state == "paused":
                hooks.ask_for_ping(self.hook.uid, self.clock.now())
            if self.receiver.list_missing(self.hook.id) == []:
                break
            self.clock.sleep(0 if self.receiver.is_told else 600)

    def restart(self):
        """A new process, which only has the disk's content."""
        if self.database is not None:
            self.database.close_all()
        self.database = storage.connect(self.config)
        self.database.pragma("synchronous", "off", permanent=True)
        fill_memory(self.app)
        rpc = connect(*self.nodes, clock=self.clock)
        self.observer = Observer(self.config, rpc, clock=self.clock, beat=self._beat)
        self.paper = PaperJob(self.config)
        tell = partial(facts.list_notices, self.config.base_url)
        self.outbox = Outbox(self.config, tell, self.receiver.take, start=lambda send: send())

    def _beat(self):
        jobs.note_heartbeat("observer", self.clock.now())

    def speaking(self):
        """A context manager that opens a connection for a job's thread."""
        return self.database.connection_context()

    # ---- who asks --------------------------------------------------------------------------------
    def ask(self, method, path, key=None, **more):
        """Request the API in a server thread; no response may be a 500."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with apart():
            answer = self.app.test_client().open(path, method=method, headers=headers, **more)
            demand(answer.status_code < 500, f"{path} answered {answer.status_code}")
            return answer

    def post(self, bot, about, place, mint):
        cited = {None: None, "row": self._row(place).signature, "nowhere": "5" * 88}[about]
        self.poster.send_new(bot % len(self.bots), signature=cited, mint=MINT_WORDS[mint])

    def repeat(self, place, altered):
        self.poster.repeat(place, altered)

    def hide(self, place):
        with apart(), self.speaking(), contextlib.suppress(Problem):
            self.poster.hide(place, partial(hide_post, now=self.clock.now()))

    def follow(self, limit):
        for one in self.followers:
            one.read(limit)

    def read(self, place):
        self.ask("GET", PAGES[place % len(PAGES)], self.poster.key)

    # ---- the jobs --------------------------------------------------------------------------------
    def look(self, times):
        """Run this many passes of the observer, one interval apart."""
        for _ in range(times):
            self.clock.sleep(self.config.observer_interval_seconds)
            now = self.clock.now()
            with self.speaking():
                problem, details = jobs.run_observer(self.observer, now)
                jobs.note_job("observer", "failing" if problem else "ok", now, problem, details)
                invariants.check_pass(self, problem)

    def ring(self, place):
        """A node sends notices of a transaction, which may still be in the future."""
        notices, rows = self.observer.notices, self.tale.chain.rows
        row = rows[-1 - place % len(rows)]
        with self.speaking():
            notices.want(list_subscriptions(self.clock.now()))
            for own in list(Address.select()):
                if own.address in row.keys:
                    notices.add(own.wallet_id, "endpoint 1", self.clock())
        self.clock.sleep(1.5)
        if due := notices.list_due(self.clock):
            with self.speaking():
                make_due(due)
                notices.hurry(due, self.clock())
                jobs.run_observer(self.observer, self.clock.now())

    def trade(self, *moves):
        """Run this many rounds of the market, a minute apart, each with a paper mode tick."""
        for mint, percent, pool in moves:
            self.clock.sleep(55)
            with self.speaking():
                self.market.move(mint, percent, pool)
            self.clock.sleep(5)
            with self.speaking():
                problem, _ = self.paper.run_tick(self.clock.now())
            demand(problem is None, f"paper mode: {problem}")

    def deliver(self, times, behavior="well"):
        """Run the hook job with this receiver behavior."""
        self.receiver.behavior = behavior
        for _ in range(times):
            self.clock.sleep(1.5)
            with self.speaking():
                self.outbox.synchronize()
                self.outbox.deliver()

    def rebuild(self):
        """The operator rebuilds everything while the server runs."""
        with self.speaking(), jobs.observer_lock():
            other = Observer(self.config, connect(*self.nodes), clock=self.clock)
            rebuild(other.state, Wallet.select(), self.clock.now())

    def attach(self, bot, person):
        """A bot connects a person's wallet if it can."""
        with self.speaking(), contextlib.suppress(Problem):
            bot = self.bots[bot % len(self.bots)].bot
            wallets.attach_wallet(self.config, bot, self._wallet(person), self.clock.now())

    def join(self, bot, person):
        """A bot proves its current wallet, and adds a person's."""
        bot = self.bots[bot % len(self.bots)].bot
        with self.speaking(), contextlib.suppress(Problem):
            if lead := wallets.find_attachment(bot):
                now, proven = self.clock.now(), lead.wallet.address
                wallets.attach_wallet(self.config, bot, proven, now, "proven")
            wallets.add_wallet(self.config, bot, self._wallet(person), self.clock.now())

    def leave(self, place):
        """A bot disconnects one of its wallets; the bot with the most goes first."""
        with self.speaking():
            bot = max((one.bot for one in self.bots), key=lambda one: len(self.list_held(one)))
            if held := wallets.list_holdings(bot):
                leaving = held[place % len(held)].wallet.address
                wallets.remove_wallet(bot, leaving, self.clock.now())

    def list_held(self, bot):
        """The addresses of a bot's wallets."""
        with apart(), self.speaking():
            return {one.wallet.address for one in wallets.list_holdings(bot)}

    def detach(self, bot):
        with self.speaking():
            wallets.detach_wallet(self.bots[bot % len(self.bots)].bot, self.clock.now())

    def _wallet(self, person):
        return address(self.tale.people[person % len(self.tale.people)])

    def _hold_all(self):
        """Connect every wallet to some bot again."""
        free = [number for number, one in enumerate(self.bots) if not self.list_held(one.bot)]
        for person in range(len(self.tale.people)):
            if not wallets.find_holder(self._wallet(person)):
                self.attach(free.pop(), person)

    # ---- the machine -----------------------------------------------------------------------------
    def kill(self, commits):
        """Kill the process at one of the next commits."""
        self.scythe.raise_up(commits)

    def beside(self, first, count, step):
        """Another process takes a step during this many requests to nodes, from `first` on."""
        self._beside = [None] * (first - 1) + [step] * (count + 1)

    def go_beside(self):
        """A node is queried: run the concurrent step, if any."""
        if self._beside and (step := self._beside.pop(0)):
            # Its own requests to nodes aren't counted.
            kept, self._beside = self._beside, []
            with apart():
                getattr(self, step.name)(*step.arguments)
            self._beside = kept

    def wait(self, seconds):
        self.clock.sleep(seconds)

    def set_clock(self, seconds):
        self.clock.offset += seconds

    def spoil(self, place, damaged, is_lost):
        """The disk loses a stored transaction: its row, which is noticed within a day, or its
        bytes, which an upgrade that rereads everything notices. `is_lost`: no node has it.
        """
        row = self._row(place)
        for node in self.nodes if is_lost else ():
            node.drop(row.signature)
        with self.speaking(), storage.writing():
            spoiled = Receipt.signature == row.signature
            if damaged:
                Receipt.update(body=b"no zlib").where(spoiled).execute()
                Wallet.update(rules="").execute()
            else:
                Receipt.delete().where(spoiled).execute()
                self._settling_seconds = DAY_SECONDS

    def _row(self, place):
        """A transaction, counted from the newest, because events concern recent ones."""
        seen = [row for row in self.tale.chain.rows if row.slot <= self.tip]
        return seen[-1 - place % len(seen)]

    # ---- the nodes -------------------------------------------------------------------------------
    def grow(self, count):
        """Add this many transactions to the chain."""
        slots = [row.slot for row in self.tale.chain.rows if row.slot > self.tip][:count]
        self.tip = slots[-1] if slots else self.tip

    def heal(self):
        for node in self.nodes:
            node.restore()
        self.faulty_until = min(self.faulty_until, self.clock() + REST_SECONDS)

    def fault(self, number, kind, place):
        for node in self.nodes if number == 2 else (self.nodes[number],):
            node.misbehave(kind, place, self._row(place))
        self.faulty_until = float("inf")
