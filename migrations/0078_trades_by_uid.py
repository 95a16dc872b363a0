"""Trades have no index of signatures any more: by wallet and signature they are found as their uid,
which is made from both.
"""


def up(migrator, db):
    db.execute_sql("DROP INDEX trade_wallet_id_signature")
