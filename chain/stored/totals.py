"""Running totals as they are stored: what a wallet did up to the end of each hour that changed it,
by money and view. A window is the difference of two rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import storage
from chain.ledger.sums import IN_SOL, NOTHING, WHOLE, Sums
from chain.stored.tables import RunningTotal

# Runs a statement that only reads and returns its rows.
Rows = Callable[[str], Iterable[tuple[Any, ...]]]
HOUR_SECONDS = 3600
COLUMNS = ", ".join(Sums._fields)
KEY = ("wallet", "money", "view", "hour")
TOTALS = f"""
SELECT money, view, hour, {COLUMNS} FROM running_total WHERE wallet_id = {{wallet}}
ORDER BY money, view, hour"""


class LedgerKey(NamedTuple):
    """Which sums: in SOL or a stablecoin, of all that a wallet did or of an attachment."""

    money: str
    view: int


class TotalKey(NamedTuple):
    """A row of a wallet. `hour`: of the latest block time so far, counted from 1970."""

    money: str
    view: int
    hour: int


@dataclass
class PendingTotals:
    """The sums after the last entry, and the rows that are not written yet: None for a stored one
    that is to be dropped.
    """

    last: dict[LedgerKey, Sums] = field(default_factory=dict)
    rows: dict[TotalKey, Sums | None] = field(default_factory=dict)

    def note(self, sums: Mapping[LedgerKey, Sums], hour: int) -> None:
        """Take over the sums after an entry; `hour` never falls."""
        for ledger, one in sums.items():
            if one != self.last.get(ledger, NOTHING):
                self.last[ledger] = self.rows[TotalKey(*ledger, hour)] = one


# ---- rows ----------------------------------------------------------------------------------------
def load_totals(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[TotalKey, Sums]]:
    """Yield what rows of TOTALS say."""
    for money, view, hour, *sums in rows:
        yield TotalKey(money, view, hour), Sums._make(sums)


def settle_totals(wallet_id: int, pending: PendingTotals) -> None:
    """Like stored.store.settle, for running totals."""
    rows = storage.database.execute_sql(TOTALS.format(wallet=wallet_id))
    storage.leave_changes(pending.rows, load_totals(rows))


DROP = "DELETE FROM running_total WHERE wallet_id = ? AND money = ? AND view = ? AND hour = ?"


def replace_totals(wallet_id: int, pending: PendingTotals) -> bool:
    """Write what is not written yet, in the caller's transaction; return whether there was any."""
    rows, pending.rows = pending.rows, {}
    kept = [
        {"wallet": wallet_id, **key._asdict(), **sums._asdict()}
        for key, sums in rows.items()
        if sums is not None
    ]
    storage.write_rows(RunningTotal, kept, KEY)
    for key, sums in rows.items():
        if sums is None:
            storage.database.execute_sql(DROP, (wallet_id, *key))
    return bool(rows)


# ---- sums of attachments -------------------------------------------------------------------------
class Source(NamedTuple):
    """Which sums of an attachment are read. `view`, `which`: SQL over `attachment a`."""

    view: str
    which: str


# Of all that the wallets did which bots hold now, or of what happened while they held them.
OF_RESULTS = Source(str(WHOLE), "a.detached_at IS NULL")
OF_RECORD = Source("a.id", "a.forward_realized IS NOT NULL")
# Later than any hour that occurs.
END_OF_TIME = 2**31


def write_last(name: str, view: str, money: str = f"'{IN_SOL}'", until: str = "") -> str:
    """SQL that finds the last row of an attachment `a`, as the condition of a join with
    `running_total` as this `name`. `view`, `money`: SQL; `until`: the hour that it is before.
    """
    before = f" AND l.hour < {until}" if until else ""
    return f"""{name}.wallet_id = a.wallet_id AND {name}.money = {money}
    AND {name}.view = {view} AND {name}.hour = (
        SELECT MAX(l.hour) FROM running_total l WHERE l.wallet_id = a.wallet_id
        AND l.money = {money} AND l.view = {view}{before})"""
