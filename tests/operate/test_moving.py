"""From a file to PostgreSQL: all rows, the same ledger, and all or nothing."""

import ground
import orjson
import pytest
from service import NOW, Service, address, signature
from test_backups import leave

import app
import config
import models
import storage
from accounts import api_keys, influencers, posts, traders
from market.tables import Token
from models import Arrival, Trade
from operate import backups, schema
from operate.instance import Refused

pytestmark = ground.postgresql_only


@pytest.fixture
def target(tmp_path):
    """The URL of an empty database."""
    return ground.url_of(tmp_path / "target", migrated=False)


@pytest.fixture
def file(tmp_path):
    """The settings of an unused SQLite instance with some of everything."""
    settings = config.load({"DATA_DIR": str(tmp_path / "file")}, dotenv=None)
    storage.migrate(storage.connect(settings))
    with storage.database.connection_context():
        made = influencers.create_bot(settings, "Ada", NOW, address("ada"))
        api_keys.create_key(made.owner, "read", NOW, "reader")
        traders.create_trader("Tess", "momentum", NOW)
        words = 'words, \\N and\ta tab\n"quoted" % ? \U0001f600'
        posts.publish(made.bot.id, posts.PostBody(eventId="e", body=words), NOW)
        Service.observe_trade(None, address("ada"), "one", 10)
        Service.observe_trade(None, address("ada"), "gone", 11)
        Trade.delete().where(Trade.signature == signature("gone")).execute()
        stored = {"signature": "s", "slot": 1, "endpoint": "1", "digest": ""}
        models.Receipt.create(body=bytes(range(256)), **stored)
        Token.create(mint=address("t"), held=True, symbol="\\.", asked_at=2**62)
    leave()
    return settings


def everything():
    return {table.__name__: sorted(table.select().tuples(), key=repr) for table in schema.TABLES}


def test_all_rows_move_and_new_ones_follow_them(file, target):
    tables = backups.move(file, target)
    assert {one.table: one.rows for one in tables if one.rows} == {
        **{"owner": 2, "bot": 1, "key": 2, "wallet": 1, "attachment": 1, "address": 1},
        # The log's opening, the bot's profile, the attachment and the post.
        **{"log": 1, "log_leaf": 4},
        **{"receipt": 1, "sighting": 2, "trade": 1, "mint": 1, "trade_mint": 1},
        **{"running_total": 1, "post": 1, "arrival": 3, "token": 1},
        # Periods of the trader and of its three random-entry twins.
        **{"trader": 1, "period": 4},
    }
    with storage.connect(file).connection_context():
        before = everything()
    leave()
    with storage.connect(ground.change(file, database_url=target)).connection_context():
        assert everything() == before
        assert Token.get().held is True
        posts.publish(1, posts.PostBody(eventId="f", body="b"), NOW)
        assert [row.id for row in Arrival.select().order_by(Arrival.id)] == [1, 2, 3, 4]
    leave()


def test_a_row_that_differs_after_copying_undoes_everything(file, target, monkeypatch):
    """PostgreSQL stores no NUL, SQLite does."""
    with storage.connect(file).connection_context():
        storage.database.execute_sql("UPDATE token SET name = 'a' || char(0) || 'b'")
    leave()
    with pytest.raises(Refused, match="nothing was stored"):
        backups.move(file, target)
    empty = storage.open_postgresql(target)
    with empty.connection_context():
        assert empty.get_tables() == []
    empty.close_all()


def test_a_copy_needs_an_empty_target_this_schema_and_no_server(
    file, target, tmp_path, monkeypatch
):
    with pytest.raises(Refused, match="has tables"):
        backups.move(file, ground.url_of(tmp_path / "taken"))
    storage.connect(file)
    with pytest.raises(Refused, match="stop it first"):
        backups.move(file, target)
    leave()
    later = [*storage.list_migrations(), "9999_later"]
    monkeypatch.setattr(storage, "list_migrations", lambda: later)
    with pytest.raises(Refused, match="app.py migrate"):
        backups.move(file, target)


def test_the_command_reports_what_it_did_and_repeats_no_password(file, target, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", str(file.data_dir))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    server = "postgresql://candor:canary"
    for url in ("canary", f"{server}%zz@h/x", f"{server}@127.0.0.1", f"{server}@127.0.0.1:1/x"):
        assert app.main(["copy", "--to", url]) == 1
        said = capsys.readouterr()
        assert "canary" not in said.out + said.err and said.err
    assert app.main(["copy", "--to", target, "--json"]) == 0
    told = {one["table"] for one in orjson.loads(capsys.readouterr().out)["tables"]}
    assert told == {table._meta.table_name for table in schema.TABLES}


def test_on_postgresql_backup_and_restore_name_its_tools(file, target, tmp_path):
    served = ground.change(file, database_url=target)
    with pytest.raises(Refused, match="pg_dump"):
        backups.store_backup(served, tmp_path / "backup.db")
    with pytest.raises(Refused, match="pg_restore"):
        backups.restore_backup(served, tmp_path / "backup.db", False, NOW)
