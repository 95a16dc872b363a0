"""The owner's pages, form by form: permissions, what is shown once, what a rejected form keeps,
what is stored.
"""

import functools
import html
import re
import time
from typing import NamedTuple
from unittest import mock

import orjson
import pytest
from nacl.signing import SigningKey
from peewee import OperationalError
from service import NOW, address, signature
from werkzeug.test import TestResponse

from accounts import api_keys, wallets
from chain import addresses
from chain.stored.derived import NOT_POLLED
from models import Attachment, Bot, Key, Owner, Post, Session, Wallet
from paper.tables import Period, Trader

KEY_TEXT = re.compile(r"cnd_(?:pub|read)_[A-Za-z0-9]{49}")
SEED = " ".join(["abandon"] * 11 + ["about"])
PRIVATE = "5" * 87
SIGNER = SigningKey(b"w" * 32)
OWNED = addresses.b58encode(bytes(SIGNER.verify_key))
TRADER = {"name": "Wren", "family": "breakout", "start": "guarded"}


class Created(NamedTuple):
    page: TestResponse
    uid: str
    key: str
    code: str | None


class Browser:
    """A browser with its own cookies, which sends forms with their page's token."""

    def __init__(self, service):
        self.client = service.app.test_client()

    def get(self, path, **headers):
        return self.client.get(path, headers=headers)

    def send(self, path, page="/connect", headers=None, **typed):
        """Post a form as the page at `page` would."""
        return self.client.post(
            path, data={"csrf_token": self.token(page), **typed}, headers=headers
        )

    def token(self, page="/connect"):
        return re.search(r'name="csrf_token" value="([^"]+)"', self.client.get(page).text)[1]

    def create(self, name="Nell", **typed):
        """A new bot; the recovery code is None unless the account is new too."""
        page = self.send("/connect", name=name, **typed)
        assert page.status_code == 200, errors_of(page)
        uid = re.search(r"/bots/(bot_\w+)", page.text)[1]
        return Created(page, uid, shown(page, "publish-key"), shown(page, "recovery-code"))


def shown(page, name):
    """A value that a page shows in an element of its own, or None."""
    found = re.search(rf'id="{name}">([^<]+)<', page.text)
    return found and html.unescape(found[1])


def errors_of(page):
    """{field: message} of the errors shown next to fields."""
    return {
        field: html.unescape(said)
        for field, said in re.findall(r'<p class="error" id="e-(\w+)">([^<]+)</p>', page.text)
    }


def check_refused(page, field, said, status=422):
    assert page.status_code == status
    assert said in errors_of(page)[field]


@pytest.fixture
def nell(browser):
    """The uid of a bot that this browser manages."""
    return browser.create(wallet=address("nell")).uid


@pytest.fixture
def other(service):
    return Browser(service)


# ---- what every form keeps -----------------------------------------------------------------------
PROFILE = {"name": "Kept name", "bio": "Kept bio", "tone": "kept tone", "topics": "kept, too"}
FORMS = {
    "connect": ("/connect", PROFILE),
    "profile": ("/bots/{bot}/profile", PROFILE),
    "post": ("/bots/{bot}/posts", {"body": "Kept words"}),
    "wallet": ("/bots/{bot}/wallet", {}),
    "proof": ("/bots/{bot}/challenge", {}),
    "trader": ("/traders/new", {**TRADER, "name": "Kept name", "bio": "Kept bio"}),
    "copy": ("/traders/new", {**TRADER, "family": "copy"}),
}
REFUSED = [
    ("connect", "name", "", "1 to 60 characters"),
    ("connect", "name", "a\x00b", "control characters"),
    ("connect", "bio", "b" * 501, "0 to 500"),
    ("connect", "wallet", "nonsense", "base58 of 32 bytes"),
    ("connect", "wallet", SEED, "was not stored"),
    ("connect", "wallet", PRIVATE, "was not stored"),
    ("connect", "tone", "t" * 61, "0 to 60"),
    ("connect", "topics", ",".join("abcdefghijklm"), "at most 12"),
    ("profile", "name", "", "1 to 60"),
    ("post", "signature", "nonsense", "base58 of 64 bytes"),
    ("wallet", "wallet", SEED, "was not stored"),
    ("proof", "prove", SEED, "was not stored"),
    ("trader", "name", "", "1 to 60 characters"),
    ("copy", "bot", "", "ust be the ID of a bot"),
    ("copy", "bot", "bot_0", "no such bot"),
]


