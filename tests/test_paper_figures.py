"""Figures of paper mode under the names of the interface."""

from web.api import paper_brain

INTERVAL = {"method": "Student t over days", "level": 95}


def test_an_interval_says_what_it_is_also_where_it_was_stored_in_words():
    stored = {"interval": "95 %, clustered", "winRate": 0.5}
    random = {**stored, "of": "all"}
    shown = paper_brain.name_interval({**stored, "randomEntry": random})
    assert shown == {
        **{"interval": INTERVAL, "winRate": 0.5},
        "randomEntry": {"interval": INTERVAL, "winRate": 0.5, "of": "all"},
    }
    assert stored["interval"] == "95 %, clustered"


def test_results_at_other_costs_go_by_name():
    rows = [{"costs": times, "meanReturnPct": -times, "winRate": None} for times in (1, 2, 3)]
    shown = paper_brain.show_at_cost(rows)
    assert list(shown) == ["1x", "2x", "3x"]
    assert shown["2x"] == {"meanReturnPct": -2, "winRate": None}


def test_a_performance_tells_of_its_account():
    """-1,500,000 lamports are -0.0015 SOL; a quarter of the equity is 25 %."""
    metrics = {
        **{"maxDrawdownPct": 3.5, "sharpePerDay": 0.1, "sortinoPerDay": None, "exposure": 0.25},
        **{"expectancyLamports": "-1500000", "profitFactor": None, "feeShare": 0.02},
    }
    assert paper_brain.show_account_figures(metrics) == {
        **{"maxDrawdownPct": 3.5, "sharpeDaily": 0.1, "sortinoDaily": None, "exposurePct": 25.0},
        **{"expectancySol": "-0.0015", "profitFactor": None, "feeShare": 0.02},
    }
    withheld = paper_brain.show_account_figures(None)
    assert set(withheld.values()) == {None} and len(withheld) == 7
