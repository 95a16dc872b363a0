"""The whole application with an empty database. Requests go through WSGI, everything else through
the functions that the command line uses.
"""

import hashlib
import threading
import time

import ground
import orjson
import pytest

import storage
from accounts import api_keys, conduct, influencers, seasons
from accounts.problem import Problem
from app import create_app
from chain import addresses
from chain.amounts import sol
from chain.ledger.inventory import SOL
from chain.ledger.totals import ALL_HISTORY, Fall, Sums
from chain.stored.derived import NOT_POLLED
from chain.stored.tables import RiskTotal, RunningTotal, TradeMint
from chain.stored.trades import find_trades, number_mints, write_trades
from models import Attachment, Trade, Wallet, WalletSignature
from operate import inspection

# 2026-11-05, noon UTC (20,762.5 days), in ms: the fixed time of the tests.
NOW = 1_793_880_000_000
GENEROUS = {
    "allowance": (("minute", 10**6), ("hour", 10**6), ("day", 10**6)),
    "posts_per_minute": 10**6,
    "ip_limit_per_minute": 10**6,
    "failed_auth_per_minute": 10**6,
    "creations_per_minute": 10**6,
}


def hide_post(uid, now):
    """Erase a post's text like the operator, without a line in the audit log."""
    with storage.erasing():
        return conduct.hide_post(uid, now)


def refused(act, *given, **more):
    """The Problem that an act raises."""
    with pytest.raises(Problem) as caught:
        act(*given, **more)
    return caught.value


def race(count, act):
    """Call act(number) in this many threads at once; return each one's result or Problem code."""
    ready, outcomes = threading.Barrier(count), []

    def run(number):
        with storage.database.connection_context():
            ready.wait()
            try:
                outcomes.append(act(number))
            except Problem as problem:
                outcomes.append(problem.code)

    crew = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return outcomes


def inspect(config, *checks):
    """What checks of operate.inspection find in an instance."""
    reader = inspection.Reader(config)
    try:
        with reader.snapshot():
            return [one for check in checks for one in check(reader)]
    finally:
        reader.close()


def address(name):
    """A well-formed address that belongs to nobody."""
    return addresses.b58encode(hashlib.sha256(name.encode()).digest())


def signature(name):
    return addresses.b58encode(hashlib.sha512(name.encode()).digest())


