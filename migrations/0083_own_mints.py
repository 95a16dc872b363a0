"""A trade is found by its own mint where nothing of it was left, too: a round trip, say."""

KNOWN = """
INSERT INTO mint (address) SELECT DISTINCT t.mint FROM trade t
WHERE t.mint IS NOT NULL AND NOT EXISTS (SELECT 1 FROM mint n WHERE n.address = t.mint)"""
OWN = """
INSERT INTO trade_mint (trade_id, wallet_id, mint_id, side, slot, place)
SELECT t.id, t.wallet_id, n.id, NULL, t.slot, t.place FROM trade t JOIN mint n ON n.address = t.mint
WHERE NOT EXISTS (SELECT 1 FROM trade_mint m WHERE m.mint_id = n.id AND m.trade_id = t.id)
ORDER BY t.id"""


def up(migrator, db):
    db.execute_sql(KNOWN)
    db.execute_sql(OWN)
