"""What every answer carries, whoever gives it: the application, its front, or the server for what never became a request."""

CONTENT_POLICY = ("default-src 'none'; connect-src 'self'; manifest-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
                  "frame-ancestors 'none'")
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}


def add_missing(headers, constant):
    """`headers`, a list of pairs as WSGI has it, with those of `constant` it does not name. A content policy of its own decides about frames itself."""
    given = {name for name, _ in headers}
    if "Content-Security-Policy" in given:
        given.add("X-Frame-Options")
    return headers + [pair for pair in constant.items() if pair[0] not in given]
