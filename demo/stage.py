"""Serve the stand-ins, set up the demo's DATA_DIR, bots and history, and send the bots' posts."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import requests

import config as settings
import papertrade
import storage
from accounts import api_keys, influencers, posts, traders
from config import Config
from demo import cast
from demo.market import Market
from demo.node import BadCall, JsonObject, Node
from market import store as market_store
from market.providers import parse_pairs, parse_pools
from market.tables import Token
from operate import instance
from storage import files

# ---- the stand-ins' server -----------------------------------------------------------------------
MAX_BYTES = 1 << 16


def start_server(node: Node, market: Market) -> ThreadingHTTPServer:
    """Serve both the node and the market from a thread of this process, on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(node, market))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="stand-ins", daemon=True).start()
    return server


def address_of(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def find_answer(market: Market, path: str, at: float) -> object:
    if path == "/token-profiles/latest/v1":
        return market.show_list("profiles", at)
    if path == "/token-boosts/latest/v1":
        return market.show_list("boosts", at)
    if path == "/api/v2/networks/solana/new_pools":
        return market.show_pools(at)
    if path.startswith("/tokens/v1/solana/"):
        return market.show_pairs(path.removeprefix("/tokens/v1/solana/").split(","), at)
    return None


def answer_call(node: Node, call: object, at: float) -> dict[str, object]:
    if not isinstance(call, dict) or not isinstance(call.get("params", []), list):
        return {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32600, "message": "Invalid request"},
        }
    answer, params = {"jsonrpc": "2.0", "id": call.get("id")}, call.get("params", [])
    time.sleep(node.find_pause(call.get("method"), params))
    try:
        return {**answer, "result": node.answer(call.get("method"), params, at)}
    except BadCall as error:
        return {**answer, "error": {"code": error.code, "message": str(error)}}


def _handler(node: Node, market: Market) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # Keep connections alive, and send each response in one piece.
        protocol_version, wbufsize = "HTTP/1.1", -1

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            if length > MAX_BYTES:
                self.send_error(413)
                return
            try:
                call = json.loads(self.rfile.read(length))
            except ValueError:
                call = None
            self.answer(200, answer_call(node, call, time.time() - node.start))

        def do_GET(self) -> None:
            found = find_answer(market, urlsplit(self.path).path, time.time() - node.start)
            self.answer(404 if found is None else 200, found)

        def answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Don't log the stand-ins' requests."""

    return Handler


# ---- stage ---------------------------------------------------------------------------------------
# Seconds of paper mode's history before the demo starts.
PAST_SECONDS = 2_400
# The files of a previous demo. Each start begins from scratch.
DISPOSABLE = [
    f"{name}{side}" for name in ("app.db", "ratelimit.db") for side in instance.SIDE_FILES
]


@dataclass(frozen=True)
class DemoKeys:
    """Publishing keys in the order of cast.BOTS, and the visitor's read key and recovery code."""

    publish_keys: tuple[str, ...]
    read_key: str
    recovery_code: str | None


def clear_folder(data_dir: Path) -> None:
    """Delete a previous demo. Raises Refused if the folder has real data or a running server."""
    database = data_dir / "app.db"
    with instance.alone(data_dir):
        if any(data_dir.glob("app.db*")) and not settings.is_demonstration(database):
            raise instance.Refused(
                f"{data_dir} contains real data; the demo needs its own DATA_DIR"
            )
        for name in DISPOSABLE:
            (data_dir / name).unlink(missing_ok=True)
        with contextlib.closing(apsw.Connection(str(database))) as db:
            db.pragma("application_id", int.from_bytes(settings.DEMONSTRATION_ID))


def fill_database(
    config: Config, recording: JsonObject, planned: Iterable[cast.PlannedPost], market: Market
) -> DemoKeys:
    """Create the database, the bots and their history. `planned`: posts from before the start."""
    storage.migrate(storage.connect(config))
    try:
        with storage.database.connection_context():
            # A power failure doesn't matter, because the next start begins from scratch.
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
        files.unlock_data_dir()


# ---- wallet mode ---------------------------------------------------------------------------------
def _create_bots(
    config: Config, recording: JsonObject, planned: Iterable[cast.PlannedPost], start: int
) -> list[influencers.NewBot]:
    began = (start + min(row["at"] for row in recording["transactions"])) * 1000
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
    """Play the last PAST_SECONDS with the scout's real writes and paper mode's real ticks."""
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


# ---- while the demo runs -------------------------------------------------------------------------
def wait_for_server(server: "subprocess.Popen[bytes]", url: str) -> bool:
    """Wait until the server responds. Return False if it ends first, or isn't a demo."""
    while server.poll() is None:
        try:
            if requests.get(f"{url}/api/health", timeout=5).json().get("demonstration"):
                return True
        except (requests.RequestException, ValueError):
            # It isn't listening yet, or another program responded.
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
    for post in planned:
        while server.poll() is None and (wait := start + post.at - time.time()) > 0:
            time.sleep(min(wait, 0.5))
        if server.poll() is not None:
            return
        problem = _send(url, post, keys[post.bot])
        if problem:
            print(f"a post by {cast.BOTS[post.bot].name} was refused: {problem}", file=sys.stderr)
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
