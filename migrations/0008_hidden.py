"""What a retry of a hidden post is compared with: its words are not kept."""

from peewee import TextField


def up(migrator, db):
    migrator.migrate(migrator.add_column("post", "hidden_hash", TextField(null=True)))
