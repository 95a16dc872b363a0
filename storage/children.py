"""Start Python in a process of its own: with limits, with nothing of this process but what it is
given, and ended by the system when this process ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

# What a child begins with, before it imports anything of ours. Linux ends it with the thread that
# started it; elsewhere it ends when it finds its standard input closed.
BOOT = """
import importlib, json, os, resource, signal, sys
told = json.loads(sys.argv.pop(1))
if sys.platform == "linux":
    import ctypes
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
if os.getppid() != told["parent"]:
    os._exit(1)
sys.path[:] = told["path"]
os.nice(told["nice"])
for kind, most in ((resource.RLIMIT_AS, told["memory"]), (resource.RLIMIT_CPU, told["cpu"])):
    if most is not None:
        resource.setrlimit(kind, (most, most))
sys.exit(importlib.import_module(told["module"]).main(sys.argv[1:]))
"""


class Limits(NamedTuple):
    """What a child may use: address space, processor time of its whole life (None: any, its work
    is timed by who asks it), and how far it gives way to others.
    """

    memory_bytes: int
    cpu_seconds: int | None = None
    niceness: int = 5


class Child(subprocess.Popen[bytes]):
    """A child process, first of a session of its own."""

    def kill(self) -> None:
        """Kill it with its session: what it started would hold its pipes open."""
        # Nobody else gets its number before it is waited for.
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it with its session, close its pipes and wait for it."""
        self.kill()
        # Text left in its standard input has no reader.
        with contextlib.suppress(OSError), self:
            pass


_lock = threading.Lock()
# By process id: a fork has no threads of its parent.
_starters: dict[int, ThreadPoolExecutor] = {}


def start_python(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    limits: Limits,
    folder: Path | None = None,
    output: int | IO[bytes] = subprocess.PIPE,
    errors: int = subprocess.DEVNULL,
) -> Child:
    """Start `main(arguments)` of a module, which is found as this process finds it, with a pipe to
    its standard input. It inherits no other descriptor, and of the environment what is given.
    """
    told = {
        "module": module,
        "parent": os.getpid(),
        "path": sys.path,
        "nice": limits.niceness,
        "memory": limits.memory_bytes,
        "cpu": limits.cpu_seconds,
    }

    def begin() -> Child:
        return Child(
            [sys.executable, "-c", BOOT, json.dumps(told), *arguments],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            close_fds=True,
            start_new_session=True,
        )

    return _find_starter().submit(begin).result()


def _find_starter() -> ThreadPoolExecutor:
    """Return the thread that starts all children of this process and lives as long as it does: a
    child ends with the thread that started it, not with the process alone.
    """
    with _lock:
        return _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, "children"))
