"""Setup before the program runs: `make`, which sets up .venv, and the Dockerfile. No network."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import sampling
from test_worker import Server

ROOT = Path(__file__).resolve().parents[2]
TEST_PACKAGES = {"pytest", "hypothesis", "schemathesis", "jsonschema", "playwright", "mcp"}
# The Makefile asks pip for its version and to install requirements.txt. `.ci/install` runs the real
# pip, which takes five seconds each time.
PIP = """
import os, pathlib, sys, zipfile
if "--version" not in sys.argv:
    wheels = list(pathlib.Path(os.environ["PIP_FIND_LINKS"]).glob("*.whl"))
    if not wheels:
        sys.exit("No matching distribution found")
    zipfile.ZipFile(wheels[0]).extractall(pathlib.Path(__file__).parents[1])
"""
pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")


class Clone:
    """A folder with only the Makefile, one pinned requirement, and packages in place of a
    network.
    """

    def __init__(self, folder, python):
        self.folder, self.wheels, self.python = folder / "clone", folder / "wheels", python
        self.wheel = self.wheels / "candor_probe-1.0-py3-none-any.whl"
        self.folder.mkdir()
        self.wheels.mkdir()
        shutil.copy(ROOT / "Makefile", self.folder)
        (self.folder / "requirements.txt").write_text("candor-probe==1.0\n")
        (self.folder / "app.py").write_text("import candor_probe\nprint('it runs')\n")

    def publish(self):
        """Make the requirement available from now on."""
        with zipfile.ZipFile(self.wheel, "w") as file:
            file.writestr("candor_probe.py", "")

    def make(self, *words):
        env = {**os.environ, "PIP_FIND_LINKS": str(self.wheels)}
        command = ["make", f"PYTHON={self.python}", *words]
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with a pip that installs one wheel."""
    made = tmp_path_factory.mktemp("environment") / "made"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    package = next(made.glob("lib/*/site-packages")) / "pip"
    package.mkdir()
    (package / "__main__.py").write_text(PIP)
    return made


@pytest.fixture
def clone(tmp_path, environment):
    """Its Python copies that environment if asked for one, and is otherwise a normal Python."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3 $4" = "-m venv --clear .venv" ] || exec {sys.executable} "$@"\n'
        f"rm -rf .venv && cp -al {environment} .venv\n"
    )
    python.chmod(0o755)
    return Clone(tmp_path, python)


def test_a_failed_first_run_does_not_break_later_ones(clone):
    """Once it is installed, it is not installed again."""
    failed = clone.make("run")
    assert failed.returncode != 0 and "Couldn't install the packages" in failed.stderr
    assert "it runs" not in failed.stdout
    clone.publish()
    done = clone.make("run")
    assert done.returncode == 0 and "it runs" in done.stdout, done.stderr
    # A service without write access here compiles nothing at startup.
    assert list((clone.folder / "__pycache__").glob("app.*.pyc"))
    made = (clone.folder / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    clone.wheel.unlink()
    assert clone.make("run").returncode == 0
    assert (clone.folder / ".venv" / "pyvenv.cfg").stat().st_mtime_ns == made


def test_a_broken_environment_is_rebuilt(clone):
    """As left by an older Makefile without python3-venv, and by an upgrade of Python."""
    clone.publish()
    argv = [sys.executable, "-m", "venv", "--without-pip", clone.folder / ".venv"]
    subprocess.run(argv, check=True)
    assert "it runs" in clone.make("run").stdout
    interpreter = clone.folder / ".venv" / "bin" / "python"
    interpreter.unlink()
    interpreter.symlink_to("/nowhere/python3")
    assert "it runs" in clone.make("run").stdout


def test_without_venv_make_says_what_to_install(clone, tmp_path):
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\nif [ "$2" = venv ]; then mkdir -p .venv/bin; exit 1; fi\nexec {sys.executable}'
        ' "$@"\n'
    )
    python.chmod(0o755)
    failed = clone.make("run", f"PYTHON={python}")
    assert failed.returncode != 0 and "apt install python3-venv" in failed.stderr
    assert not (clone.folder / ".venv").exists()
    python.write_text("#!/bin/sh\nexit 1\n")
    assert "Python 3.11 or newer" in clone.make("run", f"PYTHON={python}").stderr


# ---- the image -----------------------------------------------------------------------------------
def read_instructions():
    """{instruction: the rest of each such line} of the Dockerfile, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    found = {}
    for word, rest in re.findall(r"^(\S+)\s+(.*)$", re.sub(r"\\\n\s*", "", text), re.M):
        found.setdefault(word, []).append(rest)
    return found


IMAGE = read_instructions()
HEALTH_CHECK = json.loads(IMAGE["HEALTHCHECK"][0].partition("CMD ")[2])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENTS = (ROOT / "requirements.txt").read_text()
PINNED = [line.removesuffix(" \\") for line in REQUIREMENTS.splitlines() if line[:1].isalpha()]


def list_names(requirements):
    """Package names in these requirements."""
    return {re.split(r"[\[=<>~! ;]", one)[0].lower() for one in requirements}


def test_the_image_runs_as_a_numeric_user_and_has_a_health_check():
    assert IMAGE["USER"] == ["10001:10001"] and len(IMAGE["FROM"]) == 2
    assert HEALTH_CHECK[0] == "python" and "/api/health" in " ".join(HEALTH_CHECK)


ENVIRONS = {"BASE_URL": "https://candor.example/candor", "ALLOWED_HOSTS": "candor.example"}, {}


@pytest.mark.parametrize("environ", sampling.sample(ENVIRONS, 1))
def test_the_health_check_accepts_only_a_running_server(tmp_path, environ):
    server = Server(tmp_path, **environ)

    def check():
        env = {**os.environ, **environ, "PORT": str(server.port)}
        return subprocess.run([sys.executable, *HEALTH_CHECK[1:]], env=env, timeout=60).returncode

    try:
        assert check() == 0
    finally:
        server.stop()
    assert check() != 0


def test_the_image_contains_no_test_packages():
    run = " ".join(IMAGE["RUN"])
    (chosen,) = re.findall(r"\[([a-z,]+)\]'", run)
    assert "-r requirements.txt" in run and chosen == "postgres,redis"
    installed = PINNED + [one for name in chosen.split(",") for one in EXTRAS[name]]
    assert not list_names(installed) & TEST_PACKAGES
    assert "pytest" in list_names(EXTRAS["dev"])


def test_requirements_are_pinned_hashed_and_match_the_project():
    """Made by the command in the file's head; nothing in it is specific to one machine."""
    assert all(re.match(r"[A-Za-z0-9-]+==[0-9.]+", one) for one in PINNED)
    assert list_names(PROJECT["dependencies"]) <= list_names(PINNED)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", REQUIREMENTS)) >= len(PINNED)
    assert not re.search("://|--index|--find-links", REQUIREMENTS)
    optional = [one for extra in EXTRAS.values() for one in extra]
    assert all(one.startswith("candor[") or "==" in one for one in optional)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {"tests", "bench", ".git", ".venv", ".env", "data"} <= set(ignored)
