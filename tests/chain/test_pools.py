"""Pools as transactions show them: all purchases and sales of the corpus, and two PumpSwap events
of October 2026.
"""

import base64
import copy
import json
from dataclasses import replace

import pytest
from corpus import DATA, read_truth
from scene import Scene
from story import address

from chain.addresses import SYSTEM, TOKEN, WRAPPED_SOL, b58decode, b58encode
from chain.reading.entries import Entry, read_entry
from chain.reading.pools import EVENT, PUMPSWAP, PoolReading, find_fee, name_event, unpack_pool
from chain.reading.programs import table
from chain.reading.receipts import Instruction, Operation, Receipt, TokenBalance, parse_receipt

PROGRAMS = table()
# By the first six letters of the signature. Two pools in one transaction are a route; RFQ, order
# books and concentrated liquidity have no formula.
UNREAD = {
    "3j1Z9H": "venue_unreadable",
    "4pjZqY": "route",
    "3P8JT1": "route",
    "5vBFfT": "venue_unreadable",
    "5acNq9": "route",
    "62osuR": "route",
    # It created and bought the token in one transaction.
    "2RoRJx": "own_token",
}
# A curve begins with 30 SOL and 1,073,000,000 tokens, and retains this many of each.
CURVE, CURVE_SOL, CURVE_RAW = 30 * 10**9 * 1_073 * 10**12, 30 * 10**9, 279_900_000 * 10**6


@pytest.fixture(scope="module")
def corpus(receipts):
    """{first six letters of the signature: [(wallet, raw receipt), ...]}"""
    found = {}
    for row in read_truth(receipts):
        raw = json.loads((receipts / "json" / f"{row['signature']}.json").read_text())
        found.setdefault(row["signature"][:6], []).append((row["wallet"], raw))
    return found


@pytest.fixture(scope="module")
def trades(corpus):
    """[(six letters, raw receipt, entry, its pool), ...] of each purchase and sale."""
    found = []
    for sign, rows in corpus.items():
        for wallet, raw in rows:
            entry = read_entry(parse_receipt(raw), wallet, PROGRAMS)
            assert bool(entry.pool) == (entry.kind in ("buy", "sell"))
            if entry.pool:
                found.append((sign, raw, entry, unpack_pool(entry.pool)))
    return found


def test_every_corpus_trade_has_a_pool_reading_or_a_reason(trades):
    assert {sign: pool for sign, _, _, pool in trades if isinstance(pool, str)} == UNREAD
    assert sum(isinstance(pool, PoolReading) for *_, pool in trades) == 21
    assert unpack_pool(()) == "no_pool"


def test_a_sale_without_inner_instructions_shows_no_pool(corpus):
    ((wallet, raw),) = corpus["2rY9ky"]
    raw = {**raw, "meta": {**raw["meta"], "innerInstructions": None}}
    entry = read_entry(parse_receipt(raw), wallet, PROGRAMS)
    assert (entry.kind, entry.pool) == ("sell", ("no_pool",))


@pytest.mark.parametrize(
    ("kind", "who", "created"),
    [
        ("createAccount", "ada", ["CAT"]),
        ("allocate", "ada", ["CAT"]),
        ("transfer", "ada", []),
        ("createAccount", "eve", []),
    ],
)
def test_a_signer_creates_the_mints_whose_accounts_are_opened(kind, who, created):
    scene = Scene(ada=10**9, eve=10**9).holds("eve", "CAT", 0)
    if kind == "allocate":
        scene.noop(address("a program nobody knows"), "CAT")
        scene._say(SYSTEM, kind, account="CAT")
    else:
        {"createAccount": scene.create, "transfer": scene.pay}[kind]("ada", "CAT", 10**6)
    scene.open("ada", "ada", "CAT")
    entry = read_entry(parse_receipt(scene.receipt("ada")), address(who), PROGRAMS)
    assert entry.created == tuple(map(address, created))


CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"


