"""The pages where owners run their bots: connect, manage, keys, recovery."""

from web.site import claiming, connect, following, keys, manage, ownership, reports
from web.site.creator import blueprint

# Importing a module registers its routes on the blueprint.
PAGES = (claiming, connect, following, keys, manage, ownership, reports)
__all__ = ["PAGES", "blueprint"]
