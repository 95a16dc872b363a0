"""/docs and the pages below it, each rendered once for readers who are signed in and once for those
who are not.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from flask import Blueprint, render_template
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from markupsafe import Markup, escape

from accounts.problem import CODES, OF_ALL, OF_KEYS, OF_LISTS, Problem
from chain.ledger.inventory import share
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.sales import Booked
from chain.reading.effects import Balance
from chain.reading.entries import Entry
from web.server.gate import settings
from web.site import reference, words
from web.site.figures import write_exact
from web.site.lists import add_etag

blueprint = Blueprint("documentation", __name__)
blueprint.after_request(add_etag)


@blueprint.record
def init_templates(state: BlueprintSetupState) -> None:
    """Add what the templates of these pages use."""
    state.app.jinja_env.globals["find_group"] = reference.find_group
    state.app.jinja_env.filters |= {"code": mark_code, "example": write_example}


@blueprint.get("/docs")
def show_docs() -> ResponseReturnValue:
    """Show the page of the interface with all its operations."""
    return reference.fill_ids(render_page("docs.html"))


@blueprint.get("/docs/requests/<name>")
def show_request(name: str) -> ResponseReturnValue:
    """Show one request with its examples. `name`: the operationId."""
    if find_route(name) is None:
        raise Problem("not_found", "there is no such request")
    return reference.fill_ids(render_page("request.html", name=name))


def find_route(name: str) -> reference.Route | None:
    """Return the request of this name, or None."""
    routes = reference.list_routes(settings().base_url)
    return next((route for route in routes if route.name == name), None)


@blueprint.get("/docs/fields")
def show_fields() -> ResponseReturnValue:
    """Show the groups of fields."""
    return render_page("shapes.html")


@blueprint.get("/docs/fields/<group>")
def show_fields_of(group: str) -> ResponseReturnValue:
    """Show the fields of one group."""
    if group not in reference.GROUPS:
        raise Problem("not_found", "there is no such group of fields")
    return render_page("shape_group.html", group=group)


@blueprint.get("/docs/errors")
def show_errors() -> ResponseReturnValue:
    """Show what each error code means."""
    return render_page("errors.html")


@blueprint.get("/docs/example")
def show_example() -> ResponseReturnValue:
    """Show how a result is worked out, step by step."""
    return render_page("worked_example.html")


def render_page(template: str, **values: str) -> str:
    """Render a page of the documentation. `values`: what else it depends on."""
    return render_template(template, **_find_contents(template, values))


def _find_contents(template: str, values: dict[str, str]) -> dict[str, Any]:
    config = settings()
    if template == "docs.html":
        routes = reference.list_routes(config.base_url)
        refusals = {
            "all": name_codes(OF_ALL),
            "keyed": name_codes(OF_KEYS),
            "paged": name_codes(OF_LISTS),
        }
        return {"settings": config, "routes": routes, "refusals": refusals, "trust": words.TRUST}
    if template == "request.html":
        return {"route": find_route(values["name"])}
    if template == "worked_example.html":
        return {"example": make_example()}
    if template == "errors.html":
        return {"codes": CODES, "advice": words.ADVICE}
    groups = reference.list_shapes()
    if template == "shapes.html":
        return {"groups": groups}
    return {"group": values["group"], "shapes": groups[values["group"]]}


def name_codes(codes: Iterable[str]) -> str:
    """Write error codes, each after its status."""
    return ", ".join(f"{CODES[code][0]} {code}" for code in codes)


def write_example(text: str) -> Markup:
    """Write an example as the text of an element, where quotes need no escape."""
    return Markup(html.escape(text, quote=False))


def mark_code(text: str) -> Markup:
    """Write `what stands in backticks` as code."""
    parts = text.split("`")
    marked = (
        Markup("<code>{}</code>").format(part) if n % 2 and n < len(parts) - 1 else escape(part)
        for n, part in enumerate(parts)
    )
    return Markup("").join(marked)


WALLET, ACCOUNT, MINT, DECIMALS, WALLET_LAMPORTS = "W", "A", "M", 6, 10**10
# A lot is drawn as wide as its part of all that ever came in.
FULL_WIDTH = 100


class Move(NamedTuple):
    """A transaction: raw units and lamports it changed."""

    kind: str
    title: str
    raw: int
    lamports: int


MOVES = (
    Move("buy", "It buys a token", 1_000_000, -1_000_005_000),
    Move("buy", "It buys more, at a higher price", 500_000, -750_005_000),
    Move("transfer_in", "Somebody sends it tokens", 200_000, 0),
    Move("sell", "It sells most of them", -1_600_000, 2_399_995_000),
)


class LotBar(NamedTuple):
    """A lot as it is drawn: where, how wide (percent), and how much of it was sold; raw units, its
    cost in lamports (None: unknown).
    """

    x: float
    width: float
    sold_width: float
    raw: int
    left: int
    cost: int | None


class Step(NamedTuple):
    """A transaction and the lots after it."""

    move: Move
    bars: list[LotBar]


class SliceRow(NamedTuple):
    """What a sale took of a lot, with how its part of the proceeds is worked out. `result`: None
    where the cost is unknown.
    """

    raw: int
    cost: int | None
    arithmetic: str
    proceeds: int
    result: int | None


class Example(NamedTuple):
    """All of it; `booked`: what the ledger made of the sale."""

    steps: list[Step]
    slices: list[SliceRow]
    booked: Booked
    sum_told: str
    open_raw: int


def make_example() -> Example:
    """Apply the moves one by one and draw the lots after each."""
    ledger, held, lamports = Ledger(), 0, WALLET_LAMPORTS
    booked: list[Booked] = []
    steps = []
    for slot, move in enumerate(MOVES, 1):
        booked.append(ledger.apply(_make_entry(move, slot, held, lamports))[WHOLE])
        held, lamports = held + move.raw, lamports + move.lamports
        steps.append(Step(move, _draw_lots(booked)))
    slices = _list_slices(booked[-1])
    return Example(steps, slices, booked[-1], _tell_sum(slices), held)


def _make_entry(move: Move, slot: int, held: int, lamports: int) -> Entry:
    """Make the Entry of a move. `held`, `lamports`: what the wallet holds before it."""
    balances = (
        Balance(WALLET, None, 9, 0, 0, lamports, lamports + move.lamports),
        Balance(ACCOUNT, MINT, DECIMALS, held, held + move.raw, 1 if held else 0, 1),
    )
    return Entry(
        signature=str(slot),
        slot=slot,
        tx_index=0,
        block_time=None,
        kind=move.kind,
        venue=None,
        mint=MINT,
        flags=(),
        residues=(),
        sol=move.lamports,
        fee=0,
        tip=0,
        rent=0,
        tokens=((MINT, move.raw, DECIMALS),),
        balances=balances,
    )


def _draw_lots(booked: Sequence[Booked]) -> list[LotBar]:
    brought = sum(move.raw for move in MOVES if move.raw > 0)
    sold = {origin: raw for one in booked for origin, raw, _ in one.lots}
    bars, x = [], 0.0
    for slot, move in enumerate(MOVES[: len(booked)], 1):
        if move.raw > 0:
            width, taken = FULL_WIDTH * move.raw / brought, sold.get(str(slot), 0)
            cost = -move.lamports if move.kind == "buy" else None
            part = FULL_WIDTH * taken / brought
            bars.append(LotBar(round(x, 3), width, part, move.raw, move.raw - taken, cost))
            x += width
    return bars


def _list_slices(sale: Booked) -> list[SliceRow]:
    """List what the sale took, oldest first, each with its part of the proceeds."""
    amounts = [raw for _, raw, _ in sale.lots]
    total, sold = sale.entry.sol, sum(amounts)
    rows: list[SliceRow] = []
    for (_, raw, cost), proceeds in zip(sale.lots, share(total, amounts), strict=True):
        arithmetic = f"{total:,} × {raw:,} / {sold:,}"
        if total * raw % sold:
            is_last = raw == amounts[-1] and len(rows) == len(amounts) - 1
            arithmetic = "the rest" if is_last else f"{arithmetic}, rounded down"
        rows.append(
            SliceRow(raw, cost, arithmetic, proceeds, None if cost is None else proceeds - cost)
        )
    return rows


def _tell_sum(slices: Sequence[SliceRow]) -> str:
    known = [(one.proceeds, one.cost) for one in slices if one.cost is not None]
    gained = " + ".join(f"{proceeds:,}" for proceeds, _ in known)
    return " ".join([gained, *(write_exact(-cost) for _, cost in known)]).replace(" −", " − ")
