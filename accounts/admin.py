"""Admin sign-in: a single-use link that is valid for ten minutes, and the session it opens.

Each function is one short transaction. `now` is UTC milliseconds.
"""

import hmac
import secrets
from typing import Any, NamedTuple

from accounts.acts import COMMAND_LINE, store_act
from accounts.keys import hash_secret
from accounts.problem import refuse_unknown
from accounts.tables import AdminLogin, AdminSession
from storage import new_uid, writing

LOGIN_MS, SESSION_MS = 10 * 60_000, 12 * 3_600_000
SECRET_BYTES = 32
MAX_SESSIONS = 20


class NewSession(NamedTuple):
    """`token` is the cookie's value, which isn't stored."""

    session: AdminSession
    token: str


def make_login(now: int) -> str:
    """Return a code that works once, for LOGIN_MS."""
    code = secrets.token_urlsafe(SECRET_BYTES)
    with writing():
        AdminLogin.delete().where(AdminLogin.ends_at <= now).execute()
        AdminLogin.create(hash=_hash_code(code), created_at=now, ends_at=now + LOGIN_MS)
        store_act("login_link", COMMAND_LINE, now)
    return code


def use_login(code: str, now: int) -> NewSession | None:
    """Exchange a code for a session. Return None if the code is unknown, used or expired.

    If two browsers send the same code at the same time, only one gets a session.
    """
    token = secrets.token_urlsafe(SECRET_BYTES)
    with writing():
        login = _find(AdminLogin, _hash_code(code), now)
        if login is None or not AdminLogin.delete().where(AdminLogin.id == login.id).execute():
            return None
        _drop_old_sessions(now)
        session = AdminSession.create(
            uid=new_uid("admin"), hash=_hash_token(token), created_at=now, ends_at=now + SESSION_MS
        )
        store_act("login", session.uid, now)
    return NewSession(session, token)


def _drop_old_sessions(now: int) -> None:
    AdminSession.delete().where(AdminSession.ends_at <= now).execute()
    newest = [row.id for row in list_sessions(now)[: MAX_SESSIONS - 1]]
    AdminSession.delete().where(AdminSession.id.not_in(newest)).execute()


def find_session(token: str, now: int) -> AdminSession | None:
    """Return None if the session doesn't exist or has expired."""
    found: AdminSession | None = _find(AdminSession, _hash_token(token), now)
    return found


def list_sessions(now: int) -> list[AdminSession]:
    return list(
        AdminSession.select()
        .where(AdminSession.ends_at > now)
        .order_by(AdminSession.id.desc())
        .limit(MAX_SESSIONS)
    )


def end_session(uid: str, who: str, now: int) -> None:
    """Sign a browser out. Raises Problem `not_found` if the session doesn't exist."""
    with writing():
        if not AdminSession.delete().where(AdminSession.uid == uid).execute():
            refuse_unknown("session")
        store_act("logout", who, now, uid)


def end_all(who: str, now: int) -> int:
    """Sign out every browser and delete unused links. Return how many rows were deleted."""
    with writing():
        ended = AdminLogin.delete().execute() + AdminSession.delete().execute()
        store_act("logout_all", who, now)
    return int(ended)


def _find(table: Any, digest: str, now: int) -> Any:
    found = table.get_or_none((table.hash == digest) & (table.ends_at > now))
    return found if found and hmac.compare_digest(found.hash, digest) else None


def _hash_code(code: str) -> str:
    return hash_secret("admin login:" + code.strip())


def _hash_token(token: str) -> str:
    return hash_secret("admin session:" + token)
