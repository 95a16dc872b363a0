"""The routes of /api/v1: every one needs a key, is described for the OpenAPI document, and returns
JSON with an ETag, compressed if the client accepts that.
"""

import functools
import hashlib
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from flask import Blueprint, Response, g, request
from werkzeug.wrappers import Response as AnyResponse

from ratelimit import list_limits, show_windows
from web.api import paging
from web.api.paging import Args, refuse
from web.api.serialize import Json, show_time
from web.api.shapes import Page, TypedDict, described
from web.server import gate
from web.server.application import JsonResponse, find_app

blueprint = Blueprint("v1", __name__, url_prefix="/api/v1")
blueprint.before_request(gate.check_key)
MINUTE_MS = 60_000
# Error codes of routes with a body.
OF_BODIES = ("invalid_json", "body_too_large", "unsupported_media_type", "validation_failed")
View = Callable[..., Any]


# ---- the description of a route ------------------------------------------------------------------
@dataclass(frozen=True)
class Operation:
    """A route of the API, for the OpenAPI document.

    `name`: its function's, as the method of generated clients. `answer`: its shape (None: a stream
    of events), for a Page with the shape of its `rows`. `names`: its parameters, one of which may
    be `required`. `refusals`: error codes beyond those of all routes. `body`: a model or a schema.
    """

    path: str
    method: str
    name: str
    summary: str
    description: str
    answer: Any
    names: tuple[str, ...]
    required: str
    rows: Any
    refusals: tuple[str, ...]
    body: Any
    keyed: bool


OPERATIONS: list[Operation] = []


def route(
    routes: Blueprint,
    method: str,
    path: str,
    answer: Any,
    *names: str,
    required: str = "",
    rows: Any = None,
    refusals: tuple[str, ...] = (),
    body: Any = None,
) -> Callable[[View], View]:
    """Register a route. Its docstring describes it: a summary, then a description if needed."""

    def decorate(view: View) -> View:
        summary, _, description = " ".join((view.__doc__ or "").split()).partition(". ")
        head, *others = view.__name__.split("_")
        OPERATIONS.append(
            Operation(
                f"{routes.url_prefix or ''}{path.replace('<uid>', '{id}')}",
                method,
                head + "".join(map(str.title, others)),
                summary.removesuffix("."),
                description,
                answer,
                names,
                required,
                rows,
                refusals,
                body,
                routes.name in gate.KEYED,
            )
        )
        return routes.route(path, methods=[method])(view)

    return decorate


# ---- cached answers ------------------------------------------------------------------------------
def cached_list(
    path: str, rows: Any, *names: str, page: Any = Page, required: str = ""
) -> Callable[[Callable[..., Json]], View]:
    """Register a GET route for a list of `rows`. `page`: a Page with more members.

    The decorated function builds the list from the query's arguments (only `names`) and the path.
    The list is cached until the next write (ListCache), but at most for a minute, because
    time windows move. Its `asOf` is always current.
    """
    told = None if "data" in page.__annotations__ else rows
    register = route(blueprint, "get", path, page, *names, "limit", required=required, rows=told)
    return _cached(path, register, rows, ("limit", *names), write_end)


def cached_object(path: str, shape: Any, *names: str) -> Callable[[Callable[..., Any]], View]:
    """Register a GET route for an object in the same way as `cached_list`."""
    register = route(blueprint, "get", path, shape, *names)
    return _cached(path, register, shape, names, lambda now: b"}")


def write_end(now: int) -> bytes:
    """Return the end of a list's JSON, with the request time `now` (ms)."""
    return b',"asOf":"%b"}' % show_time(now).encode()


def _cached(
    path: str,
    register: Callable[[View], View],
    shape: Any,
    names: tuple[str, ...],
    end: Callable[[int], bytes],
) -> Callable[[View], View]:
    def decorate(make: View) -> View:
        @functools.wraps(make)
        def view(**place: str) -> Response:
            args = read_known(request.args, names)
            fields = read_fields(request.args.get("fields"), shape)
            body = find_app().list_cache.find(
                (path, *place.values(), *args.items(), fields),
                (gate.find_context().version, start_of_minute(g.now)),
                lambda: Body(keep_fields(make(args, **place), fields)),
            )
            return answer(body, end(g.now))

        return register(view)

    return decorate


def show_list(data: Any, limit: int, next_cursor: str | None = None, **more: Any) -> Json:
    return {"data": data, "nextCursor": next_cursor, "limit": limit, **more}


def read_known(args: Args, names: Collection[str]) -> dict[str, str]:
    """Return {name: text} of a query's known parameters, in a fixed order.

    If a parameter is repeated, the first one counts. `limit` is as the response shows it.
    Equivalent queries therefore share one cache entry, regardless of unknown parameters. Raises
    Problem for a parameter that only other lists know.
    """
    for name in args:
        if name not in names and any(name in one.names for one in OPERATIONS if one.keyed):
            allowed = ", ".join((*names, "fields"))
            raise refuse(name, f"is not a parameter of this request, which accepts: {allowed}")
    known = {name: args[name] for name in names if name in args}
    return {**known, "limit": str(paging.read_limit(known))} if "limit" in names else known


def start_of_minute(now: int) -> int:
    return now - now % MINUTE_MS


# ---- answers as bytes ----------------------------------------------------------------------------
# Smaller bodies aren't worth compressing.
MIN_PACKED_BYTES = 1_000
LEVEL = 1
# RFC 1952: deflate, no name, no time, unknown system.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
FRESH = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}