@pytest.mark.parametrize("form, field, typed, said", REFUSED)
def test_an_invalid_field_is_explained_and_input_is_kept(browser, nell, form, field, typed, said):
    path, rest = FORMS[form]
    page = browser.send(path.format(bot=nell), **{**rest, field: typed})
    check_refused(page, field, said)
    assert list(errors_of(page)) == [field] and f'aria-describedby="e-{field}' in page.text
    shown = html.unescape(page.text)
    for name, kept in rest.items():
        assert name == field or f'"{kept}"' in shown or f">{kept}<" in shown, name
    # A typo is kept for correction; a possible secret is not.
    assert SEED not in shown and PRIVATE not in shown
    assert (typed == "nonsense") == ('value="nonsense"' in shown)
    assert [one.select().count() for one in (Bot, Post, Trader)] == [1, 0, 0]


def test_all_invalid_fields_are_named_at_once(browser):
    page = browser.send("/connect", name="", bio="b" * 501, wallet="x", tone="t" * 61)
    assert set(errors_of(page)) == {"name", "bio", "wallet", "tone"}
    page = browser.send("/traders/new", name=" ", family="luck", start="soon")
    assert set(errors_of(page)) == {"name", "family", "start"}
    assert Owner.select().count() == 0


# ---- creating ------------------------------------------------------------------------------------
def test_a_form_creates_a_bot_with_a_working_key_shown_once(service, browser):
    voice = {"tone": "dry", "topics": "fees, launches", "catchphrases": "Steady.\r\nNo, really."}
    page, uid, key, code = browser.create(bio="Calm.", wallet=address("w"), **voice)
    assert re.fullmatch(r"(\w{5}-){5}\w", code)
    assert f"Bearer {key}" in page.text
    assert page.text.index("publish-key") < page.text.index("recovery-code")
    bot = service.get(f"/api/v1/bots/{uid}", key).json
    lists = {"topics": ["fees", "launches"], "catchphrases": ["Steady.", "No, really."]}
    assert bot["voice"] == {"tone": "dry", "style": [], "adjectives": [], **lists, "emoji": ""}
    assert (bot["wallet"]["address"], bot["bio"]) == (address("w"), "Calm.")
    for path in ("/connect", f"/bots/{uid}", f"/bots/{uid}/manage", "/"):
        text = browser.get(path).text
        assert not KEY_TEXT.search(text) and code not in text, path
    # A second one joins the same account.
    second = browser.create("Otto")
    assert second.code is None and "recovery" not in second.page.text.lower()
    assert Owner.select().count() == 1


def test_a_form_creates_a_paper_trader(browser):
    page = browser.send("/traders/new", **TRADER, bio="Calm.", tone="dry")
    assert re.fullmatch(r"(\w{5}-){5}\w", shown(page, "recovery-code"))
    (trader,) = Trader.select()
    stored = (trader.name, trader.family, trader.start_mode, trader.bio)
    assert stored == ("Wren", "breakout", "guarded", "Calm.") and '"tone":"dry"' in trader.voice
    assert Period.select().where(Period.twin == 0).count() == 1 == Session.select().count()
    for path in (f"/traders/{trader.uid}", "/traders"):
        assert "Wren" in browser.get(path).text
    # A second one joins the same account.
    made = browser.send("/traders/new", **{**TRADER, "name": "Otto"})
    assert made.location == f"/traders/{Trader.get(Trader.name == 'Otto').uid}"
    assert Owner.select().count() == 1


