"""The owner's pages, form by form: permissions, what is shown once, what a rejected form keeps,
what is stored.
"""

import html
import re
import time

import orjson
import pytest
from nacl.signing import SigningKey
from peewee import OperationalError
from service import NOW, Service, address, signature

from accounts import wallets
from chain import addresses
from chain.stored.derived import NOT_POLLED
from models import Attachment, Bot, Key, Owner, Post, Session, Wallet
from paper.tables import Trader

KEY_TEXT = re.compile(r"cnd_(?:pub|read)_[A-Za-z0-9]{49}")
SEED = " ".join(["abandon"] * 11 + ["about"])
PRIVATE = "5" * 87


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
        """(page, bot uid, key, recovery code or None) of a new bot"""
        page = self.send("/connect", name=name, **typed)
        assert page.status_code == 200, errors_of(page)
        code = re.search(r'id="recovery-code">([^<]+)<', page.text)
        return (
            page,
            re.search(r"/bots/(bot_\w+)", page.text)[1],
            re.search(r'id="publish-key">([^<]+)<', page.text)[1],
            code and code[1],
        )


def errors_of(page):
    """{field: message} of the errors shown next to fields."""
    return {
        field: html.unescape(said)
        for field, said in re.findall(r'<p class="error" id="e-(\w+)">([^<]+)</p>', page.text)
    }


@pytest.fixture
def nell(browser):
    """The uid of a bot that this browser manages."""
    return browser.create(wallet=address("nell"))[1]


# ---- creating ------------------------------------------------------------------------------------
def test_a_form_creates_a_bot_with_a_working_key_shown_once(service, browser):
    page, uid, key, code = browser.create(
        "Nell",
        bio="Calm.",
        tone="dry",
        topics="fees, launches",
        catchphrases="Steady.\r\nNo, really.",
        wallet=address("w"),
    )
    assert (
        page.headers["Cache-Control"] == "no-store"
        and key in page.text
        and re.fullmatch(r"(\w{5}-){5}\w", code)
    )
    assert f"Bearer {key}" in page.text and page.text.index("publish-key") < page.text.index(
        "recovery-code"
    )
    shown = service.get(f"/api/v1/bots/{uid}", key).json
    assert shown["voice"] == {
        "tone": "dry",
        "style": [],
        "adjectives": [],
        "topics": ["fees", "launches"],
        "catchphrases": ["Steady.", "No, really."],
        "emoji": "",
    }
    assert shown["wallet"]["address"] == address("w") and shown["bio"] == "Calm."
    assert not any(
        KEY_TEXT.search(browser.get(path).text) or code in browser.get(path).text
        for path in ("/connect", f"/bots/{uid}", f"/bots/{uid}/manage", "/")
    )


def test_shared_caches_do_not_keep_session_pages(service, browser):
    """Each page sets the cookie, which signs in whoever has it."""
    _, uid, _, _ = browser.create()
    for path in ("/", f"/bots/{uid}", "/leaderboard", "/docs", "/market", "/search?q=x", "/log/"):
        mine, others = browser.get(path), service.get(path)
        assert mine.headers["Cache-Control"] == "private, no-cache", path
        assert "Set-Cookie" not in others.headers and "ETag" in others.headers, path
        assert others.headers["Cache-Control"] == "no-cache", path


def test_public_responses_do_not_set_the_cookie(service, browser):
    """Proxies may cache pictures, log tiles and scripts for a year: with the cookie in it, such a
    response would sign in whoever gets it.
    """
    _, uid, _, _ = browser.create(wallet=address("w"))
    for path in (
        *("/feed.json", "/feed.atom", f"/bots/{uid}/feed.json", "/api/health", "/api/market"),
        *("/log/checkpoint", "/log/tile/0/000.p/1", f"/bots/{uid}/evidence.json"),
        *(f"/bots/{uid}/badge.svg", f"/bots/{uid}.png", f"/embed/bots/{uid}", "/robots.txt"),
        *(f"/bots/{uid}/trades.csv", "/openapi.json", "/skill.md", "/static/candor.js"),
    ):
        answer = browser.get(path)
        assert answer.status_code == 200 and "Set-Cookie" not in answer.headers, path
        answer.close()
    # Each page renews it.
    for path in ("/", f"/bots/{uid}", "/connect"):
        assert "Set-Cookie" in browser.get(path).headers, path


