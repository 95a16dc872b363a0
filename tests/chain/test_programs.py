"""The program table and the currencies: built-in ones, and what an operator adds in
DATA_DIR/programs.csv and currencies.csv. An added stablecoin works like USDC.
"""

import datetime
import json

import ground
import pytest
from auditing import ask_service, make_auditor
from lookout import Lookout
from node import FakeNode
from service import Service
from story import ADA, Story, address

import config
from app import create_app
from chain.addresses import TOKEN, WRAPPED_SOL, is_base58
from chain.reading.added_currencies import read_currencies
from chain.reading.currencies import (
    STABLECOINS,
    Currency,
    find_stablecoin,
    list_added,
    use_currencies,
    using_currencies,
)
from chain.reading.programs import BUILT_IN, FAMILIES, BadTable, read_table, table
from chain.stored.store import name_rules
from chain.symbols import find_imitated, show_symbol
from cli.parser import main
from models import Bot, Trade
from observer import Observer
from observing import rebuilding
from operate import doctor, inspection
from storage import database

RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
HEADER, NEW = "id,name,family,source\n", address("a venue of tomorrow")
BROKEN = f"{HEADER}{NEW},Tomorrow,casino,x\n"
COINS, DAI = "mint,symbol,decimals\n", address("DAI")
ROW, BROKEN_COIN = f"{COINS}{DAI},XDAI,6\n", f"{COINS}{DAI},XDAI,x\n"
USDS = "USDSwr9ApdHk5bvJKMjzff41FfuX8bSxdKcR81vTwcA"


@pytest.fixture(autouse=True)
def built_in_again():
    yield
    use_currencies(())


# ---- the built-in tables -------------------------------------------------------------------------
def test_every_row_is_a_program_of_a_known_family_with_source_and_date():
    """The date is in the past."""
    assert len({one.id for one in BUILT_IN}) == len(BUILT_IN) > 300
    for one in BUILT_IN:
        assert is_base58(one.id, 32), one
        assert one.family in (*FAMILIES, "") and one.name and one.source, one
        assert datetime.date.fromisoformat(one.date) <= datetime.date.today(), one
        assert one.family == "swap" or not one.pool, one


def test_every_tip_account_has_a_service_source_and_date():
    rows = read_table("tip_accounts.csv")
    accounts = {row["address"] for row in rows}
    assert len(accounts) == len(rows) > 100 and accounts.isdisjoint(one.id for one in BUILT_IN)
    for row in rows:
        assert is_base58(row["address"], 32) and row["service"] and row["source"], row
        datetime.date.fromisoformat(row["date"])


def test_configured_swap_programs_are_markers():
    """A venue of the table is not a marker unless it is configured."""
    marker = address("venue")
    programs = table((marker,))
    assert marker in programs.markers and programs.family(marker) == "swap"
    assert RAYDIUM not in programs.markers and marker not in table().markers
    assert RAYDIUM in table((RAYDIUM,)).markers and RAYDIUM in table((RAYDIUM,)).pools
    assert table((TOKEN,)).family(TOKEN) == "swap" and table((TOKEN,)).name(TOKEN) == "SPL Token"


# ---- rows in DATA_DIR ----------------------------------------------------------------------------
def read_programs(text):
    return table((), text)


def test_only_new_programs_are_added_and_are_not_markers():
    """Neither a built-in row nor a repeated one; the built-in name stays."""
    rows = [f"{RAYDIUM},Mine,swap,x\n", f'{NEW},"Tomorrow, the venue",swap,x\r', f"{NEW},B,swap,x"]
    programs = read_programs(HEADER + "\n".join(rows))
    assert programs.added == {NEW} and NEW not in programs.markers
    assert (programs.name(NEW), programs.family(NEW)) == ("Tomorrow, the venue", "swap")
    assert programs.name(RAYDIUM) == "Raydium v4" and RAYDIUM in programs.pools
    assert table().family(NEW) is None


def test_each_row_adds_a_currency():
    """To the built-in ones, such as USD1."""
    text = f"{COINS} {DAI} , XDAI , 6\n\n{USDS},USDS,6\r\n"
    assert read_currencies(text) == (Currency(DAI, "XDAI", 6, ""), Currency(USDS, "USDS", 6, ""))
    assert len(read_currencies(COINS + FULL)) == 20
    usd1 = find_stablecoin("USD1")
    assert usd1[:3] == ("USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB", "USD1", 6)
    assert usd1.source == "https://docs.worldlibertyfinancial.com/usd1/smart-contracts"


