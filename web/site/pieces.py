"""Pieces of pages: posts, trades and charts, each drawn once for as long as nothing it shows moves,
and the addresses of static files.
"""

import functools
import hashlib
from pathlib import Path

import orjson
from flask import current_app, g, url_for

from chain.amounts import exact
from web.api import market, queries
from web.site import charts, words

STATIC = Path(__file__).resolve().parent.parent.parent / "static"


def asset(name):
    """The address of a file in static/, which changes with its content, so that browsers may keep
    it for ever.
    """
    return url_for("static", filename=name, v=_digest(name))


@functools.cache
def _digest(name):
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


def find_pieces():
    """The macros of templates/macros.html as functions."""
    return current_app.jinja_env.get_template("macros.html").module


def draw_post(stored, said_at, heading):
    """HTML of a post. `stored`: JSON of [post, symbols]; `said_at`: how its age is said now, which
    is all that moves by itself.
    """
    return find_pieces().post(*orjson.loads(stored), heading)


def draw_trade(stored, said_at):
    """HTML of a trade. `stored`: JSON of [trade, lots, symbols]."""
    return find_pieces().trade(*orjson.loads(stored))


def draw_chart(address, results):
    """HTML of a wallet's curve and its table; it moves with the wallet's `results`."""
    stretches = charts.book_stretches(queries.list_days(address))
    return find_pieces().chart(stretches, charts.draw_curve(stretches)) if stretches else ""


def draw_posts(posts, heading="h2"):
    symbols = find_symbols(posts)
    return [
        current_app.draw_post(
            orjson.dumps([post, choose(symbols, post["tokenAddresses"])]),
            words.ago(post["createdAt"], g.now),
            heading,
        )
        for post in posts
    ]


def draw_trades(trades):
    """`trades` as dicts."""
    symbols, lots = find_symbols(trades), find_lots(trades)
    return [
        current_app.draw_trade(
            orjson.dumps(
                [
                    trade,
                    lots[trade["id"]],
                    choose(symbols, (change["mint"] for change in trade["tokenChanges"])),
                ]
            ),
            words.ago(trade["eventAt"], g.now) if trade["eventAt"] else None,
        )
        for trade in trades
    ]


def choose(symbols, mints):
    return {mint: symbols[mint] for mint in mints if mint in symbols}


def find_symbols(shown):
    """{mint: symbol} of all tokens these posts, trades or positions name."""
    mints = {
        mint
        for one in shown
        for mint in (
            one.get("mint"),
            *one.get("tokenAddresses", ()),
            *(c["mint"] for c in one.get("tokenChanges", ())),
        )
        if mint
    }
    return market.find_symbols(sorted(mints))


def find_lots(trades):
    """{trade id: [(origin, amount, lamports or None)...]}: what each sale was matched with.
    `origin`: the OriginRow of the purchase as a dict, or None.
    """
    origins = queries.find_origins(
        sorted(
            {
                lot["tradeId"]
                for trade in trades
                for lot in trade["realized"]["lots"]
                if lot["tradeId"]
            }
        )
    )
    return {
        trade["id"]: [
            (
                origins[lot["tradeId"]]._asdict() if lot["tradeId"] in origins else None,
                exact(int(lot["amountRaw"]), find_decimals(trade)),
                lot["costLamports"],
            )
            for lot in trade["realized"]["lots"]
        ]
        for trade in trades
    }


def find_decimals(trade):
    """Of the token that was sold: the one that fell."""
    return next(
        (
            change["decimals"]
            for change in trade["tokenChanges"]
            if change["changeRaw"].startswith("-")
        ),
        0,
    )
