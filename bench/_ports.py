"""Ports for the servers of programs and tests."""

import contextlib
import random
import socket
import time

# Below the ephemeral ports (net.ipv4.ip_local_port_range): one of those may be taken before a slow
# server binds it.
FIRST, LAST = 20_000, 32_000
TRIES = 50


def find_port():
    """Return a free port that this module gives to no other process while this one runs."""
    # Never seeded: two test suites would try the same ports.
    for port in random.SystemRandom().sample(range(FIRST, LAST), TRIES):
        name = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as probe:
            name.bind(f"\0candor-port-{port}")
            probe.bind(("127.0.0.1", port))
            # Kept open until this process ends: a name in Linux's abstract namespace.
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
