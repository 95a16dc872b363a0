"""Seasons: terms, participants, standings, freezing, and audits."""

import orjson
import pytest
from auditing import ask_service, audit_log, edit
from lookout import BEGIN, Lookout
from node import FakeNode
from service import add_total, address, inspect, refused
from story import ADA, market

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
    **{"name": "Winter Cup", "starts_at": "2026-11-05T12:00Z", "ends_at": "2026-11-06T12:00Z"},
    **{"wallets": "all", "min_trades": "1"},
}
EARLIER = START - 2 * HOUR
SOLS, USDC = 10**9, STABLECOINS[0].mint


def create(now=EARLIER, **texts):
    return seasons.create_season({**TEXTS, **texts}, "me", now)


@pytest.fixture
def made(db, settings):
    return create()


class Field:
    """Bots with wallets; tests write their running totals."""

    def __init__(self, config):
        self.config = config

    def add(self, name, at=EARLIER, ownership="claimed", owner=None, earned=None):
        """Add a bot that connected a wallet at a time; `earned`: its result after an hour."""
        made = influencers.create_bot(self.config, name, at, owner=owner)
        self.connect(made.bot, name, at, ownership)
        if earned is not None:
            self.earn(name, earned)
        return made.bot

    def connect(self, bot, name, at, ownership="claimed"):
        wallets.attach_wallet(self.config, bot, address(name), at, ownership)

    def trade(self, name, hours, money=SOL):
        """Write running totals by hours after the start, with a complete history."""
        held = Attachment.select().join(Wallet).where(Wallet.address == address(name))
        held = held.order_by(Attachment.id.desc()).get()
        for hour, sums in hours.items():
            add_total(held.wallet_id, money, held.id, START // 1000 + 3600 * hour, **sums)
        Attachment.update(forward_realized=0).where(Attachment.id == held.id).execute()
        self.cover(name)

    def earn(self, name, realized, hour=1, matched=3, **more):
        self.trade(name, {hour: {"realized": realized, "matched": matched, **more}})

    def cover(self, name, state="complete", gaps=(), pending=0, observed_to=END):
        told = {"state": state, "gaps": list(gaps), "pending": pending, "receipts": 1}
        empty = dict.fromkeys(("observedFrom", "observedTo", "checkedAt", "firstSlot", "lastSlot"))
        told |= {**empty, "openingInventoryUnknown": [], "note": None}
        Wallet.update(coverage=orjson.dumps(told).decode(), observed_to=observed_to // 1000).where(
            Wallet.address == address(name)
        ).execute()


BACKFILLING = {"state": "backfilling"}
GAP = {"state": "partial", "gaps": [{"fromSlot": 1, "toSlot": 2, "reason": "missing"}]}
UNSEEN = {"observed_to": END - 1000}


@pytest.fixture
def field(settings, db):
    return Field(settings)


def list_rows(season, now=END):
    return seasons.list_standings(seasons.find_season(season.uid), now)


def show(season, now=END):
    """`ada 1 5, bob gap None`: each bot's rank, or why it has none, and its result."""
    names = {bot.id: bot.name for bot in Bot.select()}
    rows = list_rows(season, now)
    return ", ".join(f"{names[row.bot]} {row.rank or row.reason} {row.realized}" for row in rows)


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


def test_times_without_a_zone_are_utc_and_offsets_are_applied(db):
    season = create(starts_at="2026-11-05T12:00", ends_at="2026-11-06T14:00+02:00")
    assert (season.starts_at, season.ends_at) == (START, END)


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
    assert (changed.name, changed.starts_at) == ("Summer Cup", START)
    told = [(act.what, act.reason) for act in AdminAct.select()]
    assert told == [("create_season", None), ("change_season", "typo")]


def test_a_season_can_be_canceled_until_it_is_final(made, settings, field):
    field.add("ada", earned=5)
    freeze(settings)
    assert refused(seasons.cancel_season, made.uid, "me", "", END).code == "season_closed"
    other = create()
    assert seasons.cancel_season(other.uid, "me", "wrong rule", START + 1)
    assert not seasons.cancel_season(other.uid, "me", "again", START + 2)
    freeze(settings, END + DAY)
    other = seasons.find_season(other.uid)
    assert (seasons.find_state(other, END), other.frozen_at) == ("cancelled", None)
    assert show(other) == ""


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
FEW = {
    "a": {"realized": 5, "matched": 2, "unmatched": 9},
    "b": {"realized": 5, "matched": 2, "partial": 1, "cost": SOLS - 1, "proceeds": SOLS},
    "c": {"realized": 5, "matched": 3, "cost": SOLS, "proceeds": 2 * SOLS},
}
# The terms, each bot's totals after an hour, and the standings.
RANKED = {
    "by PnL": ({"rule": "pnl"}, THREE, "a 1 30, b 2 20, c 3 10"),
    "by return": ({"rule": "return"}, THREE, "b 1 20, c 2 10, a 3 30"),
    "by the worst case": ({"rule": "pnl_floor"}, THREE, "c 1 10, b 2 20, a 3 30"),
    "enough sales and cost": (RETURN, FEW, "c 1 5, a too_few_sells 5, b too_little_cost 5"),
    "a tie": (
        {},
        {name: {"realized": n} for name, n in zip("abc", (7, 9, 7), strict=True)},
        "b 1 9, a 2 7, c 2 7",
    ),
    "nothing in the currency": ({"currency": "USDC"}, {"a": {}}, "a too_few_sells 0"),
}


@pytest.mark.parametrize("name", RANKED)
def test_standings_follow_the_terms(field, name):
    terms, totals, told = RANKED[name]
    season = create(**terms)
    for bot, sums in totals.items():
        field.add(bot)
        field.trade(bot, {1: {"matched": 1, **sums}})
    assert show(season) == told


def test_only_results_within_the_season_and_in_its_currency_count(made, field):
    field.add("ada")
    sums = {-1: 100, 0: 107, 23: 112, 24: 1_000}
    field.trade("ada", {hour: {"realized": n, "matched": hour + 5} for hour, n in sums.items()})
    field.trade("ada", {2: {"realized": 3, "matched": 1}}, money=USDC)
    assert (show(made), show(create(currency="USDC"))) == ("ada 1 12", "ada 1 3")


def test_an_oversized_return_does_not_stop_the_freeze(made, field, settings):
    field.add("ada")
    field.earn("ada", 10**16, cost=1, proceeds=10**16 + 1)
    freeze(settings)
    (row,) = list_rows(made)
    assert (row.rank, row.realized, row.cost, row.return_points) == (1, 10**16, 1, None)


def test_a_bots_wallets_are_summed_and_an_owners_bots_are_not(made, field, settings):
    bot = field.add("one", ownership="proven", earned=5)
    wallets.add_wallet(settings, bot, address("two"), START + HOUR)
    field.earn("two", 8, hour=3)
    field.add("other", owner=bot.owner, earned=14)
    assert show(made) == "other 1 14, one 2 13"


# ---- who takes part ------------------------------------------------------------------------------
def test_a_wallet_connected_at_the_start_takes_part(made, field):
    field.add("early", earned=5)
    assert show(made, EARLIER) == "early not_started None"
    assert seasons.count_entrants(made, EARLIER) == 1
    wallets.detach_wallet(field.add("gone", earned=5), START)
    field.add("late", at=START + 1, earned=5)
    assert show(made) == "early 1 5"


def test_joining_counts_from_the_next_full_hour(made, field):
    bot = field.add("late", at=START + HOUR)
    assert seasons.join(made.uid, bot, START + 2 * HOUR + 1)
    assert not seasons.join(made.uid, bot, START + 9 * HOUR)
    field.trade("late", {1: {"realized": 50}, 2: {"realized": 70}, 3: {"realized": 75}})
    (row,) = list_rows(made)
    assert (row.since, row.realized, row.joined_at) == (START + 3 * HOUR, 5, START + 2 * HOUR + 1)


def test_joining_before_the_start_counts_from_the_start_but_needs_a_wallet(made, field, settings):
    bot = influencers.create_bot(settings, "Bare", EARLIER).bot
    assert seasons.join(made.uid, bot, EARLIER)
    assert show(made) == "Bare no_wallet 0"
    field.connect(bot, "bare", START + HOUR)
    field.earn("bare", 9, hour=2)
    assert show(made) == "Bare 1 9"


def test_joining_ends_with_the_season_and_excludes_retired_bots(made, field):
    bot, gone = field.add("late", at=START + 1), field.add("gone", at=START + 1)
    influencers.retire_bot(gone, START + 2)
    assert refused(seasons.join, made.uid, gone, START + 3).code == "bot_retired"
    assert refused(seasons.join, made.uid, bot, END).code == "season_closed"
    assert "too late" in refused(seasons.join, made.uid, bot, END - HOUR + 1).detail
    assert refused(seasons.join, "season_x", bot, START).code == "not_found"
    seasons.cancel_season(made.uid, "me", "", START + 4)
    assert refused(seasons.join, made.uid, bot, START + 5).code == "season_closed"


def test_a_proven_only_season_does_not_rank_claimed_wallets(field):
    season = create(wallets="proven")
    claimed = field.add("one", earned=9)
    field.add("two", ownership="proven", earned=5)
    assert show(season) == "two 1 5, one not_proven 9"
    field.connect(claimed, "one", START + HOUR, "proven")
    assert show(season) == "one 1 9, two 2 5"


def test_a_wallet_detached_mid_season_counts_until_then_and_loses_its_holdings(made, field):
    bot = field.add("ada")
    field.trade("ada", {1: {"realized": 5, "matched": 1, "open_cost": 100}})
    wallets.detach_wallet(bot, START + 3 * HOUR)
    Wallet.update(closing_at=None).execute()
    (row,) = list_rows(made)
    assert (row.rank, row.realized, row.worst_case) == (1, 5, -95)


def test_a_retired_bot_keeps_its_rank_and_a_banned_owner_has_none(made, field):
    retired, banned = field.add("retired", earned=5), field.add("banned", earned=9)
    influencers.retire_bot(retired, START + 2 * HOUR)
    Wallet.update(closing_at=None).execute()
    conduct.ban_owner(banned.owner, "cheats", START + 2 * HOUR)
    assert show(made) == "retired 1 5, banned excluded 9"


# ---- freezing ------------------------------------------------------------------------------------
def find_frozen(made):
    season = seasons.find_season(made.uid)
    return season.closing_at, season.frozen_at


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
        assert [*find_frozen(made)] == told


def test_standings_freeze_once_every_history_reaches_the_end_and_stay(made, field, settings):
    field.add("ada", earned=5)
    field.cover("ada", **UNSEEN)
    freeze(settings, END + HOUR)
    assert find_frozen(made)[1] is None
    assert show(made, END + HOUR) == "ada not_observed 5"
    field.cover("ada")
    freeze(settings, END + 2 * HOUR)
    assert find_frozen(made)[1] == END + 2 * HOUR
    field.earn("ada", 50)
    field.cover("ada", **GAP)
    freeze(settings, END + DAY)
    assert show(made, END + DAY) == "ada 1 5"
    (leaf,) = list_leaves("standing")
    assert (leaf["season"], leaf["rank"], leaf["realized"]) == (made.uid, "1", "5")
    assert [one["state"] for one in list_leaves("season")] == ["open", "final"]


@pytest.mark.parametrize(
    ("coverage", "reason"),
    [
        (BACKFILLING, "backfilling"),
        ({"pending": 3}, "backfilling"),
        (GAP, "gap"),
        ({"state": "none"}, "not_observed"),
        (UNSEEN, "not_observed"),
    ],
)
def test_unproven_rows_are_null_with_a_reason_at_the_deadline(
    made, field, settings, coverage, reason
):
    for name in ("ada", "bob"):
        field.add(name, earned=5)
    field.cover("ada", **coverage)
    frozen.run_tick(settings, END)
    frozen.run_tick(settings, END + seasons.DEADLINE_MS - 1)
    assert show(made) == f"bob 1 5, ada {reason} 5"
    frozen.run_tick(settings, END + seasons.DEADLINE_MS)
    assert show(made) == f"bob 1 5, ada {reason} None"


def test_a_season_frozen_by_another_instance_is_not_frozen_twice(
    made, field, settings, monkeypatch
):
    """Two final leaves would turn every audit against this instance."""
    field.add("ada", earned=5)
    frozen.run_tick(settings, END)
    stale = seasons.list_open()
    freeze(settings)
    field.earn("ada", 50, hour=2)
    monkeypatch.setattr(frozen, "list_open", lambda: stale)
    frozen.run_tick(settings, END + frozen.SETTLE_MS + 1)
    assert show(made) == "ada 1 5"
    assert [one["state"] for one in list_leaves("season")] == ["open", "final"]


@pytest.mark.parametrize(
    ("later", "told"),
    [({"pending": 1}, "ada 1 5"), (BACKFILLING, "ada 1 5"), (GAP, "ada gap None")],
)
def test_a_complete_bot_keeps_its_rank_while_waiting_for_others(made, field, settings, later, told):
    ada = field.add("ada", earned=5)
    field.add("bob", earned=9)
    field.cover("bob", **BACKFILLING)
    freeze(settings)
    assert [one.rank for one in seasons.list_badges(ada.id, END + HOUR)] == [None]
    assert show(made, END + HOUR) == "ada 1 5, bob backfilling 9" and not list_leaves("standing")
    field.cover("ada", **later)
    freeze(settings, END + 3 * DAY)
    assert show(made) == f"{told}, bob backfilling None"


def test_freezing_waits_for_a_disconnected_wallets_last_activity(made, field, settings):
    bot = field.add("ada", earned=5)
    field.cover("ada", observed_to=START)
    wallets.detach_wallet(bot, START + 3 * HOUR)
    freeze(settings)
    assert show(made) == "ada not_observed 5"
    Wallet.update(closing_at=None).execute()
    freeze(settings, END + HOUR)
    assert find_frozen(made)[1] is not None


def test_freezing_waits_only_for_bots_that_could_rank(field, settings):
    season = create(wallets="proven")
    field.add("ada", earned=0)
    field.cover("ada", **BACKFILLING)
    freeze(settings)
    assert find_frozen(season)[1] is not None
    assert show(season) == "ada not_proven 0"


def test_an_export_lists_an_owners_seasons(made, field, settings, monkeypatch):
    """The export pages correctly although season rows have a composite key."""
    monkeypatch.setattr(departures, "PAGE_ROWS", 1)
    ada = field.add("ada", earned=5)
    eve = field.add("eve", owner=ada.owner, earned=7)
    field.add("bob", earned=9)
    other = create(name="Second")
    seasons.join(other.uid, ada, EARLIER)
    seasons.cancel_season(other.uid, "me", "", EARLIER)
    freeze(settings)
    rows = list(departures.list_rows(departures.SHEETS["seasons.csv"], ada.owner))
    found = [(row["season"], row["botId"], row["rank"], row["realizedRaw"]) for row in rows]
    assert found == [
        ("Winter Cup", ada.uid, 3, 5),
        ("Winter Cup", eve.uid, 2, 7),
        ("Second", ada.uid, None, None),
    ]
    told = {name: rows[0][name] for name in ("countsFromAt", "currency", "frozenAt")}
    times = {"countsFromAt": "2026-11-05T12:00:00.000Z", "frozenAt": "2026-11-06T12:05:00.000Z"}
    assert told == {**times, "currency": "SOL"}
    assert rows[2]["joinedAt"] == "2026-11-05T10:00:00.000Z"


# ---- audit ---------------------------------------------------------------------------------------
class Played:
    """An instance that observed ada through an honest node, in a final one-hour season."""

    def __init__(self, service):
        self.service, self.node = service, FakeNode(market())
        seen = Lookout.begin(service.config, self.node, wallets=[ADA])
        self.uid = create(BEGIN, ends_at="2026-11-05T13:00Z").uid
        seen.clock.sleep(3600)
        seen.settle()
        Wallet.update(observed_to=seen.now // 1000).execute()
        freeze(service.config, seen.now)
        (row,) = list_rows(seasons.find_season(self.uid), seen.now)
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
    told = orjson.loads(ask_service(played.service)(f"/bots/{Bot.get().uid}/evidence.json"))
    assert told["bot"]["seasons"][played.uid]["standing"]["rank"] == "1"
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
def test_deep_doctor_accepts_an_upcoming_season(made, field, settings):
    seasons.join(made.uid, field.add("ada"), EARLIER)
    create(starts_at="2027-11-01T12:00Z", ends_at="2028-10-31T12:00Z")
    assert inspect(settings, inspection.check_text) == []


def test_doctor_names_differences_from_the_log(made, field, settings):
    def find():
        return [(one.table, one.field) for one in inspect(settings, inspection.check_log)]

    field.add("ada", earned=5)
    freeze(settings)
    other = create()
    seasons.cancel_season(other.uid, "me", "", START)
    assert find() == []
    edit("UPDATE season_entry SET realized = 6")
    edit("UPDATE season SET cancelled_at = NULL, ends_at = ends_at + 1 WHERE uid = ?", other.uid)
    closed = [("season", "state"), ("season", "endsAtMs")]
    assert find() == [("season_entry", "realized"), *closed]
    edit("DELETE FROM season WHERE uid = ?", other.uid)
    assert ("season", None) in find()
