"""Standings in stablecoins beside those in SOL, whose `quote` is empty. All of it is derived: the
observer works it out again, and until then whoever reads does.
"""

from peewee import (
    BigIntegerField,
    CompositeKey,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)

RANKED_BY = (
    ("result_tier", "realized"),
    ("floor_tier", "floor"),
    ("count_tier", "volume"),
    ("count_tier", "trades"),
)


def up(migrator, db):
    db.execute_sql("DROP TABLE standing_total")
    db.execute_sql("UPDATE bot SET standing_at = NULL")

    class Bot(Model):
        class Meta:
            database = db
            table_name = "bot"

    class StandingTotal(Model):
        bot = ForeignKeyField(Bot, index=False)
        record = TextField()
        quote = TextField()
        seconds = IntegerField()
        ends = BigIntegerField()
        result_tier = IntegerField()
        floor_tier = IntegerField()
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
            database = db
            table_name = "standing_total"
            strict_tables = True
            primary_key = CompositeKey("bot", "record", "quote", "seconds")
            indexes = ((("record", "quote", "seconds", "ends"), False),)

    db.create_tables([StandingTotal])
    for tier, column in RANKED_BY:
        columns = f"record, quote, seconds, {tier}, {column} DESC, bot_id"
        db.execute_sql(f"CREATE INDEX standing_by_{column} ON standing_total ({columns})")
