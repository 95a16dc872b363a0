"""Small ledgers as text: a line is a transaction and, after `=>`, what the ledger must say then.

    buy 10 A for 100
    sell 4 A for 60             => matched 60-40 | taken 4@40 | A 6@60 | gaps -

A, B... are mints, A/2 is a second account of A; Q and K are USDC and USDT. Amounts are raw units. A
wallet begins with a transfer of a trillion lamports, or with its line `before 500 7 A`. A line
`untouched 4 A/2` is about an account that no transaction touches.

Transactions: `buy`, `sell`, `swap 10 A for 5 B [plus 7]` (lamports), `gain 6 A` and `lose 2 A`
(transfers; losing costs a fee of 5). `slip -3 A 20` (lamports) is a change that no transaction
shows. Any other kind has the amounts that passed through its venue, as in `lending -300 4 A` (with
lamports, there is a fee of 5), then `of A` (the traded mint), `tip 2`, `beside 9 -1 A` (outside the
venue), `market -4 A` (what swaps took for a fill), `left B` (a residue), `at ESCROW 4 A` and a
[flag]. `undated`, `dated N` or `seen N` before it change its time: they are 110, 120 and so on.
`attach` and `detach` have their own lines.

Expected, separated by `|`: `matched N`, `partial N` or `unmatched` with the [flags]; lots `A 6@60
3@?` or `A -`; `left A 40`: known cost that left, by mint; `pool A 5@20 3@?` and `average 30 in 1`
(sale) by average cost; `side buy -9 2`: what moved through its venue, and outside; `its carried 1`:
a field of the result; `holdings A 6@60 3@?`: the positions, and `holding 1`: their number;
`escrows e f`: the orders; `books received 9 open_cost 60`: all lines of the reconciliation but
zeros and the first transfer; `trades 2`: a line or a sum; `tokens A 30 1/2`: a token's result and
won sales. `Q:` is in a stablecoin, `since:` since the last attachment.
"""

import re
from collections import Counter
from dataclasses import astuple

from teller import FEE, Teller, mint_of, show_lots, show_slices

from chain.ledger.coverage import BalanceChain
from chain.ledger.inventory import SOL, Opening
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import ALL_HISTORY, TRANSFERS, Account, Span, Spans, Totals
from chain.reading.kinds import TRADES

ORDERS = ("order_open", "order_fill", "order_cancel")
KINDS = {*TRADES, *TRANSFERS, *ORDERS, "lending", "stake", "failed", "other"}
FUNDED = 10**12
BOOKS = (
    *("realized", "unmatched_proceeds", "open_cost", "cost_left", "cost_left_receipts"),
    *("received", "sent", "overhead", "failed_cost", "other", "gaps"),
)
# Those of Sums that have shorter names here.
SUMS = {"won": "positions_won", "open": "held", "at_risk": "open_cost", "unknown": "unmatched"}
SUMS |= {"worst": "worst_case", "return": "return_points"}
AMOUNT = re.compile(r"([+-]?\d+)(?: ([A-Z]+(?:/2)?))?")
TRADE = re.compile(r"(buy|sell|swap) (\d+) (\S+) for (-?\d+)(?: ([A-Z]\S*))?(?: plus (-?\d+))?")
PART = re.compile(r" (?=of |tip |beside |market |left |at |\[)")


def list_ledgers(text):
    """The ledgers by title."""
    return {title: TextLedger(body) for title, body in re.findall(r"^# (.+)\n([^#]*)", text, re.M)}


def number(text):
    assert re.fullmatch(r"[\d+*/() -]+", text), text
    return eval(text)


def read_amounts(text):
    """(lamports or None, [(mint, raw amount), ...])"""
    found = [(mint, int(raw)) for raw, mint in AMOUNT.findall(text)]
    lamports = [raw for mint, raw in found if not mint]
    return sum(lamports) if lamports else None, [(mint, raw) for mint, raw in found if mint]


