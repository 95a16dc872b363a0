"""The lock that decides which process runs the jobs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from storage.files import FileLock

ROOT = Path(__file__).resolve().parents[2]
# Waits for the lock, says when it has it, and keeps it.
HOLDER = """
import sys
from pathlib import Path
from storage.files import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.take(wait=True), flush=True)
sys.stdin.read()
"""


def test_another_process_waits_for_the_lock_and_its_death_frees_it(tmp_path):
    path = tmp_path / "jobs.lock"
    lock, command = FileLock(path), [sys.executable, "-c", HOLDER, str(path)]
    assert lock.take() and lock.take()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as holder:
        # One release ends it, however often and in whichever threads it was acquired.
        thread = threading.Thread(target=lock.release)
        thread.start()
        thread.join(60)
        assert holder.stdout.readline() == "True\n" and not lock.take()
        holder.send_signal(signal.SIGKILL)
    assert lock.take()
    lock.release()


def test_after_a_fork_the_parent_keeps_the_lock(tmp_path):
    lock, other = (FileLock(tmp_path / "jobs.lock") for _ in range(2))
    assert lock.take()
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert not other.take()
    lock.release()
    assert other.take()
