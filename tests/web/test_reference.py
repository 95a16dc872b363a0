"""/docs: the whole API is in it, and its examples work when pasted."""

import html
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import sampling
from service import address

from accounts.problem import CODES, OF_ALL, OF_KEYS
from web.api import openapi
from web.site import documentation

EXAMPLE = re.compile(r'<pre id="(curl|python)"><code>(.*?)</code></pre>', re.S)


def test_the_reference_lists_every_request_field_error_and_limit(serve):
    limits = {"allowance": (("minute", 121), ("hour", 2002), ("day", 10003))}
    limits |= {"posts_per_minute": 24, "creations_per_minute": 5}
    limits |= {"ip_limit_per_minute": 306, "failed_auth_per_minute": 27}
    told = "121 a minute; 2,002 an hour; 10,003 a day; posts: 24 a minute; New bots: 5 a minute;"
    told += " 306 requests a minute; 27 of them; 20 active keys"
    service = serve(**limits)
    groups = {name: service.get(f"/docs/fields/{name}").text for name in documentation.GROUPS}
    docs, index, errors = (service.get(f"/docs{name}").text for name in ("", "/fields", "/errors"))
    page = "".join([docs, read_requests(service), *groups.values()])
    document = openapi.build_document("http://127.0.0.1:8000")
    shapes = document["components"]["schemas"]
    fields = {field for shape in shapes.values() for field in shape.get("properties", {})}
    names = {*OF_KEYS, *OF_ALL, *openapi.HEADERS} - {"RateLimit-Policy"}
    for operation in openapi.OPERATIONS:
        names |= {*operation.refusals, *(one["name"] for one in openapi.list_parameters(operation))}
    words = set(re.findall(r"[\w/{}-]+", html.unescape(re.sub(r"<[^>]+>", " ", page))))
    assert {*document["paths"], *shapes} | fields | names <= words
    for limit in told.split("; "):
        assert limit in page
    # Links lead somewhere.
    linked = re.findall(r'href="/docs/fields/(\w+)#(\w+)"', page)
    assert linked
    for text, anchors in (
        (page, re.findall(r'href="#([\w-]+)"', page)),
        (index, shapes),
        (errors, re.findall(r'href="/docs/errors#(\w+)"', page)),
        *((groups[group], [anchor]) for group, anchor in linked),
    ):
        for anchor in anchors:
            assert f'id="{anchor}"' in text
    assert re.findall(r'<div id="(\w+)"><dt>.*?</strong> \w', errors) == [*CODES]


@pytest.mark.skipif(not shutil.which("curl"), reason="the examples use curl")
def test_every_example_works_as_pasted(live):
    """The one that posts comes first, so that there is a post to request; a repeated request gets
    the same response.
    """
    live.command("trader", "create", "--name", "Penny", "--family", "momentum")
    hours = (datetime.now(UTC) + timedelta(hours=n) for n in (1, 3))
    starts, ends = (hour.strftime("%Y-%m-%dT%H:00Z") for hour in hours)
    live.command("season", "create", "--name", "Cup", "--start", starts, "--end", ends)
    paste(live, "curl", "publishPost", read_examples(live)["curl", "publishPost"])
    examples = read_examples(live)
    assert len(examples) == 2 * len(openapi.OPERATIONS)
    # Those need a wallet's signature: tests/accounts/test_registration.py.
    alone = [one for one in examples if one[1] not in ("getChallenge", "registerBot")]
    # An odd distance, because the languages alternate.
    for language, name in alone if sampling.FULL else alone[::5]:
        paste(live, language, name, examples[language, name])
    assert [post["eventId"] for post in live.feed("?limit=100")["data"]].count("docs-1") == 1


def read_examples(live):
    return {
        (language, one.name): html.unescape(text)
        for one in openapi.OPERATIONS
        for language, text in EXAMPLE.findall(live.get(f"/docs/requests/{one.name}")[1].decode())
    }


def paste(live, language, name, text):
    shell = ["bash", "-c", f"exec {text}"]
    command = shell if language == "curl" else [sys.executable, "-c", text]
    environ = {**live.environ, "CANDOR_KEY": live.key}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environ | {"PYTHONUNBUFFERED": "1"}, **pipes) as done:
        if name == "streamEvents":
            assert done.stdout.readline() == "retry: 2000\n"
            return done.kill()
        said, error = done.communicate(timeout=60)
    assert done.returncode == 0, f"{language} {name}: {error}"
    # Python fails on its own.
    assert language == "python" or "code" not in json.loads(said), f"{name}: {said}"


def test_every_request_has_a_typescript_example_without_raw_backticks(service):
    docs = service.get("/docs").text
    for operation in openapi.OPERATIONS:
        path = f"/docs/requests/{operation.name}"
        page = service.get(path).text
        (example,) = re.findall(r'<pre id="typescript"><code>(.*?)</code></pre>', page, re.S)
        assert "await fetch(" in example and f'href="{path}"' in docs
    assert service.get("/docs/requests/nothing").status_code == 404
    for path in ("/docs", *(f"/docs/fields/{group}" for group in documentation.GROUPS)):
        prose = re.sub(r"<pre.*?</pre>", "", service.get(path).text, flags=re.S)
        assert "`" not in prose, path


def read_requests(service):
    return "".join(service.get(f"/docs/requests/{one.name}").text for one in openapi.OPERATIONS)


def test_examples_have_placeholders_or_the_newest_ids_and_nobodys_text(service):
    text = html.unescape(read_requests(service))
    activity = "activity?mint=So11111111111111111111111111111111111111112"
    for path in ("v1/bots/BOT_ID", "v1/posts/POST_ID", "traders/TRADER_ID", f"v1/{activity}"):
        assert f"/api/{path}" in text
    made = service.make_bot("<b>Ada", address("w"))
    service.post({"eventId": "e", "body": "my words"}, made.publish_key.text)
    page = read_requests(service)
    assert made.bot.uid in page and "BOT_ID" not in page
    assert "Ada" not in page and "my words" not in page
