"""A bot keeps what it has proven: a later claim of its former wallet shows only later trades."""

import time

import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, add_total, address, signature

from accounts import wallets
from chain import addresses
from chain.ledger.inventory import SOL
from chain.ledger.totals import ALL_HISTORY
from models import Wallet
from web.api import trades

# An address with a key, so that it can be proven.
W = addresses.b58encode(SigningKey(bytes(32)).verify_key.encode())
M = address("mint")
HOUR = 3_600_000
CLAIMED = NOW + 3 * HOUR


def at(ms):
    """A block time."""
    return ms // 1000


# ---- the past of a wallet -----------------------------------------------------------------------
class World:
    """Ada proved W, traded and left; Eve only claimed it, at CLAIMED."""

    def __init__(self, service):
        self.service = service
        self.ada, self.eve = service.make_bot("Ada", W), service.make_bot("Eve")
        self.key = self.ada.publish_key.text
        wallets.attach_wallet(service.config, self.ada.bot, W, NOW, ownership="proven")
        service.observe_trade(W, "hers", slot=1, block_time=at(NOW + HOUR), mint=M)
        wallets.detach_wallet(self.ada.bot, NOW + 2 * HOUR)
        service.observe_trade(W, "between", slot=2, block_time=at(CLAIMED) - 1, mint=M)
        self.claim(self.eve, CLAIMED)
        service.observe_trade(W, "claimed", slot=3, block_time=at(CLAIMED), mint=M)
        service.observe_trade(W, "timeless", slot=4, block_time=None, mint=M)
        service.observe_results(W, 9_000)
        wallet = Wallet.get(Wallet.address == W)
        add_total(wallet, SOL, ALL_HISTORY, at(CLAIMED), realized=9_000, trades=4, matched=3)
        Wallet.update(coverage=None).execute()

    def claim(self, made, now, ownership="claimed"):
        wallets.attach_wallet(self.service.config, made.bot, W, now, ownership=ownership)

    def get(self, path):
        return self.service.get(f"/api/v1/{path}", self.key).json

    def trades_of(self, made):
        """The trades that a bot's lists show, oldest first."""
        uid = made.bot.uid
        path, one_mint = f"/api/v1/trades?botId={uid}", f"&wallet={W}&mint={M}"
        listed, again = (
            [row["id"] for row in self.service.pages(path + more, self.key, 1)]
            for more in ("", one_mint)
        )
        since = [row["id"] for row in self.since(uid)]
        of_wallet = self.get(f"trades?wallet={W}")["data"]
        attributed = [row["id"] for row in of_wallet if row["botId"] == uid]
        latest = [row["id"] for row in self.get(f"bots/{uid}")["latestTrades"]]
        active = self.get(f"activity?mint={M}")["data"]
        active = [row["tradeId"] for row in active if row["botId"] == uid]
        page = self.service.get(f"/bots/{uid}?tab=trades").text
        signatures = {row["id"]: row["signature"] for row in of_wallet}
        on_page = [name for name in listed if signatures[name] in page]
        assert listed == again == since[::-1] == attributed == latest == active == on_page
        return [name.removeprefix("trade_") for name in listed[::-1]]

    def since(self, uid):
        """What followers of this bot receive from the beginning of the stream."""
        return [row for _, row in self.told(trades.find_wallets(bot=uid))]

    def told(self, shares):
        rows = trades.read_trades_since(100, 0, shares)
        return [(arrival, {"id": row.uid, "botId": row.bot}) for arrival, row in rows]

    def row_of(self, made, query=""):
        listed = self.get(f"leaderboard?record=all&{query}")["data"]
        return next(row for row in listed if row["botId"] == made.bot.uid)


@pytest.fixture
def world(service):
    return World(service)


