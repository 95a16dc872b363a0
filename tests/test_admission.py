"""Who may be worked on: so many at once, and not all of one address."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from web.server.admission import Admission

Start = Callable[..., Any]


class Counted:
    """An application that answers when it is told to, and knows how many it is working on."""

    def __init__(self) -> None:
        self.working, self.go_on, self.changed = [], threading.Event(), threading.Condition()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        with self.changed:
            self.working.append(environ["REMOTE_ADDR"])
            self.changed.notify_all()
        self.go_on.wait(20)
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
    assert admission.slots.qsize() == 2
    # Of the other addresses one may meet the first one in its queue, by chance; not all do.
    others = [ask(admission, f"198.51.100.{number}") for number in range(3)]
    counted.wait_for(8)
    assert counted.working.count("192.0.2.1") == 6
    counted.go_on.set()
    for thread in crew + others:
        thread.join(20)
    assert len(counted.working) == 23 and admission.slots.qsize() == 8
    assert all(share.qsize() == 6 for share in admission.group_slots)


def test_behind_a_proxy_one_address_may_take_all_slots() -> None:
    counted = Counted()
    admission = Admission(counted, 4, 10, lambda environ: None, https=False, shared=True)
    crew = [ask(admission, "192.0.2.1") for _ in range(4)]
    counted.wait_for(4)
    counted.go_on.set()
    for thread in crew:
        thread.join(20)
    assert admission.slots.qsize() == 4
