"""Secrets pasted into every place a caller can reach, and secrets in settings: no log, file,
backup, page or error contains one.

Values shown once on purpose (a key, a recovery code, the text to sign) are only in the response to
their own request, which is the only response not searched.
"""

import base64
import contextlib
import html
import http.client
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import ground
import pytest
import sampling
from live import Live
from nacl.signing import SigningKey
from receiver import Receiver, answer
from service import address
from test_worker import ROOT, SETTINGS

from accounts.fields import holds_secret
from chain import addresses

SEED = b"canary seed of 32 bytes, no more"
PAIR = SEED + bytes(SigningKey(SEED).verify_key)
# from bytes 7 to 22, with its checksum
PHRASE = "alpha doctor dream bid school mandate detail acquire bamboo obvious aim clump"
PASTED = {
    "a secret key in base58": addresses.b58encode(PAIR),
    "as solana-keygen writes it": json.dumps(list(PAIR)),
    "without spaces": str(list(PAIR)).replace(" ", ""),
    "in hex": PAIR.hex(),
    "in base64": base64.b64encode(PAIR).decode(),
    "a seed phrase": PHRASE,
    "numbered": "\n".join(f"{n}. {word}" for n, word in enumerate(PHRASE.split(), 1)),
}
# A secret's spelling doesn't affect where it could appear. `--full` tries every spelling.
WRITTEN = ("a secret key in base58", "a seed phrase")
SETTING = {
    name: f"canary-{name.lower().replace('_', '-')}-5f1e"
    for name in (
        *("RPC_PATH", "RPC_QUERY", "RPC_USER", "RPC_PASSWORD", "DEX", "GECKO"),
        *("LLM_BASE", "LLM_API_KEY", "SECRET_KEY"),
    )
}
POST_FIELDS = ("eventId", "body", "mint", "symbol", "signature", "reason", "botId")
FORM_FIELDS = ("name", "bio", "tone", "style", "adjectives", "topics", "catchphrases", "emoji")
PATHS = """
/{} /api/{} /api/v1/bots/{} /api/v1/posts/{} /api/traders/{} /bots/{} /posts/{} /embed/{}
/tokens/{} /traders/{} /keys/{}/revoke /bots/{}/manage //api/{} /static/{} /bots/{}/feed.json
/api/v1/feed?key={0}&cursor={0} /api/v1/feed?since={0}&limit={0} /api/v1/trades?wallet={0}
/api/v1/trades?mint={0} /api/v1/trades?botId={0} /api/v1/activity?mint={0}
/api/v1/leaderboard?sort={0} /api/v1/leaderboard?window={0} /api/v1/market?cursor={0}
/api/v1/stream?since={0} /api/feed?cursor={0} /?mint={0} /?source=bot&mint={0} /?source={0}
/?before={0} /?key={0} /feed.json?mint={0} /feed.json?key={0} /feed.atom?key={0}
/leaderboard?sort={0} /market?before={0} /skill.md?bot={0} /connect?key={0}
/connect/preview?tone={0}&catchphrases={0} /docs?key={0}
""".split()
HEADERS = """
Cookie User-Agent Referer Origin X-Request-Id X-Forwarded-For Forwarded Idempotency-Key
Last-Event-ID If-None-Match Accept Content-Type
""".split()
# Malformed requests.
LINES = "GET /{0} HTTP/1.1\r\nHost: localhost\r\n{0}", "{0}", "GET / {0}\r\nHost: localhost"
OPENED = """
/ /leaderboard /market /traders /strategies /status /docs /docs/errors /create /connect
/bots/{uid} /bots/{uid}/manage /bots/{bot} /feed.json /feed.atom /openapi.json /llms.txt /skill.md
/api/health /api/market /metrics
"""
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# `app.py`, which otherwise waits 10 seconds after each failed pass of `observe --once`.
COMMAND = """
import sys, observer, cli.parser
observer.THROTTLED_SECONDS = 0
sys.exit(cli.parser.main())
"""


class Provider(Receiver):
    """Refuses everything and repeats the request, like a careless provider. `asked`: all
    requests.
    """

    def __init__(self):
        super().__init__()
        self.asked = []
        self.behave(self.refuse)

    def refuse(self, handler):
        self.asked.append(str(handler.headers).encode() + handler.path.encode() + handler.body)
        answer(403, f"refused {handler.path} {handler.headers['Authorization']}".encode())(handler)


