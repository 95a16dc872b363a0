"""A Solana node's WebSocket endpoint for tests. It sends what a test asks for, and misbehaves on
demand.
"""

import json
import logging
import random
import threading

from node import show_account
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

# It would log its own address. Not from getLogger: another test's configuration would enable it.
SILENT = logging.Logger("bellnode", logging.CRITICAL + 1)


class BellNode:
    """A node on a free loopback port, as a context manager. Honest unless told otherwise."""

    def __init__(self, port=0):
        self._guard, self._lines, self._held = threading.Lock(), {}, []
        # All connections, requests and subscriptions so far, including refused ones.
        self.connections, self.requests = 0, []
        self._most, self._dropping, self._doubling, self._stalled, self._holding = None, 0, 0, 0, 0
        self._mute = False
        how = {"compression": None, "ping_interval": None, "logger": SILENT}
        self._server = serve(self._talk, "127.0.0.1", port, **how)
        self.port = self._server.socket.getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}/?api-key=canary-of-the-bell"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.cut()
        self._server.shutdown()

    # ---- verbs: how it behaves -------------------------------------------------------------------
    def drop(self, on=True):
        """Tell nobody."""
        self._dropping = on

    def double(self, on=True):
        """Tell everything twice."""
        self._doubling = on

    def stall(self, on=True):
        """Answer no request."""
        self._mute = on

    def cut(self):
        """Close every connection."""
        with self._guard:
            lines, self._lines = list(self._lines), {}
        for line in lines:
            line.close()

    def reorder(self, on=True):
        """Hold back all messages; once turned off, send them in another order."""
        self._holding = on
        if not on:
            held, self._held = self._held, []
            random.Random(1).shuffle(held)
            for place, result in held:
                self._tell(place, result)

    def allow(self, most):
        """Refuse a connection's subscriptions beyond this number."""
        self._most = most

    # ---- verbs: what it tells --------------------------------------------------------------------
    def announce(self, row):
        """Report a transaction to subscribers of the addresses in it."""
        value = {"signature": row.signature, "err": row.receipt["meta"]["err"], "logs": []}
        for address in dict.fromkeys(row.keys):
            self.lie(("logsSubscribe", address), {"context": {"slot": row.slot}, "value": value})

    def change(self, chain, row):
        """Report the balances of a transaction's accounts as of its slot."""
        for address in dict.fromkeys(row.keys):
            lamports, token = chain.state(address, row.slot)
            result = {"context": {"slot": row.slot}, "value": show_account(lamports, token)}
            self.lie(("accountSubscribe", address), result)

    def lie(self, place, result):
        """Send this to subscribers of a (method, address)."""
        if self._holding:
            self._held.append((place, result))
        elif not self._dropping:
            for _ in range(2 if self._doubling else 1):
                self._tell(place, result)

    def flood(self, raw):
        """Send these bytes to everybody."""
        for line in list(self._lines):
            self._send(line, raw)

    def list_places(self):
        """Current subscriptions of all connections."""
        with self._guard:
            return [place for numbers in self._lines.values() for place in numbers.values()]

    # ---- the wire --------------------------------------------------------------------------------
    def _talk(self, line):
        with self._guard:
            self._lines[line] = {}
            self.connections += 1
        try:
            for raw in line:
                self._take(line, json.loads(raw))
        except ConnectionClosed:
            return
        finally:
            with self._guard:
                self._lines.pop(line, None)

    def _take(self, line, request):
        method, params, numbers = request["method"], request["params"], self._lines.get(line, {})
        self.requests.append((method, params))
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if self._mute:
            return
        if method.endswith("Unsubscribe"):
            answer["result"] = numbers.pop(params[0], None) is not None
        elif self._most is not None and len(numbers) >= self._most:
            answer["error"] = {"code": -32603, "message": "too many subscriptions"}
        else:
            what = params[0] if method == "accountSubscribe" else params[0]["mentions"][0]
            number = len(self.requests)
            with self._guard:
                numbers[number] = (method, what)
            answer["result"] = number
        self._send(line, json.dumps(answer))

    def _tell(self, place, result):
        method = place[0].replace("Subscribe", "Notification")
        with self._guard:
            lines = [(line, dict(numbers)) for line, numbers in self._lines.items()]
        for line, numbers in lines:
            for number, one in numbers.items():
                if one == place:
                    params = {"subscription": number, "result": result}
                    told = {"jsonrpc": "2.0", "method": method, "params": params}
                    self._send(line, json.dumps(told))

    @staticmethod
    def _send(line, raw):
        try:
            line.send(raw)
        except ConnectionClosed:
            return
