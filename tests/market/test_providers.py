"""Responses of DexScreener and GeckoTerminal, parsed exactly; invalid ones are described."""

import gzip
import json
import time
from dataclasses import replace
from decimal import Decimal
from email.utils import formatdate
from fractions import Fraction

import pytest
from fakemarket import PROFILES, SOL, FakeMarket, address
from hypothesis import given
from hypothesis import strategies as st

from chain.addresses import is_address
from market.failures import FetchError
from market.fetch import PROVIDER_LIMITS, Pace, fetch_json, open_session
from market.providers import parse_amount, parse_list, parse_pairs, parse_pools, parse_text

MINT = address(1)


@pytest.fixture
def market():
    fake = FakeMarket()
    yield fake
    fake.close()


@pytest.fixture
def session():
    with open_session() as opened:
        yield opened


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


def read_pair(**changes):
    return parse_pairs([pair(**changes)])[0][MINT]


# ---- the recorded answers ------------------------------------------------------------------------
def test_recorded_pairs_parse_completely_and_exactly(receipts):
    text = (receipts / "providers" / "dexscreener-pairs.json").read_text()
    quotes, rows = parse_pairs(exact(text))
    raw = {
        row["baseToken"]["address"]: row
        for row in json.loads(text, parse_float=str)["pairs"]
        if row["chainId"] == "solana"
    }
    assert not rows.unreadable and set(quotes) == set(raw) - {SOL} and len(quotes) > 1
    for mint, quote in quotes.items():
        row = raw[mint]
        assert (quote.price_usd, quote.symbol, quote.pair_created_at) == (
            row["priceUsd"],
            row["baseToken"]["symbol"],
            row["pairCreatedAt"],
        )
        assert quote.price_sol == (
            row["priceNative"] if row["quoteToken"]["address"] == SOL else None
        )
        assert quote.liquidity_usd == (str(row["liquidity"]["usd"]) if "liquidity" in row else None)
    assert any(quote.liquidity_usd is None for quote in quotes.values())


def test_recorded_pools_parse_completely_and_exactly(receipts):
    text = (receipts / "providers" / "geckoterminal-networks_solana_new_pools.json").read_text()
    quotes, rows = parse_pools(exact(text))
    assert not rows.unreadable and len(quotes) == len(json.loads(text)["data"])
    one = quotes["7wCCq9WhuaKus27sKvquwd3ZiKgy8JjZDnKSa9m2pump"]
    assert (one.symbol, one.name, one.price_usd, one.price_sol, one.liquidity_usd) == (
        "QUANTED",
        "Quanted",
        "0.0000049459293487700670761809606890365212921764789992913146969584467",
        "0.000000045096916317874",
        "3682.71463446987",
    )
    half = (
        Fraction("3682.71463446987")
        / Fraction("109.67333805947536006963113591867330566136188667")
        / 2
    )
    assert abs(Fraction(one.pool_sol) - half) <= Fraction(1, 2 * 10**9)
    # Its price in SOL is given, but the pool has no SOL.
    in_usdc = quotes["9udd47zzccdC5Pr97fHGZtvge7KuUW9frCFKSbkPpump"]
    assert (in_usdc.price_sol, in_usdc.pool_sol, in_usdc.liquidity_usd) == (
        "0.00000000843421847829443",
        None,
        "2451.4084",
    )


# ---- one answer ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sent, text",
    [
        (None, None),
        (0, "0"),
        (12, "12"),
        ("0.50", "0.50"),
        (Decimal("1E-7"), "0.0000001"),
        ("1.5e3", "1500"),
        ("-3", "-3"),
        (Decimal("52239.46"), "52239.46"),
        ("0." + "1" * 70, "0." + "1" * 70),
    ],
)
def test_amounts_are_exact_text(sent, text):
    assert parse_amount(sent) == text


