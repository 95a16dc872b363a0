"""The market as a table: price changes, sorting and filters."""

import html
import re
from decimal import Decimal

import orjson
import pytest
from service import Service, address

from market.tables import Snapshot, Token
from web.site import tokens

MINUTE_MS = tokens.MINUTE_MS


def checks(**statuses):
    """Stored checks, as key=status."""
    told = [{"key": key, "label": key.title(), "status": one} for key, one in statuses.items()]
    return orjson.dumps([{**one, "detail": None} for one in told]).decode()


def track(name, now, price="1.00", **more):
    columns = {
        "mint": address(name),
        "symbol": name,
        "found_by": "dexscreener",
        "discovered_at": now - 60 * MINUTE_MS,
        "tracked_at": now,
        "price_usd": price,
        "quoted_at": now,
        "checks": checks(mint_authority="pass"),
        **more,
    }
    return Token.create(**columns)


def remember(token, at, price, **more):
    Snapshot.create(token=token, taken_at=at, price_usd=price, **more)


@pytest.fixture
def now(service):
    return 1_793_880_000_000


def table(now, sort="age", filter="all"):
    return tokens.list_table(tokens.Query(sort, filter), now, 0, 40)


def symbols(now, *query):
    return [row["symbol"] for row in table(now, *query)["rows"]]


def test_a_change_compares_the_price_now_with_the_one_stored_then(service, now):
    token = track("up", now, "1.50")
    remember(token, now - 5 * MINUTE_MS - 1, "1.20")
    remember(token, now - 60 * MINUTE_MS, "2.00")
    # Too late for five minutes ago, and doubtful.
    remember(token, now - 4 * MINUTE_MS, "9.00")
    remember(token, now - 5 * MINUTE_MS, "9.00", absurd="jump")
    (row,) = table(now)["rows"]
    # 1.50 / 1.20 and 1.50 / 2.00
    assert row["changes"] == {"change5m": Decimal(25), "change1h": Decimal(-25)}


@pytest.mark.parametrize(
    "minutes, more",
    [(6, {"quoted_at": 1}), (6, {"absurd": "jump"}), (6, {"price_usd": None}), (15, {})],
)
def test_a_doubtful_or_old_price_gives_no_change(service, now, minutes, more):
    remember(track("old", now, **more), now - minutes * MINUTE_MS, "1.20")
    (row,) = table(now)["rows"]
    assert row["changes"] == {"change5m": None, "change1h": None}


def test_rows_sort_by_number_with_unknown_last(service, now):
    for name, price, liquidity in (("a", "9.5", "10"), ("b", None, "2000"), ("c", "10.1", None)):
        remember(track(name, now, price, liquidity_usd=liquidity), now - 6 * MINUTE_MS, "1")
    assert symbols(now) == ["c", "b", "a"]
    assert symbols(now, "price") == ["c", "a", "b"]
    assert symbols(now, "liquidity") == ["b", "a", "c"]
    assert symbols(now, "change5m") == ["c", "a", "b"]


def test_the_newest_pair_comes_first_whatever_its_source(service, now):
    track("old", now, pair_created_at=now - 60 * 24 * 60 * MINUTE_MS)
    track("hour", now, discovered_at=now - 5 * MINUTE_MS, pair_created_at=now - 60 * MINUTE_MS)
    # Found 30 minutes ago, with an unknown creation time.
    track("untold", now, discovered_at=now - 30 * MINUTE_MS)
    assert symbols(now) == ["untold", "hour", "old"]
    assert 'aria-sort="ascending"' in service.get("/market").text


def test_failures_come_first_and_counts_are_not_checks(service, now):
    track("fine", now, checks=checks(supply="pass", pausable="pass"))
    track("bad", now, checks=checks(pausable="warn", transfer_hook="fail"))
    track("new", now, checks=None)
    assert symbols(now, "checks") == ["bad", "new", "fine"]
    assert symbols(now, "age", "no_failures") == ["new", "fine"]
    assert symbols(now, "age", "all_pass") == ["fine"]
    bad, fine = table(now, "checks")["rows"][0], table(now, "checks")["rows"][2]
    assert [one["status"] for one in bad["checks"]] == ["fail", "warn"]
    assert [one["key"] for one in fine["facts"]] == ["supply"] and fine["counts"]["pass"] == 1


@pytest.mark.parametrize("hours, is_drawn", [(3, False), (4, True)])
def test_a_daily_chart_needs_four_hourly_prices(service, now, monkeypatch, hours, is_drawn):
    monkeypatch.setattr("time.time_ns", lambda: now * 1_000_000)
    token = track("few", now)
    for hour in range(hours):
        remember(token, now - hour * 60 * MINUTE_MS, f"1.{hour}")
    assert len(table(now)["rows"][0]["prices"]) == hours
    page = service.get("/market")
    assert ('class="spark"' in page.text) is is_drawn
    assert ("– too few prices" in text_of(page)) is not is_drawn


def text_of(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_an_empty_market_names_the_setting(tmp_path):
    for seconds, said in ((0, "set SCOUT_INTERVAL_SECONDS to 60"), (20, "checks every 20 seconds")):
        service = Service(tmp_path / str(seconds), scout_interval_seconds=seconds)
        assert said in text_of(service.get("/market"))
        service.close()


def test_the_page_has_sort_links_and_pages(service, now):
    for n in range(41):
        track(f"T{n}", now + n)
    page = service.get("/market?sort=price")
    assert 'aria-sort="descending"' in page.text and "page 1 of 2" in text_of(page)
    # Forty rows and the header.
    assert page.text.count("<tr>") == 41 and len(page.data) < 100_000
    assert service.get("/market?sort=price&page=2").text.count("<tr>") == 2
    assert "No tokens match" in text_of(service.get("/market?show=priced"))
    assert service.get("/market?sort=luck").status_code == 400
    assert service.get("/market?page=0").status_code == 400
