"""`doctor --deep` reports every change made directly in tables or in the file's bytes."""

import contextlib
import random
from unittest import mock

import apsw
import ground
import orjson
import pytest
import sampling
import zstandard
from lookout import Lookout
from node import FakeNode
from peewee import fn
from story import address, market

from accounts import posts
from chain.reading.receipts import pack_text, read_dictionary, unpack_text
from chain.stored.tables import Mint, RunningTotal, TradeMint
from models import Bot, Owner, Post, Receipt, Trade, Wallet, WalletSignature
from observing import rebuilding
from operate import backups, doctor, inspection

ADA, EVE = address("ada"), address("eve")


@pytest.fixture
def seen(settings, db):
    """Two observed wallets, a verified post and a pending one."""
    chain = market(3, ("ada", "eve"), 36)
    seen = Lookout.begin(settings, FakeNode(chain), wallets=[ADA, EVE]).settle()
    bought = Trade.get(Trade.kind == "buy", Trade.wallet == seen.wallets[0])
    said = posts.PostBody(eventId="e", body="words " * 40, signature=bought.signature)
    posts.publish(seen.wallets[0].bot_id, said, seen.now, "api")
    return seen.settle()


def differences(seen, running=False, sleep=lambda _: None):
    return list(inspection.inspect(seen.config, seen.now, running, sleep))


def places(seen):
    return {(one.table, one.field) for one in differences(seen)}


def levels(seen, running=False):
    return {(one.table, one.level) for one in differences(seen, running)}


def examine(seen, level):
    return [one for one in doctor.check_deep(seen.config, seen.now) if one.level == level]


def first_sell():
    sales = Trade.select().where(Trade.kind == "sell", Trade.result.is_null(False))
    return sales.order_by(Trade.id).get()


def rebuild(seen):
    return rebuilding.rebuild(seen.observer.state, list(Wallet.select()), seen.now)


def change_coverage(seen, **changes):
    row = Wallet.get(Wallet.address == ADA)
    row.coverage = orjson.dumps({**orjson.loads(row.coverage), **changes}).decode()
    row.save()


def test_rebuild_repairs_what_doctor_reports(seen, monkeypatch):
    monkeypatch.setattr(inspection, "PAUSE_SECONDS", 0)
    assert differences(seen) == [] and Post.get().status == "verified"
    (told,) = examine(seen, "fine")
    assert told.text.startswith("every wallet matches")
    Trade.update(result=1).where(Trade.id == first_sell().id).execute()
    (wrong,) = examine(seen, "wrong")
    assert "`app.py rebuild`" in wrong.advice
    Trade.delete().where(Trade.id == first_sell().id).execute()
    RunningTotal.update(realized=5).execute()
    Wallet.update(imbalance=5, results="{}").execute()
    assert {"trade", "running_total", "wallet"} <= {table for table, _ in places(seen)}
    rebuild(seen)
    assert differences(seen) == []


CHANGES = [
    (Trade, {"result": 1}, ("trade", "result")),
    (Trade, {"kind": "lending"}, ("trade", "kind")),
    (Trade, {"flags": '["x"]'}, ("trade", "flags")),
    (Trade, {"uid": "trade_" + "0" * 24}, ("trade", "uid")),
    (Trade, {"digest": "0" * 24}, ("trade", "digest")),
    (Trade, {"sol_change": 5}, ("trade", "sol_change")),
    (TradeMint, {"side": None}, ("trade_mint", None)),
    (Wallet, {"imbalance": 77}, ("wallet", "imbalance")),
    (Wallet, {"results": "{}"}, ("wallet", "results")),
    (Wallet, {"positions": "[]"}, ("wallet", "positions")),
    (Wallet, {"last_trade_at": 1_793_880_000_000}, ("wallet", "last_trade_at")),
    (Wallet, {"coverage": "{"}, ("wallet", "coverage")),
    (Receipt, {"body": b"no zlib"}, ("receipt", "body")),
    (Receipt, {"slot": 5}, ("receipt", "slot")),
    (Receipt, {"block_time": 5}, ("receipt", "block_time")),
    (WalletSignature, {"slot": 5}, ("sighting", "slot")),
    (WalletSignature, {"entry": pack_text("[]")}, ("sighting", "entry")),
    (WalletSignature, {"entry": None}, ("sighting", "entry")),
    (Post, {"status": "pending"}, ("post", "status")),
    (Post, {"trade": None}, ("post", "trade_id")),
    (Post, {"event_at": 1_793_880_000_000}, ("post", "event_at")),
    (Post, {"claim": False}, ("post", "claim")),
    (Post, {"created_at": 5}, ("post", "createdAtMs")),
    (Owner, {"uid": "owner_x"}, ("bot", "owner")),
    (Mint, {"address": "x"}, ("trade_mint", None)),
    (Bot, {"voice": "{"}, ("bot", "voice")),
    (Bot, {"voice": "[]"}, ("bot", "voice")),
]


