"""How observation judges a post, and when a judgment is repeated."""

import orjson
import pytest
import story
from service import NOW, address, signature

from accounts import posts, wallets
from accounts.verification import judge_post, verify_posts
from chain.reading.receipts import pack
from chain.stored.tables import TradeMint
from evidence import log
from models import Arrival, Attachment, Post, Receipt, Trade, Wallet, WalletSignature

W = address("w")
# Ten minutes, in milliseconds for posts and seconds for blocks.
TEN = 600


@pytest.fixture
def bot(service):
    return service.make_bot("Ada", W).bot


def say(bot, trade, **more):
    body = posts.PostBody(eventId=f"about {trade}", body="b", signature=signature(trade), **more)
    return posts.publish(bot.id, body, NOW).uid


def verify(*trades, now=NOW + 1):
    verify_posts(Wallet.get(Wallet.address == W), {signature(one) for one in trades}, now)


def judgment(uid):
    post = Post.get(Post.uid == uid)
    return post.status, post.status_reason, post.trade and post.trade.uid


def observed_to(seconds):
    """A node showed the chain up to this many seconds after the posts."""
    Wallet.update(observed_to=NOW // 1000 + seconds).where(Wallet.address == W).execute()


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


def test_a_later_trade_verifies_and_sets_the_time(service, bot):
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    post = Post.get()
    assert judgment(uid) == ("verified", None, "trade_t")
    assert (post.checked_at, post.event_at) == (NOW + 1, NOW - 3_600_000)
    assert count_heard() == 1
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


@pytest.mark.parametrize("seconds, status", [(TEN - 1, "pending"), (TEN, "not_found")])
def test_a_transaction_missing_after_ten_minutes_is_not_found(service, bot, seconds, status):
    uid = say(bot, "t")
    observed_to(seconds)
    verify()
    assert judgment(uid) == (status, None, None)


def test_listed_transactions_are_waited_for_unless_of_another_wallet(service, bot):
    uid, theirs = say(bot, "t"), say(bot, "theirs")
    listed = {"wallet": Wallet.get(Wallet.address == W), "slot": 1, "seen_at": NOW}
    service.make_bot("Bob", address("other"))
    other = Wallet.get(Wallet.address == address("other"))
    WalletSignature.create(signature=signature("t"), **listed)
    WalletSignature.create(signature=signature("theirs"), **{**listed, "wallet": other})
    observed_to(TEN)
    verify()
    assert judgment(uid) == ("pending", None, None)
    assert judgment(theirs) == ("not_found", None, None)


def test_not_found_posts_are_judged_again_once_listed(service, bot):
    uid = say(bot, "t")
    observed_to(TEN)
    verify()
    assert judgment(uid)[0] == "not_found"
    wallet = Wallet.get(Wallet.address == W)
    WalletSignature.create(wallet=wallet, signature=signature("t"), slot=1, seen_at=NOW)
    verify()
    assert judgment(uid)[0] == "pending"


def test_a_transaction_of_other_wallets_only_is_not_a_trade(service, bot):
    uid = say(bot, "t")
    store_receipt("t", "bob")
    verify()
    assert judgment(uid) == ("mismatch", "other_wallet", None)
    # This is permanent: nothing asks again until the trade exists.
    service.observe_trade(W, "t", 1)
    verify()
    assert judgment(uid)[1] == "other_wallet"
    verify("t")
    assert judgment(uid) == ("verified", None, "trade_t")


def test_damaged_rows_accuse_nobody(service, bot):
    """The post waits until the transaction is fetched again."""
    uid = say(bot, "t")
    store_receipt("t", "bob")
    whole = Receipt.get().body
    Receipt.update(body=b"no zlib").execute()
    verify()
    assert judgment(uid) == ("pending", None, None)
    Receipt.update(body=whole).execute()
    verify()
    assert judgment(uid) == ("mismatch", "other_wallet", None)


def test_a_transaction_that_names_the_wallet_is_waited_for(service):
    """It was stored for another wallet first and isn't listed for this one yet."""
    bot = service.make_bot("Ada", story.address("ada")).bot
    uid = say(bot, "t")
    store_receipt("t", "ada")
    verify_posts(Wallet.get(), set(), NOW + 1)
    assert judgment(uid) == ("pending", None, None)


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
    assert judgment(uid) == ("pending", None, None)


def test_a_verified_post_stays_verified_while_nothing_changes(service, bot):
    """A changed trade outside the list of changes isn't checked."""
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    Trade.update(kind="failed").execute()
    verify()
    assert judgment(uid) == ("verified", None, "trade_t")
    verify("t")
    assert judgment(uid) == ("mismatch", "failed", "trade_t")


def test_with_more_than_400_changed_trades_all_posts_are_judged(service, bot):
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    Trade.update(kind="failed").execute()
    verify(*[f"other {number}" for number in range(400)])
    assert judgment(uid)[0] == "verified"
    verify(*[f"other {number}" for number in range(401)])
    assert judgment(uid) == ("mismatch", "failed", "trade_t")


def test_posts_without_a_signature_or_of_other_wallets_are_untouched(service, bot):
    other = service.make_bot("Bob", address("other")).bot
    plain = posts.publish(bot.id, posts.PostBody(eventId="p", body="b"), NOW).uid
    theirs = say(other, "t")
    service.observe_trade(W, "t", 1)
    verify("t")
    assert judgment(plain) == ("none", None, None)
    assert judgment(theirs) == ("pending", None, None)


def test_verification_reads_flags_and_mints_of_the_trade(service, bot):
    """A swap moved two tokens: posts about either are verified, but not with unexplained value."""
    moved = orjson.dumps([[address("a"), "-5", 0], [address("b"), "7", 0]]).decode()
    service.observe_trade(W, "t", 1, kind="swap", mint=address("a"), token_changes=moved)
    wallet = Wallet.get(Wallet.address == W)

    def judged(mint, **more):
        post = Post(signature=signature("t"), mint=mint, created_at=NOW, **more)
        return judge_post(post, wallet)[:2]

    assert judged(address("b")) == ("verified", None) == judged(None)
    assert judged(address("c")) == ("mismatch", "mint_not_in_trade")
    Trade.update(flags='["value_unexplained"]').execute()
    assert judged(None) == ("none", "value_unexplained")


def test_a_gifted_token_is_not_the_traded_token(service, bot):
    """A was sold, and somebody sent B in the same transaction. The post comes before or after the
    observation.
    """
    a, b = address("a"), address("b")
    early = [say(bot, "t", mint=a), posts.publish(bot.id, about("early", b), NOW).uid]
    service.observe_trade(
        *(W, "t", 1),
        kind="sell",
        mint=a,
        token_changes=orjson.dumps([[a, "-5", 0], [b, "7", 0]]).decode(),
        beside_tokens=orjson.dumps([[b, "7", 0]]).decode(),
    )
    verify("t")
    late = [posts.publish(bot.id, about(f"late {mint}", mint), NOW).uid for mint in (a, b)]
    for traded, given in (early, late):
        assert judgment(traded) == ("verified", None, "trade_t")
        assert judgment(given) == ("mismatch", "mint_not_in_trade", "trade_t")


def about(event, mint):
    return posts.PostBody(eventId=event, body="b", signature=signature("t"), mint=mint)


def test_a_fully_sold_round_trip_token_is_the_traded_token(service, bot):
    service.observe_trade(W, "t", 1, kind="round_trip", mint=address("a"), token_changes="[]")
    post = Post(signature=signature("t"), mint=address("a"), created_at=NOW)
    assert judge_post(post, Wallet.get())[:2] == ("verified", None)


def test_followers_and_the_log_receive_changed_labels(service, bot):
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1)
    verify("t", now=NOW + 7)
    arrival = Arrival.select().order_by(Arrival.id.desc()).get()
    assert (arrival.kind, arrival.post.uid) == ("verification", uid)
    one = log.find_log()
    leaf = orjson.loads(log.read_leaves(one, one.size - 1, one.size)[0])
    told = leaf["kind"], leaf["at"], leaf["post"], leaf["status"]
    assert told == ("verification", NOW + 7, uid, "verified")
    assert Post.get().checked_at == NOW + 7


