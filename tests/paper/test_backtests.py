"""Backtests: the recording they replay, their results, and the look-ahead check."""

import csv
import io
import re
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest
from stage import RISE, Stage
from tape import DAY, MINUTE, START, Told, quote, token
from test_cli import cli  # noqa: F401  (a fixture)

from accounts import backtests as asked
from accounts.backtests import write_table
from accounts.problem import Problem
from market.tables import Snapshot
from paper import backtests, results
from paper.account import Close
from paper.account import Position as Held
from paper.backtests import COLUMNS, Recording, run_backtest, show_backtest
from paper.engine import Market
from paper.fills import RECORDED_COSTS, NetworkCosts
from paper.market import Flow, View
from paper.measured import CostsFrom, VenueError
from paper.player import DiaryLine
from paper.strategies import Enter, Momentum, show_settings
from paper.tables import NetworkCost, PaperFill, PaperOrder, PaperPosition, SeenFlow

SOL = 10**9


def recording_of(prices, flows=None, **more):
    snapshots = [
        quote(number, price=price, volume=str(50_000 + number * 100))
        for number, price in enumerate(prices)
    ]
    end = START + len(prices) * MINUTE
    return Recording(MINUTE, START, end, {"A": token()}, flows or {}, snapshots, **more)


def closes_at(*rounds):
    """Enter at these rounds and exit three later."""
    return Told(enter_at=rounds, leave_at=tuple(one + 3 for one in rounds))


def show(found):
    return show_backtest(found, "told", "standard")


def report_of(recording, *strategies):
    return show(run_backtest(recording, list(strategies)))


# ---- the recording -------------------------------------------------------------------------------
def test_a_backtest_matches_the_job(stage, monkeypatch):
    """Same engine, same fills: to the lamport the content of the job's tables."""
    monkeypatch.setattr("accounts.traders.TWINS", 0)
    stage.trader(start="standard")
    stage.play(RISE)
    span = backtests.find_recorded()
    assert span == range(START, START + 21 * MINUTE + 1)
    recording = backtests.read_recording(span, MINUTE, stage.now)
    journal = run_backtest(recording, [Momentum()]).shown.trader.journal

    def decided(orders):
        return [(one.number, one.side, one.decided_on) for one in orders]

    assert decided(PaperOrder.select()) == decided(journal.orders.values())
    # Network costs are drawn by handle, which differs.
    first, (fill, _) = PaperFill.get(), journal.fills[0]
    stored = first.snapshot, int(first.raw), first.mid, first.pool_fee
    assert stored == (fill.snapshot, fill.raw, fill.mid, fill.pool_fee)
    (stored,), (played,) = PaperPosition.select(), journal.positions.values()
    assert (stored.closed_at, stored.reason) == (played.closed_at, played.reason)


HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    "interval, age, grain",
    [
        (MINUTE // 6, HOUR // 2, MINUTE // 6),
        (MINUTE // 6, HOUR // 2 + 1, MINUTE),
        (MINUTE, 2 * HOUR, MINUTE),
        (MINUTE, 2 * HOUR + 1, 5 * MINUTE),
        (MINUTE, 24 * HOUR + 1, HOUR),
        (2 * HOUR, 24 * HOUR + 1, 2 * HOUR),
        (MINUTE, 31 * 24 * HOUR, HOUR),
    ],
)
def test_snapshots_are_thinned_with_age(interval, age, grain):
    assert backtests.find_grain(START, interval, START + age) == grain


@pytest.mark.parametrize("page", [2, 5_000])
def test_older_snapshots_are_played_at_their_kept_spacing(stage, monkeypatch, page):
    """They are read in pages, and their IDs have gaps. An unreadable token is left out."""
    sql = backtests.PAGE_OF_SNAPSHOTS.replace("LIMIT 5000", f"LIMIT {page}")
    monkeypatch.setattr(backtests, "PAGE_OF_SNAPSHOTS", sql)
    stage.list_token("MintB").list_token("MintC", checks="no JSON")
    stage.record(["0.001"] * 40, *stage.tokens)
    Snapshot.delete().where(Snapshot.id.in_([1, 2, 5, 59])).execute()
    span = range(START + 7 * MINUTE, START + 31 * MINUTE)
    found = list(backtests.read_recording(span, MINUTE, START + 3 * HOUR).snapshots)
    assert [(one.mint, (one.at - START) // MINUTE) for one in found] == [
        (mint, minute) for minute in (7, 10, 15, 20, 25, 30) for mint in ("MintA", "MintB")
    ]
    rest = range(START, START + 60 * MINUTE)
    assert len(list(backtests.read_recording(rest, MINUTE, rest.stop).snapshots)) == 80 - 4


def test_flows_are_read_from_a_day_before_to_the_end(stage):
    span = range(START, START + 9 * MINUTE)
    for number, at in enumerate((START - DAY - 1, START - DAY, span.stop - 1, span.stop)):
        about = {"trade": f"t{number}", "mint": "MintA", "wallet": "w", "side": "buy"}
        SeenFlow.create(owner=1, at=at, first_snapshot=5, **about)
    flows = tuple(Flow(1, "w", "buy", at, 5) for at in (START - DAY, span.stop - 1))
    assert backtests.read_recording(span, MINUTE, span.stop).flows == {"MintA": flows}


# ---- costs, controls, what counts ----------------------------------------------------------------
@pytest.mark.parametrize(
    "before, first, receipts",
    [((), RECORDED_COSTS, 102), ((-60, -1), NetworkCosts(99, 99, 99), 31)],
)
def test_network_costs_are_those_of_the_time(before, first, receipts):
    """Of the costs known before the recording, the last; without any, the recorded ones. From
    minute 20 on others apply, and those from after its end never do.
    """
    costs = tuple(
        CostsFrom(START + minute * MINUTE, NetworkCosts(*[100 + minute] * 3), 31)
        for minute in (*before, 20, 45)
    )
    found = run_backtest(recording_of(["0.001"] * 40, costs=costs), [closes_at(2, 25)])
    fills = [fill for fill, _ in found.shown.trader.journal.fills]
    assert [fill.costs for fill in fills] == [first] * 2 + [NetworkCosts(120, 120, 120)] * 2
    assert [fill.network_fee for fill in fills[2:]] == [120, 120]
    at_start, later = show(found)["networkCosts"]
    assert at_start == {
        **{"from": "2027-01-15T08:00:00Z", "receipts": receipts},
        **{"source": "own" if before else "recorded", "p50Lamports": str(first.p50)},
        **{"p75Lamports": str(first.p75), "p90Lamports": str(first.p90)},
    }
    assert (later["from"], later["p90Lamports"]) == ("2027-01-15T08:20:00Z", "120")


def test_measured_costs_and_venues_are_used(stage):
    for number in range(3):
        costs = {"p50": number, "p75": 8, "p90": 9, "rent": None, "receipts": 40}
        NetworkCost.create(at=stage.now, since=START, **costs)
        stage.record(["0.001"])
    recording = backtests.read_recording(backtests.find_recorded(), MINUTE, stage.now)
    assert [(one.at, one.costs.p50, one.receipts) for one in recording.costs] == [
        (START + number * MINUTE, number, 40) for number in range(3)
    ]
    assert recording.find_costs(START - 1) == RECORDED_COSTS
    assert recording.find_costs(START + 2 * MINUTE - 1) == NetworkCosts(1, 8, 9)
    assert recording.find_costs(START + 2 * MINUTE) == NetworkCosts(2, 8, 9)
    # Two recorded venues, until this instance has ten fills of its own.
    eligible = [(one.venue, one.eligible) for one in recording.errors]
    assert eligible == [("pumpfun", True), ("raydium", True)]


@pytest.mark.parametrize(
    "receipts, p90, excluded",
    [(10, 300, None), (9, 300, "venue_unproven"), (10, 301, "venue_unproven")],
)
def test_closes_count_where_fills_are_known_to_be_accurate(receipts, p90, excluded):
    errors = (VenueError("raydium", receipts, 5, p90, "own", START),)
    report = report_of(recording_of(["0.001"] * 20, errors=errors), closes_at(2))
    assert [one["excluded"] for one in report["closes"]] == [excluded]
    venue = {"venue": "raydium", "receipts": receipts, "medianBps": 5, "p90Bps": p90}
    assert report["venues"] == [{**venue, "source": "own", "eligible": excluded is None}]


# ---- controls, what counts -----------------------------------------------------------------------
def test_random_entries_are_shown_for_comparison():
    """Three for each close."""
    recording = recording_of(["0.001", "0.00101"] * 40)
    report = report_of(recording, Told(enter_at=(2, 30), leave_at=tuple(range(80))))
    controls = report["controls"]
    assert controls["holdingSol"] == {"returnPct": 0.0, "usdChangePct": None}
    assert (report["closeCount"], controls["randomEntry"]["closes"]) == (2, 6)
    assert sum(one["random"]["eligibleCloses"] for one in report["walkForward"]) == 6
    for figures in (controls["randomEntry"], report["comparison"]):
        assert [at["costs"] for at in figures["atCosts"]] == [1, 2, 3]
        means = [at["meanReturnPct"] for at in figures["atCosts"]]
        assert means[0] > means[1] > means[2] and means[0] == figures["meanReturnPct"]
    table = list(csv.DictReader(io.StringIO(write_table(report))))
    assert [row["account"] for row in table] == ["strategy"] * 2 + ["random"] * 6


def test_a_price_jump_excludes_only_the_affected_positions():
    """Thirtyfold while all hold: a backtest isn't reviewed."""
    recording = recording_of(["0.001"] * 25 + ["0.03"] * 30)
    report = report_of(recording, Told(enter_at=(2,), leave_at=(45,)))
    closes = [*report["closes"], *report["randomCloses"]]
    assert [one["account"] for one in closes] == ["strategy"] + ["random"] * (len(closes) - 1)
    assert {one["excluded"] for one in closes} == {"price_jump"}
    assert not report["reviewed"]
    assert report["controls"]["randomEntry"]["eligibleCloses"] == 0


@pytest.mark.parametrize(
    ("back_at", "reason", "excluded"),
    [(12, "told", "missing_snapshot"), (None, "price_gone", None)],
)
def test_a_dead_token_does_not_affect_other_closes(back_at, reason, excluded):
    """Rounds of ten minutes; B has no snapshots from round 6 on. If it returns in round 12, its
    close doesn't count; if it never does, it is closed at zero a day later, and that counts. Closes
    in A count either way.
    """
    rounds = 40 if back_at else 26 * 6
    alive = [number for number in range(rounds) if number < 6 or (back_at and number >= back_at)]
    seen = [(number, "A") for number in range(rounds)] + [(number, "B") for number in alive]
    recording = Recording(
        *(10 * MINUTE, START, START + rounds * 10 * MINUTE),
        {"A": token("A"), "B": token("B")},
        {},
        [quote(10 * number, mint) for number, mint in sorted(seen)],
    )
    closes = report_of(recording, Told(enter_at=(30, 300), leave_at=(80, 200, 350)))["closes"]
    first_end = closes[0]["closedAt"]
    (dead,) = [one for one in closes if one["mint"] == "B" and one["openedAt"] < first_end]
    assert (dead["reason"], dead["excluded"]) == (reason, excluded)
    assert [one["excluded"] for one in closes if one["mint"] == "A"] == [None, None]


def test_holding_sol_is_shown_in_dollars():
    """A token of 0.001 SOL at 0.15 and then 0.18 dollars: SOL at 150 and 180, up a fifth."""
    snapshots = [quote(number, price_usd=usd) for number, usd in enumerate(["0.15"] * 3 + ["0.18"])]
    recording = replace(recording_of(["0.001"] * 4), snapshots=snapshots)
    assert report_of(recording, Told())["controls"]["holdingSol"]["usdChangePct"] == 20.0


# ---- looking ahead -------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Peeking(Told):
    """Buys what others will buy later."""

    def enter(self, view):
        ahead = any(flow.at > view.last.at for flow in view.flows)
        return Enter("told", "somebody will buy it") if ahead else None


def test_a_strategy_that_looks_ahead_is_detected(monkeypatch):
    bought = {"A": (Flow(1, "wallet", "buy", START + 35 * MINUTE),)}
    recording = recording_of(["0.001", "0.00101"] * 20, bought)
    honest = run_backtest(recording, [Told(enter_at=(3, 30), leave_at=(8, 35))])
    assert honest.difference is None and len(honest.shown.list_closes()) == 2
    # After a quarter, half and three quarters of forty minutes.
    assert honest.cuts == [START + 10 * MINUTE, START + 20 * MINUTE, START + 30 * MINUTE]
    # No view shows later snapshots.
    assert run_backtest(recording, [Peeking()]).difference is None

    def view(market, mint):
        return View(market.tokens[mint], market.windows[mint], market.flows[mint])

    monkeypatch.setattr(Market, "view", view)
    found = run_backtest(recording, [Peeking()])
    assert found.difference.cut == found.cuts[0]
    told = show(found)["lookAhead"]
    assert told["same"] is False and told["difference"]["ended"] is None
    assert "somebody will buy it" in told["difference"]["whole"]["text"]


# ---- settings, folds -----------------------------------------------------------------------------
def test_settings_are_chosen_on_earlier_parts():
    """Rises in the first half of each ten minutes and falls in the second."""
    prices, level = [], 1_000_000
    for number in range(80):
        level = level * (1015 if number % 10 < 5 else 985) // 1000
        prices.append(f"0.00{level:07}")
    rising, falling = closes_at(*range(0, 80, 10)), closes_at(*range(5, 80, 10))
    found = run_backtest(recording_of(prices), [falling, rising])
    # Nothing is known before the first; in the second, two closes are too few to choose by.
    assert [fold.chosen for fold in found.folds] == [0, 0, 1, 1]
    assert [len(fold.within) for fold in found.folds] == [2, 2, 2, 2]
    assert found.shown is found.trials[1]
    means = [backtests.find_mean(player.list_closes()) for player in found.trials]
    assert means[0] < 0 < means[1]
    report = show(found)
    settings = [show_settings(one) for one in (falling, rising)]
    assert [one["settings"] for one in report["candidates"]] == settings
    worse, better = (one["comparison"]["meanReturnPct"] for one in report["candidates"])
    assert worse < 0 < better
    folds = report["walkForward"]
    assert [one["settings"] for one in folds] == [settings[0]] * 2 + [settings[1]] * 2
    assert folds[0]["before"]["meanReturnPct"] is None and folds[3]["before"]["eligibleCloses"] > 2
    assert report["equity"][0]["sol"] == "10" and report["maxDrawdownPct"] > 0


def close(net, spent, **more):
    return Close("", "A", "AA", 0, 1, "stop", net, net, spent, **more)


def test_settings_are_chosen_by_the_mean_return_of_at_least_three_closes():
    """10% of 3, 25% of 4 and -50% of 2 lamports: truncated to millionths, then averaged."""
    two = [close(1, 3), close(1, 4)]
    mean = (333_333 + 250_000 - 500_000) // 3
    assert backtests.find_mean([*two, close(-1, 2)]) == mean
    excluded = close(-1, 2, excluded="stale_price")
    for fewer in (two, [*two, excluded], [*two, close(9, 0)]):
        assert backtests.find_mean(fewer) is None
    poor, fair, good = ([close(net, 100)] * 3 for net in (-1, 2, 3))
    for candidates, chosen in (
        ([poor, fair, good], 2),
        ([good, fair, good], 0),
        ([[], poor, []], 1),
        ([[], good[:2]], 0),
    ):
        assert backtests.choose(candidates) == chosen


@pytest.mark.parametrize("length, cuts, percent", [(1, [0, 0, 0], 0), (200, [50, 100, 150], 2)])
def test_progress_is_reported_in_percent(length, cuts, percent):
    """Two tokens at one moment, 5 ms after the beginning if there are as many."""
    at, noted = START + min(5, length - 1), []
    moment = [quote(0, "A", at=at), quote(0, "B", at=at)]
    recording = Recording(MINUTE, START, START + length, {"A": token()}, {}, moment)
    found = run_backtest(recording, [closes_at(2)], "guarded", noted.append)
    assert found.cuts == [START + cut for cut in cuts] and noted == [percent]
    assert found.snapshots == 2 and found.difference is None
    assert found.shown.trader.phase.name == "guarded"
    starts = [fold.start - START for fold in found.folds]
    assert starts == [length * number // 4 for number in range(4)]
    assert [fold.end - START for fold in found.folds] == [*starts[1:], length]


def test_combinations_become_candidates():
    found = asked.find_candidates("momentum", ["riseBps=400,600", "timeStop=9,10"])
    pairs = [(one.rise_bps, one.time_stop) for one in found]
    assert pairs == [(400, 9), (400, 10), (600, 9), (600, 10)]


NO_COPY = "copy can't be backtested; must be one of: momentum"
TOO_MANY = "at most 24 combinations"
LONG = ",".join(str(one) for one in range(24))


@pytest.mark.parametrize(
    "family, given, field, message",
    [
        *(
            ("momentum", [one], "set", None)
            for one in ("riseBps", "riseBps=x", "riseBps=1", "nothing=7", "riseBps=1,", "a=1;b")
        ),
        ("momentum", [f"setting{one}=0,1,2,3,4" for one in range(2)], "set", TOO_MANY),
        # They are counted before they are built: 24**12 are more than any memory.
        ("momentum", [f"setting{one}={LONG}" for one in range(12)], "set", TOO_MANY),
        ("copy", [], "family", NO_COPY),
        ("copy", ["bot=bot_4f1c"], "family", NO_COPY),
    ],
)
def test_invalid_settings_are_refused(family, given, field, message):
    with pytest.raises(Problem, match=message) as refused:
        asked.find_candidates(family, given)
    assert refused.value.errors[0]["field"] == field


@pytest.mark.parametrize(
    "text, ms",
    [
        ("2026-11-01", 1_793_491_200_000),
        ("2026-11-01T01:00:00Z", 1_793_494_800_000),
        ("2026-11-01T01:00:00+01:00", 1_793_491_200_000),
        ("", 7),
        ("yesterday", None),
        ("2026-13-01", None),
        ("99999-01-01", None),
    ],
)
def test_times_are_days_or_timestamps(text, ms):
    with nullcontext() if ms else pytest.raises(Problem):
        assert asked.parse_time("from", text, 7) == ms


# ---- the result ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("spent", "shown"), [(3 * SOL, 33.33), (0, None)])
def test_a_close_is_shown_in_lamports_and_percent_of_its_cost(spent, shown):
    made = Close("7", "A", "AA", START, START + 1_000, "stop", 2 * SOL, SOL, spent, "stale_price")
    assert backtests.show_close(made) == {
        **{"openedAt": "2027-01-15T08:00:00Z", "closedAt": "2027-01-15T08:00:01Z"},
        **{"mint": "A", "symbol": "AA", "reason": "stop", "grossLamports": "2000000000"},
        **{"netLamports": "1000000000", "spentLamports": str(spent), "returnPct": shown},
        **{"excluded": "stale_price", "account": "strategy"},
    }


def test_a_result_is_described_completely():
    """From 10 SOL: 11.5 and a position worth 1 are 25% more; half of 11.5 is 42.5% less, and SOL
    rose from 200 to 230 dollars. The closes returned -10% and 20% in one token within an hour.
    """
    recording = recording_of(["0.001"] * 4)
    player = backtests.Trial.prepare(recording, closes_at(2), "standard", recording.end)
    trader = player.trader
    trader.account.cash = 11 * SOL + SOL // 2
    held = Held(9, "B", "BB", 6, START, 1, 1, START, 1, 1, worth=SOL)
    trader.account.positions["B"] = held
    for who, returns in ((trader, (-1, 2)), (trader.twins[0], (3,))):
        for number, net in enumerate(returns, start=1):
            at = START + number * MINUTE
            about = {"mid_sold": net + 5, "cash": net, "spent": 10, "reason": "stop"}
            who.journal.positions[number] = Held(
                *(number, "A", "AA", 6, at, 1, 1, at, 1, 1), **about, closed_at=at + 30_000
            )
    for twin in trader.twins:
        twin.account.cash = trader.account.cash // 2
    player.curve = [backtests.Point(START, 10 * SOL), backtests.Point(START + 1_000, 11 * SOL)]
    player.drawdown_bps = 1_234
    player.sol_cents_first, player.market.sol_cents = 200_00, 230_00
    closes, random = player.list_closes(), player.list_random()
    fold = backtests.Fold(START, recording.end, 0, closes[:1], closes, random)
    line = DiaryLine("refusal", START + 2_000, {"symbol": "AA", "detail": "too thin"})
    difference = backtests.Difference(START + MINUTE, None, line)
    report = show(backtests.Backtest(recording, [player], [fold], [START + MINUTE], difference, 7))

    def rates(count, mean, rate):
        shown = {"eligibleCloses": count, "clusters": 1}
        return {**shown, "meanReturnPct": mean, "winRate": rate}

    at, second, cut, end = (
        f"2027-01-15T08:{time}Z" for time in ("00:00", "00:01", "01:00", "04:00")
    )
    settings = show_settings(closes_at(2))
    mine = {
        **{"returnPct": 25.0, "maxDrawdownPct": 12.34, "equitySol": "12.5", "closeCount": 2},
        **{"openPositions": 1, "reviewed": False, "comparison": results.compare(closes, 10 * SOL)},
        "controls": {
            "holdingSol": {"returnPct": 0.0, "usdChangePct": 15.0},
            "randomEntry": {
                **{"equitySol": "5.75", "returnPct": -42.5, "accounts": 3, "closes": 1},
                **results.describe(random, 30 * SOL),
            },
        },
    }
    ended = {"at": "2027-01-15T08:00:02Z", "text": "Refused AA: too thin."}
    # Other tests cover these.
    for name in ("networkCosts", "venues"):
        del report[name]
    assert report == {
        **{"simulated": True, "kind": "backtest", "family": "told", "startMode": "standard"},
        **{"pipeline": "paper/5 amm-cp/3", "model": "amm-cp/3", "snapshots": 7, "tokens": 1},
        **{"from": at, "to": end, "intervalSeconds": 60, "settings": settings, **mine},
        "equity": [{"at": at, "sol": "10"}, {"at": second, "sol": "11"}],
        "closes": [backtests.show_close(close) for close in closes],
        "randomCloses": [{**backtests.show_close(random[0]), "account": "random"}],
        "candidates": [{"settings": settings, **mine}],
        "walkForward": [
            {
                **{"from": at, "to": end, "settings": settings, "before": rates(1, -10.0, 0.0)},
                **{"within": rates(2, 5.0, 0.5), "random": rates(1, 30.0, 1.0)},
            }
        ],
        "lookAhead": {
            **{"cuts": [cut], "same": False},
            "difference": {"cut": cut, "whole": None, "ended": ended},
        },
        "notes": list(backtests.NOTES),
    }
    # Afterwards, because a review also excludes the closes.
    trader.reviewed = True
    assert backtests._show_trial(player)["reviewed"] is True


def test_curve_points_keep_their_spacing():
    """For a recording of 2 x MAX_POINTS minutes, every second minute is a point."""
    end = START + 2 * backtests.MAX_POINTS * MINUTE
    recording = replace(recording_of(["0.001"] * 5), end=end)
    player = backtests.Trial.prepare(recording, closes_at(50, 60), "standard", end)
    for one in recording.snapshots:
        player.play(one.at, [one])
    assert [(point.at - START) // MINUTE for point in player.curve] == [0, 2, 4]
    player.play(end, [quote(9)])
    assert len(player.curve) == 3


@pytest.mark.parametrize("symbol", ["=cmd|' /C calc'!A0", "\n=1+1", "\t=1+1"])
def test_closes_as_csv_contain_no_formulas(symbol):
    closes = report_of(recording_of(["0.001"] * 12), closes_at(0, 6))["closes"]
    closes[0]["symbol"] = symbol
    table = list(csv.DictReader(io.StringIO(write_table({"closes": closes}), newline="")))
    assert tuple(table[0]) == COLUMNS and len(table) == 2
    assert table[0]["symbol"] == f"'{symbol}"
    assert table[1]["netLamports"] == closes[1]["netLamports"]


# ---- the command ---------------------------------------------------------------------------------
def test_the_command_plays_the_recording(cli, settings, monkeypatch):  # noqa: F811
    def backtest(*options):
        return cli("trader", "backtest", "--family", "momentum", *options)

    monkeypatch.setattr("time.time_ns", lambda: (START + 60 * MINUTE) * 10**6)
    code, _, err = backtest()
    assert code == 1 and "no prices are recorded" in err
    Stage(settings).list_token().record(RISE)
    code, out, err = backtest("--json")
    assert code == 0 and '"closeCount": 1' in out and '"simulated": true' in out
    # Nothing is stored.
    assert "100%" in err and not PaperOrder.select().exists()
    code, out, _ = backtest("--set", "riseBps=600,900")
    assert code == 0 and "SIMULATED" in out and "same decisions" in out
    assert re.search(r"^return -?[\d.]+%, max drawdown [\d.]+%, equity", out, re.M)
    assert "1 clusters (thin); mean" in out and " %" not in out
    code, out, _ = backtest("--csv", "-")
    assert code == 0 and out.startswith("closedAt,") and out.count(",strategy") == 1
    assert backtest("--family", "astrology")[0] == 1
    assert backtest("--from", "2099-01-01")[0] == 1
