"""Setting the stage: a DATA_DIR that says it is a demonstration's, the influencers in it, what they
did before anybody looked, and their posts since.
"""

import contextlib
import json
import sys
import time
from dataclasses import dataclass
from decimal import Decimal

import apsw
import requests

import config as settings
import papertrade
import storage
from accounts import api_keys, influencers, posts, traders
from demo import cast
from market import store as market_store
from market.providers import parse_pairs, parse_pools
from market.tables import Token
from operate import backups, instance
from storage import locks

PAST = 2_400  # seconds of paper mode before the start
DISPOSABLE = [
    f"{name}{side}" for name in ("app.db", "ratelimit.db") for side in backups.SIDE_FILES
]  # of an earlier demonstration: each begins anew


@dataclass(frozen=True)
class Stage:
    """Publishing keys by place in cast.BOTS, and a key for whoever wants to read the interface."""

    publish_keys: tuple
    read_key: str


def clear_folder(data_dir):
    """Make way in a demonstration's DATA_DIR; Refused where it holds real data, or where a server
    runs.
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


def fill_database(config, recording, lines, market):
    """Migrate and people the database, and let paper mode play its past: Stage. `lines`: the posts
    from before the start.
    """
    storage.migrate(storage.connect(config))
    try:
        with storage.database.connection_context():
            storage.database.execute_sql(
                "PRAGMA synchronous = OFF"
            )  # who loses power here begins anew anyway
            bots = _bring_bots(config, recording, lines, market.start)
            _bring_traders(config, recording, market)
            return Stage(
                tuple(made.publish_key.text for made in bots),
                api_keys.create_key(
                    bots[0].owner, "read", market.start * 1000, "demonstration"
                ).text,
            )
    finally:
        storage.database.close_all()
        locks.unlock_data_dir()


# ---- wallet mode ---------------------------------------------------------------------------------
def _bring_bots(config, recording, lines, start):
    """[accounts.NewBot, ...] as in cast.BOTS, with what they said before the start."""
    began = (start + recording["transactions"][0]["at"]) * 1000
    bots = [
        influencers.create_bot(
            config,
            one.name,
            began,
            None if one.who is None else recording["wallets"][one.who],
            voice=one.voice,
            bio=one.bio,
        )
        for one in cast.BOTS
    ]
    for line in lines:
        _publish(bots[line.bot], line, (start + line.at) * 1000)
    for made, one in zip(bots, cast.BOTS, strict=True):
        influencers.set_profile(made.bot, auto_post=one.told_by_observer, now=start * 1000)
    return bots


def _publish(made, line, now):
    body, sanitized = posts.parse_post(line.fields)
    posts.publish(made.bot.id, body, now, "api", made.publish_key.key.id, sanitized)


# ---- paper mode ----------------------------------------------------------------------------------
def _bring_traders(config, recording, market):
    """Traders with a past, one of them under review."""
    start = market.start * 1000
    made = [
        traders.create_trader(
            one.name,
            one.family,
            start - PAST * 1000,
            one.start,
            voice=one.voice,
            bio=one.bio,
            settings=one.settings,
        ).trader
        for one in cast.TRADERS
    ]
    play_past(config, recording["accounts"], market)
    for trader, one in zip(made, cast.TRADERS, strict=True):
        if one.doubt:
            traders.open_review(traders.find_trader(trader.uid), one.doubt, start)


def play_past(config, mint_accounts, market):
    """The last PAST seconds of the market, by the scout's own writes and paper mode's own ticks:
    traders have a history when the curtain rises.
    """
    desk = papertrade.Desk(config)
    for at in range(-PAST, 0, int(config.scout_interval_seconds)):
        now = (market.start + at) * 1000
        _discover(market, at, now)
        if at == -PAST:
            tokens = list(Token.select())
            market_store.store_checks(tokens, [mint_accounts[token.mint] for token in tokens], now)
        mints = market_store.list_unpriced(now)
        market_store.store_quotes(
            parse_pairs(_as_received(market.show_pairs(mints, at)))[0], mints, now
        )
        desk.run_tick(now)


def _discover(market, at, now):
    listed = [
        row["tokenAddress"] for kind in ("profiles", "boosts") for row in market.show_list(kind, at)
    ]
    market_store.store_discoveries(dict.fromkeys(listed, (None, None)), "dexscreener", now)
    pools, _ = parse_pools(_as_received(market.show_pools(at)))
    market_store.store_discoveries(
        {mint: (quote.symbol, quote.name) for mint, quote in pools.items()}, "geckoterminal", now
    )


def _as_received(answer):
    """A provider's answer as its client reads it: numbers exact."""
    return json.loads(json.dumps(answer), parse_float=Decimal)


# ---- while somebody looks ------------------------------------------------------------------------
def await_server(server, url):
    """Until the server (a Popen) answers: whether it does before it ends. Another one may sit on
    its port, a real one even: that is not it.
    """
    while server.poll() is None:
        try:
            if requests.get(f"{url}/api/health", timeout=5).json().get("demonstration"):
                return True
        except (requests.RequestException, ValueError):
            pass  # not yet, or somebody else
        time.sleep(0.1)
    return False


def act(server, url, lines, keys, start):
    """Post each line when its time has come, as bots do, until the server ends."""
    for line in lines:
        while server.poll() is None and (wait := start + line.at - time.time()) > 0:
            time.sleep(min(wait, 0.5))
        if server.poll() is not None:
            return
        problem = _send(url, line, keys[line.bot])
        if problem:
            print(f"a post of {cast.BOTS[line.bot].name} was not taken: {problem}", file=sys.stderr)
    server.wait()


def _send(url, line, key):
    """Why a post was not taken, or None."""
    try:
        answer = requests.post(
            f"{url}/api/v1/posts",
            json=line.fields,
            headers={"Authorization": f"Bearer {key}"},
            timeout=10,
        )
        return None if answer.status_code == 201 else answer.text
    except requests.RequestException as error:
        return type(error).__name__
