"""Moderation: readers report posts, and the operator hides posts and bans owners and wallets.

Each function is one short transaction that raises Problem if it isn't allowed. `now` is UTC
milliseconds. accounts.acts calls the operator's actions and keeps their audit log.
"""

from typing import Any

from peewee import JOIN

from accounts import posts
from accounts.fields import check_line, check_size
from accounts.problem import Problem, invalid, refuse_unknown
from accounts.tables import Ban, Report
from models import Bot, Owner, Post, Session
from paper.tables import PaperPost, Trader
from storage import database, new_uid, writing

# `Report.about`, and its labels.
ABOUT = {
    "abuse": "It threatens or harasses someone",
    "private": "It reveals a secret or private information",
    "deception": "It impersonates someone or is deliberately deceptive",
    "spam": "It is spam",
    "other": "Something else",
}
MAX_NOTE = 500
# Open reports per post and in total. More of them wouldn't tell the operator anything new.
MAX_OPEN_OF_POST, MAX_OPEN = 20, 10_000
BANNED = "SELECT reason FROM ban WHERE kind = ? AND target = ?"
SILENT_TRADERS = """
SELECT t.id FROM trader t JOIN owner o ON o.id = t.owner_id
LEFT JOIN ban ON ban.kind = 'owner' AND ban.target = o.uid
WHERE ban.target IS NOT NULL OR o.recovery_hash IS NULL"""


# ---- reports -------------------------------------------------------------------------------------
def report_post(uid: str, about: str, note: str, now: int) -> None:
    """Raise Problem if the post doesn't exist or is hidden, or if too many reports are open."""
    if about not in ABOUT:
        raise invalid("about", "choose a reason")
    check_size("note", note, MAX_NOTE)
    note = check_line("note", " ".join(note.split()), MAX_NOTE, shortest=0)
    with writing():
        post = find_post(uid)
        place = Report.post if isinstance(post, Post) else Report.paper_post
        if post.hidden_at is not None:
            raise Problem("post_hidden", "this post's text was already removed")
        waiting = Report.select().where(Report.dismissed_at.is_null())
        if waiting.where(place == post).count() >= MAX_OPEN_OF_POST:
            raise Problem("reported_enough", "the operator already has enough reports of this post")
        if waiting.count() >= MAX_OPEN:
            raise Problem(
                "reported_enough", "the operator has too many unread reports; try again later"
            )
        row = {"uid": new_uid("report"), "about": about, "note": note, "at": now}
        Report.create(**row, **{place.name: post})


def find_report(uid: str) -> Report:
    found: Report | None = Report.get_or_none(Report.uid == uid)
    return found or refuse_unknown("report")


def dismiss(uid: str, now: int) -> bool:
    open_one = (Report.uid == uid) & Report.dismissed_at.is_null()
    return bool(Report.update(dismissed_at=now).where(open_one).execute())


def count_open() -> int:
    waiting = Report.select().join(Post, JOIN.LEFT_OUTER)
    waiting = waiting.switch(Report).join(PaperPost, JOIN.LEFT_OUTER)
    has_words = Post.hidden_at.is_null() & PaperPost.hidden_at.is_null()
    return int(waiting.where(Report.dismissed_at.is_null(), has_words).count())


# ---- bans ----------------------------------------------------------------------------------------
def find_ban(kind: str, target: str) -> str | None:
    """Return why an owner (public ID) or a wallet (address) is banned."""
    row = database.execute_sql(BANNED, (kind, target)).fetchone()
    return row[0] if row else None


def list_silent() -> set[int]:
    """Return the IDs of paper traders that must not post because of a ban or deletion.

    Traders of banned owners keep trading, so that their records don't have a gap.
    """
    return {number for (number,) in database.execute_sql(SILENT_TRADERS).fetchall()}


def refuse_banned(owner: Owner) -> None:
    reason = find_ban("owner", owner.uid)
    if reason is not None:
        raise Problem("owner_banned", tell_owner(reason))


def tell_owner(reason: str) -> str:
    return f"the operator of this instance banned this account: {reason}"


def ban(kind: str, target: str, reason: str, now: int) -> bool:
    """Return False if it was already banned. The caller stops what the ban forbids."""
    if find_ban(kind, target) is not None:
        return False
    Ban.create(kind=kind, target=target, reason=reason, at=now)
    return True


def ban_owner(owner: Owner, reason: str, now: int) -> bool:
    """Reject an owner's keys and recovery code, sign out browsers and turn off automatic posts.

    Existing posts stay. Return False if the owner was already banned.
    """
    if not ban("owner", owner.uid, reason, now):
        return False
    Session.delete().where(Session.owner == owner).execute()
    Bot.update(auto_post=False, auto_post_since=None).where(Bot.owner == owner).execute()
    return True


def lift_ban(kind: str, target: str) -> bool:
    return bool(Ban.delete().where(Ban.kind == kind, Ban.target == target).execute())


# ---- posts of either kind ------------------------------------------------------------------------
def find_post(uid: str) -> Post | PaperPost:
    return (
        Post.get_or_none(Post.uid == uid)
        or PaperPost.get_or_none(PaperPost.uid == uid)
        or refuse_unknown("post")
    )


def find_author(post: Post | PaperPost) -> Bot | Trader:
    return post.bot if isinstance(post, Post) else post.trader


def hide_post(uid: str, now: int) -> bool:
    """Erase a post's text, inside an erasing transaction. Return False if it was already hidden."""
    post = find_post(uid)
    if post.hidden_at is not None:
        return False
    if isinstance(post, Post):
        posts.erase_words(post, now)
    else:
        erase_paper_words(PaperPost.id == post.id, now)
    return True


def erase_paper_words(chosen: Any, now: int) -> None:
    """The log and webhooks don't contain these posts."""
    said = PaperPost.update(body="", symbol=None, hidden_at=now)
    said.where(chosen, PaperPost.hidden_at.is_null()).execute()
