"""Memory of the C library that this program has freed."""

import contextlib
import ctypes


def give_back() -> None:
    """Return free pages between pages in use to the system (malloc_trim(3)). glibc does so only
    when it is asked; other C libraries lack the call.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
