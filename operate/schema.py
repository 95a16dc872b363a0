"""Every table of the database."""

import models
from paper import tables as paper_tables

# In this order rows can be inserted: what a row names stands in a table before it.
TABLES = (*models.TABLES, *paper_tables.TABLES)
