"""A node withholds one transaction of a recorded history: coverage reports it, no wrong result is
shown, and the ledger is complete once the node lists it.

The default run uses a sample; `--full` withholds each transaction of three wallets once.
"""

import ground
import pytest
import sampling
from lookout import Lookout
from node import Chain, FakeNode


@pytest.mark.parametrize("number", sampling.sample([1, 2, 3], 1))
def test_a_withheld_transaction_is_named_and_repaired(settings, db, history, number, full):
    every = 1 if full else 120
    told = ground.change(settings, extra_swap_programs=(history["venue"],))
    assert withhold_each(told, history, number, every) == []


def withhold_each(settings, history, number, every):
    """Withhold every Nth transaction, one at a time; return the verdicts that are wrong."""
    wallet = history["wallets"][number - 1]

    def begin(node):
        # All of it has happened by then: what is ahead of the clock counts from its listing on.
        made = Lookout.begin(settings, node, wallets=[wallet])
        made.clock.sleep(max(row.receipt["blockTime"] for row in chain.rows) - made.now // 1000)
        return made

    whole = Chain.recorded(history)
    # What else happened there changes nothing for this wallet.
    chain = Chain(whole.touching(wallet))
    moving = {row.signature for row in chain.moving(wallet)}
    sound = begin(FakeNode(chain)).settle()
    truth, results, opening = (
        sound.ledger(),
        {t.signature: t.result for t in sound.trades()},
        sound.coverage()["openingInventoryUnknown"],
    )
    wrong = []
    for place, row in enumerate(chain.rows):
        if place % every:
            continue
        node = FakeNode(chain)
        node.withhold(row.signature)
        seen = begin(node).settle()
        earlier = set().union(*(mints_of(before, wallet) for before in chain.rows[:place]))
        verdict = (
            judge(seen, row, wallet, results, opening, earlier)
            if row.signature in moving
            else judge_quiet(seen, sound.state() if number == 3 else "complete")
        )
        node.give(row.signature)
        # What no gap tells of is found by the nightly full scan.
        seen.clock.sleep(1 if "gap" in verdict else 86_400)
        seen.look(6)
        if seen.settle().ledger() != truth:
            verdict += " NOT HEALED"
        if "NOT" in verdict:
            wrong.append((row.signature, row.slot, verdict, seen.state()))
    return wrong


def mints_of(row, wallet):
    return {
        b["mint"]
        for side in ("preTokenBalances", "postTokenBalances")
        for b in row.receipt["meta"][side]
        if b["owner"] == wallet
    }


def judge(seen, row, wallet, results, opening, earlier):
    """What was said while `row` was withheld, in words; NOT stands where it was not right.

    `earlier`: mints the wallet moved before. Where its history has no beginning, what a first
    receipt moved cannot be told from opening inventory.
    """
    told = [gap for gap in seen.gaps() if gap[0] <= row.slot <= gap[1]]
    mints = mints_of(row, wallet)
    unknown = set(seen.coverage()["openingInventoryUnknown"]) - set(opening)
    verdict = (
        "named by a gap"
        if told
        else (
            "partial, taken for opening inventory of its mint"
            if unknown & mints
            else (
                "partial, taken for the time before the history" if not seen.gaps() else "NOT named"
            )
        )
    )
    if seen.state() != "partial":
        verdict += f" NOT partial but {seen.state()}"
    end = max((gap[1] for gap in told), default=None)
    wrong = [t for t in seen.trades() if t.result is not None and t.result != results[t.signature]]
    touched = mints & earlier if opening else mints
    if told and any(
        t.kind == "sell" and t.slot > end and t.mint in touched and t.result is not None
        for t in seen.trades()
    ):
        verdict += " NOT without results after it"
    if told and wrong:
        verdict += " NOT only true results"
    return verdict


def judge_quiet(seen, state):
    return (
        "changes nothing, found by the nightly full scan"
        if seen.state() == state
        else f"changes nothing, yet NOT {state} but {seen.state()}"
    )
