"""What was done is next to what was said, wherever a post is shown."""

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
SALE = {
    "kind": "sell",
    "raw": -879_500,
    "sol": 338_100_000,
    "realized": "matched",
    "result": -14_600_000,
    "proceeds": 338_100_000,
    "cost": 352_700_000,
    "explained": 98,
}


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


def test_a_trade_from_before_connecting_says_so(service, bot, key):
    """28 March 2023, 10:40:05 UTC; the wallet was connected in November 2026."""
    post = say(service, key)
    observe(service, block_time=1_680_000_005)
    assert receipt_of(service, key, post)["beforeConnecting"] is True
    for path in ("/", f"/posts/{post}", f"/embed/{post}", f"/bots/{bot.bot.uid}?tab=posts"):
        plain = re.sub(r"<[^>]+>", "", service.get(path).text)
        assert "on chain Mar 28, 2023, 10:40 AM UTC, before connecting" in plain, path
    (item,) = service.get("/feed.json").json["items"]
    assert item["_candor"]["fact"].endswith(" · Mar 28, 2023, 10:40 AM UTC, before connecting")


def test_connecting_starts_at_the_first_attachment(service, bot, key):
    """A wallet that left and returned was connected before."""
    came_back = {"bot": bot.bot, "wallet": Wallet.get(), "attached_at": NOW}
    Attachment.update(detached_at=NOW - 1).execute()
    Attachment.create(**came_back)
    post = say(service, key)
    observe(service)
    assert receipt_of(service, key, post)["beforeConnecting"] is False


@pytest.mark.parametrize(
    "year, told",
    [
        (2023, "Mar 28, 10:40 AM UTC"),
        (2024, "Mar 28, 2023, 10:40 AM UTC"),
        (2022, "Mar 28, 2023, 10:40 AM UTC"),
    ],
)
def test_another_year_is_shown(year, told):
    now = int(datetime(year, 6, 1, tzinfo=UTC).timestamp() * 1000)
    assert words.brief("2023-03-28T10:40:05Z", now) == words.brief(1_680_000_005, now) == told


# ---- the API -------------------------------------------------------------------------------------
def test_a_post_has_the_receipt_of_its_transaction(service, key):
    post = say(service, key)
    assert receipt_of(service, key, post) is None
    observe(service)
    assert receipt_of(service, key, post) == {
        "status": "finalized",
        "kind": "sell",
        "side": "sell",
        "wallet": W,
        "mint": M,
        "symbol": None,
        # 879,500 raw units of a token with 3 decimals
        "amount": "879.5",
        "currency": "SOL",
        "moved": {M: "-879.5"},
        "solChange": "0.3381",
        "realized": "matched",
        "result": "-0.0146",
        "resultSol": "-0.0146",
        # -14.6 of 352.7 are -4.1395 %
        "resultPct": "-4.14",
        "explainedShare": "0.98",
        "slot": 1,
        "eventAt": "2026-11-05T11:00:00Z",
        "beforeConnecting": False,
    }


def test_a_failed_receipt_has_no_amounts(service, key):
    post = say(service, key)
    observe(
        service, kind="failed", token_changes="[]", sol_change=-5_000, realized="not_applicable"
    )
    shown = receipt_of(service, key, post)
    assert (shown["status"], shown["kind"], shown["side"]) == ("failed", "failed", None)
    assert (shown["amount"], shown["solChange"], shown["moved"]) == (None, None, {})
    page = service.get(f"/posts/{post}")
    assert page.status_code == 200 and "failed" in page.text


def test_an_ambiguous_transaction_shows_no_amounts(service, key):
    """A sale, a loan and 30 SOL from somebody: the sale's proceeds are unknown."""
    post = say(service, key)
    observe(
        service,
        kind="other",
        flags='["ambiguous"]',
        sol_change=30_000_900_000,
        realized="not_applicable",
        result=None,
    )
    shown = service.get(f"/api/v1/posts/{post}", key).json
    verification = shown["verification"]
    assert shown["verified"] is False
    assert (verification["status"], verification["reason"]) == ("none", "ambiguous")
    receipt = shown["receipt"]
    assert (receipt["amount"], receipt["solChange"], receipt["moved"]) == (None, None, {})
    page = service.get(f"/posts/{post}").text
    assert "The transaction can be interpreted in more than one way." in page and "30.0" not in page
    assert "not verified" in page and "does not match" not in page


@pytest.mark.parametrize("kind", ["native_transfer", "transfer_in", "lending", "account_close"])
def test_only_venue_amounts_are_the_sol_of_a_receipt(service, key, kind):
    post = say(service, key)
    observe(service, kind=kind, sol_change=30_000_000_000, realized="not_applicable", result=None)
    assert receipt_of(service, key, post)["solChange"] is None
    page = service.get(f"/posts/{post}").text
    assert "The transaction" in page and ">30" not in page


