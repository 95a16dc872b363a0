"""The child process that sends to one of the APPRISE_URLS. Apprise is large and supports 150
services. In its own process, it can't hang anything else.

It reads one line of JSON, {"url", "site"}, then one text per line as JSON. It replies to each with
a word from notify.apprising. Services' responses are discarded, because they may contain a URL's
password.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import IO


def main(arguments: Sequence[str]) -> None:
    """Send each text from standard input until it ends."""
    answers = _take_stdout()
    import apprise

    told = json.loads(sys.stdin.readline())
    asset = apprise.AppriseAsset(app_id="Candor", app_desc="Candor", app_url=told["site"])
    service = apprise.Apprise.instantiate(told["url"], asset=asset)
    for line in sys.stdin:
        if service is None:
            word = "unknown"
        else:
            sent = service.notify(json.loads(line), body_format=apprise.NotifyFormat.TEXT)
            word = "ok" if sent else "refused"
        print(word, file=answers, flush=True)


def _take_stdout() -> IO[str]:
    """Return the original standard output, then redirect output and errors to /dev/null."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return answers
