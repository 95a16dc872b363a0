"""Allowed imports between packages, read from the source. docs/architecture.md has the same
table.
"""

import ast
import functools
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The program's folders; bench/ measures it.
ROOMS = sorted({path.parent.name for path in ROOT.glob("*/__init__.py")} - {"bench"})
WEB = {
    *("cachetools", "flask", "flask_limiter", "flask_wtf", "gunicorn", "limits"),
    *("markupsafe", "peewee"),
    "werkzeug",
}
BELOW = {"models", "storage", "config"}
# Modules that a room may import; a module with its own permissions has its own line.
MAY_IMPORT = {
    "config": {"pydantic", "pydantic_settings"},
    "storage": {"storage", "config", "apsw", "filelock", "peewee", "playhouse"},
    "storage.log": {"orjson"},
    "storage.rows": {"orjson", "pydantic"},
    "storage.sqlite": {"orjson"},
    "storage.postgresql": {"psycopg"},
    "storage.counters": {"redis"},
    "models": {"storage", "peewee"},
    "chain": {"chain"},
    "chain.reading.receipts": {"orjson", "zstandard"},
    "chain.amounts": {"orjson"},
    "chain.rpc": {"orjson", "requests", "urllib3"},
    "chain.stored": {"chain", *BELOW, "orjson", "peewee"},
    "paper": {"paper", "chain"},
    "paper.store": {"models", "storage", "market", "orjson", "peewee"},
    "paper.backtests": {"storage", "market"},
    "paper.own": {"storage", "market"},
    "paper.tables": {"models", "peewee"},
    "paper.measured": {"storage"},
    "paper.copying": {"storage", "orjson"},
    "market": {"market", "chain"},
    "market.fetch": {"config", "requests", "urllib3"},
    "market.store": {*BELOW, "orjson", "peewee"},
    "market.tables": {"models", "peewee"},
    "voice": {"voice", "chain"},
    "voice.language_model": {"config", "market"},
    "ratelimit": {"config", "storage", "limits"},
    "accounts": {
        *("accounts", "chain", "market", "paper", "voice", *BELOW),
        *("mnemonic", "nacl", "orjson", "peewee", "pydantic", "pydantic_core"),
    },
    "accounts.backtests": {"filelock"},
    "evidence": {
        *("evidence", "accounts", "chain", "market", *BELOW),
        *("nacl", "orjson", "peewee", "pydantic"),
    },
    "notify": {"notify", "config"},
    "notify.messages": {"orjson"},
    "notify.client": {"storage"},
    "notify.apprise_child": {"apprise"},
    "notify.outbox": {"accounts", *BELOW, "orjson"},
    "agents": {"agents", "config", "mcp", "mcp_types", "orjson", "pydantic"},
    "agents.remote": {"requests"},
    "observing": {"observing", "accounts", "chain", *BELOW, "orjson", "peewee"},
    "observing.subscriptions": {"websockets"},
    "observer": {"observing", "accounts", "chain", *BELOW, "orjson", "peewee"},
    "scout": {"chain", "market", *BELOW, "orjson", "peewee"},
    "papertrade": {"accounts", "chain", "market", "paper", "voice", *BELOW, "orjson", "peewee"},
    "jobs": {
        *("evidence", "notify", "observer", "observing", "paper", "papertrade", "scout", *BELOW),
        *("apscheduler", "peewee"),
    },
    "operate": {
        *("operate", "accounts", "chain", "evidence", "market", "paper", "ratelimit", *BELOW),
        *("apsw", "filelock", "orjson", "peewee", "playhouse"),
    },
    "web": {
        *(
            "web",
            "accounts",
            "agents",
            "chain",
            "evidence",
            "notify",
            "paper",
            "voice",
            "ratelimit",
            *BELOW,
            *WEB,
        ),
        *("itsdangerous", "orjson", "prometheus_client", "pydantic"),
    },
    "web.api.mcp": {"httpx2", "mcp"},
    "web.api.shapes": {"typing_extensions"},
    "web.server.logs": {"pythonjsonlogger"},
    "web.site.admin.overview": {"operate"},
    "web.site.receipt_image": {"PIL", "segno"},
    "demo": {
        *("demo", "accounts", "chain", "market", "operate", "papertrade", "scout", "voice", *BELOW),
        *("apsw", "peewee", "requests"),
    },
    "cli": {
        *(
            "cli",
            "accounts",
            "agents",
            "chain",
            "demo",
            "evidence",
            "jobs",
            "market",
            "observer",
            "observing",
            "operate",
            "papertrade",
        ),
        *("ratelimit", "scout", *BELOW),
        *("apsw", "gunicorn", "orjson", "peewee", "requests"),
    },
    "app": {
        "accounts",
        "cli",
        "evidence",
        "operate",
        "web",
        "ratelimit",
        *BELOW,
        "flask",
        "werkzeug",
    },
    "serving": {"config", "jobs", "web", "gunicorn"},
}
# Reading never queries a node or a price provider.
NEVER = {"web": {"chain.rpc", "market.fetch", "market.providers", "notify.client", "agents.remote"}}


