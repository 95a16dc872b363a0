"""Automatic posts about a bot's trades: only trades that arrived after the owner turned them on,
once each, and with numbers from the facts only.
"""

import re

import orjson
import pytest
from teller import FEE, Teller

from accounts import auto_posts
from accounts.auto_posts import update_posts
from accounts.influencers import VOICE
from chain.amounts import Scale
from chain.ledger.coverage import Progress
from chain.reading.currencies import STABLECOINS
from chain.stored.store import LedgerStore
from market.tables import Token
from models import Address, Attachment, Bot, Owner, Post, Trade, Wallet, WalletSignature
from voice.facts import find_foreign_numbers

MINT = "Mint1111111111111111111111111111111111111111"
NOW = 1_800_000_000_000
USDC = STABLECOINS[0]


@pytest.fixture
def wallet(db):
    owner = Owner.create(uid="owner_1", created_at=1)
    named = {"uid": "bot_1", "handle": "ada", "name": "Ada", "voice": '{"tone": "dry"}'}
    posting = {"auto_post": True, "auto_post_since": NOW}
    bot = Bot.create(owner=owner, created_at=1, **named, **posting)
    return connect(bot, "ada")


def connect(bot, address, **attachment):
    wallet = Wallet.create(address=address, bot=bot, created_at=1, backfilled=True)
    Attachment.create(bot=bot, wallet=wallet, attached_at=1, **attachment)
    Address.create(wallet=wallet, address=address, full_scans=2, scan_new=0)
    return wallet


def bought():
    """Five for 1.25 SOL."""
    return Teller().buy(MINT, 5, 1_250_000_000)


def paid():
    """25 for 5 USDC."""
    return Teller().swap("Q", 5_000_000, MINT, 25)


# After the transfer that funds the wallet.
_, BUY, SELL = bought().sell(MINT, 2, 750_000_000).entries
PAID = paid().entries[1]


def arrive(wallet, entry, seen_at, head=True):
    decimals = {USDC.mint: USDC.decimals}
    tokens = tuple((mint, change, decimals.get(mint, 0)) for mint, change, _ in entry.tokens)
    stored = {"state": "stored", "entry": entry._replace(tokens=tokens).dump(), "seen_at": seen_at}
    listed = {"signature": entry.signature, "slot": entry.slot, "tx_index": 0, "head": head}
    WalletSignature.create(wallet=wallet, **listed, **stored)


def publish(wallet, now=NOW + 5000):
    ledger_store = LedgerStore(update_posts)
    ledger_store.apply(wallet)
    ledger_store.publish(wallet, Progress(polled=True), now)
    return list(Post.select().order_by(Post.id))


def post(wallet, *entries):
    """All posts after these entries arrived."""
    for entry in entries:
        arrive(wallet, entry, NOW + entry.slot)
    return publish(wallet)


def says(body, *parts):
    """Whether a sentence contains these numbers, names and patterns as separate words."""
    return all(re.search(rf"(?<![\w.])({one})(?!\.?\w)", body) for one in parts)


# ---- which trades --------------------------------------------------------------------------------
def test_later_trades_are_posted_as_the_observers(wallet):
    bought, sold = post(wallet, BUY._replace(block_time=None), SELL)
    for one in (bought, sold):
        assert (one.source, one.channel, one.status) == ("observer", "observer", "verified")
        # The symbol is unknown, so the post uses the first letters of the mint.
        assert (one.bot.uid, one.mint, one.symbol) == ("bot_1", MINT, "Mint")
        assert one.checked_at == NOW + 5000
    assert (bought.signature, sold.signature) == (BUY.signature, SELL.signature)
    # Without a block time, a trade has the time it was posted.
    assert (bought.event_at, sold.event_at) == (NOW + 5000, SELL.block_time * 1000)


def test_trades_count_from_the_moment_of_switching_on_unless_they_were_backfilled(wallet):
    _, old, early, late = Teller().buy(MINT, 1, 1).buy(MINT, 1, 1).buy(MINT, 1, 1).entries
    arrive(wallet, old, NOW + 1, head=False)
    arrive(wallet, early, NOW - 1)
    assert publish(wallet) == []
    arrive(wallet, late, NOW)
    Bot.update(auto_post=False).execute()
    assert publish(wallet) == []
    assert Wallet.get().last_trade_at == late.block_time * 1000
    Bot.update(auto_post=True).execute()
    Trade.update(digest="changed").execute()
    assert [one.signature for one in publish(wallet)] == [late.signature]


