"""What the shapes of paper mode are made of."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from web.api.shapes import Address, Exact, Share, Signature, Time, TradeKind, Whole

__all__ = ["Address", "Exact", "Share", "Signature", "Time", "TradeKind", "Whole"]

# Not a Literal: client generators break on non-string constants.
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
