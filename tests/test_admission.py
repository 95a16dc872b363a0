"""Who may be worked on: so many at once, and not all of one address."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest

from web.server.admission import Admission, Slots

Start = Callable[..., Any]


class Counted:
    """An application that answers when it is told to, and knows how many it is working on."""

    def __init__(self) -> None:
        self.working, self.go_on, self.changed = [], threading.Event(), threading.Condition()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        with self.changed:
            self.working.append(environ["REMOTE_ADDR"])
            self.changed.notify_all()
        self.go_on.wait(60)
        start("200 OK", [])
        return [b""]

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.working) >= count, 60)


def ask(admission: Admission, address: str) -> threading.Thread:
    environ = {"REMOTE_ADDR": address, "CONTENT_LENGTH": "0"}
    thread = threading.Thread(target=lambda: admission(environ, lambda *given: None))
    thread.start()
    return thread


def test_one_address_leaves_slots_to_others() -> None:
    """Of 8 slots 6, the other 2 are free; what stands in line is answered later."""
    counted = Counted()
    admission = Admission(counted, 8, 10, lambda environ: None, https=False)
    crew = [ask(admission, "192.0.2.1") for _ in range(20)]
    counted.wait_for(6)
    assert admission.slots.free == 2
    # Of the other addresses one may meet the first one in its queue, by chance; not all do.
    others = [ask(admission, f"198.51.100.{number}") for number in range(3)]
    counted.wait_for(8)
    assert counted.working.count("192.0.2.1") == 6
    counted.go_on.set()
    for thread in crew + others:
        thread.join(60)
    assert len(counted.working) == 23 and admission.slots.free == 8
    assert all(share.free == 6 for share in admission.group_slots)


def test_behind_a_proxy_one_address_may_take_all_slots() -> None:
    counted = Counted()
    admission = Admission(counted, 4, 10, lambda environ: None, https=False, shared=True)
    crew = [ask(admission, "192.0.2.1") for _ in range(4)]
    counted.wait_for(4)
    counted.go_on.set()
    for thread in crew:
        thread.join(60)
    assert admission.slots.free == 4


def refused(admission: Admission, accept: str) -> tuple[str, dict[str, str], str]:
    """Status, headers and body of what nobody has time for."""
    told: list[Any] = []
    environ = {"REMOTE_ADDR": "192.0.2.1", "CONTENT_LENGTH": "0", "HTTP_ACCEPT": accept}
    body = admission(environ, lambda *given: told.extend(given))
    return told[0], dict(told[1]), b"".join(body).decode()


def test_a_browser_that_nobody_has_time_for_gets_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.server.admission.MAX_WAIT_SECONDS", 0)
    admission = Admission(Counted(), 1, 10, lambda environ: None, https=False)
    assert admission.slots.take(0)
    status, headers, page = refused(admission, "text/html,application/xhtml+xml,*/*;q=0.8")
    assert status == "503 Service Unavailable" and headers["Retry-After"] == "2"
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Length"] == str(len(page.encode()))
    assert "Nothing was done: too many requests" in page and headers["X-Request-Id"] in page
    status, headers, problem = refused(admission, "*/*")
    assert status == "503 Service Unavailable" and orjson.loads(problem)["code"] == "busy"
    assert headers["Content-Type"] == "application/problem+json"


def wait_in_line(slots: Slots, number: int, served: list[int]) -> threading.Thread:
    """A thread that waits for a slot, then notes its number."""
    before = len(slots._waiting)
    thread = threading.Thread(target=lambda: slots.take(60) and served.append(number))
    thread.start()
    while len(slots._waiting) == before and thread.is_alive():
        time.sleep(0.001)
    return thread


def test_who_waits_for_a_slot_is_overtaken_by_nobody() -> None:
    slots, served = Slots(1), []
    assert slots.take(0)
    line = [wait_in_line(slots, number, served) for number in range(3)]
    for number, thread in enumerate(line):
        slots.give()
        # Whoever comes now finds none free, though the thread in line may not run yet.
        assert not slots.take(0)
        thread.join(60)
        assert served == list(range(number + 1))
    slots.give()
    assert slots.free == 1


def test_who_gave_up_waiting_leaves_the_line() -> None:
    slots = Slots(1)
    assert slots.take(0)
    assert not slots.take(0.01)
    slots.give()
    assert slots.free == 1 and slots.take(0)


class HandedOver:
    """A lock in line whose turn comes at the moment at which its thread gives up waiting."""

    def __init__(self, slots: Slots) -> None:
        self.slots, self.is_held = slots, False

    def acquire(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            self.slots.give()
            return False
        self.is_held = True
        return True

    def release(self) -> None:
        assert self.is_held


def test_a_slot_that_is_handed_over_at_the_last_moment_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or nobody would ever give it back."""
    slots = Slots(1)
    assert slots.take(0)
    with monkeypatch.context() as patch:
        patch.setattr("web.server.admission.threading.Lock", lambda: HandedOver(slots))
        assert slots.take(0.01)
    slots.give()
    assert slots.free == 1


def test_who_finds_no_slot_in_time_gives_back_the_one_of_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And waits no longer for both together than for one."""
    admission = Admission(lambda *given: [], 4, 10, lambda environ: None, https=False)
    others = [admission.acquire(f"10.{number}.0.1") for number in range(4)]
    clock, waited = [100.0], list[float]()

    def take(slots: Slots, seconds: float) -> bool:
        waited.append(seconds)
        # The address's own was free after three seconds.
        clock[0] += 3
        return slots is not admission.slots and bool(taking(slots, 0))

    taking = Slots.take
    monkeypatch.setattr("web.server.admission.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(Slots, "take", take)
    assert admission.acquire("10.9.0.1") == () and waited == [10, 7]
    (group,) = admission._find_group("10.9.0.1")
    assert group.free == 3
    assert all(others)
