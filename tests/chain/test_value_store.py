"""The stored value of trades and where the money went: columns and running totals."""

import json
import random

import ground
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import ledger_of
from teller import FEE, SOL_STEP, Teller, write_sol_steps
from test_ledger_store import ADA, BEGIN, DONE, ORDER, empty, store

import storage
from accounts.auto_posts import update_posts
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal, TradeMint
from chain.stored.trades import DIGESTED, digest_columns, mark_differing_trades
from models import Trade, Wallet, WalletSignature
from operate import doctor

FUNDED = 10**12
# a fixture
assert empty


def publish(wallet, entries):
    store(wallet, entries)
    ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, DONE, BEGIN)
    return Wallet.get(Wallet.address == ADA)


def test_a_wallet_tells_where_its_money_went(empty):
    """10@100, 4 sold for 60 (20 gained), 2@20 given away; 4@40 are left. A's account holds rent."""
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


def test_until_the_history_is_whole_there_is_no_reconciliation(empty):
    wallet = empty()
    wallet.backfilled = False
    wallet.save()
    assert publish(wallet, Teller().buy("A", 10, 100).entries).reconciliation is None


def list_traded():
    """[(mint, side), ...] of all wallets."""
    moved = TradeMint.select().where(TradeMint.side.is_null(False))
    return sorted({(one.mint.address, one.side) for one in moved})


def test_a_trade_tells_what_passed_beside_it(empty):
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


def test_a_trade_that_is_none_any_more_takes_its_trader_along(empty):
    """Where entries are read by other rules."""
    wallet, t = empty(), Teller().buy("A", 10, 100)
    publish(wallet, t.entries)
    bought = t.entries[-1]
    WalletSignature.update(entry=bought._replace(kind="other").dump()).where(
        WalletSignature.signature == bought.signature
    ).execute()
    publish(wallet, [])
    assert [moved.side for moved in TradeMint.select()] == [None] and list_traded() == []


def test_nobody_bought_what_has_no_explained_value(empty):
    t = Teller().write("buy", -100, FEE, [("A", 10)], "A", flags=("value_unexplained",))
    publish(empty(), t.entries)
    assert [moved.side for moved in TradeMint.select()] == [None] and list_traded() == []


def test_what_a_round_trip_left_over_was_not_bought(empty):
    publish(empty(), Teller().write("round_trip", 50, FEE, [("A", 1)], "A").entries)
    assert [moved.side for moved in TradeMint.select()] == [None]


MINTS_OF_TRADES = """
SELECT m.trade_id, n.address, m.side, m.slot, m.place FROM trade_mint m
JOIN mint n ON n.id = m.mint_id ORDER BY m.trade_id, m.id"""


def test_a_trade_moved_its_own_mint_where_nothing_of_it_was_left(empty):
    """A round trip that left nothing of A, and one of C that left a B."""
    t = Teller().write("round_trip", 50, FEE, [], "A")
    publish(empty(), t.write("round_trip", 50, FEE, [("B", 1)], "C").buy("A", 10, 100).entries)
    ask = storage.database.execute_sql
    own = [("A", None), ("B", None), ("C", None), ("A", "buy")]
    assert [row[1:3] for row in ask(MINTS_OF_TRADES).fetchall()] == own


def test_what_was_sent_on_or_arrived_at_once_was_traded_all_the_same(empty):
    """10 A bought and all sent on; 4 B that arrived and were sold; both changed nothing as a whole.
    A swap gives C that arrived for D and leaves a residue of E, which nobody bought.
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


def test_running_totals_carry_what_left_without_a_sale(empty):
    """Two hours apart: 10@100 bought; then 4 leave."""
    t = Teller().buy("A", 10, 100)
    t.slot = t.slot + 7_200
    t.lose("A", 4).write("failed", -FEE, FEE)
    publish(empty(), t.entries)
    first, last = RunningTotal.select().order_by(*ORDER)
    assert (first.cost_left, first.cost_left_receipts, first.volume) == (0, 0, 100)
    assert (last.cost_left, last.cost_left_receipts, last.volume) == (40, 1, 100)
    assert (last.failed, last.failed_cost, last.overhead) == (1, FEE, FEE)


def test_doctor_names_a_wallet_whose_books_do_not_close(empty):
    publish(empty(), Teller().buy("A", 10, 100).entries)
    ask = storage.database.execute_sql
    assert [one.level for one in doctor.check_sums(ask)] == ["fine"]
    Wallet.update(imbalance=-7).execute()
    (found,) = doctor.check_sums(ask)
    assert found.level == "wrong" and ADA in found.text and "-7 lamports" in found.text


def test_books_that_do_not_close_are_told(empty):
    """An entry whose SOL is not what its balances moved: 3 lamports more than they say."""
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
def test_in_any_order_and_any_batches_the_same_bytes(empty, drawn, missing, seed):
    """Gifts, payments for others, round trips, unexplained and failed ones, some never found: what
    is stored, running totals included, is what one publication of all makes; a rebuild of what
    somebody spoiled makes it again.
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
    """The ledger as bytes, and its running totals."""
    names = [field for name, field in RunningTotal._meta.fields.items() if name != "wallet"]
    hours = list(RunningTotal.select(*names).order_by(*ORDER).tuples())
    return ledger_of([ADA]), hours


def test_a_text_of_which_the_disk_made_bytes_has_another_digest():
    row = dict.fromkeys(DIGESTED, "7")
    assert digest_columns({**row, "venue": b"7"}) != digest_columns(row)
