"""Mint accounts: recorded ones, and handmade ones for cases that weren't recorded."""

import base64
import csv
import json
import re
import struct

import pytest
from fakemarket import address
from hypothesis import given
from hypothesis import strategies as st

from chain.addresses import TOKEN, TOKEN_2022
from chain.amounts import Scale, load_scale
from chain.mints import CHECKS, EXTENSIONS, MINT_BYTES, Mint, check_mint, parse_mint
from market.store import store_checks
from market.tables import Token

NOW = 1_800_000_000_000
KEY, OTHER = (7).to_bytes(32, "big"), (8).to_bytes(32, "big")
NONE = bytes(32)


def mint_account(
    *extensions,
    supply=10**15,
    decimals=6,
    mint_authority=None,
    freeze_authority=None,
    owner=TOKEN_2022,
    tail=b"",
):
    """A node's value of a handmade mint; extensions are (number, state)."""
    first, second = (
        struct.pack("<I", 1) + key if key else bytes(36)
        for key in (mint_authority, freeze_authority)
    )
    raw = first + struct.pack("<QBB", supply, decimals, 1) + second
    if extensions or tail:
        entries = [struct.pack("<HH", number, len(state)) + state for number, state in extensions]
        raw = raw.ljust(165, b"\0") + b"\1" + b"".join(entries) + tail
    return held(owner, raw)


def held(owner, data):
    """A node's value of an account."""
    return {"owner": owner, "data": [base64.b64encode(data).decode(), "base64"]}


def fees(older, newer, authority=NONE):
    return authority + NONE + struct.pack("<QQQHQQH", 0, 600, 10**9, older, 602, 10**9, newer)


def status_of(account):
    return {check["key"]: check["status"] for check in check_mint(account, NOW)}


# ---- the recorded ones ---------------------------------------------------------------------------
@pytest.fixture(scope="module")
def recorded(receipts):
    """[(row of SUMMARY.csv, account), ...] of the mints recorded in base64, as the scout requests
    them.
    """
    folder, found = receipts / "mints", []
    for row in csv.DictReader((folder / "SUMMARY.csv").read_text().splitlines()):
        answer = json.loads((folder / row["file"]).read_text())
        account = answer.get("response", answer)["result"]["value"]
        if isinstance(account["data"], list):
            found.append((row, account))
    return found


def test_recorded_mints_and_their_checks_match_their_summary(recorded):

    def shorten(names):
        return [name.lower().removesuffix("config") for name in names]

    known = shorten(name for name, _ in EXTENSIONS.values())
    assert len(recorded) == 47
    for row, account in recorded:
        mint, extensions = parse_mint(account), shorten(row["extensions"].split())
        authorities = (mint.mint_authority or "", mint.freeze_authority or "")
        assert (str(mint.supply), str(mint.decimals)) == (row["supply"], row["decimals"])
        assert authorities == (row["mintAuthority"], row["freezeAuthority"])
        assert shorten(mint.extensions) == [one for one in extensions if one in known]
        if points := [int(one) for one in re.findall(r"(\d+)bps", row["transfer_fee"])]:
            config = mint.extensions["transferFeeConfig"]
            told = [config["olderTransferFee"], config["newerTransferFee"]]
            assert [fee["transferFeeBasisPoints"] for fee in told] == points
        wrong = {
            "mint_authority": "warn" if row["mintAuthority"] else None,
            "freeze_authority": "warn" if row["freezeAuthority"] else None,
            "supply": "warn" if row["supply"] in ("0", "1") else None,
            "decimals": "warn" if row["decimals"] == "0" else None,
            "permanent_delegate": "fail" if "permanentdelegate" in extensions else None,
            "transfer_hook": "warn" if "transferhook" in extensions else None,
            "close_authority": "warn" if "mintcloseauthority" in extensions else None,
        }
        if "transferfee" in extensions:
            # An authority can raise every recorded fee of 0.
            wrong["transfer_fee"] = "fail" if max(points, default=0) >= 1000 else "warn"
        told = {key: status for key, status in wrong.items() if status}
        assert status_of(account) == dict.fromkeys(CHECKS, "pass") | told, row["file"]


# ---- hand-made ones ------------------------------------------------------------------------------
NO_POWERS = {
    "mint_authority": "pass: nobody can create more tokens",
    "freeze_authority": "pass: nobody can freeze a holder's account",
    "supply": "pass: 1,234,567.5 tokens exist",
    "decimals": "pass: 6 decimals",
    "transfer_fee": "pass: the token charges no transfer fee",
    "permanent_delegate": "pass: only the holder can move their tokens",
    "transfer_hook": "pass: no program runs on transfers",
    "default_account_state": "pass: new accounts can be used immediately",
    "pausable": "pass: transfers can't be paused",
    "non_transferable": "pass: it can be transferred",
    "close_authority": "pass: the mint can't be closed",
}
WHO, OTHER_ONE = address(7), address(8)
REOPENED = "can close the mint once no tokens exist and open a new one at the same address"


