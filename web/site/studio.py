"""The pages creators run their bots with: connect, manage, keys, recovery."""

from web.site import account, claiming, connect, following, hooks, keys, manage, ownership, reports
from web.site.creator import blueprint

# Their routes are the blueprint's: importing a module adds them.
PAGES = (account, claiming, connect, following, hooks, keys, manage, ownership, reports)
__all__ = ["PAGES", "blueprint"]
