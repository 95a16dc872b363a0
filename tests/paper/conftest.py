"""Fixtures of the paper tests."""

import pytest
from stage import Stage


@pytest.fixture(autouse=True)
def lucky(monkeypatch):
    """No attempt to fill fails by chance."""
    monkeypatch.setattr("paper.fills.FAILURE_BPS", 0)


@pytest.fixture
def stage(db, settings):
    """A Stage with MintA."""
    return Stage(settings).list_token()
