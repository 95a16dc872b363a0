"""Reports of posts, and bans of owners and wallets."""

from peewee import AutoField, BigIntegerField, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Post(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "post"

    class Report(Model):
        id = AutoField()
        uid = TextField(unique=True)
        post = ForeignKeyField(Post)
        about = TextField()
        note = TextField()
        at = BigIntegerField()
        dismissed_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "report"
            strict_tables = True

    class Ban(Model):
        id = AutoField()
        kind = TextField()
        target = TextField()
        reason = TextField()
        at = BigIntegerField()

        class Meta:
            database = db
            table_name = "ban"
            strict_tables = True
            indexes = ((("kind", "target"), True),)

    db.create_tables([Report, Ban])
