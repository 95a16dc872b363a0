"""The forward leaderboard: cherry-picked luck isn't ranked, abandoned losses stay, claims are
separate.
"""

import re
import time

import orjson
import pytest
from service import NOW, address
from teller import Teller
from test_ledger_store import DONE

from accounts import influencers, wallets
from accounts.auto_posts import update_posts
from chain.stored.store import LedgerStore
from models import Attachment, Bot, Wallet, WalletSignature

W, OTHER, HOUR_MS, DAY = address("w"), address("other"), 3_600_000, 86_400
GOOD = {"realized": 500, "volume": 900, "trades": 6, "matched": 3, "winning": 3}


@pytest.fixture
def ada(service):
    return service.make_bot("Ada", W)


def board(service, made, query=""):
    return service.get(f"/api/v1/leaderboard?{query}", made.publish_key.text).json["data"]


def ranks(service, made, query=""):
    return [(row["name"], row["rank"], row["ownership"]) for row in board(service, made, query)]


def names(service, made, query=""):
    return [row["name"] for row in board(service, made, query)]


def attach(service, made, wallet, now, ownership="claimed"):
    wallets.attach_wallet(service.config, Bot.get_by_id(made.bot.id), wallet, now, ownership)


def observe(wallet, entries, now=NOW):
    """Observe everything at once like the observer."""
    row = Wallet.get(Wallet.address == wallet)
    Wallet.update(backfilled=True).where(Wallet.id == row.id).execute()
    for e in entries:
        place = {"wallet": row, "signature": e.signature, "slot": e.slot, "tx_index": e.tx_index}
        stored = {"state": "stored", "entry": e.dump(), "seen_at": now}
        WalletSignature.insert(**place, **stored).on_conflict_ignore().execute()
    ledger_store, row = LedgerStore(update_posts), Wallet.get_by_id(row.id)
    ledger_store.apply(row)
    ledger_store.publish(row, DONE, now)


def lucky(times=4):
    """10 bought for 100 and sold for 200, this many times."""
    t = Teller()
    for _ in range(times):
        t.buy("A", 10, 100).sell("A", 10, 200)
    return t


def from_now(entries, begin):
    """The same from this Unix second on."""
    return [e._replace(block_time=begin + e.block_time) for e in entries]


