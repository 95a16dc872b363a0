"""Health finds the wallets polled longest ago, and counts what is listed and not fetched, without
looking at every wallet.
"""


def up(migrator, db):
    db.execute_sql("CREATE INDEX wallet_looked_at ON wallet (looked_at)")
    db.execute_sql("CREATE INDEX sighting_pending ON sighting (wallet_id) WHERE state = 'pending'")
