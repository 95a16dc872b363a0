"""The cost of a long backfill: an index finds the next slice however much is pending, and
publishing uses a tenth of the time.
"""

from types import SimpleNamespace

import ground
import pytest
from lookout import store_post

import storage
from accounts import influencers
from models import Wallet, WalletSignature
from observing.fetching import OF_HEAD_OR_SCANS, OF_POSTS, Fetching, Pending, end_with_slot
from observing.state import Watch

NOW = 1_800_000_000_000
WALLET = "7xKXtg2CW87d97TXJSDpbD5jBkheTqA83TZRuJosgAsU"
# An hour, the longest backoff.
DUE = NOW, NOW + 3_600_000


@pytest.fixture
def wallet(settings, db):
    influencers.create_bot(settings, "Ada", NOW, WALLET)
    return Wallet.get()


def list_pending(wallet, count, name="old", **columns):
    """List this many signatures, newest first and two per slot: "old 9a" and "old 9b"."""
    rows = [
        {"wallet": wallet, "signature": f"{name} {slot}{n}", "slot": slot, "seen_at": NOW} | columns
        for slot in range(count // 2, 0, -1)
        for n in "ab"
    ]
    for part in storage.in_parts(rows):
        WalletSignature.insert_many(part).execute()


def read_all(wallet):
    """Signatures that posts wait for, that arrived at the head, and that full scans listed."""
    asked = (OF_POSTS, ()), (OF_HEAD_OR_SCANS, (True,)), (OF_HEAD_OR_SCANS, (False,))
    found = [storage.read_rows(sql, (wallet.id, *kind, *DUE)) for sql, kind in asked]
    return [[Pending(*row).signature for row in rows] for rows in found]


class Slices(Fetching):
    """Records the rows to fetch. No node supports bulk requests."""

    def __init__(self):
        rpc = SimpleNamespace(call_optional=lambda *_: None)
        super().__init__(SimpleNamespace(rpc=rpc), None)

    def _fetch_rows(self, part, rows, now):
        self.rows = rows
        return len(rows)


def test_a_slice_is_the_oldest_twenty_of_its_kind(wallet):
    list_pending(wallet, 100)
    list_pending(wallet, 2, "head", head=True)
    list_pending(wallet, 6, "stored", state="stored")
    list_pending(wallet, 4, "later", due_at=NOW + 1)
    # Postponed by a wrong clock.
    list_pending(wallet, 2, "wrong", due_at=DUE[1] + 1)
    for number, signature in enumerate(("old 50b", "old 50b", "later 1a", "unlisted")):
        store_post(wallet, signature, number)
    of_posts, at_head, of_scans = read_all(wallet)
    # Two posts cite it.
    assert of_posts == ["old 50b", "old 50b"]
    assert at_head == ["head 1a", "head 1b"]
    # Slot 1 has two more, so nine slots of two make twenty.
    oldest = ["old 1a", "old 1b", "wrong 1a", "wrong 1b"]
    oldest += [f"old {slot}{n}" for slot in range(2, 10) for n in "ab"]
    assert of_scans[:20] == oldest and len(of_scans) == 100
    slices = Slices()
    # The oldest twenty without the last slot, which may have more.
    assert slices.fetch_backlog(wallet, NOW) == 18
    assert [one.signature for one in slices.rows] == oldest[:18]


def make_slice(*slots):
    return [Pending(number, f"s{number}", slot, None, 0, NOW) for number, slot in enumerate(slots)]


def test_a_full_slice_leaves_its_last_slot_to_the_next_one():
    """Eighteen transactions in six slots, and two in a seventh that may have more."""
    full = make_slice(*[slot for slot in range(1, 7) for _ in range(3)], 7, 7)
    assert end_with_slot(full) == full[:18]
    # Everything pending, or one slot that no slice holds completely.
    for rows in (full[1:], make_slice(7), make_slice(*[7] * 20)):
        assert end_with_slot(rows) == rows


@ground.sqlite_only
def test_the_next_slice_takes_the_same_steps_however_much_waits(wallet):
    """Steps of SQLite."""
    list_pending(wallet, 200)
    list_pending(wallet, 2, "head", head=True)
    store_post(wallet, "old 50a")
    connection, counted = storage.database.connection(), []
    for more in (False, True):
        if more:
            WalletSignature.update(slot=WalletSignature.slot + 10_000).execute()
            list_pending(wallet, 2_000, "more")
        found, steps = [len(rows) for rows in read_all(wallet)], []
        connection.set_progress_handler(lambda steps=steps: bool(steps.append(1)), 1)
        read_all(wallet)
        connection.set_progress_handler(None)
        counted.append((found, len(steps)))
    few, many = counted
    assert few == many and few[0] == [1, 2, 100] and few[1] > 0


@pytest.mark.parametrize("count", [1, 3])
def test_showing_a_slice_takes_a_tenth_of_the_total_time(count):
    """A step takes a tenth of a second, showing it one second: a hundred times in 1000 s."""
    watches, clock, shown = [Watch() for _ in range(count)], 0.0, 0
    while clock < 1000:
        for watch in watches:
            clock += 0.1
            if clock >= watch.show_after:
                watch.rest_from_showing(clock, clock + 1, count)
                clock, shown = clock + 1, shown + 1
    assert 90 <= shown <= 100 + count
