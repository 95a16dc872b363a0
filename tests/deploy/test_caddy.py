"""deploy/Caddyfile in front of a real server: at a host's root and below a path, which Caddy passes
on or strips. The same requests as for nginx must get the same responses.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import sampling
from live import Live
from test_nginx import (
    Front,
    test_an_oversized_body_gets_a_problem_document,
    test_events_arrive_while_the_stream_is_open,
    test_forms_work_through_nginx_with_a_secure_cookie,
)

from bench._ports import find_port

if sampling.FULL:
    from test_nginx import test_every_link_works_and_stays_below_the_path  # noqa: F401

# Taken over as they are.
__all__ = [
    "test_an_oversized_body_gets_a_problem_document",
    "test_events_arrive_while_the_stream_is_open",
    "test_forms_work_through_nginx_with_a_secure_cookie",
]
ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "deploy" / "Caddyfile"
CADDY = shutil.which("caddy")
pytestmark = pytest.mark.skipif(not CADDY, reason="caddy is not installed")
# For a test alone: no system-wide certificate, no port 80, no port of its own to command it.
OPTIONS = "{\n\tskip_install_trust\n\tauto_https disable_redirects\n\tadmin off\n}\n"
# How the file is changed for each kind, as its own first lines say.
PLACES = {
    "root": ("", ()),
    "passed on": (
        "/candor",
        (("handle /metrics", "handle /candor/metrics"), ("\thandle {", "\thandle /candor* {")),
    ),
    "stripped": (
        "/candor",
        (("handle /metrics", "handle /candor/metrics"), ("\thandle {", "\thandle_path /candor* {")),
    ),
}


class CaddyFront(Front):
    """Caddy with the shipped file, and a server behind it."""

    def __init__(self, folder, at, changes):
        port = find_port()
        self.port, self.at, self.origin = port, at, f"https://127.0.0.1:{port}"
        self.live = Live(folder, BASE_URL=self.origin + at, TRUSTED_PROXIES="1", METRICS="on")
        text = SHIPPED.read_text()
        for given, put in changes:
            assert given in text, given
            text = text.replace(given, put)
        (folder / "Caddyfile").write_text(OPTIONS + text)
        self.log = open(folder / "caddy.log", "w+")
        self.process = subprocess.Popen(
            [CADDY, "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"],
            env={
                **os.environ,
                "CANDOR_HOST": self.origin,
                "CANDOR_UPSTREAM": f"127.0.0.1:{self.live.port}",
                "HOME": str(folder),
                "XDG_DATA_HOME": str(folder / "certificates"),
            },
            stdout=self.log,
            stderr=self.log,
        )
        end = time.monotonic() + 60
        while not self._is_up():
            assert self.process.poll() is None and time.monotonic() < end, self.read_log()
            time.sleep(0.05)

    def read_log(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        super().stop()
        self.log.close()


@pytest.fixture(scope="module", params=list(PLACES) if sampling.FULL else ["root"])
def front(request, tmp_path_factory):
    at, changes = PLACES[request.param]
    made = CaddyFront(tmp_path_factory.mktemp("caddy"), at, changes)
    yield made
    made.stop()


def test_caddy_accepts_the_shipped_file():
    words = [CADDY, "validate", "--config", SHIPPED, "--adapter", "caddyfile"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and '"level":"warn"' not in done.stderr, done.stderr


def test_caddy_compresses_text_but_not_events(front):
    for path in ("/", "/openapi.json", "/docs", "/feed.atom", "/static/candor.css"):
        answer = front.ask("GET", path, **{"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip", path
        assert len(answer.body) < len(answer.text.encode()) / 2, path


def test_caddy_logs_no_paths(front):
    front.ask("GET", "/search?q=pasted-secret")
    assert not re.search(r"pasted-secret", front.read_log())
