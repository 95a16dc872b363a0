"""DATA_DIR/currencies.csv: a stablecoin that an operator adds works like USDC."""

import ground
import pytest
from auditing import ask_service, make_auditor
from lookout import Lookout
from node import FakeNode
from service import Service
from story import ADA, Story, address

from app import create_app
from chain.reading.added_currencies import read_currencies
from chain.reading.currencies import (
    STABLECOINS,
    Currency,
    find_stablecoin,
    list_added,
    use_currencies,
    using_currencies,
)
from chain.reading.programs import BadTable, table
from chain.stored.store import name_rules
from chain.symbols import find_imitated, show_symbol
from cli.parser import main
from models import Bot, Trade
from observing import rebuilding
from operate import doctor, inspection
from storage import database

HEADER = "mint,symbol,decimals\n"
DAI = address("DAI")
ROW = f"{HEADER}{DAI},XDAI,6\n"
SOL_MINT = "So11111111111111111111111111111111111111112"
USDS = "USDSwr9ApdHk5bvJKMjzff41FfuX8bSxdKcR81vTwcA"


@pytest.fixture(autouse=True)
def built_in_again():
    yield
    use_currencies(())


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
    """observe(**settings) -> (Service, Lookout) over the story, in a new folder."""
    opened = []

    def begin(**changes):
        if opened:
            opened[-1].close()
        opened.append(Service(tmp_path / str(len(opened)), **changes))
        config = opened[-1].config
        return opened[-1], Lookout.begin(config, FakeNode(story), wallets=[ADA]).settle()

    yield begin
    opened[-1].close()


def replace_file(lookout, rows):
    """And start the app with it."""
    lookout.config = ground.change(lookout.config, added_currencies=rows)
    create_app(lookout.config)


# ---- the file ------------------------------------------------------------------------------------
def test_each_row_adds_a_currency():
    """To the built-in ones, such as USD1."""
    text = f"{HEADER} {DAI} , XDAI , 6\n\n{USDS},USDS,6\r\n"
    assert read_currencies(text) == (Currency(DAI, "XDAI", 6, ""), Currency(USDS, "USDS", 6, ""))
    assert read_currencies("") == read_currencies(HEADER) == ()
    usd1 = find_stablecoin("USD1")
    assert usd1[:3] == ("USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB", "USD1", 6)
    assert usd1.source == "https://docs.worldlibertyfinancial.com/usd1/smart-contracts"


NO_MINT = "must be a token's address, base58 of 32 bytes"
NO_SYMBOL = "must be 2 to 12 letters and digits, starting with a letter"
NO_DECIMALS = "must be a whole number from 0 to 9"
LIKE = "must not resemble {}, another token's symbol"
FULL = "".join(f"{address(str(n))},COIN{n},6\n" for n in range(20))


@pytest.mark.parametrize(
    ("row", "line", "field", "allowed"),
    [
        (f"{DAI},XDAI", 2, "columns", "must be 3 (mint,symbol,decimals), not 2"),
        (f"{USDS},USDS,6\nx,XDAI,6", 3, "mint", NO_MINT),
        (f"{DAI[:-6]},XDAI,6", 2, "mint", NO_MINT),
        (f"{SOL_MINT},WSOL,9", 2, "mint", "SOL is built in, so leave it out"),
        (f"{STABLECOINS[3].mint},USD1,6", 2, "mint", "USD1 is built in, so leave it out"),
        (f"{DAI},XDAI,6\n{DAI},YDAI,6", 3, "mint", "must be listed once"),
        (f"{FULL}{DAI},XDAI,6", 22, "mint", "must be one of at most 20 currencies"),
        *((f"{DAI},{sign},6", 2, "symbol", NO_SYMBOL) for sign in ("", "X", "=X1", "X" * 13)),
        (f"{DAI},usdc,6", 2, "symbol", LIKE.format("USDC")),
        (f"{DAI},SOL,6", 2, "symbol", LIKE.format("SOL")),
        (f"{USDS},XDAI,6", 2, "symbol", "must be USDS, this token's well-known symbol"),
        (f"{DAI},XDAI,6\n{address('o')},xdai,6", 3, "symbol", "must be listed once"),
        *((f"{DAI},XDAI,{n}", 2, "decimals", NO_DECIMALS) for n in ("", "10", "-1", "٦")),
        (f'{DAI},"XDAI,6', 2, "quotes", "a quoted cell must be closed"),
    ],
)
def test_an_invalid_row_is_refused_by_line_and_field(row, line, field, allowed):
    assert len(read_currencies(HEADER + FULL)) == 20
    with pytest.raises(BadTable) as refused:
        read_currencies(f"{HEADER}{row}\n")
    place = f"DATA_DIR/currencies.csv, line {line}, {field}"
    assert str(refused.value).startswith(f"{place}: {allowed}")


