"""GET /openapi.json: the OpenAPI description."""

import orjson
from flask import Blueprint, Response, request
from werkzeug.wrappers import Response as AnyResponse

from web.server.application import find_app

blueprint = Blueprint("openapi", __name__)


@blueprint.get("/openapi.json")
def show_document() -> AnyResponse:
    # Importing all shapes is 5% of the startup time, so this waits until a request needs them.
    from web.api import openapi

    config = find_app().settings
    response = Response(
        orjson.dumps(openapi.build_document(config.base_url, config.demonstration)),
        content_type="application/json",
        headers={"Cache-Control": "public, max-age=300"},
    )
    response.add_etag()
    return response.make_conditional(request)
