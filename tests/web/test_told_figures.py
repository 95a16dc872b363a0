"""Limits in the docs match the code."""

from pathlib import Path

import pytest

import config
from accounts import admin, api_keys, backtests, conduct, departures, posts
from agents import answers
from cli import server
from evidence import lines as evidence_lines
from evidence import witness
from notify import client, plan
from web.api import results, stream
from web.server import gate
from web.site import pages

DOCS = Path(__file__).resolve().parents[2] / "docs"
NUMBERS = {3: "three", 5: "five", 10: "ten", 12: "twelve", 20: "twenty"}
MB, GB, KB = 1_000_000, 1_000_000_000, 1024
TOLD = {
    "results.md": (f"lists the {NUMBERS[results.MAX_LISTED]} with the largest effect;",),
    "check.md": (
        f"A page has {evidence_lines.PAGE_SIZE:,} lines.",
        f"at most {witness.LIMITS.max_bytes // MB} MB of each response. A run makes at most"
        f" {witness.MAX_REQUESTS} requests",
    ),
    "follow.md": (
        f"At most {stream.MAX_STREAMS_EACH} streams can be open per owner, and "
        f"{stream.MAX_STREAMS_EACH} per IP address across all owners.",
        f"One process serves at most {stream.MAX_STREAMS} streams.",
        f"a comment is sent every {stream.COMMENT_SECONDS} seconds",
        f"Responses are limited to {answers.MAX_ANSWER_BYTES:,} bytes.",
    ),
    "interface.md": (f"from the page's cursor on; {stream.MAX_STREAMS_EACH} per IP",),
    "hooks.md": (
        f"Any 2xx response within {client.ANSWER_SECONDS:.0f} seconds",
        f"after {', '.join(str(wait) for wait in plan.WAITS_SECONDS[:-1])} seconds, then",
    ),
    "leaving.md": (
        f"one IP address can request {NUMBERS[gate.EXPORTS_PER_MINUTE]} a minute",
        f"the files cut at {departures.MAX_ROWS:,} rows (`cut`)",
    ),
    "operate.md": (
        f"once and within {NUMBERS[admin.LOGIN_MS // 60_000]} minutes",
        f"The session lasts {NUMBERS[admin.SESSION_MS // 3_600_000]} hours",
        f"{NUMBERS[gate.REPORTS_PER_MINUTE]} times a minute from one address",
        f"reads only {', '.join(f'`{name}`' for name in server.KEPT_SETTINGS[:-1])} and"
        f" `{server.KEPT_SETTINGS[-1]}` from the environment".replace(
            "`PORT`", f"`PORT` ({server.DEMO_PORT})"
        ),
        f"post can have {conduct.MAX_OPEN_OF_POST} open reports, an instance {conduct.MAX_OPEN:,}.",
        f"(text of up to {pages.MAX_ABOUT_BYTES:,} bytes",
    ),
    "paper.md": (
        f"up to {backtests.MAX_CANDIDATES} combinations",
        f"up to {NUMBERS[backtests.MAX_AN_HOUR]} an hour per owner",
        f"The last {NUMBERS[backtests.MAX_KEPT]} are kept",
        f"each within {NUMBERS[backtests.MAX_SECONDS // 60]} minutes and 1 GB",
    ),
    "programs.md": (f"At most {config.MAX_TABLE_BYTES:,} bytes",),
    "../templates/docs.html": (f"up to {api_keys.MAX_ACTIVE_KEYS} active keys",),
    "settings.md": (f"their text and {posts.POST_OVERHEAD_BYTES} bytes each",),
}


@pytest.mark.parametrize("page", TOLD)
def test_pages_state_the_limits_in_the_code(page):
    # Sentences continue across line ends.
    text = " ".join((DOCS / page).read_text().split())
    assert [sentence for sentence in TOLD[page] if sentence not in text] == []
