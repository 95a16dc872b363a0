"""`doctor --deep` reports changes that differ from the log: posts, wallets, leaves."""

import json

import pytest
from auditing import edit
from service import hide_post

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
def grown(settings, db):
    """A bot with a wallet, one that was retired, a hidden post and 259 others: a full tile."""
    made = influencers.create_bot(settings, "Ada", NOW, WALLET)
    other = influencers.create_bot(settings, "Bo", NOW, owner=made.owner).bot
    influencers.retire_bot(other, NOW + 1)
    for n in range(260):
        body = posts.PostBody(eventId=f"e{n}", body=f"word {n}", symbol="BONK", reason="thin")
        posts.publish(made.bot.id, body, NOW, "api")
    hide_post(Post.get(Post.event_id == "e7").uid, NOW + 2)
    return settings


def find(settings):
    """(table, field or what) of every difference, in the order in which they are told."""
    reader = inspection.Reader(settings)
    try:
        with reader.snapshot():
            return [(one.table, one.field or one.what) for one in inspection.check_log(reader)]
    finally:
        reader.close()


def test_an_untouched_instance_has_no_differences(grown):
    assert find(grown) == []


WORDS = "words"


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("body", "another word", WORDS),
        ("salt", None, WORDS),
        ("status", "verified", "status"),
        ("created_at", NOW - 1, "createdAtMs"),
        ("hidden_at", NOW, "hiddenAtMs"),
        ("leaf_id", None, "logIndex"),
        ("uid", "post_" + "0" * 24, "logIndex"),
    ],
)
def test_a_changed_post_is_named(grown, column, value, field):
    edit(f"UPDATE post SET {column} = ? WHERE event_id = 'e9'", value)
    assert ("post", field) in find(grown)


def test_a_post_shown_again_after_it_was_hidden_is_named(grown):
    edit("UPDATE post SET hidden_at = NULL WHERE event_id = 'e7'")
    assert sorted(find(grown)) == [("post", "hiddenAtMs"), ("post", WORDS)]


def test_a_deleted_post_is_named(grown):
    database.execute_sql("DELETE FROM arrival")
    uid = Post.get(Post.event_id == "e9").uid
    edit("DELETE FROM post WHERE event_id = 'e9'")
    assert find(grown) == [("post", f"{uid} is in the log but not in the database")]


def test_an_unlogged_post_is_named(grown):
    with writing():
        one = Post.get(Post.event_id == "e9")
        Post.create(
            **{**one.__data__, "id": None, "uid": "post_x", "event_id": "x", "leaf_id": None}
        )
    assert find(grown) == [("post", "logIndex")]


def test_an_edited_verification_is_named_but_a_logged_one_is_not(grown):
    with writing():
        post = Post.get(Post.event_id == "e9")
        Post.update(status="not_found").where(Post.id == post.id).execute()
        said = {"status": "not_found", "statusReason": None, "eventAt": post.event_at}
        append_leaf("verification", NOW, post=post.uid, **said)
    assert find(grown) == []
    edit("UPDATE post SET status = 'verified' WHERE event_id = 'e9'")
    assert find(grown) == [("post", "status")]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE attachment SET ownership = 'proven'",
        "UPDATE attachment SET attached_at = attached_at - 1",
        "UPDATE attachment SET detached_at = attached_at + 1",
        "DELETE FROM attachment",
    ],
)
def test_a_changed_attachment_is_named(grown, sql):
    edit(sql)
    ((table, what),) = find(grown)
    assert table == "attachment" and "doesn't match the log" in what


def test_attaching_detaching_and_reattaching_match_the_log(grown):
    bot = Post.get().bot
    wallets.detach_wallet(bot, NOW + 5)
    wallets.attach_wallet(grown, bot, WALLET, NOW + 5, "claimed")
    wallets.attach_wallet(grown, bot, WALLET, NOW + 6, "proven")
    assert find(grown) == []


def test_a_changed_retirement_is_named(grown):
    edit("UPDATE bot SET retired_at = retired_at + 1 WHERE name = 'Bo'")
    assert find(grown) == [("bot", "retiredAtMs")]
    edit("UPDATE bot SET retired_at = NULL WHERE name = 'Bo'")
    assert find(grown) == [("bot", "retiredAtMs")]


@pytest.mark.parametrize(
    ("sql", "field"),
    [
        ("UPDATE bot SET name = 'Eve' WHERE name = 'Bo'", "words"),
        ("UPDATE bot SET created_at = 1 WHERE name = 'Bo'", "createdAtMs"),
    ],
)
def test_an_edited_profile_is_named(grown, sql, field):
    edit(sql)
    assert find(grown) == [("bot", field)]


