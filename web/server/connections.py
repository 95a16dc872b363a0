"""Connections of clients: how much of a request has come, how fast an answer is taken, and how many
one address may hold.

Nothing here knows HTTP beyond where a request ends, and nothing waits but `PacedSocket.sendall`.
"""

import errno
import mmap
import re
import select
import socket
import struct
import time
from collections.abc import Hashable, Iterable

# A reader that takes nothing for so long is cut off, and so is one that takes fewer bytes a second
# than this over the time it keeps us waiting.
STALL_SECONDS, MIN_BYTES_PER_SECOND = 15.0, 4096
# A connection that has waited so long may be closed to make room for another one. In a burst that
# is
# faster the newest are closed: the others have not had the time to say anything yet.
MIN_WAIT_SECONDS = 0.5
MAX_HEAD = 32 * 1024
MAX_CHUNK_LINE = 1024
HEAD_END = b"\r\n\r\n"
BODY_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,12})[ \t]*\r\n", re.I)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.I)
EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*\r\n", re.I)


class PacedSocket(socket.socket):
    """A client's socket that no reader can hold for as long as it likes.

    `waited`: seconds this answer waited for its reader, `sent`: bytes it took (see `begin_answer`);
    `waits_since`: by time.monotonic(), while sending waits for the reader, else None.
    """

    waited, sent = 0.0, 0
    waits_since: float | None = None

    def begin_answer(self) -> None:
        self.waited, self.sent = 0.0, 0

    def sendall(self, data: bytes, flags: int = 0) -> None:
        """Send all of it; ConnectionResetError where the reader takes it too slowly."""
        rest = memoryview(data)
        while rest:
            try:
                count = self.send(rest, flags | socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait_for_reader()
                continue
            self.sent += count
            rest = rest[count:]

    def _wait_for_reader(self) -> None:
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


class Arrival:
    """How far one request has come. `is_whole` is asked with all of its bytes so far, each time
    more have come.
    """

    def __init__(self, max_body: int) -> None:
        self.max_body, self.head, self._needs, self._chunk_at = max_body, b"", None, None
        self._looked, self._body, self.continued = 0, 0, False

    def is_whole(self, data: bytes) -> bool:
        """Has all come that answering needs? Also True for what no more bytes will make right."""
        if not self.head and not self._find_head(data):
            return False
        if self._chunk_at is not None:
            return self._has_last_chunk(data)
        return len(data) >= self._needs

    def is_too_long(self, data: bytes) -> bool:
        return not self.head and len(data) > MAX_HEAD

    def expects_continue(self) -> bool:
        """Does the client wait for our `100 Continue` before it sends the body?"""
        return EXPECTS.search(self.head) is not None

    def _find_head(self, data: bytes) -> bool:
        end = data.find(HEAD_END, max(0, self._looked - len(HEAD_END)))
        self._looked = len(data)
        if end < 0:
            return False
        self.head, body = data[: end + 2], end + len(HEAD_END)
        if CHUNKED.search(self.head):
            self._chunk_at = body
        length = BODY_LENGTH.search(self.head)
        # What is too long is refused after one byte more than is allowed.
        self._needs = body + (min(int(length[1]), self.max_body + 1) if length else 0)
        self._body = body
        return True

    def _has_last_chunk(self, data: bytes) -> bool:
        """Walk from chunk to chunk (RFC 9112 7.1), on from where the last look ended."""
        while len(data) - self._body <= self.max_body:
            line_end = data.find(b"\r\n", self._chunk_at)
            if line_end < 0:
                return len(data) - self._chunk_at > MAX_CHUNK_LINE
            size = data[self._chunk_at : line_end].partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                return True
            if int(size, 16) == 0:
                return data.find(HEAD_END, line_end) >= 0
            following = line_end + 2 + int(size, 16) + 2
            if following > len(data):
                return False
            self._chunk_at = following
        return True


class Addresses:
    """Who holds how many connections. A connection is anything with `waits_since`."""

    def __init__(self, most: int | None) -> None:
        """`most` of one address, or None where all come from a proxy."""
        self.most, self._by_address = most, {}

    def add(self, address: Hashable, connection: object) -> None:
        self._by_address.setdefault(address, {})[connection] = None

    def remove(self, address: Hashable, connection: object) -> None:
        held = self._by_address.get(address, {})
        held.pop(connection, None)
        if not held:
            self._by_address.pop(address, None)

    def has_room(self, address: Hashable) -> bool:
        return self.most is None or len(self._by_address.get(address, ())) < self.most

    def find_idle(self, address: Hashable, now: float) -> object | None:
        """The connection of an address that has waited longest for its client, if long enough."""
        return find_longest(self._by_address.get(address, ()), now)

    def find_idle_of_most(self, now: float) -> object | None:
        """The same for the address that holds most."""
        if not self._by_address:
            return None
        return find_longest(max(self._by_address.values(), key=len), now)


def find_longest(connections: Iterable, now: float) -> object | None:
    waiting = [(since, one) for one in connections if (since := one.waits_since) is not None]
    since, longest = min(waiting, key=lambda pair: pair[0], default=(now, None))
    return longest if now - since >= MIN_WAIT_SECONDS else None


class SharedCount:
    """A number that all worker processes forked after it was made add to, each in a place of its
    own.
    """

    PLACES = 64

    def __init__(self) -> None:
        self._memory, self._place = mmap.mmap(-1, 8 * self.PLACES), 0

    def choose_place(self, number: int) -> None:
        self._place = number % self.PLACES

    def add(self) -> None:
        """Of one process only one thread may."""
        at = 8 * self._place
        struct.pack_into("q", self._memory, at, struct.unpack_from("q", self._memory, at)[0] + 1)

    def total(self) -> int:
        return sum(struct.unpack(f"{self.PLACES}q", self._memory[:]))


# Connections closed because their address, or the whole instance, had too many.
closed = SharedCount()
