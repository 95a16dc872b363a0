"""An operator edits the tables that pages are made of: the audit names each lie by its field.

docs/check.md lists the same lies, and those that no audit can see.
"""

import shutil

import ground
import pytest
from auditing import ask_service, make_auditor
from lookout import Lookout
from node import FakeNode
from service import Service
from story import ADA, address, market

from accounts import posts
from evidence import log
from evidence.digests import DigestLog
from models import Attachment, Bot, Post, Trade, Wallet
from storage import database, writing

# Each test begins with a copy of one file.
pytestmark = ground.sqlite_only
EVE = address("eve")


@pytest.fixture(scope="module")
def story():
    """What ada and eve did, drawn by chance and always the same."""
    return market(seed=3, people=("ada", "eve"), length=60)


@pytest.fixture(scope="module")
def template(tmp_path_factory, story):
    """An instance that observed both, and logged what it claims; ada's bot posts about trades."""
    folder = tmp_path_factory.mktemp("template") / "data"
    service = Service(folder)
    lookout = Lookout.begin(service.config, FakeNode(story), wallets=[ADA, EVE]).settle()
    bot, wallet = Bot.get(), Wallet.get(Wallet.address == ADA)
    for trade in list(Trade.select().where(Trade.wallet == wallet, Trade.kind == "sell")):
        for number in range(2):
            body = posts.PostBody(
                eventId=f"{trade.id} {number}", body="Sold", signature=trade.signature
            )
            posts.publish(bot.id, body, lookout.now, "api")
    lookout.look(2)
    DigestLog().run_tick(lookout.now)
    assert {post.status for post in Post.select()} == {"verified"}
    service.close()
    return folder


@pytest.fixture
def told(tmp_path, template):
    shutil.copytree(template, tmp_path / "data")
    service = Service(tmp_path / "data", evidence_per_minute=10**6)
    yield service
    service.close()


def audit_all(service, story):
    """The reports on all bots, as `app.py audit --all` makes them."""
    auditor = make_auditor(ask_service(service), FakeNode(story), reads_log=True)
    reports = [auditor.audit(bot) for bot in auditor.instance.list_bots()]
    return [*reports, *auditor.audit_unlisted(one.bot for one in reports)]


def lie(*statements):
    with writing():
        for sql in statements:
            assert database.execute_sql(f"{sql} RETURNING 1").fetchall(), sql


def list_fields(service, story):
    return {one.field for report in audit_all(service, story) for one in report.differences}


def test_an_untouched_instance_is_the_same(told, story):
    reports = audit_all(told, story)
    assert [(one.verdict, one.unknown, one.differences) for one in reports] == [
        ("same", [], []),
        ("same", [], []),
    ]


RECORD = "open_positions = NULL, forward_realized = NULL"
DERIVED = ("running_total", "risk_total", "token_total")
SUMMARY = "coverage = NULL, results = NULL, positions = NULL"
SWAP = "UPDATE {0} SET {1} = (SELECT o.{1} FROM {0} o WHERE o.id <> {0}.id)"

