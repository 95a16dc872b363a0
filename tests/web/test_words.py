"""The text of pages: sentences, numbers and times as readers see them."""

import pytest
from service import NOW

from chain.stored.derived import NOT_POLLED
from web.site import figures, words

# ---- numbers and times ---------------------------------------------------------------------------
WRITE = {
    "number": figures.write_number,
    "signed": lambda text: figures.write_number(text, sign=True),
    "price": figures.write_price,
    "tokens": figures.write_tokens,
    "share": lambda text: figures.write_percent(float(text)),
    "change": figures.write_change,
    "return": figures.write_return,
    "duration": lambda text: words.write_duration(int(text)),
    "ago": lambda text: words.ago(int(text) if text.isdigit() else text, NOW),
    "told": figures.told,
}
# What is written -> how it is shown.
FIGURES = """
number     18 -> 18.00                          four significant digits
number     0.0982 -> 0.0982
number     -0.01455 -> −0.0146                  half is rounded away from zero
number     1234567.8 -> 1,234,568
number     999.96 -> 1,000                      rounding makes it one digit longer
number     0.000005 -> 0.000005
number     0.00234567 -> 0.00235
number     0 -> 0
number     -18446744073709551615 -> −18,446,744,073,709,551,615
signed     0.5 -> +0.5000
signed     -0.5 -> −0.5000
signed     0 -> 0
price      0.00012345 -> 0.0001235              four significant digits at any size
price      0.0099996 -> 0.01
price      18 -> 18.00
price      0 -> 0
tokens     3102 -> 3,102                        whole amounts have no decimals
tokens     879.50 -> 879.5
share      0 -> 0%                              0 and 100 only exactly
share      0.004 -> <1%
share      0.534 -> 53%
share      0.996 -> 99%
share      1 -> 100%
change     -4.13 -> −4.1%
change     12.34 -> +12.3%
change     0 -> 0.0%
return     -4.14 -> −4.14%
duration   40 -> 40 s                           at most two units
duration   3599 -> 59 min
duration   3600 -> 1 h
duration   7800 -> 2 h 10 min
duration   273600 -> 3 d 4 h
ago        2026-11-05T12:00:03Z -> just now     a clock that is ahead
ago        2026-11-05T11:59:20Z -> 40 seconds ago
ago        2026-11-05T11:58:59.900Z -> 1 minute ago
ago        1793879000 -> 16 minutes ago
ago        2026-11-05T09:00:01Z -> 2 hours ago
ago        2026-11-04T12:00:00Z -> Nov 4, 12:00 PM UTC
told       -0.5 SOL -> −0.5000 SOL              numbers in a sentence
told       +12.345678 SOL, -3% -> +12.35 SOL, −3%
told       fees 0.000005, slippage -0.1 -> fees 0.000005, slippage −0.1
told       2-3 closes on 2026-11-22 -> 2-3 closes on 2026-11-22
told       A-1 and B2 and 1.2.3 and 5x -> A-1 and B2 and 1.2.3 and 5x
"""


@pytest.mark.parametrize("line", FIGURES.strip().splitlines())
def test_figures_are_short_and_have_a_real_minus(line):
    kind, rest = line.split(maxsplit=1)
    written, shown = rest.split(" -> ")
    assert WRITE[kind](written) == shown.partition("   ")[0]


def test_amounts_in_a_column_have_equal_decimals():
    for column, places, shown in (
        (["18.1", None, "-0.0982", "0"], 2, ["+18.10", "−0.10", "0.00"]),
        # 0.25 is the largest: four places, as by itself.
        (["0.25", "0.001"], 4, ["+0.2500", "+0.0010"]),
        # One large amount doesn't round a neighbor's 0.6 to a whole SOL.
        (["250000", "0.6"], 2, ["+250,000.00", "+0.60"]),
        # With two places, a loss of a thousandth would look like nothing.
        (["18", "-0.001"], 2, ["+18.00", "−0.001"]),
        ([], 4, []),
    ):
        assert figures.find_places(column) == places
        written = [figures.write_number(one, True, places) for one in column if one is not None]
        assert written == shown
    assert figures.write_tokens("18", places=2) == "18.00"


def test_the_exact_value_is_next_to_the_short_one():
    assert figures.sol("-0.014576123", sign=True) == (
        '<data class="amount down" value="-0.014576123" title="−0.014576123 SOL">−0.0146 SOL</data>'
    )
    # 5,000 lamports are 0.000005 SOL, which is short enough that no title repeats it.
    assert figures.lamports("5000", unit=False) == (
        '<data class="amount" value="0.000005" title="0.000005 SOL">0.000005</data>'
    )
    assert figures.lamports("5000") == '<data class="amount" value="0.000005">0.000005 SOL</data>'
    assert figures.exact_sol("-1234500000001", sign=True) == "−1,234.500000001"
    assert ">$0.0001235<" in figures.usd("0.00012345")
    assert ">0.0001235<" in figures.price("0.00012345")


