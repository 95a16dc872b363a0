"""Write docs/samples.md: an answer to every request, from a running demonstration.

    SELF_REGISTRATION=on .venv/bin/python app.py demo
    CANDOR_URL=http://127.0.0.1:8010 CANDOR_KEY=cnd_pub_... .venv/bin/python tests/samples.py

The key is one that `app.py bot create` shows, with the demonstration's DATA_DIR; `app.py season
create` makes the season.
tests/web/test_samples.py compares the page with /openapi.json.
"""

import json
import os
import re
import urllib.request
from pathlib import Path

from solders.keypair import Keypair

PAGE = Path(__file__).resolve().parent.parent / "docs" / "samples.md"
INTRODUCTION = """# Sample responses

One response to every request, recorded from `make demo`: chain, market and bots are made up. Lists
are cut to one row. `/docs/fields` on your instance explains each field, [verified.md](verified.md)
the labels, [results.md](results.md) the results. `tests/samples.py` writes this page.
"""
# Rows with many fields; other lists show the newest.
QUERIES = {
    "/api/v1/bots": "?limit=100",
    "/api/v1/feed": "?limit=1&label=verified",
    "/api/v1/trades": "?limit=1&kind=sell",
    "/api/v1/activity": "?limit=1&mint={mint}",
    "/api/v1/search": "?q={handle}",
    "/api/v1/leaderboard": "?limit=1&window=7d",
}
# The lines of an event.
EVENT = ("id: ", "event: ", "data: ")
POST = {"eventId": "sample-1", "body": "Watching, no position yet."}
AGENT = Keypair.from_seed(b"an agent of the sample answers..")
CHALLENGE = {"wallet": str(AGENT.pubkey())}
# Placeholders for secrets.
SECRET = re.compile(r"(cnd_(?:pub|claim)_\w{4})\w+")


def ask(path, body=None, stream=False, method=None):
    """The response: JSON, or the first event of a stream."""
    request = urllib.request.Request(
        os.environ["CANDOR_URL"] + path,
        data=json.dumps(body).encode() if body else None,
        method=method,
        headers={
            "Authorization": f"Bearer {os.environ['CANDOR_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        if not stream:
            return json.load(answer)
        lines = iter(lambda: answer.readline().decode().rstrip("\n"), None)
        return [next(line for line in lines if line.startswith(field)) for field in EVENT]


def find_names():
    """IDs for paths and queries: a bot with sales, its handle, a verified post, a mint, a paper
    trader.
    """
    board = ask("/api/v1/leaderboard?sort=trades&limit=1")["data"][0]
    trade = ask(f"/api/v1/trades?botId={board['botId']}&kind=sell&limit=1")["data"][0]
    return {
        "bots": board["botId"],
        "handle": board["handle"],
        "mint": trade["mint"],
        "posts": ask("/api/v1/feed?label=verified&limit=1")["data"][0]["id"],
        "traders": ask("/api/traders?limit=1")["data"][0]["id"],
        "seasons": ask("/api/v1/seasons?limit=1")["data"][0]["id"],
    }


def make_body(path):
    """The body to post to a path."""
    if path == "/api/v1/posts":
        return POST
    if path == "/api/v1/bots/challenge":
        return CHALLENGE
    given = ask("/api/v1/bots/challenge", CHALLENGE)
    signature = str(AGENT.sign_message(given["text"].encode()))
    return {"name": "Otto Agent", **CHALLENGE, "signature": signature, "nonce": given["nonce"]}


def fill_path(path, operation, names):
    """A path of the document, with IDs in place of its parameters, and a query."""
    parts = path.split("/")
    room = parts[3] if parts[2] == "v1" else parts[2]
    shared = "#/components/parameters/limit"
    paged = any(one.get("$ref") == shared for one in operation["parameters"])
    query = QUERIES.get(path, "") if "requestBody" not in operation else ""
    query = (query or ("?limit=1" if paged else "")).format_map(names)
    filled = path.replace("{id}", names.get(room, "")).replace("{list}", "closes")
    return filled + query


def cut(value):
    """The same with one row in each list of objects, the one with the most fields."""
    if isinstance(value, dict):
        return {name: cut(one) for name, one in value.items()}
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], dict):
        return [cut(max(value, key=lambda row: len(json.dumps(row))))]
    return value[:3]


def write_json(value):
    """JSON with one line per field of the object, and of a list's row."""
    lines = []
    for name, one in value.items():
        is_list = name == "data" and isinstance(one, list) and one and isinstance(one[0], dict)
        if is_list:
            rows = ",\n".join(f"    {write_pair(*pair)}" for pair in one[0].items())
            lines.append(f'  "{name}":[{{\n{rows}\n  }}]')
        else:
            lines.append(f"  {write_pair(name, one)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def write_pair(name, value):
    """A field on one line, without spaces between its parts."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f'"{name}":{text}'


def write_sample(method, path, operation, names):
    """The part of the page about one request."""
    filled = fill_path(path, operation, names)
    body = make_body(path) if "requestBody" in operation else None
    if operation["responses"]["200"]["content"].get("text/event-stream"):
        text = "\n".join(["```text", *ask(path, stream=True), "```"])
    else:
        text = f"```json\n{write_json(cut(ask(filled, body, method=method.upper())))}\n```"
    sent = f" with `{json.dumps(body)}`" if body else ""
    heading = f"## `{method.upper()} {path}`"
    return f"{heading}\n\n{operation['summary']}: `{filled}`{sent}\n\n{text}\n"


if __name__ == "__main__":
    document, names = ask("/openapi.json"), find_names()
    samples = [
        write_sample(method, path, operation, names)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    text = SECRET.sub(r"\1…", "\n".join([INTRODUCTION, *samples]))
    PAGE.write_text(text.replace(os.environ["CANDOR_URL"], "http://127.0.0.1:8010"))
