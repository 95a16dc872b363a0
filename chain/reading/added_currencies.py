"""Read DATA_DIR/currencies.csv: stablecoins that an operator adds (docs/programs.md)."""

import re

from chain.addresses import WRAPPED_SOL, is_base58
from chain.reading.currencies import STABLECOINS, Currency, use_currencies
from chain.reading.programs import AddedRows
from chain.symbols import OWNED, SYMBOLS, find_bare

COLUMNS = ("mint", "symbol", "decimals")
# Each currency adds ten boards. With 9 decimals, nine billion units fit a signed 64-bit sum.
MAX_ADDED, MAX_DECIMALS = 20, 9
SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9]{1,11}")
BUILT_IN = {WRAPPED_SOL: "SOL", **{one.mint: one.symbol for one in STABLECOINS}}


def read_currencies(text: str) -> tuple[Currency, ...]:
    rows, added = AddedRows("currencies.csv", COLUMNS, text), dict[str, Currency]()
    for mint, symbol, decimals in rows:
        _check_mint(rows, mint, added)
        _check_symbol(rows, mint, symbol, added)
        if not re.fullmatch("[0-9]", decimals):
            raise rows.refuse("decimals", f"must be a whole number from 0 to {MAX_DECIMALS}")
        if len(added) == MAX_ADDED:
            raise rows.refuse("mint", f"must be one of at most {MAX_ADDED} currencies")
        added[mint] = Currency(mint, symbol, int(decimals), "")
    return tuple(added.values())


def use_added(text: str) -> None:
    """Use this file's currencies in this process. Raises BadTable."""
    use_currencies(read_currencies(text))


def _check_mint(rows: AddedRows, mint: str, added: dict[str, Currency]) -> None:
    if not is_base58(mint, 32):
        raise rows.refuse("mint", "must be a token's address, base58 of 32 bytes")
    if mint in BUILT_IN:
        raise rows.refuse("mint", f"{BUILT_IN[mint]} is built in, so leave it out")
    if mint in added:
        raise rows.refuse("mint", "must be listed once")


def _check_symbol(rows: AddedRows, mint: str, symbol: str, added: dict[str, Currency]) -> None:
    """Reject the symbol of another token, because readers identify currencies by symbol."""
    if not SYMBOL.fullmatch(symbol):
        raise rows.refuse("symbol", "must be 2 to 12 letters and digits, starting with a letter")
    own = SYMBOLS.get(mint)
    if own and own != symbol:
        raise rows.refuse("symbol", f"must be {own}, this token's well-known symbol")
    if not own and (known := OWNED.get(find_bare(symbol))):
        raise rows.refuse("symbol", f"must not resemble {known}, another token's symbol")
    if find_bare(symbol) in [find_bare(one.symbol) for one in added.values()]:
        raise rows.refuse("symbol", "must be listed once")
