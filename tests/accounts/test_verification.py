"""When a post is verified (docs/verified.md): what a trade proves, how observation judges posts,
and when a judgment is repeated.
"""

import itertools

import orjson
import pytest
import story
from service import NOW, address, signature

from accounts import posts, wallets
from accounts.verification import judge_post, verify_posts
from chain.reading.receipts import pack
from chain.stored.tables import TradeMint
from chain.stored.trades import judge, list_moved_mints
from evidence import log
from models import Arrival, Attachment, Post, Receipt, Trade, Wallet, WalletSignature

W = address("w")
HOUR = 3_600_000
# Ten minutes in seconds.
TEN = 600

# ---- what a trade proves -------------------------------------------------------------------------
TRADES = ("buy", "sell", "swap", "round_trip", "order_fill")
NO_TRADES = (
    *("transfer_in", "transfer_out", "transfer_self", "native_transfer", "order_open"),
    *("order_cancel", "liquidity", "lending", "stake", "bridge", "nft", "account_open"),
    *("account_close", "other"),
)
FLAGS = (
    *("opening_inventory_unknown", "incomplete_history", "unrecognised_program", "basis_carried"),
    *("fee_only", "owner_inferred", "order_unresolved"),
)
FLAG_SETS = ((), *((flag,) for flag in FLAGS), FLAGS)
UNEXPLAINED = ("value_unexplained", "counterparty_signed")
MINTS = (None, "A", "C")
VERIFIED, NO_TRADE = ("verified", None), ("mismatch", "not_a_trade")
AMBIGUOUS = ("none", "ambiguous")


def judge_all(kinds, flag_sets, mints, explained):
    """Verdicts on a transaction that moved A and B."""
    cases = itertools.product(kinds, flag_sets, mints)
    return {judge(kind, flags, {"A", "B"}, mint, explained) for kind, flags, mint in cases}


def test_a_trade_verifies_posts_about_a_mint_that_it_moved():
    assert judge_all(TRADES, FLAG_SETS, [None, "A", "B"], 95) == {VERIFIED}
    assert judge_all(TRADES, FLAG_SETS, ["C"], 95) == {("mismatch", "mint_not_in_trade")}
    assert judge("swap", (), set(), "A", 100) == ("mismatch", "mint_not_in_trade")
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
PENDING, NOT_FOUND = ("pending", None, None), ("not_found", None, None)
OTHER_WALLET = ("mismatch", "other_wallet", None)
OF_T = ("verified", None, "trade_t")


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", W).bot


@pytest.fixture
def verified(service, bot):
    """The ID of a post verified by the trade t."""
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    assert judgment(uid) == OF_T
    return uid


def say(bot, trade, event=None, **more):
    """Post about a trade at NOW; return the post's ID."""
    event = event or f"about {trade}"
    body = posts.PostBody(eventId=event, body="b", signature=signature(trade), **more)
    return posts.publish(bot.id, body, NOW).uid


def verify(*trades, now=NOW + 1):
    """Verify W's posts after these trades changed."""
    verify_posts(Wallet.get(Wallet.address == W), {signature(one) for one in trades}, now)


def judgment(uid):
    post = Post.get(Post.uid == uid)
    return post.status, post.status_reason, post.trade and post.trade.uid