def test_a_form_sent_twice_creates_one_bot(browser):
    draft = "ab" * 12
    _, uid, _, _ = browser.create(draft=draft)
    again = browser.send("/connect", name="Nell", draft=draft)
    assert (
        uid == f"bot_{draft}"
        and again.status_code == 302
        and again.location == f"/bots/{uid}/manage"
        and Bot.select().count() == 1
    )
    assert "You already created this bot with this form" in browser.get(again.location).text


def test_a_second_bot_joins_the_same_account(browser, nell):
    page, uid, _, code = browser.create("Otto")
    assert (
        code is None
        and "recovery" not in page.text.lower()
        and Bot.get(Bot.uid == uid).owner_id == Bot.get(Bot.uid == nell).owner_id
    )


def test_two_browsers_never_share_a_draft(service, browser):
    draft = "cd" * 12
    _, uid, _, _ = browser.create(draft=draft)
    _, other, key, code = Browser(service).create("Another", draft=draft)
    assert other != uid and key and code and Bot.select().count() == 2


@pytest.mark.parametrize(
    "typed, field, said",
    [
        ({"name": ""}, "name", "1 to 60 characters"),
        ({"name": "x" * 61}, "name", "1 to 60 characters"),
        ({"name": "a\x00b"}, "name", "control characters"),
        ({"bio": "b" * 501}, "bio", "0 to 500"),
        ({"wallet": "nonsense"}, "wallet", "base58 of 32 bytes"),
        ({"wallet": SEED}, "wallet", "was not stored"),
        ({"wallet": PRIVATE}, "wallet", "was not stored"),
        ({"tone": "t" * 61}, "tone", "0 to 60"),
        ({"topics": ",".join("abcdefghijklm")}, "topics", "at most 12"),
    ],
)
def test_an_invalid_field_is_explained_and_input_is_kept(browser, typed, field, said):
    page = browser.send(
        "/connect",
        **{"name": "Nell", "bio": "My bio", "tone": "dry", "topics": "kept, too", **typed},
    )
    assert page.status_code == 422 and said in errors_of(page)[field] and Bot.select().count() == 0
    shown = html.unescape(page.text)
    kept = {
        "name": 'value="Nell"',
        "bio": ">My bio<",
        "tone": 'value="dry"',
        "topics": 'value="kept, too"',
    }
    assert all(kept[name] in shown for name in kept if name != field)
    assert f'aria-describedby="e-{field}' in page.text
    # A typo is kept for correction; a possible secret is not.
    wallet = typed.get("wallet")
    assert wallet is None or (f'value="{wallet}"' in shown) == (wallet == "nonsense")
    assert SEED not in shown and PRIVATE not in shown


def test_all_invalid_fields_are_named_at_once(browser):
    page = browser.send("/connect", name="", bio="b" * 501, wallet="x", tone="t" * 61)
    assert set(errors_of(page)) == {"name", "bio", "wallet", "tone"}


def test_a_taken_wallet_is_explained_and_the_rest_kept(browser, nell, service):
    page = Browser(service).send("/connect", name="Thief", wallet=address("nell"))
    assert (
        page.status_code == 409
        and "another bot" in errors_of(page)["wallet"]
        and 'value="Thief"' in page.text
        and Bot.select().count() == 1
    )


@pytest.mark.usefixtures("standing_clock")
def test_creation_is_limited_and_input_is_kept(tmp_path):
    service = Service(tmp_path / "data", creations_per_minute=3)
    browser = Browser(service)
    for n in range(3):
        Browser(service).create(f"Bot {n}")
    page = browser.send("/connect", name="Fourth", bio="Still here")
    assert (
        page.status_code == 429
        and int(page.headers["Retry-After"]) > 0
        and ">Still here<" in page.text
        and Bot.select().count() == 3
    )
    service.close()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(60, "Its wallet is now being observed"), (0, "This instance doesn't observe wallets")],
)
def test_a_new_bots_owner_sees_whether_its_wallet_is_observed(tmp_path, seconds, said):
    service = Service(tmp_path / "data", observer_interval_seconds=seconds)
    page = Browser(service).create(wallet=address("nell"))[0]
    assert said in html.unescape(page.text)
    service.close()


