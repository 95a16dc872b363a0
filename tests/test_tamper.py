"""Samples of what `python -m bench tamper` does with every recorded receipt."""

import pytest

from bench import tamper


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    with tamper.Trial(tmp_path_factory.mktemp("trial"), [3]) as made:
        made.turn_to(0)
        yield made


def test_untouched_is_the_same(trial):
    report = trial.audit(trial.bot.uid)
    assert (report.verdict, report.receipts) == ("same", 237)


def test_every_number_of_every_receipt_is_named(trial):
    tried, missed = trial.change_lamports(["sol_change", "result"])
    # Every receipt has the one, sales of known cost the other.
    assert tried > 237 and not missed


def test_receipts_left_out_are_named(trial):
    assert trial.leave_out(every=120) == (2, 0)


def test_verifications_that_are_moved_and_words_that_are_changed_are_named(trial, monkeypatch):
    monkeypatch.setattr(tamper, "STATUSES", ("none",))
    # Each of six posts, which the log names when their words change.
    assert trial.move_verifications(every=40) == (6, 0)
    assert trial.change_words() == (6, 0)