def observed_to(seconds, wallet=W):
    """A node showed the chain up to this many seconds after the posts."""
    observed = Wallet.update(observed_to=NOW // 1000 + seconds)
    observed.where(Wallet.address == wallet).execute()


def list_signature(trade, wallet=W):
    wallet = Wallet.get(Wallet.address == wallet)
    WalletSignature.create(wallet=wallet, signature=signature(trade), slot=1, seen_at=NOW)


def store_receipt(name, wallet):
    """Store the receipt of a purchase under a trade's signature."""
    told = story.Story()
    told.fund(wallet, 10_000_000)
    told.buy(wallet, "CAT", 1_000, 250_000)
    raw, named = told.rows[-1].receipt, signature(name)
    raw["transaction"]["signatures"] = [named]
    Receipt.create(signature=named, slot=1, body=pack(raw), endpoint="e", digest="")


def count_heard():
    """How many verification events followers received."""
    return Arrival.select().where(Arrival.kind == "verification").count()


def test_a_later_trade_verifies_and_sets_the_time(verified):
    post = Post.get()
    assert (post.checked_at, post.event_at) == (NOW + 1, NOW - HOUR)
    arrival = Arrival.select().order_by(Arrival.id.desc()).get()
    assert (arrival.kind, arrival.post.uid) == ("verification", verified)
    one = log.find_log()
    leaf = orjson.loads(log.read_leaves(one, one.size - 1, one.size)[0])
    told = leaf["kind"], leaf["at"], leaf["post"], leaf["status"]
    assert told == ("verification", NOW + 1, verified, "verified")
    # Checked again without changes: no event, and the first check's time stays.
    verify("t", now=NOW + 2)
    assert count_heard() == 1 and Post.get().checked_at == NOW + 1


def test_neither_mismatches_nor_trades_without_a_time_set_the_time(service, bot):
    timeless, other = say(bot, "timeless"), say(bot, "other", mint=address("another"))
    service.observe_trade(W, "timeless", 1, block_time=None)
    service.observe_trade(W, "other", 2)
    verify("timeless", "other")
    assert judgment(timeless) == ("verified", None, "trade_timeless")
    assert judgment(other) == ("mismatch", "mint_not_in_trade", "trade_other")
    assert {post.event_at for post in Post.select()} == {NOW}


def test_a_transaction_missing_after_ten_minutes_is_not_found_until_it_is_listed(bot):
    uid = say(bot, "t")
    for seconds, verdict in ((TEN - 1, PENDING), (TEN, NOT_FOUND)):
        observed_to(seconds)
        verify()
        assert judgment(uid) == verdict
    list_signature("t")
    verify()
    assert judgment(uid) == PENDING


def test_listed_transactions_are_waited_for_unless_of_another_wallet(service, bot):
    uid, theirs = say(bot, "t"), say(bot, "theirs")
    service.make_bot("Bob", address("other"))
    list_signature("t")
    list_signature("theirs", address("other"))
    observed_to(TEN)
    verify()
    assert (judgment(uid), judgment(theirs)) == (PENDING, NOT_FOUND)


def test_a_transaction_of_other_wallets_only_is_not_a_trade(service, bot):
    uid = say(bot, "t")
    store_receipt("t", "bob")
    verify()
    assert judgment(uid) == OTHER_WALLET
    # This is permanent: nothing asks again until the trade exists.
    service.observe_trade(W, "t", 1)
    verify()
    assert judgment(uid) == OTHER_WALLET
    verify("t")
    assert judgment(uid) == OF_T


def test_damaged_rows_accuse_nobody(bot):
    """The post waits until the transaction is fetched again."""
    uid = say(bot, "t")
    store_receipt("t", "bob")
    whole = Receipt.get().body
    for body, verdict in ((b"no zlib", PENDING), (whole, OTHER_WALLET)):
        Receipt.update(body=body).execute()
        verify()
        assert judgment(uid) == verdict


def test_a_transaction_that_names_the_wallet_is_waited_for(service):
    """It was stored for another wallet first and isn't listed for this one yet."""
    uid = say(service.make_bot("Ada", story.address("ada")).bot, "t")
    store_receipt("t", "ada")
    verify_posts(Wallet.get(), set(), NOW + 1)
    assert judgment(uid) == PENDING


@pytest.mark.parametrize("flags", ["[]", '["ambiguous"]'])
def test_a_deleted_trade_takes_its_verification_along(service, bot, flags):
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1, flags=flags)
    verify("t")
    assert judgment(uid)[2] == "trade_t"
    Post.update(trade=None).execute()
    TradeMint.delete().execute()
    Trade.delete().execute()
    verify()
    assert judgment(uid) == PENDING


def test_a_verified_post_stays_verified_while_its_trade_is_not_listed_as_changed(verified):
    Trade.update(kind="failed").execute()
    verify()
    assert judgment(verified) == OF_T
    verify("t")
    assert judgment(verified) == ("mismatch", "failed", "trade_t")


