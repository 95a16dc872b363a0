"""What the shapes are made of: exact types of JSON members, the page of a list."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Whole = Annotated[str, Field(pattern=r"^-?[0-9]+$", description="a whole number as text")]
Exact = Annotated[
    str, Field(pattern=r"^-?[0-9]+(\.[0-9]+)?$", description="an exact decimal as text")
]
Share = Annotated[
    str, Field(pattern=r"^(0\.[0-9]{2}|1\.00)$", description="a share, two decimals, rounded down")
]
# The format says it all: a pattern beside it breaks clients that parse times before they check.
Time = Annotated[
    str,
    Field(
        description="RFC 3339, UTC",
        json_schema_extra={"format": "date-time"},
        examples=["2026-11-20T12:00:00.123Z"],
    ),
]
Address = Annotated[
    str, Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{32,44}$", description="base58 of 32 bytes")
]
Signature = Annotated[
    str, Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{64,88}$", description="base58 of 64 bytes")
]
TradeKind = Literal[
    "buy",
    "sell",
    "swap",
    "round_trip",
    "transfer_in",
    "transfer_out",
    "transfer_self",
    "native_transfer",
    "order_open",
    "order_fill",
    "order_cancel",
    "liquidity",
    "lending",
    "stake",
    "bridge",
    "nft",
    "account_open",
    "account_close",
    "failed",
    "other",
]
# No constant: generators of clients stumble over a type with one value that is not text.
Simulation = Annotated[bool, Field(description="always true: nothing of this was traded")]


def described(description: str) -> Any:
    """Make a member with a description; like pydantic's Field it may stand for any type."""
    return Field(description=description)


def absent(description: str) -> Any:
    """Make a member that some answers leave out; the document names no default for it."""
    return Field(None, description=description)


class Shape(BaseModel):
    """A JSON object that may gain members."""

    # Built where the document is asked for, not at every start.
    model_config = ConfigDict(extra="allow", defer_build=True)


class Simulated(Shape):
    """Of paper mode: nothing was traded."""

    simulated: Simulation


class Page(Shape):
    """A page of a list."""

    nextCursor: str | None = described("pass it back as cursor for the next page; null at the end")
    limit: int = described("rows of a page, as it was taken")
    asOf: Time
