"""Whether those that an instance asks can be reached: Solana nodes, price services, Redis."""

from collections.abc import Iterator

from chain.rpc import Rpc, RpcError
from config import Config
from market.failures import FetchError
from market.fetch import fetch_json, open_session
from operate.findings import CLOCK_MS, SET_CLOCK, Finding, fine, look, show_span, show_time, wrong
from storage import counters

# its genesis hash
MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"


def check_endpoints(config: Config, now: int) -> Iterator[Finding]:
    """Ask each Solana node for its newest slot, its time and its network."""
    for number, url in enumerate(config.solana_rpc_urls, 1):
        rpc = Rpc((url,), config.rpc_requests_per_second)
        try:
            slot, _ = rpc.call("getSlot", [{"commitment": "finalized"}])
            seconds, _ = rpc.call("getBlockTime", [slot])
            genesis, _ = rpc.call("getGenesisHash", [])
        except RpcError as error:
            yield wrong(
                f"Solana endpoint {number} cannot be used:"
                f" {str(error).replace('endpoint 1: ', '')}",
                "check its URL and key in SOLANA_RPC_URLS; name a second one",
            )
            continue
        yield (
            fine(f"Solana endpoint {number} answers, at slot {slot}")
            if genesis == MAINNET
            else look(f"Solana endpoint {number} answers, and is not mainnet")
        )
        yield check_finality(rpc, number)
        if isinstance(seconds, int) and abs(now - seconds * 1000) > CLOCK_MS:
            yield compare_clock(number, seconds * 1000, now)


def compare_clock(number: int, block_ms: int, now: int) -> Finding:
    """Tell by how much the clock differs from the newest final block of a node."""
    told = (
        f"the newest final block of endpoint {number} is of {show_time(block_ms)}; the clock here"
        f" says {show_time(now)}, {show_span(abs(now - block_ms))}"
    )
    # No block is of the future, and any node may lag.
    if block_ms > now:
        return wrong(f"{told} behind", f"the clock is wrong: {SET_CLOCK}")
    return wrong(
        f"{told} later",
        f"if other endpoints say so too, the clock is ahead: {SET_CLOCK}; else the endpoint lags:"
        " replace it",
    )


def check_finality(rpc: Rpc, number: int) -> Finding:
    """Ask a node whether its chain finalizes by Alpenglow: a certificate of its genesis says so.
    Nothing here depends on it; it tells how long a transaction takes to be final.
    """
    try:
        certificate, _ = rpc.call("getAgGenesisCert", [])
    except RpcError:
        # -32601, as of nodes that do not know the question.
        return fine(f"Solana endpoint {number} does not tell whether its chain runs Alpenglow")
    if certificate is None:
        return fine(f"Solana endpoint {number}: its chain does not run Alpenglow yet")
    return fine(f"Solana endpoint {number}: its chain runs Alpenglow, final within a second")


def check_redis(config: Config, now: int) -> Iterator[Finding]:
    """Count once in Redis; `now` in ms."""
    store = counters.open_store(config)
    problem = counters.find_problem(store, now / 1000)
    store.close()
    if problem:
        yield wrong(
            f"Redis cannot be used ({problem}): the keyed interface answers 503, addresses go"
            " uncounted",
            "check host and password in RATELIMIT_STORAGE_URL, and that it runs",
        )
    else:
        yield fine("Redis answers")


def check_providers(config: Config) -> Iterator[Finding]:
    """Ask each price service for one page."""
    gecko = config.geckoterminal_url.removesuffix("/api/v2") + "/api/v2/networks/solana/new_pools"
    for name, url in (
        ("DexScreener", config.dexscreener_url + "/token-profiles/latest/v1"),
        ("GeckoTerminal", gecko),
    ):
        try:
            fetch_json(open_session(), url)
            yield fine(f"{name} answers")
        except FetchError as error:
            yield look(
                f"{name} {error}",
                "the market keeps what it had, marked stale; it is asked again by itself",
            )
