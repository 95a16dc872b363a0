"""The schema: migrations match the models, tables are strict, and the database settings prevent
data loss.
"""

import ground
import peewee
import pytest
from open_queries import OpenQuery

import models
import storage
from operate import schema


def test_migrations_create_the_models_schema(db):
    declared = {
        model._meta.table_name: {field.column_name for field in model._meta.sorted_fields}
        for model in schema.TABLES
    }
    tables = [one for one in db.get_tables() if not one.startswith(("post_words", "schema_"))]
    assert {table: {one.name for one in db.get_columns(table)} for table in tables} == declared


def test_migrations_create_every_index_of_the_models(db):
    declared, made = [], []
    for model in schema.TABLES:
        table = model._meta.table_name
        made += [(table, index.columns, index.unique) for index in db.get_indexes(table)]
        for index in model._meta.fields_to_index():
            # A descending column has extra text around it.
            columns = [getattr(one, "node", one).column_name for one in index._expressions]
            declared.append((table, columns, bool(index._unique)))
    assert [index for index in declared if index not in made] == [] and len(declared) > 100


@ground.sqlite_only
def test_no_index_is_a_prefix_of_another(db):
    """The longer index answers the same queries, unless the shorter one is unique or partial."""
    made = db.execute_sql(
        'SELECT m.name, l.name, l."unique", (SELECT group_concat(name) FROM'
        " pragma_index_info(l.name)) || ',' FROM sqlite_master m, pragma_index_list(m.name) l"
        " WHERE m.type = 'table' AND NOT l.partial"
    ).fetchall()
    assert len(made) > 50
    for table, name, unique, columns in made:
        longer = [other for of, other, _, its in made if of == table and its.startswith(columns)]
        assert unique or longer == [name], f"{longer} of {table}"


@ground.sqlite_only
def test_tables_are_strict(db):
    # FTS5 creates its own tables.
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'post_words%'"
    for name, made in db.execute_sql(sql):
        assert made.endswith("STRICT") or name == "schema_migration", name


@ground.sqlite_only
def test_every_commit_reaches_the_disk(durable, db):
    # 2 is FULL.
    for name, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
        assert db.execute_sql(f"PRAGMA {name}").fetchone() == (value,)


def test_sqlite_is_free_of_the_wal_reset_bug():
    assert tuple(map(int, storage.SQLite.version().split("."))) >= (3, 51, 3)


def test_a_wallet_has_at_most_one_open_attachment(db):
    owner = models.Owner.create(uid="owner_1", created_at=1)
    row = {"owner": owner, "name": "n", "voice": "{}", "created_at": 1}
    one, two = (models.Bot.create(uid=f"bot_{n}", handle=f"h{n}", **row) for n in range(2))
    wallet = models.Wallet.create(address="w", bot=one, created_at=1)
    models.Attachment.create(bot=one, wallet=wallet, attached_at=1, detached_at=2)
    models.Attachment.create(bot=one, wallet=wallet, attached_at=3)
    with pytest.raises(peewee.IntegrityError):
        models.Attachment.create(bot=two, wallet=wallet, attached_at=4)


# ---- the debug mode ------------------------------------------------------------------------------
@ground.sqlite_only
def test_writes_and_requests_during_an_open_query_are_refused(db):
    for n in range(3):
        models.Owner.create(uid=f"owner_{n}", created_at=0)
    rows = iter(models.Owner.select())
    first = next(rows)
    update = models.Owner.update(created_at=1).execute
    for write in (first.save, lambda: storage.migrate(db), update):
        with pytest.raises(OpenQuery, match="while a query is open: SELECT"):
            write()
    with pytest.raises(OpenQuery, match="a request"):
        ground.check_idle(db, "a request")
    list(rows)
    first.save()
    ground.check_idle(db, "a request")
    with storage.writing(), pytest.raises(OpenQuery, match="inside a transaction"):
        ground.check_idle(db, "a request")
