"""No index that another one begins with; and those of arrivals that are asked for posts leave out
all others.
"""

GONE = (
    "address_wallet_id",
    "post_wallet_id",
    "post_bot_id",
    "arrival_kind_id",
    "arrival_post_id",
)
OF_POSTS = (
    ("arrival_about_post", "arrival (post_id) WHERE post_id IS NOT NULL"),
    ("arrival_of_post", "arrival (id, post_id) WHERE kind = 'post'"),
)


def up(migrator, db):
    for name in GONE:
        db.execute_sql(f"DROP INDEX {name}")
    for name, rows in OF_POSTS:
        db.execute_sql(f"CREATE INDEX {name} ON {rows}")
