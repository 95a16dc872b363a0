"""Trades by kind and by token: complete lists, page by page, without a full scan."""

import re

import pytest
from service import address, signature

from market.tables import Token
from web.api import trades as api
from web.api.trades import TRADE_KINDS
from web.site.words import KINDS

W, M, OTHER = address("wallet"), address("mint"), address("other mint")


@pytest.fixture
def bot(service):
    return service.make_bot("Nell", W)


@pytest.fixture
def trades(service, bot):
    """Twelve trades in turn bought, sold and failed, every other one of another token."""
    for n in range(12):
        service.observe_trade(
            W,
            f"t{n}",
            slot=100 + n // 2,
            place=n % 2,
            mint=OTHER if n % 2 else M,
            kind=("buy", "sell", "failed")[n % 3],
        )


def names(rows):
    return [row["signature"] for row in rows]


def test_every_kind_has_a_name():
    assert set(TRADE_KINDS) == set(KINDS)


@pytest.mark.parametrize("most", [1, 2, 5, 2_000])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_list_filtered_by_kind_is_complete(service, key, bot, trades, monkeypatch, most, limit):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", most)
    sold = [signature(f"t{n}") for n in (10, 7, 4, 1)]
    for path in ("?kind=sell", f"?kind=sell&wallet={W}", f"?kind=sell&botId={bot.bot.uid}"):
        assert names(service.pages(f"/api/v1/trades{path}", key, limit)) == sold, path
    of_token = service.pages(f"/api/v1/trades?kind=sell&mint={M}", key, limit)
    assert names(of_token) == [signature("t10"), signature("t4")]


def test_a_filtered_page_searches_a_limited_number_of_trades_and_continues(
    service, key, trades, monkeypatch
):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 2)
    page = service.get("/api/v1/trades?kind=failed", key).json
    # The latest two were a failed one and a sale.
    assert names(page["data"]) == [signature("t11")] and page["nextCursor"]
    page = service.get(f"/api/v1/trades?kind=failed&cursor={page['nextCursor']}", key).json
    # Then a purchase and a failed one; t8 is the ninth.
    assert names(page["data"]) == [signature("t8")] and page["nextCursor"]
    other = service.get(f"/api/v1/trades?kind=sell&cursor={page['nextCursor']}", key)
    assert other.json["code"] == "invalid_cursor"


def test_filtered_arrivals_come_once_each(service, key, trades):
    since = service.get("/api/v1/trades?kind=sell", key).json["newestCursor"]
    for n in range(12, 18):
        service.observe_trade(W, f"t{n}", slot=n, mint=M, kind="sell" if n % 2 else "buy")
    seen = []
    for _ in range(6):
        page = service.get(f"/api/v1/trades?kind=sell&limit=2&since={since}", key).json
        seen, since = seen + names(page["data"]), page["newestCursor"]
    assert seen == [signature(f"t{n}") for n in (13, 15, 17)]


@pytest.mark.parametrize("path", ["", f"&mint={M}", f"&wallet={W}"])
def test_filtered_arrivals_fill_a_page(service, key, bot, path):
    """Five sales among 250 purchases: each page looks on until it is full."""
    since = service.get(f"/api/v1/trades?kind=sell{path}", key).json["newestCursor"]
    sold = [3, 120, 121, 240, 249]
    names_of_all = [f"a{n}" for n in range(250)]
    service.observe_trades(W, names_of_all, mint=M, kind=lambda n: "sell" if n in sold else "buy")
    pages = []
    for _ in range(4):
        page = service.get(f"/api/v1/trades?kind=sell&limit=2{path}&since={since}", key).json
        pages.append(names(page["data"]))
        before, since = since, page["newestCursor"]
    assert pages == [
        [signature(f"a{n}") for n in some] for some in (sold[:2], sold[2:4], sold[4:], ())
    ]
    # Nothing came: the cursor stands.
    assert before == since


def test_filtered_arrivals_search_a_limited_number(service, key, bot, monkeypatch):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 4)
    monkeypatch.setattr(api, "BATCH", 2)
    since = service.get("/api/v1/trades?kind=sell", key).json["newestCursor"]
    for n in range(6):
        service.observe_trade(W, f"a{n}", slot=n, mint=M, kind="sell" if n == 5 else "buy")
    page = service.get(f"/api/v1/trades?kind=sell&since={since}", key).json
    assert page["data"] == [] and page["newestCursor"] != since
    page = service.get(f"/api/v1/trades?kind=sell&since={page['newestCursor']}", key).json
    assert names(page["data"]) == [signature("a5")]


def test_a_csv_filtered_by_kind_is_complete(service, bot, trades, monkeypatch):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 3)
    lines = service.get(f"/bots/{bot.bot.uid}/trades.csv?kind=buy").text.splitlines()
    assert len(lines) == 1 + 4 and all(",buy," in line for line in lines[1:])


def test_an_unknown_kind_is_refused(service, key):
    answer = service.get("/api/v1/trades?kind=gift", key)
    assert answer.status_code == 400 and "round_trip" in answer.json["detail"]


# ---- the profile --------------------------------------------------------------------------------
def read(service, bot, query):
    page = service.get(f"/bots/{bot.bot.uid}?tab=trades{query}")
    assert page.status_code == 200
    return page.get_data(as_text=True)


def shown(html):
    """The signatures of the trades on a page."""
    return re.findall(r'<code id="of-[^"]+">(\w+)</code>', html)


def test_the_tab_filters_by_kind_and_token(service, bot, trades):
    Token.create(mint=OTHER, symbol="FERN")
    sold = [signature(f"t{n}") for n in (10, 7, 4, 1)]
    assert shown(read(service, bot, "&kind=sell")) == sold
    assert shown(read(service, bot, "&kind=sell&token=fern")) == [sold[1], sold[3]]
    assert shown(read(service, bot, f"&token={M}"))[:2] == [signature("t10"), signature("t8")]
    html = read(service, bot, "&kind=stake")
    assert not shown(html) and "No trades match." in html and 'value="stake" selected' in html
    assert "We don’t know a token with this ticker" in read(service, bot, "&token=NOBODY")
    assert service.get(f"/bots/{bot.bot.uid}?tab=trades&kind=gift").status_code == 400


def test_the_tab_says_where_its_search_ended(service, bot, trades, monkeypatch):
    monkeypatch.setattr(api, "MAX_LOOK_BACK", 4)
    html = read(service, bot, "&kind=failed")
    assert shown(html) == [signature("t11"), signature("t8")]
    assert "Older ones may match too." in html
    older = re.search(r'href="([^"]+)">Look further back', html)[1].replace("&amp;", "&")
    assert "kind=failed" in older
    assert shown(service.get(older).get_data(as_text=True)) == [signature("t5")]


def test_a_pasted_secret_is_not_repeated(service, bot, trades):
    secret = bot.publish_key.text
    assert secret not in read(service, bot, f"&token={secret}")
