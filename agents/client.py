"""Who asks an instance for an agent: over HTTP (agents.remote), or inside it (web.api.mcp).

What strangers wrote reaches the agent as data inside an answer that says so first; no tool name,
description or error repeats it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agents.answers import JsonObject, count_fitting, encode_answer, trim_page

# How often a list is asked for again with fewer rows.
MAX_PAGE_TRIES = 3


class Answer(NamedTuple):
    """What an instance answered. `retry_after`: seconds, as its header says it."""

    status: int
    shown: JsonObject
    retry_after: str | None


class Client:
    """The interface of one Candor instance at `url`, asked with one key."""

    url: str

    def send(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
    ) -> Answer:
        """Send a request to a path below /api/v1/."""
        raise NotImplementedError

    def use_key(self, key: str) -> None:
        """Send later requests with this key, if this client chooses its key."""

    def get(self, path: str, **query: object) -> JsonObject:
        """GET a path below /api/v1/; a query value of None is left out. ToolError as in `ask`."""
        given = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", path, params=given)

    def list_page(
        self, path: str, trim: Callable[[JsonObject], JsonObject], limit: int, **query: object
    ) -> str:
        """Return a page as the text of a tool's answer, each row trimmed.

        A page that is too large is asked for again with fewer rows, so that its cursor leads to the
        next row and none is lost.
        """
        for _ in range(MAX_PAGE_TRIES):
            page = self.get(path, limit=limit, **query)
            shown = trim_page(page, trim)
            fitting = count_fitting(shown)
            if fitting >= len(shown["data"]):
                break
            limit = max(1, fitting)
        return encode_answer(shown)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        """Send a request; ToolError names the code and the reason of a refusal."""
        from mcp.server.mcpserver.exceptions import ToolError

        status, shown, retry_after = self.send(method, path, params, body)
        if status >= 400:
            wait = f"; try again in {retry_after} s" if retry_after else ""
            raise ToolError(f"refused, {status} {shown.get('code')}: {shown.get('detail')}{wait}")
        return shown
