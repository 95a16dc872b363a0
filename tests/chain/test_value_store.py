"""The stored value of trades and where the money went: columns and running totals."""

import json
import random

import ground
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import ledger_of, watch
from teller import FEE, SOL_STEP, Teller, write_sol_steps
from test_ledger_store import ADA, BEGIN, DONE, ORDER, empty, store

import storage
from accounts.auto_posts import update_posts
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal, TradeMint
from chain.stored.trades import DIGESTED, digest_columns, mark_differing_trades
from models import Trade, Wallet, WalletSignature
from operate import doctor
from web.api.trades import count_sides

FUNDED = 10**12
# a fixture
assert empty


def publish(wallet, entries):
    store(wallet, entries)
    ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    return Wallet.get(Wallet.address == ADA)


def test_a_wallet_shows_where_its_money_went(empty):
    """10@100, 4 sold for 60 (20 gained), 2@20 given away; 4@40 are left. A's account contains
    rent.
    """
    t = Teller().buy("A", 10, 100).sell("A", 4, 60).lose("A", 2)
    wallet = publish(empty(), t.entries)
    assert json.loads(wallet.reconciliation) == {
        "openingLamports": "0",
        "closingLamports": str(FUNDED - 100 + 60 - FEE),
        "realizedLamports": "20",
        "unmatchedProceedsLamports": "0",
        "openCostLamports": "40",
        "costLeftLamports": "20",
        "costLeftReceipts": 1,
        "receivedLamports": str(FUNDED),
        "sentLamports": "0",
        "overheadLamports": str(FEE),
        "failedCostLamports": "0",
        "otherLamports": "0",
        "differenceLamports": "0",
        "gapLamports": "0",
    }
    results = json.loads(wallet.results)
    told = [results[name] for name in ("costLeftLamports", "costLeftReceipts", "carriedLots")]
    assert told == ["20", 1, 0]
    assert json.loads(wallet.average_cost) == {"realizedLamports": "20", "matchedSells": 1}
    assert wallet.imbalance == 0


def test_there_is_no_reconciliation_until_the_history_is_complete(empty):
    wallet = empty()
    wallet.backfilled = False
    wallet.save()
    assert publish(wallet, Teller().buy("A", 10, 100).entries).reconciliation is None


def list_traded():
    """All wallets' [(mint, side), ...]."""
    moved = TradeMint.select().where(TradeMint.side.is_null(False))
    return sorted({(one.mint.address, one.side) for one in moved})


def test_a_trade_shows_value_from_outside_its_venue(empty):
    t = Teller().buy("A", 10, 100)
    t.write("sell", 120, FEE, [("A", -4)], "A", beside_sol=900, beside=[("A", -1), ("B", 2)])
    publish(empty(), t.entries)
    sale = Trade.get(Trade.kind == "sell")
    assert (sale.sol_change, sale.beside_sol, sale.result, sale.cost_left) == (1020, 900, 80, 10)
    assert json.loads(sale.beside_tokens) == [["A", "-1", 0], ["B", "2", 0]]
    assert json.loads(sale.token_changes) == [["A", "-5", 0], ["B", "2", 0]]
    assert (sale.explained, sale.counterparties) == (None, "[]")
    # B was a gift: nobody bought it
    sides = sorted((moved.mint.address, moved.side) for moved in sale.mints)
    assert sides == [("A", "sell"), ("B", None)]
    assert list_traded() == [("A", "buy"), ("A", "sell")]


def test_a_former_trade_removes_its_trader(empty):
    """After rereading under other rules."""
    wallet, t = empty(), Teller().buy("A", 10, 100)
    publish(wallet, t.entries)
    bought = t.entries[-1]
    WalletSignature.update(entry=bought._replace(kind="other").dump()).where(
        WalletSignature.signature == bought.signature
    ).execute()
    publish(wallet, [])
    assert [moved.side for moved in TradeMint.select()] == [None] and list_traded() == []


def test_unexplained_value_has_no_buyer(empty):
    t = Teller().write("buy", -100, FEE, [("A", 10)], "A", flags=("value_unexplained",))
    publish(empty(), t.entries)
    assert [moved.side for moved in TradeMint.select()] == [None] and list_traded() == []


def test_a_round_trip_remainder_was_not_bought(empty):
    publish(empty(), Teller().write("round_trip", 50, FEE, [("A", 1)], "A").entries)
    assert [moved.side for moved in TradeMint.select()] == [None]


MINTS_OF_TRADES = """
SELECT m.trade_id, n.address, m.side, m.slot, m.place FROM trade_mint m
JOIN mint n ON n.id = m.mint_id ORDER BY m.trade_id, m.id"""


def test_a_fully_passed_on_token_was_traded(empty):
    """A round trip that left nothing of A, and one of C that left a B."""
    t = Teller().write("round_trip", 50, FEE, [], "A")
    publish(empty(), t.write("round_trip", 50, FEE, [("B", 1)], "C").buy("A", 10, 100).entries)
    ask = storage.database.execute_sql
    own = [("A", None), ("B", None), ("C", None), ("A", "buy")]
    assert [row[1:3] for row in ask(MINTS_OF_TRADES).fetchall()] == own


