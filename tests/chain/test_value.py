"""Value that came from a market, and value that only arrived at the same time: deceptive histories,
each valid by the chain's rules, and honest ones that look alike.

Comments show each case's arithmetic. `FEE` is 5,000 lamports, a token account's rent 2,039,280; ada
is the wallet.
"""

import contextlib

import pytest
from damage import JSON, at, paths_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from scene import FEE, Scene
from story import RENT, account_of, address

from chain.addresses import WRAPPED_SOL, b58encode
from chain.reading.entries import read_entry
from chain.reading.kinds import find_discriminator
from chain.reading.programs import table
from chain.reading.receipts import BadReceipt, parse_receipt
from chain.stored.trades import judge

PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
RAYDIUM = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"
DLMM = "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo"
RFQ = "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH"
MARKER = "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"
WRAPPER, GIVER, HOOK = (address(f"program nobody knows {n}") for n in "123")
SOL = 10**9
PROGRAMS = table()
FED = ("fed_market", "value_unexplained")


def entry(scene, payer, *signers, wallet="ada", programs=PROGRAMS, **how):
    return read_entry(
        parse_receipt(scene.receipt(payer, *signers, **how)), address(wallet), programs
    )


def judge_alone(found, mints, mint):
    return judge(found.kind, found.flags, mints, mint, found.explained_percent)


def beside_tokens(found):
    return {mint: change for mint, change, _ in found.beside_tokens}


def scene_of(*extra, **lamports):
    """Ada has 20 SOL, 1,000 CAT and an account of DOG; a curve of CAT has 100 SOL and plenty of
    CAT; a friend has 50 SOL, CAT and DOG.
    """
    scene = Scene(**{"ada": 20 * SOL, "curve": 100 * SOL, "friend": 50 * SOL, **lamports})
    for owner, mint, raw in (
        ("ada", "CAT", 1_000),
        ("ada", "DOG", 0),
        ("curve", "CAT", 10**9),
        ("friend", "CAT", 5_000),
        ("friend", "DOG", 5_000),
    ):
        scene.holds(owner, mint, raw)
    return scene


def sell(scene, raw, lamports, wallet="ada", names=()):
    """A sale on a bonding curve: tokens go in, and the program moves lamports out without an
    instruction.
    """
    with scene.call(PUMP, wallet, account_of(wallet, "CAT"), "curve", *names):
        scene.send("CAT", wallet, "curve", raw)
        scene.shift("curve", wallet, lamports)


def buy(scene, raw, lamports, payer="ada", to="ada"):
    with scene.call(PUMP, payer, account_of(to, "CAT"), "curve"):
        scene.pay(payer, "curve", lamports)
        scene.send("CAT", "curve", to, raw)


# ---- honest ones -------------------------------------------------------------------------------
def test_a_sale_and_a_purchase_have_their_market_value():
    scene = scene_of()
    sell(scene, 100, 3 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.beside_sol) == ("sell", 3 * SOL - FEE, 0)
    assert (found.explained_percent, found.counterparties) == (100, (address("curve"),))
    scene = scene_of()
    buy(scene, 100, 2 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.explained_percent) == ("buy", -2 * SOL - FEE, 100)
    assert found.counterparties == (address(account_of("curve", "CAT")),)


def test_a_sale_survives_reopening_its_account_for_another_mint():
    """All 1,000 CAT are sold for 3 SOL minus the fee. A friend sends 700 DOG into the account,
    which is DOG's by then, from outside the venue; its rent was returned and paid again.
    """
    scene = scene_of()
    sell(scene, 1_000, 3 * SOL)
    where = account_of("ada", "CAT")
    scene.close(where, "ada")
    scene.open("ada", "ada", "DOG", word=where)
    scene.send("DOG", "friend", where, 700)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.mint, found.explained_percent) == ("sell", address("CAT"), 100)
    assert {mint: change for mint, change, _ in found.venue_tokens} == {address("CAT"): -1_000}
    assert beside_tokens(found) == {address("DOG"): 700}
    assert (found.venue_sol, found.beside_sol) == (3 * SOL - FEE, 0)


@pytest.mark.parametrize(
    "theirs, percent",
    # Of 1,000 sold, ada gave 960 or 1: 96% and 0.1%, rounded down.
    [(40, 96), (999, 0)],
)
@pytest.mark.parametrize("authority", ["friend", "ada"])
def test_a_friends_part_of_a_sale_is_not_the_wallets(theirs, percent, authority):
    """Whether he signed or let ada spend from his account (`approve`, in another transaction)."""
    scene = scene_of()
    with (
        scene.call(JUPITER, "ada", account_of("ada", "CAT"), account_of("friend", "CAT"), "curve"),
        scene.call(PUMP, "curve"),
    ):
        scene.send("CAT", "ada", "curve", 1_000 - theirs)
        scene.send("CAT", "friend", "curve", theirs, authority=authority)
        scene.shift("curve", "ada", 10 * SOL)
    found = entry(scene, *dict.fromkeys(["ada", authority]))
    assert (found.kind, found.explained_percent, found.flags) == ("sell", percent, FED)


