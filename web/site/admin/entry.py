"""Control access to the operator's pages: only a browser that used a link from `app.py admin login`
is admitted.

Headers set by a proxy don't matter. The session has its own cookie, so owner and operator sessions
don't end each other. Forms are checked like owners' forms (web.server.sessions).
"""

from typing import Any

from flask import Blueprint, Response, flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import admin
from accounts.tables import AdminSession
from config import Config
from web.server import gate, sessions
from web.server.gate import settings

blueprint = Blueprint("admin", __name__, url_prefix="/admin")
blueprint.before_request(sessions.check_sender)
OPEN_ENDPOINTS = ("admin.show_login", "admin.log_in")
# A code has 43 characters.
MAX_CODE = 200
WRONG_CODE = "This code is unknown, already used, or more than ten minutes old."


@blueprint.before_request
def require_operator() -> ResponseReturnValue | None:
    if request.endpoint in OPEN_ENDPOINTS:
        return None
    token = request.cookies.get(name_cookie(settings()))
    g.admin_session = admin.find_session(token, g.now) if token else None
    return None if g.admin_session else render_login(status=403)


@blueprint.after_request
def keep_private(response: Response) -> Response:
    """Keep the operator's pages out of caches and search engines."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


def find_session() -> AdminSession:
    found: AdminSession = g.admin_session
    return found


# ---- signing in and out --------------------------------------------------------------------------
@blueprint.get("/login")
def show_login() -> ResponseReturnValue:
    """Show the button that uses a code. Opening this page doesn't use the code."""
    return render_login(request.args.get("code", "")[:MAX_CODE])


def render_login(code: str = "", error: str | None = None, status: int = 200) -> tuple[str, int]:
    return render_template("admin/login.html", code=code, error=error), status


@blueprint.post("/login")
def log_in() -> ResponseReturnValue:
    made = admin.use_login(request.form.get("code", "")[:MAX_CODE], g.now)
    if made is None:
        gate.note_failure()
        return render_login(error=WRONG_CODE, status=422)
    response = redirect(url_for("admin.show_overview"))
    config = settings()
    response.set_cookie(
        name_cookie(config), made.token, admin.SESSION_MS // 1000, **limit_cookie(config)
    )
    return response


@blueprint.post("/logout")
def log_out() -> ResponseReturnValue:
    """End this session or, with `all`, every session."""
    who = find_session().uid
    if request.form.get("all") == "yes":
        admin.end_all(who, g.now)
        flash("All browsers are signed out, and earlier sign-in links no longer work.")
    else:
        admin.end_session(who, who, g.now)
        flash("You’re signed out.")
    response = redirect(url_for("admin.show_login"))
    config = settings()
    response.delete_cookie(name_cookie(config), **limit_cookie(config))
    return response


# ---- the cookie ----------------------------------------------------------------------------------
def name_cookie(config: Config) -> str:
    return sessions.name_cookie("candor_admin", config)


def limit_cookie(config: Config) -> Any:
    """Return where the cookie is sent. `__Host-` requires the path /."""
    path = "/" if name_cookie(config).startswith("__Host-") else f"{config.base_path}/admin"
    is_secure = sessions.is_https(config)
    return {"path": path, "secure": is_secure, "httponly": True, "samesite": "Strict"}
