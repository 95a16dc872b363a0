"""The bell: what is subscribed to, and that a notice makes a wallet due and nothing else. Over
chains made up for the test, with a clock that only the test moves.
"""

import random

import pytest
from node import FakeNode
from story import ADA, Story, account_of, address, market

from chain.reading.answers import Holding
from models import Address, Receipt, Trade, Wallet
from observing.balances import MAX_TOLD_RESTS
from observing.bell import (
    DISTRUST_SECONDS,
    GRACE_SECONDS,
    MAX_FRUITLESS,
    MAX_TRIES,
    MAX_WAITING,
    Announced,
    Audible,
    Bell,
    Changed,
    Subscription,
    choose_subscriptions,
    list_heard,
)
from observing.ringing import list_audible

ANNE, BEN, CLEO = (
    Audible(1, "anne", ("a1", "a2"), (False, 3)),
    Audible(2, "ben", ("b1",), (False, 9)),
    Audible(3, "cleo", (), (True, 0)),
)


# ---- what is subscribed to -----------------------------------------------------------------------
def test_wallets_come_before_accounts_and_those_waited_for_before_the_busiest():
    chosen = choose_subscriptions([ANNE, BEN, CLEO], 5)
    assert [(one.wallet, one.account) for one in chosen] == [
        ("cleo", None),
        ("ben", None),
        ("anne", None),
        ("ben", "b1"),
        ("anne", "a1"),
    ]
    assert [one.wallet for one in choose_subscriptions([ANNE, BEN, CLEO], 2)] == ["cleo", "ben"]
    assert len(choose_subscriptions([ANNE, BEN, CLEO], 100)) == 6


def test_a_wallet_is_heard_once_all_of_it_is_confirmed():
    confirmed = [Subscription(1, "anne"), Subscription(1, "anne", "a1"), Subscription(3, "cleo")]
    assert list_heard([ANNE, BEN, CLEO], confirmed) == {3}
    assert list_heard([ANNE], [*confirmed, Subscription(1, "anne", "a2")]) == {1}


def test_what_may_be_subscribed_to_is_read_from_the_database(look):
    seen = look(market(people=("ada", "bob")), wallets=[ADA, address("bob")]).settle()
    first, second = list_audible(100, seen.now)
    assert {first.address, second.address} == {ADA, address("bob")}
    assert first.rank >= second.rank and not first.rank[0]
    of_ada = first if first.address == ADA else second
    stored = Address.select(Address.address).join(Wallet).where(Wallet.address == ADA)
    assert {ADA, *of_ada.accounts} == set(stored.scalars())
    assert not list_heard(list_audible(1, seen.now), [Subscription(1, ADA)])


# ---- when a wallet is looked at ------------------------------------------------------------------
def test_a_wallet_is_looked_at_once_a_second_however_often_it_rings():
    bell, taken = Bell(), []
    for tick in range(1000):
        now = tick / 100
        bell.announce(7, Announced(f"s{tick}", "endpoint 1"), now)
        ring = bell.take(now)
        if ring:
            taken.append((now, len(ring.announced)))
    assert [round(now, 1) for now, _ in taken] == [n + 0.2 for n in range(10)]
    assert max(count for _, count in taken) <= MAX_WAITING


def test_what_a_poll_is_about_to_list_is_taken_early_but_not_twice_a_second():
    bell = Bell()
    assert bell.take_early(7, 0.0) is None
    bell.announce(7, Announced("s", "endpoint 1"), 0.0)
    assert bell.take(0.1) is None and set(bell.take_early(7, 0.1).announced) == {"s"}
    bell.announce(7, Announced("t", "endpoint 1"), 0.5)
    assert bell.take_early(7, 1.0) is None and set(bell.take_early(7, 1.1).announced) == {"t"}
    assert bell.take(9.0) is None


def test_a_flood_is_counted_and_not_kept():
    bell = Bell()
    for number in range(10 * MAX_WAITING):
        bell.announce(7, Announced(f"s{number}", "endpoint 1"), 0.0)
        holding = Holding(1, number, 1)
        bell.note_change(7, Changed(f"a{number}", holding, "endpoint 1"), 0.0)
    ring = bell.take(1.0)
    assert (len(ring.announced), len(ring.changed), ring.overflown) == (
        MAX_WAITING,
        MAX_WAITING,
        True,
    )


