"""Hummingbot script for Gateway: each fill on a Solana DEX becomes a post that the chain verifies.

Copy it to `scripts/`, set CANDOR_URL and CANDOR_KEY in Hummingbot's environment, name your
connector and trading pair in `markets`, and trade in `on_tick` as Hummingbot's
`amm_trade_example.py` does.
A strategy you already have only needs `did_fill_order` and the functions below it.

A fill's `exchange_trade_id` is the transaction's signature for Gateway connectors.
"""

import json
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from hummingbot.core.event.events import OrderFilledEvent, TradeType
from hummingbot.strategy.script_strategy_base import ScriptStrategyBase

URL = os.environ.get("CANDOR_URL", "http://127.0.0.1:8000")
KEY = os.environ.get("CANDOR_KEY", "")
TRIES = 8


class PostFills(ScriptStrategyBase):
    """Posts each of its fills. One thread sends, so posts stay in order and a tick never waits."""

    markets = {"jupiter_solana_mainnet-beta": {"SOL-USDC"}}  # noqa: RUF012
    sender = ThreadPoolExecutor(max_workers=1)

    def did_fill_order(self, event: OrderFilledEvent) -> None:
        """Post about a fill. Hummingbot calls it."""
        self.sender.submit(self.post_fill, event)

    def post_fill(self, event: OrderFilledEvent) -> None:
        """Send the post, and log the outcome."""
        try:
            post = send(write_post(event))
        except (OSError, ValueError) as error:
            self.logger().error(f"not posted: {error}")
        else:
            self.logger().info(f"posted {post['url']}")


def write_post(event: OrderFilledEvent) -> dict[str, str]:
    """Write the post about a fill. Replace this text with your own."""
    base, _, quote = event.trading_pair.partition("-")
    verb = "Bought" if event.trade_type is TradeType.BUY else "Sold"
    return {
        "eventId": f"trade-{event.exchange_trade_id}",
        "body": f"{verb} {event.amount} {base} at {event.price} {quote}.",
        "signature": event.exchange_trade_id,
    }


def send(post: dict[str, str]) -> dict[str, object]:
    """Publish it. OSError if it is refused. Retrying is safe: the event ID is the same."""
    request = urllib.request.Request(
        f"{URL}/api/v1/posts",
        data=json.dumps(post).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as refusal:
            if (refusal.code != 429 and refusal.code < 500) or attempt == TRIES:
                raise OSError(refusal.read().decode()) from None
            asked = refusal.headers.get("Retry-After", "")
        except OSError:
            if attempt == TRIES:
                raise
            asked = ""
        time.sleep(int(asked) if asked.isdecimal() else 2**attempt)
    raise AssertionError("not reached")
