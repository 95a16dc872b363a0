"""The observer under test, over fake nodes and an empty database, with a clock that only the test
moves. Everything the tests compare comes from the database.
"""

import ground
import orjson
from node import FakeClock, connect

import models
from accounts.influencers import VOICE
from chain.quote_tables import QuoteTotal, QuoteTrade
from chain.tables import ForwardTotal, RiskTotal, TokenTotal, TradeMint
from models import Attachment, Bot, Owner, Trade, Wallet
from observer import Observer
from operate import schema
from storage import new_uid
from storage.arrivals import append_leaf

# Ms, when the fake clock stands at 0.
BEGIN = 1_793_880_000_000
DERIVED = [
    field for name, field in Trade._meta.fields.items() if name not in ("id", "wallet", "digest")
]


SUMMARY = (
    *("results", "positions", "realized", "cost_left"),
    *("reconciliation", "average_cost", "imbalance", "quote_imbalance", "by_quote"),
)


class Lookout:
    """Over what the database holds, or with `Lookout.begin` over an emptied one."""

    def __init__(self, config, *nodes):
        ground.hurry()
        self.config, self.nodes, self.clock = config, nodes, FakeClock()
        self.wallets = list(Wallet.select().order_by(Wallet.id))
        self.restart()

    @classmethod
    def begin(cls, config, *nodes, wallets, **changes):
        for table in reversed(schema.TABLES):
            table.delete().execute()
        for number, address in enumerate(wallets):
            watch(address, number)
        return cls(ground.change(config, **changes), *nodes)

    def restart(self):
        """A new process: nothing is remembered but what the database holds."""
        self.observer = Observer(
            self.config, connect(*self.nodes, clock=self.clock), clock=self.clock
        )

    @property
    def now(self):
        return BEGIN + int(1000 * self.clock())

    def pace(self, seconds=0.5):
        """From now on a request of a method takes its time, as with the public nodes."""
        for endpoint in self.observer.rpc.endpoints:
            endpoint._interval = seconds

    def look(self, times=1):
        """So many ticks, an interval apart; whether the last one left work."""
        for _ in range(times):
            self.clock.sleep(self.config.observer_interval_seconds)
            more = self.observer.run_tick(self.now)
        return more

    def settle(self, most=40):
        """Look until two looks in a row leave no work and change nothing that is shown."""
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
        """Everything derived, as one value that equals another's byte for byte."""
        return ledger_of(self.addresses)


def ledger_of(addresses):
    """Trades, their mints, results and positions of wallets, without ids of the database and times
    of observation: bytes.
    """
    rows = []
    for address in addresses:
        wallet = Wallet.get(Wallet.address == address)
        trades = list(
            Trade.select(*DERIVED)
            .where(Trade.wallet == wallet)
            .order_by(Trade.slot, Trade.place, Trade.signature)
            .tuples()
        )
        mints = list(
            TradeMint.select(
                Trade.signature, TradeMint.mint, TradeMint.side, TradeMint.slot, TradeMint.place
            )
            .join(Trade)
            .where(Trade.wallet == wallet)
            .order_by(Trade.signature, TradeMint.mint)
            .tuples()
        )
        forward = list(
            ForwardTotal.select(*(f for f in ForwardTotal._meta.sorted_fields[1:]))
            .join(Attachment)
            .where(Attachment.wallet == wallet)
            .order_by(Attachment.attached_at, Attachment.id, ForwardTotal.time)
            .tuples()
        )
        told = [getattr(wallet, name) for name in SUMMARY]
        derived = [read_risk(wallet), read_quotes(wallet)]
        rows.append([address, trades, mints, forward, *derived, *told])
    return orjson.dumps(rows)


def list_spans(wallet):
    """Numbers of its spans, in their order."""
    spans = Attachment.select(Attachment.id).where(Attachment.wallet == wallet)
    return [0, *(one.id for one in spans.order_by(Attachment.attached_at, Attachment.id))]


def read_quotes(wallet):
    """What a wallet did in quotes; spans by their order."""
    numbers = list_spans(wallet)
    totals = QuoteTotal.select(*QuoteTotal._meta.sorted_fields[1:])
    sales = QuoteTrade.select(Trade.signature, *QuoteTrade._meta.sorted_fields[1:]).join(Trade)
    return [
        sorted(
            [numbers.index(span), *rest]
            for span, *rest in totals.where(QuoteTotal.wallet == wallet).tuples()
        ),
        sorted(sales.where(Trade.wallet == wallet).tuples()),
    ]


def read_risk(wallet):
    """The risk of a wallet, and its results by token; spans by their order."""
    numbers = list_spans(wallet)
    return sorted(
        [table.__name__, numbers.index(span), *rest]
        for table in (RiskTotal, TokenTotal)
        for span, *rest in table.select(*table._meta.sorted_fields[1:])
        .where(table.wallet == wallet)
        .tuples()
    )


def without_time(coverage):
    return {
        name: value for name, value in coverage.items() if name not in ("checkedAt", "observedTo")
    }


def watch(address, number=0):
    """A bot of an owner of its own with this wallet."""
    owner = Owner.create(uid=new_uid("owner"), created_at=BEGIN)
    bot = Bot.create(
        uid=new_uid("bot"),
        owner=owner,
        handle=f"bot{number}{address[:8]}".lower(),
        name=f"Bot {number}",
        voice=orjson.dumps(VOICE).decode(),
        created_at=BEGIN,
    )
    wallet = Wallet.create(address=address, bot=bot, created_at=BEGIN)
    models.Address.create(wallet=wallet, address=address)
    Attachment.create(bot=bot, wallet=wallet, attached_at=BEGIN)
    append_leaf("attachment", BEGIN, bot=bot.uid, wallet=address, ownership="claimed")
    return wallet
