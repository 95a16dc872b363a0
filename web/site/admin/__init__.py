"""The pages of the operator, below /admin."""

from web.site.admin import backups, changes, lists, overview, seasons
from web.site.admin.entry import blueprint

# Their routes are the blueprint's: importing a module adds them.
PAGES = (backups, changes, lists, overview, seasons)
__all__ = ["PAGES", "blueprint"]
