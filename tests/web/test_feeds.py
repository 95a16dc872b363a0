"""Atom and JSON Feed, checked against RFC 4287 and JSON Feed 1.1; labels, hostile text, conditional
requests.
"""

import itertools
import re
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime

import orjson
import pytest
from jsonschema import Draft202012Validator
from service import NOW, address, hide_post, signature

from accounts import influencers, verification
from models import Bot, Post, Wallet
from web.site import feeds

SITE, W = "http://127.0.0.1:8000", address("w")
ATOM = "{http://www.w3.org/2005/Atom}"

# ---- what a feed may contain: parts of JSON Feed 1.1 and of RFC 4287 -----------------------------
TEXT, URL = {"type": "string", "pattern": r"\S"}, {"type": "string", "pattern": "^https?://[^/]"}
MOMENT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
OBJECT, ANY = {"type": "object"}, {}


def only(required, optional=()):
    """The schema of an object with these members."""
    members = {**required, **dict(optional)}
    return {"required": [*required], "properties": members, "additionalProperties": False}


def array(shape):
    return {"type": "array", "items": shape}


ITEM = {**dict.fromkeys(("id", "url"), URL), "authors": array(only({"name": TEXT, "url": URL}))}
ITEM |= dict.fromkeys(("title", "summary", "content_text"), TEXT)
ITEM |= dict.fromkeys(("date_published", "date_modified"), MOMENT)
ITEM |= {"tags": array(TEXT), "_candor": OBJECT}
FEED = {"version": {"const": "https://jsonfeed.org/version/1.1"}, "title": TEXT}
FEED |= {"description": TEXT, "home_page_url": URL, "feed_url": URL}
FEED["items"] = array(only(ITEM, {"external_url": URL}))
JSON_FEED = only(FEED, {"next_url": URL})


def read_element(element):
    """An Atom element as JSON: its attributes, its text as `#`, and lists of children by name."""
    found = {f"@{name}": value for name, value in element.attrib.items()}
    found["#"] = element.text or ""
    for child in element:
        found.setdefault(child.tag.removeprefix(ATOM), []).append(read_element(child))
    return found


def one(text=TEXT, **attributes):
    """One child without children of its own."""
    told = {f"@{name}": value for name, value in attributes.items()}
    return {"maxItems": 1, "items": only({"#": text, **told})}


LINK = only({"#": ANY, "@rel": TEXT, "@type": TEXT, "@href": URL})
ALTERNATE = {"properties": {"@rel": {"const": "alternate"}}}
PERSON = array(only({"#": ANY, "name": one()}, {"uri": one(URL)}))
WORDS = one(type={"const": "text"})
COMMON = {"#": ANY, "id": one(URL), "title": one(), "updated": one(MOMENT)}
COMMON["link"] = {"items": LINK, "contains": ALTERNATE, "maxContains": 1}
ENTRY = {**COMMON, "published": one(MOMENT), "author": PERSON, "summary": WORDS, "content": WORDS}
ENTRY["category"] = array(only({"#": ANY, "@term": TEXT}))
FEED = {**COMMON, "subtitle": one(), "generator": one(version=TEXT)}
ATOM_FEED = only(FEED, {"author": PERSON, "entry": array(only(ENTRY))})
# An author for each entry, or for the feed.
ATOM_FEED["anyOf"] = [{"required": ["entry"]}, {"required": ["author"]}]


def find_faults(raw):
    """Violations of RFC 4287 or JSON Feed 1.1."""
    is_atom = raw.startswith("<")
    feed = read_element(ET.fromstring(raw)) if is_atom else orjson.loads(raw)
    schema = Draft202012Validator(ATOM_FEED if is_atom else JSON_FEED)
    if faults := [error.message for error in schema.iter_errors(feed)]:
        return faults
    ids = [str(item["id"]) for item in feed.get("entry" if is_atom else "items", ())]
    return ["two items have one id"] if len({*ids}) < len(ids) else []


