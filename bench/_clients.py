"""Many keep-alive connections from one thread, on raw sockets so that servers get the CPU time."""

import selectors
import socket
import time
from dataclasses import dataclass, field

# In place of a length.
CHUNKED = -1


@dataclass
class Heard:
    """Seconds for each response, the number of unexpected statuses, and seconds in total."""

    took: list = field(default_factory=list)
    wrong: int = 0
    seconds: float = 0.0

    @property
    def rate(self):
        """Responses per second."""
        return len(self.took) / self.seconds

    def percentile(self, percent):
        """In ms."""
        ordered = sorted(self.took)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000


def write_request(method, path, headers=(), body=b""):
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in headers),
        *([f"Content-Length: {len(body)}"] if body else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection:
    """A client: it sends its next request as soon as the last response arrived."""

    def __init__(self, port, requests):
        self.requests, self.socket = (
            requests,
            socket.create_connection(("127.0.0.1", port), timeout=30),
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self):
        self.received, self.need, self.began = bytearray(), None, time.perf_counter()
        self.socket.sendall(next(self.requests))

    def receive(self):
        """Return (status, body size) once the response is complete, else None. Without
        Content-Length it must be chunked.
        """
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the server hung up")
        self.received += part
        if self.need is None:
            self._read_head()
        if self.need and (
            self.received.endswith(b"\r\n0\r\n\r\n")
            if self.need == CHUNKED
            else len(self.received) >= self.need
        ):
            return int(self.received[9:12]), len(self.received) - self.start
        return None

    def _read_head(self):
        end = self.received.find(b"\r\n\r\n")
        if end >= 0:
            head, self.start = bytes(self.received[:end]).lower(), end + 4
            _, found, rest = head.partition(b"content-length:")
            self.need = self.start + int(rest.split(b"\r\n")[0]) if found else CHUNKED


def ask(port, requests, clients=16, seconds=3.0, status=200):
    """Send requests with this many clients at once. `requests`: an iterator of bytes for each."""
    heard, selector, open_connections = (
        Heard(),
        selectors.DefaultSelector(),
        [Connection(port, requests()) for _ in range(clients)],
    )
    for connection in open_connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send()
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        for chosen, _ in selector.select(1):
            answer = chosen.data.receive()
            if answer:
                now = time.perf_counter()
                heard.took.append(now - chosen.data.began)
                heard.wrong += answer[0] != status
                chosen.data.send()
    heard.seconds = now - began
    for connection in open_connections:
        connection.socket.close()
    return heard
