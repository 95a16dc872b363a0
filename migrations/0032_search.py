"""An index of the words of posts, and of the transactions they name.

It is kept by triggers (SQLite) or is an index of an expression (PostgreSQL), so no writer can
forget it. `secure-delete` takes the words of a hidden post out of the index's pages. A million
posts take about three seconds.
"""

WORDS = """CREATE VIRTUAL TABLE post_words USING fts5(body, symbol, reason, content='post',
content_rowid='id', detail='none', tokenize="unicode61 remove_diacritics 2")"""
ADD = (
    "INSERT INTO post_words (rowid, body, symbol, reason)"
    " VALUES (new.id, new.body, new.symbol, new.reason);"
)
REMOVE = (
    "INSERT INTO post_words (post_words, rowid, body, symbol, reason)"
    " VALUES ('delete', old.id, old.body, old.symbol, old.reason);"
)
SQLITE = (
    WORDS,
    "INSERT INTO post_words (post_words, rank) VALUES ('secure-delete', 1)",
    "INSERT INTO post_words (post_words) VALUES ('rebuild')",
    f"CREATE TRIGGER post_words_added AFTER INSERT ON post BEGIN {ADD} END",
    "CREATE TRIGGER post_words_changed AFTER UPDATE OF body, symbol, reason ON post"
    f" BEGIN {REMOVE} {ADD} END",
    f"CREATE TRIGGER post_words_removed AFTER DELETE ON post BEGIN {REMOVE} END",
)
POSTGRESQL = (
    """CREATE INDEX post_words ON post USING gin (to_tsvector('simple', translate(
    body || ' ' || COALESCE(symbol, '') || ' ' || COALESCE(reason, ''),
    '-/.:@_+#', '        ')))""",
)
BOTH = (
    "CREATE INDEX post_signature ON post (signature)",
    "CREATE INDEX post_status_id ON post (status, id)",
)


def up(migrator, db):
    for statement in (*BOTH, *(SQLITE if db.engine == "sqlite" else POSTGRESQL)):
        db.execute_sql(statement)
