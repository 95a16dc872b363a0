"""Transactions that the recording lacks: a gift beside a sale, a round trip, a purchase that
somebody else paid for. One wallet makes them and ends as it began: its recorded history goes on.
"""

import hashlib
from typing import Any

from chain.base58 import b58encode
from chain.instructions import SYSTEM, TOKEN

# PumpSwap, which calls move value: no marker, unlike the recording's own venue.
VENUE = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
# Number of the wallet; seconds before the start at which it begins; seconds between two.
WHO, BEGIN, APART = 1, -5_000, 61
FEE, RENT, DECIMALS, PLENTY = 5_000, 2_039_280, 6, 10**13
JsonObject = dict[str, Any]


def add_oddities(recording: JsonObject) -> JsonObject:
    """Return the recording with these transactions in their places."""
    wallet, mint = recording["wallets"][WHO], sorted(recording["accounts"])[0]
    made = _Oddities(wallet, mint, _find_lamports(recording, wallet)).make()
    rows = sorted([*recording["transactions"], *made], key=lambda row: row["at"])
    return {**recording, "transactions": rows}


def _find_lamports(recording: JsonObject, wallet: str) -> int:
    """Return what the wallet holds when the first of them begins."""
    held = 0
    for row in recording["transactions"]:
        keys = [one["pubkey"] for one in row["receipt"]["transaction"]["message"]["accountKeys"]]
        if row["at"] < BEGIN and wallet in keys:
            held = row["receipt"]["meta"]["postBalances"][keys.index(wallet)]
    return held


def _address(name: str) -> str:
    return b58encode(hashlib.sha256(f"candor demonstration {name}".encode()).digest())


class _Oddities:
    """Builds receipts one after another and keeps all balances."""

    def __init__(self, wallet: str, mint: str, lamports: int) -> None:
        self.wallet, self.mint, self.lamports_before = wallet, mint, lamports
        self.pool, self.friend = _address("pool"), _address("friend")
        self.own, self.vault = _address("own account"), _address("vault")
        self.owners = {self.own: wallet, self.vault: self.pool}
        self.lamports = {wallet: lamports, self.pool: PLENTY, self.friend: PLENTY, self.vault: RENT}
        self.tokens = {self.vault: PLENTY}
        self.rows: list[JsonObject] = []

    def make(self) -> list[JsonObject]:
        wallet, pool, own, vault, friend = (
            *(self.wallet, self.pool, self.own, self.vault, self.friend),
        )
        self._add(
            [], [self._open(), self._pay(wallet, pool, 400_000_000), self._give(vault, own, 4)]
        )
        gift = [self._pay(friend, wallet, 250_000_000)]
        self._add(gift, [self._give(own, vault, 1), self._pay(pool, wallet, 90_000_000)])
        there = [self._pay(wallet, pool, 200_000_000), self._give(vault, own, 2)]
        back = [self._give(own, vault, 2), self._pay(pool, wallet, 203_000_000)]
        self._add([], there + back)
        paid = [self._pay(wallet, pool, 10_000_000), self._pay(friend, pool, 190_000_000)]
        self._add([], [*paid, self._give(vault, own, 2)])
        self._add([self._give(own, vault, 5), self._close()], [])
        rest = self.lamports[wallet] - FEE - self.lamports_before
        payer, target = (wallet, friend) if rest > 0 else (friend, wallet)
        self._add([self._pay(payer, target, abs(rest))], [])
        return self.rows

    # ---- instructions ----------------------------------------------------------------------------
    def _pay(self, source: str, target: str, lamports: int) -> JsonObject:
        info = {"source": source, "destination": target, "lamports": lamports}
        return _instruction(SYSTEM, "system", "transfer", info)

    def _give(self, source: str, target: str, whole: int) -> JsonObject:
        amount = str(whole * 10**DECIMALS)
        info = {"source": source, "destination": target, "amount": amount}
        return _instruction(
            TOKEN, "spl-token", "transfer", {**info, "authority": self.owners[source]}
        )

    def _open(self) -> JsonObject:
        info = {"source": self.wallet, "newAccount": self.own, "lamports": RENT}
        return _instruction(
            SYSTEM, "system", "createAccount", {**info, "owner": TOKEN, "space": 165}
        )

    def _close(self) -> JsonObject:
        info = {"account": self.own, "destination": self.wallet, "owner": self.wallet}
        return _instruction(TOKEN, "spl-token", "closeAccount", info)

    # ---- receipts --------------------------------------------------------------------------------
    def _add(self, outside: list[JsonObject], inside: list[JsonObject]) -> None:
        """Append a transaction. `inside`: what the venue's call does, before what is `outside`."""
        lamports, tokens = dict(self.lamports), dict(self.tokens)
        self.lamports[self.wallet] -= FEE
        for one in (*inside, *outside):
            self._apply(one["parsed"]["type"], one["parsed"]["info"])
        keys = [self.wallet, self.friend, self.pool, self.own, self.vault, SYSTEM, TOKEN, VENUE]
        call = {"programId": VENUE, "accounts": keys[:5], "data": "", "stackHeight": 1}
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
        self.rows.append(self._make_row(keys, [call, *outside] if inside else outside, meta))

    def _apply(self, kind: str, info: JsonObject) -> None:
        if "amount" in info:
            self.tokens[info["source"]] -= int(info["amount"])
            self.tokens[info["destination"]] += int(info["amount"])
            return
        amount = self.lamports[self.own] if kind == "closeAccount" else info["lamports"]
        source = info.get("source", self.own)
        target = info.get("destination", self.own)
        self.lamports[source] -= amount
        self.lamports[target] = self.lamports.get(target, 0) + amount
        if kind == "createAccount":
            self.tokens[self.own] = 0
        if kind == "closeAccount":
            del self.tokens[self.own]

    def _show_tokens(self, keys: list[str], tokens: dict[str, int]) -> list[JsonObject]:
        return [
            {
                "accountIndex": keys.index(account),
                "mint": self.mint,
                "owner": self.owners[account],
                "programId": TOKEN,
                "uiTokenAmount": {
                    "amount": str(amount),
                    "decimals": DECIMALS,
                    "uiAmount": None,
                    "uiAmountString": str(amount),
                },
            }
            for account, amount in tokens.items()
        ]

    def _make_row(
        self, keys: list[str], instructions: list[JsonObject], meta: JsonObject
    ) -> JsonObject:
        number = len(self.rows)
        name = hashlib.sha512(f"candor demonstration {number}".encode()).digest()
        signers = {self.wallet, self.friend}
        shown = [
            {"pubkey": key, "signer": key in signers, "source": "transaction", "writable": True}
            for key in keys
        ]
        message = {"accountKeys": shown, "instructions": instructions, "addressTableLookups": []}
        receipt = {
            "meta": meta,
            "version": "legacy",
            "transaction": {
                "signatures": [b58encode(name)],
                "message": {**message, "recentBlockhash": SYSTEM},
            },
        }
        return {"at": BEGIN + number * APART, "who": WHO, "kind": "odd", "receipt": receipt}


def _instruction(program: str, name: str, kind: str, info: JsonObject) -> JsonObject:
    return {
        "programId": program,
        "program": name,
        "parsed": {"type": kind, "info": info},
        "stackHeight": 1,
    }
