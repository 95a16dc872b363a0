"""Every table of the database."""

import models
from accounts import admin_tables, conduct_tables
from accounts import tables as accounts_tables
from chain import group_tables, quote_tables
from chain import tables as chain_tables
from evidence import tables as evidence_tables
from market import tables as market_tables
from paper import equity_tables, measured_tables, twin_tables
from paper import tables as paper_tables

# In this order rows can be inserted: what a row names stands in a table before it.
TABLES = (
    *models.TABLES,
    *accounts_tables.TABLES,
    *admin_tables.TABLES,
    *chain_tables.TABLES,
    *group_tables.TABLES,
    *quote_tables.TABLES,
    *evidence_tables.TABLES,
    *market_tables.TABLES,
    *paper_tables.TABLES,
    *conduct_tables.TABLES,
    *twin_tables.TABLES,
    *equity_tables.TABLES,
    *measured_tables.TABLES,
)
