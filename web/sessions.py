"""The creator's session, without a password: a random id in a signed cookie, its hash in a table. Whoever deletes the row ends it."""
import contextlib
import secrets
from urllib.parse import urlsplit

from flask import current_app, g, request, session
from flask.sessions import SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect
from peewee import OperationalError

from models import Owner, Session, database
from web.keys import hash_secret
from web.problem import Problem

LIFETIME_MS = 180 * 86_400_000                                # without a visit
COARSE_MS = 3_600_000
csrf = CSRFProtect()


class Cookies(SecureCookieSessionInterface):
    """Flask's own; for those who send no cookie, as bots do, it makes no signer."""

    def open_session(self, app, request):
        return super().open_session(app, request) if "Cookie" in request.headers else self.session_class()


def init_app(app):
    """The checks run where forms are taken (`check_sender`), not on the keyed interface."""
    app.config.update(WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None, PERMANENT_SESSION_LIFETIME=LIFETIME_MS // 1000)
    csrf.init_app(app)
    app.session_interface = Cookies()


def check_sender():
    """A form counts only if it was sent from a page of this site and carries that page's token."""
    if request.method != "POST":
        return
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none") or not _is_own(request.headers.get("Origin")):
        raise Problem("foreign_origin", "this form was sent from another site, so nothing was done; open the page here and send it again")
    csrf.protect()


def _is_own(origin):
    return origin is None or origin in (_origin(request.host_url), _origin(current_app.config["CANDOR"].base_url))


def _origin(url):
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# ---- who is here ----------------------------------------------------------------------------------------------------------
def find_session():
    """The Session of this browser with its owner, or None. Read once a request."""
    if "creator_session" not in g:
        g.creator_session = _load(session["creator"], g.now) if "creator" in session else None
    return g.creator_session


def find_owner():
    found = find_session()
    return found and found.owner


def begin_session(owner, now):
    """This browser manages what is `owner`'s from now on. Everything the cookie held before is dropped, the form token too."""
    name = secrets.token_urlsafe(32)
    g.creator_session = Session.create(owner=owner, hash=hash_secret(name), created_at=now, seen_at=now)
    session.clear()
    session["creator"] = name
    session.permanent = True


def end_session():
    found = find_session()
    if found:
        found.delete_instance()
    session.clear()
    g.creator_session = None


def end_sessions_of(owner):
    """Every browser of the owner is signed out."""
    Session.delete().where(Session.owner == owner).execute()


def _load(name, now):
    found = Session.select(Session, Owner).join(Owner).where(Session.hash == hash_secret(name), Session.seen_at > now - LIFETIME_MS).first()
    if found and now - found.seen_at > COARSE_MS:
        _note_visit(found, now)
    return found


def _note_visit(found, now):
    """At most one write an hour; where nothing can be written just now, reading goes on."""
    with contextlib.suppress(OperationalError), database.impatient():
        Session.update(seen_at=now).where(Session.id == found.id).execute()
