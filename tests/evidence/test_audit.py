"""An audit reports every change, and no false differences when the auditor's node lacks data."""

import contextlib
import hashlib
import itertools
import json
import shutil
from copy import deepcopy

import ground
import orjson
import pytest
import sampling
from auditing import ask_service, audit, make_auditor
from damage import at
from lookout import BEGIN, Lookout
from node import Chain, FakeNode
from service import Service, address, signature
from story import ADA

from accounts import wallets
from chain.reading.programs import table
from chain.stored.derived import show_time
from cli import evidence as command
from cli import parser
from evidence import claims, lines, view
from evidence.claims import Instance, Nonsense
from evidence.document import digest_claims
from evidence.memory import find_path, open_memory
from evidence.view import NodeTrouble
from market.failures import FetchError
from models import Bot, Post, Trade, Wallet, WalletSignature
from observer import Observer
from observing import rebuilding

# Each test starts with a copy of one file. tests/evidence/test_evidence.py uses both engines.
pytestmark = ground.sqlite_only


@pytest.fixture(scope="module")
def template(tmp_path_factory, chain):
    """The folder of an instance that observed ada through an honest node, with three posts."""
    folder = tmp_path_factory.mktemp("template") / "data"
    service = Service(folder)
    lookout = Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    sale = Trade.get(Trade.kind == "sell", Trade.result.is_null(False))
    other = Trade.get(Trade.kind == "transfer_in")
    for number, trade in enumerate((sale, other)):
        say(number, trade.signature)
    say(2, None)
    lookout.look(2)
    assert {post.status for post in Post.select()} == {"verified", "mismatch", "none"}
    service.close()
    return folder


@pytest.fixture
def watched(tmp_path, template):
    """The application with a copy of it."""
    shutil.copytree(template, tmp_path / "data")
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    yield service
    service.close()


@pytest.fixture
def audited(watched, chain):
    """audited(node, ...) -> the Report on the bot, by default with an honest node"""
    return lambda node=None, **more: audit(watched, node or FakeNode(chain), **more)


def say(number, signed):
    bot = Bot.get()
    Post.create(
        uid=f"post_{number:024}",
        bot=bot,
        source="bot",
        channel="api",
        event_id=f"e{number}",
        body="Words",
        signature=signed,
        wallet=Wallet.get() if signed else None,
        claim=bool(signed),
        status="pending" if signed else "none",
        event_at=BEGIN,
        created_at=BEGIN,
    )


def change_coverage(**changes):
    coverage = orjson.loads(Wallet.get().coverage) | changes
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    return coverage


def named(report):
    return {(one.signature, one.field) for one in report.differences}


def test_an_untouched_instance_is_the_same(audited):
    report = audited()
    assert (report.verdict, report.unknown, report.notes) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 30 and report.posts == 3


def test_one_extra_lamport_is_named_by_signature_and_field(audited):
    row = Trade.select().order_by(Trade.id.desc()).first()
    Trade.update(fee=row.fee + 1).where(Trade.id == row.id).execute()
    report = audited()
    assert report.verdict == "different"
    assert report.differences == [(row.signature, "feeLamports", str(row.fee + 1), str(row.fee))]


def test_a_receipt_omitted_with_all_traces_is_named(audited, chain):
    """The operator never listed it: the operator's own sums reconcile without it."""
    quiet = next(row for row in chain.touching(ADA) if row not in chain.moving(ADA))
    for model in (Trade, WalletSignature):
        model.delete().where(model.signature == quiet.signature).execute()
    assert (quiet.signature, "receipt") in named(audited())


@pytest.mark.parametrize("place", [0, -1], ids=["the first", "the last"])
def test_omissions_at_either_end_are_named(audited, place):
    """Coverage still begins and ends with these slots, so age is no excuse."""
    coverage = change_coverage(state="partial")
    quiet = list(Trade.select().order_by(Trade.slot, Trade.place))[place]
    assert quiet.slot == coverage["lastSlot" if place else "firstSlot"]
    Post.update(trade=None, status="none").execute()
    Trade.delete().where(Trade.id == quiet.id).execute()
    assert (quiet.signature, "receipt") in named(audited())


