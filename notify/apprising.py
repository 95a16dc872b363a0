"""Send messages to APPRISE_URLS. Each URL has a child process, which starts with its first message
and ends when it is no longer needed.

The URLs contain passwords and tokens. Only the child receives its URL, on standard input. The
database has a keyed digest.
"""

import hashlib
import hmac
import importlib.util
import os
import threading
import time

import orjson

from notify.client import Answer
from notify.messages import Message
from storage.children import Child, Limits, start_python

# The time limit for a message, including its child's start. Apprise itself gives up after about 8
# s.
ANSWER_SECONDS = 30.0
# An idle child ends after this long, because it uses about 50 MB.
IDLE_SECONDS = 60.0
# How long to wait for unfinished messages when the process ends.
END_SECONDS = 1.0
MISSING = "needs Apprise, which is not installed"
TOO_LATE = "did not respond in time"
BROKEN = "could not be sent"
# Apprise uses about 50 MB. Each message has its own deadline.
LIMITS = Limits(memory_bytes=2**30)
# The words a child replies with.
ERRORS = {
    b"ok": None,
    b"refused": "refused it or could not be reached",
    b"unknown": "isn't an address that Apprise understands",
}
# The environment variables passed to a child. None of them contains one of our secrets.
ENVIRONMENT = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


def name_url(url: str, secret: str) -> str:
    """Return the name of a URL in the database: its scheme, and a digest keyed by `secret`."""
    digest = hmac.new(secret.encode(), url.encode(), hashlib.sha256).hexdigest()
    return f"{url.partition(':')[0].lower()}://APPRISE_URLS/{digest[:32]}"


class Speaker:
    """Sends messages to one URL, one at a time."""

    def __init__(self, url: str, site: str) -> None:
        self._begin = orjson.dumps({"url": url, "site": site}) + b"\n"
        self._child: Child | None = None
        self._lock = threading.Lock()
        self._used_at = 0.0

    def say(self, text: str) -> Answer:
        """Send a text, and wait for the result for at most ANSWER_SECONDS."""
        with self._lock:
            if self._child is None:
                self._child = start_child()
                first = self._begin
            else:
                first = b""
            answer = _ask(self._child, first + orjson.dumps(text) + b"\n")
            if answer.error in (TOO_LATE, BROKEN):
                self._end()
            self._used_at = time.monotonic()
            return answer

    def rest(self, idle_seconds: float, wait_seconds: float = 0.0) -> None:
        """End the child, unless it was active within the last `idle_seconds`.

        If it is still busy after `wait_seconds`, its message is aborted. If that is 0, a busy child
        keeps running.
        """
        if not self._lock.acquire(timeout=wait_seconds):
            if wait_seconds and self._child is not None:
                self._child.kill()
            return
        try:
            if self._child is not None and time.monotonic() - self._used_at >= idle_seconds:
                self._end()
        finally:
            self._lock.release()

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def start_child() -> Child:
    """Start a child with this process's module path."""
    known = {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.upper() in PROXIES
    }
    return start_python("notify.apprise_child", [], known, LIMITS)


def _ask(child: Child, lines: bytes) -> Answer:
    """Send lines to a child, and return the meaning of the next word it sends."""
    assert child.stdin is not None and child.stdout is not None
    expired = threading.Event()

    def give_up() -> None:
        expired.set()
        child.kill()

    timer = threading.Timer(ANSWER_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    word = b""
    try:
        child.stdin.write(lines)
        child.stdin.flush()
        word = child.stdout.readline()
    except OSError:
        # The child has exited, so `word` is empty.
        pass
    finally:
        timer.cancel()
    return Answer(None, ERRORS.get(word.strip(), TOO_LATE if expired.is_set() else BROKEN))


class Speakers:
    """The child processes of all APPRISE_URLS. `site` is this instance's URL."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._speakers: dict[str, Speaker] = {}

    def send(self, message: Message, private: bool = True) -> Answer:
        """Send a message made by messages.write_message to an Apprise URL."""
        if importlib.util.find_spec("apprise") is None:
            return Answer(None, MISSING)
        new = Speaker(message.url, self._site)
        return self._speakers.setdefault(message.url, new).say(message.body.decode())

    def rest(self) -> None:
        """End the children that have been idle for a while."""
        for speaker in list(self._speakers.values()):
            speaker.rest(IDLE_SECONDS)

    def end(self) -> None:
        """End all children. Busy ones get END_SECONDS in total to finish."""
        end = time.monotonic() + END_SECONDS
        for speaker in list(self._speakers.values()):
            speaker.rest(0, max(0.01, end - time.monotonic()))
