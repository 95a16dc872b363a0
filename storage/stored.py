"""JSON in text columns: its shape, and what text is that a fault of the disk damaged."""

from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, create_model

# Whole numbers and exact decimals, as text.
Whole = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+$")]
Exact = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
# RFC 3339 of whole seconds, UTC.
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Shape = TypeAdapter[Any]


class Damaged(ValueError):
    """Stored JSON that can't be read. It is also the value of a damaged Part of a row."""

    def __bool__(self) -> bool:
        return False


class Column:
    """Marks a field of a row type as JSON. A row is left out if its column is damaged."""

    def __init__(self, kind: Any) -> None:
        self.shape = make_shape(kind)


class Part(Column):
    """Marks JSON that a row is still listed without: the value is Damaged then."""


class Stored(BaseModel):
    """A JSON object with at least these members."""

    model_config = ConfigDict(strict=True, defer_build=True)


def make_object(**kinds: Any) -> Any:
    """Return a Stored with members of these types."""
    members: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Object", __base__=Stored, **members)


def make_shape(kind: Any) -> Shape:
    """Return the shape of a stored text: JSON of a Stored, or of another type."""
    if isinstance(kind, type) and issubclass(kind, Stored):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, defer_build=True))


def decode(text: str | bytes | None, shape: Shape) -> Any:
    """Return the value of a stored text, None for NULL. Raises Damaged."""
    if text is None:
        return None
    try:
        shape.validate_json(text)
        return orjson.loads(text)
    except ValueError:
        raise Damaged("stored JSON can't be read") from None


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Return the value of a stored text that is written again in time; None if it is damaged."""
    try:
        return decode(text, shape)
    except Damaged:
        return None