class Service:
    def __init__(self, folder, **changes):
        self.config = ground.change(ground.settings_of(folder), **{**GENEROUS, **changes})
        ground.copy_empty(self.config)
        self.app = create_app(self.config)
        # Others may be bound to the models later.
        self.database = storage.database.obj
        self.client = self.app.test_client()

    def close(self):
        self.app.stream_hub.stop()
        while self.app.stream_hub._is_polled:
            time.sleep(0.01)
        # A backup runs on after its response.
        for thread in threading.enumerate():
            if thread.name == "backup":
                thread.join()
        self.app.allowance.store.close()
        for database in (self.database, storage.database):
            database.close_all()

    # ---- people ----------------------------------------------------------------------------------
    def make_bot(self, name="Ada", wallet=None, owner=None):
        """A NewBot; `.publish_key.text` is its key."""
        return influencers.create_bot(self.config, name, NOW, wallet, owner)

    def make_read_key(self, owner):
        return api_keys.create_key(owner, "read", NOW).text

    # ---- requests --------------------------------------------------------------------------------
    def get(self, path, key=None, **more):
        return self.ask("GET", path, key, **more)

    def post(self, body, key=None, **more):
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        return self.ask(
            "POST", "/api/v1/posts", key, data=raw, **{"content_type": "application/json", **more}
        )

    def ask(self, method, path, key=None, headers=None, peer="127.0.0.1", **more):
        sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        return self.client.open(
            path, method=method, headers=sent, environ_base={"REMOTE_ADDR": peer}, **more
        )

    def pages(self, path, key, limit):
        """Every row of a list, following nextCursor."""
        rows, cursor = [], ""
        while cursor is not None:
            page = self.get(
                f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor and '&cursor=' + cursor}",
                key,
            ).json
            rows, cursor = rows + page["data"], page["nextCursor"]
        return rows

    # ---- what observation would have stored ------------------------------------------------------
    def observe_trade(self, wallet, name, slot, *place, **columns):
        """Write a trade row as the ledger store does; `columns` as in _store_trade."""
        with storage.writing():
            trade, wallet = Service._store_trade(wallet, name, slot, *place, **columns)
            sum_hours(wallet)
        return trade

    def observe_trades(self, wallet, names, **columns):
        """Write trades like observe_trade, one per slot; a column may be a function of the
        number.
        """
        with storage.writing():
            for number, name in enumerate(names):
                drawn = {k: v(number) if callable(v) else v for k, v in columns.items()}
                _, row = Service._store_trade(wallet, name, **{"slot": number, **drawn})
            sum_hours(row)

    @staticmethod
    def _store_trade(
        wallet,
        name,
        slot,
        place=0,
        kind="buy",
        mint=None,
        raw=1_000,
        sol=-5_000,
        decimals=3,
        **more,
    ):
        wallet = Wallet.get(Wallet.address == wallet)
        mint = mint or address("mint")
        columns = {
            "uid": f"trade_{name}",
            "wallet": wallet.id,
            "signature": signature(name),
            "slot": slot,
            "place": place,
            "block_time": NOW // 1000 - 3600,
            "kind": kind,
            "mint": mint,
            "token_changes": orjson.dumps([[mint, str(raw), decimals]]).decode(),
            "sol_change": sol,
            "fee": 5000,
            "tip": 0,
            "rent": 0,
            "realized": "not_applicable",
            "matched_raw": "0",
            "unmatched_raw": "0",
            "lots": "[]",
            "flags": "[]",
            "digest": name,
            **more,
        }
        listed = {"signature": columns["signature"], "slot": slot, "state": "stored", "seen_at": 0}
        WalletSignature.insert(wallet=wallet, **listed).on_conflict_ignore().execute()
        known = find_trades(wallet.id, [columns["signature"]])
        trade = write_trades([columns], known)[columns["signature"]]
        side = kind if kind in ("buy", "sell") else None
        moved = number_mints({mint})[mint]
        TradeMint.create(trade=trade, wallet=wallet, mint=moved, side=side, slot=slot, place=place)
        return trade, wallet

    def observe_results(self, wallet, realized, matched=3, gaps=(), **more):
        """Write a wallet's results and coverage as the ledger store does."""
        results = {
            "realizedLamports": str(realized),
            "realizedSol": sol(realized),
            "worstCaseLamports": str(realized),
            "worstCaseSol": sol(realized),
            "returnPct": None,
            "winRate": None,
            "positions": 0,
            "positionsWon": 0,
            "positionsOpen": 0,
            "matchedSells": matched,
            "partialSells": 0,
            "unmatchedSells": 0,
            "winningSells": 1,
            "volumeLamports": "100",
            "volumeSol": "0.0000001",
            "observedTrades": 4,
            "failedTransactions": 0,
            "failedCostLamports": "0",
            "overheadLamports": "0",
            "costLeftLamports": "0",
            "costLeftReceipts": 0,
            "carriedLots": 0,
            "openPositions": 0,
            **more,
        }
        row = Wallet.get(Wallet.address == wallet)
        if not Trade.select().where(Trade.wallet == row).exists():
            add_total(row, SOL, ALL_HISTORY, NOW // 1000, **read_sums(results))
        coverage = {**NOT_POLLED, "state": "complete", "gaps": list(gaps), "note": None}
        Wallet.update(
            results=orjson.dumps(results).decode(), coverage=orjson.dumps(coverage).decode()
        ).where(Wallet.address == wallet).execute()

    def observe_span(self, wallet, open_positions=0, at=NOW // 1000, **totals):
        """Write the record of a wallet's latest attachment at this Unix second."""
        attachment = (
            Attachment.select()
            .join(Wallet)
            .where(Wallet.address == wallet)
            .order_by(Attachment.id.desc())
            .get()
        )
        Attachment.update(
            open_positions=open_positions,
            forward_realized=totals.get("realized", 0),
        ).where(Attachment.id == attachment.id).execute()
        add_total(attachment.wallet_id, SOL, attachment.id, at, **totals)


def read_sums(results):
    """A wallet's results, by the names of Sums."""
    return {
        "realized": int(results["realizedLamports"]),
        "volume": int(results["volumeLamports"]),
        "trades": results["observedTrades"],
        "matched": results["matchedSells"],
        "partial": results["partialSells"],
        "unmatched": results["unmatchedSells"],
        "winning": results["winningSells"],
        "failed": results["failedTransactions"],
        "failed_cost": int(results["failedCostLamports"]),
        "overhead": int(results["overheadLamports"]),
        "cost_left": int(results["costLeftLamports"]),
        "cost_left_receipts": results["costLeftReceipts"],
        "ended": results["positions"],
        "ended_won": results["positionsWon"],
    }


def sum_hours(wallet):
    """Write running totals of the trades observed so far, and no others."""
    mine = (
        RunningTotal.wallet == wallet,
        RunningTotal.money == SOL,
        RunningTotal.view == ALL_HISTORY,
    )
    RunningTotal.delete().where(*mine).execute()
    sums = dict.fromkeys(
        ("realized", "volume", "trades", "matched", "partial", "unmatched", "winning", "cost_left"),
        0,
    )
    hours = {}
    read = (Trade.block_time, Trade.kind, Trade.flags, Trade.sol_change, Trade.beside_sol)
    read = (*read, Trade.result, Trade.realized, Trade.cost_left)
    for trade in (
        Trade.select(*read)
        .where(Trade.wallet == wallet)
        .order_by(Trade.block_time, Trade.slot, Trade.place)
        .namedtuples()
    ):
        counts = "value_unexplained" not in trade.flags
        sums["cost_left"] += trade.cost_left
        sums["trades"] += counts and trade.kind in ("buy", "sell", "swap", "round_trip")
        if counts and trade.kind in ("buy", "sell"):
            sums["volume"] += abs(trade.sol_change - trade.beside_sol)
        sums["realized"] += trade.result or 0
        sums["winning"] += (trade.result or 0) > 0
        has_result = counts and "incomplete_history" not in trade.flags
        if has_result and trade.realized != "not_applicable":
            sums[trade.realized] += 1
        hours[(trade.block_time or 0) // 3600] = dict(sums)
    write_totals(wallet, SOL, ALL_HISTORY, hours)


def add_total(wallet, money, view, at, **sums):
    """Write a wallet's running totals at this Unix second."""
    write_totals(wallet, money, view, {at // 3600: sums})


def write_totals(wallet, money, view, hours):
    key = {"wallet": getattr(wallet, "id", wallet), "money": money, "view": view}
    rows = [{**key, "hour": hour, **Sums(**sums)._asdict()} for hour, sums in hours.items()]
    storage.write_rows(RunningTotal, rows, (*key, "hour"))
    fall, mine = Fall(), [getattr(RunningTotal, name) == value for name, value in key.items()]
    for row in list(RunningTotal.select().where(*mine).order_by(RunningTotal.hour)):
        high, drawdown = fall.follow(row.realized, row.hour)
        same = (*mine, RunningTotal.hour == row.hour)
        RunningTotal.update(high=high, drawdown=drawdown).where(*same).execute()


def add_risk(wallet, view, results, held=70):
    """Write SOL positions with these results and holding times in seconds."""
    RiskTotal.create(
        wallet=wallet,
        money=SOL,
        view=view,
        best=max(results, default=None),
        worst=min(results, default=None),
        median_holding=held if results else None,
        holdings=orjson.dumps([[held, len(results)]] if results else []).decode(),
    )


def write_terms(now):
    """The form of a season that begins at the next full hour and lasts a day."""
    start = (now // 3_600_000 + 1) * 3_600_000
    times = {"starts_at": start, "ends_at": start + 86_400_000}
    terms = {"name": "Winter Cup", "rule": "pnl", "currency": "SOL", "wallets": "all"}
    hours = {name: seasons.show_hour(at) for name, at in times.items()}
    return {**terms, "min_trades": "3", **hours}


def make_season():
    now = time.time_ns() // 10**6
    return seasons.create_season(write_terms(now), "a test", now)
