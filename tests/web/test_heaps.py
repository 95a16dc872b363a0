"""Freed memory is returned to the system (jobs.give_back_memory), or never allocated."""

import platform
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from web.api.v1 import Body

ROOT = Path(__file__).resolve().parents[2]
READ_RSS = """
from pathlib import Path
import jobs

def read_rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kept = []
before = read_rss()
"""
# Of 40 MB in pieces of 1,000 bytes every hundredth is still in use.
SCATTERED = """
pieces = [bytes(1_000) for _ in range(40_000)]
kept = pieces[::100]
del pieces
left = read_rss() - before
jobs.give_back_memory(0)
print(left, read_rss() - before)
"""
needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another libc has its own ways"
)


def measure(program):
    """The numbers that a process of its own prints."""
    command = [sys.executable, "-c", READ_RSS + program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return [int(number) for number in done.stdout.split()]


@needs_glibc
def test_free_memory_between_used_blocks_is_released():
    """A piece in 100,000 bytes keeps one page of 4,096, or two: a twelfth of 40 MB at most."""
    left, grown = measure(SCATTERED)
    assert left > 30_000_000
    assert grown < 40_000_000 / 12 + 1_000_000


def test_cached_json_uses_no_more_memory_than_its_length():
    """A hundred texts of 600 letters, and 100 bytes beside each; orjson leaves 8,153 for each."""
    tracemalloc.start()
    try:
        kept = [Body({"text": "x" * 600}).raw for _ in range(100)]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 100
    assert taken < 100 * (600 + 100)
