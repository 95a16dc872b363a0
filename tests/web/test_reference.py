"""/docs: the whole API is in it, and its examples work when pasted."""

import html
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from service import Service, address

from accounts.problem import CODES, OF_ALL, OF_KEYS
from web.api import openapi
from web.site import documentation

EXAMPLE = re.compile(r'<pre id="(curl|python)"><code>(.*?)</code></pre>', re.S)


def test_the_reference_lists_every_request_field_error_and_limit(tmp_path):
    limits = {
        "allowance": (("minute", 121), ("hour", 2002), ("day", 10003)),
        "posts_per_minute": 24,
        "creations_per_minute": 5,
        "ip_limit_per_minute": 306,
        "failed_auth_per_minute": 27,
    }
    service = Service(tmp_path / "data", **limits)
    requests = [service.get(f"/docs/requests/{one.name}").text for one in openapi.OPERATIONS]
    fields = {group: service.get(f"/docs/fields/{group}").text for group in documentation.GROUPS}
    page, document = (
        "".join([service.get("/docs").text, *requests, *fields.values()]),
        openapi.build_document("http://127.0.0.1:8000"),
    )
    words = set(re.findall(r"[\w/{}-]+", html.unescape(re.sub(r"<[^>]+>", " ", page))))
    assert {*document["paths"]} <= words and {*document["components"]["schemas"]} <= words
    assert {
        field
        for shape in document["components"]["schemas"].values()
        for field in shape.get("properties", {})
    } <= words
    assert {
        one["name"] for each in openapi.OPERATIONS for one in openapi.list_parameters(each)
    } <= words
    assert {
        code
        for operation in openapi.OPERATIONS
        for code in (*operation.refusals, *OF_KEYS, *OF_ALL)
    } <= words and set(openapi.HEADERS) - {"RateLimit-Policy"} <= words
    assert all(
        limit in page
        for limit in (
            "121 a minute",
            "2,002 an hour",
            "10,003 a day",
            "posts: 24 a minute",
            "New bots: 5 a minute",
            "306 requests a minute",
            "27 of them",
            "20 active keys",
        )
    )
    assert all(f'id="{anchor}"' in page for anchor in re.findall(r'href="#([\w-]+)"', page))
    linked = re.findall(r'href="/docs/fields/(\w+)#(\w+)"', page)
    assert linked and all(f'id="{anchor}"' in fields[group] for group, anchor in linked)
    index = service.get("/docs/fields").text
    assert all(f'id="{name}"' in index for name in document["components"]["schemas"])
    errors = service.get("/docs/errors").text
    advised = re.findall(r'<div id="(\w+)"><dt>.*?</strong> \w', errors)
    assert advised == [*CODES] and all(
        f'id="{code}"' in errors for code in re.findall(r'href="/docs/errors#(\w+)"', page)
    )
    service.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="the examples use curl")
def test_every_example_works_as_pasted(live):
    """The one that posts comes first, so that there is a post to ask for; sent again it is answered
    again.
    """
    live.command("trader", "create", "--name", "Penny", "--family", "momentum")
    hours = (datetime.now(UTC) + timedelta(hours=n) for n in (1, 3))
    starts, ends = (hour.strftime("%Y-%m-%dT%H:00Z") for hour in hours)
    live.command("season", "create", "--name", "Cup", "--start", starts, "--end", ends)
    paste(live, "curl", "publishPost", read_examples(live)["curl", "publishPost"])
    examples = read_examples(live)
    assert len(examples) == 2 * len(openapi.OPERATIONS)
    for (language, name), text in examples.items():
        # Those need a wallet's signature: tests/accounts/test_registration.py.
        if name in ("getChallenge", "registerBot"):
            continue
        paste(live, language, name, text)
    assert [post["eventId"] for post in live.feed("?limit=100")["data"]].count("docs-1") == 1


def read_examples(live):
    return {
        (language, one.name): html.unescape(text)
        for one in openapi.OPERATIONS
        for language, text in EXAMPLE.findall(live.get(f"/docs/requests/{one.name}")[1].decode())
    }


def paste(live, language, name, text):
    command, environ = (
        ["bash", "-c", f"exec {text}"] if language == "curl" else [sys.executable, "-c", text],
        {**live.environ, "CANDOR_KEY": live.key},
    )
    if name == "streamEvents":
        return check_stream(command, environ)
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{language} {name}: {done.stderr}"
    # Python fails by itself.
    assert language == "python" or "code" not in json.loads(done.stdout), f"{name}: {done.stdout}"


def check_stream(command, environ):
    with subprocess.Popen(
        command,
        env={**environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as listening:
        assert listening.stdout.readline() == "retry: 2000\n"
        listening.kill()


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


def test_an_empty_instance_shows_placeholders(service):
    text = html.unescape(read_requests(service))
    assert (
        "/api/v1/bots/BOT_ID" in text
        and "/api/v1/posts/POST_ID" in text
        and "/api/traders/TRADER_ID" in text
        and "activity?mint=So11111111111111111111111111111111111111112" in text
    )


def test_examples_contain_nobodys_text(service):
    made = service.make_bot("<b>Ada", address("w"))
    service.post({"eventId": "e", "body": "my words"}, made.publish_key.text)
    page = read_requests(service)
    assert made.bot.uid in page and "Ada" not in page and "my words" not in page
