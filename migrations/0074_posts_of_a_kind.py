"""Posts of a source and a status have an index: of all, of a token, of a bot, and of both; what
nothing fits is found to be empty without looking at each post.
"""

REPLACED = ("post_source_id", "post_mint_source_id")
KINDS_OF = ("", "mint", "bot_id", "bot_id mint")


def up(migrator, db):
    for name in REPLACED:
        db.execute_sql(f"DROP INDEX {name}")
    for of in KINDS_OF:
        columns = [*of.split(), "source", "status", "id"]
        db.execute_sql(f"CREATE INDEX post_{'_'.join(columns)} ON post ({', '.join(columns)})")
