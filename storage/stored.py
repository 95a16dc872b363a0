"""JSON in text columns: its schema, and how to read text that a disk fault damaged."""

from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, create_model

# Integers and exact decimals, as text.
Whole = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+$")]
Exact = Annotated[str, StringConstraints(pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
# RFC 3339, whole seconds, UTC.
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Shape = TypeAdapter[Any]


class Damaged(ValueError):
    """Stored JSON that can't be read. Also the value of a damaged Part of a row."""

    def __bool__(self) -> bool:
        return False


class Column:
    """Marks a field of a row type as JSON. If it is damaged, the row is skipped."""

    def __init__(self, kind: Any) -> None:
        self.shape = make_shape(kind)


class Part(Column):
    """Marks optional JSON: if it is damaged, the row stays and the value is Damaged."""


class Stored(BaseModel):
    """A JSON object with at least these members."""

    model_config = ConfigDict(strict=True, defer_build=True)


def make_object(**kinds: Any) -> Any:
    members: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Object", __base__=Stored, **members)


def make_shape(kind: Any) -> Shape:
    """Return a validator for stored JSON of a Stored or another type."""
    if isinstance(kind, type) and issubclass(kind, Stored):
        return TypeAdapter(kind)
    return TypeAdapter(kind, config=ConfigDict(strict=True, defer_build=True))


def decode(text: str | bytes | None, shape: Shape) -> Any:
    """Return the value of stored JSON, None for NULL. Raises Damaged."""
    if text is None:
        return None
    try:
        shape.validate_json(text)
        return orjson.loads(text)
    except ValueError:
        raise Damaged("stored JSON can't be read") from None


def read_stored(text: str | bytes | None, shape: Shape) -> Any:
    """Return the value of stored JSON that will be rewritten later; None if it is damaged."""
    try:
        return decode(text, shape)
    except Damaged:
        return None