def test_with_more_than_400_changed_trades_all_posts_are_judged(verified):
    Trade.update(kind="failed").execute()
    verify(*[f"other {number}" for number in range(400)])
    assert judgment(verified) == OF_T
    verify(*[f"other {number}" for number in range(401)])
    assert judgment(verified) == ("mismatch", "failed", "trade_t")


def test_posts_without_a_signature_or_of_other_wallets_are_untouched(service, bot):
    other = service.make_bot("Bob", address("other")).bot
    plain = posts.publish(bot.id, posts.PostBody(eventId="p", body="b"), NOW).uid
    theirs = say(other, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    assert judgment(plain) == ("none", None, None)
    assert judgment(theirs) == PENDING


def test_verification_reads_flags_and_mints_of_the_trade(service, bot):
    """A swap moved two tokens: posts about either are verified, but not with unexplained value."""
    moved = orjson.dumps([[address("a"), "-5", 0], [address("b"), "7", 0]]).decode()
    service.observe_trade(W, "t", 1, kind="swap", mint=address("a"), token_changes=moved)
    service.observe_trade(W, "trip", 2, kind="round_trip", mint=address("a"), token_changes="[]")

    def judged(mint, trade="t"):
        post = Post(signature=signature(trade), mint=mint, created_at=NOW)
        return judge_post(post, Wallet.get(Wallet.address == W))[:2]

    # Of the round trip's token, nothing is left.
    assert {judged(address("b")), judged(None), judged(address("a"), "trip")} == {VERIFIED}
    assert judged(address("c")) == ("mismatch", "mint_not_in_trade")
    Trade.update(flags='["value_unexplained"]').execute()
    assert judged(None) == ("none", "value_unexplained")


def test_a_gifted_token_is_not_the_traded_token(service, bot):
    """A was sold, and somebody sent B in the same transaction. The post comes before or after the
    observation.
    """
    a, b = address("a"), address("b")
    early = [say(bot, "t", f"early {mint}", mint=mint) for mint in (a, b)]
    moved = orjson.dumps([[a, "-5", 0], [b, "7", 0]]).decode()
    gift = orjson.dumps([[b, "7", 0]]).decode()
    service.observe_trade(W, "t", 1, kind="sell", mint=a, token_changes=moved, beside_tokens=gift)
    verify("t")
    late = [say(bot, "t", f"late {mint}", mint=mint) for mint in (a, b)]
    for traded, given in (early, late):
        assert judgment(traded) == OF_T
        assert judgment(given) == ("mismatch", "mint_not_in_trade", "trade_t")


# ---- several wallets -----------------------------------------------------------------------------
B = address("b")


def hold_too(bot, name=B, since=NOW - 5, until=None):
    """Add a second proven wallet, connected from and to (ms); W still leads."""
    Attachment.update(attached_at=NOW - 9).where(Attachment.bot == bot).execute()
    wallet = Wallet.create(bot=bot, address=name, created_at=NOW)
    times = {"attached_at": since, "detached_at": until}
    Attachment.create(bot=bot, wallet=wallet, ownership="proven", **times)
    return wallet


def test_of_two_wallets_in_a_transaction_the_trading_one_decides(service, bot):
    hold_too(bot)
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1, kind="transfer_out")
    service.observe_trade(B, "t", 1, uid="trade_b")
    verify("t")
    assert judgment(uid) == ("verified", None, "trade_b")


def test_a_changed_trade_of_another_wallet_updates_the_post_at_once(service, bot):
    other, uid = hold_too(bot), say(bot, "t")
    service.observe_trade(B, "t", 1, uid="trade_b")
    verify_posts(other, {signature("t")}, NOW + 1)
    assert judgment(uid) == ("verified", None, "trade_b")
    Trade.update(flags='["own_wallets", "value_unexplained"]').execute()
    verify_posts(other, {signature("t")}, NOW + 2)
    assert judgment(uid) == ("none", "value_unexplained", "trade_b")


def test_a_transaction_that_names_another_wallet_is_waited_for(bot):
    hold_too(bot, story.address("bob"))
    uid = say(bot, "t")
    store_receipt("t", "bob")
    verify()
    assert judgment(uid) == PENDING
    # Transactions listed only for that wallet don't count as missing either.
    list_signature("t", story.address("bob"))
    observed_to(TEN)
    observed_to(TEN, story.address("bob"))
    verify()
    assert judgment(uid) == PENDING


