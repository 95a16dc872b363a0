"""The command line: what it prints, how it exits, that it never repeats a secret, and that the docs
show its commands.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import ground
import pytest
from sampling import sample
from service import address, signature
from test_first_minute import JOBS_OFF

import app
from accounts import owners
from bench._ports import find_port
from cli import parser, processes
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
        # The test's own queries are done.
        if database.obj is not None:
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
    ada, owner = made["botId"], made["ownerId"]
    assert set(made) == {"botId", "ownerId", "publishKey", "recoveryCode"}
    assert made["publishKey"].startswith("cnd_pub_") and made["recoveryCode"]
    second = shown(cli, "bot", "create", "--name", "Bob", "--owner", owner)
    assert second["recoveryCode"] is None and second["ownerId"] == owner
    create = ("key", "create", "--scope")
    read = shown(cli, *create, "read", "--owner", owner, "--name", "laptop")
    publish = shown(cli, *create, "publish", "--bot", ada)
    assert read["key"].startswith("cnd_read_") and publish["key"].startswith("cnd_pub_")
    listed = shown(cli, "key", "list")["data"]
    told = [(row["scope"], row["name"], row["botId"]) for row in listed]
    of_ada, of_bob = (("publish", "", bot) for bot in (ada, second["botId"]))
    assert told == [of_ada, of_bob, ("read", "laptop", None), of_ada]
    assert listed[2]["key"] == "cnd_read_..." + read["key"][-4:] and read["key"] not in str(listed)
    assert shown(cli, "key", "revoke", read["keyId"]) == {"keyId": read["keyId"], "revoked": True}
    assert Key.get(Key.uid == read["keyId"]).revoked_at
    assert [row["wallet"] for row in shown(cli, "bot", "list")["data"]] == [address("w"), None]
    # Without --json, it is text.
    code, out, err = cli("bot", "create", "--name", "Eve")
    assert code == 0 and "cnd_pub_" in out and "shown again" in out and err == ""
    assert cli("bot", "list")[1].strip().endswith("Eve") and "publish" in cli("key", "list")[1]


def test_a_key_expires_after_a_possible_number_of_days(cli):
    owner = shown(cli, "bot", "create", "--name", "Ada")["ownerId"]
    argv = ("key", "create", "--owner", owner, "--scope", "read", "--days")
    key = Key.get(Key.uid == shown(cli, *argv, "2")["keyId"])
    assert key.expires_at - key.created_at == 2 * 86_400_000
    assert cli(*argv, "soon")[0] == 2
    for days in ("0", "-1", str(10**40)):
        code, _, err = cli(*argv[:-1], f"--days={days}")
        assert code == 1 and "--days" in err


def test_the_operator_replaces_a_lost_recovery_code(cli):
    made = shown(cli, "bot", "create", "--name", "Ada")
    new = shown(cli, "owner", "recovery", made["ownerId"])
    assert owners.recover_owner(made["recoveryCode"]) is None
    assert owners.recover_owner(new["recoveryCode"])[0].uid == new["ownerId"] == made["ownerId"]


def test_wallet_voice_retirement_and_hiding_have_commands(cli):
    bot = shown(cli, "bot", "create", "--name", "Ada")["botId"]
    for given, held in ((address("w"), address("w")), ("none", None)):
        assert shown(cli, "bot", "wallet", bot, given)["wallet"] == held
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


def test_a_trader_is_created_listed_and_rebuilt_and_gets_a_voice(cli, trader):
    assert set(trader) == {"traderId", "ownerId", "recoveryCode"} and trader["recoveryCode"]
    uid, owner = trader["traderId"], trader["ownerId"]
    more = ("--start", "standard", "--owner", owner)
    second = shown(cli, "trader", "create", "--name", "Bo", "--family", "flow", *more)
    assert second["ownerId"] == owner and second["recoveryCode"] is None
    rows = shown(cli, "trader", "list")["data"]
    told = [(row["name"], row["family"], row["retired"]) for row in rows]
    assert told == [("Ada Paper", "momentum", False), ("Bo", "flow", False)]
    assert shown(cli, "trader", "voice", uid, "--tone", "solemn")["tone"] == "solemn"
    assert '"tone":"solemn"' in Trader.get(Trader.uid == uid).voice
    code, out, _ = cli("rebuild", "--trader", uid)
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


def test_a_secret_on_the_command_line_is_not_stored_or_repeated(cli, tmp_path):
    secrets = (*SEED.split()[:6], signature("secret"), "61, 62")
    for argv in (
        ("--wallet", SEED),
        ("--wallet", *SEED.split()),
        ("--wallet", signature("secret")),
        ("--wallet", json.dumps(list(range(64)))),
        ("--wallet=" + SEED,),
        ("--walet", SEED),
    ):
        code, out, err = cli("bot", "create", "--name", "x", *argv)
        assert code in (1, 2) and not any(word in out + err for word in secrets), argv
    assert Wallet.select().count() == 0
    database.close_all()
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())
    assert SEED.encode() not in stored and signature("secret").encode() not in stored


# ---- settings and databases ----------------------------------------------------------------------
def test_the_version_is_printed_and_a_bad_setting_named(cli, monkeypatch):
    assert cli("--version") == (0, f"candor {VERSION}\n", "")
    monkeypatch.setenv("PORT", "ninety")
    code, _, err = cli("bot", "list")
    assert code == 1 and "PORT" in err and "ninety" not in err


# On PostgreSQL, deleting DATA_DIR leaves the database.
@ground.sqlite_only
def test_a_witness_needs_no_instance_of_its_own(cli):
    database.close_all()
    shutil.rmtree(os.environ["DATA_DIR"])
    code, out, _ = cli("witness", "http://127.0.0.1:1")
    assert code == 3 and "cannot_tell: http://127.0.0.1:1: it could not be" in out


def test_a_missing_migration_is_reported(tmp_path, cli, monkeypatch):
    ground.enter(monkeypatch, tmp_path / "fresh", migrated=False)
    code, _, err = cli("bot", "list")
    assert code == 1 and "migrate" in err


READING = ("bot list", "key list", "hook list", "admin audit", "trader list", "log", "rebuild")


@ground.sqlite_only
def test_a_missing_database_is_reported_and_not_created(tmp_path, cli, monkeypatch):
    folder = tmp_path / "fresh"
    monkeypatch.setenv("DATA_DIR", str(folder))
    for exists in (False, True):
        if exists:
            folder.mkdir()
        for command in READING:
            code, out, err = cli(*command.split())
            assert (code, out) == (1, "") and "has no database yet" in err, command
            assert err.count("\n") == 1 and folder.exists() == exists
            assert not list(folder.glob("*"))


OLDER = f"DELETE FROM schema_migration WHERE name = '{list_migrations()[-1]}'"
NEWER = "INSERT INTO schema_migration (name, applied) VALUES ('9999_future', '2030-01-01')"


@pytest.mark.parametrize(
    "version, edit, words", [("older", OLDER, "migrate"), ("newer", NEWER, "install")]
)
def test_a_database_of_another_version_is_refused_in_one_sentence(cli, version, edit, words):
    with database.connection_context():
        database.execute_sql(edit)
    for command in sample(READING, 3):
        code, out, err = cli(*command.split())
        assert (code, out) == (1, "") and f"{version} version" in err and words in err, command


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


@ground.sqlite_only
def test_settings_and_data_come_from_the_working_directory_and_code_does_not(tmp_path):
    port, unset = find_port(), ("PORT", "DATA_DIR", "BASE_URL")
    for name in ("app.py", "serving.py", "gunicorn.conf.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the working directory')\n")
    (tmp_path / ".env").write_text(f"PORT={port}\n")
    environ = {name: one for name, one in {**os.environ, **JOBS_OFF}.items() if name not in unset}
    argv = [sys.executable, ROOT / "app.py", "run"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    server = subprocess.Popen(argv, cwd=tmp_path, env=environ, **pipes)
    with contextlib.closing(server.stdout):
        said = server.stdout.readline() + server.stdout.readline()
        assert f"http://127.0.0.1:{port}/connect" in said
        with socket.create_connection(("127.0.0.1", port), 20):
            assert (tmp_path / "data" / "app.db").exists()
        server.terminate()
        assert server.wait(60) == 0


def test_usage_shows_the_name_the_program_was_called_by():
    paths = ("app.py", "/usr/bin/pytest", "/home/x/.local/bin/candor", "./candor.pyz")
    named = [parser.name_program(path) for path in paths]
    assert named == ["app.py", "app.py", "candor", "candor.pyz"]


def test_a_frozen_program_restarts_itself_and_runs_others_with_their_interpreter(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["candor.pyz", "demo"])
    assert processes.find_command() == [sys.executable, "candor.pyz"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert processes.find_command() == [sys.executable]


def test_the_single_file_refuses_another_python_version_in_one_sentence():
    preamble = (ROOT / "deploy" / "single-file" / "preamble.py").read_text()
    preamble = preamble.replace("MACHINE", os.uname().machine)
    for version, refused in (("{}.{}".format(*sys.version_info), False), ("3.4", True)):
        text = preamble.replace("PYTHON", version)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert done.returncode == refused and ("make dist" in done.stderr) == refused


# ---- the docs ------------------------------------------------------------------------------------
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(path for path in sorted((ROOT / "deploy").iterdir()) if path.is_file()),
]
# Options of every command.
COMMON = {"-h", "--help", "--json"}


def list_options(command, path=""):
    """{command: its options} of the parser, without hidden ones."""
    found, shown = {}, [one for one in command._actions if one.help != argparse.SUPPRESS]
    for one in shown:
        if isinstance(one, argparse._SubParsersAction):
            for name, below in one.choices.items():
                found |= list_options(below, f"{path} {name}".strip())
    return found or {path: {name for one in shown for name in one.option_strings} - COMMON}


OPTIONS = list_options(parser.build_parser())


def find_command(text):
    """The command at the beginning of a text, or None."""
    words = text.split(" ")
    return next((one for one in (" ".join(words[:2]), words[0]) if one in OPTIONS), None)


def read_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z-]+", text))


def test_every_command_and_option_is_listed():
    told, text = {}, (ROOT / "docs" / "commands.md").read_text()
    for commands, meaning in re.findall(r"^\| (`.*) \| (.*) \|$", text, re.M):
        shown = re.findall(r"`([^`]+)`", commands)
        for text in shown:
            told.setdefault(find_command(text), set()).update(read_options(text))
        if len({find_command(text) for text in shown}) == 1:
            told[find_command(shown[0])] |= read_options(" ".join(re.findall(r"`[^`]+`", meaning)))
    assert {name: options - COMMON for name, options in told.items()} == OPTIONS


def test_commands_shown_on_pages_exist():
    """Up to the end of the shell command, the code or the line."""
    text = "\n".join(page.read_text() for page in PAGES)
    for shown in re.findall(r"(?:app\.py|candor) ([a-z][^`\n#;&|]*)", text):
        command = find_command(shown.strip())
        if command:
            assert read_options(shown) - COMMON <= OPTIONS[command], shown
