"""Use the client that openapi-python-client generated, on typed values."""

import datetime
import os

from candor_opc import AuthenticatedClient, Client
from candor_opc.api.account import get_me
from candor_opc.api.health import get_health
from candor_opc.api.influencers import get_bot, list_bots
from candor_opc.api.market import list_market
from candor_opc.api.paper_mode import compare_strategies, get_trader, list_paper_posts, list_traders
from candor_opc.api.posts import get_post, list_posts, publish_post
from candor_opc.api.trades import get_leaderboard, list_activity, list_trades
from candor_opc.models import GetLeaderboardSort, GetLeaderboardWindow, PostBody, Problem
from candor_opc.types import UNSET

URL, KEY = os.environ["CANDOR_URL"], os.environ["CANDOR_KEY"]
keyed = AuthenticatedClient(base_url=URL, token=KEY)
public = Client(base_url=URL)


def is_time(value):
    """Whether a value was read as a time with a zone."""
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


post = publish_post.sync(client=keyed, body=PostBody(event_id="opc-1", body="Hello."))
again = publish_post.sync(client=keyed, body=PostBody(event_id="opc-1", body="Hello."))
assert post.id == again.id and post.verified is False and is_time(post.created_at), post
assert get_post.sync(post.id, client=keyed).body == "Hello."
refused = publish_post.sync(client=keyed, body=PostBody(event_id="opc-1", body="Other words."))
assert isinstance(refused, Problem) and refused.code == "event_conflict", refused
assert refused.existing_post_id == post.id and refused.errors is UNSET

feed = list_posts.sync(client=keyed, limit=100)
assert post.id in [one.id for one in feed.data] and feed.limit == 100
newer = list_posts.sync(client=keyed, since=feed.newest_cursor)
assert not any(one.id == post.id for one in newer.data)

trades = list_trades.sync(client=keyed, limit=50)
kinds = {str(trade.kind) for trade in trades.data}
assert "buy" in kinds and all(trade.signature for trade in trades.data), kinds
assert all(is_time(trade.event_at) and int(trade.fee_lamports) >= 0 for trade in trades.data)
buy = next(trade for trade in trades.data if str(trade.kind) == "buy")
assert str(buy.token_changes[0].change) and list_activity.sync(client=keyed, mint=buy.mint).data

bots = list_bots.sync(client=keyed)
held = next(bot for bot in bots.data if bot.wallet)
assert held.wallet.address and held.results.observed_trades >= 0 and held.coverage.receipts >= 0
assert get_bot.sync(held.id, client=keyed).latest_trades[0].bot_id == held.id
board = get_leaderboard.sync(
    client=keyed, sort=GetLeaderboardSort.VOLUME, window=GetLeaderboardWindow("7d")
)
assert (
    str(board.sort) == "volume"
    and str(board.window) == "7d"
    and board.data
    and board.data[0].coverage.state
)
market = list_market.sync(client=keyed)
assert market.data and is_time(market.data[0].discovered_at) and market.data[0].checks
assert str(get_me.sync(client=keyed).kind) == "publish"

health = get_health.sync(client=public)
assert health.simulated is True and health.database.ok and is_time(health.scout.heartbeat_at)
trader = list_traders.sync(client=public).data[0]
assert trader.simulated is True and trader.strategy.size_bps > 0
assert get_trader.sync(trader.id, client=public).brain.reviewed.closes >= 0
assert list_paper_posts.sync(client=public).data is not None
assert len(compare_strategies.sync(client=public).families) == 4
wrong = list_bots.sync(client=AuthenticatedClient(base_url=URL, token="cnd_pub_no"))
assert isinstance(wrong, Problem) and wrong.code == "invalid_key"
print("openapi-python-client: 16 requests, typed")
