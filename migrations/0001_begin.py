"""The first schema: a frozen copy of the models, deliberately independent of models.py."""

from peewee import (
    BigIntegerField,
    BlobField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)


def up(migrator, db):
    class Owner(Model):
        uid = TextField(unique=True)
        recovery_hash = TextField(unique=True, null=True)
        created_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "owner"
            strict_tables = True

    db.create_tables([Owner])

    class Bot(Model):
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner)
        handle = TextField(unique=True)
        name = TextField()
        bio = TextField(default="")
        voice = TextField()
        avatar_url = TextField(null=True)
        auto_post = BooleanField(default=False)
        auto_post_since = BigIntegerField(null=True)
        created_at = BigIntegerField()
        retired_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "bot"
            strict_tables = True

    db.create_tables([Bot])

    class Wallet(Model):
        address = TextField(unique=True)
        bot = ForeignKeyField(Bot)
        created_at = BigIntegerField()
        looked_at = BigIntegerField(null=True)
        due_at = BigIntegerField(default=0)
        accounts_at = BigIntegerField(null=True)
        whole = BooleanField(default=False)
        heal_at = BigIntegerField(default=0)
        rules = TextField(default="")
        observed_to = BigIntegerField(null=True)
        coverage = TextField(null=True)
        results = TextField(null=True)
        positions = TextField(null=True)
        last_trade_at = BigIntegerField(null=True)
        realized = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "wallet"
            strict_tables = True

    db.create_tables([Wallet])

    class Address(Model):
        wallet = ForeignKeyField(Wallet)
        address = TextField()
        head_slot = BigIntegerField(null=True)
        walks = IntegerField(default=0)
        walk_new = IntegerField(null=True)
        walked_at = BigIntegerField(null=True)
        walk_cursor = TextField(null=True)
        endpoint = TextField(null=True)

        class Meta:
            database = db
            table_name = "address"
            strict_tables = True
            indexes = ((("wallet", "address"), True), (("address",), False))

    db.create_tables([Address])

    class Attachment(Model):
        bot = ForeignKeyField(Bot)
        wallet = ForeignKeyField(Wallet)
        ownership = TextField(default="claimed")
        attached_at = BigIntegerField()
        detached_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "attachment"
            strict_tables = True

    db.create_tables([Attachment])
    db.execute_sql(
        "CREATE UNIQUE INDEX attachment_open_wallet ON attachment (wallet_id) WHERE detached_at IS"
        " NULL"
    )
    db.execute_sql(
        "CREATE UNIQUE INDEX attachment_open_bot ON attachment (bot_id) WHERE detached_at IS NULL"
    )

    class Job(Model):
        name = TextField(primary_key=True)
        state = TextField()
        heartbeat_at = BigIntegerField(null=True)
        last_success_at = BigIntegerField(null=True)
        last_error = TextField(null=True)
        details = TextField(default="{}")

        class Meta:
            database = db
            table_name = "job"
            strict_tables = True

    db.create_tables([Job])

    class Key(Model):
        uid = TextField(unique=True)
        owner = ForeignKeyField(Owner)
        bot = ForeignKeyField(Bot, null=True)
        scope = TextField()
        name = TextField(default="")
        prefix = TextField()
        last4 = TextField()
        hash = TextField(unique=True)
        created_at = BigIntegerField()
        expires_at = BigIntegerField(null=True)
        last_used_at = BigIntegerField(null=True)
        revoked_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "key"
            strict_tables = True

    db.create_tables([Key])

    class Trade(Model):
        uid = TextField(unique=True)
        wallet = ForeignKeyField(Wallet)
        signature = TextField()
        slot = BigIntegerField()
        tx_index = IntegerField(null=True)
        place = IntegerField(default=0)
        block_time = BigIntegerField(null=True)
        kind = TextField()
        venue = TextField(null=True)
        mint = TextField(null=True)
        token_changes = TextField()
        sol_change = BigIntegerField()
        fee = BigIntegerField()
        tip = BigIntegerField()
        rent = BigIntegerField()
        realized = TextField()
        result = BigIntegerField(null=True)
        proceeds = BigIntegerField(null=True)
        cost = BigIntegerField(null=True)
        matched_raw = TextField()
        unmatched_raw = TextField()
        lots = TextField()
        flags = TextField()
        digest = TextField()

        class Meta:
            database = db
            table_name = "trade"
            strict_tables = True
            indexes = (
                (("wallet", "signature"), True),
                (("slot", "place", "id"), False),
                (("wallet", "slot", "place", "id"), False),
                (("kind", "block_time"), False),
            )

    db.create_tables([Trade])

    class Post(Model):
        uid = TextField(unique=True)
        bot = ForeignKeyField(Bot)
        source = TextField()
        channel = TextField()
        key = ForeignKeyField(Key, null=True)
        event_id = TextField()
        body = TextField()
        mint = TextField(null=True)
        symbol = TextField(null=True)
        signature = TextField(null=True)
        reason = TextField(null=True)
        sanitized = BooleanField(default=False)
        wallet = ForeignKeyField(Wallet, null=True)
        status = TextField(default="none")
        status_reason = TextField(null=True)
        trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")
        checked_at = BigIntegerField(null=True)
        event_at = BigIntegerField()
        created_at = BigIntegerField()
        hidden_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "post"
            strict_tables = True
            indexes = (
                (("bot", "source", "event_id"), True),
                (("bot", "id"), False),
                (("wallet", "status"), False),
                (("mint", "id"), False),
            )

    db.create_tables([Post])

    class Receipt(Model):
        signature = TextField(unique=True)
        slot = BigIntegerField()
        tx_index = IntegerField(null=True)
        block_time = BigIntegerField(null=True)
        body = BlobField()
        endpoint = TextField()
        stored_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "receipt"
            strict_tables = True

    db.create_tables([Receipt])

    class Sighting(Model):
        wallet = ForeignKeyField(Wallet)
        signature = TextField()
        slot = BigIntegerField()
        tx_index = IntegerField(null=True)
        head = BooleanField(default=False)
        state = TextField(default="pending")
        entry = TextField(null=True)
        tries = IntegerField(default=0)
        due_at = BigIntegerField(default=0)
        problem = TextField(null=True)
        seen_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "sighting"
            strict_tables = True
            indexes = (
                (("wallet", "signature"), True),
                (("wallet", "state", "due_at"), False),
                (("signature",), False),
            )

    db.create_tables([Sighting])

    class TradeMint(Model):
        trade = ForeignKeyField(Trade, on_delete="CASCADE")
        mint = TextField()
        side = TextField(null=True)
        slot = BigIntegerField()
        place = IntegerField(default=0)

        class Meta:
            database = db
            table_name = "trade_mint"
            strict_tables = True
            indexes = (
                (("mint", "slot", "place", "trade"), False),
                (("mint", "side", "slot", "place", "trade"), False),
            )

    db.create_tables([TradeMint])
