"""A Difference: one sentence about stored data that is not as it should be."""

from dataclasses import dataclass

UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True)
class Difference:
    """Where stored data differs, as far as each field applies, and how (`what`)."""

    table: str
    what: str
    wallet: str | None = None
    signature: str | None = None
    field: str | None = None
    # "wrong", or "look" where nothing is lost and the difference goes away by itself.
    level: str = "wrong"

    def __str__(self) -> str:
        names = {"wallet": self.wallet, "signature": self.signature, "field": self.field}
        where = ", ".join(f"{name} {value}" for name, value in names.items() if value)
        return f"{self.table}: {where + ': ' if where else ''}{self.what}"
