"""When a post is verified (docs/verified.md): what a trade proves, how observation judges posts,
when a judgment is repeated, and how many seconds after its trades a bot posts about them.
"""

import itertools

import orjson
import pytest
import story
from hypothesis import given
from hypothesis import strategies as st
from service import NOW, address, signature
from test_attachments import HOUR, World

from accounts import posts
from accounts.verification import count_delays, find_delay, sum_delays, verify_posts
from chain.reading.receipts import pack
from chain.stored.tables import DelayTotal, TradeMint
from chain.stored.trades import judge, list_moved_mints
from evidence import log
from models import Arrival, Attachment, Bot, Post, Receipt, Trade, Wallet, WalletSignature
from operate import inspection

# ---- what a trade proves -------------------------------------------------------------------------
TRADES = ("buy", "sell", "swap", "round_trip", "order_fill")
NO_TRADES = (
    "transfer_in transfer_out transfer_self native_transfer order_open order_cancel liquidity "
    "lending stake bridge nft account_open account_close other"
).split()
FLAGS = (
    "opening_inventory_unknown incomplete_history unrecognised_program basis_carried fee_only "
    "owner_inferred order_unresolved"
).split()
FLAG_SETS = ((), *((flag,) for flag in FLAGS), FLAGS)
UNEXPLAINED = ("value_unexplained", "counterparty_signed")
MINTS = (None, "A", "C")
VERIFIED, NO_TRADE = ("verified", None), ("mismatch", "not_a_trade")
OTHER_MINT, AMBIGUOUS = ("mismatch", "mint_not_in_trade"), ("none", "ambiguous")


def judge_all(kinds, flag_sets, mints, explained):
    """Verdicts on a transaction that moved A and B."""
    cases = itertools.product(kinds, flag_sets, mints)
    return {judge(kind, flags, {"A", "B"}, mint, explained) for kind, flags, mint in cases}


def test_a_trade_verifies_posts_about_a_mint_that_it_moved():
    assert judge_all(TRADES, FLAG_SETS, [None, "A", "B"], 95) == {VERIFIED}
    assert judge_all(TRADES, FLAG_SETS, ["C"], 95) == {OTHER_MINT}
    assert judge("swap", (), set(), "A", 100) == OTHER_MINT
    assert judge("swap", (), set(), None, 100) == VERIFIED
    # A transaction not priced by this version is read again first.
    assert judge("sell", (), {"A"}, None, None) == VERIFIED


@pytest.mark.parametrize(
    ("kinds", "flag_sets", "explained", "verdict"),
    [
        (NO_TRADES, FLAG_SETS, None, NO_TRADE),
        (("other",), [("fee_income",), ("tip_only",)], None, NO_TRADE),
        # An order fill without a price.
        (("order_fill",), FLAG_SETS, None, NO_TRADE),
        (("failed",), [(), ("ambiguous",)], None, ("mismatch", "failed")),
        (("other",), [("ambiguous",)], None, AMBIGUOUS),
        (("other",), [("ambiguous", one) for one in (*FLAGS, "not_signer")], None, AMBIGUOUS),
        (("other",), [("ambiguous", *UNEXPLAINED)], None, AMBIGUOUS),
        (TRADES, [UNEXPLAINED], 0, ("none", "value_unexplained")),
    ],
)
def test_no_other_transaction_verifies_whatever_the_post_names(
    kinds, flag_sets, explained, verdict
):
    assert judge_all(kinds, flag_sets, MINTS, explained) == {verdict}


