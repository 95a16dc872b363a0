"""Builds receipts as a node gives them: a wallet trades one token at a venue, for SOL or a
stablecoin, and all balances add up.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chain.base58 import b58encode
from chain.reading.instructions import SYSTEM, TOKEN
from chain.reading.quotes import Quote

# PumpSwap, which calls move value: no marker, unlike the recording's own venue.
VENUE = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
FEE, RENT, PLENTY = 5_000, 2_039_280, 10**16
JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Whose receipts they are: the number and address of the wallet, the token it trades, when each
    happens, in seconds of the demonstration, and the stablecoin it pays with, if it does.
    """

    who: int
    wallet: str
    mint: str
    decimals: int
    times: Sequence[int]
    quote: Quote | None = None


def make_address(name: str) -> str:
    """Return a well-formed address that nobody has."""
    return b58encode(hashlib.sha256(f"candor demonstration {name}".encode()).digest())


class Receipts:
    """Adds receipts one after another and keeps all balances; `rows`: as in the recording."""

    def __init__(self, plan: Plan, lamports: int) -> None:
        wallet, self.plan = plan.wallet, plan
        self.pool, self.friend = make_address("pool"), make_address("friend")
        self.own, self.vault = (make_address(f"{name} {wallet}") for name in ("own", "vault"))
        self.owners = {self.own: wallet, self.vault: self.pool}
        self.lamports = {wallet: lamports, self.pool: PLENTY, self.friend: PLENTY, self.vault: RENT}
        self.tokens = {self.vault: PLENTY}
        # Of each token account: its mint and decimals.
        token = (plan.mint, plan.decimals)
        self.kinds = {self.own: token, self.vault: token}
        self.purse, self.till, self.giver = (
            make_address(f"{name} {wallet}") for name in ("purse", "till", "giver")
        )
        if plan.quote:
            self._hold(plan.quote)
        self.rows: list[JsonObject] = []

    def _hold(self, quote: Quote) -> None:
        """Give each an account of the stablecoin: the wallet a purse, the pool a till."""
        self.owners |= {self.purse: self.plan.wallet, self.till: self.pool, self.giver: self.friend}
        for account in (self.purse, self.till, self.giver):
            self.kinds[account] = (quote.mint, quote.decimals)
        for account in (self.till, self.giver):
            self.lamports[account], self.tokens[account] = RENT, PLENTY

    @property
    def next_at(self) -> int:
        """When the next one happens, in seconds of the demonstration."""
        return self.plan.times[len(self.rows)]

    # ---- instructions ----------------------------------------------------------------------------
    def pay(self, source: str, target: str, lamports: int) -> JsonObject:
        """Make a transfer of SOL."""
        info = {"source": source, "destination": target, "lamports": lamports}
        return _instruction(SYSTEM, "system", "transfer", info)

    def give(self, source: str, target: str, raw: int) -> JsonObject:
        """Make a transfer of the accounts' token, in its raw units."""
        info = {"source": source, "destination": target, "amount": str(raw)}
        return _instruction(
            TOKEN, "spl-token", "transfer", {**info, "authority": self.owners[source]}
        )

    def open(self, account: str = "") -> JsonObject:
        """Make the creation of a token account of the wallet, without a name of the token's."""
        target = account or self.own
        info = {"source": self.plan.wallet, "newAccount": target, "lamports": RENT}
        return _instruction(
            SYSTEM, "system", "createAccount", {**info, "owner": TOKEN, "space": 165}
        )

    def close(self) -> JsonObject:
        """Make the closing of the wallet's token account."""
        info = {"account": self.own, "destination": self.plan.wallet, "owner": self.plan.wallet}
        return _instruction(TOKEN, "spl-token", "closeAccount", info)

    # ---- receipts --------------------------------------------------------------------------------
    def add(
        self, inside: Sequence[JsonObject], outside: Sequence[JsonObject] = (), kind: str = "odd"
    ) -> None:
        """Append a transaction. `inside`: what the venue's call does, before what is `outside`."""
        wallet, lamports, tokens = self.plan.wallet, dict(self.lamports), dict(self.tokens)
        self.lamports[wallet] -= FEE
        for one in (*inside, *outside):
            self._apply(one["parsed"]["type"], one["parsed"]["info"])
        named = [wallet, self.friend, self.pool, *self.kinds]
        keys = [*named, SYSTEM, TOKEN, VENUE]
        call = {"programId": VENUE, "accounts": named, "data": "", "stackHeight": 1}
        inner = [{**one, "stackHeight": 2} for one in inside]
        meta = {
            "err": None,
            "fee": FEE,
            "innerInstructions": [{"index": 0, "instructions": inner}] if inside else [],
            "logMessages": [],
            "preBalances": [lamports.get(key, 0) for key in keys],
            "postBalances": [self.lamports.get(key, 0) for key in keys],
            "preTokenBalances": self._show_tokens(keys, tokens),
            "postTokenBalances": self._show_tokens(keys, self.tokens),
            "rewards": [],
            "status": {"Ok": None},
        }
        instructions = [call, *outside] if inside else list(outside)
        self.rows.append(self._make_row(keys, instructions, meta, kind))

    def _apply(self, kind: str, info: JsonObject) -> None:
        if "amount" in info:
            self.tokens[info["source"]] -= int(info["amount"])
            self.tokens[info["destination"]] += int(info["amount"])
            return
        amount = self.lamports[self.own] if kind == "closeAccount" else info["lamports"]
        source = info.get("source", self.own)
        target = info.get("newAccount") or info.get("destination", self.own)
        self.lamports[source] -= amount
        self.lamports[target] = self.lamports.get(target, 0) + amount
        if kind == "createAccount":
            self.tokens[target] = 0
        if kind == "closeAccount":
            del self.tokens[self.own]

    def _show_tokens(self, keys: list[str], tokens: dict[str, int]) -> list[JsonObject]:
        return [
            {
                "accountIndex": keys.index(account),
                "mint": self.kinds[account][0],
                "owner": self.owners[account],
                "programId": TOKEN,
                "uiTokenAmount": {
                    "amount": str(amount),
                    "decimals": self.kinds[account][1],
                    "uiAmount": None,
                    "uiAmountString": str(amount),
                },
            }
            for account, amount in tokens.items()
        ]

    def _make_row(
        self, keys: list[str], instructions: list[JsonObject], meta: JsonObject, kind: str
    ) -> JsonObject:
        name = hashlib.sha512(f"candor demonstration {self.plan.who} {len(self.rows)}".encode())
        signers = {self.plan.wallet, self.friend}
        shown = [
            {"pubkey": key, "signer": key in signers, "source": "transaction", "writable": True}
            for key in keys
        ]
        message = {"accountKeys": shown, "instructions": instructions, "addressTableLookups": []}
        receipt = {
            "meta": meta,
            "version": "legacy",
            "transaction": {
                "signatures": [b58encode(name.digest())],
                "message": {**message, "recentBlockhash": SYSTEM},
            },
        }
        return {"at": self.next_at, "who": self.plan.who, "kind": kind, "receipt": receipt}


def _instruction(program: str, name: str, kind: str, info: JsonObject) -> JsonObject:
    return {
        "programId": program,
        "program": name,
        "parsed": {"type": kind, "info": info},
        "stackHeight": 1,
    }
