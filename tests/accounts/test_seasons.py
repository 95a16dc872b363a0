"""Seasons: terms, participants, standings, freezing, and audits."""

import orjson
import pytest
from auditing import ask_service, make_auditor
from lookout import BEGIN, Lookout
from node import FakeNode
from service import Service, add_total, address, inspect, refused
from story import ADA, market

from accounts import acts, conduct, departures, influencers, seasons, wallets
from accounts.keys import make_key
from accounts.seasons import Place, SeasonRow, Terms, find_place, rank
from accounts.tables import AdminAct, Season
from chain.ledger.inventory import SOL
from chain.reading.currencies import STABLECOINS, use_currencies
from evidence import seasons as frozen
from models import Attachment, Bot, Wallet
from operate import inspection
from storage import database, writing

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
USDC = STABLECOINS[0]


@pytest.fixture
def made(db, settings):
    return seasons.create_season(TEXTS, acts.COMMAND_LINE, EARLIER)


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

    def trade(self, name, money=SOL, hours=None, **coverage):
        """Write running totals by hours after the start, with a complete history."""
        held = find_attachment(name)
        for hour, sums in (hours or {}).items():
            add_total(held.wallet_id, money, held.id, START // 1000 + 3600 * hour, **sums)
        Attachment.update(forward_realized=0).where(Attachment.id == held.id).execute()
        self.cover(name, **coverage)

    def earn(self, name, realized, hour=1, matched=3, **more):
        self.trade(name, hours={hour: {"realized": realized, "matched": matched, **more}})

    def cover(self, name, state="complete", gaps=(), pending=0, observed_to=END):
        told = {"state": state, "gaps": list(gaps), "pending": pending, "receipts": 1}
        empty = dict.fromkeys(("observedFrom", "observedTo", "checkedAt", "firstSlot", "lastSlot"))
        told |= {**empty, "openingInventoryUnknown": [], "note": None}
        Wallet.update(coverage=orjson.dumps(told).decode(), observed_to=observed_to // 1000).where(
            Wallet.address == address(name)
        ).execute()


GAP = {"fromSlot": 1, "toSlot": 2, "reason": "missing"}


def find_attachment(name):
    held = Attachment.select().join(Wallet).where(Wallet.address == address(name))
    return held.order_by(Attachment.id.desc()).get()


@pytest.fixture
def field(settings, db):
    return Field(settings)


def show(season, now=END):
    """[(name, rank, reason, realized)...]"""
    names = {bot.id: bot.name for bot in Bot.select()}
    rows = seasons.list_standings(seasons.find_season(season.uid), now)
    return [(names[one.bot], one.rank, one.reason, one.realized) for one in rows]


def freeze(settings, at=END):
    """Run two passes: the first notices that the season is over."""
    frozen.run_tick(settings, at)
    frozen.run_tick(settings, at + frozen.SETTLE_MS)


# ---- terms ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        *(("name", "", "required"), ("name", "x" * 61, "60 characters"), ("name", "a\nb", "line")),
        pytest.param("name", make_key("read"), "API key", id="name-a key"),
        ("rule", "volume", "pnl, return, pnl_floor"),
        ("currency", "DOGE", "SOL, USDC"),
        ("wallets", "mine", "proven, all"),
        *(
            ("min_trades", text, "from 1 to 10000")
            for text in ("0", "-1", "1.5", "x", "99999", "٣", "00000000199")
        ),
        *(("starts_at", text, "full hour") for text in ("soon", "2026-11-05T12:30Z", "9999", "")),
        ("starts_at", "2026-11-05T12:00+05:30", "full hour"),
        ("starts_at", "2026-11-05T09:00Z", "past"),
        ("starts_at", "2028-01-01T00:00Z", "366 days"),
        ("ends_at", "2026-11-05T12:00Z", "after the season starts"),
        ("ends_at", "2028-11-05T12:00Z", "366 days"),
        ("ends_at", "0001-01-01T00:00+12:00", "after the season starts"),
    ],
)
def test_invalid_terms_name_the_field_and_what_is_allowed(db, field, text, told):
    problem = refused(seasons.create_season, {**TEXTS, field: text}, "me", EARLIER)
    assert problem.code == "validation_failed" and problem.errors[0]["field"] == field
    message = problem.errors[0]["message"]
    assert told in message or (not text and "required" in message)
    assert not Season.select().exists()