def told_of(*extensions, **how):
    account = mint_account(*extensions, **{"supply": 1_234_567_500_000, **how})
    return {one["key"]: f"{one['status']}: {one['detail']}" for one in check_mint(account, NOW)}


def test_a_mint_without_powers_says_so():
    assert told_of() == told_of(owner=TOKEN) == NO_POWERS


# Fields of the mint, or an extension's number and state, and what the check says.
ODD = {
    "mint_authority": [({"mint_authority": KEY}, f"warn: {WHO} can create more tokens")],
    "freeze_authority": [
        ({"freeze_authority": KEY}, f"warn: {WHO} can freeze any holder's account")
    ],
    "supply": [
        ({"supply": 0}, "warn: no tokens exist"),
        ({"supply": 1}, "warn: only one unit exists, as with a collectible"),
        ({"supply": 2}, "pass: 0.000002 tokens exist"),
        ({"supply": 2**64 - 1}, "pass: 18,446,744,073,709.551615 tokens exist"),
        ((25, bytes(56)), "pass: 1,234,567.5 tokens exist"),
        ((999, b"later than this program"), "pass: 1,234,567.5 tokens exist"),
    ],
    "decimals": [
        ({"decimals": 0}, "warn: it can't be divided"),
        ({"decimals": 1}, "pass: 1 decimals"),
        ({"decimals": 12}, "pass: 12 decimals"),
        ({"decimals": 13}, "warn: 13 decimals"),
        ({"decimals": 255}, "warn: 255 decimals"),
    ],
    "transfer_fee": [
        ((1, fees(0, 0)), "pass: a fee of 0%"),
        ((1, fees(0, 0, KEY)), f"warn: a fee of 0%; {WHO} can change it"),
        ((1, fees(0, 1)), "warn: every transfer costs 0%, changing to 0.01%"),
        ((1, fees(999, 999)), "warn: every transfer costs 9.99%"),
        (
            (1, fees(1_000, 250, KEY)),
            f"fail: every transfer costs 10%, changing to 2.5%; {WHO} can change it",
        ),
        ((1, fees(0, 10_000)), "fail: every transfer costs 0%, changing to 100%"),
    ],
    "permanent_delegate": [
        ((12, KEY), f"fail: {WHO} can take or burn any holder's tokens"),
        ((12, NONE), "pass: there is no delegate"),
    ],
    "transfer_hook": [
        ((14, KEY + OTHER), f"warn: program {OTHER_ONE} runs on every transfer and can refuse it"),
        ((14, KEY + NONE), f"warn: {WHO} can add a program that may block transfers"),
        ((14, NONE + NONE), "pass: no program runs on transfers, and none can be added"),
    ],
    "default_account_state": [
        ((6, b"\1"), "pass: new accounts can be used immediately"),
        ((6, b"\2"), "fail: new accounts start frozen"),
        ((6, b"\0"), "unknown: new accounts start in an unknown state"),
    ],
    "pausable": [
        ((26, KEY + b"\1"), "fail: all transfers are paused"),
        ((26, KEY + b"\0"), f"warn: {WHO} can pause all transfers"),
        ((26, NONE + b"\0"), "pass: the pause authority was revoked"),
    ],
    "non_transferable": [((9, b""), "fail: it can't be transferred or sold")],
    "close_authority": [
        ((3, KEY), f"warn: {WHO} {REOPENED}"),
        ((3, NONE), "pass: the close authority was revoked"),
    ],
}


@pytest.mark.parametrize("key, what, text", [(key, *row) for key in ODD for row in ODD[key]])
def test_a_power_over_a_mint_decides_its_own_check_only(key, what, text):
    """The supply is shown with the mint's decimals."""
    told = told_of(**what) if isinstance(what, dict) else told_of(what)
    assert told[key] == text
    differ = {one for one in told if told[one] != NO_POWERS[one]}
    assert differ <= ({key, "supply"} if key == "decimals" else {key})


