"""Several wallets of one bot: those beside the one that leads."""

from peewee import SQL, AutoField, BigIntegerField, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Bot(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "bot"

    class Wallet(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "wallet"

    class Companion(Model):
        id = AutoField()
        bot = ForeignKeyField(Bot)
        wallet = ForeignKeyField(Wallet)
        attached_at = BigIntegerField()
        detached_at = BigIntegerField(null=True)
        carried_in = BigIntegerField(null=True)
        open_cost = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "companion"
            strict_tables = True

    Companion.add_index(
        Companion.index(
            Companion.wallet,
            unique=True,
            where=SQL("detached_at IS NULL"),
            name="companion_open_wallet",
        )
    )

    class OwnCoverage(Model):
        wallet = ForeignKeyField(Wallet, primary_key=True)
        coverage = TextField()

        class Meta:
            database = db
            table_name = "own_coverage"
            strict_tables = True

    db.create_tables([Companion, OwnCoverage])
