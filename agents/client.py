"""Connect an agent's tools to an instance, over HTTP (agents.remote) or inside the server
(web.api.mcp).

Untrusted text reaches the agent only as data, in a response that begins with a warning, never in a
tool's name, description or error.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agents.answers import JsonObject, count_fitting, encode_answer, trim_page

# A request's query parameters or JSON body.
Given = Mapping[str, Any] | None
# How often to request a list again with fewer rows.
MAX_PAGE_TRIES = 3


class Answer(NamedTuple):
    """An instance's response. `retry_after` is in seconds."""

    status: int
    shown: JsonObject
    retry_after: str | None


class Client:
    """The API of the Candor instance at `url`, used with one key."""

    url: str

    def send(self, method: str, path: str, params: Given, body: Given) -> Answer:
        """Send a request to a path below /api/v1/."""
        raise NotImplementedError

    def use_key(self, key: str) -> None:
        """Use this key from now on, if this client chooses its key."""

    def get(self, path: str, **query: object) -> JsonObject:
        """GET a path below /api/v1/, without query values that are None. Raises ToolError."""
        given = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", path, params=given)

    def list_page(
        self, path: str, trim: Callable[[JsonObject], JsonObject], limit: int, **query: object
    ) -> str:
        """Return a page with shortened rows. If it is too large, request fewer rows."""
        for _ in range(MAX_PAGE_TRIES):
            page = self.get(path, limit=limit, **query)
            shown = trim_page(page, trim)
            fitting = count_fitting(shown)
            if fitting >= len(shown["data"]):
                break
            limit = max(1, fitting)
        return encode_answer(shown)

    def ask(
        self, method: str, path: str, *, params: Given = None, body: Given = None
    ) -> JsonObject:
        """Send a request. Raises ToolError with the code and the reason if it is refused."""
        from mcp.server.mcpserver.exceptions import ToolError

        status, shown, retry_after = self.send(method, path, params, body)
        if status >= 400:
            wait = f"; try again in {retry_after} s" if retry_after else ""
            raise ToolError(f"refused, {status} {shown.get('code')}: {shown.get('detail')}{wait}")
        return shown
