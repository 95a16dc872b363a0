"""The append-only log: its leaves, the hashes above full tiles, and each post's leaf and salt. The
next start logs what is there already (evidence.catch_up).
"""

from peewee import BigIntegerField, BlobField, CompositeKey, IntegerField, Model, TextField

COLUMNS = {"leaf_id": "BIGINT", "salt": "TEXT"}


def up(migrator, db):
    class Log(Model):
        uid = TextField(unique=True)
        opened_at = BigIntegerField()
        first_leaf = BigIntegerField(unique=True)
        key = TextField(null=True)

        class Meta:
            database = db
            table_name = "log"
            strict_tables = True

    class Leaf(Model):
        id = BigIntegerField(primary_key=True)
        data = TextField()

        class Meta:
            database = db
            table_name = "log_leaf"
            strict_tables = True

    class Node(Model):
        log_id = BigIntegerField()
        level = IntegerField()
        place = BigIntegerField()
        hash = BlobField()

        class Meta:
            database = db
            table_name = "log_node"
            strict_tables = True
            primary_key = CompositeKey("log_id", "level", "place")

    db.create_tables([Log, Leaf, Node])
    for name, kind in COLUMNS.items():
        kind = {
            "sqlite": kind.replace("BIGINT", "INTEGER"),
            # As all other columns there: 64 bits, and texts compared by their bytes.
            "postgresql": kind.replace("TEXT", 'TEXT COLLATE "C"'),
        }[db.engine]
        db.execute_sql(f'ALTER TABLE "post" ADD COLUMN "{name}" {kind}')
    # Empty but while an upgrade logs what was there: found at once however many posts there are.
    db.execute_sql('CREATE INDEX "post_unlogged" ON "post" ("id") WHERE leaf_id IS NULL')
