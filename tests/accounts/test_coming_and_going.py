"""Wallets that bots connect and disconnect while they trade, in any order: stored data matches the
chain, and a rebuild changes nothing.
"""

import random

import pytest
import sampling
import story
from node import FakeNode, connect
from service import NOW, Service
from several import find_differences
from story import Story, account_of
from test_attachments import A, B, C, D, check_log

from accounts import wallets
from accounts.problem import Problem
from models import Attachment, Wallet
from observer import Observer
from observing.rebuilding import rebuild

ADDRESSES = {"ada": A, "eve": B, "pam": C, "joe": D}


@pytest.fixture
def owned(monkeypatch):
    """Give each person an address with a key."""
    known = story.address
    monkeypatch.setattr(story, "address", lambda word: ADDRESSES.get(word) or known(word))


def make_trades(dice, length):
    """People trade and send each other their tokens."""
    told = Story()
    for person in ADDRESSES:
        told.fund(person, 10**10)
    while len(told.rows) < length:
        person, other = dice.sample(list(ADDRESSES), 2)
        mint, some = dice.choice(["CAT", "DOG"]), dice.randint(1, 900)
        has = told.tokens.get(account_of(person, mint), [0, 0, 0])[2]
        verb = dice.choice(["buy", "buy", "sell", "send", "send", "pay"])
        if verb in ("sell", "send") and has < some:
            continue
        if verb == "send":
            told.transact(person, [("tokens", mint, person, other, some)])
        elif verb == "pay":
            told.transact(person, [("lamports", person, other, dice.randint(1, 10**6))])
        else:
            getattr(told, verb)(person, mint, some, dice.randint(200_000, 9_000_000))
    return told


class Life:
    """Two bots, four wallets, and an observer that runs occasionally."""

    def __init__(self, service, seed):
        self.service, self.dice = service, random.Random(seed)
        self.told = make_trades(self.dice, 40)
        self.node = FakeNode(self.told.chain(), tip=self.told.rows[0].slot)
        self.observer = Observer(service.config, connect(self.node))
        self.bots = [service.make_bot(name).bot for name in ("Nell", "Otto")]
        self.done = set()
        wallets.attach_wallet(service.config, self.bots[0], A, NOW, "proven")
        wallets.add_wallet(service.config, self.bots[0], B, NOW + 1)

    def live(self):
        for row in self.told.rows:
            now = row.receipt["blockTime"] * 1_000 + self.dice.randint(0, 999)
            self.node.tip = row.slot
            if self.dice.random() < 0.4:
                self.change(now)
            if self.dice.random() < 0.5:
                self.observer.run_tick(now)
        for turn in range(1, 12):
            self.observer.run_tick(now + turn * 120_000)
        assert self.observer.problem is None

    def change(self, now):
        """Let a bot connect or disconnect a wallet if it can."""
        bot, address = self.dice.choice(self.bots), self.dice.choice(list(ADDRESSES.values()))
        act = self.dice.choice(["add", "add", "add", "remove", "replace", "claim", "detach"])
        before = len(wallets.list_holdings(bot))
        config = self.service.config
        try:
            if act == "add":
                wallets.add_wallet(config, bot, address, now)
            elif act == "remove":
                wallets.remove_wallet(bot, address, now)
            elif act == "detach":
                if self.dice.random() < 0.3:
                    wallets.detach_wallet(bot, now)
            else:
                ownership = "proven" if act == "replace" else "claimed"
                wallets.attach_wallet(config, bot, address, now, ownership)
        except Problem:
            return
        self.done.add((act, before))


@pytest.mark.parametrize("seed", sampling.sample(range(4), 1))
def test_stored_data_matches_the_chain_after_any_connecting_and_disconnecting(
    tmp_path, owned, seed
):
    service = Service(tmp_path / "data", max_wallet_changes_per_day=10**6)
    life = Life(service, seed)
    life.live()
    assert len(life.done) > 3
    check_open(life)
    check_log(service)
    rows = {row.id: row for row in Wallet.select()}
    assert find_differences(service.config, rows) == []
    changed = rebuild(life.observer.state, rows.values(), NOW + 10**7)
    assert [one for one in changed if one.changes] == []
    service.close()


def check_open(life):
    """Check that no wallet is connected twice and that a bot's several wallets are all proven."""
    for address in ADDRESSES.values():
        held = Attachment.select().join(Wallet).where(Wallet.address == address)
        assert held.where(Attachment.detached_at.is_null()).count() <= 1
    for bot in life.bots:
        told = wallets.list_holdings(bot)
        assert len(told) < 2 or {one.ownership for one in told} == {"proven"}
