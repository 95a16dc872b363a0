"""The market's tables: tokens, and snapshots of their prices."""

from peewee import (
    SQL,
    BigIntegerField,
    BooleanField,
    ForeignKeyField,
    IntegerField,
    TextField,
)

from models import Base


class QuoteColumns(Base):
    """Columns of a provider's quote of a token. Amounts are exact decimal text, or null if unknown.

    `source`: dexscreener | geckoterminal. `price_sol`: DexScreener has it only for pairs quoted in
    SOL. `pool_sol`: the SOL side of the pool. `absurd`: why the price is implausible, not_positive
    | jump. `venue`: the provider's ID of the exchange. `pair`: the pool's address, shortened in a
    snapshot.
    """

    source = TextField(null=True)
    price_sol = TextField(null=True)
    price_usd = TextField(null=True)
    liquidity_usd = TextField(null=True)
    pool_sol = TextField(null=True)
    volume24h_usd = TextField(null=True)
    absurd = TextField(null=True)
    venue = TextField(null=True)
    pair = TextField(null=True)
    market_cap_usd = TextField(null=True)
    volume5m_usd = TextField(null=True)
    volume1h_usd = TextField(null=True)


class Token(QuoteColumns):
    """A mint that was discovered or that an observed wallet moved, with its latest quote.

    The quote is from `quoted_at`. Symbol and name are untrusted text. `found_by`: dexscreener |
    geckoterminal | wallets, or null if a wallet only moved it. The token is priced and listed while
    `tracked_at` is set. `held`: whether it has an open paper position. `checks`: JSON [{key, label,
    status, detail, checkedAt}...].
    """

    mint = TextField(unique=True)
    symbol = TextField(null=True)
    name = TextField(null=True)
    decimals = IntegerField(null=True)
    found_by = TextField(null=True)
    discovered_at = BigIntegerField(null=True)
    tracked_at = BigIntegerField(null=True)
    held = BooleanField(default=False)
    asked_at = BigIntegerField(default=0)
    quoted_at = BigIntegerField(null=True)
    pair_url = TextField(null=True)
    pair_created_at = BigIntegerField(null=True)
    # The side of the pool that isn't SOL, in whole tokens.
    pool_tokens = TextField(null=True)
    # Percentages.
    change5m_pct = TextField(null=True)
    change1h_pct = TextField(null=True)
    checks = TextField(null=True)
    # Basis points.
    transfer_fee_bps = IntegerField(null=True)
    checked_at = BigIntegerField(null=True)
    # JSON of chain.amounts.Scale, or null if raw units are displayed unchanged.
    scale = TextField(null=True)

    class Meta:
        indexes = ((("tracked_at",), False),)


Token.add_index(
    Token.index(
        Token.discovered_at, Token.id, where=SQL("tracked_at IS NOT NULL"), name="token_listed"
    )
)


Token.add_index(Token.index(Token.mint, where=SQL("scale IS NOT NULL"), name="token_scaled"))


class Snapshot(QuoteColumns):
    """A quote kept for paper mode until `expires_at` (market.rules.keep_until).

    Null means forever, because a decision or a fill refers to it. IDs rise with `taken_at`.
    `fall_check` is the JSON of market.rules.FallCheck if a held token's price fell sharply, or else
    null. `reserves` is the JSON of chain.reading.pools.PoolReading if the snapshot is from an
    observed transaction (`source`: wallets), or else null.
    """

    token = ForeignKeyField(Token, backref="snapshots", index=False)
    taken_at = BigIntegerField()
    expires_at = BigIntegerField(null=True, index=True)
    fall_check = TextField(null=True)
    reserves = TextField(null=True)

    class Meta:
        indexes = ((("token", "taken_at"), False),)


TABLES = (Token, Snapshot)