def test_a_payout_into_a_new_account_is_not_rent():
    """Ada opens her wrapped SOL account, sells 100 CAT for 3 SOL into it, and keeps it open."""
    scene = scene_of().holds("pool", "CAT", 0).holds("pool", "SOL", 9 * SOL)
    scene.open("ada", "ada", "SOL")
    with scene.call(RAYDIUM, "ada", "pool"):
        scene.send("CAT", "ada", "pool", 100)
        scene.send("SOL", "pool", "ada", 3 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.sponsored) == ("sell", 3 * SOL - FEE, 0)
    assert (found.rent, found.explained_percent) == (RENT, 100)


def test_the_seller_need_not_be_named():
    """The token vault is the curve's; its nominal owner isn't an account of the receipt."""
    scene = scene_of().holds("nobody named", "CAT", 0, word="vault")
    with scene.call(PUMP, "ada", "curve", "vault"):
        scene.send("CAT", "ada", "vault", 100)
        scene.shift("curve", "ada", 3 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.counterparties) == ("sell", 3 * SOL - FEE, ())


def test_without_heights_the_whole_instruction_is_the_call():
    """An early unknown wrapper whose rows don't show the callers. 100 CAT for 3 SOL."""
    scene = scene_of().holds("ada", "SOL", 0).holds("pool", "SOL", 50 * SOL).holds("pool", "CAT", 9)
    with scene.call(WRAPPER, "ada"), scene.call(RAYDIUM, "ada", "pool"):
        scene.send("CAT", "ada", "pool", 100)
        scene.send("SOL", "pool", "ada", 3 * SOL)
    found = entry(scene, "ada", heights=False)
    assert (found.kind, found.explained_percent) == ("sell", 100)
    assert found.counterparties == (address(account_of("pool", "SOL")),)


def test_a_request_for_quote_names_its_maker():
    scene = scene_of().holds("friend", "SOL", 20 * SOL).holds("ada", "SOL", 0)
    with scene.call(RFQ, "ada", "friend"):
        scene.send("CAT", "ada", "friend", 100)
        scene.send("SOL", "friend", "ada", SOL)
    found = entry(scene, "friend", "ada")
    assert (found.kind, found.flags) == ("sell", ("counterparty_signed",))
    assert found.counterparties == (address(account_of("friend", "SOL")),)


def test_a_round_trip_may_return_one_lamport():
    """2 SOL buy 100 CAT, for which the curve moves one lamport without an instruction: the rest is
    lost.
    """
    scene = scene_of()
    buy(scene, 100, 2 * SOL)
    sell(scene, 100, 1)
    found = entry(scene, "ada")
    assert (found.kind, found.mint, found.venue_sol) == (
        "round_trip",
        address("CAT"),
        1 - 2 * SOL - FEE,
    )


def test_a_marker_turns_the_whole_transaction_into_a_trade():
    """Two plain transfers: with the marker a sale, without it an unknown exchange."""
    scene = scene_of()
    scene.send("CAT", "ada", "friend", 100)
    scene.pay("friend", "ada", SOL)
    scene.noop(MARKER)
    marked = entry(scene, "ada", "friend", programs=table([MARKER]))
    assert (marked.kind, marked.venue_sol, marked.beside_sol) == ("sell", SOL - FEE, 0)


@pytest.mark.parametrize(
    "beside, kind, flags",
    [
        (None, "other", ("fee_only",)),
        (lambda scene: scene.open("ada", "ada", "FOX"), "account_open", ()),
        (lambda scene: scene.close(account_of("ada", "DOG"), "ada"), "account_close", ()),
    ],
    ids=("nothing", "opens", "closes"),
)
def test_an_empty_marker_is_outside_the_venue(beside, kind, flags):
    scene = scene_of()
    scene.noop(MARKER)
    if beside:
        beside(scene)
    marked = entry(scene, "ada", programs=table([MARKER]))
    assert (marked.kind, marked.mint, marked.flags) == (kind, None, flags)
    assert marked.venue == table([MARKER]).name(MARKER)


# ---- what passed beside the venue ----------------------------------------------------------------


def test_a_gift_as_large_as_the_sale_keeps_the_sale():
    """100 CAT leave and 100 arrive: the balance is unchanged, and 100 were sold for 3 SOL."""
    scene = scene_of()
    sell(scene, 100, 3 * SOL)
    scene.send("CAT", "friend", "ada", 100)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.tokens, found.venue_sol) == ("sell", (), 3 * SOL - FEE)
    assert (found.venue_tokens, found.explained_percent) == (((address("CAT"), -100, 6),), 100)


def test_tokens_sent_away_during_a_sale_are_not_sold():
    """100 go into the call and 50 to a friend: two thirds of 150 are explained."""
    scene = scene_of()
    sell(scene, 100, 3 * SOL)
    scene.send("CAT", "ada", "friend", 50)
    found = entry(scene, "ada")
    assert (found.kind, found.explained_percent) == ("sell", 66)
    assert "value_unexplained" in found.flags


