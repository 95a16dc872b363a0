"""Seasons: terms, participants, standings, freezing, and audits."""

import orjson
import pytest
from auditing import ask_service, audit_log, edit
from lookout import BEGIN, Lookout
from node import FakeNode
from service import add_total, address, inspect, refused
from story import ADA as WALLET
from story import market
from test_attachments import Acts

from accounts import conduct, departures, influencers, seasons, wallets
from accounts.keys import make_key
from accounts.tables import AdminAct, Season
from chain.ledger.inventory import SOL
from chain.reading.currencies import STABLECOINS, use_currencies
from evidence import seasons as frozen
from models import Attachment, Bot, Wallet
from operate import inspection
from storage import database

HOUR = 3_600_000
# A full hour: 2026-11-05, noon UTC.
START = 1_793_880_000_000
END = START + 24 * HOUR
DAY = 24 * HOUR
TEXTS = {
    # Times without a zone are UTC, and offsets are applied.
    **{"name": "Winter Cup", "starts_at": "2026-11-05T12:00", "ends_at": "2026-11-06T14:00+02:00"},
    **{"wallets": "all", "min_trades": "1"},
}
EARLIER = START - 2 * HOUR
SOLS, USDC = 10**9, STABLECOINS[0].mint


def create(now=EARLIER, **texts):
    return seasons.create_season({**TEXTS, **texts}, "me", now)


@pytest.fixture
def made(db, settings):
    return create()


class Field(Acts):
    """A season's bots with wallets; acts write their running totals."""

    now = EARLIER

    def __init__(self, config, season=None):
        self.config, self.season, self.bots = config, season, {}

    def make(self, name, owner=None):
        self.bots[name] = influencers.create_bot(self.config, name, self.now, owner=owner).bot

    def connect(self, name, ownership="claimed"):
        wallets.attach_wallet(self.config, self.bots[name], address(name), self.now, ownership)

    def add(self, name, ownership="claimed", owner=None):
        self.make(name, owner)
        self.connect(name, ownership)
        return self.bots[name]

    def trade(self, name, hours, money=SOL):
        """Write running totals by hours after the start, with a complete history."""
        held = Attachment.select().join(Wallet).where(Wallet.address == address(name))
        held = held.order_by(Attachment.id.desc()).get()
        for hour, sums in hours.items():
            add_total(held.wallet_id, money, held.id, START // 1000 + 3600 * hour, **sums)
        Attachment.update(forward_realized=0).where(Attachment.id == held.id).execute()
        self.cover(name)

    def earn(self, name, realized, hour=1, matched=3, **more):
        """Earn so much until this hour."""
        totals = {"realized": int(realized), "matched": matched, **more}
        self.trade(name, {int(hour): totals})

    def cover(self, name, state="complete"):
        row = {"state": state, "gaps": [], "pending": 0, "receipts": 1}
        row |= dict.fromkeys(("observedFrom", "observedTo", "checkedAt", "firstSlot", "lastSlot"))
        row |= {"openingInventoryUnknown": [], "note": None, **COVERAGES.get(state, {})}
        seen = END // 1000 - (state == "unseen")
        stored = {"coverage": orjson.dumps(row).decode(), "observed_to": seen}
        Wallet.update(**stored).where(Wallet.address == address(name)).execute()

    def settle(self):
        """Disconnected wallets were observed until then."""
        Wallet.update(closing_at=None).execute()

    def ban(self, name):
        conduct.ban_owner(self.bots[name].owner, "cheats", self.now)

    def join(self, name):
        assert seasons.join(self.season.uid, self.bots[name], self.now)

    def cancel(self):
        seasons.cancel_season(self.season.uid, "me", "", self.now)

    def tick(self):
        frozen.run_tick(self.config, self.now)

    def freeze(self):
        freeze(self.config, self.now)

    def list_rows(self, now=END):
        return seasons.list_standings(seasons.find_season(self.season.uid), now)

    def show(self, now=END):
        """`ada 1 5; bob gap None`: each bot's rank, or why it has none, and its result."""
        rows, names = self.list_rows(now), {bot.id: name for name, bot in self.bots.items()}
        told = (f"{names[row.bot]} {row.rank or row.reason} {row.realized}" for row in rows)
        frozen_at = seasons.find_season(self.season.uid).frozen_at
        return ("final: " if frozen_at else "") + "; ".join(told)


GAP = {"fromSlot": 1, "toSlot": 2, "reason": "missing"}
COVERAGES = {
    "pending": {"state": "complete", "pending": 3},
    "gap": {"state": "partial", "gaps": [GAP]},
    "unseen": {"state": "complete"},
}


@pytest.fixture
def field(settings, made):
    return Field(settings, made)


def freeze(settings, at=END):
    """Run two passes: the first notices that the season is over."""
    frozen.run_tick(settings, at)
    frozen.run_tick(settings, at + frozen.SETTLE_MS)


def list_leaves(kind):
    rows = database.execute_sql("SELECT data FROM log_leaf ORDER BY id").fetchall()
    return [one for one in (orjson.loads(data) for (data,) in rows) if one["kind"] == kind]


# ---- terms ---------------------------------------------------------------------------------------
COUNTS = ("0", "-1", "1.5", "x", "99999", "٣", "00000000199")
TIMES = ("soon", "2026-11-05T12:30Z", "9999", "2026-11-05T12:00+05:30")


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        *(("name", "", "required"), ("name", "x" * 61, "60 characters"), ("name", "a\nb", "line")),
        pytest.param("name", make_key("read"), "API key", id="name-a key"),
        ("rule", "volume", "pnl, return, pnl_floor"),
        ("currency", "DOGE", "SOL, USDC"),
        ("wallets", "mine", "proven, all"),
        *(("min_trades", text, "from 1 to 10000") for text in COUNTS),
        *(("starts_at", text, "full hour") for text in TIMES),
        ("starts_at", "", "required"),
        ("starts_at", "2026-11-05T09:00Z", "past"),
        ("starts_at", "2028-01-01T00:00Z", "366 days"),
        ("ends_at", "2026-11-05T12:00Z", "after the season starts"),
        ("ends_at", "2028-11-05T12:00Z", "366 days"),
        ("ends_at", "0001-01-01T00:00+12:00", "after the season starts"),
    ],
)
def test_invalid_terms_name_the_field_and_what_is_allowed(db, field, text, told):
    problem = refused(create, **{field: text})
    (error,) = problem.errors
    assert (problem.code, error["field"]) == ("validation_failed", field)
    assert told in error["message"] and not Season.select().exists()


