"""Set up the demonstration: its DATA_DIR, its bots and their past; then post as they do."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import requests

import config as settings
import papertrade
import storage
from accounts import api_keys, influencers, posts, traders
from config import Config
from demo import cast
from demo.market import Market
from demo.node import JsonObject
from market import store as market_store
from market.providers import parse_pairs, parse_pools
from market.tables import Token
from operate import instance
from storage import locks

# Of paper mode, before the start.
PAST_SECONDS = 2_400
# Files of an earlier demonstration: each start begins from scratch.
DISPOSABLE = [
    f"{name}{side}" for name in ("app.db", "ratelimit.db") for side in instance.SIDE_FILES
]


@dataclass(frozen=True)
class DemoKeys:
    """Publishing keys in the order of cast.BOTS; a read key and the first bot's recovery code for
    the visitor.
    """

    publish_keys: tuple[str, ...]
    read_key: str
    recovery_code: str | None


def clear_folder(data_dir: Path) -> None:
    """Delete an earlier demonstration from a DATA_DIR. Raises Refused where it holds real data, or
    where a server runs.
    """
    database = data_dir / "app.db"
    with instance.alone(data_dir):
        if any(data_dir.glob("app.db*")) and not settings.is_demonstration(database):
            raise instance.Refused(
                f"{data_dir} holds real data: a demonstration needs a DATA_DIR of its own"
            )
        for name in DISPOSABLE:
            (data_dir / name).unlink(missing_ok=True)
        with contextlib.closing(apsw.Connection(str(database))) as db:
            db.pragma("application_id", int.from_bytes(settings.DEMONSTRATION_ID))


def fill_database(
    config: Config, recording: JsonObject, planned: Iterable[cast.PlannedPost], market: Market
) -> DemoKeys:
    """Create the database, the bots and their past. `planned`: the posts from before the
    start.
    """
    storage.migrate(storage.connect(config))
    try:
        with storage.database.connection_context():
            # A power cut loses nothing: the next start begins from scratch.
            storage.database.execute_sql("PRAGMA synchronous = OFF")
            bots = _create_bots(config, recording, planned, market.start)
            _create_traders(config, recording, market)
            return DemoKeys(
                tuple(made.publish_key.text for made in bots),
                api_keys.create_key(
                    bots[0].owner, "read", market.start * 1000, "demonstration"
                ).text,
                bots[0].recovery_code,
            )
    finally:
        storage.database.close_all()
        locks.unlock_data_dir()


# ---- wallet mode ---------------------------------------------------------------------------------
def _create_bots(
    config: Config, recording: JsonObject, planned: Iterable[cast.PlannedPost], start: int
) -> list[influencers.NewBot]:
    began = (start + recording["transactions"][0]["at"]) * 1000
    bots = [
        influencers.create_bot(
            config,
            one.name,
            start * 1000 if one.is_new else began,
            None if one.wallet is None else recording["wallets"][one.wallet],
            voice=one.voice,
            bio=one.bio,
        )
        for one in cast.BOTS
    ]
    for post in planned:
        _publish(bots[post.bot], post, (start + post.at) * 1000)
    for made, one in zip(bots, cast.BOTS, strict=True):
        influencers.set_profile(made.bot, auto_post=one.auto_post, now=start * 1000)
        if one.retired_at is not None:
            influencers.retire_bot(made.bot, (start + one.retired_at) * 1000)
    return bots


def _publish(made: influencers.NewBot, post: cast.PlannedPost, now: int) -> None:
    body, sanitized = posts.parse_post(post.fields)
    posts.publish(made.bot.id, body, now, "api", made.publish_key.key.id, sanitized)


# ---- paper mode ----------------------------------------------------------------------------------
def _create_traders(config: Config, recording: JsonObject, market: Market) -> None:
    start = market.start * 1000
    made = [
        traders.create_trader(
            one.name,
            one.family,
            start - PAST_SECONDS * 1000,
            one.start,
            voice=one.voice,
            bio=one.bio,
            settings=one.settings,
        ).trader
        for one in cast.TRADERS
    ]
    simulate_past(config, recording["accounts"], market)
    for trader, one in zip(made, cast.TRADERS, strict=True):
        if one.review_reason:
            traders.open_review(traders.find_trader(trader.uid), one.review_reason, start)


def simulate_past(config: Config, mint_accounts: Mapping[str, JsonObject], market: Market) -> None:
    """Play the last PAST_SECONDS of the market, with the scout's own writes and paper mode's own
    ticks, so that traders have a history at the start.
    """
    job = papertrade.PaperJob(config)
    for at in range(-PAST_SECONDS, 0, int(config.scout_interval_seconds)):
        now = (market.start + at) * 1000
        _discover(market, at, now)
        if at == -PAST_SECONDS:
            tokens = list(Token.select())
            market_store.store_checks(tokens, [mint_accounts[token.mint] for token in tokens], now)
        mints = market_store.list_unpriced(now)
        market_store.store_quotes(
            parse_pairs(_as_received(market.show_pairs(mints, at)))[0], mints, now
        )
        job.run_tick(now)


def _discover(market: Market, at: int, now: int) -> None:
    listed = [
        str(row["tokenAddress"])
        for kind in ("profiles", "boosts")
        for row in market.show_list(kind, at)
    ]
    market_store.store_discoveries(dict.fromkeys(listed, (None, None)), "dexscreener", now)
    pools, _ = parse_pools(_as_received(market.show_pools(at)))
    market_store.store_discoveries(
        {mint: (quote.symbol, quote.name) for mint, quote in pools.items()}, "geckoterminal", now
    )


def _as_received(answer: object) -> Any:
    return json.loads(json.dumps(answer), parse_float=Decimal)


# ---- while somebody looks ------------------------------------------------------------------------
def wait_for_server(server: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the server answers; return whether it does before it ends. A server that is no
    demonstration, on the same port, does not count.
    """
    while server.poll() is None:
        try:
            if requests.get(f"{url}/api/health", timeout=5).json().get("demonstration"):
                return True
        except (requests.RequestException, ValueError):
            # Not listening yet, or another program answered.
            pass
        time.sleep(0.1)
    return False


def send_posts(
    server: "subprocess.Popen[bytes]",
    url: str,
    planned: Iterable[cast.PlannedPost],
    keys: Sequence[str],
    start: int,
) -> None:
    """Send each post when its time has come, as bots do, until the server ends."""
    for post in planned:
        while server.poll() is None and (wait := start + post.at - time.time()) > 0:
            time.sleep(min(wait, 0.5))
        if server.poll() is not None:
            return
        problem = _send(url, post, keys[post.bot])
        if problem:
            print(f"a post of {cast.BOTS[post.bot].name} was refused: {problem}", file=sys.stderr)
    server.wait()


def _send(url: str, post: cast.PlannedPost, key: str) -> str | None:
    try:
        answer = requests.post(
            f"{url}/api/v1/posts",
            json=post.fields,
            headers={"Authorization": f"Bearer {key}"},
            timeout=10,
        )
        return None if answer.status_code == 201 else answer.text
    except requests.RequestException as error:
        return type(error).__name__
