"""Setting the stage: a DATA_DIR that says it is a demonstration's, the influencers in it, what they did before anybody looked, and their posts since."""
import json
import sys
import time
from dataclasses import dataclass
from decimal import Decimal

import apsw
import requests

import config as settings
import keeping
import models
import papertrade
import scout
from demo import cast
from providers import parse_pairs, parse_pools
from web import accounts, posts, traders

PAST = 3_600                                              # seconds of paper mode before the start
DISPOSABLE = ("app.db*", "ratelimit.db*")                 # of an earlier demonstration: each one begins anew


@dataclass(frozen=True)
class Stage:
    """Publishing keys by place in cast.BOTS, and a key for whoever wants to read the interface."""

    publish_keys: tuple
    read_key: str


def clear_folder(data_dir):
    """Make way in a demonstration's DATA_DIR; Refused where it holds real data, or where a server runs."""
    with keeping.alone(data_dir):
        database = data_dir / "app.db"
        if database.exists() and not settings.is_demonstration(database):
            raise keeping.Refused(f"{data_dir} holds real data: a demonstration needs a DATA_DIR of its own")
        for pattern in DISPOSABLE:
            for path in data_dir.glob(pattern):
                path.unlink()
        with apsw.Connection(str(database)) as db:
            db.pragma("application_id", int.from_bytes(settings.DEMONSTRATION_ID))
        db.close()


def fill_database(config, recording, lines, market):
    """Migrate and people the database, and let paper mode play its past: Stage. `lines`: the posts from before the start."""
    models.migrate(models.connect(config))
    began, start = (market.start + recording["transactions"][0]["at"]) * 1000, market.start * 1000
    try:
        with models.database.connection_context():
            models.database.execute_sql("PRAGMA synchronous = OFF")          # who loses power here begins anew anyway
            bots = [_create(config, member, recording["wallets"], began) for member in cast.BOTS]
            for line in lines:
                _publish(bots[line.bot], line, (market.start + line.at) * 1000)
            for made, member in zip(bots, cast.BOTS):
                accounts.set_profile(made.bot, auto_post=member.told_by_observer, now=start)
            for one in cast.TRADERS:
                traders.create_trader(one.name, one.family, start - PAST * 1000, one.start, voice=one.voice, bio=one.bio)
            play_past(config, recording["accounts"], market)
            for one, trader in zip(cast.TRADERS, traders.list_traders()):
                if one.doubt:
                    traders.open_review(trader, one.doubt, start)
            return Stage(tuple(made.publish_key.text for made in bots), accounts.create_key(bots[0].owner, "read", start, "demonstration").text)
    finally:
        models.database.close_all()
        models.leave()


def _create(config, member, wallets, now):
    wallet = None if member.who is None else wallets[member.who]
    return accounts.create_bot(config, member.name, now, wallet, voice=member.voice, bio=member.bio)


def _publish(made, line, now):
    body, sanitized = posts.parse_post(line.fields)
    posts.publish(made.bot.id, body, now, "api", made.publish_key.key.id, sanitized)


# ---- paper mode's past --------------------------------------------------------------------------------------------------
def play_past(config, mint_accounts, market):
    """The last PAST seconds of the market, by the scout's own writes and paper mode's own ticks: traders have a history when the curtain rises."""
    desk = papertrade.Desk(config)
    for at in range(-PAST, 0, int(config.scout_interval_seconds)):
        now = (market.start + at) * 1000
        _discover(market, at, now)
        if at == -PAST:
            tokens = list(models.Token.select())
            scout.store_checks(tokens, [mint_accounts[token.mint] for token in tokens], now)
        mints = scout.list_unpriced(now)
        scout.store_quotes(parse_pairs(_as_received(market.show_pairs(mints, at)))[0], mints, now)
        desk.run_tick(now)


def _discover(market, at, now):
    listed = [row["tokenAddress"] for kind in ("profiles", "boosts") for row in market.show_list(kind, at)]
    scout.store_discoveries(dict.fromkeys(listed, (None, None)), "dexscreener", now)
    pools, _ = parse_pools(_as_received(market.show_pools(at)))
    scout.store_discoveries({mint: (quote.symbol, quote.name) for mint, quote in pools.items()}, "geckoterminal", now)


def _as_received(answer):
    """A provider's answer as its client reads it: numbers exact."""
    return json.loads(json.dumps(answer), parse_float=Decimal)


# ---- while somebody looks -----------------------------------------------------------------------------------------------
def act(server, url, lines, keys, start):
    """Post each line when its time has come, as bots do, until the server (a Popen) ends."""
    for line in lines:
        while (wait := start + line.at - time.time()) > 0:
            if server.poll() is not None:
                return
            time.sleep(min(wait, 0.5))
        problem = _send(url, line, keys[line.bot])
        if problem:
            print(f"a post of {cast.BOTS[line.bot].name} was not taken: {problem}", file=sys.stderr)
    server.wait()


def _send(url, line, key):
    """Why a post was not taken, or None."""
    try:
        answer = requests.post(f"{url}/api/v1/posts", json=line.fields, headers={"Authorization": f"Bearer {key}"}, timeout=10)
        return None if answer.status_code == 201 else answer.text
    except requests.RequestException as error:
        return type(error).__name__
