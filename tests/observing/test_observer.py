"""Observing a made-up chain and the recorded one, as they grow, with restarts, clock jumps and
other writers.
"""

import random
from collections import Counter
from itertools import pairwise

import ground
import pytest
import sampling
from lookout import store_post, watch
from node import Chain, FakeNode
from story import ADA, Story, account_of, address, market

import observer as module
from accounts.wallets import detach_wallet
from models import Address, Arrival, Bot, Post, Receipt, Wallet, WalletSignature
from observing import entries, listing
from observing.fetching import Fetching

EVE = address("eve")


# ---- the plain case ------------------------------------------------------------------------------
def test_a_wallet_is_observed_completely(look, chain):
    """Followers are notified of loading and completion, once each."""
    node, listed = FakeNode(chain), [row.signature for row in chain.touching(ADA)]
    seen = look(node)
    for _ in range(6):
        seen.look()
        scanned = all(one.full_scans > 1 for one in Address.select())
        proven = scanned and bool(seen.observer.state.watches[1].holdings)
        assert proven or seen.state() != "complete"
    told = Arrival.select(Arrival.wallet).where(Arrival.kind == "coverage")
    assert [row.wallet.address for row in told] == [ADA, ADA]
    coverage = seen.settle().coverage()
    assert [coverage[name] for name in ("state", "gaps", "pending", "note")] == [
        *("complete", [], 0, None)
    ]
    assert [t.signature for t in seen.trades()] == listed and node.asked == dict.fromkeys(listed, 1)
    accounts = {address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX")}
    assert set(Address.select(Address.address).scalars()) == {ADA, *accounts}
    # Oldest first, although nodes list the newest first, so that pages stay full as rows grow.
    stored = WalletSignature.select(WalletSignature.signature).order_by(WalletSignature.id)
    named = [row.signature for row in chain.touching(ADA) if ADA in row.keys]
    assert [one for one in stored.scalars() if one in named] == named and len(named) > 20


def test_an_unused_wallet_is_complete(look, chain):
    """An empty list proves nothing, but all balances are 0 and two full scans found nothing."""
    node, answers = FakeNode(chain), iter([[], []])
    seen = look(node, wallets=[address("nobody")])
    node._getSignaturesForAddress = lambda *_: next(answers, None)
    seen.look(6)
    assert Address.get().full_scans == 1 and seen.state() == "backfilling"
    del node._getSignaturesForAddress
    node.fail("getMultipleAccounts", -32602)
    seen.restart()
    seen.clock.sleep(3_600)
    seen.look(6)
    assert Address.get().full_scans == 2 and seen.state() == "backfilling"
    node.restore()
    seen.clock.sleep(3_600)
    seen.settle()
    assert (seen.state(), seen.coverage()["receipts"]) == ("complete", 0)


def test_recorded_wallets_match_the_oracle(look, history, expected):
    node = FakeNode(Chain.recorded(history))
    seen = look(node, wallets=history["wallets"], extra_swap_programs=(history["venue"],)).settle()
    assert [seen.state(w) for w in history["wallets"]] == ["complete", "complete", "partial"]
    for wallet in history["wallets"]:
        results, want = seen.results(wallet), expected[wallet]
        assert {name: results[name] for name in want["results"]} == want["results"]
        listed = [row["signature"] for row in want["rows"]]
        assert [t.signature for t in seen.trades(wallet)] == listed and seen.gaps(wallet) == []
        assert seen.coverage(wallet)["openingInventoryUnknown"] == want["openingInventoryUnknown"]
    receipts = {row["signature"] for want in expected.values() for row in want["rows"]}
    assert node.calls["getTransaction"] <= 1.1 * len(receipts) and set(node.asked.values()) == {1}


# ---- arrivals ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", sampling.sample(range(6), 2))
def test_arrival_order_does_not_matter(look, seed):
    """Bursts and restarts give the same bytes as one observation."""
    chain, dice = market(seed, ("ada", "eve"), 60), random.Random(seed)
    truth = look(chain, wallets=[ADA, EVE]).settle().ledger()
    node = FakeNode(chain, tip=chain.rows[0].slot)
    seen = look(node, wallets=[ADA, EVE])
    while node.tip < chain.rows[-1].slot:
        node.tip += dice.randint(1, 40)
        seen.look(dice.randint(1, 3))
        if dice.random() < 0.3:
            seen.restart()
    assert seen.settle().ledger() == truth and seen.state() == "complete"


def test_an_account_no_receipt_names_is_found(look):
    """A stranger opened it for ada: only the daily list of her accounts shows it."""
    story = Story("ada")
    story.receive("ada", "CAT", 7)
    seen = look(story.chain()).settle()
    assert [t.kind for t in seen.trades()] == ["native_transfer", "transfer_in"]
    assert seen.state() == "complete"


def test_transactions_a_post_waits_for_are_fetched_first(look, chain):
    node = FakeNode(chain)
    seen, wanted = look(node), chain.touching(ADA)[-2].signature
    store_post(seen.wallets[0], wanted)
    seen.look()
    assert next(iter(node.asked)) == wanted and Post.get().status == "verified"


# ---- places in a slot ----------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [True, False])
def test_without_transaction_index_block_or_balances_order_a_slot(look, chain, blocks):
    def read(seen):
        return [(t.signature, t.kind, t.result, t.lots, t.flags) for t in seen.settle().trades()]

    truth, node = read(look(chain)), FakeNode(chain)
    node.hide_index(blocks)
    seen = look(node)
    assert read(seen) == truth and "order_unresolved" not in str(truth)
    assert seen.state() == "complete" and node.calls["getBlock"] > 0


def test_a_restart_before_the_block_request_loses_nothing(look, chain, monkeypatch):
    node = FakeNode(chain)
    node.hide_index()
    seen = look(node)
    with monkeypatch.context() as patch:
        patch.setattr(Fetching, "index_slots", lambda *_: None)
        seen.look(3)
    seen.restart()
    seen.settle()
    in_slot = Counter(WalletSignature.select(WalletSignature.slot).scalars())
    indexes = [row.tx_index for row in WalletSignature.select() if in_slot[row.slot] > 1]
    assert indexes and None not in indexes


# ---- reading again -------------------------------------------------------------------------------
def test_receipts_without_owners_are_reread_once_the_account_is_known(look):
    """A receipt of 2021 names no owner; a later one shows that it is ada's account."""
    story = Story("ada")
    early = story.receive("ada", "CAT", 70)
    story.transact("ada", [("tokens", "CAT", "maker", "ada", 5)])
    chain = story.chain()
    meta = chain.by_signature[early].receipt["meta"]
    for balance in meta["preTokenBalances"] + meta["postTokenBalances"]:
        balance["owner"] = None
    seen = look(chain).settle()
    reread = seen.trades()[1]
    assert (reread.kind, reread.token_changes) == ("transfer_in", f'[["{address("CAT")}","70",6]]')
    assert seen.state() == "complete"


def test_an_added_venue_turns_stored_receipts_into_trades(look):
    """After a restart, without requesting any transaction again."""
    venue, story = address("a venue of tomorrow"), Story("ada")
    moves = [("lamports", "ada", "maker", 1_000_000), ("tokens", "CAT", "maker", "ada", 10)]
    story.transact("ada", moves, venue)
    node = FakeNode(story.chain())
    seen = look(node).settle()
    assert [t.kind for t in seen.trades()] == ["native_transfer", "other"]
    asked = dict(node.asked)
    rows = f"id,name,family,source\n{venue},Tomorrow,swap,https://tomorrow.example\n"
    seen.config = ground.change(seen.config, added_programs=rows)
    seen.restart()
    told = [(t.kind, t.venue) for t in seen.settle().trades()]
    assert told == [("native_transfer", None), ("buy", "Tomorrow")] and node.asked == asked


@pytest.fixture
def shared(look):
    """(a lookout of ada and eve, eve's wallet, the rows of their unreadable transaction)"""
    story = Story("ada", "eve")
    given = story.transact("ada", [("lamports", "ada", "eve", 5_000)])
    seen = look(story.chain(), wallets=(ADA, EVE)).settle()
    receipt = Receipt.select().where(Receipt.signature == given)
    Receipt.update(body=b"no zlib").where(Receipt.signature == given).execute()
    eve = Wallet.get(Wallet.address == EVE)
    yield seen, eve, WalletSignature.select().where(WalletSignature.signature == given)
    assert receipt.get().body != b"no zlib"


def test_another_wallets_damaged_receipt_is_fetched_again(shared):
    """Before eve's own list had it."""
    seen, eve, rows = shared
    truth, row = seen.ledger(), rows.where(WalletSignature.wallet == eve).get()
    row.state, row.entry = "pending", None
    row.save()
    seen.look(6)
    assert seen.ledger() == truth and not Wallet.get_by_id(eve.id).trouble


def test_a_refetched_receipt_stays_with_an_idle_wallet_too(shared):
    """Eve's wallet is disconnected; nothing would fetch their shared transactions for her."""
    seen, eve, rows = shared
    detach_wallet(Bot.get(Bot.id == eve.bot_id), seen.now)
    # Its last poll is done.
    Wallet.update(closing_at=None).where(Wallet.id == eve.id).execute()
    Wallet.update(rules="").execute()
    seen.look(6)
    assert [row.state for row in rows if row.entry] == ["stored", "stored"]


class Cut(Exception):
    """The power fails."""


def test_rereading_under_new_rules_resumes_where_it_stopped(look, chain, monkeypatch):
    """Nothing is read twice, although the power fails after three steps of seven."""
    monkeypatch.setattr(entries, "REREAD_BATCH", 7)
    seen, steps = look(chain).settle(), []
    truth, state = seen.ledger(), seen.observer.state
    Wallet.update(rules="of an older version").execute()
    WalletSignature.update(entry=None).execute()

    def tell(done):
        steps.append(done)
        if len(steps) == 3:
            raise Cut

    def reread():
        entries.reread_by_new_rules(Wallet.get(), state.programs, state.rules, tell)

    with pytest.raises(Cut):
        reread()
    assert steps == [7, 14, 21] and Wallet.get().rules.startswith(f"{state.rules}@")
    assert WalletSignature.select().where(WalletSignature.entry.is_null(False)).count() == 21
    reread()
    assert steps[-1] == WalletSignature.select().count() - 21
    assert Wallet.get().rules == state.rules
    seen.restart()
    assert seen.settle().ledger() == truth


# ---- others at work, and clocks ------------------------------------------------------------------
def test_a_start_with_long_histories_polls_reread_wallets(look, monkeypatch):
    """Each of five ledgers takes six seconds to build, and a pass builds for fifteen."""
    people = [f"bot {number}" for number in range(5)]
    seen = look(Story(*people).chain(), wallets=[address(person) for person in people])
    seen.settle().restart()
    prepare = module.Observer._prepare

    def read(self, wallet):
        if self.state.ledger_store.last_time(wallet.id) is None:
            seen.clock.sleep(6)
        prepare(self, wallet)

    monkeypatch.setattr(module.Observer, "_prepare", read)
    for more, polled in ((True, 3), (False, 5), (False, 5)):
        seen.clock.sleep(3_600)
        began = seen.now
        assert seen.observer.run_tick(began) == more
        assert Wallet.select().where(Wallet.polled_at >= began).count() == polled


def test_another_running_process_is_detected(look, chain):
    """`observe` ran, so the ledger in the server's memory is outdated."""
    node = FakeNode(chain, tip=chain.rows[15].slot)
    seen = look(node).settle()
    server = seen.observer
    node.tip = chain.rows[25].slot
    seen.restart()
    seen.look(3)
    node.tip = None
    seen.observer = server
    assert seen.settle().state() == "complete" and seen.gaps() == []


def test_the_command_polls_now_and_waits_for_a_paused_endpoint(look, chain):
    """Wallets that aren't due are polled too; a 429 in between costs ten seconds, not the pass."""
    node, waited = FakeNode(chain, tip=chain.rows[20].slot), []
    seen = look(node).settle()
    Wallet.update(due_at=seen.now + 200_000).execute()
    node.tip = None
    node.fail("getMultipleAccounts", 429)

    def sleep(seconds):
        waited.append(seconds)
        seen.clock.sleep(seconds)
        node.restore()

    coverages = module.observe_once(seen.observer, seen.now, sleep)
    assert coverages[ADA]["state"] == "complete"
    assert len(seen.trades()) == len(chain.touching(ADA))
    assert waited == [10, *[0] * (len(waited) - 1)]


def test_the_command_gives_up_when_no_node_responds(look, chain):
    seen = look(chain)
    seen.nodes[0].fail("getSignaturesForAddress")
    module.observe_once(seen.observer, seen.now, seen.clock.sleep)
    assert "getSignaturesForAddress" in seen.observer.problem


@pytest.mark.parametrize("days", [-40, 400])
def test_a_clock_jump_stops_nothing(look, chain, days):
    """The monotonic clock never goes back; the wall clock goes both ways."""
    node = FakeNode(chain, tip=chain.rows[15].slot)
    seen = look(node).settle()
    forward, back = max(0, days) * 86_400, min(0, days) * 86_400_000
    seen.clock.time += forward
    node.tip = chain.rows[25].slot
    seen.observer.run_tick(seen.now + int(back))
    seen.look(3)
    known = [row for row in chain.touching(ADA) if row.slot <= node.tip]
    assert seen.coverage()["receipts"] == len(known)
    node.tip = None
    # Set right again.
    seen.clock.time -= forward
    assert seen.settle().state() == "complete" and len(seen.trades()) == len(chain.touching(ADA))


# ---- full scans ----------------------------------------------------------------------------------
@pytest.fixture
def scanning(look, chain, monkeypatch):
    """A lookout during a full scan."""
    monkeypatch.setattr(listing, "FULL_PAGE", 5)
    seen = look(chain)
    seen.nodes[0].fail("getTransaction", -32603)
    for _ in range(2):
        seen.observer.listing.scan_page(Wallet.get(), seen.now)
    return seen


def test_a_full_scan_resumes_where_it_stopped(scanning):
    """If no node knows its position, it starts over."""
    (node,), own = scanning.nodes, Address.select().where(Address.address == ADA)
    cursor = own.get().scan_cursor
    node.fail("getSignaturesForAddress", -32603)
    scanning.look(2)
    scanning.restart()
    scanning.look(2)
    assert own.get().scan_cursor == cursor is not None
    node.fail("getSignaturesForAddress", -32020)
    scanning.clock.sleep(400)
    scanning.look(3)
    assert own.get().scan_cursor is None
    node.restore()
    scanning.clock.sleep(400)
    assert scanning.settle().state() == "complete"


@pytest.mark.parametrize("text", ["{", "[7]", '{"before": 7}', '{"before": "x", "new": "1"}'])
def test_a_full_scan_with_a_damaged_position_starts_over(scanning, chain, text):
    Address.update(scan_cursor=text).execute()
    scanning.nodes[0].restore()
    assert scanning.settle().state() == "complete"
    assert len(scanning.trades()) == len(chain.touching(ADA))


# ---- what it costs -------------------------------------------------------------------------------
def tell_people(people, trading, **how):
    """A chain of people, who bought something if they are `trading`."""
    story = Story(*people.split(), **how)
    for person in trading.split():
        story.buy(person, "CAT", 10, 5_000)
    return story


@pytest.mark.parametrize("trading, age", [("ada eve", 0), ("eve", 7_200), ("ada eve", 400_000)])
def test_small_instances_stay_within_two_intervals(look, trading, age):
    """However long ago it traded, and while another one is fetched as slowly as the nodes allow."""
    story = tell_people("ada eve", trading)
    for _ in range(150):
        story.mention("eve")
    node = FakeNode(story.chain())
    seen, polls = look(node).settle(), []
    seen.clock.sleep(age)
    seen.look()
    watch(EVE, 1)
    seen.pace()
    for _ in range(16):
        next_at = seen.clock() + seen.config.observer_interval_seconds
        seen.observer.run_tick(seen.now)
        polls.append(Wallet.get(Wallet.address == ADA).polled_at)
        # As the jobs do: an interval after the last start, or immediately if that took longer.
        seen.clock.sleep(max(0.0, next_at - seen.clock()))
    assert node.asked.total() > 100
    assert max(b - a for a, b in pairwise(polls)) < 30_000, polls


@pytest.mark.parametrize(
    "people, trading, mentions",
    # Three hundred receipts inside the overlap are listed again only if something was new.
    [("ada", "ada", 0), ("ada eve bob", "ada eve bob", 0), ("ada", "", 0), ("ada", "", 300)],
)
def test_an_idle_wallet_costs_at_most_one_request_per_address_and_poll(
    look, people, trading, mentions
):
    story, costs = tell_people(people, trading, slots_apart=1 if mentions else 2), []
    for _ in range(mentions):
        story.mention("ada")
    node = FakeNode(story.chain())
    seen = look(node, wallets=[address(person) for person in people.split()]).settle()
    for _ in range(30):
        before = node.calls.total()
        seen.look()
        costs.append(node.calls.total() - before)
    assert min(costs) > 0 and max(costs) <= Address.select().count()