@pytest.mark.parametrize(
    "sent",
    [
        "NaN",
        "Infinity",
        "-inf",
        "",
        " 1",
        "1_000",
        "٣",
        "0x10",
        "1e999",
        "1e-90",
        "9" * 91,
        True,
        [1],
        {"a": 1},
        "1,5",
        Decimal("NaN"),
    ],
)
def test_an_invalid_amount_is_refused(sent):
    with pytest.raises(ValueError):
        parse_amount(sent)


@pytest.mark.parametrize(
    "sent, text",
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a\u202eb\u200bc\U000e0041", "abc"),
        ("line\none\ttwo\x00\x1b[31m", "line one two[31m"),
        ("  many   spaces  ", "many spaces"),
        ("\ud800lone", "lone"),
        ("x" * 500, "x" * 20),
        ("\u200b\u2060", None),
        ("", None),
        (None, None),
        (5, None),
        (["x"], None),
        ("Ünï ₿ 猫 🚀", "Ünï ₿ 猫 🚀"),
    ],
)
def test_names_keep_everything_except_invisible_characters(sent, text):
    assert parse_text(sent, 20) == (text[:20] if text else None)


def test_a_pair_has_its_values_and_null_for_missing_ones():
    quote = read_pair(liquidity=None, volume=None, pairCreatedAt=None)
    assert (quote.liquidity_usd, quote.pool_sol, quote.volume24h_usd, quote.pair_created_at) == (
        None,
        None,
        None,
        None,
    )
    quote = read_pair(liquidity={"usd": "12.5", "quote": 3}, volume={"h24": "9"}, somethingNew=[{}])
    assert (quote.liquidity_usd, quote.pool_sol, quote.volume24h_usd) == ("12.5", "3", "9")
    assert quote.pair_url == f"https://dexscreener.com/solana/{address(8)}"
    for wrong in (None, "javascript:alert(1)", "../../" + address(8)):
        assert read_pair(pairAddress=wrong, url="javascript:alert(1)").pair_url is None


def test_absurd_prices_are_passed_on_and_non_numbers_are_not():
    assert read_pair(priceUsd="-5").price_usd == "-5"
    assert read_pair(priceUsd="1e30").price_usd == "1" + "0" * 30
    for wrong in ("NaN", "Infinity", {"usd": 1}, "cheap"):
        assert parse_pairs([pair(priceUsd=wrong)]) == ({}, (0, 1))
    assert parse_pairs([pair(priceUsd=None, priceNative=None)]) == ({}, (1, 0))


@pytest.mark.parametrize(
    "row", [None, 5, "x", [], {}, {"chainId": "solana"}, {"chainId": "solana", "baseToken": None}]
)
def test_one_unreadable_entry_does_not_affect_the_others(row):
    quotes, rows = parse_pairs([row, pair()])
    assert list(quotes) == [MINT] and rows.unreadable == 1


def test_other_chains_and_sol_itself_are_skipped():
    assert parse_pairs(
        [
            pair(chainId="ethereum", baseToken={"address": "0xdead"}),
            pair(baseToken={"address": SOL}),
        ]
    ) == ({}, (2, 0))
    listed = [
        {"chainId": "base", "tokenAddress": "0xdead"},
        {"chainId": "solana", "tokenAddress": MINT},
        {"chainId": "solana", "tokenAddress": "not base58"},
    ]
    assert parse_list(listed) == ([MINT], (len(listed) - 1, 1))


def test_the_most_liquid_sol_pair_is_used():
    usdc = pair(quoteToken={"address": address(5)}, liquidity={"usd": 10**9}, priceUsd="3")
    shallow, deep, unknown = (
        pair(liquidity=liquidity, priceUsd=usd)
        for liquidity, usd in (({"usd": 10}, "1"), ({"usd": 11}, "2"), (None, "4"))
    )
    for order in ([usdc, shallow, deep, unknown], [unknown, deep, shallow, usdc]):
        assert parse_pairs(order)[0][MINT].price_usd == "2"
    # A price in another currency isn't a price in SOL.
    assert parse_pairs([usdc])[0][MINT].price_sol is None