FOUND = [
    # The seven of findings A13; the last one is test_words_edited_after_a_renewal_are_named.
    (
        "a record is taken back",
        (
            f"UPDATE attachment SET {RECORD}",
            *(f"DELETE FROM {name} WHERE view <> 0" for name in DERIVED),
        ),
        "published",
    ),
    (
        "all of a wallet is taken back",
        (
            f"UPDATE attachment SET {RECORD}",
            *(f"DELETE FROM {name}" for name in DERIVED),
            f"UPDATE wallet SET {SUMMARY}",
        ),
        "published",
    ),
    (
        "a board's result is edited",
        ("UPDATE standing_total SET realized = realized + 1 WHERE seconds = 0",),
        "standings.forward/SOL/0.realized",
    ),
    (
        "a board's window is edited",
        ("UPDATE standing_total SET volume = volume + 1 WHERE seconds = 2592000",),
        "standings.all/SOL/2592000.volume",
    ),
    (
        "a bot is left out of the boards",
        ("DELETE FROM standing_total WHERE bot_id = (SELECT MIN(id) FROM bot)",),
        "standings.forward/SOL/0",
    ),
    (
        "a bot is hidden on a board",
        ("UPDATE standing_total SET result_tier = 8",),
        "standings.forward/SOL/0.resultTier",
    ),
    ("the names of two bots are swapped", (SWAP.format("bot", "name"),), "bot.logged.words"),
    (
        "a losing bot is moved to another owner",
        ("UPDATE bot SET owner_id = (SELECT MAX(id) FROM owner) WHERE id = 1",),
        "bot.logged.owner",
    ),
    (
        "a pace is invented",
        ("UPDATE delay_total SET within_minute = within_minute + 1",),
        "pace.withinMinute",
    ),
    (
        "a delay is invented",
        ("UPDATE post SET delay = 1 WHERE delay IS NOT NULL",),
        "posts.{post}.delaySeconds",
    ),
    # More: each table that feeds a page.
    ("a handle is edited", ("UPDATE bot SET handle = handle || 'x'",), "bot.logged.words"),
    ("a voice is edited", ("UPDATE bot SET voice = '{}'",), "bot.logged.words"),
    ("a bot is made older", ("UPDATE bot SET created_at = 1",), "bot.logged.createdAtMs"),
    (
        "a bot passes for retired",
        ("UPDATE bot SET retired_at = created_at + 1",),
        "bot.logged.retiredAtMs",
    ),
    (
        "a claim passes for proven",
        ("UPDATE attachment SET ownership = 'proven'",),
        "held.{wallet}",
    ),
    (
        "a wallet was connected later",
        ("UPDATE attachment SET attached_at = attached_at + 3600000",),
        "held.{wallet}",
    ),
    (
        "another bot's past is taken over",
        (SWAP.format("wallet", "bot_id"),),
        "past.botId",
    ),
    ("a past is cut", ("UPDATE wallet SET bot_since = 1",), "past.sinceMs"),
    ("a head's result", ("UPDATE wallet SET imbalance = imbalance + 1",), "imbalance"),
    ("results by currency", ("UPDATE wallet SET by_quote = '{\"x\": 1}'",), "byQuote.x"),
    ("open positions", ("UPDATE wallet SET positions = '[]'",), "positions"),
    ("the books' difference", ("UPDATE wallet SET imbalance = 1",), "imbalance"),
    (
        "what an owner realized",
        ("UPDATE attachment SET forward_realized = 1",),
        "spans.1.forwardRealized",
    ),
    ("a best trade", ("UPDATE risk_total SET best = best + 1 WHERE best > 0",), "riskTotal"),
    ("a drawdown", ("UPDATE running_total SET drawdown = drawdown + 1",), "runningTotal"),
    ("a token's result", ("UPDATE token_total SET sales = sales + 1",), "tokenTotal"),
    (
        "a trade is not listed for its token",
        ("DELETE FROM trade_mint WHERE id = (SELECT MAX(id) FROM trade_mint)",),
        "tradeMint",
    ),
    ("two tokens are swapped", ("UPDATE trade_mint SET mint_id = 1",), "tradeMint"),
    ("a trader is not listed for a token", ("DELETE FROM token_trader",), "tokenTrader"),
    ("the order in a slot", ("UPDATE trade SET place = place + 1",), "place"),
    ("a sale is paid elsewhere", ("UPDATE trade SET paid_elsewhere = 1",), "paidElsewhere"),
    ("a receipt's digest", ("UPDATE receipt SET digest = 'x'",), "receipt"),
    ("a claim is counted twice", ("UPDATE post SET claim = TRUE",), "posts.{second}.isClaim"),
    (
        "a post is about another token",
        ("UPDATE post SET symbol = 'BONK'",),
        "posts.{post}.logged.words",
    ),
    ("a post is hidden", ("UPDATE post SET hidden_at = 1",), "posts.{post}.logged.hiddenAtMs"),
    (
        "a post loses its leaf",
        ("UPDATE post SET leaf_id = NULL",),
        "posts.{post}.logged.logIndex",
    ),
]


@pytest.mark.parametrize(
    ("statements", "field"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND]
)
def test_a_lie_is_named_by_its_field(told, story, statements, field):
    first, second = Post.select().order_by(Post.id).limit(2)
    field = field.format(post=first.uid, second=second.uid, wallet=ADA)
    lie(*statements)
    assert field in list_fields(told, story)


def test_words_edited_after_a_renewal_are_named(told, story):
    log.renew_log("operator", Post.get().created_at + 1)
    lie("UPDATE post SET body = 'Never sold'")
    assert f"posts.{Post.get().uid}.logged.words" in list_fields(told, story)


def test_a_bot_that_is_erased_with_all_its_rows_is_named(told, story):
    """Nothing of eve is left but the leaves of the log."""
    eve = Bot.get(Bot.id == 2)
    for table in ("standing_total",):
        database.execute_sql(f"DELETE FROM {table} WHERE bot_id = 2")
    wallet = Attachment.get(Attachment.bot == eve).wallet_id
    database.execute_sql("PRAGMA foreign_keys = 0")
    for table in ("attachment", "trade", "sighting", "address", "logged_wallet", *DERIVED):
        database.execute_sql(f"DELETE FROM {table} WHERE wallet_id = {wallet}")
    lie(f"DELETE FROM wallet WHERE id = {wallet}", "DELETE FROM bot WHERE id = 2")
    database.execute_sql("PRAGMA foreign_keys = 1")
    (found,) = [one for one in audit_all(told, story) if one.bot == eve.uid]
    assert [one.field for one in found.differences] == ["log.bot"]