def test_a_closed_instance_creates_no_bots(tmp_path):
    service = Service(tmp_path / "data", registration="closed")
    browser = Browser(service)
    assert (
        "Only the operator of this instance can create bots" in browser.get("/connect").text
        and 'name="draft"' not in browser.get("/connect").text
    )
    assert browser.send("/connect", name="Nell").status_code == 403 and Bot.select().count() == 0
    service.close()


# ---- forms of others -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://127.0.0.1:8000"},
    ],
)
def test_a_form_from_this_site_is_accepted(browser, headers):
    assert browser.send("/connect", name="Nell", headers=headers).status_code == 200


def test_a_form_without_its_token_is_shown_again_with_its_input(browser):
    page = browser.client.post(
        "/connect", data={"name": "Nell", "bio": "Kept <b>", "wallet": SEED, "csrf_token": "stale"}
    )
    assert (
        page.status_code == 400
        and "send it again" in page.text.lower()
        and 'name="bio" value="Kept &lt;b&gt;"' in page.text
        and SEED not in page.text
    )
    typed = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    assert (
        browser.client.post("/connect", data=typed).status_code == 200 and Bot.get().name == "Nell"
    )


# ---- sessions and recovery -----------------------------------------------------------------------
def test_signing_out_ends_copied_cookies_too(service, browser, nell):
    copy = Browser(service)
    copy.client.set_cookie("session", browser.client.get_cookie("session").value)
    assert copy.get(f"/bots/{nell}/manage").status_code == 200
    browser.send("/logout")
    assert [one.get(f"/bots/{nell}/manage").status_code for one in (browser, copy)] == [
        403,
        403,
    ] and Session.select().count() == 0


def test_a_recovery_code_works_once_signs_others_out_and_is_replaced(service, browser):
    _, uid, _, code = browser.create()
    fresh = Browser(service)
    page = fresh.send("/recover", code=code.lower().replace("-", " "))
    new = re.search(r'id="recovery-code">([^<]+)<', page.text)[1]
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store" and new != code
    assert (
        fresh.get(f"/bots/{uid}/manage").status_code,
        browser.get(f"/bots/{uid}/manage").status_code,
    ) == (200, 403)
    late = Browser(service)
    refused = late.send("/recover", code=code)
    assert (
        refused.status_code == 422
        and "already used" in errors_of(refused)["code"]
        and code not in refused.text
    )
    assert late.send("/recover", code=new).status_code == 200


@pytest.fixture
def full_disk(monkeypatch):
    """A disk without room for another row of this table, as reported by storage."""

    def fill(model):
        def fail(cls, **columns):
            raise OperationalError("database or disk is full")

        monkeypatch.setattr(model, "create", classmethod(fail))

    return fill


def test_a_failed_sign_in_uses_no_code_and_creates_nothing(
    service, browser, full_disk, monkeypatch
):
    _, uid, _, code = browser.create()
    full_disk(Session)
    fresh = Browser(service)
    trader = {"family": "breakout", "start": "guarded"}
    assert [
        fresh.send("/recover", code=code).status_code,
        fresh.send("/connect", name="Otto").status_code,
        fresh.send("/traders/new", "/traders/new", name="Wren", **trader).status_code,
    ] == [503, 503, 503]
    assert [one.select().count() for one in (Bot, Trader, Owner)] == [1, 0, 1]
    monkeypatch.undo()
    assert browser.get(f"/bots/{uid}/manage").status_code == 200
    assert fresh.send("/recover", code=code).status_code == 200


@pytest.mark.usefixtures("standing_clock")
def test_guessing_recovery_codes_is_limited_by_address(tmp_path):
    service = Service(tmp_path / "data", failed_auth_per_minute=2)
    browser = Browser(service)
    assert [browser.send("/recover", code=f"guess {n}").status_code for n in range(4)] == [
        422,
        422,
        429,
        429,
    ]
    service.close()


