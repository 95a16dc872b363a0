"""What wallets did for stablecoins. The next poll of the observer, or a rebuild, works it out."""

from peewee import (
    BigIntegerField,
    BooleanField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)


def up(migrator, db):
    kind = "TEXT" if db.engine == "sqlite" else 'TEXT COLLATE "C"'
    db.execute_sql(f'ALTER TABLE "wallet" ADD COLUMN "by_quote" {kind}')

    class Wallet(Model):
        class Meta:
            database = db
            table_name = "wallet"

    class Trade(Model):
        class Meta:
            database = db
            table_name = "trade"

    class QuoteTotal(Model):
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
            database = db
            table_name = "quote_total"
            strict_tables = True
            primary_key = CompositeKey("wallet", "span", "quote", "time")

    class QuoteTrade(Model):
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
            database = db
            table_name = "quote_trade"
            strict_tables = True
            primary_key = CompositeKey("trade", "quote")

    db.create_tables([QuoteTotal, QuoteTrade])
