"""Every refusal as the interface promises it: problem+json on JSON routes, a page elsewhere, a
request id on both.
"""

import logging
from collections import Counter

import orjson
from flask import Response, current_app, g, render_template, request
from peewee import PeeweeException
from werkzeug.exceptions import HTTPException

import storage
from accounts.problem import CODES, Problem
from storage import trouble

BY_STATUS = {
    status: code
    for code, (status, _) in CODES.items()
    if code
    in (
        "bad_request",
        "not_found",
        "method_not_allowed",
        "body_too_large",
        "unsupported_media_type",
        "internal_error",
    )
}
BUSY_SECONDS = 2
log = logging.getLogger("candor")


def init_app(app):
    """`app.busy` counts the answers `busy` of this process by what was in the way."""
    app.busy = Counter()
    app.register_error_handler(Problem, answer)
    app.register_error_handler(HTTPException, answer_http)
    app.register_error_handler(PeeweeException, answer_database)
    for unusable in app.allowance.store.unusable:
        app.register_error_handler(unusable, answer_busy)
    app.register_error_handler(Exception, answer_unexpected)


def wants_json():
    """JSON routes are those under /api and the documents that end in .json."""
    return (
        request.path == "/api" or request.path.startswith("/api/") or request.path.endswith(".json")
    )


def answer(problem):
    status, title = CODES[problem.code]
    shown = {
        "type": f"{current_app.config['CANDOR'].base_path}/docs/errors#{problem.code}",
        "title": title,
        "status": status,
        "detail": problem.detail,
        "code": problem.code,
        "requestId": g.visit.request_id,
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


def answer_http(error):
    """What Flask refuses by itself: unknown paths and methods, bodies that are too large or cut."""
    if error.code is None or error.code < 400:
        return error.get_response()
    allowed = getattr(error, "valid_methods", None)
    code = BY_STATUS.get(error.code, "bad_request" if error.code < 500 else "internal_error")
    return answer(
        Problem(
            code,
            DETAILS.get(code, CODES[code][1]),
            headers={"Allow": ", ".join(sorted(allowed))} if allowed else None,
        )
    )


DETAILS = {
    "not_found": "nothing is here",
    "method_not_allowed": "this path takes other methods, see the header Allow",
    "body_too_large": "a request body may have 64 KiB",
}


def answer_database(error):
    """Locked or full: the transaction was rolled back, so the caller may send the same again."""
    return answer_busy(error) if storage.is_busy(error) else answer_unexpected(error)


def answer_busy(error):
    """One short line for the log, which web.logs does not repeat: on a full disk every word of it
    counts.
    """
    word = trouble.name_trouble(error, current_app.config["CANDOR"].data_dir)
    current_app.busy[word] += 1
    log.error(
        "busy",
        extra={
            "often": True,
            "shown": {"problem": trouble.TROUBLES[word], "error": type(error).__name__},
        },
    )
    return answer(
        Problem(
            "busy",
            f"{trouble.TROUBLES[word]}; nothing was stored",
            headers={"Retry-After": str(BUSY_SECONDS)},
        )
    )


def answer_unexpected(error):
    log.error("unexpected", exc_info=error, extra={"shown": {"requestId": g.visit.request_id}})
    return answer(
        Problem("internal_error", "something went wrong here; the request id finds it in the log")
    )
