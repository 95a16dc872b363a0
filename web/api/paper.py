"""Paper mode as it is shown, to the interface and to the pages alike: rows in, dicts out.
Everything here is simulated and says so.

While the account is under review, or was held up, every figure that could be read as performance is
null; cash and records stay.
"""

import hashlib
import logging
from collections import Counter, defaultdict
from dataclasses import asdict

import orjson

from chain.amounts import exact
from paper import brain, diary, guard
from paper.book import PIPELINE, Close, find_exclusion, public_id
from paper.fills import ASSUMPTIONS, ASSUMPTIONS_OF, MODEL
from paper.market import ALL_SOL, SCALE, percent, value_of
from paper.strategies import FAMILIES, BadSetting, parse_settings, show_settings
from storage import database
from web.api.serialize import show_sol, show_time

log = logging.getLogger("candor.paper")
DAY = guard.DAY
LATEST_CLOSES, LATEST_LINES, LATEST_POSTS, EQUITY_POINTS = 200, 200, 50, 400
SUSPECT = ("under_review", "upheld")
WARNINGS = {
    "under_review": (
        "Under review: returns and rates are withheld. Cash and records are simulated and are not"
        " demonstrated performance."
    ),
    "upheld": (
        "A review of this record was upheld: it does not count. Cash and records are simulated and"
        " are not demonstrated performance."
    ),
}
COVERAGE_NOTE = "Closes and days are evidence of volume. Coverage is not proof of profitability."

# the last review of each open period decides what may be shown of it
TRADERS = """
SELECT t.id, t.uid, t.handle, t.name, t.bio, t.voice, t.family, t.settings, t.start_mode, t.adaptive, t.phase, t.created_at, t.retired_at,
       p.id, p.number, p.starting_cash, p.cash, p.lost_fees, p.opened_at, r.state, r.reasons, r.opened_at, r.decided_at, r.decision
FROM trader t JOIN period p ON p.trader_id = t.id AND p.closed_at IS NULL
LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)"""
TOTALS = """
SELECT c.period_id, COUNT(*), SUM(c.cash), COUNT(CASE WHEN c.cash > 0 THEN 1 END) FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL
WHERE c.closed_at IS NOT NULL AND p.trader_id = COALESCE(?, p.trader_id) GROUP BY c.period_id"""
OPEN = """
SELECT c.period_id, c.number, c.mint, c.symbol, c.decimals, c.opened_at, c.raw, c.price, c.marked_at, c.spent, c.cash, c.held, c.marks, c.pipeline
FROM position c JOIN period p ON p.id = c.period_id AND p.closed_at IS NULL WHERE c.closed_at IS NULL AND p.trader_id = COALESCE(?, p.trader_id) ORDER BY c.id"""
CLOSES = """
SELECT c.number, p.number, c.mint, c.symbol, c.decimals, c.opened_at, c.closed_at, c.reason, c.mid_sold - c.mid_bought, c.slippage, c.fees, c.rent, c.cash, c.spent,
       c.latency_ms, c.marks, c.pipeline, r.state, r.opened_at
FROM position c JOIN period p ON p.id = c.period_id LEFT JOIN review r ON r.id = (SELECT MAX(id) FROM review WHERE period_id = p.id)
WHERE p.trader_id = ? AND c.closed_at IS NOT NULL ORDER BY c.closed_at DESC, c.id DESC LIMIT ?"""
FILLS = """
SELECT COALESCE(f.position, (SELECT MAX(g.position) FROM paper_fill g WHERE g.order_id = o.id)), o.side, o.decided_at, f.at, o.decided_on, f.snapshot, f.raw, f.mid, f.slippage,
       f.pool_fee, f.network_fee, f.rent, f.failed, o.reason, f.model
FROM paper_fill f JOIN paper_order o ON o.id = f.order_id JOIN period p ON p.id = o.period_id WHERE p.trader_id = ? AND o.decided_at >= ? ORDER BY f.id"""
ORDERS = """
SELECT o.side, o.mint, o.symbol, o.decimals, o.amount, o.done, o.reason, o.decided_at, o.expires_at FROM paper_order o JOIN period p ON p.id = o.period_id
WHERE p.trader_id = ? AND o.state = 'open' ORDER BY o.id"""
LINES = """
SELECT d.id, d.at, d.kind, d.mint, d.facts, p.number FROM diary_entry d JOIN period p ON p.id = d.period_id WHERE p.trader_id = ? ORDER BY d.id DESC LIMIT ?"""
KEPT_LINES = """
SELECT d.at, d.kind, d.mint, d.facts FROM diary_entry d JOIN period p ON p.id = d.period_id
WHERE p.trader_id = ? AND d.kind IN ('pause', 'lesson') AND d.at >= ? ORDER BY d.id"""
PERIODS = (
    "SELECT number, starting_cash, cash, opened_at, closed_at, closing_reason FROM period WHERE"
    " trader_id = ? ORDER BY number"
)
POSTS = """
SELECT o.id, o.uid, t.uid, t.name, o.body, o.mint, o.symbol, o.writer, o.event_at, o.created_at, d.kind,
       (SELECT r.state FROM review r JOIN period p ON p.id = r.period_id WHERE p.trader_id = t.id AND p.closed_at IS NULL ORDER BY r.id DESC LIMIT 1)
FROM paper_post o JOIN trader t ON t.id = o.trader_id JOIN diary_entry d ON d.id = o.entry_id"""
COMPARED = """
SELECT t.id, t.family, c.mint, c.symbol, c.opened_at, c.closed_at, c.reason, c.mid_sold - c.mid_bought, c.cash, c.spent, c.pipeline, c.marks,
       (SELECT state FROM review WHERE period_id = p.id ORDER BY id DESC LIMIT 1)
FROM position c JOIN period p ON p.id = c.period_id JOIN trader t ON t.id = p.trader_id WHERE c.closed_at >= ? ORDER BY c.closed_at, c.id"""

