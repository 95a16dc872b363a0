"""Evidence documents: all claims about a bot, paged and named by digests."""

import hashlib
import random
from pathlib import Path

import orjson
import pytest
from auditing import ask_service, change_coverage, digest_as_documented, find_first
from lookout import Lookout
from node import FakeNode
from service import NOW, address, hide_post, race, signature
from story import ADA, market

import storage
from accounts import wallets
from chain.reading.programs import table
from evidence import claims, document, lines, log
from evidence.document import DigestLog, append_digest
from models import Receipt, Trade, Wallet, WalletSignature
from storage import writing
from storage.log import append_leaf

W, M = address("w"), address("m")
DOCS = Path(__file__).resolve().parents[2] / "docs/check.md"


@pytest.fixture
def watched(service, chain):
    """The application after an honest node reported on ada."""
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    return service


def ask(service, query="", bot=None, **more):
    """The response with a bot's document, or a page of it."""
    return service.get(f"/bots/{bot or find_first().uid}/evidence.json{query}", **more)


def read(service, query=""):
    answer = ask(service, query)
    assert answer.status_code == 200, answer.text
    return answer


def read_pages(service, told):
    """The responses with a document's full pages of receipts."""
    named = told["receiptPages"]
    return [read(service, f"?page={one['page']}&digest={one['digest']}") for one in named]


