"""One process observes all wallets: no leases."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE wallet DROP COLUMN watcher")
    db.execute_sql("DROP TABLE watcher")
