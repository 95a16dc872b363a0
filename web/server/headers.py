"""The headers of every response, including the server's own errors."""

from collections.abc import Iterable, Mapping
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Response, request

CONTENT_POLICY = (
    "default-src 'none'; connect-src 'self'; manifest-src 'self'; script-src 'self'; style-src"
    " 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
# Their responses are public and the same for everyone, so other sites' pages may read them. Never
# add anything that depends on a key or cookie.
SHARED_BLUEPRINTS = frozenset(
    ("legacy", "health", "openapi", "feeds", "evidence", "log", "share_cards")
)
SHARED_ENDPOINTS = ("embeds.show_badge",)
SHARED_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


class Headers:
    """WSGI middleware that adds these headers to every response that doesn't set them itself."""

    def __init__(self, app: WSGIApplication, https: bool) -> None:
        self.app, self.headers = app, {**SECURITY_HEADERS, **(HTTPS_ONLY if https else {})}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self.app(
            environ,
            lambda status, headers, exc_info=None: start_response(
                status, add_missing(headers, self.headers), exc_info
            ),
        )


def add_missing(
    headers: list[tuple[str, str]], defaults: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return WSGI `headers` plus the missing `defaults`.

    A response with its own Content-Security-Policy also controls framing.
    """
    named = {name for name, _ in headers}
    if "Content-Security-Policy" in named:
        named.add("X-Frame-Options")
    return headers + [pair for pair in defaults.items() if pair[0] not in named]


def share_answer(response: Response) -> Response:
    """Let other sites' pages read shared responses. Flask calls this as after_request."""
    if request.blueprint in SHARED_BLUEPRINTS or request.endpoint in SHARED_ENDPOINTS:
        response.headers.update(SHARED_HEADERS)
    return response
