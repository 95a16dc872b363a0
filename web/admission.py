"""In front of Flask: at most THREADS requests are worked on at once, and none of them waits for a slow client."""
import io
import threading

PLACE_SECONDS = 10
CUT = "400 Bad Request", [("Content-Length", "0"), ("Connection", "close")]
FULL = "503 Service Unavailable", [("Content-Length", "0"), ("Retry-After", "2")]


class Admission:
    """WSGI middleware over `app` with so many places; who finds none within ten seconds hears 503.

    The body is read before a place is taken, up to one byte more than is allowed (the application then says so). What the application
    streams after it has answered holds no place. `arrived(environ)` is told when the request is here whole.
    """

    def __init__(self, app, places, longest_body, arrived):
        self.app, self.longest_body, self.arrived = app, longest_body, arrived
        self.places = threading.BoundedSemaphore(places)

    def __call__(self, environ, start_response):
        try:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(self.longest_body + 1) if has_body(environ) else b"")
        except OSError:                                       # the client went away, or its chunks are malformed
            return refuse(start_response, CUT)
        self.arrived(environ)
        if not self.places.acquire(timeout=PLACE_SECONDS):
            return refuse(start_response, FULL)
        try:
            return self.app(environ, start_response)
        finally:
            self.places.release()


def has_body(environ):
    return environ.get("CONTENT_LENGTH", "0") not in ("", "0") or environ.get("wsgi.input_terminated", False)


def refuse(start_response, answer):
    start_response(*answer)
    return [b""]
