"""Serving below a path: where BASE_URL names one (https://host/candor), everything is served and
linked below it.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class Prefix:
    """WSGI middleware that tells the application where it stands.

    BASE_URL decides, and no header: a proxy may pass the path on or strip it, with the same result.
    Proxies pass on X-Forwarded-Prefix unless they are told not to, and a stranger could put any
    link on our pages by it.
    """

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self.app, self.path = app, path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Move the path from PATH_INFO to SCRIPT_NAME, whether or not a proxy passed it on."""
        path = environ["PATH_INFO"]
        if path == self.path or path.startswith(self.path + "/"):
            environ["PATH_INFO"] = path[len(self.path) :] or "/"
        environ["SCRIPT_NAME"] = self.path
        return self.app(environ, start_response)
