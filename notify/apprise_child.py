"""The child process that speaks for one address of APPRISE_URLS: Apprise is large, speaks to 150
services in as many ways, and must be able to hang without anybody else.

It reads a line of JSON, {"url", "site"}, and then a text as JSON a line; each is answered by one of
the words of notify.apprising. What services say goes nowhere: it may repeat an address.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import IO


def main(arguments: Sequence[str]) -> None:
    """Send each text of standard input until it ends."""
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
    """Return what was standard output; from now on that, and errors, lead nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return answers
