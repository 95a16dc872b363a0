"""demo: the whole product on a recorded chain and an invented market, without a network."""

import os
import signal
import subprocess
import sys
import time

import config as settings
from cli import add_command
from cli.server import ROOT, SERVE

# settings a demonstration takes over
KEPT = (
    "HOST",
    "PORT",
    "BASE_URL",
    "ALLOWED_HOSTS",
    "TRUSTED_PROXIES",
    "THREADS",
    "IP_LIMIT_PER_MINUTE",
)
FOLDER = "data-demo"


def add_commands(commands):
    add_command(
        commands,
        "demo",
        run_demo,
        "everything to be seen, on a recorded chain and an invented market in ./data-demo; each"
        " start begins anew",
    )


def run_demo(config, args):
    """The outside world in this process (chain, market, bots), the product itself in a child."""
    from demo import cast, node, stage
    from demo.market import Market
    from demo.server import address_of, start_server

    start, recording = int(time.time()), node.load_recording()
    chain, market = node.Node(recording, start), Market(recording["mints"], start)
    lines = cast.plan_posts(chain.rows, recording["mints"])
    environ = make_environ(os.environ, recording["venue"], address_of(start_server(chain, market)))
    config = settings.load(environ, dotenv=None)
    stage.clear_folder(config.data_dir)
    people = stage.fill_database(config, recording, [line for line in lines if line.at < 0], market)
    log = config.data_dir / "server.log"
    with open(log, "w") as said:
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *SERVE],
            cwd=ROOT,
            env=environ,
            stdout=said,
            stderr=said,
        )
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        url = f"http://127.0.0.1:{config.port}"
        if stage.await_server(server, url):
            print(
                f"The demonstration is at {config.base_url}: recorded, invented, and shifted to"
                f" now. Each start begins anew.\nA key for its interface: {people.read_key}\nThe"
                f" server's log: {log}",
                flush=True,
            )
            stage.act(
                server, url, [line for line in lines if line.at >= 0], people.publish_keys, start
            )
    except KeyboardInterrupt:
        server.terminate()
    if server.wait() > 0:
        print(f"the server ended with {server.returncode}: {log} tells why", file=sys.stderr)
    return max(0, server.returncode)


def make_environ(given, venue, stand_ins):
    """The environment of the server: the stand-ins instead of the world, and none of the settings
    of a real instance, `.env` included.
    """
    blank = {name.upper(): "" for name in settings.PARSERS if name.upper() not in KEPT}
    own = {
        "DATA_DIR": os.path.abspath(given.get("DATA_DIR") or FOLDER),
        "SOLANA_RPC_URLS": stand_ins,
        "DEXSCREENER_URL": stand_ins,
        "GECKOTERMINAL_URL": stand_ins,
        "RPC_REQUESTS_PER_SECOND": "1000",
        "EXTRA_SWAP_PROGRAMS": venue,
        "OBSERVER_INTERVAL_SECONDS": "3",
        "SCOUT_INTERVAL_SECONDS": "15",
        "PAPER_INTERVAL_SECONDS": "5",
        "WEB_CONCURRENCY": "1",
    }
    return {**given, **blank, **own}
