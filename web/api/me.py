"""The key of the current request."""

from typing import Annotated, Literal

from web.api.shapes import TypedDict, described


class AllowanceWindow(TypedDict):
    """What is left in one window of the owner's allowance."""

    window: Literal["minute", "hour", "day", "posts_minute"]
    limit: int
    remaining: int
    resetSeconds: int


class Me(TypedDict):
    """The key that is asking."""

    kind: Literal["read", "publish"]
    keyId: str
    ownerId: str
    botId: Annotated[str | None, described("the bot a publishing key posts for")]
    windows: list[AllowanceWindow]
