"""Below a path: where BASE_URL names one (https://host/candor), everything is served and linked
below it.
"""

from collections.abc import Callable, Iterable
from typing import Any


class Prefix:
    """WSGI middleware that tells the application where it stands.

    BASE_URL decides, and no header: a proxy may pass the path on or strip it, and both come out the
    same. A stranger's X-Forwarded-Prefix would be a link of his choice on our pages, for proxies
    pass it on unless they are told not to.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], path: str) -> None:
        self.app, self.path = app, path

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        asked = environ["PATH_INFO"]
        if asked == self.path or asked.startswith(self.path + "/"):
            environ["PATH_INFO"] = asked[len(self.path) :] or "/"
        environ["SCRIPT_NAME"] = self.path
        return self.app(environ, start_response)
