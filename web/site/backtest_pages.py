"""An owner's backtests: a form, and each result with a table and a chart."""

from decimal import Decimal
from typing import Any

import orjson
from flask import Blueprint, Response, g, redirect, render_template, url_for
from flask.typing import ResponseReturnValue

from accounts import backtests
from accounts.problem import Problem
from paper.account import STARTING_CASH
from paper.strategies import FAMILIES, Strategy, show_settings
from paper.tables import Backtest
from storage.rows import make_object, make_shape, read_stored
from web.api.paper_closes import Point
from web.server import sessions
from web.server.gate import settings
from web.site.charts import Curve, thin_out
from web.site.creator import forbid_caching, require_owner
from web.site.forms import Texts, list_errors, read_texts, without_secrets
from web.site.new_trader import FAMILIES as FAMILY_TEXTS
from web.site.pictures import MAX_DRAWN, draw_equity, parse_time

blueprint = Blueprint("backtests", __name__)
blueprint.before_request(sessions.check_sender)
blueprint.after_request(forbid_caching)
SOL = 10**9
# By definition, holding SOL earns nothing in SOL.
HOLDING = {"meanReturnPct": 0.0, "winRate": None, "maxDrawdownPct": None}
REPORT = make_shape(make_object(kind=str, equity=list[Any], closes=list[Any], candidates=list[Any]))


@blueprint.get("/backtests")
def show_backtests() -> ResponseReturnValue:
    if sessions.find_owner() is None:
        return render_template("backtests.html", owner=None)
    return render_form({})


def render_form(
    typed: Texts, errors: Texts | None = None, status: int = 200, headers: Any = None
) -> ResponseReturnValue:
    runs = backtests.list_backtests(settings(), require_owner(), g.now)
    page = render_template(
        "backtests.html",
        owner=require_owner(),
        typed=without_secrets(typed),
        errors=errors or {},
        families=FAMILY_TEXTS,
        settings={family: list_settings(kind()) for family, kind in FAMILIES.items()},
        runs=[(run, backtests.read_asked(run)) for run in runs],
    )
    return page, status, headers or {}


def list_settings(strategy: Strategy) -> str:
    return " ".join(f"{name}={value}" for name, value in show_settings(strategy).items())


@blueprint.post("/backtests")
def begin_backtest() -> ResponseReturnValue:
    owner, typed = require_owner(), read_texts(*backtests.FIELDS)
    try:
        run = backtests.begin_backtest(settings(), owner, {**typed, "start": "standard"}, g.now)
    except Problem as problem:
        found = list_errors(problem)
        status = 422 if problem.code == "not_found" else problem.status
        return render_form(typed, found, status, problem.headers)
    return redirect(url_for("backtests.show_backtest", uid=run.uid))


@blueprint.get("/backtests/<uid>")
def show_backtest(uid: str) -> ResponseReturnValue:
    run = backtests.find_backtest(settings(), require_owner(), uid, g.now)
    report = read_report(run) if run.state == "done" else None
    return render_template(
        "backtest.html",
        run=run,
        asked=backtests.read_asked(run),
        report=report,
        equity=draw(report) if report else None,
        started=STARTING_CASH,
        points=thin_out(report["equity"], MAX_DRAWN) if report else [],
        chosen=name_chosen(report) if report else "",
        candidates=list_compared(report) if report else [],
    )


def name_chosen(report: dict[str, Any]) -> str:
    """Return the name of the settings behind a report's figures, or "" if no others were tried."""
    if len(report["candidates"]) == 1:
        return ""
    return f"with {name_candidate(report['settings'], report)}"


def list_compared(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for one in report["candidates"]:
        name = name_candidate(one["settings"], report)
        rows.append((name, one["comparison"]))
        rows.append((f"{name}: random entries", one["controls"]["randomEntry"]))
    return [*rows, ("Holding SOL", HOLDING)]


def draw(report: dict[str, Any]) -> Curve | None:
    points = [
        Point(parse_time(one["at"]) * 1000, int(Decimal(one["sol"]) * SOL))
        for one in report["equity"]
    ]
    return draw_equity(points, parse_time(report["to"]) * 1000)


def name_candidate(shown: dict[str, int], report: Any) -> str:
    others = [one["settings"] for one in report["candidates"]]
    differing = [name for name in shown if len({one[name] for one in others}) > 1]
    return ", ".join(f"{name} {shown[name]}" for name in differing) or "As asked"


@blueprint.get("/backtests/<uid>.json")
def show_json(uid: str) -> ResponseReturnValue:
    return Response(orjson.dumps(find_report(uid)), mimetype="application/json")


@blueprint.get("/backtests/<uid>.csv")
def show_csv(uid: str) -> ResponseReturnValue:
    return Response(backtests.write_table(find_report(uid)), mimetype="text/csv")


def find_report(uid: str) -> Any:
    """Return the result of the owner's finished backtest. Raises Problem `not_found`."""
    run = backtests.find_backtest(settings(), require_owner(), uid, g.now)
    if run.result is None:
        raise Problem("not_found", "this backtest has no result")
    return read_report(run)


def read_report(run: Backtest) -> Any:
    """Parse a finished backtest's result. Raises Problem `not_found` if it is damaged."""
    report = read_stored(run.result, REPORT)
    if report is None:
        raise Problem("not_found", "this backtest's result is unreadable; run it again")
    return report
