"""Run gunicorn in this process, and this program in another process: from a checkout, an
installation, or a single file.
"""

import sys

from gunicorn.app.wsgiapp import WSGIApplication

# The settings are in the module `serving`.
ARGUMENTS = ["--config", "python:serving", "app:create_app()"]


class Server(WSGIApplication):
    """gunicorn as a library. It doesn't import from the working directory, which may contain
    another program's `app.py`.
    """

    def chdir(self) -> None:
        """Stay in the start directory, because relative paths in the settings begin there."""


def serve() -> None:
    """Replace this process with gunicorn, which the module `serving` configures."""
    sys.argv[1:] = ARGUMENTS
    Server(prog="candor").run()


def find_command() -> list[str]:
    """Return the command that starts this program. A PyInstaller executable contains its own
    interpreter.
    """
    is_frozen = getattr(sys, "frozen", False)
    return [sys.executable] if is_frozen else [sys.executable, sys.argv[0]]
