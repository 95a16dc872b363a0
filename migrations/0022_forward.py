"""The forward record of attachments: running totals of each span, and what it holds. The next poll
of the observer, or a rebuild, works them out from the ledger.
"""

from peewee import BigIntegerField, CompositeKey, ForeignKeyField, IntegerField, Model

COLUMNS = {
    "carried_in": BigIntegerField(null=True),
    "open_cost": BigIntegerField(null=True),
    "open_positions": IntegerField(null=True),
}


def up(migrator, db):
    migrator.migrate(
        *(migrator.add_column("attachment", name, field) for name, field in COLUMNS.items())
    )

    class Attachment(Model):
        class Meta:
            database = db
            table_name = "attachment"

    class ForwardTotal(Model):
        attachment = ForeignKeyField(Attachment, index=False)
        time = BigIntegerField()
        realized = BigIntegerField()
        volume = BigIntegerField()
        trades = IntegerField()
        matched = IntegerField()
        partial = IntegerField()
        unmatched = IntegerField()
        winning = IntegerField()
        failed = IntegerField()
        failed_cost = BigIntegerField()
        overhead = BigIntegerField()
        cost_left = BigIntegerField()
        cost_left_receipts = IntegerField()
        carried = IntegerField()

        class Meta:
            database = db
            table_name = "forward_total"
            strict_tables = True
            primary_key = CompositeKey("attachment", "time")

    db.create_tables([ForwardTotal])
