"""Automatic posts about a bot's trades: only trades that arrived after the owner turned them on,
once each, and with numbers from the facts only.
"""

import re

import orjson
import pytest

import models
from accounts import auto_posts
from accounts.auto_posts import update_posts
from accounts.influencers import VOICE
from chain.ledger.coverage import Progress
from chain.reading.currencies import STABLECOINS
from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.stored.store import LedgerStore
from market.tables import Token
from models import Address, Attachment, Bot, Owner, Post, Trade, Wallet, WalletSignature
from voice.facts import find_foreign_numbers

MINT = "Mint1111111111111111111111111111111111111111"
NOW = 1_800_000_000_000


@pytest.fixture
def wallet(db):
    owner = Owner.create(uid="owner_1", created_at=1)
    named = {"uid": "bot_1", "handle": "ada", "name": "Ada", "voice": '{"tone": "dry"}'}
    posting = {"auto_post": True, "auto_post_since": NOW}
    bot = Bot.create(owner=owner, created_at=1, **named, **posting)
    wallet = Wallet.create(address="Wallet", bot=bot, created_at=1, backfilled=True)
    Attachment.create(bot=bot, wallet=wallet, attached_at=1)
    Address.create(wallet=wallet, address="Wallet", full_scans=2, scan_new=0)
    return wallet


def trade(signature, slot, held, change, lamports, sol):
    """A purchase or sale of MINT: tokens and lamports before, and the SOL change."""
    balances = (
        Balance("Wallet", None, 9, 0, 0, lamports, lamports + sol),
        Balance("Account", MINT, 6, held, held + change, 2_039_280, 2_039_280),
    )
    at, kind = (slot, 0, 1_799_999_000 + slot), "buy" if change > 0 else "sell"
    # No flags and no programs; a fee of 5,000 lamports, and neither tip nor rent.
    money = (sol, 5000, 0, 0, ((MINT, change, 6),))
    return Entry(signature, *at, kind, "Pool", MINT, (), (), *money, balances)


def arrive(wallet, entry, seen_at, head=True):
    listed = {"signature": entry.signature, "slot": entry.slot, "tx_index": 0, "head": head}
    stored = {"state": "stored", "entry": entry.dump(), "seen_at": seen_at}
    WalletSignature.create(wallet=wallet, **listed, **stored)


def publish(wallet, ledger_store=None, now=NOW + 5000):
    ledger_store = ledger_store or LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, Progress(polled=True), now)
    return list(Post.select().order_by(Post.id))


BUY = trade("buy", 1, 0, 2_500_000, 10_000_000_000, -1_250_000_000)
SELL = trade("sell", 2, 2_500_000, -1_000_000, 8_750_000_000, 750_000_000)


def test_a_later_trade_is_posted_with_its_result(wallet):
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, SELL, NOW + 2)
    posts = publish(wallet)
    assert [(p.source, p.status, p.signature, p.bot.uid) for p in posts] == [
        ("observer", "verified", "buy", "bot_1"),
        ("observer", "verified", "sell", "bot_1"),
    ]
    bought, sold = posts
    assert "2.5" in bought.body and "1.25" in bought.body
    # 1,000,000 of 2,500,000 units cost 1.25 SOL * 2 / 5 = 0.5 SOL and sold for 0.75 SOL
    assert not find_foreign_numbers(sold.body, {"amount": "1", "sol": "0.75", "resultSol": "0.25"})
    assert "0.25" in sold.body
    assert sold.event_at == SELL.block_time * 1000


def test_a_gift_during_a_sale_is_not_posted_as_proceeds(wallet):
    # 0.75 SOL arrived, 0.7 of it by a separate transfer, and 0.4 of the 1.4 units sold left
    # separately
    gift = {"beside_sol": 700_000_000, "beside_tokens": ((MINT, 400_000, 6),)}
    gifted = SELL._replace(**gift, explained_percent=100)
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, gifted, NOW + 2)
    sold = publish(wallet)[1]
    facts = {"amount": "1.4", "sol": "0.05"}
    # 1.4 of 2.5 units cost 1.25 SOL * 14 / 25 = 0.7 SOL: a loss of 0.65 SOL
    assert not find_foreign_numbers(sold.body, {**facts, "resultSol": "-0.65"})


