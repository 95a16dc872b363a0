"""The documented command line matches the parser: every command and option, both ways."""

import argparse
import re
from pathlib import Path

import pytest

from cli.parser import build_parser

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ROOT / "docs" / "commands.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(path for path in sorted((ROOT / "deploy").iterdir()) if path.is_file()),
]
# Options of every command.
COMMON = {"-h", "--help", "--json"}


def list_options(parser, path=""):
    """{command: its options} of the parser, without hidden ones."""
    for one in parser._actions:
        if isinstance(one, argparse._SubParsersAction):
            below = [
                list_options(two, f"{path} {name}".strip()) for name, two in one.choices.items()
            ]
            return {name: options for found in below for name, options in found.items()}
    shown = [one for one in parser._actions if one.help != argparse.SUPPRESS]
    return {path: {name for one in shown for name in one.option_strings} - COMMON}


OPTIONS = list_options(build_parser())


def find_command(text):
    """The command at the beginning of a text, or None."""
    words = text.split(" ")
    return next((one for one in (" ".join(words[:2]), words[0]) if one in OPTIONS), None)


def read_options(text):
    return set(re.findall(r"(?<![\w-])--[a-z-]+", text))


def test_every_command_and_option_is_listed():
    told = {}
    for commands, meaning in re.findall(r"^\| (`.*) \| (.*) \|$", COMMANDS.read_text(), re.M):
        shown = re.findall(r"`([^`]+)`", commands)
        for text in shown:
            told.setdefault(find_command(text), set()).update(read_options(text))
        if len({find_command(text) for text in shown}) == 1:
            told[find_command(shown[0])] |= read_options(" ".join(re.findall(r"`[^`]+`", meaning)))
    assert {name: options - COMMON for name, options in told.items()} == OPTIONS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_shown_on_pages_exist(page):
    """Up to the end of the shell command, the code or the line."""
    for shown in re.findall(r"(?:app\.py|candor) ([a-z][^`\n#;&|]*)", page.read_text()):
        command = find_command(shown.strip())
        if command:
            assert read_options(shown) - COMMON <= OPTIONS[command], shown
