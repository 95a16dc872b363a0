"""GET /stream: news for open pages, as server-sent events. Pages without a stream poll."""

from flask import Blueprint, Response, request

from web.api import paging, stream
from web.server.gate import settings

blueprint = Blueprint("live", __name__)


@blueprint.get("/stream")
def open_stream() -> Response:
    """Send posts and changed verifications since the page was rendered, with public fields only.

    If the instance has too many streams, the status is 204: a browser stops without a console
    error, and the page polls. If an address opens too many, its oldest one ends.
    """
    after = paging.read_since(request.args, request.headers.get("Last-Event-ID"))
    room = max(1, stream.MAX_PAGE_STREAMS // settings().web_concurrency)
    response = stream.open_stream(after, room)
    if response is None:
        return Response(status=204, headers={"Retry-After": str(stream.PAGE_RETRY_SECONDS)})
    return response