# ---- receipts ------------------------------------------------------------------------------------
def test_evidence_lists_every_receipt_with_its_trades_fields(watched):
    answer = read(watched)
    told, trades = answer.json, {trade.signature: trade for trade in Trade.select()}
    assert len(told["receipts"]) == len(trades) > 30
    for line in told["receipts"]:
        trade = trades[line["signature"]]
        assert (line["tradeId"], line["kind"], line["slot"]) == (trade.uid, trade.kind, trade.slot)
        assert line["solChangeLamports"] == str(trade.sol_change)
        assert line["result"] == (None if trade.result is None else str(trade.result))
        assert line["lots"] == orjson.loads(trade.lots)
        assert line["receipt"] == Receipt.get(Receipt.signature == line["signature"]).digest
    shown, wallet = told["wallet"], Wallet.get()
    assert (shown["address"], shown["coverage"]["state"]) == (wallet.address, "complete")
    assert shown["sums"]["results"] == orjson.loads(wallet.results)
    assert (told["markers"], told["addedPrograms"], told["pending"]) == ([], [], [])
    assert ask(watched, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_demonstration_evidence_says_so_and_can_be_checked(serve, chain, monkeypatch):
    """The document says it as a whole, because digests cover its lines and pages unchanged."""
    service = serve(demonstration=True)
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(service).json
    assert told["demonstration"] is True and told["receiptPages"]
    assert service.get("/evidence.json").json["demonstration"] is True
    reader, bot = claims.Instance("", ask=ask_service(service)), find_first().uid
    claimed = reader.read_claims(bot)
    pages = reader.read_receipts(bot, claimed.wallet, claimed)
    assert sum(map(len, pages)) == Trade.select().count()
    assert list(reader.list_bots()) == [bot]


def test_full_pages_are_named_by_digest_and_never_change(watched, monkeypatch):
    whole = read(watched).json["receipts"]
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(watched).json
    assert [one["page"] for one in told["receiptPages"]] == list(range(1, len(whole) // 10 + 1))
    paged = []
    for one, answer in zip(told["receiptPages"], read_pages(watched, told), strict=True):
        assert "immutable" in answer.headers["Cache-Control"]
        assert hashlib.sha256(answer.data).hexdigest() == one["digest"]
        paged += answer.json["receipts"]
    assert paged + told["receipts"] == whole
    # A changed line has another name.
    Trade.update(fee=Trade.fee + 1).where(Trade.signature == paged[0]["signature"]).execute()
    first = told["receiptPages"][0]["digest"]
    old = ask(watched, f"?page=1&digest={first}")
    assert (old.status_code, old.json["code"]) == (404, "not_found")
    assert "immutable" not in read(watched, "?page=1").headers["Cache-Control"]
    assert read(watched).json["receiptPages"][0]["digest"] != first


def test_the_oldest_pending_signatures_are_listed_and_all_counted(watched):
    dice, row = random.Random(7), {"wallet": Wallet.get().id, "seen_at": 1, "state": "pending"}
    chosen = [(dice.randint(1, 300), f"sig{number}") for number in range(1_500)]
    drawn = [
        {"slot": slot, "signature": name, "head": dice.random() < 0.5} for slot, name in chosen
    ]
    storage.write_rows(WalletSignature, [row | one for one in drawn])
    told = read(watched).json
    assert told["pendingCount"] == 1_500
    named = [(one["slot"], one["signature"]) for one in told["pending"]]
    assert named == sorted(chosen)[:1_000]


# ---- digests -------------------------------------------------------------------------------------
def test_the_digest_can_be_computed_from_the_docs_alone(watched, monkeypatch):
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    told = read(watched).json
    full = [page.data for page in read_pages(watched, told)]
    assert len(full) > 2 and told["digest"] == digest_as_documented(told, full)
    formats = ('["candor-evidence/1", wallet, [digest of each page]]', '{"page": N, "receipts": ')
    assert all(one in DOCS.read_text() for one in formats)
    told["wallet"]["sums"]["realizedLamports"] = "1"
    assert told["digest"] != digest_as_documented(told, full)


def test_a_wallet_digest_changes_with_claims_and_not_with_polls(watched):
    wallet = Wallet.get()
    before = document.digest_wallet(wallet.id)
    assert read(watched).json["digest"] == before
    change_coverage(checkedAt="2027-01-01T00:00:00Z")
    assert document.digest_wallet(wallet.id) == before
    Trade.update(result=Trade.result + 1).where(Trade.result.is_null(False)).execute()
    assert document.digest_wallet(wallet.id) != before


def publish():
    """Publish a result and its totals as the observer does, on a separate connection."""

    def write(_):
        with writing():
            Trade.update(result=Trade.result + 1).where(Trade.result.is_null(False)).execute()
            Wallet.update(imbalance=Wallet.imbalance + 1).execute()

    race(1, write)


def test_documents_and_digests_are_one_snapshot(watched, monkeypatch):
    """However often the wallet is published in between, and between any of its parts."""
    wallet, name = Wallet.get(), document.name_pages
    for make in (
        lambda: document.digest_wallet(wallet.id),
        lambda: document.make_document(find_first().id, wallet.id, table(), 1),
    ):
        before = make()
        with monkeypatch.context() as patch:
            patch.setattr(document, "name_pages", lambda *given: publish() or name(*given))
            assert make() == before
        assert make() != before


def test_a_document_names_the_wallets_latest_digest_leaf(watched):
    assert read(watched).json["log"] is None
    with writing():
        for number in range(3):
            append_digest(Wallet.get().id, ADA, f"{number}" * 64, NOW + number)
        last = {"log": log.find_log().uid, "leaf": log.find_log().size - 1}
        append_leaf("digest", NOW + 3)
    assert read(watched).json["log"] == last | {"digest": "2" * 64, "loggedAtMs": NOW + 2}


def list_digests():
    """[(wallet, digest)] in the log."""
    one = log.find_log()
    leaves = map(orjson.loads, log.read_leaves(one, 0, one.size)) if one else ()
    return [(leaf["wallet"], leaf["digest"]) for leaf in leaves if leaf["kind"] == "evidence"]


def test_a_digest_is_logged_once_and_again_when_it_changes(look):
    seen = look(market(3, ("ada", "eve"), 24), wallets=[ADA, address("eve")]).settle()
    digests = [(one.address, document.digest_wallet(one.id)) for one in seen.wallets]
    job = DigestLog()
    # The last one is another process, which finds the logged digest.
    for one in (job, job, DigestLog()):
        one.run_tick(seen.now)
        assert list_digests() == digests
    wallet = seen.wallets[0]
    change_coverage(wallet.address, receipts=1)
    job.run_tick(seen.now + 3)
    assert list_digests()[2:] == [(wallet.address, document.digest_wallet(wallet.id))]
    assert list_digests()[2] != digests[0]


# ---- posts, wallets and bots ---------------------------------------------------------------------
def test_posts_are_listed_with_their_verifying_trade(service, bot, key):
    service.observe_trade(W, "sold", 2, kind="sell", mint=M, raw=-3, sol=700)
    said = {"eventId": "a", "body": "Sold", "signature": signature("sold")}, {"eventId": "b"}
    first, second = (service.post({"body": "Nothing", **one}, key).json["id"] for one in said)
    sold, other = read(service).json["posts"]
    told = [(one["id"], one["status"], one["words"]["body"]) for one in (sold, other)]
    assert told == [(first, "verified", "Sold"), (second, "none", "Nothing")]
    assert (sold["wallet"], sold["tradeId"]) == (W, "trade_sold")


def test_no_cache_keeps_post_text_and_hidden_posts_show_none(service, key, monkeypatch):
    # The page with one post is full and has a name.
    monkeypatch.setattr(lines, "PAGE_SIZE", 1)
    posted = service.post({"eventId": "a", "body": "Sold"}, key).json
    page = read(service, "?posts=1")
    query = f"?posts=1&digest={hashlib.sha256(page.data).hexdigest()}"
    for answer in (page, read(service, query)):
        assert answer.headers["Cache-Control"] == "no-cache"
    hide_post(posted["id"], NOW)
    assert ask(service, query).status_code == 404
    (line,) = read(service, "?posts=1").json["posts"]
    assert (line["hiddenAtMs"], line["words"]) == (NOW, None)


def test_a_bot_without_a_wallet_has_a_document_and_an_unknown_bot_none(service):
    service.make_bot("Ada")
    told = read(service).json
    assert (told["wallet"], told["receipts"], told["wallets"]) == (None, [], [])
    for query in ("?page=1", f"?wallet={W}"):
        assert ask(service, query).status_code == 404
    assert ask(service, bot="bot_nobody").status_code == 404
    assert ask(service, "?posts=x").status_code == 400


def test_a_former_wallet_keeps_its_evidence(service, bot):
    service.observe_trade(W, "bought", 1)
    wallets.attach_wallet(service.config, bot.bot, address("v"), NOW + 1)
    assert read(service).json["wallet"]["address"] == address("v")
    former = read(service, f"?wallet={W}").json
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


def test_a_profile_explains_how_to_check_it(service):
    for name, wallet in (("Ada", W), ("Without", None)):
        uid = service.make_bot(name, wallet).bot.uid
        page = service.get(f"/bots/{uid}?tab=record").text
        line = f"python app.py audit {service.config.base_url} --bot {uid} --rpc"
        assert (line in page) == (f"/bots/{uid}/evidence.json" in page) == bool(wallet)


# ---- limits --------------------------------------------------------------------------------------
@pytest.mark.usefixtures("standing_clock")
def test_evidence_has_its_own_limit_per_address(serve):
    limited = serve(evidence_per_minute=2)
    codes = [limited.get("/evidence.json").status_code for _ in range(3)]
    assert codes == [200, 200, 429] and limited.get("/").status_code == 200


@pytest.mark.usefixtures("standing_clock")
def test_a_document_counts_as_its_pages(watched, monkeypatch):
    """60 per minute. The response that exceeds the limit is still sent."""
    monkeypatch.setattr(lines, "PAGE_SIZE", 2)
    told = read(watched).json
    count = len(told["receiptPages"]) + len(told["postPages"])
    assert 10 < count < 40
    answered = -(-60 // (1 + count)) - 1
    codes = [ask(watched).status_code for _ in range(answered + 1)]
    assert codes == [200] * answered + [429]
