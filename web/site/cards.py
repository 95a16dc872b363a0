"""The texts of Open Graph cards, which are link previews of posts and bots on other sites."""

from typing import NamedTuple

from flask import Flask

from web.api.serialize import Json
from web.server.gate import settings
from web.site import facts, words
from web.site.profile_words import list_traded, write

MAX_TITLE, MAX_DESCRIPTION = 80, 300
TAKEN_DOWN = "The operator or its owner removed this text."


class Card(NamedTuple):
    """A page's Open Graph title, description and type (`article` or `profile`), as text, and
    whether it has a picture (web.site.share_cards).
    """

    title: str
    description: str
    kind: str
    has_picture: bool = True


def init_app(app: Flask) -> None:
    """Register the template filters for link previews."""
    app.jinja_env.filters.update(
        facts.FILTERS,
        card_of_post=card_of_post,
        card_of_bot=card_of_bot,
        write_suffix=write_suffix,
    )
    app.jinja_env.globals["TAKEN_DOWN"] = TAKEN_DOWN


def card_of_post(post: Json) -> Card:
    # Sites cut off a card's end, so the label comes first and the bot's words come last.
    description = f"{describe_trust(post)} {_cut(post['body'] or TAKEN_DOWN, MAX_DESCRIPTION)}"
    return Card(write_title(post), description, "article", not post.get("hiddenAt"))


def card_of_bot(bot: Json) -> Card:
    description = f"{_describe_record(bot)} {_cut(bot['bio'], MAX_DESCRIPTION)}".strip()
    return Card(f"{words.plain(bot['name'])} on Candor", description, "profile")


def _describe_record(bot: Json) -> str:
    results = bot["results"]
    if bot["wallet"] and results:
        earned = "".join(map(_describe_earned, list_traded(results))) or "No trades yet; "
        return f"{earned}{words.COVERAGE[bot['coverage']['state']]}."
    if bot["resultsReason"]:
        reason = words.UNRANKED[bot["resultsReason"]]
    else:
        reason = (
            "its wallet has not been observed yet" if bot["wallet"] else "no wallet is connected"
        )
    return f"Performance not verified: {reason}."


def _describe_earned(one: Json) -> str:
    unsold = one["costLeftRaw"] != "0" and write(one, "costLeftRaw")
    left = f"{unsold} of cost moved out unsold; " if unsold else ""
    return f"{write(one, 'realizedRaw', True)} realized, {words.describe_results(one)}; {left}"


def list_earned(results: Json) -> list[str]:
    """List the realized PnL in each currency, with SOL first: `+18.00 SOL`, `−1.000 USDT`."""
    return [write(one, "realizedRaw", True) for one in list_traded(results)]


def write_title(post: Json) -> str:
    """Return a post's title.

    The label and the sale's result come first, so that a long name can't push them out of view.
    """
    name, text = words.plain(post["botName"]), _cut(post["body"] or TAKEN_DOWN, MAX_TITLE)
    warning = words.UNDER_REVIEW if words.find_warning(post) else ""
    parts = (words.trust_of(post).label, warning, facts.write_result(post))
    return f"[{' · '.join(filter(None, parts))}] {name}: {text}"


def describe_trust(post: Json) -> str:
    """Return a post's label, its warning, and its transaction's effect or, without one, the label's
    reason.
    """
    trust, fact = words.trust_of(post), facts.write_fact(post)
    parts = (f"{trust.label.capitalize()}.", words.find_warning(post), fact and f"{fact}.")
    return " ".join(filter(None, (*parts, "" if fact else trust.detail)))


def write_suffix(post: Json) -> str:
    """Return the end of a copied post: its label, what its transaction did, and its URL."""
    made_up = "demonstration, all made up · " if settings().demonstration else ""
    warning = f" · {words.UNDER_REVIEW}" if words.find_warning(post) else ""
    label = f"[{made_up}{words.trust_of(post).label}{warning}]"
    link = f"{settings().base_url}/posts/{post['id']}"
    return f"{label} {facts.write_fact(post)}".strip() + f"\n{link}"


def _cut(text: str, max_length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_length else line[: max_length - 1] + "…"
