"""Tables of what wallets did for a quote: a stablecoin that they pay and are paid in."""

from peewee import (
    BigIntegerField,
    BooleanField,
    CompositeKey,
    ForeignKeyField,
    TextField,
)

from models import Base, Trade


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


TABLES = (QuoteTrade,)