GENERATION = """
SELECT (SELECT snapshot FROM engine_state WHERE id = 1), (SELECT MAX(id) FROM trader), (SELECT SUM(version) FROM trader), (SELECT MAX(id) FROM position)"""


def _all(sql, values=()):
    return database.execute_sql(sql, values).fetchall()


# ---- traders -------------------------------------------------------------------------------------
def list_traders():
    """Every trader that plays, oldest first, as the interface's Trader."""
    totals, values = _read_totals(None), defaultdict(int)
    for row in _all(OPEN, (None,)):
        values[row[0]] += _value(row)
    return [
        show_trader(row, totals.get(row[13], (0, 0, 0)), values[row[13]])
        for row in _all(TRADERS + " WHERE t.retired_at IS NULL ORDER BY t.id")
    ]


def find_trader(uid, now):
    """A Trader with its diary, positions, closes, posts and brain, newest first; None for an
    unknown id.
    """
    found = _all(TRADERS + " WHERE t.uid = ?", (uid,))
    if not found:
        return None
    row = found[0]
    ident, handle = row[0], row[2]
    held, closes = _all(OPEN, (ident,)), _all(CLOSES, (ident, LATEST_CLOSES))
    shown = show_trader(row, _read_totals(ident).get(row[13], (0, 0, 0)), sum(map(_value, held)))
    return {
        **shown,
        "periods": _each(_all(PERIODS, (ident,)), show_period),
        "positions": _each(held, lambda one: show_position(handle, one, now)),
        "orders": _each(_all(ORDERS, (ident,)), show_order),
        "closes": _show_closes(ident, handle, closes),
        "diary": _each(_all(LINES, (ident, LATEST_LINES)), lambda one: show_line(handle, one)),
        "posts": _each(
            _all(
                POSTS + " WHERE o.trader_id = ? ORDER BY o.id DESC LIMIT ?", (ident, LATEST_POSTS)
            ),
            show_post,
        ),
        "brain": show_brain(
            ident, handle, [_read_close(handle, one) for one in reversed(closes)], now
        ),
    }


def _read_totals(trader):
    """{period: (closes, net lamports, wins)} of open periods."""
    return {period: (count, net, wins) for period, count, net, wins in _all(TOTALS, (trader,))}


