"""Kinds of transactions: every row of truth.csv, and each rule on made-up receipts."""

import csv
import json
from contextlib import ExitStack
from hashlib import sha256
from itertools import product

import pytest
from corpus import read_truth
from scene import Scene
from story import VENUE, Story, address

from chain.addresses import b58encode
from chain.reading.entries import read_entry
from chain.reading.flows import read_effect
from chain.reading.kinds import Kind, decide_kind, find_discriminator
from chain.reading.programs import TIP_ACCOUNTS, table
from chain.reading.receipts import parse_receipt

# Rows read as the alternative in truth.csv. A remainder of one mint is a residue: 907 units of 4.7
# million USDC, 238,744 of 1.9 million. A full purchase and sale in one receipt is a round trip. No
# other row uses an alternative.
BY_AN_ALTERNATIVE = {
    "2NYtCvU8XhiyM7WPXgaGgmECzVbWe1AnHCAPX5acJhiz3gdFnYqhkoLEsjkBAbPRepJfxRXp21RfDwHvwSQt2jEq": (
        "swap",
        ("residue",),
    ),
    "4pjZqY6ZKG9wr56PnX3Tmj39oJT994DefkHVZKoMUz5R2bQsCS7TFLUt2e24w1aAytrDMGpLAFPR9jnDXwrnxuUB": (
        "buy",
        ("residue",),
    ),
    "33LHUzKfhBvU68kYib22oFx2XdQKQZ2sfvTmmdCFEr6YidyP8S3WwAurjz6Suewvr2WUByV79K3stNCZDe7wq3De": (
        "round_trip",
        (),
    ),
}
PROGRAMS = table()


def kind_of(raw, wallet, programs=PROGRAMS):
    receipt = parse_receipt(raw)
    return decide_kind(receipt, read_effect(receipt, wallet, TIP_ACCOUNTS), programs)


def test_every_recorded_transaction_has_its_expected_kind(receipts):
    for row in read_truth(receipts):
        raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
        kind = kind_of(raw, row["wallet"])
        if row["signature"] in BY_AN_ALTERNATIVE:
            assert f"alt={kind.kind}" in row["flags"].split()
            assert (kind.kind, kind.flags) == BY_AN_ALTERNATIVE[row["signature"]]
            continue
        assert (row["signature"], kind.kind) == (row["signature"], row["kind"])
        named = set(row["flags"].split()) & {"ambiguous", "fee_only"}
        assert kind.kind != "other" or named <= set(kind.flags)
        # A keeper keeps a little of two mints, so there is no single one.
        if "keeper" not in row["flags"]:
            assert kind.mint == (row["mint"] or None)


def test_every_recorded_trade_keeps_its_price_to_the_lamport(receipts):
    """At least 96% of every real purchase, sale, swap and round trip is explained, and nothing is
    split off.
    """
    priced = 0
    for row in read_truth(receipts):
        raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
        found = read_entry(parse_receipt(raw), row["wallet"], PROGRAMS)
        if found.kind in ("buy", "sell", "swap", "round_trip"):
            priced += 1
            assert found.explained_percent >= 96 and "value_unexplained" not in found.flags
            assert (found.venue_sol, found.venue_tokens) == (found.sol, found.tokens)
    wanted = {"buy": 0, "sell": 0, "swap": 0}
    for row in read_truth(receipts):
        if row["kind"] in wanted:
            wanted[row["kind"]] += 1
    # and three rows read as their alternative: BY_AN_ALTERNATIVE
    assert priced == sum(wanted.values()) + len(BY_AN_ALTERNATIVE)


def test_every_recorded_program_is_known(receipts):
    """ID, family and tips of programs.csv against the table; for a wrapper without a family, the
    called programs decide.
    """
    with open(receipts / "programs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    families = {
        r["id"]: r["family"]
        for r in rows
        if r["family"] in ("swap", "order", "lending", "liquidity", "stake", "bridge", "nft")
    }
    assert {program: PROGRAMS.family(program) for program in families} == families
    assert {r["id"] for r in rows if r["family"] == "tip"} <= TIP_ACCOUNTS
    assert {r["id"] for r in rows if r["family"] != "tip"} <= PROGRAMS.names.keys()


def test_the_recorded_history_has_its_expected_kinds(history, expected):
    """With the marker every row matches the oracle; without it, the trades are exchanges by an
    unknown program.
    """
    told = table([history["venue"]])
    for one in history["transactions"]:
        for wallet in history["wallets"]:
            row = next(
                (r for r in expected[wallet]["rows"] if r["signature"] == one["signature"]), None
            )
            if row:
                kind = kind_of(one["json"], wallet, told)
                # the chain's market maker signs; the oracle doesn't say so
                flags = set(kind.flags) - {"fee_only", "counterparty_signed"}
                assert (kind.kind, flags) == (row["kind"], set(row["flags"]))
                if row["kind"] in ("buy", "sell", "swap"):
                    blind = kind_of(one["json"], wallet)
                    assert blind.kind == "other" and blind.flags == ("unrecognised_program",)


