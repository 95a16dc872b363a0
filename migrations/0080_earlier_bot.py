"""What was before a mere claim stays with whoever held the wallet before, proven or not."""


def up(migrator, db):
    db.execute_sql("ALTER TABLE wallet RENAME COLUMN prover_id TO earlier_bot_id")
    db.execute_sql("DROP INDEX IF EXISTS wallet_prover_id")
    db.execute_sql("CREATE INDEX wallet_earlier_bot_id ON wallet (earlier_bot_id)")
    divide(db)


def divide(db):
    """Give each wallet that nobody proved to the bot that held it first, up to the first claim of
    the one that has it now. Their places on the boards are worked out anew.
    """
    db.execute_sql("""
        UPDATE wallet SET earlier_bot_id = (
            SELECT a.bot_id FROM attachment a WHERE a.wallet_id = wallet.id
            ORDER BY a.attached_at, a.id LIMIT 1)
        WHERE earlier_bot_id IS NULL
            AND EXISTS (SELECT 1 FROM attachment a
                        WHERE a.wallet_id = wallet.id AND a.bot_id <> wallet.bot_id)
            AND NOT EXISTS (SELECT 1 FROM attachment a
                            WHERE a.wallet_id = wallet.id AND a.ownership = 'proven')
            AND NOT EXISTS (SELECT 1 FROM companion c WHERE c.wallet_id = wallet.id)""")
    db.execute_sql("UPDATE wallet SET earlier_bot_id = NULL WHERE earlier_bot_id = bot_id")
    db.execute_sql("""
        UPDATE wallet SET bot_since = (
            SELECT MIN(a.attached_at) FROM attachment a
            WHERE a.wallet_id = wallet.id AND a.bot_id = wallet.bot_id)
        WHERE earlier_bot_id IS NOT NULL AND bot_since IS NULL""")
    db.execute_sql("""
        UPDATE bot SET standing_at = NULL WHERE id IN (
            SELECT a.bot_id FROM attachment a JOIN wallet w ON w.id = a.wallet_id
            WHERE w.earlier_bot_id IS NOT NULL)""")