def test_a_copy_trader_copies_a_bot_that_is_not_retired(browser, nell):
    form = {**TRADER, "family": "copy", "bot": f" {nell} "}
    assert browser.send("/traders/new", **form).status_code == 302
    assert Trader.get().settings == f'{{"bot":"{nell}"}}'
    assert "1 paper trader copies an observed bot" in browser.get("/strategies").text
    Bot.update(retired_at=1).execute()
    check_refused(browser.send("/traders/new", **form), "bot", "Is retired")
    assert Trader.select().count() == 1


PUBLIC = """
/feed.json /feed.atom /bots/{bot}/feed.json /api/health /api/market /log/checkpoint
/log/tile/0/000.p/1 /bots/{bot}/evidence.json /bots/{bot}/badge.svg /bots/{bot}.png
/embed/bots/{bot} /robots.txt /bots/{bot}/trades.csv /openapi.json /skill.md /static/candor.js
"""
PAGES = "/ /bots/{bot} /leaderboard /docs /market /search?q=x /log/"


def test_only_pages_set_the_cookie_and_shared_caches_keep_none_of_them(service, browser, nell):
    """Anyone with it can sign in. Proxies may cache pictures, log tiles and scripts for a year."""
    for path in PUBLIC.format(bot=nell).split():
        with browser.get(path) as answer:
            assert answer.status_code == 200 and "Set-Cookie" not in answer.headers, path
    for path in PAGES.format(bot=nell).split():
        mine, others = browser.get(path), service.get(path)
        assert mine.headers["Cache-Control"] == "private, no-cache", path
        assert "Set-Cookie" in mine.headers and "Set-Cookie" not in others.headers, path
        assert "ETag" in others.headers and others.headers["Cache-Control"] == "no-cache", path


def test_a_form_sent_twice_creates_one_bot(browser, other):
    draft = "ab" * 12
    first = browser.create(draft=draft)
    again = browser.send("/connect", name="Nell", draft=draft)
    assert (again.status_code, again.location) == (302, f"/bots/bot_{draft}/manage")
    assert first.uid == f"bot_{draft}" and Bot.select().count() == 1
    assert "You already created this bot with this form" in browser.get(again.location).text
    # From another browser it is another form.
    second = other.create("Another", draft=draft)
    assert first.uid != second.uid and second.code


def test_a_taken_wallet_is_explained_and_the_rest_kept(other, nell):
    page = other.send("/connect", name="Thief", wallet=address("nell"))
    check_refused(page, "wallet", "another bot", 409)
    assert 'value="Thief"' in page.text and Bot.select().count() == 1


def test_a_new_bots_owner_sees_whether_its_wallet_is_observed(serve):
    told = {60: "Its wallet is now being observed", 0: "This instance doesn't observe wallets"}
    for seconds, said in told.items():
        made = Browser(serve(observer_interval_seconds=seconds)).create(wallet=address("nell"))
        assert said in html.unescape(made.page.text)


@pytest.mark.parametrize("path", ["/connect", "/traders/new"])
def test_a_closed_instance_creates_nothing(serve, path):
    browser = Browser(serve(registration="closed"))
    page = browser.get(path).text
    assert "Only the operator of this instance can create" in page and 'name="draft"' not in page
    assert browser.send(path, **TRADER).status_code == 403
    assert [one.select().count() for one in (Bot, Trader)] == [0, 0]


# ---- forms of others -----------------------------------------------------------------------------
def test_a_form_from_this_site_is_accepted(browser):
    same = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}
    for headers in (same, {"Sec-Fetch-Site": "none"}, {"Origin": "http://127.0.0.1:8000"}):
        assert browser.send("/logout", headers=headers).status_code == 302, headers