def test_times_without_a_zone_are_utc_and_offsets_are_applied(db):
    texts = {"starts_at": "2026-11-05T12:00", "ends_at": "2026-11-06T14:00+02:00"}
    season = seasons.create_season({**TEXTS, **texts}, "me", EARLIER)
    assert (season.starts_at, season.ends_at) == (START, END)


def test_at_most_20_seasons_are_open(db, settings):
    for _ in range(seasons.MAX_OPEN):
        last = seasons.create_season(TEXTS, "me", EARLIER)
    assert "20 seasons" in refused(seasons.create_season, TEXTS, "me", EARLIER).detail
    seasons.cancel_season(last.uid, "me", "", EARLIER)
    seasons.create_season(TEXTS, "me", EARLIER)


def test_terms_can_be_changed_until_the_start(made):
    assert seasons.change_season(made.uid, {"name": "Summer Cup"}, "me", "typo", START - 1)
    assert not seasons.change_season(made.uid, {"name": "Summer Cup"}, "me", "typo", START - 1)
    assert seasons.find_season(made.uid).name == "Summer Cup"
    assert seasons.find_season(made.uid).starts_at == START
    late = refused(seasons.change_season, made.uid, {"name": "x"}, "me", "", START)
    assert late.code == "season_closed"
    told = [(act.what, act.reason) for act in AdminAct.select()]
    assert told == [("create_season", None), ("change_season", "typo")]


def test_a_season_can_be_canceled_until_it_is_final(made, settings, field):
    field.add("ada", earned=5)
    freeze(settings)
    assert refused(seasons.cancel_season, made.uid, "me", "", END).code == "season_closed"
    other = seasons.create_season(TEXTS, "me", EARLIER)
    assert seasons.cancel_season(other.uid, "me", "wrong rule", START + 1)
    assert not seasons.cancel_season(other.uid, "me", "again", START + 2)
    freeze(settings, END + DAY)
    other = seasons.find_season(other.uid)
    assert seasons.find_state(other, END) == "cancelled" and other.frozen_at is None
    assert show(other) == []


def test_the_state_follows_the_clock(made, settings):
    states = [(EARLIER, "upcoming"), (START, "running"), (END - 1, "running"), (END, "closing")]
    assert [(at, seasons.find_state(made, at)) for at, _ in states] == states
    # Without bots.
    freeze(settings)
    assert seasons.find_state(seasons.find_season(made.uid), END) == "final"
    assert leaves("season")[-1]["count"] == 0


# ---- ranks ---------------------------------------------------------------------------------------
def terms(**more):
    given = Terms("Cup", "pnl", SOL, "SOL", 9, "all", 1, START, END)
    return given._replace(**more)


def test_ties_share_a_rank_and_the_oldest_bot_comes_first():
    rows = [
        SeasonRow(bot, None, START, "proven", reason, None, realized)
        for bot, reason, realized in ((4, None, 7), (2, "gap", 9), (3, None, 9), (1, None, 7))
    ]
    found = [(row.bot, row.rank) for row in rank("pnl", rows)]
    assert found == [(3, 1), (1, 2), (4, 2), (2, None)]
    places = [find_place("pnl", row) for row in rank("pnl", rows)]
    assert places == sorted(places) and places[0] == Place(0, -9, 3)


@pytest.mark.parametrize(
    ("rule", "order"), [("pnl", "abc"), ("return", "bca"), ("pnl_floor", "cba")]
)
def test_each_rule_ranks_by_its_number(field, rule, order):
    season = seasons.create_season({**TEXTS, "rule": rule}, "me", EARLIER)
    rows = {
        "a": {"realized": 30, "cost": 100 * 10**9, "proceeds": 101 * 10**9, "cost_left": 90},
        "b": {"realized": 20, "cost": 10**9, "proceeds": 9 * 10**9, "open_cost": 50},
        "c": {"realized": 10, "cost": 2 * 10**9, "proceeds": 9 * 10**9},
    }
    for name, sums in rows.items():
        field.add(name)
        field.trade(name, hours={1: {"matched": 1, **sums}})
    assert [(name, place) for name, place, *_ in show(season)] == list(
        zip(order, (1, 2, 3), strict=True)
    )


