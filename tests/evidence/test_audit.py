"""An audit reports every change, and no false differences when the auditor's node lacks data."""

import contextlib
import hashlib
import itertools
import json
from copy import deepcopy
from unittest import mock

import ground
import orjson
import pytest
import sampling
import story
from auditing import ask_service, audit, change_coverage, find_first, make_auditor
from damage import at
from lookout import BEGIN, Lookout
from node import Chain, FakeNode
from service import address, signature
from story import ADA
from test_lies import skim

from accounts import posts, wallets
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
from models import Post, Trade, Wallet, WalletSignature
from observer import Observer
from observing import rebuilding

# Each test starts with a copy of one file. tests/evidence/test_evidence.py uses both engines.
pytestmark = ground.sqlite_only


def fill(settings):
    """An instance that observed ada through an honest node; she posts about a sale."""
    seen = Lookout.begin(settings, FakeNode(story.market()), wallets=[ADA]).settle()
    sale = Trade.get(Trade.kind == "sell")
    body = posts.PostBody(eventId="e", body="Sold", signature=sale.signature)
    posts.publish(find_first().id, body, seen.now, "api")


@pytest.fixture
def watched(serve):
    """The application with a copy of it."""
    return serve(fill, evidence_per_minute=10**6)


@pytest.fixture
def audited(watched, chain):
    """audited(node, ...) -> the Report on the bot, by default with an honest node"""
    return lambda node=None, **more: audit(watched, node or FakeNode(chain), **more)


def named(report):
    return {(one.signature, one.field) for one in report.differences}


def test_an_untouched_instance_is_the_same(audited):
    report = audited()
    assert (report.verdict, report.unknown, report.notes) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 30 and report.posts == 1


# ---- what the database was edited to -------------------------------------------------------------
def test_one_extra_lamport_is_named_by_signature_and_field(audited):
    row = Trade.select().order_by(Trade.id.desc()).first()
    Trade.update(fee=row.fee + 1).where(Trade.id == row.id).execute()
    report = audited()
    assert report.verdict == "different"
    assert report.differences == [(row.signature, "feeLamports", str(row.fee + 1), str(row.fee))]


def test_receipts_omitted_with_all_traces_are_named(audited, chain):
    """The operator never listed one: the operator's own sums reconcile without it. Coverage still
    begins and ends with the slots of the others, so age is no excuse.
    """
    coverage = orjson.loads(Wallet.get().coverage)
    quiet = next(row for row in chain.touching(ADA) if row not in chain.moving(ADA))
    first, *_, last = Trade.select().order_by(Trade.slot, Trade.place)
    assert (first.slot, last.slot) == (coverage["firstSlot"], coverage["lastSlot"])
    for one, state in ((quiet, "complete"), (first, "partial"), (last, "partial")):
        change_coverage(state=state)
        for model in (Trade, WalletSignature):
            model.delete().where(model.signature == one.signature).execute()
        assert (one.signature, "receipt") in named(audited())


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


@pytest.mark.parametrize("state", ["complete", "partial"])
def test_a_concealed_gap_is_named(serve, chain, state):
    """No node has one of its transactions, so the balances don't join, but its coverage admits
    nothing.
    """
    lost = next(row for row in chain.moving(ADA)[5:] if ADA in row.keys)
    service, node = serve(), FakeNode(chain)
    node.withhold(lost.signature)
    seen = Lookout.begin(service.config, node, wallets=[ADA]).settle()
    gaps = [gap[:2] for gap in seen.gaps()]
    assert gaps and all(first <= lost.slot <= last for first, last in gaps)
    change_coverage(gaps=[], state=state)
    (told,) = [one for one in audit(service, node).differences if one.field == "coverage.gaps"]
    assert (told.signature, told.theirs) == (None, 0)
    assert told.ours in [f"a gap from slot {first} to {last}" for first, last in gaps]


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


# ---- forged documents ----------------------------------------------------------------------------
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


# By the field that names each: an unpublished span has a record, and a receipt is there twice.
FORGERIES = {
    "spans.1.forwardRealized": lambda told: unpublish(told).update(forwardRealized="9000000000"),
    "spans.1.totals.realized": lambda told: unpublish(told)["totals"].update(realized="9000000000"),
    "spans.1.runningTotal": lambda told: unpublish(told).update(runningTotal="0" * 64),
    "receipts": lambda told: told["receipts"].append(told["receipts"][0]),
}