BAD_ATOM = """
<published>2026 -> <published>today
<updated>2026 -> <updated>
<name>Ada -> <name>
<author> -> <author><email>x</email>
type="text" -> type="markdown"
rel="self" -> rel="alternate"
category term -> category label
href="http -> href="/http
<id> -> <id>urn:a</id><id>
"""
BAD_JSON = """
https://jsonfeed.org/version/1.1 -> 1.1
"id":"http -> "id":"
"title": -> "headline":
"_candor":{ -> "_candor":5,"_more":{
"date_modified":"2026 -> "date_modified":"26
"tags":[ -> "tags":[null,
"authors":[{ -> "authors":[{},{
"""


def test_an_invalid_feed_would_be_detected(service, publish):
    publish("1", "b")
    for path, changes in (("/feed.atom", BAD_ATOM), ("/feed.json", BAD_JSON)):
        raw = service.get(path).text
        for change in changes.strip().splitlines():
            old, _, new = change.partition(" -> ")
            assert old in raw and find_faults(raw.replace(old, new, 1)), change
    feed = orjson.loads(raw)
    assert find_faults(orjson.dumps({**feed, "items": feed["items"] * 2}).decode())


# ---- both formats --------------------------------------------------------------------------------
def read_feed(service, path):
    """A feed, which must be valid; Atom by the names of JSON Feed."""
    answer = service.get(path)
    assert find_faults(answer.text) == []
    if answer.content_type == "application/feed+json":
        return answer.json
    assert answer.content_type.startswith("application/atom+xml")
    root = read_element(ET.fromstring(answer.data))
    links = {f"{link['@rel']}_url": link["@href"] for link in root["link"]}
    items = [read_entry(entry) for entry in root.get("entry", ())]
    return {**links, "id": root["id"][0]["#"], "updated": root["updated"][0]["#"], "items": items}


def read_entry(entry):
    names = {"content_text": "content", "date_published": "published", "date_modified": "updated"}
    names |= {name: name for name in ("id", "title", "summary")}
    links = {link["@rel"]: link["@href"] for link in entry["link"]}
    return {
        **{name: entry[tag][0]["#"] for name, tag in names.items()},
        "tags": [one["@term"] for one in entry["category"]],
        "external_url": links.get("related"),
    }


def ids_of(feed):
    return [item["id"].removeprefix(f"{SITE}/posts/") for item in feed["items"]]


@pytest.fixture
def paths(bot):
    ours = f"/bots/{bot.bot.uid}"
    return "/feed.atom", f"{ours}/feed.atom", "/feed.json", f"{ours}/feed.json"


@pytest.fixture
def publish(service, key):
    """publish(event ID, body, **more) -> the post's ID"""
    return lambda event, body="b", **more: service.post(
        {"eventId": event, "body": body, **more}, key
    ).json["id"]


HOSTILE = [
    "<script>alert(1)</script> & ]]> <b>bold</b>",
    "right\u202eleft",
    "emoji 🙂\nand a second line",
    "\"quotes' & entities &amp; &#0;",
    "x" * 4000,
    "<![CDATA[ <?pi ?> <!-- -->",
]


@pytest.fixture
def said(service, publish):
    """The IDs of posts, newest first: one of every verification, hostile ones, a hidden one, and
    one whose author's name and text no check would accept.
    """
    service.observe_trade(W, "buy", 10)
    service.observe_trade(W, "gift", 11, kind="transfer_in")
    made = [
        publish(name, name, signature=signature(name), reason=f"because of {name}")
        for name in ("buy", "gift", "lost", "later")
    ]
    Wallet.update(observed_to=NOW // 1000 + 10**9).execute()
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("lost")}, NOW)
    Post.update(status="pending").where(Post.uid == made[3]).execute()
    made += [publish(f"h{n}", body, symbol="<i>") for n, body in enumerate(HOSTILE)]
    made.append(publish("gone", "secret words", reason="secret reason"))
    hide_post(made[-1], NOW)
    made.append(publish("raw"))
    raw = "bell \x07 null \x00 escape \x1b[31m lone \x0b\x0c \ufffe\uffff end"
    Post.update(body=raw, reason="\x08").where(Post.uid == made[-1]).execute()
    Bot.update(name="Ada \x00\x07]]> <x>").execute()
    return made[::-1]


