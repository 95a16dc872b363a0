"""Bots' risk in the API and on pages, in lamports and seconds."""

import re

import orjson
import pytest
from service import NOW, add_risk, add_total, address
from test_records import move, show

from chain.ledger.inventory import SOL
from chain.stored.attachments import OF_RECORD, OF_RESULTS
from chain.stored.derived import StoredRisk, load_risk
from chain.stored.tables import DelayTotal, RunningTotal, TokenTotal
from models import Attachment, Wallet
from storage import database
from web.api import results
from web.api.leaderboard import show_connected
from web.api.serialize import show_time
from web.api.wallets import show_coverage

W, OTHER, THIRD = address("w"), address("other"), address("third")
HOUR = NOW // 3_600_000


def list_views(wallet):
    """(the wallet's number, all history and its latest attachment)"""
    number = Wallet.get(Wallet.address == wallet).id
    latest = Attachment.select().where(Attachment.wallet == number).order_by(Attachment.id.desc())
    return number, (0, latest.get().id)


def observe_hours(wallet, changes, **sums):
    """Write a wallet's results {hour: lamports} as running totals. `sums`: the same in each."""
    (number, views), total = list_views(wallet), 0
    for hour, change in sorted(changes.items()):
        total += change
        for view in views:
            add_total(number, SOL, view, hour * 3_600, realized=total, **sums)


def observe_risk(wallet, results, held=70):
    """Write positions with these results and holding times."""
    number, views = list_views(wallet)
    for view in views:
        add_risk(number, view, results, held)


def observe(service, wallet, realized=0):
    service.observe_results(wallet, realized)
    service.observe_span(wallet, realized=realized, trades=1, matched=3)
    Wallet.update(forward_realized=realized).where(Wallet.address == wallet).execute()


def test_a_wallet_without_positions_changes_no_risk_but_damage_hides_it():
    names = ("best", "worst", "median_holding", "holdings")
    none = dict(zip(names, (None, None, None, "[]"), strict=True))
    some = dict(zip(names, (5, -1, 30, "[[30,1],[60,1]]"), strict=True))
    assert load_risk([none, some]) == StoredRisk(5, -1, 30)
    assert load_risk([]) == load_risk([none, none]) == StoredRisk()
    assert load_risk([some, {**some, "holdings": "[[30,"}]) is None


def test_risk_is_next_to_results_and_record(service, bot):
    """0, 50, -40, -10, an hour each: a drop of 90. One of two positions won; 70 are still held."""
    observe(service, W, -10)
    hours = {HOUR - 3: 50, HOUR - 2: -90, HOUR - 1: 30, HOUR: 0}
    rates = {"ended": 1, "ended_won": 1, "held": 2, "held_sold": 1, "open_cost": 70}
    observe_hours(W, hours, days=4, cost=1_000, proceeds=990, **rates)
    observe_risk(W, [50, -90])
    shown = show(service, bot)
    risk = {"maxDrawdownLamports": "90", "bestLamports": "50", "worstLamports": "-90"}
    risk |= {"medianHoldingSeconds": 70, "daysActive": 4}
    assert (shown["risk"], shown["riskReason"]) == (risk, None)
    assert shown["results"]["maxDrawdownLamports"] == "90"
    record = {"maxDrawdownLamports": "90", "worstCaseLamports": "-80", "returnPct": "-1.00"}
    record |= {"winRate": "0.5000", "positions": 2, "positionsWon": 1, "positionsOpen": 2}
    assert record.items() <= shown["record"].items()


def test_missing_risk_has_a_reason_and_is_not_zero(service, bot):
    mute = service.make_bot("Mute")
    shown = show(service, mute)
    assert (shown["riskReason"], shown["tokens"]) == ("no_wallet", None)
    page = service.get(f"/bots/{mute.bot.uid}?tab=record").text
    assert "Recently, since connected" not in page and "Can it be followed?" not in page
    assert show(service, bot)["riskReason"] == "not_observed"
    service.observe_results(W, 5)
    assert (show(service, bot)["risk"], show(service, bot)["riskReason"]) == (None, "damaged")
    # Without a sale, a drawdown is known and a holding time isn't.
    observe(service, W)
    shown = show(service, bot)
    told = {"maxDrawdownLamports": "0", "bestLamports": None, "medianHoldingSeconds": None}
    assert told.items() <= shown["risk"].items() and shown["tokens"] == []


