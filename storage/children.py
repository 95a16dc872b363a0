"""Start Python in a child process with limits.

The child inherits only what it is given, and ends when this process ends.
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

# Runs before any of our imports. On Linux, the kernel kills the child when the thread that started
# it ends. On other systems, the child exits when its standard input closes.
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
    """If `cpu_seconds` is None, the caller enforces a timeout."""

    memory_bytes: int
    cpu_seconds: int | None = None
    niceness: int = 5


class Child(subprocess.Popen[bytes]):
    def kill(self) -> None:
        """Kill the whole session, because descendants of the child would keep the pipes open."""
        # The child's PID can't be reused until we wait for it.
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        # Closing may flush buffered input to a process that has ended.
        with contextlib.suppress(OSError), self:
            pass


_lock = threading.Lock()
# By process ID, because a forked process doesn't have its parent's threads.
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
    """Start `main(arguments)` of a module in a child, with a pipe to its standard input.

    The module is found on this process's path. The child receives no other file descriptors, and
    only the given environment.
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
    """The kernel kills a child when the thread that started it ends, so one starts them all."""
    with _lock:
        return _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, "children"))