def test_feeds_are_valid_whatever_they_contain(service, paths, said):
    for path in paths:
        feed = read_feed(service, path)
        assert ids_of(feed) == said, path
        assert feed.get("feed_url", feed.get("self_url")) == SITE + path


def test_each_item_starts_with_its_label(service, said):
    wanted = {
        "buy": "receipt verified · wallet claimed, not proven",
        "gift": "does not match",
        "lost": "not verified",
        "later": "waiting for the chain",
    }
    items, entries = (
        {one["content_text"].partition("\n")[0]: one for one in read_feed(service, path)["items"]}
        for path in ("/feed.json", "/feed.atom")
    )
    for name, label in wanted.items():
        item = items[name]
        assert entries[name].items() <= item.items()
        assert re.match(rf"\[{label}\] Ada.*: {name}$", item["title"])
        assert item["tags"] == [label, "untrusted content"]
        assert item["content_text"] == f"{name}\n\nReason: because of {name}"
        assert item["summary"].lower().startswith(label)
        assert item["external_url"] == "https://solscan.io/tx/" + signature(name)
    assert all(item["title"].startswith("[") for item in items.values())


def test_text_is_escaped_and_hidden_text_is_gone(service, said):
    texts = [item["content_text"] for item in read_feed(service, "/feed.atom")["items"]]
    assert {HOSTILE[0], "rightleft"} <= set(texts)
    assert texts[0] == (
        "bell \ufffd null \ufffd escape \ufffd[31m lone \ufffd\ufffd \ufffd\ufffd end\n\n"
        "Reason: \ufffd"
    )
    assert "removed this text" in texts[1]
    for path in ("/feed.atom", "/feed.json"):
        assert b"secret" not in service.get(path).data


def test_a_changed_verification_updates_the_feed(service, publish):
    uid = publish("e", signature=signature("t"))
    (before,) = read_feed(service, "/feed.atom")["items"]
    service.observe_trade(W, "t", 10)
    later = Post.get(Post.uid == uid).created_at + 60_000
    verification.verify_posts(Wallet.get(Wallet.address == W), {signature("t")}, later)
    feed = read_feed(service, "/feed.atom")
    (after,) = feed["items"]
    assert after["date_published"] == before["date_modified"]
    updated = datetime.fromisoformat(after["date_modified"])
    assert updated - datetime.fromisoformat(before["date_modified"]) == timedelta(minutes=1)
    (item,) = read_feed(service, "/feed.json")["items"]
    assert feed["updated"] == after["date_modified"] == item["date_modified"]


def test_an_unchanged_feed_returns_304(service, paths, publish):
    publish("e")
    for path in paths:
        first = service.get(path).headers
        changed = parsedate_to_datetime(first["Last-Modified"])
        now, before = (
            {"If-Modified-Since": format_datetime(at, usegmt=True)}
            for at in (changed, changed - timedelta(seconds=1))
        )
        for headers, status in (
            ({"If-None-Match": first["ETag"]}, 304),
            (now, 304),
            (before, 200),
            ({"If-None-Match": '"other"', **now}, 200),
        ):
            assert service.get(path, headers=headers).status_code == status, (path, headers)
    etag = service.get("/feed.atom").headers["ETag"]
    influencers.set_profile(Bot.get(), name="Eve", now=1)
    assert service.get("/feed.atom", headers={"If-None-Match": etag}).status_code == 200


