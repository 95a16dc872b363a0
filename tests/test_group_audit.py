"""What is claimed of several wallets of one bot is worked out again from a stranger's own node, and
whatever was changed in it is named.
"""

import hashlib
import shutil

import ground
import orjson
import pytest
from auditing import ask_service, audit, digest_as_documented, make_auditor
from lookout import BEGIN, Lookout
from node import FakeNode
from service import NOW, Service
from story import BEGIN_TIME, address
from test_groups import two_people

from accounts import posts
from chain.stored.group_tables import Companion, OwnCoverage
from evidence.digests import DigestLog
from evidence.document import digest_claims, digest_wallet
from models import Address, Attachment, Bot, Post, Trade, Wallet, WalletSignature
from web.api.held_wallets import list_wallets

ADA, EVE = address("ada"), address("eve")
# Those that begin with a copy of one file.
of_a_copy = ground.sqlite_only
# A Unix ms in the midst of what they do.
CAME = (BEGIN_TIME + 12) * 1_000


def tell():
    """Ada buys, gives eve what she bought, who sells it; and much else."""
    story = two_people(11, 20)
    story.buy("ada", "CAT", 100, 500_000)
    story.transact("ada", [("tokens", "CAT", "ada", "eve", 100)])
    story.sell("eve", "CAT", 100, 900_000)
    return story


@pytest.fixture(scope="module")
def story():
    return tell()


@pytest.fixture(scope="module")
def chain(story):
    return story.chain()


def observe(config, chain, came=CAME):
    """Ada's bot holds eve's wallet too, from a moment on; all is observed by an honest node."""
    seen = Lookout.begin(config, FakeNode(chain), wallets=[ADA])
    Attachment.update(attached_at=0, ownership="proven").execute()
    eve = Wallet.create(address=EVE, bot=Bot.get(), created_at=BEGIN)
    Address.create(wallet=eve, address=EVE)
    Companion.create(bot=Bot.get(), wallet=eve, attached_at=came)
    seen.wallets.append(eve)
    seen.settle()
    return seen


def say(number, signature):
    body = posts.PostBody(eventId=f"e{number}", body="Sold.", signature=signature)
    posts.publish(Bot.get().id, body, CAME + 3_600_000 + number, "api")


@pytest.fixture(scope="module")
def template(tmp_path_factory, story, chain):
    """The folder of such an instance, with posts on what each of them did."""
    folder = tmp_path_factory.mktemp("template") / "data"
    service = Service(folder)
    seen = observe(service.config, chain)
    bought, given, sold = (row.signature for row in story.rows[-3:])
    for number, signature in enumerate((bought, given, sold)):
        say(number, signature)
    seen.look(2)
    assert [post.status for post in Post.select().order_by(Post.id)] == [
        *("verified", "mismatch", "verified")
    ]
    service.close()
    return folder


@pytest.fixture
def watched(tmp_path, template):
    """The application over a copy of it."""
    shutil.copytree(template, tmp_path / "data")
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    yield service
    service.close()


def read(service, query=""):
    return service.get(f"/bots/{Bot.get().uid}/evidence.json{query}").json


def named(report):
    return {(one.signature, one.field) for one in report.differences}


# ---- nothing was changed -------------------------------------------------------------------------
def test_what_is_claimed_of_both_follows_from_the_chain(tmp_path, chain):
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    observe(service.config, chain)
    report = audit(service, FakeNode(chain))
    assert (report.verdict, report.differences, report.unknown) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 20
    service.close()


def hold(seen, address, begins, ends):
    """A wallet that the bot had beside the one that led, from and to so many seconds of the story,
    and what the observer makes of it.
    """
    times = {"attached_at": moment(begins), "detached_at": moment(ends)}
    Companion.create(bot=Bot.get(), wallet=Wallet.get(Wallet.address == address), **times)
    Wallet.update(due_at=0, closing_at=seen.now).execute()
    seen.restart()
    seen.settle()


def moment(seconds):
    return None if seconds is None else (BEGIN_TIME + seconds) * 1_000


