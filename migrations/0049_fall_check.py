"""What a second provider said of a fall, with the snapshot that brought it."""


def up(migrator, db):
    kind = "TEXT" if db.engine == "sqlite" else 'TEXT COLLATE "C"'
    db.execute_sql(f'ALTER TABLE "snapshot" ADD COLUMN "fall_check" {kind}')
