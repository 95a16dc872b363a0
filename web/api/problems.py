"""Errors in RFC 9457 format. accounts.problem raises them, web.server.errors sends them."""

from typing import Annotated

from web.api.shapes import NotRequired, TypedDict, described


class FieldError(TypedDict):
    """A field that cannot be accepted, and why."""

    field: str
    message: str


class Problem(TypedDict):
    """A refusal, RFC 9457."""

    type: Annotated[str, described("where this code is explained, below the instance's address")]
    title: str
    status: int
    detail: Annotated[str, described("what is wrong with this very request, in words")]
    code: Annotated[str, described("what a program decides by")]
    requestId: Annotated[str, described("as in the header X-Request-Id and in the server's log")]
    errors: NotRequired[
        Annotated[list[FieldError], described("422: fields that cannot be accepted")]
    ]
    window: NotRequired[Annotated[str, described("429: the window that is used up")]]
    existingPostId: NotRequired[
        Annotated[str, described("409 event_conflict: the post this event id stands for")]
    ]
    quota: NotRequired[
        Annotated[str, described("409 quota_exceeded, wallet_limit: which quota is full")]
    ]
    setting: NotRequired[Annotated[str, described("the operator's setting of that quota")]]
    limit: NotRequired[Annotated[int, described("what that quota allows")]]
    used: NotRequired[Annotated[int, described("what the account uses of it")]]
    differingFields: NotRequired[
        Annotated[list[str], described("409 event_conflict; empty where the words were taken down")]
    ]
