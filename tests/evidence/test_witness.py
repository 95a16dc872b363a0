"""The witness cosigns consistent checkpoints; it reports a fork, a rollback, a truncated tile and
an edited leaf; nonsense and silence don't raise an alarm.
"""

import pytest
from test_notes import check_cosignature

from evidence import log, notes, witness
from evidence.notes import COSIGNATURE, Signer, Verifier
from evidence.tables import Witnessed
from market.failures import FetchError
from storage import database, tree, writing
from storage.log import append_leaf, open_log

NOW = 1_800_000_000_000
URL = "https://candor.example"
SIGNER = Signer(b"w" * 32)


@pytest.fixture
def grown(service):
    """A service whose log has 300 leaves."""
    grow(300)
    return service


def grow(size):
    with writing():
        one = log.find_log()
        for n in range(size - (one.size if one else 1)):
            append_leaf("test", NOW + n)


def fetching(service, **replaced):
    """A Fetch for this service; `replaced`: {address prefix: response, or None for an error}."""

    def get(path):
        for start, answer in replaced.items():
            if path.startswith(start.replace("__", "/")):
                if answer is None:
                    raise FetchError("returned HTTP 404")
                return answer
        answer = service.get(f"/log/{path}")
        if answer.status_code != 200:
            raise FetchError(f"returned HTTP {answer.status_code}")
        return answer.data

    return get


def look(service, **replaced):
    return witness.observe_log(URL, SIGNER, NOW, fetching(service, **replaced))


def edit(sql, *values):
    """Edit the log's tables directly, and drop the hashes above."""
    with writing():
        database.execute_sql(sql, values)
        for (place,) in database.execute_sql("SELECT place FROM log_node").fetchall():
            one = log.find_log()
            leaves = log.read_leaves(one, place * 256, place * 256 + 256)
            root = tree.hash_tile([tree.hash_leaf(leaf) for leaf in leaves])
            database.execute_sql("UPDATE log_node SET hash = ? WHERE place = ?", (root, place))


def edit_old(leaf):
    """Edit a leaf of the first log, and the hash above it."""
    with writing():
        database.execute_sql("UPDATE log_leaf SET data = '{}' WHERE id = ?", (leaf,))
        leaves = log.read_leaves(log.list_logs()[0], 0, 256)
        root = tree.hash_tile([tree.hash_leaf(one) for one in leaves])
        database.execute_sql("UPDATE log_node SET hash = ? WHERE log_id = 1", (root,))


# ---- what is consistent --------------------------------------------------------------------------
def test_a_growing_log_is_cosigned_each_time(grown):
    assert look(grown).verdict == "consistent"
    for size in (301, 511, 512, 700):
        grow(size)
        told = look(grown)
        assert told.verdict == "consistent" and told.text.startswith(f"{size} leaves")
    assert look(grown).verdict == "consistent"
    key, text, lines = log.write_witnessed(SIGNER).split("\n\n")
    assert text.split("\n")[1] == "700"
    note = notes.parse_note(f"{text}\n\n{lines}".encode())
    witness_key = Verifier.parse(key)
    assert witness_key.kind == COSIGNATURE
    assert check_cosignature(note, witness_key) == NOW // 1000
    notes.check_note(note, Verifier.parse(Witnessed.get().key))


def test_cosigned_checkpoints_are_served(grown):
    look(grown)
    answer = grown.get("/log/witness")
    assert answer.status_code == 200 and Witnessed.get().note in answer.text


def test_a_new_log_naming_everything_seen_is_followed(grown):
    look(grown)
    log.renew_log("restore", NOW)
    told = look(grown)
    assert (told.verdict, told.text) == (
        "consistent",
        "a NEW LOG (restore) of 1 leaves, consistent with the 300 seen before: it references the"
        " old log, which still begins with them",
    )


def test_a_log_renewed_twice_between_two_checks_is_followed(grown):
    look(grown)
    log.renew_log("operator", NOW)
    log.renew_log("key", NOW)
    told = look(grown)
    assert told.verdict == "consistent" and told.text.startswith("a NEW LOG (operator, key)")


# ---- alarms --------------------------------------------------------------------------------------
def renew(why="operator", last=None):
    log.renew_log(why, NOW, last)