def test_tokens_bought_and_sent_on_at_once_are_posted_as_bought(wallet):
    """The token balance didn't change, but 2.5 units were bought for 1.25 SOL."""
    sent_on = BUY._replace(
        tokens=(), beside_tokens=((MINT, -2_500_000, 6),), balances=BUY.balances[:1]
    )
    arrive(wallet, sent_on, NOW + 1)
    (post,) = publish(wallet)
    assert "2.5" in post.body and "1.25" in post.body


def test_a_partial_result_is_not_posted_as_the_sale_result(wallet):
    """Half a unit was held before the history began; half of the unit sold has a known cost."""
    for entry in (
        trade("buy", 1, 500_000, 2_500_000, 10_000_000_000, -1_250_000_000),
        trade("sell", 2, 3_000_000, -1_000_000, 8_750_000_000, 750_000_000),
    ):
        arrive(wallet, entry, NOW + entry.slot)
    sold = publish(wallet)[1]
    # The known half sold for 0.375 SOL and cost 0.25.
    assert (sold.trade.realized, sold.trade.result) == ("partial", 125_000_000)
    assert not find_foreign_numbers(sold.body, {"amount": "1", "sol": "0.75"})


def test_no_result_is_posted_while_another_wallet_could_change_it(wallet):
    """The other wallet's side of the transaction may not have been read yet."""
    other = Wallet.create(address="Other", bot=wallet.bot, created_at=1, backfilled=True)
    Attachment.create(bot=wallet.bot, wallet=other, ownership="proven", attached_at=1)
    posts = []
    for entry in (BUY, SELL):
        arrive(wallet, entry, NOW + entry.slot)
        posts = publish(wallet)
    assert posts[1].trade.result == 250_000_000
    assert not find_foreign_numbers(posts[1].body, {"amount": "1", "sol": "0.75"})


def test_trades_of_unexplained_value_are_not_posted(wallet):
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, SELL._replace(flags=("value_unexplained",), explained_percent=3), NOW + 2)
    assert [post.signature for post in publish(wallet)] == ["buy"]


def test_a_round_trip_is_posted_with_its_result(wallet):
    sol = Balance("Wallet", None, 9, 0, 0, 8_750_000_000, 8_760_000_000)
    changes = {"tokens": (), "sol": 10_000_000, "balances": (sol,), "explained_percent": 100}
    trip = SELL._replace(signature="trip", kind="round_trip", **changes)
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, trip, NOW + 2)
    told = publish(wallet)[1]
    assert told.status == "verified" and "0.01" in told.body
    assert not find_foreign_numbers(told.body, {"resultSol": "0.01"})


def test_backfilled_and_earlier_trades_are_not_posted(wallet):
    arrive(wallet, BUY, NOW + 1, head=False)
    arrive(wallet, SELL, NOW - 1)
    assert publish(wallet) == []


def test_a_trade_is_posted_once_however_often_it_is_rebuilt(wallet):
    arrive(wallet, BUY, NOW + 1)
    first = publish(wallet)
    models.Trade.update(digest="tampered").execute()
    again = publish(wallet)
    assert [p.id for p in again] == [p.id for p in first] and len(first) == 1


def test_trades_that_arrive_after_switching_on_are_posted(wallet):
    arrive(wallet, BUY, NOW)
    (post,) = publish(wallet, now=NOW + 9)
    assert (post.mint, post.channel, post.checked_at) == (MINT, "observer", NOW + 9)
    # The symbol is unknown, so the post uses the first letters of the mint.
    assert post.symbol == "Mint"


def test_a_trade_without_a_block_time_uses_the_time_it_was_seen(wallet):
    arrive(wallet, BUY._replace(block_time=None), NOW + 1)
    assert [post.event_at for post in publish(wallet, now=NOW + 9)] == [NOW + 9]


def test_another_wallets_part_of_a_transaction_is_not_posted(wallet):
    """Two watched wallets traded in one transaction; the post covers only this bot's trade."""
    other = Wallet.create(address="Other", bot=wallet.bot, created_at=1, backfilled=True)
    Address.create(wallet=other, address="Other", full_scans=2, scan_new=0)
    arrive(wallet, BUY, NOW + 1)
    arrive(other, SELL._replace(signature=BUY.signature), NOW + 1)
    publish(other)
    (post,) = publish(wallet)
    assert (post.wallet_id, post.trade.wallet_id) == (wallet.id, wallet.id)


