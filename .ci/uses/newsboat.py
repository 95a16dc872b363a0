"""Subscribe to all posts and to one bot with the feed reader newsboat, and refresh twice."""

import json
import os
import sqlite3
import subprocess
import tempfile
import urllib.request
from pathlib import Path

URL = os.environ["CANDOR_URL"]
folder = Path(tempfile.mkdtemp(dir="."))
with urllib.request.urlopen(f"{URL}/feed.json") as answer:
    posts = json.load(answer)["items"]
author = posts[0]["authors"][0]["url"]
(folder / "urls").write_text(f"{URL}/feed.atom\n{author}/feed.atom\n")
(folder / "config").write_text("")
for _ in range(2):
    words = ["-q", "-C", folder / "config", "-u", folder / "urls", "-c", folder / "cache"]
    subprocess.run(["newsboat", *words, "-x", "reload"], check=True, timeout=60)
with sqlite3.connect(folder / "cache") as db:
    feeds = dict(db.execute("SELECT rssurl, title FROM rss_feed"))
    items = db.execute("SELECT feedurl, guid, title, url, content FROM rss_item").fetchall()
assert len(feeds) == 2 and all(feeds.values()), feeds
assert len(items) == len({(feed, guid) for feed, guid, *_ in items}) > 5
assert {feed for feed, *_ in items} == set(feeds)
assert all(title.startswith("[") and content for _, _, title, _, content in items)
assert {post["url"] for post in posts} <= {url for _, _, _, url, _ in items}
print(f"newsboat: {len(items)} posts of two feeds, each once")
