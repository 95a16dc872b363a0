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


def test_posts_and_verifications_are_sent_and_trades_are_not(service, bot, follow):
    answer = follow()
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    events = iter(Events(split_lines(answer.iter_encoded())))
    uid = say(service, bot, "1", signature=signature("buy"))
    kind, told = next(events)
    assert (kind, told["id"], told["status"]) == ("post", uid, "pending")
    service.observe_trade(W, "buy", 1)
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("buy")}, NOW)
    kind, moved = next(events)
    assert (kind, moved["id"], moved["status"]) == ("verification", uid, "verified")
    assert {*told} == {*moved} == {"id", "botId", "status", "createdAt"}


def test_earlier_events_are_not_sent(service, bot, follow):
    say(service, bot, "1")
    answer = follow()
    second = say(service, bot, "2")
    assert read(answer, 1)[0][1]["id"] == second


def test_events_between_page_and_stream_are_sent(service, bot, follow):
    (path,) = re.findall('data-live="([^"]+)"', service.get("/").text)
    uid = say(service, bot, "1")
    ((kind, told),) = read(follow(path=path), 1)
    assert (kind, told["id"]) == ("post", uid)


def test_hiding_is_sent_without_the_text(service, bot, follow):
    uid = say(service, bot, "1", reason="secretive")
    answer = follow()
    hide_post(uid, NOW)
    ((kind, told),) = read(answer, 1)
    assert (kind, told["id"]) == ("verification", uid)
    assert not {"body", "reason"} & {*told}


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


def test_an_instance_has_sixty_four_streams(service, bot, follow):
    peers = [f"192.0.2.{number}" for number in range(1, 17) for _ in range(4)]
    assert {follow(peer).status_code for peer in peers} == {200}
    refused = follow("198.51.100.1")
    assert (refused.status_code, refused.headers["Retry-After"]) == (204, "60")
    assert stream.MAX_PAGE_STREAMS == len(peers) == 64


def test_a_closed_stream_frees_its_slot(service, bot, follow):
    opened = [follow() for _ in range(4)]
    opened[0].close()
    assert follow().status_code == 200


def test_page_streams_and_bot_streams_have_separate_slots(service, bot, follow):
    for number in range(40):
        follow(f"192.0.2.{number}")
    answer = service.get("/api/v1/stream", bot.publish_key.text, buffered=False)
    assert answer.status_code == 200
    answer.close()
