"""How many seconds after its trades a bot posts about them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from service import NOW, address, signature

from accounts import posts
from accounts.verification import count_delays, find_delay, sum_delays, verify_posts
from chain.stored.tables import DelayTotal
from models import Bot, Post, Trade, Wallet
from operate import inspection

W = address("w")
# Block time used by Service.observe_trade, in Unix seconds.
TRADED = NOW // 1000 - 3600


def say(bot, trade, seconds, **more):
    """Post this many seconds after the trades."""
    event = f"{trade} {seconds}"
    body = posts.PostBody(eventId=event, body="b", signature=signature(trade), **more)
    posts.publish(bot.bot.id, body, (TRADED + seconds) * 1000)


def show(service, bot):
    return service.get(f"/api/v1/bots/{bot.bot.uid}", bot.publish_key.text).json["pace"]


def judge_again(*trades):
    verify_posts(Wallet.get(Wallet.address == W), {signature(one) for one in trades}, NOW)


def test_the_first_verified_post_of_each_trade_counts(service, bot):
    """Delays of 5, 60, 61 and 4,000 s: half are within a minute, and the lower median is 60. Later
    posts about the same trade and posts without a trade don't count.
    """
    nothing = {"postedWithinMinuteShare": None, "postDelaySecondsMedian": None}
    assert show(service, bot) == {"tradesPosted": 0, "withinMinute": 0, **nothing}
    for slot, (name, seconds) in enumerate(zip("abcd", (5, 60, 61, 4_000), strict=True)):
        service.observe_trade(W, name, slot)
        say(bot, name, seconds)
        say(bot, name, seconds + 900)
    service.observe_trade(W, "sent", 9, kind="transfer_out")
    say(bot, "sent", 1)
    say(bot, "never", 1)
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
    service.observe_trade(W, "a", 1)
    say(bot, "a", 10)
    change.execute()
    judge_again("a")
    assert (show(service, bot)["tradesPosted"], Post.get().delay) == (0, None)


def test_an_earlier_post_replaces_a_later_one(service, bot):
    """Posts after 10 and 30 s, before the trade was observed. The first one named a token that the
    trade didn't move, until the trade changed.
    """
    other = address("other")
    say(bot, "a", 10, mint=other)
    say(bot, "a", 30)
    assert show(service, bot)["tradesPosted"] == 0
    service.observe_trade(W, "a", 1)
    moved = orjson.dumps([[other, "1", 0]]).decode()
    for delay in (30, 10):
        judge_again("a")
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
    for slot, (name, seconds) in enumerate((("a", 10), ("a", 900), ("b", 70))):
        if seconds != 900:
            service.observe_trade(W, name, slot)
        say(bot, name, seconds)
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
