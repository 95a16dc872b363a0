"""The key of the current request."""

from typing import Annotated, Literal

from web.api.shapes import TypedDict, described


class AllowanceWindow(TypedDict):
    """The rest of the owner's rate limit in one window."""

    window: Literal["minute", "hour", "day", "posts_minute"]
    limit: int
    remaining: int
    resetSeconds: int


class Me(TypedDict):
    """The key of the request."""

    kind: Literal["read", "publish"]
    keyId: str
    ownerId: str
    botId: Annotated[str | None, described("the bot a publishing key posts for")]
    windows: list[AllowanceWindow]