def test_balances_disprove_an_invented_trade(audited, chain):
    first = Trade.select().where(Trade.kind == "sell").order_by(Trade.id).first()
    columns = {name: getattr(first, name) for name in Trade._meta.fields if name != "id"}
    columns |= {"uid": "trade_made", "signature": signature("made"), "sol_change": 5 * 10**9}
    Trade.create(**columns)
    assert (signature("made"), "signature") in named(audited())
    # A node without the earlier history proves nothing.
    pruned = FakeNode(chain)
    pruned.prune(chain.rows[20].slot)
    assert audited(pruned).verdict == "cannot_tell"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"receipts": 7}, {"coverage.receipts"}),
        # A history with gaps is not complete.
        ({"gaps": [{"fromSlot": 1, "toSlot": 2, "reason": "x"}]}, {"coverage.state"}),
    ],
)
def test_an_overstated_coverage_is_named(audited, changes, fields):
    before = orjson.loads(Wallet.get().coverage)
    assert (before["state"], before["gaps"]) == ("complete", [])
    change_coverage(**changes)
    found = {field for _, field in named(audited())}
    assert {field for field in found if not field.startswith("standings.")} == fields


@pytest.mark.parametrize("state", ["complete", "partial"])
def test_a_concealed_gap_is_named(tmp_path, chain, state):
    """No node has one of its transactions, so the balances don't join, but its coverage admits
    nothing.
    """
    lost = next(row for row in chain.moving(ADA)[5:] if ADA in row.keys)
    node = FakeNode(chain)
    node.withhold(lost.signature)
    service = Service(tmp_path / "data")
    Lookout.begin(service.config, node, wallets=[ADA]).settle()
    coverage = orjson.loads(Wallet.get().coverage)
    gaps = [(one["fromSlot"], one["toSlot"]) for one in coverage["gaps"]]
    assert gaps and all(first <= lost.slot <= last for first, last in gaps)
    change_coverage(gaps=[], state=state)
    told = [one for one in audit(service, node).differences if one.field == "coverage.gaps"]
    assert [(one.signature, one.theirs) for one in told] == [(None, 0)]
    assert told[0].ours in [f"a gap from slot {first} to {last}" for first, last in gaps]
    service.close()


@pytest.mark.parametrize(
    ("was", "changes"),
    [
        ("verified", {"status": "mismatch", "status_reason": "failed"}),
        ("mismatch", {"status": "verified", "status_reason": None}),
        ("none", {"status": "verified"}),
    ],
)
def test_an_edited_verification_is_named(audited, was, changes):
    post = Post.get(Post.status == was)
    Post.update(**changes).where(Post.id == post.id).execute()
    report = audited()
    assert report.verdict == "different"
    told = [one.field for one in report.differences if not one.field.startswith("pace")]
    assert told and all(one.startswith(f"posts.{post.uid}.") for one in told)


def forge_document(ask, change):
    """An Instance's client that changes a document, with a matching digest."""

    def answer(path):
        told = orjson.loads(ask(path))
        change(told)
        tail = orjson.dumps({"page": 1, "receipts": told["receipts"]})
        told["digest"] = digest_claims(told["wallet"], [hashlib.sha256(tail).hexdigest()])
        return orjson.dumps(told)

    return answer


def unpublish(told):
    """The span of a document, as if it weren't published since it began: null and nothing else."""
    (span,) = told["wallet"]["spans"]
    span["openPositions"] = None
    return span


# By the field that names each.
FORGERIES = {
    "spans.1.forwardRealized": lambda told: unpublish(told).update(forwardRealized="9000000000"),
    "spans.1.totals.realized": lambda told: unpublish(told)["totals"].update(realized="9000000000"),
    "spans.1.runningTotal": lambda told: unpublish(told).update(runningTotal="0" * 64),
}


