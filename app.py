"""Candor: the web application and its command line (`app.py --help`)."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import config as settings
from cli.parser import main

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from web.server.application import Application

MAX_BODY_BYTES = 64 * 1024
# A cached list is up to 150 KB, a cached caller about 1 KB.
MAX_CACHED_LISTS, MAX_CACHED_CALLERS = 32, 4096
# Modules with routes, in web.api and web.site. Those without a `blueprint` add routes to v1's.
API = "v1 bots posts mcp legacy health log leaderboard search seasons stream".split()
PAGES = (
    "backtest_pages board cards connect documentation embeds evidence exports feeds following front"
    " guides keys live log_pages manage new_trader pages paper_pages profiles search seasons tokens"
    " admin.changes admin.lists admin.overview"
).split()
ROUTES = (*(f"web.api.{name}" for name in API), *(f"web.site.{name}" for name in PAGES))


def create_app(config: settings.Config | None = None) -> Application:
    """Create the WSGI application. Its database must be migrated.

    Raises BadSetting for an invalid setting, BadTable for an invalid row in DATA_DIR/programs.csv
    or currencies.csv.
    """
    import storage
    from evidence.notes import Signer
    from storage import files
    from web.server import application
    from web.site import pages

    config = config or settings.load()
    # Fail on an invalid row now, not when the first wallet is looked up.
    pages.use_tables(config)
    storage.connect(config)
    app = application.Application(__name__)
    app.config.update(
        CANDOR=config,
        SECRET_KEY=files.secret_key(config),
        MAX_CONTENT_LENGTH=MAX_BODY_BYTES,
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    app.url_map.strict_slashes = True
    # Don't redirect: the redirect would repeat a URL that the client sent.
    app.url_map.merge_slashes = False
    fill_memory(app)
    app.log_signer = Signer(files.log_key(config))
    _add_hooks(app, config)
    _add_routes(app, config)
    _add_layers(app, config)
    return app


def fill_memory(app: Application) -> None:
    from web.api import stream
    from web.server.application import ListCache, Places

    app.list_cache = ListCache(MAX_CACHED_LISTS)
    app.caller_cache = ListCache(MAX_CACHED_CALLERS)
    app.places = Places()
    app.stream_hub = stream.StreamHub(app.secret, app.settings.base_url)


def _add_hooks(app: Application, config: settings.Config) -> None:
    from web.api import v1
    from web.server import application, errors, gate, sessions
    from web.site import cards, demonstration, pages

    # Registered first, so it runs last, on the finished response.
    app.after_request(v1.pack_response)
    gate.init_app(app, config)
    errors.init_app(app)
    sessions.init_app(app)
    pages.init_app(app)
    cards.init_app(app)
    app.after_request(application.share_answer)
    if config.demonstration:
        demonstration.init_app(app)


def _add_routes(app: Application, config: settings.Config) -> None:
    names = [*ROUTES, *(["web.api.metrics"] if config.metrics == "on" else [])]
    # Import all of them first, because some add routes to another module's blueprint.
    modules = [importlib.import_module(name) for name in names]
    # Several pages share a blueprint.
    own = (one.blueprint for one in modules if hasattr(one, "blueprint"))
    for blueprint in dict.fromkeys(own):
        app.register_blueprint(blueprint)


def _add_layers(app: Application, config: settings.Config) -> None:
    """Add WSGI middleware, the innermost layer first."""
    from werkzeug.middleware.proxy_fix import ProxyFix

    from web.server.application import Headers, Prefix

    layers: WSGIApplication = app.wsgi_app
    if config.trusted_proxies:
        layers = ProxyFix(layers, x_for=config.trusted_proxies, x_proto=config.trusted_proxies)
    if config.base_path:
        layers = Prefix(layers, config.base_path)
    layers = Headers(layers, https=config.base_url.startswith("https:"))
    # Flask's documentation recommends this, although its types call wsgi_app a method.
    app.wsgi_app = layers  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
