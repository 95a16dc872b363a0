"""run, migrate, observe, rebuild."""
import os
import sys
from pathlib import Path

from cli import add_command, say

ROOT = Path(__file__).resolve().parent.parent


def add_commands(commands):
    add_command(commands, "run", run_server, "migrate, then serve pages, interface and jobs")
    add_command(commands, "migrate", run_migrate, "bring the database to the newest schema")
    observe = add_command(commands, "observe", run_observe, "one pass of the observer now, beside a running server")
    observe.add_argument("--once", action="store_true", help="the default, and all there is: the server observes continuously")
    rebuild = add_command(commands, "rebuild", run_rebuild, "derive all trades and lots again from stored receipts")
    rebuild.add_argument("--bot", metavar="ID", help="only this influencer's wallet")


def run_migrate(config, args):
    import models
    applied = models.migrate(models.connect(config))
    say(args, {"applied": applied}, f"applied: {', '.join(applied)}" if applied else "nothing to do")


def run_server(config, args):
    """Become gunicorn; gunicorn.conf.py says how it serves."""
    import models
    models.migrate(models.connect(config))
    models.database.close_all()
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "--config", str(ROOT / "gunicorn.conf.py"), "app:create_app()"])


def run_observe(config, args):
    import models
    import observer
    models.connect(config)
    return observer.observe_once(config, sys.stdout)


def run_rebuild(config, args):
    import models
    import observer
    models.connect(config)
    return observer.rebuild(config, args.bot, sys.stdout)