@pytest.mark.parametrize("sold, flags", [(95, ()), (94, ("value_unexplained",))])
def test_ninety_five_percent_must_be_explained(sold, flags):
    """100 left ada's account, the rest of them for a friend."""
    scene = scene_of()
    sell(scene, sold, 3 * SOL)
    scene.send("CAT", "ada", "friend", 100 - sold)
    found = entry(scene, "ada")
    assert (found.kind, found.explained_percent, found.flags) == ("sell", sold, flags)


@pytest.mark.parametrize("given, beside, flags", [(5, 5, ()), (6, 0, ("value_unexplained",))])
def test_unexplained_value_is_received_if_the_rest_suffices(given, beside, flags):
    """The curve pays 95 of 100 million lamports, or 94; an unknown program gives the rest without
    an instruction, which without a price isn't a gift.
    """
    scene, million = scene_of(vault=SOL), 10**6
    sell(scene, 100, (100 - given) * million)
    with scene.call(GIVER, "vault", "ada"):
        scene.shift("vault", "ada", given * million)
    found = entry(scene, "ada")
    assert (found.kind, found.explained_percent, found.flags) == ("sell", 100 - given, flags)
    assert found.beside_sol == beside * million


def test_a_strangers_gift_during_an_unexplained_purchase_is_received():
    """As above, a second wallet paid for the CAT; the 500 lamports from an unknown program need no
    price.
    """
    scene = scene_of(vault=SOL)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve", "friend"):
        scene.pay("ada", "curve", 1_000)
        scene.pay("friend", "curve", 2 * SOL)
        scene.send("CAT", "curve", "ada", 100)
    with scene.call(GIVER, "vault", "ada"):
        scene.shift("vault", "ada", 500)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.flags, found.explained_percent) == ("buy", FED, 0)
    assert (found.beside_sol, found.venue_sol) == (500, -1_000 - FEE)


LIMIT = "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X"


@pytest.mark.parametrize("inside", [True, False])
def test_only_known_calls_explain_a_fill(inside):
    """A keeper fills ada's order with 70 DOG: from its own account, inside the order program's call
    or outside it.
    """
    fill = find_discriminator("flash_fill_order")
    scene = scene_of()
    with scene.call(LIMIT, "ada", "friend", data=b58encode(fill)):
        if inside:
            scene.send("DOG", "friend", "ada", 70)
    if not inside:
        scene.send("DOG", "friend", "ada", 70)
    found = entry(scene, "friend")
    assert found.kind == "order_fill"
    assert found.explained_percent == (100 if inside else 0)
    assert found.flags == (("counterparty_signed",) if inside else ("value_unexplained",))
    assert beside_tokens(found) == ({} if inside else {address("DOG"): 70})


def test_one_outside_unit_makes_a_fill_as_unexplained_as_many():
    fill = find_discriminator("flash_fill_order")
    scene = scene_of()
    scene.noop(LIMIT, "ada", "friend", data=b58encode(fill))
    scene.send("DOG", "friend", "ada", 1)
    found = entry(scene, "friend")
    assert (found.kind, found.explained_percent) == ("order_fill", 0)
    assert found.beside_tokens == ((address("DOG"), 1, 6),)


def test_a_sale_that_paid_in_more_sol_than_it_returned_is_unexplained():
    """A marker turns everything into one call: a curve pays a million lamports for 100 CAT, and two
    million go into a friend's new account as rent, which isn't a price; but nothing came out
    either.
    """
    scene = scene_of()
    scene.noop(MARKER)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.send("CAT", "ada", "curve", 100)
        scene.pay("curve", "ada", 10**6)
        scene.pay("ada", account_of("friend", "FOX"), RENT)
    scene.tokens[account_of("friend", "FOX")] = ["FOX", "friend", 0]
    found = entry(scene, "ada", programs=table([MARKER]))
    assert (found.kind, found.venue_sol) == ("sell", 10**6 - RENT - FEE)
    assert (found.explained_percent, found.flags) == (0, ("value_unexplained",))


@pytest.mark.parametrize(
    "how, percent, beside, flags",
    [
        ("inside", 100, 0, ()),
        ("beside", 0, 2 * SOL, ("value_unexplained",)),
        ("nothing", None, 0, ()),
    ],
)
def test_only_known_calls_explain_a_fill_in_lamports(how, percent, beside, flags):
    """A keeper pays 2 SOL inside the order program's call, outside it, or not yet: then there is
    nothing to explain.
    """
    fill = find_discriminator("flash_fill_order")
    scene = scene_of()
    with scene.call(LIMIT, "ada", "friend", data=b58encode(fill)):
        if how == "inside":
            scene.shift("friend", "ada", 2 * SOL)
    if how == "beside":
        scene.pay("friend", "ada", 2 * SOL)
    found = entry(scene, "friend")
    assert (found.kind, found.explained_percent) == ("order_fill", percent)
    assert (found.beside_sol, found.flags) == (beside, flags)
    verdict = {100: ("verified", None), 0: ("none", "value_unexplained")}
    assert judge_alone(found, set(), None) == verdict.get(percent, ("mismatch", "not_a_trade"))


