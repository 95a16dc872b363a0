"""Observing: over a chain made up for the test and over the recorded one, through nodes that lag,
hide, forget and lie.
"""

import functools
import random
from itertools import pairwise

import apsw
import ground
import orjson
import pytest
from lookout import Lookout, watch
from node import Chain, FakeNode
from peewee import OperationalError
from story import RENT, Story, account_of, address

import observer as module
from accounts.problem import Problem
from accounts.wallets import attach_wallet
from chain import rpc
from chain.instructions import TOKEN
from models import Address, Bot, Post, Receipt, Trade, Wallet, WalletSignature
from observing import listing
from observing.listing import HEAD_PAGE
from operate.inspection import inspect
from web.api.health import check_health

ADA = address("ada")


@pytest.fixture
def config(settings):
    return settings


def market(seed=1, people=("ada",), length=40):
    """A chain of `length` transactions drawn by chance: purchases, sales, swaps, gifts, failures
    and mentions of these people.
    """
    dice, story = random.Random(seed), Story()
    for person in people:
        story.fund(person, 10**10)
    while len(story.rows) < length:
        person, mint = dice.choice(people), dice.choice(["CAT", "DOG"])
        held = story.tokens.get(account_of(person, mint), [0, 0, 0])[2]
        some, price = dice.randint(1, 1_000), dice.randint(200_000, 9_000_000)
        verb = dice.choice(
            ["buy", "buy", "sell", "sell", "swap", "receive", "give", "fail", "mention"]
        )
        if verb in ("sell", "swap", "give") and held < some:
            continue
        how = {
            "buy": (mint, some, price),
            "sell": (mint, some, price),
            "swap": (mint, some, "FOX", dice.randint(1, 500)),
            "receive": (mint, some),
            "give": (mint, some),
            "fail": (),
            "mention": (),
        }[verb]
        if dice.random() < 0.25:
            story.same_slot()
        getattr(story, verb)(person, *how)
    return story.chain()


@pytest.fixture
def chain():
    return market()


@pytest.fixture
def look(config, db):
    """look(*nodes or chain, wallets=[ada]) -> Lookout"""

    def make(*nodes, wallets=(ADA,), **changes):
        nodes = [FakeNode(node) if isinstance(node, Chain) else node for node in nodes]
        return Lookout.begin(config, *nodes, wallets=wallets, **changes)

    return make


