"""The observer with fake nodes and an empty database, and a clock that only the test moves. Tests
compare only what is in the database.
"""

import ground
import orjson
from node import FakeClock, connect

import models
import storage
from accounts.influencers import VOICE, log_profile
from accounts.keys import hash_secret
from chain.stored.derived import DERIVED
from models import Attachment, Bot, Owner, Post, Trade, Wallet
from observer import Observer
from operate import schema
from storage import new_uid
from storage.log import append_leaf

# Time in ms at which the fake clock is 0.
BEGIN = 1_793_880_000_000
SUMMARY = (
    *("results", "positions"),
    *("reconciliation", "average_cost", "imbalance", "stablecoin_imbalance", "by_stablecoin"),
)


def store_post(wallet, signature=None, number=1):
    """Store a waiting post of the wallet's bot that cites a transaction."""
    return Post.create(
        uid=f"post_{number}",
        bot=wallet.bot_id,
        wallet=wallet,
        source="bot",
        channel="api",
        event_id=f"e{number}",
        body="b",
        signature=signature,
        status="pending",
        event_at=0,
        created_at=BEGIN,
    )


def list_columns(table, without):
    """Its columns except these, as used in a query."""
    names = [field.column_name for field in table._meta.sorted_fields]
    return ", ".join(f"{table._meta.table_name}.{name}" for name in names if name not in without)


# Plain SQL, because peewee would build each some thousand times. Each needs a wallet's ID.
TRADES = f"""
SELECT {list_columns(Trade, ("id", "wallet_id", "digest"))} FROM trade WHERE wallet_id = ?
ORDER BY slot, place, signature"""
MINTS = """
SELECT t.signature, n.address, m.side, m.slot, m.place FROM trade_mint m
JOIN trade t ON t.id = m.trade_id JOIN mint n ON n.id = m.mint_id WHERE t.wallet_id = ?
ORDER BY t.signature, n.address"""
SPANS = "SELECT id FROM attachment WHERE wallet_id = ? ORDER BY attached_at, id"


class Lookout:
    """For the database's content, or with `Lookout.begin` for an emptied database."""

    def __init__(self, config, *nodes):
        ground.hurry()
        self.config, self.nodes, self.clock = config, nodes, FakeClock()
        self.wallets = list(Wallet.select().order_by(Wallet.id))
        self.restart()

    @classmethod
    def begin(cls, config, *nodes, wallets, **changes):
        with storage.writing():
            for table in reversed(schema.TABLES):
                storage.database.execute_sql(f'DELETE FROM "{table._meta.table_name}"')
            for number, address in enumerate(wallets):
                watch(address, number)
        return cls(ground.change(config, **changes), *nodes)

    def restart(self):
        """Simulate a new process, which only has the database's content."""
        self.observer = Observer(
            self.config, connect(*self.nodes, clock=self.clock), clock=self.clock
        )

    @property
    def now(self):
        return BEGIN + int(1000 * self.clock())

    def pace(self, seconds=0.5):
        """Make requests of a method take time, as with public nodes."""
        for endpoint in self.observer.rpc.endpoints:
            endpoint._interval = seconds

    def look(self, times=1):
        """Run this many ticks, one interval apart. Return whether the last one left work."""
        for _ in range(times):
            self.clock.sleep(self.config.observer_interval_seconds)
            more = self.observer.run_tick(self.now)
        return more

    def settle(self, most=40):
        """Tick until two consecutive ticks leave no work and no visible change."""
        last, same = None, 0
        for _ in range(most):
            more, shown = (
                self.look(),
                (self.ledger(), [without_time(self.coverage(w)) for w in self.addresses]),
            )
            last, same = shown, same + 1 if shown == last and not more else 0
            if same == 2:
                return self
        raise AssertionError(
            f"not settled after {most} looks: {self.observer.problem};"
            f" {[self.coverage(w) for w in self.addresses]}"
        )

    @property
    def addresses(self):
        return [wallet.address for wallet in self.wallets]

    def coverage(self, address=None):
        text = Wallet.get(Wallet.address == (address or self.addresses[0])).coverage
        return orjson.loads(text or b'{"state": "none", "pending": 0}')

    def state(self, address=None):
        return self.coverage(address)["state"]

    def gaps(self, address=None):
        return [
            (gap["fromSlot"], gap["toSlot"], gap["reason"])
            for gap in self.coverage(address)["gaps"]
        ]

    def results(self, address=None):
        return orjson.loads(Wallet.get(Wallet.address == (address or self.addresses[0])).results)

    def trades(self, address=None):
        """The trade rows of a wallet in chain order."""
        return list(
            Trade.select()
            .join(Wallet)
            .where(Wallet.address == (address or self.addresses[0]))
            .order_by(Trade.slot, Trade.place)
        )

    def ledger(self):
        """All derived data as one value that can be compared byte for byte."""
        return ledger_of(self.addresses)


def ledger_of(addresses):
    """The bytes of trades, their mints, traded tokens, results and positions of wallets, without
    database IDs and observation times.
    """
    rows = []
    for address in addresses:
        wallet = Wallet.get(Wallet.address == address)
        own = [read(text, wallet) for text in (TRADES, MINTS)]
        told = [getattr(wallet, name) for name in SUMMARY]
        rows.append([address, *own, read_derived(wallet), *told])
    return orjson.dumps(rows)


def read(text, wallet):
    return storage.database.execute_sql(text, (wallet.id,)).fetchall()


def read_derived(wallet):
    """The rows of all derived tables, with views in their order."""
    views = [0, *(number for (number,) in read(SPANS, wallet))]
    found = []
    for one in DERIVED:
        place = one.key.index("view")
        stored = storage.database.execute_sql(one.select.format(wallet=wallet.id))
        for key, values in one.read(stored):
            view = views.index(key[place])
            found.append([one.name, view, *key[:place], *key[place + 1 :], *values])
    return sorted(found, key=repr)


def without_time(coverage):
    return {
        name: value for name, value in coverage.items() if name not in ("checkedAt", "observedTo")
    }


def watch(address, number=0):
    """Create a bot with this wallet and its own owner."""
    uid = new_uid("owner")
    owner = Owner.create(uid=uid, recovery_hash=hash_secret(uid), created_at=BEGIN)
    bot = Bot.create(
        uid=new_uid("bot"),
        owner=owner,
        handle=f"bot{number}{address[:8]}".lower(),
        name=f"Bot {number}",
        voice=orjson.dumps(VOICE).decode(),
        created_at=BEGIN,
    )
    log_profile(bot, BEGIN)
    wallet = Wallet.create(address=address, bot=bot, created_at=BEGIN)
    models.Address.create(wallet=wallet, address=address)
    Attachment.create(bot=bot, wallet=wallet, attached_at=BEGIN)
    append_leaf("attachment", BEGIN, bot=bot.uid, wallet=address, ownership="claimed")
    return wallet
