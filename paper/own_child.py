"""The process that runs one of the operator's own strategies. It reads and writes JSON lines.

Between two lines, only the file itself may keep state.
"""

import ctypes
import errno
import importlib.util
import json
import os
import resource
import signal
import struct
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import IO, Any

from paper.account import Position
from paper.market import Check, Flow, Snapshot, Token, View
from paper.strategies import Enter, Exit, Refusal, Strategy, public_name

# The parent usually kills the child before, but not on every system.
MAX_SECONDS = 30
# From Linux's prctl.h, filter.h and seccomp.h.
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, IF_EQUAL, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, DENY, MISSING = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
# Offsets in `struct seccomp_data`.
CALL, ABI, FIRST_ARGUMENT = 0, 4, 16
# With this flag, `clone` starts a thread, otherwise a process.
CLONE_THREAD = 0x10000
# A filter can't see clone3's flags. If clone3 is refused, libc starts threads with clone.
CLONE3 = 435
# The ABI, the number of clone, and the numbers of fork and vfork, by machine.
CALLS = {
    "x86_64": (0xC000003E, 56, (57, 58)),
    "aarch64": (0xC00000B7, 220, ()),
    "riscv64": (0xC00000F3, 220, ()),
}


class NotAStrategy(Exception):
    """The file has no STRATEGY, or STRATEGY isn't a subclass of Strategy."""


def main(arguments: Sequence[str]) -> None:
    """Answer each line of standard input. The argument is the file's path."""
    (path,) = arguments
    forbid_processes()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    kind: type[Strategy] | None = None
    for line in sys.stdin:
        signal.alarm(MAX_SECONDS)
        try:
            kind = kind or load_strategy(path)
            answer = {"answer": reply(kind, json.loads(line))}
        except BaseException as error:
            # The file may raise anything. Only its own traders get an error.
            answer = {"error": describe_error(error, path)}
        signal.alarm(0)
        _write(answers, answer)


def forbid_processes() -> None:
    """Keep this process from starting others, which could outlive it and the server.

    The system call filter allows threads, because they end with the process.
    """
    # A 32-bit Python's ABI differs from its kernel's.
    knows = sys.platform == "linux" and sys.maxsize > 2**32
    calls = CALLS.get(os.uname().machine) if knows else None
    if calls is None:
        # This limit also counts threads, and doesn't apply to root.
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        return
    rules = write_filter(*calls)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    # struct sock_fprog
    program = ctypes.create_string_buffer(struct.pack("@HP", len(rules), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "this system can't filter system calls")


def write_filter(abi: int, clone: int, forks: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """Return rows (instruction, skip if true, skip if false, value) that refuse new processes."""
    return [
        (LOAD, 0, 0, ABI),
        (IF_EQUAL, 1, 0, abi),
        (RETURN, 0, 0, DENY),
        (LOAD, 0, 0, CALL),
        *(
            rule
            for call, answer in ((CLONE3, MISSING), *((fork, DENY) for fork in forks))
            for rule in ((IF_EQUAL, 0, 1, call), (RETURN, 0, 0, answer))
        ),
        (IF_EQUAL, 1, 0, clone),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (IF_ANY_BIT, 1, 0, CLONE_THREAD),
        (RETURN, 0, 0, DENY),
        (RETURN, 0, 0, ALLOW),
    ]


def _write(answers: IO[str], answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def load_strategy(path: str) -> type[Strategy]:
    # Otherwise, a file that changes twice within a second would run from stale bytecode.
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("own_strategy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module.
    sys.modules["own_strategy"] = module
    spec.loader.exec_module(module)
    found = getattr(module, "STRATEGY", None)
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise NotAStrategy
    return found


def describe_error(error: BaseException, path: str) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == path]
    where = f" in line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def reply(kind: type[Strategy], asked: Mapping[str, Any]) -> Any:
    if asked["ask"] == "describe":
        return {
            public_name(one.name): [one.default, one.metadata["low"], one.metadata["high"]]
            for one in fields(kind)
        }
    names = {public_name(one.name): one.name for one in fields(kind)}
    strategy = kind(**{names[name]: value for name, value in asked["settings"].items()})
    if asked["ask"] == "enter":
        return [show_found(strategy.enter(read_view(view))) for view in asked["views"]]
    position = Position(**{**asked["position"], "marks": tuple(asked["position"]["marks"])})
    return show_found(strategy.leave(read_view(asked["view"]), position))


def show_found(found: object) -> Any:
    """Return a decision as JSON, or the name of any other object's type."""
    if found is None:
        return None
    if isinstance(found, Enter | Refusal):
        return [type(found).__name__, found.reason, found.detail]
    if isinstance(found, Exit):
        return ["Exit", found.reason, found.share]
    return [type(found).__name__]


def read_view(shown: Mapping[str, Any]) -> View:
    token = dict(shown["token"])
    token["checks"] = tuple(Check(*one) for one in token["checks"])
    window = tuple(Snapshot(*one) for one in shown["window"])
    return View(Token(**token), window, tuple(Flow(*one) for one in shown["flows"]))
