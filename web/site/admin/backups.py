"""Backups that the operator starts with a button."""

from flask import flash, g, redirect, render_template, url_for
from flask.typing import ResponseReturnValue

from accounts.acts import store_act
from operate import backups
from operate.instance import Refused
from storage import database, writing
from web.server.gate import settings
from web.site.admin.entry import blueprint, find_session


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
    """Start a backup in the background."""
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
