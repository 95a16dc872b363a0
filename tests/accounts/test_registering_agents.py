"""Agents register themselves at a running instance: with skill.md and a shell, and with MCP
tools.
"""

import json
import shutil
from types import SimpleNamespace

import pytest
from live import Live
from solders.keypair import Keypair
from test_guides import read_blocks, run
from test_mcp import call, talk_as

ANSWER = ("bot", "publishKey", "claimUrl", "claimExpiresAt")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    server = Live(tmp_path_factory.mktemp("agents"), SELF_REGISTRATION="on")
    yield server
    server.stop()


@pytest.mark.skipif(not shutil.which("curl"), reason="the examples use curl")
def test_an_agent_registers_and_posts_with_only_skill_md(live):
    agent = Keypair.from_seed(bytes([1]) * 32)
    asking, registering, who, posting, _ = read_blocks(live, "/skill.md")
    # Nothing else of the server's environment.
    shell = SimpleNamespace(environ={"PATH": live.environ["PATH"]})
    environ = {"WALLET": str(agent.pubkey()), "NAME": "Shell"}

    def answer(script, **more):
        environ.update(more)
        done = run(shell, script, **environ)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    given = answer(asking)
    proof = str(agent.sign_message(given["text"].encode()))
    made = answer(registering, PROOF=proof, NONCE=given["nonce"])
    assert tuple(made) == ANSWER
    assert answer(who, CANDOR_KEY=made["publishKey"])["botId"] == made["bot"]["id"]
    transaction = str(Keypair.from_seed(bytes([2]) * 32).sign_message(b"a transaction"))
    done = run(shell, posting, **environ, SIGNATURE=transaction, MINT=str(agent.pubkey()))
    assert done.returncode == 0, done.stderr
    posts = [post for post in live.feed()["data"] if post["botId"] == made["bot"]["id"]]
    assert [post["verification"]["status"] for post in posts] == ["pending", "none"]


def test_an_agent_registers_over_stdin_and_continues_with_its_key(live):
    agent, words = Keypair.from_seed(bytes([3]) * 32), {"eventId": "1", "body": "b"}

    async def ask(client):
        before = await call(client, "publish_post", **words)
        wallet = {"wallet": str(agent.pubkey())}
        given = (await call(client, "request_challenge", **wallet))[1]["answer"]
        signature = str(agent.sign_message(given["text"].encode()))
        proof = {**wallet, "signature": signature, "nonce": given["nonce"]}
        made = await call(client, "register_bot", name="Stdin", **proof)
        return before, made, await call(client, "publish_post", **words)

    (refused, text), (failed, made), (unread, post) = talk_as(live, ask, CANDOR_KEY="")
    assert refused and "missing_key" in text
    assert not failed and made["answer"]["bot"]["name"] == "Stdin"
    assert made["answer"]["claimUrl"].startswith(f"{live.url}/claim#cnd_claim_")
    assert not unread and post["answer"]["botId"] == made["answer"]["bot"]["id"]
