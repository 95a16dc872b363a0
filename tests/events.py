"""Parse server-sent events by the HTML standard's rules (9.2.6), as far as this API needs them."""

import http.client
import json


class Events:
    """The events of a stream of lines. `hello` has no content and only sets `last_id`, which a
    client would send as Last-Event-ID.
    """

    def __init__(self, lines):
        self.lines, self.last_id = lines, None

    def __iter__(self):
        fields = {}
        for line in self.lines:
            line = line.decode().rstrip("\n")
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif not line:
                self.last_id = fields.get("id", self.last_id)
                if "data" in fields and fields["event"] != "hello":
                    yield fields["event"], json.loads(fields["data"])
                fields = {}


def split_lines(chunks):
    """The complete lines in a sequence of bytes."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


class Connection:
    """A stream over a socket. Disconnect at any time."""

    def __init__(self, port, key, last_id=None, timeout=60):
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.http.request(
            "GET",
            "/api/v1/stream",
            headers={
                "Authorization": f"Bearer {key}",
                **({"Last-Event-ID": last_id} if last_id else {}),
            },
        )
        self.answer = self.http.getresponse()
        self.status = self.answer.status
        self.events = Events(iter(self.answer.readline, b""))

    def cut(self):
        self.answer.close()
        self.http.close()
