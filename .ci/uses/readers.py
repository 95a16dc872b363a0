"""Third-party readers: event streams with httpx-sse and sseclient-py, feeds with feedparser and
feedparser-rs, which supports JSON Feed.
"""

import json
import os
import threading

import feedparser
import feedparser_rs
import httpx
import httpx_sse
import sseclient

URL, KEY = os.environ["CANDOR_URL"], os.environ["CANDOR_KEY"]
HEADERS = {"Authorization": f"Bearer {KEY}"}
KINDS = {"hello", "post", "trade", "verification"}
client = httpx.Client(base_url=URL, timeout=30)


def publish(name):
    """Publish a post and return its body."""
    body = {"eventId": name, "body": f"Heard by {name}?"}
    return client.post("/api/v1/posts", json=body, headers=HEADERS).raise_for_status().json()["id"]


def hear(name, events):
    """Read until the post published during the read arrives. Every event must be ours, as JSON."""
    for number, event in enumerate(events):
        assert event.event in KINDS and isinstance(json.loads(event.data), dict), event
        if number == 0:
            assert event.event == "hello", event
            threading.Thread(target=publish, args=(name,)).start()
        if event.event == "post" and json.loads(event.data)["eventId"] == name:
            return
        assert number < 1_000, "it never came"


with httpx_sse.connect_sse(client, "GET", "/api/v1/stream", headers=HEADERS) as source:
    hear("httpx-sse", source.iter_sse())
with client.stream("GET", "/api/v1/stream", headers=HEADERS) as answer:
    hear("sseclient", sseclient.SSEClient(answer.iter_bytes()).events())

for path, read in (("/feed.atom", feedparser.parse), ("/feed.json", feedparser_rs.parse)):
    feed = read(client.get(path).content)
    assert not feed.bozo and feed.feed.title and len(feed.entries) > 5, path
    assert all(one.id and one.title and one.link for one in feed.entries), path
    assert any("Heard by sseclient?" in one.content[0].value for one in feed.entries), path
print("httpx-sse, sseclient-py and two feed readers read the stream and the feeds")