@pytest.fixture
def provider():
    with contextlib.closing(Provider()) as made:
        yield made


class Searched(Live):
    """A server whose responses and command output are stored for searching, each with its
    request. `cookie` is the owner's, once its form was submitted.
    """

    def __init__(self, folder, provider):
        # By page and session.
        self.tokens = {}
        self.answers, self.cookie = defaultdict(bytes), ""
        at, user = urlsplit(provider.url).netloc, "{RPC_USER}:{RPC_PASSWORD}".format(**SETTING)
        urls = {
            "SOLANA_RPC_URLS": f"http://{user}@{at}/{{RPC_PATH}}?api-key={{RPC_QUERY}}",
            "DEXSCREENER_URL": f"http://{at}/{{DEX}}",
            "GECKOTERMINAL_URL": f"http://{at}/{{GECKO}}",
            "LLM_BASE_URL": f"http://{at}/{{LLM_BASE}}",
        }
        self.secrets = {name: url.format(**SETTING) for name, url in urls.items()}
        self.secrets |= {name: SETTING[name] for name in ("LLM_API_KEY", "SECRET_KEY")}
        self.secrets["LLM_MODEL"] = "m"
        jobs = (f"{name}_INTERVAL_SECONDS" for name in ("OBSERVER", "SCOUT", "PAPER"))
        super().__init__(folder, **dict.fromkeys(jobs, "2"), **self.secrets)

    def ask(self, method, path, body=None, headers=(), keep=True):
        """(status, text) of a response."""
        headers = dict(headers)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            raw = answer.read() if answer.headers.get_content_type() != "text/event-stream" else b""
        if headers.get("Cookie") == self.cookie and answer.headers.get("Set-Cookie"):
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            # Where it belongs.
            del answer.headers["Set-Cookie"]
        if keep:
            place = f"{method} {path.split('?')[0][:40]} {answer.status}"
            self.answers[place] += str(answer.headers).encode() + raw
        return answer.status, raw.decode()

    def read(self, path, **headers):
        """The status of a response to the read key."""
        sent = {"Authorization": f"Bearer {self.read_key}", "Content-Type": "application/json"}
        return self.ask("GET", path, headers=sent | headers)[0]

    def post(self, body, key="", **headers):
        """The status of a response to a post."""
        sent = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"}
        return self.ask("POST", "/api/v1/posts", body.encode(), sent | headers)[0]

    def open(self, path):
        """The text of a page in the owner's browser."""
        return self.ask("GET", path, headers={"Cookie": self.cookie})[1]

    def submit(self, path, page="/connect", keep=True, **typed):
        """Submit a form like the page at `page`: (status, text)."""
        asked = page, self.cookie
        if asked not in self.tokens:
            found = re.search(r'name="csrf_token" value="([^"]+)"', self.open(page))
            self.tokens[asked] = found[1]
        sent = urlencode({"csrf_token": self.tokens[asked], **typed}).encode()
        return self.ask("POST", path, sent, {"Cookie": self.cookie, **FORM}, keep)

    def tell(self, *words):
        """Run a command with the server's settings; return its exit code."""
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            cwd=ROOT,
            env={**os.environ, **SETTINGS, **self.secrets, **ground.environ(self.folder / "data")},
            capture_output=True,
            timeout=60,
        )
        self.answers[" ".join(words[:2])] += done.stdout + done.stderr
        return done.returncode

    def list_failures(self):
        health = json.loads(self.ask("GET", "/api/health")[1])
        return [health[name]["lastError"] for name in ("walletObserver", "scout")]


@pytest.fixture
def server(tmp_path, provider):
    made = Searched(tmp_path, provider)
    yield made
    made.stop()


def shown(text, name):
    """What a response shows once under this name."""
    return html.unescape(re.search(rf'id="{name}">([^<]+)<', text)[1])