@pytest.mark.parametrize("name", ["create_order", "cancel_order", "fill_order", "unknown"])
def test_an_empty_order_call_hides_no_sale(name):
    """100 CAT are sold for 3 SOL minus the fee; the order program's call moves nothing."""
    step = find_discriminator(name)
    scene = scene_of()
    scene.noop(LIMIT, "ada", account_of("ada", "CAT"), data=b58encode(step))
    sell(scene, 100, 3 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.venue_sol, found.explained_percent) == ("sell", 3 * SOL - FEE, 100)
    assert {mint: change for mint, change, _ in found.venue_tokens} == {address("CAT"): -100}


@pytest.mark.parametrize("does", ["sends", "closes", "unknown"])
def test_an_active_order_call_next_to_a_sale_stays_an_order(does):
    """It passes on the friend's DOG or closes his account, or the node didn't record inner calls.
    By the rules, an order precedes a swap.
    """
    fill = find_discriminator("fill_order")
    scene = scene_of().holds("order", "DOG", 0).holds("friend", "FOX", 0)
    with scene.call(LIMIT, "ada", "friend", data=b58encode(fill)):
        if does == "sends":
            scene.send("DOG", "friend", "order", 70)
        if does == "closes":
            scene.close(account_of("friend", "FOX"), "friend")
    sell(scene, 100, 3 * SOL)
    raw = scene.receipt("ada")
    if does == "unknown":
        raw["meta"]["innerInstructions"] = None
    assert read_entry(parse_receipt(raw), address("ada"), PROGRAMS).kind == "order_fill"


def test_an_empty_order_call_hides_no_lending():
    scene = scene_of()
    scene.noop(LIMIT, "ada", data=b58encode(bytes(8)))
    with scene.call(KAMINO, "ada"):
        scene.send("CAT", "ada", "friend", 70)
    assert entry(scene, "ada").kind == "lending"


LIMO = "LiMoM9rMhrdYrfzUCxQppvxCSG1FcrUK9G8uLq4A1GF"
BRIDGE = "CCTPiPYPc6AsJuwueEnWgSgucamXDZwBd53dQ11YiKX3"
KAMINO = "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD"


@pytest.mark.parametrize(
    "name, kind",
    [
        ("create_order", "order_open"),
        ("close_order_and_claim_tip", "order_cancel"),
        ("take_order", "order_fill"),
        ("flash_take_order_start", "order_fill"),
        ("flash_take_order_end", "order_fill"),
    ],
)
def test_kamino_instructions_name_the_order_step(name, kind):
    """All move the same: the signing wallet gives 70 CAT."""
    step = find_discriminator(name)
    scene = scene_of()
    with scene.call(LIMO, "ada", "friend", data=b58encode(step)):
        scene.send("CAT", "ada", "friend", 70)
    assert entry(scene, "ada").kind == kind


def test_order_holdings_are_tracked_from_open_to_close():
    """70 CAT go into an account opened for them and return when it is closed."""
    opens, closes = map(find_discriminator, ("create_order", "close_order_and_claim_tip"))
    scene = scene_of(order=SOL)
    with scene.call(LIMO, "ada", "order", data=b58encode(opens)):
        scene.open("ada", "order", "CAT")
        scene.send("CAT", "ada", "order", 70)
    escrow = address(account_of("order", "CAT"))
    told = {row for row in entry(scene, "ada").others if row[0] == escrow}
    assert told == {(escrow, address("CAT"), 0, 70), (escrow, WRAPPED_SOL, 0, RENT)}
    scene = scene_of(order=SOL).holds("order", "CAT", 70)
    with scene.call(LIMO, "ada", "order", data=b58encode(closes)):
        scene.send("CAT", "order", "ada", 70)
        scene.close(account_of("order", "CAT"), "ada")
    told = {row for row in entry(scene, "ada").others if row[0] == escrow}
    assert told == {(escrow, address("CAT"), 70, 0), (escrow, WRAPPED_SOL, RENT, 0)}


def test_the_wallet_pays_its_escrow_in_the_order_call():
    """Ada puts 7 CAT into her order and gives a friend 70; he puts 600 into his own order. Others'
    accounts are kept if they lost something, and so is her escrow.
    """
    opens = find_discriminator("create_order")
    scene = scene_of(order=SOL, other=SOL).holds("order", "CAT", 0).holds("other", "CAT", 0)
    with scene.call(LIMO, "ada", "order", data=b58encode(opens)):
        scene.send("CAT", "ada", "order", 7)
    scene.send("CAT", "ada", "friend", 70)
    with scene.call(LIMO, "friend", "other", "ada", data=b58encode(opens)):
        scene.send("CAT", "friend", "other", 600)
    found = entry(scene, "ada", "friend")
    assert found.kind == "order_open"
    assert {row[0]: row[2:] for row in found.others} == {
        address(account_of("order", "CAT")): (0, 7),
        address(account_of("friend", "CAT")): (5_000, 4_470),
    }