def test_a_trade_is_posted_once_however_often_it_is_rebuilt(wallet):
    """A bot's own post with the same event ID doesn't count. One of unexplained value never is."""
    odd = SELL._replace(flags=("value_unexplained",), explained_percent=3)
    (first,) = post(wallet, BUY, odd)
    Trade.update(digest="tampered").execute()
    assert [one.id for one in publish(wallet)] == [first.id]
    Post.update(source="bot").execute()
    Trade.update(digest="tampered").execute()
    assert [one.source for one in publish(wallet)] == ["bot", "observer"]


def test_another_wallets_part_of_a_transaction_is_not_posted(wallet):
    """Two watched wallets traded in one transaction; the post covers only this bot's trade."""
    other = Wallet.create(address="Other", bot=wallet.bot, created_at=1, backfilled=True)
    arrive(wallet, BUY, NOW + 1)
    arrive(other, SELL._replace(signature=BUY.signature), NOW + 1)
    publish(other)
    (one,) = publish(wallet)
    assert (one.wallet_id, one.trade.wallet_id) == (wallet.id, wallet.id)


def test_a_rebuild_posts_nothing_and_its_trades_stay_unposted(wallet, monkeypatch):
    """More simultaneous trades than the limit are a rebuild."""
    monkeypatch.setattr(auto_posts, "MAX_AT_ONCE", 1)
    assert post(wallet, BUY, SELL) == []
    later = bought().sell(MINT, 2, 750_000_000).sell(MINT, 1, 400_000_000).entries[-1]
    assert [one.signature for one in post(wallet, later)] == [later.signature]
    monkeypatch.setattr(auto_posts, "MAX_AT_ONCE", 3)
    Trade.update(digest="changed").execute()
    assert len(publish(wallet)) == 3


# ---- what a post says ----------------------------------------------------------------------------
# What happened, what the last post may say, and what it says of it.
SAID = {
    # 2 of 5 cost 1.25 SOL * 2 / 5 = 0.5 SOL.
    "a sale": (
        bought().sell(MINT, 2, 750_000_000),
        {"amount": "2", "sol": "0.75", "resultSol": "0.25"},
        ["0.25"],
    ),
    "a purchase": (bought(), {"amount": "5", "sol": "1.25"}, ["5", "1.25"]),
    # The token balance didn't change, but 5 were bought for 1.25 SOL.
    "bought and sent on at once": (
        Teller().write("buy", -1_250_000_000, FEE, [(MINT, 5)], MINT, beside=[(MINT, -5)]),
        {"amount": "5", "sol": "1.25"},
        ["5", "1.25"],
    ),
    # 0.75 SOL arrived, 0.7 of it by a separate transfer, and 1 of the 4 sold came back separately.
    # 4 of 5 cost 1.25 SOL * 4 / 5 = 1 SOL: a loss of 0.95 SOL.
    "a gift during a sale": (
        bought().write(
            "sell", 50_000_000, FEE, [(MINT, -4)], MINT, beside_sol=700_000_000, beside=[(MINT, 1)]
        ),
        {"amount": "4", "sol": "0.05", "resultSol": "-0.95"},
        [],
    ),
    # One was held before the history began. The known half of the sale brought 0.375 SOL and cost
    # 0.25, which isn't the result of the sale.
    "a sale of partly unknown cost": (
        Teller(**{MINT: 1}).buy(MINT, 5, 1_250_000_000).sell(MINT, 2, 750_000_000),
        {"amount": "2", "sol": "0.75"},
        [],
    ),
    "a round trip": (
        bought().write("round_trip", 10_000_000, FEE, mint=MINT),
        {"resultSol": "0.01"},
        ["0.01"],
    ),
    "a purchase for a stablecoin": (
        paid(),
        {"paid": "5", "amount": "25", "currency": "USDC", "symbol": MINT[:4]},
        ["25", "Mint", "5 USDC"],
    ),
    "a sale for a stablecoin, of unknown cost": (
        Teller(**{MINT: 10}).swap(MINT, 10, "Q", 3_000_000),
        {"paid": "3", "amount": "10"},
        ["10", "Mint", "3 USDC"],
    ),
    # 10 of the 25 cost 2 USDC.
    **{
        f"a sale for {got} USDC": (
            paid().swap(MINT, 10, "Q", int(got * 10**6)),
            {"paid": f"{got}", "amount": "10", "result": result},
            [words],
        )
        for got, result, words in (
            (3, "1", "(Up|A gain of) 1 USDC"),
            (1.5, "-0.5", "(Down|A loss of) 0.5 USDC"),
            (2, "0", "Flat|Even to the last digit"),
        )
    },
}


