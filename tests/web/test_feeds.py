"""Atom and JSON Feed, checked against RFC 4287 and JSON Feed 1.1; labels, hostile text, conditional
requests.
"""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from urllib.parse import urlsplit

import orjson
import pytest
from jsonschema import Draft202012Validator
from service import NOW, address, hide_post, signature

from accounts import influencers, verification
from models import Bot, Post, Wallet

ATOM = "{http://www.w3.org/2005/Atom}"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
W = address("w")


@pytest.fixture
def paths(bot):
    return {
        "atom": ("/feed.atom", f"/bots/{bot.bot.uid}/feed.atom"),
        "json": ("/feed.json", f"/bots/{bot.bot.uid}/feed.json"),
    }


# ---- validators ----------------------------------------------------------------------------------
def is_url(text):
    return (
        isinstance(text, str)
        and urlsplit(text).scheme in ("http", "https")
        and bool(urlsplit(text).netloc)
    )


def find_atom_faults(raw):
    """Violations of RFC 4287, as sentences; [] for a valid feed. Sections: 3.2, 3.3, 4.1.1, 4.1.2,
    4.2.6, 4.2.7.
    """
    root = ET.fromstring(raw)
    faults = [] if root.tag == ATOM + "feed" else ["the document element is no feed"]
    authored = bool(root.findall(ATOM + "author"))
    for place, element in [
        ("feed", root),
        *((f"entry {n}", entry) for n, entry in enumerate(root.findall(ATOM + "entry"))),
    ]:
        faults += [
            f"{place}: {fault}"
            for fault in _find_element_faults(
                element, authored or (element is root and bool(root.findall(ATOM + "entry")))
            )
        ]
    ids = [entry.findtext(ATOM + "id") for entry in root.findall(ATOM + "entry")]
    return faults + (["two entries have one id"] if len(set(ids)) < len(ids) else [])


KNOWN = {
    "feed": "author category contributor generator icon id link logo rights subtitle title updated"
    " entry",
    "entry": "author category content contributor id link published rights source summary title"
    " updated",
}
ONCE = (
    "generator icon id logo rights subtitle title updated content published source summary"
).split()


def _find_element_faults(element, authored):
    names = [child.tag.removeprefix(ATOM) for child in element]
    known = {*KNOWN[element.tag.removeprefix(ATOM)].split()}
    yield from (f"unknown {name}" for name in {*names} - known)
    yield from (f"{name} more than once" for name in ONCE if names.count(name) > 1)
    yield from (
        f"no {name}"
        for name in ("id", "title", "updated")
        if not (element.findtext(ATOM + name) or "").strip()
    )
    if not authored and "author" not in names:
        yield "no author"
    if not re.match(r"[a-z][a-z0-9+.-]*:", element.findtext(ATOM + "id") or ""):
        yield "id is no IRI"
    yield from (
        f"{name} is no RFC 3339 moment"
        for name in ("updated", "published")
        if name in names and not MOMENT.fullmatch(element.findtext(ATOM + name))
    )
    for person in element.findall(ATOM + "author"):
        if len(person.findall(ATOM + "name")) != 1 or not person.findtext(ATOM + "name"):
            yield "an author without one name"
        yield from (
            "an author's uri is none"
            for uri in person.findall(ATOM + "uri")
            if not is_url(uri.text)
        )
    yield from (
        "a link without absolute href"
        for link in element.findall(ATOM + "link")
        if not is_url(link.get("href"))
    )
    alternates = [
        (link.get("type"), link.get("hreflang"))
        for link in element.findall(ATOM + "link")
        if link.get("rel", "alternate") == "alternate"
    ]
    if len(set(alternates)) < len(alternates):
        yield "two alternates of one type"
    if not alternates and "content" not in names and element.tag == ATOM + "entry":
        yield "neither content nor alternate link"
    yield from (
        "a category without term"
        for category in element.findall(ATOM + "category")
        if not category.get("term")
    )
    for name in ("title", "subtitle", "summary", "content", "rights"):
        for text in element.findall(ATOM + name):
            if text.get("type", "text") not in ("text", "html", "xhtml"):
                yield f"{name} of unknown type"
            if text.get("type", "text") == "text" and len(text):
                yield f"{name} of type text holds elements"


