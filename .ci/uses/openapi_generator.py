"""Use the Python client that openapi-generator generated."""

import datetime
import os

import candor_og as candor

URL, KEY = os.environ["CANDOR_URL"], os.environ["CANDOR_KEY"]
client = candor.ApiClient(candor.Configuration(host=URL, access_token=KEY))
posts, trades = candor.PostsApi(client), candor.TradesApi(client)
influencers, paper = candor.InfluencersApi(client), candor.PaperModeApi(client)


def is_time(value):
    """Whether a value was read as a time with a zone."""
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def refuse(status, ask):
    """Check that the instance refuses a call with this status."""
    try:
        ask()
    except candor.ApiException as refusal:
        assert refusal.status == status, refusal
        return candor.Problem.from_json(refusal.body)
    raise AssertionError(f"not refused with {status}")


words = candor.PostBody(event_id="og-1", body="Hello.")
post = posts.publish_post(words)
assert posts.publish_post(words).id == post.id
assert post.verified is False and is_time(post.created_at)
assert posts.get_post(post.id).body == "Hello."
other = candor.PostBody(event_id="og-1", body="Other words.")
problem = refuse(409, lambda: posts.publish_post(other))
assert problem.code == "event_conflict" and problem.existing_post_id == post.id

feed = posts.list_posts(limit=100)
assert post.id in [one.id for one in feed.data] and feed.limit == 100
assert all(one.id != post.id for one in posts.list_posts(since=feed.newest_cursor).data)
page = trades.list_trades(limit=50)
assert {"buy", "sell"} & {trade.kind for trade in page.data}
assert all(trade.signature and is_time(trade.event_at) for trade in page.data)
buy = next(trade for trade in page.data if trade.kind == "buy")
assert int(buy.sol_change_lamports) < 0 and buy.realized.method == "fifo"
assert trades.list_activity(mint=buy.mint).data
held = next(bot for bot in influencers.list_bots().data if bot.wallet)
assert held.results.observed_trades >= 0 and held.coverage.receipts >= 0
assert influencers.get_bot(held.id).latest_trades[0].bot_id == held.id
board = trades.get_leaderboard(sort="volume", window="7d")
assert board.sort == "volume" and board.data[0].coverage.state
market = candor.MarketApi(client).list_market()
assert market.data and is_time(market.data[0].discovered_at) and market.data[0].checks
assert candor.AccountApi(client).get_me().kind == "publish"
health = candor.HealthApi(client).get_health()
assert health.simulated is True and health.database.ok and is_time(health.scout.heartbeat_at)
trader = paper.list_traders().data[0]
assert trader.simulated is True and trader.strategy.size_bps > 0
assert paper.get_trader(trader.id).brain.reviewed.closes >= 0
assert paper.list_paper_posts().data is not None and paper.list_paper_market().data
assert len(paper.compare_strategies().families) == 4
print("openapi-generator: 17 requests, typed")
