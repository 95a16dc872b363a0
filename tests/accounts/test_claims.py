"""A bot keeps what it has proven: a later claim of its former wallet shows only later trades."""

import time

import orjson
import pytest
from service import NOW, add_total, address, signature
from test_attachments import HOUR, A, World

from accounts import wallets
from chain.ledger.inventory import SOL
from chain.ledger.totals import ALL_HISTORY
from models import Wallet
from web.api import trades

M = address("mint")
CLAIMED = NOW + 3 * HOUR


# ---- the past of a wallet ------------------------------------------------------------------------
class Claims(World):
    """Wallet A has trades named by their hour. One without a block time doesn't go to a claim."""

    def __init__(self, service, acts):
        super().__init__(service, acts)
        self.key = service.make_bot("Z").publish_key.text
        for slot, name in enumerate(ALL.split(), 1):
            at = None if name == "?" else int(NOW // 1000 + float(name) * 3600)
            service.observe_trade(A, name, slot=slot, block_time=at, mint=M)

    def get(self, path):
        return self.service.get(f"/api/v1/{path}", self.key).json

    def read(self, name):
        return self.get(f"bots/{self.bots[name].uid}")

    def trades_of(self, name):
        """The trades that every list shows as a bot's, oldest first."""
        uid = self.bots[name].uid
        path, one_mint = f"/api/v1/trades?botId={uid}", f"&wallet={A}&mint={M}"
        listed, again = (
            [row["id"] for row in self.service.pages(path + more, self.key, 3)]
            for more in ("", one_mint)
        )
        since = [uid for uid, _ in self.follow(trades.find_wallets(bot=uid))]
        of_wallet = self.get(f"trades?wallet={A}")["data"]
        attributed = [row["id"] for row in of_wallet if row["botId"] == uid]
        latest = [row["id"] for row in self.read(name)["latestTrades"]]
        active = self.get(f"activity?mint={M}")["data"]
        active = [row["tradeId"] for row in active if row["botId"] == uid]
        page = self.service.get(f"/bots/{uid}?tab=trades").text
        signatures = {row["id"]: row["signature"] for row in of_wallet}
        on_page = [name for name in listed if signatures[name] in page]
        assert listed == again == since[::-1] == attributed == latest == active == on_page
        return " ".join(one.removeprefix("trade_") for one in listed[::-1])

    def follow(self, shares):
        """(trade, bot) of the stream from its beginning."""
        return [(row.uid, row.bot) for _, row in trades.read_trades_since(100, 0, shares)]

    def row_of(self, name, query=""):
        listed = self.get(f"leaderboard?record=all&{query}")["data"]
        return next(row for row in listed if row["botId"] == self.bots[name].uid)


ALL = "-1 0 2.9998 3 4 6 7 ?"
PROVEN = "prove ada A @0, leave ada @2, claim eve A @3"
UNPROVEN = "claim ada A @0, leave ada @1, claim eve A @3, leave eve @4"
HERS, LATER = "-1 0 2.9998 ?", "3 4 6 7"
# What happened, and whose trades they are.
PASTS = {
    "a disconnected wallet's trades stay": ("prove ada A @0, leave ada @2", {"ada": ALL}),
    "a claim shows only later trades": (PROVEN, {"ada": HERS, "eve": LATER}),
    "a new proof takes over everything": (f"{PROVEN}, prove eve A @8", {"eve": ALL}),
    "so does a second proof": (f"{PROVEN}, leave eve @8, claim ada A @9", {"ada": ALL}),
    "a claim keeps its trades": (f"{PROVEN}, leave eve @8", {"ada": HERS, "eve": LATER}),
    "the first claim counts": (
        f"{PROVEN}, leave eve @8, claim eve A @9",
        {"ada": HERS, "eve": LATER},
    ),
    # Trades that no later claim has belong to the first bot.
    "claims in turn": (f"{UNPROVEN}, claim bob A @6", {"ada": "-1 0 2.9998 3 4 ?", "bob": "6 7"}),
    "a proof after claims": (f"{UNPROVEN}, claim bob A @6, prove bob A @8", {"bob": ALL}),
    "the first bot returns": (f"{UNPROVEN}, claim ada A @6", {"ada": ALL}),
}


@pytest.mark.parametrize("name", PASTS)
def test_trades_belong_to_one_bot(service, name):
    acts, told = PASTS[name]
    world = Claims(service, acts)
    assert {bot: shown for bot in world.bots if (shown := world.trades_of(bot))} == told
    # The stream names the bot of each trade.
    owners = {f"trade_{one}": world.bots[bot].uid for bot in told for one in told[bot].split()}
    assert dict(world.follow(None)) == owners


@pytest.fixture
def world(service):
    """Ada proved the wallet and left; eve claimed it."""
    made = Claims(service, PROVEN)
    service.observe_results(A, 9_000)
    wallet = Wallet.get(Wallet.address == A)
    add_total(wallet, SOL, ALL_HISTORY, NOW // 1000 + 7 * 3600, realized=9_000, trades=4, matched=3)
    Wallet.update(coverage=None).execute()
    return made


def test_a_claim_gets_no_results_and_no_rank(world):
    for query in ("", "sort=volume", "sort=trades", "window=24h"):
        row = world.row_of("eve", query)
        assert (row["rank"], row["unrankedReason"]) == (None, "held_by_another")
        assert row["realizedLamports"] is row["volumeLamports"] is row["observedTrades"] is None
    shown = world.read("eve")
    assert (shown["results"], shown["resultsReason"]) == (None, "held_by_another")
    for path in ("/leaderboard?record=all", f"/bots/{world.bots['eve'].uid}"):
        page = world.service.get(path).text
        assert "this wallet was connected to another bot first" in page


@pytest.mark.parametrize(
    ("acts", "bot"), [("prove eve A @8", "eve"), ("leave eve @8, claim ada A @9", "ada")]
)
def test_a_proof_gets_the_results_and_the_rank(world, acts, bot):
    world.play(acts)
    row = world.row_of(bot)
    assert (row["rank"], row["realizedLamports"]) == (1, "9000")
    assert row["ownership"] == ("proven" if bot == "eve" else "claimed")


def test_current_holdings_have_no_cost_under_a_claim(world):
    held = {"mint": M, "amountRaw": "7", "decimals": 0}
    held |= {"costLamports": "55", "unknownBasisRaw": "0"}
    Wallet.update(positions=orjson.dumps([held]).decode()).execute()
    (position,) = world.read("eve")["openPositions"]
    told = position["amountRaw"], position["costLamports"], position["unknownBasisRaw"]
    assert told == ("7", None, "7")


def test_the_last_trade_of_a_claim_belongs_to_it(world):
    for last, shown in ((CLAIMED - 1000, None), (CLAIMED, "2026-11-05T15:00:00Z")):
        Wallet.update(last_trade_at=last).execute()
        assert world.read("eve")["lastTradeAt"] == shown


# ---- the label of a post -------------------------------------------------------------------------
# On all pages and in all feeds: tests/web/test_feeds.py and test_share_cards.py.
CLAIMED_LABEL = "receipt verified · wallet claimed, not proven"


def say(service, made):
    sent = {"eventId": "e", "body": "words", "signature": signature("sold")}
    return service.post(sent, made.publish_key.text).json


def list_labels(service, made):
    """How the bot's only post is labeled."""
    key = made.publish_key.text
    (listed,) = service.get("/api/v1/feed", key).json["data"]
    shown = service.get(f"/api/v1/posts/{listed['id']}", key).json
    (item,) = service.get("/feed.json").json["items"]
    pages = [service.get(path).text for path in (f"/posts/{listed['id']}", "/")]
    ownerships = {one["provenance"]["ownership"] for one in (listed, shown)}
    return ownerships, item["_candor"]["label"], {CLAIMED_LABEL in page for page in pages}


def test_a_label_shows_whether_the_wallet_was_proven(service):
    """The attachment at the time of the post decides, even if it was proven later."""
    made = service.make_bot("Ada", A)
    service.observe_trade(A, "sold", slot=1)
    assert say(service, made)["provenance"]["ownership"] == "claimed"
    assert list_labels(service, made) == ({"claimed"}, CLAIMED_LABEL, {True})
    wallets.attach_wallet(service.config, made.bot, A, NOW + 1, ownership="proven")
    assert list_labels(service, made) == ({"proven"}, "receipt verified", {False})


def test_a_post_under_a_claim_keeps_its_label_after_anothers_proof(service):
    eve, ada = service.make_bot("Eve", A), service.make_bot("Ada")
    service.observe_trade(A, "sold", slot=1)
    say(service, eve)
    wallets.attach_wallet(service.config, ada.bot, A, int(time.time() * 1000) + 1000, "proven")
    assert list_labels(service, eve) == ({"claimed"}, CLAIMED_LABEL, {True})
    # A post without a wallet has no ownership.
    assert say(service, service.make_bot("Mute"))["provenance"]["ownership"] is None
