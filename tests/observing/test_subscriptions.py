"""Subscriptions: which there are, and that a notice only makes a wallet due. Uses made-up chains,
and a clock that only the test moves.
"""

import itertools
import random

import pytest
import sampling
from lookout import store_post
from node import FakeNode
from story import ADA, Story, address, market

from models import Address, Receipt, Trade, Wallet
from observing.state import (
    DISTRUST_SECONDS,
    GRACE_SECONDS,
    MAX_FALSE,
    MAX_TRIES,
    SETTLE_SECONDS,
    Notices,
    Subscription,
)
from observing.subscriptions import list_subscriptions, make_due


# ---- what is subscribed to -----------------------------------------------------------------------
def test_wallets_come_before_accounts_and_waiting_ones_before_busy_ones(look):
    people = [address(one) for one in ("ada", "bob", "cleo")]
    seen = look(market(people=("ada", "bob", "cleo")), wallets=people).settle()
    Trade.update(block_time=seen.now // 1000).where(Trade.wallet == seen.wallets[1]).execute()
    store_post(seen.wallets[2])
    wanted = list_subscriptions(seen.now)
    order = [people[2], people[1], people[0]]
    assert [one.wallet for one in wanted[:3]] == order
    accounts = wanted[3:]
    assert accounts and sorted(accounts, key=lambda one: order.index(one.wallet)) == [*accounts]
    stored = Address.select(Address.address).scalars()
    assert {one.account or one.wallet for one in wanted} == set(stored)


# ---- when a wallet is polled ---------------------------------------------------------------------
def begin_pass(notices, now):
    """Begin a pass over the wallets that are due because of notices, and return them."""
    due = notices.list_due(lambda: now)
    notices.hurry(due, now)
    assert notices.is_urgent() == bool(due)
    notices.begin_pass(due)
    assert not notices.is_urgent() and all(map(notices.is_noticed, due))
    return due


def poll(notices, now, found=False, pending=False):
    """Return whether a wallet is due at a time, and poll it."""
    due = begin_pass(notices, now)
    for wallet_id in due:
        if found:
            notices.note_found(wallet_id, now)
        notices.end_poll(wallet_id, pending)
    return bool(due)


@pytest.fixture
def notices():
    """Notices with one of wallet 7 at 0 s."""
    made = Notices()
    made.add(7, "endpoint 1", 0.0)
    return made


def test_a_wallet_is_polled_once_a_second_despite_many_notices():
    notices, polled = Notices(), []
    for tick in range(1000):
        now = tick / 100
        notices.add(7, "endpoint 1", now)
        if poll(notices, now, found=True):
            polled.append(round(now, 1))
    assert polled == [n + 0.2 for n in range(10)]


def test_a_wallet_is_polled_again_until_something_is_found(notices):
    times = [n / 10 for n in range(100)]
    assert [now for now in times if poll(notices, now, found=now > 1)] == [0.2, 1.2]
    notices.add(7, "endpoint 1", 10.0)
    assert [now for now in times if poll(notices, now + 10)] == [0.2, 1.2, 2.2][:MAX_TRIES]


def test_a_wallet_is_polled_again_while_a_transaction_is_missing(notices):
    assert poll(notices, 0.2, found=True, pending=True) and not poll(notices, 1.1)
    assert poll(notices, 1.2) and not poll(notices, 9.0)


def test_a_wallet_that_a_pass_skips_is_due_again_a_second_later(notices):
    assert notices.list_due(lambda: 1.0) == [7]
    notices.hurry([7], 1.0)
    assert notices.is_urgent() and notices.list_due(lambda: 9.0) == []
    notices.begin_pass([8])
    assert not notices.is_urgent() and not notices.is_noticed(7)
    assert not poll(notices, 1.9) and poll(notices, 2.0)


def test_a_wallet_that_could_not_be_made_due_stays_due(notices):
    assert notices.list_due(lambda: 1.0) == notices.list_due(lambda: 1.0) == [7]


def test_a_scheduled_poll_that_finds_something_answers_the_notice(notices):
    notices.begin_pass([7])
    assert not notices.is_noticed(7)
    notices.note_found(7, 0.1)
    assert notices.list_due(lambda: 9.0) == []


def test_many_false_notices_in_a_row_mute_an_endpoint():
    notices, ticks = Notices(), itertools.count()

    def send(endpoint, count, found):
        begun_at = next(ticks)
        for number in range(count):
            notices.add(number, endpoint, begun_at)
        for _ in range(5):
            poll(notices, next(ticks), found)

    send("endpoint 1", MAX_FALSE - 1, found=False)
    send("endpoint 1", 1, found=True)
    send("endpoint 1", MAX_FALSE - 1, found=False)
    assert not notices.is_false("endpoint 1")
    send("endpoint 1", 1, found=False)
    notices.add(77, "endpoint 1", 9.0)
    notices.add(88, "endpoint 1", 9.0)
    notices.add(88, "endpoint 2", 9.0)
    assert notices.is_false("endpoint 1") and not notices.is_false("endpoint 1")
    assert not notices.is_false("endpoint 2") and notices.list_due(lambda: 99.0) == [88]


def test_an_unwatched_wallet_is_forgotten():
    notices = Notices()
    notices.note_found(7, 0.0)
    notices.want(())
    assert not any(7 in one for one in vars(notices).values() if isinstance(one, dict))


def test_an_endpoint_that_misses_something_is_not_trusted_for_a_while():
    notices = Notices()
    notices.cover("endpoint 1", {7, 8})
    assert notices.covers(7, 0.0) and notices.count_covered() == 2
    notices.note_found(7, 0.0)
    assert not notices.covers(7, DISTRUST_SECONDS - 1) and notices.covers(8, DISTRUST_SECONDS - 1)
    assert notices.covers(7, DISTRUST_SECONDS)


@pytest.mark.parametrize(
    "noticed, found, covered",
    [
        (GRACE_SECONDS - 1, 0, True),
        (GRACE_SECONDS, 0, False),
        (0, GRACE_SECONDS - 1, True),
    ],
)
def test_a_notice_just_before_or_after_a_poll_is_on_time(noticed, found, covered):
    notices = Notices()
    notices.cover("endpoint 1", {7})
    for now in sorted((noticed, found)):
        if now == noticed:
            notices.add(7, "endpoint 1", now)
        else:
            notices.note_found(7, now)
    assert notices.covers(7, 2 * GRACE_SECONDS) == covered


# ---- what a notice leads to ----------------------------------------------------------------------
class Street:
    """A completely observed wallet on a chain that continues."""

    def __init__(self, look, people=("ada",)):
        self.story = Story()
        for person in people:
            self.story.fund(person, 10**10)
            self.story.buy(person, "CAT", 1_000, 250_000)
        self.node = FakeNode(self.story.chain())
        self.seen = look(self.node, wallets=[address(one) for one in people]).settle()
        self.ids = {wallet.address: wallet.id for wallet in Wallet.select()}

    @property
    def notices(self):
        return self.seen.observer.notices

    def go_on(self, verb, *what):
        """Make a transaction happen; return its row."""
        getattr(self.story, verb)(*what)
        self.node.chain = self.story.chain()
        return self.story.rows[-1]

    def tell(self, row, person="ada", endpoint="endpoint 1"):
        """Notify like an honest node: about the person, and about its token accounts."""
        own = address(person)
        for _ in {own, *self.node.chain.owned[own]} & set(row.keys):
            self.notices.add(self.ids[own], endpoint, self.seen.clock())

    def lie(self, person="ada"):
        self.notices.add(self.ids[address(person)], "endpoint 1", self.seen.clock())

    def pass_on(self, seconds=1.1):
        """Let time pass and notices start a pass; return the requests to nodes by method."""
        before = self.node.calls.copy()
        self.seen.clock.sleep(seconds)
        poll_noticed(self.seen)
        return dict(self.node.calls - before)


def poll_noticed(seen):
    """Poll like the job that subscribes."""
    if announce_due(seen):
        seen.observer.run_tick(seen.now)


def announce_due(seen):
    due = seen.observer.notices.list_due(seen.clock)
    make_due(due)
    seen.observer.notices.hurry(due, seen.clock())
    return due


SALE = {"getMultipleAccounts": 1, "getSignaturesForAddress": 1, "getTransaction": 1}


def forget_time(asked):
    """Leave out the block time, which is requested once a minute."""
    return {method: count for method, count in asked.items() if method != "getBlockTime"}


@pytest.mark.parametrize(
    "happened, asked",
    [
        (["sell"], {}),
        # It doesn't name the wallet, so the token account is listed too.
        (["receive"], {"getSignaturesForAddress": 2}),
        # The account's balance is what the sale left.
        (["receive", "sell"], {"getSignaturesForAddress": 2, "getTransaction": 2}),
    ],
)
def test_a_notice_costs_three_requests_and_one_more_for_a_token_account(look, happened, asked):
    street = Street(look)
    raw = {"sell": (400, 300_000), "receive": (25,)}
    rows = [street.go_on(verb, "ada", "CAT", *raw[verb]) for verb in happened]
    for row in rows:
        street.tell(row)
    assert forget_time(street.pass_on()) == SALE | asked
    shown = [trade.signature for trade in street.seen.trades()[-len(rows) :]]
    assert shown == [row.signature for row in rows] and street.seen.state() == "complete"
    assert street.seen.coverage()["receipts"] == 2 + len(rows)
    assert street.pass_on() == {}


def test_a_notice_polls_only_its_wallet(look):
    street = Street(look, people=("ada", "bob"))
    street.seen.look(2)
    polled = dict(Wallet.select(Wallet.address, Wallet.polled_at).tuples())
    street.tell(street.go_on("sell", "ada", "CAT", 400, 300_000))
    street.pass_on()
    after = dict(Wallet.select(Wallet.address, Wallet.polled_at).tuples())
    assert after[address("bob")] == polled[address("bob")] and after[ADA] > polled[ADA]


def test_an_unannounced_sale_is_found_in_the_wallets_list(look):
    """It moved a token account too, which then needs no list. If there is news, the page before it
    is requested as well.
    """
    street = Street(look)
    street.seen.look(2)
    street.notices.cover("endpoint 1", {street.ids[ADA]})
    street.seen.look()
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    before = street.node.calls.copy()
    street.seen.look()
    assert (street.node.calls - before)["getSignaturesForAddress"] == 2
    assert street.seen.trades()[-1].signature == row.signature


@pytest.mark.parametrize("sold", [400, 25])
def test_a_poll_finds_what_a_listed_sale_overtook(look, sold):
    """Tokens arrive at just one account and are sold before the poll. The sale explains the
    account's balance; if as many are sold, the account doesn't even seem to have changed.
    """
    street = Street(look)
    arrival = street.go_on("receive", "ada", "CAT", 25)
    sale = street.go_on("sell", "ada", "CAT", sold, 300_000)
    street.seen.look()
    shown = [trade.signature for trade in street.seen.trades()[-2:]]
    assert shown == [arrival.signature, sale.signature] and not street.seen.gaps()


def test_a_transfer_not_listed_yet_is_listed_again_soon(look):
    """The polled node lags behind the one that sent the notice."""
    street = Street(look)
    row = street.go_on("receive", "ada", "CAT", 25)
    street.node.tip = row.slot - 1
    street.tell(row)
    assert "getTransaction" not in street.pass_on()
    street.node.tip = None
    assert street.pass_on()["getTransaction"] == 1
    assert street.seen.trades()[-1].signature == row.signature
    assert street.pass_on() == {}


def test_a_false_notice_stores_nothing(look):
    street = Street(look)
    before, receipts = street.seen.ledger(), Receipt.select().count()
    street.lie()
    asked = [street.pass_on().get("getSignaturesForAddress", 0) for _ in range(10)]
    assert sum(asked) == MAX_TRIES and street.seen.state() == "complete"
    assert street.seen.ledger() == before and Receipt.select().count() == receipts


def test_a_new_token_account_is_scanned_at_once(look):
    street = Street(look)
    street.tell(street.go_on("buy", "ada", "DOG", 70, 100_000))
    street.pass_on()
    assert street.seen.state() == "complete" and len(street.seen.trades()) == 3
    street.tell(street.go_on("receive", "ada", "DOG", 5))
    street.pass_on()
    assert len(street.seen.trades()) == 4


def test_a_transaction_no_node_has_yet_is_requested_again(look):
    street = Street(look)
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.node.drop(row.signature)
    street.tell(row)
    assert street.pass_on()["getTransaction"] == 1
    street.node.give(row.signature)
    street.pass_on()
    assert street.seen.trades()[-1].signature == row.signature


def test_endless_false_notices_cost_a_bounded_number_of_requests(look):
    """Ten a second for each wallet, until the endpoint is muted."""
    people = [f"bot {number}" for number in range(6)]
    street, asked, seconds = Street(look, people), 0, 0
    while not street.notices.is_false("endpoint 1") and seconds < 60:
        for _ in range(10):
            for person in people:
                street.lie(person)
        asked += sum(street.pass_on(1.0).values())
        seconds += 1
    assert seconds <= MAX_TRIES * (MAX_FALSE // len(people) + 1)
    assert asked <= (len(people) + 2) * seconds
    assert street.pass_on() == {} and street.seen.state(address("bot 0")) == "complete"


@pytest.mark.parametrize("seed", sampling.sample(range(4), 1))
def test_lost_repeated_late_shuffled_and_forged_notices_change_no_ledger(look, seed):
    """Each notice's fate is random; the ledger equals the polled one."""
    people, dice = ("ada", "bob"), random.Random(seed)
    street, late = Street(look, people), []
    rows = market(seed, people, 60).rows
    start = len(rows) - 40
    street.story.rows, street.node.chain = rows[:start], type(street.node.chain)(rows[:start])
    seen = street.seen = look(street.node, wallets=[address(one) for one in people]).settle()
    street.ids = {wallet.address: wallet.id for wallet in Wallet.select()}
    street.node.asked.clear()
    for end in range(start, len(rows)):
        street.node.chain = type(street.node.chain)(rows[: end + 1])
        for person in people:
            fate = dice.choice(["told", "told", "dropped", "doubled", "late", "forged"])
            if fate == "late":
                late.append((rows[end], person))
            elif fate == "forged":
                street.lie(person)
            elif fate != "dropped":
                for _ in range(1 + (fate == "doubled")):
                    street.tell(rows[end], person)
        if late and dice.random() < 0.3:
            street.tell(*late.pop(dice.randrange(len(late))))
        street.pass_on(dice.choice([0.05, 0.5, 2.0]))
        if dice.random() < 0.2:
            seen.look()
    told = seen.settle().ledger()
    assert set(street.node.asked.values()) == {1}
    assert told == look(FakeNode(street.node.chain), wallets=seen.addresses).settle().ledger()


def test_a_long_pass_ends_early_when_a_notice_arrives(look):
    """A wallet with a long past is backfilled while another one sells."""
    street = Street(look, people=("ada", "bob"))
    seen, sold = street.seen, []

    def tell(text):
        if not sold and street.node.calls["getTransaction"] > before:
            sold.append(street.go_on("sell", "ada", "CAT", 400, 300_000))
            street.tell(sold[0])
            seen.clock.sleep(SETTLE_SECONDS)
            announce_due(seen)

    for _ in range(200):
        street.go_on("buy", "bob", "CAT", 1, 1_000)
    before = street.node.calls["getTransaction"]
    seen.observer.state.report = tell
    assert seen.look() and sold and street.node.calls["getTransaction"] < before + 100
    assert seen.trades(ADA)[-1].signature != sold[0].signature
    seen.observer.run_tick(seen.now)
    assert seen.trades(ADA)[-1].signature == sold[0].signature
    assert len(seen.trades(address("bob"))) > 200


def test_with_every_notice_lost_polling_finds_everything(look):
    """Subscribed without notices: the transaction shows in the next poll, and one that moves
    nothing after two at most.
    """
    street = Street(look)
    street.notices.want((Subscription(1, ADA),))
    street.notices.cover("endpoint 1", {1})
    street.seen.look(3)
    moved = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.seen.look()
    assert street.seen.trades()[-1].signature == moved.signature
    street.notices.cover("endpoint 1", {1})
    street.seen.clock.sleep(DISTRUST_SECONDS)
    street.seen.look(3)
    silent = street.go_on("mention", "ada")
    street.seen.look(2)
    assert street.seen.trades()[-1].signature == silent.signature


def count_idle_requests(look, covered):
    """Requests of ten polls by method, while six wallets do nothing; they traded before."""
    people = [f"bot {number}" for number in range(6)]
    story = Story(slots_apart=1)
    for person in people:
        story.fund(person, 10**9)
        story.buy(person, "CAT", 1_000, 1_000)
    node = FakeNode(story.chain())
    seen = look(node, wallets=[address(person) for person in people])
    while seen.look() or "complete" not in seen.state(seen.addresses[-1]):
        pass
    if covered:
        seen.observer.notices.cover("endpoint 1", {wallet.id for wallet in seen.wallets})
    before = node.calls.copy()
    seen.look(10)
    return node.calls - before


def test_covered_idle_wallets_cost_fewer_requests(look):
    before, after = (count_idle_requests(look, covered) for covered in (False, True))
    assert sum(after.values()) < 0.6 * sum(before.values())
    assert after["getMultipleAccounts"] == before["getMultipleAccounts"]


# ---- what a steady flow costs --------------------------------------------------------------------
PEOPLE, FLOW_SECONDS, A_SECOND, TICK_SECONDS = 20, 40 if sampling.FULL else 12, 8, 0.05


class Flow(Street):
    """Twenty fully covered wallets, with eight transactions a second among them; a notice comes a
    twentieth of a second after its transaction, a poll every 15 seconds.
    """

    def __init__(self, look):
        self.people = [f"bot {number}" for number in range(PEOPLE)]
        super().__init__(look, self.people)
        self.dice, self.due = random.Random(3), []
        self.happened = []
        self.notices.cover("endpoint 1", set(self.ids.values()))

    def happen(self):
        """One in ten transactions involves only a token account."""
        person, verb = (
            self.dice.choice(self.people),
            self.dice.choice([*["buy"] * 5, *["sell"] * 3, "give", "receive"]),
        )
        price = [100_000] if verb in ("buy", "sell") else []
        row = self.go_on(verb, person, "CAT", 1, *price)
        self.happened.append(row.signature)
        self.due.append((self.seen.clock() + TICK_SECONDS, row, person))

    def run(self):
        """Let it run; return the requests to nodes by method."""
        before = self.node.calls.copy()
        polled_at = begun_at = self.seen.clock()
        while (now := self.seen.clock()) < begun_at + FLOW_SECONDS:
            if len(self.happened) <= A_SECOND * (now - begun_at):
                self.happen()
            while self.due and self.due[0][0] <= now:
                self.tell(*self.due.pop(0)[1:])
            if now - polled_at >= self.seen.config.observer_interval_seconds:
                polled_at = now
                self.seen.observer.run_tick(self.seen.now)
            poll_noticed(self.seen)
            self.seen.clock.sleep(TICK_SECONDS)
        return self.node.calls - before


def test_a_steady_flow_costs_two_and_a_half_requests_a_transaction(look):
    """Eight transactions a second: each is listed and fetched, and balances are compared once for
    all wallets that had a notice since the last comparison.
    """
    street = Flow(look)
    calls = street.run()
    street.pass_on()
    assert set(street.happened) <= set(Trade.select(Trade.signature).scalars())
    assert calls["getTransaction"] <= len(street.happened) >= FLOW_SECONDS * A_SECOND
    assert sum(calls.values()) <= 2.5 * len(street.happened)