def test_a_swap_has_a_side(service, key):
    post = say(service, key)
    observe(service, kind="swap")
    assert receipt_of(service, key, post)["side"] == "swap"


def test_outside_value_is_not_in_the_receipt(service, key):
    beside = orjson.dumps([[M, "500", 3]]).decode()
    post = say(service, key)
    observe(service, beside_sol=38_100_000, beside_tokens=beside)
    shown = receipt_of(service, key, post)
    # -879.5, with +0.5 outside the venue; 0.3381 SOL, 0.0381 outside
    assert (shown["amount"], shown["solChange"]) == ("880", "0.3")


def test_a_sale_of_tokens_received_in_the_same_transaction_has_its_amount(service, key):
    """879.5 arrived from outside the venue and were sold, so the balance didn't change."""
    beside = orjson.dumps([[M, "879500", 3]]).decode()
    post = say(service, key)
    observe(service, token_changes="[]", beside_tokens=beside)
    shown = service.get(f"/api/v1/posts/{post}", key).json
    assert shown["receipt"]["amount"] == "879.5"
    assert shown["receipt"]["moved"] == {M: "-879.5"}
    assert shown["tokenAddresses"] == [M]
    page = service.get(f"/posts/{post}").text
    (told,) = re.findall(r'property="og:description" content="([^"]*)', page)
    assert "Sold 879.5" in told


def test_a_trade_of_another_token_is_described_as_such(service, key):
    Token.create(mint=M, symbol="FERN", discovered_at=NOW, found_by="[]")
    post = say(service, key, mint=OTHER, symbol="TARN")
    observe(service)
    shown = service.get(f"/api/v1/posts/{post}", key).json
    assert shown["verification"]["reason"] == "mint_not_in_trade"
    assert (shown["receipt"]["mint"], shown["receipt"]["symbol"]) == (M, "FERN")


def test_a_late_result_appears_at_once(service, key):
    post = say(service, key)
    observe(service, realized="unmatched", result=None, cost=None)
    shown = service.get("/api/v1/feed", key).json["data"][0]["receipt"]
    assert (shown["realized"], shown["resultSol"], shown["resultPct"]) == ("unmatched", None, None)
    # A backfill finds the purchase: the trade has another digest, but the post doesn't change.
    found = {"realized": "matched", "result": 7, "cost": 100, "digest": "after the backfill"}
    Trade.update(found).where(Trade.uid == "trade_sale").execute()
    shown = service.get("/api/v1/feed", key).json["data"][0]
    assert (shown["id"], shown["receipt"]["resultSol"]) == (post, "0.000000007")


def test_a_list_makes_no_query_per_post(service, key, monkeypatch):
    for n in range(3):
        say(service, key, name=f"sale {n}")
        observe(service, f"sale {n}")
    asked = count_queries(monkeypatch, lambda: service.get("/api/v1/feed?limit=1", key))
    Post.update(body="else").execute()
    assert count_queries(monkeypatch, lambda: service.get("/api/v1/feed?limit=3", key)) == asked


def count_queries(monkeypatch, ask):
    counted, execute = [], database.obj.execute_sql
    with monkeypatch.context() as patch:
        patch.setattr(database.obj, "execute_sql", lambda *a: counted.append(a) or execute(*a))
        assert ask().status_code == 200
    assert counted
    return len(counted)


@pytest.mark.parametrize(
    "result, cost, percentage",
    # 1 of 8 is 12.5%, 1 of 3 is 33.333%, 1 of 800 is 0.125%: halves away from zero
    [(1, 8, "12.5"), (-1, 3, "-33.33"), (-1, 800, "-0.13"), (5, 0, None), (None, 5, None)],
)
def test_a_result_has_a_percentage_of_its_cost(result, cost, percentage):
    assert show_percentage(result, cost) == percentage


# ---- where it stands -----------------------------------------------------------------------------
STRIP = "−0.0146 SOL"


@pytest.mark.parametrize(
    "path", ["/", "/posts/{post}", "/bots/{bot}?tab=posts", "/embed/{post}", "/feed.atom"]
)
def test_the_receipt_is_next_to_the_post(service, bot, key, path):
    post = say(service, key)
    observe(service)
    text = service.get(path.format(post=post, bot=bot.bot.uid)).text
    # 879,500 raw units with 3 decimals; -14.6 of 352.7 is -4.1%
    assert "Took profit." in text and STRIP in text and "−4.1%" in text
    plain = re.sub(r"<[^>]+>", "", text)
    assert f"Sold 879.5 {short(M)} for 0.3381 SOL" in plain


