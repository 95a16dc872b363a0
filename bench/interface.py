"""The interface against schemathesis: requests made up from /openapi.json, right and wrong ones,
and all its checks on every answer.

    python -m bench interface [--cases 20000]

One server (`app.py run`, with limits out of the way) in a temporary folder with an influencer,
posts, trades and a paper trader. Prints what schemathesis prints and ends with its exit status: 0
when no answer was a fault of ours or outside of what the document says. What is left out stands in
LEFT_OUT.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

import config
import storage
from accounts import influencers, posts, traders
from bench.streams import start_server
from chain import base58
from chain.stored.tables import TokenTrader, TradeMint
from chain.stored.trades import number_mints, write_trades
from models import Wallet
from web.api import openapi

# Each with its reason. Nothing else is left out: all checks, all phases, all other requests.
LEFT_OUT = """
[generation]
database = "none"

# Its answer has no end; tests/test_stream.py reads it.
[[operations]]
include-path = "/api/v1/stream"
enabled = false

# No schema can say which cursors were given out, that cursor and since exclude each other, that
# quote goes with one sort, or that base58 text is of 32 bytes: 400 is right for some that it
# allows.
[[operations]]
include-path-regex = "/(bots|feed|trades|activity|market|search|leaderboard)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400"]

# Nor that eventId may stand in a header instead, that text has no control characters, or that
# base58 text is of 32 and 64 bytes; another influencer's botId is refused, an eventId used before
# too.
[[operations]]
include-path = "/api/v1/posts"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "409", "422"]
"""
SEEDED = 30


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench interface")
    parser.add_argument("--cases", type=int, default=20_000, help="at least so many")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        key = seed(folder)
        port, server = start_server(folder)
        try:
            return run(folder, port, key, given.cases)
        finally:
            server.terminate()
            server.wait()


def run(folder, port, key, cases):
    settings = Path(folder) / "schemathesis.toml"
    settings.write_text(LEFT_OUT)
    # The others have little to vary.
    each = cases // sum(
        bool(operation.parameters or operation.body)
        for operation in openapi.OPERATIONS
        if operation.path != "/api/v1/stream"
    )
    command = [
        Path(sys.executable).with_name("schemathesis"),
        "--config-file",
        settings,
        "run",
        f"http://127.0.0.1:{port}/openapi.json",
        "--checks",
        "all",
        "--max-examples",
        str(each),
        "--header",
        f"Authorization: Bearer {key}",
        "--continue-on-failure",
        "--workers",
        "2",
        "--no-color",
        "--seed",
        "20261120",
        "--suppress-health-check",
        "all",
        "--no-shrink",
    ]
    return subprocess.run(command, cwd=folder).returncode


def seed(folder):
    """A publishing key in a database with a bit of everything."""
    settings, now = config.load({"DATA_DIR": folder}, dotenv=None), time.time_ns() // 1_000_000
    database = storage.connect(settings)
    storage.migrate(database)
    with database.connection_context():
        address = base58.b58encode(hashlib.sha256(b"bench").digest())
        bot = influencers.create_bot(settings, "Bench", now, address)
        traders.create_trader("Bench on paper", "momentum", now)
        with storage.writing():
            for number in range(SEEDED):
                store_one(bot.bot, Wallet.get(), address, number, now)
    database.close_all()
    return bot.publish_key.text


def store_one(bot, wallet, mint, number, now):
    signature = base58.b58encode(hashlib.sha512(str(number).encode()).digest())
    columns = {
        "uid": f"trade_{number}",
        "wallet": wallet.id,
        "signature": signature,
        "slot": number,
        "block_time": now // 1000,
        "kind": "buy",
        "mint": mint,
        "token_changes": orjson.dumps([[mint, "1000", 3]]).decode(),
        "sol_change": -5000,
        "fee": 5000,
        "tip": 0,
        "rent": 0,
        "realized": "not_applicable",
        "matched_raw": "0",
        "unmatched_raw": "0",
        "lots": "[]",
        "flags": "[]",
        "digest": str(number),
    }
    trade = write_trades([columns])[signature]
    moved = number_mints({mint})[mint]
    TradeMint.create(trade=trade, wallet=wallet, mint=moved, side="buy", slot=number)
    TokenTrader.insert(mint=mint, side="buy", wallet=wallet).on_conflict_ignore().execute()
    posts.store_post(
        bot=bot,
        source="bot",
        channel="api",
        event_id=f"seed {number}",
        body="What the chain does not say.",
        signature=signature,
        mint=mint,
        wallet=wallet.id,
        status="verified",
        trade=trade,
        event_at=now,
        created_at=now,
    )
