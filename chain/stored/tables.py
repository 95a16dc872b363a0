"""Tables that are derived from trades: which tokens they moved, and running totals."""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Attachment, Base, Bot, Trade, Wallet, WalletSignature

# The number of a mint, as SQL; `{}`: its address.
NUMBER_OF_MINT = "(SELECT id FROM mint WHERE address = {})"


class Mint(Base):
    """The number of a token that any trade moved. `address`: of its mint. Rows stay for ever."""

    id = AutoField()
    address = TextField(unique=True)


class TradeMint(Base):
    """A token that a trade moved, for the filter by mint and the activity of a token. `wallet`,
    `slot` and `place` are the trade's; `side` is buy or sell, null where it was no trade.
    """

    id = AutoField()
    trade = ForeignKeyField(Trade, backref="mints", on_delete="CASCADE")
    wallet = ForeignKeyField(Wallet, index=False)
    mint = ForeignKeyField(Mint, index=False)
    side = TextField(null=True)
    slot = BigIntegerField()
    place = IntegerField(default=0)

    class Meta:
        indexes = (
            (("mint", "slot", "place", "trade", "side"), False),
            (("wallet", "mint", "slot", "place", "trade"), False),
            (("mint", "trade"), False),
            (("wallet", "mint", "trade"), False),
        )


class TokenTrader(Base):
    """A wallet that bought a token, or sold it: the sides of TradeMint, each once. Derived."""

    mint = TextField()
    side = TextField()
    wallet = ForeignKeyField(Wallet)

    class Meta:
        primary_key = CompositeKey("mint", "side", "wallet")


class HourTotal(Base):
    """A wallet's running totals at the end of each hour that saw a transaction: a span of time is
    the difference of two rows. Derived.

    `hour` counts from 1970 and never falls below that of the transaction before. `realized`,
    `volume`, `failed_cost`, `overhead` and `cost_left` are in lamports.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    hour = IntegerField()
    realized = BigIntegerField()
    volume = BigIntegerField()
    trades = IntegerField()
    matched = IntegerField()
    partial = IntegerField()
    unmatched = IntegerField()
    winning = IntegerField()
    failed = IntegerField(default=0)
    failed_cost = BigIntegerField(default=0)
    overhead = BigIntegerField(default=0)
    cost_left = BigIntegerField(default=0)
    cost_left_receipts = IntegerField(default=0)

    class Meta:
        primary_key = CompositeKey("wallet", "hour")


class ForwardTotal(Base):
    """Running totals of a wallet's ledger in the span of an attachment (ledger.forward), after each
    Unix second (`time`) that changed them. Derived. Columns as in HourTotal; `carried`: lots that
    took over the cost of what a swap gave for them.
    """

    attachment = ForeignKeyField(Attachment, index=False)
    time = BigIntegerField()
    realized = BigIntegerField()
    volume = BigIntegerField()
    trades = IntegerField()
    matched = IntegerField()
    partial = IntegerField()
    unmatched = IntegerField()
    winning = IntegerField()
    failed = IntegerField()
    failed_cost = BigIntegerField()
    overhead = BigIntegerField()
    cost_left = BigIntegerField()
    cost_left_receipts = IntegerField()
    carried = IntegerField()

    class Meta:
        primary_key = CompositeKey("attachment", "time")


class RiskTotal(Base):
    """The risk of a wallet's realized results in a stretch of time (ledger.risk.Stretch). Derived.

    `span`: number of the attachment whose record it is of, 0 for all that the wallet ever did;
    `hours`: 1, 24 or 0 for all of it, from the hour `begins` on, counted from 1970. `holdings`:
    JSON [[seconds, sales]...] in order; `median_holding` follows from it.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    span = BigIntegerField()
    hours = IntegerField()
    begins = IntegerField()
    realized = BigIntegerField()
    high = BigIntegerField()
    low = BigIntegerField()
    drawdown = BigIntegerField()
    sales = IntegerField()
    winning = IntegerField()
    best = BigIntegerField(null=True)
    worst = BigIntegerField(null=True)
    closed = IntegerField()
    won = IntegerField()
    uncounted = IntegerField()
    days = IntegerField()
    first_day = IntegerField(null=True)
    last_day = IntegerField(null=True)
    median_holding = BigIntegerField(null=True)
    holdings = TextField()

    class Meta:
        primary_key = CompositeKey("wallet", "span", "hours", "begins")


