"""Send messages: to an untrusted address, or with Apprise to one of the operator's.

The host name of an untrusted address is resolved and checked, and the connection uses that exact IP
address, so that DNS rebinding doesn't help an attacker. Redirects aren't followed, proxies from the
environment aren't used, and responses aren't stored. The APPRISE_URLS contain passwords and tokens.
Only a child process receives one, on standard input. The database has a keyed digest.
"""

import contextlib
import email.utils
import hashlib
import hmac
import http.client
import importlib.util
import ipaddress
import json
import math
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC
from functools import cache
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from config import VERSION
from notify.messages import Message
from notify.plan import MAX_WAIT_SECONDS
from storage.children import Limits, start_python

TOO_LATE = "did not respond in time"
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
# All allocated IPv6. Other addresses are either for a network's own use (site-local, NAT64) or
# contain an IPv4 address that may not be public. Python treats most of them as global.
UNICAST = ipaddress.ip_network("2000::/3")
# Not public, although some Python releases treat them as global.
SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            # Protocol assignments, Oracle Cloud's metadata, and some anycast addresses of the local
            # network.
            "192.0.0.0/24",
            # Azure's metadata service and DHCP.
            "168.63.129.16/32",
            # 6to4 relays.
            "192.88.99.0/24",
            # Protocol assignments: Teredo (contains IPv4 addresses), benchmarks, ORCHID.
            "2001::/23",
            # 6to4, which contains IPv4 addresses.
            "2002::/16",
            # Documentation.
            "3fff::/20",
        ),
    )
)


class Answer(NamedTuple):
    """The result of a POST.

    `error` is one of our own fixed sentences, or None if the message was accepted. `status` is the
    HTTP status, or None without a response. `wait_seconds` is the wait that the receiver asked for.
    """

    status: int | None
    error: str | None
    wait_seconds: int = 0


class _Refused(Exception):
    """The address isn't allowed for webhooks."""


def post(message: Message, private: bool = False) -> Answer:
    """Send within about ANSWER_SECONDS. `private` allows local addresses."""
    try:
        status, wait = _send(message, private)
    except _Refused:
        return Answer(None, "has no public address")
    except TimeoutError:
        return Answer(None, TOO_LATE)
    except ssl.SSLError:
        return Answer(None, "has no valid certificate")
    except (OSError, http.client.HTTPException, UnicodeError):
        return Answer(None, "could not be reached, or the connection was lost")
    if 200 <= status < 300:
        return Answer(status, None)
    return Answer(status, f"returned HTTP {status}", read_wait(wait, time.time()))


def read_wait(text: str | None, now: float) -> int:
    """Parse Retry-After (a number or a date). Return 0 if it is missing or invalid."""
    try:
        seconds = float(text or 0)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(text or "")
            # An HTTP date without a time zone is in UTC (RFC 9110, 5.6.7), not in this machine's
            # time zone.
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, OverflowError):
            return 0
    return math.ceil(min(max(seconds, 0), MAX_WAIT_SECONDS)) if seconds == seconds else 0


def _send(message: Message, private: bool) -> tuple[int, str | None]:
    parts = urlsplit(message.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = find_address(parts.hostname or "", port, private)
    raw = socket.create_connection((address, port), CONNECT_SECONDS)
    with _deadline(raw) as expired:
        try:
            return _exchange(raw, parts, message)
        finally:
            # Even after a response, because endless headers look complete once they are cut off.
            if expired.is_set():
                raise TimeoutError from None


@contextlib.contextmanager
def _deadline(raw: socket.socket) -> Iterator[threading.Event]:
    """Close the connection after ANSWER_SECONDS. Socket timeouts restart with each byte."""
    expired = threading.Event()
    # TLS takes over the first descriptor, so keep a second one for the same connection.
    twin = raw.dup()

    def break_off() -> None:
        expired.set()
        with contextlib.suppress(OSError):
            twin.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(ANSWER_SECONDS, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        twin.close()
        raw.close()


def _exchange(raw: socket.socket, parts: SplitResult, message: Message) -> tuple[int, str | None]:
    raw.settimeout(ANSWER_SECONDS)
    host = parts.hostname or ""
    connection = http.client.HTTPConnection(host, parts.port)
    secure = parts.scheme == "https"
    connection.sock = tls_context().wrap_socket(raw, server_hostname=host) if secure else raw
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"User-Agent": f"candor/{VERSION}", "Connection": "close", "Host": parts.netloc}
    try:
        connection.request("POST", target, message.body, {**headers, **message.headers})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Retry-After")
    finally:
        connection.close()


@cache
def tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def find_address(host: str, port: int, private: bool) -> str:
    """Resolve a host name, and return the address to connect to. Raises OSError if it has none.

    If a single address isn't public, the whole name is rejected.
    """
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = [str(where[0]) for _, _, _, _, where in resolved]
    if not private and not all(map(is_public, found)):
        raise _Refused
    return found[0]


def is_public(text: str) -> bool:
    """An IPv4 address inside an IPv6 address must also be public."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if address not in UNICAST:
            return False
    special = any(address in network for network in SPECIAL)
    return address.is_global and not address.is_multicast and not special


# ---- with Apprise --------------------------------------------------------------------------------
# Per message, including its child's start. Apprise itself gives up after 8 s.
APPRISE_SECONDS = 30.0
# Apprise uses about 50 MB.
LIMITS = Limits(memory_bytes=2**30)
# By the word that the child prints.
APPRISE_ERRORS = {
    b"ok": None,
    b"refused": "refused it or could not be reached",
    b"unknown": "isn't an address that Apprise understands",
}
# Environment variables passed to a child. None of them contains one of our secrets.
ENVIRONMENT = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"}
PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


def name_url(url: str, secret: str) -> str:
    """Return a URL's name in the database: its scheme, and a digest keyed by `secret`."""
    digest = hmac.new(secret.encode(), url.encode(), hashlib.sha256).hexdigest()
    return f"{url.partition(':')[0].lower()}://APPRISE_URLS/{digest[:32]}"


def send_with_apprise(message: Message, site: str) -> Answer:
    """Send a message within APPRISE_SECONDS. `site`: this instance's URL."""
    if importlib.util.find_spec("apprise") is None:
        return Answer(None, "needs Apprise, which is not installed")
    known = {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.upper() in PROXIES
    }
    told = {"url": message.url, "site": site, "text": message.body.decode()}
    child = start_python("notify.apprise_child", [], known, LIMITS)
    try:
        word, _ = child.communicate(json.dumps(told).encode(), APPRISE_SECONDS)
    except subprocess.TimeoutExpired:
        return Answer(None, TOO_LATE)
    finally:
        child.end()
    return Answer(None, APPRISE_ERRORS.get(word.strip(), "could not be sent"))
