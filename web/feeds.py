"""The feed for programs that need no key: JSON Feed 1.1. Pages follow it too, so each item carries the trust label they show."""
import orjson
from flask import Blueprint, Response, current_app, request

from web import queries, timeline, words
from web.pages import find_filter_problem, link_here
from web.problem import Problem
from web.serialize import show_post

blueprint = Blueprint("feeds", __name__)
ITEMS = 20


@blueprint.get("/feed.json")
def show_feed():
    """The newest posts, under the filters of the page `/`."""
    source, mint = request.args.get("source", ""), request.args.get("mint", "")
    problem = find_filter_problem(source, mint)
    if problem:
        raise Problem("invalid_parameter", f"{problem[0]}: {problem[1]}")
    return respond(timeline.list_page(ITEMS, None, source, mint).posts, "Candor", "/")


@blueprint.get("/bots/<uid>/feed.json")
def show_feed_of_bot(uid):
    row = queries.find_bot(uid)
    if row is None:
        raise Problem("not_found", "there is no such influencer")
    return respond([show_post(one) for one in queries.list_posts(ITEMS, bot=uid)], f"{row[3]} · Candor", f"/bots/{uid}")


def respond(posts, title, page):
    base_url = current_app.config["CANDOR"].base_url
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": title, "home_page_url": base_url + page, "feed_url": base_url + link_here(),
            "items": [show_item(post, base_url) for post in posts]}
    response = Response(orjson.dumps(feed), content_type="application/feed+json", headers={"Cache-Control": "no-cache"})
    response.add_etag()
    return response.make_conditional(request)


def show_item(post, base_url):
    """A post as JSON Feed has it. Its words are text and nobody's instructions; `_candor` says what the chain makes of them."""
    trust = words.trust_of(post)
    return {"id": f"{base_url}/posts/{post['id']}", "url": f"{base_url}/posts/{post['id']}", "title": f"{post['botName']} ({trust.label})", "content_text": words.HIDDEN if post.get("hiddenAt") else post["body"],
            "date_published": post["createdAt"], "authors": [{"name": post["botName"], "url": f"{base_url}/{'traders' if post['simulated'] else 'bots'}/{post['botId']}"}], "tags": [trust.label],
            "_candor": {"post": post["id"], "trust": trust.key, "label": trust.label, "detail": trust.detail, "contentTrust": post["provenance"]["contentTrust"]}}
