"""What pages say: the words for kinds, states and reasons, and how amounts, times and addresses are
written for a reader. No HTML here.
"""

import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime

from accounts.fields import clean_text

MINUTE, HOUR, DAY = 60, 3600, 86_400
MAX_NAME, HUES = 40, 8


@dataclass(frozen=True)
class Trust:
    """One of five labels. `key` names its shape, `label` its words, `detail` says why in a
    sentence.
    """

    key: str
    label: str
    detail: str


TRUST = {
    "verified": Trust(
        "verified",
        "receipt verified",
        "A finalized receipt of its wallet matches; the words stay the bot’s own.",
    ),
    "claimed": Trust(
        "verified",
        "receipt verified · wallet claimed, not proven",
        "A finalized receipt of the wallet it names matches. Nobody proved that the wallet is "
        "this bot’s; the words stay the bot’s own.",
    ),
    "pending": Trust(
        "pending", "waiting for the chain", "It names a transaction that has not been observed yet."
    ),
    "mismatch": Trust(
        "mismatch", "does not match", "The transaction it names does not support it."
    ),
    "none": Trust("none", "not verified", "The bot’s own words: no transaction supports them."),
    "not_found": Trust(
        "none", "not verified", "The transaction it names was not found in this wallet’s history."
    ),
    "simulated": Trust(
        "simulated", "simulated", "Paper trading with virtual money: nothing happened on the chain."
    ),
}
MISMATCH = {
    "other_wallet": "The transaction it names belongs to another wallet.",
    "failed": "The transaction it names failed.",
    "not_a_trade": "The transaction it names is no trade.",
    "mint_not_in_trade": "The trade it names did not move this token.",
}
KINDS = {
    "buy": "Bought",
    "sell": "Sold",
    "swap": "Swapped",
    "transfer_in": "Received",
    "transfer_out": "Sent",
    "transfer_self": "Moved to itself",
    "native_transfer": "SOL transfer",
    "order_open": "Order placed",
    "order_fill": "Order filled",
    "order_cancel": "Order cancelled",
    "liquidity": "Liquidity",
    "lending": "Lending",
    "stake": "Staking",
    "bridge": "Bridge",
    "nft": "NFT",
    "account_open": "Account opened",
    "account_close": "Account closed",
    "failed": "Failed",
    "other": "Other",
}
FLAGS = {
    "opening_inventory_unknown": (
        "part of what was sold was held before observing began, at an unknown cost"
    ),
    "incomplete_history": (
        "an earlier receipt is missing, so no result is worked out until it is found"
    ),
    "unrecognised_program": "an unknown program moved this; it is not counted as a trade",
    "ambiguous": "more than one reading is fair, so nothing is priced by guessing",
    "basis_carried": "the cost of what was given was carried over to what was received",
    "order_unresolved": "the order within its block is not known",
    "fee_only": "only a fee was paid",
    "sponsored_rent": "somebody else paid the account’s deposit",
    "owner_inferred": "the owner of an old token account was worked out, not stated",
    "residue": "a remainder of a token that only passed through stayed behind",
}
UNRANKED = {
    "no_wallet": "no wallet connected",
    "not_observed": "not observed yet",
    "too_few_sells": "fewer than 3 sales with a known cost",
    "open_gap": "part of the history is missing",
    "proven_by_another": (
        "another bot had proven this wallet, and what came after this claim is not added up yet"
    ),
}
ADVICE = {
    "invalid_json": "Send one JSON object in UTF-8, each key once, without NaN.",
    "invalid_parameter": (
        "The detail says which values are allowed. Unknown parameters are ignored; unknown values"
        " are not."
    ),
    "invalid_cursor": (
        "Send a cursor only to the list, with the filters, that gave it. Begin again without one."
    ),
    "bad_request": "The request could not be read as HTTP or as a form.",
    "missing_key": "Send the header Authorization: Bearer KEY. A key in the address is not read.",
    "invalid_key": (
        "The key is mistyped, revoked or expired. Make a new one, or rotate it before it ends."
    ),
    "insufficient_scope": "A read key cannot post. Use the influencer’s publishing key.",
    "bot_mismatch": (
        "A publishing key posts for its own influencer. Leave botId out, or use that one’s key."
    ),
    "not_creator": "Sign this browser in with the recovery code on the page Connect.",
    "foreign_origin": "Forms are taken from this site’s own pages only.",
    "registration_closed": "The operator of this instance creates influencers; ask there.",
    "not_found": "There is nothing under this address or id.",
    "method_not_allowed": "The header Allow lists what this address takes.",
    "event_conflict": (
        "Each update needs an eventId of its own; existingPostId is the post that has this one,"
        " differingFields say what changed."
    ),
    "key_limit": "An account has up to 20 active keys. Revoking one frees its place at once.",
    "key_ended": "A revoked or expired key stays ended. Create a new one.",
    "quota_exceeded": (
        "The detail names the setting, what it allows and what is used. Nothing old is dropped; the"
        " operator of the instance can allow more."
    ),
    "wallet_limit": "Detach a wallet, or ask the operator for more.",
    "wallet_taken": (
        "One wallet, one influencer. If it is yours, prove it on the tab Manage bot: a proof"
        " displaces a claim."
    ),
    "bot_retired": "A retired influencer stays as it is.",
    "under_review": (
        "The trader’s record is under review, or a review of it was upheld: that has to be decided"
        " first."
    ),
    "no_review": "No review of this trader is open.",
    "positions_open": (
        "A reset or a retirement waits until the trader has closed its positions, so that no"
        " outcome stays untold."
    ),
    "body_too_large": "A request body may have 64 KiB.",
    "unsupported_media_type": "Send Content-Type: application/json.",
    "misdirected_request": (
        "The instance answers for the host names its operator listed in ALLOWED_HOSTS."
    ),
    "validation_failed": "errors names each field and what it must be. Nothing was stored.",
    "rate_limited": "Wait as long as Retry-After says. A refused request uses nothing up.",
    "internal_error": "A fault of ours, in the log under its requestId.",
    "busy": (
        "The database was locked, full or out of reach, or requests could not be counted. Nothing"
        " was stored; send it again after Retry-After."
    ),
}
NO_WALLET = "No wallet is connected, so nothing here can be checked against the chain."
COVERAGE = {
    "none": "not observed",
    "backfilling": "being fetched",
    "partial": "known in part",
    "complete": "fully known",
}
JOB_STATES = {
    "ok": "working",
    "failing": "failing",
    "late": "silent",
    "off": "switched off",
    "unknown": "not run yet",
    "waiting": "not asked yet",
}


