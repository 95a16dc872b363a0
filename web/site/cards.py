"""What other sites show of a post or an influencer: the card a link unfolds to (Open Graph), and
/embed/{id}, the one page that may be framed.
"""

from dataclasses import dataclass

from flask import Blueprint, Response, current_app, request

from accounts.problem import Problem
from web.api import timeline
from web.site import words

blueprint = Blueprint("cards", __name__)
MAX_TITLE, MAX_DESCRIPTION = 80, 300
GONE = "The operator took these words down."
FRAMED_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"
)


@dataclass(frozen=True)
class Card:
    """Title, description and kind (`article` or `profile`) of a page, all text."""

    title: str
    description: str
    kind: str


def init_app(app):
    app.jinja_env.filters.update(card_of_post=card_of_post, card_of_bot=card_of_bot)


def card_of_post(post):
    """Whoever shows a card shortens it from behind: this instance's label comes first, the bot's
    words last.
    """
    return Card(
        write_title(post),
        f"{say_trust(post)} {_cut(post['body'] or GONE, MAX_DESCRIPTION)}",
        "article",
    )


def card_of_bot(bot):
    """`bot` as the interface shows it."""
    if bot["wallet"] and bot["results"]:
        said = (
            f"{words.signed(bot['results']['realizedSol'])} SOL realised,"
            f" {words.say_results(bot['results'])}; history"
            f" {words.COVERAGE[bot['coverage']['state']]}."
        )
    else:
        said = f"Performance not verified: {_say_why(bot)}."
    return Card(
        f"{words.plain(bot['name'])} on Candor",
        f"{said} {_cut(bot['bio'], MAX_DESCRIPTION)}".strip(),
        "profile",
    )


def _say_why(bot):
    if bot["resultsReason"]:
        return words.UNRANKED[bot["resultsReason"]]
    return "its wallet was not looked at yet" if bot["wallet"] else "no wallet is connected"


def write_title(post):
    """The label comes first: no name is sly enough to hide it."""
    return (
        f"[{words.trust_of(post).label}] {words.plain(post['botName'])}:"
        f" {_cut(post['body'] or GONE, MAX_TITLE)}"
    )


def say_trust(post):
    trust = words.trust_of(post)
    return f"{trust.label.capitalize()}. {trust.detail}"


def _cut(text, longest):
    """On one line, at most so long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


@blueprint.get("/embed/<uid>")
def show_embedded(uid):
    """Rendered without what pages know of their reader: no session is looked at, no cookie set,
    nothing can be clicked but a way out.
    """
    post, config = timeline.find_post(uid), current_app.config["CANDOR"]
    if post is None:
        raise Problem("not_found", "there is no such post")
    html = current_app.jinja_env.get_template("embed.html").render(
        post=post, trust=words.trust_of(post), config=config, gone=GONE
    )
    response = Response(
        html,
        headers={
            "Content-Security-Policy": FRAMED_POLICY,
            "Cross-Origin-Resource-Policy": "cross-origin",
            "Cache-Control": "no-cache",
        },
    )
    response.add_etag()
    return response.make_conditional(request)