# ---- several wallets -----------------------------------------------------------------------------
def hold_too(bot, name, since=NOW - 5, until=None):
    """Add a second proven wallet, connected from and to (ms); W still leads."""
    Attachment.update(attached_at=NOW - 9).where(Attachment.bot == bot).execute()
    wallet = Wallet.create(bot=bot, address=name, created_at=NOW)
    times = {"attached_at": since, "detached_at": until}
    Attachment.create(bot=bot, wallet=wallet, ownership="proven", **times)
    return wallet


def test_of_two_wallets_in_a_transaction_the_trading_one_decides(service, bot):
    hold_too(bot, address("b"))
    uid = say(bot, "t")
    service.observe_trade(W, "t", 1, kind="transfer_out")
    service.observe_trade(address("b"), "t", 1, uid="trade_b")
    verify("t")
    assert judgment(uid) == ("verified", None, "trade_b")


def test_a_changed_trade_of_another_wallet_updates_the_post_at_once(service, bot):
    other, uid = hold_too(bot, address("b")), say(bot, "t")
    service.observe_trade(address("b"), "t", 1, uid="trade_b")
    verify_posts(other, {signature("t")}, NOW + 1)
    assert judgment(uid) == ("verified", None, "trade_b")
    Trade.update(flags='["own_wallets", "value_unexplained"]').execute()
    verify_posts(other, {signature("t")}, NOW + 2)
    assert judgment(uid) == ("none", "value_unexplained", "trade_b")


