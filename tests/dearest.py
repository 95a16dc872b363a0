"""Every GET route with the most expensive arguments: the cost of the worst response.

The routes come from the application, so new ones are included; `list_queries` has their parameters.
The caller is the owner of the busiest bot, the operator, and a read key's owner at the same time.
"""

import itertools
import secrets
import time
from typing import NamedTuple
from urllib.parse import urlencode

from service import make_season

from accounts import admin, api_keys
from accounts.keys import hash_secret
from chain.reading.currencies import STABLECOINS
from evidence import document
from models import Bot, Session
from storage import database
from web.api import leaderboard, paging, timeline
from web.api.leaderboard import RECORDS
from web.site import tokens
from web.site.admin import lists

# Words in most posts, and two words that never share a post (bench/_seed.py).
COMMON = "the a took bought for looks here sold"
# Streams never end; the operator's Prometheus requests are counted completely.
LEFT_OUT = {"static", "v1.stream_events", "live.open_stream", "metrics.show_metrics"}
# Below the deepest cursor, this fills a page of every filter.
OLDEST = 2_000
JSON = ()
# A common kind, a rare one, and one that no wallet has.
KINDS = ("buy", "failed", "bridge")
# Address placeholders, one of each.
IDS = {
    "bot": "SELECT uid FROM bot ORDER BY id LIMIT 1",
    "owner": "SELECT o.uid FROM owner o JOIN bot b ON b.owner_id = o.id ORDER BY b.id LIMIT 1",
    "wallet": "SELECT address FROM wallet ORDER BY id LIMIT 1",
    "mint": "SELECT address FROM mint WHERE id = (SELECT mint_id FROM trade_mint GROUP BY mint_id"
    " ORDER BY COUNT(*) DESC LIMIT 1)",
    "post": "SELECT uid FROM post WHERE trade_id IS NOT NULL ORDER BY id DESC LIMIT 1",
    "trade": "SELECT uid FROM trade ORDER BY id LIMIT 1",
    "signature": "SELECT signature FROM post WHERE trade_id IS NOT NULL ORDER BY id DESC LIMIT 1",
    "key": 'SELECT uid FROM "key" ORDER BY id DESC LIMIT 1',
    "trader": "SELECT uid FROM trader ORDER BY id LIMIT 1",
    "hook": "SELECT uid FROM hook ORDER BY id LIMIT 1",
    "report": "SELECT uid FROM report ORDER BY id LIMIT 1",
    "backtest": "SELECT uid FROM backtest ORDER BY id LIMIT 1",
    "log": "SELECT uid FROM log ORDER BY id LIMIT 1",
    "season": "SELECT uid FROM season ORDER BY id LIMIT 1",
}


class Asked(NamedTuple):
    """A request."""

    path: str
    headers: tuple[tuple[str, str], ...] = ()


