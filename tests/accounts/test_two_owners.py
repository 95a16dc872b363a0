"""Readers never see each other's private data: every GET route, requested in turn by two owners, a
program with each owner's key, and a reader without a session. Nothing is written between requests,
so a cache that ignores the reader would return another reader's page.
"""

import re

import pytest
import sampling
from service import NOW
from test_matrix import Estate, make_common
from test_studio import Browser

from accounts import api_keys

ALBA, BRUNO = "Alba", "Bruno"
CSRF = re.compile(r'name="csrf_token" value="([^"]+)"')
STREAMS = ("/stream", "/api/v1/stream")
# In full runs, each one is answered between answers to others, twice.
TURNS = (ALBA, None, BRUNO, f"{ALBA}'s key", f"{BRUNO}'s key", BRUNO, None, ALBA)
TURNS = TURNS if sampling.FULL else TURNS[:5]


class Place(Estate):
    """What only this owner may see."""

    def __init__(self, service, name):
        super().__init__(service, name)
        self.read = api_keys.create_key(self.owner, "read", NOW, name=f"reading for {name}")

    @property
    def shown(self):
        """Texts on this owner's pages and in responses to this owner's key."""
        return (
            self.owner.uid,
            self.read.key.uid,
            f"reading for {self.name}",
            self.hook,
            f"{self.name.lower()}.example",
            self.backtest,
            f"/bots/{self.bot}/manage",
        )

    @property
    def secrets(self):
        return (self.publish, self.read.text, self.code)


@pytest.fixture
def places(service, standing_clock):
    return {name: Place(service, name) for name in (ALBA, BRUNO)}


@pytest.fixture
def readers(service, places):
    """{name: a function that requests a path}; None: without a session."""
    nobody = Browser(service)
    keys = {
        f"{name}'s key": (lambda path, key=place.read.text: service.get(path, key))
        for name, place in places.items()
    }
    browsers = {name: place.browser.get for name, place in places.items()}
    return {**browsers, **keys, None: nobody.get}


def list_paths(service, places):
    """Every GET route, with each owner's IDs."""
    common = make_common(service)
    named = {
        **{"address": common["wallet"], "close_id": common["close"], "place": common["tile"]},
        **{"filename": common["file"], "name": common["request"]},
    }
    for rule in service.app.url_map.iter_rules():
        if "GET" not in rule.methods:
            continue
        for place in places.values():
            uids = {
                "bots": place.bot,
                "posts": place.post,
                "embed": place.post,
                "keys": place.read.key.uid,
                "hooks": place.hook,
                "backtests": place.backtest,
                "owners": place.owner.uid,
                "traders": common["trader"],
                "reports": "report_1",
                "seasons": common["season"],
                "log": common["log"],
            }
            before = rule.rule.partition("<uid>")[0].strip("/").split("/")
            given = {**common, **named, "uid": uids.get(before[-1])}
            values = {name: given[name] for name in rule.arguments - {*(rule.defaults or ())}}
            assert None not in values.values(), f"{rule.rule} needs an id"
            path = rule.build(values, append_unknown=False)[1]
            yield from (
                (path, f"{path}?tab=trades", f"{path}?tab=record")
                if path.startswith("/bots/bot_")
                else (path,)
            )


def test_no_response_contains_another_readers_data(service, places, readers):
    answers, tokens = {reader: [] for reader in readers}, {reader: set() for reader in readers}
    for path in dict.fromkeys(list_paths(service, places)):
        for reader in TURNS:
            answer = readers[reader](path)
            text = str(answer.headers) + ("" if path in STREAMS else answer.data.decode("latin-1"))
            answer.close()
            answers[reader].append(text)
            tokens[reader] |= set(CSRF.findall(text))
            for name, place in places.items():
                if reader is None or not reader.startswith(name):
                    # A response may repeat the requested ID.
                    found = [one for one in place.shown if one in text and one not in path]
                    assert not found, (path, reader, found)
                assert not [one for one in place.secrets if one in text], (path, reader)
    for one, other in ((ALBA, BRUNO), (ALBA, None), (BRUNO, None)):
        assert not tokens[one] & tokens[other]
    # The owner does see the texts searched for above.
    for name, place in places.items():
        mine = "".join(answers[name] + answers[f"{name}'s key"])
        assert [one for one in place.shown if one not in mine] == []
        assert tokens[name]
