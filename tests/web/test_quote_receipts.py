"""A post about a sale for a stablecoin shows the sale's result next to its words, wherever it is
shown, and updates at once.
"""

import re

import orjson
import pytest
from quoted import derive, quote_trade
from service import NOW, address, signature
from teller import Teller
from test_board import observe
from test_said_and_did import W, receipt_of, say

from accounts import verification
from agents.answers import trim_post
from chain.reading.currencies import STABLECOINS
from models import Post, Trade, Wallet
from web.api.stream import list_events

M = address("mint")
USDC, USDT = STABLECOINS[:2]
# 879.5 of a token for 338.1 USDC, at a cost of 352.7: 14.6 less, 4.1395% of the cost.
SOLD = {"change": 338_100_000, "status": "matched", "matched_raw": "879500"}
SOLD |= {"result": -14_600_000, "proceeds": 338_100_000, "cost": 352_700_000}
CHANGES = orjson.dumps([[M, "-879500", 3], [USDC.mint, "338100000", 6]]).decode()


@pytest.fixture
def bot(service):
    made = service.make_bot("Nell", W)
    derive(W, {})
    return made


def sell(service, name="sale", **quoted):
    """Observe a sale for USDC, and verify the posts about it."""
    service.observe_trade(W, name, 1, kind="sell", sol=-5_000, token_changes=CHANGES)
    if quoted:
        quote_trade(f"trade_{name}", **quoted)
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature(name)}, NOW)


# ---- the API -------------------------------------------------------------------------------------
def test_a_receipt_shows_its_stablecoin_result(service, bot, get, key):
    post = say(service, key)
    sell(service, **SOLD)
    told = receipt_of(service, key, post)
    result = {"kind": "sell", "currency": "USDC", "result": "-14.6", "resultSol": None}
    assert (result | {"resultPct": "-4.14"}).items() <= told.items()
    shown = [get("feed").json["data"][0], get(f"posts/{post}").json]
    shown.append(get(f"bots/{bot.bot.uid}").json["feed"][0])
    streamed = list_events("http://here", 0, 100)
    shown += [one.shown for one in streamed if one.kind in ("post", "verification")]
    assert [one["receipt"] for one in shown] == [told] * 5
    trimmed = trim_post(get(f"posts/{post}").json)["receipt"]
    assert (trimmed["currency"], trimmed["result"]) == ("USDC", "-14.6")
    since = get("feed?limit=1").json["newestCursor"]
    later = say(service, key, name="later")
    (arrived,) = get(f"feed?since={since}").json["data"]
    assert (arrived["id"], arrived["receipt"]) == (later, None)
    sell(service, "later", **SOLD)
    (arrived,) = get(f"feed?since={since}").json["data"]
    assert arrived["receipt"]["result"] == told["result"]


# ---- what was rendered before --------------------------------------------------------------------
@pytest.mark.parametrize(
    "changed, name, shown",
    [
        ({"result": 7_000_000}, "result", "7"),
        # 14.6 of 1,460
        ({"cost": 1_460_000_000}, "resultPct", "-1"),
        ({"realized": "partial"}, "realized", "partial"),
        ({"currency": USDT.mint}, "currency", "USDT"),
    ],
)
def test_a_changed_ledger_shows_at_once_though_post_and_trade_are_unchanged(
    service, key, changed, name, shown
):
    say(service, key)
    sell(service, **SOLD)
    (before,) = service.get("/api/v1/feed", key).json["data"]
    Trade.update(changed).execute()
    (after,) = service.get("/api/v1/feed", key).json["data"]
    assert before["receipt"][name] != after["receipt"][name] == shown
    assert {**before, "receipt": None} == {**after, "receipt": None}


def test_a_purchase_found_later_gives_a_post_its_result(service):
    """1,000 A for 40 USDC, found after its sale for 55 and the post about that: 15 earned. In SOL
    nothing changes except the inherited cost.
    """
    key = service.make_bot("Ada", W).publish_key.text
    told = Teller().gain(USDC.mint, 40_000_000).swap(USDC.mint, 40_000_000, "A", 1_000)
    bought = told.entries[-1]
    told.swap("A", 1_000, USDC.mint, 55_000_000)
    sold = told.entries[-1]
    service.post({"eventId": "1", "body": "Sold."}, key)
    observe(W, [one for one in told.entries if one is not bought])
    Post.update(trade=Trade.get(Trade.signature == sold.signature)).execute()
    (before,) = service.get("/api/v1/feed", key).json["data"]
    assert before["receipt"]["result"] is None
    observe(W, [bought])
    (after,) = service.get("/api/v1/feed", key).json["data"]
    told = after["receipt"]
    # 15 of 40
    assert (told["realized"], told["result"], told["resultPct"]) == ("matched", "15", "37.5")


# ---- where it stands -----------------------------------------------------------------------------
def test_trades_paid_in_another_currency_have_no_result(service, key):
    post = say(service, key)
    sell(service, change=338_100_000, status="unmatched", paid_elsewhere=True)
    page = service.get(f"/posts/{post}").text
    assert "purchase price unknown" in page and 'class="result"' not in page
    (item,) = service.get("/feed.json").json["items"]
    assert item["title"].startswith("[receipt verified · wallet claimed, not proven] ")


def test_a_part_paid_in_another_currency_is_stated(service, key):
    post = say(service, key)
    sell(service, **{**SOLD, "status": "partial", "unmatched_raw": "9", "paid_elsewhere": True})
    page = re.sub(r"<[^>]+>", "", service.get(f"/posts/{post}").text)
    assert "−14.60 USDC" in page and "for the part with a known purchase price" in page
