"""Refusals."""

from web.api.schemas.base import Shape, absent, described


class FieldError(Shape):
    """A field that cannot be accepted, and why."""

    field: str
    message: str


class Problem(Shape):
    """A refusal, RFC 9457."""

    type: str = described("where this code is explained, below the instance's address")
    title: str
    status: int
    detail: str = described("what is wrong with this very request, in words")
    code: str = described("what a program decides by")
    requestId: str = described("as in the header X-Request-Id and in the server's log")
    errors: list[FieldError] = absent("422: fields that cannot be accepted")
    window: str = absent("429: the window that is used up")
    existingPostId: str = absent("409 event_conflict: the post this event id stands for")
    quota: str = absent("409 quota_exceeded, wallet_limit: which quota is full")
    setting: str = absent("the operator's setting of that quota")
    limit: int = absent("what that quota allows")
    used: int = absent("what the account uses of it")
    differingFields: list[str] = absent("409 event_conflict; empty where the words were taken down")
