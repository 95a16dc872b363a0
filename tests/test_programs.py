"""The program table: what is in it, and what an operator adds to it."""

from story import address

from chain.programs import table
from chain.store import name_rules

RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"


def test_the_operators_swap_programs_are_markers():
    """A venue of the table is none, unless it is configured."""
    marker = address("venue")
    programs = table((marker,))
    assert programs.is_marker(marker) and programs.family(marker) == "swap"
    assert not programs.is_marker(RAYDIUM) and not table().is_marker(marker)
    assert table((RAYDIUM,)).is_marker(RAYDIUM)


def test_the_rules_are_named_alike_in_whatever_order_the_markers_come():
    """A venue of the table that becomes a marker changes them."""
    one, other = address("one"), address("other")
    assert name_rules(table((one, other))) == name_rules(table((other, one)))
    assert len({name_rules(table(ids)) for ids in ((), (one,), (RAYDIUM,))}) == 3
