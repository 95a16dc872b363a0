"""Subscriptions: which there are, and that a notice only makes a wallet due. Uses made-up chains,
and a clock that only the test moves.
"""

import itertools
import random

import pytest
import sampling
from lookout import store_post
from node import Chain, FakeNode
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
def poll(notices, now, outcome="nothing"):
    """Poll the wallets that are due because of notices. Return whether there are any."""
    due = notices.list_due(lambda: now)
    # One that could not be made due stays due.
    assert notices.list_due(lambda: now) == due
    notices.hurry(due, now)
    assert notices.is_urgent() == bool(due)
    begun = [] if outcome == "skipped" else due
    notices.begin_pass(begun)
    assert not notices.is_urgent() and all(map(notices.is_noticed, begun))
    for wallet_id in begun:
        if outcome.startswith("found"):
            notices.note_found(wallet_id, now)
        notices.end_poll(wallet_id, outcome == "found, one missing")
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
        if poll(notices, now, "found"):
            polled.append(round(now, 1))
    assert polled == [n + 0.2 for n in range(10)]


@pytest.mark.parametrize(
    "outcomes, polled",
    [
        (["found"], [0.2]),
        (["nothing", "found"], [0.2, 1.2]),
        (["nothing"] * 5, [0.2, 1.2, 2.2][:MAX_TRIES]),
        (["found, one missing", "found"], [0.2, 1.2]),
        (["skipped", "found"], [0.2, 1.2]),
    ],
)
def test_a_wallet_is_polled_until_everything_is_found(notices, outcomes, polled):
    times = []
    for now in (n / 10 for n in range(100)):
        if poll(notices, now, outcomes[len(times)] if len(times) < len(outcomes) else "found"):
            times.append(now)
    assert times == polled


def test_a_scheduled_poll_that_finds_something_answers_the_notice(notices):
    notices.begin_pass([7])
    assert not notices.is_noticed(7)
    notices.note_found(7, 0.1)
    assert notices.list_due(lambda: 9.0) == []


def test_many_false_notices_in_a_row_mute_an_endpoint():
    notices, ticks, almost = Notices(), itertools.count(), MAX_FALSE - 1
    for count, outcome in ((almost, "nothing"), (1, "found"), (almost, "nothing"), (1, "nothing")):
        assert not notices.is_false("endpoint 1")
        begun_at = next(ticks)
        for number in range(count):
            notices.add(number, "endpoint 1", begun_at)
        for _ in range(5):
            poll(notices, next(ticks), outcome)
    for wallet_id, endpoint in ((77, "endpoint 1"), (88, "endpoint 1"), (88, "endpoint 2")):
        notices.add(wallet_id, endpoint, 9.0)
    assert notices.is_false("endpoint 1") and not notices.is_false("endpoint 1")
    assert not notices.is_false("endpoint 2") and notices.list_due(lambda: 99.0) == [88]


def test_an_unwatched_wallet_is_forgotten():
    notices = Notices()
    notices.note_found(7, 0.0)
    notices.want(())
    assert not any(7 in one for one in vars(notices).values() if isinstance(one, dict))


@pytest.mark.parametrize(
    "noticed, found, covered",
    [
        # A notice just before or after a poll is on time.
        *((GRACE_SECONDS - 1, 0, True), (GRACE_SECONDS, 0, False)),
        *((0, GRACE_SECONDS - 1, True), (0, GRACE_SECONDS, False)),
        (None, 0, False),
    ],
)
def test_an_endpoint_that_misses_something_is_not_trusted_for_a_while(noticed, found, covered):
    notices = Notices()
    notices.cover("endpoint 1", {7, 8})
    assert notices.covers(7, 0.0) and notices.count_covered() == 2
    for now in (0, GRACE_SECONDS - 1, GRACE_SECONDS):
        if now == noticed:
            notices.add(7, "endpoint 1", now)
        if now == found:
            notices.note_found(7, now)
    for now in (2 * GRACE_SECONDS, DISTRUST_SECONDS - 1):
        assert (notices.covers(7, now), notices.covers(8, now)) == (covered, True)
    assert notices.covers(7, found + DISTRUST_SECONDS)


