"""An audit reports every change, and no false differences when the auditor's node lacks data."""

import copy
import hashlib
import itertools
import json
import shutil

import ground
import orjson
import pytest
import sampling
from auditing import ask_service, audit, make_auditor
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


def test_an_untouched_instance_is_the_same(watched, chain):
    report = audit(watched, FakeNode(chain))
    assert (report.verdict, report.unknown, report.notes) == ("same", [], [])
    assert report.receipts == Trade.select().count() > 30 and report.posts == 3


def test_one_extra_lamport_is_named_by_signature_and_field(watched, chain):
    row = Trade.select().order_by(Trade.id.desc()).first()
    Trade.update(fee=row.fee + 1).where(Trade.id == row.id).execute()
    report = audit(watched, FakeNode(chain))
    assert report.verdict == "different"
    assert report.differences == [
        (row.signature, "feeLamports", str(row.fee + 1), str(row.fee)),
    ]


def test_a_receipt_omitted_with_all_traces_is_named(watched, chain):
    """The operator never listed it: the operator's own sums reconcile without it, except for a
    hidden gap.
    """
    quiet = next(row for row in chain.touching(ADA) if row not in chain.moving(ADA))
    Trade.delete().where(Trade.signature == quiet.signature).execute()
    WalletSignature.delete().where(WalletSignature.signature == quiet.signature).execute()
    report = audit(watched, FakeNode(chain))
    assert (quiet.signature, "receipt") in named(report)


@pytest.mark.parametrize("place", [0, -1], ids=["the first", "the last"])
def test_omissions_at_either_end_are_named(watched, chain, place):
    """Coverage still begins and ends with these slots, so neither a too old nor a too new
    transaction is an excuse.
    """
    coverage = change_coverage(state="partial")
    quiet = list(Trade.select().order_by(Trade.slot, Trade.place))[place]
    assert quiet.slot == coverage["lastSlot" if place else "firstSlot"]
    Post.update(trade=None, status="none").execute()
    Trade.delete().where(Trade.id == quiet.id).execute()
    assert (quiet.signature, "receipt") in named(audit(watched, FakeNode(chain)))


def test_balances_disprove_an_invented_trade(watched, chain):
    first = Trade.select().where(Trade.kind == "sell").order_by(Trade.id).first()
    columns = {name: getattr(first, name) for name in Trade._meta.fields if name != "id"}
    columns |= {"uid": "trade_made", "signature": signature("made"), "sol_change": 5 * 10**9}
    Trade.create(**columns)
    report = audit(watched, FakeNode(chain))
    assert (signature("made"), "signature") in named(report)
    # A node without the earlier history proves nothing.
    pruned = FakeNode(chain)
    pruned.prune(chain.rows[20].slot)
    report = audit(watched, pruned)
    assert report.verdict == "cannot_tell"


def test_an_overstated_coverage_is_named(watched, chain):
    change_coverage(receipts=7)
    assert named(audit(watched, FakeNode(chain))) == {(None, "coverage.receipts")}


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


def test_a_history_with_gaps_is_not_complete(watched, chain):
    """Its coverage admits a gap but still says complete."""
    gap = {"fromSlot": 1, "toSlot": 2, "reason": "x"}
    before = orjson.loads(Wallet.get().coverage)
    assert (before["state"], before["gaps"]) == ("complete", [])
    change_coverage(gaps=[gap])
    assert (None, "coverage.state") in named(audit(watched, FakeNode(chain)))


@pytest.mark.parametrize(
    ("was", "changes"),
    [
        ("verified", {"status": "mismatch", "status_reason": "failed"}),
        ("mismatch", {"status": "verified", "status_reason": None}),
        ("none", {"status": "verified"}),
    ],
)
def test_an_edited_verification_is_named(watched, chain, was, changes):
    post = Post.get(Post.status == was)
    Post.update(**changes).where(Post.id == post.id).execute()
    report = audit(watched, FakeNode(chain))
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


def test_a_receipt_claimed_twice_is_named(watched, chain):
    ask = forge_document(
        ask_service(watched), lambda told: told["receipts"].append(told["receipts"][0])
    )
    report = make_auditor(ask, FakeNode(chain)).audit(Bot.get().uid)
    assert (report.verdict, named(report)) == ("different", {(None, "receipts")})


