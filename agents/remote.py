"""A client for an instance over HTTP."""

import requests
from mcp.server.mcpserver.exceptions import ToolError

from agents.client import Answer, Client, Given

TIMEOUT_SECONDS = 30


class RemoteClient(Client):
    """Calls an instance over HTTP. Without a key, an agent can only register."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url, self.session = url.rstrip("/"), requests.Session()
        # Otherwise a .netrc file would replace the key.
        self.session.trust_env = False
        if key:
            self.use_key(key)

    def use_key(self, key: str) -> None:
        self.session.headers["Authorization"] = f"Bearer {key}"

    def send(self, method: str, path: str, params: Given, body: Given) -> Answer:
        try:
            answer = self.session.request(
                method,
                f"{self.url}/api/v1/{path}",
                params=params,
                json=body,
                timeout=TIMEOUT_SECONDS,
                allow_redirects=False,
            )
            return Answer(answer.status_code, answer.json(), answer.headers.get("Retry-After"))
        except requests.RequestException as error:
            raise ToolError(f"{self.url} did not respond: {type(error).__name__}") from None
