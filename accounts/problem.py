"""API errors. A Problem has a code, which determines its HTTP status and title (/docs)."""

from collections.abc import Iterable
from typing import Any, NoReturn

from accounts.quotas import Use

CODES = {
    "invalid_json": (400, "Not a JSON object"),
    "invalid_parameter": (400, "Invalid query parameter"),
    "invalid_cursor": (400, "Invalid cursor"),
    "bad_request": (400, "Bad request"),
    "missing_key": (401, "API key missing"),
    "invalid_key": (401, "Invalid API key"),
    "insufficient_scope": (403, "Key not allowed to do this"),
    "bot_mismatch": (403, "Key belongs to another bot"),
    "not_creator": (403, "Not yours to manage"),
    "foreign_origin": (403, "Sent from another site"),
    "registration_closed": (403, "Registration is closed"),
    "owner_banned": (403, "Account banned"),
    "wallet_banned": (403, "Wallet banned"),
    "not_found": (404, "Not found"),
    "method_not_allowed": (405, "Method not allowed"),
    "event_conflict": (409, "Event ID already used"),
    "key_limit": (409, "Too many active keys"),
    "key_ended": (409, "Key no longer valid"),
    "quota_exceeded": (409, "Account quota reached"),
    "wallet_limit": (409, "Too many wallets"),
    "wallet_taken": (409, "Wallet already connected"),
    "bot_retired": (409, "Bot is retired"),
    "post_hidden": (409, "Post is hidden"),
    "reported_enough": (409, "Enough reports"),
    "under_review": (409, "Account under review"),
    "season_closed": (409, "Season is closed"),
    "no_review": (409, "No open review"),
    "positions_open": (409, "Positions are open"),
    "body_too_large": (413, "Body too large"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "misdirected_request": (421, "Unknown host"),
    "validation_failed": (422, "Validation failed"),
    "rate_limited": (429, "Too many requests"),
    "internal_error": (500, "Internal error"),
    "busy": (503, "Busy, nothing was stored"),
}
# Returned by any API request, by any request with a key, and by any list.
OF_ALL = ("rate_limited", "busy")
OF_KEYS = ("missing_key", "invalid_key", "owner_banned")
OF_LISTS = ("invalid_parameter", "invalid_cursor")


class Problem(Exception):
    """An error for the client. Its text never repeats the value that was sent.

    `more`: extra members of the problem document (`existingPostId`...). `headers` are response
    headers (`Retry-After`...).
    """

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Iterable[dict[str, str]] = (),
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.errors = code, detail, list(errors)
        self.headers, self.more = headers or {}, more

    @property
    def status(self) -> int:
        return CODES[self.code][0]


def refuse_unknown(noun: str) -> NoReturn:
    raise Problem("not_found", f"there is no such {noun}")


def invalid(field: str, message: str) -> Problem:
    return Problem(
        "validation_failed", f"{field}: {message}", errors=[{"field": field, "message": message}]
    )


QUOTA_WORDS = {
    "posts_kept_mb": (
        "this account’s posts use {used} of the {limit} MB that this instance stores per account"
    ),
    "wallet_changes_per_day": (
        "this account disconnected or replaced {used} wallets in the last 24 hours; the limit is"
        " {limit} a day; try again tomorrow"
    ),
    "traders": "this account has {used} active paper traders; the limit is {limit}",
    "hooks": "this account has {used} webhooks; the limit is {limit}",
    "wallets": "this account already has {used} observed wallets; the limit is {limit} at a time",
}


def refuse_full(use: Use, code: str = "quota_exceeded") -> None:
    """Raise Problem if a quota is used up. Existing data stays."""
    if use.is_full:
        words = QUOTA_WORDS[use.quota].format(used=use.used, limit=use.limit)
        raise Problem(
            code,
            f"{words} ({use.setting})",
            quota=use.quota,
            setting=use.setting,
            limit=use.limit,
            used=use.used,
        )
