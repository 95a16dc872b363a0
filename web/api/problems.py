"""Errors in RFC 9457 format. accounts.problem raises them, web.server.errors sends them."""

from typing import Annotated

from web.api.shapes import NotRequired, TypedDict, described


class FieldError(TypedDict):
    """A rejected field, and why."""

    field: str
    message: str


class Problem(TypedDict):
    """An error, RFC 9457."""

    type: Annotated[str, described("URL that explains this code, under the instance's address")]
    title: str
    status: int
    detail: Annotated[str, described("an explanation of this error")]
    code: Annotated[str, described("machine-readable error code")]
    requestId: Annotated[str, described("as in the header X-Request-Id and in the server's log")]
    errors: NotRequired[Annotated[list[FieldError], described("422: the rejected fields")]]
    window: NotRequired[Annotated[str, described("429: the window that is used up")]]
    existingPostId: NotRequired[
        Annotated[str, described("409 event_conflict: the post with this event ID")]
    ]
    quota: NotRequired[
        Annotated[str, described("409 quota_exceeded, wallet_limit: which quota is full")]
    ]
    setting: NotRequired[Annotated[str, described("the operator's setting for that quota")]]
    limit: NotRequired[Annotated[int, described("the quota's limit")]]
    used: NotRequired[Annotated[int, described("how much of it the account uses")]]
    differingFields: NotRequired[
        Annotated[list[str], described("409 event_conflict; empty if the post's text was removed")]
    ]
