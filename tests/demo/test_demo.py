"""The demo: its recording is consistent, it plays as of now, and everything is marked as a demo."""

import fcntl
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import orjson
import pytest
from node import connect
from service import Service

import config
import models
import storage
from accounts import posts
from bench._ports import find_port, wait_for
from chain import rpc
from demo import cast, stage
from demo.market import TOKENS, Market
from demo.node import SLOW, SLOW_SECONDS, BadCall, Node, load_recording
from market.providers import parse_list, parse_pairs, parse_pools
from observer import Observer, observe_once
from operate import backups, instance
from storage import files
from web.site import demonstration

ROOT = Path(__file__).resolve().parents[2]
# Unix seconds; service.NOW.
START = 1_793_880_000
# Everything recorded has happened.
END = 9_100


# Transactions of the wallet whose history loads slowly, and the number that the node returns here.
SLOW_COUNT, SLOW_GIVEN = 60, 21
# Seconds to wait for a start on a busy machine.
PATIENCE = 300


@pytest.fixture(scope="module")
def recording():
    """The recording with the first SLOW_COUNT transactions of the slow wallet."""
    whole = load_recording()
    slow = [row for row in whole["transactions"] if row["who"] == SLOW]
    others = [row for row in whole["transactions"] if row["who"] != SLOW]
    return {**whole, "transactions": others + slow[:SLOW_COUNT]}


@pytest.fixture(scope="module")
def chain(recording):
    return Node(recording, START)


class AsOf:
    """Replaces a node with the recording at one moment. `held_back`: signatures of transactions it
    hasn't found yet.
    """

    def __init__(self, chain, at, held_back=()):
        self.chain, self.at, self.held_back = chain, at, held_back

    def answer(self, method, params):
        if method == "getTransaction" and params[0] in self.held_back:
            return None
        try:
            return self.chain.answer(method, params, self.at)
        except BadCall as error:
            rpc._raise_error({"code": error.code}, {})


