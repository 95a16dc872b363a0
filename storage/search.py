"""Search the text of posts, with FTS5 on SQLite and a GIN index on PostgreSQL.

Both indexes change in the transaction that changes a post, so hiding a post removes its text from
the index.
"""

from collections.abc import Sequence

from storage import database, read_rows

# Words of a query that are used. For eight words that a million posts contain, a search takes 0.1
# s.
MAX_WORDS = 8
# PostgreSQL may choose a bad plan. SQLite doesn't need a limit.
MAX_MS = 1_500
SQLITE = """
SELECT rowid FROM post_words WHERE post_words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"""
WORDS = """to_tsvector('simple', translate(
    body || ' ' || COALESCE(symbol, '') || ' ' || COALESCE(reason, ''),
    '-/.:@_+#', '        '))"""
POSTGRESQL = f"""
SELECT id FROM post
WHERE {WORDS} @@ plainto_tsquery('simple', ?) AND id < ? ORDER BY id DESC LIMIT ?"""
ADD = (
    "INSERT INTO post_words (rowid, body, symbol, reason)"
    " VALUES (new.id, new.body, new.symbol, new.reason);"
)
REMOVE = (
    "INSERT INTO post_words (post_words, rowid, body, symbol, reason)"
    " VALUES ('delete', old.id, old.body, old.symbol, old.reason);"
)
# `secure-delete` removes a hidden post's words from the index's pages.
STATEMENTS = {
    "sqlite": [
        "CREATE VIRTUAL TABLE post_words USING fts5(body, symbol, reason, content='post',"
        " content_rowid='id', detail='none', tokenize=\"unicode61 remove_diacritics 2\")",
        "INSERT INTO post_words (post_words, rank) VALUES ('secure-delete', 1)",
        f"CREATE TRIGGER post_words_added AFTER INSERT ON post BEGIN {ADD} END",
        "CREATE TRIGGER post_words_changed AFTER UPDATE OF body, symbol, reason ON post"
        f" BEGIN {REMOVE} {ADD} END",
        f"CREATE TRIGGER post_words_removed AFTER DELETE ON post BEGIN {REMOVE} END",
    ],
    "postgresql": [f"CREATE INDEX post_words ON post USING gin ({WORDS})"],
}


def find_post_ids(words: Sequence[str], below: int, limit: int) -> list[int]:
    """Return posts with IDs below `below` that contain all these words, newest first.

    `words` may contain only letters and digits. Raises OperationalError if the database timed out.
    """
    if not words:
        return []
    if database.engine == "sqlite":
        query = " ".join(f'"{word}"' for word in words[:MAX_WORDS])
        return [number for (number,) in read_rows(SQLITE, (query, below, limit))]
    database.execute_sql(f"SET statement_timeout = {MAX_MS}")
    try:
        query = " ".join(words[:MAX_WORDS])
        return [number for (number,) in read_rows(POSTGRESQL, (query, below, limit))]
    finally:
        database.execute_sql("RESET statement_timeout")
