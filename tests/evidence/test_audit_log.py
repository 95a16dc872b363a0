"""An audit compares posts with the log: it reports manual changes, and no false differences."""

import itertools
import shutil
from types import SimpleNamespace

import ground
import orjson
import pytest
from auditing import ask_service, audit_log, edit, make_auditor, show_early
from node import FakeNode
from service import Service, hide_post
from story import ADA, Story
from test_attachments import A, B, C, D, E

from accounts import departures, influencers, posts, wallets
from evidence import audited_log, log
from evidence.audited_log import Part
from evidence.memory import Memory
from evidence.notes import Checkpoint
from market.failures import FetchError
from models import Attachment, Bot, Post, Wallet
from storage import writing
from storage.log import append_leaf, open_log

NOW = 1_800_000_000_000
# With its opening and the bot's other leaves, more than a full bundle of 256.
COUNT = 270


def tell(folder):
    """A Service with a bot without a wallet, whose 8th post of 270 is hidden."""
    service = Service(folder, evidence_per_minute=10**6)
    made = influencers.create_bot(service.config, "Ada", NOW)
    for n in range(COUNT):
        body = posts.PostBody(eventId=f"e{n}", body=f"word {n}", symbol="BONK", reason="thin")
        posts.publish(made.bot.id, body, NOW, "api")
    hide_post(Post.get(Post.event_id == "e7").uid, NOW + 2)
    return service


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The folder of such an instance, which each test copies if its database is a file."""
    folder = tmp_path_factory.mktemp("template") / "data"
    if not ground.SERVER:
        tell(folder).close()
    return folder


@pytest.fixture
def told(tmp_path, template):
    folder = tmp_path / "data"
    if ground.SERVER:
        service = tell(folder)
    else:
        shutil.copytree(template, folder)
        service = Service(folder, evidence_per_minute=10**6)
    yield service
    service.close()


def fields(report):
    return {one.field for one in report.differences}


def find_uid(event):
    return Post.get(Post.event_id == event).uid


def test_logged_posts_match_even_if_hidden(told):
    report = audit_log(told)
    assert (report.verdict, report.unknown, report.posts) == ("same", [], COUNT)


def test_a_hidden_post_shows_neither_words_nor_salt(told):
    body = ask_service(told)(f"/bots/{Bot.get().uid}/evidence.json")
    hidden, shown = find_uid("e7"), find_uid("e8")
    lines = {one["id"]: one for one in orjson.loads(body)["posts"]}
    assert lines[hidden]["words"] is None and lines[hidden]["hiddenAtMs"] == NOW + 2
    assert lines[shown]["words"]["salt"] == Post.get(Post.uid == shown).salt
    assert lines[shown]["words"]["body"] == "word 8"
    # The log's opening is a leaf before the posts.
    assert lines[shown]["logIndex"] - lines[hidden]["logIndex"] == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_post_claimed_twice_is_named(told, is_first):
    """One line as logged, and one that says that a lie was verified."""
    asked = ask_service(told)

    def ask(path):
        body = asked(path)
        if not path.endswith("evidence.json"):
            return body
        shown = orjson.loads(body)
        true = next(one for one in shown["posts"] if one["words"])
        forged = {**true, "status": "verified", "words": {**true["words"], "body": "a lie"}}
        shown["posts"].insert(0 if is_first else len(shown["posts"]), forged)
        return orjson.dumps(shown)

    report = audit_log(told, ask=ask)
    assert report.verdict == "different" and "posts" in fields(report)


def test_a_hidden_post_that_is_shown_again_is_named(told):
    uid = find_uid("e7")
    edit("UPDATE post SET hidden_at = NULL, body = 'new' WHERE uid = ?", uid)
    expected = {f"posts.{uid}.logged.hiddenAtMs", f"posts.{uid}.logged.words"}
    assert fields(audit_log(told)) == expected


def move_while_read(told, event, is_shown):
    """An instance's client that logs a verification after the first read of its evidence;
    `is_shown`: and shows it from then on.
    """
    post, ask, moved = Post.get(Post.event_id == event), ask_service(told), []

    def restless(path):
        answer = ask(path)
        if "evidence.json" in path and not moved:
            moved.append(path)
            with writing():
                said = {"status": "pending", "statusReason": None, "eventAt": post.event_at}
                append_leaf("verification", NOW, post=post.uid, **said)
                if is_shown:
                    Post.update(status="pending").where(Post.id == post.id).execute()
        return answer

    return post.uid, restless


def test_a_verification_that_changes_during_the_audit_is_not_a_difference(told):
    """It was logged after the evidence, so that is read again; a bot without a wallet has none."""
    uid, ask = move_while_read(told, "e20", is_shown=True)
    report = audit_log(told, ask=ask)
    assert not any(".logged." in one for one in fields(report))
    assert report.posts == COUNT and fields(report) == {f"posts.{uid}.status"}


def test_a_logged_but_hidden_verification_is_named(told):
    uid, ask = move_while_read(told, "e20", is_shown=False)
    assert fields(audit_log(told, ask=ask)) == {f"posts.{uid}.logged.status"}


def test_a_constantly_changing_instance_is_judged_by_earlier_data(told):
    """Each read adds a leaf, which appears only in the next read."""
    ask, late = ask_service(told), []
    waiting = [one.uid for one in Post.select().where(Post.hidden_at.is_null()).limit(9)]

    def restless(path):
        if "evidence.json" not in path:
            return ask(path)
        answer = ask(path)
        hide_post(waiting.pop(), NOW + 3)
        late.append(path)
        return answer

    report = audit_log(told, ask=restless)
    assert (report.verdict, len(late)) == ("same", 3)


def test_understating_the_log_size_first_hides_nothing(told):
    """All other leaves would be newer than the evidence, which lacks a post."""
    gone, ask = find_uid("e20"), show_early(told)

    def lie(path):
        if "evidence.json" not in path:
            return ask(path)
        said = orjson.loads(ask(path))
        said["posts"] = [line for line in said["posts"] if line["id"] != gone]
        return orjson.dumps(said)

    report = audit_log(told, ask=lie)
    assert (report.verdict, fields(report)) == ("different", {f"posts.{gone}"})


def test_a_bot_missing_from_the_list_is_named(told):
    """Otto didn't post but had a wallet, so a leaf mentions him."""
    ada, otto = Bot.get().uid, told.make_bot("Otto", ADA).bot.uid
    told.make_bot("Quiet")

    def leave_out(body):
        said = orjson.loads(body)
        said["bots"] = [one for one in said["bots"] if one["botId"] != otto]
        return orjson.dumps(said)

    for ask, missing in (
        (ask_service(told), []),
        (replace(told, "/evidence.json", leave_out), [otto]),
        (replace(told, "/log/", None), []),
    ):
        auditor = make_auditor(ask, reads_log=True)
        reports = auditor.audit_unlisted([ada])
        assert [one.bot for one in reports] == missing
        assert all(one.verdict == "different" for one in reports)


