"""The door: what every request passes (host, address, key, allowance: in this order) and what every answer tells of it."""
import logging
import secrets
import time

from flask import current_app, g, request
from flask_limiter import Limiter

import ratelimit
import tally
from models import database
from ratelimit import Limit
from web import auth
from web.problem import Problem

KEYED = "v1"                                                  # the blueprint whose routes ask for a key
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


limiter = Limiter(find_network, headers_enabled=False, strategy="fixed-window")


@limiter.shared_limit(lambda: f"{settings().ip_limit_per_minute}/minute", "address", on_breach=refuse("your address", "address"))
def count_address():
    """Count a request of this address; Problem 429 once there were too many."""


@limiter.shared_limit(lambda: f"{settings().failed_auth_per_minute}/minute", "failed", on_breach=refuse("failed attempts from your address", "address"))
def note_failure():
    """Count a failed authentication of this address; Problem 429 instead of the caller's own refusal once there were too many."""


# ---- what every request passes ----------------------------------------------------------------------------------------------------
def init_app(app, config):
    """`app.allowance` counts for every route; the hooks run for paths that do not exist, too."""
    app.allowance = ratelimit.Allowance(tally.open_store(config))
    app.config.update(RATELIMIT_STORAGE_URI="allowance:", RATELIMIT_STORAGE_OPTIONS={"store": app.allowance.store, "clock": lambda: g.now / 1000},
                      RATELIMIT_REQUEST_IDENTIFIER=lambda: request.endpoint or "nowhere")
    app.before_request(enter)
    app.extensions["limiter"] = {limiter}                     # as if its hooks were there: they look for limits of every request, and ours are asked by name
    limiter.init_app(app)
    app.after_request(finish)


def enter():
    begin()
    if not is_served(settings(), request.host):
        raise Problem("misdirected_request", "this instance does not serve that host; its operator can add it to ALLOWED_HOSTS")
    if request.blueprint != KEYED:
        count_address()


def begin():
    g.request_id, g.now, g.began = start()
    g.standing = g.caller = None


def start():
    """(id, now in ms, `perf_counter` for what it takes) of a request."""
    return f"req_{secrets.token_hex(12)}", time.time_ns() // 1_000_000, time.perf_counter()


def is_served(config, host):
    """A page of another site that made its name point here (DNS rebinding) still sends its own name."""
    host = host.lower()
    return (host[:host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]) in config.allowed_hosts


def check_key():
    """The gate of /api/v1: a working key with allowance left. Sets `g.caller` and `g.standing`; /me costs nothing."""
    g.version = database.data_version()
    try:
        g.caller = find_caller(current_app, request.headers.get("Authorization", ""), g.now, g.version)
    except Problem:
        count_address()
        note_failure()
        raise
    limits = ratelimit.list_limits(settings(), g.caller.owner_id, posting=request.method == "POST")
    if request.endpoint == "v1.show_me":
        count_address()
        g.standing = current_app.allowance.look(limits, g.now / 1000)
        return
    address, g.standing = count_keyed(current_app, request.remote_addr, limits, g.now)
    if not g.standing.admitted:
        raise limited(g.standing.tightest, "this account") if address.remaining else limited(address, "your address")


def find_caller(app, header, now, version):
    """The Caller of the header `Authorization`; Problem 401 without a working key. Keys are read once for every `version` of the database."""
    return auth.authenticate(header, now, lambda text, digest: app.callers.find(digest, version, lambda: auth.find_key(text, digest)))


def count_keyed(app, address, limits, now):
    """Count a request for its address and in an owner's `limits`, in all or in none (flask-limiter would take longer than all the rest): (the address's Window, the owner's Standing)."""
    by_address = ratelimit.find_address_limit(app.config["CANDOR"], ratelimit.network_of(address))
    standing = app.allowance.take([by_address, *limits], now / 1000)
    return standing.windows[0], ratelimit.Standing(standing.admitted, standing.windows[1:])


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
    response.headers.extend(list_headers(settings(), g.request_id, g.standing))
    note_answer(g.request_id, request.method, request.url_rule and request.url_rule.rule, response.status_code, g.began, g.caller)
    return response


def list_headers(config, request_id, standing):
    """What an answer tells of its request; `standing`: the owner's, None where nobody asked with a key."""
    told = {"X-Request-Id": request_id}
    return {**told, **ratelimit.show_headers(standing), "RateLimit-Policy": ratelimit.show_policy(config.allowance)} if standing else told


def note_answer(request_id, method, route, status, began, caller):
    """One line a request: the route, never the path or the query, which may hold whatever somebody pasted."""
    access_log.info("request", extra={"shown": {"requestId": request_id, "method": method, "route": route, "status": status,
                                                "ms": round((time.perf_counter() - began) * 1000, 1), "key": caller and caller.key_uid}})
