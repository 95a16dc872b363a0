"""A server killed with -9 while it delivers: each accepted event reaches the receiver, in order,
and a resent one keeps its ID.
"""

import http.client
import json
import os
import signal

import ground
import pytest
from receiver import Receiver
from test_hooks import until
from test_worker import ROOT, Server

import config
import storage
from accounts import hooks, influencers

NOW = 1_800_000_000_000
# Effectively no rate limit per host.
HURRY = """import notify.outbox
notify.outbox.HOST_SECONDS = notify.outbox.POLL_SECONDS = 0.03
"""
POSTS = 12


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


def make_bot(folder, url):
    """A bot's publishing key, and the secret of its hook."""
    settings = config.load({**ground.environ(folder / "data"), "HOOKS_PRIVATE": "on"}, dotenv=None)
    database = storage.connect(settings)
    storage.migrate(database)
    with database.connection_context():
        bot = influencers.create_bot(settings, "Ada", NOW)
        hooks.add_hook(settings, bot.owner, url, NOW, trusted=True)
    database.close_all()
    return bot.publish_key.text


def post(server, key, event):
    """Publish it; return whether it was accepted."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        body = json.dumps({"eventId": event, "body": "b"})
        connection.request("POST", "/api/v1/posts", body, headers)
        return connection.getresponse().status == 201
    finally:
        connection.close()


def kill(server):
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    server.log.close()


@ground.sqlite_only
def test_a_kill_loses_no_event(tmp_path, receiver):
    (tmp_path / "sitecustomize.py").write_text(HURRY)
    more = {"HOOKS_PRIVATE": "on", "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    key, accepted = make_bot(tmp_path, receiver.url), [f"e-{n}" for n in range(POSTS)]
    server = Server(tmp_path, **more)
    assert all(post(server, key, event) for event in accepted)
    # Some events were delivered and some weren't, so the kill falls in between.
    until(lambda: len(receiver.got) >= POSTS // 2, 30)
    kill(server)
    server = Server(tmp_path, **more)
    try:
        until(lambda: accepted[-1] in ids_of(receiver), 30)
    finally:
        kill(server)
    assert list(ids_of(receiver)) == accepted
    assert all(len(ids) == 1 for ids in ids_of(receiver).values())


def ids_of(receiver):
    """{event ID: its webhook IDs}, in order of first arrival."""
    found = {}
    for headers, body in list(receiver.got):
        event = json.loads(body)["data"].get("eventId")
        found.setdefault(event, set()).add(headers["webhook-id"])
    return found