# ---- the log itself ------------------------------------------------------------------------------
def edit_leaf(event):
    number = Post.get(Post.event_id == event).leaf_id
    edit("UPDATE log_leaf SET data = replace(data, 'BONK', 'x') || ' ' WHERE id = ?", number)


@pytest.mark.parametrize(("event", "is_renewed"), [("e20", False), ("e269", True)])
def test_an_edited_leaf_changes_the_root(told, event, is_renewed):
    """If its tile is full, or if another log continues this one."""
    if is_renewed:
        log.renew_log("operator", NOW)
    edit_leaf(event)
    assert fields(audit_log(told)) == {"log"}


def drop_last_leaf():
    edit("DELETE FROM log_leaf WHERE id = (SELECT MAX(id) FROM log_leaf)")


def edit_and_renew():
    edit_leaf("e269")
    log.renew_log("operator", NOW)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda: edit_leaf("e269"), "FORK"),
        (drop_last_leaf, "ROLLBACK"),
        (edit_and_renew, "FORK"),
    ],
)
def test_a_past_changed_between_two_audits_is_named(told, change, word):
    memory = Memory(None)
    assert audit_log(told, memory=memory).verdict == "same"
    change()
    ((one),) = audit_log(told, memory=memory).differences
    assert one.field == "log" and one.theirs.startswith(word)


