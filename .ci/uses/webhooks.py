"""A webhook receiver that verifies messages with the Standard Webhooks library.

`webhooks.py PYTHON APP`: adds a hook with the command line, publishes, and waits for the event.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import standardwebhooks

URL, KEY = os.environ["CANDOR_URL"], os.environ["CANDOR_KEY"]
received = queue.Queue()
client = httpx.Client(base_url=f"{URL}/api/v1/", headers={"Authorization": f"Bearer {KEY}"})


class Receiver(BaseHTTPRequestHandler):
    """Accept all messages. They are verified below."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        received.put((body, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(204)
        self.end_headers()


with HTTPServer(("127.0.0.1", 0), Receiver) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    add = [*sys.argv[1:], "hook", "add", client.get("me").json()["ownerId"], "--json"]
    made = subprocess.check_output([*add, f"http://127.0.0.1:{server.server_port}/"])
    secret = standardwebhooks.Webhook(json.loads(made)["secret"])
    sent = {"eventId": "webhooks", "body": "Heard by a webhook?"}
    post = client.post("posts", json=sent).raise_for_status().json()
    body, headers = received.get(timeout=60)
    message = secret.verify(body, headers)
    assert message["type"] == "post" and message["data"]["id"] == post["id"], message
    try:
        secret.verify(body.replace(b"Heard", b"Hoard"), headers)
    except standardwebhooks.WebhookVerificationError:
        print("standardwebhooks: the event is signed, and no other")
    else:
        raise AssertionError("a changed message passed")
    server.shutdown()
