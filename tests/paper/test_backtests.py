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
from paper.backtests import COLUMNS, Recording, show_backtest
from paper.engine import Market
from paper.fills import RECORDED_COSTS, NetworkCosts
from paper.market import Flow, View
from paper.measured import CostsFrom, VenueError
from paper.player import DiaryLine
from paper.strategies import Enter, Momentum, show_settings
from paper.tables import NetworkCost, PaperFill, PaperOrder, PaperPosition, SeenFlow

SOL = 10**9


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


def recording_of(prices, flows=None, **more):
    snapshots = [
        quote(number, price=price, volume=str(50_000 + number * 100))
        for number, price in enumerate(prices)
    ]
    end = START + len(prices) * MINUTE
    return Recording(MINUTE, START, end, {"A": token()}, flows or {}, snapshots, **more)


# ---- the engine, the fills -----------------------------------------------------------------------
def test_a_backtest_matches_the_job(db, settings, monkeypatch):
    """Same engine, same fills: to the lamport the content of the job's tables."""
    monkeypatch.setattr("accounts.traders.TWINS", 0)
    stage = Stage(settings).list_token()
    stage.trader(start="standard")
    stage.play(RISE)
    span = backtests.find_recorded()
    assert span == range(START, START + 21 * MINUTE + 1)
    recording = backtests.read_recording(span, MINUTE, stage.now)
    journal = backtests.run_backtest(recording, [Momentum()]).shown.trader.journal
    stored = [(one.number, one.side, one.decided_on) for one in PaperOrder.select()]
    played = [(one.number, one.side, one.decided_on) for one in journal.orders.values()]
    assert stored == played and len(stored) == 2
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
    ],
)
def test_snapshots_are_thinned_with_age(interval, age, grain):
    assert backtests.find_grain(START, interval, START + age) == grain


