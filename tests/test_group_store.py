"""The stored books of a bot with several wallets: in whatever order transactions arrived, whoever
came and went meanwhile, the same rows stand there.
"""

import random
from dataclasses import replace

import ground
import orjson
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from lookout import BEGIN, ledger_of, watch
from story import BEGIN_TIME, FEE, RENT, Story, address
from test_groups import two_people
from test_ledger_store import DONE
from test_quote_store import take_for_quotes

from accounts import posts
from accounts.auto_posts import update_posts
from chain.reading.digests import digest_receipt
from chain.reading.entries import read_entry
from chain.reading.kinds import TRADES
from chain.reading.packing import pack
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt
from chain.stored import whole_standings
from chain.stored.group_reading import list_kin, read_family
from chain.stored.group_store import GroupStore
from chain.stored.group_tables import Companion, OwnCoverage
from chain.stored.quote_tables import QuoteTrade
from chain.stored.standings import read_rows
from chain.stored.tables import HourTotal
from models import Attachment, Bot, Post, Receipt, Trade, Wallet, WalletSignature
from observer import Observer
from observing import rebuilding
from operate import inspection, schema
from operate.readers import open_reader
from web.api.held_wallets import list_wallets

PROGRAMS = table()
PEOPLE = {"ada": address("ada"), "eve": address("eve")}


@pytest.fixture
def empty(db):
    ground.hurry()

    def make(begins=0):
        """A bot with ada's wallet and, from a Unix ms on, eve's."""
        for model in reversed(schema.TABLES):
            model.delete().execute()
        ada = watch(PEOPLE["ada"])
        Attachment.update(attached_at=0, ownership="proven").execute()
        eve = Wallet.create(address=PEOPLE["eve"], bot=ada.bot, created_at=BEGIN)
        Companion.create(bot=ada.bot_id, wallet=eve, attached_at=begins)
        Wallet.update(backfilled=True, polled_at=BEGIN).execute()
        return {"ada": Wallet.get_by_id(ada.id), "eve": Wallet.get_by_id(eve.id)}

    return make


def listed(rows):
    """(person, row of the chain)... of all that concerns anybody."""
    return [
        (person, row)
        for row in rows
        for person, one in PEOPLE.items()
        if read_entry(parse_receipt(row.receipt), one, PROGRAMS).balances
    ]


def store(wallets, found):
    """As fetching does: the entries of each person."""
    new = {person: [] for person in PEOPLE}
    for person, row in found:
        raw = {**row.receipt, "transactionIndex": row.index}
        entry = read_entry(parse_receipt(raw), PEOPLE[person], PROGRAMS)
        Receipt.insert(
            signature=row.signature,
            slot=row.slot,
            tx_index=row.index,
            block_time=raw["blockTime"],
            body=pack(raw),
            endpoint="",
            stored_at=BEGIN,
            digest=digest_receipt(parse_receipt(raw)),
        ).on_conflict_ignore().execute()
        WalletSignature.create(
            wallet=wallets[person],
            signature=row.signature,
            slot=row.slot,
            tx_index=row.index,
            state="stored",
            entry=entry.dump(),
            seen_at=BEGIN * 10,
        )
        new[person].append(entry._replace(seen_at=BEGIN * 10))
    return new


def publish(groups, wallets, new=None):
    for person, wallet in wallets.items():
        groups.apply(wallet, new[person] if new else ())
    for wallet in wallets.values():
        groups.publish(wallet, DONE, BEGIN)


def rebuild(wallets, found):
    store(wallets, found)
    publish(GroupStore(update_posts), wallets)
    return told()


def told():
    stays = list(Companion.select(Companion.carried_in, Companion.open_cost).tuples())
    own = sorted(OwnCoverage.select(OwnCoverage.coverage).tuples())
    return ledger_of(PEOPLE.values()), stays, own


