"""Connecting and disconnecting wallets: who gets a wallet, what a bot with several keeps, and whose
the past of a wallet is: a later claim of a former wallet shows only later trades.
"""

import functools

import orjson
import pytest
from nacl.signing import SigningKey
from service import NOW, add_total, address, inspect, race, refused, signature

from accounts import acts, departures, influencers, posts, quotas, wallets
from chain import addresses
from chain.ledger.inventory import SOL
from chain.ledger.totals import ALL_HISTORY
from models import Attachment, Wallet
from operate import inspection
from storage import database
from web.api import trades

KEYS = {name: SigningKey(name.encode() * 32) for name in "abcde"}
# Addresses with a key, by letter.
A, B, C, D, E = (addresses.b58encode(key.verify_key.encode()) for key in KEYS.values())
ADDRESSES = dict(zip("ABCDE", (A, B, C, D, E), strict=True))
VAULT = addresses.b58encode(b"\x02" + bytes(31))
MINT, HOUR = address("mint"), 3_600_000
PEOPLE = "ada", "eve", "bob", "dan"


class Acts:
    """Plays acts in text: `add ada B` calls add("ada", "B"), and `claim eve C @3` does so at that
    hour; otherwise a millisecond after the last one. After `!` is the code of a refusal, after `=`
    what `show` says then.
    """

    now = NOW

    def play(self, acts):
        for act in acts.split(", "):
            told, _, shown = act.partition(" = ")
            told, _, code = told.partition(" ! ")
            told, _, hours = told.partition(" @")
            verb, *words = told.split()
            self.now = NOW + int(float(hours) * HOUR) if hours else self.now + 1
            do = functools.partial(getattr(self, verb), *words)
            if code:
                assert refused(do).code == code, act
            else:
                do()
            assert not shown or self.show() == shown, act

    def leave(self, name):
        wallets.detach_wallet(self.bots[name], self.now)

    def retire(self, name):
        """The bot was read before, and doesn't know."""
        influencers.retire_bot(self.bots[name], self.now)
        assert self.bots[name].retired_at is None


class World(Acts):
    """Ada, Eve, Bob and Dan, and wallets A to E."""

    addresses = ADDRESSES

    def __init__(self, service, acts):
        self.service, self.config = service, service.config
        self.bots = {name: service.make_bot(name.title()).bot for name in PEOPLE}
        self.play(acts)

    def share(self, name):
        """Give a bot to ada's owner."""
        bot = self.bots[name]
        bot.owner = self.bots["ada"].owner
        bot.save()

    def claim(self, name, wallet, ownership="claimed"):
        """Connect a wallet in place of the leading one."""
        address = self.addresses.get(wallet, wallet)
        wallets.attach_wallet(self.config, self.bots[name], address, self.now, ownership)

    def prove(self, name, wallet):
        self.claim(name, wallet, "proven")

    def add(self, name, wallet):
        address = self.addresses.get(wallet, wallet)
        wallets.add_wallet(self.config, self.bots[name], address, self.now)

    def remove(self, name, wallet):
        wallets.remove_wallet(self.bots[name], self.addresses[wallet], self.now)

    def delete(self, name):
        departures.delete_owner(self.bots[name].owner, self.now)

    def ban(self, wallet):
        acts.ban_wallet(self.addresses[wallet], "operator", "Stolen.", self.now)

    def show(self):
        """`A* B* / C`: the wallets of ada and eve, the leading one first; * if proven."""
        letters = {address: letter for letter, address in ADDRESSES.items()}
        held = [
            " ".join(
                letters[one.wallet.address] + "*" * (one.ownership == "proven") for one in some
            )
            for some in map(wallets.list_holdings, self.bots.values())
        ]
        return " / ".join(held[:2]).strip()


@pytest.fixture
def world(service):
    """Ada proved A."""
    yield World(service, "prove ada A @0")
    check_log(service)


def held(bot):
    """The bot's addresses, the leading one first."""
    return [one.wallet.address for one in wallets.list_holdings(bot)]


def spans(bot):
    """[(address, connected at, disconnected at)...], in order."""
    rows = Attachment.select().where(Attachment.bot == bot).order_by(Attachment.id)
    return [(row.wallet.address, row.attached_at, row.detached_at) for row in rows]


def check_log(service):
    assert inspect(service.config, inspection.check_log) == []


