"""/api/v1 as its clients see it: pages, filters, shapes, the leaderboard."""

import base64

import orjson
import pytest
from service import NOW, address, signature

from accounts import influencers, wallets
from market.tables import Token
from models import Wallet

W, M = address("w"), address("m")


def post_many(service, key, count, first=0):
    return [
        service.post({"eventId": f"e{n}", "body": f"post {n}"}, key).json["id"]
        for n in range(first, first + count)
    ]


def problem(answer):
    assert answer.content_type == "application/problem+json"
    return answer.status_code, answer.json["code"]


# ---- pages ---------------------------------------------------------------------------------------
def test_paging_meets_every_post_once_while_others_arrive(service, key):
    made = post_many(service, key, 12)
    first = service.get("/api/v1/feed?limit=5", key).json
    post_many(service, key, 3, first=100)
    second = service.get(f"/api/v1/feed?limit=5&cursor={first['nextCursor']}", key).json
    third = service.get(f"/api/v1/feed?limit=5&cursor={second['nextCursor']}", key).json
    assert [row["id"] for page in (first, second, third) for row in page["data"]] == made[::-1]
    assert third["nextCursor"] is None and first["limit"] == 5 and first["asOf"].endswith("Z")


def test_a_full_last_page_has_no_cursor(service, key):
    post_many(service, key, 4)
    page = service.get("/api/v1/feed?limit=2", key).json
    assert (
        service.get(f"/api/v1/feed?limit=2&cursor={page['nextCursor']}", key).json["nextCursor"]
        is None
    )


def test_every_list_can_be_paged(service, bot, key):
    for n in range(7):
        service.make_bot(f"Bot {n}")
        service.observe_trade(
            W, f"t{n}", slot=100 + n // 3, place=n % 3, mint=M, kind="sell" if n % 2 else "buy"
        )
    assert len(service.pages("/api/v1/bots", key, 3)) == 8
    order = [row["signature"] for row in service.pages("/api/v1/trades", key, 2)]
    assert order == [signature(f"t{n}") for n in (6, 5, 4, 3, 2, 1, 0)]
    for path in (
        f"/api/v1/trades?wallet={W}",
        f"/api/v1/trades?mint={M}",
        f"/api/v1/trades?botId={bot.bot.uid}",
        f"/api/v1/trades?wallet={W}&mint={M}&botId={bot.bot.uid}",
        f"/api/v1/activity?mint={M}",
    ):
        assert [row["signature"] for row in service.pages(path, key, 2)] == order


@pytest.mark.parametrize(
    "limit, shown", [("1", 1), ("100", 100), ("101", 100), ("9" * 5000, 100), (None, 20)]
)
def test_a_page_has_the_requested_rows_up_to_a_hundred(service, key, limit, shown):
    assert (
        service.get("/api/v1/feed" + (f"?limit={limit}" if limit else ""), key).json["limit"]
        == shown
    )


@pytest.mark.parametrize(
    "limit", ["0", "-1", "abc", "1.5", "1e2", "", "%2B5", "%D9%A1", "000", "1_0", "%201", "0x1"]
)
def test_a_limit_is_a_whole_number_from_one(service, key, limit):
    for path in ("bots", "feed", "trades", "leaderboard", "market", f"activity?mint={M}"):
        answer = service.get(f"/api/v1/{path}{'&' if '?' in path else '?'}limit={limit}", key)
        assert problem(answer) == (400, "invalid_parameter")
        assert answer.json["errors"][0]["field"] == "limit"


def test_a_cursor_works_only_in_its_own_list(service, key):
    post_many(service, key, 3)
    for n in range(3):
        service.observe_trade(W, f"t{n}", slot=n, mint=M)
    feed = service.get("/api/v1/feed?limit=1", key).json
    of_mint = service.get(f"/api/v1/trades?mint={M}&limit=1", key).json["nextCursor"]
    # Another limit is the same list.
    assert service.get(f"/api/v1/trades?mint={M}&limit=7&cursor={of_mint}", key).status_code == 200
    for path in (
        f"trades?cursor={feed['nextCursor']}",
        f"bots?cursor={feed['nextCursor']}",
        f"trades?cursor={of_mint}",
        f"trades?wallet={W}&mint={M}&cursor={of_mint}",
        f"trades?mint={address('other')}&cursor={of_mint}",
        f"activity?mint={M}&cursor={of_mint}",
        f"feed?cursor={feed['newestCursor']}",
        f"feed?since={feed['nextCursor']}",
    ):
        assert problem(service.get(f"/api/v1/{path}", key)) == (400, "invalid_cursor"), path


