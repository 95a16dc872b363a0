"""GET /stream: news for open pages, as server-sent events. A page that gets none polls instead."""

from flask import Blueprint, Response

from web.api import queries, stream
from web.server import gate
from web.server.application import find_app

blueprint = Blueprint("live", __name__)


@blueprint.get("/stream")
def open_stream() -> Response:
    """Answer with the posts and moved verifications that come from now on: public fields only."""
    app = find_app()
    hub, newest = app.stream_hub, queries.find_last_id("arrival")
    most = max(1, stream.MAX_PAGE_STREAMS // app.settings.web_concurrency)
    subscriber = hub.subscribe_page(gate.find_network(), newest, most)
    response = Response(
        hub.read_events(subscriber, newest),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: hub.unsubscribe(subscriber))
    return response
