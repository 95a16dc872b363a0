"""Tables and constraints. The tables of the market and paper mode are in their own `tables.py`.

Columns named `*_at` are UTC milliseconds. `block_time` is UTC seconds, as on the chain. Lamports
are integers, because they fit a signed 64-bit column. Raw token amounts are u64 and don't fit, so
they are decimal text in JSON or zero-padded text columns. JSON columns contain text written by
`orjson`; the class that writes a column defines its shape. Hashes are SHA-256, in hex.
"""

from peewee import (
    SQL,
    AutoField,
    BigIntegerField,
    BlobField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    Model,
    TextField,
)

from storage import database


class Base(Model):
    # Peewee adds it to each table without another primary key.
    id: AutoField

    class Meta:
        database = database
        legacy_table_names = False
        strict_tables = True


# ---- people, bots, keys --------------------------------------------------------------------------
class Owner(Base):
    """`recovery_hash` is null once the account is deleted.

    `posts_bytes` is the stored size of the owner's posts (accounts.posts.store_post).
    """

    uid = TextField(unique=True)
    recovery_hash = TextField(null=True, unique=True)
    created_at = BigIntegerField()
    posts_bytes = BigIntegerField(default=0)


class Bot(Base):
    """An AI influencer that posts and may have an observed wallet.

    The handle is lowercase and derived from the name; look-alike names share `likeness`
    (accounts.fields). `voice`: JSON {tone, style[], adjectives[], topics[], catchphrases[], emoji}.
    `salt` is the salt of the hash in the last `profile` leaf. The observer only posts trades that
    happened after `auto_post_since`.
    """

    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="bots")
    owner_id: int
    handle = TextField(unique=True)
    name = TextField()
    likeness = TextField(default="", index=True)
    bio = TextField(default="")
    voice = TextField()
    avatar_url = TextField(null=True)
    auto_post = BooleanField(default=False)
    auto_post_since = BigIntegerField(null=True)
    created_at = BigIntegerField()
    retired_at = BigIntegerField(null=True)
    # When the leaderboard entry was last computed, or null if it is due.
    standing_at = BigIntegerField(null=True)
    salt = TextField(default="")


Bot.add_index(Bot.index(Bot.id, where=SQL("standing_at IS NULL"), name="bot_without_standing"))


class Key(Base):
    """An API key. Only its hash is stored. A read key has no bot.

    `scope`: read | publish | inbox; `prefix`: cnd_read_ | cnd_pub_ | cnd_inbox_. The time of last
    use is in the rate-limit counters, because a write here would invalidate cached lists.
    """

    uid = TextField(unique=True)
    owner = ForeignKeyField(Owner, backref="keys")
    owner_id: int
    bot = ForeignKeyField(Bot, null=True, backref="keys")
    bot_id: int | None
    scope = TextField()
    name = TextField(default="")
    prefix = TextField()
    last4 = TextField()
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    expires_at = BigIntegerField(null=True)
    revoked_at = BigIntegerField(null=True)
    # Not a column. accounts.api_keys.list_keys sets it.
    last_used_at: int | None = None


class Session(Base):
    """A signed-in browser. The cookie's random id is stored hashed.

    `seen_at` is written at most once an hour. `challenge` is a proof of wallet ownership in
    progress, as JSON {text, bot, wallet, endsAt, action}. It works once.
    """

    owner = ForeignKeyField(Owner, backref="sessions")
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    seen_at = BigIntegerField()
    challenge = TextField(null=True)


# ---- what is observed ----------------------------------------------------------------------------
# `Wallet.trouble` of an address that a node calls a program. It isn't observed.
IS_PROGRAM = "this address is a program, not a wallet"