def test_an_unknown_value_is_a_dash_and_not_zero():
    unknown = (figures.sol, figures.lamports, figures.tokens, figures.usd, figures.percent)
    unknown += (figures.change, figures.whole, figures.write_return, words.write_duration)
    assert {write(None) for write in unknown} == {"–"}


# ---- sentences -----------------------------------------------------------------------------------
COMPLETE = {
    **NOT_POLLED,
    "state": "complete",
    "receipts": 240,
    "observedFrom": "2026-10-16T09:00:00Z",
    "checkedAt": "2026-11-05T11:58:00Z",
    "note": None,
}
ONE = {"wallet": "AAAABBBBCCCC"}
GAP = {"state": "partial", "gaps": [{}]}
HELD = {"state": "partial", "openingInventoryUnknown": ["a", "b"]}
COVERAGES = [
    ({}, "all 240 transactions of this wallet since its first on Oct 16, 2026, with no gaps."),
    ({}, "Last checked 2 minutes ago."),
    ({"receipts": 1}, "We have this wallet’s only transaction, from Oct 16, 2026."),
    (ONE, "We have every transaction of its wallets, with no gaps."),
    (GAP, "240 transactions of this wallet are known, but not its whole history."),
    (GAP, "1 stretch of it couldn’t be found yet; sales after a gap have no result until"),
    ({**GAP, **ONE}, "240 transactions of AAAA…CCCC are known, but not its whole history."),
    (HELD, "It already held 2 tokens, bought at an unknown price. Sales of those are left out."),
    ({"state": "none", "note": "", **ONE}, "AAAA…CCCC was just connected."),
    ({"state": "none", "note": "this wallet"}, "This wallet was just connected."),
    ({"state": "none", "note": "no wallet is connected"}, "No wallet is connected, so nothing"),
]


@pytest.mark.parametrize("change, said", COVERAGES)
def test_coverage_has_a_sentence(change, said):
    assert said in words.describe_coverage({**COMPLETE, **change}, NOW, "wallet" in change)


def test_the_remaining_time_follows_from_the_current_rate():
    for known, pending, said in (
        # 20 in 30 s: the other 216 need 324 s.
        (20, 216, "20 of 236 transactions, about 5 min left."),
        (0, 1, "0 of 1 transaction."),
        (1, 0, "The one transaction found so far is loaded and being double-checked."),
        (236, 0, "All 236 transactions found so far are loaded and being double-checked."),
    ):
        wallet = {"attachedAt": "2026-11-05T12:00:00Z"}
        bot = {"coverage": {"receipts": known, "pending": pending}, "wallet": wallet}
        assert words.describe_progress(bot, NOW + 30_000) == said


def test_a_result_states_its_number_of_sales():
    for counts, said in (
        ((0, 0, 0), "no sale with a known purchase price yet"),
        ((1, 0, 0), "from 1 sale"),
        ((41, 12, 10), "from 53 sales; 10 more sales are left out: purchase price unknown"),
    ):
        names = ("matchedSells", "partialSells", "unmatchedSells")
        assert words.describe_results(dict(zip(names, counts, strict=True))) == said


def test_the_label_of_a_post_is_explained():
    """Labels themselves: test_pages.py, test_feeds.py and test_own_strategies.py."""
    paper, claimed = {"simulated": True}, {"provenance": {"ownership": "claimed"}}
    for status, reason, changes, said in (
        ("verified", None, {}, "Matches a finalized transaction from this wallet. The wording is"),
        ("verified", None, claimed, "Nobody has proven that the wallet is this bot’s."),
        ("pending", None, claimed, "The transaction it cites has not been observed yet."),
        ("mismatch", "failed", {}, "The transaction it cites failed."),
        ("mismatch", "other_wallet", {}, "The transaction it cites belongs to another wallet, or"),
        ("none", None, {}, "The bot’s own words. No transaction supports them."),
        ("not_found", None, {}, "The transaction it cites was not found in this wallet’s history."),
        ("none", None, paper, "Paper trading with virtual money. Nothing happened on chain."),
        ("none", None, paper | {"ownStrategy": True}, "a strategy of this instance’s operator."),
    ):
        post = {"simulated": False, "ownStrategy": False, "provenance": {"ownership": "proven"}}
        post |= {"verification": {"status": status, "reason": reason}} | changes
        assert said in words.trust_of(post).detail


def test_other_peoples_names_are_one_clean_line():
    assert words.plain("<b>\u202egnp.exe\u202c\x00\n\t x\U000e0041") == "<b>gnp.exe x"
    assert words.plain("n" * 100) == "n" * 39 + "…"
