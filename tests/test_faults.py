"""Samples of what the benches do in full: the replay node's faults on the wire, and receipts of the
recorded history withheld.
"""

import ground
import pytest

from bench import faults, withheld

LISTS = ["reorder", "duplicate", "lag", "hole", "empty", "short_page", "null_blocktime"]
RECEIPTS = ["null_tx", "wrong_tx", "missing_meta", "bad_id", "nan", "deep", "not_json", "truncated"]


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    with faults.Trial(tmp_path_factory.mktemp("trial"), wallets=1) as made:
        yield made


@pytest.mark.parametrize(
    "names, seed",
    [(faults.NAMES, 1), (faults.NAMES, 2), (LISTS, 3), (RECEIPTS, 3)],
    ids=["all", "all again", "lists", "receipts"],
)
def test_a_fifth_of_all_calls_misbehaves_and_the_ledger_is_the_same(trial, names, seed, capsys):
    """And no reader sees a 5xx meanwhile. `python -m bench faults` gives each of the 33 alone and
    all together, three seeds, three wallets.
    """
    assert not trial.tell(names, 0.2, seed), capsys.readouterr().out
    assert not [status for status in trial.answers if status >= 500]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_withheld_receipt_is_named_and_heals(settings, db, history, number, capsys):
    """Of 120 recorded receipts one. `python -m bench withheld` tries every one."""
    told = ground.change(settings, extra_swap_programs=(history["venue"],))
    assert (
        withheld.try_wallet(told, history, history["wallets"][number - 1], number, every=120) == 0
    ), capsys.readouterr().out