@pytest.mark.parametrize(
    ("kind", "mint", "changes", "beside", "moved"),
    [
        *(("swap", mint, "A-5 B+1", "", {"A", "B"}) for mint in MINTS),
        ("buy", None, "", "", set()),
        # Of a round trip's own token nothing is left, or 7 arrived from outside the venue.
        ("round_trip", "C", "", "", {"C"}),
        ("round_trip", "C", "C+7", "C+7", {"C"}),
        ("round_trip", None, "", "", set()),
        # Of C, 2 of 3 arrived from outside; 9 D were given, and 9 arrived from outside.
        ("sell", "A", "A-5 B+4 C+3", "B+4 C+2 D+9", {"A", "C", "D"}),
        # An order fill's main token is that of the whole transaction.
        ("order_fill", "B", "A-5 B+4 C+3", "B+4 C+2 D+9", {"A", "C", "D"}),
        ("order_fill", "B", "", "", {"B"}),
        ("order_fill", "B", "A+5", "", {"A", "B"}),
    ],
)
def test_a_trade_moved_the_tokens_that_its_venue_moved(kind, mint, changes, beside, moved):
    rows, given = ([[one[0], one[1:], 6] for one in text.split()] for text in (changes, beside))
    assert list_moved_mints(kind, mint, rows, given) == moved
    # In the format of an entry.
    rows, given = ([(one, int(raw), 6) for one, raw, _ in some] for some in (rows, given))
    assert list_moved_mints(kind, mint, rows, given) == moved


# ---- how observation judges posts ----------------------------------------------------------------
# In stories, so that receipts can name them.
PEOPLE = {"A": "w", "B": "b", "E": "other"}
ADDRESSES = {letter: story.address(person) for letter, person in PEOPLE.items()}
A = ADDRESSES["A"]


