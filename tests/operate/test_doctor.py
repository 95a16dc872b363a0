"""The doctor's findings: what is wrong with an instance, and what to do about it."""

import os
import re
from argparse import Namespace
from pathlib import Path

import ground
import pytest
from service import NOW
from test_backups import FUTURE, damage, leave, opened, run, settings_for

import jobs
import models
import storage
from cli import processes, server
from operate import backups, doctor
from storage import files

HOUR_MS = 3_600_000
pytestmark = ground.sqlite_only


def list_found(given, level, now=NOW):
    return [one for one in doctor.examine(given, now) if one.level == level]


def complain(given, now=NOW):
    """The `wrong` findings as one text."""
    return "\n".join(f"{one.text} -> {one.advice}" for one in list_found(given, "wrong", now))


# ---- the database --------------------------------------------------------------------------------
def test_doctor_says_what_is_wrong_and_what_to_do(service):
    folder, database = service.config.data_dir, service.config.database_path
    service.make_bot()
    jobs.note_job("observer", "ok", NOW)
    assert complain(service.config) == ""
    (folder / "secret_key").write_text("")
    (folder / "app.db.before-0002_more").write_bytes(b"x")
    (folder / "notes.txt").write_text("mine")
    (folder / "server.log").touch(0o600)
    os.chmod(folder / "notes.txt", 0o644)
    os.chmod(folder, 0o755)
    models.Owner.update(created_at=NOW - 2 * HOUR_MS).execute()
    jobs.note_job("scout", "ok", NOW - 600_000)
    told = complain(service.config)
    for words in ("secret_key is too short", "notes.txt", "chmod 600"):
        assert words in told
    assert "the job scout has not run since" in told
    looked = "\n".join(one.text for one in list_found(service.config, "look"))
    assert "before a migration" in looked and re.search("notes.txt.*an unknown file", looked)
    # `app.py demo` writes this file and prints its path.
    assert "server.log" not in looked
    assert "the clock says" in complain(service.config, NOW - HOUR_MS)
    leave()
    run(database, FUTURE)
    assert "newer version" in complain(service.config)
    database.write_bytes(b"not a database" * 100)
    assert "cannot be read" in complain(service.config)


def test_an_interrupted_transaction_is_rolled_back_before_reading(tmp_path, service):
    """A journal shows it; a reader couldn't roll it back. Before, there is no instance."""
    given, path = settings_for(tmp_path / "cut"), service.config.database_path
    assert complain(given) == "" and not given.data_dir.exists()
    given.data_dir.mkdir(mode=0o700)
    leave()
    with opened(path) as db:
        db.pragma("journal_mode", "delete")
        # So that pages are written before the transaction ends.
        db.pragma("cache_size", 1)
        db.execute("BEGIN")
        db.execute("CREATE TABLE more (id INTEGER)")
        for _ in range(50):
            db.execute("INSERT INTO more VALUES (randomblob(4000))")
        for side in ("", "-journal"):
            copy = given.data_dir / f"app.db{side}"
            copy.write_bytes(path.with_name(f"app.db{side}").read_bytes())
            copy.chmod(0o600)
        db.execute("ROLLBACK")
    assert complain(given) == ""
    assert backups.store_backup(given, tmp_path / "safe.db").foreign == ()


def test_doctor_finds_damaged_pages_and_rows(service):
    for n in range(40):
        service.make_bot(f"Bot {n}")
    with storage.database.connection_context():
        storage.database.execute_sql("PRAGMA foreign_keys = OFF")
        storage.database.execute_sql("DELETE FROM owner WHERE id = 1")
    assert "a row of bot refers to a missing row of owner" in complain(service.config)
    leave()
    damage(service.config.database_path)
    assert "restore the newest backup" in complain(service.config)


def test_doctor_reports_a_read_only_or_missing_database(service):
    service.make_bot()
    leave()
    path = service.config.database_path
    path.chmod(0o400)
    assert "app.db is read-only" in complain(service.config)
    for file in service.config.data_dir.glob("app.db*"):
        # a reader made app.db-shm, with the mode of app.db
        file.chmod(0o600)
    assert complain(service.config) == ""
    (service.config.data_dir / "secret_key").write_text("0" * 64)
    path.unlink()
    assert "app.db is missing" in complain(service.config)


# ---- jobs and clocks -----------------------------------------------------------------------------
def test_a_job_may_fail_for_an_hour_before_a_finding(service):
    service.make_bot()
    for ago, level in ((4_000_000, "wrong"), (3_000_000, "look")):
        jobs.note_job("observer", "ok", NOW - ago)
        jobs.note_job("observer", "failing", NOW, "every endpoint is paused")
        found = doctor.examine(service.config, NOW)
        (told,) = [one for one in found if "observer is failing" in one.text]
        assert told.level == level and "(every endpoint is paused)" in told.text


def test_doctor_reports_rows_from_the_future(service):
    """A clock ran fast and was corrected, or is now slow."""
    bot = service.make_bot()
    models.Session.create(owner=bot.owner, hash="0" * 64, created_at=NOW, seen_at=NOW)
    models.Wallet.create(address="a", bot=bot.bot, created_at=NOW)
    for change in ("session SET seen_at", "wallet SET polled_at", "key SET created_at"):
        assert complain(service.config) == ""
        storage.database.execute_sql(f"UPDATE {change} = ?", (NOW + 24 * HOUR_MS,))
        told = complain(service.config)
        assert "1 d behind the newest stored time" in told and "timedatectl set-ntp true" in told
        assert "If it is right, it was ahead" in told
        storage.database.execute_sql(f"UPDATE {change} = ?", (NOW,))
    assert "this program is newer" in complain(service.config, 1_000)


