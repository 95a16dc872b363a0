#!/usr/bin/env python3
"""Turn freqtrade's webhook messages into posts: filled entries, exits, and strategy messages.

    export CANDOR_URL=http://127.0.0.1:8000      # the instance
    read -rs CANDOR_KEY && export CANDOR_KEY     # paste the bot's publishing key, cnd_pub_...
    python3 freqtrade_webhook.py                 # listens on 127.0.0.1:8787; PORT changes the port

In freqtrade's configuration, with `dry_run` in each part as in the configuration itself ("true"
while it trades with play money, because freqtrade's messages don't say so):

    "webhook": {
        "enabled": true, "url": "http://127.0.0.1:8787/", "format": "json",
        "retries": 3, "retry_delay": 2, "timeout": 10, "allow_custom_messages": true,
        "entry_fill": {"event": "entry_fill", "dry_run": "true", "trade": "{trade_id}",
                       "pair": "{pair}", "direction": "{direction}", "amount": "{amount}",
                       "rate": "{open_rate}", "at": "{open_date}", "stake": "{stake_amount}",
                       "added": "{sub_trade}", "tag": "{enter_tag}"},
        "exit_fill": {"event": "exit_fill", "dry_run": "true", "trade": "{trade_id}",
                      "pair": "{pair}", "direction": "{direction}", "amount": "{amount}",
                      "rate": "{close_rate}", "at": "{close_date}", "partial": "{sub_trade}",
                      "profit": "{profit_ratio:.2%}", "reason": "{exit_reason}"},
        "strategy_msg": {"event": "strategy_msg", "dry_run": "true", "message": "{msg}"}
    }

No chain confirms fills reported by freqtrade, so these posts are labeled "not verified". Other
messages are acknowledged and ignored. If freqtrade retries a message, no second post is made: the
event ID consists of the trade, the time and the content. A strategy's message has no time, so the
same text within a minute counts as a retry; later it is a new message.

If the instance sends Retry-After, this waits and sends the same post again, one post at a time.
Freqtrade keeps trading: after a few seconds it gets 202, "still trying". Waiting posts are lost
when this program ends. Python 3.11, nothing to install.
"""

import hashlib
import http.client
import json
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

URL = os.environ.get("CANDOR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("CANDOR_KEY") or sys.exit("CANDOR_KEY is not set")
MAX_MESSAGE, MAX_BODY, MAX_SYMBOL = 64 * 1024, 4000, 32
TRIES = 8
# maximum Retry-After: the hourly limit has reset by then
MAX_WAIT_SECONDS = 3600
# freqtrade's timeout is 10
ANSWER_SECONDS = 6
MAX_WAITING = 1000
# longer than freqtrade's retries take
SAID_AGAIN_SECONDS = 60


# ---- what is told -------------------------------------------------------------------------------
def write_post(message, said_at):
    """A message as the body of POST /api/v1/posts, or None if there is nothing to post.

    `said_at` is the time, in ms, of a message without its own.
    """
    tell = {"entry_fill": tell_entry, "exit_fill": tell_exit, "strategy_msg": tell_message}
    if message.get("event") not in tell:
        return None
    body, reason = tell[message["event"]](message)
    words = clean(say_mode(message) + body)[:MAX_BODY]
    post = {"eventId": name_event(message, said_at), "body": words}
    pair = clean(str(message.get("pair", "")))
    if pair:
        post["symbol"] = pair.partition("/")[0][:MAX_SYMBOL]
    if reason not in (None, "", "None"):
        post["reason"] = clean(str(reason))[:MAX_BODY]
    return post


def tell_entry(message):
    """Return (body, reason) of a post about a filled entry."""
    verb = "Added to" if is_true(message.get("added")) else "Opened"
    return f"{verb} {name_position(message)}.", message.get("tag")


def tell_exit(message):
    """Return (body, reason) of a post about a filled exit."""
    partial = is_true(message.get("partial"))
    verb, rest = ("Closed part of", "; the rest stays open") if partial else ("Closed", "")
    return (
        f"{verb} {name_position(message)}, {message.get('profit')} by its own count{rest}.",
        message.get("reason"),
    )


def tell_message(message):
    """Return (body, reason) of a post with a strategy's message."""
    return str(message.get("message", "")), None


def name_position(message):
    """Describe a position: direction, pair, amount, rate."""
    direction, pair = str(message.get("direction", "")).lower(), message.get("pair", "")
    return f"{direction} {pair}: {message.get('amount')} at {message.get('rate')}"


def say_mode(message):
    """A warning that readers need first; empty if the configuration doesn't say."""
    if "dry_run" not in message:
        return "(Whether this is a dry run was not said.) "
    return "Dry run, no real money: " if is_true(message["dry_run"]) else ""


def is_true(value):
    """Whether freqtrade's text of a Boolean is true."""
    return str(value).strip().lower() in ("true", "yes", "on", "1")


def name_event(message, said_at):
    """Return an event ID that is the same for a retried message only (trade, time, content)."""
    content = hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:24]
    at = re.sub(r"[^0-9]", "", str(message.get("at", "")))[:20] or str(said_at)
    trade = re.sub(r"[^0-9A-Za-z]", "", str(message.get("trade", "")))[:20]
    return "-".join(filter(None, ("freqtrade", message["event"], trade, at, content)))


