"""Ports for the servers that programs and tests start."""

import contextlib
import random
import socket
import time

# Below those that the system gives to whoever asks for any, be it for a connection
# (net.ipv4.ip_local_port_range): one of these may be gone before a server that starts slowly binds.
FIRST, LAST = 20_000, 32_000
TRIES = 50


def find_port():
    """A free port that no other process gets from here while this one lives."""
    # Not seeded by anybody: two suites would look for the same ones.
    for port in random.SystemRandom().sample(range(FIRST, LAST), TRIES):
        name = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as probe:
            name.bind(f"\0candor-port-{port}")
            probe.bind(("127.0.0.1", port))
            # Kept open until this process ends: a name of Linux's abstract namespace.
            name.detach()
            return port
        name.close()
    raise RuntimeError("no port is free")


def wait_for(port, seconds=30):
    """Wait until a server accepts connections."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")
