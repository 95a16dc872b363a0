"""How much freed memory glibc may keep. Other C libraries lack these calls; with them nothing is
done.
"""

import contextlib
import ctypes

# From malloc.h of glibc.
M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
# What is larger than the first lies apart and is given back at once, and so is what is free beyond
# the second. More than the 87 KB that SQLite takes for a moment with many queries: mapped anew each
# time, they cost each request 55 page faults.
LARGE_BYTES, MAX_FREE_BYTES = 1 << 17, 4 << 20


def share() -> None:
    """Let all threads share one heap, which saves a tenth of the server's memory: glibc gives each
    thread its own (mallopt(3)). And give back what a large answer of a node took: by itself glibc
    keeps blocks as large as the largest that was ever freed, tens of megabytes for good.
    """
    with contextlib.suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, MAX_FREE_BYTES)


def give_back() -> None:
    """Give the system back free pages that lie between pages in use (malloc_trim(3)): glibc does so
    only when it is asked.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
