"""A price that falls below the limit: a second provider's response, what is stored, and the effects
on holders of the token.
"""

import json

import orjson
import pytest
from fakemarket import SECOND
from stage import RISE
from tape import MINUTE, START, Tape, adds_up, fills, told, why_excluded
from test_scout import ONE, TWO, discover, market, world  # noqa: F401  fixtures

from market import store
from market.rules import Fall, find_fall
from market.tables import Snapshot, Token
from paper.fills import SEEN_TWICE, SLIPPED
from paper.tables import PaperFill
from scout import judge_fall

SOL = 10**9


# ---- the scout asks ------------------------------------------------------------------------------
@pytest.fixture
def holding(world):  # noqa: F811
    """A scout whose paper mode holds a token at 0.0025 SOL."""
    discover(world, ONE, TWO)
    world.tick()
    store.replace_held([ONE])
    return world


def fall(holding, sol="0.0001"):
    """Let the price fall. Return the check that is stored with the snapshot."""
    holding.market.price(ONE, usd="0.02", sol=sol)
    holding.seconds += 6
    assert holding.scout.run_held(holding.now + 6_000) == (None, None)
    newest = Snapshot.select().order_by(Snapshot.id.desc()).first()
    return newest.fall_check and json.loads(newest.fall_check)


def test_a_second_provider_is_asked_about_the_fall_of_a_held_token(holding):
    """0.0025 to 0.0001 is a 25th. GeckoTerminal gets one more request."""
    holding.market.agree(ONE, "0.00011")
    assert fall(holding) == {"before": "0.0025", "price_sol": "0.00011", "problem": None}
    assert holding.market.asked[SECOND] == 1
    assert holding.scout.budgets["geckoterminal"].requests == 2
    # The next snapshot isn't a fall anymore.
    assert fall(holding) is None and holding.market.asked[SECOND] == 1


def test_smaller_falls_and_unheld_tokens_are_not_asked_about(holding):
    """0.0025 / 20 = 0.000125 is the bound."""
    assert fall(holding, "0.000125") is None
    store.replace_held([TWO])
    assert fall(holding, "0.000001") is None
    assert holding.market.asked[SECOND] == 0


@pytest.mark.parametrize(
    "answer, problem",
    [
        ({"status": 500}, "returned HTTP 500"),
        ({"status": 429, "headers": {"Retry-After": "60"}}, "returned HTTP 429"),
        ({"status": None}, "could not be reached, or the connection was lost"),
        ({"body": b"nonsense"}, "sent a response that is not JSON"),
        ({"body": b'{"data": [7]}'}, "1 entries couldn't be read"),
        ({"body": b'{"data": []}'}, "returned no price for this pool"),
    ],
)
def test_without_an_answer_the_price_is_stored_with_the_reason(holding, answer, problem):
    holding.market.answer(SECOND, **answer)
    assert fall(holding) == {"before": "0.0025", "price_sol": None, "problem": problem}
    assert Token.get(mint=ONE).price_sol == "0.0001"
    # Its error doesn't affect other feeds, and is no reason to call prices stale.
    assert holding.scout.prices.error is None


@pytest.mark.parametrize(
    "pair, price, problem, found",
    [
        ("pool", "0.01", None, ("0.01", None)),
        # Data from before the response was cut off counts.
        ("pool", "0.01", "returned HTTP 500", ("0.01", None)),
        ("another", "0.01", None, (None, "returned no price for this pool")),
        ("pool", None, None, (None, "returned no price for this pool")),
        ("pool", None, "returned HTTP 500", (None, "returned HTTP 500")),
    ],
)
def test_only_a_price_of_the_same_pool_counts(pair, price, problem, found):
    told = store.Quote(ONE, "geckoterminal", None, None, price, *[None] * 6, None, pair)
    assert judge_fall(Fall(ONE, "pool", "1"), told, problem) == ("1", *found)


def test_an_exhausted_limit_is_named(holding):
    holding.scout.falls.pace.pause(60)
    assert fall(holding)["problem"] == "not queried, because its request limit was reached"
    assert holding.market.asked[SECOND] == 0


@pytest.mark.parametrize(
    "price, pair, found",
    [("1", "pool", True), ("1", "another", False), (None, "pool", False), ("0.2", "pool", False)],
)
def test_a_fall_belongs_to_one_pool(price, pair, found):
    seen = store.Quote(ONE, "dexscreener", None, None, "0.01", *[None] * 6, None, "pool")
    last = Token(mint=ONE, price_sol=price, pair=pair)
    assert find_fall(seen, last) == (Fall(ONE, "pool", "1") if found else None)


# ---- paper mode believes -------------------------------------------------------------------------
def fallen(second=None):
    check = {"before": "0.001", "price_sol": second, "problem": None}
    return {"price": "0.00001", "fall_check": orjson.dumps(check).decode()}


def test_a_fall_that_two_providers_saw_counts_at_once():
    """A hundredth of the price: marked at the first snapshot, sold at the next one."""
    one = told(0, leave=(3,))
    tape = Tape([one]).play(3).play(A=fallen("0.000011"))
    assert one.account.positions["A"].marked_at == START + 3 * MINUTE
    tape.play(A={"price": "0.0000101"})
    position = one.journal.positions[1]
    assert position.closed_at == START + 4 * MINUTE and position.cash < -SOL * 9 // 10
    assert why_excluded(one, position) is None and not one.reviewed and adds_up(one)


@pytest.mark.parametrize("second", [None, "0.001", "0.00005", "0"])
def test_a_fall_the_second_provider_does_not_see_waits_for_the_next_snapshot(second):
    """0.00005 is exactly a twentieth of 0.001, not below it."""
    one = told(0, leave=(3,))
    tape = Tape([one]).play(3).play(A=fallen(second))
    assert one.account.positions["A"].marked_at == START + 2 * MINUTE and not one.reviewed
    # Two snapshots confirm it, whatever a second provider said.
    tape.play(A={"price": "0.0000101"})
    assert one.account.positions["A"].marked_at == START + 4 * MINUTE and not one.reviewed


def test_a_fall_seen_in_one_snapshot_of_one_provider_is_reviewed():
    one = told(0)
    Tape([one]).play(3).play(A=fallen("0.001")).play()
    assert [reason.code for reason in one.journal.review_reasons] == ["price_jump"]


def test_a_fill_during_such_a_fall_states_its_basis():
    """Sold in round 3 as ordered in round 2; without the second provider in round 4."""
    one, other = told(0, leave=(2,)), told(0, leave=(2,))
    Tape([one]).play(3).play(A=fallen("0.00001"))
    assert fills(one)[-1].side == "sell" and fills(one)[-1].marks[0] == SEEN_TWICE
    Tape([other]).play(3).play(A=fallen()).play(A={"price": "0.0000101"})
    assert fills(other)[-1].at == START + 4 * MINUTE and fills(other)[-1].marks == (SLIPPED,)


def test_the_second_providers_response_is_stored_as_proof(stage):
    """A pending purchase fills on the fall itself."""
    made = stage.trader()
    stage.play(RISE[:14])
    check = {"before": RISE[13], "price_sol": "0.00002", "problem": None}
    seen = stage.snapshot(price="0.00002", fall_check=json.dumps(check))
    stage.tick()
    bought = PaperFill.get()
    assert bought.snapshot == seen.id and json.loads(bought.marks) == [SEEN_TWICE]
    assert stage.rebuild(made) == []
    seen.fall_check = None
    seen.save()
    assert stage.rebuild(made) == ["period 1, order 1, attempt 1: a different fill"]