@pytest.mark.parametrize("is_buy", [True, False])
@pytest.mark.parametrize("fee_bps", [25, 100, 200, 400])
def test_a_tier_is_found_by_what_three_calls_exchanged(is_buy, fee_bps):
    """Each pays 1% of a vault, where the fee stays but for a unit."""
    scene = Scene(ada=10**9)
    for owner in ("ada", "pool", "app"):
        scene.holds(owner, "SOL", 10**12).holds(owner, "CAT", 10**12)
    given, taken = ("SOL", "CAT") if is_buy else ("CAT", "SOL")
    sides = {given: 10**12, taken: 10**12}
    for _ in range(3):
        net = 10**10 * (10_000 - fee_bps) // 10_000
        got = net * sides[taken] // (sides[given] + net)
        sides[given] += 10**10 - 1
        sides[taken] -= got
        with scene.call(CPMM, "ada", "pool"):
            scene.send(given, "ada", "pool", 10**10)
            scene.send(given, "pool", "app", 1)
            scene.send(taken, "pool", "ada", got)
    entry = read_entry(parse_receipt(scene.receipt("ada")), address("ada"), PROGRAMS)
    pool = unpack_pool(entry.pool)
    assert (entry.kind, pool.fee_bps) == ("buy" if is_buy else "sell", fee_bps)
    assert pool.before == (10**12,) * 4
    assert pool.after == (sides["SOL"], sides["CAT"]) * 2


def test_a_fee_is_rounded_up():
    # 25.0025
    assert find_fee(10_001, 25) == 26


def test_vaults_match_the_transaction(trades):
    checked = 0
    for _, raw, _, pool in trades:
        if isinstance(pool, PoolReading) and pool.fee_kind == "input":
            checked += 1
            receipt = parse_receipt(raw)
            vaults = [receipt.sides(account) for account in pool.pool.split("/")]
            for side, state in enumerate((pool.before, pool.after)):
                assert {one[side].amount for one in vaults} == {state.sol, state.raw}
                assert (state.payable, state.buyable, pool.is_curve) == (*state[:2], False)
            assert pool.before.sol * pool.before.raw <= pool.after.sol * pool.after.raw
    assert checked == 11


def test_curve_readings_lie_on_the_shared_curve(trades):
    """In 3S2vFs five wallets buy: each sees the pool before and after the whole transaction."""
    curves = [
        (sign, entry, pool)
        for sign, _, entry, pool in trades
        if isinstance(pool, PoolReading) and pool.venue == "pump.fun"
    ]
    assert len(curves) == 9
    assert len({pool for sign, _, pool in curves if sign == "3S2vFs"}) == 1
    for sign, entry, pool in curves:
        for state in (pool.before, pool.after):
            assert state.sol * state.raw == pytest.approx(CURVE, rel=1e-6)
            assert state.sol - state.payable == CURVE_SOL
            assert state.raw - state.buyable == CURVE_RAW
        change = next(raw for mint, raw, _ in entry.tokens if mint == entry.mint)
        assert sign == "3S2vFs" or pool.before.raw - pool.after.raw == change


def test_readings_are_stored_with_their_entry(trades):
    for _, _, entry, pool in trades:
        assert Entry.load(entry.signature, entry.slot, entry.tx_index, entry.dump()) == entry
        assert (pool.pack() if isinstance(pool, PoolReading) else (pool,)) == entry.pool


def test_a_pool_that_does_not_reproduce_the_fill_is_not_used(corpus):
    """One vault had five times what its pool prices, so the formula predicts another fill."""
    ((wallet, raw),) = corpus["ofdtgS"]
    receipt = parse_receipt(raw)
    sol = unpack_pool(read_entry(receipt, wallet, PROGRAMS).pool).before.sol
    (vault,) = [one for one, (was, _) in receipt.tokens.items() if was and was.amount == sol]
    richer = tuple(replace(side, amount=side.amount + 4 * sol) for side in receipt.tokens[vault])
    changed = replace(receipt, tokens=receipt.tokens | {vault: richer})
    assert read_entry(changed, wallet, PROGRAMS).pool == ("not_reproduced",)


