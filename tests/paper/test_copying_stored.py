"""Followers as the job stores them and readers see them. The chain is made up: its entries have the
pools that their purchases and sales would have left.
"""

from contextlib import nullcontext

import pytest
from service import address
from story import ADA, Story
from test_pages import text_of

import storage
from accounts import wallets
from chain.reading.entries import Entry
from chain.reading.pools import PoolReading, State
from models import Attachment, Bot, Trade, Wallet, WalletSignature
from paper import copying
from paper.copying import SHOWN_SIZE
from paper.tables import CopiedTrade, CopyTotal
from web.api.copying import find_copying, find_sizes

SOL, NOW = 10**9, 1_800_000_000_000
START = State(100 * SOL, 1_000_000, 100 * SOL, 1_000_000)
# After 25 SOL more, along x * y = k.
THEN = State(125 * SOL, 800_000, 125 * SOL, 800_000)


def play(look, tokens=3, rounds=4):
    """Buy 200,000 units for 25 SOL and sell them for 25 SOL, in a pool without a fee."""
    story = Story()
    story.fund("ada", 100 * SOL)
    for _ in range(rounds):
        for token in range(tokens):
            story.buy("ada", f"T{token}", 200_000, 25 * SOL)
            story.sell("ada", f"T{token}", 200_000, 25 * SOL)
    look(story.chain(), wallets=[ADA]).settle()


def set_pools(change=lambda entry, pool: pool.pack()):
    for row in list(WalletSignature.select()):
        entry = Entry.load(row.signature, row.slot, row.tx_index, row.entry)
        if entry.kind not in ("buy", "sell"):
            continue
        sides = (START, THEN) if entry.kind == "buy" else (THEN, START)
        pool = PoolReading("V", entry.mint, 0, "input", False, *sides)
        row.entry = entry._replace(pool=change(entry, pool)).dump()
        row.save()


@pytest.fixture
def copied(look):
    """A bot whose copying results were computed at NOW."""
    play(look)
    set_pools()
    assert copying.run_tick(NOW) == (None, '{"bots":1}')


def show():
    return find_copying(Bot.get().id)


def shown_size():
    return next(one for one in show()["sizes"] if one["sizeLamports"] == str(SHOWN_SIZE))


def test_a_bot_has_a_copying_result_after_its_sales(look):
    """1 SOL behind 25 gets 800,000 / 126 = 6,349 units. The bot sells its 200,000 into 126 SOL and
    793,651 units: 100.63 SOL and 993,651 remain, and the follower gets 0.639 SOL. If its SOL was
    taken out, 100 SOL and 1,000,000 units pay 0.631. Each transaction costs 5,000 lamports.
    """
    play(look)
    assert shown_size()["reason"] == "not_worked_out"
    set_pools()
    assert copying.run_tick(NOW) == (None, '{"bots":1}')
    told, size = show(), shown_size()
    expected = {"sales": 12, "tokens": 3, "topTokenPct": None, "excluded": {}}
    assert expected.items() <= told.items()
    expected = {"salesUsed": 12, "coveredPct": 100, "reason": None, "keptPct": None}
    assert expected.items() <= size.items()
    assert size["spentLamports"] == str(12 * (SOL + 5_000))
    assert size["returnBps"] == pytest.approx(-3_609, abs=2)
    assert size["worstReturnBps"] == pytest.approx(-3_691, abs=2)
    assert find_sizes([Bot.get().id]) == {Bot.get().id: size}
    sales = [one.id for one in Trade.select().where(Trade.kind == "sell")]
    found = {one.trade_id: one.lamports for one in CopiedTrade.select()}
    assert sorted(found) == sorted(sales) and len(set(found.values())) == 1
    assert found[sales[0]] == pytest.approx(0.639 * SOL, rel=2e-3)


def test_only_new_sales_or_a_new_swap_program_trigger_a_recomputation(copied):
    """With another program, the entries are reread under rules with another name."""
    rested, later = NOW + copying.REST_MS, NOW + 10**9
    assert copying.run_tick(later) == (None, '{"bots":0}')
    assert {one.at for one in CopyTotal.select()} == {NOW}
    CopyTotal.update(mark="of fewer sales").execute()
    assert copying.run_tick(rested - 1) == (None, '{"bots":0}')
    assert copying.run_tick(rested) == (None, '{"bots":1}')
    Wallet.update(rules="with another program").execute()
    assert copying.run_tick(rested + copying.REST_MS) == (None, '{"bots":1}')
    assert copying.run_tick(later) == (None, '{"bots":0}')