def test_a_form_without_its_token_is_shown_again_with_its_input(browser):
    typed = {"name": "Nell", "bio": "Kept <b>", "wallet": SEED, "csrf_token": "stale"}
    page = browser.client.post("/connect", data=typed)
    assert page.status_code == 400 and "send it again" in page.text.lower()
    assert 'name="bio" value="Kept &lt;b&gt;"' in page.text and SEED not in page.text
    again = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    assert browser.client.post("/connect", data=again).status_code == 200
    assert Bot.get().name == "Nell"


@pytest.mark.usefixtures("standing_clock")
def test_forms_are_limited_and_keep_their_input(serve):
    service = serve(creations_per_minute=3, failed_auth_per_minute=2, posts_per_minute=2)
    browsers = [Browser(service) for _ in range(4)]
    made = [one.create(f"Bot {n}").uid for n, one in enumerate(browsers[:3])]
    page = browsers[3].send("/connect", name="Fourth", bio="Still here")
    assert page.status_code == 429 and int(page.headers["Retry-After"]) > 0
    assert ">Still here<" in page.text and Bot.select().count() == 3
    # Nobody can guess a recovery code.
    assert [recover(service, f"guess {n}").status_code for n in range(4)] == [422, 422, 429, 429]
    drafts = [{"body": "x", "draft": str(n)} for n in range(3)]
    sent = [browsers[0].send(f"/bots/{made[0]}/posts", **one).status_code for one in drafts]
    assert sent == [302, 302, 429]


# ---- sessions and recovery -----------------------------------------------------------------------
def can_manage(browser, uid):
    return browser.get(f"/bots/{uid}/manage").status_code == 200


def recover(service, code):
    """The page that another browser gets for a recovery code."""
    return Browser(service).send("/recover", code=code)


def test_signing_out_ends_copied_cookies_too(other, browser, nell):
    other.client.set_cookie("session", browser.client.get_cookie("session").value)
    assert can_manage(other, nell)
    browser.send("/logout")
    assert not can_manage(browser, nell) and not can_manage(other, nell)
    assert Session.select().count() == 0


def test_a_recovery_code_works_once_signs_others_out_and_is_replaced(service, browser, other):
    _, uid, _, code = browser.create()
    page = other.send("/recover", code=code.lower().replace("-", " "))
    new = shown(page, "recovery-code")
    assert page.status_code == 200 and new != code
    assert can_manage(other, uid) and not can_manage(browser, uid)
    refused = recover(service, code)
    check_refused(refused, "code", "already used")
    assert code not in refused.text
    assert recover(service, new).status_code == 200


# What storage reports when a row can't be written.
FULL = mock.Mock(side_effect=OperationalError("database or disk is full"))


def test_a_failed_sign_in_uses_no_code_and_creates_nothing(browser, other, monkeypatch):
    _, uid, _, code = browser.create()
    with monkeypatch.context() as disk:
        disk.setattr(Session, "create", FULL)
        assert other.send("/recover", code=code).status_code == 503
        assert other.send("/connect", name="Otto").status_code == 503
        assert other.send("/traders/new", **TRADER).status_code == 503
    assert [one.select().count() for one in (Bot, Trader, Owner)] == [1, 0, 1]
    assert can_manage(browser, uid)
    assert other.send("/recover", code=code).status_code == 200


def test_only_the_current_recovery_code_gets_a_new_one(service, browser, other):
    """Anyone who stole a cookie could otherwise take over the account for good."""
    mine, theirs = browser.create().code, other.create("Otto").code
    for typed in ({}, {"present": theirs}):
        refused = browser.send("/recovery-code", **typed)
        check_refused(refused, "present", "operator")
        assert shown(refused, "recovery-code") is None
    new = shown(browser.send("/recovery-code", present=mine), "recovery-code")
    assert [recover(service, one).status_code for one in (mine, theirs, new)] == [422, 200, 200]