def test_no_secret_appears_anywhere(server, provider, tmp_path, full):
    """Some 600 requests; the text of one ordinary post proves that the search works."""
    page = server.submit("/connect", keep=False, name="Nell", wallet=address("nell"))[1]
    uid, key = re.search(r"/bots/(bot_\w+)", page)[1], shown(page, "publish-key")
    pasted = {name: PASTED[name] for name in (PASTED if full else WRITTEN)}
    secrets = {**pasted, "a key": key, "a recovery code": shown(page, "recovery-code")}
    honest = '{"eventId": "honest", "body": "honest words of canary-honest"}'
    assert server.post(honest, key) == 201
    read_page = server.submit("/connect/keys", keep=False, label="mine")[1]
    present = {"present": secrets["a recovery code"]}
    code_page = server.submit("/recovery-code", keep=False, **present)[1]
    later = {
        **SETTING,
        **ground.SECRETS,
        "another key": server.key,
        "a read key": server.read_key,
        "a read key of the form": shown(read_page, "read-key"),
        "the second code": shown(code_page, "recovery-code"),
        "a cookie": server.cookie.partition("=")[2],
    }

    for secret in (*secrets.values(), later["a cookie"]):
        paste_into_addresses_and_headers(server, secret)
    for secret in secrets.values():
        paste_into_posts(server, secret)
        paste_into_forms(server, uid, secret)
    later["a rotated key"] = rotate(server, uid)
    recovered = server.submit("/recover", keep=False, code=later["the second code"])[1]
    later["the third code"] = shown(recovered, "recovery-code")
    look_at_everything(server, uid, tmp_path / "candor.backup")
    server.stop()
    check_asked(provider, secrets, later)
    found = search({**secrets, **later, "honest words": "canary-honest"}, server, tmp_path)
    backup = "all rows" if ground.SERVER else "candor.backup"
    assert found.pop("honest words") >= {"GET / 200", backup}
    assert found == {}


def paste_into_addresses_and_headers(server, secret):
    for path in PATHS:
        server.read(path.format(quote(secret, safe="")))
    one_line = secret.replace("\n", " ")
    for name in HEADERS:
        server.read("/api/v1/me", **{name: one_line})
    for text in (one_line, f"Bearer {one_line}x"):
        server.read("/api/v1/me", Authorization=text)
    for asked in ("GET / Host", "POST /connect Cookie", "DELETE /api/v1/feed X-Api-Key"):
        method, path, name = asked.split()
        server.ask(method, path, headers={name: one_line})
    for line in LINES:
        server.answers["malformed"] += server.send(f"{line}\r\n\r\n".format(one_line).encode())


def paste_into_posts(server, secret):
    whole = {"eventId": "e", "body": "words"}
    for field in POST_FIELDS:
        for text in (secret, f"mine is {secret}, keep it"):
            assert server.post(json.dumps({**whole, field: text})) in (403, 422), field
    wrong = {**whole, secret: 1}, {**whole, "body": {secret: secret}}, {**whole, "body": [secret]}
    for body in (*wrong, [secret]):
        assert server.post(json.dumps(body)) in (400, 422)
    assert [server.post(f'{{"{secret}"'), server.post(secret)] == [400, 400]
    named = {"Idempotency-Key": secret.replace("\n", " ")}
    assert server.post('{"body": "words"}', **named) == 422


def paste_into_forms(server, uid, secret):
    bot, manage, proof = f"/bots/{uid}", f"/bots/{uid}/manage", f"/bots/{uid}/proof"
    # Each page is opened again for each secret, after everything was pasted.
    server.tokens.clear()

    def refuse(path, fields, page=manage, **typed):
        for field in fields:
            assert server.submit(path, page, **{**typed, field: secret})[0] == 422, (path, field)

    refuse("/connect", (*FORM_FIELDS, "wallet"), "/connect", name="Copy")
    refuse(f"{bot}/profile", FORM_FIELDS, name="Nell")
    trader = {"name": "Copy", "family": "flow", "start": "guarded"}
    refuse("/traders/new", ("name", "bio", "family", "start", "tone"), "/connect", **trader)
    fields = ("body", "mint", "symbol", "signature", "reason", "draft")
    refuse(f"{bot}/posts", fields, draft="d1", body="words")
    refuse(f"{bot}/wallet", ["wallet"])
    refuse(f"{bot}/challenge", ["prove"])
    refuse(f"{bot}/keys", ["label"])
    refuse("/connect/keys", ["label"])
    refuse("/recover", ["code"])
    # Half of all 32-byte strings aren't curve points, and can't prove anything.
    assert server.submit(f"{bot}/challenge", manage, prove=address("nora"))[0] == 302
    refuse(proof, ["signature"], proof)
    refuse("/connect", ["draft"], "/connect", name="", unknown=secret, **{secret: secret})
    typed = {"name": secret, "body": secret, "wallet": secret, secret: secret}
    stale = urlencode({"csrf_token": "stale", **typed}).encode()
    assert server.ask("POST", "/connect", stale, FORM)[0] == 400


