"""What paper mode writes into the market's tables."""

from collections.abc import Iterable

from market.tables import Snapshot, Token
from storage import in_parts


def pin_snapshots(ids: Iterable[int]) -> None:
    """Keep these snapshots for ever."""
    for part in in_parts(ids):
        Snapshot.update(expires_at=None).where(Snapshot.id.in_(part)).execute()


def replace_held(mints: Iterable[str]) -> None:
    """Exactly these mints have an open paper position; they stay tracked whatever their volume."""
    held = {mint for (mint,) in Token.select(Token.mint).where(Token.held).tuples()}
    for part in in_parts(sorted(held - set(mints))):
        Token.update(held=False).where(Token.mint.in_(part)).execute()
    for part in in_parts(sorted(set(mints) - held)):
        Token.update(held=True).where(Token.mint.in_(part)).execute()
