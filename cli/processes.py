"""gunicorn in this process, and this program in another one: from a checkout, an installation, or
a single file.
"""

import sys

from gunicorn.app.wsgiapp import WSGIApplication

# The settings are module `serving`.
ARGUMENTS = ["--config", "python:serving", "app:create_app()"]


class Server(WSGIApplication):
    """gunicorn as a library: it imports nothing from the working directory, where another program's
    `app.py` may be.
    """

    def chdir(self) -> None:
        """Stay where the program was started: relative paths of the settings begin there."""


def serve() -> None:
    """Become gunicorn; module `serving` says how it serves."""
    sys.argv[1:] = ARGUMENTS
    Server(prog="candor").run()


def find_command() -> list[str]:
    """Return the words that start this program again. A single file of PyInstaller is its own
    interpreter.
    """
    is_frozen = getattr(sys, "frozen", False)
    return [sys.executable] if is_frozen else [sys.executable, sys.argv[0]]
