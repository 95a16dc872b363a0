"""Run gunicorn in this process, or this program in another one, however it is installed."""

import sys

from gunicorn.app.wsgiapp import WSGIApplication

ARGUMENTS = ["--config", "python:serving", "app:create_app()"]


class Server(WSGIApplication):
    """gunicorn without imports from the working directory, which may have another app.py."""

    def chdir(self) -> None:
        """Stay in the start directory, because relative paths in the settings begin there."""


def serve() -> None:
    """Replace this process with gunicorn, which the module `serving` configures."""
    sys.argv[1:] = ARGUMENTS
    Server(prog="candor").run()


def find_command() -> list[str]:
    """Return the command that starts this program. PyInstaller's has its own interpreter."""
    is_frozen = getattr(sys, "frozen", False)
    return [sys.executable] if is_frozen else [sys.executable, sys.argv[0]]