def test_feeds_previews_and_copies_contain_the_receipt_as_text(service, key):
    post = say(service, key)
    observe(service)
    strip = f"Sold 879.5 {short(M)} for 0.3381 SOL · −0.0146 SOL (−4.1%) · 98% of the value came"
    strip += " from the venue · Nov 5, 2026, 11:00 AM UTC"
    (item,) = service.get("/feed.json").json["items"]
    assert item["title"].startswith("[receipt verified · wallet claimed, not proven · −0.0146 SOL]")
    assert item["summary"].endswith(f"not proven. {strip}.")
    assert item["_candor"]["fact"] == strip and item["content_text"] == "Took profit."
    page = service.get(f"/posts/{post}").text
    described = f'og:description" content="Receipt verified · wallet claimed, not proven. {strip}'
    assert described in page
    copied = (
        f"[receipt verified · wallet claimed, not proven] {strip}\nhttp://127.0.0.1:8000/posts/"
    )
    assert f'data-suffix="{copied}{post}"' in page


def test_a_mismatch_shows_both_sides(service, key):
    Token.create(mint=M, symbol="FERN", discovered_at=NOW, found_by="[]")
    Token.create(mint=OTHER, symbol="TARN", discovered_at=NOW, found_by="[]")
    post = say(service, key, mint=OTHER, symbol="WIF")
    observe(service, kind="buy", raw=345_556_000, sol=-5_901_000_000, result=None, explained=100)
    text = re.sub(r"<[^>]+>", "", service.get(f"/embed/{post}").text)
    assert "Post says TARN. The transaction bought 345,556 FERN for 5.901 SOL." in text
    Post.update(hidden_at=NOW).execute()
    hidden = re.sub(r"<[^>]+>", "", service.get(f"/embed/{post}").text)
    assert "Post says" not in hidden and "The transaction bought 345,556 FERN" in hidden


@pytest.mark.parametrize("symbol", ["JitoSOL", "WIF", "GREATCOIN"])
@pytest.mark.parametrize("named", [True, False])
def test_a_post_that_does_not_name_the_traded_token_says_so(service, bot, key, symbol, named):
    """Whether or not it gives the mint; pages, feeds, frames and previews use the
    instance's name.
    """
    more = {"mint": M} if named else {}
    post = say(service, key, symbol=symbol, **more)
    observe(service)
    shown = service.get(f"/api/v1/posts/{post}", key).json
    assert (shown["verified"], shown["receipt"]["symbol"]) == (True, None)
    paths = ("/", f"/posts/{post}", f"/embed/{post}", f"/bots/{bot.bot.uid}?tab=posts")
    for path in (*paths, "/feed.atom", "/feed.json"):
        # The proof that a post is in the log repeats its text.
        text = service.get(path).text.partition("data-proof")[0]
        assert symbol not in text and short(M) in text, path
    Token.create(mint=M, symbol="FERN", discovered_at=NOW, found_by="[]")
    for path in paths:
        text = service.get(path).text.partition("data-proof")[0]
        assert symbol not in text and "FERN" in text, path


def test_two_tokens_with_one_name_show_their_addresses(service, key):
    Token.create(mint=M, symbol="FERN", discovered_at=NOW, found_by="[]")
    Token.create(mint=OTHER, symbol="FERN", discovered_at=NOW, found_by="[]")
    post = say(service, key, mint=OTHER, symbol="FERN")
    observe(service, kind="buy", raw=345_556_000, sol=-5_901_000_000, result=None, explained=100)
    text = re.sub(r"<[^>]+>", "", service.get(f"/embed/{post}").text)
    said = f"{OTHER[:4]}…{OTHER[-4:]}"
    assert f"Post says {said}. The transaction bought 345,556 FERN for 5.901 SOL." in text


def test_a_sale_without_a_known_purchase_says_so(service, key):
    post = say(service, key)
    observe(service, realized="unmatched", result=None, cost=None)
    text = service.get(f"/posts/{post}").text
    assert "purchase price unknown" in text and STRIP not in text


def test_a_token_name_is_escaped(service, key):
    Token.create(mint=M, symbol="<b>{pine}", discovered_at=NOW, found_by="[]")
    post = say(service, key)
    observe(service)
    text = service.get(f"/posts/{post}").text
    assert "<bdi>&lt;b&gt;{pine}</bdi>" in text and "<b>{pine}" not in text


@pytest.mark.parametrize("symbol", ["USDC", "$usdc", "USD\N{CYRILLIC CAPITAL LETTER ES}"])
def test_only_a_stablecoin_is_called_one(service, bot, key, symbol):
    """879.5 of a token that calls itself USDC left, and 90 USDC arrived."""
    Token.create(mint=M, symbol=symbol, discovered_at=NOW, found_by="[]")
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
        words = re.sub("<[^>]+>|\n *", "", service.get(path).text)
        assert fact in words and f"879.5 {symbol} for" not in words


def test_only_an_observed_transaction_is_called_a_receipt(service, key):
    post = say(service, key)
    assert ">Look it up</a>" in service.get(f"/posts/{post}").text
    observe(service)
    assert ">Receipt</a>" in service.get(f"/posts/{post}").text


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
