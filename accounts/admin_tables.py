"""Tables of the operator: the ways in, and what was done there. Units as in models.py."""

from peewee import AutoField, BigIntegerField, TextField

from models import Base
from storage.triggers import refuse_changes


class AdminLogin(Base):
    """A link that lets the operator in once. Its row goes when it is used, or later once it ended.

    `hash` is of the code in the link, which is stored nowhere.
    """

    id = AutoField()
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminSession(Base):
    """A browser of the operator: its cookie has a random text, this table the hash; deleting the
    row logs it out.
    """

    id = AutoField()
    uid = TextField(unique=True)
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    ends_at = BigIntegerField()


class AdminAct(Base):
    """What the operator did. Rows are only ever added: triggers refuse to change or delete one.

    `who`: `command line`, or the uid of a session; `what`: a word of accounts.acts.ACTS; `target`:
    the public id of what it was done to, or the name of a file; `reason`: as it was typed.
    """

    id = AutoField()
    at = BigIntegerField()
    who = TextField()
    what = TextField()
    target = TextField(null=True)
    reason = TextField(null=True)


TABLES = (AdminLogin, AdminSession, AdminAct)
STATEMENTS = refuse_changes("admin_act", "what the operator did is kept as it was written")
