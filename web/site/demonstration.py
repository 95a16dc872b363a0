"""What an instance of `app.py demo` says besides: every object is marked, and nothing links to an
explorer, which would know none of it.

The only place that does so, on the way out; an instance over real data never loads it.
"""

import re

import orjson
from flask import request

# blueprints whose answers are objects; not the interface's description
MARKED = (
    "v1",
    "legacy",
    "health",
    "feeds",
)
LINKS = ("explorerUrl", "pairUrl")
# an Atom entry's receipt
RELATED = re.compile(rb'<link rel="related" [^>]*/>')
# JSON Feed 1.1: members of one's own begin with an underscore
FEED_EXTENSION = "_candor"


def init_app(app):
    app.after_request(mark_answer)
    app.jinja_env.globals["explorer_url"] = lambda signature: "(demonstration)"


def mark_answer(response):
    if request.blueprint not in MARKED or response.status_code == 304:
        return response
    if response.mimetype == "text/event-stream":
        response.response = map(mark_event, response.response)
    elif response.mimetype in ("application/json", "application/feed+json"):
        response.set_data(orjson.dumps(mark(orjson.loads(response.get_data()))))
    elif response.mimetype == "application/atom+xml":
        response.set_data(
            RELATED.sub(b"", response.get_data()).replace(
                b"</entry>", b'<category term="demonstration" /></entry>'
            )
        )
    return response


def mark_event(raw):
    """The bytes of some server-sent events, each datum of which is one line."""
    lines = raw.split(b"\n")
    return b"\n".join(
        b"data: " + orjson.dumps(mark(orjson.loads(line[6:])))
        if line.startswith(b"data: ")
        else line
        for line in lines
    )


def mark(shown):
    """An answer that says so, as does every object in its lists."""
    if not isinstance(shown, dict):
        return shown
    marked = _mark_inside(shown)
    if FEED_EXTENSION in shown or "feed_url" in shown:
        marked.pop("external_url", None)
        return {**marked, FEED_EXTENSION: {**shown.get(FEED_EXTENSION, {}), "demonstration": True}}
    return {**marked, "demonstration": True}


def _mark_inside(value):
    if isinstance(value, dict):
        return {name: None if name in LINKS else _mark_inside(one) for name, one in value.items()}
    return [mark(one) for one in value] if isinstance(value, list) else value