def test_a_claim_shows_only_later_trades(world):
    """A trade without a block time doesn't go to a claim."""
    assert world.trades_of(world.ada) == ["hers", "between", "timeless"]
    assert world.trades_of(world.eve) == ["claimed"]
    # The stream names the bot of each trade.
    told = {row["id"]: row["botId"] for _, row in world.told(None)}
    hers = dict.fromkeys(("trade_hers", "trade_between", "trade_timeless"), world.ada.bot.uid)
    assert told == {**hers, "trade_claimed": world.eve.bot.uid}


@pytest.mark.parametrize("query", ["", "sort=volume", "sort=trades", "window=24h"])
def test_a_claim_gets_no_results_and_no_rank(world, query):
    row = world.row_of(world.eve, query)
    assert (row["rank"], row["unrankedReason"]) == (None, "held_by_another")
    assert row["realizedLamports"] is row["volumeLamports"] is row["observedTrades"] is None
    shown = world.get(f"bots/{world.eve.bot.uid}")
    assert (shown["results"], shown["resultsReason"]) == (None, "held_by_another")
    for path in ("/leaderboard?record=all", f"/bots/{world.eve.bot.uid}"):
        page = world.service.get(path).text
        assert "this wallet was connected to another bot first" in page


def test_current_holdings_have_no_cost_under_a_claim(world):
    held = {"mint": M, "amountRaw": "7", "decimals": 0}
    held |= {"costLamports": "55", "unknownBasisRaw": "0"}
    Wallet.update(positions=orjson.dumps([held]).decode()).execute()
    (position,) = world.get(f"bots/{world.eve.bot.uid}")["openPositions"]
    told = position["amountRaw"], position["costLamports"], position["unknownBasisRaw"]
    assert told == ("7", None, "7")


@pytest.mark.parametrize("last, shown", [(CLAIMED - 1000, None), (CLAIMED, "2026-11-05T15:00:00Z")])
def test_the_last_trade_of_a_claim_belongs_to_it(world, last, shown):
    Wallet.update(last_trade_at=last).execute()
    assert world.get(f"bots/{world.eve.bot.uid}")["lastTradeAt"] == shown


def test_a_new_proof_takes_over_the_whole_history(world):
    world.claim(world.eve, CLAIMED + HOUR, "proven")
    assert world.trades_of(world.ada) == []
    assert world.trades_of(world.eve) == ["hers", "between", "claimed", "timeless"]
    row = world.row_of(world.eve)
    assert (row["rank"], row["ownership"], row["realizedLamports"]) == (1, "proven", "9000")


def test_proving_again_restores_the_whole_history(world):
    wallets.detach_wallet(world.eve.bot, CLAIMED + HOUR)
    world.claim(world.ada, CLAIMED + 2 * HOUR)
    assert world.trades_of(world.eve) == []
    assert world.trades_of(world.ada) == ["hers", "between", "claimed", "timeless"]
    assert world.row_of(world.ada)["rank"] == 1


def test_a_detached_claim_keeps_what_came_after_it(world):
    wallets.detach_wallet(world.eve.bot, CLAIMED + HOUR)
    assert world.trades_of(world.eve) == ["claimed"]
    world.claim(world.eve, CLAIMED + 2 * HOUR)
    # From the first claim on, not the last.
    assert world.trades_of(world.eve) == ["claimed"]


def claim_in_turn(service, *bots):
    """Each bot claims the wallet and disconnects it, three hours apart; the last one keeps it."""
    for place, bot in enumerate(bots):
        wallets.attach_wallet(service.config, bot, W, CLAIMED + 3 * HOUR * place)
        if place < len(bots) - 1:
            wallets.detach_wallet(bot, CLAIMED + 3 * HOUR * place + HOUR)


def shown_trades(service, bot):
    sides = trades.find_wallets(bot=bot.uid)
    told = trades.read_trades_since(100, 0, sides)
    return [row.uid.removeprefix("trade_") for _, row in told]