CURVE_EVENTS = {
    "as recorded": (lambda data: data, 95 + 30),
    "without fees": (lambda data: data[:121], 100),
    "before cashback": (lambda data: data[:217], 95),
    "with a creator": (lambda data: data[:201] + b"\x07" + data[202:], 95 + 7 + 30),
    "with sharers": (
        lambda data: (
            data[:303] + b"\x02" + data[304:307] + bytes(68) + data[307:] + b"\x0a" + bytes(15)
        ),
        95 + 30 + 10,
    ),
    "cut": (lambda data: data[:120], "no_event"),
    "of another token": (lambda data: bytes(32) + data[32:], "no_event"),
    **{
        f"with nothing at {at}": (
            lambda data, at=at: data[:at] + bytes(8) + data[at + 8 :],
            "quote_not_sol",
        )
        for at in (32, 40, 89, 97)
    },
}


def read_forged(corpus, sign, forge):
    """Return the pool of a trade whose events were changed."""
    ((wallet, raw),) = corpus[sign]
    raw = copy.deepcopy(raw)
    for group in raw["meta"]["innerInstructions"]:
        for one in group["instructions"]:
            data = b58decode(one.get("data", ""))
            if data[:8] == EVENT and len(data) > 100:
                one["data"] = b58encode(data[:16] + forge(data[16:]))
    return unpack_pool(read_entry(parse_receipt(raw), wallet, PROGRAMS).pool)


@pytest.mark.parametrize("case", CURVE_EVENTS)
def test_a_curves_fees_are_summed(corpus, case):
    """truth.csv: the curve got 2962962962, and its fees 37037038, which is 1.25%."""
    forge, wanted = CURVE_EVENTS[case]
    # Its creator is the wallet, unless that is removed.
    pool = read_forged(corpus, "2RoRJx", lambda data: forge(data[:169] + bytes(32) + data[201:]))
    if isinstance(wanted, str):
        assert pool == wanted
        return
    assert pool.after.sol - pool.before.sol == 2_962_962_962
    assert (pool.venue, pool.fee_bps) == ("pump.fun", wanted)
    assert (pool.fee_kind, pool.is_curve) == ("on_top", True)


