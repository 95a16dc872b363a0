"""Rows to JSON: the shapes of the interface. Amounts are decimal strings, times RFC 3339 in UTC; no
float appears.
"""

from datetime import UTC, datetime

import orjson

from accounts.fields import is_provable
from chain.amounts import exact, sol


def show_time(ms):
    """UTC milliseconds as `2026-11-20T12:00:00.123Z`, whole seconds without the fraction; None
    stays None.
    """
    if ms is None:
        return None
    seconds, rest = divmod(ms, 1000)
    # the start of a list's cost: four times as fast as strftime
    text = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    return f"{text}.{rest:03}Z" if rest else f"{text}Z"


def show_sol(lamports):
    return None if lamports is None else sol(lamports)


def show_lamports(lamports):
    return None if lamports is None else str(lamports)


# ---- posts ---------------------------------------------------------------------------------------
UNTRUSTED_FIELDS = ["body", "reason", "symbol"]


def show_post(row):
    """A row of queries.POST as the interface shows it. A hidden post keeps its record and loses its
    words.
    """
    (
        _,
        uid,
        bot,
        bot_name,
        event_id,
        body,
        mint,
        symbol,
        signature,
        reason,
        source,
        status,
        trade,
        checked_at,
        status_reason,
        event_at,
        created_at,
        channel,
        key,
        wallet,
        sanitized,
        hidden_at,
        token_changes,
        ownership,
    ) = row
    if hidden_at is not None:
        body = symbol = reason = None
    moved = [change[0] for change in orjson.loads(token_changes)] if token_changes else []
    return {
        "id": uid,
        "botId": bot,
        "botName": bot_name,
        "eventId": event_id,
        "body": body,
        "mint": mint,
        "symbol": symbol,
        "signature": signature,
        "reason": reason,
        "source": source,
        "simulated": False,
        "verified": status == "verified",
        "verification": {
            "status": status,
            "tradeId": trade,
            "checkedAt": show_time(checked_at),
            "reason": status_reason,
        },
        "eventAt": show_time(event_at),
        "createdAt": show_time(created_at),
        "tokenAddresses": list(dict.fromkeys(([mint] if mint else []) + moved)),
        "provenance": {
            "channel": channel,
            "keyId": key,
            "wallet": wallet,
            "ownership": ownership,
            "contentTrust": "generated" if source == "observer" else "untrusted",
            "untrustedFields": UNTRUSTED_FIELDS,
        },
        "sanitized": bool(sanitized),
        "hiddenAt": show_time(hidden_at),
    }


# ---- trades --------------------------------------------------------------------------------------
def show_trade(row, changes, symbols):
    """A row of queries.TRADE. `changes`: its token changes, [mint, raw, decimals] each; `symbols`:
    {mint: symbol} of those known.
    """
    (
        slot,
        _,
        _,
        uid,
        bot,
        wallet,
        signature,
        tx_index,
        block_time,
        kind,
        venue,
        mint,
        _,
        sol_change,
        fee,
        tip,
        rent,
        realized,
        result,
        proceeds,
        cost,
        matched_raw,
        unmatched_raw,
        lots,
        flags,
    ) = row
    return {
        "id": uid,
        "botId": bot,
        "wallet": wallet,
        "signature": signature,
        "slot": slot,
        "transactionIndex": tx_index,
        "blockTime": block_time,
        "eventAt": show_seconds(block_time),
        "status": "finalized",
        "kind": kind,
        "venue": venue,
        "mint": mint,
        "symbol": symbols.get(mint),
        "tokenChanges": [
            {
                "mint": moved,
                "symbol": symbols.get(moved),
                "changeRaw": raw,
                "change": exact(int(raw), decimals),
                "decimals": decimals,
            }
            for moved, raw, decimals in changes
        ],
        "solChangeLamports": str(sol_change),
        "solChange": show_sol(sol_change),
        "feeLamports": str(fee),
        "tipLamports": str(tip),
        "rentLamports": str(rent),
        "realized": {
            "status": realized,
            "method": "fifo",
            "resultLamports": show_lamports(result),
            "resultSol": show_sol(result),
            "proceedsLamports": show_lamports(proceeds),
            "costLamports": show_lamports(cost),
            "matchedRaw": matched_raw,
            "unmatchedRaw": unmatched_raw,
            "lots": [
                {
                    "tradeId": trade,
                    "amountRaw": str(amount),
                    "costLamports": show_lamports(lamports),
                }
                for trade, amount, lamports in orjson.loads(lots)
            ],
        },
        "flags": orjson.Fragment(flags),
        "source": "chain",
        "verified": True,
        "explorerUrl": explorer_url(signature),
    }


