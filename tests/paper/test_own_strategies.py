"""The operator's own strategies: a file decides like a family does, and fails without affecting
others.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from stage import Stage, facts
from tape import MINUTE, START, quote, token
from test_cli import cli, shown  # noqa: F401  (a fixture)
from test_legacy import closed, make_trader, said

from accounts import traders
from accounts.problem import Problem
from paper import own, own_child
from paper.account import Position as Held
from paper.market import Check, Flow, View
from paper.own import OwnFiles
from paper.player import OwnFault
from paper.strategies import BadSetting, Enter, Exit, Refusal
from paper.tables import Period, Trader
from web.api import paper

ROOT = Path(__file__).resolve().parents[2]
FALL = ["0.001"] * 6 + ["0.0008"] * 3
BEGINNING = """
from dataclasses import dataclass
from paper.strategies import Enter, Exit, Strategy, setting

@dataclass(frozen=True, kw_only=True)
class Mine(Strategy):
    mine: int = setting(1, 0, 9)
    def enter(self, view):
        {enter}
    def leave(self, view, position):
        {leave}

STRATEGY = Mine
"""
IDLE = BEGINNING.format(enter="return None", leave="return None")


@pytest.fixture
def place(settings, stage):
    """A stage whose operator has strategy files in `folder`; `write` adds one."""
    stage.restart(own_strategies="on")
    stage.folder = settings.data_dir / "strategies"
    stage.folder.mkdir(mode=0o700)
    stage.write = lambda text=IDLE, name="mine": (stage.folder / f"{name}.py").write_text(text)
    yield stage
    stage.job.own.close()


def write_idle_then(place, enter, traders=("Dora",)):
    """Let traders follow a file that does nothing, and change it to do this."""
    place.write()
    made = [follow(place, name=name) for name in traders]
    place.write(BEGINNING.format(enter=enter, leave="return None"))
    return made


@contextlib.contextmanager
def opened(data_dir):
    files = OwnFiles(data_dir, "on")
    yield files
    files.close()


def follow(place, family="own:mine", name="Dora"):
    with opened(place.folder.parent) as files:
        made = traders.create_trader(name, family, START - MINUTE, start="standard", own=files)
    return made.trader


def test_the_example_buys_a_dip_and_its_record_names_its_author(place):
    shutil.copy(ROOT / "examples/dip_buyer.py", place.folder)
    trader = follow(place, "own:dip_buyer")
    place.play([*FALL, "0.00085", "0.00086"])
    # Its random-entry twins also have orders.
    period = Period.get(Period.twin == 0)
    orders = [(order.side, order.reason) for order in period.orders]
    assert orders == [("buy", "dip"), ("sell", "made_up")]
    assert period.positions.get().reason == "made_up" and not place.job.troubles
    told = place.show(trader)["strategy"]
    assert (told["family"], told["own"]) == ("own:dip_buyer", True)
    families = paper.compare_families(place.now)["families"]
    assert len(families) == 4 and not any(one["traders"] for one in families)


@pytest.mark.parametrize(
    "enter, said",
    [
        ("return 1 / 0", "ZeroDivisionError in line 9"),
        ("return True", "returned bool"),
        ("import os; os._exit(3)", "its process exited"),
        ("return bytearray(10**10)", "MemoryError in line 9"),
        # Control characters reach no diary.
        (r"raise type('Bad\x1b[2J\x07', (Exception,), {})", "(Bad[2J in line 9)"),
    ],
)
def test_a_failing_file_stops_only_its_traders(place, enter, said):
    write_idle_then(place, enter)
    place.trader("Ada", start="standard")
    place.play(["0.001"] * 4)
    (trouble,) = place.job.troubles.values()
    assert said in trouble.what
    assert "@dora is suspended because its strategy file mine.py" in trouble.what
    (line,) = [one for one in facts("refusal") if one["reason"] == "put_off"]
    assert said in line["detail"] and line["detail"].isprintable()


@pytest.mark.parametrize("text", ["this isn't Python", "x = 1", "STRATEGY = 7"])
def test_an_invalid_strategy_file_is_one_sentence(place, text):
    place.write(text)
    with pytest.raises(Problem, match="strategy file mine.py failed"):
        follow(place)


def test_a_relative_data_dir_works(place, monkeypatch):
    """The default `DATA_DIR` is relative."""
    place.write()
    monkeypatch.chdir(place.folder.parent.parent)
    with opened(Path(place.folder.parent.name)) as files:
        assert files.read_strategy("own:mine", {}).name == "own:mine"


def test_the_single_file_refuses_own_strategies(place, monkeypatch):
    place.write()
    monkeypatch.setattr(own.sys, "frozen", True, raising=False)
    with pytest.raises(Problem, match="the single file has no Python"):
        follow(place)


def test_an_endless_loop_is_stopped(place, monkeypatch):
    """One of two traders waits for it; both are suspended."""
    write_idle_then(place, "\n        while True: pass", traders=("Dora", "Dara"))
    monkeypatch.setattr(own, "MAX_SECONDS", 1.5)
    place.play(["0.001"])
    assert len(place.job.troubles) == 2
    assert all("no response within" in one.what for one in place.job.troubles.values())


# At most five. Each leaves its session, starts its own child, and would outlive the server.
FORKS = """
for number in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(f"started-{os.getpid()}", "w").close()
            time.sleep(600)
        os._exit(0)
    os.wait()