def test_results_move_with_the_wallet(copied, monkeypatch):
    """Also those of a run in progress when the wallet was disconnected."""
    held, read = wallets.find_holder(ADA), copying.list_trades
    assert CopiedTrade.select().exists()
    CopyTotal.update(mark="old").execute()

    def disconnect(numbers):
        yield from read(numbers)
        with storage.writing():
            wallets.give_up(held, NOW)

    with storage.writing():
        wallets.give_up(held, NOW)
    copying.run_tick(NOW)
    assert not CopiedTrade.select().exists()
    Attachment.update(detached_at=None).execute()
    monkeypatch.setattr(copying, "list_trades", disconnect)
    monkeypatch.setattr("storage.snapshot", nullcontext)
    copying.run_tick(NOW + 10**9)
    assert not CopiedTrade.select().exists()
    copying.run_tick(NOW + 2 * 10**9)
    assert not CopyTotal.select().exists()


def test_unreadable_trades_have_a_reason(look):
    """Once they are readable, the reason disappears."""
    play(look)
    set_pools(lambda entry, pool: ("route",) if entry.kind == "buy" else pool.pack())
    copying.run_tick(NOW)
    size = shown_size()
    assert show()["excluded"] == {"route": 12}
    assert (size["reason"], size["returnBps"]) == ("too_few_sales", None)
    assert {one.reason for one in CopiedTrade.select()} == {"route"}
    set_pools()
    CopyTotal.update(mark="old").execute()
    copying.run_tick(NOW + copying.REST_MS)
    assert {one.reason for one in CopiedTrade.select()} == {None}


def test_tokens_the_wallet_created_are_excluded(look):
    play(look)
    set_pools()
    row = WalletSignature.select().order_by(WalletSignature.slot).first()
    entry = Entry.load(row.signature, row.slot, row.tx_index, row.entry)
    mint = Trade.select().where(Trade.kind == "buy").order_by(Trade.slot).first().mint
    row.entry = entry._replace(created=(mint,)).dump()
    row.save()
    copying.run_tick(NOW)
    assert (show()["excluded"], show()["tokens"]) == ({"own_token": 4}, 2)


def test_damaged_entries_keep_the_last_results(copied):
    told = show()
    CopyTotal.update(mark="old").execute()
    WalletSignature.update(entry=b"no").execute()
    assert copying.run_tick(NOW + 10**9)[0] is None
    assert show() == told


def test_oversized_sums_are_capped(look):
    """A dishonest node can claim that each sale meets four times all existing SOL. 12 sales for
    almost 2**61 lamports each exceed 2**63.
    """
    play(look)
    rich = State(2**61 - 1, 1, 2**61 - 1, 1)

    def enrich(entry, pool):
        return (pool if entry.kind == "buy" else pool._replace(before=rich, after=rich)).pack()

    set_pools(enrich)
    assert copying.run_tick(NOW) == (None, '{"bots":1}')
    size = shown_size()
    assert (size["receivedLamports"], size["reason"]) == (str(2**63 - 1), None)


# ---- pages ---------------------------------------------------------------------------------------
def test_a_profile_shows_a_followers_result(service):
    """+14.1% of +15.6% is 90%, rounded down."""
    bot = service.make_bot("Ada", address("w"))
    service.observe_results(address("w"), 5)
    path = f"/bots/{bot.bot.uid}"
    assert "Copied right after" not in service.get(path).text
    tab = text_of(service.get(f"{path}?tab=copying"))
    assert "No result: not calculated yet." in tab
    shares = {"spent": 5, "received": 6, "used": 41, "sales": 58, "covered": 83, "tokens": 12}
    returns = {"return_bps": 1_410, "worst_bps": 800, "bot_bps": 1_560, "kept": 90}
    row = {"bot": bot.bot, "mark": "", "at": 0, "top_token": 31, **shares}
    CopyTotal.create(**row, **returns, size=SHOWN_SIZE, excluded='[["route", 11]]')
    CopyTotal.create(**row, reason="too_few_sales", size=10**10, excluded="[]")
    overview = text_of(service.get(path))
    tab = text_of(service.get(f"{path}?tab=copying"))
    for text in (
        "Copied right after, 1 SOL per purchase",
        "at most +14.1%",
        "bot +15.6%, kept at most 90%",
    ):
        assert text in overview
    for text in (
        "you'd have made at most +14.1%, where the bot made +15.6%",
        "in 41 of 58 sales, 83% of their cost",
        "If others take your SOL out first: +8.0%.",
        "fewer than 10 sales can be followed",
        "one token (of 12) made 31% of all gains",
        "the trade went through several pools 11",
    ):
        assert text in tab
