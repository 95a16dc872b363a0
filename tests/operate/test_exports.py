"""Trades and lots as CSV: the same data as the API, without anything that a spreadsheet would
execute, and few at a time.
"""

import csv
import io

import orjson
import pytest
from service import address, signature

from accounts.problem import Problem
from market.tables import Token
from web.api import trades
from web.server import application
from web.server.application import Places
from web.site import exports

W, M = address("w"), address("m")


def read(service, bot, name):
    answer = service.get(f"/bots/{bot.bot.uid}/{name}.csv")
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def sell(service):
    """3,000 sold for 700: 2,000 from a purchase for 500, 1,000 of unknown origin."""
    lots = orjson.dumps([["trade_bought", "2000", "500"], [None, "1000", None]]).decode()
    units = {"matched_raw": "2000", "unmatched_raw": "1000", "lots": lots}
    money = {"result": -34, "proceeds": 466, "cost": 500, "realized": "partial"}
    service.observe_trade(W, "bought", 1, mint=M, raw=2_000, sol=-500)
    sold = {"kind": "sell", "mint": M, "raw": -3_000, "sol": 700, **units, **money}
    service.observe_trade(W, "sold", 2, **sold)


SALE = {"kind": "sell", "status": "partial", "tokenChanges": f"{M} -3"}
SALE |= {"solChangeLamports": "700", "resultLamports": "-34", "costLamports": "500"}


def test_exported_trades_match_the_api(service, bot, monkeypatch):
    monkeypatch.setattr(exports, "PAGE_SIZE", 2)
    sell(service)
    for slot in range(3, 8):
        service.observe_trade(W, f"more{slot}", slot)
    rows = read(service, bot, "trades")
    told = service.get("/api/v1/trades?limit=100", bot.publish_key.text).json["data"]
    assert [row["signature"] for row in rows] == [one["signature"] for one in told]
    *newer, sale, purchase = rows
    assert len(newer) == 5 and SALE.items() <= sale.items()
    # unknown is empty, not 0
    assert purchase["resultLamports"] == ""


def test_a_csv_has_the_trades_of_its_page(service, bot):
    sell(service)
    asked, path = f"kind=sell&token={M}", f"/bots/{bot.bot.uid}"
    page = service.get(f"{path}?tab=trades&{asked}").text
    assert f"{path}/trades.csv?{asked.replace('&', '&amp;')}" in page
    table = service.get(f"{path}/trades.csv?{asked}").text
    assert signature("sold") in table and signature("bought") not in table
    assert signature("sold") not in service.get(f"{path}/trades.csv?token=NONE").text


def test_lots_match_the_sales(service, bot):
    sell(service)
    rows, sale = (
        read(service, bot, "lots"),
        {"saleId": "trade_sold", "signature": signature("sold")},
    )
    assert all(sale.items() <= row.items() for row in rows)
    names = ("lot", "tradeId", "amountRaw", "costLamports")
    told = [tuple(row[name] for name in names) for row in rows]
    assert told == [("1", "trade_bought", "2000", "500"), ("2", "", "1000", "")]


FORMULAS = {formula: f"'{formula}" for formula in ("=1+1", "+1", "-1", "@SUM(A1)")}
SPACES = {f"{space}=1": "'=1" for space in "\t\r\n"}


# The last one is on one line.
@pytest.mark.parametrize("symbol, shown", [*(FORMULAS | SPACES).items(), ('a"b,\r\nc', 'a"b, c')])
def test_no_name_becomes_a_formula_or_another_line(service, bot, symbol, shown):
    Token.create(mint=M, held=True, symbol=symbol)
    sell(service)
    assert [row["symbol"] for row in read(service, bot, "trades")] == [shown] * 2


def test_an_unknown_bot_has_no_csv_and_one_without_trades_an_empty_one(service, bot):
    for name in ("trades", "lots"):
        assert service.get(f"/bots/bot_nobody/{name}.csv").status_code == 404
    answer = service.get(f"/bots/{bot.bot.uid}/lots.csv")
    assert answer.text == ",".join(exports.LOT_COLUMNS) + "\r\n"


# ---- few at a time -------------------------------------------------------------------------------
@pytest.fixture
def csv_path(service, bot, monkeypatch):
    """A bot's CSV with five trades, in pages of 2."""
    monkeypatch.setattr(exports, "PAGE_SIZE", 2)
    service.observe_trades(W, [f"t{number}" for number in range(5)])
    return f"/bots/{bot.bot.uid}/trades.csv"


def test_a_csv_is_streamed(service, csv_path, monkeypatch):
    """No page is read before the previous one was sent."""
    asked, listing = [], trades.read_trades
    monkeypatch.setattr(trades, "read_trades", lambda *a, **k: asked.append(1) or listing(*a, **k))
    answer = service.client.get(csv_path, buffered=False)
    parts, read = iter(answer.response), []
    for _ in range(3):
        next(parts)
        read.append(len(asked))
    answer.close()
    assert read == [0, 1, 2]


def test_an_address_has_two_slots_and_everyone_together_six():
    places = Places()

    def refuse(network):
        with pytest.raises(Problem) as refused:
            places.take(network)
        assert refused.value.code == "busy" and "Retry-After" in refused.value.headers

    first, _ = places.take("a"), places.take("a")
    refuse("a")
    for network in "bbcc":
        places.take(network)
    refuse("d")
    # Only once.
    first()
    first()
    places.take("d")
    refuse("d")


def test_a_csv_holds_its_slot_until_sent_or_aborted(service, csv_path, monkeypatch):
    monkeypatch.setattr(application, "MAX_PLACES_OF_ADDRESS", 1)
    first = service.get(csv_path, buffered=False)
    next(first.iter_encoded())
    refused = service.get(csv_path)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert service.get(csv_path, peer="192.0.2.9").status_code == 200
    first.close()
    # The header and five trades.
    assert service.get(csv_path).data.count(b"\r\n") == 6


def test_csv_pages_count_after_the_first(service, csv_path, monkeypatch):
    """Five trades are two pages after the first. Five are allowed: the third file uses the sixth,
    and no other begins.
    """
    monkeypatch.setattr(exports, "COUNTED_ROWS", 2)
    monkeypatch.setattr("web.server.gate.TABLE_PAGES_PER_MINUTE", 5)
    answers = [service.get(csv_path, buffered=True) for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert "Retry-After" in answers[3].headers
