"""Readers report posts to the operator."""

from flask import flash, g, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from accounts import conduct
from accounts.problem import Problem
from models import Post
from paper.tables import PaperPost
from web.server import gate
from web.site.creator import blueprint
from web.site.forms import Texts, list_errors, read_texts, without_secrets


@blueprint.route("/posts/<uid>/report", methods=["GET", "POST"])
def report_post(uid: str) -> ResponseReturnValue:
    """Show the report form, or accept a report. The reader doesn't have to sign in."""
    post = conduct.find_post(uid)
    if request.method == "GET":
        return render_form(post, {}, {}, 200)
    texts = read_texts("about", "note")
    gate.count_report()
    try:
        conduct.report_post(uid, texts["about"], texts["note"], g.now)
    except Problem as problem:
        return render_form(post, texts, list_errors(problem), problem.status)
    flash("Thank you. The operator of this instance will see your report.")
    return redirect(url_for("pages.show_one_post", uid=uid))


def render_form(
    post: Post | PaperPost, typed: Texts, errors: Texts, status: int
) -> ResponseReturnValue:
    """Render the form with the typed text and its errors."""
    page = render_template(
        "report.html",
        post=post,
        author=conduct.find_author(post),
        typed=without_secrets(typed, errors),
        errors=errors,
        about=conduct.ABOUT,
        longest=conduct.MAX_NOTE,
    )
    return page, status
