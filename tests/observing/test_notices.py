"""Nodes' WebSocket messages, from JSON to plain values; invalid ones are rejected."""

import pytest

from observing.subscriptions import Notice, Reply, read_message

LAST = 2**63 - 1
KINDS = ("accountNotification", "logsNotification")
NO_IDS = (None, "7", -1, 2**63)


def notify(method, number=7, result=None):
    return {"method": method, "params": {"subscription": number, "result": result}}


@pytest.mark.parametrize(
    "message, read",
    [
        # The content of a notice isn't used.
        *((notify(kind, n, {"any": "thing"}), Notice(n)) for kind in KINDS for n in (0, 7, LAST)),
        (notify(KINDS[0]), Notice(7)),
        # Other notices are ignored.
        (notify("slotNotification"), None),
        # A subscription gets its ID. Without a valid one it is refused, as with an error, whatever
        # else the message contains.
        *(({"id": n, "result": n}, Reply(n, n)) for n in (0, 3, LAST)),
        *(({"id": 3, "result": one}, Reply(3, None)) for one in (*NO_IDS, 7.0)),
        *(({"id": 3, "error": {}, **more}, Reply(3, None)) for more in ({}, {"result": True})),
        # Replies to unsubscribing and to other requests are ignored.
        *(({"id": 3, "result": one}, None) for one in (True, False)),
        *(({"id": one, "result": 7}, None) for one in ("3", -1, 2**63)),
        ({"result": 7}, None),
        ({}, None),
    ],
)
def test_a_message_is_a_notice_a_reply_or_ignored(message, read):
    assert read_message(message) == read


@pytest.mark.parametrize("message", [None, [], "word", 5])
def test_a_message_must_be_an_object(message):
    with pytest.raises(ValueError, match="^a message is not an object$"):
        read_message(message)


@pytest.mark.parametrize("method", KINDS)
def test_a_notice_belongs_to_a_subscription(method):
    incomplete = ({}, {"params": []}, {"params": {"result": {}}})
    unknown = (notify(method, number) for number in (*NO_IDS, True))
    for message in (*unknown, *({"method": method, **more} for more in incomplete)):
        with pytest.raises(ValueError, match="^a notice of an unknown subscription$"):
            read_message(message)
