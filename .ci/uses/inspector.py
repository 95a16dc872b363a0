"""Run MCP Inspector as a command: list the tools of /mcp and of `app.py mcp`, and call some.

`inspector.py INSPECTOR PYTHON APP`
"""

import json
import os
import subprocess
import sys

INSPECTOR, PYTHON, APP = sys.argv[1:]
URL, KEY = os.environ["CANDOR_URL"], os.environ["CANDOR_KEY"]
OVER = {
    "http": [f"{URL}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {KEY}"],
    "stdio": [PYTHON, APP, "mcp", "-e", f"CANDOR_URL={URL}", "-e", f"CANDOR_KEY={KEY}"],
}


def ask(target, method, *words):
    """Return the Inspector's output, or None if it failed."""
    words = ["--cli", *target, "--connect-timeout", "60000", "--method", method, *words]
    done = subprocess.run([INSPECTOR, *words], stdout=subprocess.PIPE, timeout=120)
    return None if done.returncode else json.loads(done.stdout)


def use(target, tool, **arguments):
    """Return a tool's result."""
    given = [
        word for name, value in arguments.items() for word in ("--tool-arg", f"{name}={value}")
    ]
    (content,) = ask(target, "tools/call", "--tool-name", tool, *given)["content"]
    return json.loads(content["text"])["answer"]


tools = {way: ask(target, "tools/list")["tools"] for way, target in OVER.items()}
assert tools["http"] == tools["stdio"]
assert {"list_bots", "publish_post"} <= {tool["name"] for tool in tools["http"]}
for way, target in OVER.items():
    assert len(use(target, "list_bots", limit=2)["data"]) == 2, way
    said = use(target, "publish_post", eventId=f"inspector-{way}", body=f"Heard over {way}?")
    assert said["body"] == f"Heard over {way}?" and said["verified"] is False, said
wrong = [word.replace(KEY, "cnd_pub_no") for word in OVER["http"]]
assert ask(wrong, "tools/list") is None
print("MCP Inspector: the same tools over HTTP and stdio, used over both")