def test_names_and_sources_have_documented_limits():
    row = f" {NEW} , {'n' * 60} , swap , {'s' * 300} \n"
    one = next(one for one in read_programs(HEADER + row).rows if one.id == NEW)
    assert (one.name, one.family, one.source) == ("n" * 60, "swap", "s" * 300)


def test_files_may_be_empty():
    for text in ("", "\n", HEADER):
        assert not read_programs(text).added
    assert read_currencies("") == read_currencies(COINS) == ()


HEADING = "must be id,name,family,source"
CELLS = "must be {} ({}), not {}; put a cell that contains a comma in quotes"
IDS, FOUR = "must be a program's address (32 bytes in base58)", (4, HEADER.strip())
FAMILY = (
    "must be one of swap, order, lending, liquidity, stake, bridge, nft, or empty (only the name"
    " is used)"
)
NAMES, SOURCES = (f"must be 1 to {most} printable characters" for most in (60, 300))
UNCLOSED = "a quoted cell must be closed"
SYMBOL = "must be 2 to 12 letters and digits, starting with a letter"
MINT = "must be a token's address, base58 of 32 bytes"
LIKE = "must not resemble {}, another token's symbol"
DECIMALS, ONCE = "must be a whole number from 0 to 9", "must be listed once"
FULL = "".join(f"{address(str(n))},COIN{n},6\n" for n in range(20))


def known(program, name, family):
    told = f"{program} is already {name} in the family {family}"
    return f"{told}: the file can only add programs, not change them"


# The rows, the line and field that are refused, and what is allowed.
NO_PROGRAMS = [
    *(
        (f"{header}{NEW},A,swap,x", 1, "header", HEADING)
        for header in ("", "id,name,family\n", "id;name;family;source\n")
    ),
    *(
        (HEADER + row, *why)
        for row, *why in [
            (f"{NEW},A,swap", 2, "columns", CELLS.format(*FOUR, 3)),
            (f"{NEW},A,swap,https://a.example/?a,b", 2, "columns", CELLS.format(*FOUR, 5)),
            (f"{RAYDIUM},Mine,swap,x\nnot-base58,A,swap,x", 3, "id", IDS),
            (f"{NEW[:-4]},A,swap,x", 2, "id", IDS),
            *((f"{NEW},A,{family},x", 2, "family", FAMILY) for family in ("casino", "Swap")),
            *((f"{NEW},{name},swap,x", 2, "name", NAMES) for name in ("", "n" * 61, "a\u202eb")),
            *((f"{NEW},A,swap,{source}", 2, "source", SOURCES) for source in ("", "s" * 301)),
            (f"{RAYDIUM},R,lending,x", 2, "family", known(RAYDIUM, "Raydium v4", "swap")),
            (f"{TOKEN},Token,swap,x", 2, "family", known(TOKEN, "SPL Token", "(named only)")),
            (f"{NEW},A,swap,x\n{NEW},A,nft,x", 3, "family", known(NEW, "A", "swap")),
            (f'{NEW},"A,swap,x', 2, "quotes", UNCLOSED),
        ]
    ),
]
NO_CURRENCIES = [
    (f"{DAI},XDAI", 2, "columns", CELLS.format(3, COINS.strip(), 2)),
    (f"{USDS},USDS,6\nx,XDAI,6", 3, "mint", MINT),
    (f"{DAI[:-6]},XDAI,6", 2, "mint", MINT),
    (f"{WRAPPED_SOL},WSOL,9", 2, "mint", "SOL is built in, so leave it out"),
    (f"{STABLECOINS[3].mint},USD1,6", 2, "mint", "USD1 is built in, so leave it out"),
    (f"{DAI},XDAI,6\n{DAI},YDAI,6", 3, "mint", ONCE),
    (f"{FULL}{DAI},XDAI,6", 22, "mint", "must be one of at most 20 currencies"),
    *((f"{DAI},{sign},6", 2, "symbol", SYMBOL) for sign in ("", "X", "=X1", "X" * 13)),
    *((f"{DAI},{name},6", 2, "symbol", LIKE.format(name.upper())) for name in ("usdc", "SOL")),
    (f"{USDS},XDAI,6", 2, "symbol", "must be USDS, this token's well-known symbol"),
    (f"{DAI},XDAI,6\n{address('o')},xdai,6", 3, "symbol", ONCE),
    *((f"{DAI},XDAI,{n}", 2, "decimals", DECIMALS) for n in ("", "10", "-1", "٦")),
    (f'{DAI},"XDAI,6', 2, "quotes", UNCLOSED),
]


