"""Token symbols: only the well-known mints listed here own theirs."""

from functools import lru_cache

from chain.letters import find_bare, write_line
from chain.reading.quotes import MONEYS, QUOTES, Quote, list_added

# {mint: symbol}. Other currencies first, then well-known tokens.
SYMBOLS = {quote.mint: quote.symbol for quote in QUOTES} | {
    "So11111111111111111111111111111111111111112": "SOL",
    "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB": "USD1",
    "USDSwr9ApdHk5bvJKMjzff41FfuX8bSxdKcR81vTwcA": "USDS",
    "DEkqHyPN7GMRJ5cArtQFAWefqbZb33Hyf6s5iCwjEonT": "USDe",
    "2u1tszSeqZ3qBWF3uNGPFc8TzMk2tdiwknnRMWGWjGWH": "USDG",
    "9zNQRsGLjNKwCUU5Gq5LR8beUCPzQMVMqKAi3SSZh54u": "FDUSD",
    "HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr": "EURC",
    "J1toso1uCk3RLmjorhTtrVwY9HJ7X8V9yYac6Y7kGCPn": "JitoSOL",
    "mSoLzYCxHdYgdzU16g5QSh3i5K3z3KZK7ytfqcJm7So": "mSOL",
    "bSo13r4TkiE4KumL71LsHTPpL2euBYLFx6h9HP3piy1": "bSOL",
    "jupSoLaHXQiZZTSfEWMTRRgpnyFm8f6sZdosWBjx93v": "JupSOL",
    "27G8MtK7VtTcCHkpASjSDdkWWYfoqT6ggEuKidVJidD4": "JLP",
    "3NZ9JMVBmGAqocybic2c7LQCJScmgsAZ6vQqTDzcqmJh": "WBTC",
    "cbbtcf3aa214zXHbiAZQwf4122FBYbraNdFqgw4iMij": "cbBTC",
    "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN": "JUP",
    "jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL": "JTO",
    "HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3": "PYTH",
    "4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R": "RAY",
    "orcaEKTdK7LKz57vaAYr9QeNsVEPfiu6QeMU1kektZE": "ORCA",
    "hntyVP6YFm1Hg25TN9WGLqM12b8TQmcknKrdu1oxWux": "HNT",
    "rndrizKT3MK1iimdxRdWabcF7Zg7AR5T4nud4EkHBof": "RENDER",
    "DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263": "BONK",
    "EKpQGSJtjMFqKZ9KQanSqYXRcF8fBopzLHYxdM65zcjm": "WIF",
    "7GCihgDB8fe6KNjn2MYtkzZcRjQy3t9GHdC8uHYmW2hr": "POPCAT",
    "6p6xgHyF7AeE6TZkSmFsko444wqoP15icUSqi2jfGiPN": "TRUMP",
    "2zMMhcVQEXDtdE6vsFS7S7D5oUodfJHE8vd1gnBouauv": "PENGU",
    "9BB6NFEcjBCtnNLFko2FqVQBq8HHM13kCyYcdQbgpump": "FARTCOIN",
}
# Other names for them.
OTHER_NAMES = {
    "WSOL": "SOL",
    "Solana": "SOL",
    "Wrapped SOL": "SOL",
    "USD Coin": "USDC",
    "Tether": "USDT",
    "Tether USD": "USDT",
    "PayPal USD": "PYUSD",
}
OWNED = {find_bare(name): symbol for name, symbol in OTHER_NAMES.items()} | {
    find_bare(symbol): symbol for symbol in SYMBOLS.values()
}


def show_symbol(mint: str | None, told: str | None) -> str | None:
    """Return a well-known token's symbol, or the issuer's text, marked if it imitates one."""
    return find_own(mint) or mark_name(mint, told)


def find_own(mint: str | None) -> str | None:
    """Return the symbol that a well-known token or a currency of this instance owns."""
    known = SYMBOLS.get(mint or "")
    return known or (MONEYS[mint].symbol if mint and mint in MONEYS else None)


def mark_name(mint: str | None, told: str | None) -> str | None:
    """Return the issuer's text on one line, marked with the mint if it imitates a known symbol."""
    text = write_line(told or "").removesuffix(_suffix(mint))
    if find_imitated(mint, text) is None:
        return text or None
    return f"{text}{_suffix(mint)}" if mint else None


def find_imitated(mint: str | None, shown: str | None) -> str | None:
    """Return the well-known symbol that another token imitates, or None."""
    if find_own(mint):
        return None
    told = (shown or "").removesuffix(_suffix(mint))
    bare = find_bare(told.strip("$ "))
    return OWNED.get(bare) or _list_owned(list_added()).get(bare)


@lru_cache(maxsize=1)
def _list_owned(added: tuple[Quote, ...]) -> dict[str, str]:
    return {find_bare(quote.symbol): quote.symbol for quote in added}


def _suffix(mint: str | None) -> str:
    return f" ({mint[:4]}…{mint[-4:]})" if mint else ""