def test_an_endpoint_that_leads_to_nothing_is_known_for_it():
    bell = Bell()
    bell.announce(7, Announced("s", "endpoint 1"), 0.0)
    bell.announce(7, Announced("t", "endpoint 2"), 0.0)
    for _ in range(MAX_FRUITLESS):
        assert not bell.is_fruitless("endpoint 1")
        bell.note_end("endpoint 1", fruitful=False)
    assert bell.is_fruitless("endpoint 1") and not bell.is_fruitless("endpoint 2")
    assert list(bell.take(1.0).announced) == ["t"]
    bell.note_end("endpoint 2", fruitful=False)
    bell.note_end("endpoint 2", fruitful=True)
    for _ in range(MAX_FRUITLESS - 1):
        bell.note_end("endpoint 2", fruitful=False)
    assert not bell.is_fruitless("endpoint 2")


def test_who_was_caught_leaving_out_is_not_relied_on_for_a_while():
    bell = Bell()
    bell.note_heard("endpoint 1", {7, 8})
    assert bell.hears(7, 0.0) and bell.count_heard() == 2
    bell.note_found(7, "seven", "s", 0.0)
    assert not bell.hears(7, DISTRUST_SECONDS - 1) and bell.hears(8, 1.0)
    assert bell.hears(7, DISTRUST_SECONDS)


@pytest.mark.parametrize("after, heard", [(GRACE_SECONDS - 1, True), (GRACE_SECONDS, False)])
def test_a_notice_that_comes_just_after_a_poll_left_nothing_out(after, heard):
    bell = Bell()
    bell.note_heard("endpoint 1", {7, 8})
    bell.note_found(7, "seven", "s", 0.0)
    bell.note_found(8, "an account", "t", 0.0)
    bell.announce(7, Announced("s", "endpoint 1"), after)
    bell.note_change(8, Changed("an account", Holding(1, 2, 3), "endpoint 1"), after)
    assert [bell.hears(one, GRACE_SECONDS) for one in (7, 8)] == [heard, heard]


# ---- what a look does ----------------------------------------------------------------------------
class Street:
    """A wallet that is observed whole, on a chain that goes on."""

    def __init__(self, look, people=("ada",)):
        self.story = Story()
        for person in people:
            self.story.fund(person, 10**10)
            self.story.buy(person, "CAT", 1_000, 250_000)
        self.node = FakeNode(self.story.chain())
        self.seen = look(self.node, wallets=[address(one) for one in people]).settle()
        self.ids = {wallet.address: wallet.id for wallet in Wallet.select()}

    @property
    def bell(self):
        return self.seen.observer.bell

    def go_on(self, verb, *what):
        """Let something happen; its row."""
        getattr(self.story, verb)(*what)
        self.node.chain = self.story.chain()
        return self.story.rows[-1]

    def ring(self, row, person="ada", endpoint="endpoint 1"):
        """As an honest node does: of the person, then of its token accounts."""
        own, now = address(person), self.seen.clock()
        if own in row.keys:
            self.bell.announce(self.ids[own], Announced(row.signature, endpoint), now)
        for account in self.node.chain.owned[own] & set(row.keys):
            lamports, token = self.node.chain.state(account, row.slot)
            amount = int(token["uiTokenAmount"]["amount"]) if token else 0
            changed = Changed(account, Holding(row.slot, amount, lamports), endpoint)
            self.bell.note_change(self.ids[own], changed, now)

    def answer(self, seconds=1.1):
        """Let time pass and the bell be answered; what nodes were asked, by method."""
        before = self.node.calls.copy()
        self.seen.clock.sleep(seconds)
        self.seen.observer.answer_bell(self.seen.now)
        return dict(self.node.calls - before)


def test_a_sale_is_shown_for_one_request(look):
    street = Street(look)
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.ring(row)
    assert street.answer() == {"getTransaction": 1}
    assert street.seen.trades()[-1].signature == row.signature
    assert street.seen.state() == "complete" and street.seen.coverage()["receipts"] == 3
    assert street.answer() == {}


def test_a_poll_asks_for_what_rang_and_lists_nothing(look):
    street = Street(look)
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.bell.note_heard("endpoint 1", {street.ids[ADA]})
    street.seen.clock.sleep(1.0)
    street.ring(row)
    before = street.node.calls.copy()
    street.seen.observer.run_tick(street.seen.now)
    asked = street.node.calls - before
    assert asked["getTransaction"] == 1 and not asked["getSignaturesForAddress"]
    assert street.seen.trades()[-1].signature == row.signature