def test_a_session_alone_cannot_get_a_recovery_code(service, browser):
    """Anyone who stole a cookie could take over the account for good."""
    _, _, _, code = browser.create()
    for typed in ({}, {"present": ""}, {"present": "ABCDE-FGHIJ-KLMNO-PQRST-UVWXY-Z"}):
        refused = browser.send("/recovery-code", **typed)
        assert refused.status_code == 422 and 'recovery-code">' not in refused.text
        assert "operator" in errors_of(refused)["present"]
    assert Browser(service).send("/recover", code=code).status_code == 200


def test_another_owners_code_renews_nothing(service, browser):
    browser.create("Nell")
    other = Browser(service)
    _, _, _, theirs = other.create("Otto")
    assert browser.send("/recovery-code", present=theirs).status_code == 422
    assert Browser(service).send("/recover", code=theirs).status_code == 200


def test_the_current_code_renews_a_code(service, browser):
    _, _uid, _, code = browser.create()
    page = browser.send("/recovery-code", present=code)
    new = re.search(r'id="recovery-code">([^<]+)<', page.text)[1]
    assert (
        Browser(service).send("/recover", code=code).status_code == 422
        and Browser(service).send("/recover", code=new).status_code == 200
    )


def test_an_expired_session_has_ended(browser, nell):
    Session.update(seen_at=Session.seen_at - 181 * 86_400_000).execute()
    page = browser.get(f"/bots/{nell}/manage")
    assert page.status_code == 403 and "recovery code" in page.text


def test_a_forged_cookie_is_not_a_session(service, nell):
    forger = Browser(service)
    forger.client.set_cookie("session", "eyJjcmVhdG9yIjoieCJ9.aaaa.bbbb")
    assert forger.get(f"/bots/{nell}/manage").status_code == 403


def shift_clock(monkeypatch, seconds):
    """As on a machine whose clock is this far ahead or behind."""
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + seconds * 10**9)


@pytest.mark.parametrize("seconds", [-3, -3600, -86_400 * 365, 3, 86_400])
def test_servers_with_different_clocks_share_sessions(browser, nell, monkeypatch, seconds):
    with monkeypatch.context() as elsewhere:
        shift_clock(elsewhere, seconds)
        assert browser.get(f"/bots/{nell}/manage").status_code == 200
        assert browser.send("/connect/keys", label="k").status_code == 200
    assert browser.get(f"/bots/{nell}/manage").status_code == 200


def test_a_slow_clock_sets_a_lasting_cookie(browser, monkeypatch):
    """A small computer without a battery starts in 1970, and browsers would drop a cookie that ends
    then.
    """
    shift_clock(monkeypatch, -50 * 365 * 86_400)
    page, uid, _, _ = browser.create()
    ends = re.search(r"Expires=\w+, \d+ \w+ (\d+)", page.headers["Set-Cookie"])[1]
    assert int(ends) > 2100 and browser.get(f"/bots/{uid}/manage").status_code == 200


@pytest.fixture
def secure(tmp_path):
    made = Service(
        tmp_path / "https", base_url="https://candor.example", allowed_hosts=("candor.example",)
    )
    yield made
    made.close()


def visit(service):
    """A Browser that uses https."""
    browser = Browser(service)
    options = {
        "base_url": "https://candor.example",
        "environ_base": {"HTTP_REFERER": "https://candor.example/connect"},
    }
    opened = browser.client.open
    browser.client.open = lambda *args, **more: opened(*args, **{**options, **more})
    return browser


def test_behind_https_only_this_host_can_set_the_cookie(secure):
    """Browsers protect __Host- cookies against other hosts of the domain and against plain http."""
    page, _uid, _, _ = visit(secure).create()
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Host-session=") and "; Secure" in cookie and "; Path=/" in cookie
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie


def test_a_cookie_of_another_name_is_ignored(secure):
    """Another host of the domain may set the plain name."""
    theirs = visit(secure)
    uid = theirs.create("Eve")[1]
    tossed = theirs.client.get_cookie("__Host-session", "candor.example").value
    other = visit(secure)
    other.client.set_cookie("session", tossed, domain="candor.example", secure=True)
    assert other.get(f"/bots/{uid}/manage").status_code != 200


