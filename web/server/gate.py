"""The door: what every request passes (host, address, key, allowance: in this order) and what every
answer tells of it.
"""

import logging
import random
import time
from dataclasses import dataclass, field

from flask import current_app, g, request
from flask_limiter import Limiter

import ratelimit
from accounts.problem import Problem
from ratelimit import Limit
from storage import counters, database
from web.server import auth

# the blueprint whose routes ask for a key
KEYED = "v1"
access_log = logging.getLogger("candor.access")


def settings():
    return current_app.config["CANDOR"]


# ---- what addresses may do: flask-limiter, counting where the allowance does ---------------------
def find_network():
    return ratelimit.network_of(request.remote_addr)


def refuse(whose, window):
    """What happens when such a limit is used up. What this request was counted for is given back: a
    refused one uses nothing up.
    """

    def give_back_and_raise(breached):
        for counted in limiter.current_limits:
            limiter.storage.incr(counted.key, counted.limit.get_expiry(), -1)
        raise limited(
            ratelimit.Window(
                window, breached.limit.amount, 0, int(breached.window.reset_time - g.now // 1000)
            ),
            whose,
        )

    return give_back_and_raise


def limited(window, whose):
    return Problem(
        "rate_limited",
        f"the limit of {window.most} for {whose} is used up ({window.name}); try again in"
        f" {window.reset} s",
        headers={"Retry-After": str(window.reset)},
        window=window.name,
    )


limiter = Limiter(find_network, headers_enabled=False, strategy="fixed-window")


@limiter.shared_limit(
    lambda: f"{settings().ip_limit_per_minute}/minute",
    "address",
    on_breach=refuse("your address", "address"),
)
def count_address():
    """Count a request of this address; Problem 429 once there were too many."""


@limiter.shared_limit(
    lambda: f"{settings().failed_auth_per_minute}/minute",
    "failed",
    on_breach=refuse("failed attempts from your address", "address"),
)
def note_failure():
    """Count a failed authentication of this address; Problem 429 instead of the caller's own
    refusal once there were too many.
    """


# ---- what every request passes -------------------------------------------------------------------
def init_app(app, config):
    """`app.allowance` counts for every route; the hooks run for paths that do not exist, too."""
    app.allowance = ratelimit.Allowance(counters.open_store(config))
    app.config.update(
        RATELIMIT_STORAGE_URI="allowance:",
        RATELIMIT_STORAGE_OPTIONS={"store": app.allowance.store, "clock": lambda: g.now / 1000},
        RATELIMIT_REQUEST_IDENTIFIER=lambda: request.endpoint or "nowhere",
    )
    app.before_request(lambda: enter(config))
    # as if its hooks were there: they look for limits of every request, and ours are asked by name
    app.extensions["limiter"] = {limiter}
    limiter.init_app(app)
    app.after_request(lambda response: finish(config, response))


@dataclass(slots=True)
class RequestContext:
    """One request: its id, when it came (`now` in ms, `began` by perf_counter), and what the gate
    found out.
    """

    method: str = ""
    # of the rule that matched, never the path, which may hold whatever somebody pasted
    route: str | None = None
    # unique, not secret: the system's randomness would cost a system call
    request_id: str = field(default_factory=lambda: f"req_{random.getrandbits(96):024x}")
    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    began: float = field(default_factory=time.perf_counter)
    # of the database
    version: object = None
    caller: auth.ApiCaller | None = None
    # the owner's
    standing: ratelimit.RateLimitState | None = None


def enter(config):
    # One look through the proxy: each costs as much as the attribute behind it.
    asked = request._get_current_object()
    begin(asked.method, asked.url_rule and asked.url_rule.rule)
    if not is_served(config, asked.host):
        raise Problem(
            "misdirected_request",
            "this instance does not serve that host; its operator can add it to ALLOWED_HOSTS",
        )
    if asked.blueprint != KEYED:
        count_address()


def begin(method="", route=None):
    g.visit = visit = RequestContext(method, route)
    g.now = visit.now


def is_served(config, host):
    """A page of another site that made its name point here (DNS rebinding) still sends its own
    name.
    """
    host = host.lower()
    return (
        host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    ) in config.allowed_hosts


def check_key():
    """The gate of /api/v1: a working key with allowance left. /me costs nothing."""
    visit, app, asked = g.visit, current_app._get_current_object(), request._get_current_object()
    try:
        identify(app, visit, asked.headers.get("Authorization", ""))
    except Problem:
        count_address()
        note_failure()
        raise
    limits = ratelimit.list_limits(
        app.config["CANDOR"], visit.caller.owner_id, posting=asked.method == "POST"
    )
    if asked.endpoint == "v1.show_me":
        count_address()
        visit.standing = app.allowance.look(limits, visit.now / 1000)
        return
    address = count_keyed(app, visit, asked.remote_addr, limits)
    if not visit.standing.admitted:
        raise (
            limited(visit.standing.tightest, "this account")
            if address.remaining
            else limited(address, "your address")
        )


def identify(app, visit, header):
    """Find the caller of the header `Authorization`; Problem 401 without a working key. Keys are
    read once for every version of the database.
    """
    visit.version = database.data_version()
    visit.caller = auth.authenticate(
        header,
        visit.now,
        lambda text, digest: app.caller_cache.find(
            digest, visit.version, lambda: auth.find_key(text, digest)
        ),
    )
    app.allowance.note_use(visit.caller.key_uid, visit.now)


def count_keyed(app, visit, address, limits):
    """Count the visit for its address and in its owner's `limits`, in all or in none; flask-limiter
    would take longer than all the rest. The address's Window.
    """
    by_address = ratelimit.find_address_limit(app.config["CANDOR"], ratelimit.network_of(address))
    standing = app.allowance.take([by_address, *limits], visit.now / 1000)
    visit.standing = ratelimit.RateLimitState(standing.admitted, standing.windows[1:])
    return standing.windows[0]


def check_creation(owner_id=None):
    """May this address (and this owner, if there is one) create another influencer here and now?"""
    if settings().registration == "closed":
        raise Problem(
            "registration_closed", "new influencers are made by the operator of this instance only"
        )
    subjects = [
        f"creations:{find_network()}",
        *([f"creations:owner:{owner_id}"] if owner_id else []),
    ]
    standing = current_app.allowance.take(
        [
            Limit(subject, "creations_minute", 60, settings().creations_per_minute)
            for subject in subjects
        ],
        g.now / 1000,
    )
    if not standing.admitted:
        raise limited(standing.tightest, "new influencers")


def check_posting(owner_id):
    """May this owner post another time by hand? It shares the minute's posts with the keys."""
    standing = current_app.allowance.take(
        [
            limit
            for limit in ratelimit.list_limits(settings(), owner_id, posting=True)
            if limit.name == "posts_minute"
        ],
        g.now / 1000,
    )
    if not standing.admitted:
        raise limited(standing.tightest, "posts")


def finish(config, response):
    visit = g.visit
    # as pairs: Werkzeug looks into each value of a dict
    response.headers.extend(list(list_headers(config, visit).items()))
    note_answer(visit, response.status_code)
    return response


def list_headers(config, visit):
    """What an answer tells of its request: its id and, to who came with a key, how the allowance
    stands.
    """
    told = {"X-Request-Id": visit.request_id}
    return (
        {
            **told,
            **ratelimit.show_headers(visit.standing),
            "RateLimit-Policy": ratelimit.show_policy(config.allowance),
        }
        if visit.standing
        else told
    )


def note_answer(visit, status):
    """Log one line a request."""
    access_log.info(
        "request",
        extra={
            "shown": {
                "requestId": visit.request_id,
                "method": visit.method,
                "route": visit.route,
                "status": status,
                "ms": round((time.perf_counter() - visit.began) * 1000, 1),
                "key": visit.caller and visit.caller.key_uid,
            }
        },
    )
