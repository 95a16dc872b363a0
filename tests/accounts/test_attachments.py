"""Several proven wallets of one bot: added and removed, without affecting other bots' wallets."""

import threading

import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, Service, inspect, refused
from test_quotas import refuse

import storage
from accounts import acts, departures, influencers, quotas, wallets
from accounts.problem import Problem
from chain import addresses
from models import Attachment, Wallet
from operate import inspection
from storage import database

KEYS = {name: SigningKey(name.encode() * 32) for name in "abcdef"}
# Addresses with a key, by letter.
A, B, C, D, E, F = (addresses.b58encode(key.verify_key.encode()) for key in KEYS.values())
VAULT = addresses.b58encode(b"\x02" + bytes(31))
HOUR = 3_600_000


@pytest.fixture
def ada(service):
    """A bot that proved A."""
    made = service.make_bot("Ada")
    wallets.attach_wallet(service.config, made.bot, A, NOW, "proven")
    return made.bot


def add(service, bot, *addresses, now=NOW):
    for place, one in enumerate(addresses, 1):
        wallets.add_wallet(service.config, bot, one, now + place)


def held(bot):
    """The bot's addresses, the leading one first."""
    return [one.wallet.address for one in wallets.list_holdings(bot)]


def count_changes(service, bot):
    now = NOW + 3 * HOUR
    return quotas.find_use(service.config, "wallet_changes_per_day", bot.owner_id, now).used


def list_leaves():
    """Wallet leaves in the log as (kind, wallet)."""
    rows = database.execute_sql("SELECT data FROM log_leaf ORDER BY id").fetchall()
    leaves = [orjson.loads(data) for (data,) in rows]
    kinds = ("attachment", "detachment")
    return [(one["kind"], one["wallet"]) for one in leaves if one["kind"] in kinds]


def check_log(service):
    assert inspect(service.config, inspection.check_log) == []


# ---- added and removed ---------------------------------------------------------------------------
def test_a_proven_wallet_is_added_after_the_leading_one(service, ada):
    add(service, ada, B, C)
    assert held(ada) == [A, B, C]
    assert list_leaves() == [("attachment", one) for one in (A, B, C)]
    assert Wallet.get(Wallet.address == B).bot_id == ada.id
    check_log(service)


def test_a_wallet_added_to_a_bot_without_one_leads(service):
    bot = service.make_bot("Ada").bot
    add(service, bot, B)
    assert held(bot) == [B] and wallets.find_attachment(bot).ownership == "proven"


def test_adding_a_connected_wallet_changes_nothing(service, ada):
    add(service, ada, B)
    add(service, ada, A, B, now=NOW + HOUR)
    assert held(ada) == [A, B] and len(list_leaves()) == 2
    wallets.attach_wallet(service.config, ada, B, NOW + HOUR)
    wallets.attach_wallet(service.config, ada, B, NOW + HOUR, "proven")
    assert held(ada) == [A, B] and len(list_leaves()) == 2


def test_adding_the_claimed_wallet_proves_it(service):
    bot = service.make_bot("Ada", A).bot
    add(service, bot, A)
    assert held(bot) == [A] and wallets.find_attachment(bot).ownership == "proven"


def test_removing_one_wallet_leaves_the_others(service, ada):
    add(service, ada, B, C)
    wallets.remove_wallet(ada, B, NOW + HOUR)
    assert held(ada) == [A, C]
    gone = Attachment.get(Attachment.wallet == Wallet.get(Wallet.address == B))
    assert (gone.attached_at, gone.detached_at) == (NOW + 1, NOW + HOUR)
    assert Wallet.get(Wallet.address == B).closing_at == NOW + HOUR
    assert Attachment.select().count() == 3
    check_log(service)


@pytest.mark.parametrize("when", [NOW + HOUR, NOW + 2])
def test_removing_the_leading_wallet_promotes_the_next(service, ada, when):
    """Also if both wallets were added in the same millisecond."""
    add(service, ada, B, C)
    wallets.remove_wallet(ada, A, when)
    assert held(ada) == [B, C]
    rows = Attachment.select(Attachment.attached_at, Attachment.detached_at)
    spans = list(rows.order_by(Attachment.id).tuples())
    assert spans == [(NOW, when), (NOW + 1, None), (NOW + 2, None)]
    assert list_leaves()[3:] == [("detachment", A)]
    assert Wallet.get(Wallet.address == B).closing_at is None
    # Only A was disconnected.
    assert count_changes(service, ada) == 1
    assert quotas.find_use(service.config, "wallets", ada.owner_id).used == 2
    check_log(service)


