"""The recorded chain, with additions: other transactions of one wallet, and wallets that load
slowly, are retired, or trade in a stablecoin.
"""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chain.base58 import b58encode
from chain.reading.currencies import STABLECOINS, Currency
from chain.reading.instructions import SYSTEM, TOKEN
from demo.market import BY_SYMBOL, DAY, SOL_USD, price

# PumpSwap. Unlike the recording's own venue, it doesn't need a marker, because its calls move
# value.
VENUE = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
FEE, RENT, PLENTY = 5_000, 2_039_280, 10**16
JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """A wallet for which receipts are created: its number and address, its token, the times of its
    transactions in seconds of the demo, and the stablecoin with which it pays, if any.
    """

    who: int
    wallet: str
    mint: str
    decimals: int
    times: Sequence[int]
    stablecoin: Currency | None = None


def make_address(name: str) -> str:
    return b58encode(hashlib.sha256(f"candor demonstration {name}".encode()).digest())


class Receipts:
    """Adds receipts one by one, and tracks all balances. `rows` are in the recording's format."""

    def __init__(self, plan: Plan, lamports: int) -> None:
        wallet, self.plan = plan.wallet, plan
        self.pool, self.friend = make_address("pool"), make_address("friend")
        self.own, self.vault = (make_address(f"{name} {wallet}") for name in ("own", "vault"))
        self.owners = {self.own: wallet, self.vault: self.pool}
        self.lamports = {wallet: lamports, self.pool: PLENTY, self.friend: PLENTY, self.vault: RENT}
        self.tokens = {self.vault: PLENTY}
        # The mint and decimals by token account.
        token = (plan.mint, plan.decimals)
        self.kinds = {self.own: token, self.vault: token}
        self.purse, self.till, self.giver = (
            make_address(f"{name} {wallet}") for name in ("purse", "till", "giver")
        )
        if plan.stablecoin:
            self._hold(plan.stablecoin)
        self.rows: list[JsonObject] = []

    def _hold(self, stablecoin: Currency) -> None:
        """Create stablecoin accounts: a purse for the wallet, and a till for the pool."""
        self.owners |= {self.purse: self.plan.wallet, self.till: self.pool, self.giver: self.friend}
        for account in (self.purse, self.till, self.giver):
            self.kinds[account] = (stablecoin.mint, stablecoin.decimals)
        for account in (self.till, self.giver):
            self.lamports[account], self.tokens[account] = RENT, PLENTY

    @property
    def next_at(self) -> int:
        return self.plan.times[len(self.rows)]

    # ---- instructions ----------------------------------------------------------------------------
    def pay(self, source: str, target: str, lamports: int) -> JsonObject:
        info = {"source": source, "destination": target, "lamports": lamports}
        return _instruction(SYSTEM, "system", "transfer", info)

    def give(self, source: str, target: str, raw: int) -> JsonObject:
        """Return a transfer of the accounts' token, in its raw units."""
        info = {"source": source, "destination": target, "amount": str(raw)}
        return _instruction(
            TOKEN, "spl-token", "transfer", {**info, "authority": self.owners[source]}
        )

    def open(self, account: str = "") -> JsonObject:
        """Return an instruction that creates a token account for the wallet, without mentioning the
        token.
        """
        target = account or self.own
        info = {"source": self.plan.wallet, "newAccount": target, "lamports": RENT}
        return _instruction(
            SYSTEM, "system", "createAccount", {**info, "owner": TOKEN, "space": 165}
        )

    def close(self) -> JsonObject:
        """Return an instruction that closes the wallet's token account."""
        info = {"account": self.own, "destination": self.plan.wallet, "owner": self.plan.wallet}
        return _instruction(TOKEN, "spl-token", "closeAccount", info)

    # ---- receipts --------------------------------------------------------------------------------
    def add(
        self, inside: Sequence[JsonObject], outside: Sequence[JsonObject] = (), kind: str = "odd"
    ) -> None:
        """Append a transaction.

        `inside` are effects of the venue's call. Those `outside` follow it.
        """
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


