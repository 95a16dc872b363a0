"""The operator's home page and backups."""

from typing import Any

from flask import flash, g, redirect, render_template, url_for
from flask.typing import ResponseReturnValue

import storage
from accounts import admin, conduct, quotas
from accounts.acts import ACTS, store_act
from evidence import log
from operate import backups
from operate.instance import Refused
from storage import database, writing
from storage.trouble import find_free
from web.api import health
from web.server.gate import settings
from web.site.admin.entry import blueprint, find_session
from web.site.admin.lists import read_list
from web.site.log_pages import find_key

MAX_ACTS, MAX_BACKUPS = 10, 5
LEVELS = ("wrong", "look", "fine")


@blueprint.get("")
def show_overview() -> ResponseReturnValue:
    # Imported here because it loads the node and rebuild modules, which would add 10% to startup.
    from operate import doctor

    config = settings()
    applied = storage.list_applied(database)
    findings = doctor.examine_lightly(config, g.now, database.execute_sql, applied)
    reports, listed = conduct.count_open(), backups.list_backups(config)
    is_unsaved = not config.database_url and not listed
    return render_template(
        "admin/overview.html",
        reports=reports,
        open=sum(one.level != "fine" for one in findings) + bool(reports) + is_unsaved,
        findings=sorted(findings, key=lambda finding: LEVELS.index(finding.level)),
        health=health.check_instance(),
        uses=quotas.list_use(database.execute_sql, config, g.now),
        sizes=database.list_sizes(),
        free=find_free(config.data_dir),
        log=show_log(),
        session=find_session(),
        sessions=admin.list_sessions(g.now),
        done=read_list("acts", MAX_ACTS),
        acts=ACTS,
        has_file=not config.database_url,
        backups=listed[:MAX_BACKUPS],
    )


def show_log() -> dict[str, Any]:
    """Return the log's checkpoint (None if there isn't one yet), and what witnesses saw."""
    one = log.find_log()
    return {
        "checkpoint": log.make_checkpoint(one) if one else None,
        "key": find_key(),
        "watched": log.list_witnessed(),
    }


# ---- backups -------------------------------------------------------------------------------------
@blueprint.get("/backups")
def list_backups() -> ResponseReturnValue:
    config = settings()
    return render_template(
        "admin/backups.html",
        backups=backups.list_backups(config),
        folder=backups.find_folder(config),
        most=backups.MAX_LISTED,
        is_at_work=backups.is_at_work(config),
        has_file=not config.database_url,
    )


@blueprint.post("/backups")
def make_backup() -> ResponseReturnValue:
    who, now = find_session().uid, g.now

    def tell(name: str, problem: str | None) -> None:
        with database.connection_context(), writing():
            store_act("fail_backup" if problem else "make_backup", who, now, name, problem)

    try:
        name = backups.begin_backup(settings(), now, tell)
    except Refused as refusal:
        flash(f"Not started: {refusal}.", "error")
    else:
        with writing():
            store_act("begin_backup", who, now, name)
        flash("The backup is running. Reload this page to see it.")
    return redirect(url_for("admin.list_backups"))
