"""How many bytes an owner's posts take, for the quota: kept from now on in each post's transaction,
counted here once. accounts.posts.measure_post counts alike.
"""

from peewee import BigIntegerField

OWN_BYTES = 300
WORDS = ("event_id", "body", "mint", "symbol", "signature", "reason")


def up(migrator, db):
    migrator.migrate(migrator.add_column("owner", "posts_bytes", BigIntegerField(default=0)))
    size = " + ".join(f"COALESCE(octet_length(p.{name}), 0)" for name in WORDS)
    db.execute_sql(
        f"""
        UPDATE owner SET posts_bytes = posts_bytes + COALESCE(
            (SELECT SUM({OWN_BYTES} + {size}) FROM post p JOIN bot b ON b.id = p.bot_id
                WHERE b.owner_id = owner.id), 0)"""
    )
