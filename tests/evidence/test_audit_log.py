"""An audit and the doctor compare posts, bots and wallets with the log: they report manual changes,
and no false differences.
"""

import itertools
from types import SimpleNamespace

import orjson
import pytest
from auditing import ask_service, audit_log, edit, find_first, make_auditor, show_early
from node import FakeNode
from service import hide_post, inspect
from story import ADA, Story
from test_attachments import A, B, C, D, E

from accounts import departures, influencers, posts, wallets
from evidence import audited_log, log
from evidence.audited_log import Part
from evidence.document import append_digest
from evidence.leaves import Held
from evidence.memory import Memory
from evidence.notes import Checkpoint
from market.failures import FetchError
from models import Attachment, Bot, Post, Wallet
from operate import inspection
from storage import writing
from storage.log import append_leaf, open_log

NOW = 1_800_000_000_000
COUNT = 260


def tell(settings):
    """Ada's 260 posts, of which one is hidden, a retired bot, and one with a wallet: a full tile of
    256 leaves, and 11 more.
    """
    made = influencers.create_bot(settings, "Ada", NOW)
    other = influencers.create_bot(settings, "Bo", NOW, owner=made.owner).bot
    influencers.retire_bot(other, NOW + 1)
    influencers.create_bot(settings, "Holder", NOW, A)
    for n in range(COUNT):
        publish(made.bot.id, f"e{n}")
    hide_post(find_uid("e7"), NOW + 2)


def publish(bot, event):
    body = posts.PostBody(eventId=event, body=f"word {event}", symbol="BONK", reason="thin")
    posts.publish(bot, body, NOW, "api")


@pytest.fixture
def told(serve):
    return serve(tell, evidence_per_minute=10**6)


def find(service):
    """The doctor's findings, in order: [(table, field or text), ...]"""
    found = inspect(service.config, inspection.check_log)
    return [(one.table, one.field or one.what) for one in found]


def fields(report):
    return {one.field for one in report.differences}


def find_uid(event):
    return Post.get(Post.event_id == event).uid


def replace(service, start, answer, ask=None):
    """A service's client that returns answer(body) for addresses with this prefix, or an error if
    `answer` is None.
    """
    ask = ask or ask_service(service)

    def asked(path):
        if not path.startswith(start):
            return ask(path)
        if answer is None:
            raise FetchError("returned HTTP 404", status=404)
        return answer(ask(path))

    return asked


def reword(change):
    """An answer for `replace`: change(parsed body) edits it."""

    def answer(body):
        said = orjson.loads(body)
        change(said)
        return orjson.dumps(said)

    return answer


def act_during(service, act, times=1, part="evidence.json"):
    """A service's client that calls act(n) after each of the first reads of such an address."""
    ask, left = ask_service(service), list(range(times))

    def asked(path):
        answer = ask(path)
        if part in path and left:
            act(left.pop(0))
        return answer

    asked.left = left
    return asked


# ---- posts ---------------------------------------------------------------------------------------
def test_logged_posts_match_even_if_hidden_or_of_a_deleted_account(told):
    for _ in range(2):
        report = audit_log(told)
        assert (report.verdict, report.unknown, report.posts) == ("same", [], COUNT)
        departures.delete_owner(find_first().owner, NOW + 9)


@pytest.mark.parametrize("place", [0, COUNT])
def test_a_post_claimed_twice_is_named(told, place):
    """One line as logged, and one that says that a lie was verified."""

    def forge(shown):
        true = next(one for one in shown["posts"] if one["words"])
        lie = {**true, "status": "verified", "words": {**true["words"], "body": "a lie"}}
        shown["posts"].insert(place, lie)

    report = audit_log(told, ask=replace(told, f"/bots/{find_first().uid}", reword(forge)))
    assert report.verdict == "different" and "posts" in fields(report)


def log_verification(post, status):
    with writing():
        said = {"status": status, "statusReason": None, "eventAt": post.event_at}
        append_leaf("verification", NOW, post=post.uid, **said)


def set_status(post, status):
    Post.update(status=status).where(Post.id == post.id).execute()