def choose_rows(model, sale):
    """A condition for the rows of a sale, or for one row."""
    return {
        Trade: Trade.id == sale.id,
        TradeMint: TradeMint.trade == sale,
        WalletSignature: WalletSignature.signature == sale.signature,
        Receipt: Receipt.signature == sale.signature,
        RunningTotal: RunningTotal.wallet == sale.wallet,
        Wallet: Wallet.address == ADA,
    }.get(model) or model.id == model.select(fn.MIN(model.id))


def test_a_silent_change_is_named(seen):
    sale = first_sell()
    for model, change, (table, field) in sampling.sample(CHANGES, 24):
        where = choose_rows(model, sale)
        before = list(model.select().where(where).dicts())
        assert model.update(change).where(where).execute()
        found = places(seen)
        assert (table, field) in found or (not field and table in dict(found)), (change, found)
        for row in before:
            told = {name: row[name] for name in change}
            model.update(told).where(model.id == row["id"]).execute()
    assert differences(seen) == []
    # Its key is the hour.
    last = RunningTotal.hour == RunningTotal.select(fn.MAX(RunningTotal.hour)).scalar()
    for change in ({"realized": 3}, {"hour": 1}):
        assert RunningTotal.update(change).where(last).execute()
        assert "running_total" in dict(places(seen))
        rebuild(seen)
    assert differences(seen) == []
    change_coverage(seen, firstSlot=1)
    assert places(seen) == {("wallet", "coverage.firstSlot")}


def test_a_deleted_or_duplicate_row_is_named_with_its_signature(seen):
    sale = first_sell()
    for model in (Trade, TradeMint, WalletSignature, Receipt, RunningTotal):
        table = "receipt" if model is WalletSignature else model._meta.table_name
        where = choose_rows(model, sale)
        before = list(model.select().where(where).dicts())
        assert model.delete().where(where).execute()
        found = [one for one in differences(seen) if one.table == table]
        assert found and (model is RunningTotal or sale.signature in str(found))
        model.insert_many(before).execute()
        if model is Trade:
            # Rows of other tables were deleted with it.
            rebuild(seen)
    bought = TradeMint.select().where(TradeMint.side == "buy").order_by(TradeMint.trade).get()
    stored = {name: value for name, value in bought.__data__.items() if name != "id"}
    for more in ({}, {"side": "sell"}):
        added = TradeMint.insert({**stored, **more}).execute()
        found = {(one.table, one.what) for one in differences(seen)}
        assert ("trade_mint", "is stored twice") in found
        TradeMint.delete().where(TradeMint.id == added).execute()
    assert differences(seen) == []


def test_what_a_server_will_still_do_is_not_damage(seen):
    """Receipts that were stored when it was killed before publishing, and entries of other rules,
    which aren't compared either.
    """
    receipts = orjson.loads(Wallet.get(Wallet.address == ADA).coverage)["receipts"]
    change_coverage(seen, receipts=receipts - 1)
    assert levels(seen, running=True) == {("wallet", "look")}
    change_coverage(seen, receipts=receipts)
    Wallet.update(rules="").execute()
    for row in list(WalletSignature.select()):
        row.entry = pack_text(unpack_text(row.entry) + " ")
        row.save()
    assert levels(seen) == {("sighting", "look")}
    (told,) = examine(seen, "fine")
    assert told.text.startswith("except for the problems above, every wallet matches")


