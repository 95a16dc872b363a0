"""Responses of DexScreener and GeckoTerminal, parsed exactly; invalid ones are described."""

import gzip
import json
import time
from dataclasses import replace
from decimal import Decimal
from email.utils import formatdate
from fractions import Fraction

import pytest
from fakemarket import PROFILES, SOL, address
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from test_scout import market

from chain.addresses import is_address
from market.failures import FetchError
from market.fetch import PROVIDER_LIMITS, Pace, fetch_json, open_session
from market.providers import parse_amount, parse_list, parse_pairs, parse_pools, parse_text

MINT = address(1)
# a fixture
assert market


@pytest.fixture
def fetch(market):
    """fetch(**limits) -> the JSON value of `market`'s list of profiles"""
    with open_session() as session:
        yield lambda **limits: fetch_json(
            session, market.url + PROFILES, limits=replace(PROVIDER_LIMITS, **limits)
        )


def exact(text):
    """Parse JSON with exact numbers, like fetch_json."""
    return json.loads(text, parse_float=Decimal)


def pair(**changes):
    """A complete DexScreener pair, with some members changed."""
    return {
        "chainId": "solana",
        "pairAddress": address(8),
        "baseToken": {"address": MINT, "symbol": "COIN", "name": "Coin"},
        "quoteToken": {"address": SOL},
        "priceNative": "0.0025",
        "priceUsd": "0.5",
        "volume": {"h24": Decimal("7.5")},
        "liquidity": {"usd": 4000, "base": 1, "quote": Decimal("10.25")},
        "pairCreatedAt": 1_790_000_000_000,
        **changes,
    }


def pool(base=f"solana_{MINT}", **changes):
    """GeckoTerminal's pool of a token and SOL, with some attributes changed."""
    sides = {"base_token": base, "quote_token": f"solana_{SOL}"}
    return {
        "attributes": {"base_token_price_usd": "0.5", **changes},
        "relationships": {side: {"data": {"id": mint}} for side, mint in sides.items()},
    }


def show(quote, *names):
    return {name: getattr(quote, name) for name in names}


# ---- the recorded answers ------------------------------------------------------------------------
def test_recorded_pairs_parse_completely_and_exactly(receipts):
    text = (receipts / "providers" / "dexscreener-pairs.json").read_text()
    quotes, rows = parse_pairs(exact(text))
    sent = json.loads(text, parse_float=str)["pairs"]
    raw = {row["baseToken"]["address"]: row for row in sent if row["chainId"] == "solana"}
    assert not rows.unreadable and set(quotes) == set(raw) - {SOL} and len(quotes) > 1
    for mint, quote in quotes.items():
        row, in_sol = raw[mint], raw[mint]["quoteToken"]["address"] == SOL
        assert quote.price_usd == row["priceUsd"]
        assert quote.price_sol == (row["priceNative"] if in_sol else None)
        assert quote.liquidity_usd == (str(row["liquidity"]["usd"]) if "liquidity" in row else None)
        assert quote.symbol == row["baseToken"]["symbol"]
        assert quote.pair_created_at == row["pairCreatedAt"]
    assert any(quote.liquidity_usd is None for quote in quotes.values())


def test_recorded_pools_parse_completely_and_exactly(receipts):
    text = (receipts / "providers" / "geckoterminal-networks_solana_new_pools.json").read_text()
    quotes, rows = parse_pools(exact(text))
    assert not rows.unreadable and len(quotes) == len(json.loads(text)["data"])
    quoted = {
        "symbol": "QUANTED",
        "name": "Quanted",
        "price_usd": "0.0000049459293487700670761809606890365212921764789992913146969584467",
        "price_sol": "0.000000045096916317874",
        "liquidity_usd": "3682.71463446987",
    }
    one = quotes["7wCCq9WhuaKus27sKvquwd3ZiKgy8JjZDnKSa9m2pump"]
    assert show(one, *quoted) == quoted
    sol_in_usd = Fraction("109.67333805947536006963113591867330566136188667")
    half = Fraction("3682.71463446987") / sol_in_usd / 2
    assert abs(Fraction(one.pool_sol) - half) <= Fraction(1, 2 * 10**9)
    # Its price in SOL is given, but the pool has no SOL.
    in_usdc = quotes["9udd47zzccdC5Pr97fHGZtvge7KuUW9frCFKSbkPpump"]
    assert in_usdc.price_sol == "0.00000000843421847829443"
    assert (in_usdc.pool_sol, in_usdc.liquidity_usd) == (None, "2451.4084")