@pytest.mark.parametrize("heights, told", [(True, True), (False, True), (True, False)])
def test_an_escrow_is_found_with_or_without_inner_calls(heights, told):
    """In a wrapper's call; without heights, its whole instruction is the order's; without inner
    calls, any account that received something may be it.
    """
    opens = find_discriminator("create_order")
    scene = scene_of(order=SOL).holds("order", "CAT", 0)
    with scene.call(LIMO, "ada", "order", data=b58encode(opens)):
        scene.send("CAT", "ada", "order", 7)
    raw = scene.receipt("ada", heights=heights)
    if not told:
        raw["meta"]["innerInstructions"] = None
    found = read_entry(parse_receipt(raw), address("ada"), PROGRAMS)
    assert found.kind == "order_open"
    assert [row[2:] for row in found.others if row[3] > row[2]] == [(0, 7)]


@pytest.mark.parametrize("opens, kind", [(True, "other"), (False, "buy")])
def test_a_bridge_that_takes_lamports_is_kept_apart_from_a_swap(opens, kind):
    """A call that moves nothing of ada's doesn't count."""
    scene = scene_of()
    buy(scene, 100, SOL)
    with scene.call(BRIDGE, "ada", "message"):
        if opens:
            scene.create("ada", "message", RENT)
    found = entry(scene, "ada")
    assert (found.kind, "ambiguous" in found.flags) == (kind, opens)


@pytest.mark.parametrize(
    "swaps, flags", [(False, ("ambiguous", "no_swap")), (True, ("ambiguous",))]
)
def test_two_adjacent_programs_verify_nothing(swaps, flags):
    """70 CAT go into lending and a bridge takes lamports; ada signs."""
    scene = scene_of()
    with scene.call(KAMINO, "ada"):
        scene.send("CAT", "ada", "friend", 70)
    with scene.call(BRIDGE, "ada", "message"):
        scene.create("ada", "message", RENT)
    if swaps:
        sell(scene, 100, 3 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.flags, found.explained_percent) == ("other", flags, None)
    assert judge_alone(found, {address("CAT")}, None) == ("none", "ambiguous")


def test_an_order_next_to_a_recording_call_is_read_by_what_was_given():
    """An empty lending deposit comes first; the order's name is unknown, and the signer ada gives
    70 CAT.
    """
    scene = scene_of()
    scene.noop(KAMINO, "ada")
    with scene.call(LIMO, "ada", "friend", data=b58encode(bytes(8))):
        scene.send("CAT", "ada", "friend", 70)
    assert entry(scene, "ada").kind == "order_open"


def test_a_venue_names_its_calls_and_the_outside_moves():
    """The router also calls itself to emit events, and calls one venue twice; two pump.fun sales
    next to it are one name.
    """
    scene = scene_of().holds("pool", "CAT", 0).holds("pool", "SOL", 9 * SOL).holds("ada", "SOL", 0)
    with scene.call(JUPITER, "ada"):
        for _ in range(2):
            with scene.call(RAYDIUM, "ada", "pool"):
                scene.send("CAT", "ada", "pool", 50)
                scene.send("SOL", "pool", "ada", SOL)
            scene.noop(JUPITER)
        sell(scene, 50, SOL)
    sell(scene, 10, SOL)
    sell(scene, 10, SOL)
    assert entry(scene, "ada").venue == "Jupiter v6 > Raydium v4, pump.fun; pump.fun"


@pytest.mark.parametrize("got", [1, 0])
def test_outside_value_is_not_part_of_an_unpriced_trade(got):
    """One payment buys CAT and DOG, or CAT arrives and leaves completely for lamports that are
    never returned: neither has a price. A friend sends 50 FOX and 2 SOL in the same transaction.
    """
    scene = (
        scene_of().holds("curve", "DOG", 10**9).holds("ada", "FOX", 0).holds("friend", "FOX", 50)
    )
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), account_of("ada", "DOG"), "curve"):
        scene.pay("ada", "curve", SOL)
        scene.send("CAT", "curve", "ada", 5)
        if got:
            scene.send("DOG", "curve", "ada", 5)
        else:
            scene.send("CAT", "ada", "curve", 5)
    scene.send("FOX", "friend", "ada", 50)
    scene.pay("friend", "ada", 2 * SOL)
    found = entry(scene, "ada", "friend")
    assert (found.kind, found.flags, found.explained_percent) == ("other", ("ambiguous",), None)
    assert (found.mint, beside_tokens(found)) == (None, {address("FOX"): 50})
    assert (found.beside_sol, found.venue_sol) == (2 * SOL, -SOL - FEE)
    changes = {address("CAT"): 5, address("DOG"): 5} if got else {}
    assert {mint: change for mint, change, _ in found.venue_tokens} == changes


