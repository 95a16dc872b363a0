"""The gate that every request passes: host, address, key, allowance, in this order; and what every
answer says of its request.
"""

import functools
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit
from wsgiref.types import WSGIEnvironment

from flask import Response, g, request
from flask.globals import request_ctx
from flask_limiter import Limiter
from limits import RateLimitItemPerMinute

import ratelimit
from accounts.problem import Problem
from config import Config
from ratelimit import Limit
from storage import counters, database, deadline
from web.server import auth
from web.server.application import Application, find_app

# The blueprints whose routes ask for a key.
KEYED = ("v1", "inbox", "mcp")
KEYED_PATHS = "/api/v1/"
# Routes of them that cost nothing of the allowance; what an agent asks by a tool does.
FREE = ("v1.show_me", "mcp.answer_agent")
# Files of the pages' own looks, of which a page asks for several, and what monitors ask for: they
# are not counted, so they never wait for the counters.
UNCOUNTED = ("static", "health.show_health")
# Nobody reads faster.
REPORTS_PER_MINUTE = 5
# Archives of accounts, by address: each reads all that an owner has.
EXPORTS_PER_MINUTE = 3
# Tables, by address, in pages of 1,000 trades after their first.
TABLE_PAGES_PER_MINUTE = 60
# What the interface calls the window of an address.
ADDRESS = "address"
access_log = logging.getLogger("candor.access")
# What a window counts, for a sentence.
PERIODS = {
    "minute": "requests a minute",
    "hour": "requests an hour",
    "day": "requests a day",
    ADDRESS: "a minute",
    "posts_minute": "posts a minute",
    "creations_minute": "new bots a minute",
}


def settings() -> Config:
    """Return the settings of the application that answers."""
    return find_app().settings


# ---- limits of addresses: flask-limiter, counting where the allowance does -----------------------
def find_network() -> str:
    """Return what the present request's address is counted as."""
    return ratelimit.network_of(request.remote_addr or "")


def limited(window: ratelimit.Window, whose: str) -> Problem:
    """Return Problem 429 of a window that is used up."""
    most = f"{window.most} {PERIODS.get(window.name, 'a minute')}"
    return Problem(
        "rate_limited",
        f"the limit for {whose} is {most}; try again in {window.reset} s",
        headers={"Retry-After": str(window.reset)},
        window=window.name,
    )


limiter = Limiter(find_network, headers_enabled=False, strategy="fixed-window")


def count_address() -> None:
    """Count a request of this address; Problem 429 once there are too many."""
    find_context().is_counted = True
    count_in("address", find_app().settings.ip_limit_per_minute, "requests")


def note_failure() -> None:
    """Count a failed authentication of this address; Problem 429 instead of the caller's own
    refusal once there are too many.
    """
    count_in("failed", find_app().settings.failed_auth_per_minute, "failed attempts")


def count_evidence() -> None:
    """Count a document or page of evidence for an address; Problem 429 once there are too many."""
    count_in("evidence", find_app().settings.evidence_per_minute, "evidence")


def count_more_evidence(pages: int) -> None:
    """Count this many more pages of evidence for this address. The present request is answered;
    what the address asks for next has to wait.
    """
    key = RateLimitItemPerMinute(find_app().settings.evidence_per_minute).key_for(
        find_network(), "evidence"
    )
    find_app().allowance.add(Limit(key, "", 60, ratelimit.UNLIMITED), pages, g.now / 1000)


def meter_table() -> Callable[[], None]:
    """Return what counts a page of a table for this address, outside of its request, too. Problem
    429 if the address had its pages of this minute.
    """
    allowance, network = find_app().allowance, find_network()
    limit = Limit(f"tables:{network}", "", 60, TABLE_PAGES_PER_MINUTE)
    (window,) = allowance.peek([limit], g.now / 1000).windows
    if not window.remaining:
        raise refuse_address(window._replace(name=ADDRESS), "pages of tables")
    return lambda: allowance.add(limit._replace(most=ratelimit.UNLIMITED), 1, time.time())


def count_report() -> None:
    """Count a report of a post by this address; Problem 429 once there are too many."""
    count_in("reports", REPORTS_PER_MINUTE, "reports")


def count_export() -> None:
    """Count an archive of an account for this address; Problem 429 once there are too many."""
    count_in("exports", EXPORTS_PER_MINUTE, "archives")


