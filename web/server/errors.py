"""Error responses: problem+json on JSON routes, and a page elsewhere. Both contain a request ID."""

import logging
import secrets
from collections import Counter
from http import HTTPStatus
from typing import Any

import orjson
from flask import Response, g, render_template, request
from gunicorn.http import errors as http
from peewee import PeeweeException
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse

import storage
from accounts.problem import CODES, Problem
from storage import trouble
from web.server.application import SECURITY_HEADERS, Application, find_app
from web.server.connections import BodyTooLarge

# Errors that Flask itself raises, by status.
FLASK_CODES = {
    CODES[code][0]: code
    for code in (
        "bad_request",
        "not_found",
        "method_not_allowed",
        "body_too_large",
        "unsupported_media_type",
        "internal_error",
    )
}
DETAILS = {
    "not_found": "there is nothing here",
    "method_not_allowed": "this path doesn't support the method; see the Allow header",
    "body_too_large": "a request body may have at most 64 KiB",
}
# Errors that gunicorn finds before the application gets the request.
MALFORMED = {
    http.LimitRequestLine: (414, "bad_request", "the URL is too long"),
    http.LimitRequestHeaders: (
        *(431, "bad_request"),
        "there are too many headers, or one of them is too long",
    ),
    http.UnsupportedTransferCoding: (501, "bad_request", "this transfer encoding isn't supported"),
    http.ExpectationFailed: (417, "bad_request", "100-continue is the only supported expectation"),
    http.NoMoreData: (400, "bad_request", "the request ended early"),
    BodyTooLarge: (413, "body_too_large", DETAILS["body_too_large"]),
}
RETRY_SECONDS = 2
log = logging.getLogger("candor")


def init_app(app: Application) -> None:
    app.busy_answers = Counter()
    app.after_request(shorten_redirect)
    app.register_error_handler(Problem, answer)
    app.register_error_handler(HTTPException, answer_http)
    app.register_error_handler(PeeweeException, answer_database)
    for unusable in app.allowance.store.unusable:
        app.register_error_handler(unusable, answer_busy)
    app.register_error_handler(Exception, answer_unexpected)


def shorten_redirect(response: Response) -> Response:
    """Remove the client's host and port from a redirect to this instance."""
    if target := response.headers.get("Location"):
        response.headers["Location"] = target.removeprefix(request.host_url.rstrip("/"))
    return response


def wants_json() -> bool:
    """Return whether the path is under /api, ends in .json, or is used only by programs."""
    path = request.path
    return path in ("/api", "/mcp") or path.startswith("/api/") or path.endswith(".json")


def answer(problem: Problem) -> Response:
    status, title = CODES[problem.code]
    shown = {
        **describe(find_app().settings.base_url, status, title, problem.detail, problem.code),
        "requestId": g.context.request_id,
        **({"errors": problem.errors} if problem.errors else {}),
        **problem.more,
    }
    if wants_json():
        response = Response(orjson.dumps(shown), status, content_type="application/problem+json")
    else:
        response = Response(render_template("error.html", problem=shown), status)
    response.headers.update(problem.headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def describe(base_url: str, status: int, title: str, detail: str, code: str) -> dict[str, Any]:
    """Return the members that all problems have, without the request ID."""
    kind = f"{base_url}/docs/errors#{code}"
    return {"type": kind, "title": title, "status": status, "detail": detail, "code": code}


def answer_http(error: HTTPException) -> AnyResponse:
    """Convert Flask's own errors: unknown paths and methods, oversized or truncated bodies."""
    status = error.code or 500
    allowed = getattr(error, "valid_methods", None)
    code = FLASK_CODES.get(status, "bad_request" if status < 500 else "internal_error")
    return answer(
        Problem(
            code,
            DETAILS.get(code, CODES[code][1]),
            headers={"Allow": ", ".join(sorted(allowed))} if allowed else None,
        )
    )


def answer_database(error: PeeweeException) -> Response:
    """Return `busy` if the database is locked or full. The transaction was rolled back."""
    return answer_busy(error) if storage.is_busy(error) else answer_unexpected(error)


def answer_busy(error: Exception) -> Response:
    """Return `busy`, and log one short line, because on a full disk every byte counts."""
    word = trouble.name_trouble(error, find_app().settings.data_dir)
    find_app().busy_answers[word] += 1
    shown = {"problem": trouble.TROUBLES[word], "error": type(error).__name__}
    log.error("busy", extra={"often": True, "shown": shown})
    return answer(
        Problem(
            "busy",
            f"{trouble.TROUBLES[word]}; nothing was stored",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    )


def answer_unexpected(error: Exception) -> Response:
    log.error("unexpected", exc_info=error, extra={"shown": {"requestId": g.context.request_id}})
    return answer(
        Problem(
            "internal_error",
            "something went wrong on our side; the server's log lists it under this request ID",
        )
    )


# ---- without the application ---------------------------------------------------------------------
def write_refusal(error: Exception, base_url: str) -> bytes:
    """Return the complete HTTP response to a request that is malformed or didn't reach Flask."""
    status, code, detail = 500, "internal_error", "something went wrong on our side"
    if isinstance(error, http.ParseException | http.NoMoreData):
        not_http = (400, "bad_request", "this isn't a valid HTTP request")
        status, code, detail = MALFORMED.get(type(error), not_http)
        shown = {"problem": type(error).__name__, "status": status}
        log.warning("malformed request", extra={"shown": shown})
    else:
        log.error("request failed outside the application", exc_info=error)
    phrase, request_id = HTTPStatus(status).phrase, f"req_{secrets.token_hex(12)}"
    usual, title = CODES[code]
    problem = describe(base_url, status, title if status == usual else phrase, detail, code)
    body = orjson.dumps({**problem, "requestId": request_id})
    headers = {
        "Content-Type": "application/problem+json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-Request-Id": request_id,
        **SECURITY_HEADERS,
    }
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