@ground.sqlite_only
def test_differences_during_a_running_server_are_checked_again(seen):
    """The observer publishes shortly after storing, so only lasting differences are reported."""
    Trade.update(result=1).where(Trade.id == first_sell().id).execute()
    publish = mock.Mock(side_effect=lambda seconds: rebuild(seen))
    assert differences(seen, True, publish) == [] and publish.call_count == 1


def test_a_missing_receipt_is_reported_and_fetched_again(seen):
    """By `rebuild` immediately; by a server at startup and once a day."""
    truth, sale = seen.ledger(), first_sell()

    def is_there(model):
        return model.select().where(model.signature == sale.signature).exists()

    Receipt.delete().where(Receipt.signature == sale.signature).execute()
    report = rebuild(seen)
    assert sum(lost for _, _, lost, _, _ in report) == 1 and not is_there(Trade)
    assert seen.settle().ledger() == truth and differences(seen) == []
    Receipt.delete().where(Receipt.signature == sale.signature).execute()
    seen.restart()
    assert seen.settle().ledger() == truth and differences(seen) == [] and is_there(Receipt)


# Derived rows, transactions, and those of their columns that no other row repeats.
CHECKED = ("receipt", "trade", "sighting", "trade_mint", "running_total")
UNTOLD = {"endpoint", "head", "tries", "due_at", "seen_at"}


@ground.sqlite_only
def test_flipped_bits_in_data_pages_are_detected(seen, tmp_path):
    """One bit each, in table cells that can be checked: derived rows and receipts."""
    backups.store_copy(seen.config.database_path, tmp_path / "whole.db")
    config = ground.change(seen.config, data_dir=tmp_path / "damaged")
    config.data_dir.mkdir(mode=0o700)
    whole, dice = (tmp_path / "whole.db").read_bytes(), random.Random(5)
    cells = list_cells(tmp_path / "whole.db", CHECKED)
    told = read_rows(tmp_path / "whole.db")
    config.database_path.touch(0o600)

    def write(data):
        config.database_path.write_bytes(data)
        return [one for one in doctor.examine(config, seen.now, deep=True) if one.level == "wrong"]

    healthy, unnoticed = write(whole), []
    assert not [one for one in healthy if "fold" in one.text]
    for place in dice.sample(cells, 25 if sampling.FULL else 8):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << dice.randrange(8)
        if write(damaged) == healthy and read_rows(config.database_path) != told:
            unnoticed.append(place)
    assert unnoticed == []


def read_rows(path):
    """Including redundant rows. Packed columns are unpacked, because Zstandard ignores some
    bits.
    """
    unpack = zstandard.ZstdDecompressor(read_dictionary()).decompress
    rows = []
    with contextlib.closing(apsw.Connection(str(path))) as db:
        for name in CHECKED:
            columns = {row[1] for row in db.execute(f"PRAGMA table_info({name})")} - UNTOLD
            rows += db.execute(f"SELECT {', '.join(sorted(columns))} FROM {name}")
    return [[unpack(one) if type(one) is bytes else one for one in row] for row in rows]


def list_cells(path, tables):
    """Offsets of the bytes in cells of these tables, without the space between them."""
    found = []
    with contextlib.closing(apsw.Connection(str(path))) as db:
        size, data = db.pragma("page_size"), path.read_bytes()
        for number, kind, name in db.execute("SELECT pageno, pagetype, name FROM dbstat"):
            begin = (number - 1) * size
            free = int.from_bytes(data[begin + 5 : begin + 7], "big") if kind == "leaf" else 4
            if name in tables and kind in ("leaf", "overflow"):
                found += range(begin + free, begin + size)
    return found