def test_a_forged_cursor_is_refused(service, key):
    post_many(service, key, 3)
    good = service.get("/api/v1/feed?limit=1", key).json["nextCursor"]
    raw = base64.urlsafe_b64decode(good + "=" * (-len(good) % 4))
    forged = [
        good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :] for at in range(len(good))
    ]
    forged += [
        good[:-1],
        good + "A",
        good + "=",
        good + "%0A",
        "abc",
        "7",
        "",
        "%00",
        "%C3%A9",
        "A" * 3000,
        base64.urlsafe_b64encode(raw[:9] + b"99").decode(),
        base64.urlsafe_b64encode(raw + b".1").decode().rstrip("="),
        base64.urlsafe_b64encode(b"[1]").decode(),
    ]
    for text in forged:
        assert problem(service.get(f"/api/v1/feed?cursor={text}", key)) == (
            400,
            "invalid_cursor",
        ), text


# ---- what arrived since --------------------------------------------------------------------------
def test_a_poller_gets_each_post_once_oldest_first(service, key):
    post_many(service, key, 2)
    since = service.get("/api/v1/feed?limit=1", key).json["newestCursor"]
    made, got = post_many(service, key, 5, first=10), []
    for _ in range(4):
        page = service.get(f"/api/v1/feed?limit=2&since={since}", key).json
        got, since = got + [row["id"] for row in page["data"]], page["newestCursor"]
        assert page["nextCursor"] is None
    assert got == made


def test_backfilled_trades_arrive_too(service, key):
    service.observe_trade(W, "new", slot=900)
    since = service.get(f"/api/v1/trades?wallet={W}", key).json["newestCursor"]
    service.observe_trade(W, "old", slot=100)
    page = service.get(f"/api/v1/trades?wallet={W}&since={since}", key).json
    assert [row["id"] for row in page["data"]] == ["trade_old"]
    assert (
        service.get(f"/api/v1/trades?wallet={W}&since={page['newestCursor']}", key).json["data"]
        == []
    )


def test_one_cursor_works_everywhere_under_any_filter(service, bot, key):
    post_many(service, key, 1)
    service.observe_trade(W, "first", slot=1)
    of_feed = service.get("/api/v1/feed?limit=1", key).json["newestCursor"]
    of_trades = service.get(f"/api/v1/trades?mint={M}", key).json["newestCursor"]
    assert of_feed == of_trades
    (post,) = post_many(service, key, 1, first=5)
    service.observe_trade(W, "second", slot=2)
    uid = bot.bot.uid
    for path in ("feed?", f"feed?botId={uid}&label=none&"):
        page = service.get(f"/api/v1/{path}since={of_trades}", key).json
        assert [row["id"] for row in page["data"]] == [post]
    for path in ("trades?", f"trades?botId={uid}&kind=trade&"):
        page = service.get(f"/api/v1/{path}since={of_feed}", key).json
        assert [row["id"] for row in page["data"]] == ["trade_second"]
    page = service.get(f"/api/v1/feed?label=verified&since={of_feed}", key).json
    assert page["data"] == []
    assert service.get(f"/api/v1/feed?since={page['newestCursor']}", key).json["data"] == []


def test_since_excludes_a_cursor(service, key):
    post_many(service, key, 2)
    page = service.get("/api/v1/feed?limit=1", key).json
    assert problem(service.get("/api/v1/feed?since=post_nobody", key)) == (400, "invalid_cursor")
    assert problem(
        service.get(f"/api/v1/feed?since={page['newestCursor']}&cursor={page['nextCursor']}", key)
    ) == (400, "invalid_parameter")