def test_a_token_2022_mint_is_read_from_its_bytes():
    text = struct.pack("<I5sI3s", 5, b"A cat", 3, b"CAT") + struct.pack("<II", 0, 0)
    told = [(1, fees(100, 250, OTHER)), (9, b""), (19, NONE + NONE + text), (999, b"?")]
    mint = parse_mint(mint_account(*told, supply=7, decimals=2, mint_authority=KEY))
    assert (mint.supply, mint.decimals, mint.mint_authority) == (7, 2, WHO)
    older = {"epoch": 600, "maximumFee": 10**9, "transferFeeBasisPoints": 100}
    assert mint.extensions == {
        "transferFeeConfig": {
            "transferFeeConfigAuthority": OTHER_ONE,
            "olderTransferFee": older,
            "newerTransferFee": older | {"epoch": 602, "transferFeeBasisPoints": 250},
        },
        "nonTransferable": {},
        "tokenMetadata": {"name": "A cat", "symbol": "CAT"},
    }
    assert mint.metadata == ("CAT", "A cat")


def test_the_higher_of_two_transfer_fees_counts():
    """The older one applies until an unknown epoch, the newer one afterwards."""
    for older, newer, fee in ((100, 250, 250), (300, 250, 300), (0, 0, 0)):
        assert parse_mint(mint_account((1, fees(older, newer)))).transfer_fee_bps == fee
    assert parse_mint(mint_account()).transfer_fee_bps == 0
    assert Mint(1, 6, None, None, None).transfer_fee_bps is None


@pytest.mark.parametrize(
    "broken",
    [
        struct.pack("<HH", 12, 32) + bytes(5),
        struct.pack("<HH", 12, 5) + bytes(5),
        struct.pack("<HH", 999, 8) + bytes(5),
        struct.pack("<HH", 19, 70) + NONE + NONE + b"\xff\xff\xff\xff\0\0",
    ],
)
def test_truncated_extensions_keep_the_rest_of_the_account(broken):
    """The first four checks don't depend on extensions."""
    told = list(told_of((9, b""), tail=broken).values())
    untold = ["unknown: the mint's extensions couldn't be read"] * 7
    assert told == [*list(NO_POWERS.values())[:4], *untold]
    # Padding ends them.
    assert told_of((9, b""), tail=bytes(40)) == told_of((9, b""))


GONE = "the node has no account at this address"
FOREIGN = "the account is not owned by a token program"
NO_MINT = "the account is not an initialized mint"
UNREADABLE = "the account data couldn't be read"
# Of both programs; in the second one, the account's type is at the same offset as in a mint.
TOKEN_ACCOUNT = bytes(108) + b"\1" + bytes(56)
TOKEN_ACCOUNT_2022 = bytes(45) + b"\1" + bytes(119) + b"\2" + bytes(20)


@pytest.mark.parametrize(
    "account, why",
    [
        (None, GONE),
        ({}, GONE),
        (held("11111111111111111111111111111111", b""), FOREIGN),
        (held(TOKEN, TOKEN_ACCOUNT), NO_MINT),
        (held(TOKEN_2022, TOKEN_ACCOUNT_2022), NO_MINT),
        # Never initialized.
        (held(TOKEN, bytes(MINT_BYTES)), NO_MINT),
        ({"owner": TOKEN, "data": ["%%%", "base64"]}, UNREADABLE),
        ({"owner": TOKEN, "data": []}, UNREADABLE),
        ({"owner": TOKEN}, UNREADABLE),
        ({"owner": TOKEN, "data": 5}, UNREADABLE),
        ({"owner": TOKEN, "data": {"parsed": {"type": "mint"}}}, UNREADABLE),
    ],
)
def test_every_check_of_a_non_mint_account_is_unknown(account, why):
    told = check_mint(account, NOW)
    assert [one.pop("key") for one in told] == list(CHECKS)
    assert [one.pop("label") for one in told] == [label for label, _ in CHECKS.values()]
    assert told == [{"status": "unknown", "detail": why, "checkedAt": NOW}] * len(CHECKS)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=120)), max_size=5),
    st.binary(max_size=40),
)
def test_any_extensions_are_judged_or_unknown(extensions, tail):
    said = status_of(mint_account(*extensions, tail=tail))
    assert set(said.values()) <= {"pass", "warn", "fail", "unknown"}


@given(st.sampled_from([TOKEN, TOKEN_2022]), st.binary(max_size=400))
def test_any_bytes_are_judged_or_unknown(owner, raw):
    assert status_of(held(owner, raw)).keys() == CHECKS.keys()


def test_display_settings_stay_stored_while_unreadable(service):
    token = Token.create(mint=address(9))
    scaled = bytes(32) + struct.pack("<dqd", 1.5, 7, 3.0)

    def check(account):
        store_checks([Token.get_by_id(token.id)], [account], NOW)
        return Token.get_by_id(token.id).scale

    for account in (mint_account((25, scaled)), None):
        assert load_scale(check(account)) == Scale("1.5", 7, "3.0")
    assert check(mint_account()) is None
