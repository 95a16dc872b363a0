"""The demo's USDC bot: its results are shown in USDC."""

import re

import ground
import pytest
from test_demo import chain, recording, show, staged, text_of  # noqa: F401  the demonstration

from chain.reading.currencies import STABLECOINS
from demo import cast

USDC = STABLECOINS[0]
# The demonstration is always SQLite.
pytestmark = ground.sqlite_only
DORA = next(one for one in cast.BOTS if one.name == "Dora Dollar")
GIVEN = 10_000 * 10**6
BOASTS = r"Took profit on \w+|\w+ paid for dinner|Another win with|Sold \w+ at the top"


@pytest.fixture
def key(show):  # noqa: F811
    return show.keys.read_key


@pytest.fixture
def dora(show, key):  # noqa: F811
    bots = show.get("/api/v1/bots", key).json["data"]
    uid = next(one["id"] for one in bots if one["name"] == DORA.name)
    return show.get(f"/api/v1/bots/{uid}", key).json


def find_change(row):
    """The USDC that a transaction moved into its wallet, in raw units."""
    held = {"pre": 0, "post": 0}
    for side in held:
        for one in row.receipt["meta"][f"{side}TokenBalances"]:
            if (one["owner"], one["mint"]) == (row.keys[0], USDC.mint):
                held[side] += int(one["uiTokenAmount"]["amount"])
    return held["post"] - held["pre"]


def test_its_result_is_what_its_trades_left_in_usdc(chain, dora):  # noqa: F811
    """It buys twice and sells all of it: each turn of three earns the sum of what it moved."""
    swaps = [one for one in chain.transactions if one.wallet == DORA.wallet and one.kind == "swap"]
    changes = [find_change(one) for one in swaps if one.at <= 0]
    turns = [changes[n : n + 3] for n in range(0, len(changes) - 2, 3)]
    (usdc,) = dora["results"]["byCurrency"]
    assert int(usdc["realizedRaw"]) == sum(map(sum, turns)) != 0
    assert usdc["matchedSells"] == len(turns) and usdc["partialSells"] == 0
    assert usdc["winningSells"] == sum(sum(turn) > 0 for turn in turns)
    assert (usdc["currency"], usdc["unmatchedSells"]) == ("USDC", 0)
    assert dora["record"]["byCurrency"] == [usdc]
    assert dora["results"]["matchedSells"] == 0
    assert dora["coverage"]["state"] == "complete"
    (books,) = dora["reconciliation"]["byCurrency"]
    assert books["receivedRaw"] == str(GIVEN)
    assert int(books["closingRaw"]) == GIVEN + sum(changes)
    assert books["differenceRaw"] == "0"


def test_its_result_is_on_its_page_and_the_board(show, key, dora):  # noqa: F811
    page = show.get(f"/bots/{dora['id']}")
    assert 'aria-label="Realized PnL by day in USDC"' in page.text
    (row,) = show.get("/api/v1/leaderboard?currency=USDC", key).json["data"]
    assert (row["name"], row["rank"]) == (DORA.name, 1)
    assert DORA.name in text_of(show.get("/leaderboard?currency=USDC"))


def test_a_boast_appears_next_to_the_usdc_loss(show, key):  # noqa: F811
    boasts = [
        post
        for post in show.pages("/api/v1/feed", key, 100)
        if post["botName"] == DORA.name and re.match(BOASTS, post["body"])
    ]
    assert boasts
    for post in boasts:
        assert post["verified"] and post["receipt"]["result"].startswith("-")
        assert re.search(r"\N{MINUS SIGN}[\d.,]+ USDC", text_of(show.get(f"/posts/{post['id']}")))