def test_a_launchlab_sale_moves_its_curve(corpus, trades):
    """truth.csv: the pool paid 1,273,240,715 lamports for 11,568,986,763,999 raw units; the fee of
    1.25% stays in it.
    """
    (pool,) = [pool for sign, _, _, pool in trades if sign == "uzuSem"]
    moved = [new - old for old, new in zip(pool.before, pool.after, strict=True)]
    paid = -moved[0]
    assert moved == [-paid, 11_568_986_763_999, -paid, 11_568_986_763_999]
    assert (pool.fee_bps, pool.fee_kind, pool.is_curve) == (125, "gross", False)
    assert paid - -(-paid * 125 // 10_000) == 1_273_240_715
    assert pool.before.sol * pool.before.raw == pytest.approx(pool.after.sol * pool.after.raw)
    assert read_forged(corpus, "uzuSem", lambda data: data[:136]) == "no_event"
    assert read_forged(corpus, "uzuSem", lambda data: data[:137]) == pool

    def reverse(data):
        """The purchase that undoes the sale: the fee is 1.25% of what the buyer pays."""
        whole = paid * 10_000 // 9_875
        told = [data[32 + 8 * place :][:8] for place in (0, 1, 2, 5, 6, 3, 4)]
        told += [n.to_bytes(8, "little") for n in (whole, moved[1], whole - paid, 0, 0, 0)]
        return data[:32] + b"".join(told) + bytes(1) + data[137:]

    purchase = read_forged(corpus, "uzuSem", reverse)
    assert (purchase.before, purchase.after) == (pool.after, pool.before)
    assert purchase.fee_bps == 125


# ---- PumpSwap ------------------------------------------------------------------------------------
def u64(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def swap(sample, withheld=0, creator=None, forge=bytes, beside=()):
    """The transaction around an event: the user trades only with the two vaults. `forge` changes
    the recorded event, not the transfers.
    """
    data = base64.b64decode(sample["event"])
    if creator:
        data = data[:312] + creator + data[344:]
    pool, user = b58encode(data[120:152]), b58encode(data[152:184])
    is_buy = sample["label"].startswith("buy")
    raw, quote = u64(data, 16), u64(data, 64)
    moved = (-quote, raw) if is_buy else (quote, -raw)
    mint, names = address("token"), [address(one) for one in ("us", "ut", "vs", "vt")]
    sol, units = sample["vault_before"]
    held = ((WRAPPED_SOL, user, 10**15, moved[0]), (mint, user, 10**15, moved[1] - withheld))
    held += ((WRAPPED_SOL, pool, sol, -moved[0]), (mint, pool, units, -moved[1]))
    tokens = {
        name: (TokenBalance(of, who, was, 9), TokenBalance(of, who, was + change, 9))
        for name, (of, who, was, change) in zip(names, held, strict=True)
    }

    def send(source, target, amount, authority):
        operation = Operation("send", names[source], names[target], authority, amount)
        return Instruction(TOKEN, (names[source], names[target], authority), operation, b"")

    sends = (
        (send(0, 2, quote, user), send(3, 1, raw, pool))
        if is_buy
        else (send(1, 3, raw, user), send(2, 0, quote, pool))
    )
    event = Instruction(PUMPSWAP, (), None, EVENT + forge(data))
    call = Instruction(PUMPSWAP, (pool, user, *names), None, b"12345678", (*sends, event))
    keys = (user, pool, *names)
    before, after = (
        [2_039_280 + (t[side].amount if t[0].mint == WRAPPED_SOL else 0) for t in tokens.values()]
        for side in (0, 1)
    )
    before, after = (10**9, 10**6, *before), (10**9 - 5_000, 10**6, *after)
    receipt = Receipt(
        *("s", sample["slot"], 0, None, False, 5_000, keys, frozenset((user,)), before, after),
        *(tokens, (call, *beside), frozenset(keys)),
    )
    return read_entry(receipt, user, PROGRAMS)


@pytest.fixture(scope="module")
def october():
    return json.loads((DATA / "october.json").read_text())


@pytest.fixture(scope="module")
def bought(october):
    return next(one for one in october if one["label"].startswith("buy"))


def test_pumpswap_uses_virtual_reserves(october):
    """In both events, the vault has less SOL than the pool prices; without the virtual reserves the
    formula would miss the fill by more than 100 basis points.
    """
    for sample in october:
        entry = swap(sample)
        pool = unpack_pool(entry.pool)
        assert isinstance(pool, PoolReading)
        is_buy = entry.kind == "buy"
        assert (pool.before.payable, pool.before.raw) == tuple(sample["vault_before"])
        assert pool.before.sol > pool.before.payable
        # The event has this change too: with the part of the fee that stays in the pool.
        whole = u64(base64.b64decode(sample["event"]), 104)
        assert pool.after.sol - pool.before.sol == (whole if is_buy else -whole)
        assert (pool.before.buyable, pool.after.buyable) == (pool.before.raw, pool.after.raw)
        # The vaults match the event, except for fees waiting in them.
        assert pool.after.raw == sample["vault_after"][1]
        assert abs(pool.after.payable - sample["vault_after"][0]) * 10_000 < pool.after.payable
        sol, raw = sample["vault_before"]
        given, got = abs(pool.after.sol - pool.before.sol), abs(pool.after.raw - raw)
        naive = given * raw // (sol + given) if is_buy else got * sol // (raw + got)
        assert abs(naive - (got if is_buy else given)) * 100 > (got if is_buy else given)


@pytest.mark.parametrize(
    ("label", "forge", "more"),
    [
        ("sell", bytes, 0),
        ("buy", bytes, 0),
        ("sell", lambda data: _put(data, {360: 7, 360 + 57: 3}), 7 + 3),
        # A purchase has 45 more bytes, the last of which is the length of the name "buy".
        ("buy", lambda data: _put(data, {408: 7, 408 + 57: 3}), 7 + 3),
    ],
)
def test_pumpswaps_fees_are_summed(october, label, forge, more):
    """The event says what the pool exchanged (64), and the user with all fees (112)."""
    sample = next(one for one in october if one["label"].startswith(label))
    data = base64.b64decode(sample["event"])
    quote, user = u64(data, 64), u64(data, 112)
    told = unpack_pool(swap(sample, forge=forge).pool)
    assert told.fee_bps == round(abs(user - quote) * 10_000 / quote) + more
    assert told[:2] == ("PumpSwap", b58encode(data[120:152]))
    assert (told.fee_kind, told.is_curve) == ("on_top", False)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda data: data[:311], "no_event"),
        (lambda data: bytes(8) + data[8:], "no_event"),
        # Neither vault has so much.
        (lambda data: _put(data, {56: 1}), "quote_not_sol"),
    ],
)
def test_a_pumpswap_event_must_be_whole_and_name_a_vault(october, forge, reason):
    assert swap(october[0], forge=forge).pool == (reason,)


