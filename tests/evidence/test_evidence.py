"""Evidence documents: all claims about a bot, paged and named by digests."""

import hashlib
import random
import threading

import orjson
import pytest
from auditing import digest_as_documented
from lookout import Lookout
from node import FakeNode
from service import NOW, Service, address, hide_post, signature
from story import ADA, market
from test_worker import ROOT

import storage
from accounts import wallets
from chain.reading.programs import table
from evidence import claims, document, lines, log
from evidence.document import DigestLog, append_digest
from models import Bot, Receipt, Trade, Wallet, WalletSignature
from storage import writing
from storage.log import append_leaf

W, M = address("w"), address("m")


@pytest.fixture
def watched(tmp_path, chain):
    """The application after an honest node reported on ada."""
    service = Service(tmp_path / "data")
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    yield service
    service.close()


def read(service, query=""):
    uid = Bot.get().uid
    answer = service.get(f"/bots/{uid}/evidence.json{query}")
    assert answer.status_code == 200, answer.text
    return answer


def test_evidence_lists_every_receipt_with_its_trades_fields(watched):
    told = read(watched).json
    trades = {trade.signature: trade for trade in Trade.select()}
    assert len(told["receipts"]) == len(trades) > 30
    for line in told["receipts"]:
        trade = trades[line["signature"]]
        assert (line["tradeId"], line["kind"], line["slot"]) == (trade.uid, trade.kind, trade.slot)
        assert line["solChangeLamports"] == str(trade.sol_change)
        assert line["result"] == (None if trade.result is None else str(trade.result))
        assert line["lots"] == orjson.loads(trade.lots)
        assert line["receipt"] == Receipt.get(Receipt.signature == line["signature"]).digest
    wallet = Wallet.get()
    assert told["wallet"]["address"] == wallet.address
    assert told["wallet"]["coverage"]["state"] == "complete"
    assert told["wallet"]["sums"]["results"] == orjson.loads(wallet.results)
    assert (told["markers"], told["addedPrograms"], told["pending"]) == ([], [], [])


def test_demonstration_evidence_says_so_and_can_be_checked(tmp_path, chain, monkeypatch):
    """The document says it as a whole, because digests cover its lines and pages unchanged."""
    service = Service(tmp_path / "data", demonstration=True)
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(service).json
    assert told["demonstration"] is True and told["receiptPages"]
    assert service.get("/evidence.json").json["demonstration"] is True
    page = told["receiptPages"][0]
    body = read(service, f"?page=1&digest={page['digest']}").data
    assert hashlib.sha256(body).hexdigest() == page["digest"]
    reader = claims.Instance("", ask=lambda path: service.get(path).data)
    bot = Bot.get().uid
    told = reader.read_claims(bot)
    pages = reader.read_receipts(bot, told.wallet, told)
    assert sum(map(len, pages)) == Trade.select().count()
    assert list(reader.list_bots()) == [bot]
    service.close()


