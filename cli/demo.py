"""The command demo: the whole product with a recorded chain and an invented market, without the
network.
"""

import os
import signal
import subprocess
import sys
import time
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping
from pathlib import Path

import config as settings
from cli import Commands, add_command
from cli.server import refuse_unusable_port
from config import Config

# The settings in the environment that a demo keeps.
KEPT_SETTINGS = (
    "HOST",
    "PORT",
    "BASE_URL",
    "ALLOWED_HOSTS",
    "TRUSTED_PROXIES",
    "THREADS",
    "IP_LIMIT_PER_MINUTE",
    "SELF_REGISTRATION",
)
# These differ from those of `run`, so that both can serve at the same time.
FOLDER, PORT = "data-demo", "8010"


def add_commands(commands: Commands) -> None:
    demo = add_command(
        commands,
        "demo",
        run_demo,
        "try everything on a recorded chain and a made-up market, in ./data-demo; every start"
        " resets it",
    )
    # The child is started with this option.
    demo.add_argument("--staged", action="store_true", help=SUPPRESS)


def run_demo(config: Config, args: Namespace) -> int:
    """Serve the chain, the market and the bots from this process, and the product from a child
    process.
    """
    if args.staged:
        serve_staged()
    from demo import cast, node, stage
    from demo.market import Market
    from demo.recording import load_recording
    from demo.stage import address_of, start_server

    start, recording = int(time.time()), load_recording()
    chain, market = node.Node(recording, start), Market(recording["mints"], start)
    planned = cast.plan_posts(chain.transactions, recording["mints"])
    environ = make_environ(os.environ, recording["venue"], address_of(start_server(chain, market)))
    config = settings.load(environ, dotenv=None)
    refuse_unusable_port(config)
    print("Preparing a recorded chain, a made-up market and some bots.", flush=True)
    stage.clear_folder(config.data_dir)
    past = [post for post in planned if post.at < 0]
    keys = stage.fill_database(config, recording, past, market)
    log = config.data_dir / "server.log"
    server = start_product(environ, log)
    try:
        url = f"http://127.0.0.1:{config.port}"
        if stage.wait_for_server(server, url):
            print(
                f"The demo is at {config.base_url}. The chain is recorded, the market is made"
                " up, and all times are shifted to now. Each start resets it.\nTo manage"
                f" {cast.BOTS[0].name}, enter this recovery code at {config.base_url}/connect:"
                f" {keys.recovery_code}\nAPI read key: {keys.read_key}\nThe server's log: {log}"
                " (Ctrl+C stops both)",
                flush=True,
            )
            coming = [post for post in planned if post.at >= 0]
            stage.send_posts(server, url, coming, keys.publish_keys, start)
    except KeyboardInterrupt:
        server.terminate()
    if server.wait() > 0:
        print(f"the server exited with {server.returncode}: see {log}", file=sys.stderr)
    return max(0, server.returncode)


def serve_staged() -> None:
    """Become the server for a prepared demo."""
    from cli.processes import serve

    serve()


def start_product(environ: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
    """Start the product as a child process that stops when this process is asked to stop."""
    from cli.processes import find_command

    with open(log, "w") as output:
        server = subprocess.Popen(
            [*find_command(), "demo", "--staged"],
            env=environ,
            stdout=output,
            stderr=output,
        )
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    return server


def make_environ(given: Mapping[str, str], venue: str, stand_ins: str) -> dict[str, str]:
    """Return the server's environment.

    It has the stand-ins in place of the network, and no settings of a real instance from the
    environment or `.env`.
    """
    blank = dict.fromkeys(settings.NAMES - set(KEPT_SETTINGS), "")
    own = {
        "DATA_DIR": os.path.abspath(given.get("DATA_DIR") or FOLDER),
        "PORT": given.get("PORT") or PORT,
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