def test_at_most_20_seasons_are_open(db):
    for _ in range(seasons.MAX_OPEN):
        last = create()
    assert "20 seasons" in refused(create).detail
    seasons.cancel_season(last.uid, "me", "", EARLIER)
    create()


def test_terms_can_be_changed_until_the_start(made):
    def rename(now):
        return seasons.change_season(made.uid, {"name": "Summer Cup"}, "me", "typo", now)

    assert [rename(START - 1), rename(START - 1)] == [True, False]
    assert refused(rename, START).code == "season_closed"
    changed = seasons.find_season(made.uid)
    assert (changed.name, changed.starts_at, changed.ends_at) == ("Summer Cup", START, END)
    told = [(act.what, act.reason) for act in AdminAct.select()]
    assert told == [("create_season", None), ("change_season", "typo")]


def test_a_season_can_be_canceled_until_it_is_final(made, field, settings):
    field.play("add ada, earn ada 5, freeze @24, cancel ! season_closed")
    other = create()
    assert seasons.cancel_season(other.uid, "me", "wrong rule", START + 1)
    assert not seasons.cancel_season(other.uid, "me", "again", START + 2)
    freeze(settings, END + DAY)
    other = seasons.find_season(other.uid)
    assert (seasons.find_state(other, END), other.frozen_at) == ("cancelled", None)
    assert seasons.list_standings(other, END) == []


def test_the_state_follows_the_clock(made, settings):
    states = [(EARLIER, "upcoming"), (START, "running"), (END - 1, "running"), (END, "closing")]
    assert [(at, seasons.find_state(made, at)) for at, _ in states] == states
    # Without bots.
    freeze(settings)
    assert seasons.find_state(seasons.find_season(made.uid), END) == "final"
    assert list_leaves("season")[-1]["count"] == 0


