"""deploy/nginx.conf in front of a real server: at a host's root and below a path, which nginx
passes on or strips.
"""

import gzip
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
import sampling
from live import Live
from test_prefix import LINKS

from bench._ports import find_port

ROOT = Path(__file__).resolve().parents[2]
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
pytestmark = [
    pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="nginx is not installed"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed"),
]
MAIN = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/candor.conf;
}}
"""
# How the file is changed for each kind, as its own first lines say. The last one is the hardest.
BELOW = (
    ("location / {", "location /candor/ {"),
    ("= /metrics", "= /candor/metrics"),
    ("/docs/errors", "/candor/docs/errors"),
)
PLACES = {
    "root": ("", ()),
    "passed on": ("/candor", BELOW),
    "stripped": ("/candor", (*BELOW, ("proxy_pass http://candor;", "proxy_pass http://candor/;"))),
}


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self):
        zipped = self.headers.get("Content-Encoding") == "gzip"
        return (gzip.decompress(self.body) if zipped else self.body).decode()


class Front:
    """nginx with the shipped file, other ports and its own certificate, in front of a server. `at`:
    Candor's path below the host.
    """

    def __init__(self, folder, at, changes):
        port, plain = find_port(), find_port()
        self.port, self.at, self.origin = port, at, f"https://127.0.0.1:{port}"
        self.live = Live(folder, BASE_URL=self.origin + at, TRUSTED_PROXIES="1", METRICS="on")
        self._write(folder, plain, changes)
        command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        tested = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert tested.returncode == 0 and "warn" not in tested.stderr, tested.stderr
        self.process = subprocess.Popen(command)
        end = time.monotonic() + 60
        while not self._is_up():
            assert self.process.poll() is None and time.monotonic() < end, (
                folder / "error.log"
            ).read_text()
            time.sleep(0.05)

    def _write(self, folder, plain, changes):
        request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1".split()
        files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
        subprocess.run([*request, *files], check=True, capture_output=True)
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        text = re.sub(r"\n    listen \[::\].*", "", text)
        # pages are served at port 443, which a browser leaves out of the host name
        text = text.replace("Host $host;", "Host $host:$server_port;")
        text = text.replace("https://$host/docs", "https://$host:$server_port/docs")
        for given, put in (
            ("listen 80;", f"listen 127.0.0.1:{plain};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            ("127.0.0.1:8000", f"127.0.0.1:{self.live.port}"),
            ("server_name candor.example", "server_name 127.0.0.1"),
            ("/etc/letsencrypt/live/candor.example/fullchain.pem", f"{folder}/cert.pem"),
            ("/etc/letsencrypt/live/candor.example/privkey.pem", f"{folder}/key.pem"),
            *changes,
        ):
            assert given in text, given
            text = text.replace(given, put)
        (folder / "candor.conf").write_text(text)
        user = "user root;" if os.getuid() == 0 else ""
        (folder / "nginx.conf").write_text(MAIN.format(folder=folder, user=user))

    def _is_up(self):
        try:
            return self.ask("GET", "/api/health").status == 200
        except OSError:
            return False

    def connect(self):
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=unverified)

    def ask(self, method, path, body=None, whole=False, **headers):
        """`path` is Candor's own; with `whole`, the host's."""
        connection = self.connect()
        try:
            connection.request(
                method, path if whole else self.at + path, body=body, headers=headers
            )
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def post(self, body):
        """Publish this body as the server's bot."""
        json_type = {"Content-Type": "application/json"}
        bearer = f"Bearer {self.live.key}"
        return self.ask("POST", "/api/v1/posts", body, Authorization=bearer, **json_type)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.live.stop()


@pytest.fixture(scope="module", params=list(PLACES) if sampling.FULL else ["stripped"])
def front(request, tmp_path_factory):
    at, changes = PLACES[request.param]
    made = Front(tmp_path_factory.mktemp("nginx"), at, changes)
    yield made
    made.stop()


