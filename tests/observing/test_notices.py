"""Nodes' WebSocket messages, from JSON to plain values; invalid ones are rejected."""

import pytest

from observing.subscriptions import Notice, Reply, read_message

LAST = 2**63 - 1


def notify(method, result, number=7):
    return {
        "jsonrpc": "2.0",
        "method": method,
        "params": {"subscription": number, "result": result},
    }


KINDS = ["accountNotification", "logsNotification"]


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("result", [None, {"any": "thing"}])
def test_the_content_of_a_notice_is_not_used(method, result):
    for number in (0, 7, LAST):
        assert read_message(notify(method, result, number)) == Notice(number)


def test_other_notices_are_ignored():
    assert read_message(notify("slotNotification", {"slot": 5})) is None


def test_a_subscription_gets_its_id():
    for ident, number in ((0, 0), (3, 7), (LAST, LAST)):
        assert read_message({"id": ident, "result": number}) == Reply(ident, number)


@pytest.mark.parametrize("result", [None, "7", -1, 2**63, 7.0])
def test_a_missing_id_means_refused(result):
    assert read_message({"id": 3, "result": result}) == Reply(3, None)


def test_an_error_refuses_it_whatever_else_is_in_the_message():
    for more in ({}, {"result": True}, {"result": None}):
        assert read_message({"id": 3, "error": {"code": -32601}, **more}) == Reply(3, None)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 3, "result": True},
        {"id": 3, "result": False},
        {"id": "3", "result": 7},
        {"id": -1, "result": 7},
        {"id": 2**63, "result": 7},
        {"result": 7},
        {},
    ],
)
def test_unsubscribes_and_other_responses_are_ignored(message):
    assert read_message(message) is None


@pytest.mark.parametrize("message", [None, [], "word", 5])
def test_a_message_must_be_an_object(message):
    with pytest.raises(ValueError, match="^a message is not an object$"):
        read_message(message)


@pytest.mark.parametrize("number", [None, "7", -1, 2**63, True])
@pytest.mark.parametrize("method", KINDS)
def test_a_notice_belongs_to_a_subscription(method, number):
    with pytest.raises(ValueError, match="^a notice of an unknown subscription$"):
        read_message(notify(method, {}, number))


@pytest.mark.parametrize("more", [{}, {"params": []}, {"params": {"result": {}}}])
@pytest.mark.parametrize("method", KINDS)
def test_an_incomplete_notice_is_refused(method, more):
    with pytest.raises(ValueError, match="^a notice of an unknown subscription$"):
        read_message({"method": method, **more})