@pytest.mark.parametrize("field", FORGERIES)
def test_a_forged_document_is_named_by_its_field(watched, audited, field):
    report = audited(ask=forge_document(ask_service(watched), FORGERIES[field]))
    assert report.verdict == "different" and (None, field) in named(report)


def test_a_new_span_claims_nothing(watched, audited):
    """Otto claims ada's wallet after its last publication."""
    later = BEGIN + 24 * 3_600_000
    bot = watched.make_bot("Otto").bot
    wallets.attach_wallet(watched.config, find_first(), address("other"), later)
    wallets.attach_wallet(watched.config, bot, ADA, later)
    told = watched.get(f"/bots/{bot.uid}/evidence.json").json
    assert told["wallet"]["spans"][1]["openPositions"] is None
    report = audited(bot=bot.uid)
    assert (report.verdict, report.differences) == ("same", [])


# ---- what is no difference -----------------------------------------------------------------------
class Circle(FakeNode):
    """Its list begins again instead of ending."""

    def _getSignaturesForAddress(self, address, config):
        config = {name: value for name, value in config.items() if name != "before"}
        return super()._getSignaturesForAddress(address, config)


def spoil(chain, act, *given):
    """A node with act(node, ...) applied to it."""
    node = FakeNode(chain)
    act(node, *given)
    return node


HARMLESS = {
    "later transactions": lambda chain: FakeNode(Chain([*chain.rows, deepcopy(chain.rows[-1])])),
    "a circular list": Circle,
    "no transaction indices": lambda chain: spoil(chain, FakeNode.hide_index, True),
    "indices only in blocks": lambda chain: spoil(chain, FakeNode.hide_index, False),
}


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_a_nodes_peculiarities_are_not_differences(audited, chain, make):
    assert audited(make(chain)).verdict == "same"


def check_doubt(report, side="your node: "):
    assert (report.verdict, report.count) == ("cannot_tell", 0), report.differences
    assert side in report.unknown[0]


def test_a_node_without_a_part_of_the_history_leads_to_cannot_tell(audited, chain):
    for slot in (chain.rows[number].slot for number in (5, 20, 38)):
        check_doubt(audited(spoil(chain, FakeNode.prune, slot)))
        check_doubt(audited(FakeNode(chain, tip=slot)))


def test_one_transaction_missing_at_the_node_is_not_a_difference(audited, chain):
    """One of them is cited by a post."""
    cited = Post.get().signature
    for name in [cited, *(row.signature for row in chain.touching(ADA)[::6])]:
        for hide in (FakeNode.withhold, FakeNode.drop):
            report = audited(spoil(chain, hide, name))
            check_doubt(report)
            assert (name == cited) == any("which post_" in one for one in report.unknown)


def test_forged_receipts_that_do_not_join_are_not_a_difference(audited, chain):
    for row in [row for row in chain.moving(ADA) if ADA in row.keys][1:20:5]:
        check_doubt(audited(spoil(chain, FakeNode.forge, row.signature, skim)), "")


@pytest.mark.parametrize("says_it_saw", [True, False])
def test_concealed_recent_transactions_are_noted(serve, chain, says_it_saw):
    """An instance's numbers end before ada's last five transactions, though it claims to have seen
    the wallet after them. Numbers are compared up to the last claimed transaction, so the verdict
    stays.
    """
    service, mine = serve(), chain.touching(ADA)
    Lookout.begin(service.config, FakeNode(chain, tip=mine[-6].slot), wallets=[ADA]).settle()
    expected = []
    if says_it_saw:
        last = show_time(mine[-1].receipt["blockTime"])
        change_coverage(observedTo=last, checkedAt=last)
        slots = f"slots {mine[-5].slot} to {mine[-1].slot}"
        expected = [f"{ADA}: 5 transactions, {slots}, aren't compared"]
    report = audit(service, FakeNode(chain))
    assert (report.verdict, report.unknown) == ("same", [])
    assert [note.partition(", because")[0] for note in report.notes] == expected


def test_a_node_that_fails_or_lists_without_end_ends_the_audit(audited, chain, monkeypatch):
    node = FakeNode(chain)
    for method in ("getSignaturesForAddress", "getTransaction"):
        node.fail(method)
    with pytest.raises(NodeTrouble, match="your node"):
        audited(node)
    monkeypatch.setattr(view, "MAX_SURPLUS", 2_000)
    monkeypatch.setattr(view, "MAX_MISSING", 20)
    names, node = map(signature, map(str, itertools.count())), FakeNode(chain)
    node._getSignaturesForAddress = lambda address, config: [
        {"signature": next(names), "slot": 10**6 - n} for n in range(1_000)
    ]
    with pytest.raises(NodeTrouble, match="lists more"):
        audited(node)


