"""What the fills of random-entry twins are made again from, so that a rebuild proves them, too."""

COLUMNS = {
    "decided_at": "INTEGER",
    "amount": "TEXT",
    "least": "TEXT",
    "decimals": "INTEGER",
    "transfer_bps": "INTEGER",
    "mark": "TEXT",
    "marks": "TEXT",
    "flow": "INTEGER",
    "turn": "INTEGER",
    "costs": "TEXT",
}


def up(migrator, db):
    for name, kind in COLUMNS.items():
        if db.engine != "sqlite":
            kind = kind.replace("INTEGER", "BIGINT").replace("TEXT", 'TEXT COLLATE "C"')
        db.execute_sql(f'ALTER TABLE "twin_fill" ADD COLUMN "{name}" {kind}')