class TokenTotal(Base):
    """What a wallet's sales of a token earned; `span` as in RiskTotal. Derived."""

    wallet = ForeignKeyField(Wallet, index=False)
    span = BigIntegerField()
    mint = TextField()
    realized = BigIntegerField()
    sales = IntegerField()
    winning = IntegerField()

    class Meta:
        primary_key = CompositeKey("wallet", "span", "mint")
        indexes = ((("wallet", "span", "realized"), False),)


class DelayTotal(Base):
    """How long after its trades a bot posted about them (accounts.delays), in seconds: how many
    trades, how many within a minute, the median. `delays`: JSON [[seconds, trades]...] in order,
    in two significant digits. Derived.
    """

    bot = ForeignKeyField(Bot, primary_key=True)
    posted = IntegerField()
    within_minute = IntegerField()
    median = BigIntegerField(null=True)
    delays = TextField()


class StandingTotal(Base):
    """What a bot did in a window of `seconds` (0: all time), as it is ranked: its forward `record`,
    or all that is known of its wallet; in SOL, or in a `quote` (a mint of `quotes`; of SOL it
    is empty). Derived; right until `ends` (Unix seconds), unless it is to be worked out
    (Bot.standing_at).

    `floor`: `realized` less `cost_left`; the tiers are parts of a list (stored.ranks): of those by
    result or floor, and by volume or trades. Other columns as in HourTotal.
    """

    bot = ForeignKeyField(Bot, index=False)
    record = TextField()
    quote = TextField()
    seconds = IntegerField()
    ends = BigIntegerField()
    result_tier = IntegerField()
    count_tier = IntegerField()
    realized = BigIntegerField()
    floor = BigIntegerField()
    volume = BigIntegerField()
    trades = IntegerField()
    matched = IntegerField()
    partial = IntegerField()
    unmatched = IntegerField()
    winning = IntegerField()
    cost_left = BigIntegerField()

    class Meta:
        primary_key = CompositeKey("bot", "record", "quote", "seconds")
        indexes = ((("record", "quote", "seconds", "ends"), False),)


for tier, column in (
    (StandingTotal.result_tier, StandingTotal.realized),
    (StandingTotal.result_tier, StandingTotal.floor),
    (StandingTotal.count_tier, StandingTotal.volume),
    (StandingTotal.count_tier, StandingTotal.trades),
):
    StandingTotal.add_index(
        StandingTotal.index(
            StandingTotal.record,
            StandingTotal.quote,
            StandingTotal.seconds,
            tier,
            column.desc(),
            StandingTotal.bot,
            name=f"standing_by_{column.name}",
        )
    )

# Rare rows have a partial index each, so that health finds them however many others there are.
for name, model, columns, rare in (
    ("wallet_in_trouble", Wallet, (Wallet.trouble_at, Wallet.id), "trouble IS NOT NULL"),
    (
        "wallet_with_difference",
        Wallet,
        (Wallet.id,),
        "imbalance <> 0 OR quote_imbalance <> '{}'",
    ),
    ("sighting_refused", WalletSignature, (WalletSignature.id,), "problem IS NOT NULL"),
    ("sighting_pending", WalletSignature, (WalletSignature.wallet,), "state = 'pending'"),
    ("attachment_given_up", Attachment, (Attachment.detached_at,), "detached_at IS NOT NULL"),
):
    model.add_index(model.index(*columns, where=SQL(rare), name=name))

TABLES = (
    *(Mint, TradeMint, TokenTrader, HourTotal, ForwardTotal, RiskTotal, TokenTotal, DelayTotal),
    StandingTotal,
)
