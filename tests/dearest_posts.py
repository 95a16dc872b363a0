"""Every POST route with the most expensive body, and every agent tool with its most expensive
arguments.

The table in test_matrix.py has each form's fields. A POST missing there, or a tool missing in
TOOLS, raises KeyError here.
"""

import asyncio
import itertools
import re
import shutil
from typing import NamedTuple

import orjson
from dearest import find_text
from test_inbox import FIELDS
from test_matrix import WRITE
from test_mcp import SENT, use

from accounts import api_keys, hooks
from accounts.tables import Hook
from models import Bot
from storage import database
from web.api import mcp, paging

# A body of the maximum length, with a token's address and name in it.
WORDS = "bought COIN0 " * 300
# A transaction of the first bot's wallet.
SOLD = "SELECT signature FROM trade WHERE wallet_id = 1 ORDER BY id LIMIT 1"


class Sent(NamedTuple):
    """A request with a body: bytes, or the fields of a form. `status`: the expected response."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | tuple[tuple[str, str], ...]
    status: int


class Sender:
    """A caller with all permissions, with the ids and the browser of a Reader."""

    def __init__(self, reader, now):
        self.reader, self.app, self.client = reader, reader.app, reader.client
        bot = Bot.get(Bot.uid == reader.ids["bot"])
        made = api_keys.create_key(bot.owner, "publish", now, bot=bot)
        hook = hooks.add_hook(self.app.settings, bot.owner, "https://x.example/in", now)
        Hook.update(ping=False).execute()
        self.publish = made.text
        self.ids = {**reader.ids, "key": made.key.uid, "hook": hook.uid, "source": "0" * 12}
        self.inbox = api_keys.create_key(bot.owner, "inbox", now, bot=bot).text
        self.sold = find_text(SOLD)
        database.close()
        page = self.client.get("/connect").text
        self.token = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
        cookies = ("session", "/"), ("candor_admin", "/admin")
        self.cookies = {
            name: (self.client.get_cookie(name, path=path).value, path) for name, path in cookies
        }
        database.close()

    # ---- what is sent ----------------------------------------------------------------------------
    def list_sent(self, left_out=frozenset()):
        """Every Sent, except those of some endpoints."""
        rules = [rule for rule in self.app.url_map.iter_rules() if "POST" in rule.methods]
        # Registering is off here (SELF_REGISTRATION).
        asked = [one for one in rules if not one.endpoint.startswith("registration.")]
        found = [self.make_sent(rule) for rule in asked if rule.endpoint not in left_out]
        return list(itertools.chain.from_iterable(found))

    def make_sent(self, rule):
        if rule.endpoint == "v1.publish_post":
            body = orjson.dumps({"eventId": "dearest", **self.make_post()})
            return [Sent(rule.rule, self.write_headers(self.publish), body, 201)]
        if rule.endpoint == "v1.join_season":
            path = rule.rule.replace("<uid>", self.ids["season"])
            return [Sent(path, self.write_headers(self.publish), b"", 201)]
        if rule.endpoint == "inbox.take_message":
            path = rule.rule.replace("<key>", self.inbox)
            return [Sent(path, self.write_headers(None), orjson.dumps(FIELDS), 204)]
        if rule.endpoint == "mcp.answer_agent":
            return self.list_tools()
        named = re.sub(r"<(\w+:)?(\w+)>", "{}", rule.rule)
        path, (typed, statuses) = next(
            (path, told) for path, told in WRITE.items() if re.sub(r"{\w+}", "{}", path) == named
        )
        fields = {name: text.format(**self.ids) for name, text in typed.items()}
        fields["csrf_token"] = self.token
        # The caller is also the operator.
        status = 302 if statuses["its creator"] == 403 else statuses["its creator"]
        return [Sent(path.format(**self.ids), (), tuple(fields.items()), status)]

    def make_post(self):
        ids = self.ids
        return {"body": WORDS, "mint": ids["mint"], "signature": self.sold}

    def list_tools(self):
        """One request for each set of arguments of each tool."""
        server = mcp.find_server(self.app.settings.base_url)
        tools = [tool.name for tool in asyncio.run(server.list_tools())]
        headers = (*self.write_headers(self.publish), *SENT.items())
        return [
            Sent("/mcp", headers, orjson.dumps(use(tool, **arguments)), 200)
            for tool in tools
            for arguments in TOOLS[tool](self)
        ]

    def write_headers(self, key):
        given = (("Content-Type", "application/json"),)
        return (*given, ("Authorization", f"Bearer {key}")) if key else given

    # ---- sending ---------------------------------------------------------------------------------
    def send(self, sent):
        """Send it. Return the response, after checking that the request took effect."""
        for name, (value, path) in self.cookies.items():
            self.client.set_cookie(name, value, path=path)
        body = sent.body if isinstance(sent.body, bytes) else dict(sent.body)
        response = self.client.post(sent.path, data=body, headers=dict(sent.headers))
        assert response.status_code == sent.status, sent
        assert b'"isError":true' not in response.data, sent
        return response


def list_trades(sender):
    ids = sender.ids
    alone = [{"botId": ids["bot"]}, {"wallet": ids["wallet"]}, {"mint": ids["mint"]}]
    every = {**alone[0], **alone[1], **alone[2], "kind": "bridge"}
    since = sender.reader.cursor(paging.ARRIVALS, (0,))
    return [{**one, "limit": 100} for one in (*alone, every, {"kind": "failed"}, {"since": since})]


def list_boards(sender):
    sorts = ("pnl", "pnl_floor", "volume", "trades")
    boards = [{"sort": sort, "window": window} for sort in sorts for window in ("all", "7d")]
    return [{**one, "limit": 100} for one in (*boards, {"currency": "USDC"})]


TOOLS = {
    "list_bots": lambda sender: [{"limit": 100}],
    "show_bot": lambda sender: [{"botId": sender.ids["bot"]}],
    "read_feed": lambda sender: [
        {"limit": 100},
        {"limit": 100, "since": sender.reader.cursor(paging.ARRIVALS, (0,))},
    ],
    "show_post": lambda sender: [{"postId": sender.ids["post"]}],
    "list_trades": list_trades,
    "show_activity": lambda sender: [{"mint": sender.ids["mint"], "limit": 100}],
    "show_leaderboard": list_boards,
    "show_market": lambda sender: [{"limit": 100}],
    "show_allowance": lambda sender: [{}],
    "publish_post": lambda sender: [{"eventId": "told", **sender.make_post()}],
    # These are off here, like the routes.
    **dict.fromkeys(("request_challenge", "register_bot"), lambda sender: []),
}


class Undoing:
    """Restores the current database after each request."""

    def __init__(self, app):
        self.file = app.settings.data_dir / "app.db"
        self.copy = self.file.with_suffix(".before")
        database.close_all()
        shutil.copy(self.file, self.copy)

    def undo(self):
        database.close_all()
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
        shutil.copy(self.copy, self.file)