def test_a_rebuild_posts_nothing(wallet, monkeypatch):
    """Two simultaneous trades are both posted if the limit is two, but not if it is one."""
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, SELL, NOW + 2)
    monkeypatch.setattr(auto_posts, "MAX_AT_ONCE", 1)
    assert publish(wallet) == []
    monkeypatch.setattr(auto_posts, "MAX_AT_ONCE", 2)
    models.Trade.update(digest="told anew").execute()
    assert len(publish(wallet)) == 2


def test_trades_a_rebuild_skipped_stay_unposted(wallet, monkeypatch):
    """Two simultaneous trades exceeded the limit and weren't posted; the next trade is."""
    monkeypatch.setattr(auto_posts, "MAX_AT_ONCE", 1)
    arrive(wallet, BUY, NOW + 1)
    arrive(wallet, SELL, NOW + 2)
    publish(wallet)
    later = trade("later", 3, 1_500_000, -500_000, 9_500_000_000, 400_000_000)
    arrive(wallet, later, NOW + 3)
    assert [post.signature for post in publish(wallet)] == ["later"]


def test_a_bots_own_event_id_does_not_suppress_a_trade_post(wallet):
    arrive(wallet, BUY, NOW + 1)
    publish(wallet)
    Post.update(source="bot").execute()
    models.Trade.update(digest="told anew").execute()
    assert [post.source for post in publish(wallet)] == ["bot", "observer"]


def test_the_voice_gets_only_the_bots_own_past_posts(wallet, monkeypatch):
    """The voice gets the bot's latest twenty sentences about trades, newest last, and a seed per
    trade.
    """
    asked = []

    def write(voice, facts, seed, recent):
        asked.append((voice, seed, recent))
        return f"said {len(asked)}"

    monkeypatch.setattr(auto_posts.builtin, "write", write)
    bot = Bot.get()
    mine = {"bot": bot, "uid": "mine", "source": "bot", "event_id": "e", "body": "by hand"}
    eve = {"uid": "bot_2", "owner": bot.owner, "handle": "eve", "name": "Eve", "voice": "{}"}
    other = Bot.create(**eve, created_at=1)
    foreign = {"bot": other, "uid": "foreign", "source": "observer", "event_id": "e", "body": "no"}
    for columns in (mine, foreign):
        Post.create(channel="api", event_at=1, created_at=1, **columns)
    # Twenty-two purchases of one unit each.
    for number in range(22):
        one = trade(f"buy{number}", number, number, 1, 10_000_000_000 - number, -1)
        arrive(wallet, one, NOW + 1)
    publish(wallet)
    trades = {trade.signature: trade.uid for trade in models.Trade.select()}
    seeds = [f"bot_1 {trades[f'buy{number}']}" for number in range(22)]
    assert [seed for _, seed, _ in asked] == seeds
    assert asked[:3] == [
        ({**VOICE, "tone": "dry"}, seeds[0], []),
        ({**VOICE, "tone": "dry"}, seeds[1], ["said 1"]),
        ({**VOICE, "tone": "dry"}, seeds[2], ["said 1", "said 2"]),
    ]
    # The last purchase is posted after 21 others.
    assert asked[21][2] == [f"said {number}" for number in range(2, 22)]


def test_tokens_that_only_passed_through_a_swap_are_not_posted(db):
    """Three CATs were sold in the swap, and five DOGs left separately."""
    trade = swapped()
    trade.token_changes = orjson.dumps(
        [["Cat11111", "-3000000", 6], ["Dog11111", "-5", 0], [MINT, "2500000", 6]]
    ).decode()
    trade.beside_tokens = orjson.dumps([["Dog11111", "-5", 0]]).decode()
    facts = auto_posts._tell_facts(trade)
    assert (facts["fromSymbol"], facts["fromAmount"]) == ("Cat1", "3")


def test_nothing_is_posted_while_auto_post_is_off(wallet):
    Bot.update(auto_post=False).execute()
    arrive(wallet, BUY, NOW + 1)
    assert publish(wallet) == []
    assert Wallet.get().last_trade_at == BUY.block_time * 1000


