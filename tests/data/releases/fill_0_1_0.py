"""Fill a small instance with the code of version 0.1.0, and pack its database.

    PYTHONPATH=.:tests python -c 'import json, story; print(json.dumps(
        [[r.signature, r.slot, r.index, r.receipt] for r in story.market().rows]))' > /tmp/chain
    git worktree add --detach /tmp/first d735f6de && cd /tmp/first
    PYTHONPATH=.:tests python THIS_FILE app.db.xz < /tmp/chain

Owners, three bots, a wallet with forty transactions that a made-up node serves, posts that are
verified, do not match, are hidden and name nothing; a retired bot, a revoked key, a paper trader
with fills and one under review. Runs in a tree of that version alone.
"""

import dataclasses
import json
import lzma
import pathlib
import sys
import tempfile

import apsw
import story
from lookout import BEGIN, Lookout
from node import Chain, FakeNode, Row

import config
import models
import papertrade
from models import Snapshot, Token
from web import accounts, posts, traders

MINUTE = 60_000
PRICES = ["0.001"] * 12 + ["0.001040", "0.00109", "0.00115", "0.0012", "0.00126", "0.0013"]
PRICES += ["0.0011"] * 4
CHECKS = b'[{"key":"supply","label":"","status":"pass","detail":"","checkedAt":1793880000000}]'


def fill(settings):
    """Make everything, from BEGIN on."""
    ada = accounts.create_bot(settings, "Ada", BEGIN, story.address("ada"), bio="Trades by day.")
    bob = accounts.create_bot(settings, "Bob Ünder", BEGIN, owner=ada.bot.owner)
    eve = accounts.create_bot(settings, "Eve", BEGIN)
    said = watch(settings, ada)
    publish(bob, BEGIN + 5, {"eventId": "b-1", "body": "I hold no wallet <b>yet</b>."})
    hidden = publish(bob, BEGIN + 6, {"eventId": "b-2", "body": "words that were taken down"})
    posts.hide(hidden.uid, BEGIN + 7)
    publish(eve, BEGIN + 8, {"eventId": "e-1", "body": "bye", "signature": said})
    accounts.retire_bot(eve.bot, BEGIN + 9)
    accounts.create_key(ada.bot.owner, "read", BEGIN, "reader")
    accounts.revoke_key(accounts.create_key(ada.bot.owner, "read", BEGIN).key.uid, BEGIN + 1)
    play(settings, ada.bot.owner)


def watch(settings, made):
    """Observe ada's forty transactions; she posts about three of them."""
    look = Lookout(dataclasses.replace(settings), FakeNode(read_chain()))
    look.settle()
    trades = [one for one in look.trades() if one.kind in ("buy", "sell")]
    for number, trade in enumerate(trades[:3]):
        mint = trade.mint if number else story.address("another coin")
        body = {"eventId": f"a-{number}", "body": f"trade {number}", "mint": mint}
        publish(made, BEGIN + 3, {**body, "signature": trade.signature})
    look.settle()
    return trades[3].signature


def read_chain():
    """What tests/story.py of a later version made up, whose receipts are more like real ones."""
    return Chain([Row(*row) for row in json.load(sys.stdin)])


def publish(made, now, fields):
    """Post as the bot does; return the post."""
    body, sanitized = posts.parse_post(fields)
    key = made.publish_key.key.id
    posts.publish(made.bot.id, body, now, "api", key, sanitized)
    return models.Post.select().order_by(models.Post.id.desc()).get()


def play(settings, owner):
    """A trader that buys a rise and sells at its stop, and another under review."""
    start = BEGIN + 60 * MINUTE
    one = traders.create_trader("Momo Paper", "momentum", start - MINUTE, owner=owner).trader
    two = traders.create_trader("Max Doubt", "breakout", start - MINUTE).trader
    desk = papertrade.Desk(settings)
    token = Token.create(
        mint=story.address("paper coin"), symbol="PAPER", name="Paper Coin", decimals=6,
        discovered_at=start - 10**9, tracked_at=start - 10**9, checks=CHECKS.decode(),
    )  # fmt: skip
    for number, price in enumerate(PRICES):
        now = start + number * MINUTE
        Snapshot.create(
            token=token, taken_at=now, expires_at=now + 10**7, source="dexscreener",
            price_sol=price, pool_sol="1000", liquidity_usd="300000",
            volume24h_usd=str(50_000 + number * 100),
        )  # fmt: skip
        desk.run_tick(now + 5_000)
    traders.open_review(traders.find_trader(two.uid), "an example", start + 10**6)
    return one


def main(target):
    """Fill a database in a folder of its own, and pack it into `target`."""
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load({"DATA_DIR": folder}, dotenv=None)
        database = models.connect(settings)
        models.migrate(database)
        with database.connection_context():
            fill(settings)
        database.close_all()
        path = pathlib.Path(folder) / "app.db"
        db = apsw.Connection(str(path))
        db.pragma("journal_mode", "delete")
        db.execute("VACUUM")
        db.close()
        pathlib.Path(target).write_bytes(lzma.compress(path.read_bytes(), preset=9))


main(sys.argv[1])