# ---- keys ----------------------------------------------------------------------------------------
def test_a_read_key_is_created_shown_once_and_works(service, browser, nell):
    page = browser.send("/connect/keys", label="research")
    key = re.search(r'id="read-key">([^<]+)<', page.text)[1]
    assert (
        page.headers["Cache-Control"] == "no-store"
        and service.get("/api/v1/feed", key).status_code == 200
    )
    assert service.post({"eventId": "1", "body": "x"}, key).status_code == 403
    again = browser.get("/connect").text
    assert "research" in again and key not in again and f"cnd_read_…{key[-4:]}" in again


def test_a_key_is_revoked_after_confirmation_and_ends_at_once(service, browser):
    _, uid, key, _ = browser.create()
    row = Key.get()
    assert (
        "Yes, revoke it" in browser.get(f"/keys/{row.uid}/revoke").text
        and service.get("/api/v1/me", key).status_code == 200
    )
    browser.send(f"/keys/{row.uid}/revoke")
    assert (
        service.get("/api/v1/me", key).status_code == 401
        and "revoked" in browser.get(f"/bots/{uid}/manage").text
    )


def test_a_revoked_key_is_not_rotated(browser, nell):
    key = Key.get()
    browser.send(f"/keys/{key.uid}/revoke")
    done = browser.get(f"/bots/{nell}/manage").text
    assert '<p class="notice message" role="status">Key revoked.' in done
    assert browser.send(f"/keys/{key.uid}/rotate").status_code == 302 and Key.select().count() == 1
    refused = browser.get(f"/bots/{nell}/manage").text
    # A failure doesn't look like a success.
    assert re.search(r'<p class="notice error" role="alert">[^<]*revoked or has expired', refused)


def test_a_twenty_first_key_is_refused_next_to_its_field(browser, nell):
    for n in range(19):
        assert browser.send("/connect/keys", label=str(n)).status_code == 200
    page = browser.send("/connect/keys", label="21st")
    assert page.status_code == 409 and "at most 20" in errors_of(page)["label"]
    page = browser.send(f"/bots/{nell}/keys", label="22nd")
    assert page.status_code == 409 and "at most 20" in errors_of(page)["label"]


# ---- profile, posts, wallet ----------------------------------------------------------------------
def test_the_profile_changes_and_a_cleared_field_is_empty(service, browser):
    _, uid, key, _ = browser.create(tone="dry", topics="fees", emoji="x")
    browser.send(f"/bots/{uid}/profile", name="Nelly", bio="New", tone="solemn", style="terse, odd")
    shown = service.get(f"/api/v1/bots/{uid}", key).json
    assert (
        shown["name"],
        shown["bio"],
        shown["voice"]["tone"],
        shown["voice"]["style"],
        shown["voice"]["topics"],
        shown["voice"]["emoji"],
    ) == ("Nelly", "New", "solemn", ["terse", "odd"], [], "")
    page = browser.send(f"/bots/{uid}/profile", name="", bio="Typed")
    assert (
        page.status_code == 422 and "1 to 60" in errors_of(page)["name"] and ">Typed<" in page.text
    )


def test_a_manual_post_is_sent_once_as_studio(service, browser, nell):
    sent = [
        browser.send(f"/bots/{nell}/posts", body="Line one\r\nline two", draft="d1")
        for _ in range(2)
    ]
    assert (
        [one.status_code for one in sent] == [302, 302]
        and sent[0].location == sent[1].location
        and Post.select().count() == 1
    )
    assert (Post.get().body, Post.get().channel, Post.get().status) == (
        "Line one\nline two",
        "studio",
        "none",
    ) and "on this site, by its owner" in browser.get(sent[0].location).text


def test_a_refused_post_keeps_its_text(browser, nell):
    page = browser.send(f"/bots/{nell}/posts", body="Kept words", signature="nonsense", draft="d2")
    assert (
        page.status_code == 422
        and "base58 of 64 bytes" in errors_of(page)["signature"]
        and "Kept words" in page.text
        and Post.select().count() == 0
    )