def swapped(**more):
    """Three CATs of unknown symbol for 2.5 MINT, half of which arrived outside the venue."""
    changes = [["Cat11111", "-3000000", 6], [MINT, "2500000", 6]]
    return Trade(
        kind="swap",
        mint=MINT,
        result=None,
        sol_change=-7_000_000_000,
        beside_sol=-1_000_000_000,
        token_changes=orjson.dumps(changes).decode(),
        beside_tokens=orjson.dumps([[MINT, "1250000", 6]]).decode(),
        **more,
    )


def test_a_swap_is_posted_with_what_was_given(db):
    Token.create(mint=MINT, symbol="PINE", name="Pine", discovered_at=1, tracked_at=1)
    assert auto_posts._tell_facts(swapped()) == {
        "kind": "swap",
        "symbol": "PINE",
        # 2.5 minus the 1.25 from outside the venue.
        "amount": "1.25",
        "fromSymbol": "Cat1",
        "fromAmount": "3",
    }


# ---- paid for in a stablecoin --------------------------------------------------------------------
USDC = STABLECOINS[0]


def against_usdc(signature, slot, held, change, coins, given):
    """Like `trade`, in micro-USDC: `coins` before, and the amount given or received."""
    entry = trade(signature, slot, held, change, 10_000_005_000 - 5000 * slot, -5000)
    purse = Balance("Purse", USDC.mint, 6, coins, coins + given, 2_039_280, 2_039_280)
    return entry._replace(
        kind="swap",
        mint=MINT if change > 0 else USDC.mint,
        tokens=((MINT, change, 6), (USDC.mint, given, 6)),
        balances=(*entry.balances, purse),
        explained_percent=100,
    )


# Buys 2.5 for 5 USDC, then sells 1 of them, which cost 2 USDC, for 3, 1.5 or 2.
PAID = against_usdc("paid", 1, 0, 2_500_000, 9_000_000, -5_000_000)


def says(body, *parts):
    """Whether a sentence contains these numbers and names as separate words."""
    return all(re.search(rf"(?<![\w.]){re.escape(one)}(?!\.?\w)", body) for one in parts)


@pytest.mark.parametrize(
    ("got", "result", "words"),
    [
        (3_000_000, "1", ("Up 1 USDC", "A gain of 1 USDC")),
        (1_500_000, "-0.5", ("Down 0.5 USDC", "A loss of 0.5 USDC")),
        (2_000_000, "0", ("Flat", "Even to the last digit")),
    ],
)
def test_a_sale_for_a_stablecoin_is_posted_with_its_result_in_it(wallet, got, result, words):
    arrive(wallet, PAID, NOW + 1)
    arrive(wallet, against_usdc("sold", 2, 2_500_000, -1_000_000, 4_000_000, got), NOW + 2)
    bought, sold = publish(wallet)
    told = {"paid": "5", "amount": "2.5", "currency": "USDC", "symbol": MINT[:4]}
    assert not find_foreign_numbers(bought.body, told) and says(
        bought.body, "2.5", "Mint", "5 USDC"
    )
    assert any(f". {one}." in sold.body for one in words)
    assert sold.mint == MINT
    told = {"paid": str(got / 10**6), "amount": "1", "result": result}
    assert not find_foreign_numbers(sold.body, told) and "SOL" not in sold.body


def test_a_sale_of_unknown_cost_is_posted_without_a_result(wallet):
    arrive(wallet, against_usdc("sold", 1, 2_500_000, -1_000_000, 0, 3_000_000), NOW + 1)
    (sold,) = publish(wallet)
    assert says(sold.body, "1", "Mint", "3 USDC")
    assert not find_foreign_numbers(sold.body, {"paid": "3", "amount": "1"})


@pytest.mark.parametrize("name", ["USDC", "usdc", "$USDC", "U\u200bSDC", "USDC.", "UЅDC"])
def test_a_fake_stablecoin_is_posted_by_its_mint(wallet, name):
    Token.create(mint=MINT, symbol=name, name=name, discovered_at=1, tracked_at=1)
    Token.create(mint=USDC.mint, symbol="FAKE", name="Fake", discovered_at=1, tracked_at=1)
    arrive(wallet, PAID, NOW + 1)
    (bought,) = publish(wallet)
    assert says(bought.body, "2.5", "Mint", "5 USDC") and bought.symbol == MINT[:4]