class Reader:
    """A caller with all permissions, for an application with an open database."""

    def __init__(self, app, is_whole=False):
        now = time.time_ns() // 10**6
        self.app, self.client, self.is_whole = app, app.test_client(), is_whole
        make_season()
        self.ids = {name: find_text(sql) for name, sql in IDS.items()}
        owner = Bot.get(Bot.uid == self.ids["bot"]).owner
        self.key = api_keys.create_key(owner, "read", now).text
        name = secrets.token_urlsafe(32)
        Session.create(owner=owner, hash=hash_secret(name), created_at=now, seen_at=now)
        with self.client.session_transaction() as session:
            session["creator"], session.permanent = name, True
        token = admin.use_login(admin.make_login(now), now).token
        self.client.set_cookie("candor_admin", token, path="/admin")
        database.close()

    def ask(self, asked):
        """A response with an unread body."""
        headers = dict(asked.headers)
        if asked.path.startswith("/api/v1"):
            headers["Authorization"] = f"Bearer {self.key}"
        return self.client.get(asked.path, headers=headers)

    def forget(self):
        """As after a commit, cached reads and renderings are dropped."""
        database.execute_sql("UPDATE wallet SET due_at = due_at + 1")
        database.close()

    # ---- what is asked ---------------------------------------------------------------------------
    def list_requests(self, left_out=frozenset()):
        """Every Asked, except those of some endpoints."""
        found = []
        for rule in self.app.url_map.iter_rules():
            if "GET" in rule.methods and rule.endpoint not in LEFT_OUT | left_out:
                for given in self.list_paths(rule):
                    path = rule.build(given, append_unknown=False)[1]
                    queries = self.list_queries(rule.endpoint)
                    found += [
                        Asked(path + (f"?{urlencode(query)}" if query else ""), headers)
                        for query, headers in queries
                    ]
        return list(dict.fromkeys(found))

    def list_paths(self, rule):
        """Values of a rule's variables."""
        ids = self.ids
        if "tile" in rule.rule:
            tiles = [("entries", "000"), ("0", "000"), ("1", "000.p/1"), ("0", "001.p/9")]
            return [{"uid": ids["log"], "level": a, "place": b} for a, b in tiles]
        named = next((name for name in IDS if f"/{name}s/" in rule.rule), "bot")
        if rule.rule.startswith("/log/"):
            named = "log"
        if rule.endpoint == "embeds.show_embedded":
            named = "post"
        given = {"uid": ids[named], "mint": ids["mint"], "address": ids["wallet"]}
        given |= {"name": "listTrades", "group": "trades", "close_id": "close_1", "source": "none"}
        found = {name: given[name] or "none" for name in rule.arguments}
        return [found]

    def list_queries(self, endpoint):
        """[(query, headers), ...] of an endpoint, the empty one among them."""
        listing = QUERIES.get(endpoint)
        return [({}, JSON), *(listing(self) if listing else ())]

    def combine(self, **choices):
        """Queries with these names: none, each value, every pair, and all names; in full runs,
        every combination.
        """
        if self.is_whole:
            picked = itertools.product(*((None, *values) for values in choices.values()))
            queries = [dict(zip(choices, values, strict=True)) for values in picked]
            return [{name: value for name, value in one.items() if value} for one in queries]
        alone = [[{name: value} for value in values] for name, values in choices.items()]
        two = [
            one | other
            for some, others in itertools.combinations(alone, 2)
            for one, other in itertools.product(some, others)
        ]
        every = {name: values[-1] for name, values in choices.items()}
        return [{}, *itertools.chain(*alone), *two, every]

    def cursor(self, scope, position):
        return paging.write_cursor(scope, position, self.app.secret)

    def deep(self, table):
        """The number of a row with only OLDEST older ones, fewer in a small table."""
        (last,) = database.execute_sql(f"SELECT COALESCE(MAX(id), 0) FROM {table}").fetchone()
        return min(OLDEST, last // 2)

    def deep_trade(self):
        """The position of such a trade."""
        row = database.execute_sql(
            f"SELECT slot, place, id FROM trade ORDER BY slot, place, id LIMIT 1 OFFSET {OLDEST}"
        ).fetchone()
        return tuple(row or (0, 0, 0))


def find_text(sql):
    row = database.execute_sql(sql).fetchone()
    return row[0] if row else None


def as_json(queries):
    return [({"limit": "100", **query}, JSON) for query in queries]


def plain(queries):
    return [(query, JSON) for query in queries]


def list_trades(reader):
    """All filters, separately and together, from the newest and the oldest rows on, and since."""
    found = []
    for query in reader.combine(
        wallet=[reader.ids["wallet"]],
        mint=[reader.ids["mint"]],
        botId=[reader.ids["bot"]],
        kind=KINDS,
    ):
        names = ("wallet", "mint", "botId", "kind", "currency")
        scope = ("trades", *(query.get(name) for name in names))
        old = {"cursor": reader.cursor(scope, reader.deep_trade())}
        new = {"since": reader.cursor(paging.ARRIVALS, (0,))}
        found += as_json([query, {**query, **old}, {**query, **new}])
    return found


def list_feed(reader):
    """All filters, separately and together, from the newest and the oldest rows on, and since."""
    found = []
    for query in reader.combine(
        botId=[reader.ids["bot"]], mint=[reader.ids["mint"]], label=["verified", "not_found"]
    ):
        scope = ("feed", *map(query.get, ("botId", "mint", "label")))
        old = {"cursor": reader.cursor(scope, (reader.deep("post"),))}
        new = {"since": reader.cursor(paging.ARRIVALS, (0,))}
        found += as_json([query, {**query, **old}, {**query, **new}])
    return found


def list_activity(reader):
    mint = reader.ids["mint"]
    old = reader.cursor(("activity", mint), reader.deep_trade())
    return as_json([{"mint": mint}, {"mint": mint, "cursor": old}])


def list_boards(reader):
    boards = reader.combine(
        record=RECORDS,
        sort=leaderboard.SORTS,
        window=tuple(leaderboard.WINDOWS),
        ownership=leaderboard.OWNERSHIPS,
    )
    quoted = [
        {"currency": quote.symbol, "record": record} for quote in STABLECOINS for record in RECORDS
    ]
    return as_json([*boards, *quoted])


def list_searches(reader):
    """Words in most posts, names of most bots, addresses, and words without results."""
    ids = reader.ids
    words = [COMMON, *COMMON.split(), "nothing momentum", "the nowhere", "bench", "coin", "e"]
    return [*words, ids["mint"], ids["wallet"], ids["signature"], "$COIN", "x" * 200, "a " * 99]


def search_api(reader):
    found = []
    for query in list_searches(reader):
        scope = ("search", query.strip())
        old = reader.cursor(scope, (0, reader.deep("post")))
        found += as_json([{"q": query}, {"q": query, "cursor": old}])
    return found


def search_page(reader):
    found = []
    for query in list_searches(reader):
        old = reader.cursor(("search page", query.strip()), (reader.deep("post"),))
        found += plain([{"q": query}, {"q": query, "before": old}])
    return found


def list_front(reader):
    found = []
    for query in reader.combine(
        label=[one for one in timeline.LABELS if one],
        source=[one for one in timeline.SOURCES if one],
        bot=["Bench 0"],
        token=[reader.ids["mint"]],
    ):
        scope = (
            "feed page",
            *(query.get(name, "") for name in ("label", "source", "bot", "token")),
        )
        old = reader.cursor(scope, (reader.deep("post"), reader.deep("paper_post")))
        found += plain([query, {**query, "before": old}])
    return found


def list_feeds(reader):
    found = []
    for query in reader.combine(
        label=[one for one in timeline.LABELS if one],
        source=[one for one in timeline.SOURCES if one],
        mint=[reader.ids["mint"]],
    ):
        scope = ("feeds", *map(query.get, ("label", "source", "mint")))
        old = reader.cursor(scope, (reader.deep("post"), reader.deep("paper_post")))
        found += plain([query, {**query, "before": old}])
    return found


def list_feeds_of_bot(reader):
    old = reader.cursor(("feeds of bots", reader.ids["bot"]), (reader.deep("post"),))
    return plain([{"before": old}])


def list_profile(reader):
    uid, found = reader.ids["bot"], [{"tab": "holdings"}, {"tab": "record"}]
    old = reader.cursor(("posts of", uid), (reader.deep("post"),))
    found += [{"tab": "posts"}, {"tab": "posts", "posts": old}]
    for asked in reader.combine(kind=KINDS, token=[reader.ids["mint"], "COIN0"]):
        given = (asked.get("kind", ""), asked.get("token", ""))
        scope = ("trades of", uid, *given) if asked else ("trades of", uid)
        old = reader.cursor(scope, reader.deep_trade())
        found += [{"tab": "trades", **asked}, {"tab": "trades", **asked, "trades": old}]
    return plain(found)


def list_exports(reader):
    return plain(reader.combine(kind=KINDS, token=[reader.ids["mint"], "COIN0"]))


def list_evidence(reader):
    """The first page, the last full one and none, of receipts and of posts."""
    (bot,) = database.execute_sql(
        "SELECT id FROM bot WHERE uid = ?", (reader.ids["bot"],)
    ).fetchone()
    found = {"posts": f"post WHERE bot_id = {bot}"}
    found["page"] = f"trade WHERE wallet_id = {document.find_wallet(bot, None)}"
    pages = []
    for name, rows in found.items():
        (lines,) = database.execute_sql(f"SELECT COUNT(*) FROM {rows}").fetchone()
        pages += [{name: str(number)} for number in (1, max(2, lines // 1_000), 10**6)]
    return plain([{"wallet": reader.ids["wallet"]}, *pages])


def list_token(reader):
    old = reader.cursor(("activity of", reader.ids["mint"]), reader.deep_trade())
    return plain([{"before": old}])


def list_market(reader):
    return plain(reader.combine(sort=tokens.SORTS, show=tokens.FILTERS, page=["1", "2", "25"]))


def list_admin(name):
    def listing(reader):
        given = {one: [reader.ids.get(one) or "none"] for one in lists.LISTINGS[name].filters}
        found = []
        for query in reader.combine(**given):
            scope = ("admin", name, *(f"{one}={text}" for one, text in query.items()))
            old = reader.cursor(scope, (150,))
            found += [query, {**query, "before": old}]
        return plain(found)

    return listing


QUERIES = {
    "v1.list_trades": list_trades,
    "v1.list_posts": list_feed,
    "v1.list_activity": list_activity,
    "v1.get_leaderboard": list_boards,
    "v1.search": search_api,
    "v1.list_bots": lambda reader: as_json([{}, {"cursor": reader.cursor(("bots",), (150,))}]),
    "v1.list_market": lambda reader: as_json([{}]),
    "legacy.list_paper_posts": lambda reader: as_json([{}]),
    "legacy.list_trader_closes": lambda reader: as_json([{}]),
    "legacy.list_trader_diary": lambda reader: as_json([{}]),
    "legacy.list_trader_posts": lambda reader: as_json([{}]),
    "front.show_feed": list_front,
    "board.show_leaderboard": list_boards,
    "profiles.show_profile": list_profile,
    "search.show_search": search_page,
    "feeds.show_json": list_feeds,
    "feeds.show_atom": list_feeds,
    "feeds.show_json_of_bot": list_feeds_of_bot,
    "feeds.show_atom_of_bot": list_feeds_of_bot,
    "exports.show_trades": list_exports,
    "exports.show_lots": list_exports,
    "evidence.show_evidence": list_evidence,
    "evidence.show_index": lambda reader: plain([{"after": reader.ids["bot"]}]),
    "tokens.show_token": list_token,
    "tokens.show_market": list_market,
    "guides.show_skill": lambda reader: plain([{"bot": reader.ids["bot"]}]),
    "admin.find_one": lambda reader: plain([{"q": one or "none"} for one in reader.ids.values()]),
    **{f"admin.list_{name}": list_admin(name) for name in lists.LISTINGS},
}
