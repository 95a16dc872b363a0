"""Find out whether DATA_DIR is on a filesystem where SQLite can lose data (Linux)."""

import re
from collections.abc import Iterator
from pathlib import Path

from config import Config
from operate.findings import Finding, look

MOUNTINFO = Path("/proc/self/mountinfo")
# Another machine keeps the files. Its locks and syncs can't be relied on
# (https://sqlite.org/faq.html#q5), and shared memory for the WAL doesn't work across machines.
NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda davfs gpfs lustre ncp ncpfs nfs nfs4 panfs pvfs2 smb3"
    " smbfs".split()
)
# Folders that a host shares with a virtual machine, WSL or Docker Desktop.
SHARED = frozenset("drvfs fakeowner prl_fs vboxsf virtiofs vmhgfs".split())
# Programs that show another machine's files. Unlike these, fuse.mergerfs, fuse.gocryptfs and most
# others keep files on a local disk.
FUSE = frozenset(
    "beegfs-fuse blobfuse blobfuse2 ceph ceph-fuse curlftpfs davfs davfs2 gcsfuse glusterfs goofys"
    " grpcfuse gvfsd-fuse juicefs mfs mount-s3 osxfs rclone s3fs seaweedfs smbnetfs sshfs"
    " vmhgfs-fuse".split()
)


def check_filesystem(config: Config) -> Iterator[Finding]:
    """Warn if SQLite's database is on a network filesystem. PostgreSQL's files are elsewhere."""
    try:
        mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        # Not Linux, or /proc is not mounted.
        return
    kind = find_type(config.data_dir.resolve(), mountinfo)
    if not config.database_url and is_network(kind):
        yield look(
            f"DATA_DIR ({config.data_dir}) is on a network or shared filesystem ({kind}), where"
            " SQLite can lose data",
            "stop the server, move DATA_DIR to a local disk and start it again; or use"
            " PostgreSQL (docs/scale.md)",
        )


def is_network(kind: str) -> bool:
    """Whether another machine keeps the files of a filesystem of this type."""
    return kind in NETWORK | SHARED or (kind.startswith("fuse.") and kind[5:] in FUSE)


def find_type(folder: Path, mountinfo: str) -> str:
    """Return the type of the filesystem that a resolved path is on; "" if `mountinfo` lacks it.

    `mountinfo`: the text of /proc/self/mountinfo, described in proc_pid_mountinfo(5).
    """
    found, depth = "", 0
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        names, kinds = left.split(" "), right.split(" ")
        if len(names) < 6 or len(kinds) < 2:
            continue
        point = Path(_unescape(names[4]))
        # At the same path, a later mount hides an earlier one.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = kinds[0], len(point.parts)
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
