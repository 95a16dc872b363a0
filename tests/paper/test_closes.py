"""The page of a close: its decision, its fills on the price path, its costs; linked from the diary,
the post and the trader.
"""

import re
from decimal import Decimal

import orjson
import pytest
from service import NOW
from test_legacy import SOL, closed, make_trader, said

from accounts import traders as accounts
from market.tables import Snapshot, Token
from paper.fills import MODEL_HASH
from paper.tables import DiaryEntry, PaperFill, PaperOrder, PaperPost, Period
from web.site import charts
from web.site.charts import PricePoint

MINUS = "\N{MINUS SIGN}"
MINT = "MintA"
OPENED, CLOSED = NOW - 600_000, NOW - 60_000


def text_of(answer):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text)).replace("&#39;", "'")


def order_of(position, number, side, decided, filled, at, **fill):
    """An order of a position with its fill, decided 6 s earlier, and the diary line of its
    decision.
    """
    period, decided_at = position.period, at - 6_000
    order = PaperOrder.create(
        **{"period": period, "number": number, "mint": MINT, "symbol": "AA", "decimals": 6},
        **{"side": side, "amount": "1", "reason": "momentum" if side == "buy" else "stop"},
        **{"decided_on": decided.id, "decided_at": decided_at, "due_at": at},
        **{"expires_at": at + 90_000, "state": "filled"},
    )
    detail = "the price rose 12% in 6 snapshots" if side == "buy" else "fell to its stop"
    facts = {"what": side, "symbol": "AA", "sol": "1", "amount": "100", "detail": detail}
    line = {"period": period, "at": decided_at, "kind": "decision", "mint": MINT}
    DiaryEntry.create(**line, order_number=number, facts=orjson.dumps(facts).decode())
    costs = {"pool_fee": 2_500_000, "network_fee": 500_000, "rent": 0, "slippage": 20_000_000}
    told = {"position": position.number, "snapshot": filled.id, "at": at, "raw": str(100 * 10**6)}
    told |= {"failed": False, "marks": "[]", "model": "amm-cp/3"}
    PaperFill.create(order=order, **{**told, **costs, **fill})


def price(token, at, sol):
    told = {"venue": "raydium", "pair": "PairPairPair", "liquidity_usd": "50000"}
    return Snapshot.create(
        token=token, taken_at=at, price_sol=sol, market_cap_usd="1000000", **told
    )


@pytest.fixture
def close(service):
    """A close that bought 100 AA at 0.0102 SOL, quoted at 0.01, and sold at 0.0088."""
    trader = make_trader(service, "Ada Paper")
    token = Token.create(mint=MINT, symbol="AA", decimals=6)
    ticks = [price(token, OPENED + n * 60_000, f"0.{100 - n:04d}"[:6]) for n in range(-1, 10)]
    # Price move -0.1 SOL; slippage 0.04, fees 0.006: net -0.146 SOL of 1.02 spent.
    figures = {"mid_bought": SOL, "mid_sold": 900_000_000, "slippage": 40_000_000}
    figures |= {"fees": 6_000_000, "spent": 1_020_000_000}
    times = {"opened_at": OPENED, "closed_at": CLOSED}
    position = closed(trader, 1, -146_000_000, mint=MINT, **times, **figures)
    Period.update(next_position=2).where(Period.trader == trader).execute()
    order_of(position, 1, "buy", ticks[0], ticks[1], OPENED, mid=SOL)
    order_of(position, 2, "sell", ticks[8], ticks[9], CLOSED, mid=900_000_000)
    return trader, service.get(f"/api/traders/{trader.uid}").json


def test_a_detail_is_small_and_lists_contain_the_rest(service):
    """Twenty closes of two fills each and as many posts, with mints of 44 characters."""
    trader, mint = make_trader(service, "Ada Paper"), "7" * 44
    tick = price(Token.create(mint=mint, symbol="LONGNAME", decimals=6), OPENED, "0.01")
    words = "Sold all LONGNAME at its stop, 0.146 SOL (14.31%) down after nine minutes."
    for n in range(1, 21):
        position = closed(trader, n, -146_000_000, mint=mint, symbol="LONGNAME", closed_at=CLOSED)
        for m, side in enumerate(("buy", "sell")):
            order_of(position, 2 * n + m, side, tick, tick, CLOSED, mid=SOL)
        said(trader, n, words)
    path = f"/api/traders/{trader.uid}"
    answer = service.get(path, headers={"Accept-Encoding": "identity"})
    shown = answer.json
    assert [len(shown[name]) for name in ("closes", "diary", "posts")] == [20, 20, 20]
    assert [len(one["fills"]) for one in shown["closes"]] == [2] * 20
    assert len(answer.data) < 33_000
    for name in ("closes", "diary", "posts"):
        listed = service.get(f"{path}/{name}").json["data"]
        for short, whole in zip(shown[name], listed, strict=True):
            assert short.keys() < whole.keys()
            assert all(whole[one] == short[one] for one in short if one != "fills")


def page_of(service, close):
    trader, shown = close
    return service.get(f"/traders/{trader.uid}/closes/{shown['closes'][0]['id']}")


