"""Health finds what is rare by indexes of it alone: wallets in trouble or whose books differ,
transactions nobody gave, owners with much to read. What was given up lately is found however much
was given up before.
"""

RARE = (
    ("wallet_in_trouble", "wallet (trouble_at, id) WHERE trouble IS NOT NULL"),
    (
        "wallet_with_difference",
        "wallet (id) WHERE imbalance <> 0 OR quote_imbalance <> '{}'",
    ),
    ("owner_of_many_posts", "owner (posts_bytes) WHERE posts_bytes >= 1000000"),
    ("sighting_refused", "sighting (id) WHERE problem IS NOT NULL"),
    ("attachment_given_up", "attachment (detached_at) WHERE detached_at IS NOT NULL"),
    ("companion_given_up", "companion (detached_at) WHERE detached_at IS NOT NULL"),
)


def up(migrator, db):
    for name, rows in RARE:
        db.execute_sql(f"CREATE INDEX {name} ON {rows}")