RECORDING = Path(__file__).parent / "chain.json.gz"
# The numbers of the wallets.
SLOW, RETIRED, DOLLARS = 4, 5, 6
SOL = 10**9
# For the slow wallet: the number of transactions, and its node's seconds for each. In total, this
# is 15 minutes.
SLOW_COUNT, SLOW_SECONDS = 2_400, 0.4
SLOW_BEGIN, SLOW_APART = -900_000, 360
# The slow wallet's token isn't in a market list, so it has no price.
UNPRICED, UNPRICED_DECIMALS = make_address("unpriced token"), 6
# For the retired wallet: the time of its first trade, the seconds between trades, the number of
# trades, the token, and the raw units per trade.
RETIRED_BEGIN, RETIRED_APART, RETIRED_TRADES = -200_000, 9_000, 12
RETIRED_SYMBOL, RETIRED_RAW = "TARN", 400 * 10**6
# For the stablecoin wallet: its initial balance, its trading times before and after AWAKE, the raw
# units that it alternately buys and sells, and the pool's fee on each trade.
USDC = STABLECOINS[0]
GIVEN_USD = 10_000
DOLLAR_TIMES = (*range(-10 * DAY, -3_000, 9_000), *range(-3_000, 9_000, 90))
DOLLAR_SYMBOL, DOLLAR_RAW = "EMBER", (20_000 * 10**6, 10_000 * 10**6, -30_000 * 10**6)
SPREAD = 0.004


def load_recording(slow_count: int = SLOW_COUNT) -> JsonObject:
    """Return the recorded chain, with the additional wallets and oddities.

    A real Solana runtime (Surfpool 1.5.0) executed it. Four bots trade with one maker for twelve
    days, and a Memo marks each trade. `slow_count` is the number of transactions of the wallet
    whose history loads slowly.
    """
    with gzip.open(RECORDING) as file:
        recording: JsonObject = json.load(file)
    return add_newcomers(add_oddities(recording), slow_count)


# ---- additional wallets --------------------------------------------------------------------------
def add_newcomers(recording: JsonObject, slow_count: int = SLOW_COUNT) -> JsonObject:
    slow, retired, dollars = (
        make_address(f"{name} wallet") for name in ("slow", "retired", "dollar")
    )
    made = [
        *_make_slow(slow, slow_count),
        *_make_retired(retired, recording["mints"][RETIRED_SYMBOL]),
        *_make_dollars(dollars, recording["mints"][DOLLAR_SYMBOL]),
    ]
    return {
        **recording,
        "wallets": [*recording["wallets"], slow, retired, dollars],
        "transactions": sorted([*recording["transactions"], *made], key=lambda row: row["at"]),
    }


