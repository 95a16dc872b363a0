"""Leaving: everything of an account as one archive, and its end."""

import tempfile

from flask import flash, g, redirect, render_template, request, send_file, url_for
from flask.typing import ResponseReturnValue

from accounts import departures, influencers
from config import VERSION
from web.server import gate, sessions
from web.server.gate import settings
from web.site.creator import blueprint, require_owner

# What has to be typed.
CONFIRMATION = "delete my account"
# An archive is kept in memory up to this many bytes.
MAX_IN_MEMORY = 4_000_000


@blueprint.post("/account/export")
def export_account() -> ResponseReturnValue:
    """Send the archive of all that the owner has."""
    owner = require_owner()
    gate.count_export()
    # Sent once it is whole: nobody takes a broken one for an archive.
    file = tempfile.SpooledTemporaryFile(MAX_IN_MEMORY)  # noqa: SIM115
    departures.write_archive(owner, settings().base_url, VERSION, g.now, file)
    file.seek(0)
    name = f"candor-{owner.uid}.zip"
    return send_file(file, "application/zip", as_attachment=True, download_name=name, max_age=0)


@blueprint.route("/account/delete", methods=["GET", "POST"])
def delete_account() -> ResponseReturnValue:
    """Ask what deleting the account means, and do it once that was typed."""
    owner = require_owner()
    typed = " ".join(request.form.get("confirmation", "")[:100].split()).lower()
    if request.method == "POST" and typed == CONFIRMATION:
        departures.delete_owner(owner, g.now)
        sessions.end_session()
        flash("Your account is deleted.")
        return redirect(url_for("studio.show_connect"))
    errors = {"confirmation": f"Type: {CONFIRMATION}"} if request.method == "POST" else {}
    bots = influencers.list_bots_of(owner)
    page = render_template(
        "delete_account.html", bots=bots, errors=errors, confirmation=CONFIRMATION
    )
    return page, 422 if errors else 200
