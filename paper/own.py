"""Run the operator's own strategies: files in DATA_DIR/strategies with the families' interface.
They are off unless OWN_STRATEGIES is on.

Each file runs in its own process with time and memory limits. If it fails, only its traders stop.
"""

import json
import os
import re
import stat
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from market.providers import parse_text
from paper.account import Position
from paper.fills import ONE
from paper.market import Flow, Snapshot, View
from paper.player import OwnFault
from paper.strategies import (
    Enter,
    Exit,
    Refusal,
    Strategy,
    check_bounds,
    find_setting,
    parse_settings,
    public_name,
)
from storage.children import Child, Limits, start_python

PREFIX, FOLDER = "own:", "strategies"
NAME = re.compile(r"own:([a-z][a-z0-9_]{0,39})")
# Per question, including the start of the process.
MAX_SECONDS = 5.0
# CPU time isn't limited here, because it is limited per question.
LIMITS = Limits(memory_bytes=2**29)
MAX_ANSWER_BYTES = 10**7
REASON = re.compile(r"[a-z][a-z0-9_]{0,39}")
MAX_DETAIL = 200


class OwnFile:
    """A strategy file and its process. Only one thread uses it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._child: Child | None = None
        self._changed_at = 0
        # In this tick. The next tick retries.
        self._failed: str | None = None
        self._bounds: dict[str, list[int]] | None = None

    def begin(self) -> None:
        self._failed = None
        if self._child and self._changed_at != self._find_change():
            self.stop()

    def stop(self) -> None:
        child, self._child, self._bounds = self._child, None, None
        if child:
            child.end()

    @property
    def bounds(self) -> dict[str, list[int]]:
        """{public name: [default, lowest, highest]} of its settings."""
        if self._bounds is None:
            found = self.ask({"ask": "describe"})
            shared = {public_name(one.name) for one in fields(Strategy)}
            if not isinstance(found, dict) or not shared <= set(found):
                self.fail("its settings don't match those of a strategy")
            self._bounds = found
        return self._bounds

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Return the process's answer. Raises OwnFault if it fails or takes too long."""
        if self._failed:
            raise OwnFault(self._failed)
        text = json.dumps(question).encode() + b"\n"
        child = self._child or self._start()
        assert child.stdin is not None and child.stdout is not None
        limit = threading.Timer(MAX_SECONDS, child.kill)
        limit.start()
        try:
            child.stdin.write(text)
            child.stdin.flush()
            line = child.stdout.readline(MAX_ANSWER_BYTES)
        except OSError:
            line = b""
        finally:
            limit.cancel()
        return self._read(line)

    def _read(self, line: bytes) -> Any:
        if not line.endswith(b"\n"):
            self.fail(f"no response within {MAX_SECONDS:g} s, or its process exited")
        match _parse(line):
            case {"error": str(error)}:
                self.fail(error)
            case {"answer": answer}:
                return answer
        self.fail("its process wrote something other than responses")

    def fail(self, why: str) -> NoReturn:
        self.stop()
        self._failed = f"its strategy file {self.path.name} failed ({_clean(why)})"
        raise OwnFault(self._failed)

    def _start(self) -> Child:
        if getattr(sys, "frozen", False):
            self.fail("the single file has no Python to run it with; use candor.pyz or pip")
        self._check_file()
        self._changed_at = self._find_change()
        # Don't pass the server's environment, because it contains secrets.
        self._child = start_python(
            "paper.own_child",
            # Absolute, because the child runs in the folder.
            [str(self.path.absolute())],
            {"PATH": os.defpath},
            LIMITS,
            folder=self.path.parent,
        )
        return self._child

    def _check_file(self) -> None:
        for path in (self.path, self.path.parent):
            try:
                known = path.lstat()
            except OSError:
                self.fail("there is no such file")
            if known.st_uid != os.geteuid() or known.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self.fail("users other than this service can write to it")
        if not stat.S_ISREG(self.path.lstat().st_mode):
            self.fail("it isn't a regular file")

    def _find_change(self) -> int:
        try:
            return self.path.lstat().st_mtime_ns
        except OSError:
            return -1


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _clean(text: str) -> str:
    return parse_text(text, MAX_DETAIL) or ""


