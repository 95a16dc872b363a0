"""The quick tests, without servers, that must catch each room's mutants."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "chain": (
        "addresses amounts answers balances board coverage exchanges histories instructions "
        "ledger ledger_oracles ledger_store mints observed_histories packing pools programs "
        "quotes quotes_shown receipts recorded risk_shown rpc several_wallets stablecoins "
        "standings verification"
    ),
    "paper": (
        "backtest_pages backtests brain closes conduct engine falls fills legacy measured "
        "own_strategies papertrade positions results shapes strategies twins"
    ),
    "accounts": (
        "accounts attachments auto_posts conduct fields leaving log posts quotas said_and_did "
        "several_wallets verification"
    ),
}
# Modules on the money path, in rooms that also have others.
MODULES = {
    "accounts": "acts api_keys auto_posts keys owners posts quotas verification wallets".split(),
}
QUIET = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="]


def list_modules(rooms):
    """Return the modules' paths, from the root."""
    return [
        str(path.relative_to(ROOT))
        for room in rooms
        for path in sorted((ROOT / room).rglob("*.py"))
        if path.stem in MODULES.get(room, [path.stem])
    ]


def list_tests(rooms, only=()):
    """Return the test files' paths without duplicates; only the named ones if any are named."""
    names = {name for room in rooms for name in ROOMS[room].split()}
    paths = {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}
    return [
        str(paths[f"test_{name}"].relative_to(ROOT))
        for name in sorted(names)
        if not only or name in only
    ]
