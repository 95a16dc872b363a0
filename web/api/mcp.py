"""POST /mcp: the tools of `app.py mcp` over HTTP (MCP's Streamable HTTP transport), for agents
without a local Candor.

It has no sessions or streams, only one response per message. The SDK implements all versions of the
protocol. A tool calls this application internally, behind the admission check, with the caller's
own key, so keys, scopes and allowance are those of /api/v1.
"""

import asyncio
import contextvars
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from flask import Blueprint, Flask, Response, current_app, request
from flask.typing import ResponseReturnValue
from werkzeug.test import EnvironBuilder, run_wsgi_app

from accounts.problem import Problem
from agents.client import Answer, Client
from web.server import gate
from web.server.application import NO_STORE
from web.server.sessions import is_own_origin

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

blueprint = Blueprint("mcp", __name__)
# For a message and its response.
MAX_SECONDS = 25.0
HEADERS = ("Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name")


class Caller(NamedTuple):
    """The caller that a tool acts for, and the application."""

    app: Flask
    authorization: str
    address: str
    host: str
    root: str


_caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("caller")


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
    caller = Caller(
        current_app._get_current_object(),  # type: ignore[attr-defined]
        request.headers.get("Authorization", ""),
        request.remote_addr or "",
        request.host,
        request.script_root,
    )
    token = _caller.set(caller)
    try:
        return asyncio.run(speak(server, request.get_data(), list_headers()))
    finally:
        _caller.reset(token)


def list_headers() -> list[tuple[bytes, bytes]]:
    """List the request headers that the protocol uses, in ASGI form."""
    given = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
        if name.title() in map(str.title, HEADERS) or name.lower().startswith("mcp-param-")
    ]
    # The response is JSON, never a stream, even if the client accepts other types.
    return [*given, (b"accept", b"application/json"), (b"host", b"localhost")]


@cache
def find_server(base_url: str) -> "MCPServer":
    from agents.tools import build_server

    return build_server(InsideClient(base_url))


# ---- ASGI ----------------------------------------------------------------------------------------
async def speak(
    server: "MCPServer", body: bytes, headers: list[tuple[bytes, bytes]]
) -> ResponseReturnValue:
    """Pass a message to the SDK, and return its response. Raises Problem `busy` on a timeout."""
    from mcp.server.transport_security import TransportSecuritySettings

    # The gate already checked host and origin.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=unchecked
    )
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not received:
            received.append(True)
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    received: list[bool] = []
    try:
        async with asyncio.timeout(MAX_SECONDS), app.router.lifespan_context(app):
            await app(make_scope(headers), receive, send)
    except TimeoutError:
        raise Problem("busy", "the tool timed out", headers={"Retry-After": "2"}) from None
    start, *parts = sent
    content = b"".join(part.get("body", b"") for part in parts)
    kinds = {name.lower(): value.decode() for name, value in start["headers"]}
    return Response(
        content,
        start["status"],
        dict(NO_STORE),
        content_type=kinds.get(b"content-type", "application/json"),
    )


def make_scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": None,
        "server": ("localhost", 80),
    }


# ---- internal requests ---------------------------------------------------------------------------
class InsideClient(Client):
    """Calls this application on behalf of the current caller."""

    def __init__(self, url: str) -> None:
        self.url = url

    def send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
    ) -> Answer:
        """Make an internal request. It doesn't need a slot, because the outer request has one."""
        caller = _caller.get()
        environ = EnvironBuilder(
            method=method,
            path=f"/api/v1/{path}",
            base_url=f"http://{caller.host}{caller.root}/",
            query_string=params,
            json=body,
            environ_overrides={
                "HTTP_AUTHORIZATION": caller.authorization,
                "REMOTE_ADDR": caller.address,
            },
        ).get_environ()
        # Use a separate context, because otherwise Flask would mix up the two requests.
        parts, status, headers = contextvars.Context().run(
            run_wsgi_app, Flask.wsgi_app.__get__(caller.app), environ, True
        )
        answer = orjson.loads(b"".join(parts))
        return Answer(int(status.split()[0]), answer, headers.get("Retry-After"))