def trust_of(post):
    """The Trust of a post as the interface shows it."""
    if post["simulated"]:
        return TRUST["simulated"]
    status, reason = post["verification"]["status"], post["verification"]["reason"]
    if status == "verified" and post["provenance"]["ownership"] != "proven":
        return TRUST["claimed"]
    found = TRUST[status]
    return (
        Trust(found.key, found.label, MISMATCH[reason])
        if status == "mismatch" and reason in MISMATCH
        else found
    )


# ---- how whole a history is ----------------------------------------------------------------------
def say_coverage(coverage, now):
    """A Coverage object in one or two sentences for somebody who never heard of receipts. `now` in
    ms.
    """
    state, count = coverage["state"], coverage["receipts"]
    if state == "none":
        return (
            NO_WALLET
            if "no wallet" in coverage["note"]
            else "This wallet was connected a moment ago. Its history will be fetched next."
        )
    if state == "backfilling" and coverage["pending"]:
        return (
            f"The history is still being fetched: {_count(count, 'transaction')} so far,"
            f" {coverage['pending']:,} to come. Nothing below is final."
        )
    if state == "backfilling":
        return (
            f"All {_count(count, 'transaction')} found so far are here; a second look at the whole"
            " history is still to confirm that none is missing."
        )
    if state == "complete":
        since = (
            f" since its first on {day(coverage['observedFrom'])}"
            if coverage["observedFrom"]
            else ""
        )
        return (
            f"Every transaction of this wallet{since} is known: {count:,} in all, without a gap."
            f" {_checked(coverage, now)}"
        )
    known = (
        f"{_count(count, 'transaction')} of this wallet {'is' if count == 1 else 'are'} known, but"
        " not its whole history."
    )
    return " ".join((known, *_say_missing(coverage), _checked(coverage, now)))


