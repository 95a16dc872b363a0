"""The digest of a transaction, by which a stranger compares it with his own node's. The observer
fills in those of transactions that are stored already.
"""

# Few at any time: the observer looks for them in every pass.
MISSING = "CREATE INDEX receipt_without_digest ON receipt (id) WHERE digest IS NULL"


def up(migrator, db):
    kind = "TEXT" if db.engine == "sqlite" else 'TEXT COLLATE "C"'
    db.execute_sql(f"ALTER TABLE receipt ADD COLUMN digest {kind}")
    db.execute_sql(MISSING)
