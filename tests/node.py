"""Solana nodes for tests.

`FakeNode` runs in this process with recorded or made-up receipts (tests/story.py), and lies on
demand. `ReplayNode` runs tests/replay.py, which serves one and misbehaves on the wire.
"""

import base64
import copy
import json
import subprocess
import sys
import urllib.request
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from chain import rpc
from chain.addresses import SYSTEM, TOKEN, b58decode


class FakeClock:
    """Seconds that pass only when somebody sleeps."""

    def __init__(self):
        self.time = 1_000.0

    def __call__(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


@dataclass(frozen=True)
class Row:
    """One transaction of a chain. `receipt`: the result of getTransaction; `keys`: all its
    addresses.
    """

    signature: str
    slot: int
    index: int
    receipt: dict

    @property
    def keys(self):
        keys = self.receipt["transaction"]["message"]["accountKeys"]
        if isinstance(keys[0], dict):
            return [key["pubkey"] for key in keys]
        loaded = self.receipt["meta"].get("loadedAddresses") or {}
        return keys + loaded.get("writable", []) + loaded.get("readonly", [])

    def list_mints(self, wallet):
        """Mints for which it contains a token account of this wallet."""
        meta = self.receipt["meta"]
        balances = meta["preTokenBalances"] + meta["postTokenBalances"]
        return {balance["mint"] for balance in balances if balance["owner"] == wallet}


class Chain:
    """The true chain in order: rows by address, and every balance after every slot."""

    def __init__(self, rows):
        self.rows = sorted(rows, key=lambda row: (row.slot, row.index))
        self.by_signature = {row.signature: row for row in self.rows}
        self.by_address, self.owned, self._states = (
            defaultdict(list),
            defaultdict(set),
            defaultdict(list),
        )
        # mint -> one of its token balances
        self.mints = {}
        for row in self.rows:
            meta = row.receipt["meta"]
            self.mints |= {b["mint"]: b for b in meta["postTokenBalances"]}
            held = {balance["accountIndex"]: balance for balance in meta["postTokenBalances"]}
            for place, key in enumerate(row.keys):
                self.by_address[key].append(row)
                self._states[key].append((row.slot, meta["postBalances"][place], held.get(place)))
            for balance in meta["preTokenBalances"] + meta["postTokenBalances"]:
                self.owned[balance["owner"]].add(row.keys[balance["accountIndex"]])

    @classmethod
    def recorded(cls, history, encoding="jsonParsed"):
        return cls(
            [
                Row(t["signature"], t["slot"], t["index"], t[encoding])
                for t in history["transactions"]
            ]
        )

    def state(self, address, slot):
        """(lamports, token balance or None) after a slot."""
        states = self._states.get(address, [])
        place = bisect_right(states, slot, key=lambda state: state[0])
        return states[place - 1][1:] if place else (0, None)

    def touching(self, wallet):
        """Rows that involve the wallet or a token account it ever owned."""
        own = {wallet} | self.owned[wallet]
        return [row for row in self.rows if own & set(row.keys)]

    def moving(self, wallet):
        """Rows that change a balance of the wallet or of one of its token accounts."""
        own = {wallet} | self.owned[wallet]
        return [
            row
            for row in self.touching(wallet)
            if any(
                self._changes(row, place, key) for place, key in enumerate(row.keys) if key in own
            )
        ]

    @staticmethod
    def _changes(row, place, key):
        meta = row.receipt["meta"]
        amounts = [
            {b["accountIndex"]: b["uiTokenAmount"]["amount"] for b in meta[side]}.get(place, "0")
            for side in ("preTokenBalances", "postTokenBalances")
        ]
        return meta["preBalances"][place] != meta["postBalances"][place] or amounts[0] != amounts[1]


class NodeError(Exception):
    """The node refuses a call with this JSON-RPC error code."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class FakeNode:
    """One endpoint's view of a Chain. It is honest unless told otherwise; `restore` makes it honest
    again.
    """

    def __init__(self, chain, tip=None):
        # Tip None: everything is final.
        self.chain, self.tip = chain, tip
        # By method; getTransaction by signature.
        self.calls, self.asked = Counter(), Counter()
        self.restore()

    # ---- verbs -----------------------------------------------------------------------------------
    def restore(self):
        self._withheld, self._dropped, self._forged, self._failing = set(), set(), {}, {}
        self._programs, self._unknown = set(), set()
        self._oldest, self._indexed, self._blocks = 0, True, True
        # How to change responses to getTransactionsForAddress; None: the method doesn't exist.
        self._bulk = None

    def withhold(self, *signatures):
        """Hide these from lists and requests; balances still show the truth."""
        self._withheld |= set(signatures)

    def drop(self, *signatures):
        """List these, but return `null` for them."""
        self._dropped |= set(signatures)

    def give(self, *signatures):
        """Be honest about these from now on."""
        self._withheld -= set(signatures)
        self._dropped -= set(signatures)
        for signature in signatures:
            self._forged.pop(signature, None)

    def forge(self, signature, change):
        """Return this receipt changed; `change(receipt)` modifies a copy in place."""
        self._forged[signature] = change

    def prune(self, oldest):
        """Forget receipts before a slot."""
        self._oldest = oldest

    def hide_index(self, blocks=True):
        """Omit transactionIndex everywhere, as before 4.0; with `blocks=False`, getBlock
        fails too.
        """
        self._indexed, self._blocks = False, blocks

    def execute(self, *addresses):
        """Claim that these addresses are programs."""
        self._programs |= set(addresses)

    def lose(self, *addresses):
        """Claim that these accounts don't exist."""
        self._unknown |= set(addresses)

    def fail(self, method, code=-32603):
        """Return an error for this method; code None: back to normal."""
        self._failing[method] = code

    def offer_bulk(self, change=lambda data: data):
        """Support getTransactionsForAddress; `change(data)` returns the changed rows."""
        self._bulk = change

    # ---- JSON-RPC --------------------------------------------------------------------------------
    def answer(self, method, params):
        self.calls[method] += 1
        if self._failing.get(method):
            raise NodeError(self._failing[method])
        return getattr(self, f"_{method}")(*params)

    def _now(self):
        return self.chain.rows[-1].slot if self.tip is None else self.tip

    def _shows(self, row):
        return self._oldest <= row.slot <= self._now() and row.signature not in self._withheld

    def _getSignaturesForAddress(self, address, config):
        rows = [row for row in reversed(self.chain.by_address.get(address, [])) if self._shows(row)]
        if "before" in config:
            signatures = [row.signature for row in rows]
            if config["before"] not in signatures:
                raise NodeError(-32020)
            rows = rows[signatures.index(config["before"]) + 1 :]
        return [
            {
                "signature": row.signature,
                "slot": row.slot,
                "err": row.receipt["meta"]["err"],
                "memo": None,
                "blockTime": row.receipt["blockTime"],
                "confirmationStatus": "finalized",
                **({"transactionIndex": row.index} if self._indexed else {}),
            }
            for row in rows[: config["limit"]]
        ]

    def _getTransaction(self, signature, config):
        self.asked[signature] += 1
        row = self.chain.by_signature.get(signature)
        if row is None or not self._shows(row) or signature in self._dropped:
            return None
        receipt = {name: value for name, value in row.receipt.items() if name != "transactionIndex"}
        if self._indexed:
            receipt["transactionIndex"] = row.index
        if signature in self._forged:
            receipt = copy.deepcopy(receipt)
            self._forged[signature](receipt)
        return receipt

    def _getTransactionsForAddress(self, address, config):
        """As documented by Helius, with full details, oldest first."""
        if self._bulk is None:
            raise NodeError(-32601)
        assert (config["transactionDetails"], config["sortOrder"]) == ("full", "asc")
        within, own = config["filters"]["slot"], {address}
        if config["filters"]["tokenAccounts"] == "all":
            own |= self.chain.owned[address]
        rows = [
            row
            for row in self.chain.rows
            if own & set(row.keys) and within["gte"] <= row.slot <= within["lte"]
        ]
        found = [self._getTransaction(row.signature, config) for row in rows[: config["limit"]]]
        self.asked.subtract(row.signature for row in rows[: config["limit"]])
        more = len(rows) > config["limit"]
        return {
            "data": self._bulk([one for one in found if one]),
            "paginationToken": f"{rows[config['limit']].slot}:0" if more else None,
        }

    def _getBlock(self, slot, config):
        if not self._blocks:
            raise NodeError(-32601)
        return {"signatures": [row.signature for row in self.chain.rows if row.slot == slot]}

    def _getSlot(self, *_):
        return self._now()

    def _getBlockTime(self, slot):
        return max(row.receipt["blockTime"] for row in self.chain.rows if row.slot <= slot)

    def _getMultipleAccounts(self, addresses, config):
        return {
            "context": {"slot": self._now()},
            "value": [self._cut(self._account(a), config.get("dataSlice")) for a in addresses],
        }

    @staticmethod
    def _cut(account, part):
        if account is None or part is None:
            return account
        data = base64.b64decode(account["data"][0])
        data = data[part["offset"] : part["offset"] + part["length"]]
        return {**account, "data": [base64.b64encode(data).decode(), "base64"]}

    def _account(self, address):
        if address in self._unknown:
            return None
        if address in self.chain.mints:
            return self._mint(self.chain.mints[address])
        account = show_account(*self.chain.state(address, self._now()))
        return account and {**account, "executable": address in self._programs}

    @staticmethod
    def _mint(balance):
        """The 82 bytes of a mint, with its decimals in byte 44."""
        data = bytes(44) + bytes([balance["uiTokenAmount"]["decimals"]]) + bytes(37)
        return {
            "lamports": 1_461_600,
            "owner": balance.get("programId", TOKEN),
            "data": [base64.b64encode(data).decode(), "base64"],
            "executable": False,
            "rentEpoch": 0,
        }

    def _getTokenAccountsByOwner(self, owner, filters, config):
        accounts = {address: self._account(address) for address in self.chain.owned.get(owner, ())}
        return {
            "context": {"slot": self._now()},
            "value": [
                {"pubkey": address, "account": account}
                for address, account in sorted(accounts.items())
                if account and account["owner"] == filters["programId"]
            ],
        }


def show_account(lamports, token):
    """An account as nodes report it, its first 72 bytes, or None."""
    if not lamports:
        return None
    data, program = b"", SYSTEM
    if token:
        amount = int(token["uiTokenAmount"]["amount"]).to_bytes(8, "little")
        data = b58decode(token["mint"]) + b58decode(token["owner"]) + amount
        program = token.get("programId", TOKEN)
    encoded = [base64.b64encode(data).decode(), "base64"]
    return {
        "lamports": lamports,
        "owner": program,
        "data": encoded,
        "executable": False,
        "rentEpoch": 0,
    }


class FakeEndpoint(rpc.Endpoint):
    """An Endpoint that talks to a FakeNode in this process."""

    def __init__(self, node, label, requests_per_second, clock):
        super().__init__("http://fake.invalid", label, requests_per_second, clock)
        self.node = node

    def ask(self, method, params, ident):
        try:
            return self.node.answer(method, params)
        except NodeError as error:
            return rpc._raise_error({"code": error.code}, {})


def connect(*nodes, clock=None, requests_per_second=1e9):
    """An Rpc for these nodes, preferring the first."""
    clock = clock or FakeClock()
    line = rpc.Rpc([], requests_per_second, clock=clock, sleep=clock.sleep)
    line.endpoints = [
        FakeEndpoint(node, f"endpoint {n}", requests_per_second, clock)
        for n, node in enumerate(nodes, 1)
    ]
    return line


class ReplayNode:
    """tests/replay.py on a free loopback port, as a context manager."""

    def __init__(self):
        argv = [sys.executable, "-B", str(Path(__file__).with_name("replay.py")), "--port", "0"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        line = self._process.stdout.readline().decode()
        assert line.startswith("READY "), line + self._process.stdout.read().decode()
        self.url = line.split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.terminate()
        self._process.communicate(timeout=60)

    def control(self, **change):
        """Set tip, faults, rate and seed, and reset the counters."""
        return self._call("/control", json.dumps(change).encode())

    def stats(self):
        return self._call("/stats")

    def _call(self, path, body=None):
        with urllib.request.urlopen(self.url + path, data=body, timeout=60) as answer:
            return json.load(answer)
