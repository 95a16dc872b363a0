"""Run a program under a system call filter, like systemd's SystemCallFilter: rejected calls fail
with EPERM.

    python tests/confined.py deny sched_setaffinity,setpriority PROGRAM ARGUMENT...
    python tests/confined.py allow read,write,... PROGRAM ARGUMENT...

Needs Linux and libseccomp 2 (part of every Debian, because apt uses it).
"""

import ctypes
import errno
import os
import sys

ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def load_library() -> ctypes.CDLL | None:
    """Return libseccomp, or None if it is missing."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
    ]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    return library


def confine(library: ctypes.CDLL, manner: str, names: list[str]) -> None:
    """Filter the system calls of this process permanently; skips names that this machine lacks."""
    usual, named = (ALLOW, REFUSE) if manner == "deny" else (REFUSE, ALLOW)
    context = library.seccomp_init(usual)
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            library.seccomp_rule_add_array(context, named, number, 0, None)
    if library.seccomp_load(context) != 0:
        sys.exit("no filter can be set here")


if __name__ == "__main__":
    confine(load_library(), sys.argv[1], sys.argv[2].split(","))
    os.execv(sys.argv[3], sys.argv[3:])
