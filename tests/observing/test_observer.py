"""Observing a made-up chain and the recorded one, as they grow, with restarts, clock jumps and
other writers.
"""

import random
from collections import Counter
from itertools import pairwise

import apsw
import ground
import pytest
import sampling
from lookout import store_post, watch
from node import Chain, FakeNode
from story import ADA, Story, account_of, address, market

import observer as module
import storage
from accounts.wallets import detach_wallet
from models import Address, Arrival, Bot, Post, Receipt, Wallet, WalletSignature
from observing import entries, listing
from observing.fetching import Fetching
from operate.doctor import check_limits
from web.api.health import check_health
from web.site import words


# ---- the plain case ------------------------------------------------------------------------------
def test_a_wallet_is_observed_completely(look, chain):
    node, listed = FakeNode(chain), chain.touching(ADA)
    seen = look(node).settle()
    assert seen.state() == "complete" and seen.gaps() == []
    assert (seen.coverage()["pending"], seen.coverage()["note"]) == (0, None)
    assert [t.signature for t in seen.trades()] == [row.signature for row in listed]
    assert node.asked == dict.fromkeys([row.signature for row in listed], 1)
    accounts = {address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX")}
    assert set(Address.select(Address.address).scalars()) == {ADA, *accounts}
    # Oldest first, although nodes list the newest first, so that pages stay full as rows grow.
    stored = WalletSignature.select(WalletSignature.signature).order_by(WalletSignature.id)
    named = [row.signature for row in listed if ADA in row.keys]
    assert [one for one in stored.scalars() if one in named] == named and len(named) > 20


def test_complete_needs_a_second_full_scan_and_the_closing_balances(look, chain):
    """After the first poll everything is fetched; it is complete once each address was scanned
    twice and the balances were compared. Followers are told of loading and completion, once each.
    """
    seen, states = look(chain), []
    for _ in range(6):
        seen.look()
        scanned = all(one.full_scans > 1 for one in Address.select())
        states.append((seen.state(), scanned and bool(seen.observer.state.watches[1].holdings)))
    assert states[-1][0] == "complete"
    assert all(proven for state, proven in states if state == "complete")
    told = Arrival.select(Arrival.wallet).where(Arrival.kind == "coverage")
    assert [row.wallet.address for row in told] == [ADA, ADA]


def test_an_unused_wallet_is_complete(look, chain):
    """An empty list proves nothing, but all balances are 0 and two full scans found nothing."""
    seen = look(chain, wallets=[address("nobody")]).settle()
    assert (seen.state(), seen.coverage()["receipts"]) == ("complete", 0)


def test_recorded_wallets_match_the_oracle(look, history, expected):
    node = FakeNode(Chain.recorded(history))
    seen = look(node, wallets=history["wallets"], extra_swap_programs=(history["venue"],)).settle()
    assert [seen.state(w) for w in history["wallets"]] == ["complete", "complete", "partial"]
    for wallet in history["wallets"]:
        results, want = seen.results(wallet), expected[wallet]
        assert {name: results[name] for name in want["results"]} == want["results"]
        assert seen.gaps(wallet) == []
        listed = [row["signature"] for row in want["rows"]]
        assert [t.signature for t in seen.trades(wallet)] == listed
        assert seen.coverage(wallet)["openingInventoryUnknown"] == want["openingInventoryUnknown"]
    receipts = {row["signature"] for want in expected.values() for row in want["rows"]}
    assert node.calls["getTransaction"] <= 1.1 * len(receipts) and set(node.asked.values()) == {1}


# ---- arrivals ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", sampling.sample(range(6), 2))
def test_arrival_order_does_not_matter(look, seed):
    """A chain that grows in bursts while it is watched, with restarts in between, gives the same
    bytes as one observation.
    """
    chain = market(seed, ("ada", "eve"), 60)
    at_once = look(chain, wallets=[ADA, address("eve")]).settle()
    truth, dice = at_once.ledger(), random.Random(seed)
    node = FakeNode(chain, tip=chain.rows[0].slot)
    seen = look(node, wallets=[ADA, address("eve")])
    while node.tip < chain.rows[-1].slot:
        node.tip += dice.randint(1, 40)
        seen.look(dice.randint(1, 3))
        if dice.random() < 0.3:
            seen.restart()
    assert seen.settle().ledger() == truth and seen.state() == "complete"


def test_a_transfer_naming_only_the_token_account_is_found(look):
    """getSignaturesForAddress(wallet) never lists it. Its token account's balance changed, so that
    account is listed.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 5_000)
    last = story.receive("ada", "CAT", 7)
    chain = story.chain()
    assert ADA not in chain.by_signature[last].keys
    node = FakeNode(chain, tip=chain.rows[-2].slot)
    seen = look(node).settle()
    node.tip = None
    seen.look()
    newest = seen.trades()[-1]
    assert (newest.signature, newest.kind) == (last, "transfer_in") and seen.state() == "complete"


def test_an_account_no_receipt_names_is_found(look):
    """A stranger opened an account for ada without mentioning her: only the daily list of her
    accounts shows it.
    """
    story = Story()
    story.fund("ada", 10**9)
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


@ground.sqlite_only
def test_posts_stored_during_requests_fail_no_pass(look, chain):
    """Somebody commits during every request, so no open statement of the observer may hold an old
    snapshot.
    """
    node = FakeNode(chain, tip=chain.rows[20].slot)
    seen = look(node).settle()
    others, answer = apsw.Connection(str(seen.config.database_path)), node.answer
    others.set_busy_timeout(1_000)

    def commit_and_answer(method, params):
        others.execute("UPDATE owner SET created_at = created_at + 1")
        return answer(method, params)

    node.answer, node.tip = commit_and_answer, None
    assert seen.settle().state() == "complete" and seen.observer.problem is None
    others.close()


# ---- places in a slot ----------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [True, False])
def list_results(seen):
    return [(t.signature, t.kind, t.result, t.lots) for t in seen.trades()]


@pytest.mark.parametrize("blocks", [True, False])
def test_without_transaction_index_block_or_balances_order_a_slot(look, chain, blocks):
    truth = list_results(look(chain).settle())
    node = FakeNode(chain)
    node.hide_index(blocks)
    seen = look(node).settle()
    assert list_results(seen) == truth and seen.state() == "complete"
    assert node.calls["getBlock"] > 0
    assert not any("order_unresolved" in t.flags for t in seen.trades())


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


# ---- owners of 2021 ------------------------------------------------------------------------------
def test_receipts_without_owners_are_reread_once_the_account_is_known(look):
    """An early receipt names no owner; a later one shows that the account is ada's. Then the early
    one moved her tokens too.
    """
    story = Story()
    story.fund("ada", 10**9)
    early = story.receive("ada", "CAT", 70)
    story.transact("ada", [("tokens", "CAT", "maker", "ada", 5)])
    chain = story.chain()
    row = chain.by_signature[early]
    for side in ("preTokenBalances", "postTokenBalances"):
        for balance in row.receipt["meta"][side]:
            balance["owner"] = None
    node = FakeNode(chain)
    seen = look(node).settle()
    reread = seen.trades()[1]
    assert (reread.kind, reread.token_changes) == ("transfer_in", f'[["{address("CAT")}","70",6]]')
    assert seen.state() == "complete"


def test_an_added_venue_turns_stored_receipts_into_trades(look):
    """After a restart, without requesting any transaction again."""
    venue, story = address("a venue of tomorrow"), Story()
    story.fund("ada", 10**9)
    moves = [("lamports", "ada", "maker", 1_000_000), ("tokens", "CAT", "maker", "ada", 10)]
    story.transact("ada", moves, venue)
    node = FakeNode(story.chain())
    seen = look(node).settle()
    assert [t.kind for t in seen.trades()] == ["native_transfer", "other"]
    asked = dict(node.asked)
    rows = f"id,name,family,source\n{venue},Tomorrow,swap,https://tomorrow.example\n"
    seen.config = ground.change(seen.config, added_programs=rows)
    seen.restart()
    seen.settle()
    told = [(t.kind, t.venue) for t in seen.trades()]
    assert told == [("native_transfer", None), ("buy", "Tomorrow")] and node.asked == asked


# ---- receipts that were stored and cannot be read any more ---------------------------------------
def test_rereading_the_newest_receipt_loses_no_trade(look):
    """Its body became unreadable, so entries are reread and it is fetched again at the head. A bug
    dropped and applied it in one step, and it stayed dropped.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 10, 1_000_000)
    sold = story.sell("ada", "CAT", 4, 600_000)
    seen = look(story.chain()).settle()
    truth = seen.ledger()
    Receipt.update(body=b"no zlib").where(Receipt.signature == sold).execute()
    Wallet.update(rules="").execute()
    seen.look(6)
    assert seen.state() == "complete"
    assert [t.kind for t in seen.trades()] == ["native_transfer", "buy", "sell"]
    assert seen.ledger() == truth