def _make_slow(wallet: str, count: int) -> list[JsonObject]:
    """Buy an unpriced token in parts, and sell a part of each purchase."""
    times = range(SLOW_BEGIN, SLOW_BEGIN + count * SLOW_APART, SLOW_APART)
    made = _begin(Plan(SLOW, wallet, UNPRICED, UNPRICED_DECIMALS, times))
    while len(made.rows) < count:
        number = len(made.rows)
        # The first one opened the account.
        if number % 2:
            _buy(made, 1_000_000, SOL // 9, "late")
        else:
            _sell(made, 900_000, SOL // 10 + number % 7 * SOL // 500, "late")
    return made.rows


def _make_retired(wallet: str, mint: str) -> list[JsonObject]:
    """Alternately buy and sell a market token, at the market's prices."""
    token = BY_SYMBOL[RETIRED_SYMBOL]
    times = range(RETIRED_BEGIN, 0, RETIRED_APART)
    made = _begin(Plan(RETIRED, wallet, mint, token.decimals, times))
    for number in range(RETIRED_TRADES):
        whole = RETIRED_RAW / 10**token.decimals
        lamports = int(whole * price(token, made.next_at) * SOL)
        trade = _sell if number % 2 else _buy
        trade(made, RETIRED_RAW, lamports, "sell" if number % 2 else "buy")
    return made.rows


def _make_dollars(wallet: str, mint: str) -> list[JsonObject]:
    """Buy a market token for a stablecoin twice, then sell all of it, at the market's prices.

    The result isn't predetermined.
    """
    token = BY_SYMBOL[DOLLAR_SYMBOL]
    made = _begin(Plan(DOLLARS, wallet, mint, token.decimals, DOLLAR_TIMES, USDC))
    gift = made.give(made.giver, made.purse, _count_units(GIVEN_USD))
    made.add([], [made.open(made.purse), gift], "gift")
    for number in range(len(DOLLAR_TIMES) - len(made.rows)):
        raw = DOLLAR_RAW[number % len(DOLLAR_RAW)]
        worth = abs(raw) / 10**token.decimals * price(token, made.next_at) * SOL_USD
        if raw > 0:
            paid = made.give(made.purse, made.till, _count_units(worth * (1 + SPREAD)))
            made.add([paid, made.give(made.vault, made.own, raw)], kind="swap")
        else:
            got = made.give(made.till, made.purse, _count_units(worth * (1 - SPREAD)))
            made.add([made.give(made.own, made.vault, -raw), got], kind="swap")
    return made.rows


def _count_units(dollars: float) -> int:
    return int(dollars * 10**USDC.decimals)


def _begin(plan: Plan) -> Receipts:
    made = Receipts(plan, 0)
    made.lamports[plan.wallet] = 0
    made.add([], [made.pay(made.friend, plan.wallet, 200 * SOL), made.open()], "income")
    return made


def _buy(made: Receipts, raw: int, lamports: int, kind: str) -> None:
    paid = made.pay(made.plan.wallet, made.pool, lamports)
    made.add([paid, made.give(made.vault, made.own, raw)], kind=kind)


def _sell(made: Receipts, raw: int, lamports: int, kind: str) -> None:
    got = made.pay(made.pool, made.plan.wallet, lamports)
    made.add([made.give(made.own, made.vault, raw), got], kind=kind)


# ---- additional transactions ---------------------------------------------------------------------
# The wallet's number, how many seconds before the demo it begins, and the seconds between two
# transactions.
WHO, BEGIN, APART = 1, -5_000, 61
DECIMALS, WHOLE = 6, 10**6


def add_oddities(recording: JsonObject) -> JsonObject:
    wallet, mint = recording["wallets"][WHO], sorted(recording["accounts"])[0]
    lamports = _find_lamports(recording, wallet)
    plan = Plan(WHO, wallet, mint, DECIMALS, range(BEGIN, 0, APART))
    made = _make_rows(Receipts(plan, lamports), lamports)
    rows = sorted([*recording["transactions"], *made], key=lambda row: row["at"])
    return {**recording, "transactions": rows}


def _find_lamports(recording: JsonObject, wallet: str) -> int:
    held = 0
    for row in recording["transactions"]:
        keys = [one["pubkey"] for one in row["receipt"]["transaction"]["message"]["accountKeys"]]
        if row["at"] < BEGIN and wallet in keys:
            held = row["receipt"]["meta"]["postBalances"][keys.index(wallet)]
    return held


def _make_rows(made: Receipts, lamports: int) -> list[JsonObject]:
    wallet, pool, own, vault, friend = (
        made.plan.wallet,
        made.pool,
        made.own,
        made.vault,
        made.friend,
    )
    made.add([made.open(), made.pay(wallet, pool, 400_000_000), made.give(vault, own, 4 * WHOLE)])
    gift = [made.pay(friend, wallet, 250_000_000)]
    made.add([made.give(own, vault, 1 * WHOLE), made.pay(pool, wallet, 90_000_000)], gift)
    there = [made.pay(wallet, pool, 200_000_000), made.give(vault, own, 2 * WHOLE)]
    back = [made.give(own, vault, 2 * WHOLE), made.pay(pool, wallet, 203_000_000)]
    made.add([*there, *back])
    paid = [made.pay(wallet, pool, 10_000_000), made.pay(friend, pool, 190_000_000)]
    made.add([*paid, made.give(vault, own, 2 * WHOLE)])
    made.add([], [made.give(own, vault, 5 * WHOLE), made.close()])
    rest = made.lamports[wallet] - FEE - lamports
    payer, target = (wallet, friend) if rest > 0 else (friend, wallet)
    made.add([], [made.pay(payer, target, abs(rest))])
    return made.rows