@pytest.mark.parametrize(
    "parse, value",
    [
        (parse_list, {"data": {}}),
        (parse_list, "x"),
        (parse_pairs, {"pairs": "x"}),
        (parse_pairs, {"data": 1}),
        (parse_pairs, None),
        (parse_pools, []),
        (parse_pools, {"data": {"a": 1}}),
        (parse_pools, {"data": None}),
        (parse_pools, {"data": [], "included": 3}),
    ],
)
def test_responses_of_another_shape_are_refused(parse, value):
    with pytest.raises(FetchError, match="^sent an unexpected response format$"):
        parse(value)


@pytest.mark.parametrize(
    "change",
    [
        {"pool_created_at": "0001-01-01T00:00:00"},
        {"pool_created_at": 7},
        {"volume_usd": "x"},
        {"base_token_price_usd": "NaN"},
    ],
)
def test_one_unreadable_pool_does_not_affect_the_others(change):
    sides = {
        "base_token": {"data": {"id": f"solana_{MINT}"}},
        "quote_token": {"data": {"id": f"solana_{SOL}"}},
    }
    good = {"attributes": {"base_token_price_usd": "0.5"}, "relationships": sides}
    quotes, rows = parse_pools(
        {
            "data": [{**good, "attributes": {**good["attributes"], **change}}, good],
            "included": [{"id": [1], "attributes": None}, None],
        }
    )
    assert (
        quotes[MINT].price_usd,
        quotes[MINT].price_sol,
        quotes[MINT].symbol,
        rows.unreadable,
    ) == ("0.5", None, None, 1)


def test_an_empty_list_of_pairs_is_valid():
    assert (
        parse_pairs({"schemaVersion": "1.0.0", "pairs": None})
        == parse_pairs([])
        == parse_pools({"data": []})
        == ({}, (0, 0))
    )


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals()
    | st.text(max_size=8)
    | st.sampled_from(["solana", f"solana_{MINT}", MINT, SOL, "NaN", "1e999", "-1"])
)
KEYS = st.sampled_from(
    (
        "chainId tokenAddress baseToken quoteToken address priceUsd priceNative liquidity usd quote"
        " volume h24 pairs data included id attributes relationships base_token quote_token"
        " base_token_price_usd pool_created_at pairCreatedAt symbol"
    ).split()
)
ANSWERS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(ANSWERS)
def test_any_response_is_read_or_refused(value):
    for parse in (parse_list, parse_pairs, parse_pools):
        try:
            found, rows = parse(value)
        except FetchError:
            continue
        assert rows.unreadable >= 0 and all(is_address(mint) for mint in found)


# ---- the wire ------------------------------------------------------------------------------------
def test_numbers_stay_exact(market, session):
    market.answer(
        PROFILES, body=b'{"a": 0.1000000000000000000001, "b": 123456789012345678901234567890}'
    )
    assert fetch_json(session, market.url + PROFILES) == {
        "a": Decimal("0.1000000000000000000001"),
        "b": 123456789012345678901234567890,
    }


def test_compressed_responses_are_read(market, session):
    market.answer(PROFILES, body=gzip.compress(b"[1, 2]"), headers={"Content-Encoding": "gzip"})
    assert fetch_json(session, market.url + PROFILES) == [1, 2]