def test_a_new_log_after_a_restore_leads_to_cannot_tell(told):
    memory = Memory(None)
    assert audit_log(told, memory=memory).verdict == "same"
    with writing():
        open_log(NOW)
    report = audit_log(told, memory=memory)
    assert report.verdict == "cannot_tell" and "NEW LOG" in report.unknown[0]
    first = audit_log(told)
    (why,) = first.unknown
    assert first.verdict == "cannot_tell" and first.differences == []
    assert why.startswith("the instance: its log does not continue log_")


def test_text_is_compared_with_an_earlier_unnamed_log(told):
    uid = find_uid("e20")
    with writing():
        open_log(NOW)
    edit("UPDATE post SET body = 'another' WHERE uid = ?", uid)
    assert fields(audit_log(told)) == {f"posts.{uid}.logged.words"}


def test_a_profile_changed_during_the_audit_is_not_a_difference(told):
    ask, left = ask_service(told), ["a"]

    def restless(path):
        answer = ask(path)
        if "evidence.json" in path and left:
            influencers.set_profile(Bot.get(), bio=left.pop(), now=NOW + 5)
        return answer

    assert audit_log(told, ask=restless).verdict == "same" and not left


def test_a_deleted_account_matches_the_log(told):
    departures.delete_owner(Bot.get().owner, NOW + 9)
    report = audit_log(told)
    assert (report.verdict, report.unknown) == ("same", [])


@pytest.mark.parametrize("at", [NOW - 5, None])
def test_an_edited_retirement_is_named(told, at):
    influencers.retire_bot(Bot.get(), NOW + 5)
    assert audit_log(told).verdict == "same"
    edit("UPDATE bot SET retired_at = ?", at)
    assert fields(audit_log(told)) == {"bot.logged.retiredAtMs"}


def replace(service, start, answer):
    """A service's client that returns this for addresses with the prefix `start`."""
    ask = ask_service(service)

    def asked(path):
        if not path.startswith(start):
            return ask(path)
        if answer is None:
            raise FetchError("returned HTTP 404", status=404)
        return answer(ask(path))

    return asked


@pytest.mark.parametrize(
    ("path", "cut"),
    [
        ("tile/entries/000", lambda body: body[:-1]),
        ("tile/entries/000", lambda body: b""),
        ("tile/entries/000", lambda body: body[: len(body) // 2]),
        ("tile/0/", lambda body: body[:-1]),
    ],
)
def test_truncated_tiles_are_named(told, path, cut):
    assert fields(audit_log(told, ask=replace(told, f"/log/{path}", cut))) == {"log"}


NONSENSE = (b"", b"no", b"\xff", b"a\n1\nx\n\n", b"[" * 100_000)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *itertools.product(("checkpoint", "key", ""), NONSENSE),
        *((path, None) for path in ("", "key", "tile/", "tile/entries/")),
    ],
)
def test_missing_and_invalid_data_is_not_blamed(told, path, body):
    answer = body if body is None else lambda _: body
    report = audit_log(told, ask=replace(told, f"/log/{path}", answer))
    assert report.verdict == "cannot_tell" and "its log can't be read" in report.unknown[0]


def test_an_oversized_log_is_not_read(told, monkeypatch):
    monkeypatch.setattr(audited_log, "MAX_LEAVES", 100)
    report = audit_log(told)
    assert report.verdict == "cannot_tell" and "too many to" in report.unknown[0]


def test_leaves_are_fetched_once(told):
    memory, asked, ask = Memory(None), [], ask_service(told)

    def counting(path):
        asked.append(path)
        return ask(path)

    assert audit_log(told, memory=memory, ask=counting).verdict == "same"
    assert [path for path in asked if path == "/log/tile/entries/000"] != []
    asked.clear()
    assert audit_log(told, memory=memory, ask=counting).verdict == "same"
    assert "/log/tile/entries/000" not in asked


def test_cached_lies_are_read_again(told):
    """An interrupted audit caches a bundle that nobody signed."""
    memory = Memory(None)

    def lie(bundle):
        return bundle.replace(b"post", b"tsop")

    audit_log(told, memory, replace(told, "/log/tile/entries/000", lie))
    assert audit_log(told, memory=memory).verdict == "same"