def _put(data, changed):
    for at, number in changed.items():
        data = data[:at] + number.to_bytes(8, "little") + data[at + 8 :]
    return data


def test_a_token_with_a_transfer_fee_is_not_used(bought):
    assert swap(bought, withheld=1).pool == ("transfer_fee",)


@pytest.mark.parametrize(
    ("name", "withheld", "is_read"), [("burn", 1, True), ("mint", 0, False), ("approve", 0, True)]
)
def test_what_is_minted_or_burned_beside_a_trade_is_no_fee(bought, name, withheld, is_read):
    """A unit that is minted but in no balance was withheld."""
    account = {"target" if name == "mint" else "source": address("ut")}
    one = Operation(name, **account, amount=1, mint=address("token"))
    pool = unpack_pool(swap(bought, withheld, beside=(Instruction(TOKEN, (), one, b""),)).pool)
    assert isinstance(pool, PoolReading) == is_read


def test_events_are_named_as_by_anchor():
    """The TradeEvent of pump.fun's IDL."""
    assert name_event("TradeEvent") == EVENT + bytes([189, 219, 127, 211, 78, 230, 97, 238])


def test_a_token_the_wallet_created_is_not_used(october):
    sample = october[0]
    user = base64.b64decode(sample["event"])[152:184]
    assert swap(sample, creator=user).pool == ("own_token",)


@pytest.mark.parametrize(
    ("reserves", "wanted"),
    [(-(10**8), "not_reproduced"), (10**8, 10**8), (2**62, "not_reproduced")],
)
def test_an_event_with_impossible_reserves_is_not_used(bought, reserves, wanted):
    """An event that exchanges nothing agrees with every formula, and virtual reserves are signed:
    here, `reserves` minus the vault. With -0.1 SOL, a follower's first 0.1 SOL would be divided by
    zero.
    """

    def forge(data):
        vault = u64(data, 56)
        # Nothing for nothing, without a fee that stays in the pool.
        nothing = data[:16] + bytes(8) + data[24:64] + bytes(8) + data[72:80] + bytes(8) + data[88:]
        virtual = (reserves - vault).to_bytes(16, "little", signed=True)
        named = int.from_bytes(nothing[401:405], "little")
        at = 405 + named + 32
        return nothing[:at] + virtual + nothing[at + 16 :]

    told = unpack_pool(swap(bought, forge=forge).pool)
    assert (told if isinstance(told, str) else told.before.sol) == wanted
