"""How long after its trades a bot posts about them."""

import json
from collections import Counter, defaultdict

from peewee import BigIntegerField, ForeignKeyField, IntegerField, Model, TextField

# The first verified post of a bot about a trade.
TIME_POSTS = """
UPDATE post SET delay = (
    SELECT CASE WHEN post.created_at < t.block_time * 1000 THEN 0
           ELSE (post.created_at - t.block_time * 1000) / 1000 END
    FROM trade t WHERE t.id = post.trade_id)
WHERE status = 'verified' AND trade_id IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM post e WHERE e.bot_id = post.bot_id AND e.trade_id = post.trade_id
    AND e.status = 'verified' AND (e.created_at, e.id) < (post.created_at, post.id))
"""


def up(migrator, db):
    migrator.migrate(migrator.add_column("post", "delay", BigIntegerField(null=True)))

    class Bot(Model):
        class Meta:
            database = db
            table_name = "bot"

    class DelayTotal(Model):
        bot = ForeignKeyField(Bot, primary_key=True)
        posted = IntegerField()
        within_minute = IntegerField()
        median = BigIntegerField(null=True)
        delays = TextField()

        class Meta:
            database = db
            table_name = "delay_total"
            strict_tables = True

    db.create_tables([DelayTotal])
    db.execute_sql(TIME_POSTS)
    delays = defaultdict(Counter)
    timed = "SELECT bot_id, delay FROM post WHERE delay IS NOT NULL"
    for bot, delay in db.execute_sql(timed).fetchall():
        # Two significant digits.
        unit = 10 ** max(0, len(str(delay)) - 2)
        delays[bot][delay // unit * unit] += 1
    for bot, counted in delays.items():
        DelayTotal.create(bot=bot, **sum_delays(sorted(counted.items())))


def sum_delays(counted):
    """Columns of what was posted after so many seconds: [(seconds, count), ...] in order."""
    every = [delay for delay, count in counted for _ in range(count)]
    return {
        "posted": len(every),
        "within_minute": sum(delay <= 60 for delay in every),
        "median": every[(len(every) - 1) // 2],
        "delays": json.dumps(counted, separators=(",", ":")),
    }
