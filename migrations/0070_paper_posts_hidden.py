"""Posts of paper traders can be reported and hidden, as those of bots."""

from peewee import AutoField, BigIntegerField, Check, ForeignKeyField, Model, TextField

ONE_POST = "(post_id IS NULL) <> (paper_post_id IS NULL)"


def up(migrator, db):
    migrator.migrate(migrator.add_column("paper_post", "hidden_at", BigIntegerField(null=True)))
    if db.engine != "sqlite":
        db.execute_sql("ALTER TABLE report ALTER COLUMN post_id DROP NOT NULL")
        db.execute_sql(
            "ALTER TABLE report ADD COLUMN paper_post_id BIGINT REFERENCES paper_post (id)"
        )
        db.execute_sql("CREATE INDEX report_paper_post_id ON report (paper_post_id)")
        db.execute_sql(f"ALTER TABLE report ADD CHECK ({ONE_POST})")
        return

    class Post(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "post"

    class PaperPost(Model):
        id = AutoField()

        class Meta:
            database = db
            table_name = "paper_post"

    class Report(Model):
        id = AutoField()
        uid = TextField(unique=True)
        post = ForeignKeyField(Post, null=True)
        paper_post = ForeignKeyField(PaperPost, null=True)
        about = TextField()
        note = TextField()
        at = BigIntegerField()
        dismissed_at = BigIntegerField(null=True)

        class Meta:
            database = db
            table_name = "report"
            strict_tables = True
            constraints = (Check(ONE_POST),)

    # SQLite cannot take NOT NULL away from a column.
    columns = ("id", "uid", "post_id", "about", "note", "at", "dismissed_at")
    rows = db.execute_sql(f"SELECT {', '.join(columns)} FROM report ORDER BY id").fetchall()
    db.drop_tables([Report])
    db.create_tables([Report])
    for row in rows:
        Report.insert(dict(zip(columns, row, strict=True))).execute()