@pytest.fixture(scope="module")
def staged(tmp_path_factory, chain, recording):
    """(folder, stage.DemoKeys) of a new, observed demonstration with ten minutes of paper mode. It
    is made once for all workers and copied for each file.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made, keys = shared / "demonstration", shared / "demonstration.keys"
    with open(shared / "demonstration.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not keys.exists():
            keys.write_bytes(pickle.dumps(set_up(made, chain, recording)))
    folder = tmp_path_factory.mktemp("demonstration") / "data"
    shutil.copytree(made, folder)
    return folder, pickle.loads(keys.read_bytes())


def set_up(folder, chain, recording):
    """Set up a demonstration as of START and observe it; return its stage.DemoKeys."""
    market = Market(recording["mints"], START)
    stage.clear_folder(folder)
    given = config.load(
        {
            "DATA_DIR": str(folder),
            "EXTRA_SWAP_PROGRAMS": recording["venue"],
            "SCOUT_INTERVAL_SECONDS": "15",
        },
        dotenv=None,
    )
    lines = [line for line in cast.list_posts(recording) if line.at < 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "PAST_SECONDS", 600)
        keys = stage.fill_database(given, recording, lines, market)
    slow = [row.signature for row in chain.transactions if row.wallet == SLOW]
    with storage.connect(given).connection_context():
        observer = Observer(given, rpc=connect(AsOf(chain, 0, slow[SLOW_GIVEN:])))
        # A wallet that was idle for an hour is polled less often.
        for seconds in (0, 400):
            observe_once(observer, (START + seconds) * 1000)
    storage.database.close_all()
    return keys


@pytest.fixture
def show(staged):
    """A Service for the demonstration, with `.keys`."""
    folder, keys = staged
    made = Service(folder)
    made.keys = keys
    yield made
    made.close()


# ---- what was recorded ---------------------------------------------------------------------------
def test_ledgers_end_with_the_nodes_balances(db, settings, chain, recording):
    from accounts import influencers

    # The recording doesn't cover the added wallets.
    recorded = recording["wallets"][:SLOW]
    for number, wallet in enumerate(recorded):
        influencers.create_bot(settings, f"Bot {number}", START * 1000, wallet)
    given = config.load(
        {"DATA_DIR": str(settings.data_dir), "EXTRA_SWAP_PROGRAMS": recording["venue"]}, dotenv=None
    )
    coverages = observe_once(Observer(given, rpc=connect(AsOf(chain, END))), (START + END) * 1000)
    # The fourth one has an older past.
    states = [coverages[wallet]["state"] for wallet in recorded]
    assert states == ["complete", "complete", "complete", "partial"]
    assert all(not coverage["gaps"] and not coverage["pending"] for coverage in coverages.values())
    for wallet in models.Wallet.select():
        held = {
            mint: raw
            for mint, raw in recording["holdings"][wallet.address]["tokens"].items()
            if raw != "0" and mint in recording["accounts"]
        }
        assert {one["mint"]: one["amountRaw"] for one in orjson.loads(wallet.positions)} == held
    kinds = Counter(kind for (kind,) in models.Trade.select(models.Trade.kind).tuples())
    told = Counter(row["kind"] for row in recording["transactions"] if row["who"] < SLOW)
    # Made-up receipts: two purchases, one of them unexplained, a sale and a round trip.
    told += Counter(buy=2, sell=1, round_trip=1)
    names = ("buy", "sell", "swap", "failed", "round_trip")
    assert [kinds[name] for name in names] == [told[name] for name in names]
    unexplained = models.Trade.select().where(models.Trade.flags.contains("value_unexplained"))
    # 0.01 of the 0.2 SOL for the second purchase were the wallet's.
    assert [trade.explained for trade in unexplained] == [5]
    beside = models.Trade.select().where(models.Trade.beside_sol > 0)
    assert [trade.beside_sol for trade in beside] == [250_000_000]
    assert not models.Wallet.select().where(models.Wallet.imbalance != 0).exists()


def test_the_recording_is_small():
    assert (ROOT / "demo" / "chain.json.gz").stat().st_size < 1_000_000


# ---- how it is played ----------------------------------------------------------------------------
def test_the_chain_grows_over_time(chain, recording):
    wallet = recording["wallets"][0]
    times = (-(10**7), 0, 600, END)
    counts = [len(chain.answer("getSignaturesForAddress", [wallet], at)) for at in times]
    assert counts[0] == 0 < counts[1] < counts[2] < counts[3]
    last = [row for row in chain.transactions if wallet in row.keys][-1]
    assert last.receipt["blockTime"] == START + last.at
    assert chain.answer("getTransaction", [last.signature], last.at - 1) is None
    assert chain.answer("getTransaction", [last.signature], last.at)["slot"] == last.slot


def test_signature_pages_are_consecutive(chain, recording):
    wallet, listed, query = recording["wallets"][2], [], {"limit": 17}
    while page := chain.answer("getSignaturesForAddress", [wallet, query], END):
        listed += [one["signature"] for one in page]
        query["before"] = listed[-1]
    assert listed == [row.signature for row in reversed(chain.transactions) if wallet in row.keys]


def test_the_fake_market_uses_the_providers_formats(recording):
    market = Market(recording["mints"], START)
    for at in (0, 300, 3_000):
        received = stage._as_received(market.show_pairs(list(recording["accounts"]), at))
        quotes, rows = parse_pairs(received)
        known = [token for token in TOKENS if token.created_at <= at]
        assert not rows.unreadable and len(quotes) == len(known)
        pools, rows = parse_pools(stage._as_received(market.show_pools(at)))
        assert not rows.unreadable and pools
        listed, rows = parse_list(market.show_list("profiles", at))
        assert not rows.unreadable and listed
    # Something is discovered while the page is open.
    assert any(token.created_at > 0 for token in TOKENS)


def test_every_demo_post_is_accepted_by_the_api(recording):
    lines = cast.list_posts(recording)
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    assert len({(line.bot, line.fields["eventId"]) for line in lines}) == len(lines)
    for line in lines:
        posts.parse_post(line.fields)
    silent = {number for number, bot in enumerate(cast.BOTS) if bot.is_new}
    assert {line.bot for line in lines} == set(range(len(cast.BOTS))) - silent
    bodies = [line.fields["body"] for line in lines]
    assert len(set(bodies)) > 0.95 * len(bodies)


# ---- what it says of itself ----------------------------------------------------------------------
ATOM = "{http://www.w3.org/2005/Atom}"
EXPLORERS = re.compile(r"solscan\.io|explorer\.solana|dexscreener\.com|geckoterminal\.com")
PAGES = """/ /leaderboard /market /traders /strategies /connect /create /docs /docs/errors
    /status /nothing-here /bots/{bot} /posts/{post} /embed/{post} /tokens/{mint}
    /traders/{trader}""".split()
OBJECTS = "bots bots/{bot} feed trades activity?mint={mint} leaderboard market me".split()
PUBLIC_OBJECTS = "traders traders/{trader} feed market strategies health".split()
TEXTS = """/feed.json /feed.atom /bots/{bot}/feed.json /bots/{bot}/feed.atom /llms.txt
    /skill.md""".split()


@pytest.fixture
def fill(show):
    """fill(paths) -> the same with IDs in place of their parameters"""
    bot = show.get("/api/v1/bots", show.keys.read_key).json["data"][-1]["id"]
    detail = show.get(f"/api/v1/bots/{bot}", show.keys.read_key).json
    ids = {
        "bot": bot,
        "post": detail["feed"][0]["id"],
        "mint": detail["latestTrades"][0]["mint"],
        "trader": show.get("/api/traders").json["data"][0]["id"],
    }
    return lambda paths: [path.format(**ids) for path in paths]


def test_every_page_says_demonstration_and_links_to_no_explorer(show, fill):
    for path in fill(PAGES):
        page = show.get(path)
        assert page.mimetype == "text/html" and "demonstration" in page.text.lower(), path
        assert not EXPLORERS.search(page.text) and "real, cached" not in page.text, path
        has_title = path.startswith(("/bots/", "/posts/"))
        for title in ("", "[demonstration] "):
            found = page.text.count(f'<meta property="og:title" content="{title}')
            assert found == has_title, path


def test_every_object_says_demonstration_and_links_to_no_explorer(show, fill):
    paths = [f"/api/v1/{one}" for one in OBJECTS] + [f"/api/{one}" for one in PUBLIC_OBJECTS]
    for path in fill(paths):
        answer = show.get(path, show.keys.read_key)
        assert answer.json["demonstration"] is True, path
        assert answer.text.count('demonstration":') == 1, path
        assert not EXPLORERS.search(answer.text), path


def test_feeds_and_guides_say_demonstration_and_link_to_no_explorer(show, fill):
    for path in fill(TEXTS):
        text = show.get(path).text
        assert "demonstration" in text and not EXPLORERS.search(text), path
    assert show.get("/feed.json").json["_candor"] == {"demonstration": True}
    entries = ET.fromstring(show.get("/feed.atom").data).findall(ATOM + "entry")
    assert entries
    for entry in entries:
        terms = [one.get("term") for one in entry.findall(ATOM + "category")]
        assert "demonstration" in terms


def test_the_demo_board_counts_all_history(show):
    """Wallets are connected when the recording begins, so the record covers all of it, except for
    the bot that connects when the demonstration starts.
    """
    late = {bot.name for bot in cast.BOTS if bot.is_new}

    def read_board(query=""):
        return show.get(f"/api/v1/leaderboard{query}", show.keys.read_key).json["data"]

    def read_results(record):
        rows = [row for row in read_board(f"?record={record}") if row["name"] not in late]
        return {row["botId"]: (row["realizedLamports"], row["observedTrades"]) for row in rows}

    assert read_results("forward") == read_results("all")
    assert len(read_results("all")) == len(cast.BOTS) - 1
    assert sorted(row["rank"] for row in read_board() if row["rank"])[:2] == [1, 2]


def test_events_of_the_stream_say_demonstration():
    raw = b'id: 7\nevent: post\ndata: {"id":"post_1","verified":false%s}\n\n: nothing new\n\n'
    assert demonstration.mark_events(raw % b"") == raw % b',"demonstration":true'


def test_the_demonstration_shows_both_modes_and_every_verdict(show):
    key = show.keys.read_key
    verdicts = [post["verification"] for post in show.pages("/api/v1/feed", key, 100)]
    assert {one["status"] for one in verdicts} >= {"verified", "mismatch", "none"}
    assert {one["reason"] for one in verdicts} >= {"other_wallet", "failed"}
    states = {bot["coverage"]["state"] for bot in show.get("/api/v1/bots", key).json["data"]}
    assert states == {"complete", "partial", "backfilling", "none"}
    traders = show.get("/api/traders").json["data"]
    assert len(traders) == len(cast.TRADERS)
    assert {one["review"]["state"] for one in traders} >= {"clean", "under_review"}


def text_of(page):
    """The text of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def test_every_state_appears_on_a_page(show):
    """Each name is a state of the product."""
    listed = show.get("/api/v1/bots", show.keys.read_key).json["data"]
    bots = {bot["name"]: bot["id"] for bot in listed}
    traders = {one["name"]: one["id"] for one in show.get("/api/traders").json["data"]}
    retired = next(bot.name for bot in cast.BOTS if bot.retired_at is not None)
    found = show.get("/search?q=" + retired.split()[0]).text
    bots[retired] = re.search(r"/bots/(bot_\w+)", found)[1]
    lena, quincy = bots["Lena Latecomer"], bots["Quincy Reed"]
    seen = {
        "loading": (f"/bots/{lena}", "Loading history."),
        "so far": (f"/bots/{lena}", "Realized PnL so far"),
        "partial coverage": (f"/bots/{quincy}", "Partial history."),
        "no wallet": (f"/bots/{bots['Orla Margin']}", "No wallet is connected"),
        "mismatch": ("/?label=mismatch", "does not match"),
        "retired": (f"/bots/{bots[retired]}", "Retired on "),
        "unpriced": (f"/bots/{lena}?tab=holdings", "no price"),
        "estimated": (f"/bots/{quincy}?tab=holdings", "dexscreener"),
        "under review": (f"/traders/{traders['Max Toogood']}", "under review"),
        "simulated": ("/?label=simulated", "simulated"),
    }
    for state, (path, words) in seen.items():
        assert words in text_of(show.get(path)), state
    bar = re.search(r'<progress[^>]* max="(\d+)" value="(\d+)"', show.get(f"/bots/{lena}").text)
    # The node returned the part of its history that wasn't held back.
    assert (int(bar[1]), int(bar[2])) == (SLOW_COUNT, SLOW_GIVEN)


