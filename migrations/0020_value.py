"""What passed beside a trade, which accounts explain it, and books that close. The next poll of the
observer reads the stored transactions again and fills the columns; until then new sums are null.
"""

import json

# SQLite and PostgreSQL add a column with a constant default at once, however long the table is.
COLUMNS = {
    "trade": {
        "beside_sol": "INTEGER NOT NULL DEFAULT 0",
        "beside_tokens": "TEXT NOT NULL DEFAULT '[]'",
        "explained": "INTEGER",
        "counterparties": "TEXT NOT NULL DEFAULT '[]'",
        "cost_left": "INTEGER NOT NULL DEFAULT 0",
    },
    "hour_total": {
        "failed": "INTEGER NOT NULL DEFAULT 0",
        "failed_cost": "INTEGER NOT NULL DEFAULT 0",
        "overhead": "INTEGER NOT NULL DEFAULT 0",
        "cost_left": "INTEGER NOT NULL DEFAULT 0",
        "cost_left_receipts": "INTEGER NOT NULL DEFAULT 0",
    },
    "wallet": {
        "cost_left": "INTEGER",
        "reconciliation": "TEXT",
        "average_cost": "TEXT",
        "imbalance": "INTEGER NOT NULL DEFAULT 0",
    },
}
NOT_SUMMED_YET = {"costLeftLamports": None, "costLeftReceipts": None, "carriedLots": None}


def up(migrator, db):
    for table, columns in COLUMNS.items():
        for name, kind in columns.items():
            if db.engine != "sqlite":
                # As all other columns there: 64 bits, and texts compared by their bytes.
                kind = kind.replace("INTEGER", "BIGINT").replace("TEXT", 'TEXT COLLATE "C"')
            db.execute_sql(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
    rows = db.execute_sql("SELECT id, results FROM wallet WHERE results IS NOT NULL").fetchall()
    for number, results in rows:
        told = json.dumps({**json.loads(results), **NOT_SUMMED_YET}, separators=(",", ":"))
        db.execute_sql("UPDATE wallet SET results = ? WHERE id = ?", (told, number))
