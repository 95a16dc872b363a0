"""Building blocks for the shapes of /api/v1.

A shape is a TypedDict. It is the only place that defines the fields of a resource, with their types
and descriptions. `serialize.fill` creates the dict from a row, orjson serializes it, and Pydantic
reads the shape for the OpenAPI document and the reference pages. (Measured: 100 posts took 4.4 ms
as Pydantic models from `model_construct`, and 0.36 ms as dicts.)

Amounts are decimal strings, never JSON numbers. A NotRequired field is missing from some responses.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field

# Pydantic doesn't support typing's TypedDict on Python 3.11.
from typing_extensions import TypedDict

from chain.amounts import show_raw
from web.api.serialize import Always, Written, show_share, show_time

__all__ = ["NotRequired", "TypedDict"]

# A whole number and an exact decimal number. The document's introduction describes them.
Whole = Annotated[str, Written(show_raw)]
Exact = str
Share = Annotated[str, Field(description="0.00 to 1.00, rounded down"), Written(show_share)]
# The format is enough, because a pattern breaks clients that parse times before they validate.
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"}), Written(show_time)]
# Base58 of 32 and 64 bytes. The document's introduction describes them.
Address = str
Signature = str
Untrusted = Annotated[str, Field(description="untrusted")]
# Marks simulated objects. It isn't a Literal, because client generators break on non-string
# constants.
Simulation = Annotated[bool, Always(True)]
CurrencySymbol = Annotated[str, Field(description="SOL or a stablecoin's symbol")]
PostStatus = Literal["verified", "mismatch", "pending", "none", "not_found"]
Record = Literal["forward", "all"]
Proof = Literal["proven", "claimed"]
Ownership = Annotated[Proof, Field(description="proven: the owner signed with its key")]


def described(description: str) -> Any:
    return Field(description=description)


class FillModel(TypedDict):
    """A fill model, and its assumptions."""

    model: str
    hash: Annotated[str, described("digest of the model's constants")]
    assumptions: list[str]


class Page(TypedDict):
    """A page of a list, with its rows in `data`."""

    nextCursor: Annotated[str | None, described("cursor of the next page; null on the last page")]
    limit: int
    asOf: Time


class FollowedPage(Page):
    """A page of a list that can be followed."""

    newestCursor: Annotated[str, described("value of since for newer entries")]


class PaperPage(Page):
    """A page of a paper-mode list."""

    simulated: bool


class ClosesPage(PaperPage):
    """A page of closes."""

    models: Annotated[list[FillModel], described("fill models of all closes in this list")]
