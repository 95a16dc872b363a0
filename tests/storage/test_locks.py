"""The lock that decides which process runs the jobs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storage.files import FileLock

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys
from pathlib import Path
from storage.files import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.take(wait=True), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.lock"


@pytest.fixture
def holder(path):
    """Another process that waits for the lock, says when it has it, and keeps it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", HOLDER, str(path)]
    made = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    yield made
    made.kill()
    made.communicate(timeout=60)


def test_killing_the_holder_frees_the_lock(path, holder):
    lock = FileLock(path)
    assert holder.stdout.readline() == "True\n"
    assert not lock.take()
    holder.send_signal(signal.SIGKILL)
    holder.wait(60)
    assert lock.take()
    lock.release()


def test_a_second_process_waits_for_the_first(path, request):
    lock = FileLock(path)
    assert lock.take() and lock.take()
    waiting = request.getfixturevalue("holder")
    # One release ends it, however often and in whichever threads it was acquired.
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join(60)
    assert waiting.stdout.readline() == "True\n"
    assert not lock.take()


def test_after_a_fork_the_parent_keeps_the_lock(path):
    lock = FileLock(path)
    assert lock.take()
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert not FileLock(path).take()
    lock.release()
    assert FileLock(path).take()
