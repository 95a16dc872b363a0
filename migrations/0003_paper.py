"""Paper mode: traders, their accounts, orders, fills, positions, diaries, posts and reviews; a
frozen copy of the models.
"""

from peewee import BigIntegerField, BooleanField, ForeignKeyField, IntegerField, Model, TextField


def up(migrator, db):
    class Owner(Model):
        class Meta:
            database = db
            table_name = "owner"

    class Trader(Model):
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner)
        handle = TextField(unique=True)
        name = TextField()
        bio = TextField(default="")
        voice = TextField()
        family = TextField()
        settings = TextField(default="{}")
        start_mode = TextField(default="guarded")
        adaptive = TextField(default="observe")
        created_at = BigIntegerField()
        retired_at = BigIntegerField(null=True)
        phase = TextField()
        next_order = IntegerField(default=1)
        next_position = IntegerField(default=1)
        version = IntegerField(default=0)

        class Meta:
            database = db
            table_name = "trader"
            strict_tables = True

    db.create_tables([Trader])

    class Period(Model):
        trader = ForeignKeyField(Trader, index=False)
        number = IntegerField()
        starting_cash = BigIntegerField()
        cash = BigIntegerField()
        lost_fees = BigIntegerField(default=0)
        peak = BigIntegerField()
        day = BigIntegerField(default=-1)
        day_equity = BigIntegerField()
        opened_at = BigIntegerField()
        closed_at = BigIntegerField(null=True)
        closing_reason = TextField(null=True)

        class Meta:
            database = db
            table_name = "period"
            strict_tables = True
            indexes = ((("trader", "number"), True),)

    db.create_tables([Period])
    db.execute_sql(
        "CREATE UNIQUE INDEX period_open_trader ON period (trader_id) WHERE closed_at IS NULL"
    )

    class PaperOrder(Model):
        period = ForeignKeyField(Period, index=False)
        number = IntegerField()
        mint = TextField()
        symbol = TextField()
        decimals = IntegerField()
        side = TextField()
        amount = TextField()
        reason = TextField()
        decided_on = BigIntegerField()
        decided_at = BigIntegerField()
        due_at = BigIntegerField()
        expires_at = BigIntegerField()
        done = TextField(default="0")
        attempts = IntegerField(default=0)
        lost = BigIntegerField(default=0)
        state = TextField()

        class Meta:
            database = db
            table_name = "paper_order"
            strict_tables = True
            indexes = ((("period", "number"), True),)

    db.create_tables([PaperOrder])
    db.execute_sql("CREATE INDEX paper_order_open ON paper_order (period_id) WHERE state = 'open'")

    class PaperFill(Model):
        order = ForeignKeyField(PaperOrder)
        position = IntegerField(null=True)
        snapshot = BigIntegerField(index=True)
        at = BigIntegerField()
        raw = TextField()
        mid = BigIntegerField()
        slippage = BigIntegerField()
        pool_fee = BigIntegerField()
        network_fee = BigIntegerField()
        rent = BigIntegerField()
        failed = BooleanField()
        marks = TextField()
        model = TextField()

        class Meta:
            database = db
            table_name = "paper_fill"
            strict_tables = True

    db.create_tables([PaperFill])

    class Position(Model):
        period = ForeignKeyField(Period, index=False)
        number = IntegerField()
        mint = TextField()
        symbol = TextField()
        decimals = IntegerField()
        opened_at = BigIntegerField()
        liquidity = BigIntegerField(null=True)
        price = TextField()
        high = TextField()
        marked_at = BigIntegerField()
        marked_on = BigIntegerField()
        held = IntegerField()
        reduced = BooleanField()
        raw = TextField()
        bought_raw = TextField()
        mid_bought = BigIntegerField()
        mid_sold = BigIntegerField()
        slippage = BigIntegerField()
        fees = BigIntegerField()
        rent = BigIntegerField()
        cash = BigIntegerField()
        spent = BigIntegerField()
        latency_ms = BigIntegerField()
        marks = TextField()
        pipeline = TextField()
        closed_at = BigIntegerField(null=True, index=True)
        reason = TextField(null=True)

        class Meta:
            database = db
            table_name = "position"
            strict_tables = True
            indexes = ((("period", "number"), True),)

    db.create_tables([Position])
    db.execute_sql("CREATE INDEX position_open ON position (period_id) WHERE closed_at IS NULL")

    class DiaryEntry(Model):
        period = ForeignKeyField(Period, index=False)
        at = BigIntegerField()
        kind = TextField()
        mint = TextField(null=True)
        order_number = IntegerField(null=True)
        facts = TextField()

        class Meta:
            database = db
            table_name = "diary_entry"
            strict_tables = True
            indexes = ((("period", "id"), False), (("kind", "at"), False))

    db.create_tables([DiaryEntry])

    class PaperPost(Model):
        uid = TextField(unique=True)
        entry = ForeignKeyField(DiaryEntry, unique=True)
        trader = ForeignKeyField(Trader, index=False)
        body = TextField()
        mint = TextField(null=True)
        symbol = TextField(null=True)
        writer = TextField()
        event_at = BigIntegerField()
        created_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "paper_post"
            strict_tables = True
            indexes = ((("trader", "id"), False),)

    db.create_tables([PaperPost])

    class Review(Model):
        period = ForeignKeyField(Period, index=False)
        state = TextField()
        reasons = TextField()
        opened_at = BigIntegerField()
        decided_at = BigIntegerField(null=True)
        decision = TextField(null=True)

        class Meta:
            database = db
            table_name = "review"
            strict_tables = True
            indexes = ((("period", "id"), False),)

    db.create_tables([Review])

    class EngineState(Model):
        id = IntegerField(primary_key=True)
        snapshot = BigIntegerField()
        entry = BigIntegerField(default=0)

        class Meta:
            database = db
            table_name = "engine_state"
            strict_tables = True

    db.create_tables([EngineState])
