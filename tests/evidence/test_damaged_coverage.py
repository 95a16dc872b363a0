"""A wallet with an unreadable column, as after a disk fault: only that wallet is affected, the
doctor reports it, and the next poll or `rebuild` repairs it.
"""

import html

import orjson
import pytest
from lookout import Lookout
from node import FakeNode
from story import ADA, address, market

from chain.stored.derived import NOT_POLLED, UNREADABLE
from evidence.document import DigestLog
from models import Bot, Trade, Wallet
from observing import rebuilding
from operate import doctor

EVE = address("eve")
WRONG = [{"receipts": None}, {"gaps": [3]}, {"gaps": [{"x": 1}]}, {"observedFrom": 5}]
WRONG += [{"firstSlot": "a"}, {"pending": "x"}, {"openingInventoryUnknown": None}, {"state": 1}]
DAMAGED = ['{"state": "comp', "7", "[]", "{}"]
DAMAGED += [orjson.dumps({**NOT_POLLED, "state": "complete", **one}).decode() for one in WRONG]


@pytest.fixture
def seen(service):
    """Two observed wallets of two bots."""
    chain = market(3, ("ada", "eve"), 36)
    return Lookout.begin(service.config, FakeNode(chain), wallets=[ADA, EVE]).settle()


@pytest.fixture
def eve(seen):
    """Her bot."""
    return Bot.get_by_id(Wallet.get(Wallet.address == EVE).bot_id)


@pytest.fixture
def read(service, eve):
    """read() -> her bot in the API"""
    key = service.make_read_key(eve.owner)
    return lambda path=f"bots/{eve.uid}": service.get(f"/api/v1/{path}", key).json


def damage(text, wallet=EVE, column="coverage"):
    Wallet.update({column: text}).where(Wallet.address == wallet).execute()


def rebuild(seen):
    """Like `app.py rebuild`, which reports the repair, and then has nothing left to change."""
    first, second = (
        sum(one.changes for one in rebuilding.rebuild(seen.observer.state, list(Wallet), seen.now))
        for _ in range(2)
    )
    assert first and not second


def find_wrong(seen, **more):
    """The doctor's findings about eve's wallet."""
    return [one for one in doctor.examine(seen.config, seen.now, **more) if EVE in one.text]


# ---- coverage ------------------------------------------------------------------------------------
def test_unreadable_coverage_is_named_until_a_poll_rebuilds_it(seen, service, eve, read, caplog):
    def list_damaged():
        return service.get("/api/health").json["walletObserver"]["damagedCoverage"]

    right = seen.coverage(EVE)
    for text in DAMAGED:
        caplog.clear()
        damage(text)
        assert list_damaged() == [EVE]
        told = read()
        shown, note = told["coverage"], UNREADABLE["note"]
        assert (shown["state"], shown["note"]) == ("none", note)
        assert told["wallets"][0]["coverage"] == shown
        assert note.split(";")[0] in html.unescape(service.get(f"/bots/{eve.uid}").text)
        DigestLog().run_tick(seen.now)
        seen.look(2)
        assert list_damaged() == [] and seen.observer.problem is None
        assert seen.state(ADA) == seen.state(EVE) == right["state"] == "complete"
        assert seen.coverage(EVE)["receipts"] == right["receipts"] > 20
        lines = [record.getMessage() for record in caplog.records]
        assert [one for one in lines if EVE in one and "coverage" in one], lines


def test_an_error_next_to_damaged_coverage_affects_only_its_wallet(seen, monkeypatch):
    work = seen.observer._prepare

    def fail(wallet):
        if wallet.address == EVE:
            raise KeyError("x")
        return work(wallet)

    damage("not JSON")
    monkeypatch.setattr(seen.observer, "_prepare", fail)
    seen.look(2)
    assert seen.state(ADA) == "complete" and "is failing" in seen.coverage(EVE)["note"]


def test_doctor_names_an_edited_reason_of_a_gap(look, chain):
    """Its slots are as a rebuild finds them."""
    lost = next(row for row in chain.moving(ADA)[5:] if ADA in row.keys)
    node = FakeNode(chain)
    node.withhold(lost.signature)
    seen = look(node).settle()
    assert [one.level for one in doctor.check_deep(seen.config, seen.now)] == ["fine"]
    coverage = seen.coverage()
    broken = next(gap for gap in coverage["gaps"] if gap["reason"] == "balance_break")
    broken["reason"] = "node_was_down"
    damage(orjson.dumps(coverage).decode(), ADA)
    told = [one.text for one in doctor.check_deep(seen.config, seen.now) if one.level == "wrong"]
    where, says = f"wallet: wallet {ADA}, field coverage.gaps", "a fresh rebuild says"
    assert told == [f"{where}: is 'node_was_down'; {says} 'balance_break'"]


# ---- any column ----------------------------------------------------------------------------------
# Columns, the API's member that is then null, and the tab that says it is unreadable (if one does).
COLUMNS = {
    "results": ("results", ""),
    "positions": ("openPositions", "holdings"),
    "reconciliation": ("reconciliation", "record"),
    "average_cost": ("averageCost", None),
    **dict.fromkeys(("by_stablecoin", "stablecoin_imbalance", "coverage"), (None, None)),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_damaged_column_is_null_with_a_reason_until_it_is_repaired(
    seen, service, eve, read, column
):
    (member, tab), right = COLUMNS[column], read()
    missing = {} if member is None else {member: None}
    assert all(right[name] is not None for name in missing)
    if tab is not None:
        missing[f"{member}Reason"] = "damaged"
    for text, repair in (('{"x', rebuild), ('{"realizedLamports": null}', Lookout.look)):
        damage(text, column=column)
        (told,) = find_wrong(seen)
        assert told.level == "wrong" and "app.py rebuild" in told.advice
        assert told.text.startswith(f"{column} of wallet {EVE} can't be read")
        shown = read()
        assert {name: shown[name] for name in missing} == missing
        others = [] if column == "coverage" else ["coverage", "latestTrades"]
        assert all(shown[name] == right[name] for name in others)
        if tab is not None:
            page = service.get(f"/bots/{eve.uid}?tab={tab}").text
            assert "stored data is unreadable" in page
        repair(seen)
        assert find_wrong(seen, deep=column == "coverage") == [] and seen.observer.problem is None
        assert all(read()[name] == right[name] for name in missing)


def test_a_damaged_trade_is_left_out_and_the_others_remain(seen, read, caplog):
    path = f"trades?wallet={EVE}&limit=2"
    first, second = read(path)["data"]
    Trade.update(lots="{").where(Trade.uid == first["id"]).execute()
    page = read(path)
    # The requested number of rows was examined, so the next page begins at the usual place.
    assert page["data"] == [second] and page["nextCursor"]
    number = Trade.get(Trade.uid == first["id"]).id
    assert f"lots of trade {number} can't be read" in caplog.text
    named = [one for one in doctor.examine(seen.config, seen.now, deep=True) if "lots" in one.text]
    assert named and {one.level for one in named} == {"wrong"}
    assert any(first["signature"] in one.text for one in named)
    rebuild(seen)
    assert read(path)["data"] == [first, second]
