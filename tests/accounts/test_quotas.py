"""Limits on one owner's use of an instance, and their errors."""

import ground
import pytest
from service import NOW, address, hide_post, race, refused
from test_cli import cli, shown  # noqa: F401  (cli is a fixture)
from test_studio import Browser

import storage
from accounts import influencers, posts, quotas, traders, wallets
from models import Attachment, Bot, Owner, Post
from operate import doctor
from paper.tables import Trader

DAY_MS = 86_400_000
FULL = 1_000_000


@pytest.fixture
def tight(serve):
    return serve(max_posts_kept_mb=1, max_wallet_changes_per_day=2, max_traders_per_owner=2)


def publish(service, bot, event, **texts):
    said = posts.PostBody(**{"eventId": event, "body": "words", **texts})
    return posts.publish(bot.bot.id, said, NOW, config=service.config)


def refuse(act, *given, **more):
    """The code and the quota of the error that an act raises."""
    problem = refused(act, *given, **more)
    return {"code": problem.code, **problem.more}


def exceeded(quota, limit, used):
    setting = quotas.SETTINGS[quota].upper()
    told = {"quota": quota, "setting": setting, "limit": limit, "used": used}
    return {"code": "quota_exceeded", **told}


# ---- posts ---------------------------------------------------------------------------------------
def test_a_post_beyond_the_owners_quota_names_it_but_a_retry_succeeds(tight):
    bot, stranger = tight.make_bot(), tight.make_bot("Cy")
    key, words = bot.publish_key.text, {"eventId": "e", "body": "words"}
    publish(tight, bot, "e")
    Owner.update(posts_bytes=FULL).where(Owner.id == bot.owner.id).execute()
    said = tight.post({**words, "eventId": "one-more"}, key)
    full = exceeded("posts_kept_mb", 1, 1)
    assert said.status_code == 409 and {name: said.json[name] for name in full} == full
    assert "MAX_POSTS_KEPT_MB" in said.json["detail"] and Post.select().count() == 1
    again = tight.post(words, key)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert tight.post({**words, "body": "other"}, key).json["code"] == "event_conflict"
    assert tight.get("/api/v1/feed", key).status_code == 200
    second = tight.make_bot("Bea", owner=bot.owner)
    assert refuse(publish, tight, second, "e")["quota"] == "posts_kept_mb"
    publish(tight, stranger, "e")


def test_usage_is_counted_in_bytes_and_hiding_frees_every_text(service, bot):
    for n, words in enumerate(("short", "ü" * 50, "\U0001f980" * 20)):
        publish(service, bot, f"e-{n}", body=words, symbol="PINE", reason="why")
    assert Owner.get().posts_bytes == 3 * (300 + 3) + 3 * (4 + 3) + 5 + 100 + 80
    for post in list(Post.select()) * 2:
        hide_post(post.uid, NOW)
    assert Owner.get().posts_bytes == 3 * (300 + 3)


def test_only_one_request_gets_the_last_bytes(tight):
    bot = tight.make_bot()
    Owner.update(posts_bytes=FULL - 1).execute()
    outcomes = race(8, lambda n: type(publish(tight, bot, f"e-{n}")).__name__)
    assert sorted(outcomes) == ["Published"] + ["quota_exceeded"] * 7


# ---- wallets -------------------------------------------------------------------------------------
def test_first_wallets_are_not_changes_but_swaps_are(tight):
    bot = tight.make_bot("Ada", address("a"))
    tight.make_bot("Bea", address("b"), bot.owner)
    for name in ("c", "d"):
        wallets.attach_wallet(tight.config, bot.bot, address(name), NOW)
    for now in (NOW, NOW + DAY_MS - 1):
        said = refuse(wallets.attach_wallet, tight.config, bot.bot, address("e"), now)
        assert said == exceeded("wallet_changes_per_day", 2, 2)
    assert wallets.find_attachment(bot.bot).wallet.address == address("d")
    wallets.attach_wallet(tight.config, bot.bot, address("e"), NOW + DAY_MS)


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


def list_use(config):
    return {one.quota: one for one in quotas.list_use(storage.database.execute_sql, config, NOW)}


def test_doctor_shows_the_highest_usage_without_names(tight):
    """In whole megabytes: 1.9 MB count as one. Ada's owner has two wallets and Bea's three."""
    owners = [tight.make_bot(name, address(name)).owner for name in ("Ada", "Bea")]
    for n, owner in enumerate((*owners, owners[1])):
        tight.make_bot(f"Bot {n}", address(str(n)), owner)
    Owner.update(posts_bytes=1_900_000).where(Owner.id == owners[0].id).execute()
    uses = list_use(tight.config)
    assert uses["posts_kept_mb"] == quotas.Use("posts_kept_mb", 1, 1, 1)
    assert uses["hooks"] == quotas.Use("hooks", 5, 0, 0)
    assert quotas.find_use(tight.config, "hooks", owners[0].id) == quotas.Use("hooks", 5, 0)
    for limit, owners_at_limit in ((5, 0), (3, 1), (2, 2)):
        config = ground.change(tight.config, max_wallets_per_owner=limit)
        assert list_use(config)["wallets"] == quotas.Use("wallets", limit, 3, owners_at_limit)
    found = list(doctor.check_use(storage.database.execute_sql, tight.config, NOW))
    assert [one.level for one in found] == ["look", "fine"]
    assert "owners at their quota MAX_POSTS_KEPT_MB (1): 1" in found[0].text
    assert not any(owner.uid in str(uses) + str(found) for owner in owners)


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
    Owner.update(posts_bytes=FULL).execute()
    answer = visitor.send(f"{page}/posts", page=f"{page}/manage", body="what I typed", draft="d1")
    assert answer.status_code == 409
    assert "MAX_POSTS_KEPT_MB" in answer.text and "what I typed" in answer.text
    for name, status in (("One", 302), ("Two", 302), ("Three", 409)):
        answer = visitor.send("/traders/new", name=name, family="momentum")
        assert answer.status_code == status
    assert "MAX_TRADERS_PER_OWNER" in answer.text and Trader.select().count() == 2