@pytest.fixture
def shared(look):
    """(a lookout of ada and eve, eve's wallet, the signature of their transaction, whose stored
    receipt is unreadable)
    """
    story = Story()
    for person in ("ada", "eve"):
        story.fund(person, 10**9)
    given = story.transact("ada", [("lamports", "ada", "eve", 5_000)])
    seen = look(story.chain(), wallets=(ADA, address("eve"))).settle()
    Receipt.update(body=b"no zlib").where(Receipt.signature == given).execute()
    return seen, Wallet.get(Wallet.address == address("eve")), given


def test_another_wallets_damaged_receipt_is_fetched_again(shared):
    """Before eve's own list had it."""
    seen, eve, given = shared
    truth = seen.ledger()
    of_eve = (WalletSignature.wallet == eve) & (WalletSignature.signature == given)
    WalletSignature.update(state="pending", entry=None).where(of_eve).execute()
    seen.look(6)
    assert seen.ledger() == truth and not Wallet.get_by_id(eve.id).trouble
    assert Receipt.get(Receipt.signature == given).body != b"no zlib"


def test_a_refetched_receipt_stays_with_an_idle_wallet_too(shared):
    """Eve's wallet is disconnected; nothing would fetch their shared transactions for her."""
    seen, eve, given = shared
    detach_wallet(Bot.get(Bot.id == eve.bot_id), seen.now)
    # Its last poll is done.
    Wallet.update(closing_at=None).where(Wallet.id == eve.id).execute()
    Wallet.update(rules="").execute()
    seen.look(6)
    rows = WalletSignature.select().where(WalletSignature.signature == given)
    assert [row.state for row in rows if row.entry] == ["stored", "stored"]
    assert Receipt.get(Receipt.signature == given).body != b"no zlib"


