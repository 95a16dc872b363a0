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
    return f"{sent} > {received}, {fee}"


DUST, FEE = address("dust"), "0.000005 SOL"
# A purchase or another trade of 2.5 M, and its lines. Unless given, the fee is 5,000 lamports.
TRADES = {
    "a purchase pays a fee and a tip beside 1 SOL": (
        {"sol": -1_000_015_000, "tip": 10_000},
        [f"1 SOL > 2.5 {M}, 0.000015 SOL"],
    ),
    "a sale of unknown cost returns 0.5 SOL before its fee": (
        {"kind": "sell", "raw": -2_500, "sol": 499_995_000, "realized": "unmatched"},
        [f"2.5 {M} > 0.5 SOL, {FEE}"],
    ),
    "value outside the venue is left out": (
        {"sol": -10_700, "beside_sol": -700, "beside_tokens": write_changes((M, 500, 3))},
        [f"{FEE} > 2 {M}, {FEE}"],
    ),
    "a swap of more than two assets has a line for each and one fee": (
        {"kind": "swap", "token_changes": write_changes((N, -7, 0), (M, 3, 0), (DUST, 1, 0))},
        [f"7 {N} > 3 {M}, {FEE}", f" > 1 {DUST}, "],
    ),
    "a round trip is one line with its result": (
        {"kind": "round_trip", "sol": -8_000, "token_changes": write_changes()},
        [f"0.000003 SOL > , {FEE}"],
    ),
    **{
        f"{kind} is left out": ({"kind": kind}, [])
        for kind in ("transfer_in", "failed", "order_open", "order_fill", "other")
    },
}


@pytest.mark.parametrize("trade, lines", TRADES.values(), ids=TRADES)
def test_a_trade_is_exported(service, bot, trade, lines):
    service.observe_trade(W, "one", 1, **{"mint": M, "raw": 2_500, "sol": -5_000, **trade})
    assert [show_koinly(row) for row in read(service, bot, "koinly")] == lines
    assert len(read(service, bot, "rotki")) == len(lines)


def test_the_columns_are_those_of_each_tool(service, bot):
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-1_000_005_000)
    (koinly,), (rotki,) = read(service, bot, "koinly"), read(service, bot, "rotki")
    assert (",".join(koinly), ",".join(rotki)) == (KOINLY, ROTKI)
    told = {"Date": "2026-11-05 11:00:00 UTC", "TxHash": signature("in"), "Description": "buy"}
    told |= {"Label": "", "Net Worth Amount": "", "Net Worth Currency": ""}
    assert told.items() <= koinly.items()
    sent = {"Spend Currency": "SOL", "Spend Amount": "1", "Fee": "0.000005", "Fee Currency": "SOL"}
    got = {"Receive Currency": f"solana/token:{M}", "Receive Amount": "2.5"}
    told = {"Description": f"buy {signature('in')}", "Timestamp": str(NOW - 3_600_000)}
    assert rotki == {"Location": "solana"} | sent | got | told


def test_the_other_format_has_no_empty_amounts(service, bot):
    changes = write_changes((N, -7, 0), (M, 3, 0), (DUST, 1, 0))
    service.observe_trade(W, "both", 1, kind="swap", mint=M, token_changes=changes)
    _, second = read(service, bot, "rotki")
    assert (second["Spend Amount"], second["Spend Currency"], second["Fee"]) == ("0", "SOL", "")


def test_a_stablecoin_trade_has_its_fee_in_sol(service, bot):
    service.observe_trade(W, "in", 1, mint=M, raw=2_500, sol=-5_000)
    quote_trade("trade_in", "USDC", -12_340_000)
    (row,) = read(service, bot, "koinly")
    assert show_koinly(row) == f"12.34 USDC > 2.5 {M}, {FEE}"


def test_a_filled_order_exports_what_it_sold(service, bot):
    """Its tokens left the wallet when it was opened; the scout knows their decimals."""
    order = {"kind": "order_fill", "mint": M, "sol": 900, "fee": 0, "token_changes": "[]"}
    filled = {"realized": "matched", "matched_raw": "2000", "unmatched_raw": "500", "currency": ""}
    service.observe_trade(W, "fill", 1, **order, **filled)
    assert show_koinly(*read(service, bot, "koinly")) == " > 0.0000009 SOL, "
    Token.create(mint=M, held=True, decimals=3)
    assert show_koinly(*read(service, bot, "koinly")) == f"2.5 {M} > 0.0000009 SOL, "


def test_no_name_becomes_a_formula_and_an_unknown_time_is_empty(service, bot):
    Token.create(mint=M, held=True, symbol="=1+1")
    service.observe_trade(W, "in", 1, mint=M, venue="=cmd()", block_time=None)
    (row,) = read(service, bot, "koinly")
    # The kind comes first, so no cell begins with untrusted text.
    assert (row["Description"], row["Date"]) == ("buy =1+1 =cmd()", "")
    assert read(service, bot, "rotki")[0]["Timestamp"] == ""


def test_both_formats_are_linked_and_others_refused(service, bot):
    service.observe_trade(W, "in", 1)
    path = f"/bots/{bot.bot.uid}/trades.csv?format="
    page = service.get(f"/bots/{bot.bot.uid}?tab=trades").text
    assert all(f'href="{path}{form}"' in page for form in ("koinly", "rotki"))
    answer = service.get(f"{path}excel")
    assert answer.status_code == 400
    assert "Format must be one of: candor, koinly, rotki" in answer.text