@pytest.mark.parametrize("seed", range(4))
def test_whoever_came_and_went_it_follows(tmp_path, seed):
    """Eve comes and goes and comes again; then she leads, and ada stands beside her."""
    chain = two_people(seed, 24).chain()
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = observe(service.config, chain, moment(3 + seed))
    Companion.update(detached_at=moment(9 + seed)).execute()
    hold(seen, EVE, 12, 20)
    report = audit(service, FakeNode(chain))
    assert (report.verdict, report.differences, report.unknown) == ("same", [], [])
    Attachment.update(detached_at=moment(20)).execute()
    eve = Wallet.get(Wallet.address == EVE)
    Attachment.create(bot=Bot.get(), wallet=eve, ownership="proven", attached_at=moment(20))
    hold(seen, ADA, 20, None)
    assert [one["address"] for one in list_wallets(Bot.get().id)] == [EVE, ADA]
    report = audit(service, FakeNode(chain))
    assert (report.verdict, report.differences, report.unknown) == ("same", [], [])
    service.close()


def test_a_wallet_that_led_another_bot_is_audited_with_each(tmp_path, chain):
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = observe(service.config, chain)
    first = Bot.get()
    other = Bot.create(**{**first.__data__, "id": None, "uid": "bot_other", "handle": "other"})
    eve = Wallet.get(Wallet.address == EVE)
    stay = {"ownership": "proven", "attached_at": 0, "detached_at": CAME}
    Attachment.create(bot=other, wallet=eve, **stay)
    seen.settle()
    report = audit(service, FakeNode(chain), bot=first.uid)
    assert (report.verdict, report.differences, report.notes) == ("same", [], [])
    report = audit(service, FakeNode(chain), bot=other.uid)
    assert (report.verdict, report.differences) == ("same", [])
    assert report.notes == [
        f"{EVE}: its trades stand in the books of {ADA}, which {first.uid} holds"
    ]
    Attachment.update(forward_realized=7).where(Attachment.bot == other).execute()
    report = audit(service, FakeNode(chain), bot=other.uid)
    assert named(report) == {(None, "spans.1.realizedLamports")}
    service.close()


# ---- the document --------------------------------------------------------------------------------
@of_a_copy
def test_the_document_names_each_wallet_and_when_it_was_there(watched):
    bot, told = Bot.get().uid, read(watched)
    assert told["format"] == "candor-evidence/2"
    assert (told["wallets"], told["wallet"]["address"]) == ([ADA, EVE], ADA)
    group, (stay,) = told["wallet"]["group"], list(Companion.select())
    assert (group["botId"], group["lead"], group["members"]) == (bot, ADA, [ADA, EVE])
    assert group["wallets"] == [ADA, EVE]
    assert group["stays"] == [
        {
            "botId": bot,
            "wallet": EVE,
            "attachedAtMs": CAME,
            "detachedAtMs": None,
            "carriedInLamports": str(stay.carried_in),
            "openCostLamports": str(stay.open_cost),
        }
    ]
    beside = read(watched, f"?wallet={EVE}")
    assert beside["wallet"]["group"] == {
        **{"botId": bot, "lead": ADA, "wallets": [EVE], "members": [], "coverage": None},
        "stays": [],
    }
    own = {one.wallet.address: orjson.loads(one.coverage) for one in OwnCoverage.select()}
    assert {one["wallet"]["address"]: one["wallet"]["coverage"] for one in (told, beside)} == own
    assert group["coverage"] == orjson.loads(Wallet.get(Wallet.address == ADA).coverage)
    stored = Trade.select().join(Wallet).where(Wallet.address == EVE)
    assert [one["signature"] for one in beside["receipts"]] == [
        one.signature for one in stored.order_by(Trade.id)
    ]


def test_a_bot_with_one_wallet_has_the_document_it_had(tmp_path, chain):
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    told = read(service)
    assert told["format"] == "candor-evidence/1"
    assert list(told["wallet"]) == [
        *("address", "rules", "backfilled", "addresses", "untouched", "coverage", "sums", "spans")
    ]
    service.close()


def test_digests_of_both_are_logged_and_move_with_what_is_claimed(tmp_path, chain):
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    observe(service.config, chain)
    ada, eve = (Wallet.get(Wallet.address == one) for one in (ADA, EVE))
    job, before = DigestLog(), [digest_wallet(one.id) for one in (ada, eve)]
    job.run_tick(NOW)
    shown = [read(service, f"?wallet={one}") for one in (ADA, EVE)]
    assert [one["log"]["digest"] for one in shown] == before
    assert [digest_as_documented(one, []) for one in shown] == before
    # Polls alone move nothing.
    for table, mine in ((Wallet, Wallet.id == ada.id), (OwnCoverage, OwnCoverage.wallet == eve)):
        told = orjson.loads(table.get(mine).coverage) | {"checkedAt": "2027-01-01T00:00:00Z"}
        table.update(coverage=orjson.dumps(told).decode()).where(mine).execute()
    assert [digest_wallet(one.id) for one in (ada, eve)] == before
    Companion.update(attached_at=CAME + 1).execute()
    assert [digest_wallet(one.id) == old for one, old in zip((ada, eve), before, strict=True)] == [
        *(False, True)
    ]
    service.close()


