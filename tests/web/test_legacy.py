"""The public interface of paper mode over HTTP: shapes, labels, headers."""

import time
from collections import Counter

import orjson
import pytest
from service import NOW

from accounts import traders
from accounts.problem import Problem
from market.tables import Token
from paper.account import PIPELINE
from paper.fills import ASSUMPTIONS, MODEL, MODEL_HASH
from paper.strategies import FAMILIES
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


def closed(trader, number, net, **more):
    """A closed position as written by the job."""
    period = Period.get(Period.trader == trader, Period.twin == 0, Period.closed_at.is_null())
    columns = {
        "period": period,
        "number": number,
        "mint": "MintA",
        "symbol": "AA",
        "decimals": 6,
        "opened_at": NOW - 60_000,
        "liquidity": 1,
        "price": "1",
        "high": "1",
        "marked_at": NOW,
        "marked_on": 1,
        "held": 1,
        "reduced": True,
        "raw": "0",
        "bought_raw": "5",
        "mid_bought": SOL,
        "mid_sold": SOL + net + 5,
        "slippage": 2,
        "fees": 3,
        "rent": 0,
        "cash": net,
        "spent": SOL,
        "latency_ms": 6000,
        "marks": "[]",
        "pipeline": PIPELINE,
        "closed_at": NOW,
        "reason": "stop",
    }
    Period.update(cash=Period.cash + net).where(Period.id == period.id).execute()
    return PaperPosition.create(**{**columns, **more})


def said(trader, number, body="words", facts=None):
    period = Period.get(Period.trader == trader, Period.twin == 0, Period.closed_at.is_null())
    entry = DiaryEntry.create(
        period=period,
        at=NOW,
        kind="fill",
        mint="MintA",
        facts=orjson.dumps(
            facts or {"what": "not_filled", "symbol": "AA", "why": "expired"}
        ).decode(),
    )
    return PaperPost.create(
        uid=f"post_{number}",
        entry=entry,
        trader=trader,
        body=body,
        mint="MintA",
        symbol="AA",
        writer="built-in",
        event_at=NOW,
        created_at=NOW,
    )


def walk(value):
    if isinstance(value, dict):
        yield value
    for one in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from walk(one)


# ---- shapes --------------------------------------------------------------------------------------
def test_a_trader_has_the_contracts_fields(service, trader):
    (shown,) = service.get("/api/traders").json["data"]
    members = "id handle name bio mode voice strategy performance review simulated"
    assert set(members.split()) <= set(shown)
    assert shown["mode"] == "paper"
    assert shown["handle"] == "ada-paper" and shown["id"] == trader.uid
    phase = shown["strategy"]["phase"]
    told = {"name": "guarded", "closes": 0, "closesNeeded": 20, "days": 0, "daysNeeded": 14}
    assert {name: phase[name] for name in told} == told
    told = {"startMode": "guarded", "adaptive": "observe", "riseBps": 600}
    assert {name: shown["strategy"][name] for name in told} == told
    assert shown["performance"] == {
        "headlineSuppressed": False,
        "warning": None,
        "returnPct": 0.0,
        "realizedSol": "0",
        "cashSol": "10",
        "equitySol": "10",
        "closes": 0,
        "winRate": None,
        "startingCashSol": "10",
        "period": 1,
        "since": shown["createdAt"],
    }
    assert shown["review"]["state"] == "clean"
    assert shown["review"]["reasons"] == []
    assert shown["review"]["openedAt"] is None