def test_doctor_reports_clock_differences_from_a_node():
    for off_seconds, words, advice in (
        (-7_500, "2 h 5 min behind", "the clock is wrong"),
        (90_061, "1 d 1 h later", "the endpoint lags"),
        (100, "1 min 40 s later", "the endpoint lags"),
    ):
        told = doctor.compare_clock(2, NOW, NOW + 1000 * off_seconds)
        assert told.level == "wrong" and "endpoint 2" in told.text
        assert told.text.endswith(words) and advice in told.advice and "timedatectl" in told.advice


# ---- DATA_DIR on a network filesystem ------------------------------------------------------------
# Debian with an encrypted disk, an automounted NFS home, a share with a space and a backslash in
# its name, and a folder of the share bound to another place.
DEBIAN = r"""22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw,errors=remount-ro
31 28 0:26 / /home rw,relatime shared:14 - autofs systemd-1 rw,fd=29,pgrp=1,timeout=0,direct
90 31 0:52 / /home rw,relatime shared:50 - nfs4 nas.lan:/export/home rw,vers=4.2,hard,proto=tcp
95 28 0:53 / /mnt/team\040share\134old rw,relatime shared:52 - cifs //nas/team\040share rw,vers=3
96 28 0:53 /candor /srv/candor rw,relatime shared:52 - cifs //nas/team\040share rw,vers=3.1.1
97 96 254:3 / /srv/candor/disk rw,relatime - xfs /dev/sdb1 rw,attr2,inode64
98 28 0:54 / /media/remote rw,nosuid,nodev - fuse.sshfs me@host:/data rw,user_id=0,group_id=0
99 28 0:55 / /media/pool rw,relatime - fuse.mergerfs a:b rw,user_id=0,group_id=0,allow_other
100 28 8:17 / /media/stick rw,relatime - fuseblk /dev/sdc1 rw,user_id=0,group_id=0
101 28 0:56 / /mnt/café rw - nfs nas.lan:/export rw,vers=3
"""
DOCKER = """600 500 0:60 / / rw,master:20 - overlay overlay rw,lowerdir=/l/A,upperdir=/d
601 600 0:62 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
650 600 0:50 /volumes/data/_data /data rw,relatime master:30 - nfs4 10.0.0.5:/volumes rw,vers=4.1
651 600 8:1 /var/lib/docker/volumes/x/_data /local rw,relatime master:1 - ext4 /dev/sda1 rw
652 600 0:63 / /host rw,noatime - 9p C:\\134 rw,aname=drvfs;path=C:\\134,uid=1000,trans=fd
653 600 0:64 / /Users rw,nosuid,nodev,relatime - virtiofs virtiofs0 rw
"""


@pytest.mark.parametrize(
    "mountinfo, folder, kind, warned",
    [
        (DEBIAN, "/var/lib/candor", "ext4", False),
        # The mount on top of the automounter's.
        (DEBIAN, "/home/me/candor/data", "nfs4", True),
        (DEBIAN, "/homestead/data", "ext4", False),
        (DEBIAN, "/mnt/team share\\old/data", "cifs", True),
        # A bind mount, and a local disk mounted inside it.
        (DEBIAN, "/srv/candor", "cifs", True),
        (DEBIAN, "/srv/candor/disk/data", "xfs", False),
        (DEBIAN, "/media/remote/data", "fuse.sshfs", True),
        (DEBIAN, "/media/pool/data", "fuse.mergerfs", False),
        (DEBIAN, "/media/stick", "fuseblk", False),
        (DEBIAN, "/mnt/café/data", "nfs", True),
        (DOCKER, "/app/data", "overlay", False),
        (DOCKER, "/data", "nfs4", True),
        (DOCKER, "/local/data", "ext4", False),
        (DOCKER, "/host/data", "9p", True),
        (DOCKER, "/Users/me/data", "virtiofs", True),
        ("", "/data", "", False),
        ("nonsense\n1 2 3 / /data - nfs4\n - \n", "/data", "", False),
    ],
)
def test_the_filesystem_of_a_folder_is_recognized(mountinfo, folder, kind, warned):
    assert doctor.find_type(Path(folder), mountinfo) == kind
    assert doctor.is_network(kind) is warned


@pytest.fixture
def on_nfs(tmp_path, monkeypatch):
    """A folder that the system reports as NFS; DATA_DIR is a link to it."""
    (tmp_path / "share").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "share")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "28 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"90 28 0:52 / {tmp_path}/share rw - nfs4 nas.lan:/candor rw\n"
    )
    monkeypatch.setattr(doctor, "MOUNTINFO", mounts)
    return settings_for(tmp_path / "data")


def list_warnings(given):
    return [one.text for one in doctor.examine(given, 1) if "filesystem" in one.text]


def test_startup_warns_and_continues(on_nfs, monkeypatch, capsys):
    served = []
    monkeypatch.setattr(processes, "serve", lambda: served.append(1))
    monkeypatch.setenv("LISTEN_FDS", "1")
    server.run_server(on_nfs, Namespace())
    files.unlock_data_dir()
    (warning,) = [line for line in capsys.readouterr().out.splitlines() if "nfs4" in line]
    assert "Warning" in warning and "local disk" in warning and served


def test_doctor_warns_about_network_filesystems_except_with_postgresql_or_without_linux(
    on_nfs, monkeypatch
):
    (text,) = list_warnings(on_nfs)
    assert str(on_nfs.data_dir) in text and "nfs4" in text and "lose data" in text
    served = on_nfs.model_copy(update={"database_url": "postgresql://127.0.0.1:1/candor"})
    assert list(doctor.check_filesystem(served)) == []
    monkeypatch.setattr(doctor, "MOUNTINFO", Path("/nowhere/mountinfo"))
    assert list_warnings(on_nfs) == []
