"""The docs are correct: all routes, codes and settings are in them, links work, and the worked
example's numbers are right.
"""

import io
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from corpus import read_expected
from service import NOW
from teller import Teller

from accounts import departures
from accounts.problem import CODES
from chain.amounts import exact, show_fixed
from chain.ledger.ledger import WHOLE, Ledger
from chain.reading.entries import Entry
from chain.reading.flows import Balance
from chain.reading.kinds import TRADES
from web.site import words

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_route_is_documented(service):
    named = {
        re.sub(r"{\w+}", "{}", path)
        for path in re.findall(r"`(/[^`\s]*)`", (ROOT / "docs" / "interface.md").read_text())
    }
    routes = {
        re.sub(r"<[^>]+>", "{}", rule.rule)
        for rule in service.app.url_map.iter_rules()
        if rule.endpoint != "static"
    }
    assert routes - named == set()
    # Only if METRICS is on.
    assert named - routes == {"/metrics"}


def test_the_results_of_the_replayed_wallet_match_the_oracle():
    text = (ROOT / "docs" / "observing.md").read_text()
    (wallet,) = re.findall(r"--wallet (\w{43,44})", text)
    told = re.search(r"(\d+) transactions, (\d+) trades, ([\d.]+) SOL realized", text)
    want = read_expected()[wallet]
    trades = sum(want["kinds"].get(kind, 0) for kind in TRADES)
    earned = exact(int(want["results"]["realizedLamports"]), 9)
    assert told.groups() == (str(want["receipts"]), str(trades), earned)


def test_every_code_is_documented_with_its_status():
    rows = dict(
        re.findall(r"^\| (\d+) \| `(\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.M)[n][
            ::-1
        ]
        for n in range(len(CODES))
    )
    assert rows == {code: str(status) for code, (status, _) in CODES.items()}


def test_every_trade_flag_is_documented_and_put_into_words(service):
    """In the docs, in the OpenAPI document and on pages: all flags that `chain` gives a trade."""
    text = (ROOT / "docs" / "verified.md").read_text()
    table = re.search(r"\n## Flags\n.*?(?=\n## )", text, re.S)[0]
    named = {
        flag for row in re.findall(r"^\| (`.*?) \|", table, re.M) for flag in row.split("`")[1::2]
    }
    schemas = service.get("/openapi.json").get_json()["components"]["schemas"]
    described = schemas["Trade"]["properties"]["flags"]["description"].partition(": ")[2]
    assert named == set(described.split(", ")) == set(words.FLAGS)
    sources = "".join(path.read_text() for path in (ROOT / "chain").rglob("*.py"))
    given = re.findall(r"flags=\(\"(\w+)\",\)|add_flags\(entry, \"(\w+)\"|\*\[\"(\w+)\"\]", sources)
    assert {flag for one in given for flag in one if flag} | {"not_signer", "no_swap"} <= named
    assert all(f'"{flag}"' in sources for flag in named)


def test_every_archive_file_is_documented(bot):
    text = (ROOT / "docs" / "leaving.md").read_text()
    named = re.findall(r"`([\w*]+\.\w+)`", "".join(re.findall(r"^\| (.*?) \|", text, re.M)))
    archive = io.BytesIO()
    departures.write_archive(bot.owner, "https://here.example", "0.2.0", NOW, archive)
    names = zipfile.ZipFile(archive).namelist()
    assert [name for name in names if not any(map(Path(name).match, named))] == []
    assert [name for name in named if not any(Path(one).match(name) for one in names)] == []


def test_heading_links_resolve():
    headings = {
        page: {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M)
        }
        for page in PAGES
    }
    for page in PAGES:
        for name, heading in re.findall(r"\]\(([\w./-]*\.md)?#([^)]+)\)", page.read_text()):
            target = (page.parent / name).resolve() if name else page
            assert heading in headings[target], (page.name, name, heading)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def whole(number):
    return int(number.replace(",", "").replace("−", "-"))


def book(rows):
    """Apply (kind, raw change of M, lamports, fee, lamports outside)...; return the ledger and the
    last result.
    """
    ledger, held, lamports = Ledger(backfilled=True), 0, 10**10
    for slot, (kind, change, sol, fee, beside) in enumerate(rows, 1):
        balances = [Balance("W", None, 9, 0, 0, lamports, lamports + sol)]
        if change:
            balances.append(Balance("A", "M", 6, held, held + change, 1, 1))
        moved = (("M", change, 6),) if change else ()
        entry = Entry(
            *(str(slot), slot, 0, None, kind, None, "M", (), ()),
            *(sol, fee, 0, 0, moved, tuple(balances)),
            beside_sol=beside,
        )
        booked = ledger.apply(entry)[WHOLE]
        held, lamports = held + change, lamports + sol
    return ledger, booked


