"""The startup and the doctor warn about a DATA_DIR on a network filesystem."""

from argparse import Namespace
from pathlib import Path

import pytest

from cli import processes, server
from config import load
from operate import doctor
from storage import files

# Debian with an encrypted disk, an automounted NFS home, a share with a blank and a backslash in
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
        # The mount that covers the automounter's.
        (DEBIAN, "/home/me/candor/data", "nfs4", True),
        (DEBIAN, "/homestead/data", "ext4", False),
        (DEBIAN, "/mnt/team share\\old/data", "cifs", True),
        # A bind mount, and a local disk mounted inside of it.
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
    """A folder that the system says is on NFS; DATA_DIR is a link to it."""
    (tmp_path / "share").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "share")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "28 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"90 28 0:52 / {tmp_path}/share rw - nfs4 nas.lan:/candor rw\n"
    )
    monkeypatch.setattr(doctor, "MOUNTINFO", mounts)
    return load({"DATA_DIR": str(tmp_path / "data")}, dotenv=None)


def list_warnings(config):
    return [one.text for one in doctor.examine(config, 1) if "filesystem" in one.text]


def test_doctor_warns_about_network_filesystems(on_nfs, monkeypatch):
    (text,) = list_warnings(on_nfs)
    assert str(on_nfs.data_dir) in text and "nfs4" in text and "lose data" in text


def test_startup_warns_and_continues(on_nfs, monkeypatch, capsys):
    served = []
    monkeypatch.setattr(processes, "serve", lambda: served.append(1))
    monkeypatch.setenv("LISTEN_FDS", "1")
    server.run_server(on_nfs, Namespace())
    files.unlock_data_dir()
    (warning,) = [line for line in capsys.readouterr().out.splitlines() if "nfs4" in line]
    assert "Warning" in warning and "local disk" in warning and served


def test_with_postgresql_or_without_linux_there_is_no_warning(on_nfs, monkeypatch):
    served = on_nfs.model_copy(update={"database_url": "postgresql://127.0.0.1:1/candor"})
    assert list(doctor.check_filesystem(served)) == []
    monkeypatch.setattr(doctor, "MOUNTINFO", Path("/nowhere/mountinfo"))
    assert list_warnings(on_nfs) == []