@dataclass(frozen=True, kw_only=True)
class OwnStrategy(Strategy):
    """A strategy whose decisions come from a file. The common settings are applied here."""

    name: str
    given: tuple[tuple[str, int], ...] = ()
    file: OwnFile = field(compare=False)
    # The file's decisions in this round.
    answers: dict[str, Any] = field(default_factory=dict, compare=False)

    def prepare(self, views: Sequence[View]) -> None:
        shown = [show_view(view) for view in views]
        found = self._ask("enter", views=shown)
        if not isinstance(found, list) or len(found) != len(views):
            self.file.fail("its response doesn't match the request")
        self.answers.clear()
        self.answers.update(zip((view.token.mint for view in views), found, strict=True))

    def enter(self, view: View) -> Enter | Refusal | None:
        if view.token.mint not in self.answers:
            self.prepare([view])
        return self._read_entry(self.answers[view.token.mint])

    def leave(self, view: View, position: Position) -> Exit | None:
        found = self._ask("leave", view=show_view(view), position=asdict(position))
        match found:
            case None:
                return None
            case ["Exit", str(reason), int(share)] if 0 < share <= ONE and REASON.fullmatch(reason):
                return Exit(reason, share)
        self._refuse(found)

    def _read_entry(self, found: Any) -> Enter | Refusal | None:
        match found:
            case None:
                return None
            case ["Enter" | "Refusal" as kind, str(reason), str(detail)] if REASON.fullmatch(
                reason
            ):
                made = Enter if kind == "Enter" else Refusal
                return made(reason, _clean(detail))
        self._refuse(found)

    def _refuse(self, found: Any) -> NoReturn:
        kind = found[0] if isinstance(found, list) and found else type(found).__name__
        self.file.fail(f"it returned {str(kind)[:40]}, which isn't allowed here")

    def _ask(self, about: str, **more: Any) -> Any:
        return self.file.ask({"ask": about, "settings": dict(self.given), **more})


SNAPSHOT = [one.name for one in fields(Snapshot) if one.name != "pool"]
FLOW = [one.name for one in fields(Flow)]


def show_view(view: View) -> dict[str, Any]:
    return {
        "token": asdict(view.token),
        "window": [[getattr(one, name) for name in SNAPSHOT] for one in view.window],
        "flows": [[getattr(one, name) for name in FLOW] for one in view.flows],
    }


class OwnFiles:
    def __init__(self, data_dir: Path, setting: str) -> None:
        self.folder = data_dir / FOLDER if setting == "on" else None
        self.files: dict[str, OwnFile] = {}

    def begin(self) -> None:
        for file in self.files.values():
            file.begin()

    def close(self) -> None:
        for file in self.files.values():
            file.stop()

    def read_strategy(self, family: str, given: Mapping[str, Any]) -> Strategy:
        """Return a family's strategy, or a file's (`own:NAME`). Raises BadSetting and OwnFault."""
        found = NAME.fullmatch(family)
        if not found:
            return parse_settings(family, given)
        if self.folder is None:
            raise OwnFault("the operator's own strategies are turned off (OWN_STRATEGIES)")
        file = self.files.setdefault(family, OwnFile(self.folder / f"{found[1]}.py"))
        return make_strategy(family, file, given)


def make_strategy(family: str, file: OwnFile, given: Mapping[str, Any]) -> OwnStrategy:
    bounds = file.bounds
    for name, value in given.items():
        check_bounds(name, value, *find_setting(bounds, name, "file")[1:])
    shared = {
        one.name: given.get(public_name(one.name), bounds[public_name(one.name)][0])
        for one in fields(Strategy)
    }
    return OwnStrategy(name=family, given=tuple(given.items()), file=file, **shared)