# ---- one answer ----------------------------------------------------------------------------------
AMOUNTS = {0: "0", 12: "12", "0.50": "0.50", "1.5e3": "1500", "-3": "-3", None: None}
AMOUNTS |= {Decimal("1E-7"): "0.0000001", Decimal("52239.46"): "52239.46"}
AMOUNTS |= {"0." + "1" * 70: "0." + "1" * 70}
NO_AMOUNTS = "NaN Infinity -inf 1_000 ٣ 0x10 1e999 1e-90 1,5".split()


def test_amounts_are_exact_text():
    for sent, text in AMOUNTS.items():
        assert parse_amount(sent) == text


@pytest.mark.parametrize(
    "sent", [*NO_AMOUNTS, "", " 1", "9" * 91, True, [1], {"a": 1}, Decimal("NaN")]
)
def test_an_invalid_amount_is_refused(sent):
    with pytest.raises(ValueError):
        parse_amount(sent)


NAMES = {
    "<script>alert(1)</script>": "<script>alert(1)</sc",
    "a\u202eb\u200bc\U000e0041": "abc",
    "line\none\ttwo\x00\x1b[31m": "line one two[31m",
    "  many   spaces  ": "many spaces",
    "\ud800lone": "lone",
    "x" * 500: "x" * 20,
    "Ünï ₿ 猫 🚀": "Ünï ₿ 猫 🚀",
    **dict.fromkeys(("\u200b\u2060", "", None, 5)),
}


def test_names_keep_everything_except_invisible_characters():
    assert {sent: parse_text(sent, 20) for sent in NAMES} == NAMES
    assert parse_text(["x"], 20) is None


# Changes of a pair, whose address is POOL, and what is quoted of it. Missing values are null,
# numbers may be text, links are ours and not the provider's, and prices may be absurd.
QUOTED = """
{"liquidity": null} => liquidity_usd null | pool_sol null | pool_tokens null
{"volume": null} => volume24h_usd null | volume5m_usd null
{"pairCreatedAt": null} => pair_created_at null
{"liquidity": {"usd": "12.5", "quote": 3}} => liquidity_usd 12.5 | pool_sol 3
{"volume": {"h24": "9"}, "new": [{}]} => volume24h_usd 9
{"volume": {"h1": 12.5, "m5": 0.75}} => volume5m_usd 0.75 | volume1h_usd 12.5
{"dexId": "raydium", "labels": ["CLMM"]} => venue raydium/clmm | pair POOL
{"marketCap": 379813} => market_cap_usd 379813
{"priceChange": {"m5": -1.25, "h1": 300}} => change5m_pct -1.25 | change1h_pct 300 | pool_tokens 1
{"url": "javascript:a"} => pair_url https://dexscreener.com/solana/POOL
{"pairAddress": "javascript:alert(1)"} => pair_url null | pair null
{"pairAddress": "../../POOL"} => pair_url null
{"priceUsd": "-5"} => price_usd -5
{"priceUsd": "1e30"} => price_usd 1000000000000000000000000000000
"""


@pytest.mark.parametrize("line", QUOTED.strip().splitlines())
def test_a_pair_is_quoted_with_what_is_known(line):
    changes, _, quoted = line.replace("POOL", address(8)).partition(" => ")
    told = dict(one.split() for one in quoted.split(" | "))
    told = {name: None if value == "null" else value for name, value in told.items()}
    assert show(parse_pairs([pair(**exact(changes))])[0][MINT], *told) == told


