"""The forward record of bots in windows, ready to be ranked. The observer works it out; until then
whoever reads does.
"""

from peewee import BigIntegerField, CompositeKey, ForeignKeyField, IntegerField, Model

RANKED_BY = (
    ("result_tier", "realized"),
    ("result_tier", "floor"),
    ("count_tier", "volume"),
    ("count_tier", "trades"),
)


def up(migrator, db):
    migrator.migrate(migrator.add_column("bot", "standing_at", BigIntegerField(null=True)))
    db.execute_sql("CREATE INDEX bot_without_standing ON bot (id) WHERE standing_at IS NULL")

    class Bot(Model):
        class Meta:
            database = db
            table_name = "bot"

    class StandingTotal(Model):
        bot = ForeignKeyField(Bot, index=False)
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
            database = db
            table_name = "standing_total"
            strict_tables = True
            primary_key = CompositeKey("bot", "seconds")
            indexes = ((("seconds", "ends"), False),)

    db.create_tables([StandingTotal])
    for tier, column in RANKED_BY:
        columns = f"seconds, {tier}, {column} DESC, bot_id"
        db.execute_sql(f"CREATE INDEX standing_by_{column} ON standing_total ({columns})")
