"""The command line: what it prints, how it exits, and that it never repeats a secret."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import ground
import pytest
from sampling import sample
from service import address, signature

import app
from accounts import owners
from config import VERSION
from models import Bot, Key, Post, Wallet
from paper.tables import Period, Trader
from storage import database, list_migrations

ROOT = Path(__file__).resolve().parents[2]
SEED = "abandon ability able about above absent absorb abstract absurd abuse access accident"


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """cli(*argv) -> (exit code, stdout, stderr), over its own migrated database."""
    ground.enter(monkeypatch, tmp_path / "data")
    ground.copy_empty(ground.settings_of(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        if database.obj is not None:
            # The test's own queries are done.
            database.close_all()
        try:
            code = app.main(list(argv))
        except SystemExit as left:
            code = left.code
        out = capsys.readouterr()
        return code, out.out, out.err

    assert run("migrate")[0] == 0
    yield run
    database.close_all()


def shown(cli, *argv):
    code, out, err = cli(*argv, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


# ---- bots and keys -------------------------------------------------------------------------------
def test_keys_can_be_created_from_an_empty_instance(cli):
    made = shown(cli, "bot", "create", "--name", "Ada", "--wallet", address("w"))
    assert set(made) == {"botId", "ownerId", "publishKey", "recoveryCode"}
    assert made["publishKey"].startswith("cnd_pub_") and made["recoveryCode"]
    second = shown(cli, "bot", "create", "--name", "Bob", "--owner", made["ownerId"])
    assert second["recoveryCode"] is None and second["ownerId"] == made["ownerId"]
    create = ("key", "create", "--scope")
    read = shown(cli, *create, "read", "--owner", made["ownerId"], "--name", "laptop")
    publish = shown(cli, *create, "publish", "--bot", made["botId"])
    assert read["key"].startswith("cnd_read_") and publish["key"].startswith("cnd_pub_")
    listed = shown(cli, "key", "list")["data"]
    assert [(row["scope"], row["name"], row["botId"]) for row in listed] == [
        ("publish", "", made["botId"]),
        ("publish", "", second["botId"]),
        ("read", "laptop", None),
        ("publish", "", made["botId"]),
    ]
    assert listed[2]["key"] == "cnd_read_..." + read["key"][-4:] and read["key"] not in str(listed)
    assert shown(cli, "key", "revoke", read["keyId"]) == {"keyId": read["keyId"], "revoked": True}
    assert Key.get(Key.uid == read["keyId"]).revoked_at
    assert [row["wallet"] for row in shown(cli, "bot", "list")["data"]] == [address("w"), None]
    # Without --json, it is text.
    code, out, err = cli("bot", "create", "--name", "Eve")
    assert code == 0 and "cnd_pub_" in out and "shown again" in out and err == ""
    assert cli("bot", "list")[1].strip().endswith("Eve") and "publish" in cli("key", "list")[1]


def test_a_key_expires_after_a_possible_number_of_days(cli):
    made = shown(cli, "bot", "create", "--name", "Ada")
    argv = ("key", "create", "--owner", made["ownerId"], "--scope", "read", "--days")
    key = Key.get(Key.uid == shown(cli, *argv, "2")["keyId"])
    assert key.expires_at - key.created_at == 2 * 86_400_000
    assert cli(*argv, "soon")[0] == 2
    for days in ("0", "-1", str(10**40)):
        code, _, err = cli(*argv[:-1], f"--days={days}")
        assert code == 1 and "--days" in err


def test_the_operator_replaces_a_lost_recovery_code(cli):
    made = shown(cli, "bot", "create", "--name", "Ada")
    new = shown(cli, "owner", "recovery", made["ownerId"])
    assert new["ownerId"] == made["ownerId"] and new["recoveryCode"] != made["recoveryCode"]
    assert owners.recover_owner(made["recoveryCode"]) is None
    assert owners.recover_owner(new["recoveryCode"])[0].uid == made["ownerId"]


def test_wallet_voice_retirement_and_hiding_have_commands(cli):
    bot = shown(cli, "bot", "create", "--name", "Ada")["botId"]
    assert shown(cli, "bot", "wallet", bot, address("w"))["wallet"] == address("w")
    assert shown(cli, "bot", "wallet", bot, "none")["wallet"] is None
    assert shown(cli, "bot", "voice", bot, "--tone", "wry")["tone"] == "wry"
    told = {"uid": "post_x", "source": "bot", "channel": "api", "event_id": "e", "body": "b"}
    Post.create(bot=Bot.get(), event_at=1, created_at=1, **told)
    assert shown(cli, "post", "hide", "post_x") == {"postId": "post_x", "hidden": True}
    # The row stays, without text.
    assert (Post.get().body, Post.get().hidden_at is not None) == ("", True)
    assert shown(cli, "bot", "retire", bot)["retired"] is True
    code, _, err = cli("bot", "wallet", bot, address("w"))
    assert code == 1 and "retired" in err


# ---- paper traders -------------------------------------------------------------------------------
@pytest.fixture
def trader(cli):
    """What `trader create` shows."""
    return shown(cli, "trader", "create", "--name", "Ada Paper", "--family", "momentum")


def test_a_trader_is_created_and_listed(cli, trader):
    assert set(trader) == {"traderId", "ownerId", "recoveryCode"} and trader["recoveryCode"]
    more = ("--start", "standard", "--owner", trader["ownerId"])
    second = shown(cli, "trader", "create", "--name", "Bo", "--family", "flow", *more)
    assert second["ownerId"] == trader["ownerId"] and second["recoveryCode"] is None
    rows = shown(cli, "trader", "list")["data"]
    told = [(row["name"], row["family"], row["retired"]) for row in rows]
    assert told == [("Ada Paper", "momentum", False), ("Bo", "flow", False)]
    voice = shown(cli, "trader", "voice", trader["traderId"], "--tone", "solemn")
    assert voice["tone"] == "solemn"
    assert '"tone":"solemn"' in Trader.get(Trader.uid == trader["traderId"]).voice
    code, out, _ = cli("rebuild", "--trader", trader["traderId"])
    assert code == 0 and "nothing changed" in out


def test_a_review_is_opened_cleared_and_withholds_a_reset(cli, trader):
    uid = trader["traderId"]
    assert shown(cli, "review", "open", uid, "--reason", "a look")["review"] == "under_review"
    assert cli("review", "open", uid, "--reason", "again")[0] == 1
    assert cli("trader", "reset", uid, "--reason", "early")[0] == 1
    assert shown(cli, "review", "clear", uid, "--reason", "fine")["review"] == "cleared"
    code, _, err = cli("review", "uphold", uid, "--reason", "late")
    assert code == 1 and "no open review" in err
    assert shown(cli, "trader", "reset", uid, "--reason", "fresh")["period"] == 2
    assert Period.select().where(Period.twin == 0).count() == 2


# ---- errors --------------------------------------------------------------------------------------
REFUSED = """
bot wallet bot_nobody none
bot retire bot_nobody
bot voice bot_nobody --tone x
bot create --name ""
bot create --name receipt_verified
bot create --name x --wallet nonsense
bot create --name x --owner owner_nobody
key revoke key_nobody
key create --scope read --owner owner_nobody
key create --scope read
key create --scope publish
owner recovery owner_nobody
post hide post_nobody
trader create --name vérified --family flow
trader create --name "" --family flow
trader create --name Ada --family flow --owner owner_x
trader voice trader_x --tone dry
review clear trader_x --reason x
rebuild --trader trader_x
"""


def test_errors_are_one_sentence_on_stderr(cli):
    for line in REFUSED.strip().splitlines():
        code, out, err = cli(*shlex.split(line))
        assert (code, out, len(err.strip().splitlines())) == (1, "", 1), line
        assert "Traceback" not in err, line
    assert not Trader.select().exists() and not Bot.select().exists()


MISUSED = """