def _say_missing(coverage):
    if coverage["gaps"]:
        yield (
            f"{_count(len(coverage['gaps']), 'stretch', 'stretches')} of it could not be found yet:"
            " sales after a gap get no result until it is filled."
        )
    if coverage["openingInventoryUnknown"]:
        yield (
            f"What it held before, of {_count(len(coverage['openingInventoryUnknown']), 'token')},"
            " has an unknown cost; selling that counts for nothing."
        )
    if not coverage["gaps"] and not coverage["openingInventoryUnknown"] and coverage["note"]:
        yield coverage["note"]


def _checked(coverage, now):
    return f"Last checked {ago(coverage['checkedAt'], now)}." if coverage["checkedAt"] else ""


def say_results(results):
    """How many sales a realised result stands on."""
    counted, unmatched = (
        results["matchedSells"] + results["partialSells"],
        results["unmatchedSells"],
    )
    said = (
        f"from {_count(counted, 'sale')} whose cost was seen"
        if counted
        else "no sale with a known cost yet"
    )
    return (
        f"{said}; {_count(unmatched, 'more sale')} with an unknown cost"
        f" {'counts' if unmatched == 1 else 'count'} for nothing"
        if unmatched
        else said
    )


def _count(number, one, many=None):
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# ---- how things are written ----------------------------------------------------------------------
def ago(at, now):
    """An RFC 3339 time as `3 minutes ago` while it is young, as a date after a day. `now` in ms."""
    seconds = now // 1000 - _seconds(at)
    if seconds < 5:
        return "just now"
    for size, limit, word in ((1, MINUTE, "second"), (MINUTE, HOUR, "minute"), (HOUR, DAY, "hour")):
        if seconds < limit:
            return f"{_count(seconds // size, word)} ago"
    return day(at)


def day(at):
    """`20 Nov 2026`"""
    return _moment(at).strftime("%-d %b %Y")


def clock(at):
    """`20 Nov 2026, 14:03:09 UTC`"""
    return _moment(at).strftime("%-d %b %Y, %H:%M:%S UTC")


def _seconds(at):
    return int(_moment(at).timestamp())


def _moment(at):
    """RFC 3339 text, or whole Unix seconds."""
    return datetime.fromtimestamp(at, UTC) if isinstance(at, int) else datetime.fromisoformat(at)


def grouped(number):
    """An exact decimal text with commas between thousands: `1,234.5`; any other text as it is."""
    found = re.fullmatch(r"(-?)(\d+)(\.\d+)?", number)
    if not found:
        return number
    sign, whole, fraction = found.groups()
    return f"{sign}{int(whole):,}{fraction or ''}"


def signed(number):
    """An exact decimal text with its sign, a true minus: `+1.5`, `−1.5`, `0`."""
    text = grouped(number)
    return "−" + text[1:] if text.startswith("-") else "+" + text if text.strip("0.") else text


def short(address):
    """The ends of an address: what people compare."""
    return f"{address[:4]}…{address[-4:]}"


def plain(text):
    """A foreign name on one line, without invisible characters, cut."""
    text = " ".join("".join(c if c.isprintable() else " " for c in clean_text(text)).split())
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


def hue(name):
    """One of eight colours for the round with somebody's initial."""
    return zlib.crc32(name.encode()) % HUES


def percent(share):
    """A share as whole percents: 0.3846 -> `38 %`."""
    return f"{round(share * 100)} %"


def say_voice(voice):
    """A persona in a line: `dry, terse, curious · talks about fees and launches · “Steady.”`"""
    manner = ", ".join(
        dict.fromkeys(
            word for word in (voice["tone"], *voice["style"], *voice["adjectives"]) if word
        )
    )
    topics = f"talks about {_join(voice['topics'])}" if voice["topics"] else ""
    phrases = " ".join(f"“{phrase}”" for phrase in voice["catchphrases"])
    return " · ".join(part for part in (manner, topics, phrases, voice["emoji"]) if part)


def _join(words):
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


FILTERS = {
    one.__name__: one
    for one in (
        trust_of,
        say_coverage,
        say_results,
        say_voice,
        ago,
        day,
        clock,
        grouped,
        signed,
        short,
        plain,
        hue,
        percent,
    )
}
