"""Compare claimed lines, coverage and verifications with computed ones. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from chain.ledger.coverage import ACCOUNTS_CAPPED, CAPPED, UNRESOLVED
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE
from chain.ledger.sales import Booked, see_side
from chain.reading.entries import Entry
from chain.stored.store import PendingLedger, show_extent
from chain.stored.trades import make_trade_row, trade_uid
from chain.stored.verify import OTHER_WALLET, judge, list_moved_mints
from evidence.claims import ClaimedPost
from evidence.differences import NOTHING_SAID, Difference, compare, cut, is_same
from evidence.lines import Line, make_line

# Members that depend only on the transaction; the others depend on earlier ones, too.
OWN_FIELDS = frozenset(
    (
        *("tradeId", "signature", "slot", "transactionIndex", "blockTime", "receipt", "kind"),
        *("venue", "mint", "explainedPercent", "solChangeLamports", "feeLamports", "tipLamports"),
        *("rentLamports", "besideLamports", "tokenChanges", "besideTokens", "counterparties"),
    )
)
# Members to ignore if one side lacks this one: some nodes don't report it.
UNTOLD = {
    "transactionIndex": "transactionIndex",
    "place": "transactionIndex",
    "blockTime": "blockTime",
}


class LineFinding(NamedTuple):
    differences: list[Difference]
    is_timeless: bool
    is_unresolved: bool


@dataclass
class Findings:
    """Findings about a wallet. `timeless`: only one side knows some block time; `unresolved`: one
    side or both don't know some order inside a slot.
    """

    differences: list[Difference] = field(default_factory=list)
    timeless: bool = False
    unresolved: bool = False

    def clear(self) -> None:
        self.differences, self.timeless, self.unresolved = [], False, False

    def add(self, found: LineFinding) -> None:
        self.differences += found.differences
        self.timeless = self.timeless or found.is_timeless
        self.unresolved = self.unresolved or found.is_unresolved


# ---- lines ---------------------------------------------------------------------------------------
def make_own_line(wallet: str, entry: Entry, digest: str) -> Line:
    """Return a transaction's line with only the members that don't depend on others: OWN_FIELDS."""
    holder = SimpleNamespace(id=0, address=wallet)
    booked = Booked(entry, see_side(entry, SOL), entry.flags)
    row = make_trade_row(holder, entry.tx_index or 0, {WHOLE: booked})
    return make_line(row, digest, entry.seen_at)


def compare_line(
    theirs: Mapping[str, Any], ours: Line, fields: Collection[str] | None = None
) -> LineFinding:
    found, timeless = [], False
    for name, value in ours.items():
        if name == "seenAtMs" or (fields is not None and name not in fields):
            continue
        claimed = theirs.get(name, NOTHING_SAID)
        if name in UNTOLD and None in (theirs.get(UNTOLD[name]), ours[UNTOLD[name]]):
            timeless = timeless or (name == "blockTime" and claimed is not value)
        elif not is_same(claimed, value):
            found.append(Difference(ours["signature"], name, cut(claimed), cut(value)))
    said = [flags for flags in (theirs.get("flags"), ours["flags"]) if isinstance(flags, list)]
    return LineFinding(found, timeless, any(UNRESOLVED in flags for flags in said))


# ---- coverage ------------------------------------------------------------------------------------
def compare_coverage(
    coverage: Mapping[str, Any], pending: PendingLedger, timeless: bool
) -> Iterator[Difference]:
    """Compare the claimed coverage with the one that the transactions show."""
    ledger, worked_out = pending.ledger, show_extent(pending)
    if timeless:
        worked_out.pop("observedFrom")
    yield from compare({name: coverage.get(name) for name in worked_out}, worked_out, "coverage")
    said = list_gaps(coverage)
    hidden = [gap for gap in ledger.chain.gaps if not _is_in(said, gap.from_slot, gap.to_slot)]
    if hidden and coverage.get("state") in ("partial", "complete"):
        first = hidden[0]
        yield Difference(
            None,
            "coverage.gaps",
            len(said),
            f"a gap from slot {first.from_slot} to {first.to_slot}",
        )
    if coverage.get("state") == "complete" and (ledger.chain.opened or said):
        yield Difference(None, "coverage.state", "complete", "its history begins late or has gaps")


def list_gaps(coverage: Mapping[str, Any] | None) -> list[tuple[int, int]]:
    """Return the gaps in a coverage as closed intervals of slots."""
    gaps = (coverage or {}).get("gaps")
    found = []
    for gap in gaps if isinstance(gaps, list) else []:
        first, last = (_find(gap, name) for name in ("fromSlot", "toSlot"))
        if isinstance(first, int) and isinstance(last, int):
            found.append((first, last))
    return found


def _find(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _is_in(gaps: Collection[tuple[int, int]], first: int, last: int) -> bool:
    return any(begin <= first and last <= end for begin, end in gaps)


def excuse(coverage: Mapping[str, Any] | None, slot: int) -> str | None:
    """Return why an instance may lack a transaction of this slot according to its own coverage, or
    None.
    """
    state = (coverage or {}).get("state")
    if coverage is None or state not in ("partial", "complete"):
        return "the instance says it's still fetching"
    if _is_in(list_gaps(coverage), slot, slot):
        return "the instance reports a gap there"
    note = coverage.get("note")
    if isinstance(note, str) and note.startswith((CAPPED, ACCOUNTS_CAPPED)):
        return "the instance says it reached this wallet's limit"
    first = coverage.get("firstSlot")
    if state == "partial" and type(first) is int and slot < first:
        return "the instance says its history starts later"
    return None


# ---- posts ---------------------------------------------------------------------------------------
def judge_claimed(post: ClaimedPost, entries: Mapping[str, Entry]) -> Iterator[Difference]:
    """Compare a post's verification with the transaction it names, as the bot's wallets (by
    address) saw it. One wallet for which the post is verified is enough.
    """
    if post.status == "pending" and post.checkedAtMs is None:
        # Newer than the wallet's last publication.
        return
    found = [_judge_entry(post, address, entry) for address, entry in entries.items()]
    right = [one for one in found if one["status"] == "verified"] or found
    differing = [
        [name for name, value in ours.items() if getattr(post, name) != value] for ours in right
    ]
    if all(differing):
        for name in differing[0]:
            place, said = f"posts.{post.id}.{name}", getattr(post, name)
            yield Difference(post.signature, place, said, right[0][name])


def _judge_entry(post: ClaimedPost, address: str, entry: Entry) -> dict[str, Any]:
    mints = list_moved_mints(entry.kind, entry.mint, entry.tokens, entry.beside_tokens)
    status, reason = judge(entry.kind, entry.flags, mints, post.mint, entry.explained_percent)
    ours: dict[str, Any] = {
        "status": status,
        "reason": reason,
        "tradeId": trade_uid(address, entry.signature),
    }
    if status == "verified" and entry.block_time is not None:
        ours["eventAtMs"] = entry.block_time * 1000
    return ours


def judge_unseen(post: ClaimedPost, is_foreign: bool | None) -> Iterator[Difference]:
    """Compare a post's verification if its transaction isn't among its wallet's.

    `is_foreign`: whether the transaction exists but names none of the wallet's accounts, or was
    another bot's. None: unknown.
    """
    status, reason, told = (
        (*OTHER_WALLET, "mismatch (other_wallet)")
        if is_foreign
        else ("pending", None, "not a trade of this wallet")
    )
    undecided = post.status in ("pending", "not_found") and post.reason is None
    fits = (post.status, post.reason) == (status, reason) or undecided
    if (not fits and is_foreign is not None) or post.status == "verified":
        yield Difference(post.signature, f"posts.{post.id}.status", post.status, told)
    elif post.tradeId is not None:
        yield Difference(post.signature, f"posts.{post.id}.tradeId", post.tradeId, None)


def judge_unsigned(post: ClaimedPost) -> Iterator[Difference]:
    for name, value in (("status", "none"), ("reason", None), ("tradeId", None)):
        if getattr(post, name) != value:
            yield Difference(post.signature, f"posts.{post.id}.{name}", getattr(post, name), value)
