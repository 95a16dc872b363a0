"""The witness cosigns consistent checkpoints; it reports a fork, a rollback, a truncated tile and
an edited leaf; nonsense and silence don't raise an alarm.
"""

import pytest
from auditing import ask_service
from test_notes import check_cosignature

from evidence import log, notes, witness
from evidence.notes import COSIGNATURE, Signer, Verifier
from evidence.tables import Witnessed
from market.failures import FetchError
from storage import database, tree, writing
from storage.log import append_leaf, open_log

NOW = 1_800_000_000_000
URL, OTHER_URL = "https://candor.example", "https://other.example"
SIGNER, OWN_SIGNER = Signer(b"w" * 32), Signer(b"l" * 32)


@pytest.fixture
def grown(service):
    """A service whose log has 300 leaves."""
    grow(300)
    return service


@pytest.fixture
def seen(grown):
    """The same, after the witness saw it."""
    assert look(grown).verdict == "consistent"
    return grown


def grow(size):
    with writing():
        one = log.find_log()
        for n in range(size - (one.size if one else 1)):
            append_leaf("test", NOW + n)


def fetching(service, replaced=None):
    """A Fetch for this service; `replaced`: {address prefix: response, or None for an error}."""
    ask = ask_service(service)

    def get(path):
        for start, answer in (replaced or {}).items():
            if path.startswith(start):
                if answer is None:
                    raise FetchError("returned HTTP 404")
                return answer
        return ask(f"/log/{path}")

    return get


def list_pairs(table):
    return [(name, value) for name, values in table.items() for value in values]


def look(service, replaced=None):
    return witness.observe_log(URL, SIGNER, NOW, fetching(service, replaced))


# ---- what is consistent --------------------------------------------------------------------------
def test_a_growing_log_is_cosigned_each_time(seen):
    for size in (301, 511, 512, 700, 700):
        grow(size)
        told = look(seen)
        assert told.verdict == "consistent" and told.text.startswith(f"{size} leaves")
    key, text, lines = log.write_witnessed(SIGNER).split("\n\n")
    assert text.split("\n")[1] == "700"
    note, witness_key = notes.parse_note(f"{text}\n\n{lines}".encode()), Verifier.parse(key)
    assert witness_key.kind == COSIGNATURE
    assert check_cosignature(note, witness_key) == NOW // 1000
    notes.check_note(note, Verifier.parse(Witnessed.get().key))
    assert Witnessed.get().note in seen.get("/log/witness").text


@pytest.mark.parametrize("reasons", ["restore", "key, operator"])
def test_new_logs_that_name_everything_seen_are_followed(seen, reasons):
    for why in reasons.split(", "):
        log.renew_log(why, NOW)
    told = look(seen)
    assert (told.verdict, told.text) == (
        "consistent",
        f"a NEW LOG ({reasons}) of 1 leaves, consistent with the 300 seen before: it references the"
        " old log, which still begins with them",
    )


# ---- alarms --------------------------------------------------------------------------------------
def edit(sql):
    """Edit or delete leaves directly, and correct the hashes above."""
    with writing():
        database.execute_sql(sql)
        logs = {one.id: one for one in log.list_logs()}
        for number, place in database.execute_sql("SELECT log_id, place FROM log_node").fetchall():
            leaves = log.read_leaves(logs[number], place * 256, place * 256 + 256)
            root = tree.hash_tile([tree.hash_leaf(leaf) for leaf in leaves])
            where = "WHERE log_id = ? AND place = ?"
            database.execute_sql(f"UPDATE log_node SET hash = ? {where}", (root, number, place))


def edit_leaf(number=17):
    edit(f"UPDATE log_leaf SET data = '{{}}' WHERE id = {number}")


def drop_leaves():
    edit("DELETE FROM log_leaf WHERE id > 290")


def renew(why="operator", last=None):
    log.renew_log(why, NOW, last)


def lose_leaves():
    """As a restore of an older backup does."""
    last = log.describe_last()
    drop_leaves()
    renew("restore", last)


def open_unlinked():
    with writing():
        open_log(NOW)


def edit_intermediate():
    """The second of three logs."""
    renew()
    grow(5)
    renew()
    edit_leaf(302)


