"""Separate, so that parsing responses doesn't import an HTTP library."""


class FetchError(Exception):
    """There was no usable response.

    The text completes a sentence that begins with a name ("returned HTTP 500"). `wait_seconds` is
    the requested wait, or None. `status` is the HTTP status if it isn't 200, or None.
    """

    def __init__(
        self, text: str, wait_seconds: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.wait_seconds, self.status = wait_seconds, status
