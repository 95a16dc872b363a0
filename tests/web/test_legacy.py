"""The public interface of paper mode over HTTP: shapes, labels, headers."""

import time
from collections import Counter

import orjson
import pytest
from service import NOW, refused

from accounts import traders
from market.tables import Token
from paper.account import PIPELINE
from paper.fills import ASSUMPTIONS, MODEL, MODEL_HASH
from paper.tables import DiaryEntry, PaperPosition, PaperPost, Period, Trader
from web.api import v1

PATHS = ["/api/traders", "/api/feed", "/api/market", "/api/strategies"]
SOL = 10**9


@pytest.fixture
def trader(service):
    return make_trader(service)


def make_trader(service, name="Ada Paper", family="momentum", **more):
    """A trader created by the same function as on the site and the command line."""
    return traders.create_trader(name, family, NOW, **more).trader


def find_period(trader):
    return Period.get(Period.trader == trader, Period.twin == 0, Period.closed_at.is_null())


def closed(trader, number, net, **more):
    """A closed position as written by the job."""
    period = find_period(trader)
    Period.update(cash=Period.cash + net).where(Period.id == period.id).execute()
    token = {"mint": "MintA", "symbol": "AA", "decimals": 6, "raw": "0", "bought_raw": "5"}
    times = {"opened_at": NOW - 60_000, "marked_at": NOW, "closed_at": NOW, "latency_ms": 6000}
    price = {"liquidity": 1, "price": "1", "high": "1", "mid_bought": SOL}
    price |= {"mid_sold": SOL + net + 5, "slippage": 2, "fees": 3, "rent": 0}
    money = {"cash": net, "spent": SOL, "marked_on": 1, "held": 1, "reduced": True}
    told = {"marks": "[]", "pipeline": PIPELINE, "reason": "stop"}
    columns = token | times | price | money | told | more
    return PaperPosition.create(period=period, number=number, **columns)


def said(trader, number, body="words", facts=None):
    facts = facts or {"what": "not_filled", "symbol": "AA", "why": "expired"}
    told = {"kind": "fill", "mint": "MintA", "facts": orjson.dumps(facts).decode()}
    entry = DiaryEntry.create(period=find_period(trader), at=NOW, **told)
    token = {"mint": "MintA", "symbol": "AA", "writer": "built-in"}
    post = {"uid": f"post_{number}", "entry": entry, "trader": trader, "body": body}
    return PaperPost.create(**post, **token, event_at=NOW, created_at=NOW)


def walk(value):
    """Every object inside a JSON value."""
    if isinstance(value, dict):
        yield value
        value = value.values()
    for one in value if not isinstance(value, (str, int, float, type(None))) else ():
        yield from walk(one)


def detail(service, trader):
    return service.get(f"/api/traders/{trader.uid}").json


def listed(service):
    """The only listed trader."""
    (shown,) = service.get("/api/traders").json["data"]
    return shown


# ---- shapes --------------------------------------------------------------------------------------
def test_a_new_trader_has_its_starting_values(service, trader):
    shown = listed(service)
    strategy, review = shown["strategy"], shown["review"]
    assert (shown["mode"], shown["handle"], shown["id"]) == ("paper", "ada-paper", trader.uid)
    phase = {"name": "guarded", "closes": 0, "closesNeeded": 20, "days": 0, "daysNeeded": 14}
    assert phase.items() <= strategy["phase"].items()
    told = strategy["startMode"], strategy["adaptive"], strategy["riseBps"]
    assert told == ("guarded", "observe", 600)
    money = {"realizedSol": "0", "cashSol": "10", "equitySol": "10", "startingCashSol": "10"}
    counts = {"returnPct": 0.0, "closes": 0, "winRate": None, "period": 1}
    told = {"headlineSuppressed": False, "warning": None, "since": shown["createdAt"]}
    assert shown["performance"] == money | counts | told
    assert (review["state"], review["reasons"], review["openedAt"]) == ("clean", [], None)