TEXT, URL = {"type": "string", "minLength": 1}, {"type": "string", "pattern": "^https?://[^/]"}
DATE = {"type": "string", "pattern": f"^{MOMENT.pattern}$"}
AUTHORS = {
    "type": "array",
    "items": {
        "minProperties": 1,
        "properties": {"name": TEXT, "url": URL, "avatar": URL},
        "additionalProperties": False,
    },
}
# The members that we might use. Custom members begin with an underscore and contain an object.
CUSTOM = {
    "patternProperties": {"^_[A-Za-z][^.]*$": {"type": "object"}},
    "additionalProperties": False,
}
ITEM = {
    "required": ["id"],
    "anyOf": [{"required": ["content_html"]}, {"required": ["content_text"]}],
    "properties": {
        **dict.fromkeys(("id", "title", "summary", "content_html", "content_text"), TEXT),
        **dict.fromkeys(("url", "external_url", "image"), URL),
        **dict.fromkeys(("date_published", "date_modified"), DATE),
        "authors": AUTHORS,
        "tags": {"type": "array", "items": TEXT},
    },
    **CUSTOM,
}
JSON_FEED = {
    "required": ["version", "title", "items"],
    "properties": {
        "version": {"const": "https://jsonfeed.org/version/1.1"},
        **dict.fromkeys(("title", "description"), TEXT),
        **dict.fromkeys(("home_page_url", "feed_url", "next_url", "icon"), URL),
        "items": {"type": "array", "items": ITEM},
    },
    **CUSTOM,
}


def find_json_faults(feed):
    """Violations of JSON Feed 1.1, as sentences; [] for a valid feed."""
    faults = [error.message for error in Draft202012Validator(JSON_FEED).iter_errors(feed)]
    ids = [item["id"] for item in feed["items"]] if not faults else []
    return faults + (["two items have one id"] if len({*ids}) < len(ids) else [])


GOOD_ATOM = (
    "<feed"
    ' xmlns="http://www.w3.org/2005/Atom"><id>urn:a</id><title>T</title><updated>2026-01-01T00:00:00Z</updated><author><name>A</name></author><entry><id>urn:b</id><title>E</title><updated>2026-01-01T00:00:00.5+01:00</updated><content'
    ' type="text">c</content></entry></feed>'
)


@pytest.mark.parametrize(
    "change",
    [
        ("<title>T</title>", ""),
        ("<id>urn:a</id>", "<id>a</id>"),
        ("2026-01-01T00:00:00Z", "2026-01-01"),
        ("<author><name>A</name></author>", ""),
        ("<name>A</name>", ""),
        ('type="text"', 'type="markdown"'),
        (">c<", "><b>c</b><"),
        ("<id>urn:b</id>", "<id>urn:b</id><id>urn:c</id>"),
        ("<title>E</title>", "<title>E</title><body>x</body>"),
        ('<content type="text">c</content>', ""),
        ("<title>E</title>", '<title>E</title><link href="/relative"/>'),
        ("<title>E</title>", '<title>E</title><category label="x"/>'),
        (
            "</entry>",
            "</entry><entry><id>urn:b</id><title>E</title><updated>2026-01-01T00:00:00Z</updated><content>c</content></entry>",
        ),
    ],
)
def test_an_invalid_atom_feed_would_be_detected(change):
    assert find_atom_faults(GOOD_ATOM) == []
    assert change[0] in GOOD_ATOM and find_atom_faults(GOOD_ATOM.replace(*change))


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.1"},
        {"title": None},
        {"items": {}},
        {"feed_url": "/feed.json"},
        {"colour": "red"},
        {"_own": 5},
        *(
            {"items": [{"id": "a", "content_text": "c", **item}]}
            for item in (
                {"id": 5},
                {"content_text": None},
                {"url": "x"},
                {"date_published": "today"},
                {"tags": [None]},
                {"authors": [{}]},
                {"body": "b"},
            )
        ),
        {"items": [{"id": "a", "content_text": "c"}] * 2},
    ],
)
def test_an_invalid_json_feed_would_be_detected(change):
    good = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "T",
        "items": [{"id": "a", "content_text": "c", "_own": {}}],
    }
    assert find_json_faults(good) == [] and find_json_faults({**good, **change})


# ---- the feeds -----------------------------------------------------------------------------------
HOSTILE = [
    "<script>alert(1)</script> & ]]> <b>bold</b>",
    "right\u202eleft",
    "emoji 🙂\nand a second line",
    "\"quotes' & entities &amp; &#0;",
    "x" * 4000,
    "<![CDATA[ <?pi ?> <!-- -->",
]