nonsense
bot
bot create
bot list --colour
bot wallet x
key create --scope write
trader create --name Ada --family astrology
trader create --name Ada
review clear trader_x
backup ""
backup .
restore /
"""


def test_wrong_usage_exits_with_2_and_shows_the_usage(cli):
    for line in MISUSED.splitlines()[1:]:
        code, out, err = cli(*shlex.split(line))
        assert (code, out, "usage" in err) == (2, "", True), line
        # An argument that names no file.
        assert ("FILE: must be a file name" in err) == line.startswith(("backup", "restore")), line


def test_a_number_outside_the_list_is_refused(cli):
    for number in (0, -1, 2**63, 10**40):
        code, _, err = cli("admin", "audit", f"--before={number}")
        assert code == 1 and err.startswith("--before") and str(2**63 - 1) in err, number
    assert cli("admin", "audit", f"--before={2**63 - 1}")[0] == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("--wallet", SEED),
        ("--wallet", *SEED.split()),
        ("--wallet", signature("secret")),
        ("--wallet", json.dumps(list(range(64)))),
        ("--wallet=" + SEED,),
        ("--walet", SEED),
    ],
)
def test_a_secret_on_the_command_line_is_not_stored_or_repeated(cli, argv, tmp_path):
    code, out, err = cli("bot", "create", "--name", "x", *argv)
    secrets = (*SEED.split()[:6], signature("secret"), "61, 62")
    assert code in (1, 2) and not any(word in out + err for word in secrets)
    assert Wallet.select().count() == 0
    database.close_all()
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())
    assert SEED.encode() not in stored and signature("secret").encode() not in stored


# ---- settings and databases ----------------------------------------------------------------------
def test_the_version_is_printed(cli):
    assert cli("--version") == (0, f"candor {VERSION}\n", "")


def test_a_bad_setting_is_named(cli, monkeypatch):
    monkeypatch.setenv("PORT", "ninety")
    code, _, err = cli("bot", "list")
    assert code == 1 and "PORT" in err and "ninety" not in err


# On PostgreSQL, deleting DATA_DIR leaves the database.
@ground.sqlite_only
@pytest.mark.parametrize(
    "argv, code, told",
    [
        (("witness", "http://127.0.0.1:1"), 3, "cannot_tell: http://127.0.0.1:1: it could not be"),
        (("log",), 1, "DATA_DIR has no database yet"),
    ],
)
def test_witness_and_log_start_empty(cli, argv, code, told):
    """A witness may never have run an instance: DATA_DIR doesn't exist."""
    database.close_all()
    shutil.rmtree(os.environ["DATA_DIR"])
    ended, out, err = cli(*argv)
    assert (ended, told in out + err) == (code, True), out + err