def test_a_close_page_shows_its_decision_fills_and_costs(service, close):
    """Costs of 0.046 SOL at one, two and three times: -0.1 - 0.046, -0.1 - 0.092, -0.1 - 0.138; the
    first is 14.31% of 1.02 SOL, cut toward zero.
    """
    _, shown = close
    (row,) = shown["closes"]
    assert (row["netLamports"], row["returnPct"]) == ("-146000000", -14.31)
    assert [one["hash"] for one in shown["models"]] == [MODEL_HASH]
    answer = page_of(service, close)
    page = text_of(answer)
    assert answer.status_code == 200 and "simulated" in page and answer.text.count("<h1") == 1
    assert f"{MINUS}0.1460 SOL {MINUS}14.3% of the amount spent" in page
    assert "Decided to buy AA for 1.000 SOL: the price rose 12% in 6 snapshots." in page
    assert "held AA for 9 min and closed it: stop." in page
    # (1 + 0.02) SOL for 100 tokens, and (0.9 - 0.02) SOL for 100.
    assert "0.0102" in page and "0.0088" in page
    assert f"amm-cp/3, constants {MODEL_HASH}" in page
    assert "raydium: constant product" in page and "PairPairPair" in page
    assert "rent of 0.00203928 SOL paid on the first buy" in page and "lamports" not in page
    # 2 x 0.0025 of 1.02 + 0.88 SOL.
    assert re.search(r"Pool fee paid 0\.2632 ?%", page)
    assert [answer.text.count(f'<circle class="{one}"') for one in ("unknown", "sold")] == [1, 1]
    assert "Show as a table" in page
    for name, once, twice, thrice in (
        ("Slippage", "0.0400", "0.0800", "0.1200"),
        ("Fees", "0.006", "0.0120", "0.0180"),
        ("Net", "0.1460", "0.1920", "0.2380"),
    ):
        assert f"{name} {MINUS}{once} {MINUS}{twice} {MINUS}{thrice}" in page
    blocking = r'<script src="/static/[^"]+" defer blocking="render"></script>'
    assert "<script" not in re.sub(blocking, "", answer.text)


def test_diary_post_and_trader_link_to_a_close_and_not_to_an_open_position(service, close):
    trader, shown = close
    ident = shown["closes"][0]["id"]
    line = DiaryEntry.select().order_by(DiaryEntry.id).first()
    about = {"mint": MINT, "symbol": "AA", "writer": "built-in", "event_at": NOW}
    post = {"uid": "post_1", "entry": line, "trader": trader, "body": "Bought."}
    PaperPost.create(**post, **about, created_at=NOW)
    page = f"/traders/{trader.uid}"
    link = f'href="{page}/closes/{ident}"'
    for path in (page, f"{page}?tab=trades", "/posts/post_1"):
        assert link in service.get(path).text
    posts, diary = service.get(f"{page}?tab=posts").text.split('class="diary"')
    assert link in posts and diary.count(link) == 2
    assert service.get("/api/feed").json["data"][0]["closeId"] == ident
    assert {one["closeId"] for one in shown["diary"]} == {ident}
    DiaryEntry.update(order_number=9).execute()
    lines = service.get(f"/api/traders/{trader.uid}").json["diary"]
    assert [one["closeId"] for one in lines] == [None, None]


def test_a_close_under_review_says_so(service, close):
    accounts.open_review(close[0], "a jump", NOW)
    assert "so this close doesn’t count" in page_of(service, close).text


def test_unknown_closes_return_404(service, close):
    trader, shown = close
    ident, other = shown["closes"][0]["id"], make_trader(service, "Bob Paper")
    for owner, found in ((trader.uid, "close_none"), ("trader_none", ident), (other.uid, ident)):
        assert service.get(f"/traders/{owner}/closes/{found}").status_code == 404


def test_a_close_without_prices_still_renders(service, close):
    Snapshot.delete().execute()
    page = text_of(page_of(service, close))
    assert "Not enough recorded prices" in page and f"Net {MINUS}0.1460" in page


# ---- the picture ---------------------------------------------------------------------------------
def test_a_chart_holds_each_quote_until_the_next():
    quotes = [PricePoint(0, Decimal(1)), PricePoint(50, Decimal(3)), PricePoint(100, Decimal(2))]
    sold = [("part", PricePoint(75, Decimal(2))), ("sold", PricePoint(100, Decimal(1)))]
    path = charts.draw_path(quotes, [("unknown", PricePoint(50, Decimal(3))), *sold])
    # From 5 at the top for 3 to 88 at the bottom for 1.
    assert path.runs == [("flat", "", "M0 88V88H50V5H100V46.5H100")]
    assert path.marks == [(50.0, 5.0, "unknown"), (75.0, 46.5, "part"), (100.0, 88.0, "sold")]
    assert path.levels[0][:2] == (88.0, "1")
    assert charts.draw_path(quotes[:1], []) is None
    constant = charts.draw_path([PricePoint(n, Decimal("0.5")) for n in range(3)], [])
    assert constant.runs[0].line == "M0 46.5V46.5H100"


@pytest.mark.parametrize("exponent", [-15, -6, 0, 11])
def test_prices_of_any_size_can_be_drawn(exponent):
    quotes = [PricePoint(n, Decimal(n + 1).scaleb(exponent)) for n in range(1_000)]
    path = charts.draw_path(quotes, [])
    assert 2 <= len(path.levels) <= 6
    assert all(Decimal(one.label.replace(",", "")) <= quotes[-1].price for one in path.levels)
