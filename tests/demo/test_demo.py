"""The demo: its recording is consistent, it plays as of now, and everything is marked as a demo."""

import fcntl
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import ground
import orjson
import pytest
from node import connect
from service import Service

import app
import config
import models
import storage
from accounts import influencers, posts
from bench._ports import find_port, wait_for
from chain import rpc
from chain.reading.currencies import STABLECOINS
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
DORA = next(one for one in cast.BOTS if one.name == "Dora Dollar")
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


def settings_for(folder, recording, **more):
    given = {"DATA_DIR": str(folder), "EXTRA_SWAP_PROGRAMS": recording["venue"], **more}
    return config.load(given, dotenv=None)


def set_up(folder, chain, recording):
    """Set up a demonstration as of START and observe it; return its stage.DemoKeys."""
    market = Market(recording["mints"], START)
    stage.clear_folder(folder)
    given = settings_for(folder, recording, SCOUT_INTERVAL_SECONDS="15")
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
    """A Service for the demonstration, with `.keys`, and `.read(path)` for JSON of its API."""
    folder, keys = staged
    made = Service(folder)
    made.keys = keys
    made.read = lambda path: made.get(f"/api/{path}", keys.read_key).json
    yield made
    made.close()


# ---- what was recorded ---------------------------------------------------------------------------
def test_ledgers_end_with_the_nodes_balances(db, settings, chain, recording):
    # The recording doesn't cover the added wallets.
    recorded = recording["wallets"][:SLOW]
    for number, wallet in enumerate(recorded):
        influencers.create_bot(settings, f"Bot {number}", START * 1000, wallet)
    given = settings_for(settings.data_dir, recording)
    coverages = observe_once(Observer(given, rpc=connect(AsOf(chain, END))), (START + END) * 1000)
    # The fourth one has an older past.
    states = [coverages[wallet]["state"] for wallet in recorded]
    assert states == ["complete", "complete", "complete", "partial"]
    assert all(not coverage["gaps"] and not coverage["pending"] for coverage in coverages.values())
    for wallet in models.Wallet.select():
        tokens = recording["holdings"][wallet.address]["tokens"].items()
        held = {mint: raw for mint, raw in tokens if raw != "0" and mint in recording["accounts"]}
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
def test_the_chain_grows_over_time_and_its_pages_are_consecutive(chain, recording):
    wallet = recording["wallets"][0]
    times = (-(10**7), 0, 600, END)
    counts = [len(chain.answer("getSignaturesForAddress", [wallet], at)) for at in times]
    assert counts[0] == 0 < counts[1] < counts[2] < counts[3]
    last = [row for row in chain.transactions if wallet in row.keys][-1]
    assert last.receipt["blockTime"] == START + last.at
    assert chain.answer("getTransaction", [last.signature], last.at - 1) is None
    assert chain.answer("getTransaction", [last.signature], last.at)["slot"] == last.slot
    listed, query = [], {"limit": 17}
    while page := chain.answer("getSignaturesForAddress", [wallet, query], END):
        assert page[0]["signature"] not in listed
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
    bot = show.read("v1/bots")["data"][-1]["id"]
    detail = show.read(f"v1/bots/{bot}")
    ids = {
        "bot": bot,
        "post": detail["feed"][0]["id"],
        "mint": detail["latestTrades"][0]["mint"],
        "trader": show.read("traders")["data"][0]["id"],
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
    boards = [show.read(f"v1/leaderboard?record={one}")["data"] for one in ("forward", "all")]
    told = ("name", "realizedLamports", "observedTrades")
    forward, whole = ({tuple(row[name] for name in told) for row in board} for board in boards)
    assert len(whole) == len(cast.BOTS)
    assert {name for name, *_ in whole - forward} <= {one.name for one in cast.BOTS if one.is_new}
    assert sorted(row["rank"] for row in boards[0] if row["rank"])[:2] == [1, 2]


def test_events_of_the_stream_say_demonstration():
    raw = b'id: 7\nevent: post\ndata: {"id":"post_1","verified":false%s}\n\n: nothing new\n\n'
    assert demonstration.mark_events(raw % b"") == raw % b',"demonstration":true'


def test_the_demonstration_shows_both_modes_and_every_verdict(show):
    key = show.keys.read_key
    verdicts = [post["verification"] for post in show.pages("/api/v1/feed", key, 100)]
    assert {one["status"] for one in verdicts} >= {"verified", "mismatch", "none"}
    assert {one["reason"] for one in verdicts} >= {"other_wallet", "failed"}
    states = {bot["coverage"]["state"] for bot in show.read("v1/bots")["data"]}
    assert states == {"complete", "partial", "backfilling", "none"}
    traders = show.read("traders")["data"]
    assert len(traders) == len(cast.TRADERS)
    assert {one["review"]["state"] for one in traders} >= {"clean", "under_review"}


def text_of(page):
    """The text of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def test_every_state_appears_on_a_page(show):
    """Each name is a state of the product."""
    bots = {bot["name"]: bot["id"] for bot in show.read("v1/bots")["data"]}
    traders = {one["name"]: one["id"] for one in show.read("traders")["data"]}
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


SOL_BOASTS = r"Took profit on"
USDC_BOASTS = r"Took profit on \w+|\w+ paid for dinner|Another win with|Sold \w+ at the top"


def test_a_boast_appears_next_to_the_loss(show):
    """Text that a number contradicts gets no verdict: the number appears next to it."""
    shown, boasting = show.pages("/api/v1/feed", show.keys.read_key, 100), set()
    for post in shown:
        is_dora = post["botName"] == DORA.name
        words, unit = (USDC_BOASTS, r"[\d.,]+ USDC") if is_dora else (SOL_BOASTS, "")
        if re.match(words, post["body"]):
            boasting.add(is_dora)
            assert post["verified"] and post["receipt"]["result"].startswith("-")
            page = show.get(f"/posts/{post['id']}")
            assert post["body"].split(" ")[0] in page.text.partition("<article")[2]
            assert re.search(rf"\N{{MINUS SIGN}}{unit}", text_of(page))
    assert boasting == {True, False}


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
    for path in ("/api/v1/bots", "/api/health", "/traders"):
        assert "demonstration" not in service.get(path, key).text
    assert "on cached prices" in service.get("/traders").text


# ---- the bot that trades in USDC -----------------------------------------------------------------
USDC = STABLECOINS[0]
GIVEN = 10_000 * 10**6


def find_change(row):
    """The USDC that a transaction moved into its wallet, in raw units."""
    held = {"pre": 0, "post": 0}
    for side in held:
        for one in row.receipt["meta"][f"{side}TokenBalances"]:
            if (one["owner"], one["mint"]) == (row.keys[0], USDC.mint):
                held[side] += int(one["uiTokenAmount"]["amount"])
    return held["post"] - held["pre"]


@ground.sqlite_only
def test_a_bots_result_in_usdc_is_what_its_trades_left(show, chain):
    """It buys twice and sells everything: each turn of three earns the sum of its movements."""
    uid = next(one["id"] for one in show.read("v1/bots")["data"] if one["name"] == DORA.name)
    dora = show.read(f"v1/bots/{uid}")
    swaps = [one for one in chain.transactions if one.wallet == DORA.wallet and one.kind == "swap"]
    changes = [find_change(one) for one in swaps if one.at <= 0]
    turns = [sum(changes[n : n + 3]) for n in range(0, len(changes) - 2, 3)]
    (usdc,) = dora["results"]["byCurrency"]
    assert int(usdc["realizedRaw"]) == sum(turns) != 0
    counts = [usdc[f"{kind}Sells"] for kind in ("matched", "winning", "partial", "unmatched")]
    assert counts == [len(turns), sum(turn > 0 for turn in turns), 0, 0]
    assert usdc["currency"] == "USDC" and dora["record"]["byCurrency"] == [usdc]
    assert (dora["results"]["matchedSells"], dora["coverage"]["state"]) == (0, "complete")
    (books,) = dora["reconciliation"]["byCurrency"]
    sums = [int(books[f"{name}Raw"]) for name in ("received", "closing", "difference")]
    assert sums == [GIVEN, GIVEN + sum(changes), 0]
    page = show.get(f"/bots/{dora['id']}")
    assert 'aria-label="Realized PnL by day in USDC"' in page.text
    (row,) = show.read("v1/leaderboard?currency=USDC")["data"]
    assert (row["name"], row["rank"]) == (DORA.name, 1)
    assert DORA.name in text_of(show.get("/leaderboard?currency=USDC"))


# ---- never mixed ---------------------------------------------------------------------------------
def test_a_demonstration_needs_its_own_folder(service):
    service.make_bot()
    storage.database.close_all()
    files.unlock_data_dir()
    folder = service.config.data_dir
    with pytest.raises(instance.Refused, match="contains real data"):
        stage.clear_folder(folder)
    # As after an interrupted restore.
    aside = service.config.database_path.rename(folder / "app.db.replaced-20261105T120000.000Z")
    with pytest.raises(instance.Refused, match="contains real data"):
        stage.clear_folder(folder)
    assert backups.check_database(aside).posts == 0


def test_nothing_else_uses_a_demonstrations_folder(tmp_path, service, monkeypatch, capsys):
    backups.store_backup(service.config, tmp_path / "backup.db")
    service.close()
    folder = tmp_path / "shown"
    folder.mkdir()
    stage.clear_folder(folder)
    monkeypatch.setenv("DATA_DIR", str(folder))
    for command in (["run"], ["observe"], ["restore", str(tmp_path / "backup.db"), "--replace"]):
        assert app.main(command) == 1 and "belongs to a demo" in capsys.readouterr().err


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


def test_one_command_serves_the_demonstration(tmp_path, full, monkeypatch):
    """The first page, the marks, and a chain that was observed."""
    program, port = tmp_path / "short.py", find_port()
    program.write_text(SHORT)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PORT", str(port))
    # The demo contacts neither of them.
    for name in ("SOLANA_RPC_URLS", "LLM_BASE_URL"):
        monkeypatch.setenv(name, "http://192.0.2.1")
    command = [sys.executable, "app.py" if full else program, "demo"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    demo = subprocess.Popen(command, cwd=ROOT, **pipes)
    try:
        wait_for(port, PATIENCE)
        said = next(line for line in iter(demo.stdout.readline, "") if "cnd_read_" in line)
        key = re.search(r"cnd_read_\w+", said)[0]

        def get(path):
            url, bearer = f"http://127.0.0.1:{port}{path}", {"Authorization": f"Bearer {key}"}
            request = urllib.request.Request(url, headers=bearer)
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.read().decode()

        def is_observed():
            results = [bot["results"] for bot in json.loads(get("/api/v1/bots"))["data"]]
            return any(one and one["observedTrades"] for one in results)

        assert "demonstration" in get("/").lower()
        end = time.monotonic() + PATIENCE
        while not is_observed():
            assert time.monotonic() < end, "no trade was observed"
            time.sleep(0.5)
        assert json.loads(get("/api/health"))["demonstration"] is True
        # A second one is refused.
        assert app.main(["demo"]) == 1
    finally:
        demo.terminate()
        ended = demo.wait(PATIENCE)
        demo.stdout.close()
        assert ended == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