def test_performance_adds_up(service, trader):
    closed(trader, 1, SOL // 10)
    closed(trader, 2, -SOL // 20)
    Period.update(lost_fees=55_000, cash=Period.cash - 55_000).execute()
    told = {"cashSol": "10.049945", "realizedSol": "0.049945", "closes": 2, "winRate": 0.5}
    assert (told | {"returnPct": 0.49}).items() <= listed(service)["performance"].items()


def test_the_detail_shows_costs_holdings_and_the_diary(service, trader):
    closed(trader, 1, SOL // 10)
    said(trader, 1)
    held = {"raw": "2000000", "price": str(10**24 // 2), "mid_sold": 0}
    closed(trader, 2, 0, closed_at=None, reason=None, **held)
    shown = detail(service, trader)
    names = ("gross", "slippage", "fees", "rent", "net")
    gross, *costs, net = (int(shown["closes"][0][f"{name}Lamports"]) for name in names)
    assert gross - sum(costs) == net == SOL // 10
    told = {"amount": "2", "valueLamports": str(SOL), "markPriceSol": "0.5"}
    assert told.items() <= shown["positions"][0].items()
    assert shown["performance"]["equitySol"] == "11.1"
    assert shown["diary"][0]["text"] == "The order in AA was not filled: expired."


FAR = 9_999_999_999_999
# tests/chain/test_damaged_values.py has JSON of other types.
DAMAGES = [
    (Trader, {"settings": '{"riseBps": 1}'}),
    (Trader, {"phase": "{}"}),
    (PaperPosition, {"price": "much", "raw": "", "closed_at": None}),
    (PaperPosition, {"spent": 0, "marks": "null"}),
    (PaperPosition, {"spent": -1, "cash": -(2**62), "price": "9" * 60, "raw": "9" * 30}),
    (Period, {"starting_cash": 0, "cash": 0}),
    (DiaryEntry, {"facts": "{}", "kind": "pause"}),
    (DiaryEntry, {"facts": f'{{"until": {FAR}, "expiresAt": {FAR}}}', "kind": "lesson"}),
]


@pytest.mark.parametrize("table, columns", DAMAGES)
def test_one_unexpected_value_breaks_no_page(service, trader, table, columns):
    closed(trader, 1, 5)
    closed(trader, 2, 5, closed_at=None, raw="2000000", price="5" + "0" * 23)
    said(trader, 1)
    table.update(columns).execute()
    uid = trader.uid
    for path in ("/", "/traders", f"/traders/{uid}", "/strategies", *PATHS, f"/api/traders/{uid}"):
        assert service.get(path).status_code == 200, path


def test_families_are_listed_in_order_without_a_rank(service, trader):
    make_trader(service, "Bo", "flow")
    shown = service.get("/api/strategies").json
    counts = [(row["family"], row["traders"]) for row in (*shown["families"], shown["copy"])]
    families = [("momentum", 1), ("mean_reversion", 0), ("breakout", 0), ("flow", 1)]
    assert counts == [*families, ("copy", 0)]
    assert (shown["windowDays"], shown["suggestedStartMode"]) == (30, "guarded")
    assert not any("rank" in name.lower() for row in walk(shown) for name in row)


def cut(rows, like):
    """As many rows as the detail has, with its members."""
    return [{name: row[name] for name in short} for row, short in zip(rows, like, strict=False)]


def test_the_detail_has_the_latest_twenty_and_lists_have_the_rest(service, trader):
    """For 25 closes, lines and posts each; assumptions are listed once, and a close has its model's
    ID.
    """
    for number in range(1, 26):
        closed(trader, number, number * 1000, closed_at=NOW - 10**6 + number)
        said(trader, number)
    shown = detail(service, trader)
    assert [one["assumptions"] for one in shown["closes"]] == [[MODEL]] * 20
    model = {"model": MODEL, "hash": MODEL_HASH, "assumptions": list(ASSUMPTIONS)}
    assert shown["models"] == [model]
    for name, other in (("closes", "diary"), ("diary", "posts"), ("posts", "closes")):
        assert (len(shown[name]), shown[f"{name}Total"]) == (20, 25)
        path = f"/api/traders/{trader.uid}/{name}"
        first = service.get(f"{path}?limit=10").json
        assert first["simulated"] and cut(first["data"], shown[name]) == shown[name][:10]
        found = service.pages(path, None, 10)
        assert cut(found, shown[name]) == shown[name] and len({one["id"] for one in found}) == 25
        assert shown[name][0].keys() < found[0].keys()
        others = f"/api/traders/{trader.uid}/{other}?cursor={first['nextCursor']}"
        for wrong in (others, f"{path}?cursor="):
            answer = service.get(wrong)
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")
        assert service.get(f"/api/traders/nobody/{name}").status_code == 404


def test_a_retired_trader_keeps_its_page(service, trader):
    type(trader).update(retired_at=NOW).execute()
    assert service.get("/api/traders").json["data"] == []
    assert service.get(f"/api/traders/{trader.uid}").json["retiredAt"]


def test_the_feed_contains_every_post_once(service, trader):
    for number in range(7):
        said(trader, number, f"words {number}")
    cursor, seen = "", []
    for late in (99, 100, 101):
        page = service.get(f"/api/feed?limit=3{cursor}").json
        seen, cursor = seen + page["data"], f"&cursor={page['nextCursor']}"
        said(trader, late)
    assert [post["id"] for post in seen] == [f"post_{number}" for number in range(6, -1, -1)]
    assert cursor == "&cursor=None" and page["limit"] == 3
    told = {"source": "paper", "verified": False, "botId": trader.uid, "botName": "Ada Paper"}
    assert (told | {"tokenAddresses": ["MintA"]}).items() <= seen[0].items()
    assert seen[0]["provenance"]["channel"] == "paper"


def test_everything_is_labeled_simulated(service, trader):
    closed(trader, 1, 5)
    said(trader, 1)
    Token.create(mint="MintA", symbol="AA", discovered_at=NOW, tracked_at=NOW)
    for path in [*PATHS, f"/api/traders/{trader.uid}"]:
        shown = service.get(path).json
        assert shown["simulated"] is True, path
        for row in walk(shown):
            if "id" in row or "eligibleCloses" in row or {"mint", "checks"} <= row.keys():
                assert row["simulated"] is True, path


# ---- reviews -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("agreed_clock")
def test_closes_count_the_same_in_detail_brain_and_comparison(service, trader):
    """Two count; a gap, an early pipeline and a pool without a formula don't. Under review, none
    do.
    """
    reasons = {"missing_snapshot": 1, "old_pipeline": 1, "uncalibrated": 1}
    closed(trader, 1, SOL)
    closed(trader, 2, -SOL, marks='["missing_snapshot"]', reason="price_gone")
    closed(trader, 3, SOL, marks='["missing_snapshot"]')
    closed(trader, 4, SOL, pipeline="paper/1 amm-cp/1")
    closed(trader, 5, SOL, marks='["uncalibrated"]')
    assert count_closes(service, trader) == [(2, reasons)] * 4
    traders.open_review(trader, "a look", NOW)
    assert count_closes(service, trader) == [(0, {"under_review": 5})] * 4


def count_closes(service, trader):
    """The number that count and the reasons for the others: in the detail, the list, the brain and
    the comparison.
    """
    shown, told = detail(service, trader), []
    for closes in (shown["closes"], service.get(f"/api/traders/{trader.uid}/closes").json["data"]):
        reasons = Counter(one["excludedReason"] for one in closes if not one["eligible"])
        told.append((sum(one["eligible"] for one in closes), dict(reasons)))
    for one in (shown["brain"]["reviewed"], show_family(service)):
        told.append((one["eligibleCloses"], one["excluded"]))
    return told


def show_family(service):
    return service.get("/api/strategies").json["families"][0]


@pytest.mark.usefixtures("agreed_clock")
def test_under_review_no_headline_remains(service, trader):
    closed(trader, 1, SOL)
    traders.open_review(trader, "a look", NOW)
    for shown in (listed(service)["performance"], detail(service, trader)["performance"]):
        assert shown["headlineSuppressed"] is True and shown["cashSol"] == "11"
        withheld = {name for name, value in shown.items() if value is None}
        assert withheld == {"returnPct", "realizedSol", "equitySol", "winRate"}
    assert show_family(service)["meanReturnPct"] is None
    traders.decide_review(trader, "cleared", "all is well", NOW)
    assert listed(service)["performance"]["returnPct"] == 10.0
    assert show_family(service)["meanReturnPct"] == 100.0


def restart(trader):
    """Uphold a review, and open a new account."""
    traders.open_review(trader, "a look", NOW)
    traders.decide_review(trader, "upheld", "not so", NOW)
    traders.reset_trader(trader, "started over", NOW)


def test_after_a_reset_an_upheld_review_still_warns_about_its_account(service, trader):
    """Its posts and cash are the old account's, which doesn't count; the new one isn't affected."""
    Period.update(cash=2 * Period.cash).execute()
    said(trader, 1, "up a lot")
    restart(trader)
    said(trader, 2, "up a little")
    shown = detail(service, trader)
    assert shown["review"]["state"] == "clean" and not shown["performance"]["headlineSuppressed"]
    periods = [(one["number"], one["review"], bool(one["warning"])) for one in shown["periods"]]
    assert periods == [(1, "upheld", True), (2, "clean", False)]
    for rows in (shown["posts"], service.get("/api/feed").json["data"]):
        told = [(one["body"], one["headlineSuppressed"], bool(one["warning"])) for one in rows]
        assert told == [("up a little", False, False), ("up a lot", True, True)]
    page = service.get(f"/traders/{trader.uid}?tab=record").text.split('id="periods"')[1]
    assert "A review of this record was upheld, so it does not count." in page


def test_a_review_withholds_lessons_too(service, trader):
    """A lesson states a rate. After an upheld review, a new account doesn't restore the old one's
    lessons; the diary keeps the line.
    """
    text = "Of 9 closes by stop in 7 days, 8 won."
    lesson = {"what": "lesson", "key": "reason stop", "text": text, "n": 9, "closeIds": []}
    lesson |= {"windowMs": 604_800_000, "expiresAt": 4_000_000_000_000}
    at, facts = time.time_ns() // 1_000_000, orjson.dumps(lesson).decode()
    DiaryEntry.create(period=find_period(trader), at=at, kind="lesson", facts=facts)

    def see():
        """Whether the lesson is in the API, and the page."""
        page = service.get(f"/traders/{trader.uid}?tab=record").text
        lessons = detail(service, trader)["brain"]["lessons"]
        assert ("8 won" in page) == bool(lessons)
        return bool(lessons), page

    assert see()[0]
    traders.open_review(trader, "a look", NOW)
    is_shown, page = see()
    assert not is_shown and "it learns from closed positions" not in page
    traders.decide_review(trader, "cleared", "all is well", NOW)
    assert see()[0]
    restart(trader)
    assert not see()[0]
    assert text in [line["text"] for line in detail(service, trader)["diary"]]


# ---- manners -------------------------------------------------------------------------------------
def test_an_invalid_request_is_refused(service):
    for path, status, code in (
        ("feed?limit=0", 400, "invalid_parameter"),
        ("feed?limit=x", 400, "invalid_parameter"),
        ("feed?cursor=abc", 400, "invalid_cursor"),
        ("feed?cursor=", 400, "invalid_cursor"),
        ("traders/trader_nobody", 404, "not_found"),
    ):
        answer = service.get(f"/api/{path}")
        assert (answer.status_code, answer.json["code"]) == (status, code), path
        assert answer.content_type == "application/problem+json"


def test_strangers_text_is_not_parsed_as_an_age(service):
    def tag(shown):
        with service.app.test_request_context("/api/feed"):
            return v1.respond(shown).headers["ETag"]

    first = {"name": 'x","asOf":"a', "asOf": "a", "list": [{"ageSeconds": 1, "closes": 2}]}
    older = {**first, "asOf": None, "list": [{"ageSeconds": 2.5, "closes": 2}]}
    assert tag(first) == tag(older)
    assert tag(first) != tag({**first, "name": 'x","asOf":"b'})
    assert tag(first) != tag({**first, "list": [{"ageSeconds": 1, "closes": 3}]})


def test_the_etag_changes_with_content_and_not_with_time(service, trader, monkeypatch):
    paths = [*PATHS, f"/api/traders/{trader.uid}"]
    tags = {}
    monkeypatch.setattr("time.time_ns", lambda: NOW * 10**6)
    for path in paths:
        first = service.get(path).headers
        tags[path] = first["ETag"]
        assert first["Cache-Control"] == "public, no-cache"
    monkeypatch.setattr("time.time_ns", lambda: (NOW + 5_000) * 10**6)
    for path, tag in tags.items():
        again = service.get(path, headers={"If-None-Match": tag})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
    Trader.update(name="Another").execute()
    make_trader(service, "Second", "momentum")
    said(trader, 5)
    Token.create(mint="MintA", symbol="AA", discovered_at=NOW, tracked_at=NOW)
    for path, tag in tags.items():
        assert service.get(path, headers={"If-None-Match": tag}).status_code == 200


# ---- creating ------------------------------------------------------------------------------------
def test_an_invalid_trader_is_refused_entirely(service):
    for changes, field in (
        ({"name": ""}, "name"),
        ({"family": "astrology"}, "family"),
        ({"start": "bold"}, "start"),
        ({"adaptive": "always"}, "adaptive"),
        ({"settings": {"riseBps": 1}}, "riseBps"),
        ({"settings": {"luck": 1}}, "luck"),
        ({"voice": {"mood": "x"}}, "voice"),
        ({"bio": "x" * 501}, "bio"),
    ):
        given = {"name": "Ada", "family": "momentum", "now": NOW, **changes}
        assert refused(traders.create_trader, **given).errors[0]["field"] == field
    assert Trader.select().count() == Period.select().count() == 0


def test_two_traders_with_one_handle_are_distinguished(service):
    one, two = (make_trader(service, name).handle for name in ("Ada Paper", "Ada Paper 🌙"))
    assert one == "ada-paper" and two.startswith("ada-paper-")
