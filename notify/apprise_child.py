"""Send one message with Apprise, in a child process: it is large, and its 150 services may hang.

It reads {"url", "site", "text"} as JSON and prints a word of client.APPRISE_ERRORS. It discards the
service's response, which may repeat the address.
"""

import json
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    import apprise

    told = json.load(sys.stdin)
    asset = apprise.AppriseAsset(app_id="Candor", app_desc="Candor", app_url=told["site"])
    service = apprise.Apprise.instantiate(told["url"], asset=asset)
    if service is None:
        word = "unknown"
    else:
        sent = service.notify(told["text"], body_format=apprise.NotifyFormat.TEXT)
        word = "ok" if sent else "refused"
    print(word, file=answers, flush=True)