def test_the_curve_continues_with_the_next_wallet(service, bot):
    """60 gained with the first, -50 with the second, then 20: a drop of 50 over both."""
    observe(service, W, 60)
    observe_hours(W, {HOUR - 9: 60})
    observe_risk(W, [60])
    move(service, bot, OTHER)
    observe(service, OTHER, -30)
    observe_hours(OTHER, {HOUR - 3: -30, HOUR - 2: -20, HOUR - 1: 20})
    observe_risk(OTHER, [-30, -20, 20])
    shown = show(service, bot)
    assert shown["record"]["maxDrawdownLamports"] == "50"
    assert (shown["risk"]["bestLamports"], shown["risk"]["worstLamports"]) == ("20", "-30")


def test_several_wallets_are_summed_hourly(service, bot):
    """Two at once: 10, -30 and 25 in the hours 3 to 1 ago, and 20, 0 and -15 with the other.
    Separately they dropped by 30 and 15; together 30, 0 and 10 are a drop of 30. Both traded today,
    one of them also the day before. The lower median of 30, 30, 60 and 60 seconds is 30.
    """
    today = HOUR - HOUR % 24
    service.make_bot("Ben", OTHER)
    for wallet, changes, positions, held in (
        (W, {HOUR - 3: 10, HOUR - 2: -30, HOUR - 1: 25}, [5, -1], 60),
        (OTHER, {HOUR - 3: 20, HOUR - 1: -15}, [7, 7], 30),
    ):
        observe(service, wallet, 5)
        observe_hours(wallet, changes, days=1)
        observe_risk(wallet, positions, held)
    latest = Attachment.select().order_by(Attachment.id.desc()).get()
    for view in (0, latest.id):
        add_total(latest.wallet, SOL, view, (today - 24) * 3_600, days=1)
        for hour in (HOUR - 3, HOUR - 1, HOUR):
            rows = RunningTotal.wallet == latest.wallet, RunningTotal.hour == hour
            RunningTotal.update(days=2).where(*rows).execute()
    database.execute_sql("DROP INDEX IF EXISTS attachment_open_bot")
    Attachment.update(bot=bot.bot.id).execute()
    for source in (OF_RECORD, OF_RESULTS):
        assert results.find_risk(source, bot.bot.id) == {
            **{"maxDrawdownLamports": "30", "daysActive": 2, "medianHoldingSeconds": 30},
            **{"bestLamports": "7", "worstLamports": "-1"},
        }
        assert results.find_drawdowns(source, [bot.bot.id], HOUR - 2) == {bot.bot.id: 30}
        # -30 + 25 - 15 from the hour two hours ago on; 10 from the next one.
        assert results.find_drawdowns(source, [bot.bot.id], HOUR - 1) == {bot.bot.id: 0}


def test_windows_begin_at_full_hours(service, bot):
    """NOW is 12:00. Losses of 7 an hour before the 24 hours begin, of 10 in their first hour, of 60
    since; of 100, 500 and 3,000 in a week, a month and a quarter. 5 were held before the week, 12
    in it and now, which is 7 more.
    """
    losses = {HOUR: -60, HOUR - 24: -10, HOUR - 25: -7, HOUR - 24 * 6: -100}
    losses |= {HOUR - 24 * 8: -500, HOUR - 24 * 80: -3_000}
    observe(service, W, sum(losses.values()))
    observe_hours(W, losses, open_cost=12, ended=1)
    RunningTotal.update(open_cost=5).where(RunningTotal.hour <= HOUR - 24 * 8).execute()
    with service.database.connection_context():
        shown = results.list_windows(bot.bot.id, NOW)
    names = ("realizedLamports", "worstCaseLamports", "maxDrawdownLamports")
    assert [(one["window"], *(one["record"][name] for name in names)) for one in shown] == [
        ("24h", "-70", "-70", "70"),
        ("7d", "-177", "-184", "177"),
        ("30d", "-677", "-684", "677"),
        ("90d", "-3677", "-3689", "3677"),
    ]


