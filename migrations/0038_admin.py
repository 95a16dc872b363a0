"""The operator's links, sessions and acts. Triggers keep every act as it was written."""

from peewee import AutoField, BigIntegerField, Model, TextField

SQLITE = tuple(
    f"CREATE TRIGGER admin_act_{name} BEFORE {event} ON admin_act BEGIN"
    " SELECT RAISE(ABORT, 'what the operator did is kept as it was written'); END"
    for name, event in (("changed", "UPDATE"), ("removed", "DELETE"))
)
POSTGRESQL = (
    "CREATE FUNCTION keep_admin_act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " RAISE EXCEPTION 'what the operator did is kept as it was written'; END $$",
    "CREATE TRIGGER admin_act_kept BEFORE UPDATE OR DELETE ON admin_act"
    " FOR EACH ROW EXECUTE FUNCTION keep_admin_act()",
)


def up(migrator, db):
    class AdminLogin(Model):
        id = AutoField()
        hash = TextField(unique=True)
        created_at = BigIntegerField()
        ends_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "admin_login"
            strict_tables = True

    class AdminSession(Model):
        id = AutoField()
        uid = TextField(unique=True)
        hash = TextField(unique=True)
        created_at = BigIntegerField()
        ends_at = BigIntegerField()

        class Meta:
            database = db
            table_name = "admin_session"
            strict_tables = True

    class AdminAct(Model):
        id = AutoField()
        at = BigIntegerField()
        who = TextField()
        what = TextField()
        target = TextField(null=True)
        reason = TextField(null=True)

        class Meta:
            database = db
            table_name = "admin_act"
            strict_tables = True

    db.create_tables([AdminLogin, AdminSession, AdminAct])
    for statement in SQLITE if db.engine == "sqlite" else POSTGRESQL:
        db.execute_sql(statement)
