"""deploy/nginx.conf and deploy/Caddyfile in front of a real server: at a host's root and below a
path, which the proxy passes on or strips. Both give the same responses.
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

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NGINX, CADDY = shutil.which("nginx") or "/usr/sbin/nginx", shutil.which("caddy")


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
    """A proxy with the shipped file, other ports and its own certificate, in front of a server.
    `at`: Candor's path below the host.
    """

    def __init__(self, folder, place):
        self.folder, self.port = folder, find_port()
        self.at, changes = self.PLACES[place]
        self.origin = f"https://127.0.0.1:{self.port}"
        self.live = Live(folder, BASE_URL=self.origin + self.at, TRUSTED_PROXIES="1", METRICS="on")
        self.log = open(folder / "proxy.log", "w+")
        command, environ = self.configure(changes)
        pipes = {"stdout": self.log, "stderr": self.log}
        self.process = subprocess.Popen(command, env={**os.environ, **environ}, **pipes)
        end = time.monotonic() + 60
        while not self._is_up():
            assert self.process.poll() is None and time.monotonic() < end, self.read_log()
            time.sleep(0.05)

    def read_log(self):
        self.log.seek(0)
        return self.log.read()

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
        connection, path = self.connect(), path if whole else self.at + path
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def post(self, body):
        """Publish this body as the server's bot."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.live.key}"}
        return self.ask("POST", "/api/v1/posts", body, **headers)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.live.stop()
        self.log.close()


def replace(text, changes):
    for given, put in changes:
        assert given in text, given
        text = text.replace(given, put)
    return text


class Nginx(Front):
    MAIN = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
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
    # How the file's own first lines say that it is changed. The last one is the hardest.
    BELOW = (
        ("location / {", "location /candor/ {"),
        ("= /metrics", "= /candor/metrics"),
        ("/docs/errors", "/candor/docs/errors"),
    )
    PLACES = {
        "root": ("", ()),
        "passed on": ("/candor", BELOW),
        "stripped": (
            "/candor",
            (*BELOW, ("proxy_pass http://candor;", "proxy_pass http://candor/;")),
        ),
    }

    def configure(self, changes):
        folder = self.folder
        request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1".split()
        files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
        subprocess.run([*request, *files], check=True, capture_output=True)
        text = re.sub(r"\n    listen \[::\].*", "", (DEPLOY / "nginx.conf").read_text())
        ours = (
            # pages are served at port 443, which a browser leaves out of the host name
            ("Host $host;", "Host $host:$server_port;"),
            ("https://$host/docs", "https://$host:$server_port/docs"),
            ("listen 80;", f"listen 127.0.0.1:{find_port()};"),
            ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            ("127.0.0.1:8000", f"127.0.0.1:{self.live.port}"),
            ("server_name candor.example", "server_name 127.0.0.1"),
            ("/etc/letsencrypt/live/candor.example/fullchain.pem", f"{folder}/cert.pem"),
            ("/etc/letsencrypt/live/candor.example/privkey.pem", f"{folder}/key.pem"),
        )
        (folder / "candor.conf").write_text(replace(text, (*ours, *changes)))
        user = "user root;" if os.getuid() == 0 else ""
        (folder / "nginx.conf").write_text(self.MAIN.format(folder=folder, user=user))
        command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        tested = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert tested.returncode == 0 and "warn" not in tested.stderr, tested.stderr
        return command, {}


