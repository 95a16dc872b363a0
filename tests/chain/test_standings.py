"""Standings: the board is the same whether stored or computed by the reader, and changes invalidate
it. In a stablecoin, the same rules apply to other ledgers.
"""

import contextlib
import html
import itertools
import random
import re
import time
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import ground
import pytest
from quoted import NAMES, observe_quote
from sampling import sample
from service import NOW, address
from story import market
from test_board import DONE, GOOD, OTHER, W, attach, board, from_now, lucky, observe
from test_ledger_store import entries_of

import storage
from accounts import influencers, wallets
from accounts.fields import is_provable
from chain.ledger.inventory import SOL
from chain.ledger.totals import NOTHING, Sums
from chain.reading.currencies import STABLECOINS
from chain.stored import attachments
from chain.stored.attachments import OF_RESULTS
from chain.stored.standings import (
    ALL,
    FORWARD,
    NEVER,
    RESULT,
    RETURN,
    UNKNOWN,
    WINDOWS,
    Board,
    Ranked,
    find_reason,
    list_forgotten,
    make_standing,
    refresh_standings,
    work_out,
)
from chain.stored.standings import list_boards as list_every_board
from chain.stored.store import LedgerStore
from chain.stored.tables import RunningTotal, StandingTotal
from models import Attachment, Bot, Wallet
from operate.inspection import Reader, check_standings
from storage import read_rows
from web.api import leaderboard, posts, results

DAY, HOUR = 86_400, 3_600
THIRD, USDC = address("third"), STABLECOINS[0]
SYMBOLS = [one.symbol for one in STABLECOINS]


def forgotten():
    return sorted(bot.name for bot in Bot.select().where(Bot.standing_at.is_null()))


@pytest.fixture
def ada(service):
    return service.make_bot("Ada", W)


def make_crowd(service, dice, now, count=12):
    """Bots with one or two spans and changes anywhere in the last forty days, some in stablecoins,
    some retired, some with a gap in their history, some that disconnected a wallet with holdings.
    """
    for n in range(count):
        first, second = address(f"first {n}"), address(f"second {n}")
        made = service.make_bot(f"Bot {n}", first)
        if dice.random() < 0.8:
            gaps = [{"fromSlot": 1, "toSlot": 2, "reason": "x"}] if dice.random() < 0.2 else []
            service.observe_results(first, 1, gaps=gaps)
            spend(service, dice, first, now - 40 * DAY, now - 20 * DAY)
        for symbol in dice.sample(("USDC", "USDT"), dice.randint(0, 2)):
            for at, totals in grow(dice, NAMES, now - 40 * DAY, now):
                observe_quote(first, symbol, at, **totals)
        if dice.random() < 0.5:
            end = now - dice.randint(1, 20 * DAY)
            attach(service, made, second, end * 1000)
            spend(service, dice, second, end, now)
        if dice.random() < 0.3:
            Attachment.update(ownership="proven").where(Attachment.bot == made.bot).execute()
        if dice.random() < 0.3:
            retire(made, now - dice.randint(0, 10 * DAY))


def grow(dice, names, begin, end):
    """Up to five (Unix second, running totals)."""
    totals = dict.fromkeys(names, 0)
    for at in sorted({dice.randint(begin, end) for _ in range(dice.randint(1, 5))}):
        totals = {name: value + dice.randint(0, 9) for name, value in totals.items()}
        yield at, totals


def retire(made, at):
    influencers.retire_bot(Bot.get_by_id(made.bot.id), at * 1000)


def spend(service, dice, wallet, begin, end):
    for at, totals in grow(dice, (*GOOD, "cost_left"), begin, end):
        service.observe_span(wallet, at=at, **{**totals, "open_cost": dice.choice([0, 0, 5])})


def find_provable(name):
    """An address with a key."""
    return next(a for a in (address(f"{name} {n}") for n in range(99)) if is_provable(a))


