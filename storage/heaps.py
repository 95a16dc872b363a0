"""Return freed memory from the C library to the system."""

import contextlib
import ctypes


def give_back() -> None:
    """Call malloc_trim(3). glibc returns free pages between used ones only on request; other C
    libraries don't have the call.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
