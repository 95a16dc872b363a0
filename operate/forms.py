"""Check the form of data without a second source: whether each text, number and date is a possible
value of its column.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from peewee import BigIntegerField, BooleanField, ForeignKeyField, IntegerField, TextField

from accounts.acts import ACTS
from accounts.conduct import ABOUT
from chain.stored.tables import CHANGES, LOTS, NAMES, WALLET_PARTS
from models import Post
from operate import schema
from operate.differences import Difference
from operate.readers import Reader
from storage.rows import Shape, make_shape, read_stored

BASE58 = "[1-9A-HJ-NP-Za-km-z]"
ADDRESS, SIGNATURE, HASH = rf"{BASE58}{{32,44}}", rf"{BASE58}{{64,88}}", "[0-9a-f]{64}"
# By table and column.
FORMS = {
    "owner": {"uid": "owner_[0-9a-f]{24}", "recovery_hash": HASH},
    "bot": {"uid": "bot_[0-9a-f]{24}", "handle": "[^A-Z]+"},
    "key": {
        "uid": "key_[0-9a-f]{24}",
        "hash": HASH,
        "scope": "read|publish|inbox",
        "prefix": "cnd_(read|pub|inbox)_",
        "last4": "[0-9A-Za-z]{4}",
    },
    "session": {"hash": HASH},
    "registration": {"wallet": ADDRESS, "source": "|[0-9a-f]{12}", "claim_hash": HASH},
    "admin_login": {"hash": HASH},
    "admin_session": {"uid": "admin_[0-9a-f]{24}", "hash": HASH},
    "admin_act": {"who": "command line|admin_[0-9a-f]{24}", "what": "|".join(ACTS)},
    "report": {"uid": "report_[0-9a-f]{24}", "about": "|".join(ABOUT)},
    "ban": {"kind": "owner|wallet", "target": rf"owner_[0-9a-f]{{24}}|{ADDRESS}"},
    "wallet": {"address": ADDRESS, "rules": "|[0-9a-f]{16}"},
    "attachment": {"ownership": "claimed|proven"},
    "address": {"address": ADDRESS, "held_mint": ADDRESS, "held_amount": r"\d{1,20}"},
    "receipt": {"signature": SIGNATURE},
    "sighting": {"signature": SIGNATURE, "state": "pending|stored"},
    "trade": {"uid": "trade_[0-9a-f]{24}", "signature": SIGNATURE, "digest": "|[0-9a-f]{24}"},
    "post": {
        "uid": "post_[0-9a-f]{24}",
        "mint": ADDRESS,
        "signature": SIGNATURE,
        "source": "bot|observer",
        "channel": "api|studio|discord|observer",
        "status": "none|pending|verified|mismatch|not_found",
        "hidden_hash": HASH,
        "status_reason": (
            "other_wallet|failed|not_a_trade|mint_not_in_trade|ambiguous|value_unexplained"
        ),
    },
    "arrival": {"kind": "post|trade|verification|coverage|restore"},
    "mint": {"address": ADDRESS},
    "token": {"mint": ADDRESS},
    "trader": {"uid": "trader_[0-9a-f]{24}"},
}
# JSON by the column's name, in every table.
LIST, OBJECT = make_shape(list[Any]), make_shape(dict[str, Any])
PARTS = {
    **WALLET_PARTS,
    **{"token_changes": CHANGES, "beside_tokens": CHANGES, "lots": LOTS},
    **dict.fromkeys(("flags", "counterparties", "marks", "events", "bots"), NAMES),
}
JSON = {
    **{name: part.shape for name, part in PARTS.items()},
    **dict.fromkeys(("checks", "reasons", "reserves"), LIST),
    **dict.fromkeys(("voice", "coverage", "scan_cursor", "details", "fall_check"), OBJECT),
    **dict.fromkeys(("challenge", "settings", "phase", "facts", "asked"), OBJECT),
}
COUNTS = {
    *("slot", "head_slot", "tries", "full_scans", "scan_new", "place", "tx_index", "posts_bytes"),
}
NUMBER = r"-?\d+(\.\d+)?([eE][+-]?\d+)?"
# By the column's name, in every table.
EVERYWHERE = {
    "mint": ADDRESS,
    "signature": SIGNATURE,
    "source": "bot|observer|dexscreener|geckoterminal|wallets",
    "endpoint": r"endpoint \d+",
    **dict.fromkeys(("price_sol", "price_usd", "liquidity_usd", "market_cap_usd"), NUMBER),
    **dict.fromkeys(("pool_sol", "pool_tokens", "change5m_pct", "change1h_pct"), NUMBER),
    **dict.fromkeys(("volume5m_usd", "volume1h_usd", "volume24h_usd"), NUMBER),
}
# Planned times may be in the future.
AHEAD = {
    *("due_at", "repair_at", "expires_at", "claim_ends_at", "auto_post_since"),
    # Of a season.
    *("starts_at", "ends_at"),
}
# In ms: only trading pairs can be older.
FIRST_MS = 1_500_000_000_000
DAY_MS = 86_400_000
CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f]")
# By column: whether a value is possible.
Checks = dict[str, Callable[[Any], Any]]


def check_forms(reader: Reader, now: int) -> Iterator[Difference]:
    """Yield impossible values: text, numbers and dates of all tables. `now` in ms."""
    for model in schema.TABLES:
        checks: Checks = dict(_list_form_checks(model, now))
        if not checks:
            continue
        try:
            yield from _check_rows(reader, model._meta, checks)
        except UnicodeDecodeError:
            yield Difference(model._meta.table_name, "a text is not UTF-8")


def _check_rows(reader: Reader, table: Any, checks: Checks) -> Iterator[Difference]:
    key = table.get_primary_keys()[0].column_name
    selected = ", ".join(f'"{column}"' for column in (key, *checks))
    for number, *values in reader.rows(f'SELECT {selected} FROM "{table.table_name}"'):
        for (column, check), value in zip(checks.items(), values, strict=True):
            if value is not None and not _fits(check, value):
                what = f"of row {number} cannot be {value!r:.60}"
                yield Difference(table.table_name, what, field=column)


def _fits(check: Callable[[Any], Any], value: object) -> bool:
    # In a damaged file, values may have a type other than their column's.
    try:
        return bool(check(value))
    except TypeError:
        return False


def _list_form_checks(model: Any, now: int) -> Iterator[tuple[str, Any]]:
    forms = EVERYWHERE | FORMS.get(model._meta.table_name, {})
    for one in model._meta.sorted_fields:
        if one.name in forms and not isinstance(one, ForeignKeyField):
            yield one.column_name, re.compile(forms[one.name]).fullmatch
        elif isinstance(one, BooleanField):
            yield one.column_name, lambda value: value in (0, 1)
        elif one.name in JSON:
            yield one.column_name, partial(_is_json, shape=JSON[one.name])
        elif isinstance(one, BigIntegerField) and one.name.endswith("_at"):
            latest = now + DAY_MS * (4_000 if one.name in AHEAD else 1)
            # 1 marks a wallet that a pass of the observer is polling.
            marks = (0, 1) if one.name == "due_at" else (0,)
            yield one.column_name, partial(_is_time, latest=latest, marks=marks)
        elif isinstance(one, BigIntegerField | IntegerField) and one.name in COUNTS:
            yield one.column_name, lambda value: 0 <= value < 10**12
        elif isinstance(one, TextField) and model is Post:
            yield one.column_name, _is_text


def _is_json(value: Any, shape: Shape) -> bool:
    return read_stored(value, shape) is not None


def _is_time(value: Any, latest: int, marks: tuple[int, ...]) -> bool:
    return value in marks or FIRST_MS <= value <= latest


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and CONTROL.search(value) is None
