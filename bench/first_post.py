"""From a bare machine with Python to a verified post, by the README alone, in a real browser.

`python -m bench first-post` clones what is committed into an empty folder, runs the README's own
lines there (a recorded history stands in for Solana), creates the bot on the page, posts with the
line that the page gives, and looks until the page says that the receipt is verified. It prints the
seconds after which each step was done, the installation of all packages included.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench._ports import find_port

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = "/usr/bin/chromium"
MAX_SECONDS = 120
HEADING = "## Try it without the network"


def read_lines(ports: dict[str, str]) -> tuple[str, str]:
    """Return (the shell lines that start everything, the wallet's address) of the README, on other
    ports than those it names.
    """
    section = (ROOT / "README.md").read_text().partition(HEADING)[2].partition("\n## ")[0]
    block = "\n".join(re.findall(r"^    (.*)$", section, re.M))
    lines, _, command = block.partition("\n.venv/bin/python app.py bot create")
    for named, free in ports.items():
        lines = lines.replace(named, free)
    found = re.search(r"--wallet (\w+)", command)
    assert "make run" in lines and found, "the README no longer says how"
    return lines, found[1]


def start_all(clone: Path, lines: str, port: str) -> subprocess.Popen[bytes]:
    """Run the README's lines in a shell and leave it running."""
    kept = ("PATH", "HOME", "LANG", "PIP_", "SSL_", "REQUESTS_", "CURL_")
    environ = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    with open(clone / "said", "w") as said:
        return subprocess.Popen(
            ["bash", "-c", f"{lines}\nwait"],
            cwd=clone,
            env={**environ, "PORT": port},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def open_when_up(page: Any, url: str, until: float) -> None:
    """Open the page once the server answers."""
    from playwright.sync_api import Error

    while True:
        try:
            page.goto(url)
            return
        except Error:
            if time.monotonic() > until:
                raise
            page.wait_for_timeout(200)


def find_signature(page: Any, bot_url: str) -> str:
    """Return the signature of the newest trade that the bot's page shows, looking until it does."""
    while True:
        page.goto(f"{bot_url}?tab=trades&kind=sell")
        shown = page.locator("p.wallet:has-text('Signature') code")
        if shown.count():
            return str(shown.first.text_content())
        page.wait_for_timeout(500)


def post_as_shown(curl: str, signature: str) -> None:
    """Run the line that the page gives, with the signature in it, as the page and the README say.
    The key goes nowhere but there.
    """
    line = curl.replace('"body":', f'"signature": "{signature}", "body":')
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert '"eventId"' in done.stdout, done.stdout


def use_pages(page: Any, url: str, wallet: str, note: Any) -> None:
    """Do what a newcomer does in the browser."""
    open_when_up(page, f"{url}/connect", time.monotonic() + 2 * MAX_SECONDS)
    note("the server is up")
    page.get_by_label("Name").first.fill("Nell")
    page.get_by_label("Wallet").first.fill(wallet)
    page.get_by_role("button", name="Create bot").click()
    curl = str(page.locator("#with-curl code").text_content())
    bot_url = page.get_by_role("link", name="See its profile").get_attribute("href")
    note("the bot is created")
    signature = find_signature(page, url + str(bot_url))
    note("its trades are observed")
    post_as_shown(curl, signature)
    while not page.get_by_text("receipt verified").count():
        page.goto(url)
        page.wait_for_timeout(300)
    note("the post is verified")


def main(arguments: list[str]) -> None:
    """Time it; exit 1 where it takes more than two minutes."""
    from playwright.sync_api import sync_playwright

    port, node = str(find_port()), str(find_port())
    lines, wallet = read_lines({"8899": node})
    steps: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        clone = Path(folder) / "candor"
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        begin = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        running = start_all(clone, lines, port)

        def note(step: str) -> None:
            steps.append((step, time.monotonic() - begin))
            print(f"{steps[-1][1]:6.1f} s  {step}", flush=True)

        try:
            use_pages(browser.new_page(), f"http://127.0.0.1:{port}", wallet, note)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(30)
            browser.close()
    sys.exit(steps[-1][1] > MAX_SECONDS)