def test_the_worked_example_is_correct():
    text = (ROOT / "docs" / "results.md").read_text()
    rows = re.findall(
        r"^\| (buy|somebody sends tokens|sell) \| ([+−][\d,]+) \| ([+−]?[\d,]+) \|$", text, re.M
    )
    kinds = {"somebody sends tokens": "transfer_in"}
    ledger, booked = book(
        (kinds.get(what, what), whole(tokens), whole(sol), 0, 0) for what, tokens, sol in rows
    )
    told = whole(re.search(r"\*\*([\d,]+) lamports\*\*", text)[1])
    assert (booked.status, booked.result) == ("partial", told)
    assert (booked.matched, booked.unmatched) == (1_500_000, 100_000)
    assert ledger.list_positions() == [("M", 100_000, 6, None, 100_000)]


# Python files, and paths that begin with a folder of the repository.
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()}
GUIDES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


def list_code(page):
    """Text in backticks outside indented blocks."""
    return re.findall(r"`([^`\n]+)`", page.read_text())


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_file_named_in_the_docs_exists(page):
    named = [
        text
        for text in list_code(page)
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", text)
        and (text.endswith(".py") or ("/" in text and text.split("/")[0] in FOLDERS))
    ]
    assert not [text for text in named if not find_file(text)]


def find_file(text):
    if (ROOT / text).exists():
        return True
    # A sentence about a room may omit the room.
    return "/" not in text and any((*ROOT.glob(f"*/{text}"), *ROOT.glob(f"web/*/{text}")))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_module_function_and_setting_named_in_the_docs_exists(page):
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {
        path.stem for path in ROOT.glob("*.py")
    }
    named = [
        text.removesuffix("()")
        for text in list_code(page)
        if re.fullmatch(r"\w+(\.\w+)+(\(\))?", text)
        and text.split(".")[0] in rooms
        and not text.endswith((".py", ".db"))
    ]
    assert not [text for text in named if not is_defined(text)]


def is_defined(dotted):
    """Whether a module, or a name in a module, has this dotted name."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:size])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                text = file.read_text()
                return all(re.search(rf"\b{name}\b", text) for name in parts[size:])
    return False


def test_the_tree_in_architecture_matches_the_files():
    text = (ROOT / "docs" / "architecture.md").read_text()
    tree = re.search(r"\n\n((?:    \S.*\n)+)", text).group(1)
    # Two spaces end the names on a line.
    told = {name for line in tree.splitlines() for name in line[4:].split("  ")[0].split()}
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split()
    tops = {file.split("/")[0] + "/" for file in files if "/" in file and file[0] != "."}
    roots = {file for file in files if re.fullmatch(r"[\w.]+\.py", file)}
    assert {name for name in told if (ROOT / name).exists()} == told
    assert tops - {name.split("/")[0] + "/" for name in told} == set()
    assert roots - told == set()


def test_the_reconciliation_example_adds_up():
    text = (ROOT / "docs" / "results.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (\w+) \| ([+−]?[\d,]+) \| ([+−][\d,]+) \|$", text, re.M)
    told = {
        name: whole(number)
        for name, number in re.findall(
            r"^\| ([a-zA-Z ]+?)(?::[^|]*)? \| ([+−][\d,]+) \|$", text, re.M
        )
    }
    ledger, _ = book(
        (kind, whole(tokens), whole(sol), 0 if kind == "native_transfer" else 5_000, 0)
        for kind, tokens, sol in rows
    )
    books = ledger.reconcile()
    assert len(rows) == 5 and books.difference == books.gaps == 0
    assert told == {
        "realized PnL": books.realized,
        "open cost": -books.open_cost,
        "cost left": -books.cost_left,
        "received": books.received,
        "overhead": -books.overhead,
        "failed cost": -books.failed_cost,
        "closing less opening": books.closing - books.opening,
    }
    assert sum(told.values()) == 2 * told["closing less opening"]
    worst = whole(re.search(r"=\s\*\*(−[\d,]+) lamports\*\*", text)[1])
    assert worst == books.realized - books.cost_left - books.open_cost
    assert worst == ledger.accounts[WHOLE].sums.worst_case


def test_the_position_example_is_correct():
    text = (ROOT / "docs" / "results.md").read_text()
    (told,) = re.findall(r"the return is ([\d.]+)%", text)
    t = Teller().buy("A", 1_000_000, 2 * 10**9)
    t.sell("A", 600_000, 15 * 10**8).sell("A", 395_000, 9 * 10**8)
    sums = t.ledger.accounts[WHOLE].sums
    assert (sums.positions, sums.positions_won, sums.held) == (1, 1, 0)
    assert show_fixed(sums.return_points, 2) == told


def test_the_gift_example_has_its_stated_loss():
    text = (ROOT / "docs" / "verified.md").read_text()
    sale, gift, fee, change = (
        whole(number)
        for number in re.findall(r"^\| [^|]+ \| ([+−][\d,]+) \| [^|]+ \|$", text, re.M)
    )
    assert sale + gift + fee == change
    ledger, booked = book([("buy", 1, -2_000_000, -fee, 0), ("sell", -1, change, -fee, gift)])
    assert booked.result == whole(re.search(r"\*\*(−[\d,]+)\slamports\*\*", text)[1])
    assert ledger.reconcile().received == gift
