"""Ledgers in stablecoins as the ledger store writes them, for tests of what readers see."""

import orjson
from service import NOW, add_total

from chain.ledger.totals import Sums
from chain.reading.currencies import find_stablecoin
from models import Attachment, Bot, Trade, Wallet

NAMES = Sums._fields

# Reconciliation lines in a stablecoin.
RAW = (
    *("openingRaw", "closingRaw", "realizedRaw", "unmatchedProceedsRaw", "openCostRaw"),
    *("costLeftRaw", "receivedRaw", "sentRaw", "overheadRaw", "failedCostRaw", "otherRaw"),
    *("differenceRaw", "gapRaw"),
)


def observe_quote(wallet, symbol="USDC", at=NOW // 1000, span=None, **totals):
    """Store a wallet's running totals and those of its latest attachment, or of one `span`, at this
    second.
    """
    row, quote = Wallet.get(Wallet.address == wallet), find_stablecoin(symbol)
    latest = Attachment.select().where(Attachment.wallet == row).order_by(Attachment.id.desc())
    for one in (0, latest.get().id) if span is None else (span,):
        add_total(row, quote.mint, one, at, **totals)
    books = orjson.loads(row.by_stablecoin or "{}")
    books.setdefault(quote.mint, {"reconciliation": None, "averageCost": None, "positions": []})
    derive(wallet, books)
    Bot.update(standing_at=None).execute()


def derive(wallet, books):
    """Store the wallet's stablecoin ledgers: JSON by mint."""
    told = orjson.dumps(books).decode()
    Wallet.update(by_stablecoin=told).where(Wallet.address == wallet).execute()


def quote_trade(uid, symbol="USDC", change=0, status="not_applicable", **columns):
    """Turn a trade into one against a stablecoin. `change`: its raw units."""
    quote, trade = find_stablecoin(symbol), Trade.get(Trade.uid == uid)
    moved = orjson.loads(trade.token_changes)
    if change and quote.mint not in [mint for mint, _, _ in moved]:
        moved.append([quote.mint, str(change), quote.decimals])
    changes = orjson.dumps(moved).decode()
    Trade.update(currency=quote.mint, realized=status, token_changes=changes, **columns).where(
        Trade.uid == uid
    ).execute()
