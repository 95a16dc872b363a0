"""The order in which posts, trades and verifications reach followers; what is there already arrived
in the order of its ids.
"""

from peewee import ForeignKeyField, Model, TextField


def up(migrator, db):
    class Post(Model):
        class Meta:
            database = db
            table_name = "post"

    class Trade(Model):
        class Meta:
            database = db
            table_name = "trade"

    class Arrival(Model):
        kind = TextField()
        post = ForeignKeyField(Post, null=True)
        trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")

        class Meta:
            database = db
            table_name = "arrival"
            strict_tables = True
            indexes = ((("kind", "id"), False),)

    db.create_tables([Arrival])

    db.execute_sql("INSERT INTO arrival (kind, trade_id) SELECT 'trade', id FROM trade ORDER BY id")
    db.execute_sql("INSERT INTO arrival (kind, post_id) SELECT 'post', id FROM post ORDER BY id")