@pytest.mark.parametrize(
    "changes",
    [
        *({"forwardRealized": "9000000000"}, {"totals": {"realized": "9000000000"}}),
        {"runningTotal": "0" * 64},
    ],
)
def test_a_forged_record_is_found_even_when_marked_unpublished(watched, chain, changes):
    """A span that wasn't published since it began has null there and nothing else."""

    def change(told):
        (span,) = told["wallet"]["spans"]
        totals = span["totals"] | changes.get("totals", {})
        span |= {"openPositions": None, **changes, "totals": totals}

    ask = forge_document(ask_service(watched), change)
    report = make_auditor(ask, FakeNode(chain)).audit(Bot.get().uid)
    assert report.verdict == "different"
    (name,) = changes
    field = "totals.realized" if name == "totals" else name
    assert (None, f"spans.1.{field}") in named(report)


@pytest.mark.parametrize(("minutes", "verdict"), [(9, "same"), (11, "cannot_tell")])
def test_a_transaction_cannot_be_seen_long_before_it_happened(watched, chain, minutes, verdict):
    """A transaction counts in the forward record from when it was seen, if that is before its block
    time. An instance could use this to move a loss before the attachment.
    """
    sale = Trade.get(Trade.kind == "sell", Trade.result.is_null(False))
    seen_at = sale.block_time * 1000 - minutes * 60_000
    mine = WalletSignature.signature == sale.signature
    WalletSignature.update(seen_at=seen_at).where(mine).execute()
    rebuilding.rebuild(Observer(watched.config).state, [Wallet.get()], BEGIN)
    report = audit(watched, FakeNode(chain))
    assert (report.verdict, report.count) == (verdict, 0)
    assert len(report.unknown) == (verdict == "cannot_tell")


def test_a_new_span_claims_nothing(watched, chain):
    """Otto claims ada's wallet after its last publication."""
    later = BEGIN + 24 * 3_600_000
    bot = watched.make_bot("Otto").bot
    wallets.attach_wallet(watched.config, Bot.get(), address("other"), later)
    wallets.attach_wallet(watched.config, bot, ADA, later)
    told = watched.get(f"/bots/{bot.uid}/evidence.json").json
    assert told["wallet"]["spans"][1]["openPositions"] is None
    report = make_auditor(ask_service(watched), FakeNode(chain)).audit(bot.uid)
    assert (report.verdict, report.differences) == ("same", [])


# ---- what is no difference -----------------------------------------------------------------------
@pytest.mark.parametrize("row", [5, 20, 38])
@pytest.mark.parametrize("lacks", ["earlier", "later"])
def test_a_node_without_a_part_of_the_history_leads_to_cannot_tell(watched, chain, row, lacks):
    slot = chain.rows[row].slot
    node = FakeNode(chain, tip=slot if lacks == "later" else None)
    if lacks == "earlier":
        node.prune(slot)
    report = audit(watched, node)
    assert (report.verdict, report.count) == ("cannot_tell", 0)
    assert "your node: " in report.unknown[0]


def test_later_transactions_are_not_differences(watched, chain):
    later = Chain([*chain.rows, copy.deepcopy(chain.rows[-1])])
    assert audit(watched, FakeNode(later)).verdict == "same"


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


def test_one_transaction_missing_at_the_node_is_not_a_difference(watched, chain):
    for row in chain.touching(ADA)[::6]:
        for hide in ("withhold", "drop"):
            node = FakeNode(chain)
            getattr(node, hide)(row.signature)
            report = audit(watched, node)
            assert report.verdict == "cannot_tell" and report.count == 0, (hide, row.signature)


def test_forged_receipts_that_do_not_join_are_not_a_difference(watched, chain):
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
        report = audit(watched, node)
        assert report.verdict == "cannot_tell" and report.count == 0, report.differences


def test_a_node_without_transaction_indices_is_not_a_difference(watched, chain):
    for blocks in (True, False):
        node = FakeNode(chain)
        node.hide_index(blocks)
        assert audit(watched, node).count == 0


def test_a_node_that_fails_ends_the_audit(watched, chain):
    node = FakeNode(chain)
    for method in ("getSignaturesForAddress", "getTransaction"):
        node.fail(method)
    with pytest.raises(NodeTrouble, match="your node"):
        audit(watched, node)