# ---- what a notice leads to ----------------------------------------------------------------------
class Street:
    """Completely observed wallets on a chain that continues."""

    def __init__(self, look, people=("ada", "bob")):
        self.look, self.people, self.story = look, people, Story(*people)
        for person in people:
            self.story.buy(person, "CAT", 1_000, 250_000)
        self.begin(self.story.rows)

    def begin(self, rows):
        self.node = FakeNode(Chain(rows))
        self.seen = self.look(self.node, wallets=[*map(address, self.people)]).settle()
        self.ids = {wallet.address: wallet.id for wallet in Wallet.select()}
        self.notices = self.seen.observer.notices

    @property
    def newest(self):
        """The signature of ada's newest trade."""
        return self.seen.trades()[-1].signature

    def go_on(self, verb, *what):
        """Make a transaction happen; return its row."""
        getattr(self.story, verb)(*what)
        self.node.chain = self.story.chain()
        return self.story.rows[-1]

    def sell(self):
        return self.go_on("sell", "ada", "CAT", 400, 300_000)

    def tell(self, row, person="ada"):
        """Notify like an honest node: about the person, and about its token accounts."""
        own = address(person)
        for _ in {own, *self.node.chain.owned[own]} & set(row.keys):
            self.lie(person)

    def lie(self, person="ada"):
        self.notices.add(self.ids[address(person)], "endpoint 1", self.seen.clock())

    def cover(self):
        self.notices.cover("endpoint 1", set(self.ids.values()))

    def announce_due(self):
        due = self.notices.list_due(self.seen.clock)
        make_due(due)
        self.notices.hurry(due, self.seen.clock())
        return due

    def poll_noticed(self):
        """Poll like the job that subscribes."""
        if self.announce_due():
            self.seen.observer.run_tick(self.seen.now)

    def pass_on(self, seconds=1.1):
        """Let time pass and a pass start; return the requests by method, without block times."""
        before = self.node.calls.copy()
        self.seen.clock.sleep(seconds)
        self.poll_noticed()
        asked = dict(self.node.calls - before)
        asked.pop("getBlockTime", None)
        return asked


@pytest.fixture
def street(look):
    return Street(look)


SALE = {"getMultipleAccounts": 1, "getSignaturesForAddress": 1, "getTransaction": 1}


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
def test_a_notice_costs_three_requests_and_one_more_for_a_token_account(street, happened, asked):
    """Nothing is requested for bob."""
    raw = {"sell": (400, 300_000), "receive": (25,)}
    rows = [street.go_on(verb, "ada", "CAT", *raw[verb]) for verb in happened]
    for row in rows:
        street.tell(row)
    assert street.pass_on() == SALE | asked
    shown = [trade.signature for trade in street.seen.trades()[-len(rows) :]]
    assert shown == [row.signature for row in rows] and street.seen.state() == "complete"
    assert street.seen.coverage()["receipts"] == 2 + len(rows)
    assert street.pass_on() == {}


def test_wallets_with_notices_share_a_comparison_of_balances(look):
    """Each transaction is listed and fetched by itself: two and a half requests for each of two."""
    street = Street(look)
    for person in street.people:
        street.tell(street.go_on("sell", person, "CAT", 400, 300_000), person)
    assert street.pass_on() == {name: 2 for name in SALE} | {"getMultipleAccounts": 1}
    sold = {trade.signature for trade in Trade.select().where(Trade.kind == "sell")}
    assert sold == {row.signature for row in street.story.rows[-2:]}


def test_an_unannounced_sale_is_found_in_the_wallets_list(look):
    """Its token account needs no list, but if there is news, the page before it is read."""
    street = Street(look, ["ada"])
    street.seen.look(2)
    street.cover()
    street.seen.look()
    row, before = street.sell(), street.node.calls.copy()
    street.seen.look()
    assert (street.node.calls - before)["getSignaturesForAddress"] == 2
    assert street.newest == row.signature


@pytest.mark.parametrize("sold", [400, 25])
def test_a_poll_finds_what_a_listed_sale_overtook(street, sold):
    """Tokens arrive at just one account and are sold before the poll. The sale explains the
    account's balance; if as many are sold, the account doesn't even seem to have changed.
    """
    arrival = street.go_on("receive", "ada", "CAT", 25)
    sale = street.go_on("sell", "ada", "CAT", sold, 300_000)
    street.seen.look()
    shown = [trade.signature for trade in street.seen.trades()[-2:]]
    assert shown == [arrival.signature, sale.signature] and not street.seen.gaps()