def test_only_results_within_the_season_count(made, field):
    field.add("ada")
    sums = {-1: 100, 0: 107, 23: 112, 24: 1_000}
    field.trade("ada", hours={h: {"realized": n, "matched": h + 5} for h, n in sums.items()})
    assert show(made) == [("ada", 1, None, 12)]


def test_a_rank_needs_sales_and_for_return_a_cost_basis(field):
    texts = {**TEXTS, "min_trades": "3", "rule": "return"}
    season = seasons.create_season(texts, "me", EARLIER)
    for name in "abc":
        field.add(name)
    field.earn("a", 5, matched=2, unmatched=9)
    field.earn("b", 5, matched=2, partial=1, cost=10**9 - 1, proceeds=10**9)
    field.earn("c", 5, cost=10**9, proceeds=2 * 10**9)
    found = {name: (place, reason) for name, place, reason, _ in show(season)}
    told = {"a": (None, "too_few_sells"), "b": (None, "too_little_cost"), "c": (1, None)}
    assert found == told


def test_an_oversized_return_does_not_stop_the_freeze(made, field, settings):
    field.add("ada")
    field.earn("ada", 10**16, cost=1, proceeds=10**16 + 1)
    freeze(settings)
    assert show(made) == [("ada", 1, None, 10**16)]
    (row,) = seasons.list_standings(seasons.find_season(made.uid), END)
    assert (row.cost, row.return_points) == (1, None)


def test_a_bots_wallets_are_summed_and_an_owners_bots_are_not(made, field, settings):
    bot = field.add("one", ownership="proven", earned=5)
    wallets.add_wallet(settings, bot, address("two"), START + HOUR)
    field.earn("two", 8, hour=3)
    field.add("other", owner=bot.owner, earned=14)
    assert show(made) == [("other", 1, None, 14), ("one", 2, None, 13)]


def test_a_currency_without_trades_ranks_no_bot(field):
    season = seasons.create_season({**TEXTS, "currency": "USDC"}, "me", EARLIER)
    field.add("ada", earned=5)
    assert show(season) == [("ada", None, "too_few_sells", 0)]
    field.trade("ada", money=USDC.mint, hours={2: {"realized": 3, "matched": 1}})
    assert show(season) == [("ada", 1, None, 3)]


# ---- who takes part ------------------------------------------------------------------------------
def test_a_wallet_connected_at_the_start_takes_part(made, field):
    field.add("early", earned=5)
    wallets.detach_wallet(field.add("gone", earned=5), START)
    field.add("late", at=START + 1, earned=5)
    assert [name for name, *_ in show(made)] == ["early"]


def test_before_the_start_expected_participants_are_listed(made, field):
    field.add("ada")
    assert show(made, EARLIER) == [("ada", None, "not_started", None)]
    assert seasons.count_entrants(made, EARLIER) == 1


def test_joining_counts_from_the_next_full_hour(made, field):
    bot = field.add("late", at=START + HOUR)
    assert seasons.join(made.uid, bot, START + 2 * HOUR + 1)
    assert not seasons.join(made.uid, bot, START + 9 * HOUR)
    field.trade("late", hours={1: {"realized": 50}, 2: {"realized": 70}, 3: {"realized": 75}})
    (row,) = seasons.list_standings(made, END)
    assert (row.since, row.realized, row.joined_at) == (START + 3 * HOUR, 5, START + 2 * HOUR + 1)


def test_joining_before_the_start_counts_from_the_start_but_needs_a_wallet(made, field, settings):
    bot = influencers.create_bot(settings, "Bare", EARLIER).bot
    assert seasons.join(made.uid, bot, EARLIER)
    assert show(made) == [("Bare", None, "no_wallet", 0)]
    field.connect(bot, "bare", START + HOUR)
    field.earn("bare", 9, hour=2)
    assert show(made) == [("Bare", 1, None, 9)]


def test_joining_ends_with_the_season_and_excludes_retired_bots(made, field):
    bot, gone = field.add("late", at=START + 1), field.add("gone", at=START + 1)
    influencers.retire_bot(gone, START + 2)
    assert refused(seasons.join, made.uid, gone, START + 3).code == "bot_retired"
    assert refused(seasons.join, made.uid, bot, END).code == "season_closed"
    assert "too late" in refused(seasons.join, made.uid, bot, END - HOUR + 1).detail
    assert refused(seasons.join, "season_x", bot, START).code == "not_found"
    seasons.cancel_season(made.uid, "me", "", START + 4)
    assert refused(seasons.join, made.uid, bot, START + 5).code == "season_closed"