# ---- what a query may say ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path",
    [
        "trades?mint=xyz",
        "trades?wallet=0OIl",
        f"trades?mint={signature('s')}",
        f"trades?mint={M}%0A",
        "activity",
        "activity?mint=abc",
        "leaderboard?sort=luck",
        "leaderboard?window=2y",
        "leaderboard?sort=",
        "trades?botId=",
        "trades?wallet=",
        "trades?mint=",
        "trades?kind=",
        "activity?mint=",
    ],
)
def test_an_invalid_query_value_is_refused(service, key, path):
    answer = service.get(f"/api/v1/{path}", key)
    assert problem(answer) == (400, "invalid_parameter")
    name = path.partition("?")[2].partition("=")[0] or "mint"
    assert name in answer.json["detail"]


def test_unknown_values_are_empty_and_unknown_parameters_ignored(service, key):
    stranger = address("nobody")
    for path in (
        f"trades?mint={stranger}",
        f"trades?wallet={stranger}",
        "trades?botId=bot_nobody",
        f"activity?mint={stranger}",
        "feed?colour=red",
    ):
        answer = service.get(f"/api/v1/{path}", key)
        assert (answer.status_code, answer.json["data"], answer.json["nextCursor"]) == (
            200,
            [],
            None,
        )


def test_unknown_paths_and_methods_are_problem_documents(service, key):
    for path in ("bots/bot_nobody", "posts/post_nobody", "nothing", "bots/", "bots/x/y"):
        assert problem(service.get(f"/api/v1/{path}", key)) == (404, "not_found")
    for method, path in (
        ("GET", "posts"),
        ("DELETE", "feed"),
        ("PUT", "me"),
        ("OPTIONS", "feed"),
        ("TRACE", "bots"),
    ):
        answer = service.ask(method, f"/api/v1/{path}", key)
        assert problem(answer) == (405, "method_not_allowed") and answer.headers["Allow"]


# ---- shapes --------------------------------------------------------------------------------------
def test_a_trade_is_exact_to_the_unit(service, bot, key):
    service.observe_trade(
        W,
        "sale",
        slot=77,
        place=4,
        kind="sell",
        mint=M,
        raw=-18_446_744_073_709_551_615,
        decimals=6,
        sol=1_250_000_001,
        tx_index=4,
        venue="pump",
        rent=-2_039_280,
        realized="partial",
        result=-1,
        proceeds=5,
        cost=6,
        matched_raw="10",
        unmatched_raw="18446744073709551605",
        lots='[["trade_x","10",6],[null,"18446744073709551605",null]]',
        flags='["basis_carried"]',
        beside_sol=1_000_000_000,
        beside_tokens=f'[["{M}","7000000",6]]',
        explained=96,
        counterparties=f'["{address("pool")}"]',
    )
    shown = service.get("/api/v1/trades", key).json["data"][0]
    assert shown == {
        "id": "trade_sale",
        "botId": bot.bot.uid,
        "wallet": W,
        "signature": signature("sale"),
        "slot": 77,
        "transactionIndex": 4,
        "blockTime": NOW // 1000 - 3600,
        "eventAt": "2026-11-05T11:00:00Z",
        "kind": "sell",
        "currency": "SOL",
        "venue": "pump",
        "mint": M,
        "symbol": None,
        "tokenChanges": [
            {
                "mint": M,
                "symbol": None,
                "changeRaw": "-18446744073709551615",
                "change": "-18446744073709.551615",
                "decimals": 6,
                "multiplier": "1",
            }
        ],
        "solChangeLamports": "1250000001",
        "solChange": "1.250000001",
        "feeLamports": "5000",
        "tipLamports": "0",
        "rentLamports": "-2039280",
        "realized": {
            "status": "partial",
            "method": "fifo",
            "currency": "SOL",
            "resultRaw": "-1",
            "result": "-0.000000001",
            "proceedsRaw": "5",
            "costRaw": "6",
            # A loss of 1 at a cost of 6.
            "returnPct": "-16.67",
            "resultLamports": "-1",
            "resultSol": "-0.000000001",
            "proceedsLamports": "5",
            "costLamports": "6",
            "matchedRaw": "10",
            "unmatchedRaw": "18446744073709551605",
            "lots": [
                {
                    **{"tradeId": "trade_x", "amountRaw": "10"},
                    **{"costRaw": "6", "costLamports": "6"},
                },
                {
                    **{"tradeId": None, "amountRaw": "18446744073709551605"},
                    **{"costRaw": None, "costLamports": None},
                },
            ],
        },
        "explainedShare": "0.96",
        "counterparties": [address("pool")],
        "outsideVenue": {
            "solLamports": "1000000000",
            "tokenChanges": [
                {
                    "mint": M,
                    "symbol": None,
                    "changeRaw": "7000000",
                    "change": "7",
                    "decimals": 6,
                    "multiplier": "1",
                }
            ],
        },
        "flags": ["basis_carried"],
        "coverage": "none",
        "copied": None,
        "copiedReason": None,
        "explorerUrl": f"https://solscan.io/tx/{signature('sale')}",
    }


