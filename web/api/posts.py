"""Posts as JSON, each with its receipt: what the chain says happened, beside what the bot says."""

from collections.abc import Iterable

from chain.amounts import exact
from chain.reading.beside import Change, list_venue_changes
from chain.scales import show_amount
from chain.stored.verify import VERIFIED_KINDS
from chain.symbols import show_symbol
from storage.rows import is_damaged
from web.api import market
from web.api.post_statements import PostRow
from web.api.quote_trades import show_in_quote
from web.api.serialize import (
    Json,
    Scales,
    find_multiplier,
    show_seconds,
    show_share,
    show_sol,
    show_time,
)
from web.server.application import find_app

UNTRUSTED_FIELDS = ["body", "reason", "symbol"]


def show_post(row: PostRow, base_url: str, scales: Scales) -> Json:
    """Make the Post. A hidden post keeps its record and loses its words. `base_url`: of this
    instance, without a slash at its end.
    """
    hidden = row.hidden_at is not None
    if is_damaged(row):
        # As before the trade was observed: there is no receipt to show.
        row = row._replace(trade_kind=None, token_changes=None, beside_tokens=None)
    return {
        "id": row.uid,
        "botId": row.bot,
        "botName": row.bot_name,
        "eventId": row.event_id,
        "body": None if hidden else row.body,
        "mint": row.mint,
        "symbol": None if hidden else _show_symbol(row),
        "signature": row.signature,
        "reason": None if hidden else row.reason,
        "source": row.source,
        "simulated": False,
        "verified": row.status == "verified",
        "verification": {
            "status": row.status,
            "tradeId": row.trade,
            "checkedAt": show_time(row.checked_at),
            "reason": row.status_reason,
        },
        "eventAt": show_time(row.event_at),
        "createdAt": show_time(row.created_at),
        "tokenAddresses": _list_mints(row),
        "provenance": {
            "channel": row.channel,
            "keyId": row.key,
            "wallet": row.wallet,
            "ownership": row.ownership,
            "contentTrust": "generated" if row.source == "observer" else "untrusted",
            "untrustedFields": UNTRUSTED_FIELDS,
        },
        "sanitized": bool(row.sanitized),
        "hiddenAt": show_time(row.hidden_at),
        "receipt": show_receipt(row, scales),
        "url": f"{base_url}/posts/{row.uid}",
        "logId": row.log,
        "logIndex": row.log_place,
    }


def _list_mints(row: PostRow) -> list[str]:
    changes = (*(row.token_changes or ()), *(row.beside_tokens or ()))
    mints = (row.mint, *(mint for mint, _, _ in changes), row.trade_mint)
    return list(dict.fromkeys(mint for mint in mints if mint))


def show_posts(rows: Iterable[PostRow]) -> list[Json]:
    """Make the Posts of an answer."""
    base_url = find_app().settings.base_url
    scales = market.read_scales()
    return [show_post(row, base_url, scales) for row in rows]


def _show_symbol(row: PostRow) -> str | None:
    """Return the symbol that a bot told, which nobody owns as long as it names no mint."""
    return show_symbol(row.mint, row.symbol) if row.mint else row.symbol


# ---- receipts ------------------------------------------------------------------------------------
# Kinds that take a side; the others say by their kind what they are.
SIDES = ("buy", "sell", "swap")


def show_receipt(row: PostRow, scales: Scales) -> Json | None:
    """Make the Receipt of the trade that a post names; None while none was observed.

    Amounts are those of the trade itself, without what passed beside it.
    """
    if row.trade_kind is None:
        return None
    moved = list_moved(row)
    own = next((change for change in moved if change.mint == row.trade_mint), None)
    return {
        "status": "failed" if row.trade_kind == "failed" else "finalized",
        "kind": row.trade_kind,
        "side": row.trade_kind if row.trade_kind in SIDES else None,
        "wallet": row.trade_wallet,
        "mint": row.trade_mint,
        "symbol": show_symbol(row.trade_mint, row.trade_symbol),
        "amount": _show_amount(row, own._replace(raw=abs(own.raw)), scales) if own else None,
        "tokenChanges": [
            {"mint": one.mint, "change": _show_amount(row, one, scales)} for one in moved
        ],
        "solChange": _show_venue_sol(row),
        "realized": "not_applicable" if row.currency else row.realized,
        "resultSol": None if row.currency else show_sol(row.result),
        "resultPct": None if row.currency else show_percentage(row.result, row.cost),
        **show_in_quote(row, row.trade_kind, row.trade_flags or ()),
        "explainedShare": show_share(row.explained),
        "slot": row.slot,
        "eventAt": show_seconds(row.block_time),
        "beforeConnecting": _is_early(row),
    }


def _show_amount(row: PostRow, change: Change, scales: Scales) -> str | None:
    """As the token was displayed then."""
    multiplier = find_multiplier(scales, change.mint, row.block_time)
    return show_amount(change.raw, change.decimals, multiplier)


def _is_early(row: PostRow) -> bool:
    if row.block_time is None or row.connected_at is None:
        return False
    return row.block_time * 1000 < row.connected_at


def _show_venue_sol(row: PostRow) -> str | None:
    if row.trade_kind not in VERIFIED_KINDS:
        return None
    return show_sol((row.sol_change or 0) - (row.beside_sol or 0))


def list_moved(row: PostRow) -> list[Change]:
    """List what the trade moved of each token, less what passed beside it; zeros left out. Empty if
    it can't be told which part passed through the venue.
    """
    if "ambiguous" in (row.trade_flags or ()):
        return []
    return list_venue_changes(row.token_changes or (), row.beside_tokens or ())


def show_percentage(result: int | None, cost: int | None) -> str | None:
    """Write a result in percent of its cost, in the same unit, with two decimals at most: -4.13.
    None where there is no result or no cost. Halves are rounded away from zero.
    """
    if result is None or not cost:
        return None
    hundredths = (abs(result) * 20_000 + cost) // (2 * cost)
    return exact(-hundredths if result < 0 else hundredths, 2)
