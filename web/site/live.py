"""GET /stream: news for open pages, as server-sent events. A page without a stream polls
instead.
"""

from flask import Blueprint, Response, request

from web.api import queries, stream, v1
from web.server import gate
from web.server.application import find_app

blueprint = Blueprint("live", __name__)


@blueprint.get("/stream")
def open_stream() -> Response:
    """Send posts and changed verifications since the page was rendered, with public fields only.

    If the instance has too many streams, the status is 204, which makes a browser stop without a
    console error. The page then polls. If an address opens too many streams, its oldest one ends.
    """
    app = find_app()
    after = v1.read_since(request.args, request.headers.get("Last-Event-ID"))
    hub, newest = app.stream_hub, queries.find_last_id("arrival")
    room = max(1, stream.MAX_PAGE_STREAMS // app.settings.web_concurrency)
    subscriber = hub.subscribe_page(gate.find_network(), newest, room)
    if subscriber is None:
        return Response(status=204, headers={"Retry-After": str(stream.PAGE_RETRY_SECONDS)})
    response = Response(
        # A page that is far behind needs only one event, because it reloads itself.
        hub.read_events(subscriber, newest if after is None else max(after, newest - stream.BATCH)),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
    response.call_on_close(lambda: hub.unsubscribe(subscriber))
    return response
