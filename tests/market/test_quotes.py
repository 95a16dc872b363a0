"""The market as a table: price changes, sorting and filters."""

import html
import re
from decimal import Decimal

import orjson
import pytest
from service import address

from market.tables import Snapshot, Token
from web.site import tokens

NOW, MINUTE_MS = 1_793_880_000_000, tokens.MINUTE_MS


def checks(**statuses):
    """Stored checks, as key=status."""
    told = [{"key": key, "label": key.title(), "status": one} for key, one in statuses.items()]
    return orjson.dumps([{**one, "detail": None} for one in told]).decode()


def ago(minutes):
    return NOW - round(minutes * MINUTE_MS)


def track(name, price="1.00", **more):
    told = {"mint": address(name), "symbol": name, "found_by": "dexscreener"}
    times = {"discovered_at": ago(60), "tracked_at": NOW, "quoted_at": NOW}
    passed = checks(mint_authority="pass")
    return Token.create(**{**told, **times, "price_usd": price, "checks": passed, **more})


def remember(token, at, price, **more):
    Snapshot.create(token=token, taken_at=at, price_usd=price, **more)


def list_rows(sort="age", filter="all"):
    return tokens.list_table(tokens.Query(sort, filter), NOW, 0, 40)["rows"]


def symbols(*query):
    return [row["symbol"] for row in list_rows(*query)]


def test_a_change_compares_the_price_now_with_the_one_stored_then(service):
    """1.50 / 1.20 and 1.50 / 2.00"""
    token = track("up", "1.50")
    remember(token, ago(5) - 1, "1.20")
    remember(token, ago(60), "2.00")
    # Too late for five minutes ago, and doubtful.
    remember(token, ago(4), "9.00")
    remember(token, ago(5), "9.00", absurd="jump")
    (row,) = list_rows()
    assert row["changes"] == {"change5m": Decimal(25), "change1h": Decimal(-25)}


@pytest.mark.parametrize(
    "minutes, more",
    [(6, {"quoted_at": 1}), (6, {"absurd": "jump"}), (6, {"price_usd": None}), (15, {})],
)
def test_a_doubtful_or_old_price_gives_no_change(service, minutes, more):
    remember(track("old", **more), ago(minutes), "1.20")
    (row,) = list_rows()
    assert row["changes"] == {"change5m": None, "change1h": None}


def test_rows_sort_by_number_with_unknown_last(service):
    for name, price, liquidity in (("a", "9.5", "10"), ("b", None, "2000"), ("c", "10.1", None)):
        remember(track(name, price, liquidity_usd=liquidity), ago(6), "1")
    orders = {"age": "cba", "price": "cab", "liquidity": "bac", "change5m": "cab"}
    assert {sort: "".join(symbols(sort)) for sort in orders} == orders


def test_the_newest_pair_comes_first_whatever_its_source(service):
    """`untold` was found 30 minutes ago, with an unknown creation time."""
    track("old", pair_created_at=ago(60 * 24 * 60))
    track("hour", discovered_at=ago(5), pair_created_at=ago(60))
    track("untold", discovered_at=ago(30))
    assert symbols() == ["untold", "hour", "old"]
    assert 'aria-sort="ascending"' in service.get("/market").text


def test_failures_come_first_and_counts_are_not_checks(service):
    track("fine", checks=checks(supply="pass", pausable="pass"))
    track("bad", checks=checks(pausable="warn", transfer_hook="fail"))
    track("new", checks=None)
    assert symbols("checks") == ["bad", "new", "fine"]
    assert symbols("age", "no_failures") == ["new", "fine"]
    assert symbols("age", "all_pass") == ["fine"]
    bad, _, fine = list_rows("checks")
    assert [one["status"] for one in bad["checks"]] == ["fail", "warn"]
    assert [one["key"] for one in fine["facts"]] == ["supply"] and fine["counts"]["pass"] == 1


@pytest.mark.parametrize("hours, is_drawn", [(3, False), (4, True)])
def test_a_daily_chart_needs_four_hourly_prices(service, monkeypatch, hours, is_drawn):
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    token = track("few")
    for hour in range(hours):
        remember(token, ago(hour * 60), f"1.{hour}")
    assert len(list_rows()[0]["prices"]) == hours
    page = service.get("/market")
    assert ('class="spark"' in page.text) is is_drawn
    assert ("– too few prices" in text_of(page)) is not is_drawn


def text_of(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


@pytest.mark.parametrize(
    "seconds, said", [(0, "set SCOUT_INTERVAL_SECONDS to 60"), (20, "checks every 20 seconds")]
)
def test_an_empty_market_names_the_setting(serve, seconds, said):
    assert said in text_of(serve(scout_interval_seconds=seconds).get("/market"))


def test_the_page_has_sort_links_and_pages(service):
    for n in range(41):
        track(f"T{n}", tracked_at=NOW + n)
    page = service.get("/market?sort=price")
    assert 'aria-sort="descending"' in page.text and "page 1 of 2" in text_of(page)
    # Forty rows and the header.
    assert page.text.count("<tr>") == 41 and len(page.data) < 100_000
    assert service.get("/market?sort=price&page=2").text.count("<tr>") == 2
    assert "No tokens match" in text_of(service.get("/market?show=priced"))
    for query in ("sort=luck", "page=0"):
        assert service.get(f"/market?{query}").status_code == 400
