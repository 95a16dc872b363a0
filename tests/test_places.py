"""Tables and evidence: few at once for an address and in all, counted by what they read."""

import pytest
from service import Service, address

from accounts.problem import Problem
from models import Bot
from web.server import places
from web.server.places import Places


def test_an_address_has_two_places_and_everybody_together_six() -> None:
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
    made = Service(tmp_path / "data", evidence_per_minute=9)
    made.make_bot("Ada", address("w"))
    for number in range(205):
        made.observe_trade(address("w"), f"t{number}", number + 1)
    yield made
    made.close()


def find_bot(service):
    with service.database.connection_context():
        return Bot.get().uid


def test_a_table_holds_its_place_until_it_is_sent_or_its_client_leaves(service, monkeypatch):
    monkeypatch.setattr(places, "MAX_OF_ADDRESS", 1)
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


def test_a_table_counts_as_a_page_of_evidence_for_each_1000_trades(service, monkeypatch):
    """With one for each 100, 205 trades are two more than the first."""
    monkeypatch.setattr("web.api.spreadsheet.COUNTED_ROWS", 100)
    path = f"/bots/{find_bot(service)}/trades.csv"
    # Nine are allowed, and each table is three.
    assert [service.get(path, buffered=True).status_code for _ in range(4)] == [200, 200, 200, 429]
