"""Token symbols: no other token can pass for a well-known one, wherever it is shown."""

from itertools import product

import orjson
import pytest
from service import NOW, address, signature

from chain.addresses import is_base58
from chain.reading.currencies import find_stablecoin
from chain.symbols import OWNED, SYMBOLS, find_imitated, show_symbol
from market.tables import Token
from models import Wallet

M, W = address("mint"), address("w")
SHORT = f"{M[:4]}…{M[-4:]}"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
IMITATIONS = {
    **dict.fromkeys("USDC usdc $USDC USDС ＵＳＤＣ U.S.D.C U$DC U5DC ÜSDĆ".split(), "USDC"),
    **dict.fromkeys(
        ("USDC\u200b", "U\u2060S\u00adDC", "USDC\u202e", "USDC 💵", "USD Coin"), "USDC"
    ),
    **{"USDT": "USDT", "PΥUSD": "PYUSD", "USD1": "USD1", "USDl": "USD1", "EURC": "EURC"},
    **dict.fromkeys(("SOL", "S0L", "WSOL", "Solana"), "SOL"),
    **{"JitoSOL": "JitoSOL", "W1F": "WIF"},
    **dict.fromkeys(("BOИK", "PINE", "USDX", "SOLO", "Нина", "🚀")),
}


@pytest.mark.parametrize("told, symbol", IMITATIONS.items())
def test_a_look_alike_symbol_is_shown_with_its_mint(told, symbol):
    assert find_imitated(M, told) == symbol
    shown = show_symbol(M, told)
    assert shown.endswith(f" ({SHORT})") if symbol else shown == told
    assert find_imitated(M, shown) == symbol
    assert show_symbol(M, shown) == shown


def test_a_well_known_token_keeps_its_own_symbol():
    assert len(set(SYMBOLS.values())) == len(SYMBOLS) and set(OWNED.values()) == {*SYMBOLS.values()}
    assert find_stablecoin("PYUSD").mint == "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo"
    for (mint, symbol), told in product(SYMBOLS.items(), ("", "FAKE", None)):
        assert is_base58(mint, 32), symbol
        assert show_symbol(mint, told) == show_symbol(mint, symbol) == symbol
        assert find_imitated(mint, told) is find_imitated(mint, symbol) is None


def test_invisible_characters_are_removed():
    for told in ("\u202e\u2066PINE\u2069", "PI\u200bNE", " PINE\n", "PINE\x00"):
        assert show_symbol(M, told) == "PINE", told
    for told in (None, "", " ", "\u200b\u202e", "\u3164"):
        assert show_symbol(M, told) is None, told


def observe(service, told):
    """A bot that bought a stranger's token and posted about it, and the bot's key."""
    bot = service.make_bot("Ada", W)
    Token.create(mint=M, symbol=told, name=told, discovered_at=NOW, tracked_at=NOW, found_by="[]")
    service.observe_trade(W, "buy", 1, mint=M)
    position = {"mint": M, "amountRaw": "5", "costLamports": "4", "unknownBasisRaw": "0"}
    shown = orjson.dumps([{**position, "decimals": 0}]).decode()
    Wallet.update(positions=shown).execute()
    sent = {"eventId": "1", "body": "Words.", "mint": M, "symbol": told}
    service.post({**sent, "signature": signature("buy")}, bot.publish_key.text)
    return bot.bot.uid, bot.publish_key.text


def list_symbols(shown, mint):
    """Every `symbol` next to this mint in a response."""
    if isinstance(shown, list):
        return [one for part in shown for one in list_symbols(part, mint)]
    if not isinstance(shown, dict):
        return []
    own = [shown["symbol"]] if shown.get("mint") == mint and "symbol" in shown else []
    return own + [one for part in shown.values() for one in list_symbols(part, mint)]


@pytest.mark.parametrize("told", ["USDC\u200b", "USDС"])
def test_an_imitation_is_shown_with_its_mint_and_a_warning(service, told):
    uid, key = observe(service, told)
    plain = told.replace("\u200b", "")
    lists = {"/api/market": 1, "/api/v1/market": 1, "/api/v1/trades": 2, "/api/v1/feed": 1}
    lists |= {f"/api/v1/activity?mint={M}": 1, f"/api/v1/bots/{uid}": 4}
    for path, count in lists.items():
        shown = list_symbols(service.get(path, key).json, M)
        assert len(shown) >= count and set(shown) == {f"{plain} ({SHORT})"}, path
    assert f"{plain} ({SHORT})" in service.get(f"/bots/{uid}/trades.csv").text
    hits = service.get(f"/api/v1/search?q={M}", key).json["data"]
    (hit,) = [one for one in hits if one["kind"] == "token"]
    assert hit["title"] == hit["text"] == f"{plain} ({SHORT})"
    for path in (f"/tokens/{M}", "/market", f"/search?q={M}"):
        page = service.get(path).text
        assert f"{plain} ({SHORT})" in page and "the well-known USDC" in page, path
    for path in ("/", f"/bots/{uid}", f"/bots/{uid}?tab=trades", f"/tokens/{M}", "/market"):
        page = service.get(path).text
        assert f"<bdi>{plain}</bdi>" not in page and "\u200b" not in page, path


def test_a_well_known_token_is_shown_by_its_symbol(service):
    """Also in lists without a market."""
    Token.create(mint=USDC, symbol="FAKE", name="x", discovered_at=NOW, tracked_at=NOW)
    assert service.get("/api/market").json["data"][0]["symbol"] == "USDC"
    page = service.get(f"/tokens/{USDC}").text
    assert "<bdi>USDC</bdi>" in page and "well-known" not in page
    jup = "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN"
    key = service.make_bot("Ada", W).publish_key.text
    service.observe_trade(W, "buy", 1, mint=jup)
    service.post({"eventId": "1", "body": "Words.", "signature": signature("buy")}, key)
    for path, count in (("feed", 1), ("trades", 2), (f"activity?mint={jup}", 1)):
        shown = list_symbols(service.get(f"/api/v1/{path}", key).json, jup)
        assert len(shown) >= count and set(shown) == {"JUP"}
