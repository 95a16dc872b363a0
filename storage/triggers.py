"""Trigger SQL by engine: {"sqlite": [statement, ...], "postgresql": [...]}."""

Statements = dict[str, list[str]]


def refuse_changes(table: str, why: str) -> Statements:
    """Return triggers that forbid updating or deleting rows of `table`."""
    return {
        "sqlite": [
            f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table}"
            f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
            for name, event in (("changed", "UPDATE"), ("removed", "DELETE"))
        ],
        "postgresql": [
            f"CREATE FUNCTION keep_{table}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION '{why}'; END $$",
            f"CREATE TRIGGER {table}_kept BEFORE UPDATE OR DELETE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION keep_{table}()",
        ],
    }