def _value(row):
    """Lamports at the mark; 0 where amount or mark cannot be read."""
    try:
        return min(ALL_SOL, value_of(int(row[6]), int(row[7]), row[4]))
    except ValueError:
        return 0


def show_trader(row, totals, held_value):
    (
        _,
        uid,
        handle,
        name,
        bio,
        voice,
        family,
        settings,
        start_mode,
        adaptive,
        phase,
        created_at,
        retired_at,
        _,
        number,
        starting_cash,
        cash,
        lost_fees,
        opened_at,
        state,
        reasons,
        reviewed_at,
        decided_at,
        decision,
    ) = row
    phase, (closes, net, wins), suppressed = _json(phase, {}), totals, state in SUSPECT
    equity = cash + held_value
    performance = {
        "headlineSuppressed": suppressed,
        "warning": WARNINGS.get(state),
        "returnPct": None if suppressed else hundredths(equity - starting_cash, starting_cash),
        "realizedSol": None if suppressed else show_sol(net - lost_fees),
        "cashSol": show_sol(cash),
        "equitySol": None if suppressed else show_sol(equity),
        "closes": closes,
        "winRate": None if suppressed or not closes else round(wins / closes, 4),
        "startingCashSol": show_sol(starting_cash),
        "period": number,
        "since": show_time(opened_at),
    }
    return {
        "id": uid,
        "handle": handle,
        "name": name,
        "bio": bio,
        "mode": "paper",
        "voice": _json(voice, {}),
        "strategy": {
            "family": family,
            "startMode": start_mode,
            "phase": show_phase(phase),
            "adaptive": adaptive,
            "pipeline": PIPELINE,
            "model": MODEL,
            **_settings_of(family, settings),
        },
        "performance": performance,
        "review": show_review(state, reasons, reviewed_at, decided_at, decision),
        "createdAt": show_time(created_at),
        "retiredAt": show_time(retired_at),
        "simulated": True,
    }


def show_phase(phase):
    phase = {**asdict(guard.Phase()), **phase}
    return {
        "name": phase["name"],
        "closes": phase["closes"],
        "closesNeeded": guard.CLOSES_NEEDED,
        "days": phase["days"],
        "daysNeeded": guard.DAYS_NEEDED,
        "since": show_time(phase["since"]),
        "note": COVERAGE_NOTE,
    }


def show_review(state, reasons, opened_at, decided_at, decision):
    told = _each(
        _json(reasons, []),
        lambda one: {
            "code": one["code"],
            "detail": one["detail"],
            "symbol": one["symbol"],
            "at": show_time(one["at"]),
        },
    )
    return {
        "state": state or "clean",
        "reasons": told,
        "openedAt": show_time(opened_at),
        "decidedAt": show_time(decided_at),
        "decision": decision,
    }


def hundredths(part, whole):
    """A percentage with two decimals, cut toward zero; None of nothing."""
    return float(percent(part, whole)) if whole else None


# ---- what is stored, read so that one odd value spoils no page -----------------------------------
def _json(text, empty):
    """A stored JSON document; `empty` where it is none, or of another shape."""
    try:
        value = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return empty
    return value if type(value) is type(empty) else empty


def _settings_of(family, stored):
    """A strategy's settings, those with defaults included; as they are stored where they are no
    settings of the family.
    """
    given = _json(stored, {})
    try:
        return show_settings(parse_settings(family, given))
    except BadSetting:
        return given


def _each(rows, show):
    """What `show` makes of each row; a row that cannot be read is left out and logged."""
    shown = []
    for row in rows:
        try:
            shown.append(show(row))
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            log.warning("a row of paper mode cannot be shown: %s", type(error).__name__)
    return shown


# ---- positions and closes ------------------------------------------------------------------------
def show_period(row):
    number, starting_cash, cash, opened_at, closed_at, reason = row
    return {
        "number": number,
        "startingCashLamports": str(starting_cash),
        "cashLamports": str(cash),
        "openedAt": show_time(opened_at),
        "closedAt": show_time(closed_at),
        "reason": reason,
        "simulated": True,
    }