def test_a_missing_migration_is_reported(tmp_path, cli, monkeypatch):
    ground.enter(monkeypatch, tmp_path / "fresh", migrated=False)
    code, _, err = cli("bot", "list")
    assert code == 1 and "migrate" in err


READING = ("bot list", "key list", "hook list", "admin audit", "trader list", "log", "rebuild")


@pytest.mark.parametrize("command", READING)
@ground.sqlite_only
def test_a_missing_database_is_reported_and_not_created(tmp_path, cli, monkeypatch, command):
    for exists in (False, True):
        folder = tmp_path / f"fresh {exists}"
        monkeypatch.setenv("DATA_DIR", str(folder))
        if exists:
            folder.mkdir()
        code, out, err = cli(*command.split())
        assert (code, out) == (1, "") and "has no database yet" in err and err.count("\n") == 1
        assert folder.exists() == exists and not list(folder.glob("*"))


@pytest.mark.parametrize("version, words", [("older", "migrate"), ("newer", "install")])
@pytest.mark.parametrize("command", sample(READING, 3))
def test_a_database_of_another_version_is_refused_in_one_sentence(cli, version, words, command):
    with database.connection_context():
        if version == "older":
            last = list_migrations()[-1]
            database.execute_sql("DELETE FROM schema_migration WHERE name = ?", (last,))
        else:
            row = "('9999_future', '2030-01-01')"
            database.execute_sql(f"INSERT INTO schema_migration (name, applied) VALUES {row}")
    code, out, err = cli(*command.split())
    assert (code, out) == (1, "") and f"{version} version" in err and words in err


# ---- in a process of its own ---------------------------------------------------------------------
# Slow imports that a command without a server or node doesn't need.
SLOW = "flask_limiter mcp observer papertrade requests scout werkzeug.serving"


def test_a_command_imports_only_what_it_needs(tmp_path):
    """For a quick start; `python -m bench speed` measures it."""
    environ = {**os.environ, **ground.environ(tmp_path / "data")}
    told = "import sys, app; assert app.main(['migrate']) == 0; print(*sys.modules)"
    argv, pipes = [sys.executable, "-c", told], {"capture_output": True, "text": True}
    done = subprocess.run(argv, cwd=ROOT, env=environ, check=True, **pipes)
    assert not set(SLOW.split()) & set(done.stdout.split())
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_closed_pipe_ends_a_command_quietly(cli):
    reader, writer = os.pipe()
    os.close(reader)
    argv, pipes = [sys.executable, ROOT / "app.py", "doctor"], {"stderr": subprocess.PIPE}
    done = subprocess.run(argv, stdout=writer, timeout=60, **pipes)
    os.close(writer)
    # 128 + 13 (SIGPIPE)
    assert (done.returncode, done.stderr) == (141, b"")
