"""Limits on one wallet's transactions and token accounts: what is loaded, and who is told."""

import ground
import pytest
from lookout import watch
from node import FakeNode
from story import ADA, Story, account_of, address, market

import storage
from chain.addresses import TOKEN
from models import Address, Wallet, WalletSignature
from observing import listing
from operate.doctor import check_limits
from web.api.health import check_health
from web.site import words

LIMIT = {"max_receipts_per_wallet": 12}
DAY = 86_400


def read_stored():
    return {row.signature for row in WalletSignature.select() if row.state == "stored"}


def list_from(chain, slot):
    return {row.signature for row in chain.touching(ADA) if row.slot >= slot}


def read_doctor(seen):
    return [one.text for one in check_limits(storage.database.execute_sql, seen.config)]


# ---- transactions --------------------------------------------------------------------------------
@pytest.fixture
def limited(look, chain):
    """A lookout of a history longer than the limit."""
    return look(chain, **LIMIT).settle()


def test_the_newest_part_of_a_long_history_is_loaded(limited, chain):
    """12 of those that involve ada, and from that slot on all of her token accounts."""
    first = [row for row in chain.touching(ADA) if ADA in row.keys][-12].slot
    assert (Wallet.get().history_from, read_stored()) == (first, list_from(chain, first))
    coverage = limited.coverage()
    assert coverage["state"] == "partial" and coverage["openingInventoryUnknown"]
    for said in (coverage["note"], words.describe_coverage(coverage, limited.now)):
        assert "the oldest aren't loaded" in said
    assert read_doctor(limited) == [
        f"wallet {ADA} is at 100% of the limit on transactions or token accounts;"
        f" transactions before slot {first} aren't loaded"
    ]


@pytest.mark.parametrize(
    "begin, limit, state", [(-20, 1, "partial"), (-20, 12, "partial"), (4, 12, "complete")]
)
def test_new_transactions_are_always_loaded(look, chain, begin, limit, state):
    """A history that outgrows the limit stays complete."""
    tip = chain.touching(ADA)[begin].slot
    node = FakeNode(chain, tip=tip)
    seen = look(node, max_receipts_per_wallet=limit).settle()
    before, newer = read_stored(), list_from(chain, tip + 1)
    node.tip = None
    for _ in range(2):
        seen.settle()
        assert read_stored() == before | newer and seen.coverage()["pending"] == 0
        assert newer <= {trade.signature for trade in seen.trades()}
        assert seen.state() == state and (Wallet.get().history_from is None) == (begin == 4)
        # A nightly scan of everything known doesn't drop anything either.
        seen.clock.sleep(DAY)


def test_gaps_within_the_loaded_history_are_filled_at_the_limit(limited):
    whole, kept = limited.ledger(), read_stored()
    WalletSignature.select().order_by(WalletSignature.slot.desc())[5].delete_instance()
    limited.restart()
    limited.clock.sleep(DAY)
    limited.settle()
    assert (read_stored(), limited.ledger()) == (kept, whole)


def test_a_higher_limit_loads_more(limited, chain):
    assert limited.state() == "partial"
    limited.config = ground.change(limited.config, max_receipts_per_wallet=500)
    limited.restart()
    limited.clock.sleep(DAY)
    assert limited.settle().state() == "complete" and read_stored() == list_from(chain, 0)


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
    story = tell_purchases(*["CAT"] * 9)
    for _ in range(mentions):
        story.mention("ada")
    seen = look(story.chain(), **LIMIT).settle()
    seen.look(20)
    assert len(read_stored()) in stored
    assert (seen.settle().state(), Wallet.get().filled) == (state, filled)
    is_whole, idle = state == "complete", WalletSignature.select().where(WalletSignature.idle)
    assert (Wallet.get().history_from is None) == (idle.count() == 30) == is_whole


