"""What the benches of requests begin with: a database made through the product's own writes."""

import config
import storage
from bench import interface
from models import Post, Trade


def test_the_bench_of_the_interface_begins_with_verified_posts_of_logged_trades(tmp_path):
    folder = str(tmp_path / "data")
    key = interface.seed(folder)
    assert key.startswith("cnd_pub_")
    database = storage.connect(config.load({"DATA_DIR": folder}, dotenv=None))
    with database.connection_context():
        trades = {row.id for row in Trade.select(Trade.id)}
        posts = list(Post.select())
        assert len(trades) == interface.SEEDED
        assert {post.trade_id for post in posts} == trades
        assert {post.status for post in posts} == {"verified"}
        assert all(post.leaf_id for post in posts)
    database.close_all()