def test_a_wallet_removed_in_the_millisecond_it_was_added_is_disconnected(service, ada):
    add(service, ada, B)
    wallets.remove_wallet(ada, B, NOW + 1)
    gone = Attachment.get(Attachment.wallet == Wallet.get(Wallet.address == B))
    assert (gone.attached_at, gone.detached_at) == (NOW + 1, NOW + 1)
    assert count_changes(service, ada) == 1


def test_a_wallet_can_be_removed_and_added_again(service, ada):
    add(service, ada, B)
    wallets.remove_wallet(ada, A, NOW + HOUR)
    add(service, ada, A, now=NOW + HOUR)
    assert held(ada) == [B, A]
    wallets.remove_wallet(ada, B, NOW + 2 * HOUR)
    assert held(ada) == [A]
    wallets.remove_wallet(ada, A, NOW + 3 * HOUR)
    assert held(ada) == []
    # A twice, B once.
    assert count_changes(service, ada) == 3
    check_log(service)


def test_a_new_proof_replaces_only_the_leading_wallet(service, ada):
    add(service, ada, B, C)
    wallets.attach_wallet(service.config, ada, D, NOW + HOUR, "proven")
    assert held(ada) == [B, C, D]
    check_log(service)


@pytest.mark.parametrize("end", ["retire", "detach", "delete"])
def test_disconnecting_ends_every_attachment(service, ada, end):
    add(service, ada, B, C)
    if end == "retire":
        influencers.retire_bot(ada, NOW + HOUR)
    elif end == "detach":
        wallets.detach_wallet(ada, NOW + HOUR)
    else:
        departures.delete_owner(ada.owner, NOW + HOUR)
    assert held(ada) == []
    assert not Attachment.select().where(Attachment.detached_at.is_null()).exists()
    assert [wallets.find_holder(one) for one in (A, B, C)] == [None] * 3
    check_log(service)
    eve = service.make_bot("Eve").bot
    for one in (A, B, C):
        wallets.attach_wallet(service.config, eve, one, NOW + 2 * HOUR, "proven")
        assert held(eve) == [one]


def test_a_wallet_ban_leaves_other_wallets_connected(service, ada):
    add(service, ada, B, C)
    acts.ban_wallet(C, "operator", "Stolen.", NOW + HOUR)
    assert held(ada) == [A, B]
    acts.ban_wallet(A, "operator", "Stolen.", NOW + 2 * HOUR)
    assert held(ada) == [B]
    again = refused(wallets.add_wallet, service.config, ada, C, NOW + 3 * HOUR)
    assert again.code == "wallet_banned"
    check_log(service)


# ---- refused -------------------------------------------------------------------------------------


def test_nothing_can_be_added_next_to_a_claimed_wallet(service):
    bot = service.make_bot("Ada", A).bot
    problem = refused(add, service, bot, B)
    assert problem.code == "validation_failed" and "prove it first" in problem.detail
    assert held(bot) == [A] and not Wallet.select().where(Wallet.address == B).exists()


def test_a_claimed_wallet_does_not_replace_several_proven_ones(service, ada):
    add(service, ada, B)
    problem = refused(wallets.attach_wallet, service.config, ada, D, NOW + HOUR)
    assert problem.code == "validation_failed" and "all of them proven" in problem.detail
    assert held(ada) == [A, B]


@pytest.mark.parametrize("ownership", ["claimed", "proven"])
def test_a_connected_wallet_cannot_be_added_to_another_bot(service, ada, ownership):
    add(service, ada, B)
    eve = service.make_bot("Eve").bot
    for one in (A, B):
        problem = refused(wallets.attach_wallet, service.config, eve, one, NOW + HOUR, ownership)
        assert problem.code == "wallet_taken"
        assert refused(add, service, eve, one).code == "wallet_taken"
    assert held(ada) == [A, B] and held(eve) == []


