"""Failures of requests to a service. A separate module, so that parsing responses doesn't import an
HTTP library.
"""


class FetchError(Exception):
    """There was no usable response.

    The text follows a name ("returned HTTP 500"). `wait_seconds`: the requested wait, or None.
    `status`: HTTP status of a response other than 200.
    """

    def __init__(
        self, text: str, wait_seconds: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.wait_seconds, self.status = wait_seconds, status
