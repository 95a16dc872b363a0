"""GET /stream: news for open pages, without a key: posts and verifications, public fields only."""

import itertools
import re

import pytest
from events import Events, split_lines
from service import NOW, address, hide_post, signature

from accounts import verification
from models import Wallet
from web.api import stream

W = address("w")


@pytest.fixture
def follow(service):
    """follow(peer) -> the response to a page's request; all are closed at the end."""
    answers = []

    def open_stream(peer="127.0.0.1", path="/stream"):
        answer = service.get(path, buffered=False, peer=peer)
        answers.append(answer)
        return answer

    yield open_stream
    for answer in answers:
        answer.close()


def read(answer, number):
    return list(itertools.islice(Events(split_lines(answer.iter_encoded())), number))


def say(service, bot, event, **more):
    sent = service.post({"eventId": event, "body": "Words.", **more}, bot.publish_key.text)
    return sent.json["id"]


def test_posts_and_verifications_are_sent_without_text_and_trades_are_not(service, bot, follow):
    say(service, bot, "earlier")
    answer = follow()
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    events = iter(Events(split_lines(answer.iter_encoded())))
    uid = say(service, bot, "1", signature=signature("buy"), reason="secretive")
    sent = [next(events)]
    service.observe_trade(W, "buy", 1)
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("buy")}, NOW)
    sent.append(next(events))
    hide_post(uid, NOW)
    sent.append(next(events))
    assert [(kind, told["id"], told["status"]) for kind, told in sent] == [
        ("post", uid, "pending"),
        ("verification", uid, "verified"),
        ("verification", uid, "verified"),
    ]
    assert all({*told} == {"id", "botId", "status", "createdAt"} for _, told in sent)


def test_events_between_page_and_stream_are_sent(service, bot, follow):
    (path,) = re.findall('data-live="([^"]+)"', service.get("/").text)
    uid = say(service, bot, "1")
    ((kind, told),) = read(follow(path=path), 1)
    assert (kind, told["id"]) == ("post", uid)


def test_a_fifth_stream_ends_the_addresss_oldest(service, bot, follow):
    peers = ("192.0.2.7", *["127.0.0.1"] * 5, "::ffff:127.0.0.1")
    answers = [follow(peer) for peer in peers]
    assert {answer.status_code for answer in answers} == {200}
    assert sum(one.is_active for one in service.app.stream_hub._subscribers) == 5
    # They return after a minute, not immediately.
    for number in (1, 2):
        assert b"".join(answers[number].iter_encoded()).endswith(b"retry: 60000\n\n")
    uid = say(service, bot, "1")
    for answer in (answers[0], *answers[3:]):
        assert read(answer, 1)[0][1]["id"] == uid
    for answer in answers:
        answer.close()
    assert not service.app.stream_hub._subscribers


def test_an_instance_has_sixty_four_page_streams(service, bot, follow):
    peers = [f"192.0.2.{number}" for number in range(1, 17) for _ in range(4)]
    streams = [follow(peer) for peer in peers]
    assert {answer.status_code for answer in streams} == {200}
    refused = follow("198.51.100.1")
    assert (refused.status_code, refused.headers["Retry-After"]) == (204, "60")
    assert stream.MAX_PAGE_STREAMS == len(peers) == 64
    # A bot's stream has its own slots.
    answer = service.get("/api/v1/stream", bot.publish_key.text, buffered=False)
    assert answer.status_code == 200
    answer.close()
    streams[0].close()
    assert follow("198.51.100.1").status_code == 200
