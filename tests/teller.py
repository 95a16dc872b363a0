"""Made-up entries for ledgers: their balances match, and each is booked immediately.

    Teller().buy("A", 10, 100).sell("A", 4, 60)

`A` is a mint, `A/2` a second account of it. `Q` and `K` are stablecoins, USDC and USDT.
"""

from collections import Counter

from hypothesis import strategies as st

from chain.addresses import WRAPPED_SOL
from chain.ledger.coverage import BalanceChain
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.reading.currencies import find_stablecoin
from chain.reading.entries import Entry
from chain.reading.flows import Balance

FEE, RENT = 5, 2_000
UNEXPLAINED = ("value_unexplained",)
USDC, USDT = find_stablecoin("USDC").mint, find_stablecoin("USDT").mint
CURRENCIES = (SOL, USDC, USDT)


def mint_of(name):
    word = name.partition("/")[0]
    return {"Q": USDC, "K": USDT, "SOL": WRAPPED_SOL}.get(word, word)


class Teller:
    """`held`: the unobserved content of ada's accounts before the first entry."""

    def __init__(self, ledger=None, lamports=0, **held):
        self.ledger, self.slot, self.lamports, self.held = (
            ledger or Ledger(),
            100,
            lamports,
            dict(held),
        )
        self.escrow, self.opened, self.entries = Counter(), set(held), []
        if not lamports:
            self.write("native_transfer", sol=10**12)

    def write(
        self,
        kind,
        sol=0,
        fee=0,
        changes=(),
        mint=None,
        orders=(),
        residues=(),
        tip=0,
        beside_sol=0,
        beside=(),
        sponsored=0,
        flags=(),
        market=None,
    ):
        """Add one entry. `changes`: (mint, raw change)... through the venue; `beside`: the same
        outside it; `sol` through the venue, `beside_sol` outside it; `orders`: (escrow, mint, raw
        change)...; `market`: payments of swap calls to a fill's side, by default everything.
        """
        self.slot += 10
        whole = Counter()
        for name, change in (*changes, *beside):
            whole[name] += change
        rent = RENT * len(whole.keys() - self.opened)
        paid = sol + beside_sol + sponsored - rent
        balances = [Balance("ada", None, 9, 0, 0, self.lamports, self.lamports + paid)]
        for name, change in whole.items():
            before = self.held.get(name, 0)
            balances.append(
                Balance(
                    f"ada's {name}",
                    mint_of(name),
                    0,
                    before,
                    before + change,
                    RENT if name in self.opened else 0,
                    RENT,
                )
            )
            self.held[name] = before + change
            self.opened.add(name)
        self.lamports += paid
        others, paid = [], Counter()
        for escrow, name, change in orders:
            before = self.escrow[escrow]
            others.append((escrow, mint_of(name), before, before + change))
            self.escrow[escrow] += change
            paid[mint_of(name)] += min(0, change)
        entry = Entry(
            signature=f"{kind} {self.slot}",
            slot=self.slot,
            tx_index=0,
            block_time=self.slot,
            kind=kind,
            venue=None,
            mint=mint and mint_of(mint),
            flags=tuple(flags),
            residues=tuple(mint_of(name) for name in residues),
            sol=sol + beside_sol,
            fee=fee,
            tip=tip,
            rent=rent,
            tokens=tuple(
                (mint, change, 0) for mint, change in sorted(sum_by_mint(whole.items())) if change
            ),
            balances=tuple(balances),
            others=tuple(others),
            market=self._find_market(kind, sol, changes, paid) if market is None else market,
            sponsored=sponsored,
            beside_sol=beside_sol,
            beside_tokens=tuple((mint, n, 0) for mint, n in sorted(sum_by_mint(beside))),
        )
        self.entries.append(entry)
        self.book(entry)
        return self

    @staticmethod
    def _find_market(kind, sol, changes, paid):
        """Assume that a pool took everything that left the orders and paid everything that
        came in.
        """
        if kind != "order_fill":
            return ()
        paid.update({WRAPPED_SOL: sol})
        for name, change in changes:
            paid[mint_of(name)] += max(0, change)
        return tuple((mint, raw) for mint, raw in sorted(paid.items()) if raw)

    def book(self, entry):
        """Apply an entry: `made` is its result by currency and view, `last` that in SOL."""
        self.made = self.ledger.apply(entry)
        self.last = self.made[WHOLE]

    def buy(self, mint, raw, cost, rest=()):
        return self.write("buy", -cost, FEE, [(mint, raw), *rest], mint)

    def sell(self, mint, raw, proceeds, rest=()):
        return self.write("sell", proceeds, FEE, [(mint, -raw), *rest], mint)

    def swap(self, mint, raw, other, got, spent=0):
        return self.write("swap", -spent, FEE, [(mint, -raw), (other, got)], other)

    def gain(self, mint, raw, kind="transfer_in"):
        return self.write(kind, changes=[(mint, raw)])

    def lose(self, mint, raw, kind="transfer_out"):
        return self.write(kind, -FEE, FEE, [(mint, -raw)])

    def slip(self, mint=None, by=0, lamports=0):
        """Something happened that no entry shows."""
        if mint:
            self.held[mint] = self.held.get(mint, 0) + by
            self.opened.add(mint)
        self.lamports += lamports
        return self

    @property
    def inventory(self):
        """Holdings with their cost in SOL."""
        return self.ledger.inventories[SOL]

    def lots(self, mint, money=SOL):
        return show_lots(self.ledger, mint, money)

    def count_units(self):
        """Raw units by mint in all escrows and in accounts that an entry shows."""
        last = {one.address: one for entry in self.entries for one in entry.balances if one.mint}
        units = Counter()
        for one in last.values():
            units[one.mint] += one.after
        for escrow, n in self.escrow.items():
            units[mint_of(escrow.removeprefix("order of "))] += n
        return +units

    @property
    def sale(self):
        """(status, result, proceeds, cost) of the last entry."""
        return self.last.status, self.last.result, self.last.proceeds, self.last.cost

    def taken(self):
        return show_slices(self.last)


