"""A wallet with unreadable coverage, as after a disk fault: only that wallet is affected, the
doctor reports it, and the next poll or `rebuild` repairs it.
"""

import html

import orjson
import pytest
from lookout import Lookout
from node import FakeNode
from story import address, market

from chain.stored.derived import NOT_POLLED, UNREADABLE
from evidence.document import DigestLog
from models import Bot, Trade, Wallet, WalletSignature
from observing import rebuilding
from operate import doctor

ADA, EVE = address("ada"), address("eve")
WRONG = (
    *({"receipts": None}, {"gaps": [3]}, {"gaps": [{"x": 1}]}, {"observedFrom": 5}),
    *({"firstSlot": "a"}, {"pending": "x"}, {"openingInventoryUnknown": None}, {"state": 1}),
)
DAMAGED = (
    *('{"state": "comp', "7", "[]", "{}"),
    *(orjson.dumps({**NOT_POLLED, "state": "complete", **one}).decode() for one in WRONG),
)


# One function reads them all: text that isn't JSON, and members of a wrong type.
SOME = DAMAGED[:1] + DAMAGED[5:6]


@pytest.fixture
def seen(service):
    """Two observed wallets of two bots."""
    chain = market(3, ("ada", "eve"), 36)
    return Lookout.begin(service.config, FakeNode(chain), wallets=[ADA, EVE]).settle()


def damage(text, wallet=EVE):
    Wallet.update(coverage=text).where(Wallet.address == wallet).execute()


def complain(seen, **more):
    """The doctor's findings about it."""
    found = doctor.examine(seen.config, seen.now, **more)
    return [one for one in found if "coverage" in one.text and EVE in one.text]


def test_unreadable_coverage_does_not_stop_observing_and_is_rebuilt(seen, caplog):
    right = seen.coverage(EVE)
    for text in DAMAGED:
        caplog.clear()
        damage(text)
        seen.look(2)
        assert seen.observer.problem is None and seen.state(ADA) == "complete"
        assert seen.state(EVE) == right["state"] == "complete"
        assert seen.coverage(EVE)["receipts"] == right["receipts"]
        told = [record.getMessage() for record in caplog.records]
        assert [one for one in told if EVE in one and "coverage" in one], told


def test_an_error_next_to_damaged_coverage_affects_only_its_wallet(seen, monkeypatch):
    work = type(seen.observer)._prepare

    def fail(self, wallet):
        if wallet.address == EVE:
            raise KeyError("x")
        return work(self, wallet)

    damage("not JSON")
    monkeypatch.setattr(type(seen.observer), "_prepare", fail)
    seen.look(2)
    assert seen.state(ADA) == "complete" and "is failing" in seen.coverage(EVE)["note"]


def test_pages_and_api_report_unreadable_coverage(seen, service):
    for text in SOME:
        damage(text)
        wallet = Wallet.get(Wallet.address == EVE)
        bot = Bot.get_by_id(wallet.bot_id)
        uid, key = bot.uid, service.make_read_key(bot.owner)
        told = service.get(f"/api/v1/bots/{uid}", key).json
        assert (
            told["coverage"]["state"] == "none" and told["coverage"]["note"] == UNREADABLE["note"]
        )
        assert told["wallets"][0]["coverage"] == told["coverage"]
        for path in (
            *(f"/bots/{uid}", f"/bots/{uid}?tab=trades", f"/api/v1/trades?wallet={EVE}", "/"),
            *("/api/v1/bots", "/api/v1/leaderboard", "/leaderboard", "/api/health"),
            *(f"/bots/{uid}/evidence.json", f"/bots/{uid}.png"),
        ):
            assert service.get(path, key).status_code == 200, path
        assert UNREADABLE["note"].split(";")[0] in html.unescape(service.get(f"/bots/{uid}").text)
        DigestLog().run_tick(seen.now)


def test_doctor_names_it_and_rebuild_repairs_it(seen):
    for text in SOME:
        damage(text)
        (told,) = complain(seen)
        assert told.level == "wrong" and "app.py rebuild" in told.advice
        wallet = Wallet.get(Wallet.address == EVE)
        (mended,) = rebuilding.rebuild(seen.observer.state, [wallet], seen.now)
        assert mended.sums_changed
        assert complain(seen) == [] and complain(seen, deep=True) == []
        stored = WalletSignature.select().where(WalletSignature.wallet == wallet.id).count()
        assert seen.coverage(EVE)["receipts"] == stored > 20
        assert not rebuilding.rebuild(seen.observer.state, [wallet], seen.now)[0].changes
        seen.settle()
        assert seen.state(EVE) == "complete"