def test_a_boast_appears_next_to_the_loss(show):
    """Text that a number contradicts gets no verdict: the number appears next to it."""
    posts_shown = show.pages("/api/v1/feed", show.keys.read_key, 100)
    boasts = [post for post in posts_shown if post["body"].startswith("Took profit on")]
    assert boasts
    for post in boasts:
        assert post["verified"] and post["receipt"]["result"].startswith("-")
        page = show.get(f"/posts/{post['id']}")
        assert "Took profit on" in page.text.partition("<article")[2]
        assert "\N{MINUS SIGN}" in text_of(page)


def test_only_a_slow_wallet_is_waited_for(chain):
    waits = {
        row.wallet: chain.find_pause("getTransaction", [row.signature])
        for row in chain.transactions
    }
    assert waits.pop(SLOW) == SLOW_SECONDS and not any(waits.values())
    for call in (("getTransaction", []), ("getSlot", [{}]), (7, [[]])):
        assert not chain.find_pause(*call)


def test_a_real_instance_never_says_demonstration(service):
    key = service.make_read_key(service.make_bot().owner)
    for path in ("/api/v1/bots", "/api/health"):
        assert "demonstration" not in service.get(path, key).text
    assert "on cached prices" in service.get("/traders").text


# ---- never mixed ---------------------------------------------------------------------------------
def test_a_demonstration_needs_its_own_folder(service):
    service.make_bot()
    storage.database.close_all()
    files.unlock_data_dir()
    with pytest.raises(instance.Refused, match="contains real data"):
        stage.clear_folder(service.config.data_dir)
    # As after an interrupted restore.
    aside = service.config.database_path.rename(
        service.config.data_dir / "app.db.replaced-20261105T120000.000Z"
    )
    with pytest.raises(instance.Refused, match="contains real data"):
        stage.clear_folder(service.config.data_dir)
    assert backups.check_database(aside).posts == 0


