"""The queue in front of the application: which request is answered next.

Addresses take turns, and one holds at most three quarters of the threads. Requests that may write
hold at most half of them: while another program locks the database, readers have the rest.
"""

from collections import Counter, deque

from web.server.connections import Connection


class Queue:
    """Connections with a request, in lines: for each address one that reads and one that writes."""

    def __init__(self, threads: int, is_proxied: bool) -> None:
        self.threads, self.most_writers = threads, threads // 2
        self.most_of_address = threads if is_proxied else threads * 3 // 4
        # The first line has waited longest for its turn.
        self._lines: dict[tuple[str, bool], deque[Connection]] = {}
        self._answering = Counter[str]()
        self._writers = 0

    def add(self, conn: Connection) -> None:
        self._lines.setdefault((conn.address, conn.is_writing), deque()).append(conn)

    def take(self) -> Connection | None:
        """Take the connection whose turn it is, or None until another one is given back."""
        if self._answering.total() >= self.threads:
            return None
        for (address, is_writing), line in self._lines.items():
            is_full = is_writing and self._writers >= self.most_writers
            if not is_full and self._answering[address] < self.most_of_address:
                del self._lines[address, is_writing]
                conn = line.popleft()
                if line:
                    self._lines[address, is_writing] = line
                self._answering[address] += 1
                self._writers += is_writing
                return conn
        return None

    def give_back(self, conn: Connection) -> None:
        self._answering[conn.address] -= 1
        self._answering += Counter()
        self._writers -= conn.is_writing