def test_a_claim_shows_no_earlier_trades_of_an_unproven_wallet(service):
    ada, eve, bob = (service.make_bot(name).bot for name in ("Ada", "Eve", "Bob"))
    claim_in_turn(service, ada, eve, bob)
    for slot, hours in enumerate((-1, 0, 2, 3, 4, 6, 7), 1):
        service.observe_trade(W, str(hours), slot=slot, block_time=CLAIMED // 1000 + hours * 3600)
    # Bob's trades begin in hour 6; earlier ones belong to the wallet's first bot.
    assert shown_trades(service, bob) == ["6", "7"]
    assert shown_trades(service, ada) == ["-1", "0", "2", "3", "4"]
    assert shown_trades(service, eve) == []
    shown = service.get(f"/api/v1/bots/{bob.uid}", service.make_bot("Z").publish_key.text).json
    assert (shown["results"], shown["resultsReason"]) == (None, "held_by_another")
    # A bot that proves the wallet gets everything; so does the first bot if it returns.
    wallets.attach_wallet(service.config, bob, W, CLAIMED + 8 * HOUR, ownership="proven")
    assert shown_trades(service, bob) == ["-1", "0", "2", "3", "4", "6", "7"]


def test_the_first_bot_of_an_unproven_wallet_regains_all_of_it(service):
    ada, eve = (service.make_bot(name).bot for name in ("Ada", "Eve"))
    claim_in_turn(service, ada, eve, ada)
    service.observe_trade(W, "old", slot=1)
    assert shown_trades(service, ada) == ["old"]


# ---- the label of a post ----------------------------------------------------------------------
CLAIMED_LABEL = "receipt verified · wallet claimed, not proven"


def say(service, made, event):
    sent = {"eventId": event, "body": f"words of {event}", "signature": signature("sold")}
    return service.post(sent, made.publish_key.text).json


def labels(service, post):
    """Labels of a post on every page and in every response."""
    uid, items = post["id"], service.get("/feed.json").json["items"]
    (item,) = [one for one in items if one["_candor"]["post"] == uid]
    (atom,) = [one for one in service.get("/feed.atom").text.split("<entry>") if uid in one]
    pages = [service.get(path).text for path in (f"/posts/{uid}", f"/embed/{uid}", "/")]
    texts = item["title"], item["summary"].lower(), atom, *pages
    claimed = [CLAIMED_LABEL in text for text in texts]
    assert len(set(claimed)) == 1
    assert all("receipt verified" in text for text in (item["title"], *pages))
    assert item["_candor"]["label"] == (CLAIMED_LABEL if claimed[0] else "receipt verified")
    return claimed[0]


def test_a_label_shows_whether_the_wallet_was_proven(service):
    """The attachment at the time of the post decides, even if it was proven later."""
    made = service.make_bot("Ada", W)
    service.observe_trade(W, "sold", slot=1)
    post, key = say(service, made, "one"), made.publish_key.text
    assert post["verified"] and post["provenance"]["ownership"] == "claimed"
    assert labels(service, post)
    assert service.get("/api/v1/feed", key).json["data"][0]["provenance"]["ownership"] == "claimed"
    wallets.attach_wallet(service.config, made.bot, W, NOW + 1, ownership="proven")
    for path in ("feed", f"posts/{post['id']}"):
        shown = service.get(f"/api/v1/{path}", key).json
        shown = shown["data"][0] if path == "feed" else shown
        assert shown["provenance"]["ownership"] == "proven"
    assert not labels(service, post)


def test_a_post_under_a_claim_keeps_its_label_after_a_proof(service):
    eve, ada = service.make_bot("Eve", W), service.make_bot("Ada")
    service.observe_trade(W, "sold", slot=1)
    post = say(service, eve, "one")
    wallets.attach_wallet(service.config, ada.bot, W, int(time.time() * 1000) + 1000, "proven")
    assert labels(service, post)


def test_a_post_without_a_wallet_has_no_ownership(service):
    made = service.make_bot("Mute")
    sent = service.post({"eventId": "1", "body": "b"}, made.publish_key.text).json
    assert sent["provenance"]["ownership"] is None