# ---- of which log --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("origin", "seen_size", "before"),
    [
        # The cached log had more leaves, so its content counts.
        ("candor/log_a", 12, 12),
        ("candor/log_a", 9, 10),
        # A different log, from before a restore, says nothing about this one.
        ("candor/log_b", 12, 10),
        (None, 0, 10),
    ],
)
def test_cached_leaves_count_if_from_the_same_log(monkeypatch, origin, seen_size, before):
    shown = Checkpoint("candor/log_a", 10, bytes(32))
    seen = origin and SimpleNamespace(checkpoint=Checkpoint(origin, seen_size, bytes(32)))
    monkeypatch.setattr(audited_log, "parse_note", lambda raw: SimpleNamespace(text=raw.decode()))
    log = audited_log.LogAudit(
        SimpleNamespace(read_log=lambda path: shown.write().encode()),
        SimpleNamespace(find_seen=lambda: seen),
        print,
    )
    measured = log.measure()
    assert (measured.origin, measured.size) == ("candor/log_a", before)


@pytest.mark.parametrize(
    ("log", "index", "place", "told"),
    [
        ("log_a", 9, 14, None),
        ("log_a", 10, 15, "are newer than its log's checkpoint"),
        ("log_old", 5, 5, None),
        ("log_b", 9, None, "are in log_b, which it doesn't serve"),
        (None, 9, None, None),
        ("log_a", None, None, None),
    ],
)
def test_a_post_is_compared_with_the_log_containing_it(log, index, place, told):
    parts = [Part("candor/log_old", 0, 5), Part("candor/log_a", 5, 10)]
    read, post = audited_log.LogAudit(None, None, print, parts=parts), SimpleNamespace()
    post.log, post.logIndex = log, index
    assert (read.find_place(log, index), read.excuse(post)) == (place, told)


# ---- attachments ---------------------------------------------------------------------------------
@pytest.fixture
def moved(tmp_path):
    """A bot that proved A, added B and C, replaced them by D, and added B again."""
    service = Service(tmp_path / "data", evidence_per_minute=10**6, max_wallet_changes_per_day=99)
    bot = service.make_bot("Ada", A).bot
    wallets.attach_wallet(service.config, bot, A, NOW + 1, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 2)
    wallets.add_wallet(service.config, bot, C, NOW + 3)
    wallets.remove_wallet(bot, A, NOW + 4)
    wallets.remove_wallet(bot, B, NOW + 5)
    wallets.attach_wallet(service.config, bot, D, NOW + 6, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 7)
    yield service
    service.close()


def audit_moves(service, **more):
    return audit_log(service, FakeNode(Story().chain()), **more)


def held_fields(report):
    return {one.field for one in report.differences if one.field.startswith("held.")}


def test_attachments_match_the_log(moved):
    assert audit_moves(moved).differences == []
    influencers.retire_bot(Bot.get(), NOW + 8)
    assert audit_moves(moved).differences == []


def test_a_concealed_attachment_is_named_even_when_the_log_size_was_understated(moved):
    Attachment.delete().where(Attachment.attached_at == NOW + 7).execute()
    for ask in (ask_service(moved), show_early(moved)):
        assert f"held.{B}" in held_fields(audit_moves(moved, ask=ask))


def test_earlier_logs_are_compared_too(moved):
    """All its attachments began before the new log started."""
    log.renew_log("operator", NOW + 8)
    wallets.add_wallet(moved.config, Bot.get(), E, NOW + 9)
    wallets.remove_wallet(Bot.get(), B, NOW + 10)
    assert audit_moves(moved).differences == []
    Attachment.update(attached_at=NOW + 1).where(Attachment.attached_at == NOW + 2).execute()
    assert held_fields(audit_moves(moved)) == {f"held.{B}"}


def test_an_unlogged_attachment_is_named(moved):
    wallet = Wallet.create(address=A[::-1], bot=Bot.get(), created_at=NOW)
    Attachment.create(bot=Bot.get(), wallet=wallet, attached_at=NOW - 2, detached_at=NOW - 1)
    assert held_fields(audit_moves(moved)) == {f"held.{A[::-1]}"}


def test_changes_during_the_audit_are_not_differences(moved):
    ask, left = ask_service(moved), ["a", "b"]

    def restless(path):
        if left and "wallet=" in path:
            left.pop()
            wallets.remove_wallet(Bot.get(), B, NOW + 9)
            wallets.add_wallet(moved.config, Bot.get(), B, NOW + 10)
        return ask(path)

    assert audit_moves(moved, ask=restless).differences == []
    assert not left
