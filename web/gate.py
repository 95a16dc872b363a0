"""The door: what every request passes (host, address, key, allowance: in this order) and what every answer carries."""
import logging
import secrets
import time

from flask import current_app, g, request
from flask_limiter import ApplicationLimit, Limiter

import ratelimit
import tally
from ratelimit import Limit
from web import auth
from web.problem import Problem

CONTENT_POLICY = ("default-src 'none'; connect-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
                  "frame-ancestors 'none'")
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
access_log = logging.getLogger("candor.access")


def settings():
    return current_app.config["CANDOR"]


# ---- what addresses may do: flask-limiter, counting where the allowance does ------------------------------------------------------
def find_network():
    return ratelimit.network_of(request.remote_addr)


def refuse(whose, window):
    """What happens when such a limit is used up. What this request was counted for is given back: a refused one uses nothing up."""
    def give_back_and_raise(breached):
        for counted in limiter.current_limits:
            limiter.storage.incr(counted.key, counted.limit.get_expiry(), -1)
        raise limited(ratelimit.Window(window, breached.limit.amount, 0, int(breached.window.reset_time - g.now // 1000)), whose)
    return give_back_and_raise


def limited(window, whose):
    return Problem("rate_limited", f"the limit of {window.most} for {whose} is used up ({window.name}); try again in {window.reset} s",
                   headers={"Retry-After": str(window.reset)}, window=window.name)


limiter = Limiter(find_network, headers_enabled=False, strategy="fixed-window", application_limits=[
    ApplicationLimit(lambda: f"{settings().ip_limit_per_minute}/minute", scope="address", on_breach=refuse("your address", "address"))])


@limiter.shared_limit(lambda: f"{settings().failed_auth_per_minute}/minute", "failed", on_breach=refuse("failed attempts from your address", "address"))
def note_failure():
    """Count a failed authentication of this address; Problem 429 instead of the caller's own refusal once there were too many."""


# ---- what every request passes ----------------------------------------------------------------------------------------------------
def init_app(app, config):
    """`app.allowance` counts for every route; the hooks run for paths that do not exist, too."""
    app.allowance = ratelimit.Allowance(tally.open_store(config))
    app.config.update(RATELIMIT_STORAGE_URI="allowance:", RATELIMIT_STORAGE_OPTIONS={"store": app.allowance.store, "clock": lambda: g.now / 1000},
                      RATELIMIT_REQUEST_IDENTIFIER=lambda: request.endpoint or "nowhere")
    app.before_request(begin)
    app.before_request(check_host)
    limiter.init_app(app)                                     # counts the address, before any key is looked at
    app.after_request(finish)


def begin():
    g.request_id, g.now, g.began, g.standing, g.caller = f"req_{secrets.token_hex(12)}", time.time_ns() // 1_000_000, time.perf_counter(), None, None


def check_host():
    """A page of another site that made its name point here (DNS rebinding) still sends its own name."""
    host = request.host.lower()
    name = host[:host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name not in settings().allowed_hosts:
        raise Problem("misdirected_request", "this instance does not serve that host; its operator can add it to ALLOWED_HOSTS")


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
        raise limited(g.standing.tightest, "this account")


def check_creation(owner_id=None):
    """May this address (and this owner, if there is one) create another influencer here and now?"""
    if settings().registration == "closed":
        raise Problem("registration_closed", "new influencers are made by the operator of this instance only")
    subjects = [f"creations:{find_network()}", *([f"creations:owner:{owner_id}"] if owner_id else [])]
    standing = current_app.allowance.take([Limit(subject, "creations_minute", 60, settings().creations_per_minute) for subject in subjects], g.now / 1000)
    if not standing.admitted:
        raise limited(standing.tightest, "new influencers")


def check_posting(owner_id):
    """May this owner post another time by hand? It shares the minute's posts with the keys."""
    standing = current_app.allowance.take([limit for limit in ratelimit.list_limits(settings(), owner_id, posting=True) if limit.name == "posts_minute"], g.now / 1000)
    if not standing.admitted:
        raise limited(standing.tightest, "posts")


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