def fill(service, bot):
    """One post of every verification, hostile ones, a hidden one, and one whose author's name and
    text no check would accept.
    """
    key = bot.publish_key.text
    service.observe_trade(W, "buy", 10)
    service.observe_trade(W, "gift", 11, kind="transfer_in")
    made = [
        service.post(
            {
                "eventId": name,
                "body": name,
                "signature": signature(name),
                "reason": f"because of {name}",
            },
            key,
        ).json["id"]
        for name in ("buy", "gift", "lost", "later")
    ]
    Wallet.update(observed_to=NOW // 1000 + 10**9).execute()
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("lost")}, NOW)
    Post.update(status="pending").where(Post.uid == made[3]).execute()
    made += [
        service.post({"eventId": f"h{n}", "body": body, "symbol": "<i>"}, key).json["id"]
        for n, body in enumerate(HOSTILE)
    ]
    made.append(
        service.post(
            {"eventId": "gone", "body": "secret words", "reason": "secret reason"}, key
        ).json["id"]
    )
    hide_post(made[-1], NOW)
    made.append(service.post({"eventId": "raw", "body": "raw"}, key).json["id"])
    Post.update(
        body="bell \x07 null \x00 escape \x1b[31m lone \x0b\x0c \ufffe\uffff end", reason="\x08"
    ).where(Post.uid == made[-1]).execute()
    Bot.update(name="Ada \x00\x07]]> <x>").execute()
    return made[::-1]


def test_feeds_are_valid_whatever_they_contain(service, bot, paths):
    made = fill(service, bot)
    for path in paths["atom"]:
        answer = service.get(path)
        assert (
            answer.content_type.startswith("application/atom+xml")
            and find_atom_faults(answer.data) == []
        )
        root = ET.fromstring(answer.data)
        assert [
            entry.findtext(ATOM + "id").rpartition("/")[2] for entry in root.findall(ATOM + "entry")
        ] == made
        assert root.find(f"{ATOM}link[@rel='self']").get("href") == "http://127.0.0.1:8000" + path
    for path in paths["json"]:
        answer = service.get(path)
        assert (
            answer.content_type == "application/feed+json" and find_json_faults(answer.json) == []
        )
        assert [item["_candor"]["post"] for item in answer.json["items"]] == made and answer.json[
            "feed_url"
        ] == "http://127.0.0.1:8000" + path


def test_each_title_starts_with_the_label(service, bot):
    fill(service, bot)
    wanted = {
        "buy": "receipt verified · wallet claimed, not proven",
        "gift": "does not match",
        "lost": "not verified",
        "later": "waiting for the chain",
    }
    items = {
        item["content_text"].partition("\n")[0]: item
        for item in service.get("/feed.json").json["items"]
    }
    entries = {
        entry.findtext(ATOM + "content").partition("\n")[0]: entry
        for entry in ET.fromstring(service.get("/feed.atom").data).findall(ATOM + "entry")
    }
    for name, label in wanted.items():
        assert (
            items[name]["title"] == entries[name].findtext(ATOM + "title")
            and items[name]["title"].startswith(f"[{label}] Ada")
            and items[name]["title"].endswith(f": {name}")
        )
        assert (
            items[name]["tags"]
            == [category.get("term") for category in entries[name].findall(ATOM + "category")]
            == [label, "untrusted content"]
        )
        assert (
            items[name]["content_text"]
            == entries[name].findtext(ATOM + "content")
            == f"{name}\n\nReason: because of {name}"
        )
        assert items[name]["summary"] == entries[name].findtext(ATOM + "summary") and items[name][
            "summary"
        ].lower().startswith(label)
        assert (
            items[name]["external_url"]
            == entries[name].find(f"{ATOM}link[@rel='related']").get("href")
            == "https://solscan.io/tx/" + signature(name)
        )
    assert all(item["title"].startswith("[") for item in items.values())


def test_text_is_escaped_and_hidden_text_is_gone(service, bot):
    fill(service, bot)
    texts = [
        entry.findtext(ATOM + "content")
        for entry in ET.fromstring(service.get("/feed.atom").data).findall(ATOM + "entry")
    ]
    assert HOSTILE[0] in texts and "rightleft" in texts
    raw, hidden = texts[0], texts[1]
    assert (
        raw
        == "bell \ufffd null \ufffd escape \ufffd[31m lone \ufffd\ufffd \ufffd\ufffd end\n\nReason:"
        " \ufffd"
        and "removed this text" in hidden
    )
    for path in ("/feed.atom", "/feed.json"):
        assert b"secret" not in service.get(path).data