def test_a_proven_only_season_does_not_rank_claimed_wallets(field, settings):
    season = seasons.create_season({**TEXTS, "wallets": "proven"}, "me", EARLIER)
    claimed = field.add("one", earned=9)
    field.add("two", ownership="proven", earned=5)
    assert show(season) == [("two", 1, None, 5), ("one", None, "not_proven", 9)]
    wallets.attach_wallet(settings, claimed, address("one"), START + HOUR, "proven")
    assert [name for name, *_ in show(season)] == ["one", "two"]


def test_a_wallet_detached_mid_season_counts_until_then_and_loses_its_holdings(made, field):
    bot = field.add("ada")
    field.trade("ada", hours={1: {"realized": 5, "matched": 1, "open_cost": 100}})
    wallets.detach_wallet(bot, START + 3 * HOUR)
    Wallet.update(closing_at=None).execute()
    (row,) = seasons.list_standings(made, END)
    assert (row.rank, row.realized, row.worst_case) == (1, 5, -95)


def test_a_retired_bot_keeps_its_rank_and_a_banned_owner_has_none(made, field):
    retired, banned = field.add("retired", earned=5), field.add("banned", earned=9)
    influencers.retire_bot(retired, START + 2 * HOUR)
    Wallet.update(closing_at=None).execute()
    conduct.ban_owner(banned.owner, "cheats", START + 2 * HOUR)
    assert show(made) == [("retired", 1, None, 5), ("banned", None, "excluded", 9)]


# ---- freezing ------------------------------------------------------------------------------------
def leaves(kind):
    rows = database.execute_sql("SELECT data FROM log_leaf ORDER BY id").fetchall()
    return [one for one in (orjson.loads(data) for (data,) in rows) if one["kind"] == kind]


def test_standings_freeze_once_every_history_reaches_the_end(made, field, settings):
    field.add("ada", earned=5)
    field.cover("ada", observed_to=END - 1000)
    frozen.run_tick(settings, END)
    frozen.run_tick(settings, END + HOUR)
    assert seasons.find_season(made.uid).frozen_at is None
    assert show(made, END + HOUR) == [("ada", None, "not_observed", 5)]
    field.cover("ada")
    frozen.run_tick(settings, END + HOUR + 1)
    assert seasons.find_season(made.uid).frozen_at == END + HOUR + 1
    assert show(made) == [("ada", 1, None, 5)]
    (leaf,) = leaves("standing")
    assert (leaf["season"], leaf["rank"], leaf["realized"]) == (made.uid, "1", "5")
    assert [one["state"] for one in leaves("season")] == ["open", "final"]


@pytest.mark.parametrize(
    ("coverage", "reason"),
    [
        ({"state": "backfilling"}, "backfilling"),
        ({"pending": 3}, "backfilling"),
        ({"state": "partial", "gaps": [GAP]}, "gap"),
        ({"state": "none"}, "not_observed"),
        ({"observed_to": END - 1000}, "not_observed"),
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
    assert show(made)[1] == ("ada", None, reason, 5)
    frozen.run_tick(settings, END + seasons.DEADLINE_MS)
    assert show(made) == [("bob", 1, None, 5), ("ada", None, reason, None)]


def test_a_frozen_record_is_not_corrected(made, field, settings):
    field.add("ada", earned=5)
    freeze(settings)
    field.earn("ada", 50)
    field.cover("ada", state="partial", gaps=[GAP])
    freeze(settings, END + DAY)
    assert show(made, END + DAY) == [("ada", 1, None, 5)] and len(leaves("standing")) == 1


def test_a_brief_clock_jump_freezes_nothing(made, field, settings):
    """No bot took part, so no history would delay the freeze."""
    frozen.run_tick(settings, END + DAY)
    assert seasons.find_season(made.uid).closing_at == END + DAY
    frozen.run_tick(settings, START)
    assert seasons.find_season(made.uid).closing_at is None
    field.add("ada", earned=5)
    freeze(settings)
    assert show(made) == [("ada", 1, None, 5)]


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
    assert show(made) == [("ada", 1, None, 5)]
    assert [one["state"] for one in leaves("season")] == ["open", "final"]


def test_an_end_seen_with_a_fast_clock_is_recorded_again(made, field, settings):
    field.add("ada", earned=5)
    frozen.run_tick(settings, END + 300 * DAY)
    freeze(settings, END + HOUR)
    season = seasons.find_season(made.uid)
    assert (season.closing_at, season.frozen_at) == (END + HOUR, END + HOUR + frozen.SETTLE_MS)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ({"pending": 1}, (1, None, 5)),
        ({"state": "backfilling"}, (1, None, 5)),
        ({"state": "partial", "gaps": [GAP]}, (None, "gap", None)),
    ],
)
def test_a_complete_bot_keeps_its_rank_while_waiting_for_others(made, field, settings, later, told):
    field.add("ada", earned=5)
    field.add("bob", earned=9)
    field.cover("bob", state="backfilling")
    freeze(settings)
    shown = seasons.list_badges(Bot.get(name="ada").id, END + HOUR)
    assert [one.rank for one in shown] == [None]
    assert show(made, END + HOUR)[0] == ("ada", 1, None, 5) and not leaves("standing")
    field.cover("ada", **later)
    freeze(settings, END + 3 * DAY)
    assert sorted(show(made)) == [("ada", *told), ("bob", None, "backfilling", None)]


