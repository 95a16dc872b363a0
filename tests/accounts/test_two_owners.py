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
    """`shown`: texts on this owner's pages and in responses to this owner's key."""

    def __init__(self, service, name):
        super().__init__(service, name)
        read = api_keys.create_key(self.owner, "read", NOW, name=f"reading for {name}")
        self.read, self.read_uid = read.text, read.key.uid
        self.secrets = self.publish, self.read, self.code
        ids = (self.owner.uid, self.read_uid, self.hook, self.backtest)
        named = (f"reading for {name}", f"{name.lower()}.example", f"/bots/{self.bot}/manage")
        self.shown = (*ids, *named)


@pytest.fixture
def places(service, standing_clock):
    return {name: Place(service, name) for name in (ALBA, BRUNO)}


@pytest.fixture
def readers(service, places):
    """{name: a function that requests a path}; None: without a session."""
    keys = {
        f"{name}'s key": (lambda path, key=place.read: service.get(path, key))
        for name, place in places.items()
    }
    browsers = {name: place.browser.get for name, place in places.items()}
    return {**browsers, **keys, None: Browser(service).get}


def list_paths(service, places):
    """Every GET route, with each owner's IDs."""
    common = make_common(service)
    named = {"address": common["wallet"], "close_id": common["close"], "place": common["tile"]}
    named |= {"filename": common["file"], "name": common["request"]}
    uids = {"traders": common["trader"], "seasons": common["season"], "log": common["log"]}
    for rule in service.app.url_map.iter_rules():
        if "GET" not in rule.methods:
            continue
        for place in places.values():
            own = uids | {"bots": place.bot, "posts": place.post, "embed": place.post}
            own |= {"keys": place.read_uid, "hooks": place.hook, "backtests": place.backtest}
            own |= {"owners": place.owner.uid, "reports": "report_1"}
            before = rule.rule.partition("<uid>")[0].strip("/").split("/")
            given = {**common, **named, "uid": own.get(before[-1])}
            values = {name: given[name] for name in rule.arguments - {*(rule.defaults or ())}}
            assert None not in values.values(), f"{rule.rule} needs an id"
            path = rule.build(values, append_unknown=False)[1]
            yield path
            if rule.rule == "/bots/<uid>":
                yield from (f"{path}?tab=trades", f"{path}?tab=record")


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
