"""POST /mcp: the tools of `app.py mcp` over HTTP (MCP's Streamable HTTP transport), for agents
without a local Candor.

It has no sessions or streams, only one response per message. The SDK implements all versions of the
protocol. A tool calls this application internally, behind the admission check, with the caller's
own key, so keys, scopes and allowance are those of /api/v1.
"""

import asyncio
import contextvars
from functools import cache
from typing import TYPE_CHECKING

import orjson
from flask import Blueprint, Flask, Response, request
from flask.typing import ResponseReturnValue
from werkzeug.test import EnvironBuilder, run_wsgi_app

from accounts.problem import Problem
from agents.client import Answer, Client, Given
from web.server import gate
from web.server.application import NO_STORE, find_app
from web.server.sessions import is_own_origin

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

blueprint = Blueprint("mcp", __name__)
# For a message and its response.
MAX_SECONDS = 25.0
HEADERS = ("Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")


@blueprint.before_request
def check_agent() -> None:
    """Admit an agent with a key, or any if agents may register. Reject other sites' pages."""
    if not is_own_origin(request.headers.get("Origin")):
        raise Problem("foreign_origin", "pages on other sites can't call this")
    if "Authorization" in request.headers or gate.settings().self_registration == "off":
        gate.check_key()
    else:
        gate.count_address()


@blueprint.post("/mcp")
def answer_agent() -> ResponseReturnValue:
    try:
        server = find_server(gate.settings().base_url)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise Problem(
            "not_found", "the operator of this instance has not installed the `mcp` extra"
        ) from None
    return asyncio.run(speak(server, request.get_data(), list_headers()))


def list_headers() -> list[tuple[bytes, bytes]]:
    """List the request headers that the protocol uses."""
    given = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
        if name.title() in map(str.title, HEADERS) or name.lower().startswith("mcp-param-")
    ]
    # The response is JSON, never a stream, even if the client accepts other types.
    return [*given, (b"accept", b"application/json")]


@cache
def find_server(base_url: str) -> "MCPServer":
    from agents.tools import build_server

    return build_server(InsideClient(base_url))


async def speak(
    server: "MCPServer", body: bytes, headers: list[tuple[bytes, bytes]]
) -> ResponseReturnValue:
    """Pass a message to the SDK, and return its response. Raises Problem `busy` on a timeout."""
    from httpx2 import ASGITransport, AsyncClient
    from mcp.server.transport_security import TransportSecuritySettings

    # The gate already checked host and origin.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=unchecked
    )
    transport = ASGITransport(app)
    # Otherwise a .netrc file would add a password.
    client = AsyncClient(transport=transport, base_url="http://localhost", trust_env=False)
    try:
        async with asyncio.timeout(MAX_SECONDS), app.router.lifespan_context(app), client:
            answer = await client.post("/mcp", content=body, headers=headers)
    except TimeoutError:
        raise Problem("busy", "the tool timed out", headers={"Retry-After": "2"}) from None
    kind = answer.headers.get("Content-Type", "application/json")
    return Response(answer.content, answer.status_code, NO_STORE, content_type=kind)


# ---- internal requests ---------------------------------------------------------------------------
class InsideClient(Client):
    """Calls this application on behalf of the caller of the current request."""

    def __init__(self, url: str) -> None:
        self.url = url

    def send(self, method: str, path: str, params: Given, body: Given) -> Answer:
        """Make an internal request. It doesn't need a slot, because the outer request has one."""
        environ = EnvironBuilder(
            method=method,
            path=f"/api/v1/{path}",
            base_url=f"http://{request.host}{request.script_root}/",
            query_string=params,
            json=body,
            environ_overrides={
                "HTTP_AUTHORIZATION": request.headers.get("Authorization", ""),
                "REMOTE_ADDR": request.remote_addr or "",
            },
        ).get_environ()
        # Use a separate context, because otherwise Flask would mix up the two requests.
        parts, status, headers = contextvars.Context().run(
            run_wsgi_app, Flask.wsgi_app.__get__(find_app()), environ, True
        )
        answer = orjson.loads(b"".join(parts))
        return Answer(int(status.split()[0]), answer, headers.get("Retry-After"))
