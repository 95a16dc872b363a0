"""Running totals as stored: what a wallet did up to the end of each hour that changed it, by money
and view. A window is the difference of two rows.
"""

from typing import NamedTuple

from chain.ledger.inventory import SOL
from chain.ledger.views import ALL_HISTORY


class Source(NamedTuple):
    """Which sums of an attachment are read. `view`, `which`: SQL over `attachment a`."""

    view: str
    which: str


# Of all that the wallets did which bots hold now, or of what happened while they held them.
OF_RESULTS = Source(str(ALL_HISTORY), "a.detached_at IS NULL")
OF_RECORD = Source("a.id", "a.forward_realized IS NOT NULL")
# Later than any hour that occurs.
END_OF_TIME = 2**31


def write_last(name: str, view: str, money: str = f"'{SOL}'", until: str = "") -> str:
    """SQL condition that joins the last row of an attachment `a` in `running_total` as `name`.
    `view`, `money`: SQL; `until`: the hour that it is before.
    """
    before = f" AND l.hour < {until}" if until else ""
    return f"""{name}.wallet_id = a.wallet_id AND {name}.money = {money}
    AND {name}.view = {view} AND {name}.hour = (
        SELECT MAX(l.hour) FROM running_total l WHERE l.wallet_id = a.wallet_id
        AND l.money = {money} AND l.view = {view}{before})"""
