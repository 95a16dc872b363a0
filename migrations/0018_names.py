"""What two names have in common that a reader may take for each other. Names that are alike already
stay.
"""

from peewee import TextField

from chain.letters import find_skeleton


def up(migrator, db):
    for table in ("bot", "trader"):
        migrator.migrate(
            migrator.add_column(table, "likeness", TextField(default="")),
            migrator.add_index(table, ("likeness",), False),
        )
        for number, name in db.execute_sql(f'SELECT id, name FROM "{table}"').fetchall():
            db.execute_sql(
                f'UPDATE "{table}" SET likeness = ? WHERE id = ?', (find_skeleton(name), number)
            )