def test_adding_by_proof_displaces_a_claim(service, ada):
    eve = service.make_bot("Eve", B).bot
    add(service, ada, B)
    assert held(ada) == [A, B] and held(eve) == []
    check_log(service)


@pytest.mark.parametrize("other", [VAULT, "11111111111111111111111111111111", "no address"])
def test_an_address_without_a_key_cannot_be_added(service, ada, other):
    assert refused(add, service, ada, other).code == "validation_failed"
    assert held(ada) == [A]


def test_retired_bots_add_nothing_and_strangers_remove_nothing(service, ada):
    eve = service.make_bot("Eve").bot
    add(service, ada, B)
    for one in (A, B, C):
        assert refused(wallets.remove_wallet, eve, one, NOW).code == "not_found"
    influencers.retire_bot(ada, NOW + HOUR)
    with pytest.raises(Problem, match="retired"):
        wallets.add_wallet(service.config, influencers.find_bot(ada.uid), C, NOW + HOUR)
    # The bot may be retired after a request has read it.
    assert ada.retired_at is None
    assert refused(add, service, ada, C).code == "bot_retired" and held(ada) == []


def test_each_wallet_counts_toward_the_owner_limit(tmp_path):
    service = Service(tmp_path / "data", max_wallets_per_owner=2, max_wallet_changes_per_day=1)
    bot = service.make_bot("Ada").bot
    add(service, bot, A, B)
    full = refuse(add, service, bot, C)
    assert (full["code"], full["limit"], full["used"]) == ("wallet_limit", 2, 2)
    wallets.attach_wallet(service.config, bot, C, NOW + HOUR, "proven")
    assert held(bot) == [B, C]
    changed = refuse(wallets.attach_wallet, service.config, bot, D, NOW + 2 * HOUR, "proven")
    assert (changed["quota"], changed["used"]) == ("wallet_changes_per_day", 1)
    most = {one.quota: one for one in quotas.list_use(database.execute_sql, service.config, NOW)}
    assert (most["wallets"].used, most["wallets"].owners_at_limit) == (2, 1)
    assert most["wallet_changes_per_day"].used == 1
    service.close()


def test_concurrent_additions_connect_a_wallet_once(service, ada):
    eve = service.make_bot("Eve").bot
    wallets.attach_wallet(service.config, eve, E, NOW, "proven")
    done, ready = [], threading.Barrier(20)

    def take(bot):
        ready.wait()
        try:
            wallets.add_wallet(service.config, bot, B, NOW + 1)
            done.append(bot.id)
        except Problem as problem:
            done.append(problem.code)
        finally:
            storage.database.close()

    crew = [threading.Thread(target=take, args=(bot,)) for bot in (ada, eve) * 10]
    [one.start() for one in crew], [one.join() for one in crew]
    owner = wallets.find_holder(B).bot_id
    assert Attachment.select().where(Attachment.bot != eve.id).count() == 1 + (owner == ada.id)
    assert sorted(map(str, done)) == sorted([str(owner)] * 10 + ["wallet_taken"] * 10)
    check_log(service)


# ---- whose the past is ---------------------------------------------------------------------------
def test_a_proven_second_wallet_keeps_its_past_with_the_bot(service, ada):
    add(service, ada, B)
    wallets.remove_wallet(ada, B, NOW + HOUR)
    eve = service.make_bot("Eve").bot
    wallets.attach_wallet(service.config, eve, B, NOW + 2 * HOUR)
    row = Wallet.get(Wallet.address == B)
    assert (row.bot_id, row.earlier_bot_id, row.bot_since) == (eve.id, ada.id, NOW + 2 * HOUR)


def test_a_clock_set_back_between_proof_and_claim_is_tolerated(service, ada):
    wallets.detach_wallet(ada, NOW + HOUR)
    eve = service.make_bot("Eve").bot
    wallets.attach_wallet(service.config, eve, A, NOW - HOUR)
    row = Wallet.get(Wallet.address == A)
    assert (row.earlier_bot_id, row.bot_since) == (ada.id, NOW - HOUR)