# ---- each rule -----------------------------------------------------------------------------------
OTHER_VENUE, UNKNOWN = (
    "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4",
    address("a program nobody knows"),
)

KAMINO_ORDERS = "LiMoM9rMhrdYrfzUCxQppvxCSG1FcrUK9G8uLq4A1GF"
TITAN_ORDERS = "TitanLozLMhczcwrioEguG2aAmiATAPXdYpBg3DbeKK"
DRIFT = "dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH"


@pytest.fixture
def story():
    """Ada has 1 SOL, 1,000 CAT and an account of DOG."""
    made = Story()
    made.fund("ada", 10**9)
    made.receive("ada", "CAT", 1_000)
    made.receive("ada", "DOG", 1)
    return made


def sol(source, target, amount):
    return "lamports", source, target, amount


def tokens(mint, source, target, raw):
    return "tokens", mint, source, target, raw


IN, OUT = tokens("CAT", "maker", "ada", 100), tokens("CAT", "ada", "maker", 100)
PAID, GOT = sol("ada", "maker", 500_000), sol("maker", "ada", 500_000)


def test_a_configured_program_is_a_venue(story):
    story.transact("ada", [PAID, IN], UNKNOWN)
    assert kind_of(story.rows[-1].receipt, address("ada"), table([UNKNOWN])).kind == "buy"


def test_a_program_in_the_operators_file_is_a_venue(story):
    story.transact("ada", [PAID, IN], UNKNOWN)
    receipt, ada = story.rows[-1].receipt, address("ada")
    assert kind_of(receipt, ada).flags == ("unrecognised_program",)
    added = f"id,name,family,source\n{UNKNOWN},Tomorrow,swap,https://tomorrow.example\n"
    found = kind_of(receipt, ada, table((), added))
    assert (found.kind, found.venue, found.flags) == ("buy", "Tomorrow", ())


def add_call(raw, program, name, *accounts):
    """Append an instruction to a receipt."""
    # A name, and a byte of its call data.
    data = b58encode(sha256(f"global:{name}".encode()).digest()[:8] + b"\1")
    raw["transaction"]["message"]["instructions"].append(
        {"programId": program, "accounts": list(accounts), "data": data, "stackHeight": None}
    )


def test_a_swap_with_kamino_balance_checks_stays_a_swap(story):
    story.transact("ada", [PAID, IN], VENUE)
    raw = story.rows[-1].receipt
    add_call(raw, KAMINO_ORDERS, "log_user_swap_balances_end", address("ada"))
    found = kind_of(raw, address("ada"))
    assert (found.kind, found.venue, found.flags) == ("buy", "pump.fun", ())


@pytest.mark.parametrize("program", [KAMINO_ORDERS, TITAN_ORDERS])
def test_other_order_programs_are_read_by_what_moved(story, program):
    """Their instruction names are unknown, so signer and moves decide."""
    story.transact("ada", [OUT], program)
    opened = kind_of(story.rows[-1].receipt, address("ada"))
    story.transact("ada", [IN], program)
    canceled = kind_of(story.rows[-1].receipt, address("ada"))
    story.transact("maker", [IN], program)
    filled = kind_of(story.rows[-1].receipt, address("ada"))
    assert [one.kind for one in (opened, canceled, filled)] == [
        "order_open",
        "order_cancel",
        "order_fill",
    ]
    for moves, kind in (([PAID], "order_open"), ([], "order_cancel")):
        story.transact("ada", moves, program)
        assert kind_of(story.rows[-1].receipt, address("ada")).kind == kind


def test_a_margin_deposit_is_not_a_sale(story):
    """Drift: it looks like a sale."""
    story.transact("ada", [OUT, GOT], DRIFT)
    assert kind_of(story.rows[-1].receipt, address("ada")).kind == "lending"


def test_failure_is_checked_first(story):
    story.fail("ada")
    found = kind_of(story.rows[-1].receipt, address("ada"))
    assert (found.kind, found.venue) == ("failed", "pump.fun")


def test_discriminators_are_anchors():
    """As in the IDL of any Anchor program that has such an instruction."""
    assert find_discriminator("initialize") == bytes.fromhex("afaf6d1f0d989bed")


# ---- the whole of a kind -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rent", "kind"),
    [
        ("open", Kind("account_open", "pump.fun")),
        ("close", Kind("account_close", "pump.fun")),
        (None, Kind("other", "pump.fun", None, ("fee_only",))),
    ],
)
def test_a_swap_that_exchanges_nothing_may_pay_rent(rent, kind):
    """5 CAT go and come back."""
    scene = Scene(ada=10**9).holds("ada", "CAT", 5).holds("eve", "CAT", 5).holds("ada", "FOX", 0)
    with scene.call(VENUE, "ada", "eve"):
        scene.send("CAT", "ada", "eve", 5)
        scene.send("CAT", "eve", "ada", 5)
    if rent == "open":
        scene.open("ada", "ada", "DOG")
    elif rent == "close":
        scene.close("ada's FOX", "ada")
    assert kind_of(scene.receipt("ada", "eve"), address("ada")) == kind


