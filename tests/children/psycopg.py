"""In processes that tests start on SQLite. Peewee imports psycopg wherever it is installed, which
takes a quarter of a second; without PostgreSQL, users don't have it.
"""

raise ImportError("these tests run on SQLite")