class Cut(Exception):
    """The power fails."""


def test_rereading_under_new_rules_resumes_where_it_stopped(look, chain, monkeypatch):
    """Forty transactions in steps of seven, with a power failure after the third. Nothing is read
    twice, and the ledger is unchanged.
    """
    monkeypatch.setattr(entries, "REREAD_BATCH", 7)
    seen = look(chain).settle()
    truth, rules = seen.ledger(), seen.observer.state.rules
    Wallet.update(rules="of an older version").execute()
    wallet, steps = Wallet.get(), []
    WalletSignature.update(entry=None).where(WalletSignature.wallet == wallet).execute()

    def tell(done):
        steps.append(done)
        if len(steps) == 3:
            raise Cut

    with pytest.raises(Cut):
        entries.reread_by_new_rules(wallet, seen.observer.state.programs, rules, tell)
    halfway = Wallet.get()
    assert steps == [7, 14, 21] and halfway.rules.startswith(f"{rules}@")
    assert WalletSignature.select().where(WalletSignature.entry.is_null(False)).count() == 21
    count, told = WalletSignature.select().count(), []
    entries.reread_by_new_rules(halfway, seen.observer.state.programs, rules, told.append)
    assert told[-1] == count - 21 and Wallet.get().rules == rules
    seen.restart()
    assert seen.settle().ledger() == truth


# ---- others at work, clocks, caps ----------------------------------------------------------------
def test_a_start_with_long_histories_polls_reread_wallets(look, monkeypatch):
    """Each of five ledgers takes six seconds to build, and a pass builds for fifteen: three, then
    two. Finished ones are polled in each pass.
    """
    story, people = Story(), [f"bot {number}" for number in range(5)]
    for person in people:
        story.fund(person, 10**9)
    seen = look(FakeNode(story.chain()), wallets=[address(person) for person in people])
    seen.settle().restart()
    prepare = module.Observer._prepare

    def read(self, wallet):
        if self.state.ledger_store.last_time(wallet.id) is None:
            seen.clock.sleep(6)
        prepare(self, wallet)

    monkeypatch.setattr(module.Observer, "_prepare", read)
    polled = []
    for _ in range(3):
        seen.clock.sleep(3_600)
        began, more = seen.now, seen.observer.run_tick(seen.now)
        polled_at = Wallet.select(Wallet.polled_at).order_by(Wallet.id).tuples()
        polled.append((more, [moment >= began for (moment,) in polled_at]))
    assert polled == [
        (True, [True, True, True, False, False]),
        (False, [True] * 5),
        (False, [True] * 5),
    ]


def test_another_running_process_is_detected(look, chain):
    """`observe` fetches receipts while a server is running, so the server's ledger in memory is
    outdated.
    """
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
    node = FakeNode(chain, tip=chain.rows[20].slot)
    seen = look(node).settle()
    Wallet.update(due_at=seen.now + 200_000).execute()
    node.tip = None
    node.fail("getMultipleAccounts", 429)
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        seen.clock.sleep(seconds)
        node.restore()

    coverages = module.observe_once(seen.observer, seen.now, sleep)
    assert coverages[ADA]["state"] == "complete"
    assert len(seen.trades()) == len(chain.touching(ADA))
    assert waited[0] == 10
    assert set(waited[1:]) <= {0}