def show_seconds(seconds):
    return None if seconds is None else show_time(seconds * 1000)


def explorer_url(signature):
    return f"https://solscan.io/tx/{signature}"


def show_activity(row, mint):
    (
        _,
        _,
        _,
        side,
        bot,
        bot_name,
        wallet,
        token_changes,
        sol_change,
        block_time,
        signature,
        trade,
    ) = row
    raw, decimals = next(
        (int(raw), decimals)
        for moved, raw, decimals in orjson.loads(token_changes)
        if moved == mint
    )
    return {
        "side": side,
        "botId": bot,
        "botName": bot_name,
        "wallet": wallet,
        "amountRaw": str(abs(raw)),
        "amount": exact(abs(raw), decimals),
        "decimals": decimals,
        "solChangeLamports": str(sol_change),
        "solChange": show_sol(sol_change),
        "eventAt": show_seconds(block_time),
        "slot": row[0],
        "signature": signature,
        "tradeId": trade,
        "explorerUrl": explorer_url(signature),
    }


# Why a bot that claims a wallet has no results: the wallet's sums hold what another bot did, who
# had proven it. What happened since the claim is not added up apart.
PROVEN_BY_ANOTHER = "proven_by_another"


def positions_of(row):
    """The openPositions of a row of queries.BOT, as a list; costs are not those of a mere claim."""
    positions, since = orjson.loads(row[15] or "[]"), row[18]
    if since is None:
        return positions
    return [{**one, "costLamports": None, "unknownBasisRaw": one["amountRaw"]} for one in positions]


# ---- influencers ---------------------------------------------------------------------------------
def show_bot(row, former_wallets, base_url):
    """A row of queries.BOT. Results, coverage and positions are JSON the fold wrote."""
    (
        _,
        uid,
        handle,
        name,
        bio,
        voice,
        avatar_url,
        auto_post,
        created_at,
        retired_at,
        address,
        attached_at,
        ownership,
        results,
        coverage,
        _,
        last_trade_at,
        last_post_at,
        since,
    ) = row
    if since is not None:
        results, last_trade_at = None, last_trade_at if (last_trade_at or 0) >= since else None
    return {
        "id": uid,
        "handle": handle,
        "name": name,
        "bio": bio,
        "mode": "wallet",
        "voice": orjson.Fragment(voice),
        "avatarUrl": avatar_url,
        "profileUrl": f"{base_url}/bots/{uid}",
        "wallet": {"address": address, "attachedAt": show_time(attached_at), "ownership": ownership}
        if address
        else None,
        "provable": is_provable(address) if address else None,
        "performance": "observed" if address else "unverified",
        "results": orjson.Fragment(results) if results else None,
        "resultsReason": None if since is None else PROVEN_BY_ANOTHER,
        "coverage": show_coverage(address, coverage),
        "createdAt": show_time(created_at),
        "lastTradeAt": show_time(last_trade_at),
        "lastPostAt": show_time(last_post_at),
        "retiredAt": show_time(retired_at),
        "formerWallets": [former for former in dict.fromkeys(former_wallets) if former != address],
        "autoPost": bool(auto_post),
    }


def show_coverage(address, coverage):
    """The stored Coverage, else one of state `none` that says why."""
    if coverage:
        return orjson.Fragment(coverage)
    return {
        "state": "none",
        "observedFrom": None,
        "observedTo": None,
        "firstSlot": None,
        "lastSlot": None,
        "checkedAt": None,
        "receipts": 0,
        "pending": 0,
        "gaps": [],
        "openingInventoryUnknown": [],
        "note": "this wallet has not been looked at yet"
        if address
        else "no wallet is connected, so nothing is observed",
    }
