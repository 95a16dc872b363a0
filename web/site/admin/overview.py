"""The operator's home page: problems, background jobs, storage and recent actions."""

from typing import Any

from flask import g, render_template
from flask.typing import ResponseReturnValue

import storage
from accounts import admin, conduct, quotas
from accounts.acts import ACTS
from evidence import log
from operate import backups
from storage import database
from storage.trouble import find_free
from web.api import health
from web.server.application import find_app
from web.server.gate import settings
from web.site.admin import queries
from web.site.admin.entry import blueprint, find_session

MAX_ACTS, MAX_BACKUPS = 10, 5
LEVELS = ("wrong", "look", "fine")


@blueprint.get("")
def show_overview() -> ResponseReturnValue:
    # Imported here because it loads the node and rebuild modules, which would add 10% to startup.
    from operate import doctor

    config = settings()
    applied = storage.list_applied(database)
    findings = doctor.examine_lightly(config, g.now, database.execute_sql, applied)
    return render_template(
        "admin/overview.html",
        reports=conduct.count_open(),
        findings=sorted(findings, key=lambda finding: LEVELS.index(finding.level)),
        health=health.check_instance(g.now),
        uses=quotas.list_use(database.execute_sql, config, g.now),
        sizes=database.list_sizes(),
        free=find_free(config.data_dir),
        log=show_log(),
        session=find_session(),
        sessions=admin.list_sessions(g.now),
        done=queries.read_list("acts", MAX_ACTS),
        acts=ACTS,
        has_file=not config.database_url,
        backups=backups.list_backups(config)[:MAX_BACKUPS],
    )


def show_log() -> dict[str, Any]:
    """Return the log's checkpoint (None if there isn't one yet), and what witnesses saw."""
    one = log.find_log()
    return {
        "checkpoint": log.make_checkpoint(one) if one else None,
        "key": one and str(find_app().log_signer.verifier(one.origin)),
        "watched": log.list_witnessed(),
    }