@pytest.mark.parametrize("wrong", [None, 7, "a b", "<b>", ["x"], {"m5": "much"}, "x" * 41])
def test_optional_fields_never_drop_a_price(wrong):
    odd = {"dexId": wrong, "labels": wrong, "priceChange": wrong, "pairAddress": str(wrong)}
    quotes, rows = parse_pairs([pair(**odd, marketCap="dear")])
    quoted = {"price_sol": "0.0025"}
    quoted |= dict.fromkeys(("venue", "pair", "market_cap_usd", "change5m_pct"))
    assert show(quotes[MINT], *quoted) == quoted and rows.unreadable == 0


NO_ROWS = (None, 5, "x", [], {}, {"chainId": "solana"}, {"chainId": "solana", "baseToken": None})
NO_PRICES = [pair(priceUsd=wrong) for wrong in ("NaN", "Infinity", {"usd": 1}, "cheap")]


@pytest.mark.parametrize("row", [*NO_ROWS, *NO_PRICES])
def test_one_unreadable_entry_does_not_affect_the_others(row):
    quotes, rows = parse_pairs([row, pair()])
    assert (list(quotes), rows) == ([MINT], (1, 1))


def test_other_chains_sol_itself_and_tokens_without_a_price_are_skipped():
    elsewhere = pair(chainId="ethereum", baseToken={"address": "0xdead"})
    sol, free = pair(baseToken={"address": SOL}), pair(priceUsd=None, priceNative=None)
    assert parse_pairs([elsewhere, sol, free]) == ({}, (3, 0))
    places = (("base", "0xdead"), ("solana", MINT), ("solana", "not base58"))
    listed = [{"chainId": chain, "tokenAddress": mint} for chain, mint in places]
    assert parse_list(listed) == ([MINT], (2, 1))
    pools = [pool("eth_0xdead"), pool(f"solana_{SOL}"), pool(base_token_price_usd=None)]
    assert parse_pools({"data": pools}) == ({}, (3, 0))


def test_the_most_liquid_sol_pair_is_used():
    usdc = pair(quoteToken={"address": address(5)}, liquidity={"usd": 10**9}, priceUsd="3")
    shallow = pair(liquidity={"usd": 10}, priceUsd="1")
    deep = pair(liquidity={"usd": 11}, priceUsd="2")
    unknown = pair(liquidity=None, priceUsd="4")
    for order in ([usdc, shallow, deep, unknown], [unknown, deep, shallow, usdc]):
        assert parse_pairs(order)[0][MINT].price_usd == "2"
    # A price in another currency isn't a price in SOL.
    assert parse_pairs([usdc])[0][MINT].price_sol is None


@pytest.mark.parametrize(
    "name, wrong",
    [
        *(("pool_created_at", wrong) for wrong in ("0001-01-01T00:00:00", 7)),
        *(("volume_usd", "x"), ("base_token_price_usd", "NaN")),
    ],
)
def test_one_unreadable_pool_does_not_affect_the_others(name, wrong):
    included = [{"id": [1], "attributes": None}, None]
    quotes, rows = parse_pools({"data": [pool(**{name: wrong}), pool()], "included": included})
    quoted = {"price_usd": "0.5", "price_sol": None, "symbol": None}
    assert show(quotes[MINT], *quoted) == quoted and rows.unreadable == 1


@pytest.mark.parametrize(
    "parse, values",
    [
        (parse_list, [{"data": {}}, "x"]),
        (parse_pairs, [{"pairs": "x"}, {"data": 1}, None]),
        (parse_pools, [[], {"data": {"a": 1}}, {"data": None}, {"data": [], "included": 3}]),
    ],
)
def test_responses_of_another_shape_are_refused(parse, values):
    for value in values:
        with pytest.raises(FetchError, match="^sent an unexpected response format$"):
            parse(value)


def test_an_empty_list_of_pairs_is_valid():
    nothing = {"schemaVersion": "1.0.0", "pairs": None}
    assert parse_pairs(nothing) == parse_pairs([]) == parse_pools({"data": []}) == ({}, (0, 0))