# ---- ranks ---------------------------------------------------------------------------------------
THREE = {
    "a": {"realized": 30, "cost": 100 * SOLS, "proceeds": 101 * SOLS, "cost_left": 90},
    "b": {"realized": 20, "cost": SOLS, "proceeds": 9 * SOLS, "open_cost": 50},
    "c": {"realized": 10, "cost": 2 * SOLS, "proceeds": 9 * SOLS},
}
RETURN = {"rule": "return", "min_trades": "3"}
EQUAL = {name: {"realized": n} for name, n in {"a": 7, "b": 9, "c": 7, "d": 5}.items()}
FEW = {
    "a": {"realized": 5, "matched": 2, "unmatched": 9},
    "b": {"realized": 5, "matched": 2, "partial": 1, "cost": SOLS - 1, "proceeds": SOLS},
    "c": {"realized": 5, "matched": 3, "cost": SOLS, "proceeds": 2 * SOLS},
}
# The terms, each bot's totals after an hour, and the standings.
RANKED = {
    "by PnL": ({"rule": "pnl"}, THREE, "a 1 30; b 2 20; c 3 10"),
    "by return": ({"rule": "return"}, THREE, "b 1 20; c 2 10; a 3 30"),
    "by the worst case": ({"rule": "pnl_floor"}, THREE, "c 1 10; b 2 20; a 3 30"),
    "enough sales and cost": (RETURN, FEW, "c 1 5; a too_few_sells 5; b too_little_cost 5"),
    "a tie": ({}, EQUAL, "b 1 9; a 2 7; c 2 7; d 4 5"),
    "nothing in the currency": ({"currency": "USDC"}, {"a": {}}, "a too_few_sells 0"),
}


@pytest.mark.parametrize("name", RANKED)
def test_standings_follow_the_terms(db, settings, name):
    terms, totals, told = RANKED[name]
    field = Field(settings, create(**terms))
    for bot, sums in totals.items():
        field.add(bot)
        field.trade(bot, {1: {"matched": 1, **sums}})
    assert field.show() == told


def test_only_results_within_the_season_and_in_its_currency_count(field):
    field.add("ada")
    sums = {-1: 100, 0: 107, 23: 112, 24: 1_000}
    field.trade("ada", {hour: {"realized": n, "matched": hour + 5} for hour, n in sums.items()})
    field.trade("ada", {2: {"realized": 3, "matched": 1}}, money=USDC)
    assert field.show() == "ada 1 12"
    field.season = create(currency="USDC")
    assert field.show() == "ada 1 3"


def test_an_oversized_return_does_not_stop_the_freeze(field):
    field.add("ada")
    field.earn("ada", 10**16, cost=1, proceeds=10**16 + 1)
    field.play(f"freeze @24 = final: ada 1 {10**16}")
    (row,) = field.list_rows()
    assert (row.cost, row.return_points) == (1, None)


def test_a_bots_wallets_are_summed_and_an_owners_bots_are_not(field, settings):
    bot = field.add("one", "proven")
    wallets.add_wallet(settings, bot, address("two"), START + HOUR)
    field.add("other", owner=bot.owner)
    field.play("earn one 5, earn two 8 3, earn other 14 = other 1 14; one 2 13")


def test_a_wallet_detached_mid_season_loses_its_holdings(field):
    field.add("ada")
    field.earn("ada", 5, open_cost=100)
    field.play("leave ada @3, settle = ada 1 5")
    (row,) = field.list_rows()
    assert row.worst_case == -95