def test_an_endless_node_list_ends_the_audit(watched, chain, monkeypatch):
    monkeypatch.setattr(view, "MAX_SURPLUS", 2_000)
    monkeypatch.setattr(view, "MAX_MISSING", 20)
    count = iter(range(10**9))

    class Endless(FakeNode):
        def _getSignaturesForAddress(self, address, config):
            return [
                {"signature": signature(f"no {next(count)}"), "slot": 10**6 - n}
                for n in range(1_000)
            ]

    with pytest.raises(NodeTrouble, match="lists more"):
        audit(watched, Endless(chain))


def test_a_circular_node_list_is_read_to_its_end(watched, chain):
    class Circle(FakeNode):
        def _getSignaturesForAddress(self, address, config):
            return super()._getSignaturesForAddress(
                address, {name: value for name, value in config.items() if name != "before"}
            )

    assert audit(watched, Circle(chain)).verdict == "same"


# ---- rules and programs --------------------------------------------------------------------------
def test_other_rules_lead_to_cannot_tell(watched, chain):
    path = f"/bots/{Bot.get().uid}/evidence.json"
    ask = ask_service(watched)

    def other(asked):
        body = ask(asked)
        return orjson.dumps(orjson.loads(body) | {"reading": 1}) if asked == path else body

    report = make_auditor(other, FakeNode(chain)).audit(Bot.get().uid)
    assert report.verdict == "cannot_tell" and "reading rules" in report.unknown[0]


def test_operator_additions_must_be_accepted(tmp_path, chain):
    marker = address("marker")
    service = Service(
        tmp_path / "data",
        extra_swap_programs=(marker,),
        added_programs=f"id,name,family,source\n{address('mine')},Mine,swap,me\n",
    )
    Lookout.begin(service.config, FakeNode(chain), wallets=[ADA]).settle()
    refused = audit(service, FakeNode(chain))
    assert refused.verdict == "cannot_tell" and "--accept-programs" in refused.unknown[0]
    accepted = audit(service, FakeNode(chain), accepts=True)
    assert accepted.verdict == "same"
    assert "'Mine'" in accepted.notes[0] and marker in accepted.notes[1]
    own = table((marker,), f"id,name,family,source\n{address('mine')},Mine,swap,me\n")
    assert audit(service, FakeNode(chain), own=own).verdict == "same"
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


def test_values_of_any_type_never_stop_an_audit(watched, chain):
    """Each member gets one wrong value, or every one in full runs."""
    values = itertools.cycle(WRONG)
    ask = ask_service(watched)
    path = f"/bots/{Bot.get().uid}/evidence.json"
    whole = orjson.loads(ask(path))
    for place in [(name,) for name in whole] + [("wallet", name) for name in whole["wallet"]]:
        for value in WRONG if sampling.FULL else [next(values)]:
            changed = copy.deepcopy(whole)
            at = changed
            for step in place[:-1]:
                at = at[step]
            at[place[-1]] = value
            body = orjson.dumps(changed)
            auditor = make_auditor(lambda path, body=body: body, FakeNode(chain))
            assert auditor.audit(Bot.get().uid).verdict in ("same", "different", "cannot_tell")


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


def test_a_changed_page_is_read_again(watched, chain, monkeypatch):
    monkeypatch.setattr(lines, "PAGE_SIZE", 10)
    ask, changed = ask_service(watched), []

    def restless(path):
        if "digest" in path and not changed:
            changed.append(path)
            raise FetchError("returned HTTP 404", status=404)
        return ask(path)

    report = make_auditor(restless, FakeNode(chain)).audit(Bot.get().uid)
    assert (report.verdict, len(changed)) == ("same", 1)


# ---- going on where it stopped -------------------------------------------------------------------
def test_an_audit_resumes_where_it_stopped(watched, chain, tmp_path):
    path, node = tmp_path / "cache" / "audit.db", FakeNode(chain)
    kept = open_memory(path)
    assert audit(watched, node, memory=kept).verdict == "same"
    kept.close()
    asked = node.calls["getTransaction"]
    assert asked >= 40
    again = open_memory(path)
    assert audit(watched, node, memory=again).verdict == "same"
    assert node.calls["getTransaction"] == asked
    again.close()


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
