"""Rows to JSON: the shapes of the interface. Amounts are decimal strings, times RFC 3339 in UTC; no
float appears.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, overload

import orjson

from accounts.fields import is_provable
from accounts.influencers import read_voice
from chain.amounts import show_lamports, sol
from chain.reading.beside import Change, list_venue_changes
from chain.scales import ONE, Scale, show_amount
from chain.stored.summary import NOT_POLLED, read_coverage
from storage.stored import Damaged
from web.api.statements import ActivityRow, BotRow, TradeRow

Json = dict[str, Any]
# By mint, of those that don't show raw units as they are.
Scales = Mapping[str, Scale]


def write_cached(value: object) -> bytes:
    """Write JSON that stays in memory. orjson's bytes hold a block of up to ten times their length
    until they are freed; a copy takes only its own length.
    """
    return bytes(memoryview(orjson.dumps(value)))


@overload
def show_time(ms: int) -> str: ...
@overload
def show_time(ms: int | None) -> str | None: ...
def show_time(ms: int | None) -> str | None:
    """Write UTC milliseconds as `2026-11-20T12:00:00.123Z`, whole seconds without the fraction.
    None stays None.
    """
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    # Four times as fast as strftime.
    text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


def show_sol(lamports: int | None) -> str | None:
    """Return lamports as exact SOL, as in `0.000005`."""
    return None if lamports is None else sol(lamports)


# ---- trades --------------------------------------------------------------------------------------
def show_trade(row: TradeRow, symbols: Mapping[str, str], scales: Scales) -> Json:
    """Make the Trade. `symbols`: {mint: symbol}, as far as they are known."""
    return {
        "id": row.uid,
        "botId": row.bot,
        "wallet": row.wallet,
        "signature": row.signature,
        "slot": row.slot,
        "transactionIndex": row.tx_index,
        "blockTime": row.block_time,
        "eventAt": show_seconds(row.block_time),
        "status": "finalized",
        "kind": row.kind,
        "venue": row.venue,
        "mint": row.mint,
        "symbol": symbols.get(row.mint or ""),
        "tokenChanges": show_changes(row, row.token_changes, symbols, scales),
        "solChangeLamports": str(row.sol_change),
        "solChange": show_sol(row.sol_change),
        "feeLamports": str(row.fee),
        "tipLamports": str(row.tip),
        "rentLamports": str(row.rent),
        "realized": _show_realized(row),
        "explainedShare": show_share(row.explained),
        "counterparties": row.counterparties,
        "beside": _show_beside(row, symbols, scales),
        "flags": row.flags,
        "source": "chain",
        "verified": True,
        "explorerUrl": explorer_url(row.signature),
    }


def show_changes(
    row: TradeRow | ActivityRow,
    changes: Iterable[Sequence[Any]],
    symbols: Mapping[str, str],
    scales: Scales,
) -> list[Json]:
    """Make a trade's token changes, as its tokens were displayed then."""
    return [
        show_change(change, symbols, find_multiplier(scales, change[0], row.block_time))
        for change in changes
    ]


def find_multiplier(scales: Scales, mint: str, at: int | None) -> Fraction | None:
    """Find what displayed amounts multiply raw units by, at a time (Unix seconds; None: the latest
    that is known). None if it can't be read.
    """
    scale = scales.get(mint)
    return ONE if scale is None else scale.find(sys.maxsize if at is None else at)


def _show_beside(
    row: TradeRow | ActivityRow, symbols: Mapping[str, str], scales: Scales
) -> Json | None:
    """Show what of a trade did not pass through its venue; None where all of it did."""
    if not row.beside_tokens and not row.beside_sol:
        return None
    return {
        "solLamports": str(row.beside_sol),
        "tokenChanges": show_changes(row, row.beside_tokens, symbols, scales),
    }


def show_share(percent: int | None) -> str | None:
    """Write 0 to 100 as `0.98`."""
    return None if percent is None else f"{percent // 100}.{percent % 100:02}"


def show_change(
    change: Sequence[Any], symbols: Mapping[str, str], multiplier: Fraction | None = ONE
) -> Json:
    """Make a token change of the interface."""
    mint, raw, decimals = change
    return {
        "mint": mint,
        "symbol": symbols.get(mint),
        "changeRaw": str(raw),
        "change": show_amount(int(raw), decimals, multiplier),
        "decimals": decimals,
        "multiplier": write_multiplier(multiplier),
    }


def write_multiplier(multiplier: Fraction | None) -> str | None:
    """Write it as an exact decimal number; null if it can't be read."""
    if multiplier is None:
        return None
    return "1" if multiplier == 1 else f"{Decimal(multiplier.numerator) / multiplier.denominator:f}"


NOT_IN_SOL: Json = {
    **{"status": "not_applicable", "method": "fifo", "matchedRaw": "0", "unmatchedRaw": "0"},
    **dict.fromkeys(("resultLamports", "resultSol", "proceedsLamports", "costLamports")),
    "lots": [],
}


def _show_realized(row: TradeRow) -> Json:
    if row.currency:
        return NOT_IN_SOL
    return {
        "status": row.realized,
        "method": "fifo",
        "resultLamports": show_lamports(row.result),
        "resultSol": show_sol(row.result),
        "proceedsLamports": show_lamports(row.proceeds),
        "costLamports": show_lamports(row.cost),
        "matchedRaw": row.matched_raw,
        "unmatchedRaw": row.unmatched_raw,
        "lots": [
            {"tradeId": trade, "amountRaw": str(amount), "costLamports": show_lamports(cost)}
            for trade, amount, cost in row.lots
        ],
    }