def show_units(known, cost, unknown):
    return " ".join([f"{known}@{cost}"] * bool(known) + [f"{unknown}@?"] * bool(unknown))


def show_position(one):
    return f"{one.mint} {show_units(one.amount - one.unknown, one.cost, one.unknown)}"


class TextLedger:
    def __init__(self, text):
        self.spans, self.expected, self.untouched = [], {}, {}
        lines = re.sub(r"\n {9,}", " ", text.strip()).splitlines()
        lamports, held = read_amounts(lines.pop(0)) if lines[0].startswith("before") else (0, ())
        self.teller = Teller(lamports=lamports or 0, **dict(held))
        for line in lines:
            told, _, expected = line.partition("=>")
            self._write(told.strip())
            if expected:
                sections = [one.strip() for one in expected.split("|")]
                self.expected[len(self.teller.entries) - 1] = sections

    # ---- one line --------------------------------------------------------------------------------
    def _write(self, text):
        teller, now = self.teller, (self.teller.slot + 1) * 1000
        changes = {}
        while found := re.match(r"(undated|dated|seen) ?(\d*) ", text):
            text, seconds = text[found.end() :], int(found[2]) if found[2] else None
            changes |= (
                {"seen_at": seconds * 1000} if found[1] == "seen" else {"block_time": seconds}
            )
        verb, _, rest = text.partition(" ")
        if verb == "attach":
            self.spans.append((now, None))
        elif verb == "detach":
            self.spans[-1] = (self.spans[-1][0], now)
        elif verb == "untouched":
            ((mint, raw),) = read_amounts(rest)[1]
            account = f"ada's {mint}"
            self.untouched[account] = Opening.untouched(account, mint[:1], raw, 0)
        elif verb == "slip":
            lamports, moved = read_amounts(rest)
            teller.slip(*(moved[0] if moved else ()), lamports=lamports or 0)
        elif found := TRADE.fullmatch(text):
            _, raw, mint, price, other, plus = found.groups()
            more = (other, int(price), int(plus or 0)) if other else (int(price),)
            getattr(teller, verb)(mint, int(raw), *more)
        elif verb in ("gain", "lose"):
            _, ((mint, raw),) = read_amounts(rest)
            getattr(teller, verb)(mint, raw)
        else:
            assert verb in KINDS, text
            self._write_parts(verb, *PART.split(rest))
        if changes:
            teller.entries[-1] = teller.entries[-1]._replace(**changes)

    def _write_parts(self, kind, first, *parts):
        lamports, moved = read_amounts(first)
        more, orders = {}, []
        for part in parts:
            word, _, rest = part.partition(" ")
            sol, amounts = read_amounts(rest)
            if word == "at":
                orders += [(rest.split()[0], *one) for one in amounts]
                continue
            more |= {
                "of": {"mint": rest},
                "tip": {"tip": sol},
                "left": {"residues": rest.split()},
                "beside": {"beside": amounts, "beside_sol": sol or 0},
                "market": {"market": tuple((mint_of(mint), raw) for mint, raw in amounts)},
            }.get(word, {"flags": part.strip("[]").split()})
        fee = 0 if lamports is None else FEE
        self.teller.write(kind, lamports or 0, fee, moved, orders=orders, **more)

    # ---- what the ledger says --------------------------------------------------------------------
    def check(self):
        """Compare every line with the ledger; list all differences at once."""
        spans = tuple(Span(n, *times) for n, times in enumerate(self.spans, 1))
        ledger = Ledger(spans=Spans(spans), chain=BalanceChain(untouched=self.untouched))
        wrong = self._find_wrong(ledger)
        if ledger.stale:
            wrong = self._find_wrong(ledger.restart())
        assert not wrong, "\n".join(wrong)

    def _find_wrong(self, ledger):
        wrong = []
        for place, entry in enumerate(self.teller.entries):
            made = ledger.apply(entry)
            for section in self.expected.get(place, ()):
                found, wanted = self._see(section, ledger, made)
                if found != wanted:
                    wrong.append(f"{entry.signature}: expected {section!r}, got {found}")
        return wrong

    def _see(self, section, ledger, made):
        """(found, wanted)"""
        money, view = WHOLE
        if found := re.match(r"(since|[QK]): ", section):
            section = section[found.end() :]
            if found[1] == "since":
                view = len(self.spans)
            else:
                money = mint_of(found[1])
        word, _, rest = section.partition(" ")
        booked, inventory = made.get((money, view)), ledger.inventories[money]
        if word in ("matched", "partial", "unmatched"):
            rest, _, flags = rest.partition("[")
            wanted = word, number(rest.strip()) if rest else None, set(flags.strip("]").split())
            return (booked.status, booked.result, set(booked.flags) - {"basis_carried"}), wanted
        if word.startswith("["):
            return set(booked.flags), set(section.strip("[]").split())
        if word == "side":
            kind, *amounts = rest.split()
            side = booked.side[:3] if money == SOL else booked.side
            return side, (kind, *map(number, amounts), *[0] * (len(side) - 1 - len(amounts)))
        if word == "taken":
            return show_slices(booked), rest
        if word == "gaps":
            gaps = ledger.chain.gaps
            told = [f"{one.from_slot}-{one.to_slot} {one.reason}" for one in gaps]
            return ", ".join(told) or "-", rest
        if word.isupper():
            return show_lots(ledger, word, money) or "-", rest
        if word == "pool":
            mint, _, units = rest.partition(" ")
            return show_units(*astuple(inventory.average.pools[mint_of(mint)])), units
        if word == "holdings":
            return " ".join(map(show_position, ledger.list_positions(money))), rest
        if word == "average":
            told, average = rest.partition(" in "), inventory.average
            return (average.realized, average.matched), (number(told[0]), number(told[2]))
        if word == "left":
            wanted = {mint: number(cost) for mint, cost in re.findall(r"(\w) ([\d+*/-]+)", rest)}
            assert booked.cost_left == sum(dict(booked.left).values())
            return dict(booked.left), wanted
        if word == "its":
            name, _, value = rest.partition(" ")
            return str(getattr(booked, name)), value
        if word == "escrows":
            return sorted(inventory.escrows), rest.strip("-").split()
        if word == "books":
            return self._see_books(ledger, money, rest)
        account = ledger.accounts.get((money, view), Account())
        if word == "holding":
            return ledger.find_holdings()[view].open_positions, number(rest)
        if word == "tokens":
            told = sorted(account.tokens.items())
            return " ".join(f"{m} {t.realized} {t.winning}/{t.sales}" for m, t in told), rest
        totals = ledger.reconcile(money) if view == ALL_HISTORY else account.totals
        source = totals if hasattr(totals, word) else account.sums
        return getattr(source, SUMS.get(word, word)), number(rest)

    def _see_books(self, ledger, money, rest):
        totals = ledger.reconcile(money)
        assert totals.imbalance == 0 and totals.difference == totals.gaps
        assert totals.closing == self._sum_balances(money, ledger.chain.count)
        wanted = Counter({name: number(value) for name, value in re.findall(r"(\w+) (\S+)", rest)})
        if money == SOL and self.teller.entries[0].sol == FUNDED:
            wanted["received"] += FUNDED
        assert wanted.keys() <= set(BOOKS) <= set(Totals.__dataclass_fields__)
        found = {name: getattr(totals, name) for name in BOOKS}
        return {name: n for name, n in found.items() if n}, dict(wanted)

    def _sum_balances(self, money, count):
        """The final balances, from the entries alone."""
        last = {one.address: one for e in self.teller.entries[:count] for one in e.balances}
        if money == SOL:
            return sum(one.lamports_after for one in last.values())
        return sum(one.after for one in last.values() if one.mint == money)
