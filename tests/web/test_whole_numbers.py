"""Whole numbers of any length and spelling, in every parameter, path, form and body: an error that
names the field, never a 500.
"""

import itertools
import re
from pathlib import Path

import orjson
import pytest
import sampling
from test_matrix import READ, WRITE, place  # noqa: F401
from test_mcp import say, use

from accounts import admin
from accounts.fields import BEYOND, parse_whole
from cli import now_ms
from web.api import openapi

ROOT = Path(__file__).resolve().parents[2]
LONG = "00000000199999999999999999999999999"
NASTY = [
    *(LONG, "0" * 40 + "1", "9" * 20, "9" * 400, "9" * 5000, "1" + "0" * 4300, "-1", "+1", "１"),
    *("²", "1_0", " 1", "1 ", "1.0", "1e3", "0x1", "٣", "-0", "", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616"),
]
SOME = [LONG, "9" * 5000, "１", "²", "-1", "9223372036854775808"]
# Query parameters that the program reads, and all form fields.
ASKED = re.compile(r"""(?:args(?:\.get\(|\[)|args, |read_cursor\(|given\.get\()"(\w+)\"""")
FIELDS = re.compile(r"""(?:name="|field\(")(\w+)\"""")
# Without an answer that ends.
ENDLESS = ("/stream", "/api/v1/stream")


def find_names(pattern, files):
    return {name for path in ROOT.glob(files) for name in pattern.findall(path.read_text())}


def list_parameters():
    found = {"page", "posts", "limit", "cursor", "before", "since", "after"}
    found |= find_names(ASKED, "web/**/*.py")
    for operation in openapi.OPERATIONS:
        found |= {one["name"] for one in openapi.list_parameters(operation)}
    return sorted(found)


@pytest.fixture
def browser(place):  # noqa: F811
    """The browser of a bot's owner, who is also the operator; and the existing IDs."""
    ids, callers = place
    made = admin.use_login(admin.make_login(now_ms()), now_ms())
    callers["its creator"].client.set_cookie("candor_admin", made.token, path="/admin")
    return ids, callers["its creator"], callers["a key"]


def check(answer, asked):
    answer.close()
    assert answer.status_code < 500, asked


def test_no_number_in_a_query_causes_a_500(browser):
    ids, owner, keyed = browser
    numbers, parameters = itertools.cycle(NASTY), list_parameters()
    documented = {
        operation.path: {one["name"] for one in openapi.list_parameters(operation)}
        for operation in openapi.OPERATIONS
        if operation.method == "get" and "{" not in operation.path
    }
    # For each path, one parameter in each of these; the next path starts with the next parameter.
    step = 1 if sampling.FULL else 8
    paths = dict.fromkeys((*(path.format(**ids) for path in READ), *documented))
    for turn, path in enumerate(paths):
        if path in ENDLESS:
            continue
        client = (keyed if path.startswith("/api/v1/") else owner).client
        # All parameters that a path doesn't have are sent at once.
        known = documented.get(path, set(parameters))
        rest = {name: next(numbers) for name in parameters if name not in known}
        some = sorted(known)[turn % step :: step]
        for query in ({}, rest, *({name: next(numbers)} for name in some)):
            check(client.get(path, query_string=query), (path, query))


def test_no_number_in_a_path_causes_a_500(service, browser):
    ids, owner, keyed = browser
    given = {"uid": ids["bot"], "level": "0", "place": "000.p/1", "close_id": ids["close"]}
    for rule in service.app.url_map.iter_rules():
        for name, number in itertools.product(rule.arguments, SOME):
            text = f"000.p/{number}" if name == "place" else number
            values = {**dict.fromkeys(rule.arguments, "1"), **given, name: text}
            path = rule.build(values, append_unknown=False)
            if path and rule.endpoint != "static":
                client = (keyed if path[1].startswith("/api/v1/") else owner).client
                check(client.get(path[1]), (rule.rule, name, number))


def test_no_number_in_a_form_causes_a_500(browser):
    ids, owner, _ = browser
    fields = find_names(FIELDS, "templates/**/*.html") - {"viewport", "robots", "description"}
    token = owner.token()
    # They sign the owner out.
    paths = [path for path in WRITE if path not in ("/logout", "/admin/logout", "/admin/login")]
    for path, number in itertools.product(paths, sampling.sample(SOME, 3)):
        typed, _statuses = WRITE[path]
        for needed in ({}, typed):
            sent = {**dict.fromkeys(fields, number), **needed, "csrf_token": token}
            check(owner.client.post(path.format(**ids), data=sent), (path, number))


def test_an_agents_oversized_number_is_refused(service, key):
    asked = orjson.dumps(use("list_bots", limit=0)).decode()
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-06-18"}
    headers["Accept"] = "application/json, text/event-stream"
    for number in ("9" * 20, "9" * 400, "9" * 5000, "-1", "101", "null"):
        for written in (number, f'"{number}"'):
            message = asked.replace('"limit":0', f'"limit":{written}')
            answer = service.ask("POST", "/mcp", key, data=message, headers=headers)
            assert answer.status_code < 500, written
            assert "error" in answer.json or answer.json["result"]["isError"], written
    assert "result" in say(service, key, use("list_bots", limit=1)).json


def test_a_page_error_names_its_range(service, bot):
    said = "must be a whole number from 1 to 10000000"
    for number in NASTY:
        page = service.get("/market", query_string={"page": number})
        assert page.status_code == 400 and "from 1 to 9999" in page.text, number
        for name in ("page", "posts"):
            path, query = f"/bots/{bot.bot.uid}/evidence.json", {name: number}
            answer = service.get(path, query_string=query)
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter"), number
            assert answer.json["errors"] == [{"field": name, "message": said}]


def test_a_whole_number_is_parsed_exactly_or_as_beyond_all_bounds():
    exact = (0, 1, 9, 10, 2**31, 2**53 + 1, 10**18 - 1)
    assert [parse_whole(str(number)) for number in exact] == [*exact]
    beyond = ("1" + "0" * 18, "9" * 19, "1" + "0" * 5000)
    assert [parse_whole(text) for text in beyond] == [BEYOND] * 3 == [10**18] * 3