# Changes of a log of 300 leaves, parts of the alarm, and the next verdict: a new log that says what
# it lost is watched from then on.
LOST = "of the 300 old leaves seen so far, it kept 291"
CHANGES = {
    "an edited leaf": ([edit_leaf], "FORK", "alarm"),
    "a shorter log": ([drop_leaves], "ROLLBACK: it had 300 leaves and now has 291", "alarm"),
    "an edit after a renewal": ([renew, edit_leaf], "FORK", "alarm"),
    "an edit of an intermediate log": ([edit_intermediate], "FORK", "alarm"),
    "a new log over a forged past": ([edit_leaf, renew], "FORK", "consistent"),
    "a restore that lost leaves": ([lose_leaves], LOST, "consistent"),
    "a new log that names nothing": ([open_unlinked], "NEW LOG", "alarm"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_past_is_an_alarm(seen, change):
    steps, words, next_verdict = CHANGES[change]
    for step in steps:
        step()
    told = look(seen)
    assert told.verdict == "alarm" and words in told.text
    assert Witnessed.get().trouble == told.text
    assert look(seen).verdict == next_verdict


def test_the_last_consistent_checkpoint_stays_after_a_fork(seen):
    edit_leaf()
    for _ in range(2):
        assert look(seen).verdict == "alarm"
        assert Witnessed.get().note.split("\n")[1] == "300"
        grow(400)


def test_truncated_tiles_and_those_that_miss_the_root_are_reported(grown):
    assert look(grown, {"tile/0/001": bytes(32 * 44)}).verdict == "alarm"
    assert Witnessed.select().count() == 0
    assert look(grown).verdict == "consistent"
    grow(310)
    for cut in (b"", bytes(31), bytes(32 * 53), bytes(32 * 54)):
        told = look(grown, {"tile/0/001": cut})
        assert told.verdict == "alarm" and "FORK" in told.text
    assert look(grown).verdict == "consistent"
    old = log.find_log().uid
    renew()
    told = look(grown, {f"{old}/tile": b"short"})
    assert told.verdict == "alarm" and "don't match" in told.text


def test_another_key_is_reported(seen):
    one, other = log.find_log(), Signer(b"o" * 32)
    note = other.sign_note(one.origin, log.make_checkpoint(one).write()).encode()
    key = str(other.verifier(one.origin)).encode()
    told = look(seen, {"checkpoint": note, "key": key})
    assert told.verdict == "alarm" and "not signed with the log's key" in told.text


HOSTILE = {
    "log": [["log"]],
    "size": ["3\x00", 1e308, -1],
    "root": ["no base64", "\u0663" * 44, None],
    "kept": ["9" * 5_000, True, 2**60],
    "why": ["restore\n\x1b[2J ERROR all logs are forged", "x" * 10_000],
}


def test_hostile_data_about_the_earlier_log_stops_no_other_check(seen, monkeypatch, caplog):
    """It is reported as an alarm in our words, and the next instance is checked too."""
    monkeypatch.setattr(witness, "make_fetch", lambda url: fetching(seen))
    last = log.describe_last()
    for name, value in list_pairs(HOSTILE):
        with writing():
            open_log(NOW, {**last, "kept": 300, "why": "restore", name: value})
        witness.forget(OTHER_URL)
        told = witness.run_tick([URL, OTHER_URL], SIGNER, NOW)
        assert told.startswith(f"{URL}: NEW LOG: its first leaf can't be read"), value
        assert Witnessed.get(Witnessed.url == OTHER_URL).trouble is None
        assert "ERROR all logs" not in caplog.text + told


# ---- no accusation -------------------------------------------------------------------------------
SILENCE = {
    "checkpoint": [None, b"", b"a\n1\nx\n\n", b"<html>502</html>", b"x" * 100_000, b"\xff" * 100],
    "key": [None, b"", b"no", b"\xff\xfe", b"[" * 100_000],
    "tile/": [None],
}


def test_silence_and_invalid_responses_are_not_blamed(seen):
    grow(310)
    before = Witnessed.get().note
    for path, answer in list_pairs(SILENCE):
        assert look(seen, {path: answer}).verdict == "cannot_tell", (path, answer)
        assert (Witnessed.get().note, Witnessed.get().trouble) == (before, None)


def test_requests_are_limited(monkeypatch):
    monkeypatch.setattr(witness, "fetch", lambda *_: b"")
    get = witness.make_fetch(URL)
    for _ in range(witness.MAX_REQUESTS):
        get("checkpoint")
    with pytest.raises(FetchError):
        get("checkpoint")


def test_concurrent_checks_do_not_overwrite_each_other(seen):
    before = witness.Seen(Witnessed.get().key, "other note")
    grow(310)
    found = witness.read_log(fetching(seen), None)
    witness._keep(URL, before, found.seen, SIGNER, NOW)
    assert Witnessed.get().note.split("\n")[1] == "300"


# ---- WITNESSES -----------------------------------------------------------------------------------
def ask(answer):
    """The Outcome of an instance's view of our log."""
    return witness.ask_about_us(URL, OWN_SIGNER, lambda path: {"witness": answer}[path])


def ask_about(size, root=bytes(32), signer=OWN_SIGNER):
    """The same for a cosigned checkpoint."""
    origin = log.find_log().origin
    text = notes.Checkpoint(origin, size, root).write()
    return ask(f"key\n\n{signer.sign_note(origin, text)}".encode())


def test_a_witnesss_view_of_this_log_is_compared(grown):
    read = log.make_reader(log.find_log(), 300)
    for size in (1, 256, 300):
        assert ask_about(size, tree.find_root(read, size)).verdict == "consistent"
    for size, word in ((301, "ROLLBACK here"), (299, "FORK here")):
        told = ask_about(size)
        assert told.verdict == "alarm" and word in told.text


def test_a_witness_without_our_checkpoint_is_not_blamed(grown):
    for shown in (b"", b"\xff", b"key\n", b"key\n\nx\n1\n\n", b"a\n\nb\n\nc\n\nd\n\n"):
        assert ask(shown).verdict == "cannot_tell"
    assert ask_about(309, signer=Signer(b"f" * 32)).verdict == "cannot_tell"


def test_the_job_reports_what_is_wrong(grown, monkeypatch, caplog):
    monkeypatch.setattr(witness, "make_fetch", lambda url: fetching(grown))
    assert witness.run_tick([URL], SIGNER, NOW) is None
    drop_leaves()
    assert "ROLLBACK" in witness.run_tick([URL], SIGNER, NOW)
    assert "ROLLBACK" in caplog.text