@pytest.mark.parametrize(("is_shown", "field"), [(True, "status"), (False, "logged.status")])
def test_a_verification_logged_during_the_audit_must_be_shown(told, is_shown, field):
    """It was logged after the evidence, so that is read again. A bot without a wallet has none."""
    post = Post.get(Post.event_id == "e20")

    def verify(_):
        log_verification(post, "pending")
        if is_shown:
            set_status(post, "pending")

    report = audit_log(told, ask=act_during(told, verify))
    assert (report.posts, fields(report)) == (COUNT, {f"posts.{post.uid}.{field}"})


def test_a_constantly_changing_instance_is_judged_by_earlier_data(told):
    """Each read adds a leaf, which appears only in the next read."""
    waiting = [one.uid for one in Post.select().where(Post.hidden_at.is_null()).limit(9)]
    ask = act_during(told, lambda n: hide_post(waiting[n], NOW + 3), times=9)
    assert (audit_log(told, ask=ask).verdict, len(ask.left)) == ("same", 6)


def test_a_profile_changed_during_the_audit_is_not_a_difference(told):
    ask = act_during(told, lambda _: influencers.set_profile(find_first(), bio="a", now=NOW + 5))
    assert audit_log(told, ask=ask).verdict == "same" and not ask.left


def test_understating_the_log_size_first_hides_nothing(told):
    """All other leaves would be newer than the evidence, which lacks a post."""
    gone = find_uid("e20")

    def leave_out(said):
        said["posts"] = [line for line in said["posts"] if line["id"] != gone]

    lie = replace(told, f"/bots/{find_first().uid}", reword(leave_out), show_early(told))
    assert fields(audit_log(told, ask=lie)) == {f"posts.{gone}"}


def test_a_bot_missing_from_the_list_is_named(told):
    """Otto didn't post but had a wallet, so a leaf mentions him."""
    ada, otto = find_first().uid, told.make_bot("Otto", ADA).bot.uid
    told.make_bot("Quiet")

    def leave_out(said):
        said["bots"] = [one for one in said["bots"] if one["botId"] != otto]

    lie = replace(told, "/evidence.json", reword(leave_out))
    without_log = replace(told, "/log/", None)
    named = [(otto, "different")]
    for ask, missing in ((ask_service(told), []), (lie, named), (without_log, [])):
        reports = make_auditor(ask, reads_log=True).audit_unlisted([ada])
        assert [(one.bot, one.verdict) for one in reports] == missing


# ---- edits ---------------------------------------------------------------------------------------
def start_over():
    with writing():
        return open_log(NOW)


LEAF = """UPDATE log_leaf SET data = replace(data, 'BONK', 'x') || ' ' WHERE id =
    (SELECT leaf_id FROM post WHERE event_id = '{}')"""
ACTS = {
    "renew": lambda: log.renew_log("operator", NOW),
    "start over": start_over,
    "reword e20": "UPDATE post SET body = 'another' WHERE event_id = 'e20'",
    "edit leaf e20": LEAF.format("e20"),
    "edit leaf e259": LEAF.format("e259"),
    "drop a leaf": "DELETE FROM log_leaf WHERE id = (SELECT MAX(id) FROM log_leaf)",
    "edit a hash": lambda: edit("UPDATE log_node SET hash = ?", bytes(32)),
}


def do(acts):
    for name in acts.split(", "):
        act = ACTS[name]
        act() if callable(act) else edit(act)


# And the field that names it. Leaf e20 is in a full tile. test_audit_lies.py has more edits.
EDITS = """
renew, reword e20       posts.e20.logged.words
start over, reword e20  posts.e20.logged.words
edit leaf e20           log
renew, edit leaf e259   log
edit a hash             log
""".strip().splitlines()


@pytest.mark.parametrize("line", EDITS)
def test_an_audit_names_each_edit(told, line):
    acts, named = line.split("  ", 1)
    named = named.strip().replace("e20", find_uid("e20"))
    do(acts)
    assert fields(audit_log(told)) == {named}


CHANGED = {"edit leaf e259": "FORK", "drop a leaf": "ROLLBACK", "edit leaf e259, renew": "FORK"}


@pytest.mark.parametrize(("acts", "word"), CHANGED.items())
def test_a_past_changed_between_two_audits_is_named(told, acts, word):
    memory = Memory(None)
    assert audit_log(told, memory=memory).verdict == "same"
    do(acts)
    (one,) = audit_log(told, memory=memory).differences
    assert one.field == "log" and one.theirs.startswith(word)