class Wallet(Base):
    """A public address that is or was observed, and the data derived from it.

    `bot` is the bot it is or was last attached to. BOT_OF_TRADE decides which bot a trade belongs
    to. If `bot` only claimed it after another bot had it, `earlier_bot` is the bot that last proved
    it, or else the first bot it was attached to, and `bot` owns the trades since `bot_since` (ms).
    Otherwise both are null and `bot` owns all trades.
    """

    address = TextField(unique=True)
    bot = ForeignKeyField(Bot, backref="wallets")
    bot_id: int
    earlier_bot = ForeignKeyField(Bot, null=True, backref="earlier_wallets")
    earlier_bot_id: int | None
    bot_since = BigIntegerField(null=True)
    created_at = BigIntegerField()
    # When a node last responded, the next poll, and the last listing of token accounts.
    polled_at = BigIntegerField(null=True, index=True)
    due_at = BigIntegerField(default=0)
    accounts_at = BigIntegerField(null=True)
    # When the wallet was detached. Null once all its earlier activity has been seen.
    closing_at = BigIntegerField(null=True)
    # Whether every address was scanned to its end at least once.
    backfilled = BooleanField(default=False)
    # Don't repair gaps before this time.
    repair_at = BigIntegerField(default=0)
    # Digest of the rules that its entries were read with. While they are being reread, also the
    # last id done.
    rules = TextField(default="")
    # A node has shown the wallet's activity up to this block time.
    observed_to = BigIntegerField(null=True)
    # Derived from the ledger. The text columns are JSON: Coverage, the results, and openPositions,
    # reconciliation and averageCost of Bot in the API, and `by_stablecoin` (chain.stored.tables).
    # `last_trade_at` (ms) counts only trades. `imbalance` (lamports) and `stablecoin_imbalance` (by
    # mint) are differences although no transaction is missing, which means a bug.
    coverage = TextField(null=True)
    results = TextField(null=True)
    positions = TextField(null=True)
    last_trade_at = BigIntegerField(null=True)
    reconciliation = TextField(null=True)
    average_cost = TextField(null=True)
    by_stablecoin = TextField(null=True)
    # Lamports realized while attached to bots, or null until computed.
    forward_realized = BigIntegerField(null=True, index=True)
    imbalance = BigIntegerField(default=0)
    stablecoin_imbalance = TextField(default="{}")
    # Why observing currently fails, since when, and how often in a row.
    trouble = TextField(null=True)
    trouble_at = BigIntegerField(null=True)
    trouble_tries = IntegerField(default=0)
    # Token accounts beyond listing.MAX_ADDRESSES when they were last listed.
    accounts_left_out = IntegerField(default=0)
    # Older transactions aren't loaded: too many. 0 means: check again how far back there is room.
    history_from = BigIntegerField(null=True)
    # Percentage used of the tighter limit, on transactions or token accounts (coverage.Progress).
    filled = IntegerField(default=0)


# SQL for the bot that a trade `t` of a wallet `w` belongs to. Only this decides. A trade without a
# block time never belongs to a bot that only claimed the wallet.
BOT_OF_TRADE = """CASE WHEN w.bot_since IS NULL OR t.block_time * 1000 >= w.bot_since THEN w.bot_id
                  ELSE w.earlier_bot_id END"""


class Attachment(Base):
    """A period (ms) in which a wallet is or was attached to a bot. `ownership`: claimed | proven.

    A wallet has at most one open row. A bot can have several if all are proven. The first one is
    its primary wallet.

    Two columns are derived from the ledger and null before the first publication: `open_positions`
    (tokens acquired in this period at a known cost and still held) and `forward_realized` (lamports
    realized in this period).
    """

    bot = ForeignKeyField(Bot, backref="attachments")
    bot_id: int
    wallet = ForeignKeyField(Wallet, backref="attachments")
    wallet_id: int
    ownership = TextField(default="claimed")
    attached_at = BigIntegerField()
    detached_at = BigIntegerField(null=True)
    open_positions = IntegerField(null=True)
    forward_realized = BigIntegerField(null=True)


OPEN = SQL("detached_at IS NULL")
Attachment.add_index(
    Attachment.index(Attachment.wallet, unique=True, where=OPEN, name="attachment_open_wallet")
)
Attachment.add_index(
    Attachment.index(Attachment.bot, Attachment.attached_at, where=OPEN, name="attachment_open_bot")
)


