"""A problem with one wallet doesn't affect others, is shown, and is retried."""

import functools

import ground
import pytest
from node import FakeNode
from peewee import OperationalError
from story import ADA, Story, address, market

import observer as module
from accounts.problem import Problem
from accounts.wallets import attach_wallet
from chain import rpc
from models import Bot, Wallet, WalletSignature
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


# ---- nodes that refuse ---------------------------------------------------------------------------
def test_a_wallet_with_unlisted_token_accounts_is_not_complete(look, chain):
    """Some providers refuse that list for some wallets: the rest is observed."""
    seen, problems = look(chain), set()
    seen.nodes[0].fail("getTokenAccountsByOwner", -32602)
    for _ in range(10):
        seen.look()
        problems.add(seen.observer.problem)
    assert problems == {f"{ADA}: getTokenAccountsByOwner: endpoint 1: error -32602"}
    assert seen.state() == "backfilling" and "getTokenAccountsByOwner" in seen.coverage()["note"]
    assert len(seen.trades()) == len(chain.touching(ADA))
    seen.nodes[0].restore()
    seen.clock.sleep(3_600)
    assert seen.settle().state() == "complete"


def test_a_wallet_no_node_answered_for_was_not_polled(look, chain):
    """Health derives each wallet's lag from this: it grows while no node responds."""
    seen = look(chain).settle()
    (node,), looked, checked = seen.nodes, Wallet.get().polled_at, seen.coverage()["checkedAt"]
    for method in ("getMultipleAccounts", "getSignaturesForAddress"):
        node.fail(method)
    seen.look(3)
    assert (Wallet.get().polled_at, seen.coverage()["checkedAt"]) == (looked, checked)
    assert check(seen)["byWallet"][0]["lagSeconds"] == (seen.now - looked) // 1000 >= 45
    assert seen.observer.problem
    node.restore()
    seen.clock.sleep(400)
    seen.look()
    assert Wallet.get().polled_at == seen.now and seen.observer.problem is None


def test_a_program_is_refused_as_a_wallet_without_harming_others(look):
    node = FakeNode(market(2, ("ada", "eve"), 30))
    node.execute(EVE)
    seen = look(node, wallets=[EVE, ADA])
    seen.look()
    assert seen.state(EVE) == "none" and "a program" in seen.coverage(EVE)["note"]
    assert not WalletSignature.select().join(Wallet).where(Wallet.address == EVE).exists()
    assert seen.settle().state(ADA) == "complete" and seen.observer.problem is None
    health = check(seen)
    assert (health["wallets"], health["troubledWallets"], health["lagSeconds"]) == (1, 1, 0)
    node.restore()
    seen.restart()
    seen.clock.sleep(400_000)
    seen.look(3)
    assert seen.state(EVE) == "none"
    bot = Bot.select().where(Bot.handle.startswith("bot1")).get()
    with pytest.raises(Problem, match="wallet"):
        attach_wallet(seen.config, bot, EVE, seen.now)


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
    people = {address(one): one for one in ("ada", "bob", "eve")}
    story = Story(*people.values())
    seen = look(story.chain(), wallets=[*people]).settle()
    (node,) = seen.nodes
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


# ---- errors in our own steps ---------------------------------------------------------------------
OURS, NO_ANSWER = KeyError("x"), rpc.Unavailable("ReadTimeout")
OTHERS = (
    OperationalError("too many SQL variables"),
    rpc.BadAnswer("getSignaturesForAddress: no list"),
    rpc.Refused("error -32602"),
)
OBSERVER = module.Observer
ASKING = (
    *((OBSERVER, "_show_moved"), (Listing, "scan_page"), (Fetching, "fetch_backlog")),
    (Listing, "list_token_accounts"),
)


@pytest.mark.parametrize(
    "error, part, step",
    [
        *((OURS, OBSERVER, step) for step in ("_prepare", "_finish", "_publish")),
        *((error, *step) for error in (OURS, NO_ANSWER) for step in ASKING),
        *((error, Listing, "scan_page") for error in OTHERS),
    ],
)
def test_an_error_affects_only_its_wallet(look, monkeypatch, error, part, step):
    seen = look(market(2, ("ada", "eve"), 8), wallets=[EVE, ADA])
    monkeypatch.setattr(module.storage, "is_busy", lambda error: False)
    work = getattr(part, step)

    @functools.wraps(work)
    def fail(self, wallet, *args):
        if wallet.address == EVE:
            raise error
        return work(self, wallet, *args)

    monkeypatch.setattr(part, step, fail)
    seen.look(8)
    health = check(seen)
    assert list_troubled(seen) == [EVE] and health["troubledWallets"] == 1
    assert health["lastError"].startswith(EVE) and health["troubled"][0]["tries"] < 12
    assert "is failing" in seen.coverage(EVE)["note"] and seen.coverage(ADA)["note"] is None
    for _ in range(2):
        assert seen.state(ADA) == "complete" and seen.observer.problem is None
        seen.restart()
        seen.look(2)
    monkeypatch.undo()
    seen.clock.sleep(3_600)
    assert seen.settle().state(EVE) == "complete" and seen.coverage(EVE)["note"] is None
    assert list_troubled(seen) == []


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


def test_a_busy_database_ends_the_pass_but_keeps_other_wallets_state(two, monkeypatch):
    Wallet.update(due_at=0).execute()
    state = two.observer.state
    kept = set(state.ledger_store._pending)

    def fail(*_):
        raise OperationalError("locked")

    monkeypatch.setattr(module.storage, "is_busy", lambda error: True)
    monkeypatch.setattr(module.Observer, "_show_moved", fail)
    with pytest.raises(OperationalError):
        two.look()
    # on a server others may have written since, so everything is reread there
    assert len(kept - state.ledger_store._pending.keys()) == (2 if ground.SERVER else 1)
    assert not Wallet.select().where(Wallet.trouble.is_null(False)).exists()
