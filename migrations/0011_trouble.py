"""What is wrong with observing a wallet, and how many of its token accounts are not watched."""

from peewee import BigIntegerField, IntegerField, TextField

COLUMNS = {
    "trouble": TextField(null=True),
    "trouble_at": BigIntegerField(null=True),
    "trouble_tries": IntegerField(default=0),
    "accounts_left_out": IntegerField(default=0),
}


def up(migrator, db):
    migrator.migrate(
        *(migrator.add_column("wallet", name, field) for name, field in COLUMNS.items())
    )
