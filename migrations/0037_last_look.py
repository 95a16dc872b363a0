"""When a wallet was given up that is due for a last look. Those given up before have had theirs."""

from peewee import BigIntegerField


def up(migrator, db):
    migrator.migrate(migrator.add_column("wallet", "closing_at", BigIntegerField(null=True)))