def show_position(handle, row, now):
    (
        _,
        number,
        mint,
        symbol,
        decimals,
        opened_at,
        raw,
        price,
        marked_at,
        spent,
        cash,
        held,
        marks,
        pipeline,
    ) = row
    model = _model_of(pipeline)
    return {
        "id": public_id(handle, "close", number),
        "mint": mint,
        "symbol": symbol,
        "openedAt": show_time(opened_at),
        "amountRaw": raw,
        "amount": exact(int(raw), decimals),
        "decimals": decimals,
        "spentLamports": str(spent),
        "cashFlowLamports": str(cash),
        "valueLamports": str(_value(row)),
        "markPriceSol": exact(int(price), len(str(SCALE)) - 1),
        "markedAt": show_time(marked_at),
        "markAgeSeconds": max(0, now - marked_at) // 1000,
        "heldSnapshots": held,
        "assumptions": [*_assumptions(model), *_json(marks, [])],
        "model": model,
        "pipeline": pipeline,
        "simulated": True,
    }


def _model_of(pipeline):
    """The fill model a position was opened by: its pipeline ends in its id."""
    return pipeline.rpartition(" ")[2]


def _assumptions(model):
    """What a fill model assumes; of one that is not known any more, what the present one does."""
    return ASSUMPTIONS_OF.get(model, ASSUMPTIONS)


def show_order(row):
    side, mint, symbol, decimals, amount, done, reason, decided_at, expires_at = row
    shown = (
        {"amountRaw": amount, "filledRaw": done}
        if side == "sell"
        else {"solLamports": amount, "filledLamports": done}
    )
    return {
        "side": side,
        "mint": mint,
        "symbol": symbol,
        "decimals": decimals,
        **shown,
        "reason": reason,
        "decidedAt": show_time(decided_at),
        "expiresAt": show_time(expires_at),
        "simulated": True,
    }


def _show_closes(trader, handle, rows):
    fills = defaultdict(list)
    # the first attempt of an order is not long before its position
    since = min((row[5] for row in rows), default=0) - DAY
    for position, *fill in _all(FILLS, (trader, since)) if rows else ():
        fills[position].append(show_fill(*fill))
    return [show_close(handle, row, fills[row[0]]) for row in rows]


def show_close(handle, row, fills):
    """`eligible` is the close's own and never changes with a review, which is the account's: while
    `reviewOpenedAt` is a time, the account is under review or was held up, and the close counts
    nowhere.
    """
    (
        number,
        period,
        mint,
        symbol,
        decimals,
        opened_at,
        closed_at,
        reason,
        gross,
        slippage,
        fees,
        rent,
        net,
        spent,
        latency_ms,
        marks,
        pipeline,
        state,
        reviewed_at,
    ) = row
    marks = _json(marks, [])
    excluded = find_exclusion(pipeline, marks, reviewed=False)
    model = fills[-1]["model"] if fills else _model_of(pipeline)
    return {
        "id": public_id(handle, "close", number),
        "mint": mint,
        "symbol": symbol,
        "decimals": decimals,
        "period": period,
        "openedAt": show_time(opened_at),
        "closedAt": show_time(closed_at),
        "reason": reason,
        "grossLamports": str(gross),
        "slippageLamports": str(slippage),
        "feesLamports": str(fees),
        "rentLamports": str(rent),
        "netLamports": str(net),
        "returnPct": hundredths(net, spent),
        "latencyMs": latency_ms,
        "model": model,
        "pipeline": pipeline,
        "assumptions": [*_assumptions(model), *marks],
        "fills": fills,
        "eligible": excluded is None,
        "excludedReason": excluded,
        "reviewOpenedAt": show_time(reviewed_at) if state in SUSPECT else None,
        "simulated": True,
    }


