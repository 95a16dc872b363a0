"""A problem with one wallet doesn't affect others, is shown, and is retried."""

import functools

import ground
import pytest
from lookout import watch
from node import FakeNode
from peewee import OperationalError
from story import ADA, Story, account_of, address, market

import observer as module
from accounts.problem import Problem
from accounts.wallets import attach_wallet
from chain import rpc
from chain.addresses import TOKEN
from models import Address, Bot, Wallet, WalletSignature
from observing import listing
from observing.fetching import Fetching
from observing.listing import Listing
from web.api.health import check_health

EVE = address("eve")


@pytest.fixture
def two(look):
    """A lookout of ada and eve, who are observed completely; `seen.nodes[0]` is its node."""
    return look(market(2, ("ada", "eve"), 30), wallets=[EVE, ADA]).settle()


def check(seen):
    return check_health(seen.config, seen.now)["walletObserver"]


def list_troubled(seen):
    return [row["wallet"] for row in check(seen)["troubled"]]


def test_a_wallet_with_unlisted_token_accounts_is_not_complete(look, chain):
    """Some providers refuse that list for some wallets: the rest is observed but not called
    complete.
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


def test_a_wallet_no_node_answered_for_was_not_polled(look, chain):
    """Health derives each wallet's lag from this: it grows while no node responds."""
    node = FakeNode(chain)
    seen = look(node).settle()
    looked, checked = Wallet.get().polled_at, seen.coverage()["checkedAt"]
    for method in ("getMultipleAccounts", "getSignaturesForAddress"):
        node.fail(method)
    seen.look(3)
    assert (Wallet.get().polled_at, seen.coverage()["checkedAt"]) == (looked, checked)
    assert seen.observer.problem
    health = check(seen)
    assert health["byWallet"][0]["lagSeconds"] == (seen.now - looked) // 1000 >= 45
    node.restore()
    seen.clock.sleep(400)
    seen.look()
    assert Wallet.get().polled_at == seen.now and seen.observer.problem is None


def test_a_program_is_refused_as_a_wallet_without_harming_others(look):
    chain, eve = market(2, ("ada", "eve"), 30), address("eve")
    node = FakeNode(chain)
    node.execute(eve)
    seen = look(node, wallets=[eve, ADA])
    seen.look()
    assert seen.state(eve) == "none" and "a program" in seen.coverage(eve)["note"]
    assert not WalletSignature.select().join(Wallet).where(Wallet.address == eve).exists()
    assert seen.settle().state(ADA) == "complete" and seen.observer.problem is None
    health = check(seen)
    assert (health["wallets"], health["troubledWallets"], health["lagSeconds"]) == (1, 1, 0)
    node.restore()
    seen.restart()
    seen.clock.sleep(400_000)
    seen.look(3)
    assert seen.state(eve) == "none"
    bot = Bot.select().where(Bot.handle.startswith("bot1")).get()
    with pytest.raises(Problem, match="wallet"):
        attach_wallet(seen.config, bot, eve, seen.now)


# ---- trouble of one wallet is its own ------------------------------------------------------------
class Hoarder(FakeNode):
    """A node that also reports thousands of empty token accounts of one wallet."""

    def __init__(self, chain, owner, count):
        super().__init__(chain)
        self.owner, self.hoard = owner, [address(f"dust {n}") for n in range(count)]

    def _getTokenAccountsByOwner(self, owner, filters, config):
        answer = super()._getTokenAccountsByOwner(owner, filters, config)
        if owner == self.owner and filters["programId"] == TOKEN:
            answer["value"] += [{"pubkey": address, "account": {}} for address in self.hoard]
        return answer


def count_looks(seen, wallet, most=60):
    """Number of polls until a wallet is complete."""
    for count in range(most):
        if seen.state(wallet) == "complete":
            return count
        seen.look()
    raise AssertionError(seen.coverage(wallet))


