"""A price that falls below the limit: a second provider's response, and what is stored. Its effects
on holders of the token are in test_engine.
"""

import json

import pytest
from fakemarket import SECOND
from stage import RISE
from test_scout import ONE, TWO, discover, market, world  # noqa: F401  fixtures

from market import store
from market.rules import Fall, find_fall
from market.tables import Snapshot, Token
from paper.fills import SEEN_TWICE
from paper.tables import PaperFill
from scout import judge_fall


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


# ---- paper mode believes it ----------------------------------------------------------------------
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