def test_doctor_names_an_edited_reason_of_a_gap(settings, db, chain):
    """Its slots are as a rebuild finds them."""
    lost = next(row for row in chain.moving(ADA)[5:] if ADA in row.keys)
    node = FakeNode(chain)
    node.withhold(lost.signature)
    seen = Lookout.begin(settings, node, wallets=[ADA]).settle()
    assert [one.level for one in doctor.check_deep(seen.config, seen.now)] == ["fine"]
    coverage = seen.coverage()
    named = [gap for gap in coverage["gaps"] if gap["reason"] == "balance_break"]
    named[0]["reason"] = "node_was_down"
    damage(orjson.dumps(coverage).decode(), ADA)
    told = [one.text for one in doctor.check_deep(seen.config, seen.now) if one.level == "wrong"]
    assert told == [
        f"wallet: wallet {ADA}, field coverage.gaps: is 'node_was_down'; a fresh rebuild says"
        " 'balance_break'"
    ]


# All except the first one, which pages show.
TABS = {"positions": "holdings", "reconciliation": "record"}
SHOWN = (
    "results",
    "positions",
    "reconciliation",
    "average_cost",
    "by_stablecoin",
    "stablecoin_imbalance",
)


@pytest.mark.parametrize("column", SHOWN)
def test_other_unreadable_wallet_text_is_named_and_repaired(seen, column):
    def list_wrong():
        return [one.text for one in doctor.examine(seen.config, seen.now) if EVE in one.text]

    for mend in ("rebuild", "poll"):
        Wallet.update({column: '{"x'}).where(Wallet.address == EVE).execute()
        (told,) = list_wrong()
        assert told.startswith(f"{column} of wallet {EVE} can't be read")
        if mend == "rebuild":
            eve = Wallet.get(Wallet.address == EVE)
            rebuilding.rebuild(seen.observer.state, [eve], seen.now)
        else:
            seen.look(2)
        assert list_wrong() == [] and seen.observer.problem is None


@pytest.mark.parametrize(
    ("column", "shown", "reason"),
    [
        ("results", "results", "resultsReason"),
        ("positions", "openPositions", "openPositionsReason"),
        ("reconciliation", "reconciliation", "reconciliationReason"),
        ("average_cost", "averageCost", None),
    ],
)
def test_damaged_data_is_null_with_a_reason_until_the_next_poll(
    seen, service, column, shown, reason
):
    bot = Bot.get_by_id(Wallet.get(Wallet.address == EVE).bot_id)
    key = service.make_read_key(bot.owner)

    def read():
        return service.get(f"/api/v1/bots/{bot.uid}", key).json

    for text in ('{"x', "null", "7", '{"realizedLamports": null}'):
        right = read()
        assert right[shown] is not None and (reason is None or right[reason] is None)
        Wallet.update({column: text}).where(Wallet.address == EVE).execute()
        told = read()
        assert told[shown] is None and (reason is None or told[reason] == "damaged"), text
        assert told["coverage"] == right["coverage"]
        assert told["latestTrades"] == right["latestTrades"]
        if reason:
            page = service.get(f"/bots/{bot.uid}?tab={TABS.get(column, '')}")
            assert "stored data is unreadable" in page.text
        seen.look(2)
        assert read()[shown] == right[shown]


def test_a_damaged_trade_is_left_out_and_the_others_remain(seen, service, caplog):
    bot = Bot.get_by_id(Wallet.get(Wallet.address == EVE).bot_id)
    key, path = service.make_read_key(bot.owner), f"/api/v1/trades?wallet={EVE}&limit=2"
    first, second = service.get(path, key).json["data"]
    Trade.update(lots="{").where(Trade.uid == first["id"]).execute()
    page = service.get(path, key).json
    # The requested number of rows was examined, so the next page begins at the usual place.
    assert page["data"] == [second] and page["nextCursor"]
    number = Trade.get(Trade.uid == first["id"]).id
    assert f"lots of trade {number} can't be read" in caplog.text
    named = [one for one in doctor.examine(seen.config, seen.now, deep=True) if "lots" in one.text]
    assert named and {one.level for one in named} == {"wrong"}
    assert any(first["signature"] in one.text for one in named)
    rebuilding.rebuild(seen.observer.state, list(Wallet), seen.now)
    assert service.get(path, key).json["data"] == [first, second]


def test_health_names_a_damaged_coverage_until_a_poll_mends_it(seen, service):
    def named():
        return service.get("/api/health").json["walletObserver"]["damagedCoverage"]

    for text in SOME:
        assert named() == []
        damage(text)
        assert named() == [EVE]
        seen.look(2)
        assert named() == []
