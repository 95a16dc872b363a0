"""The text of pages: sentences and numbers as readers see them."""

import pytest

from chain.stored.derived import NOT_POLLED
from web.site import words

# 2026-11-05T12:00:00Z
NOW = 1_793_880_000_000
COMPLETE = {
    **NOT_POLLED,
    "state": "complete",
    "receipts": 240,
    "observedFrom": "2026-10-16T09:00:00Z",
    "checkedAt": "2026-11-05T11:58:00Z",
    "note": None,
}


@pytest.mark.parametrize(
    "at, said",
    [
        ("2026-11-05T11:59:58Z", "just now"),
        ("2026-11-05T11:59:20Z", "40 seconds ago"),
        ("2026-11-05T11:58:59.900Z", "1 minute ago"),
        ("2026-11-05T09:00:01Z", "2 hours ago"),
        ("2026-11-04T12:00:00Z", "Nov 4, 12:00 PM UTC"),
        (1_793_879_000, "16 minutes ago"),
        ("2026-11-05T12:00:03Z", "just now"),
    ],
)
def test_recent_times_are_relative(at, said):
    assert words.ago(at, NOW) == said


CHECKED = "Last checked 2 minutes ago."
PARTIAL = "240 transactions of {} are known, but not its whole history."
GAP = (
    "1 stretch of it couldn’t be found yet; sales after a gap have no result until the gap is"
    " filled."
)
LOADING = (
    "The history{} is still loading: 240 transactions so far, 1,200 to load. Nothing below is"
    " final."
)
ONE = {"wallet": "AAAABBBBCCCC"}
WITH_GAP = {"state": "partial", "gaps": [{}]}
HELD = {"state": "partial", "openingInventoryUnknown": ["a", "b"]}
BACKFILLING = {"state": "backfilling", "pending": 1200}


@pytest.mark.parametrize(
    "change, said",
    [
        (
            {},
            "We have all 240 transactions of this wallet since its first on Oct 16, 2026, with no"
            f" gaps. {CHECKED}",
        ),
        (
            {"receipts": 1},
            f"We have this wallet’s only transaction, from Oct 16, 2026. {CHECKED}",
        ),
        (ONE, f"We have every transaction of its wallets, with no gaps. {CHECKED}"),
        (WITH_GAP, f"{PARTIAL.format('this wallet')} {GAP} {CHECKED}"),
        ({**WITH_GAP, **ONE}, f"{PARTIAL.format('AAAA…CCCC')} {GAP} {CHECKED}"),
        (
            HELD,
            f"{PARTIAL.format('this wallet')} It already held 2 tokens, bought at an unknown price."
            f" Sales of those are left out. {CHECKED}",
        ),
        (BACKFILLING, LOADING.format("")),
        ({**BACKFILLING, **ONE}, LOADING.format(" of AAAA…CCCC")),
        (
            {"state": "none", "note": "not looked at", **ONE},
            "AAAA…CCCC was just connected. Its history will be loaded next.",
        ),
        (
            {"state": "none", "note": "no wallet is connected, so nothing is observed"},
            "No wallet is connected, so nothing here can be checked against the chain.",
        ),
        (
            {"state": "none", "note": "this wallet hasn't been checked yet"},
            "This wallet was just connected. Its history will be loaded next.",
        ),
    ],
)
def test_coverage_has_a_sentence(change, said):
    assert words.describe_coverage({**COMPLETE, **change}, NOW, "wallet" in change) == said


@pytest.mark.parametrize(
    "matched, partial, unmatched, said",
    [
        (0, 0, 0, "no sale with a known purchase price yet"),
        (1, 0, 0, "from 1 sale"),
        (41, 12, 10, "from 53 sales; 10 more sales are left out: purchase price unknown"),
    ],
)
def test_a_result_states_its_number_of_sales(matched, partial, unmatched, said):
    sales = {"matchedSells": matched, "partialSells": partial, "unmatchedSells": unmatched}
    assert words.describe_results(sales) == said


def post(status, reason=None, simulated=False, ownership="proven", own=False):
    return {
        "simulated": simulated,
        "ownStrategy": own,
        "provenance": {"ownership": ownership},
        "verification": {"status": status, "reason": reason},
    }


@pytest.mark.parametrize(
    "shown, label, detail",
    [
        (post("verified"), "receipt verified", "The wording is the bot’s"),
        (post("pending"), "waiting for the chain", "not been observed yet"),
        (
            post("verified", ownership="claimed"),
            "receipt verified · wallet claimed, not proven",
            "Nobody has proven",
        ),
        (post("pending", ownership="claimed"), "waiting for the chain", "not been observed yet"),
        (post("mismatch", "failed"), "does not match", "failed"),
        (post("mismatch", "other_wallet"), "does not match", "another wallet"),
        (post("none"), "not verified", "own words"),
        (post("not_found"), "not verified", "not found"),
        (post("none", simulated=True), "simulated", "virtual money"),
        (
            post("none", simulated=True, own=True),
            "simulated · operator’s own strategy",
            "virtual money",
        ),
    ],
)
def test_each_post_has_one_label(shown, label, detail):
    trust = words.trust_of(shown)
    assert trust.label == label and detail in trust.detail


def test_other_peoples_names_are_one_clean_line():
    assert words.plain("<b>\u202egnp.exe\u202c\x00\n\t x\U000e0041") == "<b>gnp.exe x"
    assert words.plain("n" * 100) == "n" * 39 + "…"