@pytest.mark.parametrize("first, last", [(B, W), (W, B)])
def test_nothing_is_missing_until_every_wallet_was_observed_later(bot, first, last):
    hold_too(bot)
    uid = say(bot, "t")
    for wallet, verdict in ((first, PENDING), (last, NOT_FOUND)):
        observed_to(TEN, wallet)
        verify()
        assert judgment(uid) == verdict


@pytest.mark.parametrize(
    ("since", "until", "status"),
    [
        *((NOW, None, "verified"), (NOW + 1, None, "pending")),
        *((NOW - 5, NOW, "verified"), (NOW - 5, NOW - 1, "pending")),
    ],
)
def test_another_wallet_counts_while_it_was_connected(service, bot, since, until, status):
    hold_too(bot, B, since, until)
    uid = say(bot, "t")
    service.observe_trade(B, "t", 1)
    verify("t")
    assert judgment(uid)[0] == status


# ---- what an earlier bot did ---------------------------------------------------------------------
def observe_before(service, hours):
    """Observe a trade this many hours before the posts."""
    service.observe_trade(W, "t", 1, block_time=(NOW - hours * HOUR) // 1000)


@pytest.fixture
def ada(bot):
    """A bot that connected W nine hours before its posts."""
    Attachment.update(attached_at=NOW - 9 * HOUR).execute()
    return bot


@pytest.fixture
def heir(service, ada):
    """A bot that claims W an hour before its posts; Ada had it until an hour before that."""
    bob = service.make_bot("Bob").bot
    wallets.detach_wallet(ada, NOW - 2 * HOUR)
    wallets.attach_wallet(service.config, bob, W, NOW - HOUR)
    return bob


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    "before_ms, verdict",
    [
        (3 * HOUR, OTHER_WALLET),
        # Nobody had it then: trades before a claim stay with the earlier bot.
        (HOUR + 1_000, OTHER_WALLET),
        (HOUR, OF_T),
        (0, OF_T),
        (None, OTHER_WALLET),
    ],
)
def test_a_claim_does_not_verify_earlier_trades(service, heir, is_early, before_ms, verdict):
    """Whether the post comes before or after the observation."""
    at = None if before_ms is None else (NOW - before_ms) // 1000
    uid = is_early and say(heir, "t")
    service.observe_trade(W, "t", 1, block_time=at)
    uid = uid or say(heir, "t")
    if not is_early:
        assert judgment(uid) == verdict
    verify("t")
    assert judgment(uid) == verdict
    heard = count_heard()
    verify("t", now=NOW + 2)
    assert judgment(uid) == verdict and count_heard() == heard


def test_a_proof_takes_over_past_posts_too(service, heir):
    observe_before(service, 3)
    uid = say(heir, "t")
    assert judgment(uid) == OTHER_WALLET
    wallets.attach_wallet(service.config, heir, W, NOW + 1, "proven")
    assert judgment(uid) == OF_T


def test_a_bot_keeps_its_posts_when_another_claims_or_proves_the_wallet(service, ada):
    observe_before(service, 10)
    uid, bob = say(ada, "t"), service.make_bot("Bob").bot
    wallets.detach_wallet(ada, NOW + 1)
    for ownership in ("claimed", "proven"):
        wallets.attach_wallet(service.config, bob, W, NOW + 2, ownership)
        verify("t")
        assert judgment(uid) == OF_T


def test_a_claim_takes_nothing_another_bot_proved(service, ada):
    """Bob proves the wallet that Ada claimed first, leaves, and Ada claims it again."""
    bob = service.make_bot("Bob").bot
    wallets.attach_wallet(service.config, bob, W, NOW - 5 * HOUR, "proven")
    wallets.detach_wallet(bob, NOW - 4 * HOUR)
    wallets.attach_wallet(service.config, ada, W, NOW - HOUR)
    observe_before(service, 8)
    assert judgment(say(ada, "t")) == OTHER_WALLET
