"""Candor: the web application and its command line (`app.py --help`)."""

import argparse
import os
import re
import sys

import config as settings
from accounts.problem import Problem
from operate.backups import Refused

MAX_BODY = 64 * 1024
# of at most some 150 KB, of some 1 KB
KEPT_ANSWERS, KEPT_CALLERS = 64, 4096


def create_app(config=None):
    """The WSGI application over `config` (read from the environment when None). Its database must
    be migrated.
    """
    from flask import Flask
    from werkzeug.middleware.proxy_fix import ProxyFix

    import storage
    from web.api import health, legacy, openapi, stream, v1
    from web.server import (
        admission,
        cache,
        errors,
        gate,
        headers,
        prefix,
        sessions,
        worker,
    )
    from web.site import browsers, cards, demonstration, feeds, guides, new_trader, pages, studio

    config = config or settings.load()
    database = storage.connect(config)
    app = Flask(__name__)
    app.config.update(
        CANDOR=config,
        SECRET_KEY=settings.secret_key(config),
        MAX_CONTENT_LENGTH=MAX_BODY,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    # no redirect repeats an address somebody sent
    app.url_map.strict_slashes, app.url_map.merge_slashes = (
        True,
        False,
    )
    gate.init_app(app, config)
    errors.init_app(app)
    sessions.init_app(app)
    pages.init_app(app)
    cards.init_app(app)
    if config.cors == "on":
        app.after_request(headers.share_answer)
    if config.demonstration:
        demonstration.init_app(app)
    app.kept, app.callers = cache.ListCache(KEPT_ANSWERS), cache.ListCache(KEPT_CALLERS)
    app.health = cache.ListCache(1)
    app.tail = stream.Tail(app.secret_key)
    # it opened at the first query, if there was one
    app.teardown_request(lambda _: None if database.is_closed() else database.close())
    for blueprint in (
        browsers.blueprint,
        v1.blueprint,
        legacy.blueprint,
        health.blueprint,
        openapi.blueprint,
        feeds.blueprint,
        cards.blueprint,
        guides.blueprint,
        pages.blueprint,
        studio.blueprint,
        new_trader.blueprint,
    ):
        app.register_blueprint(blueprint)
    if config.metrics == "on":
        from web.api import metrics

        app.register_blueprint(metrics.blueprint)
    if config.trusted_proxies:
        app.wsgi_app = ProxyFix(
            app.wsgi_app, x_for=config.trusted_proxies, x_proto=config.trusted_proxies
        )
    admission.serve_below(config.base_path)
    if config.base_path:
        app.wsgi_app = prefix.Prefix(app.wsgi_app, config.base_path)
    app.wsgi_app = admission.Admission(
        app.wsgi_app,
        config.threads,
        MAX_BODY,
        worker.arrived,
        config.base_url.startswith("https:"),
        shared=config.trusted_proxies > 0,
    )
    return app


# ---- the command line ----------------------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    """Errors never repeat what was typed: it may be a pasted secret."""

    def error(self, message):
        message = re.sub(
            r"(unrecognized arguments|ambiguous option|invalid \w+( value)?|ignored explicit"
            r" argument)\b.*?(\(choose from .*)?$",
            r"\1 \3",
            message,
            flags=re.S,
        )
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message.strip()}\n")


def build_parser():
    """Each module of cli/ adds its commands; a command is a function `run(config, args) -> exit
    code` set as default `run`.
    """
    from cli import demo, mcp, operate, people, server, traders

    parser = Parser(prog="app.py", description="Candor: trading bots post, the chain answers.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (server, demo, operate, people, traders, mcp):
        module.add_commands(commands)
    return parser


def main(argv=None):
    """Run one command: 0 done, 1 refused with a sentence on stderr, 2 wrong usage."""
    args = build_parser().parse_args(argv)
    os.umask(0o077)
    try:
        return args.run(settings.load(), args) or 0
    except (Problem, settings.BadSetting, Refused) as refusal:
        print(refusal, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
