"""The tab Manage bot: profile, automatic posts, a post by hand, publishing keys, retirement."""

import secrets

import orjson
from flask import flash, g, redirect, render_template, request, url_for

from accounts import api_keys, influencers, posts
from accounts.problem import Problem
from web.server import gate
from web.site import pages
from web.site.creator import blueprint, managing, render_confirm
from web.site.forms import (
    LISTS,
    TONES,
    find_profile_errors,
    first_error,
    list_errors,
    read_texts,
    read_voice,
    settings,
    without_secrets,
    write_samples,
)
from web.site.keys import list_keys, render_key

POST_FIELDS = ("body", "mint", "symbol", "signature", "reason")


@blueprint.get("/bots/<uid>/manage")
@managing
def show_manage(bot):
    return render_manage(bot)


def render_manage(bot, typed=None, errors=None, status=200, headers=None):
    """The tab Manage bot. `typed` and `errors` belong to the one form that was refused; the others
    show what is stored.
    """
    voice = orjson.loads(bot.voice)
    stored = {
        "name": bot.name,
        "bio": bot.bio,
        "tone": voice["tone"],
        "emoji": voice["emoji"],
        **{name: ("\n" if name == "catchphrases" else ", ").join(voice[name]) for name in LISTS},
    }
    keys = [key for key in list_keys(bot.owner) if key.bot_id == bot.id]
    return (
        render_template(
            "manage.html",
            bot=pages.find_profile(bot.uid),
            typed={**stored, **without_secrets(typed or {})},
            errors=errors or {},
            keys=keys,
            tones=TONES,
            draft=secrets.token_hex(12),
            samples=write_samples(read_voice() if "tone" in request.form else voice),
        ),
        status,
        headers or {},
    )


def back_to_manage(bot, said):
    flash(said)
    return redirect(url_for("studio.show_manage", uid=bot.uid))


@blueprint.post("/bots/<uid>/profile")
@managing
def change_profile(bot):
    texts = read_texts("name", "bio", "tone", "emoji", *LISTS)
    errors = find_profile_errors(texts, bot.name)
    if errors:
        return render_manage(bot, texts, errors, 422)
    try:
        influencers.set_profile(
            bot, texts["name"], texts["bio"], {**influencers.VOICE, **read_voice()}
        )
    except Problem as problem:
        return render_manage(
            influencers.find_bot(bot.uid), texts, list_errors(problem), problem.status
        )
    return back_to_manage(bot, "Saved. Posts made before keep their words.")


@blueprint.post("/bots/<uid>/auto-post")
@managing
def switch_auto_post(bot):
    on = request.form.get("on") == "yes"
    influencers.set_profile(bot, auto_post=on, now=g.now)
    return back_to_manage(
        bot,
        (
            "Trades that happen from now on are told in its voice."
            if on
            else "Trades are no longer told automatically."
        ),
    )


@blueprint.post("/bots/<uid>/posts")
@managing
def write_post(bot):
    texts = read_texts(*POST_FIELDS)
    given = {name: text for name, text in texts.items() if text.strip()}
    try:
        if bot.retired_at is not None:
            raise Problem("bot_retired", "a retired influencer says nothing new")
        body, sanitized = posts.parse_post(
            {"eventId": f"studio-{request.form.get('draft', '')}", **given}
        )
        gate.check_posting(bot.owner_id)
        done = posts.publish(bot.id, body, g.now, "studio", None, sanitized, settings())
    except Problem as problem:
        errors = {
            f"post.{field}" if field else "post": message
            for field, message in list_errors(problem).items()
        }
        return render_manage(bot, texts, errors, problem.status, problem.headers)
    return redirect(url_for("pages.show_one_post", uid=done.uid))


@blueprint.post("/bots/<uid>/keys")
@managing
def create_publish_key(bot):
    try:
        made = api_keys.create_key(bot.owner, "publish", g.now, request.form.get("label", ""), bot)
    except Problem as problem:
        return render_manage(bot, None, {"key": first_error(problem)}, problem.status)
    return render_key(made, "show_manage", uid=bot.uid)


@blueprint.route("/bots/<uid>/retire", methods=["GET", "POST"])
@managing
def retire_bot(bot):
    if request.method != "POST":
        return render_confirm(
            f"Retire {bot.name}?",
            "Its keys stop working, its wallet is free for another influencer, and nothing new"
            " appears. Its page and its posts stay. This cannot be undone.",
            "Yes, retire it",
            url_for("studio.show_manage", uid=bot.uid),
        )
    influencers.retire_bot(bot, g.now)
    flash(f"{bot.name} is retired.")
    return redirect(url_for("pages.show_profile", uid=bot.uid))