def test_a_new_log_that_names_none_leads_to_cannot_tell(told):
    memory = Memory(None)
    assert audit_log(told, memory=memory).verdict == "same"
    start_over()
    for known, why in ((memory, "NEW LOG"), (None, "the instance: its log does not continue log_")):
        report = audit_log(told, memory=known)
        assert (report.verdict, report.differences) == ("cannot_tell", [])
        assert why in report.unknown[0]


# ---- the doctor ----------------------------------------------------------------------------------
E9, BO = "UPDATE post SET {} WHERE event_id = 'e9'", "UPDATE bot SET {} WHERE name = 'Bo'"
STORED = """UPDATE log_leaf SET data = replace(data, '"{0}":"', '"{0}":"x') WHERE id = {1}"""
DELETED = ("post", "{e9} is in the log but not in the database")
HELD = ("attachment", "the period in which {holder} had it, or its proof, doesn't match the log")
HASH = "level 1, place 0: the hash doesn't match the leaves below it; one of them was changed"
WORDS, HASHED = ("post", "words"), ("log_node", HASH)
# Edits, and all differences found. A hash covers the first 256 leaves. The last leaf, 266, hid a
# post.
DOCTORED = [
    ([], []),
    ([E9.format("body = 'another word'")], [WORDS]),
    ([E9.format("salt = NULL")], [WORDS]),
    ([E9.format("status = 'verified'")], [("post", "status")]),
    ([E9.format("created_at = created_at - 1")], [("post", "createdAtMs")]),
    ([E9.format(f"hidden_at = {NOW}")], [("post", "hiddenAtMs")]),
    ([E9.format("leaf_id = NULL")], [("post", "logIndex")]),
    ([E9.format("uid = 'post_0'")], [("post", "logIndex"), DELETED]),
    (["UPDATE post SET hidden_at = NULL WHERE event_id = 'e7'"], [("post", "hiddenAtMs"), WORDS]),
    (["DELETE FROM arrival", "DELETE FROM post WHERE event_id = 'e9'"], [DELETED]),
    (["UPDATE attachment SET ownership = 'proven'"], [HELD]),
    (["UPDATE attachment SET attached_at = attached_at - 1"], [HELD]),
    (["UPDATE attachment SET detached_at = attached_at + 1"], [HELD]),
    (["DELETE FROM attachment"], [HELD]),
    ([BO.format("retired_at = retired_at + 1")], [("bot", "retiredAtMs")]),
    ([BO.format("retired_at = NULL")], [("bot", "retiredAtMs")]),
    ([BO.format("name = 'Eve'")], [("bot", "words")]),
    ([BO.format("created_at = 1")], [("bot", "createdAtMs")]),
    ([BO.format("owner_id = (SELECT MAX(id) FROM owner)")], [("bot", "owner")]),
    ([STORED.format("words", 100)], [HASHED, WORDS]),
    (
        [STORED.format("status", 100), "UPDATE post SET status = 'xnone' WHERE leaf_id = 100"],
        [HASHED],
    ),
    ([STORED.format("words", 260)], [WORDS]),
    (["DELETE FROM log_node"], [HASHED]),
    (
        ["UPDATE log_leaf SET data = '{' WHERE id = 260"],
        [("log_leaf", "leaf 260 can't be read"), ("post", "logIndex")],
    ),
    (["DELETE FROM log_leaf WHERE id = 266"], [("post", "hiddenAtMs")]),
]


@pytest.mark.parametrize(("edits", "expected"), DOCTORED)
def test_the_doctor_names_each_edit(told, edits, expected):
    names = {"holder": Bot.get(Bot.name == "Holder").uid, "e9": Post.get(Post.event_id == "e9").uid}
    for sql in edits:
        edit(sql)
    assert find(told) == [(table, what.format(**names)) for table, what in expected]