def test_performance_adds_up(service, trader):
    closed(trader, 1, SOL // 10)
    closed(trader, 2, -SOL // 20)
    Period.update(lost_fees=55_000, cash=Period.cash - 55_000).execute()
    performance = service.get("/api/traders").json["data"][0]["performance"]
    told = {"cashSol": "10.049945", "realizedSol": "0.049945", "closes": 2, "winRate": 0.5}
    assert {name: performance[name] for name in told} == told and performance["returnPct"] == 0.49


def test_the_detail_adds_diary_positions_closes_posts_and_brain(service, trader):
    closed(trader, 1, SOL // 10)
    said(trader, 1)
    held = {"raw": "2000000", "price": str(10**24 // 2), "mid_sold": 0}
    closed(trader, 2, 0, closed_at=None, reason=None, **held)
    shown = service.get(f"/api/traders/{trader.uid}").json
    assert {"diary", "positions", "closes", "posts", "brain", "periods", "asOf"} <= set(shown)
    assert {"asOf", "reviewed", "patterns", "pauses", "lessons"} <= set(shown["brain"])
    close = shown["closes"][0]
    members = "id mint symbol openedAt closedAt reason returnPct latencyMs model assumptions fills"
    assert {*members.split(), "eligible", "excludedReason", "simulated"} <= set(close)
    gross, *costs = (
        int(close[f"{name}Lamports"]) for name in ("gross", "slippage", "fees", "rent")
    )
    assert gross - sum(costs) == int(close["netLamports"]) == SOL // 10
    told = {"amount": "2", "valueLamports": str(SOL), "markPriceSol": "0.5"}
    assert {name: shown["positions"][0][name] for name in told} == told
    assert shown["performance"]["equitySol"] == "11.1"
    assert shown["diary"][0]["text"] == "The order in AA was not filled: expired."


@pytest.mark.parametrize(
    "damage",
    [
        lambda trader: Trader.update(settings='{"riseBps": 1}').execute(),
        lambda trader: Trader.update(settings="[]").execute(),
        lambda trader: Trader.update(phase="no JSON").execute(),
        lambda trader: Trader.update(phase="{}").execute(),
        lambda trader: PaperPosition.update(spent=0, marks="null").execute(),
        lambda trader: PaperPosition.update(price="much", raw="", closed_at=None).execute(),
        lambda trader: PaperPosition.update(
            spent=-1, cash=-(2**62), price="9" * 60, raw="9" * 30
        ).execute(),
        lambda trader: Period.update(starting_cash=0, cash=0).execute(),
        lambda trader: DiaryEntry.update(facts="{}").execute(),
        lambda trader: DiaryEntry.update(facts="no JSON", kind="pause").execute(),
        lambda trader: DiaryEntry.update(
            facts='{"until": 9999999999999, "expiresAt": 9999999999999}', kind="lesson"
        ).execute(),
    ],
)
def test_one_unexpected_value_breaks_no_page(service, trader, damage):
    closed(trader, 1, 5)
    closed(trader, 2, 5, closed_at=None, raw="2000000", price="5" + "0" * 23)
    said(trader, 1)
    damage(trader)
    for path in (
        "/api/traders",
        f"/api/traders/{trader.uid}",
        "/api/strategies",
        "/api/feed",
        "/traders",
        f"/traders/{trader.uid}",
        "/strategies",
        "/",
    ):
        assert service.get(path).status_code == 200, path


def test_families_are_listed_in_order_without_a_rank(service, trader):
    make_trader(service, "Bo", "flow")
    shown = service.get("/api/strategies").json
    assert (
        [row["family"] for row in shown["families"]]
        == list(FAMILIES)
        == ["momentum", "mean_reversion", "breakout", "flow"]
    )
    assert (shown["copy"]["family"], shown["copy"]["traders"]) == ("copy", 0)
    assert [row["traders"] for row in shown["families"]] == [1, 0, 0, 1]
    assert shown["windowDays"] == 30
    assert shown["suggestedStartMode"] == "guarded"
    assert shown["note"] == "Descriptive. Coverage is not proof of profitability."
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
    answer = service.get(f"/api/traders/{trader.uid}")
    shown = answer.json
    assert [one["assumptions"] for one in shown["closes"]] == [[MODEL]] * 20
    assert shown["models"] == [
        {"model": MODEL, "hash": MODEL_HASH, "assumptions": list(ASSUMPTIONS)}
    ]
    assert "orders are never sandwiched or front-run" in ASSUMPTIONS
    for name in ("closes", "diary", "posts"):
        assert (len(shown[name]), shown[f"{name}Total"]) == (20, 25)
        path, found = f"/api/traders/{trader.uid}/{name}?limit=10", []
        first = service.get(path).json
        assert first["simulated"] and cut(first["data"], shown[name]) == shown[name][:10]
        while True:
            page = service.get(path).json
            found += page["data"]
            if page["nextCursor"] is None:
                break
            path = f"/api/traders/{trader.uid}/{name}?limit=10&cursor={page['nextCursor']}"
        assert cut(found, shown[name]) == shown[name] and len({one["id"] for one in found}) == 25
        other = {"closes": "diary", "diary": "posts", "posts": "closes"}[name]
        wrong = service.get(f"/api/traders/{trader.uid}/{other}?cursor={first['nextCursor']}")
        assert (wrong.status_code, wrong.json["code"]) == (400, "invalid_cursor")
        empty = service.get(f"/api/traders/{trader.uid}/{name}?cursor=")
        assert (empty.status_code, empty.json["code"]) == (400, "invalid_cursor")
        assert service.get(f"/api/traders/nobody/{name}").status_code == 404


def test_a_retired_trader_keeps_its_page(service, trader):
    type(trader).update(retired_at=NOW).execute()
    assert service.get("/api/traders").json["data"] == []
    assert service.get(f"/api/traders/{trader.uid}").json["retiredAt"]


# ---- labels --------------------------------------------------------------------------------------
def test_everything_is_labeled_simulated(service, trader):
    closed(trader, 1, 5)
    said(trader, 1)
    Token.create(mint="MintA", symbol="AA", discovered_at=NOW, tracked_at=NOW)
    for path in [*PATHS, f"/api/traders/{trader.uid}"]:
        shown = service.get(path).json
        assert shown["simulated"] is True, path
        assert all(
            row["simulated"] is True
            for row in walk(shown)
            if "id" in row or "eligibleCloses" in row or ("mint" in row and "checks" in row)
        ), path


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
    detail = service.get(f"/api/traders/{trader.uid}").json
    listed = service.get(f"/api/traders/{trader.uid}/closes").json["data"]
    told = []
    for closes in (detail["closes"], listed):
        reasons = Counter(one["excludedReason"] for one in closes if not one["eligible"])
        told.append((sum(one["eligible"] for one in closes), dict(reasons)))
    family = service.get("/api/strategies").json["families"][0]
    for one in (detail["brain"]["reviewed"], family):
        told.append((one["eligibleCloses"], one["excluded"]))
    return told


@pytest.mark.usefixtures("agreed_clock")
def test_under_review_no_headline_remains(service, trader):
    closed(trader, 1, SOL)
    said(trader, 1)
    before = [
        service.get(path).json
        for path in ("/api/traders", f"/api/traders/{trader.uid}", "/api/strategies", "/api/feed")
    ]
    traders.open_review(trader, "a look", NOW)
    listed, detail, families, feed = [
        service.get(path).json
        for path in ("/api/traders", f"/api/traders/{trader.uid}", "/api/strategies", "/api/feed")
    ]
    for shown in (listed["data"][0], detail):
        assert shown["performance"]["headlineSuppressed"] is True
        assert shown["performance"]["warning"]
        assert shown["performance"]["cashSol"] == "11"
        withheld = {name for name, value in shown["performance"].items() if value is None}
        assert withheld == {"returnPct", "realizedSol", "equitySol", "winRate"}
    assert families["families"][0]["meanReturnPct"] is None
    assert families["families"][0]["excluded"] == {"under_review": 1}
    assert families["families"][0]["tradersUnderReview"] == 1
    assert feed["data"][0]["warning"] and before[0]["data"][0]["performance"]["returnPct"] == 10.0
    assert detail["closes"][0]["netLamports"] == before[1]["closes"][0]["netLamports"]
    traders.decide_review(trader, "cleared", "all is well", NOW)
    assert service.get("/api/traders").json["data"][0]["performance"]["returnPct"] == 10.0
    assert service.get("/api/strategies").json["families"][0]["meanReturnPct"] == 100.0


def test_after_a_reset_an_upheld_review_still_warns_about_its_account(service, trader):
    """Its posts and cash are the old account's, which doesn't count; the new one isn't affected."""
    Period.update(cash=2 * Period.cash).execute()
    said(trader, 1, "up a lot")
    traders.open_review(trader, "a look", NOW)
    traders.decide_review(trader, "upheld", "not so", NOW)
    traders.reset_trader(trader, "begun anew", NOW)
    said(trader, 2, "up a little")
    shown = service.get(f"/api/traders/{trader.uid}").json
    assert shown["review"]["state"] == "clean" and not shown["performance"]["headlineSuppressed"]
    assert [(one["number"], one["review"], bool(one["warning"])) for one in shown["periods"]] == [
        *((1, "upheld", True), (2, "clean", False))
    ]
    for posts in (shown["posts"], service.get("/api/feed").json["data"]):
        assert [
            (one["body"], one["headlineSuppressed"], bool(one["warning"])) for one in posts
        ] == [("up a little", False, False), ("up a lot", True, True)]
    page = service.get(f"/traders/{trader.uid}?tab=record").text
    assert ("A review of this record was upheld, so it does not count.") in page.split(
        'id="periods"'
    )[1]


LESSON = {
    **{"what": "lesson", "key": "reason stop", "text": "Of 9 closes by stop in 7 days, 8 won."},
    **{"n": 9, "windowMs": 604_800_000, "closeIds": [], "expiresAt": 4_000_000_000_000},
}


def test_a_review_withholds_lessons_too(service, trader):
    """A lesson states a rate. After an upheld review, a new account doesn't restore the old one's
    lessons; the diary keeps the line.
    """

    def see():
        shown = service.get(f"/api/traders/{trader.uid}").json
        page = service.get(f"/traders/{trader.uid}?tab=record").text
        return [one["n"] for one in shown["brain"]["lessons"]], page

    period = Period.get(Period.trader == trader)
    at = time.time_ns() // 1_000_000
    DiaryEntry.create(period=period, at=at, kind="lesson", facts=orjson.dumps(LESSON).decode())
    lessons, page = see()
    assert lessons == [9] and "8 won" in page
    traders.open_review(trader, "a look", NOW)
    lessons, page = see()
    assert lessons == [] and "8 won" not in page and "it learns from closed positions" not in page
    traders.decide_review(trader, "cleared", "all is well", NOW)
    assert see()[0] == [9]
    traders.open_review(trader, "another look", NOW)
    traders.decide_review(trader, "upheld", "not so", NOW)
    traders.reset_trader(trader, "begun anew", NOW)
    lessons, page = see()
    assert lessons == [] and "8 won" not in page
    diary = service.get(f"/api/traders/{trader.uid}").json["diary"]
    assert any(line["text"] == LESSON["text"] for line in diary)


# ---- the feed ------------------------------------------------------------------------------------
def test_feed_pages_contain_every_post_once(service, trader):
    for number in range(7):
        said(trader, number, f"words {number}")
    first = service.get("/api/feed?limit=3").json
    said(trader, 99)
    second = service.get(f"/api/feed?limit=3&cursor={first['nextCursor']}").json
    third = service.get(f"/api/feed?limit=3&cursor={second['nextCursor']}").json
    assert [post["id"] for page in (first, second, third) for post in page["data"]] == [
        f"post_{number}" for number in range(6, -1, -1)
    ]
    assert third["nextCursor"] is None and first["limit"] == 3
    post = first["data"][0]
    told = {"source": "paper", "verified": False, "botId": trader.uid, "botName": "Ada Paper"}
    assert {name: post[name] for name in told} == told
    assert post["provenance"]["channel"] == "paper" and post["tokenAddresses"] == ["MintA"]


@pytest.mark.parametrize(
    "query, code",
    [
        ("limit=0", "invalid_parameter"),
        ("limit=x", "invalid_parameter"),
        ("cursor=abc", "invalid_cursor"),
        ("cursor=", "invalid_cursor"),
    ],
)
def test_an_invalid_query_is_refused(service, query, code):
    answer = service.get(f"/api/feed?{query}")
    assert (answer.status_code, answer.json["code"], answer.content_type) == (
        400,
        code,
        "application/problem+json",
    )


# ---- manners -------------------------------------------------------------------------------------
def test_an_unknown_trader_returns_404(service):
    answer = service.get("/api/traders/trader_nobody")
    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


def test_strangers_text_is_not_parsed_as_an_age(service):
    def tag(shown):
        with service.app.test_request_context("/api/feed"):
            return v1.respond(shown).headers["ETag"]

    first = {"name": 'x","asOf":"a', "asOf": "a", "list": [{"ageSeconds": 1, "closes": 2}]}
    older = {**first, "asOf": None, "list": [{"ageSeconds": 2.5, "closes": 2}]}
    assert tag(first) == tag(older)
    assert tag(first) != tag({**first, "name": 'x","asOf":"b'})
    assert tag(first) != tag({**first, "list": [{"ageSeconds": 1, "closes": 3}]})


@pytest.mark.parametrize("path", [*PATHS, "trader"])
def test_the_etag_changes_with_content_and_not_with_time(service, trader, path, monkeypatch):
    path = f"/api/traders/{trader.uid}" if path == "trader" else path
    monkeypatch.setattr("web.api.legacy._now", lambda: NOW)
    first = service.get(path)
    monkeypatch.setattr("web.api.legacy._now", lambda: NOW + 5_000)
    again = service.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert not again.data
    assert first.headers["Cache-Control"] == "public, no-cache"
    assert again.headers["ETag"] == first.headers["ETag"]
    Trader.update(name="Another").execute()
    make_trader(service, "Second", "momentum")
    said(trader, 5)
    Token.create(mint="MintA", symbol="AA", discovered_at=NOW, tracked_at=NOW)
    assert service.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


# ---- owners and operators ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "changes, field",
    [
        ({"name": ""}, "name"),
        ({"family": "astrology"}, "family"),
        ({"start": "bold"}, "start"),
        ({"adaptive": "always"}, "adaptive"),
        ({"settings": {"riseBps": 1}}, "riseBps"),
        ({"settings": {"luck": 1}}, "luck"),
        ({"voice": {"mood": "x"}}, "voice"),
        ({"bio": "x" * 501}, "bio"),
    ],
)
def test_an_invalid_trader_is_refused_entirely(service, changes, field):
    with pytest.raises(Problem) as refusal:
        traders.create_trader(**{"name": "Ada", "family": "momentum", "now": NOW, **changes})
    assert refusal.value.errors[0]["field"] == field
    assert Trader.select().count() == Period.select().count() == 0


def test_two_traders_with_one_handle_are_distinguished(service):
    one = make_trader(service)
    two = make_trader(service, "Ada Paper 🌙", owner=one.owner)
    assert one.handle != two.handle
    assert two.handle.startswith("ada-paper-")
    assert one.owner_id == two.owner_id