def count_in(name: str, most: int, what: str) -> None:
    """Count a request of this address under `name`; Problem 429 where there were `most` of them
    this minute. A refused one is not counted.

    Asked for by name: flask-limiter's decorators look for all limits of a route at each of them,
    which takes longer than all else that a kept page needs.
    """
    item, network = RateLimitItemPerMinute(most), find_network()
    if limiter.limiter.hit(item, network, name):
        return
    key = item.key_for(network, name)
    limiter.storage.incr(key, item.get_expiry(), -1)
    reset = int(limiter.storage.get_expiry(key) - g.now // 1000)
    raise refuse_address(ratelimit.Window(ADDRESS, most, 0, reset), what)


def refuse_address(window: ratelimit.Window, what: str) -> Problem:
    """Return Problem 429 of an address's window. With a working key the headers are of this window,
    too: the owner's allowance is not what refused.
    """
    context = find_context()
    if context.caller is not None:
        context.rate_limit = ratelimit.RateLimitState(False, (window,))
    return limited(window, f"{what} from your address")


# ---- what every request passes -------------------------------------------------------------------
def init_app(app: Application, config: Config) -> None:
    """Install the gate. Its hooks run for paths that do not exist, too."""
    app.allowance = ratelimit.Allowance(counters.open_store(config))
    app.config.update(
        RATELIMIT_STORAGE_URI="allowance:",
        RATELIMIT_STORAGE_OPTIONS={"store": app.allowance.store, "clock": lambda: g.now / 1000},
    )
    app.before_request(functools.partial(enter, config))
    # flask-limiter's own hooks look for limits at every request; ours are asked for by name. It
    # installs none where it finds itself installed.
    app.extensions["limiter"] = {limiter}
    limiter.init_app(app)
    app.after_request(functools.partial(finish, config))
    app.teardown_request(lambda _: deadline.end())


@dataclass(slots=True)
class RequestContext:
    """One request: its id, when it came (`now` in ms, `began` by perf_counter), and what the gate
    found out. `g.context` is the present one.
    """

    method: str = ""
    # Of the rule that matched, never the path, which may hold whatever somebody pasted.
    route: str | None = None
    # Unique, not secret: the system's randomness would cost a system call.
    request_id: str = field(default_factory=lambda: f"req_{random.getrandbits(96):024x}")
    now: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    began: float = field(default_factory=time.perf_counter)
    # Of the database.
    version: object = None
    caller: auth.ApiCaller | None = None
    # Of the owner's allowance.
    rate_limit: ratelimit.RateLimitState | None = None
    # Does it count for its address?
    is_counted: bool = False


def enter(config: Config) -> None:
    """Begin a request: its context, its host, and for routes without a key its address."""
    # The object behind Flask's proxy, looked up once: each look costs as much as the attribute.
    this = request_ctx.request
    begin(this.method, this.url_rule.rule if this.url_rule else None)
    # Set by the server when the request arrived: waiting for a thread counts.
    deadline.begin(this.environ.get("candor.deadline"))
    hosts = list_hosts(this.environ)
    if not hosts and this.environ["SERVER_PROTOCOL"] != "HTTP/1.0":
        raise Problem("bad_request", "the header Host is missing")
    if not all(is_served(config, host) for host in hosts):
        raise Problem(
            "misdirected_request",
            "this instance does not serve that host; its operator can add it to ALLOWED_HOSTS",
        )
    if (
        this.url_rule is None
        and this.path.startswith(KEYED_PATHS)
        and "Authorization" in this.headers
    ):
        # No route matched: it counts for the key all the same.
        check_key()
    elif this.blueprint not in KEYED and this.endpoint not in UNCOUNTED:
        count_address()


def begin(method: str = "", route: str | None = None) -> None:
    """Give the present request its context."""
    g.context = context = RequestContext(method, route)
    g.now = context.now


def list_hosts(environ: WSGIEnvironment) -> list[str]:
    """Return the hosts a request names: its header's and, of an absolute URI, that URI's."""
    hosts, uri = [], environ.get("RAW_URI", "")
    if "HTTP_HOST" in environ:
        hosts.append(environ["HTTP_HOST"])
    if "://" in uri and not uri.startswith("/"):
        hosts.append(urlsplit(uri).netloc)
    return hosts


def is_served(config: Config, host: str) -> bool:
    """Tell whether the header `Host` names this instance. A page of another site that made its name
    point here (DNS rebinding) still sends its own.
    """
    host = host.lower()
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name in config.allowed_hosts


def check_key() -> None:
    """Admit a request to /api/v1: a working key with allowance left. /me costs nothing."""
    admit(request_ctx.request.headers.get("Authorization", ""), "read", "publish")


def admit(header: str, *scopes: str) -> None:
    """Admit a request with a working key of one of these scopes, and count it. `header`: as the
    header `Authorization` says it.
    """
    app, context, this = find_app(), find_context(), request_ctx.request
    try:
        caller = identify(app, context, header)
        if caller.scope not in scopes:
            raise Problem("insufficient_scope", "a key of this kind cannot do this")
    except Problem:
        count_address()
        note_failure()
        raise
    limits = ratelimit.list_limits(app.settings, caller.owner_id, posting=is_posting(context))
    if this.endpoint in FREE:
        count_address()
        context.rate_limit = app.allowance.peek(limits, context.now / 1000)
        return
    by_address = ratelimit.find_address_limit(app.settings, find_network())
    # One transaction counts for the address and the owner, in all windows or in none.
    state = app.allowance.charge([by_address, *limits], context.now / 1000)
    address, *windows = state.windows
    context.rate_limit = ratelimit.RateLimitState(state.admitted, tuple(windows))
    if not state.admitted and not address.remaining:
        raise refuse_address(address._replace(name=ADDRESS), "requests")
    if not state.admitted:
        raise limited(context.rate_limit.tightest, "this account")


def find_context() -> RequestContext:
    """Return what is known of the present request."""
    context: RequestContext = g.context
    return context


def find_caller() -> auth.ApiCaller:
    """Return the caller of the present request, once check_key has admitted it."""
    return cast(auth.ApiCaller, find_context().caller)


def identify(app: Application, context: RequestContext, header: str) -> auth.ApiCaller:
    """Return the caller of the header `Authorization`, and note it; Problem 401 without a working
    key. A key is read once for every version of the database.
    """
    context.version = version = database.data_version()
    context.caller = caller = auth.authenticate(
        header,
        context.now,
        lambda text, digest: app.caller_cache.find(
            digest, version, lambda: auth.find_key(text, digest)
        ),
    )
    app.allowance.note_use(caller.key_uid, context.now)
    return caller


def check_creation(owner_id: int | None = None) -> None:
    """Count the creation of a bot for this address (and this owner, if there is one);
    Problem where there are too many, or where registration is closed.
    """
    settings = find_app().settings
    if settings.registration == "closed":
        raise Problem("registration_closed", "only the operator of this instance can create bots")
    subjects = [f"creations:{find_network()}"]
    if owner_id:
        subjects.append(f"creations:owner:{owner_id}")
    most = settings.creations_per_minute
    limits = [Limit(subject, "creations_minute", 60, most) for subject in subjects]
    state = find_app().allowance.charge(limits, g.now / 1000)
    if not state.admitted:
        raise limited(state.tightest, "this address and account")


def check_posting(owner_id: int) -> None:
    """Count a post that this owner sends by a form; Problem 429 where there are too many. The
    minute's posts are shared with the owner's keys.
    """
    limits = ratelimit.list_limits(find_app().settings, owner_id, posting=True)
    posts = [limit for limit in limits if limit.name == "posts_minute"]
    state = find_app().allowance.charge(posts, g.now / 1000)
    if not state.admitted:
        raise limited(state.tightest, "this account")


def finish(config: Config, response: Response) -> Response:
    """Add the gate's headers to an answer, and log the request."""
    context = find_context()
    # As pairs: Werkzeug looks into each value of a dict.
    response.headers.extend(list(list_headers(config, context).items()))
    if response.status_code == 503 and context.rate_limit is not None:
        wait_for_reset(response, context.rate_limit)
    log_request(context, response.status_code)
    return response


def wait_for_reset(response: Response, state: ratelimit.RateLimitState) -> None:
    """Let Retry-After name no moment before RateLimit-Reset: clients that read both would not know
    which one to believe.
    """
    wait = max(int(response.headers.get("Retry-After", 0)), state.tightest.reset)
    response.headers["Retry-After"] = str(wait)


def list_headers(config: Config, context: RequestContext) -> dict[str, str]:
    """Return the request's id as headers and the limits it counts in: with a key the owner's, and
    what is left of them, else that of its address.
    """
    shown = {"X-Request-Id": context.request_id}
    if context.rate_limit is not None:
        shown |= ratelimit.show_headers(context.rate_limit)
        shown["RateLimit-Policy"] = ratelimit.show_policy(config, is_posting(context))
    elif context.is_counted:
        shown["RateLimit-Policy"] = ratelimit.show_address_policy(config)
    return shown


def is_posting(context: RequestContext) -> bool:
    """Does a request count as a post? One to an unknown path does not."""
    return context.method == "POST" and context.route is not None


def log_request(context: RequestContext, status: int) -> None:
    """Log one line for a request."""
    shown = {
        "requestId": context.request_id,
        "method": context.method,
        "route": context.route,
        "status": status,
        "ms": round((time.perf_counter() - context.began) * 1000, 1),
        "key": context.caller and context.caller.key_uid,
    }
    access_log.info("request", extra={"shown": shown})
