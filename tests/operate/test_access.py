"""Files in DATA_DIR that this user, or the server's, can't read or write: the message says so,
doesn't suggest restoring a backup, and no command prints a stack trace.
"""

import contextlib
import io
import json
import os
import shutil
import tempfile
import traceback
from pathlib import Path
from unittest import mock

import apsw
import ground
import pytest
from test_backups import leave

from cli import now_ms, parser
from config import load
from operate import backups, doctor
from storage import files

NOBODY = 65534
pytestmark = ground.sqlite_only
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files to other users")


@pytest.fixture
def instance():
    """The settings of an instance whose folder and files belong to a non-root user."""
    folder = Path(tempfile.mkdtemp(prefix="candor-access-"))
    config = load({"DATA_DIR": str(folder)}, dotenv=None)
    backups.migrate(config)
    files.secret_key(config)
    leave()
    if os.geteuid() == 0:
        give(NOBODY, folder, *folder.iterdir())
    yield config
    folder.chmod(0o700)
    shutil.rmtree(folder)


def give(user, *paths):
    for path in paths:
        os.chown(path, user, user)


def run_plain(function):
    """A function's JSON result in another process with a non-root user."""
    # Its imports are loaded before, because the library's folder may be closed to that user.
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with open(told, "w") as file:
                json.dump(function(), file)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(told)
    with open(heard) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text)


def list_wrong(config, deep=False):
    found = doctor.examine(config, now_ms(), deep=deep)
    return [f"{one.text} -> {one.advice}" for one in found if one.level == "wrong"]


def complain(config):
    return run_plain(lambda: list_wrong(config, deep=True))


def run(config, *argv):
    """Exit code and output of a command, as a non-root user."""
    os.environ["DATA_DIR"] = str(config.data_dir)

    def work():
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = parser.main(argv)
        return [code, out.getvalue()]

    # As this user first, so that everything is loaded.
    work()
    leave()
    if os.geteuid() == 0:
        give(NOBODY, *config.data_dir.iterdir())
    return lambda: run_plain(work)


FILES = pytest.mark.parametrize("name", ["app.db", "open.lock", "log_key", "secret_key"])


@as_root
@FILES
def test_a_file_left_by_root_is_named_without_advising_a_restore(instance, name):
    give(0, instance.data_dir / name)
    # Seen by the server's user, and by root, who can use everything.
    for told in (complain(instance), list_wrong(instance)):
        (one,) = told
        assert f"{name} belong to user root, so user nobody can't use them" in one
        assert f"chown -R {NOBODY}: {instance.data_dir}" in one and "don't restore a backup" in one


@as_root
def test_root_is_told_who_owns_the_instance_and_may_own_files_the_server_only_reads(instance):
    found = [one.text for one in doctor.examine(instance, now_ms())]
    (told,) = [text for text in found if "this is root" in text]
    assert "belongs to user nobody" in told
    for name in ("programs.csv", "about.txt"):
        (instance.data_dir / name).write_text("")
        (instance.data_dir / name).chmod(0o644)
    assert complain(instance) == []


@as_root
def test_a_folder_of_another_user_is_reported(instance):
    give(0, instance.data_dir)
    (told,) = complain(instance)
    assert f"{instance.data_dir} belongs to user root, but this command runs as user nobody" in told
    assert "don't restore a backup" in told


@FILES
def test_a_file_its_own_user_cannot_read_is_not_damage(instance, name):
    (instance.data_dir / name).chmod(0)
    (told,) = complain(instance)
    assert f"{name} cannot be read" in told and "chmod 600" in told and "restore" not in told


def test_an_invalid_log_key_is_named(instance):
    for text in (b"garbage", b"0" * 63, b"\xff" * 64):
        (instance.data_dir / "log_key").write_bytes(text)
        (told,) = complain(instance)
        assert "log_key doesn't contain 64 hexadecimal digits" in told
        assert "restore your saved copy" in told


def test_a_database_locked_by_another_program_is_not_called_damaged(instance, monkeypatch):
    locked = mock.Mock(side_effect=apsw.BusyError("database is locked"))
    monkeypatch.setattr(backups, "open_reading", locked)
    for deep in (False, True):
        told = list_wrong(instance, deep)
        assert told and not [one for one in told if "--replace" in one]


@pytest.mark.parametrize("argv", ["bot list", "log", "doctor", "admin audit"])
def test_a_command_without_permission_says_so(instance, monkeypatch, argv):
    monkeypatch.setenv("DATA_DIR", str(instance.data_dir))
    again = run(instance, *argv.split())
    for name in ("app.db", "open.lock", "log_key", "."):
        path = instance.data_dir / name
        mode = path.stat().st_mode
        path.chmod(0)
        code, told = again()
        path.chmod(mode)
        assert "Traceback" not in told
        if name != "log_key" or argv in ("log", "doctor"):
            assert code == 1 and str(instance.data_dir) in told, (name, told)


@as_root
def test_files_created_by_a_root_command_belong_to_the_server(instance, monkeypatch, tmp_path):
    """In the folder of an instance, and in an empty one made by systemd."""
    monkeypatch.setenv("DATA_DIR", str(instance.data_dir))
    mine, outside = instance.data_dir / "programs.csv", tmp_path / "outside"
    mine.write_text("")
    outside.write_text("root's")
    linked, named = (instance.data_dir / f"app.db.before-{kind}" for kind in ("link", "name"))
    linked.symlink_to(outside)
    named.hardlink_to(outside)
    safe = tmp_path / "safe.db"
    for command in ("bot create --name Nell", f"backup {safe}", f"restore {safe} --replace", "log"):
        assert parser.main(command.split()) == 0
        leave()
    for path in {*instance.data_dir.iterdir()} - {mine, linked, named}:
        assert path.stat().st_uid == NOBODY, path
    assert {one.stat().st_uid for one in (mine, outside, safe)} == {0}
    mine.chmod(0o644)
    linked.unlink()
    named.unlink()
    assert complain(instance) == []
    for path in instance.data_dir.iterdir():
        path.unlink()
    assert parser.main(["migrate"]) == 0
    leave()
    assert complain(instance) == []
