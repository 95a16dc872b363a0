"""The public API in any order, in the simulation's world: hypothesis draws requests and forms, and
the invariants of every seed must hold.
"""

import ground
import sampling
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from simulation import invariants
from simulation.steps import Step
from simulation.world import Grounds, World

from accounts import api_keys, influencers
from models import Bot, Post

pytestmark = [ground.sqlite_only, ground.file_only]
PLACES, LIMITS = st.integers(0, 5), st.integers(1, 3)


def step(name, *arguments):
    return st.builds(Step, st.just(name), st.tuples(*arguments))


STEPS = st.one_of(
    step("post", PLACES, st.sampled_from((None, "row", "nowhere")), PLACES, st.none()),
    step("repeat", PLACES, st.booleans()),
    step("hide", PLACES),
    step("attach", PLACES, PLACES),
    step("detach", PLACES),
    step("look", st.just(1)),
    step("restart"),
    step("follow", LIMITS),
    step("read", PLACES),
)


class Interface(RuleBasedStateMachine):
    """One instance's bots, keys, wallets, posts, lists and cursors."""

    grounds: Grounds

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed):
        self.world = World(seed, self.grounds)
        self.world.__enter__()
        # Read keys by their text, and whether they work.
        self.keys = {}

    def teardown(self):
        if hasattr(self, "world"):
            self.world.__exit__(None, None, None)

    @rule(steps=st.lists(STEPS, min_size=1, max_size=6))
    def play(self, steps):
        for step in steps:
            self.world.play(step)

    @rule()
    def create_bot(self):
        world = self.world
        with world.speaking():
            name = f"Further {len(world.bots)}"
            world.bots.append(influencers.create_bot(world.config, name, world.clock.now()))

    @rule()
    def create_key(self):
        with self.world.speaking():
            made = api_keys.create_key(self.world.bots[0].owner, "read", self.world.clock.now())
        self.keys[made.text] = made.key.uid

    @precondition(lambda self: any(self.keys.values()))
    @rule()
    def revoke_key(self):
        text = next(text for text, uid in self.keys.items() if uid)
        with self.world.speaking():
            api_keys.revoke_key(self.keys[text], self.world.clock.now())
        self.keys[text] = None

    @rule(limit=LIMITS)
    def page_through_lists(self, limit):
        """Each post and each bot is in its list once, newest first."""
        for path, model in (("/api/v1/feed", Post), ("/api/v1/bots", Bot)):
            with self.world.speaking():
                there = list(model.select(model.uid).order_by(model.id.desc()).scalars())
            found, cursor = [], ""
            while cursor is not None:
                asked = f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else "")
                page = self.world.ask("GET", asked, self.world.poster.key).json
                found, cursor = found + [one["id"] for one in page["data"]], page["nextCursor"]
            assert found == there, path

    @rule()
    def use_keys(self):
        """A key works until it is revoked."""
        for text, uid in self.keys.items():
            status = self.world.ask("GET", "/api/v1/me", text).status_code
            assert status == (200 if uid else 401)

    @invariant()
    def holds(self):
        if hasattr(self, "world"):
            with self.world.speaking():
                invariants.check(self.world)


def test_the_api_keeps_its_contract_for_any_request(tmp_path):
    machine = type("Interface", (Interface,), {"grounds": Grounds(tmp_path)})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=6 if sampling.FULL else 3, stateful_step_count=14)
    )
