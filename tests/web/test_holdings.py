"""Every wallet of a bot is counted, found and shown, not only the primary one."""

import csv
import io
import time
import zipfile

import ground
import pytest
from lookout import watch
from service import NOW, address, signature

from accounts import departures, quotas
from chain.stored.attachments import COUNT_HELD
from models import IS_PROGRAM, Address, Attachment, Post, Wallet, WalletSignature
from observing.subscriptions import list_subscriptions
from storage import database
from storage.rows import select_value
from web.api import metrics, posts, results, wallets
from web.api.health import COUNT_DIFFERENCES, COUNT_TROUBLED, DIFFERENCES, REFUSED, TROUBLED
from web.api.leaderboard import show_connected
from web.api.search import find_others
from web.site.admin.lists import read_list

LEAD, BESIDE, GONE, ACCOUNT = map(address, ("lead", "beside", "gone", "account of beside"))
M = address("m")


def stand_beside(bot, of, begins, ends=None):
    """A wallet that a bot has in addition to the leading one."""
    wallet = Wallet.create(address=of, bot=bot, created_at=NOW)
    Address.create(wallet=wallet, address=of)
    times = {"attached_at": begins, "detached_at": ends}
    Attachment.create(bot=bot, wallet=wallet, ownership="proven", **times)
    return wallet


@pytest.fixture
def bot(service):
    """A bot with a leading wallet, an additional one, and a former one."""
    made = service.make_bot("Ada", LEAD)
    Attachment.update(ownership="proven").execute()
    beside = stand_beside(made.bot, BESIDE, NOW + 1)
    Address.create(wallet=beside, address=ACCOUNT)
    stand_beside(made.bot, GONE, NOW + 2, NOW + 3)
    return made


@pytest.fixture
def health(service):
    """health() -> what health says about wallets"""
    return lambda: service.get("/api/health").json["walletObserver"]


def change(*wallets, **columns):
    Wallet.update(columns).where(Wallet.address.in_(wallets)).execute()


def test_health_counts_each_wallet_and_its_errors(bot, health):
    pending = {"signature": signature("s"), "slot": 1, "seen_at": NOW, "state": "pending"}
    beside = Wallet.get(Wallet.address == BESIDE)
    WalletSignature.create(wallet=beside, problem="nobody can read it", **pending)
    change(BESIDE, GONE, trouble="no node lists it", trouble_at=NOW, trouble_tries=3)
    told = health()
    assert (told["wallets"], told["pending"], told["troubledWallets"]) == (2, 1, 1)
    assert {one["wallet"]: one["pending"] for one in told["byWallet"]} == {LEAD: 0, BESIDE: 1}
    assert [one["wallet"] for one in told["refused"] + told["troubled"]] == [BESIDE] * 2
    change(LEAD, BESIDE, trouble=None, polled_at=NOW)
    counts = {name: select_value(f"SELECT COUNT(*) {sql}") for name, _, sql in metrics.COUNTS}
    assert counts["wallets_in_trouble"] == 0 and select_value(f"SELECT {COUNT_HELD}") == 2
    change(BESIDE, polled_at=NOW - 1)
    assert select_value(metrics.OLDEST_POLL, (IS_PROGRAM,)) == NOW - 1