@pytest.mark.parametrize("name", SAID)
def test_a_post_contains_only_numbers_of_its_trade(wallet, name):
    told, facts, shown = SAID[name]
    *_, last = post(wallet, *told.entries[1:])
    assert last.signature == told.entries[-1].signature and last.status == "verified"
    assert not find_foreign_numbers(last.body, facts) and says(last.body, *shown)
    assert last.mint == MINT and ("SOL" in last.body) != ("USDC" in last.body)


def test_no_result_is_posted_while_another_wallet_could_change_it(wallet):
    """The other wallet's side of the transaction may not have been read yet."""
    connect(wallet.bot, "Other", ownership="proven")
    post(wallet, BUY)
    sold = post(wallet, SELL)[1]
    assert sold.trade.result == 250_000_000
    assert not find_foreign_numbers(sold.body, {"amount": "2", "sol": "0.75"})


@pytest.mark.parametrize("name", ["USDC", "usdc", "$USDC", "U\u200bSDC", "USDC.", "UЅDC"])
def test_a_fake_stablecoin_is_posted_by_its_mint(wallet, name):
    Token.create(mint=MINT, symbol=name, name=name, discovered_at=1, tracked_at=1)
    Token.create(mint=USDC.mint, symbol="FAKE", name="Fake", discovered_at=1, tracked_at=1)
    (bought,) = post(wallet, PAID)
    assert says(bought.body, "25", "Mint", "5 USDC") and bought.symbol == MINT[:4]


def test_a_swap_is_posted_with_what_its_venue_took_and_gave(db):
    """Three CATs of unknown symbol for 2.5 MINT, half of which arrived outside the venue, shown
    times ten; the DOGs that left weren't swapped.
    """
    scale = Scale("2.0", 7, "10.0").dump()
    Token.create(mint=MINT, symbol="PINE", name="Pine", scale=scale, discovered_at=1, tracked_at=1)
    changes = [["Cat11111", "-3000000", 6], ["Dog11111", "-5", 0], [MINT, "2500000", 6]]
    beside = [[MINT, "1250000", 6], ["Dog11111", "-5", 0]]
    told = {"token_changes": orjson.dumps(changes), "beside_tokens": orjson.dumps(beside)}
    sol = {"sol_change": -7_000_000_000, "beside_sol": -1_000_000_000}
    swap = Trade(kind="swap", mint=MINT, result=None, **told, **sol)
    given = {"fromSymbol": "Cat1", "fromAmount": "3"}
    shown = {"kind": "swap", "symbol": "PINE", "amount": "12.5", **given}
    assert auto_posts._tell_facts(swap) == shown


def test_the_voice_gets_only_the_bots_own_past_posts(wallet, monkeypatch):
    """The voice gets the bot's latest twenty sentences about trades, newest last, and a seed per
    trade.
    """
    asked, bot = [], Bot.get()

    def write(voice, facts, seed, recent):
        asked.append((voice, seed, recent))
        return f"said {len(asked)}"

    monkeypatch.setattr(auto_posts.builtin, "write", write)
    eve = {"uid": "bot_2", "owner": bot.owner, "handle": "eve", "name": "Eve", "voice": "{}"}
    other = Bot.create(**eve, created_at=1)
    for one, source, body in ((bot, "bot", "by hand"), (other, "observer", "no")):
        columns = {"uid": body, "event_id": "e", "channel": "api", "event_at": 1, "created_at": 1}
        Post.create(bot=one, source=source, body=body, **columns)
    told = Teller()
    for _ in range(22):
        told.buy(MINT, 1, 1)
    post(wallet, *told.entries[1:])
    trades = {one.signature: one.uid for one in Trade.select()}
    voice, sentences = {**VOICE, "tone": "dry"}, [f"said {number}" for number in range(1, 22)]
    for n, (entry, given) in enumerate(zip(told.entries[1:], asked, strict=True)):
        assert given == (voice, f"bot_1 {trades[entry.signature]}", sentences[:n][-20:])
