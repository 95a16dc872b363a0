"""Check every request's host, address, key and rate limit, in order, and set response headers."""

import functools
import hmac
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, cast
from urllib.parse import urlsplit
from wsgiref.types import WSGIEnvironment

from flask import Response, g, request
from flask.globals import request_ctx
from flask_limiter import Limiter
from limits import RateLimitItemPerMinute

import ratelimit
from accounts.conduct import tell_owner
from accounts.keys import hash_secret, is_well_formed
from accounts.problem import Problem
from config import WINDOW_SECONDS, Config
from ratelimit import Limit
from storage import counters, database, trouble
from storage.rows import select_one
from web.server.application import Application, find_app

# Blueprints whose routes require a key.
KEYED = ("v1", "inbox", "mcp")
KEYED_PATHS = "/api/v1/"
# These don't count toward the rate limit. An agent's tool calls do.
FREE = ("v1.get_me", "mcp.answer_agent")
# Static files (a page requests several) and health checks never wait for the counters.
UNCOUNTED = ("static", "health.get_health")
# Nobody reads faster than this.
REPORTS_PER_MINUTE = 5
# Per address. An export reads everything that an owner has.
EXPORTS_PER_MINUTE = 3
# Table pages per address, of 1,000 trades each, not counting the first page.
TABLE_PAGES_PER_MINUTE = 60
# Bots that agents can register from one address per day, as a multiple of the limit per minute.
REGISTRATION_MINUTES_A_DAY = 20
ADDRESS = "address"
access_log = logging.getLogger("candor.access")
PERIODS = {
    "minute": "requests a minute",
    "hour": "requests an hour",
    "day": "requests a day",
    ADDRESS: "a minute",
    "posts_minute": "posts a minute",
    "creations_minute": "new bots a minute",
    "registrations_day": "bots registered by agents a day",
}


def settings() -> Config:
    return find_app().settings


# ---- limits of addresses: flask-limiter, counting where the allowance does -----------------------
def find_network() -> str:
    return ratelimit.network_of(request.remote_addr or "")


def limited(window: ratelimit.Window, whose: str) -> Problem:
    most = f"{window.most} {PERIODS.get(window.name, 'a minute')}"
    return Problem(
        "rate_limited",
        f"the limit for {whose} is {most}; try again in {window.reset} s",
        headers={"Retry-After": str(window.reset)},
        window=window.name,
    )


limiter = Limiter(find_network, headers_enabled=False, strategy="fixed-window")


def count_address() -> None:
    """Raises Problem 429 over the limit."""
    find_context().is_counted = True
    count_in("address", find_app().settings.ip_limit_per_minute, "requests")


def note_failure() -> None:
    """Count a failed authentication by this address.

    Over the limit, it raises Problem 429, which replaces the caller's error.
    """
    count_in("failed", find_app().settings.failed_auth_per_minute, "failed attempts")


def count_evidence() -> None:
    """Count an evidence document or page. Raises Problem 429 over the limit."""
    count_in("evidence", find_app().settings.evidence_per_minute, "evidence")


def count_more_evidence(pages: int) -> None:
    """Charge `pages` more evidence pages to this address's limit. The next request waits."""
    key = RateLimitItemPerMinute(find_app().settings.evidence_per_minute).key_for(
        find_network(), "evidence"
    )
    find_app().allowance.add(Limit(key, "", 60, ratelimit.UNLIMITED), pages, g.now / 1000)


def meter_table() -> Callable[[], None]:
    """Return a function that counts a table page for this address, even outside the request.

    It raises Problem 429 once the address has used up its pages for this minute.
    """
    allowance, network = find_app().allowance, find_network()
    limit = Limit(f"tables:{network}", "", 60, TABLE_PAGES_PER_MINUTE)
    (window,) = allowance.peek([limit], g.now / 1000).windows
    if not window.remaining:
        raise refuse_address(window._replace(name=ADDRESS), "pages of tables")
    return lambda: allowance.add(limit._replace(most=ratelimit.UNLIMITED), 1, time.time())