# ---- what was changed ----------------------------------------------------------------------------
def sale():
    """What ada bought and eve sold."""
    return (
        Trade.select()
        .join(Wallet)
        .where(Wallet.address == EVE, Trade.kind == "sell")
        .order_by(Trade.id.desc())
        .first()
    )


@of_a_copy
def test_a_withheld_wallet_is_found(watched, chain):
    """All that says that eve's was ever the bot's is gone; the books are as they were."""
    Companion.delete().execute()
    Trade.delete().where(Trade.wallet == Wallet.get(Wallet.address == EVE)).execute()
    report = audit(watched, FakeNode(chain))
    assert report.verdict == "different"
    assert (None, "results.realizedLamports") in named(report)


@of_a_copy
def test_a_wallet_that_the_list_alone_withholds_is_found(watched, chain):
    ask = ask_service(watched)

    def withhold(path):
        told = orjson.loads(ask(path))
        return orjson.dumps({**told, "wallets": [ADA]})

    report = make_auditor(withhold, FakeNode(chain)).audit(Bot.get().uid)
    assert report.verdict == "different"
    assert (None, "wallets") in named(report)


@of_a_copy
@pytest.mark.parametrize("later", [-6_000, 6_000])
def test_a_moved_span_is_found(watched, chain, later):
    Companion.update(attached_at=CAME + later).execute()
    report = audit(watched, FakeNode(chain))
    assert report.verdict == "different"
    fields = {field.split(".")[0] for _, field in named(report)}
    assert fields <= {"spans", "stays", "forwardRealizedLamports"}


@of_a_copy
def test_a_signature_that_is_withheld_in_the_second_wallet_is_found(watched, chain):
    gone = sale().signature
    Trade.delete().where(Trade.signature == gone).execute()
    WalletSignature.delete().where(WalletSignature.signature == gone).execute()
    Post.update(trade=None, status="none").execute()
    report = audit(watched, FakeNode(chain))
    assert report.verdict == "different"
    assert (gone, "receipt") in named(report)


@of_a_copy
@pytest.mark.parametrize("column", ["sol_change", "fee", "result", "proceeds", "cost"])
def test_a_lamport_more_in_the_second_wallet_is_named(watched, chain, column):
    row = sale()
    Trade.update({column: getattr(row, column) + 1}).where(Trade.id == row.id).execute()
    name = {"sol_change": "solChange"}.get(column, column)
    assert named(audit(watched, FakeNode(chain))) == {(row.signature, f"{name}Lamports")}


@of_a_copy
@pytest.mark.parametrize(
    ("table", "mine", "column", "field"),
    [
        (Companion, None, "carried_in", "stays.1.carriedInLamports"),
        (Companion, None, "open_cost", "stays.1.openCostLamports"),
        (Attachment, None, "carried_in", "spans.1.carriedInLamports"),
        (Attachment, None, "forward_realized", "spans.1.realizedLamports"),
        (Wallet, ADA, "realized", "realizedLamports"),
        (Wallet, ADA, "forward_realized", "forwardRealizedLamports"),
    ],
)
def test_sums_of_the_group_are_compared(watched, chain, table, mine, column, field):
    field_of = getattr(table, column)
    which = Wallet.address == mine if mine else table.id > 0
    table.update({field_of: field_of + 1}).where(which).execute()
    assert named(audit(watched, FakeNode(chain))) == {(None, field)}


@of_a_copy
def test_a_wallet_beside_another_has_no_sums_of_its_own(watched, chain):
    Wallet.update(realized=5).where(Wallet.address == EVE).execute()
    assert named(audit(watched, FakeNode(chain))) == {(None, "realizedLamports")}


@of_a_copy
def test_coverage_of_each_and_of_the_group_is_compared(watched, chain):
    def change(table, mine, **values):
        told = orjson.loads(table.get(mine).coverage) | values
        table.update(coverage=orjson.dumps(told).decode()).where(mine).execute()

    change(Wallet, Wallet.address == ADA, worst=[EVE])
    assert named(audit(watched, FakeNode(chain))) == {(None, "group.coverage.worst")}
    eve = Wallet.get(Wallet.address == EVE)
    change(OwnCoverage, OwnCoverage.wallet == eve, firstSlot=7)
    found = named(audit(watched, FakeNode(chain)))
    assert {(None, "coverage.firstSlot"), (None, "group.coverage.worst")} <= found