def show_seconds(seconds: int | None) -> str | None:
    """Write Unix seconds like show_time."""
    return None if seconds is None else show_time(seconds * 1000)


def explorer_url(signature: str) -> str:
    """Return the page of a public explorer about a transaction."""
    return f"https://solscan.io/tx/{signature}"


def list_moved(row: ActivityRow) -> list[Change]:
    """List what a trade bought and sold: its changes less those beside its venue."""
    return list_venue_changes(row.token_changes, row.beside_tokens)


def show_activity(row: ActivityRow, mint: str, scales: Scales) -> Json:
    """Make the ActivityRow of the interface: what the trade bought or sold of this mint."""
    change = next(one for one in list_moved(row) if one.mint == mint)
    amount, multiplier = abs(change.raw), find_multiplier(scales, mint, row.block_time)
    return {
        "side": row.side,
        "botId": row.bot,
        "botName": row.bot_name,
        "wallet": row.wallet,
        "amountRaw": str(amount),
        "amount": show_amount(amount, change.decimals, multiplier),
        "decimals": change.decimals,
        "solChangeLamports": str(row.sol_change),
        "solChange": show_sol(row.sol_change),
        "eventAt": show_seconds(row.block_time),
        "slot": row.slot,
        "signature": row.signature,
        "tradeId": row.trade,
        "kind": row.kind,
        "explainedShare": show_share(row.explained),
        "beside": _show_beside(row, {}, scales),
        "flags": row.flags,
        "explorerUrl": explorer_url(row.signature),
    }


# Why a bot that claims a wallet has no results: the wallet's sums hold what another bot did, who
# held it before. What happened since the claim is not added up apart.
HELD_BY_ANOTHER = "held_by_another"
# Why something is missing whose stored text a fault of the disk damaged: the next poll writes it.
DAMAGED = "damaged"


def show_part(value: Any) -> tuple[Any, str | None]:
    """Return a part of a row, or None and why it is missing."""
    return (None, DAMAGED) if isinstance(value, Damaged) else (value, None)


def positions_of(row: BotRow) -> list[Json] | None:
    """List the bot's open positions; the costs of a merely claimed wallet's are not its own. None
    if they are damaged.
    """
    positions: list[Json] | None = show_part([] if row.positions is None else row.positions)[0]
    if row.since is None or positions is None:
        return positions
    return [{**one, "costLamports": None, "unknownBasisRaw": one["amountRaw"]} for one in positions]


# ---- bots ----------------------------------------------------------------------------------------
def show_bot(row: BotRow, former_wallets: Sequence[str], base_url: str) -> Json:
    """Make the Bot. Results, coverage and positions are JSON that the ledger wrote."""
    results, reason = show_part(row.results)
    if row.since is not None:
        results, reason = None, HELD_BY_ANOTHER
    return {
        "id": row.uid,
        "handle": row.handle,
        "name": row.name,
        "bio": row.bio,
        "mode": "wallet",
        "voice": read_voice(row.voice),
        "avatarUrl": row.avatar_url,
        "profileUrl": f"{base_url}/bots/{row.uid}",
        "wallet": _show_wallet(row),
        "provable": is_provable(row.address) if row.address else None,
        "performance": "observed" if row.address else "unverified",
        "results": results,
        "resultsReason": reason,
        **_show_books(row),
        "coverage": show_coverage(row.address, row.coverage),
        "createdAt": show_time(row.created_at),
        "lastTradeAt": show_time(_find_last_trade(row)),
        "lastPostAt": show_time(row.last_post_at),
        "retiredAt": show_time(row.retired_at),
        "formerWallets": [one for one in dict.fromkeys(former_wallets) if one != row.address],
        "autoPost": bool(row.auto_post),
    }


def _show_books(row: BotRow) -> Json:
    """Show where the wallet's money went, and the average cost beside FIFO, or why not."""
    reason = _find_books_reason(row)
    return {
        "reconciliation": None if reason else row.reconciliation,
        "reconciliationReason": reason,
        "averageCost": None if row.since is not None else show_part(row.average_cost)[0],
    }


def _find_books_reason(row: BotRow) -> str | None:
    if row.address is None:
        return "no_wallet"
    if row.since is not None:
        return HELD_BY_ANOTHER
    if row.reconciliation is not None:
        return show_part(row.reconciliation)[1]
    state = read_coverage(row.coverage)["state"]
    return {"none": "not_observed", "backfilling": "backfilling"}.get(state, DAMAGED)


def _show_wallet(row: BotRow) -> Json | None:
    if not row.address:
        return None
    return {
        "address": row.address,
        "attachedAt": show_time(row.attached_at),
        "ownership": row.ownership,
    }


def _find_last_trade(row: BotRow) -> int | None:
    """When the bot's wallet last traded, in ms; None where that was before its claim began."""
    if row.since is not None and (row.last_trade_at or 0) < row.since:
        return None
    return row.last_trade_at


def show_coverage(address: str | bool | None, coverage: str | None) -> Json:
    """Return the stored Coverage, or one of state `none` that says why."""
    if address or coverage is not None:
        return read_coverage(coverage)
    return {**NOT_POLLED, "note": "no wallet is connected, so nothing is observed"}
