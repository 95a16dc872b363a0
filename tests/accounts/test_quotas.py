"""Limits on one owner's use of an instance, and their errors."""

import threading

import ground
import pytest
from service import NOW, Service, address, hide_post, refused
from test_cli import cli, shown  # noqa: F401  (cli is a fixture)
from test_studio import Browser

import storage
from accounts import influencers, posts, quotas, traders, wallets
from accounts.problem import Problem
from models import Attachment, Bot, Owner, Post
from operate import doctor
from paper.tables import Trader

DAY_MS = 86_400_000
# a quota of one megabyte allows 1,000,000 / (300 + 4,000 + len("e-000")) = 232.3 posts like these
LONG, EVENT = "x" * 4_000, "e-{:03}"
FULL_AT = 233


@pytest.fixture
def tight(tmp_path):
    made = Service(
        tmp_path / "data",
        max_posts_kept_mb=1,
        max_wallet_changes_per_day=2,
        max_traders_per_owner=2,
    )
    ground.hurry()
    yield made
    made.close()


def fill(service, bot):
    """Post until the quota is reached."""
    for n in range(FULL_AT):
        body = posts.PostBody(eventId=EVENT.format(n), body=LONG)
        posts.publish(bot.bot.id, body, NOW, config=service.config)


def refuse(act, *given, **more):
    """The code and the quota of the error that an act raises."""
    problem = refused(act, *given, **more)
    return {"code": problem.code, **problem.more}


def exceeded(quota, limit, used):
    setting = quotas.SETTINGS[quota].upper()
    told = {"quota": quota, "setting": setting, "limit": limit, "used": used}
    return {"code": "quota_exceeded", **told}