@pytest.mark.parametrize("field", FORGERIES)
def test_a_forged_document_is_named_by_its_field(watched, audited, field):
    """A record is marked as unpublished."""
    report = audited(ask=forge_document(ask_service(watched), FORGERIES[field]))
    assert report.verdict == "different" and (None, field) in named(report)


def test_a_receipt_claimed_twice_is_named(watched, audited):
    ask = forge_document(
        ask_service(watched), lambda told: told["receipts"].append(told["receipts"][0])
    )
    report = audited(ask=ask)
    assert (report.verdict, named(report)) == ("different", {(None, "receipts")})


@pytest.mark.parametrize(("minutes", "verdict"), [(9, "same"), (11, "cannot_tell")])
def test_a_transaction_cannot_be_seen_long_before_it_happened(watched, audited, minutes, verdict):
    """A transaction counts in the forward record from when it was seen, if that is before its block
    time. An instance could use this to move a loss before the attachment.
    """
    sale = Trade.get(Trade.kind == "sell", Trade.result.is_null(False))
    seen_at = sale.block_time * 1000 - minutes * 60_000
    mine = WalletSignature.signature == sale.signature
    WalletSignature.update(seen_at=seen_at).where(mine).execute()
    rebuilding.rebuild(Observer(watched.config).state, [Wallet.get()], BEGIN)
    report = audited()
    assert (report.verdict, report.count) == (verdict, 0)
    assert len(report.unknown) == (verdict == "cannot_tell")


def test_a_new_span_claims_nothing(watched, audited):
    """Otto claims ada's wallet after its last publication."""
    later = BEGIN + 24 * 3_600_000
    bot = watched.make_bot("Otto").bot
    wallets.attach_wallet(watched.config, Bot.get(), address("other"), later)
    wallets.attach_wallet(watched.config, bot, ADA, later)
    told = watched.get(f"/bots/{bot.uid}/evidence.json").json
    assert told["wallet"]["spans"][1]["openPositions"] is None
    report = audited(bot=bot.uid)
    assert (report.verdict, report.differences) == ("same", [])


# ---- what is no difference -----------------------------------------------------------------------
@pytest.mark.parametrize("row", [5, 20, 38])
@pytest.mark.parametrize("lacks", ["earlier", "later"])
def test_a_node_without_a_part_of_the_history_leads_to_cannot_tell(audited, chain, row, lacks):
    slot = chain.rows[row].slot
    node = FakeNode(chain, tip=slot if lacks == "later" else None)
    if lacks == "earlier":
        node.prune(slot)
    report = audited(node)
    assert (report.verdict, report.count) == ("cannot_tell", 0)
    assert "your node: " in report.unknown[0]


class Circle(FakeNode):
    """Its list begins again instead of ending."""

    def _getSignaturesForAddress(self, address, config):
        config = {name: value for name, value in config.items() if name != "before"}
        return super()._getSignaturesForAddress(address, config)


def unindexed(chain, blocks):
    node = FakeNode(chain)
    node.hide_index(blocks)
    return node


HARMLESS = {
    "later transactions": lambda chain: FakeNode(Chain([*chain.rows, deepcopy(chain.rows[-1])])),
    "a circular list": Circle,
    "no transaction indices": lambda chain: unindexed(chain, True),
    "indices only in blocks": lambda chain: unindexed(chain, False),
}


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_a_nodes_peculiarities_are_not_differences(audited, chain, make):
    assert audited(make(chain)).verdict == "same"


@pytest.mark.parametrize("says_it_saw", [True, False])
def test_concealed_recent_transactions_are_noted(tmp_path, chain, says_it_saw):
    """An instance's numbers end before ada's last five transactions, though it claims to have seen
    the wallet after them. Numbers are compared up to the last claimed transaction, so the verdict
    stays.
    """
    mine = chain.touching(ADA)
    service = Service(tmp_path / "data")
    Lookout.begin(service.config, FakeNode(chain, tip=mine[-6].slot), wallets=[ADA]).settle()
    if says_it_saw:
        last = show_time(mine[-1].receipt["blockTime"])
        change_coverage(observedTo=last, checkedAt=last)
    report = audit(service, FakeNode(chain))
    assert (report.verdict, report.unknown) == ("same", [])
    assert len(report.notes) == says_it_saw
    if says_it_saw:
        slots = f"5 transactions, slots {mine[-5].slot} to {mine[-1].slot}, aren't compared"
        assert slots in report.notes[0]
    service.close()


