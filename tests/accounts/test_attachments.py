"""Connecting and disconnecting wallets: who gets a wallet, and what a bot with several keeps."""

import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, Service, inspect, race, refused

from accounts import acts, departures, influencers, quotas, wallets
from chain import addresses
from models import Attachment, Bot, Wallet
from operate import inspection
from storage import database

KEYS = {name: SigningKey(name.encode() * 32) for name in "abcde"}
# Addresses with a key, by letter.
A, B, C, D, E = (addresses.b58encode(key.verify_key.encode()) for key in KEYS.values())
VAULT = addresses.b58encode(b"\x02" + bytes(31))
HOUR = 3_600_000


@pytest.fixture
def ada(service):
    """A bot that proved A."""
    made = service.make_bot("Ada")
    connect(service, made.bot, A, NOW, "proven")
    yield made.bot
    check_log(service)


@pytest.fixture
def eve(service):
    return service.make_bot("Eve").bot


def connect(service, bot, address, now=NOW + HOUR, ownership="claimed"):
    """Connect a wallet in place of the leading one."""
    wallets.attach_wallet(service.config, bot, address, now, ownership)


def add(service, bot, *addresses, now=NOW):
    for place, one in enumerate(addresses, 1):
        wallets.add_wallet(service.config, bot, one, now + place)


def held(bot):
    """The bot's addresses, the leading one first."""
    return [one.wallet.address for one in wallets.list_holdings(bot)]


def ownership(bot):
    return wallets.find_attachment(bot).ownership


def spans(bot):
    """[(address, connected at, disconnected at)...], in order."""
    rows = Attachment.select().where(Attachment.bot == bot).order_by(Attachment.id)
    return [(row.wallet.address, row.attached_at, row.detached_at) for row in rows]


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


# ---- one wallet ----------------------------------------------------------------------------------
def test_a_wallet_belongs_to_one_bot_at_a_time(service, ada, eve):
    for how in ("claimed", "proven"):
        assert refused(connect, service, eve, A, NOW, how).code == "wallet_taken"
    assert refused(add, service, eve, A).code == "wallet_taken"
    assert refused(service.make_bot, "Bob", A).code == "wallet_taken"
    assert Bot.select().count() == 2
    wallets.detach_wallet(ada, NOW + 1)
    # Until another bot connects the wallet, its trades stay with her bot.
    assert Wallet.get().bot_id == ada.id
    connect(service, eve, A)
    assert Wallet.get().bot_id == eve.id and (held(ada), held(eve)) == ([], [A])


def test_a_proof_displaces_a_claim_until_its_wallet_is_disconnected(service, ada, eve):
    connect(service, eve, B)
    connect(service, ada, B, ownership="proven")
    assert (held(ada), held(eve)) == ([B], [])
    assert refused(connect, service, eve, B, NOW, "proven").code == "wallet_taken"
    wallets.detach_wallet(ada, NOW + 2 * HOUR)
    connect(service, ada, B)
    # Disconnecting removed the badge.
    assert ownership(ada) == "claimed"


def test_replacing_a_wallet_keeps_the_attachment_history(service, eve):
    for wallet, now in ((A, NOW), (B, NOW + 5), (B, NOW + 6)):
        connect(service, eve, wallet, now)
    assert spans(eve) == [(A, NOW, NOW + 5), (B, NOW + 5, None)]


def test_an_owner_at_the_limit_moves_a_wallet_to_another_bot_by_proof(tmp_path):
    service = Service(tmp_path / "data", max_wallets_per_owner=2)
    first = service.make_bot("A", A)
    second = service.make_bot("B", B, first.owner)
    third, stranger = service.make_bot("C", None, first.owner), service.make_bot("D", C)

    def prove(made, wallet):
        connect(service, made.bot, wallet, ownership="proven")

    # Two before, two after.
    prove(third, A)
    assert held(first.bot) == []
    # A third wallet, from a stranger.
    assert refused(prove, first, C).code == "wallet_limit"
    # Replacing its wallet: two before, one after.
    prove(third, B)
    assert held(first.bot) == held(second.bot) == []
    # One wallet is free now.
    prove(first, C)
    assert held(stranger.bot) == []
    assert refused(prove, second, A).code == "wallet_limit"
    service.close()


# ---- several wallets -----------------------------------------------------------------------------
def test_a_proven_wallet_is_added_after_the_leading_one(service, ada):
    add(service, ada, B, C)
    assert held(ada) == [A, B, C]
    assert list_leaves() == [("attachment", one) for one in (A, B, C)]
    assert Wallet.get(Wallet.address == B).bot_id == ada.id


@pytest.mark.parametrize("claimed", [None, B])
def test_a_wallet_added_to_a_bot_without_another_one_leads_and_is_proven(service, claimed):
    bot = service.make_bot("Ada", claimed).bot
    add(service, bot, B)
    assert held(bot) == [B] and ownership(bot) == "proven"


def test_connecting_a_connected_wallet_changes_nothing(service, ada):
    add(service, ada, B)
    before = spans(ada)
    add(service, ada, A, B, now=NOW + HOUR)
    for how in ("claimed", "proven"):
        connect(service, ada, B, NOW + HOUR, how)
    assert spans(ada) == before and len(list_leaves()) == 2


def test_a_new_proof_replaces_only_the_leading_wallet(service, ada):
    add(service, ada, B, C)
    connect(service, ada, D, ownership="proven")
    assert held(ada) == [B, C, D]


