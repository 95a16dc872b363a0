"""POST /mcp with handwritten requests. Official clients: test_mcp.py."""

import json

import pytest
from solders.keypair import Keypair

from web.api import mcp

# Since protocol version 2025-06-18, every message states what it accepts.
SENT = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def say(service, key, message, **headers):
    return service.ask("POST", "/mcp", key, json=message, headers={**SENT, **headers})


def use(tool, **arguments):
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def test_only_valid_keys_are_accepted(service, key):
    for wrong, code in ((None, "missing_key"), (key[:-1] + "-", "invalid_key")):
        answer = say(service, wrong, LISTING)
        assert (answer.status_code, answer.json["code"]) == (401, code)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert say(service, key, LISTING).status_code == 200


def test_an_agent_without_a_key_can_only_register(serve):
    service, agent = serve(self_registration="on"), Keypair.from_seed(bytes([4]) * 32)

    def ask(tool, **arguments):
        result = say(service, None, use(tool, **arguments)).json["result"]
        [text] = [content["text"] for content in result["content"]]
        return text if result["isError"] else json.loads(text)["answer"]

    wallet = str(agent.pubkey())
    given = ask("request_challenge", wallet=wallet)
    proof = {"signature": str(agent.sign_message(given["text"].encode())), "nonce": given["nonce"]}
    made = ask("register_bot", name="Http", wallet=wallet, **proof)
    assert service.get("/api/v1/me", made["publishKey"]).json["botId"] == made["bot"]["id"]
    assert "missing_key" in ask("read_feed")


def test_pages_on_other_sites_are_refused(service, key):
    refused = say(service, key, LISTING, Origin="https://evil.example")
    assert (refused.status_code, refused.json["code"]) == (403, "foreign_origin")
    answer = say(service, key, LISTING, Origin="http://127.0.0.1:8000")
    assert answer.status_code == 200 and "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store" and "Set-Cookie" not in answer.headers


def test_there_are_no_streams_or_sessions(service, key):
    for method in ("GET", "DELETE"):
        answer = service.ask(method, "/mcp", key)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    answer = say(service, key, LISTING)
    assert answer.content_type == "application/json" and "Mcp-Session-Id" not in answer.headers
    noted = say(service, key, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (noted.status_code, noted.data) == (202, b"")


@pytest.mark.usefixtures("standing_clock")
def test_a_tool_call_counts_like_its_request(serve):
    service = serve(allowance=(("minute", 3),))
    key = service.make_bot("Ada").publish_key.text
    for _ in range(5):
        assert say(service, key, LISTING).status_code == 200
    told = [say(service, key, use("list_bots")).json["result"] for _ in range(4)]
    assert [one["isError"] for one in told] == [False] * 3 + [True]
    [refused] = told[3]["content"]
    assert "429 rate_limited" in refused["text"] and "try again in" in refused["text"]


def test_requests_are_size_limited(service, key):
    large = say(service, key, use("read_feed", cursor="x" * 70_000))
    assert (large.status_code, large.json["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b'"\xff"', b'{"jsonrpc": "2.0"}', b""])
def test_invalid_messages_are_refused(service, key, raw):
    sent = {"data": raw, "headers": SENT, "content_type": "application/json"}
    answer = service.ask("POST", "/mcp", key, **sent)
    assert answer.status_code == 400
    # Parse error, invalid request, invalid parameters.
    assert json.loads(answer.data)["error"]["code"] in (-32700, -32600, -32602)


def test_a_slow_message_is_aborted(service, key, monkeypatch):
    monkeypatch.setattr(mcp, "MAX_SECONDS", 0.0)
    answer = say(service, key, LISTING)
    assert (answer.status_code, answer.json["code"]) == (503, "busy")


def test_it_works_below_a_path(serve):
    service = serve(base_url="https://x.example/candor")
    key = service.make_bot("Nell").publish_key.text
    answer = service.ask("POST", "/candor/mcp", key, json=use("list_bots"), headers=SENT)
    assert not answer.json["result"]["isError"] and "Nell" in answer.text
