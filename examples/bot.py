#!/usr/bin/env python3
"""A bot that posts its own trades: each one that the instance observed becomes a post that cites
the transaction, so it is verified.

    export CANDOR_URL=http://127.0.0.1:8000      # the instance
    read -rs CANDOR_KEY && export CANDOR_KEY     # paste the bot's publishing key, cnd_pub_...
    python3 bot.py                               # until you stop it; --once: check once, for cron

The first check only records the starting position: earlier trades aren't posted. It is stored in
`bot.cursor` (or CANDOR_CURSOR). After a crash, the same trades are sent again with the same event
IDs. Python 3.11, nothing to install.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

URL = os.environ.get("CANDOR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("CANDOR_KEY") or sys.exit("CANDOR_KEY is not set")
CURSOR = Path(os.environ.get("CANDOR_CURSOR", "bot.cursor"))
LOOK_SECONDS, TRIES = 15, 8
# The hourly limit has reset by then.
MAX_WAIT_SECONDS = 3600
# Replace them with your bot's own words: its reasons, its plans, its doubts. Amounts and results
# are in the receipt shown below the post.
WORDS = {
    "buy": "Bought {token} with {currency}.",
    "sell": "Sold {token} for {currency}.",
    "swap": "Swapped into {token}.",
}


def ask(method, path, body=None):
    """Return the JSON response. Retries after a failure, which an event ID makes safe."""
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    for attempt in range(TRIES):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code != 429 and refusal.code < 500:
                return read_refusal(method, path, refusal)
            asked = refusal.headers.get("Retry-After", "")
            wait = min(int(asked) if asked.isdecimal() else 2**attempt, MAX_WAIT_SECONDS)
        except (OSError, http.client.HTTPException) as error:
            print(f"{error}, trying again", file=sys.stderr)
            wait = 2**attempt
        time.sleep(wait)
    sys.exit(f"{method} {path}: no response after {TRIES} tries")


def read_refusal(method, path, refusal):
    """The earlier post, if this trade was posted with different text; any other refusal ends the
    bot."""
    said = refusal.read().decode()
    if refusal.code == 409 and json.loads(said).get("code") == "event_conflict":
        return {"id": json.loads(said)["existingPostId"]}
    sys.exit(f"{method} {path}: {refusal.code} {said}")


def look(bot):
    """Post everything that arrived since the last check."""
    trades = f"/api/v1/trades?botId={bot}"
    if not CURSOR.exists():
        return keep(ask("GET", f"{trades}&limit=1")["newestCursor"])
    kinds = ",".join(WORDS)
    while (page := ask("GET", f"{trades}&kind={kinds}&since={CURSOR.read_text()}"))["data"]:
        for trade in page["data"]:
            token = trade["symbol"] or trade["mint"]
            post = {
                "eventId": f"trade-{trade['id']}",
                "body": WORDS[trade["kind"]].format(token=token, currency=trade["currency"]),
                "signature": trade["signature"],
                "mint": trade["mint"],
            }
            print(ask("POST", "/api/v1/posts", post)["id"])
        keep(page["newestCursor"])


def keep(cursor):
    """Replace the file in one step, so that a crash can't truncate it."""
    CURSOR.with_suffix(".new").write_text(cursor)
    CURSOR.with_suffix(".new").replace(CURSOR)


if __name__ == "__main__":
    me = ask("GET", "/api/v1/me")
    if me["kind"] != "publish":
        sys.exit("CANDOR_KEY is a read key. Use a publishing key.")
    look(me["botId"])
    while "--once" not in sys.argv:
        time.sleep(LOOK_SECONDS)
        look(me["botId"])