def make_observed(service, dice, now, count=6):
    """Bots whose wallets traded anywhere in the last forty days; some wallets have since been
    claimed by another bot, some bots are retired.
    """
    for n in range(count):
        wallet = find_provable(f"traded {n}")
        made = service.make_bot(f"Trader {n}", wallet)
        entries = entries_of(market(dice.randint(0, 10**6)))
        times = sorted(dice.randint(now - 40 * DAY, now) for _ in entries)
        observe(wallet, [e._replace(block_time=t) for e, t in zip(entries, times, strict=True)])
        bot = Bot.get_by_id(made.bot.id)
        if n % 3 == 1:
            attach(service, made, wallet, now * 1000, "proven")
        if n == 4:
            wallets.detach_wallet(bot, now * 1000)
            attach(service, service.make_bot(f"Claimant {n}"), wallet, now * 1000)
        elif n % 4 == 2:
            retire(made, now - dice.randint(0, 10 * DAY))
    # Its prover keeps the history up to the forced move.
    lost = find_provable("lost")
    loser = service.make_bot("Loser", lost)
    attach(service, loser, lost, now * 1000, "proven")
    entries = entries_of(market(7))
    observe(lost, [e._replace(block_time=now - DAY - 90 + n) for n, e in enumerate(entries)])
    retire(loser, now - DAY // 2)
    attach(service, service.make_bot("Finder"), lost, now * 1000)


def list_boards(record, now):
    """The boards of the record in SOL, and all in stablecoins by result."""
    asked = [
        *itertools.product([record], leaderboard.SORTS, WINDOWS, [None]),
        *itertools.product([record], leaderboard.SORTS, ["30d"], ("proven", "claimed")),
        *itertools.product(leaderboard.RECORDS, ["pnl"], WINDOWS, [None], SYMBOLS),
    ]
    return {
        one: [
            (found.row.uid, found.totals, found.reason, found.ownership)
            for found in leaderboard.list_entries(leaderboard.Board(*one), now * 1000, 4)
        ]
        for one in asked
    }


@pytest.mark.parametrize("seed", sample(range(4), 1))
@pytest.mark.parametrize(("record", "make"), [(FORWARD, make_crowd), (ALL, make_observed)])
def test_stored_and_computed_boards_are_equal(service, seed, record, make):
    """Now and later, when trades have left a window and nothing was stored again."""
    dice, now = random.Random(seed), int(time.time())
    make(service, dice, now)
    moments = [now, now + 1, now + dice.randint(1, 8 * DAY), now + 31 * DAY]
    worked_out = [list_boards(record, moment) for moment in moments]
    assert refresh_standings(now * 1000) == Bot.select().count() > 8
    assert list_forgotten(read_rows, Board(record, SOL, 0), now) == set() == set(forgotten())
    assert [list_boards(record, moment) for moment in moments] == worked_out
    for moment in moments:
        refresh_standings(moment * 1000)
        assert not any(list_forgotten(read_rows, one, moment) for one in list_every_board())
        assert list_boards(record, moment) == worked_out[moments.index(moment)]
        assert refresh_standings(moment * 1000) == 0
    assert list_differences(service, moment) == []


SUMS = """SELECT COALESCE(SUM(t.result), 0), COUNT(CASE WHEN t.kind IN
('buy', 'sell', 'swap', 'round_trip') AND t.flags NOT LIKE '%unexplained%' THEN 1 END)
FROM trade t JOIN wallet w ON w.id = t.wallet_id
WHERE w.address = ? AND t.block_time >= ? AND t.block_time < ?"""


@pytest.mark.parametrize("seed", sample(range(3), 1))
def test_all_time_results_are_sums_of_trades(service, seed):
    """Summed from the full hour that begins the window: for the bot that has the wallet, for the
    one that proved it until the hour it retired, and nothing for a claimant.
    """
    dice, now = random.Random(seed), int(time.time())
    make_observed(service, dice, now)
    kinds = set()
    for window, seconds in WINDOWS.items():
        asked = leaderboard.Board(ALL, "trades", window)
        since = (now - seconds) // HOUR * HOUR if seconds else 0
        for entry in leaderboard.list_entries(asked, now * 1000, 50):
            row = entry.row
            lost = row.name == "Loser"
            until = (now - DAY // 2) // HOUR * HOUR if lost else now + 1
            sums = storage.database.execute_sql(SUMS, (row.address, since, until)).fetchone()
            kinds.add(row.name.split()[0])
            if row.name.startswith(("Claimant", "Finder")):
                assert entry.totals is None and entry.reason == "held_by_another"
            elif row.address:
                assert (entry.totals.realized, entry.totals.trades) == tuple(sums)
    assert {"Trader", "Claimant", "Finder", "Loser"} <= kinds


def rank(made, seconds, now):
    (found,) = work_out(read_rows, Board(FORWARD, SOL, seconds), now, [made.bot.id])
    return found


@pytest.mark.parametrize("name, days", [("24h", 1), ("7d", 7), ("30d", 30), ("90d", 90)])
def test_a_window_drops_its_first_hour_when_it_leaves(service, ada, name, days):
    """It is 12:34:56. 1 lamport in the last second before the window's first hour, 2 in that hour's
    first second, 4 half an hour ago: 2 + 4, until that hour has passed at 13:00.
    """
    now, seconds = NOW // 1000 + 34 * 60 + 56, WINDOWS[name]
    begins = NOW // 1000 - days * DAY
    for at, realized in ((begins - 1, 1), (begins, 3), (now - 1_800, 7)):
        service.observe_span(W, at=at, realized=realized)
    found = rank(ada, seconds, now)
    assert (found.realized, found.ends) == (6, NOW // 1000 + HOUR)
    assert rank(ada, seconds, found.ends - 1).realized == 6
    later = rank(ada, seconds, found.ends)
    assert (later.realized, later.ends) == (4, NOW // 1000 + HOUR + days * DAY)
    assert (rank(ada, 0, now).realized, rank(ada, 0, now).ends) == (7, NEVER)


# ---- who forgets ---------------------------------------------------------------------------------
def test_a_changed_input_invalidates_a_standing(service, ada):
    service.make_bot("Ben", OTHER)
    assert forgotten() == ["Ada", "Ben"]
    bot = Bot.get_by_id(ada.bot.id)
    for step, names in (
        (lambda: wallets.detach_wallet(bot, NOW + 1), {"Ada"}),
        (lambda: attach(service, ada, W, NOW + 2), {"Ada"}),
        (lambda: attach(service, ada, W, NOW + 3, "proven"), {"Ada"}),
        (lambda: attach(service, ada, OTHER, NOW + 4, "proven"), {"Ada", "Ben"}),
        (lambda: influencers.retire_bot(bot, NOW + 5), {"Ada"}),
        (lambda: service.make_bot("Cleo"), {"Cleo"}),
    ):
        refresh_standings(NOW)
        assert forgotten() == []
        step()
        assert names <= set(forgotten()) <= {"Ada", "Ben", "Cleo"}


@ground.sqlite_only
def test_an_idle_pass_reads_twice_and_never_locks(service, ada, monkeypatch):
    """Except when a window's first hour ended, which an index shows."""
    observe(W, from_now(lucky().entries, NOW // 1000), NOW)
    refresh_standings(NOW)
    asked, run = [], storage.database.execute_sql

    def note(sql, *values):
        asked.append(sql)
        return run(sql, *values)

    with monkeypatch.context() as patch:
        patch.setattr(storage.database.obj, "execute_sql", note)
        patch.setattr(storage, "writing", None)
        assert refresh_standings(NOW) == 0
    assert len(asked) == 2
    plan = " ".join(str(row) for row in run(f"EXPLAIN QUERY PLAN {asked[1]}"))
    assert "SEARCH" in plan and "(ends<?)" in plan
    assert refresh_standings(NOW + 91 * DAY * 1000) == 1


def test_only_a_publication_that_moves_something_invalidates(service, ada):
    service.make_bot("Ben", OTHER)
    observe(W, from_now(lucky().entries, NOW // 1000), NOW)
    refresh_standings(NOW)
    observe(W, [], NOW + 1)
    assert forgotten() == []
    observe(W, from_now(lucky(5).entries, NOW // 1000), NOW + 1_000_000)
    assert forgotten() == ["Ada"]
    wallet, ledger_store = Wallet.get(Wallet.address == W), LedgerStore()
    ledger_store.apply(wallet)
    gap, loading = replace(DONE, unexplained=(("a", 1, 2),)), replace(DONE, pending=3)
    for progress, told in ((gap, "gap"), (DONE, None), (loading, "backfilling"), (DONE, None)):
        refresh_standings(NOW)
        ledger_store.publish(wallet, progress, NOW)
        assert forgotten() == ["Ada"]
        first, _ = board(service, ada)
        assert (first["unrankedReason"], first["rank"]) == (told, None if told else 1)


# ---- rules, doctor, index ------------------------------------------------------------------------
DID = Sums(
    **{"realized": 50, "cost": 2 * 10**9, "proceeds": 3 * 10**9, "volume": 9, "trades": 4},
    **{"matched": 2, "partial": 1, "unmatched": 1, "winning": 2, "cost_left": 20, "open_cost": 7},
    **{"ended": 3, "ended_won": 1, "held": 2, "held_sold": 1, "held_won": 1, "flat_pairs": 6},
)
POOR = DID._replace(cost=10**9 - 1)
SEEN = Ranked(DID, has_wallet=True, has_gap=False, is_proven=True, is_retired=False)


@pytest.mark.parametrize(
    "one, by_result, by_return, by_count",
    [
        (SEEN, 0, 0, 0),
        (SEEN._replace(is_proven=False), 1, 1, 1),
        (SEEN._replace(sums=POOR), 0, 2, 0),
        (SEEN._replace(has_gap=True), 2, 2, 0),
        (SEEN._replace(is_loading=True), 2, 2, 0),
        (SEEN._replace(has_gap=True, is_proven=False), 4, 4, 1),
        (SEEN._replace(sums=DID._replace(partial=0)), 2, 2, 0),
        (SEEN._replace(sums=None), 3, 3, 3),
        (SEEN._replace(sums=None, is_proven=False), 5, 5, 5),
        (SEEN._replace(has_wallet=False), 6, 6, 6),
        (SEEN._replace(has_wallet=False, sums=None), 7, 7, 7),
        (SEEN._replace(is_retired=True), 0, 0, 0),
        (SEEN._replace(is_retired=True, sums=DID._replace(trades=0)), 8, 8, 8),
        (SEEN._replace(is_retired=True, sums=None), 8, 8, 8),
    ],
)
def test_each_order_lists_a_bot_at_its_place(one, by_result, by_return, by_count):
    made = make_standing(7, Board(ALL, SOL, DAY), 123, one)
    assert made[:8] == (7, ALL, SOL, DAY, 123, by_result, by_return, by_count)
    assert made.sums == (one.sums or NOTHING)


def test_each_rule_ranks_by_its_number():
    """Of 50 lamports, 20 left and 7 are held. 1 of 2 SOL is 50%. 2 of 4 positions were won."""
    made = make_standing(7, Board(ALL, SOL, DAY), 123, SEEN)
    assert (made.worst_case, made.return_points, made.win_points) == (23, 5_000, 5_000)
    unknown = make_standing(7, Board(ALL, SOL, DAY), 123, SEEN._replace(sums=Sums(cost=5)))
    assert (unknown.return_points, unknown.win_points) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize("quote", STABLECOINS)
def test_a_stablecoin_return_needs_a_cost_basis_of_one_hundred(quote):
    enough = DID._replace(cost=100 * 10**quote.decimals)
    assert find_reason(enough, True, False, RETURN, quote.mint) is None
    few = enough._replace(cost=enough.cost - 1)
    assert find_reason(few, True, False, RETURN, quote.mint) == "too_little_cost"
    assert find_reason(few, True, False, RESULT, quote.mint) is None


def list_differences(service, now=NOW // 1000):
    with contextlib.closing(Reader(service.config)) as reader, reader.snapshot():
        return list(check_standings(reader, now * 1000))


def test_doctor_finds_a_wrong_standing(service, ada):
    service.observe_span(W, **GOOD)
    service.observe_results(W, 1)
    refresh_standings(NOW)
    assert list_differences(service) == []
    StandingTotal.update(realized=7).where(
        StandingTotal.seconds == 0, StandingTotal.record == FORWARD
    ).execute()
    (found,) = list_differences(service)
    assert found.table == "standing_total"
    assert f"bot {ada.bot.id}, {Board(FORWARD, SOL, 0)}" in str(found)
    Bot.update(standing_at=None).execute()
    assert list_differences(service) == []


@ground.sqlite_only
def test_top_bots_are_read_by_index(db):
    for order in leaderboard.ORDERS.values():
        sql = leaderboard.LISTED.format(tier=order.tier, column=order.column)
        rows = db.execute_sql(f"EXPLAIN QUERY PLAN {sql}", (ALL, SOL, 0, 0, 5))
        plan = " ".join(map(str, rows))
        assert f"standing_by_{order.column}" in plan and "B-TREE" not in plan


@ground.sqlite_only
def test_running_totals_are_found_by_key(db):
    """However long a wallet's past is, each step uses the whole key up to the hour."""
    last = attachments.write_last("t", OF_RESULTS.view, "k.money", 9)
    some = {"moneys": f"(''), ('{USDC.mint}')", "which": OF_RESULTS.which, "bots": "1, 2"}
    asked = [
        attachments.TOTALS.format(last=last, **some),
        results.HOURS_OF_BOT,
        results.SAMPLED.format(**OF_RESULTS._asdict(), times="(1), (2)", bots="'b'"),
        posts.POST,
    ]

    def note(sql):
        asked.append(sql)
        return next(rows, ())

    for record in (FORWARD, ALL):
        # As if one attachment had a row.
        rows = iter([[(1, *NOTHING)]])
        work_out(note, Board(record, SOL, DAY), NOW // 1000, [1, 2])
    plans = [list(db.execute_sql(f"EXPLAIN QUERY PLAN {sql.replace('?', '1')}")) for sql in asked]
    steps = [str(row) for plan in plans for row in plan]
    found = [step for step in steps if "running_total" in step]
    assert all("wallet_id=? AND money=? AND view=?" in step for step in found)
    assert len(asked) == 12 and len(found) >= 13
    assert not any("SCAN t" in step for step in steps)


# ---- boards in a stablecoin ----------------------------------------------------------------------
SOLD = {"trades": 6, "matched": 3, "winning": 2, "volume": 90_000_000}


@pytest.fixture
def ranked(service, ada):
    """A bot with results in SOL."""
    earn(service, W, 5)
    return ada


def earn(service, wallet, realized):
    service.observe_results(wallet, realized)
    service.observe_span(wallet, realized=realized, trades=4, matched=3)


def ask(service, made, query):
    return service.get(f"/api/v1/leaderboard?{query}", made.publish_key.text)


def test_stablecoin_results_are_ranked_separately(service, ranked):
    """2.5 USDC against 40: the bot that earned less SOL leads. The SOL board is the same as
    before.
    """
    bob = service.make_bot("Bob", OTHER)
    earn(service, OTHER, 3)
    in_sol = ask(service, ranked, "sort=pnl").json["data"]
    observe_quote(W, realized=2_500_000, **SOLD)
    observe_quote(OTHER, realized=40_000_000, cost_left=1_250_000, **SOLD)
    assert ask(service, ranked, "sort=pnl").json["data"] == in_sol
    service.make_bot("Only SOL", THIRD)
    answer = ask(service, ranked, "currency=USDC").json
    first, second = answer["data"]
    told = {"name": "Bob", "botId": bob.bot.uid, "rank": 1, "currency": "USDC", "volume": "90"}
    told |= {"realized": "40", "realizedRaw": "40000000", "realizedLamports": None}
    told |= {"costLeftRaw": "1250000", "worstCaseRaw": "38750000"}
    told |= {"winRate": None, "volumeSol": None}
    assert told.items() <= first.items() and answer["currency"] == "USDC"
    assert (second["name"], second["rank"], second["realized"]) == ("Ada", 2, "2.5")
    assert ask(service, ranked, "currency=USDC&limit=1").json["data"] == [first]
    assert ask(service, ranked, "currency=USDT").json["data"] == []


@pytest.mark.parametrize("query", ["currency=DOGE", "currency=", f"currency={USDC.mint}"])
def test_an_unknown_currency_is_named_in_the_error(service, ranked, query):
    answer = ask(service, ranked, query)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_parameter")
    assert answer.json["detail"] == "currency must be one of: SOL, USDC, USDT, PYUSD, USD1"
    # A form submits empty fields.
    expected = 200 if query.endswith("=") else 400
    assert service.get(f"/leaderboard?{query}").status_code == expected


def test_a_bot_that_only_trades_in_another_currency_says_which(service, ranked):
    dollars = service.make_bot("Dollars", OTHER)
    service.observe_results(OTHER, 0, matched=0, winningSells=0)
    service.observe_span(OTHER, trades=6)
    observe_quote(OTHER, realized=2_500_000, **SOLD)
    rows = {row["name"]: row for row in ask(service, ranked, "sort=pnl").json["data"]}
    told = rows["Dollars"]["unrankedReason"], rows["Dollars"]["tradesIn"]
    assert told == ("trades_in", "USDC") and rows["Ada"]["tradesIn"] is None
    (row,) = ask(service, ranked, "currency=USDC").json["data"]
    assert (row["botId"], row["rank"], row["tradesIn"]) == (dollars.bot.uid, 1, None)


def test_every_board_link_keeps_the_other_choices(service, ranked):
    """5 sort links; the filters are in a form, which submits the order."""
    usual = {"record": "forward", "sort": "pnl", "window": "all"}

    def read_choices(path):
        return {**usual, **dict(parse_qsl(urlsplit(html.unescape(path)).query))}

    for asked in ("/leaderboard", "/leaderboard?record=all&sort=return&window=30d"):
        mine = read_choices(asked)
        links = re.findall(r'<a href="(/leaderboard\?[^"]+)"', service.get(asked).text)
        told = {read_choices(link)["sort"]: read_choices(link) for link in links}
        assert len(told) == 5
        assert all(one == {**mine, "sort": sort} for sort, one in told.items())


def test_a_removed_ledger_removes_its_standings(service, ranked):
    observe_quote(W, realized=1, **SOLD)
    Bot.update(standing_at=None).execute()
    refresh_standings(NOW)
    stored = StandingTotal.select().where(StandingTotal.money == USDC.mint)
    assert stored.count() == 2 * len(WINDOWS)
    RunningTotal.delete().where(RunningTotal.money != SOL).execute()
    Bot.update(standing_at=None).execute()
    refresh_standings(NOW)
    assert stored.count() == 0
