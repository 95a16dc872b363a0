"""/api/v1 as its clients see it: pages, filters, shapes, the leaderboard, small responses."""

import base64
import gzip

import orjson
from service import NOW, address, signature

from accounts import influencers
from market.tables import Token
from models import Wallet

W, OTHER, M = address("w"), address("other"), address("m")


def post_many(service, key, count, first=0):
    events = [f"e{n}" for n in range(first, first + count)]
    return [service.post({"eventId": one, "body": "b"}, key).json["id"] for one in events]


def problem(answer):
    assert answer.content_type == "application/problem+json"
    return answer.status_code, answer.json["code"]


def ids(answer):
    return [row["id"] for row in answer.json["data"]]


# ---- pages ---------------------------------------------------------------------------------------
def test_paging_meets_every_post_once_while_others_arrive(service, get, key):
    """The third page is full and the last one."""
    made, cursor, seen = post_many(service, key, 15), "", []
    for first in (100, 200, 300):
        page = get(f"feed?limit=5{cursor}")
        seen, cursor = seen + ids(page), f"&cursor={page.json['nextCursor']}"
        post_many(service, key, 3, first)
    assert seen == made[::-1] and cursor == "&cursor=None"


def test_every_list_can_be_paged(service, bot, get, key):
    for n in range(7):
        bob = service.make_bot(f"Bot {n}")
        kind = "sell" if n % 2 else "buy"
        service.observe_trade(W, f"t{n}", slot=100 + n // 3, place=n % 3, mint=M, kind=kind)
    assert len(service.pages("/api/v1/bots", key, 3)) == 8
    order = [signature(f"t{n}") for n in (6, 5, 4, 3, 2, 1, 0)]
    of_bot, of_mint = f"trades?botId={bot.bot.uid}", f"mint={M}"
    paths = ["trades", f"trades?wallet={W}", f"trades?{of_mint}", of_bot]
    for path in [*paths, f"{of_bot}&wallet={W}&{of_mint}", f"activity?{of_mint}"]:
        rows = service.pages(f"/api/v1/{path}", key, 2)
        assert [row["signature"] for row in rows] == order, path
    post_many(service, key, 2)
    post_many(service, bob.publish_key.text, 1)
    rows = get(f"feed?botId={bot.bot.uid}").json["data"]
    assert [row["botName"] for row in rows] == ["Ada", "Ada"]


def test_a_limit_is_a_whole_number_from_one_to_a_hundred(get):
    for limit, used in (("1", 1), ("100", 100), ("101", 100), ("9" * 5000, 100)):
        assert get(f"feed?limit={limit}").json["limit"] == used
    assert get("feed").json["limit"] == 20
    paths = ("bots?", "feed?", "trades?", "leaderboard?", "market?", f"activity?mint={M}&")
    wrong = "-1 abc 1.5 1e2 %2B5 %D9%A1 000 1_0 %201 0x1".split()
    # Each list with two spellings, and one list with each.
    asked = [(path, limit) for path in paths for limit in ("", "0")]
    asked += [("feed?", one) for one in wrong]
    for path, limit in asked:
        answer = get(f"{path}limit={limit}")
        assert problem(answer) == (400, "invalid_parameter"), (path, limit)
        assert answer.json["errors"][0]["field"] == "limit"


def test_a_cursor_works_only_in_its_own_list(service, get, key):
    post_many(service, key, 3)
    for n in range(3):
        service.observe_trade(W, f"t{n}", slot=n, mint=M)
    feed = get("feed?limit=1").json
    older, newest = feed["nextCursor"], feed["newestCursor"]
    of_mint = get(f"trades?mint={M}&limit=1").json["nextCursor"]
    # Another limit is the same list.
    assert get(f"trades?mint={M}&limit=7&cursor={of_mint}").status_code == 200
    others = ("trades?", f"trades?wallet={W}&mint={M}&", f"trades?mint={OTHER}&")
    wrong = [f"{path}cursor={of_mint}" for path in (*others, f"activity?mint={M}&")]
    wrong += [f"trades?cursor={older}", f"bots?cursor={older}", f"feed?cursor={newest}"]
    for path in [*wrong, f"feed?since={older}", "feed?since=post_nobody"]:
        assert problem(get(path)) == (400, "invalid_cursor"), path
    both = get(f"feed?since={newest}&cursor={older}")
    assert problem(both) == (400, "invalid_parameter")


def test_a_forged_cursor_is_refused(service, get, key):
    post_many(service, key, 3)
    good = get("feed?limit=1").json["nextCursor"]
    raw = base64.urlsafe_b64decode(good + "=" * (-len(good) % 4))
    changed = [
        good[:at] + ("B" if one == "A" else "A") + good[at + 1 :] for at, one in enumerate(good)
    ]
    resized = [good[:-1], good + "A", good + "=", good + "%0A"]
    invented = ["abc", "7", "", "%00", "%C3%A9", "A" * 3000]
    packed = [base64.urlsafe_b64encode(one) for one in (raw[:9] + b"99", raw + b".1", b"[1]")]
    for text in changed + resized + invented + [one.decode().rstrip("=") for one in packed]:
        assert problem(get(f"feed?cursor={text}")) == (400, "invalid_cursor"), text


def test_one_cursor_works_everywhere_under_any_filter(service, bot, get, key):
    post_many(service, key, 1)
    service.observe_trade(W, "first", slot=1)
    since = get("feed?limit=1").json["newestCursor"]
    assert get(f"trades?mint={M}").json["newestCursor"] == since
    (post,) = post_many(service, key, 1, first=5)
    service.observe_trade(W, "second", slot=2)
    uid = bot.bot.uid
    for path in ("feed?", f"feed?botId={uid}&label=none&"):
        page = get(f"{path}since={since}")
        assert ids(page) == [post] and page.json["nextCursor"] is None
    for path in ("trades?", f"trades?botId={uid}&kind=trade&"):
        assert ids(get(f"{path}since={since}")) == ["trade_second"]
    page = get(f"feed?label=verified&since={since}")
    assert ids(page) == ids(get(f"feed?since={page.json['newestCursor']}")) == []


# ---- what a query may say ------------------------------------------------------------------------
def test_an_invalid_query_value_is_refused(get):
    paths = f"""
        trades?mint=xyz trades?mint={signature("s")} trades?mint={M}%0A trades?wallet=0OIl
        trades?botId= trades?wallet= trades?mint= trades?kind=
        activity activity?mint=abc activity?mint=
        leaderboard?sort=luck leaderboard?sort= leaderboard?window=2y feed?wallet={W}
    """
    for path in paths.split():
        answer = get(path)
        assert problem(answer) == (400, "invalid_parameter"), path
        name = path.partition("?")[2].partition("=")[0] or "mint"
        assert name in answer.json["detail"]
    told = "wallet is not a parameter of this request, which accepts: limit, cursor, since, botId"
    assert get(f"feed?wallet={W}").json["detail"].startswith(told)


def test_unknown_values_are_empty_and_unknown_parameters_ignored(get):
    stranger = address("nobody")
    paths = [f"trades?mint={stranger}", f"trades?wallet={stranger}", f"activity?mint={stranger}"]
    for path in [*paths, "trades?botId=bot_nobody", "feed?colour=red"]:
        answer = get(path)
        assert answer.status_code == 200 and answer.json["data"] == [], path
        assert answer.json["nextCursor"] is None
    shown = get("market").json
    assert shown["data"] == [] and "scout" in shown["note"]


def test_an_unverified_post_has_a_reason_and_a_new_one_its_location(service, key):
    mute, cited = service.make_bot("Mute").publish_key.text, {"signature": "5" * 88}
    for reason, sender in (("no_wallet", mute), ("history_loading", key)):
        said = {"eventId": reason, "body": "b", **cited}
        made = service.post(said, sender)
        assert made.json["verification"]["reason"] == reason
        assert made.headers["Location"] == f"/api/v1/posts/{made.json['id']}"
        assert "Location" not in service.post(said, sender).headers


def test_unknown_paths_and_methods_are_problem_documents(service, get, key):
    for path in ("bots/bot_nobody", "posts/post_nobody", "nothing", "bots/", "bots/x/y"):
        assert problem(get(path)) == (404, "not_found")
    for asked in ("GET posts", "DELETE feed", "PUT me", "OPTIONS feed", "TRACE bots"):
        method, path = asked.split()
        answer = service.ask(method, f"/api/v1/{path}", key)
        assert problem(answer) == (405, "method_not_allowed") and answer.headers["Allow"]


# ---- shapes --------------------------------------------------------------------------------------
MUCH = 2**64 - 1


def test_a_trade_is_exact_to_the_unit(service, bot, get):
    """10 of the tokens were sold for 5 lamports at a cost of 6; the cost of the rest is unknown."""
    lots = f'[["trade_x","10",6],[null,"{MUCH - 10}",null]]'
    amounts = {"raw": -MUCH, "decimals": 6, "sol": 1_250_000_001, "rent": -2_039_280}
    beside = {"beside_sol": 1_000_000_000, "beside_tokens": f'[["{M}","7000000",6]]'}
    sold = {"realized": "partial", "result": -1, "proceeds": 5, "cost": 6, "lots": lots}
    matched = {"matched_raw": "10", "unmatched_raw": str(MUCH - 10), "flags": '["basis_carried"]'}
    origin = {"venue": "pump", "explained": 96, "counterparties": f'["{address("pool")}"]'}
    when = {"slot": 77, "place": 4, "tx_index": 4}
    columns = when | amounts | beside | sold | matched | origin
    service.observe_trade(W, "sale", kind="sell", mint=M, **columns)
    Token.create(mint=M, symbol="<b>M</b>", found_by="test", discovered_at=NOW)
    (shown,) = get("trades").json["data"]
    token = {"mint": M, "symbol": "<b>M</b>", "decimals": 6, "multiplier": "1"}
    assert shown.pop("tokenChanges") == [
        token | {"changeRaw": "-18446744073709551615", "change": "-18446744073709.551615"}
    ]
    assert shown.pop("outsideVenue") == {
        "solLamports": "1000000000",
        "tokenChanges": [token | {"changeRaw": "7000000", "change": "7"}],
    }
    known = {"tradeId": "trade_x", "amountRaw": "10", "costRaw": "6", "costLamports": "6"}
    unknown = {**dict.fromkeys(known), "amountRaw": "18446744073709551605"}
    result = {"resultRaw": "-1", "resultLamports": "-1", "proceedsRaw": "5", "costRaw": "6"}
    result |= {"result": "-0.000000001", "resultSol": "-0.000000001"}
    result |= {"proceedsLamports": "5", "costLamports": "6", "returnPct": "-16.67"}
    result |= {"status": "partial", "method": "fifo", "currency": "SOL", "lots": [known, unknown]}
    result |= {"matchedRaw": "10", "unmatchedRaw": "18446744073709551605"}
    assert shown.pop("realized") == result
    names = {"id": "trade_sale", "botId": bot.bot.uid, "wallet": W, "signature": signature("sale")}
    time = {"slot": 77, "transactionIndex": 4, "blockTime": NOW // 1000 - 3600}
    kind = {"kind": "sell", "currency": "SOL", "venue": "pump", "mint": M, "symbol": "<b>M</b>"}
    fees = {"feeLamports": "5000", "tipLamports": "0", "rentLamports": "-2039280"}
    value = {"explainedShare": "0.96", "counterparties": [address("pool")]}
    trust = {"flags": ["basis_carried"], "coverage": "none", "copied": None, "copiedReason": None}
    assert shown == names | time | kind | fees | value | trust | {
        "eventAt": "2026-11-05T11:00:00Z",
        "solChangeLamports": "1250000001",
        "solChange": "1.250000001",
        "explorerUrl": f"https://solscan.io/tx/{signature('sale')}",
    }


def test_unknown_values_are_null(service, get):
    service.observe_trade(W, "t", slot=1, block_time=None)
    (shown,) = get("trades").json["data"]
    for name in ("blockTime", "eventAt", "transactionIndex", "venue"):
        assert shown[name] is None
    for name in ("resultLamports", "resultSol", "proceedsLamports", "costLamports"):
        assert shown["realized"][name] is None
    mute = service.make_bot("Mute").bot.uid
    shown = get(f"bots/{mute}").json
    assert shown["performance"] == "unverified" and shown["coverage"]["state"] == "none"
    assert "no wallet" in shown["coverage"]["note"]
    assert shown["wallet"] is None and shown["results"] is None
    for name in ("latestTrades", "feed", "openPositions", "formerWallets", "wallets"):
        assert shown[name] == []


def test_a_bot_has_its_detail_fields(service, bot, get, key):
    service.observe_results(W, 1_500)
    held = {"mint": "x", "amountRaw": "1", "decimals": 0, "costLamports": None}
    positions = orjson.dumps([held | {"unknownBasisRaw": "1"}]).decode()
    Wallet.update(positions=positions, last_trade_at=NOW).execute()
    service.observe_trades(W, [f"t{n}" for n in range(22)])
    made = post_many(service, key, 22)
    shown = get(f"bots/{bot.bot.uid}").json
    assert [row["id"] for row in shown["feed"]] == made[:1:-1]
    latest = [row["id"] for row in shown["latestTrades"]]
    assert latest == [f"trade_t{n}" for n in range(21, 1, -1)]
    (position,) = shown["openPositions"]
    assert (position["mint"], position["symbol"]) == ("x", None)
    assert shown["results"]["realizedLamports"] == "0"
    assert shown["coverage"]["state"] == "complete"
    wallet = {"address": W, "attachedAt": "2026-11-05T12:00:00Z", "ownership": "claimed"}
    assert shown["wallet"] == wallet
    assert shown["wallets"] == [wallet | {"coverage": shown["coverage"]}]
    told = {"handle": "ada", "mode": "wallet", "autoPost": False, "retiredAt": None}
    told |= {"performance": "observed", "lastTradeAt": "2026-11-05T12:00:00Z"}
    told |= {"profileUrl": f"http://127.0.0.1:8000/bots/{bot.bot.uid}"}
    assert told.items() <= shown.items() and shown["lastPostAt"]
    voice = {"tone", "style", "adjectives", "topics", "catchphrases", "emoji"}
    assert shown["voice"].keys() == voice


def test_activity_lists_buyers_and_sellers(service, get):
    service.make_bot("Bob", OTHER)
    service.observe_trade(W, "b1", slot=1, mint=M, raw=1500)
    service.observe_trade(W, "b2", slot=2, mint=M)
    service.observe_trade(OTHER, "s1", slot=3, mint=M, kind="sell", raw=-2500, sol=7)
    service.observe_trade(OTHER, "gift", slot=4, mint=M, kind="transfer_in")
    Token.create(mint=M, symbol="CAT", found_by="test", discovered_at=NOW)
    shown = get(f"activity?mint={M}").json
    counts = {"mint": M, "symbol": "CAT", "buyers": 1, "sellers": 1, "walletsTracked": 2}
    assert counts.items() <= shown.items()
    names = ("side", "botName", "wallet", "tradeId")
    assert [tuple(row[name] for name in names) for row in shown["data"]] == [
        ("sell", "Bob", OTHER, "trade_s1"),
        ("buy", "Ada", W, "trade_b2"),
        ("buy", "Ada", W, "trade_b1"),
    ]
    sale = {"amountRaw": "2500", "amount": "2.5", "decimals": 3, "slot": 3}
    sale |= {"solChangeLamports": "7", "solChange": "0.000000007"}
    assert sale.items() <= shown["data"][0].items()


# ---- the leaderboard -----------------------------------------------------------------------------
def board(get, query=""):
    rows = get(f"leaderboard?record=all&{query}").json["data"]
    return [(row["name"], row["rank"], row["unrankedReason"]) for row in rows]


def test_the_board_has_ranks_ties_and_unranked_bots(service, get):
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
    ranked = [("Rich", 1, None), ("Ada", 2, None), ("Twin", 2, None), ("Poor", 4, None)]
    unranked = [("Gappy", None, "gap"), ("Lucky", None, "too_few_sells")]
    unobserved = [("New", None, "not_observed"), ("Mute", None, "no_wallet")]
    assert board(get) == ranked + unranked + unobserved
    assert board(get, "sort=volume&limit=2") == [("Ada", 1, None), ("Rich", 1, None)]
    (row,) = get("leaderboard?record=all&limit=1").json["data"]
    told = {"realizedLamports": "900", "realizedSol": "0.0000009", "wallet": address("Rich")}
    assert told.items() <= row.items() and row["ranked"] is True


def test_a_quiet_window_is_zero_and_not_unknown(service, get):
    service.observe_results(W, 1)
    (row,) = get("leaderboard?record=all&window=24h&sort=trades").json["data"]
    told = {"realizedLamports": "0", "observedTrades": 0, "winRate": None, "rank": 1}
    assert told.items() <= row.items()


# ---- small responses -----------------------------------------------------------------------------
def test_fields_keeps_only_the_listed_ones(service, bot, get, key):
    post_many(service, key, 2)
    page, same = get("feed?fields=id,body"), get("feed?fields=body,id,body")
    assert same.headers["ETag"] == page.headers["ETag"]
    assert [list(row) for row in page.json["data"]] == [["id", "body"]] * 2
    assert {"nextCursor", "limit", "asOf", "newestCursor"} <= page.json.keys()
    assert get(f"bots/{bot.bot.uid}?fields=name,pace").json.keys() == {"name", "pace"}
    refused = get("feed?fields=id,colour")
    assert problem(refused)[0] == 400 and refused.json["errors"][0]["field"] == "fields"
    assert "body, mint, symbol" in refused.json["detail"]


def test_a_detail_can_leave_out_trades_and_feed(bot, get):
    path = f"bots/{bot.bot.uid}"
    whole, small = get(path).json, get(f"{path}?trades=0&feed=0").json
    assert whole.keys() - small.keys() == {"latestTrades", "feed"}
    assert get(f"{path}?trades=no").status_code == 400


def test_a_client_with_the_current_version_gets_304(service, get, key):
    lists = f"feed bots trades leaderboard market activity?mint={M} search?q=a"
    tags = {path: get(path).headers["ETag"] for path in lists.split()}
    for path, tag in tags.items():
        again = get(path, **{"If-None-Match": tag})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag), path
        assert "RateLimit-Limit" in again.headers
    post_many(service, key, 1)
    changed = get("feed", **{"If-None-Match": tags["feed"]})
    assert changed.status_code == 200 and changed.headers["ETag"] != tags["feed"]


def test_a_list_is_compressed_for_clients_that_accept_it(service, get, key):
    post_many(service, key, 5)
    plain = get("feed")
    # The second is cached.
    for _ in range(2):
        packed = get("feed", **{"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert len(packed.data) < len(plain.data) / 2
        told = orjson.loads(gzip.decompress(packed.data))
        assert {**told, "asOf": ""} == {**plain.json, "asOf": ""}
    for answer in (plain, get("feed", **{"Accept-Encoding": "gzip;q=0"})):
        assert "Content-Encoding" not in answer.headers
