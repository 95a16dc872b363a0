"""The whole schema. Until the first release, a change of the schema changes the models instead of
adding a migration.
"""

from operate import schema


def up(migrator, db):
    schema.create(db)
