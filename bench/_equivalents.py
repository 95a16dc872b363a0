"""Mutants that nobody could tell from the source, each with its reason."""

# {path: {(what the lines said, what the mutant says): why it is the same}}
EQUIVALENTS: dict[str, dict[tuple[str, str], str]] = {}
