"""What arrived after a cursor is found by an index whatever the filter, and so are posts of one
source about one token.
"""


def up(migrator, db):
    # Which trade a cursor stands at: a refold takes trades back, and their arrivals stay without
    # one.
    db.execute_sql(
        "CREATE INDEX arrival_of_trade ON arrival (id, trade_id) WHERE trade_id IS NOT NULL"
    )
    db.execute_sql("CREATE INDEX trade_wallet_id_id ON trade (wallet_id, id)")
    # Covered by the one above.
    db.execute_sql("DROP INDEX trade_wallet_id")
    db.execute_sql("CREATE INDEX trade_mint_mint_trade_id ON trade_mint (mint, trade_id)")
    db.execute_sql(
        "CREATE INDEX trade_mint_wallet_id_mint_trade_id ON trade_mint (wallet_id, mint, trade_id)"
    )
    db.execute_sql("CREATE INDEX post_mint_source_id ON post (mint, source, id)")
    db.execute_sql("CREATE INDEX paper_post_mint_id ON paper_post (mint, id)")
