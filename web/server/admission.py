"""The queue in front of the application: which request is answered next.

Addresses take turns, and one holds at most three quarters of the threads. Requests that may write
hold at most half of them: while another program locks the database, readers have the rest. What
follows the first turn of a long answer holds an eighth: it is work for the processor.
"""

from collections import Counter, deque

from web.server.connections import Connection


class Queue:
    """Connections that need a thread, in lines: one for each address and kind of work."""

    def __init__(self, threads: int, is_proxied: bool) -> None:
        self.most = {"read": threads, "write": threads // 2, "rest": max(1, threads // 8)}
        self.most_of_address = threads if is_proxied else threads * 3 // 4
        # The first line has waited longest for its turn.
        self._lines: dict[tuple[str, str], deque[Connection]] = {}
        self._of_address, self._of_work = Counter[str](), Counter[str]()

    def add(self, conn: Connection) -> None:
        reads = conn.request and conn.request.method in ("GET", "HEAD", "OPTIONS")
        conn.work = "rest" if conn.request is None else "read" if reads else "write"
        self._lines.setdefault((conn.address, conn.work), deque()).append(conn)

    def take(self) -> Connection | None:
        """Take the connection whose turn it is, or None until another one is given back."""
        if self._of_work.total() >= self.most["read"]:
            return None
        for (address, work), line in self._lines.items():
            has_room = self._of_work[work] < self.most[work]
            if has_room and self._of_address[address] < self.most_of_address:
                del self._lines[address, work]
                conn = line.popleft()
                if line:
                    self._lines[address, work] = line
                self._of_address[address] += 1
                self._of_work[work] += 1
                return conn
        return None

    def give_back(self, conn: Connection) -> None:
        self._of_work[conn.work] -= 1
        self._of_address[conn.address] -= 1
        self._of_address += Counter()