class Judged(World):
    """Ada connected A nine hours before the posts. The bots post about one transaction, t. `show`
    tells the latest post's label.
    """

    addresses = ADDRESSES

    def __init__(self, service):
        super().__init__(service, "claim ada A @-9, claim eve E @-9")
        self.uid = None

    def show(self):
        return self.label(self.uid)

    def label(self, uid):
        """A post's status, the reason, and the wallet whose trade it cites."""
        post = Post.get(Post.uid == uid)
        trade = post.trade and post.trade.uid.removeprefix("trade_")
        return " ".join(filter(None, (post.status, post.status_reason, trade)))

    def say(self, name="ada", **more):
        given = {"eventId": f"{Post.select().count()}", "body": "b", "signature": signature("t")}
        body = posts.PostBody(**{**given, **more})
        self.uid = posts.publish(self.bots[name].id, body, NOW).uid
        return self.uid

    def observe(self, wallet, hours="-1", kind="buy", **more):
        """A wallet's trade in t this many hours from the posts; None without a time."""
        at = None if hours == "None" else int(NOW + float(hours) * HOUR) // 1000
        columns = {"uid": f"trade_{wallet}", "kind": kind, "block_time": at, **more}
        self.service.observe_trade(ADDRESSES[wallet], "t", 1, **columns)

    def note(self, wallet):
        """List the transaction's signature."""
        row = Wallet.get(Wallet.address == ADDRESSES[wallet])
        WalletSignature.create(wallet=row, signature=signature("t"), slot=1, seen_at=NOW)

    def seen(self, wallet, seconds):
        """Nodes showed the wallet's chain up to this many seconds after the posts."""
        at = Wallet.update(observed_to=NOW // 1000 + int(seconds))
        at.where(Wallet.address == ADDRESSES[wallet]).execute()
        self.verify()

    def store(self, wallet):
        """Another wallet's observation stored the transaction, in which this one traded."""
        told = story.Story()
        told.fund(PEOPLE[wallet], 10_000_000)
        told.buy(PEOPLE[wallet], "CAT", 1_000, 250_000)
        raw = told.rows[-1].receipt
        raw["transaction"]["signatures"] = [signature("t")]
        Receipt.create(signature=signature("t"), slot=1, body=pack(raw), endpoint="e", digest="")
        self.verify()

    def verify(self, *trades, now=NOW + 1):
        """Verify the posts of A's bots after these trades changed."""
        self.verify_wallet("A", *trades, now=now)

    def verify_wallet(self, wallet, *trades, now=NOW + 1):
        changed = {signature(one) for one in trades}
        verify_posts(Wallet.get(Wallet.address == ADDRESSES[wallet]), changed, now)

    def mark(self, wallet, flags, kind="buy"):
        uid = f"trade_{wallet}"
        told = orjson.dumps(flags.split("+")).decode()
        Trade.update(flags=told, kind=kind).where(Trade.uid == uid).execute()

    def delete_trades(self):
        Post.update(trade=None).execute()
        TradeMint.delete().execute()
        Trade.delete().execute()
        self.verify()

    def hold(self, wallet, since="-1", until=None):
        """Ada proved another wallet this many milliseconds from the posts."""
        row = Wallet.create(bot=self.bots["ada"], address=ADDRESSES[wallet], created_at=NOW)
        times = {"attached_at": NOW + int(since), "detached_at": until and NOW + int(until)}
        Attachment.create(bot=self.bots["ada"], wallet=row, ownership="proven", **times)


@pytest.fixture
def world(service):
    return Judged(service)


# Bob claimed A an hour before the posts; Ada had it until an hour before that.
CLAIMED = {"mismatch other_wallet": ("-3", "-1.001", "None"), "verified A": ("-1", "0")}
HEIR = "leave ada @-2, claim bob A @-1"
STORIES = {
    "a trade before the post": "observe A, say = verified A",
    "a failed transaction": "observe A -1 failed, say = mismatch failed A",
    "a transfer": "observe A -1 transfer_in, say = mismatch not_a_trade A",
    "a stranger's trade": "observe E, say = pending",
    "missing after ten minutes, until it is listed": (
        "say = pending, seen A 599 = pending, seen A 600 = not_found, note A, verify = pending"
    ),
    "listed for a stranger's wallet": "say, note E, seen A 600 = not_found",
    "of a stranger's wallet, which is permanent until the trade exists": (
        "say, store E = mismatch other_wallet, "
        "observe A, verify = mismatch other_wallet, verify t = verified A"
    ),
    "stored for another wallet, naming this one": "say, store A = pending",
    "a deleted trade": "say, observe A, verify t = verified A, delete_trades = pending",
    "a deleted ambiguous trade": (
        "say, observe A, mark A ambiguous, verify t = none ambiguous A, delete_trades = pending"
    ),
    "a trade that isn't listed as changed": (
        "say, observe A, verify t = verified A, "
        "mark A fee_only failed, verify = verified A, verify t = mismatch failed A"
    ),
    "another wallet's trade that changes": (
        "hold B, say, observe B, verify_wallet B t = verified B, "
        "mark B own_wallets+value_unexplained, verify_wallet B t = none value_unexplained B"
    ),
    "of two wallets, the one that traded": (
        "hold B, say, observe A -1 transfer_out, observe B, verify t = verified B"
    ),
    "stored and listed for another wallet of the bot": (
        "hold B, say, store B = pending, note B, seen A 600, seen B 600 = pending"
    ),
    "missing once both wallets were observed later": (
        "hold B, say, seen B 600 = pending, seen A 600 = not_found"
    ),
    "the same in turn": "hold B, say, seen A 600 = pending, seen B 600 = not_found",
    "another wallet, from now on": "hold B 0, say, observe B, verify t = verified B",
    "another wallet, later": "hold B 1, say, observe B, verify t = pending",
    "another wallet, until now": "hold B -5 0, say, observe B, verify t = verified B",
    "another wallet, earlier": "hold B -5 -1, say, observe B, verify t = pending",
    # Trades before a claim stay with the earlier bot, even if nobody had the wallet then.
    **{
        f"a claim, and a trade at {hours} h": (
            f"{HEIR}, say bob, observe A {hours}, verify t = {label}, say bob = {label}, "
            f"verify t = {label}"
        )
        for label, times in CLAIMED.items()
        for hours in times
    },
    "a proof takes over past posts too": (
        f"{HEIR}, observe A -3, say bob = mismatch other_wallet, prove bob A @0.001 = verified A"
    ),
    "a bot keeps its posts when another claims or proves the wallet": (
        "observe A -10, say ada = verified A, leave ada @0.001, "
        "claim bob A @0.002, verify t = verified A, prove bob A @0.002, verify t = verified A"
    ),
    "a claim takes nothing that another bot proved": (
        "prove bob A @-5, leave bob @-4, claim ada A @-1, observe A -8, say = mismatch other_wallet"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_post_is_labeled_by_the_chain_and_by_who_had_the_wallet(world, name):
    world.play(STORIES[name])


def test_a_later_trade_verifies_and_sets_the_time_once(world):
    uid = world.say()
    world.observe("A")
    world.verify("t")
    post = Post.get()
    assert (post.checked_at, post.event_at) == (NOW + 1, NOW - HOUR)
    arrival = Arrival.select().order_by(Arrival.id.desc()).get()
    assert (arrival.kind, arrival.post.uid) == ("verification", uid)
    one = log.find_log()
    leaf = orjson.loads(log.read_leaves(one, one.size - 1, one.size)[0])
    told = leaf["kind"], leaf["at"], leaf["post"], leaf["status"]
    assert told == ("verification", NOW + 1, uid, "verified")
    # Checked again without changes.
    world.verify("t", now=NOW + 2)
    assert Arrival.select().where(Arrival.kind == "verification").count() == 1
    assert Post.get().checked_at == NOW + 1


@pytest.mark.parametrize(
    ("hours", "post", "label"),
    [
        ("None", {}, "verified A"),
        ("-1", {"mint": address("another")}, "mismatch mint_not_in_trade A"),
    ],
)
def test_neither_mismatches_nor_trades_without_a_time_set_the_time(world, hours, post, label):
    world.say(**post)
    world.observe("A", hours)
    world.verify("t")
    assert (world.show(), Post.get().event_at) == (label, NOW)


def test_damaged_rows_accuse_nobody(world):
    """The post waits until the transaction is fetched again."""
    world.say()
    world.store("E")
    whole = Receipt.get().body
    Post.update(status="pending", status_reason=None).execute()
    for body, label in ((b"no zlib", "pending"), (whole, "mismatch other_wallet")):
        Receipt.update(body=body).execute()
        world.verify()
        assert world.show() == label


def test_with_more_than_400_changed_trades_all_posts_are_judged(world):
    world.play("say, observe A, verify t = verified A, mark A fee_only failed")
    for count, label in ((400, "verified A"), (401, "mismatch failed A")):
        world.verify(*[f"other {number}" for number in range(count)])
        assert world.show() == label


def test_posts_without_a_signature_or_of_other_wallets_are_untouched(world):
    found = {world.say(signature=None): "none", world.say("eve"): "pending"}
    world.observe("A")
    world.verify("t")
    assert {post.uid: post.status for post in Post.select()} == found


def test_a_gifted_token_is_not_the_traded_token(world):
    """A was sold, and somebody sent B in the same transaction. The post comes before or after the
    observation.
    """
    a, b = address("a"), address("b")
    early = [world.say(mint=mint) for mint in (a, b)]
    moved, gift = (
        orjson.dumps(rows).decode() for rows in ([[a, "-5", 0], [b, "7", 0]], [[b, "7", 0]])
    )
    world.observe("A", kind="sell", mint=a, token_changes=moved, beside_tokens=gift)
    world.verify("t")
    late = [world.say(mint=mint) for mint in (a, b)]
    for uids in (early, late):
        labels = [world.label(uid) for uid in uids]
        assert labels == ["verified A", "mismatch mint_not_in_trade A"]


# ---- delays --------------------------------------------------------------------------------------
# Block time used by Service.observe_trade, in Unix seconds.
TRADED = NOW // 1000 - 3600


def say_after(bot, trade, seconds, **more):
    """Post this many seconds after the trades."""
    event = f"{trade} {seconds}"
    body = posts.PostBody(eventId=event, body="b", signature=signature(trade), **more)
    posts.publish(bot.bot.id, body, (TRADED + seconds) * 1000)


def show(service, bot):
    return service.get(f"/api/v1/bots/{bot.bot.uid}", bot.publish_key.text).json["pace"]


def judge_again():
    verify_posts(Wallet.get(Wallet.address == A), {signature("a")}, NOW)


def test_the_first_verified_post_of_each_trade_counts(service, bot):
    """Delays of 5, 60, 61 and 4,050 s, rounded down to two digits: half are within a minute, and
    the lower median is 60. Later posts about the same trade and posts without a trade don't count.
    """
    nothing = {"postedWithinMinuteShare": None, "postDelaySecondsMedian": None}
    assert show(service, bot) == {"tradesPosted": 0, "withinMinute": 0, **nothing}
    for slot, (name, seconds) in enumerate(zip("abcd", (5, 60, 61, 4_050), strict=True)):
        service.observe_trade(A, name, slot)
        say_after(bot, name, seconds)
        say_after(bot, name, seconds + 900)
    service.observe_trade(A, "sent", 9, kind="transfer_out")
    say_after(bot, "sent", 1)
    say_after(bot, "never", 1)
    assert show(service, bot) == {
        "tradesPosted": 4,
        "withinMinute": 2,
        "postedWithinMinuteShare": "0.50",
        "postDelaySecondsMedian": 60,
    }
    assert orjson.loads(DelayTotal.get().delays) == [[5, 1], [60, 1], [61, 1], [4_000, 1]]


@pytest.mark.parametrize(
    "change", [Trade.update(kind="transfer_out"), Trade.update(block_time=None), Trade.delete()]
)
def test_a_post_whose_trade_loses_its_time_or_label_no_longer_counts(service, bot, change):
    service.observe_trade(A, "a", 1)
    say_after(bot, "a", 10)
    change.execute()
    judge_again()
    assert (show(service, bot)["tradesPosted"], Post.get().delay) == (0, None)


def test_an_earlier_post_replaces_a_later_one(service, bot):
    """Posts after 10 and 30 s, before the trade was observed. The first one named a token that the
    trade didn't move, until the trade changed.
    """
    other = address("other")
    say_after(bot, "a", 10, mint=other)
    say_after(bot, "a", 30)
    assert show(service, bot)["tradesPosted"] == 0
    service.observe_trade(A, "a", 1)
    moved = orjson.dumps([[other, "1", 0]]).decode()
    for delay in (30, 10):
        judge_again()
        assert (DelayTotal.get().median, show(service, bot)["tradesPosted"]) == (delay, 1)
        Trade.update(token_changes=moved).execute()


@pytest.mark.parametrize("created_at, delay", [(2_999, 0), (3_999, 0), (4_000, 1), (9_500, 6)])
def test_delays_are_whole_seconds_and_never_negative(created_at, delay):
    assert find_delay(created_at, 3) == delay


@given(st.lists(st.integers(0, 99), min_size=1, max_size=30))
def test_delays_sum_to_count_median_and_share_within_a_minute(delays):
    told = sum_delays({one: delays.count(one) for one in delays})
    assert told["median"] == sorted(delays)[(len(delays) - 1) // 2]
    assert told["posted"] == len(delays)
    assert told["within_minute"] == len([one for one in delays if one <= 60])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda: Post.update(delay=7).where(Post.event_id == "a 900"),
        lambda: Post.update(delay=None).where(Post.event_id == "a 10"),
        lambda: DelayTotal.update(within_minute=9),
        lambda: DelayTotal.delete(),
    ],
)
def test_damaged_delays_are_named_and_repaired(service, bot, spoil):
    for slot, (name, seconds) in enumerate((("a", 10), ("a", 900), ("b", 4_050))):
        if seconds != 900:
            service.observe_trade(A, name, slot)
        say_after(bot, name, seconds)
    before = read_all()
    spoil().execute()
    assert name_differences(service) != []
    count_delays(Bot.get().id)
    assert (read_all(), name_differences(service)) == (before, [])


def read_all():
    delays = list(Post.select(Post.delay).order_by(Post.id).tuples())
    return delays, list(DelayTotal.select().tuples())


def name_differences(service):
    found = inspection.inspect(service.config, NOW, running=False)
    return [one for one in found if one.table == "delay_total" or one.field == "delay"]