def test_the_command_gives_up_when_no_node_responds(look, chain):
    node = FakeNode(chain)
    node.fail("getSignaturesForAddress")
    seen = look(node)
    module.observe_once(seen.observer, seen.now, seen.clock.sleep)
    assert "getSignaturesForAddress" in seen.observer.problem


@pytest.mark.parametrize("days", [-40, -1 / 24, 1 / 24, 400])
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


# ---- limits --------------------------------------------------------------------------------------
LIMIT = {"max_receipts_per_wallet": 12}


@pytest.fixture
def limited(look, chain):
    """A lookout of a history longer than the limit."""
    return look(chain, **LIMIT).settle()


def read_stored_signatures():
    return {row.signature for row in WalletSignature.select() if row.state == "stored"}


def list_from(chain, slot):
    return {row.signature for row in chain.touching(ADA) if row.slot >= slot}


def test_the_newest_part_of_a_long_history_is_loaded(limited, chain):
    """12 of those that involve ada, and from that slot on all that involve only her token accounts.
    Pages and the doctor say so.
    """
    first = [row for row in chain.touching(ADA) if ADA in row.keys][-12].slot
    assert Wallet.get().history_from == first
    assert read_stored_signatures() == list_from(chain, first)
    coverage = limited.coverage()
    assert coverage["state"] == "partial" and "the oldest aren't loaded" in coverage["note"]
    assert coverage["openingInventoryUnknown"]
    assert "the oldest aren't loaded" in words.describe_coverage(coverage, limited.now)
    assert [one.text for one in check_limits(storage.database.execute_sql, limited.config)] == [
        f"wallet {ADA} is at 100% of the limit on transactions or token accounts;"
        f" transactions before slot {first} aren't loaded"
    ]


@pytest.mark.parametrize("limit", [1, 12])
def test_new_transactions_are_always_loaded(look, chain, limit):
    row = chain.touching(ADA)[-20]
    node = FakeNode(chain, tip=row.slot)
    seen = look(node, max_receipts_per_wallet=limit).settle()
    before = read_stored_signatures()
    node.tip = None
    seen.settle()
    newer = list_from(chain, row.slot + 1)
    assert len(newer) == 19 and read_stored_signatures() == before | newer
    assert newer <= {trade.signature for trade in seen.trades()}
    assert seen.coverage()["pending"] == 0


def test_a_history_that_outgrows_the_limit_stays_complete(look, chain):
    node = FakeNode(chain, tip=chain.touching(ADA)[4].slot)
    seen = look(node, **LIMIT).settle()
    assert seen.state() == "complete" and Wallet.get().history_from is None
    node.tip = None
    seen.settle()
    # A nightly scan of everything known doesn't drop anything either.
    seen.clock.sleep(86_400)
    assert seen.settle().state() == "complete" and Wallet.get().history_from is None
    assert read_stored_signatures() == list_from(chain, 0)


def test_gaps_within_the_loaded_history_are_filled_at_the_limit(limited):
    whole, kept = limited.ledger(), read_stored_signatures()
    WalletSignature.select().order_by(WalletSignature.slot.desc())[5].delete_instance()
    limited.restart()
    limited.clock.sleep(86_400)
    limited.settle()
    assert (read_stored_signatures(), limited.ledger()) == (kept, whole)


def test_a_higher_limit_loads_more(limited, chain):
    assert limited.state() == "partial"
    limited.config = ground.change(limited.config, max_receipts_per_wallet=500)
    limited.restart()
    limited.clock.sleep(86_400)
    assert limited.settle().state() == "complete"
    assert read_stored_signatures() == list_from(chain, 0)


@pytest.mark.parametrize(
    "mentions, stored, state, filled",
    [
        # 10 of 40 change something; they fit into 12, so all are loaded.
        (30, range(40, 41), "complete", 83),
        # The search ends after 4 times the limit.
        (200, range(48, 48 + 12), "partial", 100),
    ],
)
def test_transactions_that_change_nothing_do_not_count(look, mentions, stored, state, filled):
    story = Story()
    story.fund("ada", 10**9)
    for n in range(9):
        story.buy("ada", "CAT", 100 + n, 5_000)
    for _ in range(mentions):
        story.mention("ada")
    seen = look(story.chain(), **LIMIT).settle()
    seen.look(20)
    assert len(read_stored_signatures()) in stored
    assert (seen.settle().state(), Wallet.get().filled) == (state, filled)
    is_whole = state == "complete"
    assert (Wallet.get().history_from is None) == is_whole
    assert (WalletSignature.select().where(WalletSignature.idle).count() == 30) == is_whole