def modules():
    files = [
        *ROOT.glob("*.py"),
        *(f for room in ROOMS for f in (ROOT / room).rglob("*.py")),
    ]
    return sorted(
        f.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for f in files
        if f.stem != "__init__"
    )


def read(name):
    path = ROOT / name.replace(".", "/")
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


@functools.cache
def imports_of(name):
    return list(find_imports(name))


def find_imports(name):
    for node in ast.walk(ast.parse(read(name))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rules_for(name):
    room = name.split(".")[0]
    rooms = room, name.rpartition(".")[0], name
    return set().union(*(MAY_IMPORT.get(one, set()) for one in rooms))


@pytest.mark.parametrize("name", modules())
def test_imports_point_down(name):
    roots = {module.split(".")[0] for module in imports_of(name)} - set(sys.stdlib_module_names)
    assert roots <= rules_for(name), f"{name} may not import {sorted(roots - rules_for(name))}"
    assert not set(imports_of(name)) & NEVER.get(name.split(".")[0], set())


def read_graph():
    """Each module's imports, including whole rooms with their own code."""
    packages = {room: (ROOT / room / "__init__.py").read_text() for room in ROOMS}
    names = {*modules(), *(room for room, text in packages.items() if "import" in text)}
    return {name: find_targets(name, names) - {name} for name in names}


def find_targets(name, names):
    """For `from room import module`, the module, or else the room's own code."""
    found = set()
    for node in ast.walk(ast.parse(read(name))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {one if one in names else node.module for one in inner}
    return found & names


def find_circles(graph):
    """Modules in import cycles, by room."""

    def reach(name):
        todo, found = [name], set()
        while todo:
            new = graph[todo.pop()] - found
            found |= new
            todo += new
        return found

    circles = defaultdict(list)
    for name in sorted(graph):
        if name in reach(name):
            circles[name.split(".")[0]].append(name)
    return circles


def test_there_are_no_import_cycles():
    assert not find_circles(read_graph())


def test_an_import_cycle_would_be_detected():
    graph = {"a.x": {"a.y"}, "a.y": {"b"}, "b": {"a.x"}, "c": {"a.x"}, "d": set()}
    assert find_circles(graph) == {"a": ["a.x", "a.y"], "b": ["b"]}


def test_every_module_is_type_checked():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert set(told["files"]) == {*ROOMS, *(path.name for path in ROOT.glob("*.py"))}
    assert told["disallow_untyped_defs"]


def test_every_room_is_listed():
    rooms = {name.split(".")[0] for name in modules()}
    assert rooms <= set(MAY_IMPORT)


def test_a_wrong_import_would_be_detected():
    assert "models" not in rules_for("chain.ledger.ledger")
    assert "requests" in rules_for("chain.rpc") and "requests" not in rules_for(
        "chain.ledger.ledger"
    )
    assert all("app" not in allowed for allowed in MAY_IMPORT.values())
