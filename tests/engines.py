"""Which tests depend on the database engine."""

import ast
import functools
from pathlib import Path

TESTS = Path(__file__).parent
# Modules that open a database, and fixtures of conftest.py that do.
ROOMS = {"ground", "models", "storage"}
FIXTURES = {"db", "live", "look", "service", "truth"}


def meets_database(item):
    """Does this test ask for a fixture with a database, or its file import what opens one?"""
    return not FIXTURES.isdisjoint(item.fixturenames) or not ROOMS.isdisjoint(
        find_imports(item.path)
    )


@functools.cache
def find_imports(path):
    """The first words of all imports of a file of tests and of the helpers it imports."""
    found, left = set(), [path]
    for one in left:
        for word in _read_imports(one):
            found.add(word.partition(".")[0])
            helper = TESTS / f"{word.replace('.', '/')}.py"
            if helper.exists() and helper not in left:
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