@pytest.mark.parametrize("gone", [A, B])
@pytest.mark.parametrize("when", [NOW + 2, NOW + HOUR])
def test_removing_one_wallet_leaves_the_others(service, ada, gone, when):
    """Also in the millisecond in which the last one was added."""
    add(service, ada, B, C)
    wallets.remove_wallet(ada, gone, when)
    assert held(ada) == [one for one in (A, B, C) if one != gone]
    ends = {gone: when}
    assert spans(ada) == [(A, NOW, ends.get(A)), (B, NOW + 1, ends.get(B)), (C, NOW + 2, None)]
    assert {one.address: one.closing_at for one in Wallet.select() if one.closing_at} == ends
    assert list_leaves()[3:] == [("detachment", gone)]
    assert count_changes(service, ada) == 1
    assert quotas.find_use(service.config, "wallets", ada.owner_id).used == 2


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


@pytest.mark.parametrize("end", ["retire", "detach", "delete"])
def test_disconnecting_ends_every_attachment(service, ada, eve, end):
    add(service, ada, B, C)
    if end == "retire":
        influencers.retire_bot(ada, NOW + HOUR)
    elif end == "detach":
        wallets.detach_wallet(ada, NOW + HOUR)
    else:
        departures.delete_owner(ada.owner, NOW + HOUR)
    assert [until for _, _, until in spans(ada)] == [NOW + HOUR] * 3
    for one in (A, B, C):
        connect(service, eve, one, NOW + 2 * HOUR, "proven")
        assert held(eve) == [one]


def test_a_wallet_ban_leaves_other_wallets_connected(service, ada):
    add(service, ada, B, C)
    acts.ban_wallet(C, "operator", "Stolen.", NOW + HOUR)
    assert held(ada) == [A, B]
    acts.ban_wallet(A, "operator", "Stolen.", NOW + 2 * HOUR)
    assert held(ada) == [B]
    assert refused(add, service, ada, C).code == "wallet_banned"


def test_several_wallets_must_all_be_proven(service, ada, eve):
    connect(service, eve, C)
    problem = refused(add, service, eve, D)
    assert problem.code == "validation_failed" and "prove it first" in problem.detail
    assert held(eve) == [C] and not Wallet.select().where(Wallet.address == D).exists()
    add(service, ada, B)
    problem = refused(connect, service, ada, D)
    assert problem.code == "validation_failed" and "all of them proven" in problem.detail
    for other in (VAULT, "11111111111111111111111111111111", "no address"):
        assert refused(add, service, ada, other).code == "validation_failed"
    # A proof displaces a claim here too.
    add(service, ada, C, now=NOW + 1)
    assert held(ada) == [A, B, C] and held(eve) == []


def test_retired_bots_add_nothing_and_strangers_remove_nothing(service, ada, eve):
    add(service, ada, B)
    for one in (A, B, C):
        assert refused(wallets.remove_wallet, eve, one, NOW).code == "not_found"
    influencers.retire_bot(ada, NOW + HOUR)
    # `ada` was read before.
    assert ada.retired_at is None
    for bot in (ada, influencers.find_bot(ada.uid)):
        assert refused(add, service, bot, C).code == "bot_retired"
    assert held(ada) == []


def test_each_wallet_counts_toward_the_owner_limit(tmp_path):
    service = Service(tmp_path / "data", max_wallets_per_owner=2, max_wallet_changes_per_day=1)
    bot = service.make_bot("Ada").bot
    add(service, bot, A, B)
    full = refused(add, service, bot, C)
    assert (full.code, full.more["limit"], full.more["used"]) == ("wallet_limit", 2, 2)
    connect(service, bot, C, ownership="proven")
    assert held(bot) == [B, C]
    changed = refused(connect, service, bot, D, NOW + 2 * HOUR, "proven").more
    assert (changed["quota"], changed["used"]) == ("wallet_changes_per_day", 1)
    most = {one.quota: one for one in quotas.list_use(database.execute_sql, service.config, NOW)}
    assert (most["wallets"].used, most["wallets"].owners_at_limit) == (2, 1)
    assert most["wallet_changes_per_day"].used == 1
    service.close()


def test_concurrent_additions_connect_a_wallet_once(service, ada, eve):
    connect(service, eve, E, NOW, "proven")
    bots = (ada, eve) * 10

    def take(number):
        wallets.add_wallet(service.config, bots[number], B, NOW + 1)
        return bots[number].id

    done = race(20, take)
    winner = wallets.find_holder(B).bot_id
    assert sorted(map(str, done)) == sorted([str(winner)] * 10 + ["wallet_taken"] * 10)
    assert len(held(ada) + held(eve)) == len(spans(ada) + spans(eve)) == 3


# ---- whose the past is ---------------------------------------------------------------------------
@pytest.mark.parametrize("since", [NOW + 2 * HOUR, NOW - HOUR])
def test_a_proven_wallet_keeps_its_past_with_its_bot(service, ada, eve, since):
    """Even if the clock was set back between the proof and another bot's claim."""
    add(service, ada, B)
    wallets.remove_wallet(ada, B, NOW + HOUR)
    connect(service, eve, B, since)
    row = Wallet.get(Wallet.address == B)
    assert (row.bot_id, row.earlier_bot_id, row.bot_since) == (eve.id, ada.id, since)
