"""How soon after its commit is a post at a follower's stream, at a hook, and announced on a page?

    python -m bench pushed [--count 60] [--no-browser]

This process commits posts to the database of a running server, 1.1 s apart: a hook's host is sent
no more than one message a second. Exit 1 where one of them took over 250 ms.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import requests

import config
import storage
from accounts import api_keys, hooks, posts
from bench.streams import SETTINGS, percentile, seed, start_server
from models import Bot

CHROMIUM, PAUSE_SECONDS, MAX_SECONDS = "/usr/bin/chromium", 1.1, 0.25
# In a page: it notes when each new post is announced, and has it shown.
WATCH = """() => {
    window.announced = [];
    const link = document.querySelector(".news a");
    new MutationObserver(() => {
        if (!link.textContent.startsWith("1 new post")) return;
        announced.push(Date.now() / 1000);
        link.click();
    }).observe(link, {childList: true});
}"""
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))


class Times(list):
    """A receiver's list of what it got that notes when it first got each post."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def append(self, got):
        _, body = got
        note(self.seen, body)


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench pushed")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--no-browser", action="store_true")
    given = parser.parse_args(arguments)
    SETTINGS["HOOKS_PRIVATE"] = "on"
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        seed(folder)
        settings = config.load({"DATA_DIR": folder, "HOOKS_PRIVATE": "on"}, dotenv=None)
        with storage.connect(settings).connection_context():
            return measure(settings, given, stack, folder)


def measure(settings, given, stack, folder):
    from receiver import Receiver

    receiver, now = Receiver(), time.time_ns() // 1_000_000
    stack.callback(receiver.close)
    receiver.got = told = Times()
    bot = Bot.get()
    hooks.add_hook(settings, bot.owner, receiver.url, now, trusted=True)
    key = api_keys.create_key(bot.owner, "read", now).text
    port, server = start_server(folder)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    url = f"http://127.0.0.1:{port}"
    seen = {"hook": told.seen}
    seen["stream"] = follow(url + "/api/v1/stream", Authorization=f"Bearer {key}")
    seen["stream of pages"] = follow(url + "/stream")
    page = None if given.no_browser else open_page(stack, url)
    time.sleep(5)
    committed = publish(bot, given.count)
    if page is not None:
        seen["page"] = dict(zip(committed, page.evaluate("announced"), strict=False))
    return judge(committed, seen)


def open_page(stack, url):
    from playwright.sync_api import sync_playwright

    driver = stack.enter_context(sync_playwright())
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    stack.callback(browser.close)
    page = browser.new_page()
    page.goto(url + "/")
    page.evaluate(WATCH)
    return page


def follow(url, **headers):
    """By post, when this stream tells of it, from now on."""
    seen = {}

    def read():
        with requests.get(url, headers=headers, stream=True, timeout=600) as answer:
            with contextlib.suppress(requests.RequestException):
                for line in answer.iter_lines(chunk_size=1):
                    note(seen, line)

    threading.Thread(target=read, daemon=True).start()
    return seen


def note(seen, told):
    """Note now for the post that this tells of, the first time."""
    found = re.search(rb"post_\w+", told)
    if found:
        seen.setdefault(found.group().decode(), time.time())


def publish(bot, count):
    """Publish posts; by post, when it was committed."""
    committed = {}
    for number in range(count):
        now, words = time.time_ns() // 1_000_000, f"words {number}"
        common = {"bot": bot, "source": "bot", "channel": "api", "event_id": words, "body": words}
        with storage.writing():
            post = posts.store_post(**common, event_at=now, created_at=now)
        committed[post.uid] = time.time()
        time.sleep(PAUSE_SECONDS)
    return committed


def judge(committed, seen):
    worst = 0.0
    for place, times in seen.items():
        missing = committed.keys() - times.keys()
        took = [max(0.0, times[uid] - at) for uid, at in committed.items() if uid in times]
        if not took or missing:
            print(f"{place}: {len(missing)} of {len(committed)} never came")
            return 1
        p50, p99 = percentile(took, 50), percentile(took, 99)
        print(f"{place}: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(took)}")
        worst = max(worst, *took)
    return int(worst > MAX_SECONDS)