@pytest.mark.parametrize(
    "how, words",
    [
        ({"status": None}, "could not be reached"),
        ({"status": 500, "body": b"<html>"}, "HTTP 500"),
        ({"status": 302, "headers": {"Location": "/elsewhere"}}, "HTTP 302"),
        ({"body": b"<!doctype html>"}, "not JSON"),
        ({"body": b'{"a": NaN}'}, "not JSON"),
        ({"body": b"[Infinity]"}, "not JSON"),
        ({"body": b"[" * 100_000}, "not JSON"),
        ({"body": b"[1" + b"0" * 5000 + b"]"}, "not JSON"),
        ({"body": b"[1e99999999999999999999]"}, "not JSON"),
        ({"body": b"\xff\xfe"}, "not JSON"),
        ({"body": b"[1, 2", "headers": {"Content-Length": "600"}}, "broke|not JSON|in time"),
        ({"body": b"garbage", "headers": {"Content-Encoding": "gzip"}}, "connection was lost"),
    ],
)
def test_invalid_responses_are_described_without_the_address(market, session, how, words):
    limits = replace(PROVIDER_LIMITS, read_seconds=2)
    market.answer(PROFILES, **how)
    with pytest.raises(FetchError, match=words) as raised:
        fetch_json(session, market.url + PROFILES, limits=limits)
    assert "127.0.0.1" not in str(raised.value) and raised.value.wait_seconds is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_429_gives_the_time_to_wait(market, session, status):
    for header, low, high in (
        ("7", 7, 7),
        (formatdate(time.time() + 100, usegmt=True), 95, 100),
        (formatdate(0, usegmt=True), 0, 0),
        ("99999999", 3600, 3600),
        ("soon", 30, 30),
        ("Sun, 06 Nov 99999999999 08:49:37 GMT", 30, 30),
        (None, 30, 30),
    ):
        market.answer(PROFILES, status=status, headers={"Retry-After": header} if header else {})
        with pytest.raises(FetchError) as raised:
            fetch_json(session, market.url + PROFILES)
        assert low <= raised.value.wait_seconds <= high, header


def test_an_oversized_response_is_abandoned(market, session):
    limits = replace(PROVIDER_LIMITS, max_bytes=1000)
    market.answer(
        PROFILES,
        body=gzip.compress(b"[" + b"1," * 50_000 + b"1]"),
        headers={"Content-Encoding": "gzip"},
    )
    with pytest.raises(FetchError, match="far too much data"):
        fetch_json(session, market.url + PROFILES, limits=limits)


def test_a_trickling_response_ends_at_the_deadline(market, session):
    limits = replace(PROVIDER_LIMITS, answer_seconds=0.2)
    # The whole response would take forty seconds.
    market.answer(PROFILES, body=b"[" + b"1," * 2000 + b"1]", drip=0.02)
    with pytest.raises(FetchError, match="in time"):
        fetch_json(session, market.url + PROFILES, limits=limits)


def test_environment_proxies_are_ignored(market, session, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    market.profile(MINT)
    assert parse_list(fetch_json(session, market.url + PROFILES)) == ([MINT], (1, 0))


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


def test_a_pause_is_respected():
    now = [100.0]
    pace = Pace(5, 60, lambda: now[0])
    assert pace.take()
    pace.pause(7)
    now[0] += 6.9
    assert not pace.take()
    now[0] += 0.1
    assert pace.take()


# ---- what a trader looks at ----------------------------------------------------------------------
def test_a_pair_has_its_venue_and_price_change():
    plain = pair(liquidity={"usd": 4000, "base": 1, "quote": 10.25})
    plain |= {"dexId": "raydium", "labels": ["CLMM"], "marketCap": 379813}
    plain |= {"volume": {"h24": 100, "h1": 12.5, "m5": 0.75}}
    plain |= {"priceChange": {"m5": -1.25, "h1": 300}}
    told, _ = parse_pairs(exact(json.dumps([plain])))
    quote = told[MINT]
    assert (quote.venue, quote.pair) == ("raydium/clmm", address(8))
    assert (quote.volume5m_usd, quote.volume1h_usd) == ("0.75", "12.5")
    assert (quote.change5m_pct, quote.change1h_pct) == ("-1.25", "300")
    assert (quote.market_cap_usd, quote.pool_tokens) == ("379813", "1")


@pytest.mark.parametrize("wrong", [None, 7, "a b", "<b>", ["x"], {"m5": "much"}, "x" * 41])
def test_optional_fields_never_drop_a_price(wrong):
    odd = {"dexId": wrong, "labels": wrong, "priceChange": wrong, "pairAddress": str(wrong)}
    told, rows = parse_pairs([pair(**odd, marketCap="dear")])
    quote = told[MINT]
    assert rows.unreadable == 0 and quote.price_sol == "0.0025"
    assert (quote.venue, quote.pair, quote.market_cap_usd, quote.change5m_pct) == (None,) * 4
