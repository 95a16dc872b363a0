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
def test_release_notes_are_the_versions_section():
    assert release.find_notes(CHANGELOG, "1.2.0") == "### Added\n- One"
    assert release.find_notes(CHANGELOG, "1.1.0") == release.find_notes(CHANGELOG, "1.0.0") == ""
    # A dot is a dot.
    assert release.find_notes(CHANGELOG, "1x2.0") == ""


@pytest.mark.parametrize(
    ("tag", "version", "notes", "wrong"),
    [
        ("1.2.0", "1.2.0", "- One", "1.2.0 must look like v1.2.3"),
        ("v1.2.0.dev0", "1.2.0.dev0", "- One", "v1.2.0.dev0 must look like v1.2.3"),
        ("v1.2.0", "1.2.1", "- One", "v1.2.0 must be v followed by VERSION of config.py"),
        ("v1.2.0", "1.2.0", "", "CHANGELOG.md must have a section `## [1.2.0] - YYYY-MM-DD`"),
    ],
)
def test_a_tag_of_another_version_is_refused(tag, version, notes, wrong):
    assert release.check(tag, version, notes).startswith(wrong)


def test_a_matching_tag_passes():
    assert release.check("v1.2.0", "1.2.0", "- One") is None


def test_the_program_reads_the_version_without_importing_it():
    assert release.read_version((ROOT / "config.py").read_text()) == VERSION
    argv = [sys.executable, "-B", str(ROOT / ".ci" / "release"), "check", "v0.0.1"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    assert (done.returncode, VERSION in done.stderr) == (1, True)


# ---- the workflows -------------------------------------------------------------------------------
def find_all(value, name):
    """Every value of this key, however deep."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key == name:
                yield one
            yield from find_all(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from find_all(one, name)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash_and_come_from_github(path):
    used = list(find_all(yaml.safe_load(path.read_text()), "uses"))
    assert used and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one) for one in used)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_permissions_are_minimal_and_set_per_job(path):
    told = yaml.safe_load(path.read_text())
    assert told["permissions"] in ({}, {"contents": "read"})
    writers = {
        name: {key for key, value in job["permissions"].items() if value == "write"}
        for name, job in told["jobs"].items()
        if "permissions" in job
    }
    assert {name: kinds for name, kinds in writers.items() if kinds} == (
        {
            "files": {"id-token", "attestations"},
            "image": {"id-token", "attestations", "packages"},
            "publish": {"contents"},
        }
        if path.stem == "release"
        else {}
    )
    assert all("timeout-minutes" in job for job in told["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_script_contains_untrusted_input(path):
    """Expressions are put into the environment, where a shell reads them as text."""
    for script in find_all(yaml.safe_load(path.read_text()), "run"):
        assert isinstance(script, dict) or "${{" not in script
