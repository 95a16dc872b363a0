"""What a token account holds that no known receipt ever touched."""

from peewee import BigIntegerField, IntegerField, TextField

COLUMNS = {
    "held_mint": TextField(null=True),
    "held_amount": TextField(null=True),
    "held_decimals": IntegerField(null=True),
    "held_slot": BigIntegerField(null=True),
}


def up(migrator, db):
    migrator.migrate(
        *(migrator.add_column("address", name, field) for name, field in COLUMNS.items())
    )
