"""What every answer carries, whoever gives it: the application, its front, or the server for what
never became a request.
"""

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
# What is public and the same for everybody, for pages of other sites. Never on what a key or a
# cookie
# decides: those blueprints are not among these.
SHARED_BLUEPRINTS = ("legacy", "health", "openapi", "feeds")
SHARED_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


def add_missing(headers, constant):
    """`headers`, a list of pairs as WSGI has it, with those of `constant` it does not name. A
    content policy of its own decides about frames itself.
    """
    given = {name for name, _ in headers}
    if "Content-Security-Policy" in given:
        given.add("X-Frame-Options")
    return headers + [pair for pair in constant.items() if pair[0] not in given]


def share_answer(response: Response) -> Response:
    """For Flask's after_request: a page of another site may read what is the same for everybody."""
    if request.blueprint in SHARED_BLUEPRINTS:
        response.headers.update(SHARED_HEADERS)
    return response