def test_an_empty_feed_is_valid_too(service, paths):
    for path in paths:
        assert read_feed(service, path)["items"] == []
        changed = service.get(path).headers["Last-Modified"]
        assert changed == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_filtered_feed_links_to_itself(service, publish):
    mint = address("mint")
    named = publish("1", "about it", mint=mint)
    publish("2", "about nothing")
    feed = read_feed(service, f"/feed.json?mint={mint}&colour=%3Cred%3E")
    assert ids_of(feed) == [named] and feed["feed_url"].endswith(f"/feed.json?mint={mint}")
    assert ids_of(read_feed(service, f"/feed.atom?mint={mint}&source=bot")) == [named]
    for query in ("mint=nonsense", "source=nobody"):
        assert service.get(f"/feed.json?{query}").json["code"] == "invalid_parameter"
        assert service.get(f"/feed.atom?{query}").status_code == 400
    assert service.get("/bots/bot_nobody/feed.json").json["code"] == "not_found"
    assert service.get("/bots/bot_nobody/feed.atom").status_code == 404


# ---- page after page -----------------------------------------------------------------------------
@pytest.mark.parametrize("character", ["&", "\U0001f332", "\n."])
def test_a_feed_of_long_posts_has_fewer_complete_entries(service, paths, publish, character):
    """50 posts of maximum length would be 2,000,000 bytes of `&amp;`."""
    long = (character * 3999)[:3998] + "."
    newest = [publish(str(number), long, reason=long) for number in range(25)][::-1]
    counts = set()
    for path in paths:
        assert len(service.get(path).data) <= 256_000 + 2_000
        ids = ids_of(read_feed(service, path))
        assert ids == newest[: len(ids)]
        counts.add(len(ids))
    assert len(counts) == 1 and 5 <= counts.pop() < 25


def follow(service, path):
    """Yield a feed's pages; Atom's links are those of RFC 5005."""
    while path:
        feed = read_feed(service, path)
        if "self_url" in feed:
            assert feed["self_url"] == SITE + path and feed["first_url"] == feed["id"]
        else:
            assert "before=" not in feed["feed_url"]
        yield ids_of(feed)
        path = feed.get("next_url", "").removeprefix(SITE)


def test_paging_a_feed_reaches_every_post(service, paths, publish):
    """A page of fifty short posts, one of short and long ones, and one of long ones."""
    made = [publish(f"long {n}", "&" * 4_000) for n in range(15)]
    made += [publish(f"short {n}", "short") for n in range(55)]
    for path in (*paths, "/feed.json?source=bot"):
        pages = list(itertools.islice(follow(service, path), 20))
        assert [uid for page in pages for uid in page] == made[::-1], path
        assert len(pages) == 3 and len(pages[0]) == 50, path


def test_a_cursor_works_only_in_its_own_feed(service, bot, publish, monkeypatch):
    monkeypatch.setattr(feeds, "MAX_ITEMS", 1)
    publish("1"), publish("2")
    cursor = service.get("/feed.json").json["next_url"].partition("before=")[2]
    for path in (
        f"/feed.json?source=bot&before={cursor}",
        "/feed.json?before=made-up",
        f"/bots/{bot.bot.uid}/feed.json?before={cursor}",
    ):
        answer = service.get(path)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor"), path


# ---- for scripts of other sites ------------------------------------------------------------------
ANYBODYS = """
/feed.json /feed.atom /api/traders /api/feed /api/market /api/strategies /api/health /openapi.json
/api/traders/nobody
""".split()
SOMEBODYS = "/api/v1/bots /api/v1/feed /api/v1/me /api/v1/market / /connect /leaderboard /docs"


def test_other_sites_can_read_public_responses_only(service, key, paths):
    def origin_and_policy(headers):
        names = ("Access-Control-Allow-Origin", "Cross-Origin-Resource-Policy")
        return tuple(headers.get(name) for name in names)

    for path in (*ANYBODYS, *paths):
        headers = service.get(path).headers
        assert origin_and_policy(headers) == ("*", "cross-origin"), path
        assert not {"Access-Control-Allow-Credentials", "Set-Cookie"} & {*headers.keys()}, path
    etag = service.get("/feed.json").headers["ETag"]
    again = service.get("/feed.json", headers={"If-None-Match": etag})
    assert (again.status_code, again.headers["Access-Control-Allow-Origin"]) == (304, "*")
    for path in SOMEBODYS.split():
        headers = service.get(path, key if path.startswith("/api") else None).headers
        assert origin_and_policy(headers) == (None, "same-origin"), path
