"""Check that stored data is consistent: rebuild all derived data from the stored transactions and
compare.

Read-only, one wallet at a time, each in one snapshot; also with a running server. Posts are
compared with the log. Names and profiles have no second source, so only their form is checked
(operate.forms).
"""

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from chain.reading.currencies import list_added
from chain.reading.entries import Entry, read_entry
from chain.reading.programs import table
from chain.reading.receipts import digest_receipt, parse_stored, unpack_text
from chain.stored import store
from config import Config
from evidence.claimed import SUMS
from operate.differences import UNREADABLE, Difference
from operate.forms import check_forms
from operate.ledgers import check_delays, check_ledger, check_posts, check_standings
from operate.log_checks import check_log
from operate.readers import Reader, open_reader

# An observed wallet's transactions are stored just before its ledger.
TRIES, PAUSE_SECONDS = 5, 1.0
WALLET = ("address", "backfilled", "rules", *SUMS, "coverage")


class ListedReceipt(NamedTuple):
    signature: str
    slot: int
    tx_index: int | None
    entry: bytes | None
    receipt_slot: int | None
    receipt_tx_index: int | None
    receipt_block_time: int | None
    receipt_digest: str | None
    body: bytes | None


LISTED = """
SELECT s.signature, s.slot, s.tx_index, s.entry, r.slot, r.tx_index, r.block_time,
       r.digest, r.body
FROM sighting s LEFT JOIN receipt r ON r.signature = s.signature
WHERE s.wallet_id = {wallet} AND s.state = 'stored'"""


def inspect(
    config: Config, now: int, running: bool, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Difference]:
    """Yield all differences. `running`: an observer may be active, so compare again before
    reporting one.
    """
    programs = table(config.extra_swap_programs, config.added_programs)
    reader = open_reader(config)
    try:
        with reader.snapshot():
            yield from check_forms(reader, now)
            yield from check_lists(reader)
            yield from check_delays(reader)
            yield from check_log(reader)
            yield from check_standings(reader, now)
            wallets = [number for (number,) in reader.rows("SELECT id FROM wallet ORDER BY id")]
        for number in wallets:
            found: list[Difference] = []
            for again in range(TRIES if running else 1):
                if again:
                    sleep(PAUSE_SECONDS)
                found = _try_wallet(reader, number, programs)
                if not any(one.level == "wrong" for one in found):
                    break
            yield from found
    finally:
        reader.close()


def _try_wallet(reader: Reader, number: int, programs: Any) -> list[Difference]:
    found: list[Difference] = []
    try:
        with reader.snapshot():
            found.extend(check_wallet(reader, number, programs))
    except UNREADABLE:
        # The inspection of forms reports text that isn't JSON.
        found.append(Difference("wallet", f"the stored data of wallet {number} is unreadable"))
    return found


def check_lists(reader: Reader) -> Iterator[Difference]:
    unlisted = (
        "SELECT r.signature FROM receipt r WHERE NOT EXISTS (SELECT 1 FROM sighting s WHERE"
        " s.signature = r.signature)"
    )
    for (signature,) in reader.rows(unlisted):
        yield Difference("receipt", "no wallet lists it", signature=signature)
    empty = (
        "SELECT w.address, s.signature FROM sighting s JOIN wallet w ON w.id = s.wallet_id WHERE"
        " s.state = 'stored' AND s.entry IS NULL"
    )
    for address, signature in reader.rows(empty):
        what = "it is stored, but not what it means for the wallet"
        yield Difference("sighting", what, address, signature, "entry")


# ---- one wallet ----------------------------------------------------------------------------------
def check_wallet(reader: Reader, number: int, programs: Any) -> Iterator[Difference]:
    """Yield differences between a wallet's stored data and data rebuilt from its receipts."""
    row = next(reader.rows(f"SELECT {', '.join(WALLET)} FROM wallet WHERE id = {number}"))
    wallet = SimpleNamespace(id=number, **dict(zip(WALLET, row, strict=True)))
    reread: dict[str, Entry] = {}
    yield from _check_receipts(reader, wallet, programs, reread)
    yield from check_ledger(reader, wallet, reread)
    yield from check_posts(reader, wallet)


def _check_receipts(
    reader: Reader, wallet: Any, programs: Any, reread: dict[str, Entry]
) -> Iterator[Difference]:
    """Check that each stored receipt matches its row, the wallet's list and its entry; entries that
    differ are added to `reread`.
    """
    known = frozenset(
        address
        for (address,) in reader.rows(f"SELECT address FROM address WHERE wallet_id = {wallet.id}")
    )
    same_rules = wallet.rules == store.name_rules(programs, list_added())
    if not same_rules:
        said = (
            "its entries were read under other rules, programs or currencies, so they were not"
            " compared; its next poll, or `app.py rebuild`, rereads them"
        )
        yield Difference("sighting", said, wallet.address, level="look")
    for listed in map(ListedReceipt._make, reader.rows(LISTED.format(wallet=wallet.id))):
        if listed.body is None:
            what = "the row is missing; the observer's next pass fetches it again"
            yield Difference("receipt", what, wallet.address, listed.signature)
            continue
        try:
            receipt = parse_stored(listed.body, listed.signature)
            entry = read_entry(receipt, wallet.address, programs, known)
        except UNREADABLE:
            what = "it can't be read"
            yield Difference("receipt", what, wallet.address, listed.signature, "body")
            continue
        yield from _check_columns(wallet, listed, receipt)
        if same_rules and _is_other(listed, entry):
            reread[listed.signature] = entry
            what = "it doesn't match the receipt"
            yield Difference("sighting", what, wallet.address, listed.signature, "entry")


def _check_columns(wallet: Any, listed: ListedReceipt, receipt: Any) -> Iterator[Difference]:
    columns: list[tuple[str, str, object, object]] = [
        ("receipt", "slot", listed.receipt_slot, receipt.slot),
        ("receipt", "tx_index", listed.receipt_tx_index, receipt.tx_index),
        ("receipt", "block_time", listed.receipt_block_time, receipt.block_time),
        ("receipt", "digest", listed.receipt_digest, digest_receipt(receipt)),
        ("sighting", "slot", listed.slot, receipt.slot),
    ]
    if receipt.tx_index is not None:
        columns.append(("sighting", "tx_index", listed.tx_index, receipt.tx_index))
    for table_name, name, stored, said in columns:
        if stored != said:
            what = f"is {stored}; the receipt says {said}"
            yield Difference(table_name, what, wallet.address, listed.signature, name)


def _is_other(listed: ListedReceipt, entry: Entry) -> bool:
    try:
        return listed.entry is not None and unpack_text(listed.entry) != entry.show()
    except ValueError:
        return True
