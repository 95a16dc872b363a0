"""The stand-ins on one loopback port: JSON-RPC by POST, the price services' addresses by GET."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from demo.market import Market
from demo.node import BadCall, Node

MAX_BYTES = 1 << 16


def start_server(
    node: Node, market: Market, clock: Callable[[], float] = time.time
) -> ThreadingHTTPServer:
    """Serve both from a thread of this process, on a free port."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), _handler(node, market, lambda: clock() - node.start)
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="stand-ins", daemon=True).start()
    return server


def address_of(server: ThreadingHTTPServer) -> str:
    """Return the base URL of a server on this machine."""
    return f"http://127.0.0.1:{server.server_port}"


def find_answer(market: Market, path: str, at: float) -> object:
    """Return what a price service answers at this path, None where it has no such path."""
    if path == "/token-profiles/latest/v1":
        return market.show_list("profiles", at)
    if path == "/token-boosts/latest/v1":
        return market.show_list("boosts", at)
    if path == "/api/v2/networks/solana/new_pools":
        return market.show_pools(at)
    if path.startswith("/tokens/v1/solana/"):
        return market.show_pairs(path.removeprefix("/tokens/v1/solana/").split(","), at)
    return None


def answer_call(node: Node, call: object, at: float) -> dict[str, object]:
    """Return the JSON-RPC answer to one call."""
    if not isinstance(call, dict) or not isinstance(call.get("params", []), list):
        return {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32600, "message": "Invalid request"},
        }
    answer, params = {"jsonrpc": "2.0", "id": call.get("id")}, call.get("params", [])
    time.sleep(node.find_pause(call.get("method"), params))
    try:
        return {**answer, "result": node.answer(call.get("method"), params, at)}
    except BadCall as error:
        return {**answer, "error": {"code": error.code, "message": str(error)}}


def _handler(
    node: Node, market: Market, elapsed: Callable[[], float]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # Connections are kept alive, and each answer is sent in one piece.
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            if length > MAX_BYTES:
                self.send_error(413)
                return
            try:
                call = json.loads(self.rfile.read(length))
            except ValueError:
                call = None
            self.answer(200, answer_call(node, call, elapsed()))

        def do_GET(self) -> None:
            found = find_answer(market, urlsplit(self.path).path, elapsed())
            self.answer(404 if found is None else 200, found)

        def answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: nobody reads the stand-ins' log."""

    return Handler