class Address(Base):
    """A watched address: the wallet itself, or a token account it ever owned (docs/observing.md).

    Every transaction up to `head_slot` was listed at least once. `full_scans` is the number of
    finished full scans. `scan_new` is the number of unknown signatures in the last one.
    `scan_cursor` (JSON) is the position of a scan in progress, which resumes after a restart.
    """

    wallet = ForeignKeyField(Wallet, backref="addresses", index=False)
    address = TextField()
    head_slot = BigIntegerField(null=True)
    full_scans = IntegerField(default=0)
    scan_new = IntegerField(null=True)
    scanned_at = BigIntegerField(null=True)
    scan_cursor = TextField(null=True)
    # Balance (raw units) according to a node, if no known transaction involves the account.
    held_mint = TextField(null=True)
    held_amount = TextField(null=True)
    held_decimals = IntegerField(null=True)

    class Meta:
        indexes = ((("wallet", "address"), True), (("address",), False))


class Receipt(Base):
    """A finalized transaction (`body`, packed by reading.receipts), stored once for all wallets.

    `tx_index` is its position in the block. `digest` covers everything in it that affects a number.
    """

    signature = TextField(unique=True)
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    block_time = BigIntegerField(null=True)
    body = BlobField()
    endpoint = TextField()
    digest = TextField()


class WalletSignature(Base):
    """A signature listed for a wallet: pending until its transaction is stored, then stored.

    `problem` is the reason if it couldn't be processed. `head` means that it arrived after the
    first full scan, so it is fetched before the backfill. `entry` is the packed JSON of
    chain.reading.entries.Entry, once stored. `idle` means that it didn't change the wallet.
    """

    wallet = ForeignKeyField(Wallet, backref="signatures", index=False)
    signature = TextField()
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    head = BooleanField(default=False)
    state = TextField(default="pending")
    entry = BlobField(null=True)
    idle = BooleanField(default=False)
    tries = IntegerField(default=0)
    due_at = BigIntegerField(default=0)
    problem = TextField(null=True)
    seen_at = BigIntegerField()

    class Meta:
        table_name = "sighting"
        indexes = (
            (("signature", "wallet"), True),
            (("wallet", "state", "head", "slot"), False),
        )


# ---- what is derived -----------------------------------------------------------------------------
class Trade(Base):
    """A transaction from the point of view of one wallet. `rebuild` recreates the same rows.

    Followers page by `id`, the order of arrival. `uid` is derived from wallet and signature and
    survives rebuilds. `place` is the order within a slot: tx_index, or 0 if unknown. Amounts are
    lamports, unless `currency` says otherwise.
    """

    uid = TextField(unique=True)
    wallet = ForeignKeyField(Wallet, backref="trades", index=False)
    wallet_id: int
    signature = TextField()
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    place = IntegerField(default=0)
    block_time = BigIntegerField(null=True)
    kind = TextField()
    venue = TextField(null=True)
    mint = TextField(null=True)
    # JSON [[mint, raw change, decimals]...], sorted by mint.
    token_changes = TextField()
    sol_change = BigIntegerField()
    fee = BigIntegerField()
    tip = BigIntegerField()
    rent = BigIntegerField()
    # Currency of the price: a stablecoin's mint, or empty for SOL. The next four amounts and the
    # costs in `lots` are in its raw units.
    currency = TextField(default="")
    # matched | partial | unmatched | not_applicable.
    realized = TextField()
    result = BigIntegerField(null=True)
    proceeds = BigIntegerField(null=True)
    cost = BigIntegerField(null=True)
    matched_raw = TextField()
    unmatched_raw = TextField()
    # JSON [[trade uid or null, raw amount, cost or null]...].
    lots = TextField()
    # 1 if the trade sold, for a stablecoin, units paid for in another currency.
    paid_elsewhere = IntegerField(default=0)
    # Sorted JSON list.
    flags = TextField()
    # The parts that bypassed the venue.
    beside_sol = BigIntegerField(default=0)
    beside_tokens = TextField(default="[]")
    # Share (0 to 100) of the value that came from or went to `counterparties` (JSON list of
    # addresses). Null if nothing is priced.
    explained = IntegerField(null=True)
    counterparties = TextField(default="[]")
    # The known cost of lots that were moved out unsold.
    cost_left = BigIntegerField(default=0)
    # Covers all derived columns. A rebuild only writes rows whose digest differs.
    digest = TextField()

    class Meta:
        indexes = (
            (("slot", "place", "id"), False),
            (("wallet", "slot", "place", "id"), False),
            (("kind", "block_time"), False),
            (("wallet", "id"), False),
        )


