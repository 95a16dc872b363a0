"""Mark a demo instance (`app.py demo`). Every response says once that its data is made up. Links to
explorers are removed, because explorers don't know the transactions.

Complete responses are marked, and only here. Instances with real data don't install this.
"""

import re
from typing import Any

import orjson
from flask import Flask, Response, request

# Blueprints whose responses are objects, except for the API's description.
MARKED_BLUEPRINTS = ("v1", "legacy", "health", "feeds", "inbox", "evidence")
# Queries for a page of evidence, which is named by the digest of its bytes.
DIGESTED = {"page", "posts"}
LINK_FIELDS = ("explorerUrl", "pairUrl")
RECEIPT_LINK = re.compile(rb'<link rel="related" [^>]*/>')
ATOM_MARK = b'<category term="demonstration" /></entry>'
# JSON Feed 1.1 allows custom members that begin with an underscore.
FEED_EXTENSION = "_candor"


def init_app(app: Flask) -> None:
    app.after_request(mark_answer)
    app.jinja_env.globals["explorer_url"] = lambda signature: "(demonstration)"


def mark_answer(response: Response) -> Response:
    if request.blueprint not in MARKED_BLUEPRINTS or response.status_code == 304:
        return response
    if response.mimetype == "text/event-stream":
        response.response = map(mark_events, response.response)  # type: ignore[arg-type]
    elif request.blueprint == "evidence":
        mark_evidence(response)
    elif response.mimetype in ("application/json", "application/feed+json"):
        response.set_data(orjson.dumps(mark(orjson.loads(response.get_data()))))
    elif response.mimetype == "application/atom+xml":
        unlinked = RECEIPT_LINK.sub(b"", response.get_data())
        response.set_data(unlinked.replace(b"</entry>", ATOM_MARK))
    return response


def mark_evidence(response: Response) -> None:
    """Mark a whole evidence document, but not its lines and pages, because digests cover them."""
    if response.mimetype == "application/json" and not DIGESTED & request.args.keys():
        shown = orjson.loads(response.get_data())
        response.set_data(orjson.dumps({**shown, "demonstration": True}))


def mark_events(raw: bytes) -> bytes:
    """Mark server-sent events, which each have one line of data."""
    return b"\n".join(map(_mark_line, raw.split(b"\n")))


def _mark_line(line: bytes) -> bytes:
    if not line.startswith(b"data: "):
        return line
    return b"data: " + orjson.dumps(mark(orjson.loads(line[6:])))


def mark(value: dict[str, Any]) -> Any:
    """Return a JSON object that is marked once as made up, without links to explorers."""
    marked = _unlink(value)
    if "feed_url" in value:
        return {**marked, FEED_EXTENSION: {"demonstration": True}}
    return {**marked, "demonstration": True}


def _unlink(value: Any) -> Any:
    if isinstance(value, list):
        return [_unlink(one) for one in value]
    if not isinstance(value, dict):
        return value
    # A feed's item links to its transaction.
    left_out = ("external_url",) if FEED_EXTENSION in value else ()
    return {
        name: None if name in LINK_FIELDS else _unlink(one)
        for name, one in value.items()
        if name not in left_out
    }