def test_a_bot_moved_to_another_owner_is_named(grown):
    influencers.create_bot(grown, "Stranger", NOW)
    edit("UPDATE bot SET owner_id = (SELECT MAX(id) FROM owner) WHERE name = 'Bo'")
    assert find(grown) == [("bot", "owner")]


# ---- the log itself ------------------------------------------------------------------------------
def edit_leaf(number, **changes):
    ((data,),) = database.execute_sql(
        "SELECT data FROM log_leaf WHERE id = ?", (number,)
    ).fetchall()
    edit(
        "UPDATE log_leaf SET data = ? WHERE id = ?",
        json.dumps({**json.loads(data), **changes}, sort_keys=True, separators=(",", ":")),
        number,
    )


def test_an_edited_leaf_in_a_full_tile_is_named_by_tile_and_post(grown):
    edit_leaf(100, words="00" * 32)
    told = find(grown)
    assert ("post", WORDS) in told and [table for table, _ in told] == ["log_node", "post"]


def test_a_leaf_edited_with_its_post_has_another_hash(grown):
    edit_leaf(100, status="verified")
    edit("UPDATE post SET status = 'verified' WHERE leaf_id = 100")
    ((table, what),) = find(grown)
    assert table == "log_node" and "level 1, place 0" in what


def test_an_edited_leaf_in_the_last_tile_is_named_by_its_post(grown):
    edit_leaf(260, words="00" * 32)
    assert find(grown) == [("post", WORDS)]


def test_an_unparsable_leaf_is_named(grown):
    edit("UPDATE log_leaf SET data = '{' WHERE id = 260")
    told = find(grown)
    assert ("log_leaf", "leaf 260 can't be read") in told
    assert any(table == "post" for table, _ in told)


def test_a_missing_leaf_is_named(grown):
    edit("DELETE FROM log_leaf WHERE id = 100")
    assert ("log_leaf", "leaf 100 is missing") in find(grown)


def test_a_truncated_log_is_named_by_what_is_missing(grown):
    last = log.find_log().size - 1
    edit("DELETE FROM log_leaf WHERE id = ?", last)
    # The last leaf hid a post.
    assert ("post", "hiddenAtMs") in find(grown)


def test_a_changed_hash_is_named(grown):
    edit("UPDATE log_node SET hash = ?", bytes(32))
    ((table, _),) = find(grown)
    assert table == "log_node"


def test_two_logs_are_each_compared_with_their_own_tree(grown):
    with writing():
        open_log(NOW)
    body = posts.PostBody(eventId="new", body="word")
    posts.publish(Post.get().bot_id, body, NOW, "api")
    assert find(grown) == []


@pytest.mark.parametrize("count", [3, 260])
def test_a_log_with_a_deleted_row_is_named(settings, db, count):
    """However few its leaves are: no full tile tells of it then."""
    made = influencers.create_bot(settings, "Ada", NOW)
    for n in range(count):
        posts.publish(made.bot.id, posts.PostBody(eventId=f"e{n}", body="word"), NOW, "api")
    uid = log.find_log().uid
    edit("DELETE FROM log")
    assert ("log", f"leaf 0 opens {uid}, which is missing") in find(settings)


@pytest.mark.parametrize("which", [0, 1])
def test_a_deleted_row_of_one_of_two_logs_is_named(grown, which):
    with writing():
        open_log(NOW)
    one = log.list_logs()[which]
    edit("DELETE FROM log WHERE uid = ?", one.uid)
    assert ("log", f"leaf {one.first_leaf} opens {one.uid}, which is missing") in find(grown)


def test_a_log_without_leaves_is_named(grown):
    with writing():
        uid = open_log(NOW)
        database.execute_sql("DELETE FROM log_leaf WHERE id = (SELECT MAX(id) FROM log_leaf)")
    assert ("log", f"{uid}: its first leaf is missing") in find(grown)
    with writing():
        database.execute_sql("DELETE FROM log_leaf")
    assert ("log", f"{uid}: its first leaf is missing") in find(grown)


def test_a_wallets_last_noted_leaf_is_compared_with_the_log(grown):
    with writing():
        for number in range(2):
            append_digest(Wallet.get().id, WALLET, f"{number}" * 64, NOW + number)
    assert find(grown) == []
    last = database.execute_sql("SELECT leaf_id FROM logged_wallet").fetchone()[0]
    edit("UPDATE logged_wallet SET leaf_id = leaf_id - 1")
    assert find(grown) == [
        ("logged_wallet", (f"is leaf {last - 1}, but the last leaf of the log is {last}"))
    ]