def test_freezing_waits_for_a_disconnected_wallets_last_activity(made, field, settings):
    bot = field.add("ada", earned=5)
    field.cover("ada", observed_to=START)
    wallets.detach_wallet(bot, START + 3 * HOUR)
    freeze(settings)
    assert show(made) == [("ada", None, "not_observed", 5)]
    Wallet.update(closing_at=None).execute()
    freeze(settings, END + HOUR)
    assert seasons.find_season(made.uid).frozen_at is not None


def test_freezing_waits_only_for_bots_that_could_rank(field, settings):
    season = seasons.create_season({**TEXTS, "wallets": "proven"}, "me", EARLIER)
    field.add("ada")
    field.trade("ada", state="backfilling")
    freeze(settings)
    assert show(season) == [("ada", None, "not_proven", 0)]


def test_deep_doctor_accepts_an_upcoming_season(made, field, settings):
    seasons.join(made.uid, field.add("ada"), EARLIER)
    far = {"starts_at": "2027-11-01T12:00Z", "ends_at": "2028-10-31T12:00Z"}
    seasons.create_season({**TEXTS, **far}, acts.COMMAND_LINE, EARLIER)
    assert inspect(settings, inspection.check_text) == []


def test_an_export_lists_an_owners_seasons(made, field, settings, monkeypatch):
    """The export pages correctly although season rows have a composite key."""
    monkeypatch.setattr(departures, "PAGE_ROWS", 1)
    sheet = departures.SHEETS["seasons.csv"]
    ada = field.add("ada", earned=5)
    field.add("eve", owner=ada.owner, earned=7)
    field.add("bob", earned=9)
    other = seasons.create_season({**TEXTS, "name": "Second"}, "me", EARLIER)
    seasons.join(other.uid, ada, EARLIER)
    seasons.cancel_season(other.uid, "me", "", EARLIER)
    freeze(settings)
    rows = list(departures.list_rows(sheet, ada.owner))
    found = [(row["season"], row["botId"], row["rank"], row["realizedRaw"]) for row in rows]
    eve = Bot.get(Bot.name == "eve")
    assert found == [
        ("Winter Cup", ada.uid, 3, 5),
        ("Winter Cup", eve.uid, 2, 7),
        ("Second", ada.uid, None, None),
    ]
    assert rows[0]["countsFromAt"] == "2026-11-05T12:00:00.000Z" and rows[0]["currency"] == "SOL"
    assert rows[0]["frozenAt"] == "2026-11-06T12:05:00.000Z"
    assert rows[2]["joinedAt"] == "2026-11-05T10:00:00.000Z"