class Post(Base):
    """A bot's post. Its text never changes; `hide` erases it.

    Only observation changes `status` and related columns. `source`: bot | observer. `channel`: api
    | studio | discord | observer. `claim`: whether it is the bot's first post about its
    transaction. `wallet`: the wallet that the post is checked against, permanently. `status`: none
    | pending | verified | mismatch | not_found. `delay`: seconds between the trade and the bot's
    first verified post about it. `hidden_hash`: compared with retries once the text is erased.
    `leaf_id`: the post's log leaf, which contains the hash of the text and `salt`.
    """

    uid = TextField(unique=True)
    bot = ForeignKeyField(Bot, backref="posts", index=False)
    bot_id: int
    source = TextField()
    channel = TextField()
    key = ForeignKeyField(Key, null=True)
    event_id = TextField()
    body = TextField()
    mint = TextField(null=True)
    symbol = TextField(null=True)
    signature = TextField(null=True)
    reason = TextField(null=True)
    sanitized = BooleanField(default=False)
    claim = BooleanField(default=False)
    wallet = ForeignKeyField(Wallet, null=True, index=False)
    status = TextField(default="none")
    status_reason = TextField(null=True)
    trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")
    trade_id: int | None
    checked_at = BigIntegerField(null=True)
    delay = BigIntegerField(null=True)
    event_at = BigIntegerField()
    created_at = BigIntegerField()
    hidden_at = BigIntegerField(null=True)
    hidden_hash = TextField(null=True)
    leaf_id = BigIntegerField(null=True)
    salt = TextField(null=True)

    class Meta:
        indexes = (
            (("bot", "source", "event_id"), True),
            (("bot", "id"), False),
            (("bot", "claim", "id"), False),
            (("wallet", "status"), False),
            (("mint", "id"), False),
            (("signature",), False),
            (("bot", "signature", "status"), False),
            (("status", "id"), False),
            (
                ("source", "status", "id"),
                False,
            ),  # lists of all posts, by token, bot or both (web.api.timeline)
            (("mint", "source", "status", "id"), False),
            (("bot", "source", "status", "id"), False),
            (("bot", "mint", "source", "status", "id"), False),
        )


class Arrival(Base):
    """An event for followers, written by storage.store_arrival in the transaction it reports.

    Rows are never deleted, so ids aren't reused. A follower's cursor is an id. With one writer at a
    time, ids become visible in order. `kind`: post | trade | verification (of a post) | coverage
    (of a wallet) | restore (a marker: ids after a restored backup are above it). `trade` is null if
    a rebuild deleted it.
    """

    kind = TextField()
    post = ForeignKeyField(Post, null=True, index=False)
    trade = ForeignKeyField(Trade, null=True, on_delete="SET NULL")
    wallet = ForeignKeyField(Wallet, null=True, index=False)


for name, columns, some in (
    ("arrival_of_trade", (Arrival.id, Arrival.trade), "trade_id IS NOT NULL"),
    ("arrival_of_post", (Arrival.id, Arrival.post), "kind = 'post'"),
    ("arrival_about_post", (Arrival.post,), "post_id IS NOT NULL"),
):
    Arrival.add_index(Arrival.index(*columns, where=SQL(some), name=name))


# ---- the jobs ------------------------------------------------------------------------------------
class Job(Base):
    """A background job's status for health checks, by its name in jobs.py.

    `state`: ok | failing | off | unknown (during the first pass after it was off). `details`: JSON
    specific to the job.
    """

    name = TextField(primary_key=True)
    state = TextField()
    heartbeat_at = BigIntegerField(null=True)
    last_success_at = BigIntegerField(null=True)
    last_error = TextField(null=True)
    details = TextField(default="{}")


TABLES = (
    *(Owner, Bot, Key, Session),
    *(Wallet, Attachment, Address, Receipt, WalletSignature),
    *(Trade, Post, Arrival, Job),
)
