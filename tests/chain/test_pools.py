"""Pools as transactions show them: all purchases and sales of the corpus, and two PumpSwap events
of October 2026. value.txt has made-up ones.
"""

import base64
import copy
import json

import pytest
from corpus import DATA
from histories import PROGRAMS as PLACES
from scene import Scene

from chain.addresses import b58decode, b58encode
from chain.reading.entries import Entry, read_entry
from chain.reading.pools import EVENT, PUMPSWAP, PoolReading, find_fee, unpack_pool
from chain.reading.programs import table
from chain.reading.receipts import parse_receipt, read_u64

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


def read(raw, wallet):
    """(entry, its pool)"""
    entry = read_entry(parse_receipt(raw), wallet, PROGRAMS)
    return entry, unpack_pool(entry.pool)


def put(data, changed):
    for at, number in changed.items():
        data = data[:at] + number.to_bytes(8, "little") + data[at + 8 :]
    return data


@pytest.fixture(scope="module")
def corpus(recorded_rows):
    """{first six letters of the signature: [(wallet, raw receipt), ...]}"""
    found = {}
    for row, raw in recorded_rows:
        found.setdefault(row["signature"][:6], []).append((row["wallet"], raw))
    return found


@pytest.fixture(scope="module")
def trades(corpus):
    """[(six letters, raw receipt, entry, its pool), ...] of each purchase and sale."""
    read_rows = [
        (sign, raw, *read(raw, wallet)) for sign, rows in corpus.items() for wallet, raw in rows
    ]
    return [row for row in read_rows if row[2].kind in ("buy", "sell")]


@pytest.fixture(scope="module")
def readings(trades):
    return [one for one in trades if isinstance(one[-1], PoolReading)]


# ---- the corpus ----------------------------------------------------------------------------------
def test_every_corpus_trade_has_a_pool_reading_or_a_reason(trades, readings):
    """It is stored with the entry."""
    assert {sign: pool for sign, _, _, pool in trades if isinstance(pool, str)} == UNREAD
    assert len(readings) == 21 and unpack_pool(()) == "no_pool"
    for _, _, entry, pool in trades:
        assert Entry.load(entry.signature, entry.slot, entry.tx_index, entry.dump()) == entry
        assert (pool.pack() if isinstance(pool, PoolReading) else (pool,)) == entry.pool


def test_vaults_match_the_transaction(readings):
    checked = [(raw, pool) for _, raw, _, pool in readings if pool.fee_kind == "input"]
    assert len(checked) == 11
    for raw, pool in checked:
        receipt, (before, after) = parse_receipt(raw), (pool.before, pool.after)
        vaults = [receipt.sides(account) for account in pool.pool.split("/")]
        for side, state in enumerate((before, after)):
            assert {one[side].amount for one in vaults} == {state.sol, state.raw}
            assert (state.payable, state.buyable, pool.is_curve) == (*state[:2], False)
        assert before.sol * before.raw <= after.sol * after.raw


def test_curve_readings_lie_on_the_shared_curve(readings):
    """In 3S2vFs five wallets buy: each sees the pool before and after the whole transaction."""
    curves = [(s, entry, pool) for s, _, entry, pool in readings if pool.venue == "pump.fun"]
    assert len(curves) == 9
    assert len({pool for sign, _, pool in curves if sign == "3S2vFs"}) == 1
    for sign, entry, pool in curves:
        for state in (pool.before, pool.after):
            assert state.sol * state.raw == pytest.approx(CURVE, rel=1e-6)
            assert state.sol - state.payable == CURVE_SOL
            assert state.raw - state.buyable == CURVE_RAW
        change = next(raw for mint, raw, _ in entry.tokens if mint == entry.mint)
        assert sign == "3S2vFs" or pool.before.raw - pool.after.raw == change