# ---- audit ---------------------------------------------------------------------------------------
def play(folder, **changes):
    """An instance that observed ada through an honest node, in a final one-hour season."""
    service, node = Service(folder, evidence_per_minute=10**6, **changes), FakeNode(market())
    seen = Lookout.begin(service.config, node, wallets=[ADA])
    season = seasons.create_season({**TEXTS, "ends_at": "2026-11-05T13:00Z"}, "me", BEGIN)
    seen.clock.sleep(3600)
    seen.settle()
    Wallet.update(observed_to=seen.now // 1000).execute()
    freeze(service.config, seen.now)
    (row,) = seasons.list_standings(seasons.find_season(season.uid), seen.now)
    assert row.rank == 1 and row.realized and row.sales > 3
    return service, node, season.uid


@pytest.fixture
def audited(tmp_path):
    played = play(tmp_path / "data")
    yield played
    played[0].close()


def audit(audited):
    service, node, _ = audited
    return make_auditor(ask_service(service), node, reads_log=True).audit(Bot.get().uid)


def change(sql, *values):
    with writing():
        assert len(database.execute_sql(f"{sql} RETURNING 1", values).fetchall()) == 1


def test_an_audit_recomputes_a_frozen_season(audited):
    report = audit(audited)
    assert (report.verdict, report.unknown, report.notes) == ("same", [], [])
    told = orjson.loads(ask_service(audited[0])(f"/bots/{Bot.get().uid}/evidence.json"))
    assert told["bot"]["seasons"][audited[2]]["standing"]["rank"] == "1"


def test_an_audit_names_a_deleted_row(audited):
    change("DELETE FROM season_entry")
    report = audit(audited)
    assert [one.field for one in report.differences] == [f"seasons.{audited[2]}"]


def test_an_audit_finds_a_wrongly_logged_number_from_the_chain(tmp_path, monkeypatch):
    """The operator froze a number that the chain doesn't support."""
    work_out = frozen.work_out

    def cheat(*args):
        return [row._replace(realized=(row.realized or 0) + 1) for row in work_out(*args)]

    monkeypatch.setattr(frozen, "work_out", cheat)
    played = play(tmp_path / "data")
    report = audit(played)
    played[0].close()
    fields = [one.field for one in report.differences]
    assert fields == [f"seasons.{played[2]}.standing.realized"]


def test_an_audit_names_an_omitted_bot(audited):
    """The bot has no frozen row, but the log has the season and the bot's wallet."""
    change("DELETE FROM season_entry")
    database.execute_sql("DELETE FROM log_node")
    sql = "SELECT id FROM log_leaf WHERE data LIKE '%\"standing\"%'"
    ((number,),) = database.execute_sql(sql).fetchall()
    leaf = orjson.dumps({"at": 1, "kind": "other", "v": 1}).decode()
    change("UPDATE log_leaf SET data = ? WHERE id = ?", leaf, number)
    report = audit(audited)
    assert [(one.field, one.ours) for one in report.differences] == [
        (f"seasons.{audited[2]}", "it had a wallet when the season started")
    ]


def test_an_audit_uses_an_added_currency(tmp_path):
    added = f"mint,symbol,decimals\n{address('DAI')},XDAI,6\n"
    played = play(tmp_path / "data", added_currencies=added)
    try:
        auditor = make_auditor(ask_service(played[0]), played[1], accepts=True, reads_log=True)
        report = auditor.audit(Bot.get().uid)
    finally:
        played[0].close()
        use_currencies(())
    assert (report.verdict, report.unknown) == ("same", [])
    assert not [one for one in report.notes if "other rules" in one]


def test_changed_rules_are_noted(audited):
    rules = seasons.find_season(audited[2]).rules
    for table, column in (("season", "rules"), ("log_leaf", "data")):
        sql = f"UPDATE {table} SET {column} = REPLACE({column}, ?, ?) WHERE {column} LIKE ?"
        change(sql, rules, "1/older", f"%{rules}%")
    report = audit(audited)
    assert report.verdict == "same" and "other rules" in report.notes[0]


# ---- doctor --deep -------------------------------------------------------------------------------
def find_in_log(settings):
    return [(one.table, one.field) for one in inspect(settings, inspection.check_log)]


def test_doctor_names_differences_from_the_log(made, field, settings):
    field.add("ada", earned=5)
    freeze(settings)
    other = seasons.create_season(TEXTS, "me", EARLIER)
    seasons.cancel_season(other.uid, "me", "", START)
    assert find_in_log(settings) == []
    change("UPDATE season_entry SET realized = 6")
    change("UPDATE season SET cancelled_at = NULL, ends_at = ends_at + 1 WHERE uid = ?", other.uid)
    assert find_in_log(settings) == [
        ("season_entry", "realized"),
        ("season", "state"),
        ("season", "endsAtMs"),
    ]
    change("DELETE FROM season WHERE uid = ?", other.uid)
    assert ("season", None) in find_in_log(settings)
