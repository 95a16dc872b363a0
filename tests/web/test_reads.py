"""The cost of reading: no public request scans a table, and the same response isn't made twice."""

import itertools
import re
import time

import ground
import orjson
import pytest
from service import NOW, address, signature

import models
from accounts import admin
from chain.stored.trades import number_mints
from models import Arrival, Trade
from storage import database
from web.api import openapi
from web.site.admin import lists

W, OTHER, M = address("w"), address("other"), address("m")
LARGE = {"post", "trade", "arrival", "trade_mint", "receipt", "sighting", "snapshot", "paper_post"}
STEPS = 100
# /metrics counts everything, but only the operator's Prometheus requests it.
OPERATORS = {"metrics.show_metrics"}
# Partial indexes of refused or pending transactions: they are scanned completely.
OF_RARE_ROWS = ("sighting_refused", "sighting_pending")


# ---- plans ---------------------------------------------------------------------------------------
def list_questions(service, bot, key):
    """Every GET of the application, lists with each combination of filters and starting points."""
    given = {"uid": bot.bot.uid, "mint": M, "number": "1", "filename": "candor.css"}
    paths = []
    for rule in service.app.url_map.iter_rules():
        if "GET" in rule.methods and rule.endpoint not in {
            "static",
            "v1.stream_events",
            *OPERATORS,
        }:
            values = {name: given.get(name, "1") for name in rule.arguments}
            paths.append(rule.build(values, append_unknown=False)[1])
    filters = [
        [f"{name}={value}" for name, value in picked]
        for count in range(4)
        for picked in itertools.combinations(
            (("wallet", W), ("mint", M), ("botId", bot.bot.uid)), count
        )
    ]
    trades = ["/api/v1/trades?limit=2" + "".join(f"&{one}" for one in some) for some in filters]
    for first in [
        *trades,
        "/api/v1/feed?limit=1",
        f"/api/v1/feed?limit=1&botId={bot.bot.uid}",
        f"/api/v1/feed?limit=1&botId={bot.bot.uid}&mint={M}&label=verified",
        f"/api/v1/activity?mint={M}&limit=1",
        "/api/v1/search?q=words&limit=1",
        f"/api/v1/search?q={M}&limit=1",
        f"/api/v1/search?q={signature('t1')}&limit=1",
        "/api/v1/bots?limit=1",
    ]:
        told = service.get(first, key).json
        paths += [first] + [
            f"{first}&{name}={told[at]}"
            for name, at in (("cursor", "nextCursor"), ("since", "newestCursor"))
            if told.get(at)
        ]
    ((owner,),) = database.execute_sql("SELECT uid FROM owner LIMIT 1").fetchall()
    paths += [
        f"/admin/{name}?{one}={uid}"
        for name, listing in lists.LISTINGS.items()
        for one, uid in (("owner", owner), ("bot", bot.bot.uid))
        if one in listing.filters
    ]
    # Without a sign-in, an operator page reads nothing.
    made = admin.use_login(admin.make_login(time.time_ns() // 10**6), time.time_ns() // 10**6)
    service.client.set_cookie("candor_admin", made.token, path="/admin")
    paths += [
        f"/api/v1/leaderboard?sort={sort}&window={window}"
        for sort in ("pnl", "volume")
        for window in ("24h", "30d", "all")
    ]
    return paths + [
        f"{page}?source={source}{more}"
        for page in ("/", "/feed.json", "/feed.atom")
        for source in ("", "bot", "observer", "paper")
        for more in ("", f"&mint={M}")
    ]


@ground.sqlite_only
def test_no_query_scans_a_large_table(service, bot, key, monkeypatch):
    service.make_bot("Ben", OTHER)
    for number in range(4):
        service.observe_trade(W, f"t{number}", slot=number, mint=M)
        service.post(
            {
                "eventId": f"e{number}",
                "body": "words",
                "mint": M,
                "signature": signature(f"t{number}"),
            },
            key,
        )
    asked, execute = {}, type(database.obj).execute_sql

    def note_and_execute(self, sql, params=None):
        asked.setdefault(sql, params)
        return execute(self, sql, params)

    monkeypatch.setattr(type(database.obj), "execute_sql", note_and_execute)
    for path in list_questions(service, bot, key):
        with service.get(path, key) as answer:
            # 422: an invented wallet address from the list of routes.
            assert answer.status_code in (200, 302, 303, 400, 401, 403, 404, 422), path
    monkeypatch.undo()
    plans = {
        sql: [
            row[3] for row in database.execute_sql("EXPLAIN QUERY PLAN " + sql, params).fetchall()
        ]
        for sql, params in asked.items()
        if sql.lstrip().startswith("SELECT")
    }
    assert len(plans) > 40
    for sql, plan in plans.items():
        aliases = {
            alias: table
            for table, alias in re.findall(r'(?:FROM|JOIN) "?(\w+)"?(?: AS)? "?(\w+)"?', sql)
        }
        steps = [step.split() for step in plan if not step.endswith(OF_RARE_ROWS)]
        tables = {
            aliases.get(step[1], step[1]): step[0]
            for step in steps
            if step[0] in ("SCAN", "SEARCH")
        }
        assert not [name for name in LARGE if tables.get(name) == "SCAN"], f"{plan} in {sql}"
        assert not (LARGE - {"sighting"}) & {*tables} or not [
            step for step in plan if "TEMP B-TREE FOR ORDER BY" in step
        ], f"{plan} in {sql}"


# ---- since ---------------------------------------------------------------------------------------
def seed(wallet, first, count):
    """This many transfers of `wallet`, each with its arrival."""
    common = address("common")
    numbers = (
        f"WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i <"
        f" {first + count - 1}) "
    )
    database.execute_sql(
        numbers
        + f"""
        INSERT INTO trade (id, uid, wallet_id, signature, slot, place, block_time, kind,
            token_changes, sol_change, fee, tip,
                           rent, realized, matched_raw, unmatched_raw, lots, flags, digest,
                           beside_sol, beside_tokens, counterparties, cost_left, currency,
                           paid_elsewhere)
        SELECT i, 'trade_' || i, {wallet}, 's' || i, i, 0, {NOW // 1000}, 'transfer', '[]', 0, 0,
            0, 0, 'not_applicable', '0',
               '0', '[]', '[]', '', 0, '[]', '[]', 0, '', 0 FROM n"""
    )
    database.execute_sql(
        numbers + "INSERT INTO trade_mint (trade_id, wallet_id, mint_id, slot, place) "
        f"SELECT i, {wallet}, {number_mints({common})[common]}, i, 0 FROM n"
    )
    database.execute_sql(numbers + "INSERT INTO arrival (kind, trade_id) SELECT 'trade', i FROM n")


def count_steps(ask):
    """Hundreds of steps that SQLite's virtual machine takes for the requests in `ask`."""
    steps, connection = itertools.count(), database.connection()
    connection.set_progress_handler(lambda: next(steps) and False, STEPS)
    try:
        ask()
    finally:
        connection.set_progress_handler(None)
    return next(steps)


# Columns that distinguish a copy (`n` above the first row) from its row.
COPIED = {
    "bot": {"id": "n", "uid": "'bot_' || n", "handle": "'handle' || n"},
    "wallet": {"id": "n", "address": "'address' || n"},
    "attachment": {"id": "n", "bot_id": "n", "wallet_id": "n"},
}


@ground.sqlite_only
def test_health_reads_only_the_wallets_it_names(service, bot):
    """Except for their owners: each is read once, in ten steps, for the quota."""
    costs = []
    for first, last in ((2, 60), (61, 3_000)):
        for table, changes in COPIED.items():
            columns = [row[1] for row in database.execute_sql(f"PRAGMA table_info({table})")]
            chosen = ", ".join(changes.get(name, f'"{name}"') for name in columns)
            database.execute_sql(
                f"WITH RECURSIVE c(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c"
                f" WHERE n < {last}) INSERT INTO {table} SELECT {chosen} FROM {table}, c"
                f" WHERE id = 1"
            )
        costs.append(count_steps(lambda: service.get("/api/health")))
        told = service.get("/api/health").json["walletObserver"]
        assert (told["wallets"], len(told["byWallet"])) == (last, 50)
    assert costs[1] <= costs[0] + 2_940 * 12 / STEPS, f"{costs} hundred steps"


@ground.sqlite_only
@pytest.mark.parametrize(
    "of",
    [
        f"wallet={W}",
        f"mint={M}",
        f"wallet={W}&mint={address('common')}",
        "botId=BOT",
        f"wallet={OTHER}&mint={M}",
        "botId=bot_nobody",
        f"botId=BOT&mint={address('common')}",
    ],
)
def test_since_costs_the_same_however_much_arrived(service, bot, key, of):
    """A request for everything after the first trade, with filters that match none of the many
    later ones.
    """
    service.make_bot("Ben", OTHER)
    service.observe_trade(W, "first", slot=1, mint=M)
    newest = service.get("/api/v1/trades?limit=1", key).json["newestCursor"]
    other, path = (
        models.Wallet.get(models.Wallet.address == OTHER).id,
        f"/api/v1/trades?{of.replace('BOT', bot.bot.uid)}&since={newest}",
    )
    costs = []
    for first, count in ((10, 300), (1_000, 20_000)):
        seed(other, first, count)
        costs.append(count_steps(lambda: service.get(path, key)))
        assert service.get(path, key).json["data"] == []
    assert costs[1] <= costs[0] + 5, f"{costs} hundred steps"


@pytest.mark.parametrize(
    "of",
    [
        "",
        f"&wallet={W}",
        f"&mint={M}",
        f"&wallet={W}&mint={M}",
        "&botId=BOT",
        "&botId=BOT&mint=" + M,
    ],
)
def test_a_poller_gets_each_trade_once_under_any_filter(service, bot, key, of):
    """Even if a rebuild removed the newest trade and its ID is reused."""
    service.make_bot("Ben", OTHER)
    service.observe_trade(W, "before", slot=900, mint=M)
    since = service.get(f"/api/v1/trades?limit=1{of.replace('BOT', bot.bot.uid)}", key).json[
        "newestCursor"
    ]
    wanted, got = [], []

    def poll():
        nonlocal since
        for _ in range(10):
            page = service.get(
                f"/api/v1/trades?limit=2&since={since}{of.replace('BOT', bot.bot.uid)}", key
            ).json
            got.extend(row["id"] for row in page["data"])
            since = page["newestCursor"]
            if not page["data"]:
                return

    for number in range(5):
        service.observe_trade(W, f"mine{number}", slot=800 - number, mint=M)
        service.observe_trade(OTHER, f"theirs{number}", slot=800 + number, mint=address("common"))
        wanted += [f"trade_mine{number}"] + ([f"trade_theirs{number}"] if not of else [])
    poll()
    for wallet, name in ((W, "taken"), (W, "again")):
        if name == "again":
            Trade.delete().where(Trade.uid == "trade_taken").execute()
        service.observe_trade(wallet, name, slot=950, mint=M)
        wanted.append(f"trade_{name}")
        poll()
    assert got == wanted
    assert Arrival.select().where(Arrival.kind == "trade", Arrival.trade.is_null()).count() == 1


# ---- what is kept --------------------------------------------------------------------------------
def test_an_equivalent_query_is_served_from_the_cache(service, bot, key):
    service.observe_trade(W, "one", slot=1, mint=M)
    wanted = service.get(f"/api/v1/trades?mint={M}&wallet={W}&limit=100", key).json["data"]
    for query in (
        f"wallet={W}&mint={M}&limit=100",
        f"limit=101&mint={M}&wallet={W}",
        f"limit=100&mint={M}&wallet={W}&x=1",
        f"mint={M}&mint={address('common')}&limit=999999&wallet={W}&cachebuster=8",
    ):
        answer = service.get(f"/api/v1/trades?{query}", key)
        assert answer.json["data"] == wanted and answer.json["limit"] == 100, query
    assert len(service.app.list_cache._entries) == 1


def test_a_refused_request_evicts_nothing(service, bot, key):
    assert service.get("/api/v1/feed", key).status_code == 200
    kept = [*service.app.list_cache._entries]
    for number in range(80):
        assert service.get(f"/api/v1/feed?cursor=made-up-{number}", key).status_code == 400
        assert service.get(f"/api/v1/bots/bot_{number}", key).status_code == 404
    assert [*service.app.list_cache._entries] == kept


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/docs", "/docs/fields", "/docs/errors", "/llms.txt", "/skill.md"]
)
def test_unchanged_documents_return_304(service, path):
    first = service.get(path)
    assert first.headers["ETag"]
    again = service.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_the_document_does_not_depend_on_cookies(service):
    assert "Vary" not in service.get("/openapi.json").headers


def test_the_docs_name_the_newest_items(service):
    path = "/docs/requests/getBot"
    assert "BOT_ID" in service.get(path).text
    made = service.make_bot("Ada")
    assert made.bot.uid in service.get(path).text and "BOT_ID" not in service.get(path).text


def test_the_document_is_unchanged(service):
    assert orjson.loads(service.get("/openapi.json").data) == openapi.build_document(
        "http://127.0.0.1:8000"
    )
