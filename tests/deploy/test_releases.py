"""Releases: the tag, its notes, and workflows with minimal permissions."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from config import VERSION

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
yaml = pytest.importorskip("yaml")
release = ModuleType("release")
release.__file__ = str(ROOT / ".ci" / "release")
exec(Path(release.__file__).read_text(), release.__dict__)

CHANGELOG = """# Changelog

## [Unreleased]
- Soon

## [1.2.0] - 2026-12-01

### Added
- One

## [1.1.0] - 2026-11-30
"""


# ---- the tag -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "version, notes",
    # A dot is a dot.
    [("1.2.0", "### Added\n- One"), ("1.1.0", ""), ("1.0.0", ""), ("1x2.0", "")],
)
def test_release_notes_are_the_versions_section(version, notes):
    assert release.find_notes(CHANGELOG, version) == notes


@pytest.mark.parametrize(
    "tag, version, notes, wrong",
    [
        ("v1.2.0", "1.2.0", "- One", None),
        ("1.2.0", "1.2.0", "- One", "1.2.0 must look like v1.2.3"),
        ("v1.2.0.dev0", "1.2.0.dev0", "- One", "v1.2.0.dev0 must look like v1.2.3"),
        ("v1.2.0", "1.2.1", "- One", "v1.2.0 must be v followed by VERSION of config.py"),
        ("v1.2.0", "1.2.0", "", "CHANGELOG.md must have a section `## [1.2.0] - YYYY-MM-DD`"),
    ],
)
def test_a_tag_of_another_version_is_refused(tag, version, notes, wrong):
    told = release.check(tag, version, notes)
    assert told is None if wrong is None else told.startswith(wrong)


def test_the_program_reads_the_version_without_importing_it():
    assert release.read_version((ROOT / "config.py").read_text()) == VERSION
    argv = [sys.executable, "-B", str(ROOT / ".ci" / "release"), "check", "v0.0.1"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    assert (done.returncode, VERSION in done.stderr) == (1, True)


# ---- the workflows -------------------------------------------------------------------------------
# What each job of the release may write; others write nothing.
WRITERS = {
    "files": {"id-token", "attestations"},
    "image": {"id-token", "attestations", "packages"},
    "publish": {"contents"},
}


def find_all(value, name):
    """Every value of this key at any depth."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    for key, one in value.items() if isinstance(value, dict) else ():
        if key == name:
            yield one
        yield from find_all(one, name)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_githubs_own_actions_and_minimal_permissions(path):
    """Actions are pinned by hash. No script contains an expression: it is passed through the
    environment, where a shell treats it as text.
    """
    told, writing = yaml.safe_load(path.read_text()), {}
    used = list(find_all(told, "uses"))
    assert used and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one) for one in used)
    assert told["permissions"] in ({}, {"contents": "read"})
    for name, job in told["jobs"].items():
        allowed = {key for key, one in job.get("permissions", {}).items() if one == "write"}
        writing |= {name: allowed} if allowed else {}
        assert "timeout-minutes" in job
    assert writing == (WRITERS if path.stem == "release" else {})
    for script in find_all(told, "run"):
        assert isinstance(script, dict) or "${{" not in script
