"""Write the market an instance has cached as a recording for replay-market: `python -m bench
record-market FILE` (the settings name the instance).
"""

import argparse

import orjson

import config
import storage

TOKENS = (
    "SELECT mint, symbol, decimals, pair_created_at, discovered_at, checks,"
    " transfer_fee_bps FROM token WHERE id IN"
    " (SELECT DISTINCT token_id FROM snapshot) ORDER BY id"
)
SNAPSHOTS = """
SELECT s.taken_at, t.mint, s.price_sol, s.pool_sol, s.liquidity_usd, s.volume24h_usd,
       s.volume5m_usd, s.volume1h_usd, s.venue, s.pair, s.market_cap_usd, s.price_usd,
       s.fall_check
    FROM snapshot s JOIN token t ON t.id = s.token_id ORDER BY s.id"""


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m bench record-market", description=__doc__)
    parser.add_argument("file")
    args, settings = parser.parse_args(arguments), config.load()
    with storage.connect(settings).connection_context():
        tokens = [
            {
                "mint": mint,
                "symbol": symbol or mint[:6],
                "decimals": decimals,
                "bornAt": born_at,
                "discoveredAt": discovered_at or 0,
                "transferFeeBps": fee or 0,
                "checks": {check["key"]: check["status"] for check in orjson.loads(checks or "[]")},
            }
            for mint, symbol, decimals, born_at, discovered_at, checks, fee in (
                storage.database.execute_sql(TOKENS).fetchall()
            )
        ]
        snapshots = [
            [*row, *read_check(check)]
            for *row, check in storage.database.execute_sql(SNAPSHOTS).fetchall()
        ]
    with open(args.file, "wb") as file:
        file.write(
            orjson.dumps(
                {
                    "intervalMs": int(settings.scout_interval_seconds * 1000) or 60_000,
                    "tokens": tokens,
                    "snapshots": snapshots,
                }
            )
        )
    print(f"{len(tokens)} tokens, {len(snapshots)} snapshots")


def read_check(text):
    """What a second provider said of a fall: the price before, and its own."""
    check = orjson.loads(text) if text else {}
    return check.get("before"), check.get("price_sol")