# parts that differ between two addresses of one kind of page: an ID, an address, a document's name
PARTICULAR = re.compile(r"\b[a-z]+_\w{8,}|\b[1-9A-HJ-NP-Za-km-z]{32,}|(?<=/docs/).+")


def test_every_link_works_and_stays_below_the_path(front):
    """One page of each kind; test_prefix.py follows every link without a proxy."""
    queue, kinds = [front.at + "/"], set()
    while queue:
        at = queue.pop()
        path, _, query = at.partition("?")
        kind = PARTICULAR.sub("*", path), tuple(sorted(parse_qs(query)))
        if kind in kinds:
            continue
        kinds.add(kind)
        assert len(kinds) < 200
        page = front.ask("GET", at, whole=True)
        assert page.status in (200, 302, 405), f"{at}: {page.status}"
        if page.headers.get_content_type() != "text/html":
            continue
        for link in LINKS.findall(page.text):
            target = urlsplit(urljoin(front.origin + at, link.replace("&amp;", "&")))
            if "/" in link and target.netloc == f"127.0.0.1:{front.port}":
                assert target.path.startswith(front.at + "/"), f"{at} leads to {link}"
                queue.append(target.path + (f"?{target.query}" if target.query else ""))
    assert {f"{front.at}{path}" for path in ("/leaderboard", "/docs", "/connect", "/bots/*")} <= {
        path for path, _ in kinds
    }


def test_forms_work_through_nginx_with_a_secure_cookie(front):
    page = front.ask("GET", "/connect")
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)[1]
    sent = {
        "Cookie": page.headers["Set-Cookie"].partition(";")[0],
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": front.origin,
        "Referer": front.origin + front.at + "/connect",
    }
    made = front.ask("POST", "/connect", f"csrf_token={token}&name=Nell", **sent)
    cookie = made.headers["Set-Cookie"] + ";"
    assert made.status == 200 and "Secure" in cookie and f"Path={front.at or '/'};" in cookie


def test_nginx_compresses_text(front):
    for path in ("/", "/openapi.json", "/docs"):
        answer = front.ask("GET", path, **{"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip", path
        assert "Accept-Encoding" in answer.headers["Vary"], path
        assert len(answer.body) < len(answer.text.encode()) / 2


def test_an_oversized_body_gets_a_problem_document(front):
    """As from the server itself, with its own request's ID."""
    body = b"x" * (64 * 1024 + 1)
    answer = front.post(body)
    assert (answer.status, answer.headers.get_content_type()) == (413, "application/problem+json")
    said = json.loads(answer.body)
    assert said["type"] == f"{front.origin}{front.at}/docs/errors#body_too_large"
    identity = said.pop("requestId")
    assert identity == answer.headers["X-Request-Id"] and re.fullmatch(r"req_[0-9a-f]+", identity)
    direct = http.client.HTTPConnection("127.0.0.1", front.live.port, timeout=20)
    headers = {"Authorization": f"Bearer {front.live.key}", "Content-Type": "application/json"}
    direct.request("POST", "/api/v1/posts", body, headers)
    own = json.loads(direct.getresponse().read())
    direct.close()
    assert own.pop("requestId") and said == own
    named = {"status": 413, "code": "body_too_large", "title": "Body too large"}
    assert named.items() <= said.items()


def test_events_arrive_while_the_stream_is_open(front):
    connection = front.connect()
    headers = {"Authorization": f"Bearer {front.live.read_key}", "Accept-Encoding": "gzip"}
    connection.request("GET", front.at + "/api/v1/stream", headers=headers)
    stream = connection.getresponse()
    assert stream.status == 200 and "Content-Encoding" not in stream.headers
    body = json.dumps({"eventId": f"through {front.port}", "body": "through nginx"})
    assert front.post(body).status == 201
    for line in stream:
        if line.startswith(b"data:") and b"through nginx" in line:
            break
    else:
        raise AssertionError("the stream ended without the post")
    connection.close()


def test_metrics_are_hidden_outside(front):
    assert front.ask("GET", "/metrics").status == 404
    assert front.live.get("/metrics")[0] == 200
