"""Connections of clients: how much of a request has come, how fast an answer is read, and how many
connections one address may hold.

Nothing here knows HTTP beyond where a request ends, and nothing waits but `PacedSocket.sendall`.
"""

import errno
import mmap
import re
import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

# A client that reads nothing for this long is cut off, and so is one that reads fewer bytes a
# second than this over the time that sending waits for it.
STALL_SECONDS, MIN_BYTES_PER_SECOND = 15.0, 4096
# A connection that has waited this long may be closed to make room for another one. In a burst that
# is faster the newest are closed: the others have not had the time to send anything yet.
MIN_WAIT_SECONDS = 0.5
# Open at once, in each worker; behind a proxy all are the proxy's.
MAX_CONNECTIONS_OF_ADDRESS = 256
MAX_HEAD = 32 * 1024
MAX_CHUNK_LINE = 1024
HEAD_END = b"\r\n\r\n"
BODY_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*\r\n", re.I)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.I)
EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.I)


class PacedSocket(socket.socket):
    """A client's socket whose sending no client can hold up for as long as it likes.

    `waited`: seconds this answer waited for its client, `sent`: bytes of it that went out;
    `waits_since`: by time.monotonic(), while sending waits for the client, else None.
    """

    waited, sent = 0.0, 0
    waits_since: float | None = None

    def begin_answer(self) -> None:
        """Count anew, for another answer."""
        self.waited, self.sent = 0.0, 0

    # Any buffer by its type, which Python 3.11 cannot name; gunicorn sends bytes.
    def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
        """Send all of it; ConnectionResetError where the client reads too slowly."""
        rest = memoryview(data)
        while rest:
            try:
                count = self.send(rest, flags | socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait_for_client()
                continue
            self.sent += count
            rest = rest[count:]

    def _wait_for_client(self) -> None:
        allowed = STALL_SECONDS + self.sent / MIN_BYTES_PER_SECOND - self.waited
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        self.waits_since = begun = time.monotonic()
        try:
            ready = allowed > 0 and poll.poll(min(STALL_SECONDS, allowed) * 1000)
        finally:
            self.waits_since = None
            self.waited += time.monotonic() - begun
        if not ready:
            raise ConnectionResetError(errno.ECONNRESET, "the client does not read")


class RequestProgress:
    """How far one request has come. `is_whole` is called with all of its bytes so far, each time
    more have come.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes, self.head = max_body_bytes, b""
        # `100 Continue` was sent.
        self.is_continued = False
        # Positions in the data: where the search for the head's end goes on, where the body begins
        # and ends, where the next chunk begins (None where the body is not chunked).
        self._searched, self._body_at, self._end_at = 0, 0, 0
        self._chunk_at: int | None = None

    def is_whole(self, data: bytes) -> bool:
        """Tell whether all has come that answering needs. True also for what is malformed in a way
        that no more bytes can mend.
        """
        if not self.head and not self._find_head(data):
            return False
        if self._chunk_at is not None:
            return self._has_last_chunk(data, self._chunk_at)
        return len(data) >= self._end_at

    def is_too_long(self, data: bytes) -> bool:
        """Tell whether the head goes on for longer than any may."""
        return not self.head and len(data) > MAX_HEAD

    def expects_continue(self) -> bool:
        """Tell whether the client waits for `100 Continue` before it sends the body."""
        return EXPECTS.search(self.head) is not None

    def _find_head(self, data: bytes) -> bool:
        end = data.find(HEAD_END, max(0, self._searched - len(HEAD_END)))
        self._searched = len(data)
        if end < 0:
            return False
        self.head, body = data[: end + 2], end + len(HEAD_END)
        if CHUNKED.search(self.head):
            self._chunk_at = body
        length = BODY_LENGTH.search(self.head)
        # What is too long is refused after one byte more than is allowed.
        self._end_at = body + (min(int(length[1]), self.max_body_bytes + 1) if length else 0)
        self._body_at = body
        return True

    def _has_last_chunk(self, data: bytes, at: int) -> bool:
        """Go from chunk to chunk (RFC 9112 7.1), beginning with the one at this position."""
        while len(data) - self._body_at <= self.max_body_bytes:
            self._chunk_at = at
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                return len(data) - at > MAX_CHUNK_LINE
            size = data[at:line_end].partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                return True
            if int(size, 16) == 0:
                return data.find(HEAD_END, line_end) >= 0
            at = line_end + 2 + int(size, 16) + 2
            if at > len(data):
                return False
        return True


class Waiting(Protocol):
    """A connection. `waits_since`: by time.monotonic(), since when it waits for its client; None
    while it does not.
    """

    @property
    def waits_since(self) -> float | None:
        """When the connection began to wait, in monotonic seconds."""


Held = TypeVar("Held", bound=Waiting)


class Addresses(Generic[Held]):
    """Which address holds which connections."""

    def __init__(self, most: int | None) -> None:
        """`most` of one address, or None where all come from a proxy."""
        self.most = most
        self._by_address: dict[str, dict[Held, None]] = {}

    def add(self, address: str, connection: Held) -> None:
        """Note a connection of this address."""
        self._by_address.setdefault(address, {})[connection] = None

    def remove(self, address: str, connection: Held) -> None:
        """Forget a connection, known or not."""
        held = self._by_address.get(address, {})
        held.pop(connection, None)
        if not held:
            self._by_address.pop(address, None)

    def has_room(self, address: str) -> bool:
        """Tell whether this address may hold one more."""
        return self.most is None or len(self._by_address.get(address, ())) < self.most

    def find_idle(self, address: str, now: float) -> Held | None:
        """Return the connection of an address that has waited longest for its client, if long
        enough.
        """
        return find_longest(self._by_address.get(address, ()), now)

    def find_idle_of_most(self, now: float) -> Held | None:
        """Return the same of the address that holds most."""
        if not self._by_address:
            return None
        most = max(self._by_address, key=lambda address: len(self._by_address[address]))
        return self.find_idle(most, now)


def find_longest(connections: Iterable[Held], now: float) -> Held | None:
    """Return the connection that has waited longest, or None where none has waited enough."""
    waiting = [(since, one) for one in connections if (since := one.waits_since) is not None]
    if not waiting:
        return None
    since, longest = min(waiting, key=lambda pair: pair[0])
    return longest if now - since >= MIN_WAIT_SECONDS else None


class SharedCount:
    """A count that worker processes share, forked after it was made; each adds to its own part."""

    PARTS = 64

    def __init__(self) -> None:
        self._memory, self._part = mmap.mmap(-1, 8 * self.PARTS), 0

    def choose_part(self, number: int) -> None:
        """Give this process its part."""
        self._part = number % self.PARTS

    def add(self) -> None:
        """Add one. In each process one thread only may call it."""
        at = 8 * self._part
        struct.pack_into("q", self._memory, at, struct.unpack_from("q", self._memory, at)[0] + 1)

    def total(self) -> int:
        """Return what all processes have added."""
        return sum(struct.unpack(f"{self.PARTS}q", self._memory[:]))


# Connections closed because their address, or the whole instance, had too many.
closed = SharedCount()