def test_a_changed_verification_updates_the_feed(service, bot):
    uid = service.post(
        {"eventId": "e", "body": "b", "signature": signature("t")}, bot.publish_key.text
    ).json["id"]
    before = ET.fromstring(service.get("/feed.atom").data).findtext(f"{ATOM}entry/{ATOM}updated")
    service.observe_trade(W, "t", 10)
    later = Post.get(Post.uid == uid).created_at + 60_000
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("t")}, later)
    root = ET.fromstring(service.get("/feed.atom").data)
    assert root.findtext(ATOM + "updated") == root.findtext(
        f"{ATOM}entry/{ATOM}updated"
    ) and datetime.fromisoformat(root.findtext(ATOM + "updated")) - datetime.fromisoformat(
        before
    ) == timedelta(minutes=1)
    assert root.findtext(f"{ATOM}entry/{ATOM}published") == before
    assert service.get("/feed.json").json["items"][0]["date_modified"] == root.findtext(
        ATOM + "updated"
    )


def test_an_unchanged_feed_returns_304(service, bot, paths):
    service.post({"eventId": "e", "body": "b"}, bot.publish_key.text)
    for path in (*paths["atom"], *paths["json"]):
        first = service.get(path)
        changed = parsedate_to_datetime(first.headers["Last-Modified"])
        assert (
            service.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
        )
        assert (
            service.get(
                path, headers={"If-Modified-Since": format_datetime(changed, usegmt=True)}
            ).status_code
            == 304
        )
        assert (
            service.get(
                path,
                headers={
                    "If-Modified-Since": format_datetime(
                        changed - timedelta(seconds=1), usegmt=True
                    )
                },
            ).status_code
            == 200
        )
        assert (
            service.get(
                path,
                headers={
                    "If-None-Match": '"other"',
                    "If-Modified-Since": format_datetime(changed, usegmt=True),
                },
            ).status_code
            == 200
        )
    etag = service.get("/feed.atom").headers["ETag"]
    influencers.set_profile(Bot.get(), name="Eve", now=1)
    assert service.get("/feed.atom", headers={"If-None-Match": etag}).status_code == 200


def test_an_empty_feed_is_valid_too(service, bot, paths):
    for path in paths["atom"]:
        assert find_atom_faults(service.get(path).data) == []
    assert (
        find_json_faults(service.get("/feed.json").json) == []
        and service.get("/feed.json").json["items"] == []
    )
    assert parsedate_to_datetime(
        service.get("/feed.atom").headers["Last-Modified"]
    ) == datetime.fromtimestamp(0, UTC)


def test_a_filtered_feed_links_to_itself(service, bot):
    mint = address("mint")
    service.post({"eventId": "1", "body": "about it", "mint": mint}, bot.publish_key.text)
    service.post({"eventId": "2", "body": "about nothing"}, bot.publish_key.text)
    feed = service.get(f"/feed.json?mint={mint}&colour=%3Cred%3E").json
    assert [item["content_text"] for item in feed["items"]] == ["about it"] and feed[
        "feed_url"
    ].endswith(f"/feed.json?mint={mint}")
    assert (
        find_json_faults(feed) == []
        and find_atom_faults(service.get(f"/feed.atom?mint={mint}&source=bot").data) == []
    )
    for query in ("mint=nonsense", "source=nobody"):
        assert (
            service.get(f"/feed.json?{query}").json["code"] == "invalid_parameter"
            and service.get(f"/feed.atom?{query}").status_code == 400
        )


def test_an_unknown_bot_has_no_feed(service):
    assert (
        service.get("/bots/bot_nobody/feed.atom").status_code == 404
        and orjson.loads(service.get("/bots/bot_nobody/feed.json").data)["code"] == "not_found"
    )


@pytest.mark.parametrize("character", ["&", "\U0001f332", "\n.", '"', "x"])
def test_a_feed_of_long_posts_has_fewer_complete_entries(service, bot, paths, character):
    """50 posts of maximum length would be 2,000,000 bytes of `&amp;`."""
    long = (character * 3999)[:3998] + "."
    for number in range(50):
        service.post({"eventId": str(number), "body": long, "reason": long}, bot.publish_key.text)
    shown = {}
    for name in ("atom", "json"):
        for path in paths[name]:
            raw = service.get(path).data
            assert len(raw) <= 256_000 + 2_000
            shown[path] = find_ids(name, raw)
    newest = [
        f"{service.config.base_url}/posts/{uid}"
        for (uid,) in Post.select(Post.uid).order_by(Post.id.desc()).tuples()
    ]
    entries = list(shown.values())
    assert all(ids == newest[: len(entries[0])] for ids in entries) and 5 <= len(entries[0]) < 50