def sum_by_mint(changes):
    whole = Counter()
    for name, change in changes:
        whole[mint_of(name)] += change
    return whole.items()


# ---- ledgers of written entries ------------------------------------------------------------------
def rebuild(entries, untouched=(), **how):
    """Apply entries, twice if the ledger learned its accounts' beginnings too late. Return (Ledger,
    each entry's results).
    """
    ledger = Ledger(chain=BalanceChain(untouched=dict(untouched)), **how)
    made = [ledger.apply(entry) for entry in entries]
    if ledger.stale:
        ledger = ledger.restart()
        made = [ledger.apply(entry) for entry in entries]
    assert not ledger.stale
    return ledger, made


def show_lots(ledger, mint, money=SOL):
    """`10@100` means ten units that cost 100, `@?` an unobserved cost."""
    return " ".join(
        f"{lot.left}@{'?' if lot.cost is None else lot.left_cost}"
        for lot in ledger.inventories[mint_of(money)].lots.get(mint_of(mint), [])
    )


def show_slices(booked):
    return " ".join(f"{n}@{'?' if cost is None else cost}" for _, n, cost in booked.lots)


def show(made):
    """Status, result, slices and flags of the sales for SOL."""
    sales = [one[WHOLE] for one in made if one[WHOLE].side.kind == "sell"]
    return [(one.status, one.result, show_slices(one), one.flags) for one in sales]


# ---- drawn by chance: one oracle does the same ---------------------------------------------------
NAMES, RAW, LAMPORTS = st.sampled_from("ABC"), st.integers(1, 50), st.integers(-40, 10**6)
STEP = st.one_of(
    st.tuples(st.just("buy"), NAMES, RAW, st.integers(1, 10**6)),
    st.tuples(st.just("gain"), NAMES, RAW),
    st.tuples(st.just("sell"), NAMES, RAW, LAMPORTS),
    st.tuples(st.just("lose"), NAMES, RAW),
    st.tuples(st.just("swap"), NAMES, RAW, NAMES, RAW, st.integers(-40, 40)),
)


def play(steps, teller, oracle):
    """Both do the same; steps that would give away more than there is are skipped. Yields after
    each.
    """
    for verb, mint, raw, *more in steps:
        if verb in ("sell", "lose", "swap"):
            raw = min(raw, teller.held.get(mint, 0))
            if not raw or (verb == "swap" and mint_of(more[0]) == mint_of(mint)):
                continue
        getattr(teller, verb)(mint, raw, *more)
        {
            "buy": lambda: oracle.put(mint, raw, *more),
            "gain": lambda: oracle.put(mint, raw, None),
            "lose": lambda: oracle.take(mint, raw),
            "sell": lambda: oracle.sell(mint, raw, *more),
            "swap": lambda: oracle.swap(mint, raw, *more),
        }[verb]()
        yield verb


def account(teller, mint, choices):
    return mint + ("/2" if next(choices) else "")


def name_accounts(teller, steps, choices):
    """The same steps, each on one of two accounts of its mint."""
    return [
        (
            verb,
            account(teller, mint, choices),
            *([more[0], account(teller, more[1], choices), *more[2:]] if verb == "swap" else more),
        )
        for verb, mint, *more in steps
    ]


class Silent:
    """An oracle that checks nothing."""

    def __getattr__(self, name):
        return lambda *_: None


# ---- drawn by chance: everything that moves SOL --------------------------------------------------
RENT_PAID, CHANGE = st.sampled_from([0, 0, 2_000]), st.integers(-(10**6), 10**6)
SOL_VERBS = [
    "buy",
    "sell",
    "swap",
    "round_trip",
    "transfer_in",
    "transfer_out",
    "lending",
    "failed",
    "unexplained",
]
# a swap gives at least as many units as it used, so every slice is worth one
SOL_STEP = st.tuples(
    st.sampled_from(SOL_VERBS),
    st.tuples(NAMES, RAW),
    st.tuples(NAMES, RAW),
    CHANGE,
    st.just(0) | CHANGE,
    st.none() | st.tuples(NAMES, st.integers(-50, 50).filter(bool)),
    RENT_PAID,
)


