"""Columns have the names that the rest of the code has."""

RENAMED = {
    "wallet": {"looked_at": "polled_at", "whole": "backfilled", "heal_at": "repair_at"},
    "address": {
        "walks": "full_scans",
        "walk_new": "scan_new",
        "walked_at": "scanned_at",
        "walk_cursor": "scan_cursor",
    },
}


def up(migrator, db):
    for table, names in RENAMED.items():
        for before, now in names.items():
            db.execute_sql(f"ALTER TABLE {table} RENAME COLUMN {before} TO {now}")
    db.execute_sql("DROP INDEX IF EXISTS wallet_looked_at")
    db.execute_sql("CREATE INDEX wallet_polled_at ON wallet (polled_at)")
