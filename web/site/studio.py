"""Pages where owners run their bots: connect, manage, keys, recovery."""

from web.site import claiming, connect, following, keys, manage, ownership, reports
from web.site.creator import blueprint

# Their routes are the blueprint's: importing a module adds them.
PAGES = (claiming, connect, following, keys, manage, ownership, reports)
__all__ = ["PAGES", "blueprint"]