# ---- who takes part, and freezing ----------------------------------------------------------------
UNPROVEN = {
    "backfilling": ("backfilling", "pending"),
    "gap": ("gap",),
    "not_observed": ("none", "unseen"),
}
ADA, ADA_AND_BOB = "add ada, earn ada 5", "add ada, earn ada 5, add bob, earn bob 9"
STORIES = {
    "a wallet connected at the start takes part": (
        "add ada, earn ada 5, add gone, earn gone 5, leave gone @0, "
        "add late @0.001, earn late 5 = ada 1 5"
    ),
    "joining counts from the next full hour": (
        "add late @1, join late @2.001, earn late 50, earn late 70 2, "
        "earn late 75 3 = late too_few_sells 5"
    ),
    "joining before the start counts from the start, and needs a wallet": (
        "make bare, join bare = bare no_wallet 0, connect bare @1, earn bare 9 2 = bare 1 9"
    ),
    "joining ends with the season": (
        "add late @0.001, join late @24 ! season_closed, join late @23.001 ! season_closed, "
        "cancel @1, join late ! season_closed"
    ),
    "retired bots don't join": "add late @0.001, retire late, join late ! bot_retired",
    "a retired bot keeps its rank, and a banned owner has none": (
        f"{ADA_AND_BOB}, retire ada @2, settle, ban bob @2 = ada 1 5; bob excluded 9"
    ),
    "standings freeze once every history reaches the end, and stay": (
        f"{ADA}, cover ada unseen, freeze @25 = ada not_observed 5, "
        "cover ada, freeze @26 = final: ada 1 5, "
        "earn ada 50, cover ada gap, freeze @48 = final: ada 1 5"
    ),
    **{
        f"unproven at the deadline: {state}": (
            f"{ADA_AND_BOB}, cover ada {state}, tick @24, tick @95.999 = bob 1 9; ada {reason} 5, "
            f"tick @96 = final: bob 1 9; ada {reason} None"
        )
        for reason, states in UNPROVEN.items()
        for state in states
    },
    **{
        f"complete while waiting for others, then {state}": (
            f"{ADA_AND_BOB}, cover bob backfilling, freeze @24 = ada 1 5; bob backfilling 9, "
            f"cover ada {state}, freeze @96 = final: ada {told}; bob backfilling None"
        )
        for state, told in (("pending", "1 5"), ("backfilling", "1 5"), ("gap", "gap None"))
    },
    "a disconnected wallet's last activity": (
        f"{ADA}, cover ada unseen, leave ada @23.9999, freeze @24 = ada not_observed 5, "
        "settle, freeze @25 = final: ada 1 5"
    ),
}
PROVEN_ONLY = {
    "claimed wallets": (
        "add ada, earn ada 9, add bob proven, earn bob 5 = bob 1 5; ada not_proven 9, "
        "connect ada proven @1 = ada 1 9; bob 2 5"
    ),
    "a banned owner's claimed wallet": "add ada, earn ada 9, ban ada = ada excluded 9",
    "freezing waits only for bots that could rank": (
        "add ada, earn ada 0, cover ada backfilling, freeze @24 = final: ada not_proven 0"
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_standings_show_who_took_part_with_a_proven_history(field, name):
    field.play(STORIES[name])


@pytest.mark.parametrize("name", PROVEN_ONLY)
def test_a_season_may_be_for_proven_wallets_only(settings, db, name):
    Field(settings, create(wallets="proven")).play(PROVEN_ONLY[name])


def test_participants_are_listed_early_and_only_final_ranks_are_logged_and_shown(field, made):
    field.play(ADA_AND_BOB)
    assert field.show(START - 1) == "ada not_started None; bob not_started None"
    assert seasons.count_entrants(made, START - 1) == 2

    def list_badges():
        return [one.rank for one in seasons.list_badges(field.bots["ada"].id, END + HOUR)]

    field.play("cover bob unseen, freeze @24")
    assert (list_badges(), list_leaves("standing")) == ([None], [])
    field.play("cover bob, freeze @25")
    ranked = [(one["season"], one["rank"], one["realized"]) for one in list_leaves("standing")]
    assert ranked == [(made.uid, "1", "9"), (made.uid, "2", "5")] and list_badges() == [2]
    assert [one["state"] for one in list_leaves("season")] == ["open", "final"]


# When passes ran, and when the season closed and froze after each.
CLOCKS = {
    "an end": [(END, END, None), (END + 299_999, END, None), (END + 300_000, END, END + 300_000)],
    "a brief jump": [(END + DAY, END + DAY, None), (START, None, None), (END, END, None)],
    "a fast clock": [
        (END + 300 * DAY, END + 300 * DAY, None),
        (END + HOUR, END + HOUR, None),
        (END + HOUR + 300_000, END + HOUR, END + HOUR + 300_000),
    ],
}


@pytest.mark.parametrize("name", CLOCKS)
def test_a_season_freezes_five_minutes_after_an_end_that_the_clock_confirms(made, settings, name):
    """No bot took part, so no history would delay the freeze."""
    for now, *told in CLOCKS[name]:
        frozen.run_tick(settings, now)
        season = seasons.find_season(made.uid)
        assert [season.closing_at, season.frozen_at] == told


def test_a_season_frozen_by_another_instance_is_not_frozen_twice(field, monkeypatch):
    """Two final leaves would turn every audit against this instance."""
    field.play(f"{ADA}, tick @24")
    stale = seasons.list_open()
    field.play("freeze @24, earn ada 50 2")
    monkeypatch.setattr(frozen, "list_open", lambda: stale)
    field.play("tick @25 = final: ada 1 5")
    assert [one["state"] for one in list_leaves("season")] == ["open", "final"]


def test_an_export_lists_an_owners_seasons(field, monkeypatch):
    """The export pages correctly although season rows have a composite key."""
    monkeypatch.setattr(departures, "PAGE_ROWS", 1)
    ada = field.add("ada")
    eve = field.add("eve", owner=ada.owner)
    field.play("earn ada 5, earn eve 7, add bob, earn bob 9")
    other = create(name="Second")
    seasons.join(other.uid, ada, EARLIER)
    seasons.cancel_season(other.uid, "me", "", EARLIER)
    field.play("freeze @24")
    rows = list(departures.list_rows(departures.SHEETS["seasons.csv"], ada.owner))
    names = "season botId rank realizedRaw currency countsFromAt frozenAt joinedAt".split()
    final = "SOL", "2026-11-05T12:00:00.000Z", "2026-11-06T12:05:00.000Z", None
    joined = "SOL", None, None, "2026-11-05T10:00:00.000Z"
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("Winter Cup", ada.uid, 3, 5, *final),
        ("Winter Cup", eve.uid, 2, 7, *final),
        ("Second", ada.uid, None, None, *joined),
    ]


# ---- audit ---------------------------------------------------------------------------------------
class Played:
    """An instance that observed ada through an honest node, in a final one-hour season."""

    def __init__(self, service):
        self.service, self.node = service, FakeNode(market())
        seen = Lookout.begin(service.config, self.node, wallets=[WALLET])
        self.uid = create(BEGIN, ends_at="2026-11-05T13:00Z").uid
        seen.clock.sleep(3600)
        seen.settle()
        Wallet.update(observed_to=seen.now // 1000).execute()
        freeze(service.config, seen.now)
        (row,) = seasons.list_standings(seasons.find_season(self.uid), seen.now)
        assert row.rank == 1 and row.realized and row.sales > 3

    def audit(self, **more):
        return audit_log(self.service, self.node, **more)

    def list_differences(self):
        found = self.audit().differences
        return [(one.field.removeprefix(f"seasons.{self.uid}"), one.ours) for one in found]


@pytest.fixture
def played(serve):
    return Played(serve(evidence_per_minute=10**6))


def test_an_audit_recomputes_a_frozen_season_and_notes_other_rules(played):
    report = played.audit()
    assert (report.verdict, report.unknown, report.notes) == ("same", [], [])
    shown = orjson.loads(ask_service(played.service)(f"/bots/{Bot.get().uid}/evidence.json"))
    assert shown["bot"]["seasons"][played.uid]["standing"]["rank"] == "1"
    rules = seasons.find_season(played.uid).rules
    for table, column in (("season", "rules"), ("log_leaf", "data")):
        sql = f"UPDATE {table} SET {column} = REPLACE({column}, ?, ?) WHERE {column} LIKE ?"
        edit(sql, rules, "1/older", f"%{rules}%")
    report = played.audit()
    assert report.verdict == "same" and "other rules" in report.notes[0]


def test_an_audit_names_a_deleted_row_and_an_omitted_bot(played):
    edit("DELETE FROM season_entry")
    assert played.list_differences() == [("", "it is logged")]
    # The log has the season and the bot's wallet, but not its standing.
    database.execute_sql("DELETE FROM log_node")
    leaf = orjson.dumps({"at": 1, "kind": "other", "v": 1}).decode()
    edit("UPDATE log_leaf SET data = ? WHERE data LIKE '%\"standing\"%'", leaf)
    assert played.list_differences() == [("", "it had a wallet when the season started")]


def test_an_audit_finds_a_wrongly_logged_number_from_the_chain(serve, monkeypatch):
    """The operator froze a number that the chain doesn't support."""
    work_out = frozen.work_out

    def cheat(*args):
        return [row._replace(realized=(row.realized or 0) + 1) for row in work_out(*args)]

    monkeypatch.setattr(frozen, "work_out", cheat)
    found = Played(serve(evidence_per_minute=10**6)).list_differences()
    assert [field for field, _ in found] == [".standing.realized"]


def test_an_audit_uses_an_added_currency(serve):
    added = f"mint,symbol,decimals\n{address('DAI')},XDAI,6\n"
    try:
        report = Played(serve(added_currencies=added)).audit(accepts=True)
    finally:
        use_currencies(())
    assert (report.verdict, report.unknown) == ("same", [])
    assert not [one for one in report.notes if "other rules" in one]


# ---- doctor --deep -------------------------------------------------------------------------------
def test_deep_doctor_accepts_an_upcoming_season(field, settings):
    field.play("add ada, join ada")
    create(starts_at="2027-11-01T12:00Z", ends_at="2028-10-31T12:00Z")
    assert inspect(settings, inspection.check_text) == []


def test_doctor_names_differences_from_the_log(field, settings):
    def find():
        return [(one.table, one.field) for one in inspect(settings, inspection.check_log)]

    field.play(f"{ADA}, freeze @24")
    other = create()
    seasons.cancel_season(other.uid, "me", "", START)
    assert find() == []
    edit("UPDATE season_entry SET realized = 6")
    edit("UPDATE season SET cancelled_at = NULL, ends_at = ends_at + 1 WHERE uid = ?", other.uid)
    closed = [("season", "state"), ("season", "endsAtMs")]
    assert find() == [("season_entry", "realized"), *closed]
    edit("DELETE FROM season WHERE uid = ?", other.uid)
    assert ("season", None) in find()