# ---- posts ---------------------------------------------------------------------------------------
def test_a_post_beyond_the_quota_names_it_but_a_retry_succeeds(tight):
    bot = tight.make_bot()
    key = bot.publish_key.text
    fill(tight, bot)
    said = tight.post({"eventId": "one-more", "body": "short"}, key)
    assert said.status_code == 409
    full = exceeded("posts_kept_mb", 1, 1)
    assert {name: said.json[name] for name in full} == full
    assert "MAX_POSTS_KEPT_MB" in said.json["detail"]
    assert Post.select().count() == FULL_AT
    again = tight.post({"eventId": EVENT.format(7), "body": LONG}, key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    other = tight.post({"eventId": EVENT.format(7), "body": "other"}, key)
    assert other.json["code"] == "event_conflict"
    assert tight.get("/api/v1/feed", key).status_code == 200


def test_the_quota_applies_per_owner(tight):
    first = tight.make_bot()
    second, stranger = tight.make_bot("Bea", owner=first.owner), tight.make_bot("Cy")
    Owner.update(posts_bytes=1_000_000).where(Owner.id == first.owner.id).execute()
    for made, status in ((second, 409), (stranger, 201)):
        said = tight.post({"eventId": "e", "body": "short"}, made.publish_key.text)
        assert said.status_code == status


def test_hiding_a_post_frees_its_text(tight):
    bot = tight.make_bot()
    fill(tight, bot)
    assert Owner.get().posts_bytes == FULL_AT * (300 + 4_000 + 5)
    hidden = Post.get().uid
    for _ in range(2):
        hide_post(hidden, NOW)
    assert Owner.get().posts_bytes == FULL_AT * (300 + 4_000 + 5) - 4_000
    again = tight.post({"eventId": "again", "body": "short"}, bot.publish_key.text)
    assert again.status_code == 201


def test_hiding_frees_every_text_field(tight):
    body = {"eventId": "e", "body": "words", "symbol": "PINE", "reason": "why"}
    uid = tight.post(body, tight.make_bot().publish_key.text).json["id"]
    assert Owner.get().posts_bytes == 300 + 1 + 5 + 4 + 3
    hide_post(uid, NOW)
    assert Owner.get().posts_bytes == 300 + 1


def test_only_one_request_gets_the_last_bytes(tight):
    bot = tight.make_bot()
    Owner.update(posts_bytes=999_999).execute()
    outcomes, start = [], threading.Barrier(8)

    def publish(n):
        with storage.database.connection_context():
            start.wait()
            try:
                said = posts.PostBody(eventId=f"e-{n}", body="words")
                posts.publish(bot.bot.id, said, NOW, config=tight.config)
                outcomes.append("stored")
            except Problem as problem:
                outcomes.append(problem.code)

    crew = [threading.Thread(target=publish, args=[n]) for n in range(8)]
    [thread.start() for thread in crew], [thread.join() for thread in crew]
    assert sorted(outcomes) == ["quota_exceeded"] * 7 + ["stored"]


def test_usage_is_counted_in_bytes(db, settings):
    made = influencers.create_bot(settings, "Ada", NOW)
    for n, words in enumerate(("short", "ü" * 50, "\U0001f980" * 20)):
        said = posts.PostBody(eventId=f"e-{n}", body=words, symbol="PINE", reason="why")
        posts.publish(made.bot.id, said, NOW)
    assert Owner.get().posts_bytes == 3 * (300 + 3 + 4 + 3) + 5 + 100 + 80


# ---- wallets -------------------------------------------------------------------------------------
def test_first_wallets_are_not_changes_but_swaps_are(tight):
    bot = tight.make_bot("Ada", address("a"))
    tight.make_bot("Bea", address("b"), bot.owner)
    for name in ("c", "d"):
        wallets.attach_wallet(tight.config, bot.bot, address(name), NOW)
    said = refuse(wallets.attach_wallet, tight.config, bot.bot, address("e"), NOW)
    assert said == exceeded("wallet_changes_per_day", 2, 2)
    assert wallets.find_attachment(bot.bot).wallet.address == address("d")
    wallets.attach_wallet(tight.config, bot.bot, address("e"), NOW + DAY_MS)


def test_a_change_counts_for_a_day(db, settings):
    bot = influencers.create_bot(settings, "Ada", NOW, address("a")).bot
    wallets.detach_wallet(bot, NOW + 1)
    used = [
        quotas.find_use(settings, "wallet_changes_per_day", bot.owner_id, NOW + 1 + after).used
        for after in (0, DAY_MS - 1, DAY_MS)
    ]
    assert used == [1, 1, 0]


def test_detaching_and_retiring_count_as_changes_but_always_work(tight):
    owner = tight.make_bot("Ada", address("a")).owner
    retired = tight.make_bot("Bea", address("b"), owner)
    wallets.detach_wallet(Bot.get(Bot.name == "Ada"), NOW)
    influencers.retire_bot(retired.bot, NOW)
    said = refuse(tight.make_bot, "Cy", address("c"), owner)
    assert said["quota"] == "wallet_changes_per_day"
    assert not Bot.select().where(Bot.name == "Cy").exists() and Attachment.select().count() == 2
    influencers.retire_bot(Bot.get(Bot.name == "Ada"), NOW)


# ---- paper traders -------------------------------------------------------------------------------
def test_paper_traders_per_owner_are_limited(tight):
    owner = traders.create_trader("Ada", "momentum", NOW, config=tight.config).owner
    traders.create_trader("Bea", "momentum", NOW, owner=owner, config=tight.config)
    third = {"owner": owner, "config": tight.config}
    said = refuse(traders.create_trader, "Cy", "momentum", NOW, **third)
    assert said == exceeded("traders", 2, 2)
    Trader.update(retired_at=NOW).where(Trader.name == "Ada").execute()
    traders.create_trader("Cy", "momentum", NOW, **third)


# ---- the operator --------------------------------------------------------------------------------
def test_the_command_line_has_no_quotas(cli, monkeypatch):  # noqa: F811
    for name in ("MAX_WALLETS_PER_OWNER", "MAX_WALLET_CHANGES_PER_DAY", "MAX_TRADERS_PER_OWNER"):
        monkeypatch.setenv(name, "1")
    owner = shown(cli, "bot", "create", "--name", "Ada", "--wallet", address("a"))["ownerId"]
    made = [
        shown(cli, "bot", "create", "--name", name, "--wallet", address(name), "--owner", owner)
        for name in ("Bea", "Cy")
    ]
    for n in range(3):
        attached = shown(cli, "bot", "wallet", made[0]["botId"], address(f"next {n}"))
        assert attached["wallet"] == address(f"next {n}")
    for name in ("One", "Two"):
        shown(cli, "trader", "create", "--name", name, "--family", "momentum", "--owner", owner)


def test_doctor_shows_usage_without_names(tight):
    bot = tight.make_bot("Ada", address("a"))
    Owner.update(posts_bytes=1_000_000).execute()
    uses = quotas.list_use(storage.database.execute_sql, tight.config, NOW)
    by_name = {use.quota: use for use in uses}
    assert by_name["posts_kept_mb"] == ("posts_kept_mb", 1, 1, 1)
    assert (by_name["wallets"].used, by_name["wallets"].owners_at_limit) == (1, 0)
    found = list(doctor.check_use(storage.database.execute_sql, tight.config, NOW))
    assert [one.level for one in found] == ["look", "fine"]
    assert "owners at their quota MAX_POSTS_KEPT_MB (1): 1" in found[0].text
    assert bot.owner.uid not in str(uses) + str(found)


def test_the_highest_wallet_count_is_per_owner(tight):
    """Ada's owner has two and Bea's three: with a limit of three, one owner is at the limit; with
    two, both are.
    """
    for owner_name, count in (("Ada", 2), ("Bea", 3)):
        owner = tight.make_bot(owner_name, address(owner_name)).owner
        for n in range(1, count):
            tight.make_bot(f"{owner_name} {n}", address(f"{owner_name}{n}"), owner)
    found = {}
    for limit in (5, 3, 2):
        config = tight.config.model_copy(update={"max_wallets_per_owner": limit})
        found[limit] = quotas.list_use(storage.database.execute_sql, config, NOW)[2]
    assert found == {
        5: quotas.Use("wallets", 5, 3, 0),
        3: quotas.Use("wallets", 3, 3, 1),
        2: quotas.Use("wallets", 2, 3, 2),
    }


def test_usage_is_shown_in_whole_megabytes_with_its_limit(tight):
    """1.9 MB counts as one megabyte; none of five hooks are used."""
    bot = tight.make_bot("Ada", address("a")).bot
    Owner.update(posts_bytes=1_900_000).execute()
    assert quotas.find_use(tight.config, "hooks", bot.owner_id) == quotas.Use("hooks", 5, 0)
    listed = {
        one.quota: one for one in quotas.list_use(storage.database.execute_sql, tight.config, NOW)
    }
    assert listed["posts_kept_mb"] == quotas.Use("posts_kept_mb", 1, 1, 1)
    assert listed["wallets"] == quotas.Use("wallets", 5, 1, 0)
    assert listed["hooks"] == quotas.Use("hooks", 5, 0, 0)


# ---- the forms -----------------------------------------------------------------------------------
def test_forms_name_the_quota_and_keep_the_input(tight):
    visitor = Browser(tight)
    visitor.send("/connect", name="Ada", wallet=address("a"))
    bot = Bot.get()
    page = f"/bots/{bot.uid}"
    for name in ("b", "c"):
        sent = visitor.send(f"{page}/wallet", page=f"{page}/manage", wallet=address(name))
        assert sent.status_code == 302
    answer = visitor.send(f"{page}/wallet", page=f"{page}/manage", wallet=address("d"))
    assert answer.status_code == 409 and "MAX_WALLET_CHANGES_PER_DAY" in answer.text
    Owner.update(posts_bytes=10**6).execute()
    answer = visitor.send(f"{page}/posts", page=f"{page}/manage", body="what I typed", draft="d1")
    assert answer.status_code == 409
    assert "MAX_POSTS_KEPT_MB" in answer.text and "what I typed" in answer.text
    for name, status in (("One", 302), ("Two", 302), ("Three", 409)):
        answer = visitor.send("/traders/new", name=name, family="momentum")
        assert answer.status_code == status
    assert "MAX_TRADERS_PER_OWNER" in answer.text and Trader.select().count() == 2