def run(command, environ, **more):
    return subprocess.run(
        [sys.executable, "app.py", command],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        **more,
    )


def test_run_and_observe_refuse_a_demonstration_folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    stage.clear_folder(folder)
    for command in ("run", "observe"):
        done = run(command, {**os.environ, "DATA_DIR": str(folder)})
        assert done.returncode == 1 and "belongs to a demo" in done.stderr


def test_restore_refuses_to_replace_a_demonstration(tmp_path, service):
    backups.store_backup(service.config, tmp_path / "backup.db")
    folder = tmp_path / "shown"
    stage.clear_folder(folder)
    with pytest.raises(instance.Refused, match="belongs to a demo"):
        backups.restore_backup(
            config.load({"DATA_DIR": str(folder)}, dotenv=None),
            tmp_path / "backup.db",
            True,
            START * 1000,
        )


# A shorter past than app.py has.
SHORT = """
import sys

sys.path.insert(0, ".")
sys.argv[0] = "app.py"
from app import main
from demo import stage

stage.PAST_SECONDS = 60
sys.exit(main())
"""


def test_one_command_serves_the_demonstration(tmp_path, full):
    """The first page, the marks, and a chain that was observed."""
    program = tmp_path / "short.py"
    program.write_text(SHORT)
    port, folder = find_port(), tmp_path / "data"
    # The demo contacts neither of them.
    environ = {
        **os.environ,
        "DATA_DIR": str(folder),
        "PORT": str(port),
        "SOLANA_RPC_URLS": "http://192.0.2.1",
        "LLM_BASE_URL": "http://192.0.2.1",
    }
    demo = subprocess.Popen(
        [sys.executable, "app.py" if full else program, "demo"],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_for(port, PATIENCE)
        said = next(line for line in iter(demo.stdout.readline, "") if "cnd_read_" in line)
        key = re.search(r"cnd_read_\w+", said)[0]

        def get(path):
            with urllib.request.urlopen(
                urllib.request.Request(
                    f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {key}"}
                ),
                timeout=PATIENCE,
            ) as answer:
                return answer.read().decode()

        assert "demonstration" in get("/").lower()
        end = time.monotonic() + PATIENCE
        while (
            not any(
                bot["results"] and bot["results"]["observedTrades"]
                for bot in json.loads(get("/api/v1/bots"))["data"]
            )
            and time.monotonic() < end
        ):
            time.sleep(0.5)
        assert any(
            bot["results"]["observedTrades"]
            for bot in json.loads(get("/api/v1/bots"))["data"]
            if bot["results"]
        )
        assert json.loads(get("/api/health"))["demonstration"] is True
        # A start reuses it.
        assert run("demo", environ).returncode == 1
    finally:
        demo.send_signal(signal.SIGTERM)
        ended = demo.wait(PATIENCE)
        demo.stdout.close()
        assert ended == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