# ---- call by call --------------------------------------------------------------------------------
def test_funding_an_account_the_call_opens_is_not_a_price():
    """As above, and 5 lamports go into a ticket that the call opens; 7 into an existing one."""
    scene = scene_of(kept=1)
    buy(scene, 100, SOL)
    with scene.call(PUMP, "ada", account_of("friend", "CAT"), "curve", "ticket"):
        scene.create("ada", "ticket", 1_000)
        scene.pay("ada", "ticket", 5)
        scene.pay("ada", "kept", 7)
        scene.pay("ada", "curve", 2 * SOL)
        scene.send("CAT", "curve", "friend", 300)
    found = entry(scene, "ada")
    assert (found.kind, found.beside_sol) == ("buy", -2 * SOL - 7)
    assert found.venue_sol == -SOL - 1_000 - 5 - FEE


def test_others_transfers_pass_through_no_third_hands():
    """99 FOX arrived with the sale of 100 CAT, while 10,000 went from the curve to a friend: they
    are a purchase, not a residue.
    """
    scene = scene_of().holds("curve", "FOX", 20_000).holds("friend", "FOX", 0)
    with scene.call(PUMP, "ada", account_of("ada", "CAT"), "curve"):
        scene.open("ada", "ada", "FOX")
        scene.send("CAT", "ada", "curve", 100)
        scene.send("FOX", "curve", "friend", 10_000)
        scene.send("FOX", "curve", "ada", 99)
    found = entry(scene, "ada")
    assert (found.kind, found.mint, found.residues) == ("swap", address("FOX"), ())