def test_full_pages_are_named_by_digest_and_never_change(watched, monkeypatch):
    whole = read(watched).json["receipts"]
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(watched).json
    assert [one["page"] for one in told["receiptPages"]] == list(range(1, len(whole) // 10 + 1))
    paged = []
    for one in told["receiptPages"]:
        answer = read(watched, f"?page={one['page']}&digest={one['digest']}")
        assert "immutable" in answer.headers["Cache-Control"]
        assert hashlib.sha256(answer.data).hexdigest() == one["digest"]
        paged += answer.json["receipts"]
    assert paged + told["receipts"] == whole
    # A changed line has another name.
    Trade.update(fee=Trade.fee + 1).where(Trade.signature == paged[0]["signature"]).execute()
    first = told["receiptPages"][0]
    uid = Bot.get().uid
    old = watched.get(f"/bots/{uid}/evidence.json?page=1&digest={first['digest']}")
    assert (old.status_code, old.json["code"]) == (404, "not_found")
    assert "immutable" not in read(watched, "?page=1").headers["Cache-Control"]
    assert read(watched).json["receiptPages"][0]["digest"] != first["digest"]


def test_the_digest_can_be_computed_from_the_docs_alone(watched, monkeypatch):
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(watched).json
    full = [
        read(watched, f"?page={one['page']}&digest={one['digest']}").data
        for one in told["receiptPages"]
    ]
    assert len(full) > 2 and told["digest"] == digest_as_documented(told, full)
    text = (ROOT / "docs/check.md").read_text()
    for said in (
        '["candor-evidence/1", wallet, [digest of each page]]',
        '{"page": N, "receipts": ',
    ):
        assert said in text
    told["wallet"]["sums"]["realizedLamports"] = "1"
    assert told["digest"] != digest_as_documented(told, full)


def test_a_wallet_digest_changes_with_claims_and_not_with_polls(watched):
    wallet = Wallet.get()
    before = document.digest_wallet(wallet.id)
    assert read(watched).json["digest"] == before
    coverage = orjson.loads(wallet.coverage) | {"checkedAt": "2027-01-01T00:00:00Z"}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    assert document.digest_wallet(wallet.id) == before
    Trade.update(result=Trade.result + 1).where(Trade.result.is_null(False)).execute()
    assert document.digest_wallet(wallet.id) != before


def publish():
    """Publish a result and its totals as the observer does, on a separate connection."""

    def write():
        with storage.database.connection_context(), writing():
            Trade.update(result=Trade.result + 1).where(Trade.result.is_null(False)).execute()
            Wallet.update(imbalance=Wallet.imbalance + 1).execute()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


def test_documents_and_digests_are_one_snapshot(watched, monkeypatch):
    """However often the wallet is published meanwhile, and between any of its parts."""
    wallet, name = Wallet.get(), document.name_pages
    make = {
        "digest": lambda: document.digest_wallet(wallet.id),
        "document": lambda: document.make_document(Bot.get().id, wallet.id, table(), 1),
    }
    for made in make.values():
        before = made()
        with monkeypatch.context() as patch:
            patch.setattr(document, "name_pages", lambda *given: publish() or name(*given))
            assert made() == before
        assert made() != before


def test_the_oldest_pending_signatures_are_listed_and_all_counted(watched):
    dice, wallet = random.Random(7), Wallet.get()
    chosen = [(dice.randint(1, 300), f"sig{number}") for number in range(1_500)]
    storage.write_rows(
        WalletSignature,
        [
            {
                **{"wallet": wallet.id, "signature": name, "slot": slot, "seen_at": 1},
                **{"head": dice.random() < 0.5, "state": "pending"},
            }
            for slot, name in chosen
        ],
    )
    told = read(watched).json
    assert told["pendingCount"] == 1_500
    named = [(one["slot"], one["signature"]) for one in told["pending"]]
    assert named == sorted(chosen)[:1_000]


def test_an_etag_avoids_a_second_read(watched):
    first = read(watched)
    uid = Bot.get().uid
    again = watched.get(
        f"/bots/{uid}/evidence.json", headers={"If-None-Match": first.headers["ETag"]}
    )
    assert again.status_code == 304


def test_posts_are_listed_with_their_verifying_trade(service):
    bot = service.make_bot("Ada", W)
    service.observe_trade(W, "sold", 2, kind="sell", mint=M, raw=-3, sol=700)
    key = bot.publish_key.text
    posted = [
        service.post({"eventId": "a", "body": "Sold", "signature": signature("sold")}, key).json,
        service.post({"eventId": "b", "body": "Nothing"}, key).json,
    ]
    lines = service.get(f"/bots/{bot.bot.uid}/evidence.json").json["posts"]
    assert [line["id"] for line in lines] == [one["id"] for one in posted]
    assert [line["status"] for line in lines] == ["verified", "none"]
    assert (lines[0]["wallet"], lines[0]["tradeId"]) == (W, "trade_sold")
    assert [line["words"]["body"] for line in lines] == ["Sold", "Nothing"]


def test_no_cache_keeps_post_text_and_hidden_posts_show_none(service, monkeypatch):
    # The page with one post is full and has a name.
    monkeypatch.setattr(lines, "PAGE_SIZE", 1)
    bot = service.make_bot("Ada")
    posted = service.post({"eventId": "a", "body": "Sold"}, bot.publish_key.text).json
    path = f"/bots/{bot.bot.uid}/evidence.json"
    page = service.get(f"{path}?posts=1")
    digest = hashlib.sha256(page.data).hexdigest()
    named = service.get(f"{path}?posts=1&digest={digest}")
    assert (page.headers["Cache-Control"], named.headers["Cache-Control"]) == ("no-cache",) * 2
    hide_post(posted["id"], 1_800_000_000_000)
    assert service.get(f"{path}?posts=1&digest={digest}").status_code == 404
    (line,) = service.get(f"{path}?posts=1").json["posts"]
    assert (line["hiddenAtMs"], line["words"]) == (1_800_000_000_000, None)


def test_a_bot_without_a_wallet_has_a_document_and_an_unknown_bot_none(service):
    bot = service.make_bot("Ada")
    path = f"/bots/{bot.bot.uid}/evidence.json"
    told = service.get(path).json
    assert (told["wallet"], told["receipts"], told["wallets"]) == (None, [], [])
    assert service.get(f"{path}?page=1").status_code == 404
    assert service.get(f"{path}?wallet={W}").status_code == 404
    assert service.get("/bots/bot_nobody/evidence.json").status_code == 404
    assert service.get(f"{path}?posts=x").status_code == 400


def test_a_former_wallet_keeps_its_evidence(service):
    bot = service.make_bot("Ada", W)
    service.observe_trade(W, "bought", 1)
    wallets.attach_wallet(service.config, bot.bot, address("v"), NOW + 1)
    path = f"/bots/{bot.bot.uid}/evidence.json"
    assert service.get(path).json["wallet"]["address"] == address("v")
    former = service.get(f"{path}?wallet={W}").json
    assert [line["tradeId"] for line in former["receipts"]] == ["trade_bought"]
    assert former["wallets"] == [W, address("v")]
    (span,) = former["wallet"]["spans"]
    assert (span["botId"], span["detachedAtMs"]) == (bot.bot.uid, NOW + 1)


def test_bots_are_listed_in_pages(service, monkeypatch):
    made = [service.make_bot(f"Bot {n}").bot.uid for n in range(5)]
    monkeypatch.setattr(document, "MAX_BOTS", 2)
    monkeypatch.setattr(document, "BOTS", document.BOTS.replace("LIMIT 1000", "LIMIT 2"))
    found, after = [], ""
    while after is not None:
        page = service.get(f"/evidence.json?after={after}").json
        found, after = found + [one["botId"] for one in page["bots"]], page["next"]
    assert found == made


@pytest.mark.usefixtures("standing_clock")
def test_evidence_has_its_own_limit_per_address(tmp_path):
    limited = Service(tmp_path / "data", evidence_per_minute=2)
    codes = [limited.get("/evidence.json").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert limited.get("/").status_code == 200
    limited.close()


@pytest.mark.usefixtures("standing_clock")
def test_a_document_counts_as_its_pages(watched, monkeypatch):
    """60 per minute. The response that exceeds the limit is still sent."""
    monkeypatch.setattr(lines, "PAGE_SIZE", 2)
    told = read(watched).json
    count = len(told["receiptPages"]) + len(told["postPages"])
    assert 10 < count < 40
    path = f"/bots/{Bot.get().uid}/evidence.json"
    answered = -(-60 // (1 + count)) - 1
    codes = [watched.get(path).status_code for _ in range(answered + 1)]
    assert codes == [200] * answered + [429]


def test_a_profile_explains_how_to_check_it(service):
    bot = service.make_bot("Ada", W)
    page = service.get(f"/bots/{bot.bot.uid}?tab=record").text
    line = f"python app.py audit {service.config.base_url} --bot {bot.bot.uid} --rpc"
    assert line in page and f"/bots/{bot.bot.uid}/evidence.json" in page
    bare = service.make_bot("Without")
    assert "app.py audit" not in service.get(f"/bots/{bare.bot.uid}?tab=record").text


def test_a_document_names_the_wallets_latest_digest_leaf(watched):
    assert read(watched).json["log"] is None
    with writing():
        for number in range(3):
            append_digest(Wallet.get().id, ADA, f"{number}" * 64, NOW + number)
        size = log.find_log().size
        append_leaf("digest", NOW + 3)
    assert read(watched).json["log"] == {
        "log": log.find_log().uid,
        "leaf": size - 1,
        "digest": "2" * 64,
        "loggedAtMs": NOW + 2,
    }


def list_digests():
    """[(wallet, digest)] in the log."""
    one = log.find_log()
    leaves = map(orjson.loads, log.read_leaves(one, 0, one.size)) if one else ()
    return [(leaf["wallet"], leaf["digest"]) for leaf in leaves if leaf["kind"] == "evidence"]


def test_a_digest_is_logged_once_and_again_when_it_changes(settings, db):
    chain = market(3, ("ada", "eve"), 24)
    wallets = [ADA, address("eve")]
    seen = Lookout.begin(settings, FakeNode(chain), wallets=wallets).settle()
    digests = [(one.address, document.digest_wallet(one.id)) for one in seen.wallets]
    job = DigestLog()
    for later in (0, 1):
        job.run_tick(seen.now + later)
        assert list_digests() == digests
    # Another process finds the logged digest.
    DigestLog().run_tick(seen.now + 2)
    assert list_digests() == digests
    wallet = seen.wallets[0]
    coverage = {**orjson.loads(Wallet.get_by_id(wallet.id).coverage), "receipts": 1}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).where(Wallet.id == wallet.id).execute()
    job.run_tick(seen.now + 3)
    assert list_digests()[2:] == [(wallet.address, document.digest_wallet(wallet.id))]
    assert list_digests()[2] != digests[0]
