"""Operator actions: each happens once, and its log line says who did it, when and why."""

import pytest
from service import NOW, address, refused

from accounts import acts, conduct, hooks, influencers, owners, posts
from accounts.tables import AdminAct, Report
from models import Attachment
from storage import database

WHO, WHY = "sess_1", "as told"


@pytest.fixture
def made(db, settings):
    """A bot with a wallet and a publishing key."""
    return influencers.create_bot(settings, "Ada", NOW, address("w"))


def lines():
    """The lines of the list, oldest first."""
    return [
        (act.what, act.target, act.who, act.reason, act.at) for act in AdminAct.select().order_by()
    ]


def say(made):
    """Create a post of the bot; return its uid."""
    return posts.publish(made.bot.id, posts.PostBody(eventId="e", body="words"), NOW).uid


def make_hook(made, settings):
    url = "https://hooks.example/h"
    return hooks.add_hook(settings, made.owner, url, NOW).uid


def test_a_hook_is_pinged_switched_and_removed(made, settings):
    uid = make_hook(made, settings)
    assert acts.ping_hook(uid, WHO, "", NOW + 1)
    assert acts.switch_hook(uid, False, WHO, WHY, NOW + 2)
    assert not acts.switch_hook(uid, False, WHO, "again", NOW + 3)
    # A hook that is off gets nothing.
    assert not acts.ping_hook(uid, WHO, "", NOW + 3)
    assert acts.switch_hook(uid, True, WHO, WHY, NOW + 4)
    acts.remove_hook(uid, WHO, WHY, NOW + 5)
    assert hooks.list_hooks() == []
    assert lines() == [
        # A missing reason is null, not an empty string.
        ("ping_hook", uid, WHO, None, NOW + 1),
        ("switch_off_hook", uid, WHO, WHY, NOW + 2),
        ("switch_on_hook", uid, WHO, WHY, NOW + 4),
        ("remove_hook", uid, WHO, WHY, NOW + 5),
    ]


def test_dismissing_a_report_records_its_post_once(made):
    post = say(made)
    conduct.report_post(post, "spam", "", NOW)
    report = Report.get().uid
    assert acts.dismiss_report(report, WHO, WHY, NOW + 1)
    assert not acts.dismiss_report(report, WHO, "again", NOW + 2)
    assert conduct.count_open() == 0
    assert lines() == [("dismiss_report", post, WHO, WHY, NOW + 1)]


def test_banning_and_unbanning_an_owner_is_recorded_once(made):
    uid = made.owner.uid
    assert acts.ban_owner(uid, WHO, WHY, NOW + 1)
    assert not acts.ban_owner(uid, WHO, "again", NOW + 2)
    assert conduct.find_ban("owner", uid) == WHY
    assert acts.lift_ban("owner", uid, WHO, "enough", NOW + 3)
    assert not acts.lift_ban("owner", uid, WHO, "again", NOW + 4)
    assert conduct.find_ban("owner", uid) is None
    assert lines() == [
        ("ban_owner", uid, WHO, WHY, NOW + 1),
        ("unban_owner", uid, WHO, "enough", NOW + 3),
    ]


def test_banning_a_wallet_disconnects_it_and_unused_wallets_can_be_banned_too(made):
    assert acts.ban_wallet(address("w"), WHO, WHY, NOW + 1)
    assert not acts.ban_wallet(address("w"), WHO, "again", NOW + 2)
    assert acts.ban_wallet(address("free"), WHO, WHY, NOW + 3)
    assert Attachment.get().detached_at == NOW + 1
    assert [target for _, target, *_ in lines()] == [address("w"), address("free")]


def test_an_unknown_target_is_refused_and_not_recorded(made):
    for act in (acts.hide_post, acts.retire_bot, acts.revoke_key, acts.ping_hook):
        problem = refused(act, "nobody", WHO, WHY, NOW)
        assert problem.code == "not_found"
    assert lines() == []


def test_the_list_contains_known_actions_only_and_pages_back(db):
    with pytest.raises(AssertionError):
        acts.store_act("unheard_of", WHO, NOW)
    with database.atomic():
        for number in range(4):
            acts.store_act("login", WHO, NOW + number)
    newest = acts.list_acts(2)
    assert [act.at - NOW for act in newest] == [3, 2]
    assert [act.at - NOW for act in acts.list_acts(2, newest[-1].id)] == [1, 0]
    assert (newest[0].target, newest[0].reason) == (None, None)
    assert acts.list_acts(2, 1) == []


def test_a_reason_is_limited_to_300_characters():
    assert acts.check_reason("x" * 300) == "x" * 300
    for text, shortest in (("x" * 301, 0), ("", 1)):
        problem = refused(acts.check_reason, text, shortest)
        assert problem.errors[0]["field"] == "reason"
    assert acts.check_reason("") == ""


# ---- the owner's way back ------------------------------------------------------------------------
def test_renewing_a_recovery_code_requires_the_current_one(made):
    """Neither a session nor another owner's code is enough."""
    other, foreign = owners.create_owner(NOW)
    assert owners.renew_recovery_code(made.owner, foreign) is None
    assert owners.recover_owner(foreign).owner == other
    code = owners.renew_recovery_code(made.owner, made.recovery_code)
    assert owners.recover_owner(made.recovery_code) is None
    assert owners.recover_owner(code).owner == made.owner


def test_the_operator_replaces_the_lost_code_of_one_owner_only(made):
    other, kept = owners.create_owner(NOW)
    code = owners.replace_recovery_code(made.owner)
    assert owners.recover_owner(made.recovery_code) is None
    assert owners.recover_owner(code).owner == made.owner
    assert owners.recover_owner(kept).owner == other
