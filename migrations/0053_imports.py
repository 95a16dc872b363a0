"""Posts that were brought from another instance, and an index of those that were made here."""

from peewee import SQL, BigIntegerField, ForeignKeyField, Model, TextField


def up(migrator, db):
    class Post(Model):
        channel = TextField()

        class Meta:
            database = db
            table_name = "post"

    class ImportedPost(Model):
        post = ForeignKeyField(Post, primary_key=True)
        original_uid = TextField()
        original_at = BigIntegerField()
        instance = TextField()

        class Meta:
            database = db
            table_name = "imported_post"
            strict_tables = True

    db.create_tables([ImportedPost])
    said_here = Post.index(Post.id, where=SQL("channel <> 'import'"), name="post_said_here")
    db.execute(said_here)
