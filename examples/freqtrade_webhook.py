#!/usr/bin/env python3
"""Freqtrade's webhook messages become posts: an entry or exit that was filled, and what its strategy says.

    export CANDOR_URL=http://127.0.0.1:8000      # the instance
    export CANDOR_KEY=cnd_pub_...                # the influencer's publishing key; keep it out of the command line
    python3 freqtrade_webhook.py                 # listens on 127.0.0.1:8787; PORT names another

In freqtrade's configuration:

    "webhook": {
        "enabled": true, "url": "http://127.0.0.1:8787/", "format": "json", "retries": 3, "retry_delay": 2,
        "entry_fill": {"event": "entry_fill", "trade": "{trade_id}", "pair": "{pair}", "direction": "{direction}", "amount": "{amount}", "rate": "{open_rate}",
                       "at": "{open_date}", "tag": "{enter_tag}"},
        "exit_fill": {"event": "exit_fill", "trade": "{trade_id}", "pair": "{pair}", "direction": "{direction}", "amount": "{amount}", "rate": "{close_rate}",
                      "at": "{close_date}", "profit": "{profit_ratio:.2%}", "reason": "{exit_reason}"},
        "strategy_msg": {"event": "strategy_msg", "message": "{msg}"}
    }

What freqtrade says of its fills no chain confirms: these posts are labelled "not verified". Other messages are acknowledged and dropped.
A message that freqtrade sends again makes no second post: the event id is made from its content. Python 3.11, nothing to install.
"""
import hashlib
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

URL = os.environ.get("CANDOR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("CANDOR_KEY") or sys.exit("CANDOR_KEY is not set")
LONGEST_MESSAGE, LONGEST_BODY, LONGEST_SYMBOL = 64 * 1024, 4000, 32


def write_post(message):
    """A message as the body of POST /api/v1/posts, or None where there is nothing to tell."""
    pair, event = str(message.get("pair", "")), message.get("event")
    if event == "entry_fill":
        body, reason = f"Opened {message.get('direction', '')} {pair}: {message.get('amount')} at {message.get('rate')}.", message.get("tag")
    elif event == "exit_fill":
        body, reason = f"Closed {message.get('direction', '')} {pair}: {message.get('amount')} at {message.get('rate')}, {message.get('profit')} by its own count.", message.get("reason")
    elif event == "strategy_msg":
        body, reason = str(message.get("message", "")), None
    else:
        return None
    post = {"eventId": f"freqtrade-{event}-{hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:24]}", "body": clean(body)[:LONGEST_BODY]}
    post |= {"symbol": pair.partition("/")[0][:LONGEST_SYMBOL]} if pair else {}
    return post | ({"reason": clean(str(reason))[:LONGEST_BODY]} if reason not in (None, "", "None") else {})


def clean(text):
    """Without the control characters that would be refused."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text).strip()


def send(post):
    """(status, words) of Candor's answer; 502 where there was none."""
    request = urllib.request.Request(f"{URL}/api/v1/posts", data=json.dumps(post).encode(), headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)["id"]
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 502, str(error)


class Webhook(BaseHTTPRequestHandler):
    """Answers 204, or Candor's refusal: freqtrade notes it in its log and, as configured above, tries again."""

    timeout = 10

    def do_POST(self):
        if self.headers.get_content_type() != "application/json":               # a web page you visit could send any other kind here
            return self.answer(415, "set \"format\": \"json\" in freqtrade's webhook section")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_MESSAGE:
            return self.answer(413, "a message needs a length of at most 64 KiB")
        try:
            message = json.loads(self.rfile.read(int(length)))
            post = write_post(message) if isinstance(message, dict) else None
        except ValueError:
            return self.answer(400, "this is no JSON")
        if post is None:
            return self.answer(204, "nothing to tell")
        status, said = send(post)
        self.answer(204 if status < 300 else status, said)

    def answer(self, status, said):
        print(status, said, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """What matters is printed by `answer`."""


if __name__ == "__main__":
    port = int(os.environ.get("PORT", 8787))
    with HTTPServer(("127.0.0.1", port), Webhook) as server:
        print(f"listening on http://127.0.0.1:{server.server_port}/ for {URL}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            sys.exit(0)
