"""Paper mode's pages: the table of traders, warnings, empty states, and the diary."""

import re

import pytest
from service import NOW
from test_legacy import SOL, closed, make_trader, said

from accounts import traders as accounts
from market.tables import Snapshot
from paper.rules import DAY_MS
from web.api import timeline
from web.site.cards import describe_post
from web.site.paper_pages import NO_PRICES, NO_SCOUT, SORTS

MINUS = "\N{MINUS SIGN}"


def order(service, query=""):
    """The names in the traders table, in order."""
    return re.findall(r"<bdi>([^<]+)</bdi></a><small>", service.get(f"/traders{query}").text)


@pytest.fixture
def four(service):
    """Traders with a loss, a gain, no close, and a record under review."""
    made = {name: make_trader(service, name) for name in ("Low", "High", "None", "Odd")}
    closed(made["Low"], 1, -SOL // 2)
    closed(made["High"], 1, SOL // 4)
    closed(made["High"], 2, SOL // 4)
    closed(made["Odd"], 1, 9 * SOL)
    accounts.open_review(made["Odd"], "a jump", NOW)
    return made


def test_each_column_can_be_sorted_and_says_so(service, four):
    assert order(service) == ["Low", "High", "None", "Odd"]
    # Returns of 5, 0 and -5 percent of 10 SOL; records under review have no rank.
    assert order(service, "?sort=return") == ["High", "None", "Low", "Odd"]
    assert order(service, "?sort=closes")[0] == "High"
    for sort in SORTS:
        page = service.get(f"/traders?sort={sort}").text
        heading = re.search(r'<th [^>]*aria-sort="descending"><a href="([^"]+)"', page)
        assert heading[1] == f"/traders?sort={sort}" and page.count("aria-sort") == 1
    assert service.get("/traders?sort=name").status_code == 400


def test_win_rates_sort_by_their_lower_bound(service, four):
    """Three wins of three have no interval; of the two traders with twelve closes on six days, the
    one that won more comes first, however good the others look.
    """
    for name, won in (("Even", 6), ("Often", 9)):
        trader = make_trader(service, name)
        for number in range(12):
            at = NOW - (number % 6 + 1) * DAY_MS
            net = SOL // 4 if number < won else -SOL // 4
            closed(trader, number, net, mint=f"M{number}", opened_at=at, closed_at=at + 60_000)
    closed(four["High"], 3, SOL // 4)
    assert order(service, "?sort=wins") == ["Often", "Even", "Low", "High", "None", "Odd"]
    page = service.get("/traders?sort=wins").text
    assert page.count("<small>at least ") == 2 and page.count("<small>not ranked") == 4
    assert "not ranked" not in service.get("/traders").text


@pytest.mark.usefixtures("agreed_clock")
def test_rows_chart_the_last_thirty_days_of_records_that_are_not_withheld(service, four):
    closed(four["Low"], 2, 3 * SOL, closed_at=NOW - 31 * DAY_MS)
    charts = re.findall(r'aria-label="([^"]+) in 30 days, simulated"', service.get("/traders").text)
    assert charts == [f"{MINUS}0.5000 SOL", "+0.5000 SOL"]


def test_every_form_of_a_post_warns_about_a_review(service, four):
    """Of two posts, the one whose author's record is under review has the warning."""
    good, odd = said(four["High"], 1, "Fine."), said(four["Odd"], 2, "Up 9 SOL.")
    for post, is_warned in ((good, False), (odd, True)):
        items = {one["_candor"]["post"]: one for one in service.get("/feed.json").json["items"]}
        item = items[post.uid]
        atom = service.get("/feed.atom").text
        entry = next(one for one in atom.split("<entry>") if f"/posts/{post.uid}<" in one)
        page = service.get(f"/posts/{post.uid}").text
        forms = [
            *(item["title"], " ".join(item["tags"]), item["summary"].lower()),
            re.search(r"<title>([^<]+)", entry)[1],
            re.search(r"<summary[^>]*>([^<]+)", entry)[1].lower(),
            service.get(f"/embed/{post.uid}").text.lower(),
            re.search(r'og:title" content="([^"]+)"', page)[1],
            re.search(r'og:description" content="([^"]+)"', page)[1].lower(),
        ]
        with service.app.test_request_context():
            forms.append(describe_post(timeline.find_post(post.uid))["stamp_note"])
        assert [("under review" in form) for form in forms] == [is_warned] * len(forms)
        assert bool(item["_candor"]["warning"]) is is_warned


def test_creating_a_trader_without_prices_shows_a_notice(service, monkeypatch):
    trader = make_trader(service)
    paths = ("/traders", "/traders/new", f"/traders/{trader.uid}")
    assert not Snapshot.select().exists()
    for path in paths:
        assert NO_PRICES in service.get(path).text, path
    object.__setattr__(service.config, "scout_interval_seconds", 0)
    for path in paths:
        assert NO_SCOUT in service.get(path).text, path


@pytest.mark.usefixtures("agreed_clock")
def test_strategies_without_closes_have_an_empty_state(service):
    page = service.get("/strategies").text
    assert "Nothing to compare yet" in page
    # Known real fills are shown anyway.
    assert "Simulated and real fills" in page
    assert page.count("<table") == 1 and "left out" in page
    closed(make_trader(service), 1, SOL)
    page = service.get("/strategies").text
    assert "Nothing to compare yet" not in page and page.count("<table") > 1


def test_a_diary_has_real_minus_signs_and_short_amounts(service):
    trader = make_trader(service)
    facts = {"what": "closed", "symbol": "AA", "sol": "1.234567891", "reason": "stop"}
    said(trader, 1, facts={**facts, "resultSol": "-0.098212345", "returnPct": -4.13})
    page = service.get(f"/traders/{trader.uid}?tab=posts").text
    diary = page[page.index('class="diary"') :]
    assert f"Closed AA for 1.235 SOL (stop): {MINUS}0.0982 SOL net, {MINUS}4.1%." in diary