def test_a_sale_that_nobody_told_of_is_found_in_the_wallets_own_list(look):
    """It moved a token account, too, which needs no list then. Where there is news the page before
    it is asked for as well.
    """
    street = Street(look)
    street.seen.look(2)
    street.bell.note_heard("endpoint 1", {street.ids[ADA]})
    street.seen.look()
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    before = street.node.calls.copy()
    street.seen.look()
    assert (street.node.calls - before)["getSignaturesForAddress"] == 2
    assert street.seen.trades()[-1].signature == row.signature


@pytest.mark.parametrize("sold", [400, 25])
def test_a_poll_finds_what_a_sale_in_its_list_overtook(look, sold):
    """Tokens arrive at an account alone and are sold before the poll. The sale explains what the
    account holds now; where just as many are sold, the account does not even seem to have moved.
    """
    street = Street(look)
    arrival = street.go_on("receive", "ada", "CAT", 25)
    sale = street.go_on("sell", "ada", "CAT", sold, 300_000)
    street.seen.look()
    shown = [trade.signature for trade in street.seen.trades()[-2:]]
    assert shown == [arrival.signature, sale.signature] and not street.seen.gaps()


def test_what_moves_a_token_account_alone_is_listed_there(look):
    street = Street(look)
    row = street.go_on("receive", "ada", "CAT", 25)
    assert ADA not in row.keys
    street.ring(row)
    assert street.answer() == {"getSignaturesForAddress": 1, "getTransaction": 1}
    assert street.seen.trades()[-1].signature == row.signature


def test_what_a_known_transaction_overtook_is_listed(look):
    """Tokens arrive at an account alone and are sold at once: one look takes both, and what the
    account holds is what the sale left.
    """
    street = Street(look)
    arrival = street.go_on("receive", "ada", "CAT", 25)
    sale = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.ring(arrival)
    street.ring(sale)
    assert street.answer() == {"getTransaction": 2, "getSignaturesForAddress": 1}
    shown = [trade.signature for trade in street.seen.trades()[-2:]]
    assert shown == [arrival.signature, sale.signature] and street.seen.state() == "complete"


def test_an_arrival_that_is_not_listed_yet_is_listed_again_soon(look):
    """The node that is asked is behind the one that told."""
    street = Street(look)
    row = street.go_on("receive", "ada", "CAT", 25)
    street.node.tip = row.slot - 1
    street.ring(row)
    assert street.answer() == {"getSignaturesForAddress": 1}
    street.node.tip = None
    assert street.answer() == {"getSignaturesForAddress": 1, "getTransaction": 1}
    assert street.seen.trades()[-1].signature == row.signature
    assert street.answer() == {}


def test_an_arrival_that_is_never_listed_is_given_up(look):
    street = Street(look)
    holding = Holding(2**40, 77, 5)
    forged = Changed(address(account_of("ada", "CAT")), holding, "endpoint 1")
    street.bell.note_change(street.ids[ADA], forged, street.seen.clock())
    asked = [street.answer().get("getSignaturesForAddress", 0) for _ in range(10)]
    assert sum(asked) == MAX_TRIES and street.seen.state() == "complete"


def test_a_new_token_account_is_scanned_at_once(look):
    street = Street(look)
    street.ring(street.go_on("buy", "ada", "DOG", 70, 100_000))
    street.answer()
    assert street.seen.state() == "complete" and len(street.seen.trades()) == 3
    street.ring(street.go_on("receive", "ada", "DOG", 5))
    street.answer()
    assert len(street.seen.trades()) == 4


def test_a_transaction_that_no_node_has_yet_is_asked_for_again(look):
    street = Street(look)
    row = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.node.drop(row.signature)
    street.ring(row)
    assert street.answer()["getTransaction"] == 1
    street.node.give(row.signature)
    street.answer()
    assert street.seen.trades()[-1].signature == row.signature


def test_one_that_no_node_ever_has_is_given_up(look):
    street = Street(look)
    street.bell.announce(1, Announced("5" * 88, "endpoint 1"), street.seen.clock())
    for _ in range(10):
        street.answer()
    assert street.node.asked["5" * 88] == MAX_TRIES