# ---- two vaults ----------------------------------------------------------------------------------
@pytest.mark.parametrize("given, taken, kind", [("SOL", "CAT", "buy"), ("CAT", "SOL", "sell")])
@pytest.mark.parametrize("fee_bps", [25, 100, 200, 400])
def test_a_tier_is_found_by_what_three_calls_exchanged(given, taken, kind, fee_bps):
    """Each pays 1% of a vault, where the fee stays but for a unit."""
    scene, sides = Scene(ada=10**9), {given: 10**12, taken: 10**12}
    for owner in ("ada", "pool", "app"):
        scene.holds(owner, "SOL", 10**12).holds(owner, "CAT", 10**12)
    for _ in range(3):
        net = 10**10 * (10_000 - fee_bps) // 10_000
        got = net * sides[taken] // (sides[given] + net)
        sides[given] += 10**10 - 1
        sides[taken] -= got
        with scene.call(PLACES["cpmm"], "ada", "pool"):
            scene.send(given, "ada", "pool", 10**10)
            scene.send(given, "pool", "app", 1)
            scene.send(taken, "pool", "ada", got)
    entry, pool = read(scene.receipt("ada"), scene.address("ada"))
    assert (entry.kind, pool.fee_bps, pool.before) == (kind, fee_bps, (10**12,) * 4)
    assert pool.after == (sides["SOL"], sides["CAT"]) * 2


def test_a_fee_is_rounded_up():
    # 25.0025
    assert find_fee(10_001, 25) == 26


# ---- events of curves ----------------------------------------------------------------------------
def share(data):
    """Add a list of two sharers, and their fee of 10."""
    listed = data[:303] + b"\x02" + data[304:307] + bytes(68)
    return put(listed + data[307:] + bytes(16), {len(data) + 68: 10})