def test_a_wallet_of_12000_token_accounts_delays_no_other(look):
    """An honest wallet attached after it is complete within twice the polls it needs by itself."""
    ada, eve = market(1, ("ada", "eve"), 30), address("eve")
    alone = look(FakeNode(ada), wallets=[ADA])
    alone.pace()
    needed = count_looks(alone, ADA)
    node = Hoarder(ada, eve, 12_000)
    seen = look(node, wallets=[eve])
    seen.pace()
    count_accounts = Address.select().join(Wallet).where(Wallet.address == eve).count
    while count_accounts() < 2_000:
        seen.look()
    assert count_accounts() == 2_000 == listing.MAX_ADDRESSES
    watch(ADA, 1)
    seen.restart()
    seen.pace()
    assert count_looks(seen, ADA) <= 2 * needed
    before = seen.ledger()
    seen.restart()
    seen.pace()
    seen.look(2)
    assert seen.state(ADA) == "complete" and seen.ledger() == before
    health = check(seen)
    assert health["troubled"] == [] and seen.observer.problem is None


def test_accounts_beyond_the_cap_are_dropped_and_coverage_says_so(look, chain, monkeypatch):
    """Known transactions mention ada's accounts, so those stay whatever a list contains."""
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 20)
    seen = look(Hoarder(chain, ADA, 100)).settle()
    own = {ADA, *(address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX"))}
    assert own < {a.address for a in Address.select()} and Address.select().count() == 20
    assert seen.state() == "partial" and "more token accounts" in seen.coverage()["note"]
    assert Wallet.get().accounts_left_out == 100 - (20 - len(own))


def test_a_named_account_replaces_the_unnamed_one(look, monkeypatch):
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 10)
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 5_000)
    story.buy("ada", "DOG", 100, 5_000)
    chain = story.chain()
    node = Hoarder(chain, ADA, 50)
    node.tip = chain.rows[1].slot
    seen = look(node)
    seen.observer.state.work_until = seen.clock() + 10**6
    seen.observer.listing.list_token_accounts(Wallet.get(), seen.now)
    node.tip = None
    seen.settle()
    assert {address(account_of("ada", mint)) for mint in ("CAT", "DOG")} < {
        a.address for a in Address.select()
    }
    assert Address.select().count() == 10 and seen.state() == "partial"


def test_never_traded_token_accounts_make_room_for_others(look, monkeypatch):
    """With 3 traded tokens, 12 gifts before the last purchase and 12 after it, 5 accounts fit."""
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 6)
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 5_000)
    story.buy("ada", "DOG", 100, 5_000)
    for n in range(24):
        if n == 12:
            story.buy("ada", "FOX", 100, 5_000)
        story.transact("maker", [("tokens", f"GIFT {n}", "maker", "ada", 1)], mentions=["ada"])
    seen = look(story.chain()).settle()
    traded = {address(account_of("ada", mint)) for mint in ("CAT", "DOG", "FOX")}
    watched = {row.address for row in Address.select()}
    assert {ADA} | traded < watched and len(watched) == 6
    assert seen.state() == "partial" and "more token accounts" in seen.coverage()["note"]
    assert Wallet.get().filled == 100
    # The newest of the other accounts.
    assert address(account_of("ada", "GIFT 23")) in watched


FAULTS = {
    "a fault of ours": KeyError("x"),
    "SQL": OperationalError("too many SQL variables"),
    "a malformed answer": rpc.BadAnswer("getSignaturesForAddress: no list"),
    "a refusal": rpc.Refused("error -32602"),
    "no answer": rpc.Unavailable("ReadTimeout"),
}
# By name, the observer's part that does the step.
ASKING = {
    "_show_moved": module.Observer,
    "scan_page": Listing,
    "fetch_backlog": Fetching,
    "list_token_accounts": Listing,
}
STEPS = {
    **ASKING,
    "_prepare": module.Observer,
    "_finish": module.Observer,
    "_publish": module.Observer,
}


