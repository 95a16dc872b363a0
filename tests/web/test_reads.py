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
from web.site.admin import lists as lists_of_operators

W, OTHER, M = address("w"), address("other"), address("m")
LARGE = {"post", "trade", "arrival", "trade_mint", "receipt", "sighting", "snapshot", "paper_post"}
STEPS = 100
# /metrics counts everything, but only the operator's Prometheus requests it.
UNASKED = {"static", "v1.stream_events", "metrics.show_metrics"}
# Partial indexes of refused or pending transactions: they are scanned completely.
OF_RARE_ROWS = ("sighting_refused", "sighting_pending")


# ---- plans ---------------------------------------------------------------------------------------
def list_questions(service, bot, key):
    """Every GET of the application, lists with each combination of filters and starting points."""
    given = {"uid": bot.bot.uid, "mint": M, "number": "1", "filename": "candor.css"}
    paths = []
    for rule in service.app.url_map.iter_rules():
        if "GET" in rule.methods and rule.endpoint not in UNASKED:
            values = {name: given.get(name, "1") for name in rule.arguments}
            paths.append(rule.build(values, append_unknown=False)[1])
    uid, trade = bot.bot.uid, signature("t1")
    keyed = ("wallet", W), ("mint", M), ("botId", uid)
    filters = ["".join(f"&{name}={one}" for name, one in some) for some in list_subsets(keyed)]
    lists = [f"trades?limit=2{some}" for some in filters]
    lists += ["feed?limit=1", f"feed?limit=1&botId={uid}", f"activity?mint={M}&limit=1"]
    lists += [f"feed?limit=1&botId={uid}&mint={M}&label=verified", "bots?limit=1"]
    lists += [f"search?q={text}&limit=1" for text in ("words", M, trade)]
    for first in lists:
        told = service.get(f"/api/v1/{first}", key).json
        paths.append(f"/api/v1/{first}")
        for name, at in (("cursor", "nextCursor"), ("since", "newestCursor")):
            if told.get(at):
                paths.append(f"/api/v1/{first}&{name}={told[at]}")
    ((owner,),) = database.execute_sql("SELECT uid FROM owner LIMIT 1").fetchall()
    for (name, listing), (one, of) in itertools.product(
        lists_of_operators.LISTINGS.items(), (("owner", owner), ("bot", uid))
    ):
        if one in listing.filters:
            paths.append(f"/admin/{name}?{one}={of}")
    # Without a sign-in, an operator page reads nothing.
    made = admin.use_login(admin.make_login(time.time_ns() // 10**6), time.time_ns() // 10**6)
    service.client.set_cookie("candor_admin", made.token, path="/admin")
    for sort, window in itertools.product(("pnl", "volume"), ("24h", "30d", "all")):
        paths.append(f"/api/v1/leaderboard?sort={sort}&window={window}")
    sources, more = ("", "bot", "observer", "paper"), ("", f"&mint={M}")
    for page, source, of in itertools.product(("/", "/feed.json", "/feed.atom"), sources, more):
        paths.append(f"{page}?source={source}{of}")
    return paths


def list_subsets(given):
    return [some for n in range(len(given) + 1) for some in itertools.combinations(given, n)]


@ground.sqlite_only
def test_no_query_scans_a_large_table(service, bot, key, monkeypatch):
    service.make_bot("Ben", OTHER)
    for number in range(4):
        service.observe_trade(W, f"t{number}", slot=number, mint=M)
        said = {"eventId": f"e{number}", "body": "words", "mint": M}
        service.post(said | {"signature": signature(f"t{number}")}, key)
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
    selects = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(selects) > 40
    for sql in selects:
        rows = database.execute_sql("EXPLAIN QUERY PLAN " + sql, asked[sql]).fetchall()
        plan = [row[3] for row in rows]
        read = re.findall(r'(?:FROM|JOIN) "?(\w+)"?(?: AS)? "?(\w+)"?', sql)
        aliases = {alias: table for table, alias in read}
        steps = [step.split() for step in plan if not step.endswith(OF_RARE_ROWS)]
        steps = [step for step in steps if step[0] in ("SCAN", "SEARCH")]
        tables = {aliases.get(step[1], step[1]): step[0] for step in steps}
        assert not [name for name in LARGE if tables.get(name) == "SCAN"], f"{plan} in {sql}"
        if (LARGE - {"sighting"}) & {*tables}:
            assert not any("TEMP B-TREE FOR ORDER BY" in step for step in plan), f"{plan} in {sql}"


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
def test_since_costs_the_same_however_much_arrived(service, bot, key):
    """A request for everything after the first trade, with filters that match none of the many
    later ones.
    """
    service.make_bot("Ben", OTHER)
    service.observe_trade(W, "first", slot=1, mint=M)
    since = service.get("/api/v1/trades?limit=1", key).json["newestCursor"]
    number, common, uid = (
        models.Wallet.get(models.Wallet.address == OTHER).id,
        address("common"),
        bot.bot.uid,
    )
    filters = [f"wallet={W}", f"mint={M}", f"wallet={W}&mint={common}", f"botId={uid}"]
    filters += [f"wallet={OTHER}&mint={M}", "botId=bot_nobody", f"botId={uid}&mint={common}"]
    costs = {of: [] for of in filters}
    for first, count in ((10, 300), (1_000, 20_000)):
        seed(number, first, count)
        for of in filters:
            path = f"/api/v1/trades?{of}&since={since}"
            costs[of].append(count_steps(lambda path=path: service.get(path, key)))
            assert service.get(path, key).json["data"] == []
    for of, (few, many) in costs.items():
        assert many <= few + 5, f"{of}: {few}, {many} hundred steps"


@pytest.mark.parametrize("of", ["", f"&wallet={W}", f"&mint={M}", f"&wallet={W}&mint={M}"])
@pytest.mark.parametrize("by_bot", [False, True])
def test_a_poller_gets_each_trade_once_under_any_filter(service, bot, key, of, by_bot):
    """Even if a rebuild removed the newest trade and its ID is reused."""
    path = "/api/v1/trades?limit=2" + of + (f"&botId={bot.bot.uid}" if by_bot else "")
    service.make_bot("Ben", OTHER)
    service.observe_trade(W, "before", slot=900, mint=M)
    since, wanted, got = service.get(path, key).json["newestCursor"], [], []

    def poll():
        nonlocal since
        for _ in range(10):
            page = service.get(f"{path}&since={since}", key).json
            got.extend(row["id"] for row in page["data"])
            since = page["newestCursor"]
            if not page["data"]:
                return

    for number in range(5):
        service.observe_trade(W, f"mine{number}", slot=800 - number, mint=M)
        service.observe_trade(OTHER, f"theirs{number}", slot=800 + number, mint=address("common"))
        wanted.append(f"trade_mine{number}")
        if not of and not by_bot:
            wanted.append(f"trade_theirs{number}")
    poll()
    for name in ("taken", "again"):
        Trade.delete().where(Trade.uid == "trade_taken").execute()
        service.observe_trade(W, name, slot=950, mint=M)
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


def test_unchanged_documents_return_304(service):
    for path in "/openapi.json /docs /docs/fields /docs/errors /llms.txt /skill.md".split():
        first = service.get(path)
        again = service.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b""), path


def test_the_docs_name_the_newest_items(service):
    path = "/docs/requests/getBot"
    assert "BOT_ID" in service.get(path).text
    made = service.make_bot("Ada")
    assert made.bot.uid in service.get(path).text and "BOT_ID" not in service.get(path).text


def test_the_document_is_unchanged_and_does_not_depend_on_cookies(service):
    answer = service.get("/openapi.json")
    assert "Vary" not in answer.headers
    assert orjson.loads(answer.data) == openapi.build_document("http://127.0.0.1:8000")
