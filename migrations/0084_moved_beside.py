"""What was bought and sent on at once, or arrived and was sold at once, is found by its token and
counted among who traded it, though as a whole nothing of it changed; what a trade left over of
another token is not.
"""

import json

from peewee import AutoField, CompositeKey, ForeignKeyField, IntegerField, Model, TextField

PAGE = 1_000
SIDED = ("buy", "sell", "swap")


def up(migrator, db):
    trade, mint, trade_mint, token_trader = _define(db)
    concerned = (trade.beside_tokens != "[]") | trade.flags.contains('"residue"')
    changed, last = set(), 0
    while page := list(
        trade.select().where(concerned, trade.id > last).order_by(trade.id).limit(PAGE)
    ):
        last = page[-1].id
        for row in page:
            changed |= _write_moved(row, mint, trade_mint)
    for wallet, address in sorted(changed):
        _renew_traders(wallet, address, mint, trade_mint, token_trader)


def _write_moved(row, mint, trade_mint):
    """Write the rows of a trade anew; return (wallet, mint) of all whose side is another one."""
    moved = _list_moved(row)
    stored = (
        trade_mint.select(mint.address, trade_mint.side)
        .join(mint, on=mint.id == trade_mint.mint)
        .where(trade_mint.trade == row.id)
        .order_by(trade_mint.id)
    )
    before = list(stored.tuples())
    if before == moved:
        return set()
    trade_mint.delete().where(trade_mint.trade == row.id).execute()
    for address, side in moved:
        of_wallet = {"wallet": row.wallet_id, "slot": row.slot, "place": row.place}
        number = _number(mint, address)
        trade_mint.insert(trade=row.id, mint=number, side=side, **of_wallet).execute()
    return {(row.wallet_id, address) for address, _ in {*before} ^ {*moved}}


def _list_moved(row):
    """[(mint, side or None), ...] in the order of the changes, then of those beside the venue."""
    whole, beside = json.loads(row.token_changes), json.loads(row.beside_tokens)
    sides = dict.fromkeys(address for address, *_ in (*whole, *beside))
    if row.mint:
        sides.setdefault(row.mint, None)
    if row.kind in SIDED and "value_unexplained" not in json.loads(row.flags):
        through = dict.fromkeys(sides, 0)
        for sign, rows in ((1, whole), (-1, beside)):
            for address, raw, _ in rows:
                through[address] += sign * int(raw)
        for address, raw in through.items():
            bought = "buy" if raw > 0 and address == row.mint else None
            sides[address] = "sell" if raw < 0 else bought
    return list(sides.items())


def _number(mint, address):
    found = mint.get_or_none(mint.address == address)
    return found.id if found else mint.insert(address=address).execute()


def _renew_traders(wallet, address, mint, trade_mint, token_trader):
    traded = (token_trader.mint == address) & (token_trader.wallet == wallet)
    token_trader.delete().where(traded).execute()
    number = mint.select(mint.id).where(mint.address == address)
    sides = trade_mint.select(trade_mint.side).where(
        trade_mint.wallet == wallet, trade_mint.mint == number, trade_mint.side.is_null(False)
    )
    for (side,) in list(sides.distinct().tuples()):
        token_trader.insert(mint=address, side=side, wallet=wallet).execute()


def _define(db):
    class Base(Model):
        class Meta:
            database = db

    class Wallet(Base):
        class Meta:
            table_name = "wallet"

    class Mint(Base):
        id = AutoField()
        address = TextField(unique=True)

        class Meta:
            table_name = "mint"

    class Trade(Base):
        id = AutoField()
        wallet = ForeignKeyField(Wallet)
        slot = IntegerField()
        place = IntegerField()
        kind = TextField()
        mint = TextField(null=True)
        token_changes = TextField()
        beside_tokens = TextField()
        flags = TextField()

        class Meta:
            table_name = "trade"

    class TradeMint(Base):
        id = AutoField()
        trade = ForeignKeyField(Trade)
        wallet = ForeignKeyField(Wallet)
        mint = ForeignKeyField(Mint)
        side = TextField(null=True)
        slot = IntegerField()
        place = IntegerField()

        class Meta:
            table_name = "trade_mint"

    class TokenTrader(Base):
        mint = TextField()
        side = TextField()
        wallet = ForeignKeyField(Wallet)

        class Meta:
            table_name = "token_trader"
            primary_key = CompositeKey("mint", "side", "wallet")

    return Trade, Mint, TradeMint, TokenTrader
