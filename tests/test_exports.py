"""Trades and lots as CSV: what the interface tells, and nothing that a spreadsheet would run."""

import csv
import io

import orjson
import pytest
from service import address, signature

from market.tables import Token
from web.api import queries, spreadsheet
from web.site import exports

W, M = address("w"), address("m")


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", W)


def read(service, bot, name):
    answer = service.get(f"/bots/{bot.bot.uid}/{name}.csv")
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def sell(service):
    """3,000 sold for 700: 2,000 of a purchase for 500, 1,000 of nobody knows what."""
    lots = [["trade_bought", "2000", "500"], [None, "1000", None]]
    service.observe_trade(W, "bought", 1, mint=M, raw=2_000, sol=-500)
    service.observe_trade(
        W,
        "sold",
        2,
        kind="sell",
        mint=M,
        raw=-3_000,
        sol=700,
        realized="partial",
        result=-34,
        proceeds=466,
        cost=500,
        matched_raw="2000",
        unmatched_raw="1000",
        lots=orjson.dumps(lots).decode(),
    )


def test_trades_are_those_of_the_interface(service, bot, monkeypatch):
    monkeypatch.setattr(spreadsheet, "PAGE_SIZE", 2)
    sell(service)
    for slot in range(3, 8):
        service.observe_trade(W, f"more{slot}", slot)
    rows = read(service, bot, "trades")
    told = service.get("/api/v1/trades?limit=100", bot.publish_key.text).json["data"]
    assert [row["signature"] for row in rows] == [one["signature"] for one in told]
    assert len(rows) == 7
    sale = rows[5]
    assert (sale["kind"], sale["solChangeLamports"], sale["resultLamports"]) == (
        "sell",
        "700",
        "-34",
    )
    assert (sale["status"], sale["costLamports"], sale["tokenChanges"]) == (
        "partial",
        "500",
        f"{M} -3",
    )
    # unknown is empty, not 0
    assert rows[6]["resultLamports"] == ""


def test_a_table_holds_the_trades_that_its_page_shows(service, bot):
    sell(service)
    asked = f"kind=sell&token={M}"
    page = service.get(f"/bots/{bot.bot.uid}?tab=trades&{asked}").text
    assert f"/bots/{bot.bot.uid}/trades.csv?{asked.replace('&', '&amp;')}" in page
    table = service.get(f"/bots/{bot.bot.uid}/trades.csv?{asked}").text
    assert signature("sold") in table and signature("bought") not in table
    assert signature("sold") not in service.get(f"/bots/{bot.bot.uid}/trades.csv?token=NONE").text


def test_lots_are_those_that_sales_took(service, bot):
    sell(service)
    first, second = read(service, bot, "lots")
    assert first["saleId"] == second["saleId"] == "trade_sold"
    assert first["signature"] == signature("sold")
    assert [
        (one["lot"], one["tradeId"], one["amountRaw"], one["costLamports"])
        for one in (first, second)
    ] == [("1", "trade_bought", "2000", "500"), ("2", "", "1000", "")]


@pytest.mark.parametrize("symbol", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_name_becomes_a_formula(service, bot, symbol):
    Token.create(mint=M, held=True, symbol=symbol)
    sell(service)
    assert read(service, bot, "trades")[0]["symbol"] == f"'{symbol.strip()}"


def test_a_name_with_quotes_and_line_breaks_stays_one_line(service, bot):
    Token.create(mint=M, held=True, symbol='a"b,\r\nc')
    sell(service)
    assert [row["symbol"] for row in read(service, bot, "trades")] == ['a"b, c'] * 2


def test_an_unknown_bot_has_no_table_and_one_without_trades_an_empty_one(service, bot):
    assert service.get("/bots/bot_nobody/trades.csv").status_code == 404
    assert service.get("/bots/bot_nobody/lots.csv").status_code == 404
    answer = service.get(f"/bots/{bot.bot.uid}/lots.csv")
    assert answer.text == ",".join(exports.LOT_COLUMNS) + "\r\n"


# ---- the list of trades --------------------------------------------------------------------------
def ask_table(service, path, key, accept="text/csv"):
    return service.get(path, key, headers={"Accept": accept})


def read_signatures(answer):
    assert (answer.status_code, answer.mimetype) == (200, "text/csv"), answer.text
    return [row["signature"] for row in csv.DictReader(io.StringIO(answer.text, newline=""))]


def test_the_list_of_trades_is_a_table_to_whoever_asks_for_one(service, bot, monkeypatch):
    monkeypatch.setattr(spreadsheet, "PAGE_SIZE", 2)
    key = bot.publish_key.text
    for slot in range(5):
        service.observe_trade(W, f"t{slot}", slot, mint=M if slot % 2 else address("n"))
    listed = [one["signature"] for one in service.get("/api/v1/trades", key).json["data"]]
    answer = ask_table(service, "/api/v1/trades?limit=1", key)
    assert read_signatures(answer) == listed
    assert answer.headers["RateLimit-Limit"] and answer.headers["Cache-Control"] == "no-store"
    of_token = ask_table(service, f"/api/v1/trades?mint={M}&wallet={W}", key)
    assert read_signatures(of_token) == [signature("t3"), signature("t1")]
    cursor = service.get("/api/v1/trades?limit=2", key).json["nextCursor"]
    assert read_signatures(ask_table(service, f"/api/v1/trades?cursor={cursor}", key)) == listed[2:]


def test_a_table_of_trades_needs_a_key_and_refuses_as_the_list_does(service, bot):
    key = bot.publish_key.text
    assert ask_table(service, "/api/v1/trades", None).status_code == 401
    for query in ("wallet=x", "since=post_1", "cursor=x"):
        refused = ask_table(service, f"/api/v1/trades?{query}", key)
        assert (refused.status_code, refused.mimetype) == (400, "application/problem+json")


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "application/json, text/csv;q=0.5", "text/csv;q=0"]
)
def test_whoever_does_not_prefer_a_table_gets_json(service, bot, accept):
    answer = ask_table(service, "/api/v1/trades", bot.publish_key.text, accept)
    assert answer.mimetype == "application/json"


def test_a_table_is_sent_while_it_is_read(service, bot, monkeypatch):
    """Of 6 trades in pages of 2, no page is read before the one before it was taken."""
    monkeypatch.setattr(spreadsheet, "PAGE_SIZE", 2)
    for slot in range(6):
        service.observe_trade(W, f"t{slot}", slot)
    asked = []
    listing = queries.list_trades
    monkeypatch.setattr(queries, "list_trades", lambda *a, **k: asked.append(1) or listing(*a, **k))
    path = f"/bots/{bot.bot.uid}/trades.csv"
    answer = service.client.get(path, buffered=False)
    parts = iter(answer.response)
    read = []
    for _ in range(3):
        next(parts)
        read.append(len(asked))
    answer.close()
    assert read == [0, 1, 2]
