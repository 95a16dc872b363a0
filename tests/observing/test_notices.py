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
def test_what_a_notice_says_is_not_read(method, result):
    for number in (0, 7, LAST):
        assert read_message(notify(method, result, number)) == Notice(number)


def test_a_notice_of_anything_else_is_of_no_concern():
    assert read_message(notify("slotNotification", {"slot": 5})) is None


def test_a_subscription_gets_its_number():
    for ident, number in ((0, 0), (3, 7), (LAST, LAST)):
        assert read_message({"id": ident, "result": number}) == Reply(ident, number)


@pytest.mark.parametrize("result", [None, "7", -1, 2**63, 7.0])
def test_without_a_number_it_was_refused(result):
    assert read_message({"id": 3, "result": result}) == Reply(3, None)


def test_an_error_refuses_it_whatever_else_is_said():
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
def test_an_end_of_a_subscription_and_strangers_answers_are_of_no_concern(message):
    assert read_message(message) is None


@pytest.mark.parametrize("message", [None, [], "word", 5])
def test_a_message_is_an_object(message):
    with pytest.raises(ValueError, match="^a message is not an object$"):
        read_message(message)


@pytest.mark.parametrize("number", [None, "7", -1, 2**63, True])
@pytest.mark.parametrize("method", KINDS)
def test_a_notice_belongs_to_a_subscription(method, number):
    with pytest.raises(ValueError, match="^a notice of an unknown subscription$"):
        read_message(notify(method, {}, number))


@pytest.mark.parametrize("more", [{}, {"params": []}, {"params": {"result": {}}}])
@pytest.mark.parametrize("method", KINDS)
def test_half_a_notice_is_refused(method, more):
    with pytest.raises(ValueError, match="^a notice of an unknown subscription$"):
        read_message({"method": method, **more})