class Body:
    """A JSON object without its closing brace.

    The end may differ between responses (`asOf`), so the ETag and the compressed bytes cover only
    the rest and are computed once.
    """

    def __init__(self, shown: Mapping[str, Any]) -> None:
        written = orjson.dumps(shown)
        # Copy the bytes, because until they are freed, orjson's keep a block up to ten times their
        # length.
        self.raw = bytes(memoryview(written)[:-1])
        self.tag = f'W/"{hashlib.blake2b(self.raw, digest_size=12).hexdigest()}"'
        self._packed: bytes | None = None

    def pack(self, end: bytes) -> bytes:
        if self._packed is None:
            deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
            # A full flush ends at a byte boundary, and the data after it doesn't refer to the data
            # before it.
            self._packed = deflate.compress(self.raw) + deflate.flush(zlib.Z_FULL_FLUSH)
        rest = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        checksum = zlib.crc32(end, zlib.crc32(self.raw))
        length = (len(self.raw) + len(end)) & 0xFFFFFFFF
        return b"".join(
            (
                GZIP_HEADER,
                self._packed,
                rest.compress(end) + rest.flush(),
                checksum.to_bytes(4, "little"),
                length.to_bytes(4, "little"),
            )
        )


def answer(body: Body, end: bytes = b"}") -> Response:
    """Respond with an object, compressed if the client accepts that, or with 304."""
    headers = {**FRESH, "ETag": body.tag}
    if body.tag in request.headers.get("If-None-Match", ""):
        return Response(status=304, headers=headers)
    # Demo mode marks the object first.
    if len(body.raw) < MIN_PACKED_BYTES or find_app().settings.demonstration or not accepts_gzip():
        return JsonResponse(body.raw + end, 200, headers)
    return JsonResponse(body.pack(end), 200, {**headers, "Content-Encoding": "gzip"})


def accepts_gzip() -> bool:
    accepted = request.headers.get("Accept-Encoding", "")
    return "gzip" in accepted and request.accept_encodings["gzip"] > 0


def pack_response(response: Response) -> Response:
    is_packed = "Content-Encoding" in response.headers or response.is_streamed
    if is_packed or response.mimetype != "application/json" or not accepts_gzip():
        return response
    data = response.get_data()
    if len(data) >= MIN_PACKED_BYTES:
        response.set_data(zlib.compress(data, LEVEL, zlib.MAX_WBITS + 16))
        response.headers["Content-Encoding"] = "gzip"
        response.vary.add("Accept-Encoding")
    return response


# ---- fields= -------------------------------------------------------------------------------------
def read_fields(text: str | None, shape: Any) -> tuple[str, ...] | None:
    """Return the names in `fields`, in the shape's order. Raises Problem for an unknown name."""
    if text is None:
        return None
    known = shape.__annotations__
    names = set(text.split(","))
    if not names.issubset(known):
        raise refuse("fields", f"must be a comma-separated list of any of: {', '.join(known)}")
    return tuple(name for name in known if name in names)


def keep_fields(shown: Mapping[str, Any], fields: Collection[str] | None) -> Mapping[str, Any]:
    if fields is None:
        return shown
    if "data" in shown:
        return {**shown, "data": [_keep(row, fields) for row in shown["data"]]}
    return _keep(shown, fields)


def _keep(shown: Mapping[str, Any], fields: Collection[str]) -> Json:
    return {name: shown[name] for name in fields if name in shown}


# ---- responses of the routes without a key -------------------------------------------------------
# Members that change only with the clock. Quotes inside text are escaped, so text never matches.
PASSING = re.compile(
    rb'"(?:asOf|markAgeSeconds|ageSeconds|lagSeconds|heartbeatAt)":(?:"[^"]*"|[^",{}\[\]]+)'
)


def respond(shown: dict[str, Any], status: int = 200) -> AnyResponse:
    """Return JSON, or 304.

    The ETag ignores members that change only with the clock. It is weak, because `asOf` differs
    between equal responses.
    """
    body = orjson.dumps(shown)
    return finish(body, hashlib.blake2b(PASSING.sub(b"", body), digest_size=16), status)


def finish(body: bytes, digest: hashlib.blake2b, status: int = 200) -> AnyResponse:
    response = Response(
        body,
        status,
        content_type="application/json",
        headers={"Cache-Control": "public, no-cache"},
    )
    response.set_etag(digest.hexdigest(), weak=True)
    return response.make_conditional(request)


# ---- the request's key ---------------------------------------------------------------------------
class AllowanceWindow(TypedDict):
    """What is left of the owner's rate limit in one window."""

    window: Literal["minute", "hour", "day", "posts_minute"]
    limit: int
    remaining: int
    resetSeconds: int


class Me(TypedDict):
    """The key of the request."""

    kind: Literal["read", "publish"]
    keyId: str
    ownerId: str
    botId: Annotated[str | None, described("the bot a publishing key posts for")]
    windows: list[AllowanceWindow]


@route(blueprint, "get", "/me", Me)
def get_me() -> Response:
    """This request's key and its remaining rate limit; not counted"""
    app, caller = find_app(), gate.find_caller()
    limits = list_limits(app.settings, caller.owner_id, posting=True)
    windows: Any = show_windows(app.allowance.peek(limits, g.now / 1000))
    kind: Any = caller.scope
    me: Me = {
        "kind": kind,
        "keyId": caller.key_uid,
        "ownerId": caller.owner_uid,
        "botId": caller.bot_uid,
        "windows": windows,
    }
    return answer(Body(keep_fields(me, read_fields(request.args.get("fields"), Me))))
