"""The book is true: every route, code and setting is in it, its links lead somewhere, its worked
example comes out.
"""

import re
from pathlib import Path

import pytest

from accounts.problem import CODES
from chain.effects import Balance
from chain.entries import Entry
from chain.ledger import Ledger

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_route_is_named(service):
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
    assert named - routes == {"/metrics"}  # only where METRICS is on


def test_every_code_is_named_with_its_status():
    rows = dict(
        re.findall(r"^\| (\d+) \| `(\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.M)[n][
            ::-1
        ]
        for n in range(len(CODES))
    )
    assert rows == {code: str(status) for code, (status, _) in CODES.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_worked_example():
    text = (ROOT / "docs" / "results.md").read_text()
    rows = re.findall(
        r"^\| (buy|somebody sends tokens|sell) \| ([+−][\d,]+) \| ([+−]?[\d,]+) \|$", text, re.M
    )
    ledger, held, lamports = Ledger(), 0, 10**10
    for slot, (what, tokens, sol) in enumerate(rows, 1):
        change, sol = (int(number.replace(",", "").replace("−", "-")) for number in (tokens, sol))
        balances = (
            Balance("W", None, 9, 0, 0, lamports, lamports + sol),
            Balance("A", "M", 6, held, held + change, 0 if slot == 1 else 1, 1),
        )
        kind = "transfer_in" if what.startswith("somebody") else what
        booked = ledger.apply(
            Entry(
                str(slot),
                slot,
                0,
                None,
                kind,
                None,
                "M",
                (),
                (),
                sol,
                0,
                0,
                0,
                (("M", change, 6),),
                balances,
            )
        )
        held, lamports = held + change, lamports + sol
    told = int(re.search(r"\*\*([\d,]+) lamports\*\*", text)[1].replace(",", ""))
    assert (booked.status, booked.result, booked.matched, booked.unmatched) == (
        "partial",
        told,
        1_500_000,
        100_000,
    )
    assert ledger.positions() == [("M", 100_000, 6, None, 100_000)]
