"""Paper traders that move: made again from an archive, with an account that begins anew."""

import ground
import orjson
import pytest
from service import NOW, Service, address
from test_leaving import HOUR, PHRASE, edit, list_wrong, rewrite

from accounts import departures, imports, traders
from accounts.archive_reading import BadArchive, read_archive
from accounts.exports import write_archive
from cli.parser import main
from models import Bot, Owner
from paper.account import STARTING_CASH
from paper.tables import DiaryEntry, ImportedTrader, PaperPost, Period, Position, Trader
from storage import database

LATER = NOW + 2 * HOUR
# Whole numbers within a family's bounds, and other than its defaults.
CHOSEN = {"riseBps": 300}
VOICE = {"tone": "dry", "catchphrases": ["So be it."]}


def make_trader(owner, name, **more):
    return traders.create_trader(name, "momentum", NOW, owner=owner, **more).trader


def export(owner, path, at=NOW + HOUR, instance="https://old.example"):
    with open(path, "wb") as file:
        write_archive(owner, instance, "0.2.0", at, file)
    return path


@pytest.fixture
def left(service, tmp_path):
    """(uid of a paper trader with a life behind it, the path of its owner's archive)"""
    owner = service.make_bot("Ada", address("w")).owner
    trader = make_trader(
        owner,
        "Momo",
        voice=VOICE,
        bio="I follow what rises.",
        start="standard",
        settings=CHOSEN,
        adaptive="on",
    )
    period = Period.get(Period.trader == trader)
    Period.update(cash=9 * STARTING_CASH, lost_fees=7).where(Period.id == period.id).execute()
    entry = DiaryEntry.create(period=period, at=NOW, kind="decision", facts="{}")
    words = {"body": "I won again.", "writer": "built-in", "event_at": NOW, "created_at": NOW}
    PaperPost.create(uid=f"post_{1:024x}", entry=entry, trader=trader, **words)
    return trader.uid, export(owner, tmp_path / "a.zip")


@pytest.fixture
def elsewhere(service, left, tmp_path):
    """Another instance."""
    service.close()
    other = Service(tmp_path / "other")
    yield other
    other.close()


def bring(other, path, **more):
    return imports.store_archive(other.config, read_archive(path, LATER), LATER, **more)


def refuse(other, path, **more):
    """What an import of this archive is refused with; nothing was stored."""
    before = ground.read_all(other.config.data_dir)
    with pytest.raises(BadArchive) as refusal:
        bring(other, path, **more)
    assert ground.read_all(other.config.data_dir) == before
    return str(refusal.value)


# ---- what comes, and what does not ---------------------------------------------------------------
def test_a_trader_comes_as_it_was_chosen_and_its_account_begins_anew(elsewhere, left):
    old, path = left
    (moved,) = bring(elsewhere, path).traders
    trader = Trader.get()
    assert (trader.uid, trader.name) == (moved.uid, "Momo") and moved.uid != old
    assert (trader.bio, trader.family) == ("I follow what rises.", "momentum")
    assert (trader.start_mode, trader.adaptive) == ("standard", "on")
    assert orjson.loads(trader.settings) == CHOSEN
    voice = orjson.loads(trader.voice)
    assert (voice["tone"], voice["catchphrases"]) == ("dry", ["So be it."])
    assert trader.owner_id == Bot.get().owner_id
    account = Period.get()
    assert (account.number, account.cash, account.lost_fees) == (1, STARTING_CASH, 0)
    assert account.opened_at == trader.created_at == LATER
    assert not [t for t in (DiaryEntry, PaperPost, Position) if t.select().exists()]
    assert list_wrong(elsewhere) == []


def test_its_page_says_that_it_was_imported_and_what_is_only_claimed(elsewhere, left):
    old, path = left
    (moved,) = bring(elsewhere, path).traders
    made = traders.create_trader("Born Here", "momentum", LATER).trader
    shown = elsewhere.get(f"/api/traders/{moved.uid}").json
    assert shown["imported"]["traderId"] == old
    assert shown["imported"]["instance"] == "https://old.example"
    assert shown["imported"]["createdAt"] < shown["createdAt"]
    assert shown["performance"]["cashSol"] == shown["performance"]["startingCashSol"]
    assert elsewhere.get(f"/api/traders/{made.uid}").json["imported"] is None
    page = elsewhere.get(f"/traders/{moved.uid}").text
    assert "Imported by the operator" in page and "https://old.example" in page
    assert "began anew" in page and "nobody checked it" in page and "won again" not in page
    assert "Imported" not in elsewhere.get(f"/traders/{made.uid}").text


def test_a_retired_trader_comes_retired_and_fills_no_quota(elsewhere, left, tmp_path):
    line = {"retiredAt": "2023-11-14T22:20:00Z"}
    archive = rewrite(left[1], tmp_path / "b.zip", traders_jsonl=edit(1, **line))
    other = ground.change(elsewhere.config, max_traders_per_owner=1)
    (moved,) = imports.store_archive(other, read_archive(archive, LATER), LATER).traders
    assert moved.is_retired and Trader.get().retired_at == LATER
    make_trader(Owner.get(), "Next", config=other)


def test_an_archive_of_an_import_keeps_its_first_origin(elsewhere, left, tmp_path):
    old, path = left
    bring(elsewhere, path)
    first, again = Owner.get(), tmp_path / "b.zip"
    export(first, again, LATER, "https://new.example")
    departures.delete_owner(first, LATER)
    imports.store_archive(elsewhere.config, read_archive(again, LATER + HOUR), LATER + HOUR)
    origins = ImportedTrader.select(ImportedTrader.original_uid, ImportedTrader.instance)
    assert list(origins.tuples()) == [(old, "https://old.example")] * 2


