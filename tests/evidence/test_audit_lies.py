"""An operator edits the tables behind the pages: the audit reports each lie by its field.

docs/check.md lists the same lies, and those that audits can't see.
"""

import functools
import re
import sqlite3
from pathlib import Path

import ground
import pytest
import sampling
from auditing import ask_service, edit, find_first, make_auditor
from lookout import BEGIN, Lookout
from node import FakeNode
from peewee import AutoField
from story import ADA, address, market

from accounts import posts, seasons
from evidence import seasons as frozen
from evidence.document import DigestLog
from models import Attachment, Bot, Post, Trade, Wallet
from operate import schema
from storage import database

# Each test starts with a copy of one file.
pytestmark = ground.sqlite_only
EVE = address("eve")
CUP = {"name": "Winter Cup", "wallets": "all", "min_trades": "1"}
CUP |= {"starts_at": "2026-11-05T12:00Z", "ends_at": "2026-11-05T13:00Z"}
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


@functools.cache
def make_story():
    """Random transactions of ada and eve, the same every time."""
    return market(seed=3, people=("ada", "eve"), length=40)


def fill(settings):
    """An instance that observed both and logged its claims; ada's bot posts about trades."""
    lookout = Lookout.begin(settings, FakeNode(make_story()), wallets=[ADA, EVE])
    season = seasons.create_season(CUP, "me", BEGIN)
    seasons.join(season.uid, find_first(), BEGIN)
    lookout.clock.sleep(3600)
    lookout.settle()
    Wallet.update(observed_to=lookout.now // 1000).execute()
    for passed in (0, frozen.SETTLE_MS):
        frozen.run_tick(settings, lookout.now + passed)
    mine = Trade.wallet == lookout.wallets[0]
    for trade in list(Trade.select().where(mine, Trade.kind == "sell")):
        for number in range(2):
            publish(lookout.now, f"{trade.id} {number}", trade.signature)
    publish(lookout.now, "unsigned")
    publish(lookout.now, "transfer", Trade.get(mine, Trade.kind == "transfer_in").signature)
    lookout.look(2)
    DigestLog().run_tick(lookout.now)
    assert {post.status for post in Post.select()} == {"verified", "mismatch", "none"}


def publish(now, event, signature=None):
    body = posts.PostBody(eventId=event, body="Words", signature=signature)
    posts.publish(find_first().id, body, now, "api")


@pytest.fixture
def told(serve):
    return serve(fill, evidence_per_minute=10**6)


def iterate_reports(service):
    """Yield the reports on all bots, like `app.py audit --all`."""
    auditor = make_auditor(ask_service(service), FakeNode(make_story()), reads_log=True)
    bots = list(auditor.instance.list_bots())
    yield from map(auditor.audit, bots)
    yield from auditor.audit_unlisted(bots)


def list_fields(service):
    return {one.field for report in iterate_reports(service) for one in report.differences}


def check_same(service):
    told = [(one.verdict, one.unknown, one.differences) for one in iterate_reports(service)]
    assert told == [("same", [], [])] * 2


RECORD = "open_positions = NULL, forward_realized = NULL"
DERIVED = ("running_total", "risk_total", "token_total")
SUMMARY = "coverage = NULL, results = NULL, positions = NULL"
STANDING, STATUS = "UPDATE standing_total SET", "UPDATE post SET status ="
COVERAGE = "UPDATE wallet SET coverage = json_set(coverage,"
ALL_TIME = "WHERE record = 'all' AND seconds = 0"
# Edits that are made together, by the field that names each of them.
LIES = [
    {
        "bot.logged.words": "UPDATE bot SET name = (SELECT name FROM bot o WHERE o.id <> bot.id)",
        "bot.logged.createdAtMs": "UPDATE bot SET created_at = 1",
        "bot.logged.retiredAtMs": "UPDATE bot SET retired_at = created_at + 1",
        "bot.logged.owner": "UPDATE bot SET owner_id = (SELECT MAX(id) FROM owner) WHERE id = 1",
        "held.{wallet}": "UPDATE attachment SET attached_at = attached_at + 3600000",
        "past.sinceMs": "UPDATE wallet SET bot_since = 1",
        "imbalance": "UPDATE wallet SET imbalance = imbalance + 1",
        "byStablecoin.x": "UPDATE wallet SET by_stablecoin = '{{\"x\": 1}}'",
        "spans.1.forwardRealized": "UPDATE attachment SET forward_realized = 1",
        "posts.{post}.delaySeconds": "UPDATE post SET delay = 1 WHERE delay IS NOT NULL",
        "pace.withinMinute": "UPDATE delay_total SET within_minute = within_minute + 1",
        "log": "DELETE FROM logged_wallet",
    },
    {
        "bot.logged.words": "UPDATE bot SET handle = handle || 'x'",
        "held.{wallet}": "UPDATE attachment SET ownership = 'proven'",
        "past.botId": "UPDATE wallet SET bot_id = 3 - bot_id",
        "positions": "UPDATE wallet SET positions = '[]'",
        "riskTotal": "UPDATE risk_total SET best = best + 1 WHERE best > 0",
        "runningTotal": "UPDATE running_total SET drawdown = drawdown + 1",
        "tokenTotal": "UPDATE token_total SET sales = sales + 1",
        "tradeMint": "DELETE FROM trade_mint WHERE id = (SELECT MAX(id) FROM trade_mint)",
        "receipt": "UPDATE receipt SET digest = 'x'",
        "posts.{second}.isClaim": "UPDATE post SET claim = TRUE",
        "posts.{post}.logged.words": "UPDATE post SET symbol = 'BONK'",
        "log": "UPDATE logged_wallet SET leaf_id = 0",
    },
    {
        "bot.logged.words": "UPDATE bot SET voice = '{{}}'",
        "standings.forward/SOL/0.realized": f"{STANDING} realized = realized + 1 WHERE seconds = 0",
        "standings.all/SOL/2592000.volume": f"{STANDING} volume = volume + 1 WHERE seconds > 0",
        "standings.forward/SOL/0.resultTier": f"{STANDING} result_tier = 8",
        "tradeMint": "UPDATE trade_mint SET mint_id = 1",
        "place": "UPDATE trade SET place = place + 1",
        "paidElsewhere": "UPDATE trade SET paid_elsewhere = 1",
        "posts.{post}.logged.hiddenAtMs": "UPDATE post SET hidden_at = 1",
    },
    {
        "standings.forward/SOL/0": "DELETE FROM standing_total WHERE bot_id = 1",
        "tradeMint": "UPDATE trade_mint SET wallet_id = 3 - wallet_id",
        "posts.{post}": "DELETE FROM post WHERE id = 1",
    },
    {
        f"standings.all/{USDC}/0": f"{STANDING} money = '{USDC}' {ALL_TIME}",
        "tradeMint": "UPDATE trade_mint SET place = place + 1",
        "posts.{post}.logged.logIndex": "UPDATE post SET leaf_id = NULL",
        "posts.{post}.status": f"{STATUS} 'mismatch', status_reason = 'failed' WHERE id = 1",
        "posts.{unsigned}.status": f"{STATUS} 'verified' WHERE event_id = 'unsigned'",
        "posts.{transfer}.status": f"{STATUS} 'verified' WHERE event_id = 'transfer'",
        "coverage.receipts": f"{COVERAGE} '$.receipts', 7)",
        # A history with gaps is not complete.
        "coverage.state": f"{COVERAGE} '$.gaps', json('[{{{{\"fromSlot\": 1, \"toSlot\": 2}}}}]'))",
    },
    {"log": "UPDATE log SET uid = 'log_0'"},
]


@pytest.mark.parametrize("lies", LIES)
def test_each_lie_is_named_by_its_field(told, lies):
    first, second, *_, unsigned, transfer = (post.uid for post in Post.select().order_by(Post.id))
    names = {"post": first, "second": second, "unsigned": unsigned, "transfer": transfer}
    names["wallet"] = ADA
    database.execute_sql("DELETE FROM arrival")
    for sql in lies.values():
        edit(sql.format(**names))
    assert {field.format(**names) for field in lies} <= list_fields(told)


@pytest.mark.parametrize(("views", "summary"), [("view <> 0", ""), ("TRUE", SUMMARY)])
def test_withdrawn_numbers_are_named(told, views, summary):
    """A record alone, or everything that was published about a wallet."""
    edit(f"UPDATE attachment SET {RECORD}")
    for name in DERIVED:
        edit(f"DELETE FROM {name} WHERE {views}")
    if summary:
        edit(f"UPDATE wallet SET {summary}")
    assert "published" in list_fields(told)


def test_an_unfinished_history_is_noted(told):
    """Only the instance knows the cause, and it keeps a bot off the boards."""
    edit("UPDATE wallet SET coverage = json_set(coverage, '$.state', 'partial')")
    report = next(iterate_reports(told))
    assert report.notes == [f"{ADA}: its history is 'partial'"]


def test_a_completely_deleted_bot_is_named(told):
    """Only the log's leaves are left of eve."""
    eve = Bot.get(Bot.id == 2)
    wallet = Attachment.get(Attachment.bot == eve).wallet_id
    database.execute_sql("PRAGMA foreign_keys = 0")
    database.execute_sql("DELETE FROM standing_total WHERE bot_id = 2")
    for table in ("attachment", "trade", "sighting", "address", "logged_wallet", *DERIVED):
        database.execute_sql(f"DELETE FROM {table} WHERE wallet_id = {wallet}")
    edit(f"DELETE FROM wallet WHERE id = {wallet}")
    edit("DELETE FROM bot WHERE id = 2")
    database.execute_sql("PRAGMA foreign_keys = 1")
    (found,) = [one for one in iterate_reports(told) if one.bot == eve.uid]
    assert [one.field for one in found.differences] == ["log.bot"]


# ---- every column --------------------------------------------------------------------------------
CHECK = Path(__file__).resolve().parents[2] / "docs/check.md"
# Columns and whole tables that audits don't see, with the docs/check.md row that says so.
UNSEEN = {
    "token prices and names": "token snapshot",
    "the simulated return of copying a bot": "copy_total copied_trade",
    "paper mode": "trader period paper_order paper_fill position diary_entry paper_post seen_flow"
    " backtest engine_state equity_mark real_fill network_cost",
    "unpublished reviews, bans or reports": "review report ban arrival hook",
    "keys, sign-ins and settings": "key session admin_login admin_session admin_act registration"
    " owner.recovery_hash owner.created_at owner.posts_bytes bot.likeness bot.auto_post"
    " bot.auto_post_since",
    "the key that sent a post": "post.key_id post.sanitized post.hidden_hash",
    "the status page": "season.created_at season.closing_at season.cancelled_at job bot.standing_at"
    " post.checked_at log.opened_at log.key wallet.created_at wallet.polled_at wallet.due_at"
    " wallet.accounts_at wallet.closing_at wallet.repair_at wallet.observed_to wallet.trouble"
    " wallet.trouble_at wallet.trouble_tries wallet.accounts_left_out wallet.history_from"
    " wallet.filled",
    "a changed copy or interpretation of a stored transaction": "receipt.slot receipt.tx_index"
    " receipt.block_time receipt.body receipt.endpoint sighting address trade.digest",
    "observations of other instances' logs": "witnessed",
    "search results": "post_words",
}
UNSEEN_NAMES = {name for names in UNSEEN.values() for name in names.split()}
# The audit can't continue after these, and says so.
STOPS = {"wallet.rules", "log.first_leaf", "log_leaf.id"}
# Each table has rows here or below.
TESTED_ALONE = {"log_node"}


def list_columns():
    """{table: columns except plain row numbers} of all tables that a migration creates."""
    return {
        model._meta.table_name: [
            one for one in model._meta.sorted_fields if not isinstance(one, AutoField)
        ]
        for model in schema.TABLES
    }


def list_seen(table):
    """The columns that an audit compares."""
    names = [one.column_name for one in list_columns()[table]]
    return [one for one in names if UNSEEN_NAMES.isdisjoint((table, f"{table}.{one}"))]


AUDITED = [name for name in list_columns() if name not in TESTED_ALONE and list_seen(name)]


def test_no_table_is_left_out(told):
    """A new table is audited, or gets a row in docs/check.md and here."""
    found = database.execute_sql("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    tables = {re.sub("^post_words_.*", "post_words", name) for (name,) in found}
    tables -= {"schema_migration", "sqlite_sequence", "sqlite_stat1"}
    assert tables == {*list_columns(), "post_words"}
    assert {name.partition(".")[0] for name in UNSEEN_NAMES} <= tables
    # An audited table without rows would test nothing.
    for name in AUDITED:
        assert database.execute_sql(f"SELECT COUNT(*) FROM {name}").fetchone()[0], name
    rows = CHECK.read_text().partition("## What the audit can't detect")[2]
    assert not [reason for reason in UNSEEN if f"\n| {reason}" not in rows]


EDITS = {
    "coverage": "json_set(coverage, '$.receipts', 1)",
    "reason": "'other'",
    "data": """replace(data, '"at":', '"at":1')""",
}


def write_edit(field):
    """SQL for another value of a similar shape."""
    name, last = field.column_name, f"substr({field.column_name}, -1)"
    for parent in ("bot", "wallet", "owner"):
        if name.endswith(f"{parent}_id"):
            return f"(SELECT MAX(id) FROM {parent})"
    if name in EDITS:
        return EDITS[name]
    if field.field_type == "TEXT":
        other = f"CASE {last} WHEN '2' THEN '3' WHEN '1' THEN '4' ELSE '2' END"
        other = f"substr({name}, 1, length({name}) - 1) || {other}"
        return f"CASE WHEN COALESCE({name}, '') = '' THEN '{EVE}' ELSE {other} END"
    return f"NOT {name}" if field.field_type == "BOOL" else f"COALESCE({name}, 0) + 1"


def write(db, table, **edited):
    """Write the saved rows with these columns edited, or unchanged."""
    names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    shown = ", ".join(edited.get(name, name) for name in names)
    db.executescript(f"""BEGIN; DELETE FROM {table};
        INSERT OR IGNORE INTO {table} SELECT {shown} FROM saved_{table}; COMMIT""")


def test_each_edited_column_is_detected(told):
    """Four columns of each table; all of them in full runs. Without an edit, nothing differs."""
    check_same(told)
    db = sqlite3.connect(told.config.database_path, isolation_level=None)
    missed = []
    for table in AUDITED:
        db.execute(f"CREATE TEMP TABLE saved_{table} AS SELECT * FROM {table}")
        fields = {one.column_name: one for one in list_columns()[table]}
        for name in sampling.sample(list_seen(table), 4):
            write(db, table, **{name: write_edit(fields[name])})
            expected = "cannot_tell" if f"{table}.{name}" in STOPS else "different"
            if not any(one.verdict == expected for one in iterate_reports(told)):
                missed.append(f"{table}.{name}")
        write(db, table)
    db.close()
    assert not missed
    check_same(told)
