"""What the second fill model stores: the least an order must bring, what a pool remembered, what a
position is worth to its pool, what a token keeps of a transfer.
"""

COLUMNS = {
    "paper_order": {
        "least": "TEXT NOT NULL DEFAULT '0'",
        "transfer_bps": "INTEGER NOT NULL DEFAULT 0",
    },
    "paper_fill": {
        "flow": "INTEGER NOT NULL DEFAULT 0",
        "turn": "INTEGER NOT NULL DEFAULT 0",
        "costs": "TEXT",
    },
    "position": {"worth": "INTEGER", "pair": "TEXT"},
    "token": {"transfer_fee_bps": "INTEGER"},
}


def up(migrator, db):
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            if db.engine != "sqlite":
                kind = kind.replace("INTEGER", "BIGINT").replace("TEXT", 'TEXT COLLATE "C"')
            db.execute_sql(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
