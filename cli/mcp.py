"""The command mcp: a Model Context Protocol server on standard input and output, for agents.

It calls an instance over HTTP with a key, like any other client. An agent without a key can
register one. An instance also serves the same tools at /mcp (web.api.mcp).
"""

import os
from argparse import Namespace

from cli import Commands, add_command
from config import Config


def add_commands(commands: Commands) -> None:
    add_command(
        commands,
        "mcp",
        run_mcp,
        "serve tools to an AI agent over stdin and stdout; set CANDOR_KEY (without it, an agent"
        " can only register), and CANDOR_URL for an instance other than this one",
    )


def run_mcp(config: Config, args: Namespace) -> None:
    from accounts.problem import invalid

    key = os.environ.get("CANDOR_KEY")
    try:
        from agents.remote import RemoteClient
        from agents.tools import build_server

        server = build_server(RemoteClient(os.environ.get("CANDOR_URL") or config.base_url, key))
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "mcp":
            raise
        raise invalid(
            "mcp", "is not installed: .venv/bin/pip install --editable '.[mcp]'"
        ) from None
    server.run("stdio")