def test_an_expired_session_has_ended_and_a_forged_one_never_began(browser, other, nell):
    other.client.set_cookie("session", "eyJjcmVhdG9yIjoieCJ9.aaaa.bbbb")
    assert not can_manage(other, nell)
    Session.update(seen_at=Session.seen_at - 181 * 86_400_000).execute()
    page = browser.get(f"/bots/{nell}/manage")
    assert page.status_code == 403 and "recovery code" in page.text


def shift_clock(monkeypatch, seconds):
    """As on a machine whose clock is this far ahead or behind."""
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + seconds * 10**9)


def test_servers_with_different_clocks_share_sessions(browser, nell, monkeypatch):
    for seconds in (-86_400 * 365, -3, 86_400):
        with monkeypatch.context() as elsewhere:
            shift_clock(elsewhere, seconds)
            assert can_manage(browser, nell)
            assert browser.send("/connect/keys", label="k").status_code == 200
        assert can_manage(browser, nell)


def test_a_slow_clock_sets_a_lasting_cookie(browser, monkeypatch):
    """A small computer without a battery starts in 1970. Browsers would drop such a cookie."""
    shift_clock(monkeypatch, -50 * 365 * 86_400)
    page, uid, _, _ = browser.create()
    ends = re.search(r"Expires=\w+, \d+ \w+ (\d+)", page.headers["Set-Cookie"])[1]
    assert int(ends) > 2100 and can_manage(browser, uid)


def visit(service):
    """A Browser that uses https."""
    browser, site = Browser(service), "https://candor.example"
    options = {"base_url": site, "environ_base": {"HTTP_REFERER": f"{site}/connect"}}
    browser.client.open = functools.partial(browser.client.open, **options)
    return browser


