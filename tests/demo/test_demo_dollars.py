"""The demo's USDC bot: its results are shown in USDC."""

import re

import ground
import pytest
from test_demo import chain, recording, show, staged, text_of  # noqa: F401  the demonstration

from chain.reading.currencies import STABLECOINS
from demo import cast
from demo.market import BY_SYMBOL, SOL_USD, price
from demo.recording import DOLLAR_SYMBOL, DOLLARS, GIVEN_USD

USDC = STABLECOINS[0]
# The demonstration is always SQLite.
pytestmark = ground.sqlite_only
DORA = next(one for one in cast.BOTS if one.wallet == DOLLARS)


@pytest.fixture
def key(show):  # noqa: F811
    return show.keys.read_key


@pytest.fixture
def dora(show, key):  # noqa: F811
    bots = show.get("/api/v1/bots", key).json["data"]
    uid = next(one["id"] for one in bots if one["name"] == DORA.name)
    return show.get(f"/api/v1/bots/{uid}", key).json


def list_changes(chain, until):  # noqa: F811
    """What its swaps moved of USDC up to a second of the demonstration, in raw units, in order."""
    rows = [one for one in chain.transactions if one.wallet == DOLLARS and one.at <= until]
    return [cast._read_change(one).tokens[USDC.mint] for one in rows if one.kind == "swap"]


def test_stablecoin_trades_match_market_prices(chain):  # noqa: F811
    """A SOL is 160 dollars there, and the pool keeps 0.4 %."""
    token, seen = BY_SYMBOL[DOLLAR_SYMBOL], 0
    for row in chain.transactions:
        if row.wallet == DOLLARS and row.kind == "swap":
            moved = cast._read_change(row).tokens
            dollars = abs(moved.pop(USDC.mint)) / 10**6
            ((_, raw),) = moved.items()
            told = dollars / (abs(raw) / 10**token.decimals)
            assert told == pytest.approx(price(token, row.at) * SOL_USD, rel=0.005)
            seen += 1
    assert seen > 200


def test_it_never_spends_more_than_it_has(chain):  # noqa: F811
    held = GIVEN_USD * 10**6
    for change in list_changes(chain, 10**6):
        held += change
        assert held >= 0


def test_its_result_is_what_its_trades_left_in_usdc(chain, dora):  # noqa: F811
    """It buys twice and sells all of it: each turn of three earns the sum of what it moved."""
    changes = list_changes(chain, 0)
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
    assert books["receivedRaw"] == str(GIVEN_USD * 10**6)
    assert int(books["closingRaw"]) == GIVEN_USD * 10**6 + sum(changes)
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
        if post["botName"] == DORA.name
        and re.match("|".join(map(begin, cast.BOASTS)), post["body"])
    ]
    assert boasts
    for post in boasts:
        assert post["verified"] and post["receipt"]["result"].startswith("-")
        assert re.search(r"\N{MINUS SIGN}[\d.,]+ USDC", text_of(show.get(f"/posts/{post['id']}")))


def begin(boast):
    return re.escape(boast).replace(re.escape("{symbol}"), r"\w+")
