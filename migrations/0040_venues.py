"""What a trader looks at beside the price: venue, pair, market capitalization, volume by window and
last changes. Snapshots taken before know none of it.
"""

BOTH = ("venue", "pair", "market_cap_usd", "volume5m_usd", "volume1h_usd")
OF_TOKEN = ("pool_tokens", "change5m_pct", "change1h_pct")


def up(migrator, db):
    kind = "TEXT" if db.engine == "sqlite" else 'TEXT COLLATE "C"'
    columns = [(table, name) for table in ("token", "snapshot") for name in BOTH]
    columns += [("token", name) for name in OF_TOKEN]
    for table, name in columns:
        db.execute_sql(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
