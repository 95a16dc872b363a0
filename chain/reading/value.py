"""Which part of a trade's value passed through its venue. Pure; docs/verified.md."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chain.reading.beside import list_venue_changes
from chain.reading.feeding import Feeding
from chain.reading.flows import Amounts, Flows
from chain.reading.instructions import WRAPPED_SOL

# Minimum explained share of what was received and of what was given.
MIN_EXPLAINED_PERCENT = 95


@dataclass(frozen=True)
class Split:
    """The part of a trade outside its venue: `beside_sol`, `beside_tokens`, signed. `signed`: an
    account in `counterparties` is a signer's. `fed`: others paid into the trade or its pools. The
    rest as in an Entry.
    """

    beside_sol: int = 0
    beside_tokens: tuple[tuple[str, int, int], ...] = ()
    explained_percent: int | None = None
    counterparties: tuple[str, ...] = ()
    signed: bool = False
    fed: bool = False
    market: tuple[tuple[str, int], ...] = ()

    @property
    def explained(self) -> bool:
        return not self.fed and (self.explained_percent or 0) >= MIN_EXPLAINED_PERCENT


def split_trade(
    flows: Flows,
    changes: Iterable[tuple[str, int, int]],
    sol: str,
    residues: Iterable[str] = (),
    explain_feeding: bool = True,
) -> Split:
    """Split a trade. `changes`: without those outside the venue. `sol`: "got" | "both" | "" (only
    sent).
    """
    legs = [(mint, change) for mint, change, _ in changes if mint not in set(residues)]
    beside = flows.beside.copy()
    shares = [_explain_token(flows, mint, change) for mint, change in legs]
    rest = flows.unshown_in - flows.unshown_explained()
    if sol:
        shares.append(_explain_sol(flows, sol))
    shares += [_explain_payers(flows, mint) for mint in (*dict(legs), WRAPPED_SOL)]
    fed_percent, fed = _explain_feeding(flows, dict(legs)) if explain_feeding else (100, False)
    percent = min(fed_percent, *(_percent(*share) for share in shares))
    whole = percent >= MIN_EXPLAINED_PERCENT and not fed
    if whole or not sol:
        beside[WRAPPED_SOL] += rest
    if whole:
        for mint, change in legs:
            explained, _ = _explain_token(flows, mint, change)
            beside[mint] += max(0, change - explained) if change > 0 else 0
    got = [mint for mint, change in legs if change > 0] + ([WRAPPED_SOL] if sol else [])
    others = flows.counterparties(got)
    signed = _any_signed(flows, others)
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside), percent, others, signed, fed)


def split_fill(flows: Flows) -> Split:
    """Return the split of an order's fill: everything received must come from known calls."""
    risen = [row for row in venue_tokens(flows) if row[1] > 0]
    if risen:
        return split_trade(flows, risen, "", explain_feeding=False)
    beside = flows.beside
    if any(amount > 0 for amount in beside.values()):
        # Everything arrived by other instructions, so none of the price is explained.
        return Split(beside[WRAPPED_SOL], token_rows(flows, beside), 0)
    if flows.effect.sol + flows.effect.fee > 0:
        return split_trade(flows, (), "got", explain_feeding=False)
    return Split()


def add_market(split: Split, flows: Flows) -> Split:
    """Add to the split of a fill what swap calls, in `flows` of all on its side, paid and took."""
    if not flows.choose_trading():
        return split
    net: Amounts = Counter()
    for call in flows.calls:
        net.update(call.net)
    net[WRAPPED_SOL] += flows.unshown_explained()
    percent, fed = _explain_feeding(flows, net)
    # Its own side doesn't pay into a pool either.
    if fed or any(who in flows.partners for (_, who), paid in flows.went.items() if paid):
        return replace(split, explained_percent=percent, fed=True)
    return replace(split, market=tuple(sorted((m, n) for m, n in net.items() if n)))