@pytest.mark.parametrize(
    ("read", "file", "text", "line", "field", "allowed"),
    [
        *((read_programs, "programs", *row) for row in NO_PROGRAMS),
        *((read_currencies, "currencies", COINS + rows, *why) for rows, *why in NO_CURRENCIES),
    ],
)
def test_an_invalid_row_is_refused_by_line_and_field(read, file, text, line, field, allowed):
    with pytest.raises(BadTable) as refused:
        read(f"{text}\n")
    assert str(refused.value) == f"DATA_DIR/{file}.csv, line {line}, {field}: {allowed}"


# ---- read at start -------------------------------------------------------------------------------
def load(folder):
    return config.load({"DATA_DIR": str(folder)}, dotenv=None).added_programs


def test_the_file_is_read_at_start(tmp_path):
    """A byte order mark, as written by spreadsheets, does no harm."""
    assert load(tmp_path) == ""
    (tmp_path / "programs.csv").write_bytes(b"\xef\xbb\xbf" + HEADER.encode())
    assert load(tmp_path) == HEADER


@pytest.mark.parametrize(
    "content, why",
    [
        (HEADER.encode() + b"caf\xe9\n", r"programs\.csv, line 2: must be UTF-8"),
        (b"x" * (config.MAX_TABLE_BYTES + 1), "at most 256000 bytes"),
        (None, "cannot be read: Is a directory"),
    ],
    ids=["binary", "oversized", "a directory"],
)
def test_an_unusable_file_is_refused(tmp_path, content, why):
    path = tmp_path / "programs.csv"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(config.BadSetting, match=why):
        load(tmp_path)


def test_nothing_starts_with_an_invalid_row(service):
    broken = ground.change(service.config, added_programs=BROKEN)
    for start in (create_app, Observer):
        with pytest.raises(BadTable, match="line 2, family"):
            start(broken)
    with pytest.raises(BadTable, match="line 2, decimals"):
        create_app(ground.change(service.config, added_currencies=BROKEN_COIN))


def test_only_what_decides_a_kind_changes_the_rules_id():
    """Neither the order of rows nor their source matters, nor a currency's symbol."""

    def name(markers=(), *rows):
        return name_rules(table(markers, HEADER + "".join(f"{row}\n" for row in rows)), ())

    one, other = f"{NEW},A,nft,x", f"{address('other')},B,swap,x"
    names = [name(), name((NEW,)), name((RAYDIUM,)), name((), one), name((), f"{NEW},A,swap,x")]
    dai, usds = Currency(DAI, "XDAI", 6, ""), Currency(USDS, "USDS", 6, "")
    several = [(dai,), (dai, usds), (dai._replace(decimals=5), usds)]
    names += [name_rules(table(), rows) for rows in several]
    assert len(set(names)) == len(names)
    assert name((), f"{NEW},A,nft,y") == name((), one)
    assert name((), one, other) == name((), other, one)
    assert name((NEW, RAYDIUM)) == name((RAYDIUM, NEW))
    for alike in ((usds, dai), (dai._replace(symbol="YDAI"), usds)):
        assert name_rules(table(), alike) == name_rules(table(), (dai, usds))


# ---- what is told of them ------------------------------------------------------------------------
def test_the_status_page_shows_added_programs(serve):
    shown = ("EXTRA_SWAP_PROGRAMS is set", RAYDIUM, "The operator added 2 programs")
    rows = f"{HEADER}{NEW},A,swap,x\n{address('another')},B,nft,x\n"
    for changes in ({}, {"extra_swap_programs": (RAYDIUM,), "added_programs": rows}):
        page = serve(**changes).get("/status").text
        assert [text in page for text in shown] == [bool(changes)] * 3


def examine(config, now=0, deep=False, **changes):
    changed = ground.change(config, **changes)
    return [(one.level, one.text) for one in doctor.examine(changed, now, deep=deep)]