def test_unknown_values_are_null(service, key):
    service.observe_trade(W, "t", slot=1, block_time=None)
    shown = service.get("/api/v1/trades", key).json["data"][0]
    assert [shown[name] for name in ("blockTime", "eventAt", "transactionIndex", "venue")] == [
        None
    ] * 4
    assert [
        shown["realized"][name]
        for name in ("resultLamports", "resultSol", "proceedsLamports", "costLamports")
    ] == [None] * 4


def test_a_bot_without_a_wallet_is_unverified(service):
    made = service.make_bot("Mute")
    shown = service.get(f"/api/v1/bots/{made.bot.uid}", made.publish_key.text).json
    assert (
        shown["wallet"],
        shown["results"],
        shown["performance"],
        shown["coverage"]["state"],
    ) == (None, None, "unverified", "none")
    assert (
        "no wallet" in shown["coverage"]["note"]
        and shown["latestTrades"]
        == shown["feed"]
        == shown["openPositions"]
        == shown["formerWallets"]
        == shown["wallets"]
        == []
    )


def test_a_bot_has_its_detail_fields(service, bot, key):
    service.observe_results(W, 1_500)
    held = {"mint": "x", "amountRaw": "1", "decimals": 0, "costLamports": None}
    positions = orjson.dumps([held | {"unknownBasisRaw": "1"}]).decode()
    Wallet.update(positions=positions, last_trade_at=NOW).execute()
    for n in range(22):
        service.observe_trade(W, f"t{n}", slot=n)
    made = post_many(service, key, 22)
    shown = service.get(f"/api/v1/bots/{bot.bot.uid}", key).json
    assert [row["id"] for row in shown["feed"]] == made[:1:-1] and [
        row["id"] for row in shown["latestTrades"]
    ] == [f"trade_t{n}" for n in range(21, 1, -1)]
    assert (
        shown["results"]["realizedLamports"] == "0"
        and [(one["mint"], one["symbol"]) for one in shown["openPositions"]] == [("x", None)]
        and shown["coverage"]["state"] == "complete"
    )
    assert (
        shown["wallet"]
        == {"address": W, "attachedAt": "2026-11-05T12:00:00Z", "ownership": "claimed"}
        and shown["performance"] == "observed"
    )
    assert shown["wallets"] == [{**shown["wallet"], "coverage": shown["coverage"]}]
    assert (
        shown["handle"],
        shown["mode"],
        shown["autoPost"],
        shown["retiredAt"],
        shown["lastTradeAt"],
    ) == ("ada", "wallet", False, None, "2026-11-05T12:00:00Z")
    assert (
        shown["lastPostAt"]
        and shown["profileUrl"] == f"http://127.0.0.1:8000/bots/{bot.bot.uid}"
        and set(shown["voice"])
        == {"tone", "style", "adjectives", "topics", "catchphrases", "emoji"}
    )


def test_a_replaced_wallet_keeps_its_trades_and_name(service, bot, key):
    service.observe_trade(W, "before", slot=5)
    wallets.attach_wallet(service.config, bot.bot, address("second"), NOW + 1)
    service.observe_trade(address("second"), "after", slot=3)
    shown = service.get(f"/api/v1/bots/{bot.bot.uid}", key).json
    assert (
        shown["formerWallets"] == [W]
        and shown["wallet"]["address"] == address("second")
        and shown["results"] is None
    )
    rows = service.pages(f"/api/v1/trades?botId={bot.bot.uid}", key, 1)
    assert [(row["id"], row["wallet"]) for row in rows] == [
        ("trade_before", W),
        ("trade_after", address("second")),
    ]
    assert [
        row["id"] for row in service.pages(f"/api/v1/trades?botId={bot.bot.uid}&wallet={W}", key, 1)
    ] == ["trade_before"]