def test_a_missing_leaf_and_an_unlogged_post_are_named(told):
    one = Post.get(Post.event_id == "e9")
    unlogged = {"id": None, "uid": "post_x", "event_id": "x", "leaf_id": None}
    Post.create(**{**one.__data__, **unlogged})
    assert find(told) == [("post", "logIndex")]
    edit("DELETE FROM log_leaf WHERE id = 100")
    assert ("log_leaf", "leaf 100 is missing") in find(told)


def test_a_wallets_last_noted_leaf_is_compared_with_the_log(told):
    with writing():
        for number in range(2):
            append_digest(Wallet.get().id, A, f"{number}" * 64, NOW + number)
    assert find(told) == []
    last = log.find_log().size - 1
    edit("UPDATE logged_wallet SET leaf_id = leaf_id - 1")
    what = f"is leaf {last - 1}, but the last leaf of the log is {last}"
    assert find(told) == [("logged_wallet", what)]


def test_what_the_product_logs_is_not_a_difference(told):
    """A verification, a wallet that is detached and attached again, and a second log."""
    post = Post.get(Post.event_id == "e9")
    set_status(post, "not_found")
    log_verification(post, "not_found")
    holder = Bot.get(Bot.name == "Holder")
    wallets.detach_wallet(holder, NOW + 5)
    for later, how in ((5, "claimed"), (6, "proven")):
        wallets.attach_wallet(told.config, holder, A, NOW + later, how)
    start_over()
    publish(post.bot_id, "new")
    assert find(told) == []


@pytest.mark.parametrize(("count", "which"), [(1, 0), (2, 0), (2, 1)])
def test_a_deleted_row_of_a_log_is_named(service, count, which):
    for _ in range(count):
        start_over()
    one = log.list_logs()[which]
    edit("DELETE FROM log WHERE uid = ?", one.uid)
    assert ("log", f"leaf {one.first_leaf} opens {one.uid}, which is missing") in find(service)


def test_a_log_without_leaves_is_named(told):
    missing = ("log", f"{start_over()}: its first leaf is missing")
    for which in ("WHERE id = (SELECT MAX(id) FROM log_leaf)", ""):
        edit(f"DELETE FROM log_leaf {which}")
        assert missing in find(told)


# ---- reading the log -----------------------------------------------------------------------------
def test_truncated_tiles_are_named(told):
    for path, share in (("entries/000", 0), ("entries/000", 0.5), ("entries/000", 1), ("0/", 1)):
        cut = lambda body, share=share: body[: int(share * (len(body) - 1))]  # noqa: E731
        assert fields(audit_log(told, ask=replace(told, f"/log/tile/{path}", cut))) == {"log"}


def test_missing_and_invalid_data_is_not_blamed(told):
    """test_witness.py has more invalid data."""
    missing = dict.fromkeys(("", "checkpoint", "key", "tile/", "tile/entries/"))
    invalid = dict.fromkeys(("", "checkpoint", "key"), lambda _: b"no")
    for path, answer in (*missing.items(), *invalid.items()):
        report = audit_log(told, ask=replace(told, f"/log/{path}", answer))
        assert report.verdict == "cannot_tell" and "its log can't be read" in report.unknown[0]


def test_an_oversized_log_is_not_read(told, monkeypatch):
    monkeypatch.setattr(audited_log, "MAX_LEAVES", 100)
    report = audit_log(told)
    assert report.verdict == "cannot_tell" and "too many to" in report.unknown[0]


def test_leaves_are_fetched_once(told):
    memory, asked = Memory(None), []
    ask = replace(told, "/log/tile/entries/000", lambda body: asked.append(1) or body)
    for _ in range(2):
        assert audit_log(told, memory=memory, ask=ask).verdict == "same"
        assert asked == [1]


def test_cached_lies_are_read_again(told):
    """An interrupted audit caches a bundle that nobody signed."""
    memory = Memory(None)
    lie = replace(told, "/log/tile/entries/000", lambda bundle: bundle.replace(b"post", b"tsop"))
    assert fields(audit_log(told, memory=memory, ask=lie)) == {"log"}
    assert audit_log(told, memory=memory).verdict == "same"


