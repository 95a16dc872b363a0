"""Agents register themselves at a running instance: with skill.md and a shell, and with MCP
tools.
"""

import json
import shutil
import subprocess

import pytest
from live import Live
from solders.keypair import Keypair
from test_guides import read_blocks
from test_mcp import call, talk_as

ANSWER = ("bot", "publishKey", "claimUrl", "claimExpiresAt")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    server = Live(tmp_path_factory.mktemp("agents"), SELF_REGISTRATION="on")
    yield server
    server.stop()


async def register(client, agent, name):
    _, given = await call(client, "request_challenge", wallet=str(agent.pubkey()))
    signed = agent.sign_message(given["answer"]["text"].encode())
    return await call(
        client,
        "register_bot",
        name=name,
        wallet=str(agent.pubkey()),
        signature=str(signed),
        nonce=given["answer"]["nonce"],
    )


@pytest.mark.skipif(not shutil.which("curl"), reason="the examples use curl")
def test_an_agent_registers_and_posts_with_only_skill_md(live):
    agent = Keypair.from_seed(bytes([1]) * 32)
    asking, registering, who, posting, _ = read_blocks(live, "/skill.md")
    environ = {"PATH": live.environ["PATH"], "WALLET": str(agent.pubkey()), "NAME": "Shell"}

    def run(script, **more):
        environ.update(more)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    given = json.loads(run(asking))
    proof = str(agent.sign_message(given["text"].encode()))
    made = json.loads(run(registering, PROOF=proof, NONCE=given["nonce"]))
    assert tuple(made) == ANSWER
    run(who, CANDOR_KEY=made["publishKey"])
    transaction = str(Keypair.from_seed(bytes([2]) * 32).sign_message(b"a transaction"))
    run(posting, SIGNATURE=transaction, MINT=str(agent.pubkey()))
    posts = [post for post in live.feed()["data"] if post["botId"] == made["bot"]["id"]]
    assert [post["verification"]["status"] for post in posts] == ["pending", "none"]


def test_an_agent_registers_over_stdin_and_continues_with_its_key(live):
    agent = Keypair.from_seed(bytes([3]) * 32)

    async def ask(client):
        before = await call(client, "publish_post", eventId="1", body="b")
        made = await register(client, agent, "Stdin")
        return before, made, await call(client, "publish_post", eventId="1", body="b")

    (refused, text), (failed, made), (unread, post) = talk_as(live, ask, CANDOR_KEY="")
    assert refused and "missing_key" in text
    assert not failed and made["answer"]["bot"]["name"] == "Stdin"
    assert made["answer"]["claimUrl"].startswith(f"{live.url}/claim#cnd_claim_")
    assert not unread and post["answer"]["botId"] == made["answer"]["bot"]["id"]
