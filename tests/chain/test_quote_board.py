"""The leaderboard in a stablecoin: the same rules as in SOL, on other ledgers."""

import html
import random
import re
from urllib.parse import parse_qsl, urlsplit

import ground
import pytest
import sampling
from quoted import NAMES, observe_quote
from service import NOW, address
from test_standings import DAY, attach

from accounts import influencers
from chain.ledger.inventory import SOL
from chain.reading.currencies import STABLECOINS
from chain.stored import attachments
from chain.stored.attachments import OF_RESULTS
from chain.stored.standings import WINDOWS, refresh_standings
from chain.stored.tables import RunningTotal, StandingTotal
from models import Attachment, Bot
from operate.inspection import Reader, check_standings
from web.api import leaderboard, posts, results

W, OTHER, THIRD = address("w"), address("other"), address("third")
USDC = STABLECOINS[0]
SOLD = {"trades": 6, "matched": 3, "winning": 2, "volume": 90_000_000}


@pytest.fixture
def ada(service):
    made = service.make_bot("Ada", W)
    service.observe_results(W, 5)
    service.observe_span(W, realized=5, trades=4, matched=3)
    return made


def ask(service, made, query):
    return service.get(f"/api/v1/leaderboard?{query}", made.publish_key.text)


def test_stablecoin_results_are_ranked_separately(service, ada):
    """2.5 USDC against 40: the bot that earned less SOL leads."""
    bob = service.make_bot("Bob", OTHER)
    service.observe_results(OTHER, 3)
    service.observe_span(OTHER, realized=3, trades=4, matched=3)
    observe_quote(W, realized=2_500_000, **SOLD)
    observe_quote(OTHER, realized=40_000_000, cost_left=1_250_000, **SOLD)
    service.make_bot("Only SOL", THIRD)
    answer = ask(service, ada, "currency=USDC").json
    rows = answer["data"]
    assert [(row["name"], row["rank"], row["realized"]) for row in rows] == [
        ("Bob", 1, "40"),
        ("Ada", 2, "2.5"),
    ]
    assert (rows[0]["realizedRaw"], rows[0]["costLeftRaw"], rows[0]["volume"]) == (
        "40000000",
        "1250000",
        "90",
    )
    assert (rows[0]["worstCaseRaw"], rows[0]["winRate"]) == ("38750000", None)
    assert rows[0]["realizedLamports"] is rows[0]["volumeSol"] is None
    assert answer["currency"] == rows[0]["currency"] == "USDC" and rows[0]["botId"] == bob.bot.uid
    (one,) = ask(service, ada, "currency=USDC&limit=1").json["data"]
    assert one == rows[0]
    assert ask(service, ada, "currency=USDT").json["data"] == []


def test_the_sol_board_is_unchanged_by_stablecoins(service, ada):
    before, _, _ = ask(service, ada, "sort=pnl").data.rpartition(b',"asOf"')
    observe_quote(W, realized=2_500_000, **SOLD)
    Bot.update(standing_at=None).execute()
    after, _, _ = ask(service, ada, "sort=pnl").data.rpartition(b',"asOf"')
    assert after == before


@pytest.mark.parametrize("query", ["currency=DOGE", "currency=", f"currency={USDC.mint}"])
def test_an_unknown_currency_is_named_in_the_error(service, ada, query):
    answer = ask(service, ada, query)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter")
    assert answer.json["detail"] == "currency must be one of: SOL, USDC, USDT, PYUSD, USD1"
    # A form submits empty fields.
    expected = 200 if query.endswith("=") else 400
    assert service.get(f"/leaderboard?{query}").status_code == expected


def test_a_bot_that_only_trades_in_another_currency_says_which(service, ada):
    dollars = service.make_bot("Dollars", OTHER)
    service.observe_results(OTHER, 0, matched=0, winningSells=0)
    service.observe_span(OTHER, trades=6)
    observe_quote(OTHER, realized=2_500_000, **SOLD)
    rows = {row["name"]: row for row in ask(service, ada, "sort=pnl").json["data"]}
    told = rows["Dollars"]["unrankedReason"], rows["Dollars"]["tradesIn"]
    assert told == ("trades_in", "USDC") and rows["Ada"]["tradesIn"] is None
    (row,) = ask(service, ada, "currency=USDC").json["data"]
    assert (row["botId"], row["rank"], row["tradesIn"]) == (dollars.bot.uid, 1, None)


CHOICES = {
    **{"record": "forward", "sort": "pnl", "window": "all"},
    **{"ownership": None, "currency": None},
}


