"""What a lending program's accounts paid to the wallet without an instruction."""

import pytest
from histories import PROGRAMS
from scene import Scene
from story import address

from chain.addresses import WRAPPED_SOL
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt

SOL, KAMINO = 10**9, PROGRAMS["kamino"]
FIRST, SECOND = sorted(("bank", "vault"), key=address)


@pytest.fixture
def scene():
    return Scene(**{"ada": SOL, "stranger": SOL, "bank": 9 * SOL, "vault": 9 * SOL})


def read(receipt):
    found = read_entry(parse_receipt(receipt), address("ada"), table())
    assert found.kind == "lending"
    return found.parked


def test_lamports_without_an_instruction_are_drawn_from_each_account_in_turn(scene):
    """Two accounts lose 3 and 2 SOL, of which ada gets 4 and a stranger 1."""
    with scene.call(KAMINO, "ada", FIRST, SECOND):
        scene.shift(FIRST, "ada", 3 * SOL)
        scene.shift(SECOND, "ada", SOL)
        scene.shift(SECOND, "stranger", SOL)
    assert read(scene.receipt("ada")) == (
        (address(FIRST), WRAPPED_SOL, -3 * SOL),
        (address(SECOND), WRAPPED_SOL, -SOL),
    )


def test_rent_that_the_network_collected_went_to_nobody(scene):
    """One account pays ada a SOL, another 500 lamports of rent."""
    with scene.call(KAMINO, "ada", FIRST, SECOND):
        scene.shift(SECOND, "ada", SOL)
    told = scene.receipt("ada")
    keys = [one["pubkey"] for one in told["transaction"]["message"]["accountKeys"]]
    told["meta"]["postBalances"][keys.index(address(FIRST))] -= 500
    told["meta"]["rewards"] = [
        {"pubkey": address(FIRST), "lamports": -500, "rewardType": "Rent", "commission": None}
    ]
    assert read(told) == ((address(SECOND), WRAPPED_SOL, -SOL),)