def test_a_transaction_that_names_another_wallet_is_waited_for(service, bot):
    wallet, uid = hold_too(bot, story.address("bob")), say(bot, "t")
    store_receipt("t", "bob")
    verify()
    assert judgment(uid) == ("pending", None, None)
    # Transactions listed only for that wallet don't count as missing either.
    WalletSignature.create(signature=signature("t"), wallet=wallet, slot=1, seen_at=NOW)
    Wallet.update(observed_to=NOW // 1000 + TEN).execute()
    verify()
    assert judgment(uid) == ("pending", None, None)


@pytest.mark.parametrize("behind", [W, address("b")])
def test_nothing_is_missing_until_every_wallet_was_observed_later(service, bot, behind):
    hold_too(bot, address("b"))
    uid = say(bot, "t")
    Wallet.update(observed_to=NOW // 1000 + TEN).where(Wallet.address != behind).execute()
    verify()
    assert judgment(uid) == ("pending", None, None)
    Wallet.update(observed_to=NOW // 1000 + TEN).execute()
    verify()
    assert judgment(uid) == ("not_found", None, None)


@pytest.mark.parametrize(
    ("since", "until", "status"),
    [
        *((NOW, None, "verified"), (NOW + 1, None, "pending")),
        *((NOW - 5, NOW, "verified"), (NOW - 5, NOW - 1, "pending")),
    ],
)
def test_another_wallet_counts_while_it_was_connected(service, bot, since, until, status):
    hold_too(bot, address("b"), since, until)
    uid = say(bot, "t")
    service.observe_trade(address("b"), "t", 1)
    verify("t")
    assert judgment(uid)[0] == status


# ---- what an earlier bot did ---------------------------------------------------------------------
HOUR = 3_600_000


@pytest.fixture
def heir(service):
    """A bot that claims W an hour before its posts; Ada had it until an hour before that."""
    ada, bob = service.make_bot("Ada", W).bot, service.make_bot("Bob").bot
    Attachment.update(attached_at=NOW - 9 * HOUR).execute()
    wallets.detach_wallet(ada, NOW - 2 * HOUR)
    wallets.attach_wallet(service.config, bob, W, NOW - HOUR)
    return bob


OF_ADA = ("mismatch", "other_wallet", None)


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(
    "before_ms, verdict",
    [
        (3 * HOUR, OF_ADA),
        # Nobody had it then: trades before a claim stay with the earlier bot.
        (HOUR + 1_000, OF_ADA),
        (HOUR, ("verified", None, "trade_t")),
        (0, ("verified", None, "trade_t")),
        (None, OF_ADA),
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
    service.observe_trade(W, "t", 1, block_time=(NOW - 3 * HOUR) // 1000)
    uid = say(heir, "t")
    assert judgment(uid) == OF_ADA
    wallets.attach_wallet(service.config, heir, W, NOW + 1, "proven")
    assert judgment(uid) == ("verified", None, "trade_t")


def test_a_bot_keeps_its_posts_when_another_claims_or_proves_the_wallet(service, bot):
    Attachment.update(attached_at=NOW - 9 * HOUR).execute()
    service.observe_trade(W, "t", 1, block_time=(NOW - 10 * HOUR) // 1000)
    uid = say(bot, "t")
    bob = service.make_bot("Bob").bot
    wallets.detach_wallet(bot, NOW + 1)
    for ownership in ("claimed", "proven"):
        wallets.attach_wallet(service.config, bob, W, NOW + 2, ownership)
        verify("t")
        assert judgment(uid) == ("verified", None, "trade_t")


def test_a_claim_takes_nothing_another_bot_proved(service, bot):
    """Bob proves the wallet that Ada claimed first, leaves, and Ada claims it again."""
    Attachment.update(attached_at=NOW - 9 * HOUR).execute()
    bob = service.make_bot("Bob").bot
    wallets.attach_wallet(service.config, bob, W, NOW - 5 * HOUR, "proven")
    wallets.detach_wallet(bob, NOW - 4 * HOUR)
    wallets.attach_wallet(service.config, bot, W, NOW - HOUR)
    service.observe_trade(W, "t", 1, block_time=(NOW - 8 * HOUR) // 1000)
    assert judgment(say(bot, "t")) == OF_ADA
