"""The door: what every request passes (host, address, key, allowance: in this order) and what every answer carries."""
import logging
import secrets
import time

from flask import current_app, g, request

import ratelimit
from config import BadSetting
from web import auth
from web.problem import Problem

CONTENT_POLICY = ("default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
                  "frame-ancestors 'none'")
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
access_log = logging.getLogger("candor.access")


def init_app(app, config):
    """`app.allowance` counts for every route; the hooks run for paths that do not exist, too."""
    if config.ratelimit_storage_url:
        raise BadSetting("RATELIMIT_STORAGE_URL is not supported yet: leave it unset")
    app.allowance = ratelimit.Allowance(config.ratelimit_path)
    app.before_request(begin)
    app.before_request(check_host)
    app.before_request(check_address)
    app.after_request(finish)


def begin():
    g.request_id, g.now, g.began, g.standing, g.caller = f"req_{secrets.token_hex(12)}", time.time_ns() // 1_000_000, time.perf_counter(), None, None


def check_host():
    """A page of another site that made its name point here (DNS rebinding) still sends its own name."""
    host = request.host.lower()
    name = host[:host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name not in settings().allowed_hosts:
        raise Problem("misdirected_request", "this instance does not serve that host; its operator can add it to ALLOWED_HOSTS")


def check_address():
    if request.endpoint != "static":
        _take(ratelimit.list_address_limits(settings(), request.remote_addr), "your address")


def check_key():
    """The gate of /api/v1: a working key with allowance left. Sets `g.caller` and `g.standing`; /me costs nothing."""
    try:
        g.caller = auth.authenticate(request.headers.get("Authorization", ""), g.now)
    except Problem:
        note_failure()
        raise
    limits = ratelimit.list_limits(settings(), g.caller.owner_id, posting=request.method == "POST")
    if request.endpoint == "v1.show_me":
        g.standing = current_app.allowance.look(limits, g.now / 1000)
        return
    g.standing = current_app.allowance.take(limits, g.now / 1000)
    if not g.standing.admitted:
        raise _limited(g.standing, "this account")


def note_failure():
    """Count a failed authentication of this address; Problem 429 instead of the caller's own refusal once there were too many."""
    _take(ratelimit.list_failure_limits(settings(), request.remote_addr), "failed attempts from your address")


def check_creation(owner_id=None):
    """May this address (and this owner, if there is one) create another influencer here and now?"""
    if settings().registration == "closed":
        raise Problem("registration_closed", "new influencers are made by the operator of this instance only")
    _take(ratelimit.list_creation_limits(settings(), request.remote_addr, owner_id), "new influencers")


def check_posting(owner_id):
    """May this owner post another time by hand? It shares the minute's posts with the keys."""
    _take([limit for limit in ratelimit.list_limits(settings(), owner_id, posting=True) if limit.name == "posts_minute"], "posts")


def settings():
    return current_app.config["CANDOR"]


def _take(limits, whose):
    standing = current_app.allowance.take(limits, g.now / 1000)
    if not standing.admitted:
        raise _limited(standing, whose)


def _limited(standing, whose):
    window = standing.tightest
    return Problem("rate_limited", f"the limit of {window.most} for {whose} is used up ({window.name}); try again in {window.reset} s",
                   headers={"Retry-After": str(window.reset)}, window=window.name)


def finish(response):
    response.headers["X-Request-Id"] = g.request_id
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    if g.get("framable"):
        del response.headers["X-Frame-Options"]
    if settings().base_url.startswith("https:"):
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    if g.standing is not None:
        response.headers.update(ratelimit.show_headers(g.standing))
        response.headers["RateLimit-Policy"] = ratelimit.show_policy(settings())
    note_answer(response)
    return response


def note_answer(response):
    """One line a request: the route, never the path or the query, which may hold whatever somebody pasted."""
    access_log.info("request", extra={"shown": {
        "requestId": g.request_id, "method": request.method, "route": request.url_rule.rule if request.url_rule else None, "status": response.status_code,
        "ms": round((time.perf_counter() - g.began) * 1000, 1), "key": g.caller and g.caller.key_uid}})