def edit_new(leaf):
    with writing():
        database.execute_sql("UPDATE log_leaf SET data = '{}' WHERE id = ?", (leaf,))


def lose_leaves():
    """As a restore of an older backup does."""
    last = log.describe_last()
    edit("DELETE FROM log_leaf WHERE id > 290")
    renew("restore", last)


def open_unlinked():
    with writing():
        open_log(NOW)


EDITED = "UPDATE log_leaf SET data = '{}' WHERE id = 17"
# Changes of a log of 300 leaves, and parts of the alarm.
CHANGES = {
    "an edited leaf": ([lambda: edit(EDITED)], ["FORK"]),
    "a shorter log": (
        [lambda: edit("DELETE FROM log_leaf WHERE id > 290")],
        ["ROLLBACK: it had 300 leaves and now has 291"],
    ),
    "an edit before a renewal": ([renew, lambda: edit_old(17)], ["FORK"]),
    "an edit of an intermediate log": (
        [renew, lambda: grow(5), renew, lambda: edit_new(302)],
        ["FORK"],
    ),
    "a new log over a forged past": ([lambda: edit(EDITED), renew], ["FORK"]),
    "a restore that lost leaves": (
        [lose_leaves],
        ["of the 300 old leaves seen so far", "it kept 291"],
    ),
    "a new log that names nothing": ([open_unlinked], ["NEW LOG"]),
}


@pytest.mark.parametrize(("steps", "words"), CHANGES.values(), ids=CHANGES)
def test_a_changed_past_is_an_alarm(grown, steps, words):
    look(grown)
    for step in steps:
        step()
    told = look(grown)
    assert told.verdict == "alarm" and all(one in told.text for one in words)
    assert Witnessed.get().trouble == told.text


def test_the_last_consistent_checkpoint_stays_after_a_fork(grown):
    look(grown)
    edit(EDITED)
    for _ in range(2):
        assert look(grown).verdict == "alarm"
        assert Witnessed.get().note.split("\n")[1] == "300"
        grow(400)


def test_a_restore_that_says_what_it_lost_is_followed(grown):
    look(grown)
    lose_leaves()
    assert [look(grown).verdict for _ in range(2)] == ["alarm", "consistent"]


def test_an_unlinked_new_log_stays_an_alarm(grown):
    look(grown)
    open_unlinked()
    assert [look(grown).verdict for _ in range(2)] == ["alarm", "alarm"]


def test_a_truncated_tile_is_reported(grown):
    look(grown)
    grow(310)
    for cut in (b"", bytes(31), bytes(32 * 53), bytes(32 * 54)):
        told = look(grown, tile__0__001=cut)
        assert told.verdict == "alarm" and "FORK" in told.text
    assert look(grown).verdict == "consistent"


def test_tiles_that_miss_the_root_are_reported_on_first_contact(grown):
    assert look(grown, tile__0__001=bytes(32 * 44)).verdict == "alarm"
    assert Witnessed.select().count() == 0


def test_another_key_is_reported(grown):
    look(grown)
    one = log.find_log()
    other = Signer(b"o" * 32)
    note = other.sign_note(one.origin, log.make_checkpoint(one).write()).encode()
    key = f"{other.verifier(one.origin)}\n".encode()
    told = look(grown, checkpoint=note, key=key)
    assert told.verdict == "alarm" and "not signed with the log's key" in told.text


@pytest.mark.parametrize(
    "hostile",
    [
        {"root": "no base64"},
        {"root": "\u0663" * 44},
        {"root": None},
        {"size": "3\x00"},
        {"size": 1e308},
        {"size": -1},
        {"kept": "9" * 5_000},
        {"kept": True},
        {"kept": 2**60},
        {"why": "restore\n\x1b[2J ERROR all logs are forged"},
        {"why": "x" * 10_000},
        {"log": ["log"]},
    ],
)
def test_hostile_data_about_the_earlier_log_stops_no_other_check(
    grown, monkeypatch, caplog, hostile
):
    """It is reported as an alarm in our words, and the next instance is checked too."""
    look(grown)
    other = "https://other.example"
    with writing():
        previous = {**log.describe_last(), "kept": 300, "why": "restore", **hostile}
        open_log(NOW, previous)
    monkeypatch.setattr(witness, "make_fetch", lambda url: fetching(grown))
    told = witness.run_tick([URL, other], SIGNER, NOW)
    assert told.startswith(f"{URL}: NEW LOG: its first leaf can't be read")
    assert Witnessed.get(Witnessed.url == other).trouble is None
    assert "ERROR all logs" not in caplog.text + told


