"""What a retry of a hidden post is compared with: its words are not kept."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE post ADD COLUMN hidden_hash TEXT")