def test_a_forged_notice_stores_nothing(look):
    street = Street(look, people=("ada", "bob"))
    before, receipts = street.seen.ledger(), Receipt.select().count()
    foreign = street.go_on("sell", "bob", "CAT", 10, 1_000)
    street.bell.announce(street.ids[ADA], Announced(foreign.signature, "x"), street.seen.clock())
    forged = Changed(address(account_of("ada", "CAT")), Holding(2**40, 77, 5), "x")
    street.bell.note_change(street.ids[ADA], forged, street.seen.clock())
    stranger = Changed(address("nobody's"), Holding(2**40, 77, 5), "x")
    street.bell.note_change(street.ids[ADA], stranger, street.seen.clock())
    assert street.answer() == {"getTransaction": 1, "getSignaturesForAddress": 1}
    assert street.seen.ledger() == before and Receipt.select().count() == receipts
    assert street.seen.state() == "complete"


def test_an_endpoint_that_forges_without_end_costs_a_bounded_number_of_requests(look):
    """Five hundred made-up signatures a second for a minute, until it is left alone: each that is
    kept is asked for three times, and where some were not kept the wallet is listed.
    """
    street, asked, seconds = Street(look), 0, 0
    while not street.bell.is_fruitless("endpoint 1") and seconds < 60:
        for number in range(500):
            forged = Announced(f"{seconds} {number}", "endpoint 1")
            street.bell.announce(street.ids[ADA], forged, street.seen.clock())
        asked += sum(street.answer(1.0).values())
        seconds += 1
    assert seconds <= MAX_TRIES + 1 and asked <= (MAX_WAITING + 1) * (MAX_TRIES + 1)
    assert street.answer() == {} and street.seen.state() == "complete"


@pytest.mark.parametrize("seed", range(4))
def test_dropped_doubled_late_shuffled_and_forged_notices_change_no_ledger(look, seed):
    """Of each notice a dice says what becomes of it; the ledger is the one that polls lead to."""
    people, dice = ("ada", "bob"), random.Random(seed)
    street, late, forged = Street(look, people), [], 0
    rows = market(seed, people, 60).rows
    start = len(rows) - 40
    street.story.rows, street.node.chain = rows[:start], type(street.node.chain)(rows[:start])
    seen = street.seen = look(street.node, wallets=[address(one) for one in people]).settle()
    street.ids = {wallet.address: wallet.id for wallet in Wallet.select()}
    for end in range(start, len(rows)):
        street.node.chain = type(street.node.chain)(rows[: end + 1])
        for person in people:
            fate = dice.choice(["told", "told", "dropped", "doubled", "late", "forged"])
            if fate == "late":
                late.append((rows[end], person))
            elif fate == "forged":
                stolen = Announced(dice.choice(rows).signature, "endpoint 1")
                street.bell.announce(street.ids[address(person)], stolen, seen.clock())
                forged += 1
            elif fate != "dropped":
                for _ in range(1 + (fate == "doubled")):
                    street.ring(rows[end], person)
        if late and dice.random() < 0.3:
            street.ring(*late.pop(dice.randrange(len(late))))
        street.answer(dice.choice([0.05, 0.5, 2.0]))
        if dice.random() < 0.2:
            seen.look()
    told = seen.settle().ledger()
    assert sum(street.node.asked.values()) <= len(street.node.asked) + MAX_TRIES * forged
    assert told == look(FakeNode(street.node.chain), wallets=seen.addresses).settle().ledger()


def test_a_bell_is_answered_while_a_long_pass_goes_on(look):
    """A wallet with a long past is backfilled; another one sells meanwhile."""
    street = Street(look, people=("ada", "bob"))
    seen, sold = street.seen, []

    def tell(text):
        if not sold and street.node.calls["getSignaturesForAddress"] % 2:
            sold.append(street.go_on("sell", "ada", "CAT", 400, 300_000))
            street.ring(sold[0])

    for _ in range(200):
        street.go_on("buy", "bob", "CAT", 1, 1_000)
    seen.observer.state.report = tell
    seen.pace(0.02)
    seen.look()
    assert sold and seen.trades(ADA)[-1].signature == sold[0].signature
    assert not seen.observer.bell.take(seen.clock() + 60)


def test_with_every_notice_lost_polls_find_all(look):
    """Listened to and told nothing: the transaction shows in the next poll, and what moves nothing
    after two at the latest.
    """
    street = Street(look)
    street.bell.want([Audible(1, ADA, (), (False, 1))])
    street.bell.note_heard("endpoint 1", {1})
    street.seen.look(3)
    moved = street.go_on("sell", "ada", "CAT", 400, 300_000)
    street.seen.look()
    assert street.seen.trades()[-1].signature == moved.signature
    street.bell.note_heard("endpoint 1", {1})
    street.seen.clock.sleep(DISTRUST_SECONDS)
    street.seen.look(3)
    silent = street.go_on("mention", "ada")
    street.seen.look(2)
    assert street.seen.trades()[-1].signature == silent.signature


