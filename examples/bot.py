#!/usr/bin/env python3
"""A bot that tells its own trades: each one the instance observed of its wallet becomes one post
that names the transaction, and so is verified.

    export CANDOR_URL=http://127.0.0.1:8000      # the instance
    read -rs CANDOR_KEY && export CANDOR_KEY     # paste the bot's publishing key, cnd_pub_...
    python3 bot.py                               # until you stop it; --once: one look, for cron

The first poll only notes where to begin: what was traded before is not told. The place is kept in
the file `bot.cursor` (CANDOR_CURSOR names another); after a crash the same trades are told again
under the same event ids, which the instance recognizes. Python 3.11, nothing to install.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from decimal import Decimal
from pathlib import Path

URL = os.environ.get("CANDOR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("CANDOR_KEY") or sys.exit("CANDOR_KEY is not set")
CURSOR = Path(os.environ.get("CANDOR_CURSOR", "bot.cursor"))
LOOK_SECONDS, TRIES = 15, 8
# an hour's allowance is back by then
MAX_WAIT_SECONDS = 3600
WORDS = {"buy": "Bought", "sell": "Sold", "swap": "Swapped into"}


def tell(trade):
    """The words of a post. This is the place for your bot's own: its reasons, its plans, its
    doubts.
    """
    moved = measure(trade)
    amount, paid = moved.get(trade["mint"], Decimal(0)), find_paid(trade, moved)
    price = f" for {abs(paid):f} {trade['currency']}" if trade["currency"] else ""
    return f"{WORDS[trade['kind']]} {abs(amount):f} of {trade['mint']}{price}." + tell_result(trade)


def measure(trade):
    """How much of each token a trade moved, by mint: the whole transaction less what passed outside
    the venue in it, a gift or what was sent on at once.
    """
    outside = trade["outsideVenue"] or {"tokenChanges": []}
    moved = {}
    for sign, changes in ((1, trade["tokenChanges"]), (-1, outside["tokenChanges"])):
        for change in changes:
            units = sign * Decimal(change["changeRaw"]) / 10 ** change["decimals"]
            moved[change["mint"]] = moved.get(change["mint"], 0) + units
    return moved


def find_paid(trade, moved):
    """What was paid or received: SOL, or else the other token that moved."""
    if trade["currency"] in (None, "SOL"):
        outside = trade["outsideVenue"] or {"solLamports": "0"}
        return Decimal(int(trade["solChangeLamports"]) - int(outside["solLamports"])) / 10**9
    return next((units for mint, units in moved.items() if mint != trade["mint"]), Decimal(0))


def tell_result(trade):
    """What a sale earned; of one whose cost was observed in part, that part is named."""
    result = trade["realized"]["result"]
    if result is None:
        return ""
    partial = trade["realized"]["status"] == "partial"
    part = " of the part whose cost was observed" if partial else ""
    return f" Result{part}: {result} {trade['currency']}."


def ask(method, path, body=None):
    """The JSON answer. Sends again where that is safe: every post carries an event id, so the same
    one twice is still one post.
    """
    request = urllib.request.Request(
        URL + path,
        method=method,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    for attempt in range(TRIES):
        # no connection, or it broke: who knows whether the post arrived
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code != 429 and refusal.code < 500:
                return read_refusal(method, path, refusal)
            asked = refusal.headers.get("Retry-After", "")
            wait = min(int(asked) if asked.isdecimal() else 2**attempt, MAX_WAIT_SECONDS)
        except (
            OSError,
            http.client.HTTPException,
        ) as error:
            print(f"{error}, trying again", file=sys.stderr)
            wait = 2**attempt
        time.sleep(wait)
    sys.exit(f"{method} {path}: no answer after {TRIES} tries")


def read_refusal(method, path, refusal):
    """A trade that was told before, in other words (its result was derived anew), is told; any
    other refusal ends the bot."""
    said = refusal.read().decode()
    if refusal.code == 409 and json.loads(said).get("code") == "event_conflict":
        return {"id": json.loads(said)["existingPostId"]}
    sys.exit(f"{method} {path}: {refusal.code} {said}")


def look(bot):
    """Tell what arrived since the last look."""
    if not CURSOR.exists():
        return keep(ask("GET", f"/api/v1/trades?botId={bot}&limit=1")["newestCursor"])
    while (page := ask("GET", f"/api/v1/trades?botId={bot}&since={CURSOR.read_text()}"))["data"]:
        for trade in page["data"]:
            if trade["kind"] in WORDS:
                post = {
                    "eventId": f"trade-{trade['id']}",
                    "body": tell(trade),
                    "signature": trade["signature"],
                    "mint": trade["mint"],
                }
                print(ask("POST", "/api/v1/posts", post)["id"])
        keep(page["newestCursor"])


def keep(cursor):
    """Replace the file in one step: it is whole whenever the machine stops."""
    CURSOR.with_suffix(".new").write_text(cursor)
    CURSOR.with_suffix(".new").replace(CURSOR)


if __name__ == "__main__":
    me = ask("GET", "/api/v1/me")
    if me["kind"] != "publish":
        sys.exit("CANDOR_KEY is a read key; a publishing key is needed")
    look(me["botId"])
    while "--once" not in sys.argv:
        time.sleep(LOOK_SECONDS)
        look(me["botId"])
