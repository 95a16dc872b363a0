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
from ground import until

from storage.children import Limits, start_python

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Limits(memory_bytes=2**29, cpu_seconds=7, niceness=3)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the system ends it on Linux alone")
MODULES = {
    # Answers each line with facts about itself.
    "telling": """
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
""",
    # Reads nothing.
    "waiting": """
import os, time

def main(arguments):
    print(os.getpid(), flush=True)
    time.sleep(600)
""",
    # Starts a process that holds the same pipes.
    "family": """
import subprocess, time

def main(arguments):
    print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
    time.sleep(600)
""",
}
# Starts a child and prints its PID.
PARENT = """
import sys, time
from storage.children import Limits, start_python
child = start_python("waiting", [], {}, Limits(2**29))
print(child.stdout.readline().decode(), end="", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of these modules, which can be imported."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def ask(child):
    child.stdin.write(b"\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def test_a_child_process_has_limits_and_gets_its_input(folder, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "very secret")
    kept = os.open(folder / "telling.py", os.O_RDONLY)
    os.set_inheritable(kept, True)
    with start_python("telling", ["one"], {"A": "b"}, LIMITS, folder=folder) as child:
        told = ask(child)
        child.stdin.close()
    os.close(kept)
    # Python itself sets the character set if none is given.
    told["environment"].pop("LC_CTYPE", None)
    assert child.returncode == 0 and told == {
        "arguments": ["one"],
        "environment": {"A": "b"},
        "folder": str(folder),
        "memory": [2**29] * 2,
        "cpu": [7] * 2,
        # The maximum niceness is 19.
        "nice": min(19, os.nice(0) + 3),
        "session": True,
        "beyond": [],
    }


def test_a_child_outlives_the_thread_that_started_it():
    """The system ends a child with its starting thread, so that isn't the caller's."""
    started = []

    def begin():
        started.append(start_python("telling", [], {}, LIMITS))
        # By now it has asked the system to end it with its parent.
        ask(started[0])

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
    with started[0] as child:
        assert ask(child)["arguments"] == []
        child.stdin.close()
    assert child.returncode == 0


def test_an_import_error_ends_the_child_at_once():
    with start_python("nothing_of_the_kind", [], {}, LIMITS) as child:
        assert child.stdout.read() == b""
    assert child.returncode == 1


@contextlib.contextmanager
def ending(process):
    """Check that the process whose PID this one prints ends inside."""
    ended = os.pidfd_open(int(process.stdout.readline()))
    assert not select.select([ended], [], [], 0)[0]
    yield
    # It is readable once the process is gone.
    assert select.select([ended], [], [], 30)[0]
    os.close(ended)


@linux_only
def test_a_child_ends_with_its_parent_in_every_case(folder):
    given = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder)))}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE) as parent, ending(parent):
        parent.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("verb", ["kill", "end"])
@linux_only
def test_a_child_is_killed_with_its_session(verb):
    with start_python("family", [], {"PATH": os.defpath}, LIMITS) as child, ending(child):
        getattr(child, verb)()
    assert child.returncode == -signal.SIGKILL


def test_a_child_that_reads_nothing_can_be_stopped():
    """Closing its pipe fails, because half a megabyte is still unwritten."""
    child = start_python("waiting", [], {}, LIMITS)
    child.stdout.readline()
    threading.Timer(0.1, child.kill).start()
    with pytest.raises(BrokenPipeError):
        child.stdin.write(b"x" * 2**19)
        child.stdin.flush()
    child.end()
    assert child.returncode == -signal.SIGKILL
