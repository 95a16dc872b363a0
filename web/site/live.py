"""GET /stream: news for open pages, as server-sent events. A page without a stream polls
instead.
"""

from flask import Blueprint, Response, request

from web.api import paging, stream
from web.server.gate import settings

blueprint = Blueprint("live", __name__)


@blueprint.get("/stream")
def open_stream() -> Response:
    """Send the posts and changed verifications since the page was rendered: public fields only.

    204 if the instance has too many streams: it makes a browser stop without a console error, and
    the page polls. One stream too many from an address ends its oldest.
    """
    after = paging.read_since(request.args, request.headers.get("Last-Event-ID"))
    room = max(1, stream.MAX_PAGE_STREAMS // settings().web_concurrency)
    response = stream.open_stream(after, room)
    if response is None:
        return Response(status=204, headers={"Retry-After": str(stream.PAGE_RETRY_SECONDS)})
    return response
