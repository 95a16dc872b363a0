"""`doctor --deep` reports changes that differ from the log: posts, wallets, leaves."""

import ground
import pytest
from auditing import edit
from service import hide_post, inspect

from accounts import influencers, posts, wallets
from evidence import log
from evidence.document import append_digest
from models import Post, Wallet
from operate import inspection
from storage import database, writing
from storage.log import append_leaf, open_log

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"


@pytest.fixture
def grown(settings):
    """The settings of an instance that `grow` filled, with its database open."""
    ground.copy_filled(settings, grow)
    with ground.opened(settings):
        yield settings


def grow(settings):
    """A bot with a wallet, a retired bot, a hidden post and 259 others: a full tile."""
    made = influencers.create_bot(settings, "Ada", NOW, WALLET)
    other = influencers.create_bot(settings, "Bo", NOW, owner=made.owner).bot
    influencers.retire_bot(other, NOW + 1)
    influencers.create_bot(settings, "Stranger", NOW)
    for n in range(260):
        publish(made.bot.id, f"e{n}")
    hide_post(Post.get(Post.event_id == "e7").uid, NOW + 2)


def publish(bot, event):
    body = posts.PostBody(eventId=event, body=f"word {event}", symbol="BONK", reason="thin")
    posts.publish(bot, body, NOW, "api")


def find(settings):
    """(table, field or text) of every difference, in order."""
    found = inspect(settings, inspection.check_log)
    return [(one.table, one.field or one.what) for one in found]


# ---- edits ---------------------------------------------------------------------------------------
E9, BO = "UPDATE post SET {} WHERE event_id = 'e9'", "UPDATE bot SET {} WHERE name = 'Bo'"
LEAF = """UPDATE log_leaf SET data = replace(data, '"{0}":"', '"{0}":"x') WHERE id = {1}"""
DELETED = ("post", "{e9} is in the log but not in the database")
HELD = ("attachment", "the period in which {ada} had it, or its proof, doesn't match the log")
HASH = "level 1, place 0: the hash doesn't match the leaves below it; one of them was changed"
WORDS, HASHED = ("post", "words"), ("log_node", HASH)
# Edits, and all differences found. A hash covers the first 256 leaves. The last leaf, 266, hid a
# post.
EDITS = [
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
    ([LEAF.format("words", 100)], [HASHED, WORDS]),
    (
        [LEAF.format("status", 100), "UPDATE post SET status = 'xnone' WHERE leaf_id = 100"],
        [HASHED],
    ),
    ([LEAF.format("words", 260)], [WORDS]),
    (["DELETE FROM log_node"], [HASHED]),
    (
        ["UPDATE log_leaf SET data = '{' WHERE id = 260"],
        [("log_leaf", "leaf 260 can't be read"), ("post", "logIndex")],
    ),
    (["DELETE FROM log_leaf WHERE id = 266"], [("post", "hiddenAtMs")]),
]


@pytest.mark.parametrize(("edits", "expected"), EDITS)
def test_each_edit_is_named(grown, edits, expected):
    names = {"ada": Post.get().bot.uid, "e9": Post.get(Post.event_id == "e9").uid}
    for sql in edits:
        edit(sql)
    assert find(grown) == [(table, what.format(**names)) for table, what in expected]


def test_a_missing_leaf_is_named(grown):
    edit("DELETE FROM log_leaf WHERE id = 100")
    assert ("log_leaf", "leaf 100 is missing") in find(grown)


def test_an_unlogged_post_is_named(grown):
    one = Post.get(Post.event_id == "e9")
    unlogged = {"id": None, "uid": "post_x", "event_id": "x", "leaf_id": None}
    Post.create(**{**one.__data__, **unlogged})
    assert find(grown) == [("post", "logIndex")]


def test_a_wallets_last_noted_leaf_is_compared_with_the_log(grown):
    with writing():
        for number in range(2):
            append_digest(Wallet.get().id, WALLET, f"{number}" * 64, NOW + number)
    assert find(grown) == []
    last = log.find_log().size - 1
    edit("UPDATE logged_wallet SET leaf_id = leaf_id - 1")
    told = f"is leaf {last - 1}, but the last leaf of the log is {last}"
    assert find(grown) == [("logged_wallet", told)]


def test_what_the_product_logs_is_not_a_difference(grown):
    """A verification, a wallet that is detached and attached again, and a second log."""
    post = Post.get(Post.event_id == "e9")
    with writing():
        Post.update(status="not_found").where(Post.id == post.id).execute()
        said = {"status": "not_found", "statusReason": None, "eventAt": post.event_at}
        append_leaf("verification", NOW, post=post.uid, **said)
    wallets.detach_wallet(post.bot, NOW + 5)
    wallets.attach_wallet(grown, post.bot, WALLET, NOW + 5, "claimed")
    wallets.attach_wallet(grown, post.bot, WALLET, NOW + 6, "proven")
    open_another()
    publish(post.bot_id, "new")
    assert find(grown) == []


# ---- several logs --------------------------------------------------------------------------------
def open_another():
    with writing():
        return open_log(NOW)


def check_deleted(settings, one):
    edit("DELETE FROM log WHERE uid = ?", one.uid)
    assert ("log", f"leaf {one.first_leaf} opens {one.uid}, which is missing") in find(settings)


@pytest.mark.parametrize("which", [0, 1])
def test_a_deleted_row_of_one_of_two_logs_is_named(grown, which):
    open_another()
    check_deleted(grown, log.list_logs()[which])


def test_a_log_with_a_deleted_row_is_named(settings, db):
    """Even with few leaves and no full tile."""
    influencers.create_bot(settings, "Ada", NOW)
    check_deleted(settings, log.find_log())


def test_a_log_without_leaves_is_named(grown):
    missing = ("log", f"{open_another()}: its first leaf is missing")
    for which in ("WHERE id = (SELECT MAX(id) FROM log_leaf)", ""):
        database.execute_sql(f"DELETE FROM log_leaf {which}")
        assert missing in find(grown)