# ---- who was picked ------------------------------------------------------------------------------
def test_wallets_attached_after_a_lucky_trade_get_no_rank(service):
    """400 lamports of earlier luck each. One bot gained 100 in three sales since."""
    honest = service.make_bot("Honest", W)
    for n in range(9):
        service.make_bot(f"Picked {n}", address(f"picked {n}"))
        observe(address(f"picked {n}"), lucky().entries)
    t = Teller()
    for proceeds in (130, 130, 140):
        t.buy("A", 10, 100).sell("A", 10, proceeds)
    observe(W, from_now(t.entries, NOW // 1000), NOW + HOUR_MS)
    first, *others = board(service, honest)
    assert (first["name"], first["rank"], first["realizedLamports"]) == ("Honest", 1, "100")
    told = [(row["rank"], row["unrankedReason"]) for row in others]
    assert told == [(None, "too_few_sells")] * 9
    whole = board(service, honest, "record=all")
    # Ties share a rank.
    assert [row["rank"] for row in whole] == [1] * 9 + [10]
    assert whole[0]["realizedLamports"] == "400"


# ---- who was dropped -----------------------------------------------------------------------------
def test_a_retired_bot_stays_in_windows_in_which_it_traded(service, ada):
    """Retired ten days ago: in 30 days and all time, not in 7 days."""
    now = int(time.time())
    gone, retired = service.make_bot("Gone", OTHER), now - 10 * DAY
    service.observe_results(W, 500)
    service.observe_results(OTHER, 400)
    service.observe_span(W, at=now - 60, **GOOD)
    service.observe_span(OTHER, at=now - 11 * DAY, **{**GOOD, "realized": 400})
    influencers.retire_bot(Bot.get_by_id(gone.bot.id), retired * 1000)
    rows = board(service, ada, "window=30d")
    assert [(row["name"], row["rank"], row["wallet"], row["retiredAt"]) for row in rows] == [
        ("Ada", 1, W, None),
        ("Gone", 2, OTHER, time.strftime("%FT%TZ", time.gmtime(retired))),
    ]
    for query in ("", "record=all"):
        assert names(service, ada, query) == ["Ada", "Gone"]
    assert names(service, ada, "window=7d") == ["Ada"]
    assert "retired" in service.get("/leaderboard").text


# ---- proven and claimed --------------------------------------------------------------------------
def test_proven_bots_come_first_and_unranked_ones_last(service, ada):
    for name, ownership, totals in (
        ("Named", "claimed", {**GOOD, "realized": 900}),
        ("Signed", "proven", {**GOOD, "realized": 100}),
        ("Signed, two sales", "proven", {**GOOD, "matched": 2}),
        ("Named, two sales", "claimed", {**GOOD, "matched": 1, "partial": 1}),
        ("Signed, three sales", "proven", {**GOOD, "matched": 0, "partial": 3, "realized": 10}),
    ):
        made = service.make_bot(name, address(name))
        service.observe_span(address(name), **totals)
        Attachment.update(ownership=ownership).where(Attachment.bot == made.bot).execute()
    assert ranks(service, ada) == [
        ("Signed", 1, "proven"),
        ("Signed, three sales", 2, "proven"),
        ("Named", 1, "claimed"),
        ("Signed, two sales", None, "proven"),
        ("Named, two sales", None, "claimed"),
        ("Ada", None, "claimed"),
    ]
    # The limit counts rows of the whole response.
    order = names(service, ada)
    for limit in range(1, len(order) + 1):
        assert names(service, ada, f"limit={limit}") == order[:limit]
    assert names(service, ada, "ownership=claimed&limit=1") == ["Named"]
    assert {row[2] for row in ranks(service, ada, "ownership=claimed")} == {"claimed"}
    for sort in ("volume", "trades"):
        kinds = [(row[1] is None, row[2]) for row in ranks(service, ada, f"sort={sort}")]
        # Ada was not observed.
        assert kinds == [(False, "proven")] * 3 + [(False, "claimed")] * 2 + [(True, "claimed")]
    page = service.get("/leaderboard").text
    told = "Anyone can name a wallet; these owners haven’t proven theirs."
    assert page.index("Signed, two sales") < page.index(told) < page.index(">Named</bdi></a>")


def test_proving_one_wallet_does_not_prove_another(service, ada):
    """Such as luck with a stranger's claimed wallet."""
    service.observe_span(W, **GOOD)
    attach(service, ada, OTHER, NOW + HOUR_MS, "proven")
    service.observe_span(OTHER, **GOOD)
    assert ranks(service, ada) == [("Ada", 1, "claimed")]
    attach(service, ada, W, NOW + 2 * HOUR_MS, "proven")
    assert ranks(service, ada) == [("Ada", 1, "proven")]


def test_a_claim_of_a_proven_wallet_has_its_own_record(service, ada):
    """Ada's proven record stays hers; trades since Eve's claim are Eve's, and rank."""
    attach(service, ada, W, NOW, "proven")
    service.observe_span(W, **GOOD)
    wallets.detach_wallet(Bot.get_by_id(ada.bot.id), NOW + HOUR_MS)
    eve = service.make_bot("Eve")
    attach(service, eve, W, NOW + 2 * HOUR_MS)
    service.observe_span(W, **{**GOOD, "realized": 7})
    rows = {row["name"]: row for row in board(service, eve)}
    assert (rows["Eve"]["realizedLamports"], rows["Eve"]["rank"]) == ("7", 1)
    assert (rows["Ada"]["realizedLamports"], rows["Ada"]["unrankedReason"]) == ("500", "no_wallet")


# ---- windows -------------------------------------------------------------------------------------
def test_windows_cut_the_record(service, ada):
    """Running totals of two spans. The first ended three days ago with 100 of cost left."""
    now = int(time.time())
    service.observe_span(W, at=now - 40 * DAY, realized=1, matched=1, cost_left=1)
    service.observe_span(W, open_cost=100, at=now - 20 * DAY, realized=9, matched=2, cost_left=11)
    Attachment.update(attached_at=(now - 41 * DAY) * 1000).execute()
    attach(service, ada, OTHER, (now - 3 * DAY) * 1000)
    service.observe_span(OTHER, at=now - 2 * DAY, realized=7, matched=1)
    service.observe_span(OTHER, at=now - 60, realized=37, matched=2, cost_left=5)
    told = ("realizedLamports", "costLeftLamports", "matchedSells", "unrankedReason")
    for window, *expected in (
        ("24h", "30", "5", 1, "too_few_sells"),
        ("7d", "37", "105", 2, "too_few_sells"),
        ("30d", "45", "115", 3, None),
        ("all", "46", "116", 4, None),
    ):
        (row,) = board(service, ada, f"window={window}")
        assert [row[name] for name in told] == expected, window
        assert service.get(f"/leaderboard?sort=pnl_floor&window={window}").status_code == 200


# ---- the page ------------------------------------------------------------------------------------
def test_the_chart_shows_only_ranked_bots(service, ada):
    """A rank needs three sales with a result. The second bot has two."""
    begin = int(time.time()) - 3600
    service.make_bot("Ben", OTHER)
    for wallet, sales in ((W, 3), (OTHER, 2)):
        observe(wallet, from_now(lucky(sales).entries, begin), begin * 1000)
    for coverage, style in ({}, ""), ({"state": "partial"}, " partial"):
        row = Wallet.get(Wallet.address == W)
        row.coverage = orjson.dumps(orjson.loads(row.coverage) | coverage).decode()
        row.save()
        page = service.get("/leaderboard").text
        for part in ("chart race", "Only Ada is ranked: ", 'aria-label="The race as a table"'):
            assert part in page
        assert re.findall('<path class="lane-1([^"]*)"', page) == [style]


def test_the_chart_follows_the_filters(service, ada):
    """300 gained eight days ago, 60 since yesterday; Ben's wallet is proven, Ada's is claimed."""
    now = int(time.time())
    ben = service.make_bot("Ben", OTHER)
    Attachment.update(attached_at=(now - 9 * DAY) * 1000).execute()
    Attachment.update(ownership="proven").where(Attachment.bot == ben.bot).execute()
    for wallet, before in ((W, 300), (OTHER, 500)):
        service.observe_span(wallet, at=now - 8 * DAY, realized=before, matched=3)
        service.observe_span(wallet, at=now - 3_600, realized=before + 60, matched=6)
    for query, told in (
        ("", "Ben is ahead with +0.00000056 SOL; Ada is last with +0.00000036 SOL."),
        ("window=7d", "Ben is ahead with +0.00000006 SOL; Ada is last with +0.00000006 SOL."),
        ("ownership=claimed", "Only Ada is ranked: +0.00000036 SOL."),
        ("ownership=proven&window=24h", "Only Ben is ranked: +0.00000006 SOL."),
    ):
        page = service.get(f"/leaderboard?{query}").text
        assert f'role="img" aria-label="{told}"' in page, query
    assert "chart race" not in service.get("/leaderboard?currency=USDC").text


def test_a_board_names_itself_and_its_filters(service, ada):
    key = ada.publish_key.text
    shown = service.get("/api/v1/leaderboard?window=7d", key).json
    assert (shown["record"], shown["sort"], shown["window"]) == ("forward", "pnl", "7d")
    assert [row["record"] for row in shown["data"]] == ["forward"]
    for query in ("record=luck", "sort=luck", "ownership=mine", "ownership="):
        assert service.get(f"/api/v1/leaderboard?{query}", key).status_code == 400
        # A form submits empty fields.
        of_page = 200 if query == "ownership=" else 400
        assert service.get(f"/leaderboard?{query}").status_code == of_page
    page = service.get("/leaderboard?window=7d&sort=return&ownership=").text
    form = re.search(r'<form class="filter".*?</form>', page, re.S)[0]
    filters = ["window", "record", "currency", "ownership"]
    assert re.findall(r'<select id="f-(\w+)"', form) == filters
    assert '<option value="7d" selected>' in form and 'name="sort" value="return"' in form
    # The first tab stop after the header leads to the table.
    main = page[page.index("<main") :]
    assert re.search(r"<a [^>]*>", main)[0] == '<a class="skip" href="#ranking">'


def test_a_cut_page_says_where_the_rest_is_and_why_bots_have_no_rank(service, ada, monkeypatch):
    """One of two bots without a wallet is shown; the other groups have only one."""
    rest = "/docs/requests/getLeaderboard"
    service.make_bot("Bob")
    page = service.get("/leaderboard").text
    for reason in ("no wallet connected", "not observed yet"):
        assert re.search(rf"not ranked:\s+{reason}", page)
    assert rest not in page
    monkeypatch.setattr("web.site.board.MAX_RANKS", 1)
    # Another address: nothing was written, so the first one's page is cached.
    page = service.get("/leaderboard?sort=pnl").text
    assert "The first 1 of each group" in page and "Bob" not in page
    assert service.get(re.search(rf'href="([^"]*{rest})"', page).group(1)).status_code == 200