def test_one_transaction_missing_at_the_node_is_not_a_difference(audited, chain):
    for row in chain.touching(ADA)[::6]:
        for hide in ("withhold", "drop"):
            node = FakeNode(chain)
            getattr(node, hide)(row.signature)
            report = audited(node)
            assert (report.verdict, report.count) == ("cannot_tell", 0), (hide, row.signature)


def test_forged_receipts_that_do_not_join_are_not_a_difference(audited, chain):
    def forge(receipt):
        """Ada has one lamport more, and the rich account one less: lamports are conserved, but
        nothing joins.
        """
        keys = [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]]
        after, own = receipt["meta"]["postBalances"], keys.index(ADA)
        rich = max((n for n in range(len(keys)) if n != own), key=after.__getitem__)
        after[own] += 1
        after[rich] -= 1

    for row in [row for row in chain.moving(ADA) if ADA in row.keys][1:20:5]:
        node = FakeNode(chain)
        node.forge(row.signature, forge)
        report = audited(node)
        assert (report.verdict, report.count) == ("cannot_tell", 0), report.differences


def test_a_node_that_fails_ends_the_audit(audited, chain):
    node = FakeNode(chain)
    for method in ("getSignaturesForAddress", "getTransaction"):
        node.fail(method)
    with pytest.raises(NodeTrouble, match="your node"):
        audited(node)


def test_an_endless_node_list_ends_the_audit(audited, chain, monkeypatch):
    monkeypatch.setattr(view, "MAX_SURPLUS", 2_000)
    monkeypatch.setattr(view, "MAX_MISSING", 20)
    names = map(signature, map(str, itertools.count()))

    class Endless(FakeNode):
        def _getSignaturesForAddress(self, address, config):
            return [{"signature": next(names), "slot": 10**6 - n} for n in range(1_000)]

    with pytest.raises(NodeTrouble, match="lists more"):
        audited(Endless(chain))


# ---- rules and programs --------------------------------------------------------------------------
def test_other_rules_lead_to_cannot_tell(watched, audited):
    ask = ask_service(watched)

    def other(path):
        is_document = path.endswith("evidence.json")
        return orjson.dumps(orjson.loads(ask(path)) | ({"reading": 1} if is_document else {}))

    report = audited(ask=other)
    assert report.verdict == "cannot_tell" and "reading rules" in report.unknown[0]


def test_operator_additions_must_be_accepted(tmp_path, chain):
    marker, added = address("marker"), f"id,name,family,source\n{address('mine')},Mine,swap,me\n"
    service = Service(tmp_path / "data", extra_swap_programs=(marker,), added_programs=added)
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    refused = audit(service, FakeNode(chain))
    assert refused.verdict == "cannot_tell" and "--accept-programs" in refused.unknown[0]
    accepted = audit(service, FakeNode(chain), accepts=True)
    assert accepted.verdict == "same"
    assert "'Mine'" in accepted.notes[0] and marker in accepted.notes[1]
    assert audit(service, FakeNode(chain), own=table((marker,), added)).verdict == "same"
    service.close()


# ---- an instance that serves nonsense ------------------------------------------------------------
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"no", b"null", b"[]", b"{}", b'{"format": "candor-evidence/1"}'),
        *(b"[" * 100_000, b"\xff\xfe", b'{"format": NaN}'),
    ],
)
def test_invalid_documents_are_reported_without_blame(body, chain):
    report = make_auditor(lambda path: body, FakeNode(chain)).audit("bot_x")
    assert report.verdict == "cannot_tell" and len(report.unknown) == 1


WRONG = (None, -1, "x", [], [None], {"a": 1}, True, "1" * 70_000)