@pytest.mark.usefixtures("standing_clock")
def test_manual_posts_share_the_minute_limit(tmp_path):
    service = Service(tmp_path / "data", posts_per_minute=2)
    browser = Browser(service)
    uid = browser.create()[1]
    assert [
        browser.send(f"/bots/{uid}/posts", body="x", draft=str(n)).status_code for n in range(3)
    ] == [302, 302, 429]
    service.close()


def test_a_wallet_is_replaced_and_detached(service, browser, nell):
    browser.send(f"/bots/{nell}/wallet", wallet=address("second"))
    assert (
        wallets.find_attachment(Bot.get()).wallet.address == address("second")
        and address("nell")[:4] in browser.get(f"/bots/{nell}?tab=record").text
    )
    browser.send(f"/bots/{nell}/wallet/detach")
    assert wallets.find_attachment(Bot.get()) is None


@pytest.mark.parametrize("path, field", [("wallet", "wallet"), ("challenge", "prove")])
@pytest.mark.parametrize("secret", [SEED, PRIVATE])
def test_a_pasted_secret_is_refused_and_not_shown(browser, nell, path, field, secret):
    page = browser.send(f"/bots/{nell}/{path}", wallet=secret, prove=secret)
    assert (
        page.status_code == 422
        and "was not stored" in errors_of(page)[field]
        and secret not in html.unescape(page.text)
    )


def test_automatic_posts_start_when_turned_on(browser, nell):
    browser.send(f"/bots/{nell}/auto-post", on="yes")
    assert Bot.get().auto_post and Bot.get().auto_post_since > NOW
    browser.send(f"/bots/{nell}/auto-post", on="no")
    assert not Bot.get().auto_post


def test_a_retired_bot_keeps_only_its_page(service, browser):
    _, uid, key, _ = browser.create(wallet=address("w"))
    service.post({"eventId": "1", "body": "Last words."}, key)
    browser.send(f"/bots/{uid}/retire")
    page = browser.get(f"/bots/{uid}").text
    assert (
        "Retired on" in page
        and "Last words." in page
        and service.get("/api/v1/me", key).status_code == 401
    )
    assert (
        browser.send(f"/bots/{uid}/posts", body="More", draft="x").status_code == 409
        and browser.send(f"/bots/{uid}/keys").status_code == 409
    )
    assert "A retired bot can’t be managed" in browser.get(f"/bots/{uid}/manage").text


# ---- proof of ownership --------------------------------------------------------------------------
SIGNER = SigningKey(b"w" * 32)


@pytest.fixture
def owned():
    from chain import addresses

    return addresses.b58encode(bytes(SIGNER.verify_key))


def challenge(browser, uid, wallet=""):
    answer = browser.send(f"/bots/{uid}/challenge", prove=wallet)
    assert answer.status_code == 302, errors_of(answer)
    return html.unescape(
        re.search(r'id="challenge">([^<]+)<', browser.get(answer.location).text)[1]
    )


def prove(browser, uid, text, key=SIGNER):
    return browser.send(f"/bots/{uid}/proof", signature=key.sign(text.encode()).signature.hex())


def test_a_signature_proves_a_wallet_once(service, browser, owned):
    _, uid, key, _ = browser.create(wallet=owned)
    text = challenge(browser, uid)
    assert all(part in text for part in (uid, owned, service.config.base_url))
    assert (
        prove(browser, uid, text).status_code == 302
        and "owner proven" in browser.get(f"/bots/{uid}").text
    )
    assert service.get(f"/api/v1/bots/{uid}", key).json["wallet"]["ownership"] == "proven"
    refused = browser.get(prove(browser, uid, text).location).text
    assert re.search(r'<p class="notice error" role="alert">[^<]*no longer valid', refused)


def test_a_proof_that_could_not_be_stored_may_be_resent(browser, owned, full_disk, monkeypatch):
    uid = browser.create()[1]
    text = challenge(browser, uid, owned)
    full_disk(Attachment)
    assert prove(browser, uid, text).status_code == 503
    monkeypatch.undo()
    prove(browser, uid, text)
    assert wallets.find_attachment(Bot.get()).ownership == "proven"


