"""Tables and constraints. Those of the market and of paper mode are in the rooms' `tables.py`.

Units: `*_at` are UTC milliseconds, `block_time` is UTC seconds as the chain gives it, lamports are
integers (they fit a signed 64-bit column); raw token amounts are u64 and do not, so they are
decimal text inside JSON or zero-padded text columns. JSON columns hold text made by `orjson`; the
class that writes a column names its shape. Hashes are SHA-256, in hex.
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
    """A table of this database."""

    class Meta:
        database = database
        legacy_table_names = False
        strict_tables = True


# ---- people, bots, keys --------------------------------------------------------------------------
class Owner(Base):
    """Who created bots. `recovery_hash` is of the recovery code, None once the account is deleted;
    `posts_bytes` is what the owner's posts take together (accounts.posts.measure_post).
    """

    id = AutoField()
    uid = TextField(unique=True)
    recovery_hash = TextField(null=True, unique=True)
    created_at = BigIntegerField()
    posts_bytes = BigIntegerField(default=0)


class Bot(Base):
    """An AI influencer that posts, and may have an observed wallet.

    The handle is lower case and derived from the name; names that look alike share `likeness`
    (accounts.names). `voice`: JSON {tone, style[], adjectives[], topics[], catchphrases[], emoji}.
    `salt`: of the hash in the last `profile` leaf. The observer only posts trades that happened
    after `auto_post_since`.
    """

    id = AutoField()
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
    # When its place on the leaderboard was worked out last; null: it is to be.
    standing_at = BigIntegerField(null=True)
    salt = TextField(default="")


Bot.add_index(Bot.index(Bot.id, where=SQL("standing_at IS NULL"), name="bot_without_standing"))


class Key(Base):
    """An API key, of which only the hash is stored; a read key has no bot.

    `scope`: read | publish | inbox; `prefix`: cnd_read_ | cnd_pub_ | cnd_inbox_. When it was last
    used is in the rate-limit counters, so that no cached list changes.
    """

    id = AutoField()
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
    # No column; filled in by accounts.api_keys.list_keys.
    last_used_at: int | None = None


class Session(Base):
    """A signed-in browser. Its cookie has a random ID, this table the hash; deleting it signs out.

    `seen_at` is written at most once an hour. `challenge` is a proof of wallet ownership under way,
    JSON {text, bot, wallet, endsAt, action}; it works once.
    """

    id = AutoField()
    owner = ForeignKeyField(Owner, backref="sessions")
    hash = TextField(unique=True)
    created_at = BigIntegerField()
    seen_at = BigIntegerField()
    challenge = TextField(null=True)


# ---- what is observed ----------------------------------------------------------------------------
# Why a wallet is not observed: `Wallet.trouble` of an address that a node says is a program.
IS_PROGRAM = "this address is a program, not a wallet"


class Wallet(Base):
    """A public address that is or was observed, and what observation derived from it.

    `bot` holds it now, else held it last; whose its trades are, BOT_OF_TRADE decides. Where `bot`
    merely claimed it after another bot had held it, `earlier_bot` is who proved it last, else who
    held it first, and trades are `bot`'s since `bot_since` (ms). Else both are null and all trades
    are `bot`'s.
    """

    id = AutoField()
    address = TextField(unique=True)
    bot = ForeignKeyField(Bot, backref="wallets")
    bot_id: int
    earlier_bot = ForeignKeyField(Bot, null=True, backref="earlier_wallets")
    earlier_bot_id: int | None
    bot_since = BigIntegerField(null=True)
    created_at = BigIntegerField()
    # When a node last told of it, it is polled next, its token accounts were last listed.
    polled_at = BigIntegerField(null=True, index=True)
    due_at = BigIntegerField(default=0)
    accounts_at = BigIntegerField(null=True)
    # When it was given up, until all that it did before was seen.
    closing_at = BigIntegerField(null=True)
    # Backfilled: every address was scanned to its end at least once.
    backfilled = BooleanField(default=False)
    # A gap is repaired no earlier than this.
    repair_at = BigIntegerField(default=0)
    # Digest of the rules its entries were read with; while they are read again, the id reached.
    rules = TextField(default="")
    # Block time up to which a node's view was seen.
    observed_to = BigIntegerField(null=True)
    # Derived from the ledger. JSON: Coverage, the results, openPositions, reconciliation and
    # averageCost of Bot in the API, `by_quote` (quotes); `last_trade_at` (ms) counts trades;
    # `imbalance` (lamports) and, by mint, `quote_imbalance`: what books leave over though nothing
    # is missing, a bug.
    coverage = TextField(null=True)
    results = TextField(null=True)
    positions = TextField(null=True)
    last_trade_at = BigIntegerField(null=True)
    reconciliation = TextField(null=True)
    average_cost = TextField(null=True)
    by_quote = TextField(null=True)
    # Lamports realized while bots held it; null before that was worked out.
    forward_realized = BigIntegerField(null=True, index=True)
    imbalance = BigIntegerField(default=0)
    quote_imbalance = TextField(default="{}")
    # Why observing it fails now (a sentence, or null), since when, how often in a row.
    trouble = TextField(null=True)
    trouble_at = BigIntegerField(null=True)
    trouble_tries = IntegerField(default=0)
    # Token accounts beyond listing.MAX_ADDRESSES in the last list of them.
    accounts_left_out = IntegerField(default=0)
    # Transactions of earlier slots are not loaded, for there are too many. 0: look how far back
    # there is room by now.
    history_from = BigIntegerField(null=True)
    # Percent used of the nearer limit, of transactions or of token accounts (coverage.Progress).
    filled = IntegerField(default=0)


# The bot that a trade `t` of a wallet `w` belongs to, as SQL: the one place that decides. A trade
# without a block time goes to no claim.
BOT_OF_TRADE = """CASE WHEN w.bot_since IS NULL OR t.block_time * 1000 >= w.bot_since THEN w.bot_id
                  ELSE w.earlier_bot_id END"""


class Attachment(Base):
    """Which bot held which wallet from when to when (ms). At most one open row per wallet; of a bot
    with several, each is proven, and the first one leads. `ownership`: claimed | proven.

    Derived from the ledger, null before the first publication: tokens acquired in it at a known
    cost and still held, and lamports realized in it.
    """

    id = AutoField()
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
    """A watched address of a wallet: itself, or a token account it ever owned. Its coverage, as
    docs/observing.md defines it.

    Everything listed up to `head_slot` was seen at least once. `full_scans` counts full scans,
    `scan_new` what the last one listed that was unknown, `scan_cursor` (JSON) is one under way, so
    that a restart resumes it; `endpoint` labels the node that served it.
    """

    id = AutoField()
    wallet = ForeignKeyField(Wallet, backref="addresses", index=False)
    address = TextField()
    head_slot = BigIntegerField(null=True)
    full_scans = IntegerField(default=0)
    scan_new = IntegerField(null=True)
    scanned_at = BigIntegerField(null=True)
    scan_cursor = TextField(null=True)
    endpoint = TextField(null=True)
    # What a node says the token account holds (raw units), where no known transaction touched it.
    held_mint = TextField(null=True)
    held_amount = TextField(null=True)
    held_decimals = IntegerField(null=True)
    # The slot of the node's answer.
    held_slot = BigIntegerField(null=True)

    class Meta:
        indexes = ((("wallet", "address"), True), (("address",), False))


class Receipt(Base):
    """A finalized transaction as the node gave it (`body`: reading.packing), stored once for all
    wallets it names. `tx_index` is its place in the block, `digest` is reading.digests' of it.
    """

    id = AutoField()
    signature = TextField(unique=True)
    slot = BigIntegerField()
    tx_index = IntegerField(null=True)
    block_time = BigIntegerField(null=True)
    body = BlobField()
    endpoint = TextField()
    stored_at = BigIntegerField()
    digest = TextField()


class WalletSignature(Base):
    """A signature listed for a wallet. `state` is pending until its transaction is stored, then
    stored; `problem` says why it could not be taken in.

    `head`: arrived after the first full scan, so fetched before the backfill. `entry`: packed JSON
    of chain.reading.entries.Entry, once stored. `idle`: it changed nothing of the wallet.
    """

    id = AutoField()
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
    """A transaction as it concerns one wallet. Derived: `rebuild` makes the same rows again from
    the stored transactions.

    `id` is the order of arrival, by which followers page; `uid` is made from wallet and signature
    and survives every rebuild. `place` sorts inside a slot: tx_index, or 0. Money is in
    lamports, unless `currency` says otherwise.
    """

    id = AutoField()
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
    # JSON [[mint, raw change, decimals]...], by mint
    token_changes = TextField()
    sol_change = BigIntegerField()
    fee = BigIntegerField()
    tip = BigIntegerField()
    rent = BigIntegerField()
    # The money that it was priced in: a stablecoin's mint, or empty for SOL. The next four amounts
    # and the costs in `lots` are raw units of it.
    currency = TextField(default="")
    # matched | partial | unmatched | not_applicable.
    realized = TextField()
    result = BigIntegerField(null=True)
    proceeds = BigIntegerField(null=True)
    cost = BigIntegerField(null=True)
    matched_raw = TextField()
    unmatched_raw = TextField()
    # JSON [[trade uid or null, raw amount, cost or null]...]
    lots = TextField()
    # 1: it sold, for a stablecoin, units that were paid for in another money.
    paid_elsewhere = IntegerField(default=0)
    # JSON list of words, sorted
    flags = TextField()
    # What of sol_change and token_changes did not pass through the venue; the latter JSON likewise.
    beside_sol = BigIntegerField(default=0)
    beside_tokens = TextField(default="[]")
    # How much of a trade left or entered `counterparties` (JSON list of addresses): 0 to 100, null
    # where nothing is priced.
    explained = IntegerField(null=True)
    counterparties = TextField(default="[]")
    # Known cost of lots that left without a sale.
    cost_left = BigIntegerField(default=0)
    # Over all derived columns: a rebuild writes only the rows whose digest differs.
    digest = TextField()

    class Meta:
        indexes = (
            (("slot", "place", "id"), False),
            (("wallet", "slot", "place", "id"), False),
            (("kind", "block_time"), False),
            (("wallet", "id"), False),
        )


class Post(Base):
    """What a bot said. The words never change; `status` and what belongs to it are moved by
    observation alone, and `hide` takes the words away.

    `source`: bot | observer; `channel`: api | studio | discord | observer; `claim`: the first post
    of its bot about its transaction; `wallet`: the one it is judged against, for ever; `status`:
    none | pending | verified | mismatch | not_found; `delay`: seconds after its trade, of the bot's
    first verified post about it; `hidden_hash`: what a retry is compared with once the words are
    gone; `leaf_id`: its leaf of the log, which holds the hash of its words with `salt`.
    """

    id = AutoField()
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
            (("source", "status", "id"), False),  # of all, a token, a bot, both (web.api.timeline)
            (("mint", "source", "status", "id"), False),
            (("bot", "source", "status", "id"), False),
            (("bot", "mint", "source", "status", "id"), False),
        )


class Arrival(Base):
    """What followers are told, in the order it became true here, written by storage.arrivals in the
    transaction of what it tells. Rows stay for ever, so that no id is used twice; a follower's
    cursor is an id. Every engine has one writer at a time, so ids appear in their order.
    `kind`: post | trade | verification (of a post) | coverage (of a wallet) | restore (nothing to
    tell, but ids go on above it). `trade` is null where a rebuild took it back.
    """

    id = AutoField()
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
    """The health of a background job, by its name in jobs.py. `state`: ok | failing | off |
    unknown (at its first pass since it was off); `details`: JSON, the job's own.
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