def clean(text):
    """Remove control characters, which would be refused."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text).strip()


class Heard:
    """Times of messages that have none, so that freqtrade's retries don't count as new."""

    def __init__(self):
        self.first = {}

    def date(self, message, now):
        """UTC ms of the first time this text was sent within the last minute; `now` in ms."""
        begin = now - SAID_AGAIN_SECONDS * 1000
        self.first = {words: at for words, at in self.first.items() if at >= begin}
        return self.first.setdefault(json.dumps(message, sort_keys=True), now)


# ---- sending ------------------------------------------------------------------------------------
def find_wait(retry_after, attempt):
    """Seconds until the next try: as requested by the instance, otherwise growing."""
    asked = int(retry_after) if str(retry_after).isdecimal() else 2**attempt
    return min(asked, MAX_WAIT_SECONDS)


def send(post):
    """(status, text, Retry-After or None) of Candor's response; 502 if there was none."""
    request = urllib.request.Request(
        f"{URL}/api/v1/posts",
        data=json.dumps(post).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)["id"], None
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode(), refusal.headers.get("Retry-After")
    except (OSError, http.client.HTTPException) as error:
        return 502, str(error), None


class Delivery:
    """A post being sent. `told` is set as soon as there is a response for freqtrade."""

    def __init__(self, post):
        self.post, self.told = post, threading.Event()
        self.status, self.said = 202, f"{post['eventId']}: still trying"

    def run(self):
        """Retry until Candor decides; the event ID makes every try the same post."""
        for attempt in range(TRIES):
            status, said, retry_after = send(self.post)
            if status != 429 and status < 500:
                break
            print(f"{self.post['eventId']}: {status} {said}", flush=True)
            if status == 502:
                self.tell(status, said)
            if attempt < TRIES - 1:
                time.sleep(find_wait(retry_after, attempt))
        waiting.pop(self.post["eventId"], None)
        self.tell(status, said)

    def tell(self, status, said):
        """Tell all waiting requests the outcome of the post."""
        self.status, self.said = status, said
        self.told.set()


# One thread, so that posts are sent in order. A retry waits for the same post.
sender, waiting, heard = ThreadPoolExecutor(max_workers=1), {}, Heard()


def hand_over(post):
    """(status, text) of Candor's response, or 202 until it arrives."""
    delivery = waiting.get(post["eventId"])
    if delivery is None:
        if len(waiting) >= MAX_WAITING:
            return 503, f"{MAX_WAITING} posts are waiting for {URL}"
        delivery = waiting[post["eventId"]] = Delivery(post)
        sender.submit(delivery.run)
    delivery.told.wait(ANSWER_SECONDS)
    return delivery.status, delivery.said


def make_post(message):
    """Convert a message to a post; None if it is empty."""
    if not isinstance(message, dict):
        return None
    now = time.time_ns() // 1_000_000
    return write_post(message, now if message.get("at") else heard.date(message, now))


class Webhook(BaseHTTPRequestHandler):
    """Answers 204, 202 while it is still trying, or Candor's refusal: freqtrade logs it and, if
    configured as above, tries again."""

    timeout = 10

    def do_POST(self):
        """Receive a message from freqtrade and answer once its post is delivered."""
        # a web page you visit could send any other type here
        if self.headers.get_content_type() != "application/json":
            return self.answer(415, 'set "format": "json" in freqtrade\'s webhook section')
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_MESSAGE:
            return self.answer(413, "a message needs a length of at most 64 KiB")
        try:
            message = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return self.answer(400, "this is no JSON")
        post = make_post(message)
        if post is None:
            return self.answer(204, "nothing to tell")
        status, said = hand_over(post)
        self.answer(204 if status in (200, 201) else status, said)

    def answer(self, status, said):
        """Answer with a status and a sentence, and print both."""
        print(status, said, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """`answer` prints everything that matters."""


if __name__ == "__main__":
    port = int(os.environ.get("PORT", 8787))
    with HTTPServer(("127.0.0.1", port), Webhook) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/ for {URL}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            # waiting posts are lost: nobody waits an hour
            os._exit(0)