def test_tokens_sent_on_or_received_at_once_were_traded(empty):
    """10 A were bought and all sent on; 4 B arrived and were sold: both balances are unchanged. A
    swap gives C that arrived for D and leaves a residue of E, which nobody bought.
    """
    t = Teller().write("buy", -100, FEE, [("A", 10)], "A", beside=[("A", -10)])
    t.write("sell", 60, FEE, [("B", -4)], "B", beside=[("B", 4)])
    changes = [("C", -7), ("D", 3), ("E", 1)]
    t.write("swap", -FEE, FEE, changes, "D", residues="E", beside=[("C", 7)], flags=["residue"])
    publish(empty(), t.entries)
    ask = storage.database.execute_sql
    found, traded = ask(MINTS_OF_TRADES).fetchall(), list_traded()
    sides = [row[1:3] for row in found]
    swap = [("D", "buy"), ("E", None), ("C", "sell")]
    assert sides == [("A", "buy"), ("B", "sell"), *swap]
    assert traded == [("A", "buy"), ("B", "sell"), ("C", "sell"), ("D", "buy")]
    assert not mark_differing_trades(Wallet.get().id)


def test_running_totals_contain_cost_left(empty):
    """Two hours apart: 10@100 bought; then 4 leave."""
    t = Teller().buy("A", 10, 100)
    t.slot = t.slot + 7_200
    t.lose("A", 4).write("failed", -FEE, FEE)
    publish(empty(), t.entries)
    first, last = RunningTotal.select().order_by(*ORDER)
    assert (first.cost_left, first.cost_left_receipts, first.volume) == (0, 0, 100)
    assert (last.cost_left, last.cost_left_receipts, last.volume) == (40, 1, 100)
    assert (last.failed, last.failed_cost, last.overhead) == (1, FEE, FEE)


def test_doctor_names_an_unreconciled_wallet(empty):
    publish(empty(), Teller().buy("A", 10, 100).entries)
    ask = storage.database.execute_sql
    assert [one.level for one in doctor.check_sums(ask)] == ["fine"]
    Wallet.update(imbalance=-7).execute()
    (found,) = doctor.check_sums(ask)
    assert found.level == "wrong" and ADA in found.text and "-7 lamports" in found.text


def test_an_unreconciled_wallet_is_reported(empty):
    """The entry's SOL differs from the balances by 3 lamports."""
    t = Teller().buy("A", 10, 100)
    t.entries[-1] = t.entries[-1]._replace(sol=-97)
    wallet = publish(empty(), t.entries)
    assert wallet.imbalance == -3
    assert json.loads(wallet.reconciliation)["differenceLamports"] == "-3"


@effort(
    max_examples=ground.examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    drawn=st.lists(SOL_STEP, min_size=3, max_size=20),
    missing=st.integers(0, 2),
    seed=st.integers(0, 10**6),
)
def test_order_and_batches_give_identical_bytes(empty, drawn, missing, seed):
    """With gifts, payments for others, round trips, unexplained, failed and missing transactions,
    the stored rows with running totals equal one publication of all; a rebuild restores edited
    rows.
    """
    entries, dice = write_sol_steps(drawn).entries, random.Random(seed)
    entries = dice.sample(entries, max(1, len(entries) - missing)) if entries else []
    publish(empty(), sorted(entries, key=lambda e: e.slot))
    truth = derived()
    wallet, ledger_store, rest = empty(), LedgerStore(update_posts), list(entries)
    while rest:
        size = dice.randint(1, 6)
        batch, rest = rest[:size], rest[size:]
        store(wallet, batch)
        ledger_store.apply(wallet, batch)
        if dice.random() < 0.6:
            ledger_store.publish(wallet, DONE, BEGIN)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    assert derived() == truth and Wallet.get().imbalance == 0
    Wallet.update(reconciliation="{}", imbalance=2, average_cost=None).execute()
    RunningTotal.update(cost_left=RunningTotal.cost_left + 1, failed_cost=9).execute()
    Trade.update(cost_left=5, beside_sol=3, counterparties="[1]").execute()
    mark_differing_trades(wallet.id)
    publish(wallet, [])
    assert derived() == truth


def derived():
    """The ledger as bytes, with its running totals."""
    names = [field for name, field in RunningTotal._meta.fields.items() if name != "wallet"]
    hours = list(RunningTotal.select(*names).order_by(*ORDER).tuples())
    return ledger_of([ADA]), hours


def test_text_turned_into_bytes_on_disk_changes_the_digest():
    row = dict.fromkeys(DIGESTED, "7")
    assert digest_columns({**row, "venue": b"7"}) != digest_columns(row)


def test_each_wallet_that_traded_a_token_counts_once(empty):
    t = Teller().buy("A", 10, 100).buy("A", 5, 60).buy("B", 7, 70).sell("A", 4, 60)
    publish(empty(), t.entries)
    assert count_sides("A") == {"buy": 1, "sell": 1}
    bought = TradeMint.get(TradeMint.side == "buy")
    for n in range(2):
        other = watch(f"other {n}")
        for slot in range(3):
            TradeMint.create(
                trade=bought.trade, wallet=other, mint=bought.mint, side="buy", slot=slot
            )
    assert count_sides("A") == {"buy": 3, "sell": 1}
    assert count_sides("C") == {"buy": 0, "sell": 0}
