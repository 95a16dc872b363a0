"""Server commands: run, demo, migrate, observe, rebuild, mcp."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import config as settings
from cli import Commands, add_command, now_ms, open_database, print_result
from config import VERSION, BadSetting, Config

if TYPE_CHECKING:
    from observing.rebuilding import RebuiltWallet


def add_commands(commands: Commands) -> None:
    text = "update the database, then serve pages, API and background jobs"
    add_command(commands, "run", run_server, text)
    text = (
        "try everything on a recorded chain and a made-up market, in ./data-demo; every start"
        " resets it"
    )
    demo = add_command(commands, "demo", run_demo, text)
    # The child is started with this option.
    demo.add_argument("--staged", action="store_true", help=SUPPRESS)
    add_command(commands, "migrate", run_migrate, "update the database to the newest schema")
    observe = add_command(
        commands, "observe", run_observe, "poll all wallets once now, even if a server is running"
    )
    observe.add_argument(
        "--once",
        action="store_true",
        help="the only mode, and the default; a running server observes continuously",
    )
    rebuild = add_command(
        commands, "rebuild", run_rebuild, "recompute all trades and lots from stored receipts"
    )
    one = rebuild.add_mutually_exclusive_group()
    one.add_argument("--bot", metavar="ID", help="only this bot's wallets")
    one.add_argument(
        "--trader", metavar="ID", help="replay a paper trader's stored decisions instead"
    )
    add_command(
        commands,
        "mcp",
        run_mcp,
        "serve tools to an AI agent over stdin and stdout; set CANDOR_KEY (without it, an agent"
        " can only register), and CANDOR_URL for an instance other than this one",
    )


def run_migrate(config: Config, args: Namespace) -> None:
    from operate import backups

    applied, copy = backups.migrate(config)
    before = f"; previously: {copy}" if copy else ""
    text = f"applied: {', '.join(applied)}{before}" if applied else "nothing to do"
    print_result(args, {"applied": applied, "copy": copy and str(copy)}, text)


def run_server(config: Config, args: Namespace) -> None:
    """Become gunicorn in this process. Another process would import everything again."""
    import storage
    from chain.reading.programs import table
    from cli.processes import serve
    from operate import backups
    from operate.doctor import check_filesystem
    from storage import counters

    refuse_demonstration(config)
    refuse_unusable_port(config)
    print(f"Candor {VERSION}: preparing the database in {config.data_dir}.", flush=True)
    for warning in check_filesystem(config):
        print(f"Warning: {warning.text}. To fix it: {warning.advice}.", flush=True)
    # Report missing or invalid settings once, here, and not in every worker.
    table(config.extra_swap_programs, config.added_programs)
    counters.open_store(config).close()
    backups.migrate(config)
    storage.database.close_all()
    serve()


def refuse_unusable_port(config: Config) -> None:
    """Raise an error if HOST and PORT are unusable. gunicorn would retry five times."""
    # If the parent passed in a listening socket, the port isn't another program's.
    if {"GUNICORN_FD", "LISTEN_FDS"} & os.environ.keys():
        return
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((config.host, config.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BadSetting(
                    f"port {config.port} on {config.host} is in use: stop the program that"
                    f" listens there, or choose another port, such as PORT={config.port + 1}"
                ) from None
            if error.errno in (errno.EACCES, errno.EPERM):
                raise BadSetting(
                    "PORT must be one that this user may listen on: the system refused"
                    f" {config.port}; most systems allow 1024 and above"
                ) from None
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                raise BadSetting(
                    "HOST must be an address or host name of this machine, such as 127.0.0.1;"
                    f" it can't listen on {config.host}"
                ) from None


def refuse_demonstration(config: Config) -> None:
    from operate import instance

    if config.demonstration:
        raise instance.Refused(
            f"{config.data_dir} belongs to a demo, which can't be mixed with real data; choose"
            " another DATA_DIR, or run `app.py demo`"
        )


def run_observe(config: Config, args: Namespace) -> int:
    """Run one pass of the observer, then print each wallet's coverage."""
    import jobs
    import observer

    refuse_demonstration(config)
    with open_database(config), jobs.observer_lock():
        out = sys.stderr if args.json else sys.stdout
        watcher = observer.Observer(config, report=lambda text: print(text, file=out, flush=True))
        coverages = observer.observe_once(watcher, now_ms())
    lines = (
        f"{address}: {c['state']}, {c['receipts']} receipts, {c['pending']} pending,"
        f" {len(c['gaps'])} gaps"
        for address, c in coverages.items()
    )
    print_result(args, coverages, "\n".join(lines) or "no wallet is attached")
    if watcher.problem:
        print(f"not done: {watcher.problem}", file=sys.stderr)
        return 1
    return 0


