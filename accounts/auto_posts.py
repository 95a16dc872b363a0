"""Automatic posts: a bot reports its own trades, if its owner turned this on."""

import sys
from collections.abc import Collection
from typing import Any

import orjson

from accounts.influencers import read_voice
from accounts.posts import store_post
from accounts.verification import MAX_AT_ONCE, verify_posts
from chain.amounts import ONE, exact, load_scale, show_amount, sol
from chain.reading.currencies import CURRENCIES
from chain.reading.flows import list_venue_changes
from chain.reading.kinds import TRADES
from chain.stored.trades import LISTED_TRADE, judge
from chain.symbols import find_imitated, show_symbol
from market.tables import Token
from models import Bot, Post, Trade, Wallet
from storage import mark
from storage.rows import select_value
from voice import builtin
from voice.facts import shorten_name

# Plain SQL for speed: it runs whenever trades change, and most bots don't post automatically.
POSTER = """
SELECT b.* FROM bot b JOIN attachment a ON a.bot_id = b.id AND a.detached_at IS NULL
WHERE a.wallet_id = ? AND b.auto_post = ? AND b.retired_at IS NULL"""
COUNT_WALLETS = "SELECT COUNT(*) FROM attachment WHERE bot_id = ? AND detached_at IS NULL"
ARRIVED = f"""
SELECT t.* FROM {LISTED_TRADE} WHERE s.wallet_id = ? AND s.signature IN ({{}}) AND s.head = ?
AND s.seen_at >= ? AND t.kind IN ({{}}) ORDER BY t.slot, t.place"""


def update_posts(wallet: Wallet, changed: Collection[str], now: int) -> None:
    """Verify a wallet's posts against its trades and post new trades.

    `changed`: signatures whose trades changed. `now` is UTC milliseconds. The ledger store calls
    this inside the transaction that publishes the trades.
    """
    verify_posts(wallet, changed, now)
    post_trades(wallet, changed, now)


def post_trades(wallet: Wallet, changed: Collection[str], now: int) -> None:
    """Post the trades among `changed` that arrived after automatic posts were turned on.

    A trade arrived after that if it was at the head of the wallet's list. Its time doesn't matter,
    because a backfill finds old trades, which aren't posted.
    """
    # This many changes are a rebuild, not new trades.
    if not changed or len(changed) > MAX_AT_ONCE:
        return
    bot = next(iter(Bot.raw(POSTER, wallet.id, True)), None)
    if bot is None:
        return
    sql = ARRIVED.format(mark(changed), mark(TRADES))
    values = wallet.id, *sorted(changed), True, bot.auto_post_since or now, *sorted(TRADES)
    for trade in list(Trade.raw(sql, *values)):
        # Skip trades that couldn't verify a post if the bot itself cited them.
        status, _ = judge(trade.kind, orjson.loads(trade.flags), (), None, trade.explained)
        if trade.mint and status == "verified":
            _post_trade(bot, wallet, trade, now)


def _post_trade(bot: Bot, wallet: Wallet, trade: Trade, now: int) -> None:
    if (
        Post.select()
        .where(Post.bot == bot, Post.source == "observer", Post.event_id == trade.uid)
        .exists()
    ):
        return
    told = Post.select(Post.body).where(Post.bot == bot, Post.source == "observer")
    latest: Any = told.order_by(Post.id.desc()).limit(20).tuples()
    recent = [body for (body,) in latest][::-1]
    facts = _tell_facts(trade, select_value(COUNT_WALLETS, (bot.id,)) == 1)
    body = builtin.write(read_voice(bot.voice), facts, f"{bot.uid} {trade.uid}", recent)
    store_post(
        bot=bot.id,
        source="observer",
        channel="observer",
        event_id=trade.uid,
        body=body,
        mint=trade.mint,
        symbol=facts["symbol"],
        signature=trade.signature,
        wallet=wallet.id,
        status="verified",
        trade=trade.id,
        checked_at=now,
        event_at=trade.block_time * 1000 if trade.block_time else now,
        created_at=now,
    )


def _tell_facts(trade: Trade, is_alone: bool = True) -> dict[str, Any]:
    """Return the facts about a trade at its venue that the voice may mention, as exact strings.

    `is_alone` means that the wallet is its bot's only one. If there are several, each wallet is
    read separately, so another wallet's part in the same transaction may still remove the price.
    The result of such a trade, or of a partial sale, appears only in the post's receipt, which
    always follows the ledger. A token without a known symbol, or one that imitates a stablecoin's,
    is called by the first letters of its mint.
    """
    rows = orjson.loads(trade.token_changes), orjson.loads(trade.beside_tokens)
    # {mint: (raw change, decimals)}
    changes = {one.mint: (one.raw, one.decimals) for one in list_venue_changes(*rows)}
    # Unlike other entries, a trade always has a mint.
    traded: str = trade.mint  # type: ignore[assignment]
    names = _find_symbols([traded, *changes])
    shown = _show_amounts(trade, changes)
    facts = {"kind": trade.kind, "symbol": names.get(traded, traded[:4])}
    if trade.kind == "swap":
        facts |= {"amount": shown[traded]}
        for mint, (given, _) in changes.items():
            if given < 0:
                given_name = names.get(mint, mint[:4])
                facts |= {"fromSymbol": given_name, "fromAmount": shown[mint]}
        return facts
    result = _tell_result(trade) if is_alone or trade.kind == "round_trip" else None
    facts |= {
        "currency": CURRENCIES[trade.currency].symbol,
        **({"result": result} if result else {}),
    }
    if trade.kind == "round_trip":
        return facts
    paid = (
        shown[trade.currency] if trade.currency else sol(abs(trade.sol_change - trade.beside_sol))
    )
    return {**facts, "amount": shown[traded], "paid": paid}


def _show_amounts(trade: Trade, changes: dict[str, tuple[int, int]]) -> dict[str, str]:
    """Return unsigned amounts, scaled as wallets displayed them at the time of the trade."""
    rows: Any = Token.select(Token.mint, Token.scale).where(
        Token.mint.in_(list(changes)), Token.scale.is_null(False)
    )
    scales = {mint: load_scale(scale) for mint, scale in rows.tuples()}
    at, shown = trade.block_time or sys.maxsize, {}
    for mint, (raw, decimals) in changes.items():
        multiplier = scales[mint].find(at) if mint in scales else ONE
        shown[mint] = show_amount(abs(raw), decimals, multiplier) or exact(abs(raw), decimals)
    return shown


def _tell_result(trade: Trade) -> str | None:
    """Return a sale's result, or None unless the cost basis of everything sold is known."""
    if trade.result is None or trade.realized != "matched":
        return None
    return exact(trade.result, CURRENCIES[trade.currency].decimals)


def _find_symbols(mints: list[str]) -> dict[str, str]:
    """Return {mint: symbol} for stablecoins, and for symbols that don't imitate another one."""
    rows: Any = Token.select(Token.mint, Token.symbol).where(Token.mint.in_(mints)).tuples()
    told = {mint: shorten_name(symbol) for mint, symbol in rows if symbol}
    own = {mint: told.get(mint) for mint in mints if not find_imitated(mint, told.get(mint))}
    return {mint: name for mint, symbol in own.items() if (name := show_symbol(mint, symbol))}