@pytest.mark.parametrize("shown", [True, False])
def test_a_fee_from_another_trade_is_fee_income(shown):
    """The friend sells for 2.97 SOL; ada, who did nothing, gets 0.03."""
    scene = scene_of()
    with scene.call(PUMP, "friend", "curve", "ada"):
        scene.send("CAT", "friend", "curve", 100)
        scene.shift("curve", "friend", 3 * SOL if shown else 297 * SOL // 100)
        (scene.pay if shown else scene.shift)("friend" if shown else "curve", "ada", 3 * SOL // 100)
    found = entry(scene, "friend")
    assert (found.kind, found.flags, found.sol) == ("other", ("fee_income",), 3 * SOL // 100)
    assert judge_alone(found, set(), None) == ("mismatch", "not_a_trade")


def test_a_purchase_through_accounts_that_are_gone_at_the_end():
    """A plain transfer has no mint, and no balance tells it."""
    scene = scene_of()
    scene.open("ada", "ada", "SOL", "purse")
    scene.pay("ada", "purse", SOL)
    scene.tokens["purse"][2] += SOL
    with scene.call(PUMP, "ada", "curve", "purse"):
        scene.open("ada", "curve", "SOL", "pouch")
        scene.send("SOL", "purse", "pouch", SOL)
        scene.send("CAT", "curve", "ada", 100)
        scene.close("pouch", "curve")
    scene.close("purse", "ada")
    raw = scene.receipt("ada")
    for one in raw["meta"]["innerInstructions"][-1]["instructions"]:
        if (
            one["parsed"]["type"] == "transferChecked"
            and one["parsed"]["info"]["mint"] == WRAPPED_SOL
        ):
            info = one["parsed"]["info"]
            one["parsed"]["type"] = "transfer"
            del info["mint"]
            info["amount"] = info.pop("tokenAmount")["amount"]
    found = read_entry(parse_receipt(raw), address("ada"), PROGRAMS)
    assert (found.kind, found.flags, found.sol) == ("buy", (), -SOL - RENT - FEE)


def test_a_gift_beside_another_trade_is_no_fee_income():
    """The friend's sale names ada, but the gift is sent after it."""
    scene = scene_of()
    with scene.call(PUMP, "friend", "curve", "ada"):
        scene.send("CAT", "friend", "curve", 100)
        scene.shift("curve", "friend", 3 * SOL)
    scene.pay("friend", "ada", 3 * SOL // 100)
    found = entry(scene, "friend")
    assert (found.kind, found.flags, found.sol) == ("native_transfer", (), 3 * SOL // 100)


@pytest.mark.parametrize("got, kind", [(99, "other"), (100, "transfer_in")])
def test_a_token_fee_is_less_than_half_of_the_output(got, kind):
    """The friend buys; ada, who did nothing, gets 99 of 199 CAT, or 100 of 200, which is half,
    however many DOG the curve gets.
    """
    scene = scene_of().holds("curve", "DOG", 0)
    with scene.call(PUMP, "friend", "curve", "ada"):
        scene.pay("friend", "curve", 3 * SOL)
        scene.send("CAT", "curve", "friend", 100)
        scene.send("CAT", "curve", "ada", got)
        scene.send("DOG", "friend", "curve", 1_000)
    found = entry(scene, "friend")
    assert (found.kind, "fee_income" in found.flags) == (kind, kind == "other")


@pytest.mark.parametrize("inside", [None, WRAPPER, JUPITER])
def test_rebalancing_a_position_is_not_a_sale(inside):
    """100 CAT go in and 4 SOL come out: by its name it isn't a swap, whoever called it."""
    scene = scene_of().holds("pair", "CAT", 0).holds("pair", "SOL", 9 * SOL).holds("ada", "SOL", 0)
    name = find_discriminator("rebalance_liquidity")

    def rebalance():
        with scene.call(DLMM, "ada", "pair", data=b58encode(name + b"\1\2\3")):
            scene.send("CAT", "ada", "pair", 100)
            scene.send("SOL", "pair", "ada", 4 * SOL)

    if inside:
        with scene.call(inside, "ada", "pair"):
            rebalance()
    else:
        rebalance()
    found = entry(scene, "ada")
    assert (found.kind, found.explained_percent) == ("liquidity", None)


ORCA, CLMM, DAMM, BYREAL, PANCAKE = (
    "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc",
    "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK",
    "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG",
    "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2",
    "HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq",
)
# The first 8 bytes of sha256("global:<name>"), as listed by the programs' clients.
INCREASE, DECREASE = bytes.fromhex("2e9cf3760dcdfbb2"), bytes.fromhex("a026d06f685b2c01")
ADDED = [
    *((one, INCREASE) for one in (ORCA, CLMM, BYREAL, PANCAKE)),
    (ORCA, "increase_liquidity_v2"),
    (ORCA, "increase_liquidity_by_token_amounts_v2"),
    (CLMM, "increase_liquidity_v2"),
    (DAMM, "add_liquidity"),
    (DLMM, "add_liquidity_by_strategy2"),
]
REMOVED = [
    *((one, DECREASE) for one in (ORCA, CLMM, BYREAL, PANCAKE)),
    (ORCA, "decrease_liquidity_v2"),
    (ORCA, "collect_fees"),
    (ORCA, "collect_fees_v2"),
    (CLMM, "decrease_liquidity_v2"),
    (DAMM, "remove_liquidity"),
    (DAMM, "remove_all_liquidity"),
    (DAMM, "claim_position_fee"),
    (DLMM, "remove_liquidity_by_range2"),
    (DLMM, "claim_fee"),
    (DLMM, "claim_fee2"),
]
COLLECTED = [(ORCA, "collect_reward_v2"), (DAMM, "claim_reward"), (DLMM, "claim_reward2")]


def position_scene():
    scene = scene_of().holds("pair", "CAT", 10**6).holds("pair", "SOL", 90 * SOL)
    return scene.holds("ada", "SOL", 5 * SOL)


def position_call(scene, program, name):
    if isinstance(name, str):
        name = find_discriminator(name)
    return scene.call(program, "ada", "pair", data=b58encode(name + b"\1\2\3"))


@pytest.mark.parametrize("inside", [None, WRAPPER])
@pytest.mark.parametrize("sides", ["CAT", "SOL", "CAT SOL"])
@pytest.mark.parametrize(
    "program, name, sign",
    [(*one, -1) for one in ADDED] + [(*one, 1) for one in REMOVED + COLLECTED],
)
def test_changing_a_position_is_liquidity(program, name, sign, sides, inside):
    """Nothing is minted or burned; one or both sides move into or out of the pool."""
    scene = position_scene()
    people = ("ada", "pair")[::-sign]
    outer = scene.call(inside, "ada", "pair") if inside else contextlib.nullcontext()
    with outer, position_call(scene, program, name):
        for mint in sides.split():
            scene.send(mint, *people, 100)
    found = entry(scene, "ada")
    assert (found.kind, found.flags, found.explained_percent) == ("liquidity", (), None)
    assert judge_alone(found, set(), None) == ("mismatch", "not_a_trade")


@pytest.mark.parametrize(
    "program, out, back",
    [
        (ORCA, DECREASE, INCREASE),
        (ORCA, "collect_fees_v2", "increase_liquidity_by_token_amounts_v2"),
        (CLMM, "decrease_liquidity_v2", "increase_liquidity_v2"),
        (DAMM, "remove_all_liquidity", "add_liquidity"),
        (DLMM, "remove_liquidity_by_range2", "add_liquidity_by_strategy2"),
    ],
)
@pytest.mark.parametrize("given, got", [("CAT", "SOL"), ("SOL", "CAT")])
def test_rebalancing_in_one_transaction_is_not_a_trade(program, out, back, given, got):
    """Its balances look like a sale or a purchase."""
    scene = position_scene()
    with position_call(scene, program, out):
        scene.send(got, "pair", "ada", 400)
    with position_call(scene, program, back):
        scene.send(given, "ada", "pair", 100)
    found = entry(scene, "ada")
    assert (found.kind, found.flags, found.explained_percent) == ("liquidity", (), None)


@pytest.mark.parametrize("program, name", [(ORCA, "reposition_liquidity_v2")])
def test_an_instruction_that_moves_a_position_is_not_a_sale(program, name):
    scene = position_scene()
    with position_call(scene, program, name):
        scene.send("CAT", "ada", "pair", 100)
        scene.send("SOL", "pair", "ada", 4 * SOL)
    assert entry(scene, "ada").kind == "liquidity"


@pytest.mark.parametrize("program", [ORCA, CLMM, DAMM, DLMM, BYREAL, PANCAKE])
@pytest.mark.parametrize("name", ["swap", "swap_v2", "swap2"])
def test_a_swap_of_a_program_with_positions_stays_a_sale(program, name):
    scene = position_scene()
    with position_call(scene, program, name):
        scene.send("CAT", "ada", "pair", 100)
        scene.send("SOL", "pair", "ada", 4 * SOL)
    found = entry(scene, "ada")
    assert (found.kind, found.flags, found.explained_percent) == ("sell", (), 100)


def test_a_receipt_without_inner_calls_has_no_price():
    """Without inner instructions, nothing shows where 100 CAT went."""
    scene = scene_of()
    sell(scene, 100, 3 * SOL)
    raw = scene.receipt("ada")
    raw["meta"]["innerInstructions"] = None
    found = read_entry(parse_receipt(raw), address("ada"), PROGRAMS)
    assert (found.kind, found.flags) == ("sell", ("value_unexplained",))


# ---- what is no trade ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moves, writable, flags",
    [
        (lambda s: s.pay("ada", "friend", SOL), True, ("unrecognised_program",)),
        (lambda s: s.send("CAT", "ada", "friend", 5), True, ("unrecognised_program",)),
        (lambda s: s.send("CAT", "friend", "ada", 5), False, ()),
    ],
)
def test_an_unknown_program_with_a_writable_own_account_is_reported(moves, writable, flags):
    scene = scene_of()
    names = ("ada",) if writable else ("oracle",)
    with scene.call(WRAPPER, *names):
        moves(scene)
    found = entry(scene, "ada" if writable else "friend")
    assert (found.kind != "other", found.flags) == (True, flags)


def test_a_read_only_account_cannot_move_anything():
    scene = scene_of(payer=SOL)
    with scene.call(WRAPPER, "ada"):
        scene.send("CAT", "friend", "ada", 5)
    found = entry(scene, "payer", "friend", readonly=("ada",))
    assert (found.kind, found.flags) == ("transfer_in", ())


# ---- drawn ---------------------------------------------------------------------------------------
STEPS = {
    "gift": lambda s, n: s.pay("friend", "ada", n),
    "payment": lambda s, n: s.pay("ada", "friend", n),
    "token gift": lambda s, n: s.send("CAT", "friend", "ada", n % 300),
    "other token": lambda s, n: s.send("DOG", "friend", "ada", n % 300),
    "sale": lambda s, n: sell(s, n % 90 + 1, n),
    "purchase": lambda s, n: buy(s, n % 90 + 1, n),
    "for a friend": lambda s, n: buy(s, n % 90 + 1, n, payer="ada", to="friend"),
    "by a friend": lambda s, n: buy(s, n % 90 + 1, n, payer="friend", to="ada"),
    "no-op": lambda s, n: s.noop(JUPITER, "ada"),
    "stake": lambda s, n: s.withdraw("stake", "friend", "ada", n),
}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=6), st.integers(1, SOL), st.booleans())
def test_amounts_always_add_up(steps, lamports, relayed):
    """With gifts, side payments and second wallets: before minus after is the fee, outside and
    venue add up, the explained part is a share, and a sale never brings more than the pools paid.
    """
    scene = scene_of(relayer=SOL)
    for place, step in enumerate(steps):
        STEPS[step](scene, lamports + place)
    payer = "relayer" if relayed else "ada"
    receipt = parse_receipt(scene.receipt(payer, "ada", "friend"))
    assert sum(receipt.before) - sum(receipt.after) == FEE
    found = read_entry(receipt, address("ada"), PROGRAMS)
    assert found.venue_sol + found.beside_sol == found.sol
    whole = {mint: change for mint, change, _ in found.tokens}
    parts = {mint: change for mint, change, _ in found.venue_tokens}
    for mint, change in beside_tokens(found).items():
        parts[mint] = parts.get(mint, 0) + change
    assert {mint: change for mint, change in parts.items() if change} == whole
    assert found.explained_percent is None or 0 <= found.explained_percent <= 100
    priced = found.kind in ("buy", "sell", "swap", "round_trip")
    assert priced == (found.explained_percent is not None)
    if found.kind == "sell" and "value_unexplained" not in found.flags:
        sales = sum(lamports + place for place, step in enumerate(steps) if step == "sale")
        assert found.venue_sol <= sales


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_made_up_receipts_are_read_or_refused(data):
    """Any part of a deceptive receipt is replaced by anything: BadReceipt, or an entry."""
    scene = scene_of().holds("friend", "SOL", SOL)
    with scene.call(WRAPPER, "ada"):
        sell(scene, 100, SOL)
    scene.hand_over("friend's SOL", "ada")
    scene.withdraw("nonce", "friend", "ada", 5)
    raw = scene.receipt("ada", "friend")
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(paths_of(raw))[1:]))
        place, last = at(raw, path)
        place[last] = data.draw(JSON)
    try:
        receipt = parse_receipt(raw)
    except BadReceipt:
        return
    found = read_entry(receipt, address("ada"), PROGRAMS)
    assert found.venue_sol + found.beside_sol == found.sol
