"""DexScreener and GeckoTerminal on one loopback port, steered with verbs, and a node that knows
mint accounts.
"""

import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from chain import addresses

SOL = "So11111111111111111111111111111111111111112"
PROFILES, BOOSTS, POOLS, PRICES, SECOND = (
    "/token-profiles/latest/v1",
    "/token-boosts/latest/v1",
    "/networks/solana/new_pools",
    "/tokens/v1/solana/",
    "/networks/solana/pools/multi/",
)


def address(number):
    """The address whose 32 bytes are this number, starting at 1."""
    return addresses.b58encode(number.to_bytes(32, "big"))


class FakeMarket:
    """The two providers' data. `profile`, `boost`, `open_pool` make a mint discoverable, `price`
    gives it a pair; `answer` replaces a response.
    """

    def __init__(self):
        self.profiles, self.boosts, self.pools, self.pairs, self.asked, self.most_asked = (
            [],
            [],
            [],
            {},
            Counter(),
            0,
        )
        self.replaced = {}
        # GeckoTerminal's response about pools by address.
        self.second = []
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (Handler,), {"market": self})
        )
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    # ---- verbs ----
    def profile(self, mint, chain="solana"):
        self.profiles.append(
            {
                "url": "https://x",
                "chainId": chain,
                "tokenAddress": mint,
                "links": None,
                "unheardOf": {"a": [1]},
            }
        )

    def boost(self, mint):
        self.boosts.append({"chainId": "solana", "tokenAddress": mint, "amount": 10})

    def open_pool(
        self,
        mint,
        symbol="POOL",
        name="Pool Coin",
        usd="0.5",
        sol="0.0025",
        reserve="4000",
        volume="7.5",
    ):
        self.pools.append(show_pool(mint, address(9), usd, sol, reserve, volume))
        self.included = [
            *getattr(self, "included", []),
            {"id": "solana_" + mint, "attributes": {"symbol": symbol, "name": name}},
        ]

    def agree(self, mint, sol, pair=None):
        """Give GeckoTerminal a price for the pool that `price` uses for all mints."""
        self.second = [show_pool(mint, pair or address(8), "1", sol, "4000", "7.5")]

    def price(
        self,
        mint,
        usd="0.5",
        sol="0.0025",
        liquidity=4000,
        volume=7.5,
        symbol="COIN",
        name="Coin",
        **more,
    ):
        """`liquidity` None: the object is missing, as for pump.fun's curves."""
        pair = {
            "chainId": "solana",
            "pairAddress": address(8),
            "baseToken": {"address": mint, "symbol": symbol, "name": name},
            "quoteToken": {"address": SOL},
            "priceNative": sol,
            "priceUsd": usd,
            "volume": {"h24": volume},
            "pairCreatedAt": 1_790_000_000_000,
            **more,
        }
        self.pairs[mint] = (
            pair
            if liquidity is None
            else {**pair, "liquidity": {"usd": liquidity, "base": 1, "quote": 10.25}}
        )

    def answer(self, path, status=200, body=b"", headers=(), drip=0):
        """Respond to `path` with this until `heal`: raw bytes with `drip` seconds between them;
        status None: close the connection.
        """
        self.replaced[path] = status, body, dict(headers), drip

    def break_all(self, **how):
        for path in (PROFILES, BOOSTS, POOLS, PRICES):
            self.answer(path, **how)

    def heal(self):
        self.replaced = {}

    def true_answer(self, path):
        if path.startswith(PRICES):
            mints = path.removeprefix(PRICES).split(",")
            self.most_asked = max(self.most_asked, len(mints))
            return [self.pairs[mint] for mint in mints if mint in self.pairs]
        if path.startswith(SECOND):
            pairs = path.removeprefix(SECOND).split(",")
            return {"data": [one for one in self.second if one["attributes"]["address"] in pairs]}
        return {
            PROFILES: self.profiles,
            BOOSTS: self.boosts,
            POOLS: {"data": self.pools, "included": getattr(self, "included", [])},
        }[path]


def show_pool(mint, pair, usd, sol, reserve, volume):
    """A pool in GeckoTerminal's format."""
    return {
        "id": "solana_" + pair,
        "attributes": {
            "base_token_price_usd": usd,
            "base_token_price_native_currency": sol,
            "quote_token_price_usd": "200",
            "address": pair,
            "pool_created_at": "2026-11-20T00:00:00Z",
            "market_cap_usd": None,
            "volume_usd": {"h24": volume},
            "reserve_in_usd": reserve,
        },
        "relationships": {
            "base_token": {"data": {"id": "solana_" + mint}},
            "quote_token": {"data": {"id": "solana_" + SOL}},
        },
    }


class Handler(BaseHTTPRequestHandler):
    market, protocol_version, disable_nagle_algorithm = None, "HTTP/1.1", True

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.path.split("?")[0].removeprefix("/api/v2")
        kind = next((one for one in (PRICES, SECOND) if path.startswith(one)), path)
        self.market.asked[kind] += 1
        status, body, headers, drip = self.market.replaced.get(kind) or (
            200,
            json.dumps(self.market.true_answer(path)).encode(),
            {},
            0,
        )
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        try:
            for piece in re.findall(b".{1,4}", body, re.S) if drip else [body]:
                self.wfile.write(piece)
                time.sleep(drip)
        except OSError:
            # The client disconnected.
            self.close_connection = True


class FakeNode:
    """Replaces chain.rpc.Rpc. `accounts`: by address; `fail`: raised instead."""

    def __init__(self, accounts=()):
        self.accounts, self.fail, self.calls = dict(accounts), None, []

    def call(self, method, params, check=lambda result: result, avoid=None):
        assert (
            method == "getMultipleAccounts"
            and len(params[0]) <= 100
            and params[1]["encoding"] == "base64"
        )
        self.calls.append(list(params[0]))
        if self.fail:
            raise self.fail
        return check(
            {"context": {"slot": 1}, "value": [self.accounts.get(one) for one in params[0]]}
        ), "endpoint 1"