def split_unpriced(flows: Flows) -> Split:
    """Return the split of a trade with several readings: nothing of it is explained."""
    beside = flows.beside
    return Split(beside[WRAPPED_SOL], token_rows(flows, beside))


def venue_tokens(flows: Flows) -> tuple[tuple[str, int, int], ...]:
    """Return ((mint, raw change, decimals), ...) without changes outside the venue."""
    beside = token_rows(flows, flows.beside)
    return tuple(sorted(list_venue_changes(flows.effect.tokens, beside)))


def token_rows(flows: Flows, amounts: Amounts) -> tuple[tuple[str, int, int], ...]:
    """Return rows sorted by mint, without zeros and SOL."""
    told = flows.receipt.tokens.values()
    decimals = {side.mint: side.decimals for sides in told for side in sides if side}
    return tuple(
        (mint, amount, decimals.get(mint, 0))
        for mint, amount in sorted(amounts.items())
        if amount and mint != WRAPPED_SOL
    )


def _explain_token(flows: Flows, mint: str, change: int) -> tuple[int, int]:
    """Return (raw units that moved inside the trade, raw units by which balances changed)."""
    moved = flows.got(mint) - flows.given(mint)
    return (moved, change) if change > 0 else (-moved, -change)


def _explain_sol(flows: Flows, sol: str) -> tuple[int, int]:
    """Return (lamports received from the venue, lamports received)."""
    shown = flows.got(WRAPPED_SOL) - (flows.given(WRAPPED_SOL) if sol == "got" else 0)
    explained = flows.unshown_explained()
    unshown = flows.unshown_in if flows.unshown_foreign() else explained
    return shown + explained, shown + unshown


def _explain_payers(flows: Flows, mint: str) -> tuple[int, int]:
    """Return (what the wallet gave, what everyone gave): others' purchases have no price."""
    given = flows.given(mint)
    return (given, given + flows.paid_by_others(mint)) if given else (1, 1)


def _explain_feeding(flows: Flows, legs: Iterable[str]) -> tuple[int, bool]:
    """Return (percent not paid by third parties, whether a third party paid).

    Any gift of a token that the wallet gives counts; pools may gain a little from others.
    """
    if flows.whole:
        return 100, False
    feeding = Feeding(flows)
    paid = {mint: feeding.paid_along(mint) for mint in {*legs, WRAPPED_SOL}}
    shares = list(feeding.shares_fed())
    shares += [(flows.given(mint), flows.given(mint) + more) for mint, more in paid.items() if more]
    percent = min((_percent(*share) for share in shares if share[1]), default=100)
    return percent, any(paid.values()) or percent < MIN_EXPLAINED_PERCENT


def _percent(explained: int, total: int) -> int:
    return max(0, min(100, explained * 100 // total)) if total > 0 else 0


def _any_signed(flows: Flows, accounts: Iterable[str]) -> bool:
    signers = flows.receipt.signers - {flows.effect.wallet}
    return any(signers & {account, *flows.owners(account)} for account in accounts)


def is_fee_income(flows: Flows) -> bool:
    """Whether the trade paid a fee to a wallet that neither signed nor gave, and more to others."""
    effect = flows.effect
    gains = {mint: change for mint, change, _ in effect.tokens}
    gains[WRAPPED_SOL] = effect.sol + effect.fee
    arrived = any(call.delivered for call in flows.calls) or flows.unshown_in > 0
    if effect.wallet in flows.receipt.signers or not arrived or min(gains.values()) < 0:
        return False
    risen = [(mint, gain) for mint, gain in gains.items() if gain]
    return bool(risen) and all(2 * gain < _all_gains(flows, mint) for mint, gain in risen)


def _all_gains(flows: Flows, mint: str) -> int:
    if mint == WRAPPED_SOL:
        sides = flows.receipt.balances.values()
        return sum(max(0, after - before) for before, after in sides)
    return sum(
        max(0, after.amount - (before.amount if before else 0))
        for before, after in flows.receipt.tokens.values()
        if after and after.mint == mint
    )