def test_older_snapshots_are_played_at_their_kept_spacing(db, settings):
    """IDs have gaps where snapshots were thinned."""
    stage = Stage(settings).list_token().list_token("MintB")
    for _ in range(40):
        stage.snapshot()
        stage.snapshot("MintB")
        stage.round += 1
    Snapshot.delete().where(Snapshot.id.in_([1, 2, 5, 40])).execute()
    span = range(START + 7 * MINUTE, START + 31 * MINUTE)
    found = list(backtests.read_recording(span, MINUTE, START + 3 * HOUR).snapshots)
    assert [(one.mint, (one.at - START) // MINUTE) for one in found] == [
        (mint, minute) for minute in (7, 10, 15, 20, 25, 30) for mint in ("MintA", "MintB")
    ]


# ---- costs, controls, what counts ----------------------------------------------------------------
def test_network_costs_are_those_of_the_time():
    """Recorded quantiles until this instance had its own, from round 20 on."""
    own = NetworkCosts(7, 7, 7)
    recording = replace(
        recording_of(["0.001"] * 40), costs=(CostsFrom(START + 20 * MINUTE, own, 31),)
    )
    found = backtests.run_backtest(recording, [closes_at(2, 25)])
    fills = [fill for fill, _ in found.shown.trader.journal.fills]
    assert [fill.costs for fill in fills] == [RECORDED_COSTS] * 2 + [own] * 2
    assert [fill.network_fee for fill in fills[2:]] == [7, 7]
    first, second = show_backtest(found, "told", "standard")["networkCosts"]
    assert (first["source"], first["receipts"], first["p90Lamports"]) == (
        *("recorded", 102, "3047000"),
    )
    assert (second["source"], second["receipts"], second["p90Lamports"]) == ("own", 31, "7")


def test_measured_costs_and_venues_are_used(db, settings):
    stage = Stage(settings).list_token()
    for number in range(3):
        stage.snapshot()
        NetworkCost.create(
            at=stage.now, p50=number, p75=8, p90=9, rent=None, receipts=40, since=START
        )
        stage.round += 1
    span = backtests.find_recorded()
    recording = backtests.read_recording(span, MINUTE, stage.now)
    assert [(one.at, one.costs.p50, one.receipts) for one in recording.costs] == [
        (START + number * MINUTE, number, 40) for number in range(3)
    ]
    assert recording.find_costs(START - 1) == RECORDED_COSTS
    assert recording.find_costs(START + 2 * MINUTE - 1) == NetworkCosts(1, 8, 9)
    # Two recorded venues, until this instance has ten fills of its own.
    assert [(one.venue, one.eligible) for one in recording.errors] == [
        *(("pumpfun", True), ("raydium", True))
    ]


@pytest.mark.parametrize(
    "receipts, p90, excluded",
    [(10, 300, None), (9, 300, "venue_unproven"), (10, 301, "venue_unproven")],
)
def test_closes_count_where_fills_are_known_to_be_accurate(receipts, p90, excluded):
    errors = (VenueError("raydium", receipts, 5, p90, "own", START),)
    recording = replace(recording_of(["0.001"] * 20), errors=errors)
    report = show_backtest(backtests.run_backtest(recording, [closes_at(2)]), "told", "standard")
    assert [one["excluded"] for one in report["closes"]] == [excluded]
    assert report["venues"] == [
        {
            **{"venue": "raydium", "receipts": receipts, "medianBps": 5, "p90Bps": p90},
            **{"source": "own", "eligible": excluded is None},
        }
    ]


def test_random_entries_of_the_same_size_are_shown_and_change_nothing(monkeypatch):
    """Each twin holds as long as the strategy did."""
    recording = recording_of(["0.001", "0.00101"] * 40)
    told = Told(enter_at=(2, 30), leave_at=tuple(range(80)))
    found = backtests.run_backtest(recording, [told])
    report, trader = show_backtest(found, "told", "standard"), found.shown.trader
    controls = report["controls"]
    assert controls["holdingSol"] == {"returnPct": 0.0, "usdChangePct": None}
    assert (report["closeCount"], controls["randomEntry"]["closes"]) == (2, 6)
    assert [one["account"] for one in report["randomCloses"]] == ["random"] * 6
    bought = trader.journal.orders[1]
    for twin in trader.twins:
        drawn = twin.journal.orders[1]
        assert drawn.amount == bought.amount and drawn.decided_at >= bought.decided_at
    assert sum(one["random"]["eligibleCloses"] for one in report["walkForward"]) == 6
    for figures in (controls["randomEntry"], report["comparison"]):
        assert [at["costs"] for at in figures["atCosts"]] == [1, 2, 3]
        means = [at["meanReturnPct"] for at in figures["atCosts"]]
        assert means[0] > means[1] > means[2] and means[0] == figures["meanReturnPct"]
    table = list(csv.DictReader(io.StringIO(write_table(report))))
    assert [row["account"] for row in table] == ["strategy"] * 2 + ["random"] * 6

    monkeypatch.setattr("paper.engine.play_twins", lambda *arguments: None)
    alone = backtests.run_backtest(recording, [told]).shown.trader.journal
    alone.followed = trader.journal.followed
    assert alone == trader.journal


def test_a_price_jump_excludes_only_the_affected_positions():
    """Thirtyfold while all hold: a backtest isn't reviewed."""
    recording = recording_of(["0.001"] * 25 + ["0.03"] * 30)
    found = backtests.run_backtest(recording, [Told(enter_at=(2,), leave_at=(45,))])
    report = show_backtest(found, "told", "standard")
    closes = [*report["closes"], *report["randomCloses"]]
    assert [(one["account"], one["excluded"]) for one in closes] == [
        ("strategy", "price_jump"),
        *[("random", "price_jump")] * (len(closes) - 1),
    ]
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
    asked_for = Told(enter_at=(30, 300), leave_at=(80, 200, 350))
    found = backtests.run_backtest(recording, [asked_for])
    closes = show_backtest(found, "told", "standard")["closes"]
    (dead,) = [
        one for one in closes if one["mint"] == "B" and one["openedAt"] < closes[0]["closedAt"]
    ]
    assert (dead["reason"], dead["excluded"]) == (reason, excluded)
    assert [one["excluded"] for one in closes if one["mint"] == "A"] == [None, None]


def test_holding_sol_is_shown_in_dollars():
    """A token of 0.001 SOL at 0.15 and then 0.18 dollars: SOL at 150 and 180, up a fifth."""
    snapshots = [quote(number, price_usd=usd) for number, usd in enumerate(["0.15"] * 3 + ["0.18"])]
    recording = replace(recording_of(["0.001"] * 4), snapshots=snapshots)
    report = show_backtest(backtests.run_backtest(recording, [Told()]), "told", "standard")
    assert report["controls"]["holdingSol"]["usdChangePct"] == 20.0


# ---- looking ahead -------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Peeking(Told):
    """Buys what others will buy later."""

    def enter(self, view):
        ahead = any(flow.at > view.last.at for flow in view.flows)
        return Enter("told", "somebody will buy it") if ahead else None


def test_a_strategy_that_looks_ahead_is_detected(monkeypatch):
    bought = {"A": (Flow(1, "wallet", "buy", START + 35 * MINUTE),)}
    recording = replace(recording_of(["0.001", "0.00101"] * 20), flows=bought)
    honest = backtests.run_backtest(recording, [Told(enter_at=(3, 30), leave_at=(8, 35))])
    assert honest.difference is None and len(honest.shown.list_closes()) == 2
    # After a quarter, half and three quarters of forty minutes.
    assert honest.cuts == [START + 10 * MINUTE, START + 20 * MINUTE, START + 30 * MINUTE]
    # No view shows later snapshots.
    assert backtests.run_backtest(recording, [Peeking()]).difference is None

    monkeypatch.setattr(
        Market,
        "view",
        lambda self, mint: View(self.tokens[mint], self.windows[mint], self.flows[mint]),
    )
    found = backtests.run_backtest(recording, [Peeking()])
    assert found.difference is not None and found.difference.cut == found.cuts[0]
    told = show_backtest(found, "told", "standard")["lookAhead"]
    assert told["same"] is False and "somebody will buy it" in told["difference"]["whole"]["text"]
    assert told["difference"]["ended"] is None


# ---- settings, folds -----------------------------------------------------------------------------
def closes_at(*rounds):
    """Enter at these rounds and exit three later."""
    return Told(enter_at=rounds, leave_at=tuple(one + 3 for one in rounds))


def test_settings_are_chosen_on_earlier_parts():
    """Rises in the first half of each ten minutes and falls in the second."""
    prices, level = [], 1_000_000
    for number in range(80):
        level = level * (1015 if number % 10 < 5 else 985) // 1000
        prices.append(f"0.00{level:07}")
    rising = closes_at(*range(0, 80, 10))
    falling = closes_at(*range(5, 80, 10))
    found = backtests.run_backtest(recording_of(prices), [falling, rising])
    # Nothing is known before the first; in the second, two closes are too few to choose by.
    assert [fold.chosen for fold in found.folds] == [0, 0, 1, 1]
    assert [len(fold.within) for fold in found.folds] == [2, 2, 2, 2]
    assert found.shown is found.trials[1]
    means = [backtests.find_mean(player.list_closes()) for player in found.trials]
    assert means[0] < 0 < means[1]
    report = show_backtest(found, "told", "standard")
    assert len(report["candidates"]) == 2
    assert report["walkForward"][3]["before"]["eligibleCloses"] > 2
    assert report["equity"][0]["sol"] == "10" and report["maxDrawdownPct"] > 0


def test_settings_are_chosen_by_the_mean_return_of_at_least_three_closes():
    """10% of 3, 25% of 4 and -50% of 2 lamports: truncated to millionths, then averaged."""

    def closes(*results, **more):
        return [
            Close(str(n), "A", "AA", n, n + 1, "stop", net, net, spent, **more)
            for n, (net, spent) in enumerate(results)
        ]

    three = closes((1, 3), (1, 4), (-1, 2))
    assert backtests.find_mean(three) == (333_333 + 250_000 - 500_000) // 3
    for fewer in (three[:2], [*three[:2], *closes((-1, 2), excluded="stale_price")]):
        assert backtests.find_mean(fewer) is None
    assert backtests.find_mean([*three[:2], *closes((9, 0))]) is None
    poor, fair, good = (closes(*[(net, 100)] * 3) for net in (-1, 2, 3))
    assert [backtests.choose(one) for one in ([poor, fair, good], [good, fair, good])] == [2, 0]
    assert [backtests.choose(one) for one in ([[], poor, []], [[], good[:2]])] == [1, 0]


@pytest.mark.parametrize("length, cuts, percent", [(1, [0, 0, 0], 0), (200, [50, 100, 150], 2)])
def test_progress_is_reported_in_percent(length, cuts, percent):
    """Two tokens at one moment, 5 ms after the beginning if there are as many."""
    at, noted = START + min(5, length - 1), []
    moment = [quote(0, "A", at=at), quote(0, "B", at=at)]
    told = Recording(MINUTE, START, START + length, {"A": token()}, {}, moment)
    found = backtests.run_backtest(told, [closes_at(2)], "guarded", noted.append)
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


@pytest.mark.parametrize(
    "given",
    ["riseBps", "riseBps=x", "riseBps=1", "nothing=7", "riseBps=1,", "a=1;b"],
)
def test_invalid_settings_are_refused(given):
    with pytest.raises(Problem) as refused:
        asked.find_candidates("momentum", [given])
    assert refused.value.errors[0]["field"] == "set"


@pytest.mark.parametrize("count, values", [(2, 5), (12, 24)])
def test_combinations_are_counted_before_they_are_built(count, values):
    """24**12 combinations are more than any memory."""
    told = ",".join(str(one) for one in range(values))
    with pytest.raises(Problem, match="at most 24 combinations"):
        asked.find_candidates("momentum", [f"setting{one}={told}" for one in range(count)])


@pytest.mark.parametrize("settings", [[], ["bot=bot_4f1c"]])
def test_copy_has_no_backtest(settings):
    with pytest.raises(
        Problem, match="copy can't be backtested; must be one of: momentum"
    ) as refused:
        asked.find_candidates("copy", settings)
    assert refused.value.errors[0]["field"] == "family"


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


@pytest.mark.parametrize(("spent", "shown"), [(3 * SOL, 33.33), (0, None)])
def test_a_close_is_shown_in_lamports_and_percent_of_its_cost(spent, shown):
    close = Close("7", "A", "AA", START, START + 1_000, "stop", 2 * SOL, SOL, spent, "stale_price")
    assert backtests.show_close(close) == {
        "closedAt": "2027-01-15T08:00:01Z",
        "openedAt": "2027-01-15T08:00:00Z",
        **{"mint": "A", "symbol": "AA", "reason": "stop", "grossLamports": "2000000000"},
        **{"netLamports": "1000000000", "spentLamports": str(spent), "returnPct": shown},
        **{"excluded": "stale_price", "account": "strategy"},
    }


def finished(told, strategy, cash, closes, random):
    """A player that ended with this much cash, a position worth a SOL, a close for each (net,
    spent), and twins that ended with half of its cash, the first with `random`.
    """
    player = backtests.Trial.prepare(told, strategy, "standard", told.end)
    for who, had, brought in (
        (player.trader, cash, closes),
        (player.trader.twins[0], cash // 2, random),
        (player.trader.twins[1], cash // 2, []),
        (player.trader.twins[2], cash // 2, []),
    ):
        who.account.cash = had
        for number, (net, spent) in enumerate(brought, start=1):
            at = START + number * MINUTE
            about = {"mid_sold": net + 5, "cash": net, "spent": spent, "marks": ()}
            who.journal.positions[number] = Held(
                *(number, "A", "AA", 6, at, 1, 1, at, 1, 1),
                **{**about, "closed_at": at + 30_000, "reason": "stop"},
            )
    player.trader.account.positions["B"] = Held(
        9, "B", "BB", 6, START, 1, 1, START, 1, 1, worth=SOL
    )
    player.curve = [backtests.Point(START, 10 * SOL), backtests.Point(START + 1_000, 11 * SOL)]
    player.drawdown_bps = 1_234
    return player


def test_a_result_is_described_completely():
    """From 10 SOL: 11.5 and a position worth 1 are 25% more; half of 11.5 is 42.5% less, and SOL
    rose from 200 to 230 dollars. The closes returned -10% and 20% in one token within an hour.
    """
    told = recording_of(["0.001"] * 4, errors=(VenueError("x", 10, 5, 300, "own", 1),))
    player = finished(told, closes_at(2), 11 * SOL + SOL // 2, [(-1, 10), (2, 10)], [(3, 10)])
    player.sol_cents_first, player.market.sol_cents = 200_00, 230_00
    other = finished(told, closes_at(3), 9 * SOL, [], [])
    other.trader.reviewed = True
    closes, random = player.list_closes(), player.list_random()
    folds = [backtests.Fold(START, told.end, 1, [], [], [])]
    folds.append(backtests.Fold(START + MINUTE, told.end, 0, closes[:1], closes, random))
    line = DiaryLine("refusal", START + 2_000, {"symbol": "AA", "detail": "too thin"})
    difference = backtests.Difference(START + MINUTE, None, line)
    tested = backtests.Backtest(told, [player, other], folds, [START + MINUTE], difference, 7)
    at, one, end = (f"2027-01-15T08:{time}Z" for time in ("00:00", "01:00", "04:00"))
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
    theirs = {
        **{"returnPct": 0.0, "maxDrawdownPct": 12.34, "equitySol": "10", "closeCount": 0},
        **{"openPositions": 1, "reviewed": True, "comparison": results.compare([], 10 * SOL)},
        "controls": {
            "holdingSol": {"returnPct": 0.0, "usdChangePct": None},
            "randomEntry": {
                **{"equitySol": "4.5", "returnPct": -55.0, "accounts": 3, "closes": 0},
                **results.describe([], 30 * SOL),
            },
        },
    }
    settings, others = show_settings(closes_at(2)), show_settings(closes_at(3))
    nothing = {"eligibleCloses": 0, "clusters": 0, "meanReturnPct": None, "winRate": None}
    lost, both, won = (
        {"eligibleCloses": count, "clusters": 1, "meanReturnPct": mean, "winRate": rate}
        for count, mean, rate in ((1, -10.0, 0.0), (2, 5.0, 0.5), (1, 30.0, 1.0))
    )
    cost = {"from": at, "p50Lamports": "25000", "p75Lamports": "776831"}
    assert show_backtest(tested, "told", "standard") == {
        **{"simulated": True, "kind": "backtest", "family": "told", "startMode": "standard"},
        **{"settings": settings, "pipeline": "paper/5 amm-cp/3", "model": "amm-cp/3"},
        **{"from": at, "to": end, "intervalSeconds": 60, "snapshots": 7, "tokens": 1},
        **mine,
        "equity": [{"at": at, "sol": "10"}, {"at": "2027-01-15T08:00:01Z", "sol": "11"}],
        "closes": [backtests.show_close(close) for close in closes],
        "randomCloses": [{**backtests.show_close(random[0]), "account": "random"}],
        "networkCosts": [{**cost, "p90Lamports": "3047000", "receipts": 102, "source": "recorded"}],
        "venues": [
            {
                **{"venue": "x", "receipts": 10, "medianBps": 5, "p90Bps": 300},
                **{"source": "own", "eligible": True},
            }
        ],
        "candidates": [{"settings": settings, **mine}, {"settings": others, **theirs}],
        "walkForward": [
            {
                **{"from": at, "to": end, "settings": others},
                **dict.fromkeys(("before", "within", "random"), nothing),
            },
            {
                **{"from": one, "to": end, "settings": settings},
                **{"before": lost, "within": both, "random": won},
            },
        ],
        "lookAhead": {
            **{"cuts": [one], "same": False},
            "difference": {
                **{"cut": one, "whole": None},
                "ended": {"at": "2027-01-15T08:00:02Z", "text": "Refused AA: too thin."},
            },
        },
        "notes": list(backtests.NOTES),
    }


@pytest.mark.parametrize("symbol", ["=cmd|' /C calc'!A0", "\n=1+1", "\t=1+1"])
def test_closes_as_csv_contain_no_formulas(symbol):
    found = backtests.run_backtest(recording_of(["0.001"] * 12), [closes_at(0, 6)])
    closes = show_backtest(found, "told", "standard")["closes"]
    closes[0]["symbol"] = symbol
    table = list(csv.DictReader(io.StringIO(write_table({"closes": closes}), newline="")))
    assert tuple(table[0]) == COLUMNS and len(table) == 2
    assert table[0]["symbol"] == f"'{symbol}"
    assert table[1]["netLamports"] == closes[1]["netLamports"]


# ---- the command ---------------------------------------------------------------------------------
def test_the_command_plays_the_recording(cli, settings, monkeypatch):  # noqa: F811
    monkeypatch.setattr("time.time_ns", lambda: (START + 60 * MINUTE) * 10**6)
    code, _, err = cli("trader", "backtest", "--family", "momentum")
    assert code == 1 and "no prices are recorded" in err
    stage = Stage(settings).list_token()
    stage.record(RISE)
    code, out, err = cli("trader", "backtest", "--family", "momentum", "--json")
    assert code == 0 and '"closeCount": 1' in out and '"simulated": true' in out
    # Nothing is stored.
    assert "100%" in err and not PaperOrder.select().exists()
    code, out, _ = cli("trader", "backtest", "--family", "momentum", "--set", "riseBps=600,900")
    assert code == 0 and "SIMULATED" in out and "same decisions" in out
    assert re.search(r"^return -?[\d.]+%, max drawdown [\d.]+%, equity", out, re.M)
    assert "1 clusters (thin); mean" in out and " %" not in out
    code, out, _ = cli("trader", "backtest", "--family", "momentum", "--csv", "-")
    assert code == 0 and out.startswith("closedAt,") and out.count(",strategy") == 1
    assert cli("trader", "backtest", "--family", "astrology")[0] == 1
    assert cli("trader", "backtest", "--family", "momentum", "--from", "2099-01-01")[0] == 1


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


def test_earlier_costs_apply_at_the_recordings_start():
    """Of the costs known an hour and a minute before it, the later; none from after its end."""
    own = [NetworkCosts(number, 8, 9) for number in range(4)]
    moments = (START - 60 * MINUTE, START - MINUTE, START + 2 * MINUTE, START + 5 * MINUTE)
    costs = tuple(CostsFrom(at, one, 40) for at, one in zip(moments, own, strict=True))
    shown = backtests._show_costs(replace(recording_of(["0.001"] * 5), costs=costs))
    assert [(one["from"], one["p50Lamports"]) for one in shown] == [
        ("2027-01-15T08:00:00Z", "1"),
        ("2027-01-15T08:02:00Z", "2"),
    ]


def test_flows_are_read_from_a_day_before_to_the_end(db, settings):
    Stage(settings).list_token()
    span = range(START, START + 9 * MINUTE)
    moments = (START - DAY - 1, START - DAY, span.stop - 1, span.stop)
    for number, at in enumerate(moments):
        about = {"trade": f"t{number}", "mint": "MintA", "wallet": "w", "side": "buy"}
        SeenFlow.create(owner=1, at=at, first_snapshot=5, **about)
    recording = backtests.read_recording(span, MINUTE, span.stop)
    assert recording.flows == {
        "MintA": tuple(Flow(1, "w", "buy", at, 5) for at in (START - DAY, span.stop - 1))
    }


def test_snapshots_are_read_in_pages_for_known_tokens(db, settings, monkeypatch):
    monkeypatch.setattr(backtests, "PAGE", 2)
    smaller = backtests.PAGE_OF_SNAPSHOTS.replace("LIMIT 5000", "LIMIT 2")
    monkeypatch.setattr(backtests, "PAGE_OF_SNAPSHOTS", smaller)
    stage = Stage(settings).list_token().list_token("MintB")
    made = []
    for mint in ("MintA", "MintB", "MintA", "MintA", "MintA", "MintA"):
        made.append(stage.snapshot(mint).id)
        stage.round += 1
    span = range(START + MINUTE, START + 5 * MINUTE)
    found = backtests._list_snapshots(span, {"MintA": token()})
    assert [one.id for one in found] == made[2:5]
    whole = range(START, START + 60 * MINUTE)
    assert len(list(backtests._list_snapshots(whole, {"MintA": 1, "MintB": 1}))) == 6