def test_health_does_not_count_programs_or_disconnected_wallets(bot, health):
    """Of three wallets, one is disconnected and one is a program, which isn't polled: one is left,
    polled two minutes ago. The lag of a wallet that was never polled is unknown.
    """
    change(BESIDE, trouble=IS_PROGRAM, trouble_at=NOW)
    # Disconnected, with more problems than any other.
    change(GONE, imbalance=7)
    told = health()
    assert (told["wallets"], told["lagSeconds"], told["walletsWithDifference"]) == (1, None, 0)
    change(LEAD, polled_at=time.time_ns() // 10**6 - 120_000, stablecoin_imbalance='{"USDC": 1}')
    told = health()
    assert (told["wallets"], told["walletsWithDifference"]) == (1, 1)
    assert 120 <= told["lagSeconds"] < 180
    assert [one["wallet"] for one in told["byWallet"]] == [LEAD]


@ground.sqlite_only
def test_rare_rows_have_their_own_index(service):
    changes = quotas.COUNTED["wallet_changes_per_day"].format(since=NOW)
    for sql, values, index in (
        (COUNT_TROUBLED, (), "wallet_in_trouble"),
        (TROUBLED, (1,), "wallet_in_trouble"),
        (COUNT_DIFFERENCES, (), "wallet_with_difference"),
        (DIFFERENCES, (1,), "wallet_with_difference"),
        (REFUSED, (1,), "sighting_refused"),
        (quotas.MAX_POSTS, (1,), "owner_of_many_posts"),
        (quotas.MAX_OF.format(changes), (1,), "attachment_given_up"),
    ):
        plan = database.execute_sql(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
        assert any(index in row[-1] for row in plan), (index, plan)


def test_the_wallet_counts_as_connected(bot, service, get):
    connected = show_connected()
    assert (connected["walletsEver"], connected["walletsHeld"]) == (3, 2)
    assert wallets.count_tracked() == 2
    service.make_bot("Bob", address("other"))
    owner = get(f"bots/{bot.bot.uid}").json["owner"]
    assert (owner["walletsTried"], owner["walletsDetached"], owner["influencers"]) == (3, 1, 1)
    assert [one.wallets for one in read_list("owners", 9)] == [1, 2]
    rows = {one.address: one for one in read_list("wallets", 9)}
    assert (rows[BESIDE].attached_at, rows[BESIDE].ownership) == (NOW + 1, "proven")
    assert (rows[GONE].attached_at, rows[GONE].ownership) == (None, None)


def test_a_bot_is_found_by_any_wallet_and_its_accounts(bot):
    for one in (LEAD, BESIDE, GONE, ACCOUNT):
        assert [found.uid for found in find_others(one).bots] == [bot.bot.uid]
    assert not find_others(address("nobody's")).bots


def test_a_removed_wallet_is_former_and_a_returned_one_is_not(bot, get):
    path = f"bots/{bot.bot.uid}"
    assert get(path).json["formerWallets"] == [GONE]
    gone = Wallet.get(Wallet.address == GONE)
    Attachment.create(bot=bot.bot, wallet=gone, ownership="proven", attached_at=NOW + 9)
    assert get(path).json["formerWallets"] == []


def test_a_post_under_it_is_of_a_proven_wallet(bot):
    def told(wallet, at):
        row = {"uid": f"post_{wallet}{at}", "source": "observer", "channel": "observer"}
        row |= {"bot": bot.bot, "event_id": row["uid"], "body": "b", "status": "none"}
        number = Wallet.get(Wallet.address == wallet).id
        post = Post.create(**row, wallet=number, event_at=at, created_at=at)
        return posts.read_posts_by_id([post.id])[post.id].ownership

    assert [told(LEAD, NOW), told(BESIDE, NOW + 1), told(GONE, NOW + 3)] == ["proven"] * 3
    assert [told(BESIDE, NOW), told(GONE, NOW + 4)] == ["claimed"] * 2


def test_one_chart_contains_all_sales(bot, service):
    cost = {"realized": "matched", "proceeds": 7, "cost": 4}
    for number, wallet in enumerate((LEAD, BESIDE, LEAD, GONE), 1):
        sold = {"kind": "sell", "result": number, "block_time": NOW // 1000 + number, **cost}
        service.observe_trade(wallet, f"sale{number}", number, **sold)
    assert [one.result for one in results.list_sales(bot.bot.uid)] == [3, 2, 1]


# ---- subscriptions -------------------------------------------------------------------------------
@pytest.mark.usefixtures("db")
def test_the_wallet_and_its_accounts_are_subscribed():
    lead = watch(LEAD)
    beside = stand_beside(lead.bot, BESIDE, NOW)
    Address.create(wallet=beside, address=ACCOUNT)
    stand_beside(lead.bot, GONE, NOW, NOW + 1)
    wanted = [(one.wallet, one.account) for one in list_subscriptions(NOW)]
    assert wanted == [(LEAD, None), (BESIDE, None), (BESIDE, ACCOUNT)]


# ---- what an owner takes along -------------------------------------------------------------------
def read_archive(owner):
    """{file: rows} of an owner's archive"""
    file = io.BytesIO()
    departures.write_archive(owner, "https://old.example", "0.2.0", NOW + 60_000, file)
    with zipfile.ZipFile(file) as opened:
        return {
            name: [*csv.DictReader(io.StringIO(opened.read(name).decode(), newline=""))]
            for name in ("wallets.csv", "trades.csv")
        }


def test_an_archive_has_its_attachment_and_trades_with_the_leading_wallet_first(bot, service):
    # The leading wallet left and returned, so the other one leads.
    lead = Wallet.get(Wallet.address == LEAD)
    Attachment.update(detached_at=NOW + 5).where(Attachment.wallet == lead).execute()
    Attachment.create(bot=bot.bot, wallet=lead, ownership="proven", attached_at=NOW + 6)
    service.observe_trade(BESIDE, "beside", 1)
    service.make_bot("Bob", address("other"))
    service.observe_trade(address("other"), "not hers", 2)
    sheets = read_archive(bot.owner)
    held = [(one["wallet"], bool(one["detachedAt"])) for one in sheets["wallets.csv"]]
    assert held == [(LEAD, True), (BESIDE, False), (GONE, True), (LEAD, False)]
    assert {one["ownership"] for one in sheets["wallets.csv"]} == {"proven"}
    assert [one["wallet"] for one in sheets["trades.csv"]] == [BESIDE]