def find_ids(name, raw):
    if name == "json":
        return [item["id"] for item in orjson.loads(raw)["items"]]
    return [entry.findtext(ATOM + "id") for entry in ET.fromstring(raw).findall(ATOM + "entry")]


def test_a_feed_of_short_posts_has_the_newest_fifty(service, bot, paths):
    made = [
        service.post({"eventId": f"e{n}", "body": "short"}, bot.publish_key.text).json["id"]
        for n in range(55)
    ]
    newest = [f"{service.config.base_url}/posts/{uid}" for uid in made[:4:-1]]
    for name in paths:
        for path in paths[name]:
            assert find_ids(name, service.get(path).data) == newest, path


# ---- page after page -----------------------------------------------------------------------------
def follow_json(service, path):
    """[post id, ...] of a JSON Feed, following next_url."""
    seen = []
    for _ in range(20):
        feed = service.get(path).json
        assert find_json_faults(feed) == [] and "before=" not in feed["feed_url"]
        seen += [item["_candor"]["post"] for item in feed["items"]]
        if "next_url" not in feed:
            return seen
        assert feed["next_url"] != feed["feed_url"]
        path = feed["next_url"].removeprefix("http://127.0.0.1:8000")
    raise AssertionError("the feed has more than 20 pages")


def follow_atom(service, path):
    """[post id, ...] of an Atom feed, following RFC 5005's rel="next"."""
    seen, ids = [], set()
    for _ in range(20):
        raw = service.get(path).data
        assert find_atom_faults(raw) == []
        root = ET.fromstring(raw)
        links = {link.get("rel"): link.get("href") for link in root.findall(ATOM + "link")}
        ids.add(root.findtext(ATOM + "id"))
        seen += [
            entry.findtext(ATOM + "id").rpartition("/")[2] for entry in root.findall(ATOM + "entry")
        ]
        assert links["self"].endswith(path) and links["first"] in ids and len(ids) == 1
        if "next" not in links:
            return seen
        path = links["next"].removeprefix("http://127.0.0.1:8000")
    raise AssertionError("the feed has more than 20 pages")


@pytest.mark.parametrize("body", ["short", "&" * 4_000], ids=["short", "long"])
def test_paging_a_feed_reaches_every_post(service, bot, paths, body):
    made = [
        service.post({"eventId": f"p{n}", "body": body}, bot.publish_key.text).json["id"]
        for n in range(113)
    ]
    for path in paths["json"]:
        assert follow_json(service, path) == made[::-1]
    for path in paths["atom"]:
        assert follow_atom(service, path) == made[::-1]
    filtered = follow_json(service, "/feed.json?source=bot")
    assert filtered == made[::-1]


def test_a_cursor_works_only_in_its_own_feed(service, bot, paths):
    for n in range(51):
        service.post({"eventId": f"p{n}", "body": "b"}, bot.publish_key.text)
    cursor = service.get("/feed.json").json["next_url"].partition("before=")[2]
    for path in (
        "/feed.json?source=bot&before=" + cursor,
        "/feed.json?before=made-up",
        paths["json"][1] + "?before=" + cursor,
    ):
        assert (service.get(path).status_code, service.get(path).json["code"]) == (
            400,
            "invalid_cursor",
        )


# ---- for scripts of other sites ------------------------------------------------------------------
ANYBODYS = (
    "/feed.json",
    "/feed.atom",
    "/api/traders",
    "/api/feed",
    "/api/market",
    "/api/strategies",
    "/api/health",
    "/openapi.json",
    "/api/traders/nobody",
)
SOMEBODYS = (
    "/api/v1/bots",
    "/api/v1/feed",
    "/api/v1/me",
    "/api/v1/market",
    "/",
    "/connect",
    "/leaderboard",
    "/docs",
)


def test_other_sites_can_read_public_responses_only(service, bot, paths):
    key = bot.publish_key.text
    for path in (*ANYBODYS, *paths["json"], *paths["atom"]):
        answer = service.get(path)
        assert answer.headers["Access-Control-Allow-Origin"] == "*", path
        assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin", path
        assert (
            "Access-Control-Allow-Credentials" not in answer.headers
            and "Set-Cookie" not in answer.headers
        )
    again = service.get(
        "/feed.json", headers={"If-None-Match": service.get("/feed.json").headers["ETag"]}
    )
    assert (again.status_code, again.headers["Access-Control-Allow-Origin"]) == (304, "*")
    for path in SOMEBODYS:
        answer = service.get(path, key if path.startswith("/api") else None)
        assert "Access-Control-Allow-Origin" not in answer.headers, path
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin", path