def rotate(server, uid):
    """A new key's text; the key is then revoked."""

    def find(act):
        return re.findall(rf"/keys/key_\w+/{act}", server.open(f"/bots/{uid}/manage"))[-1]

    path = find("rotate")
    page = server.submit(path, path, keep=False, overlap="1")[1]
    path = find("revoke")
    assert server.submit(path, path)[0] == 302
    return shown(page, "publish-key")


def look_at_everything(server, uid, backup):
    # Each job used the careless provider.
    ground.until(lambda: all(server.list_failures()))
    for path in OPENED.format(uid=uid, bot=server.bot).split():
        server.open(path)
    for path in ("bots", f"bots/{uid}", "feed", "trades", "leaderboard", "market", "me"):
        assert server.read(f"/api/v1/{path}") == 200
    assert server.tell("backup", str(backup)) == bool(ground.SERVER)
    commands = (
        ("observe", "--once"),
        ("doctor",),
        ("key", "list", "--json"),
        ("bot", "wallet", server.bot, PASTED["a secret key in base58"]),
        ("bot", server.key),
        ("key", "list"),
        ("bot", "list"),
        ("bot", "create", "--name", PHRASE),
        ("key", "revoke", server.key),
        ("--rpc", SETTING["RPC_PATH"]),
    )
    for words in commands if sampling.FULL else commands[:5]:
        server.tell(*words)
    assert b"not done: " in server.answers["observe --once"]


def check_asked(provider, *secrets):
    """Check that providers get only the jobs' requests, whatever callers sent, and that only they
    get the settings' tokens.
    """
    asked = b"\n".join(provider.asked)
    for wanted in (SETTING["RPC_QUERY"], SETTING["GECKO"], address("live")):
        assert wanted.encode() in asked
    for name, secret in (item for given in secrets for item in given.items()):
        assert name in SETTING or secret.encode() not in asked, name


def search(secrets, server, folder):
    """{secret: where it was found}, plain or encoded as in addresses, forms and pages"""
    files = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    expected = {"server.log"} | (set() if ground.REDIS else {"ratelimit.db"})
    if ground.SERVER:
        files["all rows"] = ground.read_all(server.folder / "data")
    else:
        expected |= {"app.db", "candor.backup"}
    assert expected <= set(files)
    found = defaultdict(set)
    for name, secret in secrets.items():
        encoded = quote(secret, safe=""), quote_plus(secret), html.escape(secret)
        forms = [form.encode() for form in (secret, *encoded, json.dumps(secret)[1:-1])]
        for place, content in {**server.answers, **files}.items():
            if any(form in content for form in forms):
                found[name].add(place)
    return found


@pytest.mark.parametrize("text", list(PASTED.values()), ids=list(PASTED))
def test_a_secret_inside_a_text_is_detected(text):
    for written in (text, f"my wallet:\n{text}\n\nbought the dip", f'"{text}"'):
        assert holds_secret(written)


def test_ordinary_text_contains_no_secrets():
    """A signature, an address, an invalid checksum, eleven words, numbers."""
    words = "Bought 1,200 PINE for 0.5 SOL because the book was thin and its sellers had gone away"
    invalid = addresses.b58encode(bytes(range(64)))
    texts = ["", words, address("a wallet"), invalid, "5" * 88, "ab" * 64, "cnd_pub_" + "x" * 49]
    texts += [" ".join(PHRASE.split()[:11]), str(list(range(64))), "ABCDE-FGHIJ", "1 " * 2000]
    for text in (*texts, "9" * 4000):
        assert not holds_secret(text), text