# ---- of which log --------------------------------------------------------------------------------
def test_cached_leaves_count_if_from_the_same_log(monkeypatch):
    monkeypatch.setattr(audited_log, "parse_note", lambda raw: SimpleNamespace(text=raw.decode()))
    shown = Checkpoint("candor/log_a", 10, bytes(32))
    more, fewer = shown._replace(size=12), shown._replace(size=9)
    # A different log, from before a restore, says nothing about this one.
    other = more._replace(origin="candor/log_b")
    for seen, counted in ((more, more), (fewer, shown), (other, shown), (None, shown)):
        instance = SimpleNamespace(read_log=lambda path: shown.write().encode())
        cached = seen and SimpleNamespace(checkpoint=seen)
        memory = SimpleNamespace(find_seen=lambda cached=cached: cached)
        assert audited_log.LogAudit(instance, memory, print).measure() == counted


def test_a_post_is_compared_with_the_log_containing_it():
    parts = [Part("candor/log_old", 0, 5), Part("candor/log_a", 5, 10)]
    read = audited_log.LogAudit(None, None, print, parts=parts)
    newer = "are newer than its log's checkpoint"
    for uid, index, place, excuse in (
        ("log_a", 9, 14, None),
        ("log_a", 10, 15, newer),
        ("log_old", 5, 5, None),
        ("log_b", 9, None, "are in log_b, which it doesn't serve"),
        (None, 9, None, None),
        ("log_a", None, None, None),
    ):
        assert read.find_place(uid, index) == place
        assert read.excuse(SimpleNamespace(log=uid, logIndex=index)) == excuse


# ---- attachments ---------------------------------------------------------------------------------
@pytest.fixture
def moved(serve):
    """A bot that proved A, added B and C, replaced them by D, and added B again."""
    service = serve(evidence_per_minute=10**6, max_wallet_changes_per_day=99)
    bot = service.make_bot("Ada", A).bot
    wallets.attach_wallet(service.config, bot, A, NOW + 1, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 2)
    wallets.add_wallet(service.config, bot, C, NOW + 3)
    wallets.remove_wallet(bot, A, NOW + 4)
    wallets.remove_wallet(bot, B, NOW + 5)
    wallets.attach_wallet(service.config, bot, D, NOW + 6, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 7)
    return service


def audit_moves(service, **more):
    return fields(audit_log(service, FakeNode(Story().chain()), **more))


def held_fields(service, **more):
    return {one for one in audit_moves(service, **more) if one.startswith("held.")}


def test_attachments_match_the_log(moved):
    for _ in range(2):
        assert not audit_moves(moved)
        influencers.retire_bot(find_first(), NOW + 8)


def test_a_concealed_attachment_is_named_even_when_the_log_size_was_understated(moved):
    Attachment.delete().where(Attachment.attached_at == NOW + 7).execute()
    for ask in (ask_service(moved), show_early(moved)):
        assert f"held.{B}" in held_fields(moved, ask=ask)


def test_earlier_logs_are_compared_too(moved):
    """All its attachments began before the new log started."""
    log.renew_log("operator", NOW + 8)
    wallets.add_wallet(moved.config, find_first(), E, NOW + 9)
    wallets.remove_wallet(find_first(), B, NOW + 10)
    assert not audit_moves(moved)
    Attachment.update(attached_at=NOW + 1).where(Attachment.attached_at == NOW + 2).execute()
    assert held_fields(moved) == {f"held.{B}"}


def test_an_unlogged_attachment_is_named(moved):
    wallet = Wallet.create(address=A[::-1], bot=find_first(), created_at=NOW)
    Attachment.create(bot=find_first(), wallet=wallet, attached_at=NOW - 2, detached_at=NOW - 1)
    assert held_fields(moved) == {f"held.{A[::-1]}"}


def test_a_period_covers_its_beginning_but_not_its_end():
    """A season counts wallets that a bot had when it started."""
    periods = itertools.product((None, 4, 5, 6), (None, 5, 6))
    covered = [period for period in periods if Held("claimed", *period).covers(5)]
    assert covered == [(4, None), (4, 6), (5, None), (5, 6)]


def test_changes_during_the_audit_are_not_differences(moved):
    def move(_):
        wallets.remove_wallet(find_first(), B, NOW + 9)
        wallets.add_wallet(moved.config, find_first(), B, NOW + 10)

    ask = act_during(moved, move, times=2, part="wallet=")
    assert not audit_moves(moved, ask=ask) and not ask.left
