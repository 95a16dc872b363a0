"""The tests that depend on the database engine, which a PostgreSQL run selects."""

import ast
import functools
from pathlib import Path

TESTS = Path(__file__).parent
# Modules and conftest.py fixtures that open a database.
ROOMS = {"ground", "models", "storage"}
FIXTURES = {"db", "live", "look", "service", "truth"}
# Files about things around a database: pages, words, programs, proxies and files on disk. Other
# tests run the same queries. The demonstration is always SQLite.
AROUND = set(
    (
        "alerts apprise backtest_pages browser children damaged_coverage demo deploy"
        " examples feeds first_minute guides hostile lengths listening make mcp measured"
        " messengers own_strategies paper_pages programs quotes_shown risk_shown"
        " said_and_did shapes share_cards studio symbols value_shown witness worker"
    ).split()
)


def meets_engine(item):
    """Whether this test runs SQL that no other test runs.

    It does unless its file is one of AROUND, or neither its fixtures nor its imports open a
    database.
    """
    if item.path.stem.removeprefix("test_") in AROUND:
        return False
    return not FIXTURES.isdisjoint(item.fixturenames) or not ROOMS.isdisjoint(
        find_imports(item.path)
    )


@functools.cache
def find_imports(path):
    """The first words of all imports in a test file and its helpers."""
    found, left = set(), [path]
    for one in left:
        for word in _read_imports(one):
            found.add(word.partition(".")[0])
            for helper in TESTS.rglob(f"{word.replace('.', '/')}.py"):
                if helper not in left:
                    left.append(helper)
    return found


@functools.cache
def _read_imports(path):
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
