"""The cost of reading: no public request scans a table, and the same response isn't made twice."""

import itertools
import re

import ground
import pytest
from dearest import Reader
from sampling import sample
from service import address, signature

from models import Arrival, Trade
from storage import database

W, OTHER, M = address("w"), address("other"), address("m")
LARGE = {"post", "trade", "arrival", "trade_mint", "receipt", "sighting", "snapshot", "paper_post"}
STEPS = 100
# Partial indexes of refused or pending transactions: they are scanned completely.
OF_RARE_ROWS = ("sighting_refused", "sighting_pending")


# ---- plans ---------------------------------------------------------------------------------------
@ground.sqlite_only
def test_no_query_scans_a_large_table(service, bot, key, monkeypatch):
    service.make_bot("Ben", OTHER)
    for number in range(4):
        service.observe_trade(W, f"t{number}", slot=number, mint=M)
        said = {"eventId": f"e{number}", "body": "words", "mint": M}
        service.post(said | {"signature": signature(f"t{number}")}, key)
    reader, asked, execute = Reader(service.app), {}, type(database.obj).execute_sql
    by_path = {}
    for one in reader.list_requests({"studio.export_account"}):
        by_path.setdefault(one.path.partition("?")[0], []).append(one)

    def note_and_execute(self, sql, params=None):
        asked.setdefault(sql, params)
        return execute(self, sql, params)

    monkeypatch.setattr(type(database.obj), "execute_sql", note_and_execute)
    for one in itertools.chain(*(sample(same, 20) for same in by_path.values())):
        with reader.ask(one) as answer:
            assert answer.status_code < 500, one
    monkeypatch.undo()
    selects = [sql for sql in asked if sql.lstrip().startswith("SELECT")]
    assert len(selects) > 100
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
    common, uid = address("common"), bot.bot.uid
    filters = [f"wallet={W}", f"mint={M}", f"wallet={W}&mint={common}", f"botId={uid}"]
    filters += [f"wallet={OTHER}&mint={M}", "botId=bot_nobody", f"botId={uid}&mint={common}"]
    costs = {of: [] for of in filters}
    for count in (50, 400):
        service.observe_trades(OTHER, [f"{count}-{n}" for n in range(count)], mint=common)
        for of in filters:
            path = f"/api/v1/trades?{of}&since={since}"
            costs[of].append(count_steps(lambda path=path: service.get(path, key)))
            assert service.get(path, key).json["data"] == []
    for of, (few, many) in costs.items():
        assert many <= few + 5, f"{of}: {few}, {many} hundred steps"


@pytest.mark.parametrize(
    "of", ["", f"&wallet={W}", f"&mint={M}", "&botId=", f"&wallet={W}&mint={M}&botId="]
)
def test_a_poller_gets_each_trade_once_under_any_filter(service, bot, key, of):
    """Even if a rebuild removed the newest trade and its ID is reused."""
    path = "/api/v1/trades?limit=2" + of.replace("botId=", f"botId={bot.bot.uid}")
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
        if not of:
            wanted.append(f"trade_theirs{number}")
    poll()
    for name in ("taken", "again"):
        Trade.delete().where(Trade.uid == "trade_taken").execute()
        service.observe_trade(W, name, slot=950, mint=M)
        wanted.append(f"trade_{name}")
        poll()
    assert got == wanted
    assert Arrival.select().where(Arrival.kind == "trade", Arrival.trade.is_null()).count() == 1


def test_unchanged_documents_return_304(service):
    for path in "/openapi.json /docs /docs/fields /docs/errors".split():
        first = service.get(path)
        again = service.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b""), path