STORIES = {
    "a wallet belongs to one bot": (
        "claim eve A ! wallet_taken, prove eve A ! wallet_taken, add eve A ! wallet_taken = A* /"
    ),
    "a disconnected wallet is free": "leave ada, claim eve A = / A",
    "a repeated claim is no proof": "claim eve B, claim eve B = A* / B",
    "a proof displaces a claim": "claim eve B, prove ada B, prove eve B ! wallet_taken = B* /",
    "disconnecting removes the badge": "leave ada, claim ada A = A /",
    "a proven wallet is added last": "add ada B, add ada C = A* B* C* /",
    "an added wallet displaces a claim": "claim eve B, add ada B = A* B* /",
    "an added wallet may lead": "add eve B = A* / B*",
    "adding a claimed wallet proves it": "claim eve B, add eve B = A* / B*",
    "a new proof replaces the leading wallet": "add ada B, add ada C, prove ada D = B* C* D* /",
    "a removed wallet is added last": "add ada B, remove ada A, add ada A = B* A* /",
    "the last wallet can be removed": "add ada B, remove ada A, remove ada B = /",
    "only the banned wallet is disconnected": (
        "add ada B, add ada C, ban C, ban A, add ada C ! wallet_banned = B* /"
    ),
    "several wallets must all be proven": (
        "claim eve C, add eve D ! validation_failed, "
        "add ada B, claim ada D ! validation_failed = A* B* / C"
    ),
    "only a key's address can be added": (
        f"add ada {VAULT} ! validation_failed, add ada {'1' * 32} ! validation_failed, "
        "add ada nonsense ! validation_failed = A* /"
    ),
    "strangers remove nothing": (
        "add ada B, remove eve A ! not_found, remove eve B ! not_found, "
        "remove ada C ! not_found = A* B* /"
    ),
    **{
        f"{end}: all wallets are free": (
            f"add ada B, add ada C, {end} ada, add eve A, add eve B, add eve C = / A* B* C*"
        )
        for end in ("retire", "leave", "delete")
    },
    "a retired bot adds nothing": (
        "retire ada, add ada A ! bot_retired, claim ada A ! bot_retired = /"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_bots_have_the_wallets_that_they_connected(world, name):
    world.play(STORIES[name])
    # Nothing is left of what was refused.
    assert Wallet.select().count() == len({row.wallet_id for row in Attachment.select()})


def test_connecting_a_connected_wallet_changes_nothing(world):
    world.play("add ada B")
    before = spans(world.bots["ada"])
    world.play("add ada A, add ada B, claim ada B, prove ada B")
    assert spans(world.bots["ada"]) == before == [(A, NOW, None), (B, NOW + 1, None)]


@pytest.mark.parametrize("gone", ["A", "B"])
@pytest.mark.parametrize("hours", [0, 1])
def test_removing_one_wallet_ends_its_attachment_only(service, world, gone, hours):
    """Also in the millisecond in which the last one was added."""
    world.play(f"add ada B @0, add ada C @0, remove ada {gone} @{hours}")
    ends, ada = {ADDRESSES[gone]: NOW + hours * HOUR}, world.bots["ada"]
    assert spans(ada) == [(one, NOW, ends.get(one)) for one in (A, B, C)]
    assert {one.address: one.closing_at for one in Wallet.select() if one.closing_at} == ends
    used = [
        quotas.find_use(service.config, quota, ada.owner_id, NOW + 3 * HOUR).used
        for quota in ("wallet_changes_per_day", "wallets")
    ]
    assert used == [1, 2]


# ---- limits --------------------------------------------------------------------------------------
def test_an_owner_at_the_limit_moves_a_wallet_to_another_bot_by_proof(serve):
    """Two wallets each time, of three bots, except for a stranger's and a third one."""
    World(
        serve(max_wallets_per_owner=2),
        "share eve, share dan, claim ada A, claim eve B, claim bob C, "
        "prove dan A = / B, prove ada C ! wallet_limit, prove dan B = /, "
        "prove ada C = C* /, prove eve A ! wallet_limit",
    )


def test_each_wallet_counts_toward_the_owner_limit(serve):
    service = serve(max_wallets_per_owner=2, max_wallet_changes_per_day=1)
    world = World(service, "add ada A, add ada B")
    full = refused(world.add, "ada", "C")
    assert (full.code, full.more["limit"], full.more["used"]) == ("wallet_limit", 2, 2)
    world.play("prove ada C @1 = B* C* /, prove ada D @2 ! quota_exceeded")
    uses = quotas.list_use(database.execute_sql, service.config, NOW)
    most = {one.quota: (one.used, one.owners_at_limit) for one in uses}
    assert (most["wallets"], most["wallet_changes_per_day"]) == ((2, 1), (1, 1))


def test_concurrent_additions_connect_a_wallet_once(world):
    world.play("prove eve E")
    bots = [world.bots["ada"], world.bots["eve"]] * 10

    def take(number):
        wallets.add_wallet(world.config, bots[number], B, NOW + 9)
        return bots[number].id

    done = race(20, take)
    winner = wallets.find_holder(B).bot_id
    assert sorted(map(str, done)) == sorted([str(winner)] * 10 + ["wallet_taken"] * 10)
    assert Attachment.select().count() == 3


@pytest.mark.parametrize("hours", [2, -1])
def test_a_proven_wallet_keeps_its_past_with_its_bot(world, hours):
    """Even if the clock was set back between the proof and another bot's claim."""
    world.play(f"add ada B, remove ada B, claim eve B @{hours}")
    row, since = Wallet.get(Wallet.address == B), NOW + hours * HOUR
    told = row.bot.name, row.earlier_bot.name, row.bot_since
    assert told == ("Eve", "Ada", since)


# ---- the past of a wallet ------------------------------------------------------------------------
class Claims(World):
    """Wallet A has trades named by their hour. One without a block time doesn't go to a claim."""

    def __init__(self, service, acts):
        super().__init__(service, acts)
        self.key = service.make_bot("Z").publish_key.text
        for slot, name in enumerate(ALL.split(), 1):
            at = None if name == "?" else int(NOW // 1000 + float(name) * 3600)
            service.observe_trade(A, name, slot=slot, block_time=at, mint=MINT)

    def get(self, path):
        return self.service.get(f"/api/v1/{path}", self.key).json

    def read(self, name):
        return self.get(f"bots/{self.bots[name].uid}")

    def trades_of(self, name):
        """The trades that every list shows as a bot's, oldest first."""
        uid = self.bots[name].uid
        path, one_mint = f"/api/v1/trades?botId={uid}", f"&wallet={A}&mint={MINT}"
        listed, again = (
            [row["id"] for row in self.service.pages(path + more, self.key, 3)]
            for more in ("", one_mint)
        )
        since = [uid for uid, _ in self.follow(trades.find_wallets(bot=uid))]
        of_wallet = self.get(f"trades?wallet={A}")["data"]
        attributed = [row["id"] for row in of_wallet if row["botId"] == uid]
        latest = [row["id"] for row in self.read(name)["latestTrades"]]
        active = self.get(f"activity?mint={MINT}")["data"]
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
def heirs(service):
    """Ada proved the wallet and left; eve claimed it."""
    made = Claims(service, PROVEN)
    service.observe_results(A, 9_000)
    wallet = Wallet.get(Wallet.address == A)
    add_total(wallet, SOL, ALL_HISTORY, NOW // 1000 + 7 * 3600, realized=9_000, trades=4, matched=3)
    Wallet.update(coverage=None).execute()
    return made


def test_a_claim_gets_no_results_and_no_rank(heirs):
    for query in ("", "sort=volume", "sort=trades", "window=24h"):
        row = heirs.row_of("eve", query)
        assert (row["rank"], row["unrankedReason"]) == (None, "held_by_another")
        assert row["realizedLamports"] is row["volumeLamports"] is row["observedTrades"] is None
    shown = heirs.read("eve")
    assert (shown["results"], shown["resultsReason"]) == (None, "held_by_another")
    for path in ("/leaderboard?record=all", f"/bots/{heirs.bots['eve'].uid}"):
        page = heirs.service.get(path).text
        assert "this wallet was connected to another bot first" in page


@pytest.mark.parametrize(
    ("acts", "bot"), [("prove eve A @8", "eve"), ("leave eve @8, claim ada A @9", "ada")]
)
def test_a_proof_gets_the_results_and_the_rank(heirs, acts, bot):
    heirs.play(acts)
    row = heirs.row_of(bot)
    assert (row["rank"], row["realizedLamports"]) == (1, "9000")
    assert row["ownership"] == ("proven" if bot == "eve" else "claimed")


def test_current_holdings_have_no_cost_under_a_claim(heirs):
    held = {"mint": MINT, "amountRaw": "7", "decimals": 0}
    held |= {"costLamports": "55", "unknownBasisRaw": "0"}
    Wallet.update(positions=orjson.dumps([held]).decode()).execute()
    (position,) = heirs.read("eve")["openPositions"]
    told = position["amountRaw"], position["costLamports"], position["unknownBasisRaw"]
    assert told == ("7", None, "7")


def test_the_last_trade_of_a_claim_belongs_to_it(heirs):
    claimed = NOW + 3 * HOUR
    for last, shown in ((claimed - 1000, None), (claimed, "2026-11-05T15:00:00Z")):
        Wallet.update(last_trade_at=last).execute()
        assert heirs.read("eve")["lastTradeAt"] == shown


# On other pages and in other feeds: tests/web/test_feeds.py and test_share_cards.py.
CLAIMED_LABEL = "receipt verified · wallet claimed, not proven"


CLAIMED = ("claimed", CLAIMED_LABEL, True)


@pytest.mark.parametrize(
    ("acts", "label"),
    [
        ("prove ada A", ("proven", "receipt verified", False)),
        ("leave ada, prove ada A", CLAIMED),
        ("prove eve A", CLAIMED),
        ("prove eve A @0", CLAIMED),
    ],
)
def test_a_label_shows_whether_the_posts_bot_proved_its_wallet(service, acts, label):
    """The attachment at the time of the post decides, even if it was proven later."""
    world, key = World(service, "claim ada A @0"), service.make_bot("Z").publish_key.text
    service.observe_trade(A, "sold", slot=1)
    body = posts.PostBody(eventId="e", body="words", signature=signature("sold"))
    uid, mute = (posts.publish(world.bots[name].id, body, NOW).uid for name in ("ada", "bob"))

    def show():
        post = service.get(f"/api/v1/posts/{uid}", key).json
        item = service.get("/feed.json").json["items"][-1]
        is_claimed = CLAIMED_LABEL in service.get(f"/posts/{uid}").text
        return post["provenance"]["ownership"], item["_candor"]["label"], is_claimed

    assert show() == CLAIMED
    world.play(acts)
    assert show() == label
    # A post without a wallet has no ownership.
    shown = service.get(f"/api/v1/posts/{mute}", key).json
    assert shown["provenance"]["ownership"] is None