def changes_something(row):
    """Whether a transaction changes ada's lamports or tokens."""
    meta, states = row.receipt["meta"], []
    for side in ("pre", "post"):
        held = [one for one in meta[f"{side}TokenBalances"] if one["owner"] == ADA]
        lamports = dict(zip(row.keys, meta[f"{side}Balances"], strict=True))
        states.append((held, lamports.get(ADA)))
    return states[0] != states[1]


@pytest.mark.parametrize("share, told", [(81, True), (79, False)])
def test_a_wallet_near_the_limit_is_named_everywhere(look, chain, share, told):
    count = sum(map(changes_something, chain.touching(ADA)))
    limit = next(n for n in range(count, 10**4) if 100 * count // n <= share)
    seen = look(chain, max_receipts_per_wallet=limit).settle()
    percent = 100 * count // limit
    assert seen.state() == "complete" and Wallet.get().filled == percent
    named = check_health(seen.config, seen.now)["walletObserver"]["nearLimit"]
    assert named == ([{"wallet": ADA, "percent": percent}] if told else [])
    found = [one.text for one in check_limits(storage.database.execute_sql, seen.config)]
    assert len(found) == told and all(f"{percent}%" in text for text in found)
    said = words.describe_coverage(seen.coverage(), seen.now)
    assert (f"used {percent}% of this service's limit" in said) == told


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
    """Endpoints pause during a full scan and the process restarts: the scan resumes. If its stored
    position is gone, it starts over.
    """
    (node,), cursor = scanning.nodes, Address.get().scan_cursor
    node.fail("getSignaturesForAddress", -32603)
    scanning.look(2)
    scanning.restart()
    scanning.look(2)
    assert Address.get().scan_cursor == cursor is not None
    node.fail("getSignaturesForAddress", -32020)
    scanning.clock.sleep(400)
    scanning.look(3)
    assert Address.get().scan_cursor is None
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
def tell_people(*people, trading):
    """A chain of people with lamports, who bought something if they are `trading`."""
    story = Story()
    for person in people:
        story.fund(person, 10**9)
        if person in trading:
            story.buy(person, "CAT", 10, 5_000)
    return story


@pytest.mark.parametrize("trading, age", [("ada eve", 0), ("eve", 7_200), ("ada eve", 400_000)])
def test_small_instances_stay_within_two_intervals(look, trading, age):
    """However long ago it traded, and while another one is fetched as slowly as the nodes allow."""
    story = tell_people("ada", "eve", trading=trading.split())
    for _ in range(150):
        story.mention("eve")
    node = FakeNode(story.chain())
    seen, polls = look(node, wallets=[ADA]).settle(), []
    seen.clock.sleep(age)
    seen.look()
    watch(address("eve"), 1)
    seen.pace()
    for _ in range(16):
        begun = seen.clock()
        seen.observer.run_tick(seen.now)
        polls.append(Wallet.get(Wallet.address == ADA).polled_at)
        # as the jobs do: an interval after the last start, or immediately if that took longer
        seen.clock.sleep(max(0.0, seen.config.observer_interval_seconds - seen.clock() + begun))
    assert node.asked.total() > 100
    assert max(b - a for a, b in pairwise(polls)) < 30_000, polls


@pytest.mark.parametrize(
    "people, trading", [("ada", "ada"), ("ada eve bob", "ada eve bob"), ("ada", "")]
)
def test_an_idle_wallet_costs_at_most_one_request_per_address_and_poll(look, people, trading):
    people = people.split()
    node = FakeNode(tell_people(*people, trading=trading.split()).chain())
    seen = look(node, wallets=[address(p) for p in people]).settle()
    addresses, costs = Address.select().count(), []
    for _ in range(30):
        before = node.calls.total()
        seen.look()
        costs.append(node.calls.total() - before)
    assert max(costs) <= addresses and min(costs) > 0


def test_a_crowded_first_page_costs_an_idle_wallet_one_page(look):
    """Three hundred receipts inside the overlap: listed again only if something was new."""
    story = Story(slots_apart=1)
    story.fund("ada", 10**9)
    for _ in range(300):
        story.mention("ada")
    node = FakeNode(story.chain())
    seen = look(node).settle()
    before = node.calls["getSignaturesForAddress"]
    seen.look(8)
    assert node.calls["getSignaturesForAddress"] - before <= 8