def test_a_wrong_signature_proves_nothing_and_may_be_tried_again(browser, owned):
    uid = browser.create(wallet=owned)[1]
    text = challenge(browser, uid)
    wrong = prove(browser, uid, text, SigningKey(b"x" * 32))
    assert (
        wrong.status_code == 422
        and "isn’t this wallet" in errors_of(wrong)["signature"]
        and wallets.find_attachment(Bot.get()).ownership == "claimed"
    )
    assert (
        browser.send(f"/bots/{uid}/proof", signature="nonsense").status_code == 422
        and prove(browser, uid, text).status_code == 302
    )


def test_a_challenge_works_for_its_bot_its_browser_and_five_minutes(service, browser, owned):
    _, uid, _, _ = browser.create(wallet=owned)
    other = browser.create("Other")[1]
    text = challenge(browser, uid)
    assert (
        prove(browser, other, text).status_code == 302
        and wallets.find_attachment(Bot.get(Bot.uid == uid)).ownership == "claimed"
    )
    stored = orjson.loads(Session.get().challenge)
    Session.update(
        challenge=orjson.dumps({**stored, "endsAt": stored["endsAt"] - 300_001}).decode()
    ).execute()
    assert (
        prove(browser, uid, text).status_code == 302
        and wallets.find_attachment(Bot.get(Bot.uid == uid)).ownership == "claimed"
    )


def test_the_voice_can_be_previewed_before_saving(browser):
    dry, bold = (
        browser.get(f"/connect/preview?tone={tone}&topics=fees").text for tone in ("dry", "bold")
    )
    assert (
        dry != bold
        and "PINE" in dry
        and "<script" not in browser.get("/connect/preview?catchphrases=%3Cscript%3E").text
    )
    assert browser.get("/connect/preview?tone=" + "t" * 61).status_code == 204


PROVABLE = addresses.b58encode(bytes(SigningKey(bytes(32)).verify_key))


def test_an_owner_sees_each_bots_state(service, browser, nell):
    """A loading wallet, then one without a post for a week, then a healthy one."""
    browser.send(f"/bots/{nell}/wallet", wallet=PROVABLE)
    page = browser.get("/connect").text
    assert "loading history" in page and "Prove this wallet" in page
    coverage = {**NOT_POLLED, "state": "complete", "receipts": 3, "note": None}
    coverage |= {"checkedAt": "2026-11-05T12:00:00Z"}
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    assert "silent: no posts for a week" in browser.get("/connect").text
    browser.send(f"/bots/{nell}/posts", body="Here.", draft="d1")
    assert "healthy" in browser.get("/connect").text
    coverage["gaps"] = [{"fromSlot": 1, "toSlot": 2, "reason": "missing"}]
    Wallet.update(coverage=orjson.dumps(coverage).decode()).execute()
    assert "part of its history is missing" in browser.get("/connect").text


def test_a_claimed_wallet_must_be_proven_first(browser, nell):
    browser.send(f"/bots/{nell}/wallet", wallet=PROVABLE)
    page = browser.get(f"/bots/{nell}/manage").text
    prove, replace = page.index("Prove this wallet"), page.index("Replace wallet")
    assert prove < replace and "<details" not in page[:replace]
    field = re.search(r'<input id="f-prove"[^>]*>', page)[0]
    assert f'value="{PROVABLE}"' in field
    assert [one in page for one in ('href="#keys"', 'href="#hooks"', 'href="#end"')] == [True] * 3


def test_the_last_trade_is_offered_for_a_post(service, browser, nell):
    assert "Use your last trade" not in browser.get(f"/bots/{nell}/manage").text
    service.observe_trade(address("nell"), "sold", 1, kind="sell")
    page = browser.get(f"/bots/{nell}/manage").text
    link = html.unescape(re.search(r'href="([^"]+)">Use your last trade', page)[1])
    filled = re.search(r'<input id="f-signature"[^>]*>', browser.get(link).text)[0]
    assert f'value="{signature("sold")}"' in filled
