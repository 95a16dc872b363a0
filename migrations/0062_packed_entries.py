"""Entries compressed, without what their row says already: a third of the bytes. One index finds a
signature and its wallet, instead of two.
"""

from peewee import (
    AutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)

from chain.packing import pack_text

BATCH = 5_000
# Signature, slot and place in it: none of them holds a comma.
SAID_BY_THE_ROW = 3


def up(migrator, db):
    (_rebuild if db.engine == "sqlite" else _alter)(db)


def pack(text):
    """Pack a stored entry; None for one that nobody can read: a rebuild reads it anew."""
    parts = (text or "").split(",", SAID_BY_THE_ROW)
    return pack_text(f"[{parts[-1]}") if len(parts) > SAID_BY_THE_ROW else None


def _rebuild(db):
    """A table that is written anew takes no more room than it needs; one whose rows shrink does."""
    for name in ("wallet_id_signature", "wallet_id_state_due_at", "signature"):
        db.execute_sql(f"DROP INDEX sighting_{name}")
    db.execute_sql("ALTER TABLE sighting RENAME TO sighting_before")
    made = _define(db)
    made._schema.create_table()
    columns = [field.column_name for field in made._meta.sorted_fields]
    values = ["pack_entry(entry)" if name == "entry" else name for name in columns]
    db.register_function(pack, "pack_entry", 1)
    db.execute_sql(
        f"INSERT INTO sighting ({', '.join(columns)}) SELECT {', '.join(values)}"
        " FROM sighting_before ORDER BY id"
    )
    db.unregister_function("pack_entry")
    db.execute_sql("DROP TABLE sighting_before")
    made._schema.create_indexes()


def _define(db):
    class Wallet(Model):
        class Meta:
            database = db
            table_name = "wallet"

    class Sighting(Model):
        id = AutoField()
        wallet = ForeignKeyField(Wallet, index=False)
        signature = TextField()
        slot = BigIntegerField()
        tx_index = IntegerField(null=True)
        head = BooleanField()
        state = TextField()
        entry = BlobField(null=True)
        tries = IntegerField()
        due_at = BigIntegerField()
        problem = TextField(null=True)
        seen_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "sighting"
            strict_tables = True
            indexes = (
                (("signature", "wallet"), True),
                (("wallet", "state", "due_at"), False),
            )

    return Sighting


def _alter(db):
    """The indexes go first: each changed row would be entered in them anew."""
    for statement in (
        "DROP INDEX sighting_wallet_id_signature",
        "DROP INDEX sighting_wallet_id_state_due_at",
        "DROP INDEX sighting_signature",
        "ALTER TABLE sighting ADD COLUMN packed BYTEA",
    ):
        db.execute_sql(statement)
    last = 0
    while rows := db.execute_sql(
        "SELECT id, entry FROM sighting WHERE id > ? AND entry IS NOT NULL"
        f" ORDER BY id LIMIT {BATCH}",
        (last,),
    ).fetchall():
        numbers = [number for number, _ in rows]
        db.execute_sql(
            "UPDATE sighting SET packed = made.packed FROM unnest(?::bigint[], ?::bytea[])"
            " AS made (id, packed) WHERE sighting.id = made.id AND sighting.id BETWEEN ? AND ?",
            (numbers, [pack(text) for _, text in rows], numbers[0], numbers[-1]),
        )
        last = numbers[-1]
    for statement in (
        "ALTER TABLE sighting DROP COLUMN entry",
        "ALTER TABLE sighting RENAME COLUMN packed TO entry",
        "CREATE UNIQUE INDEX sighting_signature_wallet_id ON sighting (signature, wallet_id)",
        "CREATE INDEX sighting_wallet_id_state_due_at ON sighting (wallet_id, state, due_at)",
    ):
        db.execute_sql(statement)
