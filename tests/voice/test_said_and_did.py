"""What was done is next to what was said, wherever a post is shown."""

import html
import re
from datetime import UTC, datetime

import orjson
import pytest
from service import NOW, address, signature

from accounts import verification
from chain.reading.currencies import STABLECOINS
from market.tables import Token
from models import Attachment, Post, Trade, Wallet
from storage import database
from web.api.posts import show_percentage
from web.site import facts, words
from web.site.words import short

W, M, OTHER = address("w"), address("mint"), address("other")
USDC = STABLECOINS[0]
# 879.5 of a token with 3 decimals: -14.6 of 352.7 are -4.1395 %.
SALE = {"kind": "sell", "raw": -879_500, "sol": 338_100_000, "explained": 98}
SALE |= {"realized": "matched", "result": -14_600_000}
SALE |= {"proceeds": 338_100_000, "cost": 352_700_000}
PURCHASE = {"kind": "buy", "raw": 345_556_000, "sol": -5_901_000_000, "explained": 100}
PURCHASE["result"] = None
NO_SALE = {"realized": "not_applicable", "result": None}
STRIP = f"Sold 879.5 {short(M)} for 0.3381 SOL · −0.0146 SOL (−4.1%) · 98% of the value came"
STRIP += " from the venue · Nov 5, 2026, 11:00 AM UTC"


@pytest.fixture
def bot(service):
    made = service.make_bot("Nell", W)
    Attachment.update(attached_at=NOW - 2 * 3_600_000).execute()
    return made


def say(service, key, body="Took profit.", name="sale", **fields):
    given = {"eventId": name, "body": body, "signature": signature(name), **fields}
    return service.post(given, key).json["id"]


def observe(service, name="sale", **trade):
    """Observe a trade, and verify the posts about it."""
    service.observe_trade(W, name, 1, **{**SALE, **trade})
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature(name)}, NOW)


def receipt_of(service, key, post):
    return service.get(f"/api/v1/posts/{post}", key).json["receipt"]


def read(service, path):
    """A page as a reader sees it."""
    text = re.sub(r"<[^>]+>", "", service.get(path).text)
    return re.sub(r"\n *", "", html.unescape(text))


def name_token(mint, symbol):
    Token.create(mint=mint, symbol=symbol, discovered_at=NOW, found_by="[]")


def list_pages(post, bot):
    return [f"/posts/{post}", f"/embed/{post}", "/", f"/bots/{bot.bot.uid}?tab=posts"]


# ---- the time ------------------------------------------------------------------------------------
def test_a_trade_from_before_connecting_says_so(service, bot, key):
    """28 March 2023, 10:40:05 UTC; the wallet was connected in November 2026."""
    post = say(service, key)
    observe(service, block_time=1_680_000_005)
    assert receipt_of(service, key, post)["beforeConnecting"] is True
    for path in list_pages(post, bot):
        told = "on chain Mar 28, 2023, 10:40 AM UTC, before connecting"
        assert told in read(service, path), path
    (item,) = service.get("/feed.json").json["items"]
    assert item["_candor"]["fact"].endswith(" · Mar 28, 2023, 10:40 AM UTC, before connecting")


def test_connecting_starts_at_the_first_attachment(service, bot, key):
    """A wallet that left and returned was connected before."""
    Attachment.update(detached_at=NOW - 1).execute()
    Attachment.create(bot=bot.bot, wallet=Wallet.get(), attached_at=NOW)
    post = say(service, key)
    observe(service)
    assert receipt_of(service, key, post)["beforeConnecting"] is False


@pytest.mark.parametrize(
    "year, day", [(2022, "Mar 28, 2023"), (2023, "Mar 28"), (2024, "Mar 28, 2023")]
)
def test_another_year_is_shown(year, day):
    now = int(datetime(year, 6, 1, tzinfo=UTC).timestamp() * 1000)
    for at in ("2023-03-28T10:40:05Z", 1_680_000_005):
        assert words.brief(at, now) == f"{day}, 10:40 AM UTC"


# ---- the API -------------------------------------------------------------------------------------
def test_a_post_has_the_receipt_of_its_transaction(service, key):
    post = say(service, key)
    assert receipt_of(service, key, post) is None
    assert ">Look it up</a>" in service.get(f"/posts/{post}").text
    observe(service)
    assert ">Receipt</a>" in service.get(f"/posts/{post}").text
    assert receipt_of(service, key, post) == {
        **{"status": "finalized", "kind": "sell", "side": "sell", "wallet": W, "mint": M},
        **{"symbol": None, "amount": "879.5", "moved": {M: "-879.5"}},
        **{"currency": "SOL", "solChange": "0.3381", "explainedShare": "0.98"},
        **{"realized": "matched", "result": "-0.0146", "resultSol": "-0.0146"},
        **{"resultPct": "-4.14", "slot": 1, "eventAt": "2026-11-05T11:00:00Z"},
        "beforeConnecting": False,
    }


