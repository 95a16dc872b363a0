"""Build the JSON responses of /api/v1 as bytes, with ETags, optional compression, and the `fields`
filter.
"""

import hashlib
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import orjson
from flask import Response, request
from werkzeug.wrappers import Response as AnyResponse

from web.api.paging import refuse
from web.server.application import JsonResponse, find_app

# Smaller bodies aren't worth compressing.
MIN_PACKED_BYTES = 1_000
LEVEL = 1
# RFC 1952: deflate, no name, no time, unknown system.
GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
FRESH = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
Json = dict[str, Any]


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
    """Return the names in `fields` in the shape's order, or None if `fields` is missing. Raises
    Problem for an unknown name.
    """
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
