"""What nodes tell over a WebSocket, from JSON to plain values; anything else is refused."""

import base64

import pytest
from story import address

from chain.base58 import b58decode
from chain.notices import AccountNotice, LogNotice, Reply, read_holding, read_message
from chain.reading.answers import Holding
from chain.reading.instructions import TOKEN

ADA, MINT, ACCOUNT = address("ada"), address("a mint"), address("ada's account")
SIGNATURE = "A" * 88
LAST = 2**63 - 1


def notify(method, result, number=7):
    return {
        "jsonrpc": "2.0",
        "method": method,
        "params": {"subscription": number, "result": result},
    }


def name(signature):
    return {"context": {"slot": 5}, "value": {"signature": signature, "err": None, "logs": []}}


def test_a_transaction_that_names_an_address():
    for number in (0, 7, LAST):
        said = notify("logsNotification", name(SIGNATURE), number)
        assert read_message(said) == LogNotice(number, SIGNATURE)


def test_an_account_that_changed_is_read_later():
    said = notify("accountNotification", {"any": "thing"})
    assert read_message(said) == AccountNotice(7, {"any": "thing"})


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
    with pytest.raises(ValueError, match="^a message that is not an object$"):
        read_message(message)


@pytest.mark.parametrize("number", [None, "7", -1, 2**63, True])
@pytest.mark.parametrize("method", ["accountNotification", "logsNotification"])
def test_a_notice_belongs_to_a_subscription(method, number):
    with pytest.raises(ValueError, match="^a notice of no subscription$"):
        read_message(notify(method, name(SIGNATURE), number))


@pytest.mark.parametrize(
    "message",
    [
        {"method": "logsNotification"},
        {"method": "logsNotification", "params": []},
        {"method": "logsNotification", "params": {"subscription": 7}},
        {"method": "accountNotification", "params": {"result": {}}},
        notify("logsNotification", {}),
        notify("logsNotification", {"value": None}),
    ],
)
def test_half_a_notice_is_refused(message):
    with pytest.raises(ValueError, match="^a malformed notice$"):
        read_message(message)


@pytest.mark.parametrize("word", [None, 5, "", "A" * 63, "A" * 89, "0" * 88])
def test_a_notice_names_a_signature(word):
    with pytest.raises(ValueError, match="^a malformed signature$"):
        read_message(notify("logsNotification", name(word)))


def test_what_an_account_holds_as_a_notice_tells_it():
    data = b58decode(MINT) + b58decode(ADA) + (513).to_bytes(8, "little")
    account = {
        "lamports": 77,
        "owner": TOKEN,
        "data": [base64.b64encode(data).decode(), "base64"],
    }
    told = {"context": {"slot": 9}, "value": account}
    assert read_holding(told, ADA, ACCOUNT) == Holding(9, 513, 77, MINT)
    assert read_holding({**told, "value": None}, ADA, ACCOUNT) == Holding(9, 0, 0)


@pytest.mark.parametrize(
    "told, why",
    [
        (None, "a malformed notice"),
        ([], "a malformed notice"),
        ({}, "no list of accounts"),
        ({"context": {"slot": 9}, "value": 5}, "no list of accounts"),
    ],
)
def test_a_malformed_account_is_refused(told, why):
    with pytest.raises(ValueError, match=f"^{why}$"):
        read_holding(told, ADA, ACCOUNT)
