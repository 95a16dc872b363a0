"""Trades of observed wallets, as the ledger store writes them, without a chain."""

import models
from chain.stored.tables import TradeMint
from chain.stored.trades import number_mints


def observe(uid, wallet="w", owner="owner", bot="bot", entry=None, **columns):
    """Store a trade of a bot's wallet, and the entry of its transaction if there is one."""
    owner, _ = models.Owner.get_or_create(uid=owner, defaults={"created_at": 0})
    about = {"owner": owner, "handle": bot, "name": bot, "voice": "{}", "created_at": 0}
    bot, _ = models.Bot.get_or_create(uid=bot, defaults=about)
    wallet, _ = models.Wallet.get_or_create(address=wallet, defaults={"bot": bot, "created_at": 0})
    told = {"wallet": wallet, "signature": uid, "slot": 1, "kind": "buy", "digest": uid}
    told |= {"realized": "not_applicable", "sol_change": -1, "fee": 1, "tip": 0, "rent": 0}
    told |= dict.fromkeys(("matched_raw", "unmatched_raw"), "0")
    told |= dict.fromkeys(("token_changes", "lots", "flags"), "[]")
    trade = models.Trade.create(uid=uid, **{**told, **columns})
    if entry:
        stored = {"state": "stored", "entry": entry.dump(), "seen_at": trade.block_time * 1000}
        listed = {"signature": trade.signature, "slot": trade.slot}
        models.WalletSignature.create(wallet=wallet, **listed, **stored)
    return trade


def move(trade, mint, side):
    """Store that a trade moved a mint. `side`: buy, sell or None."""
    number = number_mints({mint})[mint]
    TradeMint.create(trade=trade, wallet=trade.wallet, mint=number, side=side, slot=trade.slot)