def run_rebuild(config: Config, args: Namespace) -> None:
    if args.trader:
        run_rebuild_trader(config, args)
        return
    report = rebuild_wallets(config, args.bot)
    changed = sum(one.changes for one in report)
    lost = sum(one.receipts_lost for one in report)
    rows = [
        {
            "wallet": one.address,
            "entriesChanged": one.entries_changed,
            "receiptsLost": one.receipts_lost,
            "tradesChanged": one.trades_changed,
            "sumsChanged": one.sums_changed,
        }
        for one in report
    ]
    text = f"{len(rows)} wallets rebuilt: "
    text += f"{changed} rows changed" if changed else "nothing changed"
    if lost:
        text += (
            f"; {lost} stored receipts were missing or damaged; the observer will fetch them again"
        )
    print_result(args, {"wallets": rows, "changed": bool(changed)}, text)


def rebuild_wallets(config: Config, bot_id: str | None) -> "list[RebuiltWallet]":
    """Rebuild the records of all wallets, or of those that a bot has or has proven."""
    import jobs
    import models
    import observer
    from accounts import influencers
    from observing import rebuilding

    with open_database(config), jobs.observer_lock():
        wallets = list(models.Wallet.select())
        if bot_id:
            bot = influencers.find_bot(bot_id).id
            wallets = [
                wallet for wallet in wallets if bot in (wallet.bot_id, wallet.earlier_bot_id)
            ]
        return rebuilding.rebuild(observer.Observer(config).state, wallets, now_ms())


def run_rebuild_trader(config: Config, args: Namespace) -> None:
    """Recompute the fills of a trader's stored decisions. Differences open a review."""
    import papertrade
    from accounts import traders

    with open_database(config):
        trader = traders.find_trader(args.trader)
        differences = papertrade.rebuild_trader(trader, now_ms())
    text = "\n".join(differences) or "replayed, including random entries: nothing changed"
    shown = {"trader": args.trader, "differences": differences, "changed": bool(differences)}
    print_result(args, shown, text)


def run_mcp(config: Config, args: Namespace) -> None:
    """Serve Model Context Protocol on stdin and stdout. The tools call an instance over HTTP."""
    from accounts.problem import invalid

    key = os.environ.get("CANDOR_KEY")
    try:
        from agents.remote import RemoteClient
        from agents.tools import build_server

        server = build_server(RemoteClient(os.environ.get("CANDOR_URL") or config.base_url, key))
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "mcp":
            raise
        raise invalid(
            "mcp", "is not installed: .venv/bin/pip install --editable '.[mcp]'"
        ) from None
    server.run("stdio")


# ---- the demo ------------------------------------------------------------------------------------
# Settings in the environment that a demo keeps.
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
# Unlike those of `run`, so that both can serve at the same time.
DEMO_FOLDER, DEMO_PORT = "data-demo", "8010"


def run_demo(config: Config, args: Namespace) -> int:
    """Serve the stand-ins and bots from this process, and the product from a child process."""
    if args.staged:
        from cli.processes import serve

        # This process becomes the server.
        serve()
    from demo import cast, node, stage
    from demo.market import Market
    from demo.stage import address_of, start_server

    start, recording = int(time.time()), node.load_recording()
    chain, market = node.Node(recording, start), Market(recording["mints"], start)
    planned = cast.list_posts(recording)
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
    """Return the server's environment: the stand-ins in place of the network, and no settings of a
    real instance from the environment or `.env`.
    """
    blank = dict.fromkeys(settings.NAMES - set(KEPT_SETTINGS), "")
    own = {
        "DATA_DIR": os.path.abspath(given.get("DATA_DIR") or DEMO_FOLDER),
        "PORT": given.get("PORT") or DEMO_PORT,
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
