"""What books in stablecoins leave over. The next poll of a wallet says it anew."""


def up(migrator, db):
    kind = "TEXT" if db.engine == "sqlite" else 'TEXT COLLATE "C"'
    column = f"\"quote_imbalance\" {kind} NOT NULL DEFAULT '{{}}'"
    db.execute_sql(f'ALTER TABLE "wallet" ADD COLUMN {column}')
