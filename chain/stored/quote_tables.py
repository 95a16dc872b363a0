"""Tables of what wallets did for a quote: a stablecoin that they pay and are paid in."""

from peewee import (
    BigIntegerField,
    BooleanField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base, Trade, Wallet


class QuoteTotal(Base):
    """Running totals of a wallet's ledger in a `quote` (a mint of `quotes`), after each Unix
    second (`time`) that changed them. Derived.

    `span` as in RiskTotal. Columns as in HourTotal, with raw units of the quote for lamports;
    `cross`: sales for the quote of lots that were paid for in something else; `fee_lamports`: fees
    and tips of its trades, which are lamports and in no other column.
    """

    wallet = ForeignKeyField(Wallet, index=False)
    span = BigIntegerField()
    quote = TextField()
    time = BigIntegerField()
    realized = BigIntegerField()
    volume = BigIntegerField()
    trades = IntegerField()
    matched = IntegerField()
    partial = IntegerField()
    unmatched = IntegerField()
    winning = IntegerField()
    cost_left = BigIntegerField()
    cost_left_receipts = IntegerField()
    fee_lamports = BigIntegerField()
    cross = IntegerField()

    class Meta:
        primary_key = CompositeKey("wallet", "span", "quote", "time")


class QuoteTrade(Base):
    """A trade against a quote, as the ledger in that quote booked it. Derived.

    `kind`: buy | sell of the other token; `change` of the quote, `result`, `proceeds` and `cost` in
    its raw units, the other two in those of the token, as text; `status` as Trade.realized;
    `is_cross`: it sold lots that were paid for in something else.
    """

    trade = ForeignKeyField(Trade, index=False, on_delete="CASCADE")
    quote = TextField()
    kind = TextField()
    change = BigIntegerField()
    status = TextField()
    result = BigIntegerField(null=True)
    proceeds = BigIntegerField(null=True)
    cost = BigIntegerField(null=True)
    matched_raw = TextField()
    unmatched_raw = TextField()
    is_cross = BooleanField()

    class Meta:
        primary_key = CompositeKey("trade", "quote")


TABLES = (QuoteTotal, QuoteTrade)