def test_doctor_reports_markers_and_unusable_rows(service):
    rows = {"extra_swap_programs": (RAYDIUM,), "added_programs": f"{HEADER}{NEW},A,swap,x\n"}
    found = examine(service.config, **rows)
    assert ("fine", "DATA_DIR/programs.csv adds 1 to the table of programs") in found
    assert any(level == "look" and RAYDIUM in text for level, text in found)
    # A deep check reads receipts with the table, so it has to wait.
    wrong = ("wrong", f"DATA_DIR/programs.csv, line 2, family: {FAMILY}")
    assert wrong in examine(service.config, deep=True, added_programs=BROKEN)
    fine = examine(service.config)
    assert not any("programs" in text for level, text in fine if level != "fine")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command over DATA_DIR tmp_path; (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def call(*argv):
        return main(argv), *capsys.readouterr()

    return call


def test_the_command_prints_the_table_or_json(run, tmp_path, monkeypatch):
    (tmp_path / "programs.csv").write_text(f"{HEADER}{NEW},Tomorrow,,https://t.example\n")
    code, out, _ = run("programs", "--json")
    shown = json.loads(out)
    assert code == 0 and shown["added"] == 1 and shown["markers"] == []
    absent = dict.fromkeys(("family", "date")) | dict.fromkeys(("pool", "marker"), False)
    added = {"id": NEW, "name": "Tomorrow", "source": "https://t.example", "added": True}
    assert shown["programs"][-1] == added | absent
    assert [one["id"] for one in shown["programs"][:-1]] == [one.id for one in BUILT_IN]
    marker = address("marker")
    monkeypatch.setenv("EXTRA_SWAP_PROGRAMS", marker)
    code, out, _ = run("programs")
    head, *lines, added, last = out.splitlines()
    assert code == 0 and len(lines) == len(BUILT_IN)
    assert head.split() == ["ID", "FAMILY", "NAME", "DATE", "SOURCE"]
    raydium = next(line for line in lines if line.startswith(RAYDIUM))
    assert raydium.split()[1:4] == ["swap", "Raydium", "v4"] and "2026-11-22" in raydium
    assert added.startswith(NEW) and added.endswith("https://t.example (DATA_DIR/programs.csv)")
    assert last.startswith(marker) and last.endswith("EXTRA_SWAP_PROGRAMS")


def test_commands_refuse_an_invalid_row_in_one_sentence(run, tmp_path):
    """The database is migrated, because `observe` would otherwise stop earlier."""
    run("migrate")
    (tmp_path / "programs.csv").write_text(BROKEN)
    for command in ("programs", "observe", "run", "rebuild"):
        code, _, err = run(command)
        assert (code, err) == (1, f"DATA_DIR/programs.csv, line 2, family: {FAMILY}\n")
    (tmp_path / "currencies.csv").write_text(BROKEN_COIN)
    refusal = f"DATA_DIR/currencies.csv, line 2, decimals: {DECIMALS}\n"
    assert run("programs") == (1, "", refusal)


# ---- an added currency ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def story():
    """900 DAI arrive; 5 CAT cost 100, 10 more cost 200; 15 sell for 450: a result of 150."""
    told = Story()
    told.fund("ada", 10**9)
    told.receive("ada", "DAI", 900_000_000)
    for paid, raw in ((100, 5), (200, 10)):
        told.swap("ada", "DAI", paid * 10**6, "CAT", raw)
    for raw, got in ((3, 90), (4, 120), (8, 240)):
        told.swap("ada", "CAT", raw, "DAI", got * 10**6)
    return told.chain()


@pytest.fixture
def observe(tmp_path, story):
    """observe(currencies) -> (Service, Lookout) over the story, in a new folder."""
    opened = []

    def begin(rows=""):
        if opened:
            opened[-1].close()
        opened.append(Service(tmp_path / str(len(opened)), added_currencies=rows))
        config = opened[-1].config
        return opened[-1], Lookout.begin(config, FakeNode(story), wallets=[ADA]).settle()

    yield begin
    opened[-1].close()


def replace_file(lookout, rows):
    """And start the app with it."""
    lookout.config = ground.change(lookout.config, added_currencies=rows)
    create_app(lookout.config)


def test_trades_against_it_have_results_in_it(observe):
    service, lookout = observe(ROW)
    kinds = [(one.kind, one.currency) for one in lookout.trades() if one.kind != "transfer_in"]
    assert kinds[1:] == [("buy", DAI)] * 2 + [("sell", DAI)] * 3
    key, bot = service.make_bot("Bob").publish_key.text, Bot.get(Bot.name == "Bot 0").uid

    def get(path):
        return service.get(f"/api/v1/{path}", key).json

    (told,) = get(f"bots/{bot}")["results"]["byCurrency"]
    assert (told["currency"], told["mint"], told["decimals"]) == ("XDAI", DAI, 6)
    assert (told["realized"], told["matchedSells"], told["volume"]) == ("150", 3, "750")
    board = get("leaderboard?record=all&currency=XDAI")["data"]
    (row,) = [one for one in board if one["ranked"]]
    assert (row["botId"], row["currency"], row["rank"]) == (bot, "XDAI", 1)
    assert [one["currency"] for one in get("trades?currency=XDAI")["data"]] == ["XDAI"] * 5
    assert "SOL, USDC, USDT, PYUSD, USD1, XDAI" in get("leaderboard?currency=EURX")["detail"]
    for page in (f"/bots/{bot}?tab=trades", "/leaderboard"):
        assert "XDAI" in service.get(page).text


def test_its_symbol_is_reserved():
    other = address("other")
    assert show_symbol(other, "XDAI") == "XDAI" and find_imitated(other, "xDAI") is None
    with using_currencies(read_currencies(ROW)):
        assert show_symbol(DAI, "anything") == "XDAI"
        assert find_imitated(other, "xDAI") == "XDAI" and show_symbol(other, "XDAI") != "XDAI"
    assert list_added() == () and find_imitated(other, "xDAI") is None


@pytest.mark.parametrize("before, after", [("", ROW), (ROW, ""), (ROW, ROW.replace(",6", ",5"))])
def test_transactions_are_reread_when_the_file_changes(observe, before, after):
    """The observer does it in its first poll; then everything is as if the row had always
    existed.
    """
    _, lookout = observe(before)
    replace_file(lookout, after)
    lookout.restart()
    lookout.look(3)
    found, boards = list(lookout.ledger()), list_boards()
    told = examine(lookout.config, lookout.now, deep=True)
    assert not any("differs" in text or "other rules" in text for _, text in told)
    _, lookout = observe(after)
    assert found == list(lookout.ledger()) and boards == list_boards()


def list_boards():
    sql = "SELECT record, money, seconds, return_tier, result_tier FROM standing_total"
    known = {"", DAI} if list_added() else {""}
    return sorted(row for row in database.execute_sql(sql).fetchall() if row[1] in known)


def test_rebuild_rereads_wallets_that_are_no_longer_polled(observe, monkeypatch):
    """Without the row, it is an ordinary token."""
    monkeypatch.setattr(inspection, "PAUSE_SECONDS", 0)
    _, lookout = observe()
    assert [one.kind for one in lookout.trades()][-5:] == ["swap"] * 5
    replace_file(lookout, ROW)
    told = examine(lookout.config, lookout.now, deep=True)
    assert any("other rules, programs or currencies" in text for _, text in told)
    lookout.restart()
    rebuilding.rebuild(lookout.observer.state, lookout.wallets, lookout.now)
    assert Trade.select().where(Trade.currency == DAI).count() == 5


def test_doctor_names_them_and_wrong_decimals(observe):
    service, lookout = observe(ROW)
    told, wrong, broken = (
        examine(service.config, lookout.now, added_currencies=rows)
        for rows in (ROW, ROW.replace(",6", ",8"), BROKEN_COIN)
    )
    assert ("fine", "DATA_DIR/currencies.csv adds XDAI to the currencies") in told
    assert not any("on the chain" in text for _, text in told)
    (text,) = [text for _, text in wrong if "on the chain" in text]
    assert text.startswith("XDAI has 6 decimals on the chain but 8 in DATA_DIR/currencies.csv")
    assert ("wrong", f"DATA_DIR/currencies.csv, line 2, decimals: {DECIMALS}") in broken


@ground.sqlite_only
def test_an_audit_uses_them_if_the_operator_is_trusted(observe, story):
    service, _ = observe(ROW)
    bot = Bot.get().uid
    evidence = service.get(f"/bots/{bot}/evidence.json").json
    assert evidence["addedCurrencies"] == [{"mint": DAI, "symbol": "XDAI", "decimals": 6}]
    # The instance runs in this process, so its currencies are in effect; its responses are
    # saved first.
    ask, kept = ask_service(service), {}
    keep = make_auditor(lambda path: kept.setdefault(path, ask(path)), FakeNode(story))
    assert keep.audit(bot).verdict == "same"
    use_currencies(())
    refused = make_auditor(kept.get, FakeNode(story)).audit(bot)
    assert refused.verdict == "cannot_tell" and "--accept-programs" in refused.unknown[0]
    accepted = make_auditor(kept.get, FakeNode(story), accepts=True).audit(bot)
    note = f"the operator added the currency XDAI ({DAI})"
    assert (accepted.verdict, accepted.notes) == ("same", [note])
    assert list_added() == ()
    # Other decimals mean other reading rules.
    use_currencies((Currency(DAI, "XDAI", 5, ""),))
    assert make_auditor(kept.get, FakeNode(story)).audit(bot).verdict == "cannot_tell"
