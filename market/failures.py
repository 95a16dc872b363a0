"""How asking a service fails: apart from what asks, so that reading an answer needs no library of
HTTP.
"""


class FetchError(Exception):
    """No usable answer; the text follows a name ("answered HTTP 500").

    `wait_seconds`: how long the service asked to be left alone, None if it did not. `status`: of
    an answer that is no 200.
    """

    def __init__(
        self, text: str, wait_seconds: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(text)
        self.wait_seconds, self.status = wait_seconds, status