def count_in(name: str, most: int, what: str) -> None:
    """Count a request by this address under `name`. Raises Problem 429 after `most` per minute.

    A refused request isn't counted. flask-limiter's decorators aren't used, because they look up
    all limits of a route each time, which takes longer than the rest of a cached page.
    """
    item, network = RateLimitItemPerMinute(most), find_network()
    if limiter.limiter.hit(item, network, name):
        return
    key = item.key_for(network, name)
    limiter.storage.incr(key, item.get_expiry(), -1)
    reset = int(limiter.storage.get_expiry(key) - g.now // 1000)
    raise refuse_address(ratelimit.Window(ADDRESS, most, 0, reset), what)


def refuse_address(window: ratelimit.Window, what: str) -> Problem:
    """Return Problem 429 for an address's window.

    Even with a valid key, the headers describe this window, because the owner's limit isn't
    exceeded.
    """
    context = find_context()
    if context.caller is not None:
        context.rate_limit = ratelimit.RateLimitState(False, (window,))
    return limited(window, f"{what} from your address")


# ---- what every request passes -------------------------------------------------------------------
def init_app(app: Application, config: Config) -> None:
    """Install the hooks. They also run for unknown paths."""
    app.allowance = ratelimit.Allowance(counters.open_store(config))
    app.config.update(
        RATELIMIT_STORAGE_URI="allowance:",
        RATELIMIT_STORAGE_OPTIONS={"store": app.allowance.store, "clock": lambda: g.now / 1000},
    )
    app.before_request(functools.partial(enter, config))
    # flask-limiter's own hooks look up limits on every request, so we call ours explicitly. If it
    # appears to be installed already, it doesn't install its hooks.
    app.extensions["limiter"] = {limiter}
    limiter.init_app(app)
    app.after_request(functools.partial(finish, config))
    app.teardown_request(end)


FIND_KEY = """
SELECT k.hash AS key_hash, k.expires_at AS key_expires_at, k.id AS key_id, k.uid AS key_uid,
       k.scope, o.id AS owner_id, o.uid AS owner_uid, b.id AS bot_id, b.uid AS bot_uid,
       (SELECT reason FROM ban WHERE kind = 'owner' AND target = o.uid) AS ban_reason
FROM "key" k JOIN owner o ON o.id = k.owner_id LEFT JOIN bot b ON b.id = k.bot_id
WHERE k.hash = ? AND k.revoked_at IS NULL"""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="candor"'}
INVALID_TOKEN = {"WWW-Authenticate": 'Bearer realm="candor", error="invalid_token"'}


class ApiCaller(NamedTuple):
    """The owner of a key that isn't revoked.

    `key_expires_at` is in ms, or None. `bot_*` is None for a read key. `key_hash` is the hash of
    the key's text, which isn't stored.
    """

    key_hash: str
    key_expires_at: int | None
    key_id: int
    key_uid: str
    scope: str
    owner_id: int
    owner_uid: str
    bot_id: int | None
    bot_uid: str | None
    ban_reason: str | None


@dataclass(slots=True)
class RequestContext:
    """The current request (`g.context`), with the results of its checks.

    `began` is its arrival in seconds of perf_counter. `g.now` is the same in UTC milliseconds.
    """

    method: str = ""
    # The matched rule, never the path, which may contain anything that a user pasted.
    route: str | None = None
    # Unique but not secret. The system's random source would cost a system call.
    request_id: str = field(default_factory=lambda: f"req_{random.getrandbits(96):024x}")
    began: float = field(default_factory=time.perf_counter)
    # The database's.
    version: object = None
    caller: ApiCaller | None = None
    # The owner's.
    rate_limit: ratelimit.RateLimitState | None = None
    # Whether the request counts for its address.
    is_counted: bool = False


def enter(config: Config) -> None:
    """Create the request's context, and check its host and, without a key, its address."""
    # The object behind Flask's proxy, looked up once, because each look-up costs as much as the
    # attribute.
    this = request_ctx.request
    begin(this.method, this.url_rule.rule if this.url_rule else None)
    # The server sets this when the request arrives, so that waiting for a thread counts, too.
    trouble.begin_deadline(this.environ.get("candor.deadline"))
    hosts = list_hosts(this.environ)
    if not hosts and this.environ["SERVER_PROTOCOL"] != "HTTP/1.0":
        raise Problem("bad_request", "the Host header is missing")
    if not all(is_served(config, host) for host in hosts):
        raise Problem(
            "misdirected_request",
            "this instance doesn't serve that host name; its operator can add it to ALLOWED_HOSTS",
        )
    if (
        this.url_rule is None
        and this.path.startswith(KEYED_PATHS)
        and "Authorization" in this.headers
    ):
        # No route matched, but the request still counts for the key.
        check_key()
    elif this.blueprint not in KEYED and this.endpoint not in UNCOUNTED:
        count_address()


def end(error: BaseException | None) -> None:
    trouble.end_deadline()
    # The first query opens a connection; without queries, there is none to close.
    if not database.is_closed():
        database.close()


def begin(method: str = "", route: str | None = None) -> None:
    g.context, g.now = RequestContext(method, route), time.time_ns() // 1_000_000


def list_hosts(environ: WSGIEnvironment) -> list[str]:
    """Return the Host header's host and, if there is an absolute URI, the URI's."""
    hosts, uri = [], environ.get("RAW_URI", "")
    if "HTTP_HOST" in environ:
        hosts.append(environ["HTTP_HOST"])
    if "://" in uri and not uri.startswith("/"):
        hosts.append(urlsplit(uri).netloc)
    return hosts


def is_served(config: Config, host: str) -> bool:
    """Return whether the Host header is ours. It isn't under DNS rebinding."""
    host = host.lower()
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name in config.allowed_hosts


def check_key() -> None:
    """Admit a request to /api/v1 with a valid key within its rate limit. /me isn't counted."""
    admit(request_ctx.request.headers.get("Authorization", ""), "read", "publish")


def admit(header: str, *scopes: str) -> None:
    """Admit and count a request whose Authorization header has a key with one of these scopes."""
    app, context, this = find_app(), find_context(), request_ctx.request
    try:
        caller = identify(header)
        if caller.scope not in scopes:
            raise Problem("insufficient_scope", "this kind of key can't do this")
    except Problem:
        count_address()
        note_failure()
        raise
    limits = ratelimit.list_limits(app.settings, caller.owner_id, posting=is_posting(context))
    if this.endpoint in FREE:
        count_address()
        context.rate_limit = app.allowance.peek(limits, g.now / 1000)
        return
    by_address = ratelimit.find_address_limit(app.settings, find_network())
    # Charge the address and the owner atomically: in all windows or in none.
    state = app.allowance.charge([by_address, *limits], g.now / 1000)
    address, *windows = state.windows
    context.rate_limit = ratelimit.RateLimitState(state.admitted, tuple(windows))
    if not state.admitted and not address.remaining:
        raise refuse_address(address._replace(name=ADDRESS), "requests")
    if not state.admitted:
        raise limited(context.rate_limit.tightest, "this account")


def find_context() -> RequestContext:
    context: RequestContext = g.context
    return context


def find_caller() -> ApiCaller:
    """Return the current request's caller, after check_key has admitted it."""
    return cast(ApiCaller, find_context().caller)


def identify(header: str) -> ApiCaller:
    """Find the Authorization header's caller, and record the key's use.

    Raises Problem 401 without a valid key and 403 if the owner is banned. A key is looked up once
    per database version.
    """
    app, context = find_app(), find_context()
    context.version = version = database.data_version()
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise Problem(
            "missing_key", "send an Authorization: Bearer <API_KEY> header", headers=CHALLENGE
        )
    caller = find_key(
        text.strip(),
        g.now,
        lambda digest: app.caller_cache.find(digest, version, lambda: read_key(digest)),
    )
    if caller is None:
        raise Problem(
            "invalid_key", "this key is unknown, revoked or expired", headers=INVALID_TOKEN
        )
    if caller.ban_reason is not None:
        raise Problem("owner_banned", tell_owner(caller.ban_reason))
    context.caller = caller
    app.allowance.note_use(caller.key_uid, g.now)
    return caller


def read_key(digest: str) -> ApiCaller | None:
    """Return an unrevoked key's owner, even if it has expired. `digest`: hash_secret(text)."""
    return select_one(ApiCaller, FIND_KEY, (digest,))


def find_key(
    text: str, now: int, read: Callable[[str], ApiCaller | None] = read_key
) -> ApiCaller | None:
    """Return a valid key's owner, or None. `read` is read_key or a cache of it."""
    if not is_well_formed(text):
        return None
    digest = hash_secret(text)
    caller = read(digest)
    if not caller or not hmac.compare_digest(caller.key_hash, digest):
        return None
    if caller.key_expires_at is not None and caller.key_expires_at <= now:
        return None
    return caller


def check_creation(owner_id: int | None = None, by_agent: bool = False) -> None:
    """Count a new bot for this address and for the owner, if there is one.

    Raises Problem over the limit, or if registration is closed. `by_agent`: no human filled in a
    form, so a daily limit also applies.
    """
    settings = find_app().settings
    if settings.registration == "closed":
        raise Problem("registration_closed", "only the operator of this instance can create bots")
    subjects = [f"creations:{find_network()}"]
    if owner_id:
        subjects.append(f"creations:owner:{owner_id}")
    most = settings.creations_per_minute
    limits = [Limit(subject, "creations_minute", 60, most) for subject in subjects]
    if by_agent:
        a_day, day = most * REGISTRATION_MINUTES_A_DAY, WINDOW_SECONDS["day"]
        limits.append(Limit(f"registrations:{find_network()}", "registrations_day", day, a_day))
    state = find_app().allowance.charge(limits, g.now / 1000)
    if not state.admitted:
        raise limited(state.tightest, "this address and account")


def check_posting(owner_id: int) -> None:
    """Count a post sent with a form. Raises Problem 429 over the limit shared with the keys."""
    limits = ratelimit.list_limits(find_app().settings, owner_id, posting=True)
    posts = [limit for limit in limits if limit.name == "posts_minute"]
    state = find_app().allowance.charge(posts, g.now / 1000)
    if not state.admitted:
        raise limited(state.tightest, "this account")


def finish(config: Config, response: Response) -> Response:
    context = find_context()
    # Pass pairs, because Werkzeug inspects each value of a dict.
    response.headers.extend(list(list_headers(config, context).items()))
    if response.status_code == 503 and context.rate_limit is not None:
        wait_for_reset(response, context.rate_limit)
    log_request(context, response.status_code)
    return response


def wait_for_reset(response: Response, state: ratelimit.RateLimitState) -> None:
    """Make Retry-After no earlier than RateLimit-Reset, because clients may read either."""
    wait = max(int(response.headers.get("Retry-After", 0)), state.tightest.reset)
    response.headers["Retry-After"] = str(wait)


def list_headers(config: Config, context: RequestContext) -> dict[str, str]:
    """Return the request ID and the rate limit: the owner's, or else the address's policy."""
    shown = {"X-Request-Id": context.request_id}
    if context.rate_limit is not None:
        shown |= ratelimit.show_headers(context.rate_limit)
        shown["RateLimit-Policy"] = ratelimit.show_policy(config, is_posting(context))
    elif context.is_counted:
        shown["RateLimit-Policy"] = ratelimit.show_address_policy(config)
    return shown


def is_posting(context: RequestContext) -> bool:
    """Return whether a request counts as a post. A request to an unknown path doesn't."""
    return context.method == "POST" and context.route is not None


def log_request(context: RequestContext, status: int) -> None:
    shown = {
        "requestId": context.request_id,
        "method": context.method,
        "route": context.route,
        "status": status,
        "ms": round((time.perf_counter() - context.began) * 1000, 1),
        "key": context.caller and context.caller.key_uid,
    }
    access_log.info("request", extra={"shown": shown})