def test_activity_lists_buyers_and_sellers(service, bot, key):
    service.make_bot("Bob", address("other"))
    service.observe_trade(W, "b1", slot=1, mint=M, raw=1500, decimals=3)
    service.observe_trade(W, "b2", slot=2, mint=M)
    service.observe_trade(
        address("other"), "s1", slot=3, mint=M, kind="sell", raw=-2500, decimals=3, sol=7
    )
    service.observe_trade(address("other"), "gift", slot=4, mint=M, kind="transfer_in")
    shown = service.get(f"/api/v1/activity?mint={M}", key).json
    assert (shown["mint"], shown["buyers"], shown["sellers"], shown["walletsTracked"]) == (
        M,
        1,
        1,
        2,
    )
    assert [
        (row["side"], row["botName"], row["wallet"], row["tradeId"]) for row in shown["data"]
    ] == [
        ("sell", "Bob", address("other"), "trade_s1"),
        ("buy", "Ada", W, "trade_b2"),
        ("buy", "Ada", W, "trade_b1"),
    ]
    assert {
        name: shown["data"][0][name]
        for name in ("amountRaw", "amount", "decimals", "solChangeLamports", "solChange", "slot")
    } == {
        "amountRaw": "2500",
        "amount": "2.5",
        "decimals": 3,
        "solChangeLamports": "7",
        "solChange": "0.000000007",
        "slot": 3,
    }


def test_the_market_explains_why_it_is_empty(service, key):
    shown = service.get("/api/v1/market", key).json
    assert shown["data"] == [] and "scout" in shown["note"]


def test_a_known_symbol_is_shown_with_its_trade(service, key):
    Token.create(mint=M, symbol="<b>M</b>", found_by="test", discovered_at=NOW)
    service.observe_trade(W, "t", slot=1, mint=M)
    shown = service.get("/api/v1/trades", key).json["data"][0]
    assert (shown["symbol"], shown["tokenChanges"][0]["symbol"]) == ("<b>M</b>", "<b>M</b>")
    assert service.get(f"/api/v1/activity?mint={M}", key).json["symbol"] == "<b>M</b>"


# ---- the leaderboard -----------------------------------------------------------------------------
def board(service, key, query=""):
    return [
        (row["name"], row["rank"], row["unrankedReason"])
        for row in service.get(f"/api/v1/leaderboard?record=all&{query}", key).json["data"]
    ]


def test_the_board_has_ranks_ties_and_unranked_bots(service, bot, key):
    for name, realized, matched, gaps in (
        ("Rich", 900, 3, ()),
        ("Twin", 500, 5, ()),
        ("Lucky", 10_000, 2, ()),
        ("Gappy", 20_000, 9, ({"fromSlot": 1, "toSlot": 2, "reason": "x"},)),
        ("Poor", -5, 3, ()),
    ):
        service.make_bot(name, address(name))
        service.observe_results(address(name), realized, matched, gaps)
    service.observe_results(W, 500)
    service.make_bot("Mute")
    retired = service.make_bot("Gone", address("gone"))
    service.make_bot("New", address("new"))
    influencers.retire_bot(retired.bot, NOW)
    assert board(service, key) == [
        ("Rich", 1, None),
        ("Ada", 2, None),
        ("Twin", 2, None),
        ("Poor", 4, None),
        ("Gappy", None, "gap"),
        ("Lucky", None, "too_few_sells"),
        ("New", None, "not_observed"),
        ("Mute", None, "no_wallet"),
    ]
    assert board(service, key, "sort=volume&limit=2") == [
        ("Ada", 1, None),
        ("Rich", 1, None),
    ]
    row = service.get("/api/v1/leaderboard?record=all&limit=1", key).json["data"][0]
    assert (
        row["realizedLamports"],
        row["realizedSol"],
        row["wallet"],
        row["ranked"],
    ) == ("900", "0.0000009", address("Rich"), True)


def test_a_quiet_window_is_zero_and_not_unknown(service, bot, key):
    service.observe_results(W, 1)
    row = service.get("/api/v1/leaderboard?record=all&window=24h&sort=trades", key).json["data"][0]
    assert (row["realizedLamports"], row["observedTrades"], row["winRate"], row["rank"]) == (
        "0",
        0,
        None,
        1,
    )