def test_a_list_rests_while_notices_come_true_and_no_longer(look):
    """A sale is told of before each poll: of thirty polls, each sixth lists the wallet. From then
    on every notice is lost: what moves nothing shows in the second poll.
    """
    street = Street(look)
    street.bell.note_heard("endpoint 1", {street.ids[ADA]})
    street.seen.look(3)
    before = street.node.calls.copy()
    for _ in range(30):
        street.seen.clock.sleep(13.0)
        street.ring(street.go_on("sell", "ada", "CAT", 1, 1_000))
        street.answer(2.0)
        street.seen.observer.run_tick(street.seen.now)
    listed = (street.node.calls - before)["getSignaturesForAddress"]
    assert 0 < listed <= 30 / (1.5 * MAX_TOLD_RESTS)
    silent = street.go_on("mention", "ada")
    street.seen.look(2)
    assert street.seen.trades()[-1].signature == silent.signature


def count_idle_requests(look, heard):
    """Requests of ten polls in which six wallets do nothing, by method; they traded before."""
    people = [f"bot {number}" for number in range(6)]
    story = Story(slots_apart=1)
    for person in people:
        story.fund(person, 10**9)
        story.buy(person, "CAT", 1_000, 1_000)
    node = FakeNode(story.chain())
    seen = look(node, wallets=[address(person) for person in people])
    while seen.look() or "complete" not in seen.state(seen.addresses[-1]):
        pass
    if heard:
        seen.observer.bell.note_heard("endpoint 1", {wallet.id for wallet in seen.wallets})
    before = node.calls.copy()
    seen.look(10)
    return node.calls - before


def test_idle_wallets_that_are_heard_cost_fewer_requests(look):
    before, after = count_idle_requests(look, heard=False), count_idle_requests(look, heard=True)
    assert sum(after.values()) < 0.6 * sum(before.values())
    assert after["getMultipleAccounts"] == before["getMultipleAccounts"]


# ---- what a steady flow costs --------------------------------------------------------------------
PEOPLE, FLOW_SECONDS, A_SECOND, TICK_SECONDS = 20, 40, 8, 0.05


class Flow(Street):
    """Twenty wallets of which all is heard, and something of one of them eight times a second; a
    notice comes a twentieth of a second after its transaction, a poll every 15 seconds.
    """

    def __init__(self, look):
        self.people = [f"bot {number}" for number in range(PEOPLE)]
        super().__init__(look, self.people)
        self.dice, self.due = random.Random(3), []
        self.happened = []
        self.bell.note_heard("endpoint 1", set(self.ids.values()))

    def happen(self):
        """One transaction in ten names a token account alone."""
        person, verb = (
            self.dice.choice(self.people),
            self.dice.choice([*["buy"] * 5, *["sell"] * 3, "give", "receive"]),
        )
        price = [100_000] if verb in ("buy", "sell") else []
        row = self.go_on(verb, person, "CAT", 1, *price)
        self.happened.append(row.signature)
        self.due.append((self.seen.clock() + TICK_SECONDS, row, person))

    def run(self):
        """Let it flow; what nodes were asked meanwhile, by method."""
        before = self.node.calls.copy()
        polled_at = begun_at = self.seen.clock()
        while (now := self.seen.clock()) < begun_at + FLOW_SECONDS:
            if len(self.happened) <= A_SECOND * (now - begun_at):
                self.happen()
            while self.due and self.due[0][0] <= now:
                self.ring(*self.due.pop(0)[1:])
            if now - polled_at >= self.seen.config.observer_interval_seconds:
                polled_at = now
                self.seen.observer.run_tick(self.seen.now)
            self.seen.observer.answer_bell(self.seen.now)
            self.seen.clock.sleep(TICK_SECONDS)
        return self.node.calls - before


def test_a_steady_flow_costs_no_more_than_a_quarter_beside_its_receipts(look):
    """320 transactions in 40 s. One in ten or so has to be listed; beside that polls compare
    balances, list what moved and no notice told of yet, and the heads whose turn it is.
    """
    street = Flow(look)
    calls = street.run()
    street.answer()
    assert set(street.happened) <= set(Trade.select(Trade.signature).scalars())
    assert calls["getTransaction"] <= len(street.happened) >= FLOW_SECONDS * A_SECOND
    assert sum(calls.values()) <= 1.25 * len(street.happened)