LEAVES = st.none() | st.booleans() | st.integers() | st.decimals() | st.text(max_size=8)
LEAVES |= st.sampled_from(["solana", f"solana_{MINT}", MINT, SOL, "NaN", "1e999", "-1"])
KEYS = (
    "chainId tokenAddress baseToken quoteToken address priceUsd priceNative liquidity usd quote"
    " volume h24 pairs data included id attributes relationships base_token quote_token"
    " base_token_price_usd pool_created_at pairCreatedAt symbol"
)
ANSWERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(max_examples=examples(100))
@given(ANSWERS)
def test_any_response_is_read_or_refused(value):
    for parse in (parse_list, parse_pairs, parse_pools):
        try:
            found, rows = parse(value)
        except FetchError:
            continue
        assert rows.unreadable >= 0 and all(is_address(mint) for mint in found)


# ---- the wire ------------------------------------------------------------------------------------
def compress(body):
    return {"body": gzip.compress(body), "headers": {"Content-Encoding": "gzip"}}


def test_compressed_responses_are_read_with_exact_numbers(market, fetch, monkeypatch):
    """Proxies of the environment are ignored."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    body = b'{"a": 0.1000000000000000000001, "b": 123456789012345678901234567890}'
    market.answer(PROFILES, **compress(body))
    numbers = {"a": Decimal("0.1000000000000000000001"), "b": 123456789012345678901234567890}
    assert fetch() == numbers


NO_JSON = (
    *(b"<!doctype html>", b'{"a": NaN}', b"[Infinity]", b"[" * 100_000, b"\xff\xfe"),
    *(b"[1" + b"0" * 5000 + b"]", b"[1e99999999999999999999]"),
)


@pytest.mark.parametrize(
    "how, words",
    [
        ({"status": None}, "could not be reached"),
        ({"status": 500, "body": b"<html>"}, "HTTP 500"),
        ({"status": 302, "headers": {"Location": "/elsewhere"}}, "HTTP 302"),
        *(({"body": body}, "not JSON") for body in NO_JSON),
        ({"body": b"garbage", "headers": {"Content-Encoding": "gzip"}}, "connection was lost"),
    ],
)
@pytest.mark.usefixtures("uncollected")
def test_invalid_responses_are_described_without_the_address(market, fetch, how, words):
    market.answer(PROFILES, **how)
    with pytest.raises(FetchError, match=words) as raised:
        fetch()
    assert "127.0.0.1" not in str(raised.value) and raised.value.wait_seconds is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_429_gives_the_time_to_wait(market, fetch, status):
    """At most an hour, and 30 seconds if the header can't be read."""
    waits = {"7": 7, formatdate(0, usegmt=True): 0, "99999999": 3600}
    waits |= dict.fromkeys(("soon", "Sun, 06 Nov 99999999999 08:49:37 GMT", None), 30)
    waits[formatdate(time.time() + 100, usegmt=True)] = 100
    for header, seconds in waits.items():
        market.answer(PROFILES, status=status, headers={"Retry-After": header} if header else {})
        with pytest.raises(FetchError) as raised:
            fetch()
        slack = 5 if seconds == 100 else 0
        assert seconds - slack <= raised.value.wait_seconds <= seconds, header


def test_an_oversized_response_is_abandoned(market, fetch):
    market.answer(PROFILES, **compress(b"[" + b"1," * 50_000 + b"1]"))
    with pytest.raises(FetchError, match="far too much data"):
        fetch(max_bytes=1000)


def test_a_trickling_response_ends_at_the_deadline(market, fetch):
    # The whole response would take forty seconds.
    market.answer(PROFILES, body=b"[" + b"1," * 2000 + b"1]", drip=0.02)
    with pytest.raises(FetchError, match="in time"):
        fetch(answer_seconds=0.2)


# ---- the pace ------------------------------------------------------------------------------------
@pytest.mark.parametrize("burst, refill", [(10, 50), (5, 25), (100, 200)])
def test_requests_per_minute_stay_within_the_limit(burst, refill):
    now = [0.0]
    pace, asked = Pace(burst, refill, lambda: now[0]), []
    while now[0] < 240:
        now[0] += 0.05
        if pace.take():
            asked.append(now[0])
    busiest = max(sum(start <= at < start + 60 for at in asked) for start in asked)
    assert burst + refill - 2 <= busiest <= burst + refill and len(asked) >= refill * 4