# ---- the board -----------------------------------------------------------------------------------
def test_signs_are_shown_and_change_no_rank(service, bot, get):
    """81 of 100 came from one token; ten pairs were flat."""
    observe(service, W, 100)
    number, views = list_views(W)
    for view in views:
        add_total(number, SOL, view, NOW // 1000, realized=100, matched=3, flat_pairs=10)
        for mint, realized in ((address("m1"), 81), (address("m2"), 19)):
            key = {"wallet": number, "money": SOL, "view": view, "mint": mint}
            TokenTotal.create(**key, realized=realized, sales=1, winning=1)
    signs = ["one_token", "flat_round_trips"]
    assert show(service, bot)["signs"] == signs
    for record in ("forward", "all"):
        (row,) = get(f"leaderboard?record={record}").json["data"]
        assert (row["signs"], row["ranked"]) == (signs, True)
    TokenTotal.update(realized=80).where(TokenTotal.realized == 81).execute()
    assert show(service, bot)["signs"] == signs[1:]
    for path in ("/leaderboard", f"/bots/{bot.bot.uid}"):
        assert "many flat round trips" in service.get(path).text


def test_results_by_token_are_listed(service, bot, key, monkeypatch):
    """Of -5, 1 and 4 lamports, the two with the largest effect, best first."""
    observe(service, W)
    wallet, mints = Wallet.get(), [address(f"m{number}") for number in range(3)]
    for mint, realized in zip(mints, (1, -5, 4), strict=True):
        columns = {"realized": realized, "sales": 2, "winning": int(realized > 0)}
        TokenTotal.create(wallet=wallet, money=SOL, view=0, mint=mint, **columns)
    monkeypatch.setattr(results, "MAX_LISTED", 2)
    told = [
        {"mint": mints[n], "symbol": None, "sells": 2, "winningSells": won, "realizedLamports": of}
        for n, won, of in ((2, 1, "4"), (0, 1, "1"), (1, 0, "-5"))
    ]
    assert show(service, bot)["tokens"] == [told[0], told[2]]
    assert service.pages(f"/api/v1/bots/{bot.bot.uid}/tokens", key, 2) == told


@pytest.mark.usefixtures("agreed_clock")
def test_the_board_shows_the_drawdown_of_its_window(service, bot, get):
    observe(service, W)
    observe_hours(W, {HOUR - 90: 50, HOUR - 80: -90, HOUR - 2: 30, HOUR - 1: -20, HOUR: 30})
    for window, drawdown in (("all", "90"), ("24h", "20")):
        for record in ("forward", "all"):
            (row,) = get(f"leaderboard?record={record}&window={window}").json["data"]
            assert row["maxDrawdownLamports"] == drawdown, (record, window)


def test_the_board_counts_all_wallets_ever_connected(service, bot):
    """Three observed wallets realized -50, 10 and 90, one was never observed; two are
    disconnected.
    """
    median = "medianRealizedLamports"
    names = ("walletsEver", "walletsHeld", "walletsObserved", median)
    assert show_connected() == dict(zip(names, (1, 1, 0, None), strict=True))
    observe(service, W, 10)
    for wallet, realized in ((OTHER, -50), (THIRD, 90), (address("fourth"), None)):
        move(service, bot, wallet)
        if realized is not None:
            observe(service, wallet, realized)
    assert show_connected() == dict(zip(names, (4, 1, 3, "10"), strict=True))
    page = service.get("/leaderboard").text
    assert "1 of 4 wallets ever connected here is still connected." in page


# ---- the profile ---------------------------------------------------------------------------------
def cover(wallet):
    """A complete Coverage, as a page needs it."""
    whole = {**show_coverage(True, None), "state": "complete", "observedFrom": show_time(NOW)}
    Wallet.update(coverage=orjson.dumps(whole).decode()).where(Wallet.address == wallet).execute()


@pytest.mark.usefixtures("agreed_clock")
def test_the_profile_shows_windows_posting_and_owner(service, bot):
    """In the last 24 hours it lost 3 SOL and gained 1 SOL, with 0.5 SOL of cost still held. A
    second wallet has no result.
    """
    observe(service, W, -2 * 10**9)
    losses = {HOUR - 3: -3 * 10**9, HOUR - 2: 10**9, HOUR: 0}
    observe_hours(W, losses, open_cost=5 * 10**8, ended=4, ended_won=1, trades=8, volume=10**10)
    cover(W)
    path = f"/bots/{bot.bot.uid}?tab=record"
    assert "None of its posts about trades has a verified receipt yet" in service.get(path).text
    DelayTotal.create(bot=bot.bot.id, posted=4, within_minute=3, median=20, delays="[]")
    page = service.get(path).text
    (line,) = re.findall(r"<tr><th scope=\"row\">24 hours</th>(.*?)</tr>", page)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", line)
    assert cells == ["−2.000 SOL", "−2.500 SOL", "25%, 1 of 4 positions", "10.00 SOL"]
    assert (
        "It posted about 4 trades with a verified receipt. 75% of those posts came within a minute"
        " of the trade; the median delay is 20 s." in page
    )
    created = "Its owner created 1 bot (0 retired), connected 1 wallet and disconnected 0."
    assert f"{created} A new browser" in page
    move(service, bot, OTHER)
    observe(service, OTHER)
    cover(OTHER)
    page = service.get(path).text
    assert "Together they realized about −2.000 SOL while connected." in page
