"""A separate Redis for tests, on loopback, with a password that must never appear."""

import shutil
import signal
import subprocess
import time

import pytest
import redis

from bench._ports import find_port

PASSWORD = "canary-redis-7f3a"


class RedisServer:
    """`url` is its URL; it can be stopped, started empty, and silenced."""

    def __init__(self):
        if not shutil.which("redis-server"):
            pytest.skip("redis-server is not installed")
        self.port = find_port()
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{self.port}/3"
        self.client = redis.Redis.from_url(self.url)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [
                "redis-server",
                "--bind",
                "127.0.0.1",
                "--port",
                str(self.port),
                "--requirepass",
                PASSWORD,
                "--save",
                "",
                "--appendonly",
                "no",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + 60
        while True:
            try:
                return self.client.ping()
            except redis.ConnectionError:
                assert time.monotonic() < end and self.process.poll() is None, (
                    "redis-server does not start"
                )
                time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(60)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