BROKEN = f"{HEADER}{DAI},XDAI,x\n"


def test_nothing_starts_with_an_invalid_row(service, tmp_path, monkeypatch, capsys):
    """Every command refuses it in one sentence."""
    with pytest.raises(BadTable, match="line 2, decimals"):
        create_app(ground.change(service.config, added_currencies=BROKEN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    (tmp_path / "currencies.csv").write_text(BROKEN)
    assert main(["programs"]) == 1
    refusal = f"DATA_DIR/currencies.csv, line 2, decimals: {NO_DECIMALS}\n"
    assert capsys.readouterr().err == refusal


# ---- money ---------------------------------------------------------------------------------------
def test_trades_against_it_have_results_in_it(observe):
    service, lookout = observe(added_currencies=ROW)
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


# ---- when the file changes -----------------------------------------------------------------------
@pytest.mark.parametrize("before, after", [("", ROW), (ROW, ""), (ROW, ROW.replace(",6", ",5"))])
def test_transactions_are_reread(observe, before, after):
    """The observer does it in its first poll; then everything is as if the row had always
    existed.
    """
    _, lookout = observe(added_currencies=before)
    replace_file(lookout, after)
    lookout.restart()
    lookout.look(3)
    found, boards = list(lookout.ledger()), list_boards()
    told = [one.text for one in doctor.examine(lookout.config, lookout.now, deep=True)]
    _, lookout = observe(added_currencies=after)
    assert found == list(lookout.ledger()) and boards == list_boards()
    assert not any("differs" in text or "other rules" in text for text in told)


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
    told = [one.text for one in doctor.examine(lookout.config, lookout.now, deep=True)]
    assert any("other rules, programs or currencies" in text for text in told)
    lookout.restart()
    rebuilding.rebuild(lookout.observer.state, lookout.wallets, lookout.now)
    assert Trade.select().where(Trade.currency == DAI).count() == 5


def test_currencies_change_the_rules_id():
    """Not their order or symbols."""
    one, other = Currency(DAI, "XDAI", 6, ""), Currency(USDS, "USDS", 6, "")
    same = [(one, other), (other, one), (one._replace(symbol="YDAI"), other)]
    assert len({name_rules(table(), rows) for rows in same}) == 1
    others = [(), (one,), (one, other), (one._replace(decimals=5), other)]
    assert len({name_rules(table(), rows) for rows in others}) == len(others)


# ---- who is told ---------------------------------------------------------------------------------
def test_doctor_names_them_and_wrong_decimals(observe):
    service, lookout = observe(added_currencies=ROW)

    def examine(rows):
        changed = ground.change(service.config, added_currencies=rows)
        return [(one.level, one.text) for one in doctor.examine(changed, lookout.now)]

    told = examine(ROW)
    assert ("fine", "DATA_DIR/currencies.csv adds XDAI to the currencies") in told
    assert not any("on the chain" in text for _, text in told)
    (wrong,) = [text for level, text in examine(ROW.replace(",6", ",8")) if "on the chain" in text]
    assert wrong.startswith("XDAI has 6 decimals on the chain but 8 in DATA_DIR/currencies.csv")
    refusal = f"DATA_DIR/currencies.csv, line 2, decimals: {NO_DECIMALS}"
    assert ("wrong", refusal) in examine(BROKEN)


@ground.sqlite_only
def test_an_audit_uses_them_if_the_operator_is_trusted(observe, story):
    service, _ = observe(added_currencies=ROW)
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
