"""The operator's pages, below /admin."""

from web.site.admin import backups, changes, lists, overview, seasons
from web.site.admin.entry import blueprint

# Importing a module registers its routes on the blueprint.
PAGES = (backups, changes, lists, overview, seasons)
__all__ = ["PAGES", "blueprint"]
