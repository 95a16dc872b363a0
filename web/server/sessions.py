"""Owners' browser sessions, without a password. A signed cookie contains a random ID, and a table
its hash.

The row decides: deleting it ends the session, and its `seen_at` determines when it expires. The
cookie contains no time, so servers with different clocks don't end sessions.
"""

import contextlib
import secrets
from urllib.parse import urlsplit

from flask import g, request, session
from flask_wtf.csrf import CSRFError, CSRFProtect
from peewee import OperationalError

from accounts.keys import hash_secret
from accounts.problem import Problem
from config import Config
from models import Owner, Session
from storage import trouble
from web.server.application import Application, find_app

# For an idle session.
LIFETIME_MS = 180 * 86_400_000
# The precision of `seen_at`.
SEEN_EVERY_MS = 3_600_000
# A form token has about 90 characters.
MAX_TOKEN_TEXT = 200
csrf = CSRFProtect()


def init_app(app: Application) -> None:
    """Set up cookies and CSRF tokens. Only form handlers check tokens (`check_sender`)."""
    config = app.settings
    app.config.update(
        WTF_CSRF_CHECK_DEFAULT=False,
        WTF_CSRF_TIME_LIMIT=None,
        SESSION_COOKIE_NAME=name_cookie("session", config),
        SESSION_COOKIE_SECURE=is_https(config),
        SESSION_COOKIE_PATH=config.base_path or "/",
        SESSION_COOKIE_SAMESITE="Lax",
    )
    csrf.init_app(app)


def is_https(config: Config) -> bool:
    return config.base_url.startswith("https:")


def name_cookie(name: str, config: Config) -> str:
    """Return a cookie's name, with a prefix behind HTTPS.

    Browsers let no other host set a `__Host-` cookie, but send it to all paths. If BASE_URL has a
    path, other applications may share the host, so the prefix is `__Secure-`.
    """
    if not is_https(config):
        return name
    return f"__Secure-{name}" if config.base_path else f"__Host-{name}"


def check_sender() -> None:
    """Require that a form was sent from a page on this site, with its token."""
    if request.method != "POST":
        return
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in ("same-origin", "none") or not is_own_origin(request.headers.get("Origin")):
        raise Problem(
            "foreign_origin",
            "this form was sent from another site, so nothing was done; open the page here and send"
            " it again",
        )
    if len(request.form.get("csrf_token", "")) > MAX_TOKEN_TEXT:
        raise CSRFError("The CSRF token is too long.")
    csrf.protect()


def is_own_origin(origin: str | None) -> bool:
    """Return whether an Origin header is ours. Programs don't send one."""
    own = _origin(request.host_url), _origin(find_app().settings.base_url)
    return origin is None or origin in own


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# ---- the browser's session -----------------------------------------------------------------------
def find_session() -> Session | None:
    """Return this browser's Session with its owner, or None. It is read once per request."""
    if "creator_session" not in g:
        g.creator_session = _load(session["creator"], g.now) if "creator" in session else None
    found: Session | None = g.creator_session
    return found


def require_session() -> Session:
    found = find_session()
    if found is None:
        raise Problem("not_creator", "this browser is not signed in")
    return found


def find_owner() -> Owner | None:
    found = find_session()
    return found.owner if found else None


def begin_session(owner: Owner, now: int) -> None:
    """Sign this browser in, and clear the cookie, including the form token."""
    name = secrets.token_urlsafe(32)
    g.creator_session = Session.create(
        owner=owner, hash=hash_secret(name), created_at=now, seen_at=now
    )
    session.clear()
    session["creator"] = name
    session.permanent = True


def end_session() -> None:
    found = find_session()
    if found:
        found.delete_instance()
    session.clear()
    g.creator_session = None


def end_sessions_of(owner: Owner) -> None:
    Session.delete().where(Session.owner == owner).execute()


def _load(name: str, now: int) -> Session | None:
    found: Session | None = (
        Session.select(Session, Owner)
        .join(Owner)
        .where(Session.hash == hash_secret(name), Session.seen_at > now - LIFETIME_MS)
        .first()
    )
    if found and now - found.seen_at > SEEN_EVERY_MS:
        _note_seen(found, now)
    return found


def _note_seen(found: Session, now: int) -> None:
    # Pages must work even if nothing can be written.
    with contextlib.suppress(OperationalError), trouble.impatient():
        Session.update(seen_at=now).where(Session.id == found.id).execute()