CURVE_EVENTS = {
    "as recorded": (lambda data: data, 95 + 30),
    "without fees": (lambda data: data[:121], 100),
    "before cashback": (lambda data: data[:217], 95),
    "with a creator": (lambda data: put(data, {201: 7}), 95 + 7 + 30),
    "with sharers": (share, 95 + 30 + 10),
    "cut": (lambda data: data[:120], "no_event"),
    "of another token": (lambda data: bytes(32) + data[32:], "no_event"),
} | {
    f"with nothing at {at}": (lambda data, at=at: put(data, {at: 0}), "quote_not_sol")
    for at in (32, 40, 89, 97)
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
    return read(raw, wallet)[1]


@pytest.mark.parametrize("forge, wanted", CURVE_EVENTS.values(), ids=CURVE_EVENTS)
def test_a_curves_fees_are_summed(corpus, forge, wanted):
    """truth.csv: the curve got 2962962962, and its fees 37037038, which is 1.25%."""
    # Its creator is the wallet, unless that is removed.
    pool = read_forged(corpus, "2RoRJx", lambda data: forge(data[:169] + bytes(32) + data[201:]))
    if isinstance(wanted, str):
        assert pool == wanted
        return
    assert pool.after.sol - pool.before.sol == 2_962_962_962
    assert (pool.venue, pool.fee_bps) == ("pump.fun", wanted)
    assert (pool.fee_kind, pool.is_curve) == ("on_top", True)


def test_a_launchlab_sale_moves_its_curve(corpus, readings):
    """truth.csv: the pool paid 1,273,240,715 lamports for 11,568,986,763,999 raw units; the fee of
    1.25% stays in it.
    """
    (pool,) = [pool for sign, _, _, pool in readings if sign == "uzuSem"]
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
        told = [read_u64(data, 32 + 8 * place) for place in (0, 1, 2, 5, 6, 3, 4)]
        told += [whole, moved[1], whole - paid, 0, 0, 0]
        return put(data, {32 + 8 * place: n for place, n in enumerate(told)})[:136] + bytes(1)

    purchase = read_forged(corpus, "uzuSem", reverse)
    assert (purchase.before, purchase.after) == (pool.after, pool.before)
    assert purchase.fee_bps == 125


# ---- PumpSwap ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def october():
    """{"buy": ..., "sell": ...}: a vault's amounts before and after, and the event in bytes."""
    samples = json.loads((DATA / "october.json").read_text())
    for one in samples:
        one["event"] = base64.b64decode(one["event"])
    return {one["label"].partition("_")[0]: one for one in samples}


def swap(sample, forge=bytes):
    """(entry, pool) of the transaction around an event: the user trades only with the two vaults.
    `forge` changes the recorded event, not the transfers.
    """
    event, (sol, raw) = sample["event"], sample["vault_before"]
    scene = Scene(user=10**9)
    pool, user = b58encode(event[120:152]), b58encode(event[152:184])
    scene.known = Scene.known | {"pool": pool, "user": user}
    scene.holds("user", "SOL", 10**15).holds("user", "CAT", 10**15)
    scene.holds("pool", "SOL", sol).holds("pool", "CAT", raw)
    sides = ("SOL", read_u64(event, 64)), ("CAT", read_u64(event, 16))
    (given, paid), (taken, got) = sides if sample["label"].startswith("buy") else sides[::-1]
    with scene.call(PUMPSWAP, "pool", "user"):
        scene.send(given, "user", "pool", paid)
        scene.send(taken, "pool", "user", got)
        scene.noop(PUMPSWAP, data=b58encode(EVENT + forge(event)))
    return read(scene.receipt("user"), scene.address("user"))


@pytest.mark.parametrize("kind", ["buy", "sell"])
def test_pumpswap_uses_virtual_reserves(october, kind):
    """The vault has less SOL than the pool prices; without the virtual reserves the formula would
    miss the fill by more than 100 basis points.
    """
    sample = october[kind]
    entry, pool = swap(sample)
    (sol, raw), (sol_after, raw_after) = sample["vault_before"], sample["vault_after"]
    before, after = pool.before, pool.after
    assert entry.kind == kind and (before.payable, before.raw) == (sol, raw)
    assert before.sol > before.payable
    # The event has this change too: with the part of the fee that stays in the pool.
    whole = read_u64(sample["event"], 104)
    assert after.sol - before.sol == (whole if kind == "buy" else -whole)
    assert (before.buyable, after.buyable) == (before.raw, after.raw)
    # The vaults match the event, except for fees waiting in them.
    assert after.raw == raw_after
    assert abs(after.payable - sol_after) * 10_000 < after.payable
    given, got = abs(after.sol - before.sol), abs(after.raw - raw)
    naive = given * raw // (sol + given) if kind == "buy" else got * sol // (raw + got)
    real = got if kind == "buy" else given
    assert abs(naive - real) * 100 > real


@pytest.mark.parametrize(
    ("kind", "ends"),
    # A purchase has 45 more bytes, the last of which is the length of the name "buy".
    [("sell", None), ("buy", None), ("sell", 360), ("buy", 408)],
)
def test_pumpswaps_fees_are_summed(october, kind, ends):
    """The event says what the pool exchanged (64), and the user with all fees (112). Cashback and
    holders' fees, here 7 and 3, were appended.
    """
    data, changed = october[kind]["event"], {ends: 7, ends + 57: 3} if ends else {}
    quote, user = read_u64(data, 64), read_u64(data, 112)
    _, told = swap(october[kind], forge=lambda data: put(data, changed))
    assert told.fee_bps == round(abs(user - quote) * 10_000 / quote) + sum(changed.values())
    assert told[:2] == ("PumpSwap", b58encode(data[120:152]))
    assert (told.fee_kind, told.is_curve) == ("on_top", False)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (lambda data: data[:311], "no_event"),
        (lambda data: bytes(8) + data[8:], "no_event"),
        # Neither vault has so much.
        (lambda data: put(data, {56: 1}), "quote_not_sol"),
        # The wallet created the token.
        (lambda data: data[:312] + data[152:184] + data[344:], "own_token"),
    ],
)
def test_a_pumpswap_event_must_be_whole_and_name_a_vault(october, forge, reason):
    assert swap(october["sell"], forge=forge)[1] == reason


@pytest.mark.parametrize(
    ("reserves", "wanted"),
    [(-(10**8), "not_reproduced"), (10**8, 10**8), (2**62, "not_reproduced")],
)
def test_an_event_with_impossible_reserves_is_not_used(october, reserves, wanted):
    """An event that exchanges nothing agrees with every formula, and virtual reserves are signed:
    here, `reserves` minus the vault. With -0.1 SOL, a follower's first 0.1 SOL would be divided by
    zero.
    """

    def forge(data):
        vault = read_u64(data, 56)
        # Nothing for nothing, without a fee that stays in the pool.
        nothing = put(data, {16: 0, 64: 0, 80: 0})
        at = 405 + int.from_bytes(data[401:405], "little") + 32
        virtual = (reserves - vault).to_bytes(16, "little", signed=True)
        return nothing[:at] + virtual + nothing[at + 16 :]

    _, told = swap(october["buy"], forge=forge)
    assert (told if isinstance(told, str) else told.before.sol) == wanted
