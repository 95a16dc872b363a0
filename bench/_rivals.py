"""Alternatives that a user might choose, each with the same page of posts and none of the checks.
`python -m bench speed` starts them.

`flask_ok` is a baseline, not an alternative: the framework's shortest response under the same
server settings. DATABASE is the path of the SQLite file.
"""

import os
import sqlite3
import threading

FEED = """
SELECT p.uid AS id, b.uid AS botId, b.name AS botName, p.event_id AS eventId, p.body, p.mint,
       COALESCE(p.symbol, s.symbol) AS symbol, p.signature, p.reason, p.source, p.status,
       t.uid AS tradeId, p.checked_at AS checkedAt, p.status_reason AS statusReason,
       p.event_at AS eventAt, p.created_at AS createdAt, p.channel, k.uid AS keyId,
       w.address AS wallet, p.sanitized, p.hidden_at AS hiddenAt, t.token_changes AS tokenChanges
FROM post p JOIN bot b ON b.id = p.bot_id LEFT JOIN "key" k ON k.id = p.key_id
LEFT JOIN wallet w ON w.id = p.wallet_id LEFT JOIN trade t ON t.id = p.trade_id
LEFT JOIN token s ON s.mint = p.mint ORDER BY p.id DESC LIMIT 100"""
INSERT = (
    "INSERT INTO post (uid, bot_id, source, channel, event_id, body, sanitized, claim, status,"
    " event_at, created_at) VALUES (?, 1, 'bot', 'api', ?, ?, 0, 0, 'none', ?, ?)"
)


def flask_ok():
    from flask import Flask

    app = Flask(__name__)

    @app.get("/ok")
    def ok():
        return "ok"

    return app


def fastapi_feed():
    """Return the rows as flat objects of their columns: less work than our nested Post."""
    import orjson
    from fastapi import FastAPI, Response

    app, local = FastAPI(), threading.local()

    def connect():
        if not hasattr(local, "database"):
            local.database = sqlite3.connect(os.environ["DATABASE"])
            local.database.row_factory = sqlite3.Row
        return local.database

    @app.get("/feed")
    async def feed():
        rows = connect().execute(FEED).fetchall()
        return Response(
            orjson.dumps({"data": [dict(row) for row in rows]}),
            media_type="application/json",
        )

    return app


def insert_posts():
    """A bare Flask that stores one post per request: one connection per thread, synchronous FULL,
    one transaction each.
    """
    import secrets
    import time

    from flask import Flask, request

    app, local = Flask(__name__), threading.local()

    def connect():
        if not hasattr(local, "database"):
            local.database = sqlite3.connect(
                os.environ["DATABASE"], isolation_level=None, timeout=10
            )
            local.database.execute("PRAGMA synchronous=FULL")
        return local.database

    @app.get("/ready")
    def ready():
        return "ready"

    @app.post("/posts")
    def store():
        body, now = request.get_json(), time.time_ns() // 1_000_000
        connect().execute(
            INSERT, (f"post_{secrets.token_hex(12)}", body["eventId"], body["body"], now, now)
        )
        return "stored", 201

    return app
