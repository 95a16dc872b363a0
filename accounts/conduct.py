"""How people live together on an instance: readers report posts, the operator bans owners and
wallets.

Each function is one short transaction and raises Problem when it refuses; `now` is UTC
milliseconds. What the operator does is called by accounts.acts, which keeps the list of it.
"""

from peewee import JOIN

from accounts import hiding
from accounts.fields import check_line, check_size
from accounts.problem import Problem, invalid, refuse_unknown
from accounts.tables import Ban, Report
from models import Bot, Owner, Post, Session
from paper.tables import PaperPost
from storage import database, new_uid, writing

# Words of `Report.about`, and what they say to people.
ABOUT = {
    "abuse": "It threatens or harasses somebody",
    "private": "It shows a secret, or something private",
    "deception": "It imitates somebody, or deceives on purpose",
    "spam": "It is spam",
    "other": "Something else",
}
MAX_NOTE = 500
# Of one post, and of all: sending more of them makes nobody heard better.
MAX_OPEN_OF_POST, MAX_OPEN = 20, 10_000
BANNED = "SELECT reason FROM ban WHERE kind = ? AND target = ?"
SILENT_TRADERS = """
SELECT t.id FROM trader t JOIN owner o ON o.id = t.owner_id
LEFT JOIN ban ON ban.kind = 'owner' AND ban.target = o.uid
WHERE ban.target IS NOT NULL OR o.recovery_hash IS NULL"""


# ---- reports -------------------------------------------------------------------------------------
def report_post(uid: str, about: str, note: str, now: int) -> None:
    """Store a reader's report of a post. Problem where there is no such post, its words are gone,
    or enough reports wait for the operator.
    """
    if about not in ABOUT:
        raise invalid("about", "choose one of the reasons")
    check_size("note", note, MAX_NOTE)
    note = check_line("note", " ".join(note.split()), MAX_NOTE, shortest=0)
    with writing():
        post = hiding.find_post(uid)
        place = Report.post if isinstance(post, Post) else Report.paper_post
        if post.hidden_at is not None:
            raise Problem("post_hidden", "the words of this post were taken down already")
        waiting = Report.select().where(Report.dismissed_at.is_null())
        if waiting.where(place == post).count() >= MAX_OPEN_OF_POST:
            raise Problem("reported_enough", "the operator has enough reports of this post")
        if waiting.count() >= MAX_OPEN:
            raise Problem("reported_enough", "too many reports wait for the operator")
        row = {"uid": new_uid("report"), "about": about, "note": note, "at": now}
        Report.create(**row, **{place.name: post})


def find_report(uid: str) -> Report:
    """Return the report of this id; Problem `not_found` otherwise."""
    found: Report | None = Report.get_or_none(Report.uid == uid)
    return found or refuse_unknown("report")


def dismiss(uid: str, now: int) -> bool:
    """Set a report aside; return whether it was open."""
    open_one = (Report.uid == uid) & Report.dismissed_at.is_null()
    return bool(Report.update(dismissed_at=now).where(open_one).execute())


def count_open() -> int:
    """Count the reports that wait for the operator: of posts that still have their words."""
    waiting = Report.select().join(Post, JOIN.LEFT_OUTER)
    waiting = waiting.switch(Report).join(PaperPost, JOIN.LEFT_OUTER)
    has_words = Post.hidden_at.is_null() & PaperPost.hidden_at.is_null()
    return int(waiting.where(Report.dismissed_at.is_null(), has_words).count())


# ---- bans ----------------------------------------------------------------------------------------
def find_ban(kind: str, target: str) -> str | None:
    """Return why an owner (by its public id) or a wallet (by its address) is banned; None where it
    is not.
    """
    row = database.execute_sql(BANNED, (kind, target)).fetchone()
    return row[0] if row else None


def list_silent() -> set[int]:
    """Return the numbers of the paper traders whose owners are banned, which trade on, so that no
    record has a hole, and say nothing; and of those whose owners deleted their accounts.
    """
    return {number for (number,) in database.execute_sql(SILENT_TRADERS).fetchall()}


def refuse_banned(owner: Owner) -> None:
    """Raise Problem `owner_banned` where this owner is banned."""
    reason = find_ban("owner", owner.uid)
    if reason is not None:
        raise Problem("owner_banned", tell_owner(reason))


def tell_owner(reason: str) -> str:
    """Return what a banned owner is told."""
    return f"the operator of this instance banned this account: {reason}"


def ban_owner(owner: Owner, reason: str, now: int) -> bool:
    """Keep an owner out: keys and recovery code are refused, browsers are signed out, its bots post
    nothing by themselves. What it posted stays. Returns whether it was let in before.
    """
    if not _ban("owner", owner.uid, reason, now):
        return False
    Session.delete().where(Session.owner == owner).execute()
    Bot.update(auto_post=False, auto_post_since=None).where(Bot.owner == owner).execute()
    return True


def ban_wallet(address: str, reason: str, now: int) -> bool:
    """Let no bot hold a wallet, whose address was checked; return whether one could before. The
    caller detaches it.
    """
    return _ban("wallet", address, reason, now)


def lift_ban(kind: str, target: str) -> bool:
    """End a ban; return whether there was one."""
    return bool(Ban.delete().where(Ban.kind == kind, Ban.target == target).execute())


def _ban(kind: str, target: str, reason: str, now: int) -> bool:
    if find_ban(kind, target) is not None:
        return False
    Ban.create(kind=kind, target=target, reason=reason, at=now)
    return True