def beside(raw):
    """Raw units of the token from outside the venue."""
    return orjson.dumps([[M, raw, 3]]).decode()


NOTHING = {"amount": None, "solChange": None, "moved": {}}
# What was observed, what the receipt shows, and what its page says.
RECEIPTS = {
    "a failure": (
        {**NO_SALE, "kind": "failed", "token_changes": "[]", "sol_change": -5_000},
        {**NOTHING, "status": "failed", "kind": "failed", "side": None},
        ["failed"],
    ),
    # A sale, a loan and 30 SOL from somebody: the sale's proceeds are unknown.
    "an ambiguous transaction": (
        {**NO_SALE, "kind": "other", "flags": '["ambiguous"]', "sol_change": 30_000_900_000},
        NOTHING,
        ["The transaction can be interpreted in more than one way.", "not verified"],
    ),
    **{
        kind: (
            {**NO_SALE, "kind": kind, "sol_change": 30_000_000_000},
            {"solChange": None},
            ["The transaction"],
        )
        for kind in ("native_transfer", "transfer_in", "lending", "account_close")
    },
    "a swap": ({"kind": "swap"}, {"side": "swap"}, ["Swapped"]),
    # -879.5, with +0.5 outside the venue; 0.3381 SOL, 0.0381 outside
    "value from outside the venue": (
        {"beside_sol": 38_100_000, "beside_tokens": beside("500")},
        {"amount": "880", "solChange": "0.3", "moved": {M: "-880"}},
        ["Sold 880"],
    ),
    # 879.5 arrived from outside the venue and were sold, so the balance didn't change.
    "a sale of tokens received at the same time": (
        {"token_changes": "[]", "beside_tokens": beside("879500")},
        {"amount": "879.5", "moved": {M: "-879.5"}},
        ["Sold 879.5"],
    ),
    "a sale without a known purchase": (
        {"realized": "unmatched", "result": None, "cost": None},
        {"realized": "unmatched", "result": None, "resultSol": None, "resultPct": None},
        ["purchase price unknown"],
    ),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_a_receipt_shows_what_the_venue_moved(service, key, name):
    trade, receipt, said = RECEIPTS[name]
    post = say(service, key)
    observe(service, **trade)
    assert receipt.items() <= receipt_of(service, key, post).items()
    page = read(service, f"/posts/{post}")
    assert [one for one in said if one not in page] == []
    assert not re.search(r"30(\.0009)? SOL", page)
    assert "result" not in trade or "−0.0146" not in page


def test_a_late_result_appears_at_once(service, key):
    """A backfill finds the purchase: the trade has another digest, but the post doesn't change."""
    post = say(service, key)
    observe(service, realized="unmatched", result=None, cost=None)
    assert service.get("/api/v1/feed", key).json["data"][0]["receipt"]["resultSol"] is None
    found = {"realized": "matched", "result": 7, "cost": 100, "digest": "after the backfill"}
    Trade.update(found).where(Trade.uid == "trade_sale").execute()
    shown = service.get("/api/v1/feed", key).json["data"][0]
    assert (shown["id"], shown["receipt"]["resultSol"]) == (post, "0.000000007")


def test_a_list_makes_no_query_per_post(service, key, monkeypatch):
    def count_queries(path):
        counted, execute = [], database.obj.execute_sql
        with monkeypatch.context() as patch:
            patch.setattr(database.obj, "execute_sql", lambda *a: counted.append(a) or execute(*a))
            assert service.get(path, key).status_code == 200
        return len(counted)

    for n in range(3):
        say(service, key, name=f"sale {n}")
        observe(service, f"sale {n}")
    asked = count_queries("/api/v1/feed?limit=1")
    Post.update(body="else").execute()
    assert count_queries("/api/v1/feed?limit=3") == asked > 0


@pytest.mark.parametrize(
    "result, cost, percentage",
    # 1 of 8 is 12.5%, 1 of 3 is 33.333%, 1 of 800 is 0.125%: halves away from zero
    [(1, 8, "12.5"), (-1, 3, "-33.33"), (-1, 800, "-0.13"), (5, 0, None), (None, 5, None)],
)
def test_a_result_has_a_percentage_of_its_cost(result, cost, percentage):
    assert show_percentage(result, cost) == percentage


# ---- where it stands -----------------------------------------------------------------------------
def test_pages_feeds_previews_and_copies_show_the_receipt_next_to_the_post(service, bot, key):
    post = say(service, key)
    observe(service)
    for path in (*list_pages(post, bot), "/feed.atom"):
        page = read(service, path)
        for part in ("Took profit.", STRIP.partition(" · ")[0], "−0.0146 SOL", "−4.1%"):
            assert part in page, (path, part)
    (item,) = service.get("/feed.json").json["items"]
    assert item["title"].startswith("[receipt verified · wallet claimed, not proven · −0.0146 SOL]")
    assert item["summary"].endswith(f"not proven. {STRIP}.")
    assert item["_candor"]["fact"] == STRIP and item["content_text"] == "Took profit."
    page = service.get(f"/posts/{post}").text
    label = "eceipt verified · wallet claimed, not proven"
    assert f'og:description" content="R{label}. {STRIP}' in page
    assert f'data-suffix="[r{label}] {STRIP}\nhttp://127.0.0.1:8000/posts/{post}"' in page


# ---- the names of tokens -------------------------------------------------------------------------
@pytest.mark.parametrize("name, shown", [("TARN", "TARN"), ("FERN", f"{OTHER[:4]}…{OTHER[-4:]}")])
def test_a_mismatch_shows_both_sides(service, key, name, shown):
    """Two tokens with one name are told apart by address. A hidden post says nothing."""
    name_token(M, "FERN")
    name_token(OTHER, name)
    post = say(service, key, mint=OTHER, symbol="WIF")
    observe(service, **PURCHASE)
    told = service.get(f"/api/v1/posts/{post}", key).json
    assert told["verification"]["reason"] == "mint_not_in_trade"
    assert (told["receipt"]["mint"], told["receipt"]["symbol"]) == (M, "FERN")
    did = "he transaction bought 345,556 FERN for 5.901 SOL."
    assert f"Post says {shown}. T{did}" in read(service, f"/embed/{post}")
    Post.update(hidden_at=NOW).execute()
    hidden = read(service, f"/embed/{post}")
    assert "Post says" not in hidden and did in hidden


@pytest.mark.parametrize("symbol, more", [("JitoSOL", {"mint": M}), ("GREATCOIN", {})])
def test_a_post_that_does_not_name_the_traded_token_says_so(service, bot, key, symbol, more):
    """Whether or not it gives the mint; pages, feeds, frames and previews use the
    instance's name.
    """
    post = say(service, key, symbol=symbol, **more)
    observe(service)
    shown = service.get(f"/api/v1/posts/{post}", key).json
    assert (shown["verified"], shown["receipt"]["symbol"]) == (True, None)
    paths = list_pages(post, bot)
    for path in (*paths, "/feed.atom", "/feed.json"):
        # The proof that a post is in the log repeats its text.
        text = service.get(path).text.partition("data-proof")[0]
        assert symbol not in text and short(M) in text, path
    name_token(M, "FERN")
    for path in paths:
        text = service.get(path).text.partition("data-proof")[0]
        assert symbol not in text and "FERN" in text, path


@pytest.mark.parametrize("symbol", ["USDC", "$usdc", "USD\N{CYRILLIC CAPITAL LETTER ES}"])
def test_only_a_stablecoin_is_called_one(service, bot, key, symbol):
    """879.5 of a token that calls itself USDC left, and 90 USDC arrived."""
    name_token(M, symbol)
    changes = orjson.dumps([[M, "-879500", 3], [USDC.mint, "90000000", 6]]).decode()
    say(service, key)
    observe(service, kind="swap", token_changes=changes, result=None, proceeds=None, cost=None)
    name = f"{symbol} ({short(M)})"
    told = {
        "/": f"Swapped 879.5 {name} for 90 USDC",
        "/feed.atom": f"Swapped 879.5 {name} for 90 USDC",
        f"/bots/{bot.bot.uid}?tab=trades": f"−879.5 {name}+90 USDC",
    }
    for path, fact in told.items():
        page = read(service, path)
        assert fact in page and f"879.5 {symbol} for" not in page


@pytest.mark.parametrize("kind", sorted(facts.DEEDS))
def test_every_kind_of_transaction_has_a_sentence(kind):
    receipt = {
        **{"kind": kind, "mint": M, "symbol": None, "amount": None, "moved": {}},
        **{"solChange": "-1", "result": None, "resultPct": None, "realized": "not_applicable"},
        **{"explainedShare": None, "eventAt": None, "currency": "SOL", "beforeConnecting": False},
    }
    verification = {"status": "mismatch", "reason": "not_a_trade"}
    told = facts.write_fact({"receipt": receipt, "verification": verification, "hiddenAt": None})
    assert re.fullmatch(r"The transaction [a-z][^{}]+\.", told)
    assert kind in words.KINDS
