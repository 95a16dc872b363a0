"""Creating a paper trader on the owner's pages."""

import re

from test_studio import errors_of, shown

from models import Bot, Owner, Session
from paper.tables import Period, Trader

PAGE = "/traders/new"


def test_a_newcomer_gets_a_trader_a_code_and_a_session(browser):
    typed = {"name": "Wren", "family": "breakout", "start": "guarded", "tone": "dry"}
    page = browser.send(PAGE, PAGE, **typed, bio="Calm.")
    assert page.status_code == 200 and page.headers["Cache-Control"] == "no-store"
    assert re.fullmatch(r"[A-Z2-7-]{20,}", shown(page, "recovery-code"))
    (trader,) = Trader.select()
    stored = (trader.name, trader.family, trader.start_mode, trader.bio)
    assert stored == ("Wren", "breakout", "guarded", "Calm.") and '"tone":"dry"' in trader.voice
    assert Period.select().where(Period.twin == 0).count() == 1 and Session.select().count() == 1
    for path in (f"/traders/{trader.uid}", "/traders"):
        assert "Wren" in browser.get(path).text


def test_a_trader_made_by_a_signed_in_owner_joins_the_account(browser):
    browser.create("Nell")
    made = browser.send(PAGE, PAGE, name="Wren", family="flow", start="standard")
    assert made.status_code == 302 and made.headers["Location"].endswith(Trader.get().uid)
    assert Owner.select().count() == 1 and Trader.get().start_mode == "standard"


def test_errors_appear_next_to_their_fields_and_keep_the_input(browser):
    page = browser.send(PAGE, PAGE, name=" ", family="luck", start="soon", bio="Kept.")
    assert page.status_code == 422 and "Kept." in page.text
    assert set(errors_of(page)) == {"name", "family", "start"}
    assert Trader.select().count() == 0 and Owner.select().count() == 0


def test_a_copy_trader_needs_a_bot(browser):
    form = {"name": "Wren", "family": "copy", "start": "standard"}
    for bot in ("", "Ada", "bot_0"):
        page = browser.send(PAGE, PAGE, **form, bot=bot)
        assert page.status_code == 422 and set(errors_of(page)) == {"bot"}
    browser.create("Nell")
    made = browser.send(PAGE, PAGE, **form, bot=f" {Bot.get().uid} ")
    assert made.status_code == 302
    assert Trader.get().settings == f'{{"bot":"{Bot.get().uid}"}}'
    page = browser.get("/strategies")
    assert "1 paper trader copies an observed bot" in page.text


def test_a_trader_cannot_copy_a_retired_bot(browser):
    browser.create("Nell")
    Bot.update(retired_at=1).execute()
    form = {"name": "Wren", "family": "copy", "start": "standard", "bot": Bot.get().uid}
    page = browser.send(PAGE, PAGE, **form)
    assert page.status_code == 422 and set(errors_of(page)) == {"bot"}
    assert "Is retired" in page.text and not Trader.select().exists()


def test_a_closed_instance_says_so(browser, service):
    object.__setattr__(service.config, "registration", "closed")
    assert "Only the operator" in browser.get(PAGE).text
    assert Trader.select().count() == 0