def plan_sol_step(teller, drawn):
    """A step that the wallet can take with its holdings, or None."""
    verb, (mint, raw), (other, more), sol, beside_sol, beside, sponsored = drawn
    held = {name: n for name, n in teller.held.items() if n}
    sign = -1 if verb in ("sell", "swap", "transfer_out") else 1
    sign = -1 if verb in ("lending", "unexplained") and sol > 0 else sign
    raw = min(raw, held.get(mint, 0)) if sign < 0 else raw
    if not raw or (verb == "swap" and mint == other):
        return None
    changes = {mint: sign * raw} if verb not in ("failed", "round_trip") else {}
    if verb == "swap":
        changes[other], sol = raw + more, -(abs(sol) % 50)
    if verb == "buy":
        sol = -abs(sol) - 1
    if verb == "failed":
        sol, beside, beside_sol, sponsored = -FEE, None, 0, 0
    moved = []
    if beside:
        name, n = beside
        n = max(n, -held.get(name, 0) - min(0, changes.get(name, 0)))
        moved = [(name, n)] if n else []
    return verb, sol, FEE, sorted(changes.items()), beside_sol, moved, sponsored


def write_sol_step(teller, step):
    verb, sol, fee, changes, beside_sol, beside, sponsored = step
    unexplained = verb == "unexplained"
    kind = ("sell" if changes[0][1] < 0 else "buy") if unexplained else verb
    mint = next((name for name, n in changes if n > 0 or kind == "sell"), None)
    teller.write(
        kind,
        sol,
        fee,
        changes,
        mint,
        beside_sol=beside_sol,
        beside=beside,
        sponsored=sponsored,
        flags=UNEXPLAINED if unexplained else (),
    )


def write_sol_steps(drawn):
    """A Teller that took these steps, as far as possible."""
    teller = Teller(lamports=10**15)
    for one in drawn:
        step = plan_sol_step(teller, one)
        if step:
            write_sol_step(teller, step)
    return teller


# ---- drawn by chance: everything, in every money -------------------------------------------------
NAMED = st.tuples(st.sampled_from(["Q", "Q", "K", "A", "B"]), RAW)
TRADED = ("swap", "swap", "swap", "swap", "swap", "buy", "sell")
UNPRICED = ("transfer_in", "transfer_out", "lending", "round_trip")
ORDERS = ("order_open", "order_open", "order_fill", "order_cancel")


def draw_steps(*verbs):
    """(verb, outgoing, incoming, outside the venue, flags, on the second account?)"""
    return st.tuples(
        st.sampled_from(verbs),
        NAMED,
        NAMED,
        st.none() | st.tuples(st.sampled_from("QKAB"), st.integers(-50, 50).filter(bool)),
        st.sampled_from([(), (), (), UNEXPLAINED]),
        st.booleans(),
    )


MONEY_STEP = draw_steps(*TRADED, *UNPRICED)
ANY_STEP = draw_steps(*TRADED, *UNPRICED, *ORDERS, "small_swap", "small_swap")


def write_steps(drawn, teller):
    """Write these steps as far as the holdings allow; return the Teller. Only a small swap may give
    fewer units than it uses, so that some slices are worth none.
    """
    for verb, (mint, raw), (other, more), beside, flags, is_second in drawn:
        name = f"{mint}/2" if is_second else mint
        if verb.startswith("order_"):
            write_order(teller, verb, name, raw, other, more)
            continue
        is_small, verb = verb == "small_swap", verb.removeprefix("small_")
        if verb in ("sell", "swap", "transfer_out"):
            raw = -min(raw, teller.held.get(name, 0))
        if not raw or (verb == "swap" and mint == other):
            continue
        changes = [] if verb == "round_trip" else [(name, raw)]
        if verb == "swap":
            changes.append((other, more if is_small else more - raw))
        sol = {"buy": -7, "sell": 9, "round_trip": 3, "swap": -more % 4}.get(verb, 0)
        moved = list_beside(teller, beside, dict(changes))
        traded = other if verb == "swap" else mint
        kept = flags if verb in ("buy", "sell", "swap") else ()
        teller.write(verb, sol, FEE, changes, traded, beside=moved, flags=kept)
    return teller


def write_order(teller, verb, name, raw, other, more):
    """Open, fill or cancel a mint's single order, as far as there are units."""
    escrow = f"order of {mint_of(name)}"
    there = teller.held.get(name, 0) if verb == "order_open" else teller.escrow[escrow]
    raw = min(raw, there)
    if not raw or (verb == "order_fill" and mint_of(other) == mint_of(name)):
        return
    moved = {"order_open": (name, -raw), "order_cancel": (name, raw), "order_fill": (other, more)}
    held = raw if verb == "order_open" else -raw
    teller.write(verb, changes=[moved[verb]], orders=[(escrow, name, held)])


def list_beside(teller, beside, changes):
    if not beside:
        return []
    mint, n = beside
    # a transaction moves only one account of a mint
    name = next((name for name in changes if mint_of(name) == mint_of(mint)), mint)
    n = max(n, -teller.held.get(name, 0) - min(0, changes.get(name, 0)))
    return [(name, n)] if n else []