@pytest.mark.parametrize("signed", [True, False])
def test_fee_only_requires_having_paid_it(signed):
    scene = Scene(ada=10**9, eve=10**9).holds("ada", "CAT", 50)
    scene.pay("eve", "eve", 5)
    raw = scene.receipt("eve", *(["ada"] if signed else []))
    assert kind_of(raw, address("ada")) == Kind("other")


@pytest.mark.parametrize(
    "change, decimals, kind",
    [(1, 0, "nft"), (-1, 0, "nft"), (2, 0, "transfer_in"), (1, 1, "transfer_in")],
)
def test_a_single_indivisible_token_is_a_collectible(change, decimals, kind):
    scene = Scene(ada=10**9, eve=10**9).holds("ada", "CAT", 5).holds("eve", "CAT", 5)
    scene.send("CAT", *(("eve", "ada") if change > 0 else ("ada", "eve")), abs(change))
    raw = scene.receipt("ada", "eve")
    for row in (*raw["meta"]["preTokenBalances"], *raw["meta"]["postTokenBalances"]):
        row["uiTokenAmount"]["decimals"] = decimals
    assert kind_of(raw, address("ada")) == Kind(kind, None, address("CAT"))


def test_a_swap_program_hands_over_a_collectible():
    scene = Scene(ada=10**9, eve=10**9).holds("eve", "CAT", 1)
    scene.decimals = {"CAT": 0}
    with scene.call(VENUE, "ada", "eve"):
        scene.open("eve", "ada", "CAT")
        scene.send("CAT", "eve", "ada", 1)
    found = kind_of(scene.receipt("ada", "eve"), address("ada"))
    assert found == Kind("nft", "pump.fun", address("CAT"))


@pytest.mark.parametrize(("signers", "more"), [(["ada"], ()), ([], ("not_signer",))])
def test_a_deposit_beside_a_swap_is_ambiguous(signers, more):
    scene = Scene(ada=10**9, eve=10**9).holds("ada", "CAT", 5).holds("eve", "CAT", 5)
    for program in (LENDING, RAYDIUM):
        with scene.call(program, "ada", "eve"):
            scene.send("CAT", "eve", "ada", 1)
    found = kind_of(scene.receipt("eve", *signers), address("ada"))
    assert (found.kind, found.flags) == ("other", ("ambiguous", *more))


def test_what_others_burn_is_no_share():
    scene = Scene(ada=10**9).holds("ada", "CAT", 0).holds("eve", "CAT", 9)
    scene.send("CAT", "eve", "ada", 5)
    scene.burn("CAT", "eve", 4)
    found = kind_of(scene.receipt("ada", "eve"), address("ada"))
    assert found == Kind("transfer_in", None, address("CAT"))


RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
LENDING = "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD"


def deposit_one(scene):
    scene.send("CAT", "ada", "eve", 5)
    scene.mint("SHARE", "ada", 9, "eve")


def deposit_two(scene):
    scene.send("DOG", "ada", "eve", 3)
    deposit_one(scene)


def sell_cat(scene):
    scene.send("CAT", "ada", "eve", 5)
    scene.pay("eve", "ada", 10**6)


@pytest.mark.parametrize(
    "how, programs, kind, venue, mint",
    [
        (deposit_one, [LENDING], "lending", "Kamino Lend", "CAT"),
        (deposit_two, [LENDING], "lending", "Kamino Lend", None),
        # Such a program trades and mints its shares under one ID: with a pool that is a deposit.
        (deposit_one, [RAYDIUM], "liquidity", "Raydium v4", "CAT"),
        (deposit_two, [RAYDIUM], "liquidity", "Raydium v4", None),
        (deposit_one, [VENUE], "swap", "pump.fun", "SHARE"),
        (sell_cat, [RAYDIUM], "sell", "Raydium v4", "CAT"),
        (sell_cat, [OTHER_VENUE, RAYDIUM], "sell", "Jupiter v6 > Raydium v4", "CAT"),
        (sell_cat, [UNKNOWN, RAYDIUM], "sell", "Raydium v4", "CAT"),
        (
            sell_cat,
            [OTHER_VENUE, VENUE, RAYDIUM],
            "sell",
            "Jupiter v6 > pump.fun, Raydium v4",
            "CAT",
        ),
        (sell_cat, [OTHER_VENUE, OTHER_VENUE], "sell", "Jupiter v6", "CAT"),
    ],
)
def test_a_known_program_decides_kind_and_venue(how, programs, kind, venue, mint):
    """`programs`: each calls the next."""
    scene = Scene(ada=10**9, eve=10**9)
    for owner, word in product(("ada", "eve"), ("CAT", "DOG", "SHARE")):
        scene.holds(owner, word, 50)
    with ExitStack() as calls:
        for program in programs:
            calls.enter_context(scene.call(program, "ada", "eve"))
        how(scene)
    found = kind_of(scene.receipt("ada", "eve"), address("ada"))
    assert (found.kind, found.venue, found.mint) == (kind, venue, mint and address(mint))
