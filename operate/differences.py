"""What an inspection finds: one Difference a sentence."""

import zlib
from dataclasses import dataclass

UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, zlib.error)


@dataclass(frozen=True)
class Difference:
    """`where` says table, wallet, signature and field as far as they apply; `what` is the rest of
    the sentence.
    """

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "look": nothing is lost, and what is described ends by itself
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"