def show_fill(
    side,
    decided_at,
    at,
    decided_on,
    snapshot,
    raw,
    mid,
    slippage,
    pool_fee,
    network_fee,
    rent,
    failed,
    reason,
    model,
):
    """`solLamports`: what went into or came out of the pool, before its fee; network fee and rent
    apart.
    """
    return {
        "side": side,
        "decidedAt": show_time(decided_at),
        "filledAt": show_time(at),
        "decidedSnapshotId": show_snapshot_id(decided_on),
        "filledSnapshotId": show_snapshot_id(snapshot),
        "amountRaw": raw,
        "solLamports": str(mid + slippage if side == "buy" else mid - slippage),
        "slippageLamports": str(slippage),
        "feesLamports": str(pool_fee + network_fee),
        "rentLamports": str(rent),
        "failed": bool(failed),
        "reason": reason,
        "model": model,
        "simulated": True,
    }


def show_snapshot_id(number):
    return f"snap_{hashlib.sha256(b'snapshot %d' % number).hexdigest()[:24]}"


def _read_close(handle, row):
    (
        number,
        _,
        mint,
        symbol,
        _,
        opened_at,
        closed_at,
        reason,
        gross,
        _,
        _,
        _,
        net,
        spent,
        _,
        marks,
        pipeline,
        state,
        _,
    ) = row
    return Close(
        public_id(handle, "close", number),
        mint,
        symbol,
        opened_at,
        closed_at,
        reason,
        gross,
        net,
        spent,
        find_exclusion(pipeline, _json(marks, []), state in SUSPECT),
    )


def list_equity(uid):
    """Points of the open account for a chart: [(ms, lamports)], the starting cash and what was
    realised after each close.
    """
    found = _all(TRADERS + " WHERE t.uid = ?", (uid,))
    if not found:
        return []
    period, total, opened_at = found[0][13], found[0][15], found[0][18]
    points = [(opened_at, total)]
    for closed_at, net in _all(
        "SELECT closed_at, cash FROM position WHERE period_id = ? AND closed_at IS NOT NULL ORDER"
        " BY closed_at, id",
        (period,),
    ):
        total += net
        points.append((closed_at, total))
    return points[-EQUITY_POINTS:]


# ---- diary, brain, posts -------------------------------------------------------------------------
def show_line(handle, row):
    ident, at, kind, mint, facts, period = row
    facts = _json(facts, {})
    return {
        "id": public_id(handle, "line", ident),
        "at": show_time(at),
        "kind": kind,
        "mint": mint,
        "symbol": facts.get("symbol"),
        "text": diary.tell(kind, facts),
        "facts": _show_facts(facts),
        "period": period,
        "simulated": True,
    }


def _show_facts(facts):
    """Without keys of our own; times as times."""
    times = {"until": "until", "expiresAt": "expiresAt"}
    return {
        name: show_time(value) if name in times else value
        for name, value in facts.items()
        if name not in ("key",)
    }


def show_brain(trader, handle, closes, now):
    """What the trader's own closes and diary hold, derived anew each time."""
    lines = [
        (at, kind, mint, _json(facts, {}))
        for at, kind, mint, facts in _all(KEPT_LINES, (trader, now - guard.LOOK_BACK))
    ]
    lessons = _each(
        [
            (at, facts)
            for at, kind, _, facts in lines
            if kind == "lesson" and facts.get("expiresAt", 0) > now
        ],
        lambda row: _show_lesson(
            row[1]["text"],
            row[1]["n"],
            row[1]["windowMs"],
            row[1]["closeIds"],
            row[0],
            row[1]["expiresAt"],
        ),
    )
    ended = {facts.get("ends") for _, kind, _, facts in lines if kind == "pause"}
    pauses = _each(
        [
            (at, mint, facts)
            for at, kind, mint, facts in lines
            if kind == "pause" and facts.get("until", 0) > now
        ],
        lambda row: (row[2]["id"], _show_pause(*row)),
    )
    patterns = [
        _show_lesson(one.text, one.n, one.window_ms, one.close_ids, one.created_at, one.expires_at)
        for one in brain.find_lessons(closes, _newest(closes))
        if one.is_pattern
    ]
    return {
        "asOf": show_time(now),
        "reviewed": {**brain.review_results(closes), "simulated": True},
        "patterns": patterns,
        "pauses": [pause for ident, pause in pauses if ident not in ended],
        "lessons": lessons,
        "simulated": True,
    }


