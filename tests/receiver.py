"""A local webhook receiver whose behavior tests control."""

import http.server
import threading
import time


class Receiver:
    """`got`: [(lowercase headers, body)...] of every request, in order."""

    def __init__(self):
        self.got, self._behave = [], answer(204)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.got.append(({k.lower(): v for k, v in self.headers.items()}, self.body))
                outer._behave(self)

            do_GET = do_POST

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def behave(self, how):
        self._behave = how
        return self

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def answer(status, body=b"", **headers):
    def behave(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def trickle(seconds):
    """A header that never ends, sent one byte at a time."""

    def behave(handler):
        end = time.monotonic() + seconds
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while time.monotonic() < end:
            try:
                handler.wfile.write(b"x")
                handler.wfile.flush()
            except OSError:
                return
            time.sleep(0.02)

    return behave


def hang(event):
    def behave(handler):
        event.wait(60)

    return behave
