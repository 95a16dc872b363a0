"""A profile's text about its figures and about a history that is still loading."""

import re

import orjson
import pytest
from service import NOW, add_risk, address

from chain.ledger.inventory import SOL
from chain.stored.tables import TokenTotal
from models import Attachment, Wallet
from web.site import figures, words

WALLET = address("wallet")


@pytest.mark.parametrize(
    "seconds, said",
    [
        (None, "–"),
        (40, "40 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (7_800, "2 h 10 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds, said):
    assert words.write_duration(seconds) == said


def test_a_return_has_a_sign_or_is_a_dash():
    assert figures.write_return(None) == "–"
    assert figures.write_return("-4.14") == "−4.14%"


def loading(known, pending, seconds):
    return {
        "coverage": {"state": "backfilling", "receipts": known, "pending": pending, "gaps": []},
        "wallet": {"attachedAt": "2026-11-05T12:00:00Z"},
    }, NOW + 1000 * seconds


def test_the_remaining_time_follows_from_the_current_rate():
    # 20 in 30 s: the other 216 take 324 s.
    assert words.describe_progress(*loading(20, 216, 30)) == (
        "20 of 236 transactions, about 5 min left."
    )
    assert words.describe_progress(*loading(0, 216, 30)) == "0 of 216 transactions."
    assert words.describe_progress(*loading(0, 1, 30)) == "0 of 1 transaction."
    assert "The one transaction found so far is" in words.describe_progress(*loading(1, 0, 30))
    assert "All 236" in words.describe_progress(*loading(236, 0, 30))


def test_a_loading_profile_has_a_bar_and_updates_itself(service):
    made = service.make_bot("Ada", WALLET)
    service.observe_results(WALLET, 250_000_000)
    coverage = orjson.loads(Wallet.get().coverage)
    coverage |= {"state": "backfilling", "receipts": 20, "pending": 216, "observedFrom": None}
    coverage |= {"checkedAt": None, "note": None, "openingInventoryUnknown": []}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    assert Attachment.select().count() == 1
    Wallet.update(forward_realized=250_000_000).execute()
    add_risk(Wallet.get(), 0, [250_000_000])
    earned = {"realized": 250_000_000, "sales": 1, "winning": 1}
    TokenTotal.create(wallet=Wallet.get(), money=SOL, view=0, mint=address("m"), **earned)
    page = service.get(f"/bots/{made.bot.uid}").text
    assert '<progress id="progress" max="236" value="20">' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert "Realized PnL so far" in page and "so-far" in page
    # No color: nothing is decided yet.
    tiles = re.search(r'<dl class="tiles.*?</dl>', page, re.S)[0]
    assert 'class="amount up"' not in tiles
    trades = service.get(f"/bots/{made.bot.uid}?tab=trades").text
    by_token = re.search(r'aria-labelledby="by-token".*?</section>', trades, re.S)[0]
    assert "Result per token so far" in by_token and "made a profit so far." in by_token
    assert "0.2500" in by_token and "so-far" in by_token and 'class="amount up"' not in by_token
    Wallet.update(coverage=orjson.dumps({**coverage, "state": "complete"}).decode()).execute()
    page = service.get(f"/bots/{made.bot.uid}").text
    assert "<progress" not in page and "http-equiv" not in page and 'class="amount up"' in page
    trades = service.get(f"/bots/{made.bot.uid}?tab=trades").text
    assert "so far" not in page and "+0.2500" in trades[trades.index("Result per token") :]


def observe_tokens(service, results):
    """A bot with the results of its tokens, in lamports."""
    made = service.make_bot("Ada", WALLET)
    service.observe_results(WALLET, sum(results))
    Wallet.update(forward_realized=sum(results)).execute()
    add_risk(Wallet.get(), 0, results)
    for number, realized in enumerate(results):
        earned = {"realized": realized, "sales": 1, "winning": int(realized > 0)}
        mint = address(f"m{number}")
        TokenTotal.create(wallet=Wallet.get(), money=SOL, view=0, mint=mint, **earned)
    return f"/bots/{made.bot.uid}"


@pytest.mark.parametrize("gaps, said", [([], 1), ([{"fromSlot": 1, "toSlot": 9}], 0)])
def test_a_partial_history_explains_why_it_may_have_a_rank(service, gaps, said):
    page = observe_tokens(service, [250_000_000])
    coverage = orjson.loads(Wallet.get().coverage) | {"state": "partial", "gaps": gaps}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    assert service.get(page).text.count("It can still be ranked") == said


def test_tokens_are_listed_once_best_first(service):
    results = [n * 10**9 for n in (3, -2, 1, -4, 5, -6, 7)]
    trades = service.get(observe_tokens(service, results) + "?tab=trades").text
    by_token = re.search(r'aria-labelledby="by-token".*?</section>', trades, re.S)[0]
    shown = re.findall(r'value="(-?\d+)"', by_token)
    assert shown == ["7", "5", "3", "1", "-2", "-4", "-6"]


def test_the_record_shows_a_dash_where_nothing_is_known(service):
    page = service.get(observe_tokens(service, [250_000_000]) + "?tab=record").text
    rows = dict(re.findall(r'<tr><th scope="row">([^<]+)</th>(.*?)</tr>', page))
    assert rows["Worst position"] == "<td>–</td><td>+0.2500 SOL</td>"
    assert rows["Return on cost"] == rows["Win rate"] == "<td>–</td><td>–</td>"
