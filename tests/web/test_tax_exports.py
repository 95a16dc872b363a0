"""Trades in tax tools' formats, computed by hand. The columns are those of Koinly's universal
template and rotki's generic trades import.
"""

import csv
import io

import orjson
import pytest
from quoted import quote_trade
from service import NOW, address, signature

from market.tables import Token

W, M, N = address("w"), address("m"), address("n")

KOINLY = (
    "Date,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,Fee Currency,"
    "Net Worth Amount,Net Worth Currency,Label,Description,TxHash"
)
ROTKI = (
    "Location,Spend Currency,Receive Currency,Receive Amount,Spend Amount,Fee,Fee Currency,"
    "Description,Timestamp"
)


def read(service, bot, form):
    answer = service.get(f"/bots/{bot.bot.uid}/trades.csv?format={form}")
    assert (answer.status_code, answer.mimetype) == (200, "text/csv")
    named = f'filename="{bot.bot.uid}-trades-{form}.csv"'
    assert named in answer.headers["Content-Disposition"]
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def write_changes(*changes):
    return orjson.dumps([[mint, str(raw), decimals] for mint, raw, decimals in changes]).decode()


def show_koinly(row):
    """The movements, as `1 SOL > 2 X, fee`."""
    sent, received, fee = (
        f"{row[f'{side} Amount']} {row[f'{side} Currency']}".strip()
        for side in ("Sent", "Received", "Fee")
    )
    return f"{sent} > {received}", fee


def test_a_purchase_and_a_sale_of_unknown_cost_are_exported(service, bot):
    """It paid 1.000015 SOL, including a fee of 5,000 lamports and a tip of 10,000; the sale
    returned 0.499995 SOL after a fee of 5,000 lamports.
    """
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-1_000_015_000, tip=10_000)
    sale = {"kind": "sell", "realized": "unmatched", "unmatched_raw": "2500"}
    service.observe_trade(W, "out", 2, mint=M, raw=-2_500, sol=499_995_000, **sale)
    sold, bought = read(service, bot, "koinly")
    assert ",".join(bought) == KOINLY
    assert show_koinly(bought) == (f"1 SOL > 2.5 {M}", "0.000015 SOL")
    assert show_koinly(sold) == (f"2.5 {M} > 0.5 SOL", "0.000005 SOL")
    assert sold["Date"] == "2026-11-05 11:00:00 UTC"
    assert (sold["TxHash"], sold["Description"]) == (signature("out"), "sell")
    assert sold["Label"] == sold["Net Worth Amount"] == sold["Net Worth Currency"] == ""


def test_the_other_format_has_the_same_trades(service, bot):
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-1_000_005_000)
    (row,) = read(service, bot, "rotki")
    assert ",".join(row) == ROTKI
    assert row == {
        "Location": "solana",
        "Spend Currency": "SOL",
        "Spend Amount": "1",
        "Receive Currency": f"solana/token:{M}",
        "Receive Amount": "2.5",
        "Fee": "0.000005",
        "Fee Currency": "SOL",
        "Description": f"buy {signature('in')}",
        "Timestamp": str(NOW - 3_600_000),
    }


def test_a_stablecoin_trade_is_exported(service, bot):
    """Its fee is still in SOL."""
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-5_000)
    quote_trade("trade_in", "USDC", -12_340_000)
    (row,) = read(service, bot, "koinly")
    assert show_koinly(row) == (f"12.34 USDC > 2.5 {M}", "0.000005 SOL")


def test_outside_value_is_left_out(service, bot):
    beside = {"beside_sol": -700, "beside_tokens": write_changes((M, 500, 3))}
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-10_700, **beside)
    (row,) = read(service, bot, "koinly")
    assert show_koinly(row) == (f"0.000005 SOL > 2 {M}", "0.000005 SOL")


def test_a_swap_of_more_than_two_assets_takes_a_line_for_each(service, bot):
    """Only the first line has the fee."""
    changes = write_changes((N, -7, 0), (M, 3, 0), (address("dust"), 1, 0))
    service.observe_trade(W, "both", 1, kind="swap", mint=M, sol=-5_000, token_changes=changes)
    first, second = read(service, bot, "koinly")
    assert show_koinly(first) == (f"7 {N} > 3 {M}", "0.000005 SOL")
    assert show_koinly(second) == (f" > 1 {address('dust')}", "")
    _, second = read(service, bot, "rotki")
    assert (second["Spend Amount"], second["Spend Currency"], second["Fee"]) == ("0", "SOL", "")


def test_a_round_trip_is_one_line_with_its_result(service, bot):
    empty = write_changes()
    service.observe_trade(W, "trip", 1, kind="round_trip", sol=-8_000, token_changes=empty)
    assert show_koinly(*read(service, bot, "koinly")) == ("0.000003 SOL > ", "0.000005 SOL")


def test_a_filled_order_exports_what_it_sold(service, bot):
    """Its tokens left the wallet when it was opened; the scout knows their decimals."""
    order = {"kind": "order_fill", "mint": M, "sol": 900, "fee": 0, "token_changes": "[]"}
    filled = {"realized": "matched", "matched_raw": "2000", "unmatched_raw": "500", "currency": ""}
    service.observe_trade(W, "fill", 1, **order, **filled)
    assert show_koinly(*read(service, bot, "koinly")) == (" > 0.0000009 SOL", "")
    Token.create(mint=M, held=True, decimals=3)
    assert show_koinly(*read(service, bot, "koinly")) == (f"2.5 {M} > 0.0000009 SOL", "")


@pytest.mark.parametrize("kind", ["transfer_in", "failed", "order_open", "order_fill", "other"])
def test_other_transactions_are_left_out(service, bot, kind):
    service.observe_trade(W, "one", 1, kind=kind)
    assert read(service, bot, "koinly") == read(service, bot, "rotki") == []


def test_no_name_becomes_a_formula(service, bot):
    Token.create(mint=M, held=True, symbol="=1+1")
    service.observe_trade(W, "in", 1, mint=M, venue="=cmd()")
    (row,) = read(service, bot, "koinly")
    # The kind comes first, so no cell begins with untrusted text.
    assert row["Description"] == "buy =1+1 =cmd()"


def test_an_unknown_time_is_empty(service, bot):
    service.observe_trade(W, "in", 1, block_time=None)
    assert read(service, bot, "koinly")[0]["Date"] == ""
    assert read(service, bot, "rotki")[0]["Timestamp"] == ""


def test_an_unknown_format_is_refused(service, bot):
    answer = service.get(f"/bots/{bot.bot.uid}/trades.csv?format=excel")
    assert answer.status_code == 400
    assert "Format must be one of: candor, koinly, rotki" in answer.text


def test_the_trades_tab_links_both_formats(service, bot):
    service.observe_trade(W, "in", 1)
    page = service.get(f"/bots/{bot.bot.uid}?tab=trades").text
    for form in ("koinly", "rotki"):
        assert f'href="/bots/{bot.bot.uid}/trades.csv?format={form}"' in page
