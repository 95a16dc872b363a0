"""Spam: unknown tokens that arrived without a purchase are collapsed on the holdings page, and stay
in the API.
"""

import re

import orjson
import pytest
from service import NOW, address

from market.tables import Token
from models import Wallet

W, SPAM, OTHER = address("w"), address("spam"), address("other")
JUP = "JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN"


def hold(*mints, **more):
    """Positions of unknown cost, 1.5 of each."""
    held = {"amountRaw": "1500", "decimals": 3, "costLamports": None, "unknownBasisRaw": "1500"}
    rows = [{"mint": mint, **held, **more} for mint in mints]
    Wallet.update(positions=orjson.dumps(rows).decode()).execute()


def read(service, bot):
    """The mints in the table, and the folded ones."""
    page = service.get(f"/bots/{bot.bot.uid}?tab=holdings").text
    section = re.search(r'<section aria-labelledby="holdings">.*?</section>', page, re.S)[0]
    table, _, folded = section.partition("<details")
    return [re.findall(r"/tokens/(\w+)", part) for part in (table, folded)], section


def test_an_unsolicited_token_is_folded_away_counted_and_stays_in_the_api(service, bot, get):
    hold(OTHER, SPAM)
    listed, section = read(service, bot)
    assert listed == [[], [OTHER, SPAM]]
    assert "2 unknown tokens that arrived without a purchase" in section
    shown = get(f"bots/{bot.bot.uid}").json
    assert [one["mint"] for one in shown["openPositions"]] == [OTHER, SPAM]


@pytest.mark.parametrize("unknown", ["1500", "0"])
def test_a_partly_bought_token_stays(service, bot, unknown):
    hold(SPAM, costLamports="90", unknownBasisRaw=unknown)
    listed, section = read(service, bot)
    assert listed == [[SPAM], []] and "<details" not in section


def test_a_once_traded_token_stays(service, bot):
    """Traded by this bot; another bot's trades don't matter."""
    service.make_bot("Bob", address("b"))
    service.observe_trade(address("b"), "theirs", 1, mint=SPAM)
    service.observe_trade(W, "mine", 1, mint=OTHER)
    hold(OTHER, SPAM)
    assert read(service, bot)[0] == [[OTHER], [SPAM]]


def test_well_known_and_priced_tokens_stay(service, bot):
    price = {"price_sol": "0.001", "source": "dexscreener", "quoted_at": NOW}
    Token.create(mint=OTHER, held=True, **price)
    Token.create(mint=SPAM, held=True, **price, absurd="jump")
    hold(JUP, OTHER, SPAM)
    assert read(service, bot)[0] == [[JUP, OTHER], [SPAM]]