def test_values_of_any_type_never_stop_an_audit(watched, audited):
    """Each member gets one wrong value, or every one in full runs."""
    values = itertools.cycle(WRONG)
    whole = orjson.loads(ask_service(watched)(f"/bots/{Bot.get().uid}/evidence.json"))
    for place in [(name,) for name in whole] + [("wallet", name) for name in whole["wallet"]]:
        for value in WRONG if sampling.FULL else [next(values)]:
            changed = deepcopy(whole)
            parent, name = at(changed, place)
            parent[name] = value
            body = orjson.dumps(changed)
            verdict = audited(ask=lambda path: body).verdict
            assert verdict in ("same", "different", "cannot_tell")


def test_a_down_or_busy_instance_is_retried(watched):
    asked = []

    def busy(path):
        asked.append(path)
        raise FetchError("returned HTTP 503", 5, 503)

    waits = []
    with pytest.raises(Nonsense, match="HTTP 503"):
        list(Instance("http://x", busy, waits.append).list_bots())
    assert len(asked) == claims.MAX_TRIES and waits == [5] * (claims.MAX_TRIES - 1)


def test_an_endless_bot_list_is_refused(monkeypatch):
    def endless(path):
        after = path.rpartition("=")[2] or "0"
        return orjson.dumps({"bots": [{"botId": "b"}], "next": str(int(after) + 1)})

    monkeypatch.setattr(claims, "MAX_BOTS", 50)
    with pytest.raises(Nonsense, match="never ends"):
        list(Instance("http://x", endless).list_bots())


def test_a_changed_page_is_read_again(watched, audited, monkeypatch):
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    ask, changed = ask_service(watched), []

    def restless(path):
        if "digest" in path and not changed:
            changed.append(path)
            raise FetchError("returned HTTP 404", status=404)
        return ask(path)

    assert (audited(ask=restless).verdict, len(changed)) == ("same", 1)


# ---- going on where it stopped -------------------------------------------------------------------
def test_an_audit_resumes_where_it_stopped(audited, chain, tmp_path):
    node, asked = FakeNode(chain), []
    for _ in range(2):
        with contextlib.closing(open_memory(tmp_path / "cache" / "audit.db")) as memory:
            assert audited(node, memory=memory).verdict == "same"
        asked.append(node.calls["getTransaction"])
    assert asked[0] == asked[1] >= 40


def test_a_damaged_cache_file_is_replaced_and_none_is_required(tmp_path, monkeypatch):
    path = tmp_path / "audit.db"
    path.write_bytes(b"no database at all" * 100)
    kept = open_memory(path)
    assert kept.path == path
    kept.close()
    assert open_memory(tmp_path / "audit.db" / "below a file").path is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_path("a", "b").parent == tmp_path / "candor"
    assert find_path("a", "b") != find_path("a", "c")


# ---- the command line ----------------------------------------------------------------------------
def test_the_exit_code_tells_the_verdict(watched, chain, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "nowhere"))
    ask = ask_service(watched)
    monkeypatch.setattr(
        command, "make_auditor", lambda config, args, kept: make_auditor(ask, FakeNode(chain))
    )
    words = ["audit", "http://x", "--rpc", "http://node.invalid", "--json"]
    assert parser.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["same"], told["different"]) == ("same", 1, 0)
    Trade.update(fee=Trade.fee + 1).execute()
    assert parser.main(words) == 1
    assert json.loads(capsys.readouterr().out)["bots"][0]["differenceCount"] > 30
    assert parser.main(words[:-1]) == 1
    assert "feeLamports" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("url", "node", "named"),
    [("foo", "http://127.0.0.1:1", "URL"), ("http://127.0.0.1:1", "bar", "--rpc")],
)
def test_an_unusable_address_leaves_no_file(tmp_path, monkeypatch, capsys, url, node, named):
    for name in ("XDG_CACHE_HOME", "HOME", "DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    assert parser.main(["audit", url, "--rpc", node]) == 1
    assert capsys.readouterr().err == f"{named} must begin with http:// or https://\n"
    assert not list(tmp_path.rglob("audit-*"))