def test_a_transfer_not_listed_yet_is_listed_again_soon(street):
    """The polled node lags behind the one that sent the notice."""
    row = street.go_on("receive", "ada", "CAT", 25)
    street.node.tip = row.slot - 1
    street.tell(row)
    assert "getTransaction" not in street.pass_on()
    street.node.tip = None
    assert street.pass_on()["getTransaction"] == 1
    assert street.newest == row.signature and street.pass_on() == {}


def test_a_transaction_no_node_has_yet_is_requested_again(street):
    row = street.sell()
    street.node.drop(row.signature)
    street.tell(row)
    assert street.pass_on()["getTransaction"] == 1
    street.node.give(row.signature)
    street.pass_on()
    assert street.newest == row.signature


def test_a_false_notice_stores_nothing(street):
    before, receipts = street.seen.ledger(), Receipt.select().count
    stored = receipts()
    street.lie()
    asked = [street.pass_on().get("getSignaturesForAddress", 0) for _ in range(10)]
    assert sum(asked) == MAX_TRIES and street.seen.state() == "complete"
    assert (street.seen.ledger(), receipts()) == (before, stored)


def test_a_new_token_account_is_scanned_at_once(street):
    for verb, *what in (("buy", 70, 100_000), ("receive", 5)):
        row = street.go_on(verb, "ada", "DOG", *what)
        street.tell(row)
        street.pass_on()
        assert street.newest == row.signature and street.seen.state() == "complete"


@pytest.mark.parametrize("seed", sampling.sample(range(4), 1))
def test_lost_repeated_late_shuffled_and_forged_notices_change_no_ledger(street, look, seed):
    """Each notice's fate is random; the ledger equals the polled one."""
    dice, late, rows = random.Random(seed), [], market(seed, street.people, 60).rows
    start = len(rows) - 40
    street.begin(rows[:start])
    street.node.asked.clear()
    for end in range(start, len(rows)):
        street.node.chain = Chain(rows[: end + 1])
        for person in street.people:
            fate = dice.choice(["told", "told", "dropped", "doubled", "late", "forged"])
            if fate == "late":
                late.append((rows[end], person))
            elif fate == "forged":
                street.lie(person)
            for _ in range({"told": 1, "doubled": 2}.get(fate, 0)):
                street.tell(rows[end], person)
        if late and dice.random() < 0.3:
            street.tell(*late.pop(dice.randrange(len(late))))
        street.pass_on(dice.choice([0.05, 0.5, 2.0]))
        if dice.random() < 0.2:
            street.seen.look()
    told = street.seen.settle().ledger()
    assert set(street.node.asked.values()) == {1}
    assert told == look(street.node.chain, wallets=street.seen.addresses).settle().ledger()


def test_a_long_pass_ends_early_when_a_notice_arrives(street):
    """A wallet with a long past is backfilled while another one sells."""
    seen, sold = street.seen, []

    def tell(text):
        if not sold and street.node.calls["getTransaction"] > before:
            sold.append(street.sell())
            street.tell(sold[0])
            seen.clock.sleep(SETTLE_SECONDS)
            street.announce_due()

    for _ in range(120):
        street.go_on("buy", "bob", "CAT", 1, 1_000)
    before = street.node.calls["getTransaction"]
    seen.observer.state.report = tell
    assert seen.look() and sold and street.node.calls["getTransaction"] < before + 100
    assert street.newest != sold[0].signature
    seen.observer.run_tick(seen.now)
    assert street.newest == sold[0].signature and len(seen.trades(address("bob"))) > 120


def test_with_every_notice_lost_polling_finds_everything(street):
    """In the next poll, or in two at most if nothing moved."""
    street.notices.want((Subscription(1, ADA),))
    street.cover()
    street.seen.look(3)
    moved = street.sell()
    street.seen.look()
    assert street.newest == moved.signature
    street.cover()
    street.seen.clock.sleep(DISTRUST_SECONDS)
    street.seen.look(3)
    silent = street.go_on("mention", "ada")
    street.seen.look(2)
    assert street.newest == silent.signature


# ---- what it costs -------------------------------------------------------------------------------
def test_covered_idle_wallets_cost_fewer_requests(look):
    """In ten polls, while six wallets do nothing; they traded before."""
    street, asked = Street(look, [f"bot {number}" for number in range(6)]), []
    for step in (lambda: None, street.cover):
        step()
        before = street.node.calls.copy()
        street.seen.look(10)
        asked.append(street.node.calls - before)
    polled, covered = asked
    assert covered.total() < 0.6 * polled.total()
    assert covered["getMultipleAccounts"] == polled["getMultipleAccounts"]