"""
SPAWNS = """
with open("started-" + str(subprocess.Popen(["sleep", "600"]).pid), "w"):
    pass
"""
# posix_spawn uses vfork.
POSIX_SPAWNS = """
with open("started-" + str(os.posix_spawn("/bin/sleep", ["sleep", "600"], {})), "w"):
    pass
"""
WORKS = """
process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
process.start()
open(f"started-{process.pid}", "w").close()
"""


@pytest.fixture
def started(place):
    """started() -> the processes that files reported starting; they are killed at the end"""

    def find():
        return [int(one.name.removeprefix("started-")) for one in place.folder.glob("started-*")]

    yield find
    for pid in find():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "text",
    [FORKS, SPAWNS, POSIX_SPAWNS, WORKS],
    ids=["fork", "subprocess", "posix_spawn", "multiprocessing"],
)
def test_a_file_cannot_start_processes(place, started, text):
    """Not even one that leaves its session, so none outlives the strategy or the server."""
    place.write("import multiprocessing, os, subprocess, time\n" + text + IDLE)
    with pytest.raises(Problem, match=r"strategy file mine.py failed \((Permission|BlockingIO)Err"):
        follow(place)
    assert started() == []


def test_a_file_may_start_threads_read_its_neighbors_and_print(place, monkeypatch):
    """It doesn't have the server's secrets."""
    (place.folder / "mints.txt").write_text("MintA")
    monkeypatch.setenv("SECRET_KEY", "very secret")
    place.write(
        "import os, threading\none = threading.Thread(target=print)\none.start()\none.join()\n"
        "assert open('mints.txt').read() == 'MintA'\n"
        "assert 'SECRET_KEY' not in os.environ\nprint('noise')\n" + IDLE
    )
    assert follow(place).family == "own:mine"


@pytest.mark.parametrize("kind, told", [("Enter", "decision"), ("Refusal", "refusal")])
def test_control_characters_in_a_file_reach_no_diary(place, kind, told):
    """NUL, ESC, a C1 control, half a surrogate pair, a bidi override and a line break."""
    hostile = r"'a\0b\x1b[31mc\x9bd\ud800e\u202ef\n\tg'"
    enter = f"from paper.strategies import Refusal\n        return {kind}('go', {hostile})"
    write_idle_then(place, enter)
    place.play(["0.001"] * 4)
    assert not place.job.troubles
    assert {one["detail"] for one in facts(told)} == {"ab[31mcdef g"}


@pytest.mark.parametrize("line", ["no JSON", "[" * 100_000, '{"error": 7}'])
@pytest.mark.usefixtures("uncollected")
def test_a_file_that_writes_into_its_responses_fails_alone(place, line):
    write_idle_then(
        place,
        "import gc, io, os\n        [out] = [one for one in gc.get_objects() if"
        " isinstance(one, io.TextIOWrapper) and one.fileno() > 2]\n"
        f"        out.write({line!r} + chr(10))",
    )
    place.play(["0.001"])
    (trouble,) = place.job.troubles.values()
    assert "wrote something other than responses" in trouble.what


def test_a_file_writable_by_others_is_refused(place):
    place.write()
    path = place.folder / "mine.py"
    for writable, mode, good in ((path, 0o664, 0o600), (place.folder, 0o777, 0o700)):
        os.chmod(writable, mode)
        with pytest.raises(Problem, match="users other than this service"):
            follow(place)
        os.chmod(writable, good)
    (place.folder / "other.py").symlink_to(path)
    with pytest.raises(Problem, match=r"isn't a regular file|can write"):
        follow(place, "own:other")
    with pytest.raises(Problem, match="no such file"):
        follow(place, "own:nothing")


def test_settings_have_the_files_bounds(place):
    """Each file has its own, whichever was asked first."""
    place.write()
    place.write(IDLE.replace("setting(1, 0, 9)", "setting(1, 0, 99)"), "wider")
    with opened(place.folder.parent) as files:
        assert files.read_strategy("own:wider", {"mine": 99}).given == (("mine", 99),)
        made = files.read_strategy("own:mine", {"mine": 9, "stopBps": 500})
        assert made.stop_bps == 500 and made.given == (("mine", 9), ("stopBps", 500))
        for bad in ({"mine": 10}, {"mine": 99}, {"mine": "1"}, {"other": 1}, {"stopBps": 1}):
            with pytest.raises(BadSetting):
                files.read_strategy("own:mine", bad)


def test_own_strategies_are_off_by_default_and_in_no_form(db, settings, service):
    assert settings.own_strategies == "off"
    with pytest.raises(Problem, match="must be one of"):
        traders.create_trader("Dora", "own:mine", START)
    off = re.escape("the operator's own strategies are turned off (OWN_STRATEGIES)")
    with pytest.raises(Problem, match=off):
        traders.create_trader("Dora", "own:mine", START, own=traders.list_own(settings))
    assert "own:" not in service.get("/traders/new").text


@pytest.mark.parametrize("family", ["own:dip_buyer", "momentum"])
def test_posts_pages_and_feeds_name_the_author(service, family):
    trader, is_own = make_trader(service, "Dora"), family.startswith("own:")
    Trader.update(family=family).where(Trader.id == trader.id).execute()
    Period.update(next_position=2).where(Period.trader == trader).execute()
    said(trader, 1)
    closed(trader, 1, 5)
    (post,) = service.get("/api/feed").json["data"]
    assert (post["family"], post["ownStrategy"]) == (family, is_own)
    shown = service.get(f"/api/traders/{trader.uid}").json
    assert [one["id"] for one in shown["posts"]] == [post["id"]]
    assert shown["strategy"]["own"] is is_own
    assert service.get("/api/strategies").json["ownTraders"] == is_own
    page = f"/traders/{trader.uid}"
    label = "simulated · operator’s own strategy"
    whose = "custom strategy by this instance’s operator: dip buyer"
    count = "1 trader follows a strategy of this instance’s operator. It isn’t included"
    for text, paths in (
        (label, f"/?label=simulated /posts/{post['id']} /embed/{post['id']} {page}"),
        (label, "/feed.atom?label=simulated /feed.json?label=simulated"),
        (whose, f"/traders {page} {page}/closes/{shown['closes'][0]['id']}"),
        (count, "/strategies"),
    ):
        for path in paths.split():
            assert (text in service.get(path).text) is is_own, path


def test_the_command_backtests_an_own_strategy(cli, monkeypatch, settings):  # noqa: F811
    monkeypatch.setenv("OWN_STRATEGIES", "on")
    folder = settings.data_dir / "strategies"
    folder.mkdir(mode=0o700)
    shutil.copy(ROOT / "examples/dip_buyer.py", folder)
    Stage(settings).list_token().record([*FALL, "0.00085", "0.00086"])
    family = ("--family", "own:dip_buyer", "--set")
    found = shown(cli, "trader", "backtest", *family, "fallBps=900,1500", "--quiet")
    assert found["lookAhead"]["same"] is True and len(found["candidates"]) == 2
    made = shown(cli, "trader", "create", "--name", "D", *family, "fallBps=900")
    assert made["traderId"] and Trader.get().settings == '{"fallBps":900}'


def test_a_corrected_file_is_used_again(place):
    """A file that fails is asked once per tick, and its trader resumes a minute later."""

    def play(rounds=1):
        place.play(["0.001"] * rounds)
        return [trouble.what for trouble in place.job.troubles.values()]

    place.write()
    follow(place)
    assert play() == []
    file = place.job.own.files["own:mine"]
    # Its running process read the earlier file.
    place.write(IDLE.replace("setting(1, 0, 9)", "setting(2, 0, 9)"))
    assert play() == [] and file.bounds["mine"] == [2, 0, 9]
    file._child.kill()
    assert "its process exited" in play()[0]
    with pytest.raises(OwnFault, match="its process exited"):
        file.ask({"ask": "describe"})
    assert play(2) == []
    file.path.unlink()
    assert "there is no such file" in play()[0]
    place.write()
    assert play(2) == [] and file.bounds["mine"] == [1, 0, 9]


# ---- without a process ---------------------------------------------------------------------------
SEEN = View(token(), (quote(0),), ())


def strategy_of(monkeypatch, answer, **more):
    """A strategy whose process answers this; what it was asked."""
    asked, file = [], own.OwnFile(Path("mine.py"))
    monkeypatch.setattr(file, "ask", lambda question: asked.append(question) or answer)
    return own.OwnStrategy(name="own:mine", file=file, **more), asked


@pytest.mark.parametrize(
    "ask, answer, why",
    [
        (lambda made: made.prepare([SEEN] * 2), [["Enter", "dip", "deep"]], "match the request"),
        (lambda made: made.prepare([SEEN]), 7, "doesn't match the request"),
        (lambda made: made.file.bounds, {"mine": [1, 0, 9]}, "settings don't match"),
        (lambda made: made.file.bounds, [], "settings don't match"),
    ],
)
def test_an_answer_matches_its_question(monkeypatch, ask, answer, why):
    """A decision for each token, and the settings that all strategies share."""
    strategy, _ = strategy_of(monkeypatch, answer)
    with pytest.raises(OwnFault, match=why):
        ask(strategy)


HELD = Held(1, "A", "AA", 6, 1, None, 1, 1, 1, 1, held=7, marks=("stale_price",))
LONG = "x" * 39


@pytest.mark.parametrize(
    "ask, answer, found",
    [
        ("enter", None, None),
        # Names of at most 40 letters, and 200 letters of detail.
        ("enter", ["Enter", "a" + LONG, "y" * 201], Enter("a" + LONG, "y" * 200)),
        ("enter", ["Refusal", "a_1", ""], Refusal("a_1", "")),
        ("enter", ["Enter", "aa" + LONG, ""], "Enter"),
        ("enter", ["Exit", "sold", 1], "Exit"),
        ("enter", ["Enter", "go", 7], "Enter"),
        ("enter", [], "list"),
        ("enter", ["z" * 41], "z" * 40),
        ("enter", True, "bool"),
        # 1 to 10,000 parts of a position.
        ("leave", None, None),
        ("leave", ["Exit", "sold", 1], Exit("sold", 1)),
        ("leave", ["Exit", "sold", 10_000], Exit("sold")),
        ("leave", ["Exit", "sold", 0], "Exit"),
        ("leave", ["Exit", "sold", 10_001], "Exit"),
        ("leave", ["Exit", "Sold", 1], "Exit"),
        ("leave", ["Enter", "go", ""], "Enter"),
        ("leave", {"Exit": 1}, "dict"),
    ],
)
def test_a_decision_is_one_of_three_types(monkeypatch, ask, answer, found):
    answer = [answer] if ask == "enter" else answer
    strategy, asked = strategy_of(monkeypatch, answer, given=(("mine", 5),))
    arguments, view = (SEEN,) if ask == "enter" else (SEEN, HELD), own.show_view(SEEN)
    if isinstance(found, str):
        why = f"it returned {found}, which isn't allowed here"
        with pytest.raises(OwnFault) as refused:
            getattr(strategy, ask)(*arguments)
        assert refused.value.args == (f"its strategy file mine.py failed ({why})",)
    else:
        assert getattr(strategy, ask)(*arguments) == found
    about = {"views": [view]} if ask == "enter" else {"view": view, "position": asdict(HELD)}
    assert asked == [{"ask": ask, "settings": {"mine": 5}, **about}]


# ---- what its process does, in this one ----------------------------------------------------------
def test_a_file_sees_what_a_strategy_sees():
    """As JSON and back; a token's view is compared field by field."""
    checks, flows = (Check("supply", "pass"), Check("lock", "warn")), (Flow(1, "w", "buy", 2, 3),)
    window = quote(0), quote(1, pair="P", volume1h_usd="7", market_cap_usd="9", price_usd="0.2")
    seen = View(token(checks=checks, transfer_fee_bps=5), window, flows)
    assert own_child.read_view(json.loads(json.dumps(own.show_view(seen)))) == seen


def test_a_file_changed_within_a_second_is_reloaded(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setitem(sys.modules, "own_strategy", None)
    for bound in (1, 2):
        path.write_text(IDLE.replace("setting(1, 0, 9)", f"setting({bound}, 0, 9)"))
        os.utime(path, (10**9, 10**9))
        kind = own_child.load_strategy(str(path))
        assert own_child.reply(kind, {"ask": "describe"})["mine"] == [bound, 0, 9]