def test_truncated_tiles_of_the_earlier_log_are_reported(grown):
    look(grown)
    prefix = log.find_log().uid
    log.renew_log("restore", NOW)
    told = look(grown, **{f"{prefix}/tile": b"short"})
    assert told.verdict == "alarm" and "don't match" in told.text


# ---- no accusation -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "replaced",
    [
        {"checkpoint": None},
        {"key": None},
        {"key": b"\xff\xfe"},
        {"checkpoint": b""},
        {"checkpoint": b"<html>502</html>"},
        {"checkpoint": b"x" * 100_000},
        {"checkpoint": b"\xff" * 100},
        {"tile__": None},
    ],
)
def test_silence_and_invalid_responses_are_not_blamed(grown, replaced):
    look(grown)
    grow(310)
    before = Witnessed.get().note
    assert look(grown, **replaced).verdict == "cannot_tell"
    row = Witnessed.get()
    assert row.note == before and row.trouble is None


def test_requests_are_limited(monkeypatch):
    monkeypatch.setattr(witness, "fetch", lambda *_: b"")
    get = witness.make_fetch(URL)
    for _ in range(witness.MAX_REQUESTS):
        get("checkpoint")
    with pytest.raises(FetchError):
        get("checkpoint")


def test_concurrent_checks_do_not_overwrite_each_other(grown):
    look(grown)
    seen = witness.Seen(Witnessed.get().key, "other note")
    grow(310)
    found = witness.read_log(fetching(grown), None)
    witness._keep(URL, seen, found.seen, SIGNER, NOW)
    assert Witnessed.get().note.split("\n")[1] == "300"


# ---- WITNESSES -----------------------------------------------------------------------------------
def cosigned(size_of):
    """The cosigned checkpoint that another instance would show of the current log, or as `size_of`
    makes it.
    """
    one = log.find_log()
    size, root = size_of(one)
    note = own_signer().sign_note(one.origin, notes.Checkpoint(one.origin, size, root).write())
    return f"key\n\n{note}".encode()


def own_signer():
    return Signer(b"l" * 32)


def ask(**replaced):
    return witness.ask_about_us(URL, own_signer(), lambda path: replaced[path])


def test_a_witnesss_view_of_this_log_is_compared(grown):
    one = log.find_log()
    read = log.make_reader(one, one.size)
    for size in (1, 256, 300):
        shown = cosigned(lambda _, size=size: (size, tree.find_root(read, size)))
        assert ask(witness=shown).verdict == "consistent"
    told = ask(witness=cosigned(lambda one: (one.size + 1, bytes(32))))
    assert told.verdict == "alarm" and "ROLLBACK here" in told.text
    told = ask(witness=cosigned(lambda one: (one.size - 1, bytes(32))))
    assert told.verdict == "alarm" and "FORK here" in told.text


@pytest.mark.parametrize(
    "shown", [b"", b"\xff", b"key\n", b"key\n\nx\n1\n\n", b"a\n\nb\n\nc\n\nd\n\n"]
)
def test_a_witness_without_our_log_is_not_blamed(grown, shown):
    assert ask(witness=shown).verdict == "cannot_tell"


def test_a_forged_checkpoint_of_ours_is_not_blamed(grown):
    one = log.find_log()
    forged = notes.Checkpoint(one.origin, one.size + 9, bytes(32)).write()
    shown = f"key\n\n{Signer(b'f' * 32).sign_note(one.origin, forged)}".encode()
    assert ask(witness=shown).verdict == "cannot_tell"


def test_the_job_reports_what_is_wrong(grown, monkeypatch, caplog):
    monkeypatch.setattr(witness, "make_fetch", lambda url: fetching(grown))
    assert witness.run_tick([URL], SIGNER, NOW) is None
    edit("DELETE FROM log_leaf WHERE id > 290")
    assert "ROLLBACK" in witness.run_tick([URL], SIGNER, NOW)
    assert "ROLLBACK" in caplog.text
