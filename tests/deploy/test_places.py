"""Tables and evidence: limits on concurrent requests per address and in total, by what they
read.
"""

import pytest
from service import Service, address

from accounts.problem import Problem
from models import Bot
from web.server import application
from web.server.application import Places


def test_an_address_has_two_slots_and_everyone_together_six() -> None:
    made = Places()
    first = made.take("a")
    made.take("a")
    with pytest.raises(Problem) as refused:
        made.take("a")
    assert refused.value.code == "busy" and "Retry-After" in refused.value.headers
    for network in "bbcc":
        made.take(network)
    with pytest.raises(Problem):
        made.take("d")
    first()
    first()
    made.take("d")
    with pytest.raises(Problem):
        made.take("d")


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path / "data")
    made.make_bot("Ada", address("w"))
    made.observe_trades(address("w"), [f"t{number}" for number in range(205)])
    yield made
    made.close()


def find_bot(service):
    with service.database.connection_context():
        return Bot.get().uid


def test_a_csv_holds_its_slot_until_sent_or_aborted(service, monkeypatch):
    monkeypatch.setattr(application, "MAX_PLACES_OF_ADDRESS", 1)
    path = f"/bots/{find_bot(service)}/trades.csv"
    first = service.get(path, buffered=False)
    parts = first.iter_encoded()
    next(parts)
    refused = service.get(path)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    assert service.get(path, peer="192.0.2.9").status_code == 200
    first.close()
    whole = service.get(path)
    # The header and 205 trades.
    assert whole.data.count(b"\r\n") == 206


def test_csv_pages_count_after_the_first(service, monkeypatch):
    """With pages of 100, 205 trades are two pages after the first. Five are allowed: the third file
    uses the sixth, and no other begins.
    """
    monkeypatch.setattr("web.site.exports.COUNTED_ROWS", 100)
    monkeypatch.setattr("web.server.gate.TABLE_PAGES_PER_MINUTE", 5)
    path = f"/bots/{find_bot(service)}/trades.csv"
    answers = [service.get(path, buffered=True) for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert "Retry-After" in answers[3].headers