class Caddy(Front):
    # For tests only: no system-wide certificate, no port 80 and no admin port.
    OPTIONS = "{\n\tskip_install_trust\n\tauto_https disable_redirects\n\tadmin off\n}\n"
    METRICS = ("handle /metrics", "handle /candor/metrics")
    PLACES = {
        "root": ("", ()),
        "passed on": ("/candor", (METRICS, ("\thandle {", "\thandle /candor* {"))),
        "stripped": ("/candor", (METRICS, ("\thandle {", "\thandle_path /candor* {"))),
    }

    def configure(self, changes):
        shipped, changed = DEPLOY / "Caddyfile", self.folder / "Caddyfile"
        words = [CADDY, "validate", "--config", shipped, "--adapter", "caddyfile"]
        tested = subprocess.run(words, capture_output=True, text=True)
        assert tested.returncode == 0 and '"level":"warn"' not in tested.stderr, tested.stderr
        changed.write_text(self.OPTIONS + replace(shipped.read_text(), changes))
        return [CADDY, "run", "--config", changed, "--adapter", "caddyfile"], {
            "CANDOR_HOST": self.origin,
            "CANDOR_UPSTREAM": f"127.0.0.1:{self.live.port}",
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "certificates"),
        }


no_nginx = not os.access(NGINX, os.X_OK) or not shutil.which("openssl")
INSTALLED = {
    Nginx: pytest.mark.skipif(no_nginx, reason="nginx or openssl is not installed"),
    Caddy: pytest.mark.skipif(not CADDY, reason="caddy is not installed"),
}


def list_fronts(kind, place):
    places = list(kind.PLACES) if sampling.FULL else [place]
    name, marks = kind.__name__.lower(), INSTALLED[kind]
    return [pytest.param((kind, one), id=f"{name} {one}", marks=marks) for one in places]


@pytest.fixture(scope="module")
def front(request, tmp_path_factory):
    kind, place = request.param
    made = kind(tmp_path_factory.mktemp("proxy"), place)
    yield made
    made.stop()


NGINXES, CADDIES = list_fronts(Nginx, "stripped"), list_fronts(Caddy, "root")


def through(*fronts):
    return pytest.mark.parametrize("front", fronts, indirect=True, scope="module")


# parts that differ between two addresses of one kind of page: an ID, an address, a document's name
PARTICULAR = re.compile(r"\b[a-z]+_\w{8,}|\b[1-9A-HJ-NP-Za-km-z]{32,}|(?<=/docs/).+")


@through(*NGINXES, *(CADDIES if sampling.FULL else []))
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
    seen = {path.removeprefix(front.at) for path, _ in kinds}
    assert {"/leaderboard", "/docs", "/connect", "/bots/*"} <= seen


@through(*NGINXES, *CADDIES)
def test_forms_work_with_a_secure_cookie(front):
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


@through(*NGINXES, *CADDIES)
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


@through(*NGINXES, *CADDIES)
def test_events_arrive_while_the_stream_is_open(front):
    connection = front.connect()
    headers = {"Authorization": f"Bearer {front.live.read_key}", "Accept-Encoding": "gzip"}
    connection.request("GET", front.at + "/api/v1/stream", headers=headers)
    stream = connection.getresponse()
    assert stream.status == 200 and "Content-Encoding" not in stream.headers
    body = json.dumps({"eventId": f"through {front.port}", "body": "through a proxy"})
    assert front.post(body).status == 201
    assert any(line.startswith(b"data:") and b"through a proxy" in line for line in stream)
    connection.close()


@through(*NGINXES, *CADDIES)
def test_text_is_compressed(front):
    for n in range(3):
        assert front.post(json.dumps({"eventId": f"{n}", "body": "more text"})).status == 201
    for path in ("/", "/openapi.json", "/docs", "/feed.atom", "/static/candor.css"):
        answer = front.ask("GET", path, **{"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] == "gzip", path
        assert "Accept-Encoding" in ",".join(answer.headers.get_all("Vary")), path
        assert len(answer.body) < len(answer.text.encode()) / 2, path


@through(*NGINXES, *CADDIES)
def test_metrics_are_hidden_outside(front):
    assert front.ask("GET", "/metrics").status == 404
    assert front.live.get("/metrics")[0] == 200


@through(*CADDIES)
def test_caddy_logs_no_paths(front):
    front.ask("GET", "/search?q=pasted-secret")
    assert "pasted-secret" not in front.read_log()