def test_the_command_tells_of_traders_and_leaves_them_out_when_asked(
    elsewhere, left, monkeypatch, capsys
):
    ground.enter(monkeypatch, elsewhere.config.data_dir)
    database.close_all()
    told = []
    for flags in (["--without-traders", "--without-wallets"], ["--rename", f"{left[0]}=Momo II"]):
        archive = [str(left[1]), "--json", *flags]
        if Bot.select().exists():
            departures.delete_owner(Owner.get(), LATER)
        database.close_all()
        assert main(["import", *archive]) == 0
        told.append(orjson.loads(capsys.readouterr().out))
    assert told[0]["traders"] == []
    (moved,) = told[1]["traders"]
    assert moved == {"traderId": Trader.get().uid, "name": "Momo II", "retired": False}


# ---- what is refused -----------------------------------------------------------------------------
@pytest.mark.parametrize("taken", ["a bot", "a trader"])
def test_a_name_that_is_taken_is_refused_and_may_be_changed(elsewhere, left, taken):
    old, path = left
    if taken == "a bot":
        elsewhere.make_bot("M0mo")
    else:
        traders.create_trader("M0mo", "momentum", NOW)
    said = refuse(elsewhere, path)
    assert said.startswith("traders.jsonl, line 1: name: is taken")
    assert said.endswith(f"--rename {old}=NAME")
    assert bring(elsewhere, path, names={old: "Momo Moved"}).traders[0].name == "Momo Moved"


def test_a_name_that_deceives_is_refused_and_may_be_changed(elsewhere, left, tmp_path):
    uid, archive = left
    bad = rewrite(archive, tmp_path / "b.zip", traders_jsonl=edit(1, name="Momo [verified]"))
    with pytest.raises(BadArchive, match=r"traders.jsonl, line 1: name: .*--rename trader_"):
        bring(elsewhere, bad)
    assert bring(elsewhere, bad, names={uid: "Momo"}).traders[0].name == "Momo"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"family": "own:secret_sauce"}, "family: must be one of: momentum"),
        ({"family": "luck"}, "family: must be one of: momentum"),
        ({"settings": {"luck": 1}}, "luck: is no setting of this family"),
        ({"settings": {"riseBps": 10**9}}, "riseBps: must be a whole number from"),
    ],
)
def test_what_this_instance_cannot_play_is_refused_by_name(
    elsewhere, left, tmp_path, changes, said
):
    archive = rewrite(left[1], tmp_path / "b.zip", traders_jsonl=edit(1, **changes))
    told = refuse(elsewhere, archive)
    assert told.startswith(f"traders.jsonl, line 1: {said}")
    assert told.endswith(": --without-traders leaves them out")
    made = bring(elsewhere, archive, with_traders=False)
    assert made.traders == [] and not Trader.select().exists() and Bot.get().name == "Ada"


def test_more_traders_than_an_owner_may_have_are_refused(elsewhere, left, tmp_path):
    second = {"id": f"trader_{2:024x}", "name": "Second"}

    def double(text):
        return text + orjson.dumps({**orjson.loads(text), **second}).decode() + "\n"

    archive = rewrite(left[1], tmp_path / "b.zip", traders_jsonl=double)
    other = ground.change(elsewhere.config, max_traders_per_owner=1)
    with pytest.raises(BadArchive, match=r"traders.jsonl, line 2: .*MAX_TRADERS_PER_OWNER"):
        imports.store_archive(other, read_archive(archive, LATER), LATER)
    assert not Owner.select().exists()
    assert len(bring(elsewhere, archive).traders) == 2


BAD = {
    "an unknown field": (edit(1, returnPct=900), "line 1: returnPct"),
    "no trader's id": (edit(1, id=f"bot_{1:024x}"), "line 1: id: is no id of a paper trader"),
    "a trader twice": (lambda text: text + text, "line 2: a trader before it"),
    "too many": (lambda text: text * 201, "line 2"),
    "a phrase as a bio": (edit(1, bio=PHRASE), "line 1: bio"),
    "a phrase as a voice": (
        edit(1, voice={"tone": "", "style": PHRASE.split(), "adjectives": [], "topics": [],
                       "catchphrases": [], "emoji": ""}), "line 1: style"),
    "a setting that is none": (edit(1, settings={"\x1b[2J": 1}), "line 1: settings"),
    "a setting that is no number": (
        edit(1, settings={"riseBps": True}), "line 1: settings.riseBps"),
    "a start that is none": (edit(1, startMode="rich"), "line 1: startMode: must be one of"),
    "the future": (edit(1, createdAt="2999-01-01T00:00:00Z"), "line 1: createdAt"),
    "an origin that is none": (
        edit(1, originalId="me", originallyAt="2023-11-14T22:20:00Z",
             originalInstance="https://x.example"), "line 1: originalId: is no id of a trader"),
    "damaged JSON": (lambda text: text.replace("{", "[", 1), "line 1"),
    "none": (lambda text: None, "is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_of_a_trader_is_refused_with_its_place(service, left, tmp_path, name):
    change, said = BAD[name]
    archive = rewrite(left[1], tmp_path / "b.zip", traders_jsonl=change)
    with pytest.raises(BadArchive) as refusal:
        read_archive(archive, LATER)
    told = str(refusal.value)
    assert told.startswith("traders.jsonl") and said in told
    assert "legal winner" not in told and "\x1b" not in told
