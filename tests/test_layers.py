"""Arrows point down: who may import whom, read from the source. docs/architecture.md draws the same
table.
"""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PURE = {"base58"}  # codecs a pure room may use beside the standard library
MAY_IMPORT = {
    "config": {"dotenv"},
    "chain": {"chain", *PURE},
    "chain.rpc": {"requests", "urllib3"},
    "paper": {"paper", "chain", *PURE},
    "voice": {"chain"},
    "trouble": {"apsw", "peewee"},
    "models": {"trouble", "config", "postgresql", "apsw", "peewee", "playhouse"},
    "postgresql": {"trouble", "config", "peewee", "playhouse", "psycopg"},
    "books": {"models", "chain", "voice", "orjson", "peewee"},
    "quotas": {"config", "models"},
    "writer": {"voice", "requests", "config"},
    "sharing": {"models"},
    "observer": {"books", "models", "chain", "orjson", "peewee", *PURE},
    "providers": {"chain", "config", "requests", "urllib3"},
    "scout": {"models", "providers", "chain", "orjson", "peewee"},
    "paperbooks": {"models", "paper", "orjson", "peewee"},
    "papertrade": {"paperbooks", "models", "paper", "voice", "writer", "orjson"},
    "jobs": {"config", "models", "observer", "scout", "sharing", "papertrade"},
    "tally": {"trouble", "config", "apsw", "redis"},
    "ratelimit": {"config", "tally", "limits"},
    "keeping": {"trouble", "config", "models", "apsw"},
    "moving": {"keeping", "models", "orjson", "peewee"},
    "inspection": {"books", "keeping", "models", "chain", "orjson", "peewee"},
    "doctor": {
        "inspection",
        "quotas",
        "config",
        "models",
        "keeping",
        "tally",
        "providers",
        "chain",
        "apsw",
    },
    "web": {
        "trouble",
        "web",
        "quotas",
        "models",
        "config",
        "chain",
        "paper",
        "voice",
        "ratelimit",
        "tally",
        "flask",
        "flask_limiter",
        "flask_wtf",
        "itsdangerous",
        "werkzeug",
        "gunicorn",
        "markupsafe",
        "peewee",
        "prometheus_client",
        "pydantic",
        "pydantic_core",
        "orjson",
        "nacl",
        "mnemonic",
        *PURE,
    },
    "demo": {
        "demo",
        "web",
        "keeping",
        "papertrade",
        "scout",
        "providers",
        "voice",
        "models",
        "config",
        "apsw",
        "requests",
        *PURE,
    },
    "demo.record.record": {"solders", "spl"},
    "cli": {
        "ratelimit",
        "trouble",
        "cli",
        "demo",
        "web",
        "gunicorn",
        "keeping",
        "moving",
        "doctor",
        "tally",
        "mcp",
        "mcp_types",
        "requests",
        "jobs",
        "observer",
        "scout",
        "papertrade",
        "models",
        "config",
        "chain",
        "peewee",
        "apsw",
        "orjson",
        "pydantic",
    },
    "app": {"cli", "web", "keeping", "models", "config", "ratelimit", "flask", "werkzeug"},
    "gunicorn.conf": {"config", "jobs", "web"},
}
NEVER = {"web": {"chain.rpc"}}  # reading never asks a node


def modules():
    files = [
        *ROOT.glob("*.py"),
        *(
            f
            for room in ("chain", "paper", "web", "cli", "demo")
            for f in (ROOT / room).rglob("*.py")
        ),
    ]
    return sorted(
        f.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for f in files
        if f.stem != "__init__"
    )


def imports_of(name):
    path = (
        ROOT / (name.replace(".", "/") + ".py")
        if name != "gunicorn.conf"
        else ROOT / "gunicorn.conf.py"
    )
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rules_for(name):
    room = name.split(".")[0]
    rules = MAY_IMPORT[name if room == "gunicorn" else room]
    return rules | MAY_IMPORT.get(name, set())


@pytest.mark.parametrize("name", modules())
def test_imports_point_down(name):
    roots = {module.split(".")[0] for module in imports_of(name)} - set(sys.stdlib_module_names)
    assert roots <= rules_for(name), f"{name} may not import {sorted(roots - rules_for(name))}"
    assert not set(imports_of(name)) & NEVER.get(name.split(".")[0], set())


def test_every_room_is_listed():
    rooms = {name if name == "gunicorn.conf" else name.split(".")[0] for name in modules()}
    assert rooms <= set(MAY_IMPORT)


def test_a_wrong_arrow_would_be_seen():
    assert "models" not in rules_for("chain.ledger")
    assert "requests" in rules_for("chain.rpc") and "requests" not in rules_for("chain.ledger")
    assert all("app" not in allowed for allowed in MAY_IMPORT.values())
