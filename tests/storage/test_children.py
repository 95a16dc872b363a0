"""Python processes that this one starts: their limits, what they inherit, and their end."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storage.children import Limits, start_python

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(memory_bytes=2**29, cpu_seconds=7, niceness=3)
# Answers each line with what it knows of itself.
TELLING = """
import json, os, resource, sys

def main(arguments):
    for line in sys.stdin:
        open_ones = [int(one) for one in os.listdir("/dev/fd")]
        print(json.dumps({
            "arguments": arguments, "environment": dict(os.environ), "nice": os.nice(0),
            "memory": resource.getrlimit(resource.RLIMIT_AS),
            "cpu": resource.getrlimit(resource.RLIMIT_CPU),
            "session": os.getsid(0) == os.getpid(), "folder": os.getcwd(),
            "beyond": [one for one in open_ones if one > 2 and os.path.exists(f"/dev/fd/{one}")],
        }), flush=True)
"""
# Starts a child that waits for nothing, and tells its number.
PARENT = """
import sys, time
from storage.children import Limits, start_python
child = start_python("waiting", [], {}, Limits(2**29))
print(child.stdout.readline().decode(), end="", flush=True)
time.sleep(600)
"""
WAITING = """
import os, time

def main(arguments):
    print(os.getpid(), flush=True)
    time.sleep(600)
"""
# Starts a process, which holds the same pipes.
FAMILY = """
import subprocess, time

def main(arguments):
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def telling(tmp_path, monkeypatch):
    (tmp_path / "telling.py").write_text(TELLING)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def ask(child):
    child.stdin.write(b"\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def test_a_child_process_has_limits_and_gets_its_input(telling, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "very secret")
    kept = os.open(telling / "telling.py", os.O_RDONLY)
    os.set_inheritable(kept, True)
    with start_python("telling", ["one"], {"A": "b"}, LIMITS, folder=telling) as child:
        told = ask(child)
        child.stdin.close()
    os.close(kept)
    assert child.returncode == 0 and told["arguments"] == ["one"]
    # Python itself sets the character set where none is told.
    assert {**told["environment"], "LC_CTYPE": ""} == {"A": "b", "LC_CTYPE": ""}
    assert told["folder"] == str(telling)
    assert (told["memory"], told["cpu"]) == ([2**29] * 2, [7] * 2)
    # Nobody is nicer than 19.
    assert told["nice"] == min(19, os.nice(0) + 3)
    assert told["session"] is True and told["beyond"] == []


def test_a_child_outlives_the_thread_that_started_it(telling):
    """The system ends a child with the thread that started it: none of those that ask is that."""
    started = []

    def begin():
        started.append(start_python("telling", [], {}, LIMITS))
        # It has asked the system by now to end with its parent.
        ask(started[0])

    thread = threading.Thread(target=begin)
    thread.start()
    of_system = Path(f"/proc/self/task/{thread.native_id}")
    thread.join()
    while of_system.exists():
        pass
    with started[0] as child:
        assert ask(child)["arguments"] == []
        child.stdin.close()
    assert child.returncode == 0


def test_an_import_error_ends_the_child_at_once(telling):
    with start_python("nothing_of_the_kind", [], {}, LIMITS) as child:
        assert child.stdout.read() == b""
    assert child.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the system ends it on Linux alone")
def test_a_child_ends_with_its_parent_in_every_case(tmp_path):
    (tmp_path / "waiting.py").write_text(WAITING)
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env={"PYTHONPATH": path}, stdout=subprocess.PIPE
    ) as parent:
        ended = os.pidfd_open(int(parent.stdout.readline()))
        assert select.select([ended], [], [], 0)[0] == []
        parent.send_signal(signal.SIGKILL)
        # Readable once the process is gone.
        assert select.select([ended], [], [], 30)[0] == [ended]
    os.close(ended)


@pytest.mark.parametrize("verb", ["kill", "end"])
@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open is Linux's")
def test_a_child_is_killed_with_its_session(tmp_path, monkeypatch, verb):
    (tmp_path / "family.py").write_text(FAMILY)
    monkeypatch.syspath_prepend(tmp_path)
    with start_python("family", [], {"PATH": os.defpath}, LIMITS) as child:
        pid = int(child.stdout.readline())
        ended = os.pidfd_open(pid)
        try:
            getattr(child, verb)()
            assert select.select([ended], [], [], 10)[0] == [ended]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(ended, signal.SIGKILL)
            os.close(ended)
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_reads_nothing_can_be_stopped(tmp_path, monkeypatch):
    """Closing its pipe fails: half a megabyte is still to be written there."""
    (tmp_path / "waiting.py").write_text(WAITING)
    monkeypatch.syspath_prepend(tmp_path)
    child = start_python("waiting", [], {}, LIMITS)
    child.stdout.readline()
    threading.Timer(0.1, child.kill).start()
    with pytest.raises(BrokenPipeError):
        child.stdin.write(b"x" * 2**19)
        child.stdin.flush()
    child.end()
    assert child.returncode == -signal.SIGKILL
