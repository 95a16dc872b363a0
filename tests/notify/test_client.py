"""Sending to an untrusted address: which are allowed, and what the response changes."""

import time

import pytest
import receiver
from test_hooks import receivers  # noqa: F401  (a fixture)

from notify import client
from notify.messages import Message

# From IANA's special-purpose registries (IPv4 and IPv6), and cloud providers' documents.
NOT_PUBLIC = {
    "this machine": "127.0.0.1 0.0.0.0 ::1 ::",
    "private networks": "10.1.2.3 172.16.0.1 192.168.1.1 100.64.0.1 fc00::1 fec0::1",
    "link-local": "169.254.1.1 fe80::1 fe80::1%eth0",
    "metadata of clouds": "169.254.169.254 192.0.0.192 168.63.129.16 100.100.100.200 fd00:ec2::254",
    "protocol assignments": "192.0.0.1 192.0.0.9 192.0.0.10 192.0.0.170 2001:1::1 2001:4:112::1",
    "relays": "192.88.99.1 192.88.99.255",
    "benchmarks and ORCHID": "198.18.0.1 2001:2::1 2001:20::1 2001:30::1",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1 3fff:fff:ffff::1",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
    "reserved": "240.0.0.1 255.255.255.255 4000::1 5f00::1 100::1 100:0:0:1::1",
    "IPv4-mapped": "::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:168.63.129.16 ::ffff:192.0.0.192",
    "IPv4-compatible": "::7f00:1 ::a9fe:a9fe ::ffff:0:127.0.0.1",
    "NAT64": "64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe",
    "6to4": "2002:7f00:1:: 2002:a9fe:a9fe::1",
    "Teredo": "2001::1 2001:0:7f00:1::",
}
PUBLIC = {
    "public": "1.1.1.1 93.184.216.34 2606:4700::1111 2a00:1450:4001::1 ::ffff:1.1.1.1",
    "adjacent to IPv4 ranges": "191.255.255.255 192.0.1.1 168.63.129.15 168.63.129.17"
    " 192.88.98.255 192.88.100.0",
    "adjacent to IPv6 ranges": "2001:200::1 2003::1 3ffe:ffff::1 3fff:1000::1",
}


def test_private_addresses_are_recognized():
    for kind, texts in (NOT_PUBLIC | PUBLIC).items():
        for text in texts.split():
            assert client.is_public(text) == (kind in PUBLIC), text


def test_private_addresses_are_refused_by_default(receivers):  # noqa: F811
    (inside,) = receivers()
    port = inside.server.server_port
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"):
        sent = client.post(Message(f"http://{host}:{port}/", {}, b"x"))
        assert sent == client.Answer(None, "has no public address"), host
    assert inside.got == []


@pytest.fixture
def resolve(monkeypatch):
    """resolve(*answers): each time a name is resolved, it gets the next of these lists of
    addresses. It returns the addresses that were connected to.
    """
    connected, given = [], []

    def look_up(*_, **__):
        return [(2, 1, 6, "", (one, 443)) for one in given.pop(0)]

    def connect(to, timeout):
        connected.append(to[0])
        raise ConnectionRefusedError

    def set_up(*answers):
        given.extend(answers)
        return connected

    monkeypatch.setattr(client.socket, "getaddrinfo", look_up)
    monkeypatch.setattr(client.socket, "create_connection", connect)
    return set_up


def test_dns_rebinding_leads_nowhere(resolve):
    """The checked address is the one connected to; the name is resolved once."""
    connected = resolve(["93.184.216.34"])
    assert client.post(Message("https://rebind.example/", {}, b"x")).error
    assert connected == ["93.184.216.34"]


def test_one_private_address_refuses_the_whole_name(resolve):
    connected = resolve(["93.184.216.34", "10.0.0.1"])
    answered = client.post(Message("https://two.example/", {}, b"x"))
    assert answered == client.Answer(None, "has no public address") and connected == []


def post(receivers, behavior):  # noqa: F811
    (one,) = receivers()
    return client.post(Message(one.behave(behavior).url, {}, b"x"), private=True)


def test_a_trickle_ends_at_the_deadline(receivers, monkeypatch):  # noqa: F811
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)
    began = time.monotonic()
    answered = post(receivers, receiver.trickle(20))
    assert answered == client.Answer(None, "did not respond in time")
    assert time.monotonic() - began < 10


def test_a_redirect_is_not_followed(receivers):  # noqa: F811
    (inside,) = receivers()
    answered = post(receivers, receiver.answer(302, Location=inside.url))
    assert answered == client.Answer(302, "returned HTTP 302") and inside.got == []


def test_of_a_response_only_the_status_and_the_wait_are_kept(receivers):  # noqa: F811
    more = {"X-Canary": "canary", "Retry-After": "90"}
    answered = post(receivers, receiver.answer(429, b"<script>canary</script>", **more))
    assert answered == client.Answer(429, "returned HTTP 429", 90)


WAITS = {
    **{None: 0, "7": 7, "1.2": 2, "-3": 0, "1e999": 86_400, "nan": 0, "soon": 0},
    "Thu, 05 Nov 2026 12:01:00 GMT": 60,
    "Thu, 05 Nov 2026 11:00:00 GMT": 0,
    # HTTP's oldest date format has no zone, which means UTC.
    "Thu Nov  5 12:01:00 2026": 60,
}


def test_retry_after_values_are_parsed(monkeypatch):
    """At noon, on a machine fourteen hours ahead."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert {text: client.read_wait(text, 1_793_880_000) for text in WAITS} == WAITS
    finally:
        monkeypatch.undo()
        time.tzset()