@effort(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
@given(seed=st.integers(0, 10**6), later=st.integers(-1, 80), data=st.data())
def test_fold_equals_refold(empty, seed, later, data):
    found = listed(two_people(seed, 24).rows)
    begins = (BEGIN_TIME + later) * 1_000
    truth, dice = rebuild(empty(begins), found), random.Random(data.draw(st.integers(0, 10**6)))
    wallets, groups = empty(begins), GroupStore(update_posts)
    rest = dice.sample(found, len(found)) if data.draw(st.booleans()) else list(found)
    while rest:
        size = dice.randint(1, 9)
        batch, rest = rest[:size], rest[size:]
        new = store(wallets, batch)
        if dice.random() < 0.2:
            groups = GroupStore(update_posts)
            new = None
        publish(groups, wallets, new)
    assert told() == truth


def test_the_books_stand_under_the_lead_and_trades_keep_their_wallet(empty):
    wallets = empty()
    rebuild(wallets, listed(TRIP.rows))
    ada, eve = (Wallet.get_by_id(one.id) for one in wallets.values())
    results = orjson.loads(ada.results)
    assert results["realizedLamports"] == str(400_000 - 2 * FEE) and results["matchedSells"] == 1
    assert eve.results is eve.realized is eve.reconciliation is None
    assert not HourTotal.select().where(HourTotal.wallet == eve).exists()
    sale = Trade.get(Trade.kind == "sell")
    bought = Trade.get(Trade.kind == "buy")
    assert (sale.wallet_id, bought.wallet_id) == (eve.id, ada.id)
    assert orjson.loads(sale.lots)[0][0] == bought.uid
    reconciliation = orjson.loads(ada.reconciliation)
    assert reconciliation["differenceLamports"] == "0"
    record = Attachment.get()
    assert (record.forward_realized, record.open_cost) == (400_000 - 2 * FEE, 0)


TRIP = Story()
TRIP.fund("ada", 10**9)
TRIP.fund("eve", 10**9)
TRIP.buy("ada", "CAT", 100, 500_000)
TRIP.transact("ada", [("tokens", "CAT", "ada", "eve", 100)])
TRIP.sell("eve", "CAT", 100, 900_000)


def find_differences(settings, wallets):
    """What doctor says of these wallets' books; the transactions here have no log of addresses."""
    reader = open_reader(settings)
    with reader.snapshot():
        found = [
            one
            for wallet in wallets.values()
            for one in inspection.check_wallet(reader, wallet.id, PROGRAMS)
        ]
    reader.close()
    return [one for one in found if one.level == "wrong"]


def test_who_judges_posts_is_told_once_what_changed_of_all_wallets(empty):
    """And what was ranked before stays where nothing changed."""
    wallets, found, heard = empty(), listed(two_people(7, 24).rows), []
    store(wallets, found)
    groups = GroupStore(lambda wallet, changed, now: heard.append((wallet.address, changed, now)))
    publish(groups, wallets)
    every = {row.signature for _, row in found}
    # Whichever wallet comes first.
    first, told = {one: rest for one, *rest in heard[:2]}, [every, BEGIN]
    assert first == dict.fromkeys(PEOPLE.values(), told)
    assert not any(changed for _, changed, _ in heard[2:])
    Bot.update(standing_at=5).execute()
    publish(groups, wallets)
    assert Bot.get().standing_at == 5


def test_doctor_derives_the_same(empty, settings):
    wallets = empty()
    rebuild(wallets, listed(TRIP.rows))
    assert find_differences(settings, wallets) == []
    Trade.update(result=1).where(Trade.kind == "sell").execute()
    HourTotal.update(realized=7).execute()
    Wallet.update(realized=8).where(Wallet.id == wallets["ada"].id).execute()
    Companion.update(open_cost=9).execute()
    found = {(one.table, one.field) for one in find_differences(settings, wallets)}
    assert {("trade", "result"), ("wallet", "realized")} <= found
    assert {"hour_total", "companion"} <= {name for name, _ in found}


def test_what_a_wallet_beside_another_sold_for_a_stablecoin_is_its_leads(
    empty, settings, monkeypatch
):
    """Eve, who led another bot before: bought DOG for 100 CAT, sold it for 150; again, for 170."""
    take_for_quotes(monkeypatch, {address("CAT")})
    story = Story()
    story.fund("eve", 10**9)
    story.receive("eve", "CAT", 1_000)
    for proceeds in (150, 170):
        story.swap("eve", "CAT", 100, "DOG", 50)
        story.swap("eve", "DOG", 50, "CAT", proceeds)
    came = story.rows[4].receipt["blockTime"] * 1_000
    wallets = empty(came)
    other = Bot.create(**{**Bot.get().__data__, "id": None, "uid": "other", "handle": "other"})
    stay = {"ownership": "proven", "attached_at": 0, "detached_at": came}
    Attachment.create(bot=other, wallet=wallets["eve"], **stay)
    truth = rebuild(wallets, listed(story.rows))
    results = [sale.result for sale in QuoteTrade.select().order_by(QuoteTrade.trade)]
    assert results == [None, 50, None, 70]
    assert find_differences(settings, wallets) == []
    groups = GroupStore(update_posts)
    publish(groups, wallets)
    # Her own books are made anew, her lead's go on.
    del groups._groups[wallets["eve"].id]
    publish(groups, wallets)
    assert told() == truth


def test_coverage_is_the_worst_of_them_and_names_it(empty):
    wallets = empty()
    rebuild(wallets, listed(TRIP.rows))
    ada = Wallet.get_by_id(wallets["ada"].id)
    assert orjson.loads(ada.coverage)["state"] == "complete"
    groups = GroupStore(update_posts)
    groups.apply(wallets["eve"])
    groups.publish(wallets["eve"], replace(DONE, confirmed=False), BEGIN)
    whole = orjson.loads(Wallet.get_by_id(ada.id).coverage)
    assert whole["state"] == "backfilling" and whole["worst"] == [PEOPLE["eve"]]
    assert whole["note"].startswith(PEOPLE["eve"])
    shown = list_wallets(ada.bot_id)
    assert [(one["address"], one["ownership"]) for one in shown] == [
        (PEOPLE["ada"], "proven"),
        (PEOPLE["eve"], "proven"),
    ]
    states = [one["coverage"]["state"] for one in orjson.loads(orjson.dumps(shown))]
    assert states == ["complete", "backfilling"]
    # Three name ada, two name eve.
    assert whole["receipts"] == 6


def test_who_stands_alone_again_has_rows_of_its_own(empty):
    wallets = empty()
    found = listed(TRIP.rows)
    truth = rebuild(wallets, found)
    groups = GroupStore(update_posts)
    publish(groups, wallets)
    ended = BEGIN_TIME * 1_000 + 10**9
    Companion.update(detached_at=ended).execute()
    publish(groups, wallets)
    eve = Wallet.get_by_id(wallets["eve"].id)
    assert orjson.loads(eve.results)["unmatchedSells"] == 1
    assert Trade.get(Trade.kind == "sell").result is None
    # What the record said of the time together stays.
    assert Attachment.get().forward_realized == 400_000 - 2 * FEE
    Companion.update(detached_at=None).execute()
    publish(groups, wallets)
    assert told() == truth


@pytest.mark.parametrize("damage", ["gone", "damaged"])
def test_what_cannot_be_read_together_is_added_up_until_it_is_fetched_again(empty, damage):
    """The units that ada sent to eve stay theirs, with their cost: together nothing moved but the
    fee and the rent.
    """
    wallets, found = empty(), listed(TRIP.rows)
    truth, wallets = rebuild(wallets, found), empty()
    store(wallets, found)
    sent = Receipt.get(Receipt.signature == TRIP.rows[3].signature)
    stored = sent.body
    Receipt.update(body=b"nothing").where(Receipt.id == sent.id).execute()
    if damage == "gone":
        Receipt.delete().where(Receipt.id == sent.id).execute()
    publish(GroupStore(), wallets)
    ada = Wallet.get_by_id(wallets["ada"].id)
    results = orjson.loads(ada.results)
    assert (results["realizedLamports"], results["matchedSells"]) == (str(400_000 - 2 * FEE), 1)
    assert orjson.loads(ada.reconciliation)["differenceLamports"] == "0"
    Receipt.delete().where(Receipt.id == sent.id).execute()
    Receipt.create(**{**sent.__data__, "body": stored})
    publish(GroupStore(), wallets)
    assert told() == truth


def test_an_account_that_shows_late_is_booked_from_the_beginning(empty):
    """Eve held 50 CAT before all that is known of her; that comes to light after ada's trades."""
    story = Story()
    story.lamports["eve"], story.tokens["eve's CAT"] = 10**9, ["CAT", "eve", 50]
    story.lamports["eve's CAT"] = RENT
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    story.sell("ada", "CAT", 40, 400_000)
    story.sell("eve", "CAT", 50, 700_000)
    found = listed(story.rows)
    truth, wallets = rebuild(empty(), found), empty()
    groups = GroupStore(update_posts)
    for some in (found[:3], found[3:]):
        publish(groups, wallets, store(wallets, some))
    assert told() == truth
    # Eve's units stand before ada's, and nobody knows what they cost.
    sales = {one.wallet.address: one.realized for one in Trade.select() if one.kind == "sell"}
    assert sales == {PEOPLE["ada"]: "unmatched", PEOPLE["eve"]: "partial"}


def test_who_was_beside_a_wallet_before_it_came_is_none_of_its_group(empty):
    """The bot's attachment of today begins after eve had gone: ada stands alone."""
    wallets = empty()
    Companion.update(attached_at=0, detached_at=1_000).execute()
    Attachment.update(attached_at=2_000).execute()
    found = listed(TRIP.rows)
    rebuild(wallets, found)
    assert not OwnCoverage.select().exists()
    ada = Wallet.get_by_id(wallets["ada"].id)
    assert orjson.loads(ada.results)["realizedLamports"] == "0"
    assert read_family(read_rows, ada.id) is None


def test_without_progress_nothing_is_said_of_how_whole_a_wallet_is(empty):
    wallets = empty()
    new = store(wallets, listed(TRIP.rows))
    groups = GroupStore(update_posts)
    for person, wallet in wallets.items():
        groups.apply(wallet, new[person])
        groups.publish(wallet, None, BEGIN)
    assert not OwnCoverage.select().exists()
    assert orjson.loads(Wallet.get_by_id(wallets["ada"].id).results)["matchedSells"] == 1
    # A wallet that is in no group takes none of its books along.
    known, before = set(groups._groups), told()
    groups.forget(0)
    assert groups._groups.keys() == known
    publish(groups, wallets)
    assert told()[:2] == before[:2]


def test_posts_are_judged_against_each_wallet_that_the_bot_held(empty):
    wallets = empty()
    signature = TRIP.rows[-1].signature
    bot = wallets["ada"].bot
    body = posts.PostBody(eventId="e", body="Sold.", signature=signature)
    before = posts.publish(bot.id, body, BEGIN, "api")
    rebuild(wallets, listed(TRIP.rows))
    post = Post.get(Post.uid == before.uid)
    assert (post.status, post.wallet_id) == ("verified", wallets["ada"].id)
    assert post.trade.wallet_id == wallets["eve"].id
    later = posts.publish(bot.id, body.model_copy(update={"eventId": "f"}), BEGIN, "api")
    assert Post.get(Post.uid == later.uid).status == "verified"
    # Of what the other did after it had gone, nothing is the bot's.
    Companion.update(detached_at=BEGIN - 1).execute()
    gone = posts.publish(bot.id, body.model_copy(update={"eventId": "g"}), BEGIN, "api")
    assert Post.get(Post.uid == gone.uid).status == "pending"


@pytest.mark.parametrize("seconds", [0, 3_600, 86_400])
def test_a_window_of_a_group_is_the_sum_of_its_trades(empty, seconds):
    wallets = empty()
    rebuild(wallets, listed(two_people(5, 24).rows))
    end = BEGIN_TIME + 10
    rows = whole_standings.work_out(read_rows, seconds, end, [wallets["ada"].bot_id])
    trades = [
        one
        for one in Trade.select()
        if one.kind in TRADES and (not seconds or one.block_time >= end - seconds)
    ]
    assert rows[0].trades == len(trades) > 0
    assert rows[0].realized == sum(one.result or 0 for one in trades)


def rebuild_all(settings):
    """{person: what deriving all again changed}."""
    state = Observer(settings).state
    return {
        person: one
        for one in rebuilding.rebuild(state, list(Wallet.select().order_by(Wallet.id)), BEGIN)
        for person in PEOPLE
        if PEOPLE[person] == one.address
    }


def test_a_rebuild_tells_of_each_wallet_what_was_wrong_with_it(empty, settings):
    """The lead is derived first, and all that hangs together with it: none of that is lost."""
    wallets = empty()
    rebuild(wallets, listed(TRIP.rows))
    truth = told()
    assert [one.changes for one in rebuild_all(settings).values()] == [0, 0]
    Trade.update(result=1).where(Trade.wallet == wallets["eve"], Trade.kind == "sell").execute()
    Wallet.update(realized=8).where(Wallet.id == wallets["ada"].id).execute()
    # As one that led alone until now and was not published since.
    Wallet.update(realized=9, results="{}").where(Wallet.id == wallets["eve"].id).execute()
    changed = rebuild_all(settings)
    assert (changed["ada"].trades_changed, changed["ada"].sums_changed) == (0, True)
    assert (changed["eve"].trades_changed, changed["eve"].sums_changed) == (1, True)
    assert told() == truth
    assert [one.changes for one in rebuild_all(settings).values()] == [0, 0]


def test_books_hang_together_across_bots_and_times(empty):
    """Ada leads eve; eve led pam, who never stood beside ada."""
    wallets = empty(BEGIN)
    ada, eve = wallets["ada"], wallets["eve"]
    row = {**Bot.get().__data__, "id": None, "uid": "other", "handle": "other"}
    other, pam = Bot.create(**row), Wallet.create(address="pam", bot=ada.bot, created_at=BEGIN)
    alone = Wallet.create(address="alone", bot=ada.bot, created_at=BEGIN)
    stay = {"bot": other, "attached_at": BEGIN - 9, "detached_at": BEGIN - 1}
    Attachment.create(wallet=eve, ownership="proven", **stay)
    Companion.create(wallet=pam, **stay)
    for one in (ada, eve, pam):
        assert list_kin(read_rows, one.id) == [ada.id, eve.id, pam.id]
    assert list_kin(read_rows, alone.id) == [alone.id]
