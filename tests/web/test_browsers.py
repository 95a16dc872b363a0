"""Files that browsers and search engines request from every host."""

import re

import pytest


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/robots.txt", "text/plain"),
        ("/favicon.ico", "image/x-icon"),
        ("/manifest.webmanifest", "application/manifest+json"),
    ],
)
def test_each_file_has_its_type_and_is_cached_for_a_day(service, path, kind):
    with service.get(path) as answer:
        assert (answer.status_code, answer.mimetype) == (200, kind)
        assert re.search(r"\bmax-age=86400\b", answer.headers["Cache-Control"])
    with service.get(path, headers={"If-None-Match": answer.headers["ETag"]}) as again:
        assert again.status_code == 304


def test_crawlers_are_kept_from_the_api_and_owner_pages_only(service):
    lines = service.get("/robots.txt").text.splitlines()
    assert lines[0] == "User-agent: *" and "Disallow: /" not in lines
    assert {"Disallow: /api/", "Disallow: /connect"} <= set(lines)


def test_pages_link_the_manifest_and_its_icons_are_valid(service):
    page = service.get("/")
    assert '<link rel="manifest" href="/manifest.webmanifest">' in page.text
    assert "manifest-src 'self'" in page.headers["Content-Security-Policy"]
    icon = service.get("/manifest.webmanifest").json["icons"][0]
    with service.get(icon["src"]) as drawn:
        assert drawn.mimetype == icon["type"]
    with service.get("/favicon.ico") as answer:
        assert answer.data[:6] == b"\0\0\1\0\2\0" and answer.data.count(b"\x89PNG") == 2