# ---- the plain case ------------------------------------------------------------------------------
def test_a_wallet_is_observed_whole(look, chain):
    node = FakeNode(chain)
    seen = look(node).settle()
    assert (
        seen.state() == "complete"
        and seen.gaps() == []
        and seen.coverage()["pending"] == 0
        and seen.coverage()["note"] is None
    )
    assert [t.signature for t in seen.trades()] == [row.signature for row in chain.touching(ADA)]
    assert set(node.asked.values()) == {1} and len(node.asked) == len(chain.touching(ADA))
    assert {a.address for a in Address.select()} == {
        ADA,
        *(address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX")),
    }


def test_complete_needs_a_second_walk_and_the_closing_balances(look, chain):
    """After the first look everything is fetched; it is said only once each address was walked
    twice and the balances were compared.
    """
    seen, said = look(chain), []
    for _ in range(6):
        seen.look()
        said.append(
            (
                seen.state(),
                all(a.walks > 1 for a in Address.select()),
                bool(seen.observer._watches[1].holdings),
            )
        )
    assert (
        all(walked and compared for state, walked, compared in said if state == "complete")
        and said[-1][0] == "complete"
    )


def test_a_wallet_nobody_used(look, chain):
    """Nothing listed is no proof, but all balances are 0 and two walks found nothing."""
    seen = look(chain, wallets=[address("nobody")]).settle()
    assert (seen.state(), seen.coverage()["receipts"]) == ("complete", 0)


def test_the_recorded_wallets(look, history, expected):
    node = FakeNode(Chain.recorded(history))
    seen = look(node, wallets=history["wallets"], extra_swap_programs=(history["venue"],)).settle()
    assert [seen.state(w) for w in history["wallets"]] == ["complete", "complete", "partial"]
    for wallet in history["wallets"]:
        results, want = seen.results(wallet), expected[wallet]
        assert {name: results[name] for name in want["results"]} == want["results"] and seen.gaps(
            wallet
        ) == []
        assert [t.signature for t in seen.trades(wallet)] == [
            row["signature"] for row in want["rows"]
        ]
        assert seen.coverage(wallet)["openingInventoryUnknown"] == want["openingInventoryUnknown"]
    receipts = {row["signature"] for want in expected.values() for row in want["rows"]}
    assert node.calls["getTransaction"] <= 1.1 * len(receipts) and set(node.asked.values()) == {1}


# ---- arrivals ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_arrival_leaves_no_trace(look, seed):
    """A chain that grows by leaps while it is watched, with restarts between: the same bytes as
    seen at once.
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


def test_an_arrival_that_names_only_the_token_account_is_found(look):
    """getSignaturesForAddress(wallet) never lists it: its token account's balance moved, and that
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
    assert (
        seen.trades()[-1].signature == last
        and seen.trades()[-1].kind == "transfer_in"
        and seen.state() == "complete"
    )


def test_an_account_that_no_receipt_of_the_wallet_names_is_found(look):
    """A stranger opened an account for ada without naming her: only the list of her accounts tells,
    once a day.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.receive("ada", "CAT", 7)
    seen = look(story.chain()).settle()
    assert [t.kind for t in seen.trades()] == [
        "native_transfer",
        "transfer_in",
    ] and seen.state() == "complete"


def test_what_a_post_waits_for_is_fetched_first(look, chain):
    node = FakeNode(chain)
    seen = look(node)
    wanted = next(
        row.signature
        for row in reversed(chain.touching(ADA)[:-1])
        if row.receipt["meta"]["err"] is None and len(row.receipt["meta"]["postTokenBalances"]) > 1
    )
    bot = seen.wallets[0].bot
    Post.create(
        uid="post_1",
        bot=bot,
        source="bot",
        channel="api",
        event_id="e",
        body="b",
        signature=wanted,
        wallet=seen.wallets[0],
        status="pending",
        event_at=0,
        created_at=seen.now,
    )
    seen.look()
    assert next(iter(node.asked)) == wanted
    assert (Post.get().status, Trade.get(Trade.signature == wanted).kind) == ("verified", "buy")


@ground.sqlite_only
def test_posts_stored_while_nodes_are_asked_fail_no_pass(look, chain):
    """Somebody commits during every request: nothing the observer has open holds an old
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


# ---- what was withheld ---------------------------------------------------------------------------
def withhold(look, chain, wallet, signature, **changes):
    node = FakeNode(chain)
    node.withhold(signature)
    return node, look(node, wallets=[wallet], **changes).settle()


def number_of(chain, wallet):
    return {row.signature: row.slot for row in chain.touching(wallet)}


@pytest.mark.parametrize("place", range(35))
def test_any_receipt_withheld_is_missed_and_its_gap_named(look, place):
    chain = market()
    moving = chain.moving(ADA)
    if place >= len(moving):
        pytest.skip("the chain has fewer")
    row = moving[place]
    truth = look(chain).settle().ledger()
    node, seen = withhold(look, chain, ADA, row.signature)
    assert seen.state() == "partial"
    if place:  # before the first receipt there is nothing a break could show against: see below
        assert any(first <= row.slot <= last for first, last, _ in seen.gaps()), (
            row.slot,
            seen.gaps(),
        )
        assert all(
            t.result is None
            for t in seen.trades()
            if t.kind == "sell"
            and t.slot > max(g[1] for g in seen.gaps())
            and t.mint in moved(row, ADA)
        )
    node.give(row.signature)
    seen.look(20)
    assert seen.settle().ledger() == truth and seen.state() == "complete"


def moved(row, wallet):
    return {
        b["mint"]
        for side in ("preTokenBalances", "postTokenBalances")
        for b in row.receipt["meta"][side]
        if b["owner"] == wallet
    }


def test_a_wallet_whose_first_receipt_is_withheld_looks_older_than_its_history(look, chain):
    """Nothing can show the slot of what came before everything: it is partial, and the note says
    why.
    """
    _node, seen = withhold(look, chain, ADA, chain.touching(ADA)[0].signature)
    assert (
        seen.state() == "partial"
        and seen.gaps() == []
        and "older than the history" in seen.coverage()["note"]
    )


def test_what_changes_nothing_is_found_by_the_nightly_walk(look):
    """No balance tells of another's transaction that only names ada. Listed again, it is found
    within a day.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 5, 5_000)
    quiet_one = story.mention("ada")
    for _ in range(2 * HEAD_PAGE):  # so that it lies below what the head lists again
        story.buy("ada", "CAT", 5, 5_000)
    node, seen = withhold(look, story.chain(), ADA, quiet_one)
    assert seen.state() == "complete"  # nothing can show it
    node.give(quiet_one)
    seen.look(10)
    assert quiet_one not in {t.signature for t in seen.trades()}
    seen.clock.sleep(86_400)
    seen.look(2)
    assert quiet_one in {t.signature for t in seen.trades()} and seen.settle().state() == "complete"


def test_a_receipt_that_is_listed_and_not_given_is_waited_for(look, chain):
    row = chain.moving(ADA)[5]
    node = FakeNode(chain)
    node.drop(row.signature)
    seen = look(node)
    seen.look(2)
    assert seen.state() == "backfilling" and seen.coverage()["pending"] == 1
    seen.look(10)
    assert (
        seen.state() == "partial"
        and any(first <= row.slot <= last for first, last, _ in seen.gaps())
        and seen.coverage()["pending"] == 1
    )
    node.give(row.signature)
    seen.clock.sleep(3_600)
    assert seen.settle().state() == "complete" and len(seen.trades()) == len(chain.touching(ADA))


def test_the_last_receipt_dropped_is_named_by_the_closing_balance(look, chain):
    row = chain.moving(ADA)[-1]
    node = FakeNode(chain)
    node.drop(row.signature)
    seen = look(node)
    seen.look(12)
    assert seen.state() == "partial" and any(
        first <= row.slot <= last and why == "closing_balance" for first, last, why in seen.gaps()
    )


def test_a_second_endpoint_gives_what_the_first_lacks(look, chain):
    first, second = FakeNode(chain), FakeNode(chain)
    first.drop(*(row.signature for row in chain.touching(ADA)[3:9]))
    seen = look(first, second).settle()
    assert seen.state() == "complete" and len(seen.trades()) == len(chain.touching(ADA))


def test_a_pruned_history_is_partial(look, chain):
    node = FakeNode(chain)
    node.prune(chain.touching(ADA)[10].slot)
    seen = look(node).settle()
    assert seen.state() == "partial" and seen.gaps() == [] and "older" in seen.coverage()["note"]
    assert set(seen.coverage()["openingInventoryUnknown"]) <= {
        address(mint) for mint in ("CAT", "DOG", "FOX")
    }


def open_second_account(story, mint, raw):
    """A stranger opens another account of the mint for ada and fills it; the word for it."""
    word = account_of("ada, too", mint)
    story.tokens[word] = [mint, "ada", 0]
    moves = [("lamports", "maker", word, RENT), ("tokens", mint, "maker", "ada, too", raw)]
    story.transact("maker", moves)
    return word


def test_what_an_untouched_account_holds_was_there_from_the_beginning(look):
    """Ada's second account of CAT got 4 in times that the node forgot. Then 10 are bought for
    1,000,000 and a fee of 5,000, and sold for 2,000,000 less a fee.

    The oldest are sold first: 4 of unknown cost, and 6 that cost 603,000 and bring 6/10 of
    1,995,000 = 1,197,000: 594,000, and not 990,000.
    """
    story = Story()
    story.fund("ada", 10**10)
    second = open_second_account(story, "CAT", 4)
    story.buy("ada", "CAT", 10, 1_000_000)
    first = story.rows[-1].slot
    story.sell("ada", "CAT", 10, 2_000_000)
    node = FakeNode(story.chain())
    node.prune(first)
    seen = look(node).settle()
    sale = seen.trades()[-1]
    assert (sale.realized, sale.result, sale.unmatched_raw) == ("partial", 594_000, "4")
    assert orjson.loads(sale.flags) == ["opening_inventory_unknown"]
    assert seen.state() == "partial"
    assert seen.coverage()["openingInventoryUnknown"] == [address("CAT")]
    row = Address.get(Address.address == address(second))
    assert (row.held_mint, row.held_amount, row.held_decimals) == (address("CAT"), "4", 6)
    before = seen.ledger()
    seen.restart()
    assert seen.settle().ledger() == before
    assert [one for one in inspect(seen.config, seen.now, running=False) if one.wallet] == []
    node.restore()
    seen.clock.sleep(3_600)
    sale = seen.settle().trades()[-1]
    assert (sale.realized, sale.result, sale.flags) == ("partial", 594_000, "[]")
    assert Address.get(Address.address == address(second)).held_amount is None


def test_the_decimals_of_a_mint_no_receipt_moved_are_asked_for(look):
    story = Story()
    story.fund("ada", 10**10)
    open_second_account(story, "DOG", 4)
    story.buy("ada", "CAT", 10, 1_000_000)
    node = FakeNode(story.chain())
    node.prune(story.rows[-1].slot)
    look(node).settle()
    positions = orjson.loads(Wallet.get().positions)
    assert {p["mint"]: (p["amountRaw"], p["decimals"]) for p in positions} == {
        address("CAT"): ("10", 6),
        address("DOG"): ("4", 6),
    }


# ---- lies ----------------------------------------------------------------------------------------
def skim(receipt):
    """A thousand lamports less for ada, a thousand more for whoever else is there: still
    conserved.
    """
    meta, keys = (
        receipt["meta"],
        [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]],
    )
    other = next(n for n, key in enumerate(keys) if key != ADA)
    meta["postBalances"][keys.index(ADA)] -= 1_000
    meta["postBalances"][other] += 1_000


def inflate(receipt):
    """Five units more on ada's token account than there are."""
    row = next(b for b in receipt["meta"]["postTokenBalances"] if b["owner"] == ADA)
    row["uiTokenAmount"]["amount"] = str(int(row["uiTokenAmount"]["amount"]) + 5)


def shift(receipt):
    """A thousand lamports more for ada before and after: the receipt itself is consistent in
    everything.
    """
    meta, keys = (
        receipt["meta"],
        [key["pubkey"] for key in receipt["transaction"]["message"]["accountKeys"]],
    )
    for side in ("preBalances", "postBalances"):
        meta[side][keys.index(ADA)] += 1_000


def trades_of(chain):
    return [row for row in chain.moving(ADA) if ADA in row.keys and moved(row, ADA)]


@pytest.mark.parametrize("lie", [skim, inflate, shift])
@pytest.mark.parametrize("place", [0, 7, -1])
def test_a_forged_receipt_that_conserves_lamports_is_caught(look, chain, lie, place):
    """By the chain of balances, or if it is the last one by the closing balances."""
    row = trades_of(chain)[place]
    node = FakeNode(chain)
    node.forge(row.signature, lie)
    seen = look(node).settle()
    assert seen.state() == "partial" and any(
        first <= row.slot <= last for first, last, _ in seen.gaps()
    )
    node.restore()
    seen.look(20)
    assert seen.settle().state() == "complete"  # asked again, it told the truth


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("lie", [skim, inflate, shift])
@pytest.mark.parametrize("place", [0, 7, -1])
def test_the_truth_comes_from_the_other_endpoint(look, chain, lie, place, liar):
    """Whichever lies, and however often it is asked. A second endpoint that lies spoils nothing."""
    row = trades_of(chain)[place]
    nodes = [FakeNode(chain), FakeNode(chain)]
    nodes[liar].forge(row.signature, lie)
    seen = look(*nodes).settle()
    seen.look(20)
    assert seen.settle().state() == "complete"


def test_a_liar_is_not_believed_for_a_gap_that_is_real(look, chain):
    """A receipt is withheld by both; asked about its neighbours, the second endpoint lies. The
    books keep what holds better.
    """
    rows = trades_of(chain)
    nodes = [FakeNode(chain), FakeNode(chain)]
    for node in nodes:
        node.withhold(rows[5].signature)
    honest = look(*nodes).settle()
    honest.look(20)
    truth = honest.settle().ledger()
    for row in rows:
        nodes[1].forge(row.signature, skim)
    seen = look(*nodes).settle()
    seen.look(20)
    assert seen.settle().ledger() == truth


@pytest.mark.parametrize(
    "why, lie",
    [
        ("lamports are not conserved", lambda r: r["meta"]["postBalances"].__setitem__(0, 5)),
        ("no meta", lambda r: r.__setitem__("meta", None)),
        ("unequal", lambda r: r["meta"]["preBalances"].append(1)),
        ("another", lambda r: r["transaction"].__setitem__("signatures", ["5" * 88])),
    ],
)
def test_a_receipt_that_cannot_be_is_refused_and_named(look, chain, why, lie):
    row = chain.moving(ADA)[4]
    node = FakeNode(chain)
    node.forge(row.signature, lie)
    seen = look(node).settle()
    assert seen.state() == "partial" and (row.slot, row.slot) in {
        (first, last) for first, last, reason in seen.gaps() if why in reason
    }
    assert (
        not Receipt.select().where(Receipt.signature == row.signature).exists()
        and not Trade.select().where(Trade.signature == row.signature).exists()
    )
    assert seen.coverage()["pending"] == 1
    refused = check_health(seen.config, seen.now)["walletObserver"]["refused"]
    assert [(r["wallet"], r["signature"], r["slot"]) for r in refused] == [
        (ADA, row.signature, row.slot)
    ] and why in refused[0]["reason"]
    node.restore()
    seen.clock.sleep(3_600)
    assert (
        seen.settle().state() == "complete"
        and check_health(seen.config, seen.now)["walletObserver"]["refused"] == []
    )


def test_a_receipt_of_others_is_not_taken_in(look, chain):
    """A node that lists for ada what does not name her: kept pending, nothing derived."""
    stranger = next(
        row for row in market(3, ("eve",), 10).rows if ADA not in row.keys and len(row.keys) > 2
    )
    node = FakeNode(Chain([*chain.rows, stranger]))
    node.chain.by_address[ADA].insert(5, stranger)
    seen = look(node).settle()
    assert (
        stranger.signature not in {t.signature for t in seen.trades()}
        and seen.state() == "partial"
        and "names none" in seen.gaps()[0][2]
    )


# ---- places in a slot ----------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [True, False])
def test_without_transaction_index_the_block_or_the_balances_tell(look, chain, blocks):
    told = look(chain).settle()
    truth = [(t.signature, t.kind, t.result, t.lots) for t in told.trades()]
    node = FakeNode(chain)
    node.hide_index(blocks)
    seen = look(node).settle()
    assert [
        (t.signature, t.kind, t.result, t.lots) for t in seen.trades()
    ] == truth and seen.state() == "complete"
    assert bool(node.calls["getBlock"]) and not any(
        "order_unresolved" in t.flags for t in seen.trades()
    )


def test_a_restart_before_the_block_was_asked_loses_nothing(look, chain, monkeypatch):
    node = FakeNode(chain)
    node.hide_index()
    monkeypatch.setattr(module.Observer, "_index_slots", lambda *_: None)
    seen = look(node)
    seen.look(3)
    monkeypatch.undo()
    seen.restart()
    seen.settle()
    assert all(
        s.tx_index is not None
        for s in WalletSignature.select()
        if WalletSignature.select().where(WalletSignature.slot == s.slot).count() > 1
    )


# ---- owners of 2021 ------------------------------------------------------------------------------
def test_receipts_without_owners_are_read_again_once_the_account_is_known(look):
    """An early receipt names no owner; a later one tells that the account is ada's. Then the early
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
    assert [(t.kind, t.token_changes) for t in seen.trades()][1] == (
        "transfer_in",
        f'[["{address("CAT")}","70",6]]',
    ) and seen.state() == "complete"


# ---- receipts that were stored and cannot be read any more ---------------------------------------
def test_the_newest_receipt_read_again_is_no_trade_lost(look):
    """Its body became unreadable, entries are read again, it is fetched anew at the head: it was
    dropped and booked in one breath, and stayed dropped.
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
    assert (
        seen.state() == "complete"
        and [t.kind for t in seen.trades()] == ["native_transfer", "buy", "sell"]
        and seen.ledger() == truth
    )


# ---- others at work, clocks, caps ----------------------------------------------------------------
def test_another_process_at_work_is_noticed(look, chain):
    """`observe` beside a running server fetches some receipts: the server's memory of the books is
    not the database's any more.
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


def test_the_command_line_looks_now_and_waits_for_an_endpoint_that_rests(look, chain):
    """Wallets that are not due are looked at all the same; a 429 in the middle costs ten seconds,
    not the pass.
    """
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
    assert (
        coverages[ADA]["state"] == "complete"
        and len(seen.trades()) == len(chain.touching(ADA))
        and waited[0] == 10
        and set(waited[1:]) <= {0}
    )


def test_the_command_line_gives_up_when_nobody_answers(look, chain):
    node = FakeNode(chain)
    node.fail("getSignaturesForAddress")
    seen = look(node)
    module.observe_once(seen.observer, seen.now, seen.clock.sleep)
    assert "getSignaturesForAddress" in seen.observer.problem


@pytest.mark.parametrize("jump", [-40 * 86_400, -3_600, 3_600, 400 * 86_400])
def test_a_clock_that_jumps_stops_nothing(look, chain, jump):
    node = FakeNode(chain, tip=chain.rows[15].slot)
    seen = look(node).settle()
    seen.clock.time += max(0, jump)  # the monotonic clock never goes back; the wall clock does both
    global_begin = seen.now
    node.tip = chain.rows[25].slot
    seen.observer.run_tick(global_begin + (jump * 1000 if jump < 0 else 0))
    seen.look(3)
    assert seen.coverage()["lastSlot"] == chain.touching(ADA)[-1].slot or seen.coverage()[
        "receipts"
    ] == len([r for r in chain.touching(ADA) if r.slot <= node.tip])
    node.tip = None
    if jump > 0:
        seen.clock.time -= jump  # set right again
    assert seen.settle().state() == "complete" and len(seen.trades()) == len(chain.touching(ADA))


def test_more_receipts_than_are_kept(look, chain):
    seen = look(chain, max_receipts_per_wallet=12).settle()
    assert (
        seen.state() == "partial"
        and "more receipts" in seen.coverage()["note"]
        and seen.coverage()["receipts"] == 12
    )


def test_a_walk_goes_on_where_it_was(look, chain, monkeypatch):
    """Endpoints rest in the middle of a walk, the process restarts: it is not begun again. When its
    place is gone, it is.
    """
    monkeypatch.setattr(listing, "FULL_PAGE", 5)
    node = FakeNode(chain)
    seen = look(node)
    node.fail("getTransaction", -32603)
    seen.observer._full_scan(Wallet.get(), seen.now)
    seen.observer._full_scan(Wallet.get(), seen.now)
    cursor = Address.get().walk_cursor
    node.fail("getSignaturesForAddress", -32603)
    seen.look(2)
    seen.restart()
    seen.look(2)
    assert Address.get().walk_cursor == cursor
    node.fail("getSignaturesForAddress", -32020)
    seen.clock.sleep(400)
    seen.look(3)
    assert Address.get().walk_cursor is None
    node.restore()
    seen.clock.sleep(400)
    assert seen.settle().state() == "complete"


def test_no_token_accounts_told_is_not_complete(look, chain):
    """Some providers refuse that list for some wallets: the rest is observed, and it is not said to
    be whole.
    """
    node = FakeNode(chain)
    node.fail("getTokenAccountsByOwner", -32602)
    seen, problems = look(node), set()
    for _ in range(10):
        seen.look()
        problems.add(seen.observer.problem)
    assert seen.state() == "backfilling" and len(seen.trades()) == len(chain.touching(ADA))
    assert problems == {f"{ADA}: getTokenAccountsByOwner: endpoint 1: error -32602"}
    assert seen.state() == "backfilling" and "getTokenAccountsByOwner" in seen.coverage()["note"]
    node.restore()
    seen.clock.sleep(3_600)
    assert seen.settle().state() == "complete"


def test_a_wallet_nobody_could_ask_about_was_not_looked_at(look, chain):
    """Health shows the lag of each wallet by this: it grows while no node answers."""
    node = FakeNode(chain)
    seen = look(node).settle()
    looked, checked = Wallet.get().looked_at, seen.coverage()["checkedAt"]
    for method in ("getMultipleAccounts", "getSignaturesForAddress"):
        node.fail(method)
    seen.look(3)
    assert (Wallet.get().looked_at, seen.coverage()["checkedAt"]) == (
        looked,
        checked,
    ) and seen.observer.problem
    told = check_health(seen.config, seen.now)["walletObserver"]
    assert told["byWallet"][0]["lagSeconds"] == (seen.now - looked) // 1000 >= 45
    node.restore()
    seen.clock.sleep(400)
    seen.look()
    assert Wallet.get().looked_at == seen.now and seen.observer.problem is None


def test_a_program_is_refused_as_a_wallet_and_harms_no_other(look):
    chain, eve = market(2, ("ada", "eve"), 30), address("eve")
    node = FakeNode(chain)
    node.execute(eve)
    seen = look(node, wallets=[eve, ADA])
    seen.look()
    assert seen.state(eve) == "none" and "a program" in seen.coverage(eve)["note"]
    assert not WalletSignature.select().join(Wallet).where(Wallet.address == eve).exists()
    assert seen.settle().state(ADA) == "complete" and seen.observer.problem is None
    told = check_health(seen.config, seen.now)["walletObserver"]
    assert (told["wallets"], told["troubledWallets"], told["lagSeconds"]) == (1, 1, 0)
    node.restore()
    seen.restart()
    seen.clock.sleep(400_000)
    seen.look(3)
    assert seen.state(eve) == "none"
    bot = Bot.select().where(Bot.uid.startswith("bot_1")).get()
    with pytest.raises(Problem, match="wallet"):
        attach_wallet(seen.config, bot, eve, seen.now)


@pytest.mark.parametrize("trading", [True, False], ids=["with token accounts", "without"])
@pytest.mark.parametrize("age", [0, 7_200, 400_000])
def test_no_wallet_of_a_small_instance_lags_two_intervals(look, trading, age):
    """However long ago it traded, and while another is fetched as slowly as the nodes allow."""
    story = Story()
    for person in ("ada", "eve"):
        story.fund(person, 10**9)
        if trading or person == "eve":
            story.buy(person, "CAT", 10, 5_000)
    for _ in range(150):
        story.mention("eve")
    node = FakeNode(story.chain())
    seen, polls = look(node, wallets=[ADA]).settle(), []
    seen.clock.sleep(age)
    seen.look()
    watch(address("eve"), 1)
    pace(seen)
    for _ in range(16):
        begun = seen.clock()
        seen.observer.run_tick(seen.now)
        polls.append(Wallet.get(Wallet.address == ADA).looked_at)
        # as the jobs do: an interval after the last one began, at once where that took longer
        seen.clock.sleep(max(0.0, seen.config.observer_interval_seconds - seen.clock() + begun))
    assert node.asked.total() > 100
    assert max(b - a for a, b in pairwise(polls)) < 30_000, polls


# ---- what it costs -------------------------------------------------------------------------------
@pytest.mark.parametrize("people", [("ada",), ("ada", "eve", "bob")])
@pytest.mark.parametrize("trading", [True, False], ids=["with token accounts", "without"])
def test_an_idle_wallet_costs_a_request_an_address_and_look_at_most(look, people, trading):
    story = Story()
    for person in people:
        story.fund(person, 10**9)
        if trading:
            story.buy(person, "CAT", 10, 5_000)
    node = FakeNode(story.chain())
    seen = look(node, wallets=[address(p) for p in people]).settle()
    addresses, costs = Address.select().count(), []
    for _ in range(40):
        before = node.calls.total()
        seen.look()
        costs.append(node.calls.total() - before)
    assert max(costs) <= addresses and min(costs) > 0


def test_a_crowded_head_costs_an_idle_wallet_one_page(look):
    """Three hundred receipts inside the overlap: listed again only where something new was."""
    story = Story(slots_apart=1)
    story.fund("ada", 10**9)
    for _ in range(300):
        story.mention("ada")
    node = FakeNode(story.chain())
    seen = look(node).settle()
    before = node.calls["getSignaturesForAddress"]
    seen.look(8)
    assert node.calls["getSignaturesForAddress"] - before <= 8


# ---- trouble of one wallet is its own ------------------------------------------------------------
class Hoarder(FakeNode):
    """A node that also tells of thousands of empty token accounts of one wallet."""

    def __init__(self, chain, owner, count):
        super().__init__(chain)
        self.owner, self.hoard = owner, [address(f"dust {n}") for n in range(count)]

    def _getTokenAccountsByOwner(self, owner, filters, config):
        answer = super()._getTokenAccountsByOwner(owner, filters, config)
        if owner == self.owner and filters["programId"] == TOKEN:
            answer["value"] += [{"pubkey": address, "account": {}} for address in self.hoard]
        return answer


def pace(seen, seconds=0.5):
    """From now on a request of a method takes its time, as with the public nodes."""
    for endpoint in seen.observer.rpc.endpoints:
        endpoint._interval = seconds


def count_looks(seen, wallet, most=60):
    """Looks until a wallet is complete."""
    for count in range(most):
        if seen.state(wallet) == "complete":
            return count
        seen.look()
    raise AssertionError(seen.coverage(wallet))


def test_a_wallet_of_12000_token_accounts_delays_no_other(look):
    """An honest wallet attached after it is complete within twice the looks it takes alone."""
    ada, eve = market(1, ("ada", "eve"), 30), address("eve")
    alone = look(FakeNode(ada), wallets=[ADA])
    pace(alone)
    needed = count_looks(alone, ADA)
    node = Hoarder(ada, eve, 12_000)
    seen = look(node, wallets=[eve])
    pace(seen)
    count_accounts = Address.select().join(Wallet).where(Wallet.address == eve).count
    while count_accounts() < 2_000:
        seen.look()
    assert count_accounts() == 2_000 == seen.config.max_addresses_per_wallet
    watch(ADA, 1)
    seen.restart()
    pace(seen)
    assert count_looks(seen, ADA) <= 2 * needed
    before = seen.ledger()
    seen.restart()
    pace(seen)
    seen.look(2)
    assert seen.state(ADA) == "complete" and seen.ledger() == before
    health = check_health(seen.config, seen.now)["walletObserver"]
    assert health["troubled"] == [] and seen.observer.problem is None


def test_accounts_beyond_the_cap_are_left_out_and_said(look, chain):
    """Known transactions name ada's accounts: those stay, whatever a list tells besides."""
    seen = look(Hoarder(chain, ADA, 100), max_addresses_per_wallet=20).settle()
    own = {ADA, *(address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX"))}
    assert own < {a.address for a in Address.select()} and Address.select().count() == 20
    assert seen.state() == "partial" and "more token accounts" in seen.coverage()["note"]
    assert Wallet.get().accounts_left_out == 100 - (20 - len(own))


def test_an_account_named_later_takes_the_place_of_one_nobody_named(look):
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 5_000)
    story.buy("ada", "DOG", 100, 5_000)
    chain = story.chain()
    node = Hoarder(chain, ADA, 50)
    node.tip = chain.rows[1].slot
    seen = look(node, max_addresses_per_wallet=10)
    seen.observer._end = seen.clock() + 10**6
    seen.observer._list_token_accounts(Wallet.get(), seen.now)
    node.tip = None
    seen.settle()
    assert {address(account_of("ada", mint)) for mint in ("CAT", "DOG")} < {
        a.address for a in Address.select()
    }
    assert Address.select().count() == 10 and seen.state() == "partial"


FAULTS = {
    "a fault of ours": KeyError("x"),
    "SQL": OperationalError("too many SQL variables"),
    "a malformed answer": rpc.BadAnswer("getSignaturesForAddress: no list"),
    "a refusal": rpc.Refused("error -32602"),
    "no answer": rpc.Unavailable("ReadTimeout"),
}
ASKING = "_take_news", "_full_scan", "_fetch_backlog", "_list_token_accounts"
OURS = [*ASKING, "_prepare", "_is_worth_comparing", "_finish", "_publish"]


@pytest.mark.parametrize(
    "kind, step",
    [
        *(("a fault of ours", step) for step in OURS),
        *((kind, "_full_scan") for kind in FAULTS if kind != "a fault of ours"),
        *(("no answer", step) for step in ASKING if step != "_full_scan"),
    ],
)
def test_any_fault_of_one_wallet_is_that_wallets_alone(look, monkeypatch, kind, step):
    chain, eve = market(2, ("ada", "eve"), 30), address("eve")
    seen = look(chain, wallets=[eve, ADA])
    monkeypatch.setattr(module.storage, "is_busy", lambda error: False)
    work = getattr(module.Observer, step)

    @functools.wraps(work)
    def fail(self, wallet, *args):
        if wallet.address == eve:
            raise FAULTS[kind]
        return work(self, wallet, *args)

    monkeypatch.setattr(module.Observer, step, fail)
    seen.look(8)
    assert seen.state(ADA) == "complete" and seen.observer.problem is None
    told = check_health(seen.config, seen.now)["walletObserver"]
    assert [row["wallet"] for row in told["troubled"]] == [eve] and told["troubledWallets"] == 1
    assert told["lastError"].startswith(eve) and told["troubled"][0]["tries"] < 12
    assert "fails at present" in seen.coverage(eve)["note"] and seen.coverage(ADA)["note"] is None
    seen.restart()
    seen.look(2)
    assert seen.state(ADA) == "complete" and seen.observer.problem is None
    monkeypatch.undo()
    seen.clock.sleep(3_600)
    assert seen.settle().state(eve) == "complete" and seen.coverage(eve)["note"] is None
    assert check_health(seen.config, seen.now)["walletObserver"]["troubled"] == []


def test_a_fault_of_ours_is_logged_once_with_its_stack(look, chain, monkeypatch, caplog):
    seen = look(chain)

    def fail(self, wallet):
        raise KeyError("x")

    monkeypatch.setattr(module.Observer, "_prepare", fail)
    for _ in range(6):
        seen.clock.sleep(300)
        seen.look()
    assert [bool(record.exc_info) for record in caplog.records] == [True]
    assert (
        seen.observer.problem == f"{ADA}: internal error: KeyError"
        and Wallet.get().trouble_tries == 6
    )


def test_balances_are_compared_though_one_wallet_spoils_the_common_call(look):
    """A node refuses whatever asks for eve's accounts: ada's are asked for without them."""
    chain, eve = market(2, ("ada", "eve"), 30), address("eve")
    node = FakeNode(chain)
    seen, answer = look(node, wallets=[eve, ADA]).settle(), node.answer

    def refuse_eve(method, params):
        if method == "getMultipleAccounts" and eve in params[0]:
            rpc._raise_error({"code": -32602}, {})
        return answer(method, params)

    node.answer = refuse_eve
    seen.clock.sleep(3_600)
    seen.look()
    looked = dict(Wallet.select(Wallet.address, Wallet.looked_at).tuples())
    assert looked[ADA] == seen.now and seen.observer.problem is None
    assert [
        row["wallet"] for row in check_health(seen.config, seen.now)["walletObserver"]["troubled"]
    ] == [eve]


def test_a_busy_database_ends_the_pass_and_costs_no_memory_of_the_others(look, monkeypatch):
    chain, eve = market(2, ("ada", "eve"), 30), address("eve")
    seen = look(chain, wallets=[eve, ADA]).settle()
    Wallet.update(due_at=0).execute()
    kept = dict(seen.observer.ledger_store._pending)
    monkeypatch.setattr(module.storage, "is_busy", lambda error: True)
    monkeypatch.setattr(module.Observer, "_take_news", fail_with(OperationalError("locked")))
    with pytest.raises(OperationalError):
        seen.look()
    forgotten = kept.keys() - seen.observer.ledger_store._pending.keys()
    # on a server others may have written meanwhile: there all is read again
    assert len(forgotten) == (2 if ground.SERVER else 1)
    assert Wallet.select().where(Wallet.trouble.is_null(False)).count() == 0


def fail_with(error):
    def fail(*_):
        raise error

    return fail
