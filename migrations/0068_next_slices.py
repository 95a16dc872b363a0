"""What is fetched next for a wallet is found by an index, however much waits."""


def up(migrator, db):
    db.execute_sql("DROP INDEX sighting_wallet_id_state_due_at")
    db.execute_sql(
        "CREATE INDEX sighting_wallet_id_state_head_slot ON sighting (wallet_id, state, head, slot)"
    )