def test_every_board_link_keeps_the_other_choices(service, ada):
    """5 sort links; the filters are in a form, which submits the order."""
    for asked in ("/leaderboard", "/leaderboard?record=all&sort=return&window=30d"):
        mine, seen = read_choices(asked), set()
        for link in list_board_links(service, asked):
            told = read_choices(link)
            changed = {name for name in CHOICES if told[name] != mine[name]}
            assert len(changed) <= 1, (asked, link)
            seen |= {(name, told[name]) for name in changed}
        assert {name for name, _ in seen} == {"sort"} and len(seen) == 5 - 1


def list_board_links(service, path):
    answer = service.get(path)
    assert answer.status_code == 200
    links = re.findall(r'<a href="(/leaderboard\?[^"]+)"', answer.text)
    return [html.unescape(link) for link in links]


def read_choices(path):
    return {**CHOICES, **dict(parse_qsl(urlsplit(path).query))}


# ---- stored or worked out ------------------------------------------------------------------------
def make_crowd(service, dice, now):
    """Bots with ledgers in one or two stablecoins that changed in the last forty days; some are
    proven, some retired, and one wallet moved to another bot.
    """
    for n in range(9):
        wallet = address(f"crowd {n}")
        made = service.make_bot(f"Bot {n}", wallet)
        service.observe_results(wallet, 1)
        service.observe_span(wallet, at=now - 41 * DAY, trades=1)
        for symbol in dice.sample(("USDC", "USDT"), dice.randint(0, 2)):
            totals = dict.fromkeys(NAMES, 0)
            for at in sorted({dice.randint(now - 40 * DAY, now) for _ in range(4)}):
                totals = {name: value + dice.randint(0, 9) for name, value in totals.items()}
                observe_quote(wallet, symbol, at, **totals)
        if n % 3 == 0:
            Attachment.update(ownership="proven").where(Attachment.bot == made.bot).execute()
        if n % 4 == 0:
            bot = Bot.get_by_id(made.bot.id)
            influencers.retire_bot(bot, (now - dice.randint(0, 10 * DAY)) * 1000)
        # A bot that proved it and retired, and one that claimed it.
        if n in (0, 8):
            attach(service, service.make_bot(f"Claimant {n}"), wallet, now * 1000)


def list_all(now):
    return {
        (record, window, quote.symbol): [
            (one.row.uid, one.totals, one.reason, one.ownership)
            for one in leaderboard.list_entries(
                leaderboard.Board(record, "pnl", window, None, quote.symbol), now * 1000, 4
            )
        ]
        for record in leaderboard.RECORDS
        for window in WINDOWS
        for quote in STABLECOINS
    }


@pytest.mark.parametrize("seed", sampling.sample(range(4), 1))
def test_stored_standings_equal_computed_ones(service, seed):
    dice, now = random.Random(seed), NOW // 1000
    make_crowd(service, dice, now)
    Bot.update(standing_at=None).execute()
    worked_out = list_all(now)
    refresh_standings(NOW)
    assert list_all(now) == worked_out
    # Days later the windows have moved on, both when computed and when stored.
    later = now + dice.randint(1, 9) * DAY
    moved_on = list_all(later)
    refresh_standings(later * 1000)
    assert list_all(later) == moved_on
    reader = Reader(service.config)
    with reader.snapshot():
        assert list(check_standings(reader, later * 1000)) == []
    reader.close()


def test_a_removed_ledger_removes_its_standings(service, ada):
    observe_quote(W, realized=1, **SOLD)
    Bot.update(standing_at=None).execute()
    refresh_standings(NOW)
    stored = StandingTotal.select().where(StandingTotal.money == USDC.mint)
    assert stored.count() == 2 * len(WINDOWS)
    RunningTotal.delete().where(RunningTotal.money != SOL).execute()
    Bot.update(standing_at=None).execute()
    refresh_standings(NOW)
    assert stored.count() == 0


# ---- however long the past is --------------------------------------------------------------------
LAST = attachments.write_last("t", OF_RESULTS.view, "k.money", 9)
CURRENCIES = f"(''), ('{USDC.mint}')"
ASKED = {
    "ledgers": attachments.TOTALS.format(
        moneys=CURRENCIES, last=LAST, which=OF_RESULTS.which, bots="1, 2"
    ),
    "days": results.HOURS_OF_BOT,
    "samples": results.SAMPLED.format(**OF_RESULTS._asdict(), times="(1), (2)", bots="'b'"),
    "posts": posts.POST,
}


@ground.sqlite_only
@pytest.mark.parametrize("name", ASKED)
def test_totals_are_found_by_key(db, name):
    asked = ASKED[name].replace("?", "1")
    plan = [str(row) for row in db.execute_sql(f"EXPLAIN QUERY PLAN {asked}")]
    assert plan and not any("SCAN t" in row for row in plan)
    # Each step uses the whole key up to the hour.
    steps = [row for row in plan if "sqlite_autoindex_running_total" in row]
    assert all("wallet_id=? AND money=? AND view=?" in row for row in steps)
    assert steps or name == "posts"