@pytest.mark.parametrize("share, told", [(81, True), (79, False)])
def test_a_wallet_near_the_limit_is_named_everywhere(look, chain, share, told):
    count = len(chain.moving(ADA))
    limit = next(n for n in range(count, 10**4) if 100 * count // n <= share)
    seen, percent = look(chain, max_receipts_per_wallet=limit).settle(), 100 * count // limit
    assert seen.state() == "complete" and Wallet.get().filled == percent
    named = check_health(seen.config, seen.now)["walletObserver"]["nearLimit"]
    assert named == ([{"wallet": ADA, "percent": percent}] if told else [])
    assert [f"{percent}%" in text for text in read_doctor(seen)] == [True] * told
    said = words.describe_coverage(seen.coverage(), seen.now)
    assert (f"used {percent}% of this service's limit" in said) == told


# ---- token accounts ------------------------------------------------------------------------------
class Hoarder(FakeNode):
    """A node that also reports this many empty token accounts of a wallet."""

    def __init__(self, chain, owner, count):
        super().__init__(chain)
        self.owner, self.count = owner, count

    def _getTokenAccountsByOwner(self, owner, filters, config):
        answer = super()._getTokenAccountsByOwner(owner, filters, config)
        if owner == self.owner and filters["programId"] == TOKEN:
            dust = (address(f"dust {n}") for n in range(self.count))
            answer["value"] += [{"pubkey": one, "account": {}} for one in dust]
        return answer


def tell_purchases(*mints):
    """A story in which ada buys these."""
    story = Story("ada")
    for mint in mints:
        story.buy("ada", mint, 100, 5_000)
    return story


def accounts(*mints):
    return {ADA, *(address(account_of("ada", mint)) for mint in mints)}


def check_cut_off(seen, *mints, count):
    """Check that these accounts of ada's are among the watched ones; return all of those."""
    watched = set(Address.select(Address.address).scalars())
    assert accounts(*mints) < watched and len(watched) == count
    assert seen.state() == "partial" and "more token accounts" in seen.coverage()["note"]
    return watched


def count_looks(seen, most=60):
    """Number of polls until ada's wallet is complete."""
    for count in range(most):
        if seen.state(ADA) == "complete":
            return count
        seen.look()
    raise AssertionError(seen.coverage(ADA))


def test_a_wallet_of_12000_token_accounts_delays_no_other(look):
    """An honest wallet attached after it is complete within twice the polls it needs by itself."""
    chain, eve = market(1, ("ada", "eve"), 30), address("eve")
    alone = look(chain)
    alone.pace()
    needed = count_looks(alone)
    seen = look(Hoarder(chain, eve, 12_000), wallets=[eve])
    seen.pace()
    count_accounts = Address.select().join(Wallet).where(Wallet.address == eve).count
    while count_accounts() < 2_000:
        seen.look()
    assert count_accounts() == 2_000 == listing.MAX_ADDRESSES
    watch(ADA, 1)
    seen.restart()
    seen.pace()
    assert count_looks(seen) <= 2 * needed
    before = seen.ledger()
    seen.restart()
    seen.pace()
    seen.look(2)
    assert seen.state(ADA) == "complete" and seen.ledger() == before
    assert check_health(seen.config, seen.now)["walletObserver"]["troubled"] == []
    assert seen.observer.problem is None


def test_accounts_beyond_the_cap_are_dropped_and_coverage_says_so(look, chain, monkeypatch):
    """Known transactions mention ada's accounts, so those stay whatever a list contains."""
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 20)
    seen = look(Hoarder(chain, ADA, 100)).settle()
    check_cut_off(seen, "CAT", "DOG", "FOX", count=20)
    assert Wallet.get().accounts_left_out == 100 - (20 - 4)


def test_a_named_account_replaces_the_unnamed_one(look, monkeypatch):
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 10)
    chain = tell_purchases("CAT", "DOG").chain()
    node = Hoarder(chain, ADA, 50)
    node.tip = chain.rows[1].slot
    seen = look(node)
    seen.observer.state.work_until = seen.clock() + 10**6
    seen.observer.listing.list_token_accounts(Wallet.get(), seen.now)
    node.tip = None
    check_cut_off(seen.settle(), "CAT", "DOG", count=10)


def test_never_traded_token_accounts_make_room_for_others(look, monkeypatch):
    """With 3 traded tokens, 12 gifts before the last purchase and 12 after it, 5 accounts fit."""
    monkeypatch.setattr(listing, "MAX_ADDRESSES", 6)
    story = tell_purchases("CAT", "DOG")
    for n in range(24):
        if n == 12:
            story.buy("ada", "FOX", 100, 5_000)
        story.transact("maker", [("tokens", f"GIFT {n}", "maker", "ada", 1)], mentions=["ada"])
    watched = check_cut_off(look(story.chain()).settle(), "CAT", "DOG", "FOX", count=6)
    # The newest of the other accounts.
    assert accounts("GIFT 23") < watched and Wallet.get().filled == 100