@pytest.mark.parametrize(
    "kind, step",
    [
        *(("a fault of ours", step) for step in STEPS),
        *((kind, "scan_page") for kind in FAULTS if kind != "a fault of ours"),
        *(("no answer", step) for step in ASKING if step != "scan_page"),
    ],
)
def test_an_error_affects_only_its_wallet(look, monkeypatch, kind, step):
    seen, eve = look(market(2, ("ada", "eve"), 14), wallets=[EVE, ADA]), EVE
    monkeypatch.setattr(module.storage, "is_busy", lambda error: False)
    work = getattr(STEPS[step], step)

    @functools.wraps(work)
    def fail(self, wallet, *args):
        if wallet.address == eve:
            raise FAULTS[kind]
        return work(self, wallet, *args)

    monkeypatch.setattr(STEPS[step], step, fail)
    seen.look(8)
    assert seen.state(ADA) == "complete" and seen.observer.problem is None
    health = check(seen)
    assert list_troubled(seen) == [eve] and health["troubledWallets"] == 1
    assert health["lastError"].startswith(eve) and health["troubled"][0]["tries"] < 12
    assert "is failing" in seen.coverage(eve)["note"] and seen.coverage(ADA)["note"] is None
    seen.restart()
    seen.look(2)
    assert seen.state(ADA) == "complete" and seen.observer.problem is None
    monkeypatch.undo()
    seen.clock.sleep(3_600)
    assert seen.settle().state(eve) == "complete" and seen.coverage(eve)["note"] is None
    assert check(seen)["troubled"] == []


def test_an_internal_error_is_logged_once_with_its_traceback(look, chain, monkeypatch, caplog):
    seen = look(chain)

    def fail(self, wallet):
        raise KeyError("x")

    monkeypatch.setattr(module.Observer, "_prepare", fail)
    for _ in range(6):
        seen.clock.sleep(300)
        seen.look()
    assert [bool(record.exc_info) for record in caplog.records] == [True]
    assert seen.observer.problem == f"{ADA}: internal error: KeyError"
    assert Wallet.get().trouble_tries == 6


def refuse(node, code, when):
    """Fail calls about balances `when(addresses)`; return the honest method."""
    answer = node.answer

    def refuse_some(method, params):
        if method == "getMultipleAccounts" and when(params[0]):
            rpc._raise_error({"code": code}, {})
        return answer(method, params)

    node.answer = refuse_some
    return answer


def test_balances_are_compared_though_one_wallet_breaks_the_shared_call(two):
    """A node refuses all requests about eve's accounts: ada's are requested without them."""
    refuse(two.nodes[0], -32602, lambda addresses: EVE in addresses)
    two.clock.sleep(3_600)
    two.look()
    assert Wallet.get(Wallet.address == ADA).polled_at == two.now
    assert two.observer.problem is None and list_troubled(two) == [EVE]


def test_every_wallet_recovers_once_its_call_succeeds(two):
    """Refused together, then separately; once the shared call succeeds, none is sent separately."""
    (node,) = two.nodes
    answer = refuse(node, -32601, lambda addresses: True)
    two.look()
    assert len(list_troubled(two)) == 2 and two.observer.problem is not None
    node.answer = answer
    two.clock.sleep(2)
    two.look()
    assert list_troubled(two) == [] and two.observer.problem is None


@pytest.mark.parametrize("moved", [False, True])
def test_a_wallet_whose_list_was_refused_goes_first_next_time(look, moved):
    """A poll has one request per address: of three, one is for balances and one for the time;
    failed lists come in addition. The refused one may have been triggered by a balance.
    """
    people, story = {address(one): one for one in ("ada", "bob", "eve")}, Story()
    for person in people.values():
        story.fund(person, 10**9)
    node = FakeNode(story.chain())
    seen = look(node, wallets=[*people]).settle()
    node.fail("getSignaturesForAddress", -32004)
    seen.clock.sleep(4_000)
    seen.look()
    (troubled,) = list_troubled(seen)
    if moved:
        story.fund(people[troubled], 10**9)
        node.chain = story.chain()
    node.restore()
    seen.clock.sleep(4_000)
    seen.look()
    assert list_troubled(seen) == [] and seen.observer.problem is None


def test_a_busy_database_ends_the_pass_but_keeps_other_wallets_state(two, monkeypatch):
    Wallet.update(due_at=0).execute()
    state = two.observer.state
    kept = dict(state.ledger_store._pending)

    def fail(*_):
        raise OperationalError("locked")

    monkeypatch.setattr(module.storage, "is_busy", lambda error: True)
    monkeypatch.setattr(module.Observer, "_show_moved", fail)
    with pytest.raises(OperationalError):
        two.look()
    forgotten = kept.keys() - state.ledger_store._pending.keys()
    # on a server others may have written meanwhile, so everything is reread there
    assert len(forgotten) == (2 if ground.SERVER else 1)
    assert Wallet.select().where(Wallet.trouble.is_null(False)).count() == 0