def _newest(closes):
    """Patterns are as old as the newest close: they change with closes, not with the clock."""
    return closes[-1].closed_at if closes else 0


def _show_lesson(text, n, window_ms, close_ids, created_at, expires_at):
    return {
        "text": text,
        "n": n,
        "window": f"{window_ms // DAY}d",
        "closeIds": list(close_ids),
        "createdAt": show_time(created_at),
        "expiresAt": show_time(expires_at),
        "simulated": True,
    }


def _show_pause(at, mint, facts):
    return {
        "rule": facts["rule"],
        "effect": facts["effect"],
        "mint": mint,
        "applied": facts["what"] == "begun",
        "n": facts["n"],
        "window": f"{facts['windowMs'] // guard.HOUR}h",
        "text": diary.tell("pause", facts),
        "createdAt": show_time(at),
        "expiresAt": show_time(facts["until"]),
        "simulated": True,
    }


def list_posts(limit, before=None, mint=None):
    """Posts of all traders, newest first, older than the post number `before`: [(number, post)]."""
    # Above all numbers where nothing is said: the first page is searched for as all others are.
    conditions = [("o.id < ?", 2**62 if before is None else before)] + [
        ("o.mint = ?", mint)
    ] * bool(mint)
    where = " WHERE " + " AND ".join(sql for sql, _ in conditions)
    return [
        (row[0], show_post(row))
        for row in _all(
            f"{POSTS}{where} ORDER BY o.id DESC LIMIT ?",
            (*(value for _, value in conditions), limit),
        )
    ]


def find_post(uid):
    found = _all(POSTS + " WHERE o.uid = ?", (uid,))
    return show_post(found[0]) if found else None


def show_post(row):
    _, uid, trader, name, body, mint, symbol, by, event_at, created_at, kind, state = row
    return {
        "id": uid,
        "botId": trader,
        "botName": name,
        "eventId": uid,
        "body": body,
        "mint": mint,
        "symbol": symbol,
        "signature": None,
        "reason": None,
        "kind": kind,
        "source": "paper",
        "simulated": True,
        "verified": False,
        "verification": {"status": "none", "tradeId": None, "checkedAt": None, "reason": None},
        "eventAt": show_time(event_at),
        "createdAt": show_time(created_at),
        "tokenAddresses": [mint] if mint else [],
        "provenance": {
            "channel": "paper",
            "keyId": None,
            "wallet": None,
            "ownership": None,
            "writer": by,
            "contentTrust": "generated",
            "untrustedFields": ["body", "reason", "symbol"],
        },
        "headlineSuppressed": state in SUSPECT,
        "warning": WARNINGS.get(state),
    }


# ---- the comparison ------------------------------------------------------------------------------
def compare_families(now):
    """Each family's closes of the last 30 days, described. The order is fixed and ranks nothing.
    Counted anew after each tick, decision or minute.
    """
    global _compared
    key = (database.obj, *_all(GENERATION)[0], now // 60_000)
    if _compared[0] != key:
        _compared = key, _compare(now)
    return _compared[1]


_compared = (None, None)


def _compare(now):
    closes = defaultdict(list)
    for trader, family, *values, pipeline, marks, state in _all(
        COMPARED, (now - brain.COMPARED_DAYS * DAY,)
    ):
        closes[family].append(
            Close(
                str(trader), *values, find_exclusion(pipeline, _json(marks, []), state in SUSPECT)
            )
        )
    traders = _all(TRADERS + " WHERE t.retired_at IS NULL")
    number, reviewed = (
        Counter(row[6] for row in traders),
        Counter(row[6] for row in traders if row[19] == "under_review"),
    )
    families = [
        {
            "family": family,
            "traders": number[family],
            "tradersUnderReview": reviewed[family],
            **brain.compare(closes[family]),
            "simulated": True,
        }
        for family in FAMILIES
    ]
    return {
        "windowDays": brain.COMPARED_DAYS,
        "pipeline": PIPELINE,
        "families": families,
        "note": brain.NOTE,
        "suggestedStartMode": "guarded",
        "simulated": True,
    }