# ---- rules and programs --------------------------------------------------------------------------
def test_other_rules_lead_to_cannot_tell(watched, audited):
    ask = ask_service(watched)
    report = audited(ask=lambda path: orjson.dumps(orjson.loads(ask(path)) | {"reading": 1}))
    assert report.verdict == "cannot_tell" and "reading rules" in report.unknown[0]


def test_operator_additions_must_be_accepted(serve, chain):
    marker, added = address("marker"), f"id,name,family,source\n{address('mine')},Mine,swap,me\n"
    service = serve(extra_swap_programs=(marker,), added_programs=added)
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    refused = audit(service, FakeNode(chain))
    assert refused.verdict == "cannot_tell" and "--accept-programs" in refused.unknown[0]
    accepted = audit(service, FakeNode(chain), accepts=True)
    assert accepted.verdict == "same"
    assert "'Mine'" in accepted.notes[0] and marker in accepted.notes[1]
    assert audit(service, FakeNode(chain), own=table((marker,), added)).verdict == "same"


# ---- an instance that serves nonsense ------------------------------------------------------------
FORMAT = b'{"format": "candor-evidence/1"}'
INVALID = [b"", b"[" * 100_000, b"\xff\xfe", b'{"format": NaN}', FORMAT]
INVALID += b"no null [] {}".split()


def test_invalid_documents_are_reported_without_blame(chain):
    for body in INVALID:
        report = make_auditor(lambda path, body=body: body, FakeNode(chain)).audit("bot_x")
        assert (report.verdict, len(report.unknown)) == ("cannot_tell", 1), body[:50]


WRONG = (None, -1, "x", [], [None], {"a": 1}, True, "1" * 70_000)


def test_values_of_any_type_never_stop_an_audit(watched, audited):
    """Each member gets one wrong value, or every one in full runs."""
    values = itertools.cycle(WRONG)
    whole = orjson.loads(ask_service(watched)(f"/bots/{find_first().uid}/evidence.json"))
    for place in [(name,) for name in whole] + [("wallet", name) for name in whole["wallet"]]:
        for value in WRONG if sampling.FULL else [next(values)]:
            changed = deepcopy(whole)
            parent, name = at(changed, place)
            parent[name] = value
            body = orjson.dumps(changed)
            verdict = audited(ask=lambda path, body=body: body).verdict
            assert verdict in ("same", "different", "cannot_tell")


def test_a_down_or_busy_instance_is_retried():
    busy, waits = mock.Mock(side_effect=FetchError("returned HTTP 503", 5, 503)), []
    with pytest.raises(Nonsense, match="HTTP 503"):
        list(Instance("http://x", busy, waits.append).list_bots())
    assert busy.call_count == claims.MAX_TRIES and waits == [5] * (claims.MAX_TRIES - 1)


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
    with contextlib.closing(open_memory(path)) as kept:
        assert kept.path == path
    assert open_memory(path / "below a file").path is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_path("a", "b").parent == tmp_path / "candor"
    assert find_path("a", "b") != find_path("a", "c")


# ---- the command line ----------------------------------------------------------------------------
def test_the_exit_code_tells_the_verdict(watched, chain, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "nowhere"))
    auditor = make_auditor(ask_service(watched), FakeNode(chain))
    monkeypatch.setattr(command, "make_auditor", lambda *_: auditor)
    words = ["audit", "http://x", "--rpc", "http://node.invalid"]

    def run():
        code = parser.main([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    code, told = run()
    assert (code, told["verdict"], told["same"], told["different"]) == (0, "same", 1, 0)
    Trade.update(fee=Trade.fee + 1).execute()
    code, told = run()
    assert code == 1 and told["bots"][0]["differenceCount"] > 30
    assert parser.main(words) == 1
    assert "feeLamports" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()


def test_an_unusable_address_leaves_no_file(tmp_path, monkeypatch, capsys):
    for name in ("XDG_CACHE_HOME", "HOME", "DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    good = "http://127.0.0.1:1"
    for url, node, name in (("foo", good, "URL"), (good, "bar", "--rpc")):
        assert parser.main(["audit", url, "--rpc", node]) == 1
        assert capsys.readouterr().err == f"{name} must begin with http:// or https://\n"
    assert not list(tmp_path.rglob("audit-*"))
