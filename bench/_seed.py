"""Fill a database: wallets with transactions that were read but not stored, their trades booked as
by the observer, and posts about them.

The wallets' histories are complete, and so is coverage. Transaction bodies are empty. Except for
public IDs, the data depends only on the numbers.
"""

import hashlib
import json
import math
import random
import sys
import time

import models
import storage
from accounts import influencers
from accounts.posts import log_post
from chain import addresses
from chain.ledger.coverage import Progress
from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.stored.standings import refresh_standings
from chain.stored.store import LedgerStore
from chain.stored.trades import judge
from market.tables import Token
from models import Address, Bot, Key, Receipt, Trade, Wallet, WalletSignature
from observer import Observer
from storage.log import new_salt

DAYS, FIRST_SLOT, SLOT_MS = 90, 300_000_000, 400
MINTS, POPULAR_SHARE, HELD_AT_ONCE = 200, 0.1, 4
SOL, RENT, FEE = 10**9, 2_039_280, 5_000
# The same number of wallets in small and large instances, unless each would have too many trades.
WALLETS, TRADES_PER_WALLET = 50, 20_000
BATCH = 10_000


def fill(settings, trades, posts, wallet_count=WALLETS):
    """Return {"bots": [ids], "mint": the most traded token, "ownerId": an owner for keys}."""
    now, mints = time.time_ns() // 1_000_000, [make_address(f"mint {n}") for n in range(MINTS)]
    wallets = [
        make_bot(settings, n, now)
        for n in range(max(wallet_count, math.ceil(trades / TRADES_PER_WALLET)))
    ]
    store_tokens(mints, now)
    clock = Clock(now // 1000, trades, len(wallets))
    for n, wallet in enumerate(wallets):
        count = trades // len(wallets) + (n < trades % len(wallets))
        watch(
            wallet,
            Story(wallet.address, mints, n),
            [clock.at(k, n) for k in range(count)],
            Observer(settings).state.rules,
            now,
        )
        print(f"{n + 1} of {len(wallets)} wallets", file=sys.stderr, flush=True)
    store_posts(wallets, posts, now)
    while refresh_standings(now):
        pass
    storage.database.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    bots = [wallet.bot for wallet in wallets]
    return {"bots": [bot.uid for bot in bots], "mint": mints[0], "ownerId": bots[0].owner.uid}


def make_address(name):
    return addresses.b58encode(hashlib.sha256(name.encode()).digest())


def make_bot(settings, number, now):
    """Make a bot with a wallet and its own owner. Its publishing key isn't kept."""
    made = influencers.create_bot(
        settings, f"Bench {number}", now - DAYS * 86_400_000, make_address(f"wallet {number}")
    )
    Key.update(revoked_at=now).where(Key.id == made.publish_key.key.id).execute()
    return Wallet.select(Wallet, Bot).join(Bot).where(Bot.id == made.bot.id).get()


def store_tokens(mints, now):
    Token.insert_many(
        [
            {
                "mint": mint,
                "symbol": f"COIN{n}",
                "name": f"Coin {n}",
                "decimals": 6,
                "found_by": "wallets",
                "discovered_at": now - n,
                "tracked_at": now - n,
                "quoted_at": now,
                "source": "dexscreener",
                "price_sol": f"0.000{n + 1}",
                "price_usd": f"0.0{n + 1}",
            }
            for n, mint in enumerate(mints)
        ]
    ).execute()


class Clock:
    """Wallets take turns; the last trade is a minute old, the first DAYS days."""

    def __init__(self, now, trades, wallets):
        self.start, self.wallets, self.step = (
            now - DAYS * 86_400,
            wallets,
            (DAYS * 86_400 - 60) / max(1, trades),
        )

    def at(self, turn, wallet):
        """Return (slot, block time) of the wallet's trade number `turn`."""
        seconds = (turn * self.wallets + wallet) * self.step
        return FIRST_SLOT + int(seconds * 1000 / SLOT_MS), self.start + int(seconds)


# ---- one wallet ----------------------------------------------------------------------------------
class Story:
    """A wallet's actions as Entries: a deposit, then purchases and sales, with an occasional
    failure, round trip, gift next to a sale, or unexplained trade.
    """

    def __init__(self, wallet, mints, number):
        self.wallet, self.mints, self.chance = wallet, mints, random.Random(number)
        # mint -> raw amount. Every account that was ever opened contains rent.
        self.lamports, self.held = 0, {}
        self.signatures = make_signatures(self.chance)

    def tell(self, slot, block_time):
        """Return the next Entry."""
        if not self.lamports:
            return self._entry(slot, block_time, "native_transfer", 10**6 * SOL)
        if self.chance.random() < 0.03:
            return self._entry(slot, block_time, "failed", 0, fee=FEE)
        mint = self.mints[
            0 if self.chance.random() < POPULAR_SHARE else self.chance.randrange(MINTS)
        ]
        if self.chance.random() < 0.02:
            earned = self.chance.randint(-SOL // 100, SOL // 50)
            return self._entry(slot, block_time, "round_trip", earned, mint, 0, FEE)
        held = self.held.get(mint, 0)
        if held and (
            self.chance.random() < 0.5 or sum(map(bool, self.held.values())) > HELD_AT_ONCE
        ):
            sold = (
                held
                if self.chance.random() < 0.5
                else max(1, held * self.chance.randint(1, 99) // 100)
            )
            brought = sold * self.chance.randint(80, 130) // 100
            sale = (slot, block_time, "sell", brought, mint, -sold, FEE)
            odd = self.chance.random()
            if odd < 0.01:
                return self._entry(*sale, flags=("value_unexplained",), explained=3)
            return self._entry(*sale, gift=SOL // 10 if odd < 0.02 else 0)
        bought = self.chance.randint(SOL // 100, 2 * SOL)
        return self._entry(slot, block_time, "buy", -bought, mint, bought * 10, FEE)

    def _entry(
        self,
        slot,
        block_time,
        kind,
        paid,
        mint=None,
        change=0,
        fee=0,
        gift=0,
        flags=(),
        explained=100,
    ):
        """`paid`: lamports in or out, without fee, rent and the `gift` next to a trade."""
        paid, rent = paid + gift, RENT if change and mint not in self.held else 0
        before, self.lamports = self.lamports, self.lamports + paid - fee - rent
        balances = [Balance(self.wallet, None, 9, 0, 0, before, self.lamports)]
        if change:
            had, self.held[mint] = self.held.get(mint, 0), self.held.get(mint, 0) + change
            balances.append(
                Balance(
                    token_account(self.wallet, mint),
                    mint,
                    6,
                    had,
                    self.held[mint],
                    RENT - rent,
                    RENT,
                )
            )
        return Entry(
            next(self.signatures),
            slot,
            self.chance.randrange(1500),
            block_time,
            kind,
            "PumpSwap" if mint else None,
            mint,
            flags,
            (),
            paid - fee,
            fee,
            0,
            rent,
            ((mint, change, 6),) if change else (),
            tuple(balances),
            beside_sol=gift,
            explained_percent=explained if mint else None,
            counterparties=(make_address(f"pool of {mint}"),) if mint else (),
        )


def make_signatures(chance):
    """Make 64-byte signatures in base58: 87 digits, of which the first isn't among the lowest."""
    alphabet = addresses.ALPHABET
    begin = "5" + "".join(chance.choices(alphabet, k=79))
    number = 0
    while True:
        digits, rest = "", number
        for _ in range(7):
            rest, digit = divmod(rest, 58)
            digits = alphabet[digit] + digits
        yield begin + digits
        number += 1


def token_account(wallet, mint):
    return make_address(f"{wallet} {mint}")


def watch(wallet, story, times, rules, now):
    """Store a wallet's observation, booked and published as by the observer."""
    entries = [story.tell(*at) for at in times]
    with storage.writing():
        for first in range(0, len(entries), BATCH):
            part = entries[first : first + BATCH]
            store_rows(Receipt, [show_receipt(one) for one in part])
            store_rows(WalletSignature, [show_sighting(wallet, one, now) for one in part])
        Address.insert_many(
            [
                {"wallet": wallet.id, "address": token_account(wallet.address, mint)}
                for mint in story.held
            ]
        ).execute()
        Address.update(full_scans=2, scan_new=0, scanned_at=now, head_slot=times[-1][0]).where(
            Address.wallet == wallet.id
        ).execute()
        Wallet.update(backfilled=True, rules=rules, accounts_at=now).where(
            Wallet.id == wallet.id
        ).execute()
    wallet.backfilled, wallet.observed_to, ledger_store = True, now // 1000, LedgerStore()
    ledger_store.apply(wallet)
    ledger_store.publish(
        wallet, Progress(polled=True, listed=True, confirmed=True, closed=True), now
    )


def show_receipt(entry):
    return {
        "signature": entry.signature,
        "slot": entry.slot,
        "tx_index": entry.tx_index,
        "block_time": entry.block_time,
        "body": b"",
        "endpoint": "seed",
        "digest": hashlib.sha256(entry.signature.encode()).hexdigest(),
    }


def show_sighting(wallet, entry, now):
    return {
        "wallet_id": wallet.id,
        "signature": entry.signature,
        "slot": entry.slot,
        "tx_index": entry.tx_index,
        "head": 0,
        "state": "stored",
        "entry": entry.dump(),
        "idle": entry.is_idle,
        "tries": 0,
        "due_at": 0,
        "seen_at": now,
    }


# ---- posts ---------------------------------------------------------------------------------------
WORDS = (
    "bought the dip sold into strength waiting for volume liquidity looks thin added a "
    "little took profit here no position chasing nothing momentum fades"
).split()


def store_posts(wallets, count, now):
    """Store posts in turn, the last one a second old. Every third cites one of its wallet's latest
    trades and is judged as by the observer.
    """
    chance = random.Random(count)
    trades = {wallet.id: list_latest(wallet) for wallet in wallets}
    step = DAYS * 86_400_000 // max(1, count)
    claimed = set()
    for start in range(0, count, BATCH):
        rows = [
            make_post(
                n, chance, wallets[n % len(wallets)], trades, now - 1000 - (count - 1 - n) * step
            )
            for n in range(start, min(start + BATCH, count))
        ]
        for row in rows:
            key = row["bot_id"], row["signature"]
            row["claim"] = row["signature"] is not None and key not in claimed
            claimed.add(key)
        with storage.writing():
            store_rows(models.Post, [log_row(row) for row in rows])
            store_rows(
                models.Arrival,
                [
                    {"kind": "post", "post_id": number}
                    for number in range(start + 1, start + len(rows) + 1)
                ],
            )


def log_row(row):
    """Return a post's row once its leaf is in the log."""
    row = {**row, "salt": new_salt()}
    leaf = log_post({**row, "bot": row["bot_id"], "wallet": row["wallet_id"]})
    return {**row, "leaf_id": leaf.id}


def store_rows(model, rows):
    """Insert dicts with the same columns in the same order using one prepared statement. peewee
    builds it for every row, which is twenty times slower.
    """
    columns = list(rows[0])
    sql = (
        f'INSERT INTO "{model._meta.table_name}" ({", ".join(columns)}) VALUES'
        f" ({', '.join('?' * len(columns))})"
    )
    storage.database.connection().executemany(sql, (tuple(row.values()) for row in rows))


def list_latest(wallet):
    return list(
        Trade.select().where(Trade.wallet == wallet.id).order_by(Trade.slot.desc()).limit(1000)
    )


def make_post(number, chance, wallet, trades, created_at):
    body = " ".join(chance.choices(WORDS, k=chance.randint(6, 40)))
    row = {
        "uid": storage.new_uid("post"),
        "bot_id": wallet.bot_id,
        "source": "bot",
        "channel": "api",
        "event_id": f"bench-{number}",
        "body": body,
        "mint": None,
        "symbol": None,
        "signature": None,
        "sanitized": 0,
        "wallet_id": wallet.id,
        "status": "none",
        "status_reason": None,
        "trade_id": None,
        "checked_at": None,
        "event_at": created_at,
        "created_at": created_at,
    }
    if number % 3 or not trades[wallet.id]:
        return row
    trade = chance.choice(trades[wallet.id])
    status, reason = judge(
        trade.kind,
        json.loads(trade.flags),
        {mint for mint, _, _ in json.loads(trade.token_changes)},
        trade.mint,
        trade.explained,
    )
    event_at = trade.block_time * 1000 if status == "verified" else created_at
    return {
        **row,
        "mint": trade.mint,
        "symbol": "COIN",
        "signature": trade.signature,
        "status": status,
        "status_reason": reason,
        "trade_id": trade.id,
        "checked_at": created_at,
        "event_at": event_at,
    }