@of_a_copy
@pytest.mark.parametrize(
    ("event", "changes"),
    [
        ("e1", {"status": "verified", "status_reason": None}),
        ("e2", {"status": "mismatch", "status_reason": "not_a_trade"}),
        ("e2", {"trade": 1}),
        ("e2", {"event_at": NOW}),
        ("e0", {"status": "not_found", "trade": None}),
    ],
)
def test_a_verification_by_any_of_them_is_compared(watched, chain, event, changes):
    Post.update(changes).where(Post.event_id == event).execute()
    post = Post.get(Post.event_id == event)
    found = named(audit(watched, FakeNode(chain)))
    assert found == {(post.signature, f"posts.{post.uid}.status")}


@of_a_copy
def test_what_came_after_the_wallet_went_verifies_nothing(watched, chain):
    post = Post.get(Post.event_id == "e2")
    Post.update(created_at=CAME - 60_000).where(Post.id == post.id).execute()
    found = named(audit(watched, FakeNode(chain)))
    assert found == {(post.signature, f"posts.{post.uid}.status")}


# ---- what nobody is accused of -------------------------------------------------------------------
@of_a_copy
def test_a_node_that_lacks_what_the_second_did_cannot_tell(watched, chain):
    node = FakeNode(chain)
    node.drop(sale().signature)
    report = audit(watched, node)
    assert (report.verdict, report.differences) == ("cannot_tell", [])


@of_a_copy
@pytest.mark.parametrize("times", [1, 9])
def test_what_is_claimed_of_both_is_compared_as_of_one_moment(watched, chain, times):
    """Something happens after eve's document was read, so often."""
    ask, left = ask_service(watched), [times]

    def happen(path):
        body = ask(path)
        if f"wallet={EVE}" in path and left[0]:
            left[0] -= 1
            told = orjson.loads(Wallet.get(Wallet.address == ADA).coverage)
            told["note"] = str(left[0])
            Wallet.update(coverage=orjson.dumps(told).decode()).where(
                Wallet.address == ADA
            ).execute()
        return body

    report = make_auditor(happen, FakeNode(chain)).audit(Bot.get().uid)
    assert any("changed while it was read" in one for one in report.unknown) == (times > 1)


def lie(ask, **changes):
    """What Instance asks with, where the group of ada's wallet is said to be another one: the
    digest fits.
    """

    def answer(path):
        told = orjson.loads(ask(path))
        if told["wallet"]["group"]["members"]:
            told["wallet"]["group"] |= changes
            tail = orjson.dumps({"page": 1, "receipts": told["receipts"]})
            told["digest"] = digest_claims(told["wallet"], [hashlib.sha256(tail).hexdigest()])
        return orjson.dumps(told)

    return answer


@of_a_copy
@pytest.mark.parametrize(
    "changes",
    [
        *({"wallets": [ADA]}, {"wallets": [ADA, ADA, EVE]}, {"wallets": []}),
        *({"members": [address("stranger")]}, {"stays": [{"wallet": EVE}]}, {"coverage": 7}),
    ],
)
def test_a_group_that_cannot_be_is_nonsense_and_accuses_nobody(watched, chain, changes):
    ask = lie(ask_service(watched), **changes)
    report = make_auditor(ask, FakeNode(chain)).audit(Bot.get().uid)
    assert (report.verdict, report.count) == ("cannot_tell", 0)


@of_a_copy
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"members": []}, "group.lead"),
        ({"lead": EVE, "members": []}, "group.lead"),
        ({"botId": "bot_other", "lead": EVE, "members": []}, "group.botId"),
    ],
)
def test_trades_that_stand_in_nobodys_books_are_found(watched, chain, changes, field):
    ask = lie(ask_service(watched), **changes)
    assert (None, field) in named(make_auditor(ask, FakeNode(chain)).audit(Bot.get().uid))


@of_a_copy
@pytest.mark.parametrize("changes", [{"members": [ADA]}, {"stays": []}, {"coverage": {}}])
def test_a_group_that_is_said_to_be_smaller_is_found(watched, chain, changes):
    ask = lie(ask_service(watched), **changes)
    assert make_auditor(ask, FakeNode(chain)).audit(Bot.get().uid).verdict == "different"


@of_a_copy
@pytest.mark.parametrize("blocks", [True, False])
def test_a_node_without_places_in_slots_accuses_nobody(watched, chain, blocks):
    node = FakeNode(chain)
    node.hide_index(blocks)
    assert audit(watched, node).count == 0
