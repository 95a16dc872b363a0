"""Trades by kind and by token: complete lists, page by page, without a full scan."""

import re

import pytest
from service import address, signature

from market.tables import Token
from web.api import trades as api
from web.api.trades import TRADE_KINDS
from web.site.words import KINDS

W, M, OTHER = address("w"), address("mint"), address("other mint")


@pytest.fixture
def trades(service, bot):
    """Twelve trades: bought, sold and failed in turn, every other one of another token."""
    place = {"slot": lambda n: 100 + n // 2, "place": lambda n: n % 2}
    kinds, mints = ("buy", "sell", "failed"), (M, OTHER)
    drawn = {"kind": lambda n: kinds[n % 3], "mint": lambda n: mints[n % 2], **place}
    service.observe_trades(W, [f"t{n}" for n in range(12)], **drawn)


def names(rows):
    return [row["signature"] for row in rows]


def test_every_kind_has_a_name():
    assert set(TRADE_KINDS) == set(KINDS)


@pytest.mark.parametrize("most", [1, 5])
def test_a_list_filtered_by_kind_is_complete(service, key, bot, trades, monkeypatch, most):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", most)
    sold = [signature(f"t{n}") for n in (10, 7, 4, 1)]
    for limit in (1, 3):
        for query in ("", f"&wallet={W}", f"&botId={bot.bot.uid}"):
            rows = service.pages(f"/api/v1/trades?kind=sell{query}", key, limit)
            assert names(rows) == sold, (query, limit)
        of_token = service.pages(f"/api/v1/trades?kind=sell&mint={M}", key, limit)
        assert names(of_token) == [signature("t10"), signature("t4")]
    lines = service.get(f"/bots/{bot.bot.uid}/trades.csv?kind=buy").text.splitlines()
    assert len(lines) == 1 + 4 and all(",buy," in line for line in lines[1:])


def test_a_filtered_page_searches_a_limited_number_of_trades_and_continues(
    get, trades, monkeypatch
):
    """The latest two were a failed one and a sale, then a purchase and a failed one."""
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 2)
    cursor = ""
    for found in ("t11", "t8"):
        page = get(f"trades?kind=failed{cursor}").json
        assert names(page["data"]) == [signature(found)]
        cursor = f"&cursor={page['nextCursor']}"
    assert get(f"trades?kind=sell{cursor}").json["code"] == "invalid_cursor"


def test_filtered_arrivals_fill_a_page(service, get, bot):
    """Five sales among 60 purchases: each page searches until it is full, and each comes once."""
    sold, since = [3, 20, 21, 50, 59], {}
    for path in ("", f"&mint={M}", f"&wallet={W}"):
        since[path] = get(f"trades?kind=sell{path}").json["newestCursor"]
    kinds = {"kind": lambda n: "sell" if n in sold else "buy", "mint": M}
    service.observe_trades(W, [f"a{n}" for n in range(60)], **kinds)
    for path, cursor in since.items():
        for some in (sold[:2], sold[2:4], sold[4:], ()):
            page = get(f"trades?kind=sell&limit=2{path}&since={cursor}").json
            assert names(page["data"]) == [signature(f"a{n}") for n in some]
            before, cursor = cursor, page["newestCursor"]
        # Nothing arrived, so the cursor stays.
        assert before == cursor


def test_filtered_arrivals_search_a_limited_number(service, get, bot, monkeypatch):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 4)
    monkeypatch.setattr(api, "BATCH", 2)
    since = get("trades?kind=sell").json["newestCursor"]
    kinds = {"kind": lambda n: "sell" if n == 5 else "buy"}
    service.observe_trades(W, [f"a{n}" for n in range(6)], **kinds)
    page = get(f"trades?kind=sell&since={since}").json
    assert page["data"] == [] and page["newestCursor"] != since
    page = get(f"trades?kind=sell&since={page['newestCursor']}").json
    assert names(page["data"]) == [signature("a5")]


def test_an_unknown_kind_is_refused(service, bot, get):
    answer = get("trades?kind=gift")
    assert answer.status_code == 400 and "round_trip" in answer.json["detail"]
    assert service.get(f"/bots/{bot.bot.uid}?tab=trades&kind=gift").status_code == 400


# ---- the profile --------------------------------------------------------------------------------
@pytest.fixture
def read(service, bot):
    """read(query) -> (the signatures of the trades on this page of the tab, its HTML)"""
    return lambda query: list_shown(service.get(f"/bots/{bot.bot.uid}?tab=trades{query}"))


def list_shown(page):
    assert page.status_code == 200
    return re.findall(r'<code id="of-[^"]+">(\w+)</code>', page.text), page.text


def test_the_tab_filters_by_kind_and_token(bot, trades, read):
    Token.create(mint=OTHER, symbol="FERN")
    sold = [signature(f"t{n}") for n in (10, 7, 4, 1)]
    assert read("&kind=sell")[0] == sold
    assert read("&kind=sell&token=fern")[0] == [sold[1], sold[3]]
    assert read(f"&token={M}")[0][:2] == [signature("t10"), signature("t8")]
    shown, html = read("&kind=stake")
    assert not shown and "No trades match." in html and 'value="stake" selected' in html
    assert "We don’t know a token with this ticker" in read("&token=NOBODY")[1]
    # A pasted secret is not repeated.
    assert bot.publish_key.text not in read(f"&token={bot.publish_key.text}")[1]


def test_the_tab_says_where_its_search_ended(service, trades, read, monkeypatch):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 4)
    shown, html = read("&kind=failed")
    assert shown == [signature("t11"), signature("t8")]
    assert "Older ones may match too." in html
    older = re.search(r'href="([^"]+)">Look further back', html)[1].replace("&amp;", "&")
    assert "kind=failed" in older and list_shown(service.get(older))[0] == [signature("t5")]
