"""GET /stream: news for open pages, as server-sent events. A page that gets none polls instead."""

from flask import Blueprint, Response

from web.api import queries, stream
from web.server import gate
from web.server.application import find_app

blueprint = Blueprint("live", __name__)


@blueprint.get("/stream")
def open_stream() -> Response:
    """Answer with the posts and moved verifications that come from now on: public fields only.

    204 where there are too many streams: it tells a browser to stop, without an error in its
    console, and the page polls. A page that was left holds its stream for some seconds.
    """
    app = find_app()
    hub, newest = app.stream_hub, queries.find_last_id("arrival")
    most = max(1, stream.MAX_PAGE_STREAMS // app.settings.web_concurrency)
    subscriber = hub.subscribe_page(gate.find_network(), newest, most)
    if subscriber is None:
        return Response(status=204, headers={"Retry-After": str(stream.PAGE_RETRY_SECONDS)})
    response = Response(
        hub.read_events(subscriber, newest),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: hub.unsubscribe(subscriber))
    return response