def test_behind_https_only_this_host_can_set_the_cookie(serve):
    """Another host of the domain may set a cookie with the plain name."""
    secure = serve(base_url="https://candor.example", allowed_hosts=("candor.example",))
    eve, other = visit(secure), visit(secure)
    page, uid, *_ = eve.create("Eve")
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Host-session=") and "Domain" not in cookie
    assert {"Secure", "Path=/", "HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
    copied = eve.client.get_cookie("__Host-session", "candor.example").value
    other.client.set_cookie("session", copied, domain="candor.example", secure=True)
    assert not can_manage(other, uid)


# ---- keys ----------------------------------------------------------------------------------------
def test_a_read_key_is_created_shown_once_and_works(service, browser, nell):
    page = browser.send("/connect/keys", label="research")
    key = shown(page, "read-key")
    assert service.get("/api/v1/feed", key).status_code == 200
    assert service.post({"eventId": "1", "body": "x"}, key).status_code == 403
    again = browser.get("/connect").text
    assert "research" in again and f"cnd_read_…{key[-4:]}" in again and key not in again


def test_a_key_is_revoked_after_confirmation_and_is_not_rotated(service, browser):
    _, uid, text, _ = browser.create()
    manage, key = f"/bots/{uid}/manage", f"/keys/{Key.get().uid}"
    assert "Yes, revoke it" in browser.get(f"{key}/revoke").text
    assert service.get("/api/v1/me", text).status_code == 200
    browser.send(f"{key}/revoke")
    assert service.get("/api/v1/me", text).status_code == 401
    assert '<p class="notice message" role="status">Key revoked.' in browser.get(manage).text
    assert browser.send(f"{key}/rotate").status_code == 302 and Key.select().count() == 1
    # A failure doesn't look like a success.
    failed = r'<p class="notice error" role="alert">[^<]*revoked or has expired'
    assert re.search(failed, browser.get(manage).text)


def test_a_twenty_first_key_is_refused_next_to_its_field(browser, nell):
    for _ in range(19):
        api_keys.create_key(Owner.get(), "read", NOW)
    for path in ("/connect/keys", f"/bots/{nell}/keys"):
        check_refused(browser.send(path, label="21st"), "label", "at most 20", 409)


# ---- profile, posts, wallet ----------------------------------------------------------------------
def test_the_profile_changes_and_a_cleared_field_is_empty(service, browser):
    _, uid, key, _ = browser.create(tone="dry", topics="fees", emoji="x")
    browser.send(f"/bots/{uid}/profile", name="Nelly", bio="New", tone="solemn", style="terse, odd")
    bot = service.get(f"/api/v1/bots/{uid}", key).json
    assert (bot["name"], bot["bio"]) == ("Nelly", "New")
    written = {"tone": "solemn", "style": ["terse", "odd"], "topics": [], "emoji": ""}
    assert written.items() <= bot["voice"].items()
    refused = browser.send(f"/bots/{uid}/profile", name="", bio="b" * 501, tone="t" * 61)
    assert set(errors_of(refused)) == {"name", "bio", "tone"}


def test_the_voice_can_be_previewed_before_saving(browser):
    def preview(query):
        return browser.get(f"/connect/preview?topics=fees&{query}")

    dry, bold = preview("tone=dry").text, preview("tone=bold").text
    assert dry != bold and "PINE" in dry
    assert "<script" not in preview("catchphrases=%3Cscript%3E").text
    assert preview("tone=" + "t" * 61).status_code == 204


def test_a_manual_post_is_sent_once_as_studio(browser, nell):
    typed = {"body": "Line one\r\nline two", "draft": "d1"}
    sent = [browser.send(f"/bots/{nell}/posts", **typed) for _ in range(2)]
    assert [one.status_code for one in sent] == [302, 302]
    assert sent[0].location == sent[1].location
    (post,) = Post.select()
    assert (post.body, post.channel, post.status) == ("Line one\nline two", "studio", "none")
    assert "on this site, by its owner" in browser.get(sent[0].location).text


def test_the_last_trade_is_offered_for_a_post(service, browser, nell):
    assert "Use your last trade" not in browser.get(f"/bots/{nell}/manage").text
    service.observe_trade(address("nell"), "sold", 1, kind="sell")
    page = browser.get(f"/bots/{nell}/manage").text
    link = html.unescape(re.search(r'href="([^"]+)">Use your last trade', page)[1])
    filled = re.search(r'<input id="f-signature"[^>]*>', browser.get(link).text)[0]
    assert f'value="{signature("sold")}"' in filled


def find_wallet(uid):
    """The Attachment of a bot's wallet, or None."""
    return wallets.find_attachment(Bot.get(Bot.uid == uid))


def test_automatic_posts_are_switched_and_a_wallet_is_replaced_and_detached(browser, nell):
    for on, is_on in (("yes", True), ("no", False)):
        browser.send(f"/bots/{nell}/auto-post", on=on)
        assert Bot.get().auto_post is is_on
    browser.send(f"/bots/{nell}/wallet", wallet=address("second"))
    assert find_wallet(nell).wallet.address == address("second")
    assert address("nell")[:4] in browser.get(f"/bots/{nell}?tab=record").text
    browser.send(f"/bots/{nell}/wallet/detach")
    assert find_wallet(nell) is None


def test_a_retired_bot_keeps_only_its_page(service, browser):
    _, uid, key, _ = browser.create(wallet=address("w"))
    service.post({"eventId": "1", "body": "Last words."}, key)
    browser.send(f"/bots/{uid}/retire")
    page = browser.get(f"/bots/{uid}").text
    assert "Retired on" in page and "Last words." in page
    assert service.get("/api/v1/me", key).status_code == 401
    assert browser.send(f"/bots/{uid}/posts", body="More", draft="x").status_code == 409
    assert browser.send(f"/bots/{uid}/keys").status_code == 409
    assert "A retired bot can’t be managed" in browser.get(f"/bots/{uid}/manage").text


# ---- proof of ownership --------------------------------------------------------------------------
def challenge(browser, uid, wallet=""):
    """The text to sign."""
    answer = browser.send(f"/bots/{uid}/challenge", prove=wallet)
    assert answer.status_code == 302, errors_of(answer)
    return shown(browser.get(answer.location), "challenge")


def prove(browser, uid, text, key=SIGNER):
    return browser.send(f"/bots/{uid}/proof", signature=key.sign(text.encode()).signature.hex())


def test_a_signature_proves_a_wallet_once(service, browser):
    _, uid, key, _ = browser.create(wallet=OWNED)
    text = challenge(browser, uid)
    assert all(part in text for part in (uid, OWNED, service.config.base_url))
    # A wrong signature proves nothing, and the right one may follow.
    wrong = prove(browser, uid, text, SigningKey(b"x" * 32))
    check_refused(wrong, "signature", "isn’t this wallet")
    assert browser.send(f"/bots/{uid}/proof", signature="nonsense").status_code == 422
    assert find_wallet(uid).ownership == "claimed"
    assert prove(browser, uid, text).status_code == 302
    assert "owner proven" in browser.get(f"/bots/{uid}").text
    assert service.get(f"/api/v1/bots/{uid}", key).json["wallet"]["ownership"] == "proven"
    refused = browser.get(prove(browser, uid, text).location).text
    assert re.search(r'<p class="notice error" role="alert">[^<]*no longer valid', refused)


def test_a_proof_that_could_not_be_stored_may_be_resent(browser, monkeypatch):
    uid = browser.create().uid
    text = challenge(browser, uid, OWNED)
    with monkeypatch.context() as disk:
        disk.setattr(Attachment, "create", FULL)
        assert prove(browser, uid, text).status_code == 503
    prove(browser, uid, text)
    assert find_wallet(uid).ownership == "proven"


def test_a_challenge_works_for_its_bot_and_five_minutes(browser):
    uid, another = browser.create(wallet=OWNED).uid, browser.create("Other").uid
    text = challenge(browser, uid)
    assert prove(browser, another, text).status_code == 302
    assert find_wallet(uid).ownership == "claimed"
    stored = orjson.loads(Session.get().challenge)
    ended = orjson.dumps({**stored, "endsAt": stored["endsAt"] - 300_001}).decode()
    Session.update(challenge=ended).execute()
    assert prove(browser, uid, text).status_code == 302
    assert find_wallet(uid).ownership == "claimed"


# ---- what an owner sees --------------------------------------------------------------------------
def test_an_owner_sees_each_bots_state(browser, nell):
    """A loading wallet, then one without a post for a week, a healthy one, and a partial one."""
    browser.send(f"/bots/{nell}/wallet", wallet=OWNED)
    page = browser.get("/connect").text
    assert "loading history" in page and "Prove this wallet" in page
    complete = {**NOT_POLLED, "state": "complete", "receipts": 3, "note": None}
    complete["checkedAt"] = "2026-11-05T12:00:00Z"

    def show(**coverage):
        Wallet.update(coverage=orjson.dumps({**complete, **coverage}).decode()).execute()
        return browser.get("/connect").text

    assert "silent: no posts for a week" in show()
    browser.send(f"/bots/{nell}/posts", body="Here.", draft="d1")
    assert "healthy" in show()
    gap = {"fromSlot": 1, "toSlot": 2, "reason": "missing"}
    assert "part of its history is missing" in show(gaps=[gap])


def test_a_claimed_wallet_must_be_proven_first(browser, nell):
    browser.send(f"/bots/{nell}/wallet", wallet=OWNED)
    page = browser.get(f"/bots/{nell}/manage").text
    before, found, _ = page.partition("Replace wallet")
    assert found and "Prove this wallet" in before and "<details" not in before
    assert f'value="{OWNED}"' in re.search(r'<input id="f-prove"[^>]*>', page)[0]
    for section in ("keys", "hooks", "end"):
        assert f'href="#{section}"' in page
