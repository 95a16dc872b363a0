"""Histories as text: a line is a transaction and, after `=>`, what the ledger must say about it.

    ada buys 100 CAT for 1000             => buy | CAT 100@1005
    ada sells 40 CAT for 600              => sell | matched 595-402 | CAT 60@603

Lamports are in thousands: the network fee is 5, the rent of a token account is 2000. Tokens are in
raw units. People and orders begin with nothing; the others have plenty of everything. The first
transaction gives ada 5,000,000 (5 SOL).

Moves, separated by `;`
    ada>bob 50; ada>bob 50 CAT; curve~>ada 50    lamports, tokens, lamports without an instruction
    ada>bob 100-4 CAT                            4 are withheld by the token itself
    ada>bob 100 CAT{...}                         what a hook of the token does
    ada buys N CAT for N [USDC] [at POOL]        sells likewise; ada swaps N CAT for N DOG [at POOL]
    jup(ada pool){...}; orca.swap(){...}         a program's call, its instruction, extra accounts
    +ada CAT, +ada CAT by bob, -ada CAT, -ada CAT to bob    open and close a token account
    wrap ada 50; burn ada 50 CAT; mint ada 50 CAT; do METHOD WORD...   (a method of Scene)
    spend ada bob eve 50 CAT                     ada may send from bob's account, to eve
    approve ada CAT                              ada lets somebody spend
    become purse ada CAT 5                       purse ends as ada's account of CAT, without a move
    allocate CAT                                 open an account that was paid for
    tax ada 50                                   the network collects rent
Before the moves: `bob:` or `bob+ada:` pays the fee and signs (otherwise the person that is named
first does); `fail`; `same` (the slot of the last one); `hidden` (the node doesn't give it); `flat`
(without the calls' depths), `blind` (without inner calls), `plain` (transfers don't name a mint),
`old` (token accounts don't name an owner), `readonly` (the address of ada can't change).
`connect`, `disconnect`, `window`, `marker PROGRAM` and `together ada bob` (wallets of one bot) have
their own lines.

Expected, separated by `|`: the kind and [its flags] ([*]: any); `matched N`, `partial N`,
`unmatched`, `unpriced` (no result); lots `CAT 60@603 5@?` or `CAT -`; `sol N`, `beside N`, `tip N`,
`gift 5 CAT`; `post verified`, `unverified`; `flag NAME`; the name `via` which it ran; its `mint`;
the mints it `created`; its `pool`'s venue, or why it can't be read; the percentage `explained`, and
`with` whom; `swapped CAT -5` through the venue of what `moved`; the `others`' accounts, those that
ada `held` (with lamports), and what she `parked`. `USDC matched N` is a result in a stablecoin,
`since matched N` one since `connect`, `healed matched N` one once the node gives what it hid, and
`eve:` begins what is expected for another wallet. `end realized 5 | USDC worst 7 | window worst 5`
tells items of the books (Totals) or sums (SUMMED), the last since a line `window`; a return is in
hundredths of a percent.
"""

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from node import Row
from scene import Scene
from story import BEGIN, BEGIN_TIME, account_of, address
from teller import show_lots

from chain.addresses import SYSTEM, b58encode
from chain.ledger.coverage import order_entries
from chain.ledger.inventory import SOL
from chain.ledger.ledger import WHOLE, Ledger
from chain.ledger.totals import ALL_HISTORY, Span, Spans
from chain.reading.currencies import find_stablecoin
from chain.reading.entries import read_entry
from chain.reading.programs import BUILT_IN, table
from chain.reading.receipts import parse_receipt
from chain.stored.attachments import mark_own
from chain.stored.trades import judge

# Words for programs, with their names in the table.
WORDS = """
pump pump.fun, cpmm Raydium CPMM, jup Jupiter v6, rfq Jupiter RFQ (order engine), amm4 Raydium v4,
orca Orca Whirlpool, clmm Raydium CLMM, damm Meteora DAMM v2, dlmm Meteora DLMM, byreal Byreal CLMM,
pancake PancakeSwap v3, serum Serum v3, openbook1 OpenBook v1, openbook OpenBook v2,
serumswap Serum Swap, phoenix Phoenix, manifest Manifest, limit Jupiter Limit v2, dca Jupiter DCA,
limo Kamino Limit Order, titan Titan Limit Order, marginfi marginfi v2, kamino Kamino Lend,
drift Drift, marinade Marinade, bridge deBridge, nft Magic Eden v2, memo Memo v1
"""
IDS = {one.name: one.id for one in BUILT_IN}
PROGRAMS = {word: IDS[name] for word, name in re.findall(r"(\w+) ([^,\n]+)", WORDS)}
STABLE = {name: find_stablecoin(name).mint for name in ("USDC", "USDT", "PYUSD")}
TIP = "Cix2bHfqPcKcM233mzxbLk14kSggUUiz2A87fJtGivXr"
PEOPLE = {"ada", "bob", "eve"}
# Informational flags that accounting.md doesn't name are not compared.
FLAGS = set(
    "ambiguous fee_only fee_income unrecognised_program tip_only value_unexplained fed_market"
    " counterparty_signed incomplete_history basis_carried own_wallets own_transfer no_swap"
    " not_signer".split()
)
# The others are in the reconciliation.
SUMMED = {"worst": "worst_case", "positions": "positions", "won": "positions_won"}
SUMMED |= {"return": "return_points"}
FIELDS = {name: name for name in ("sol", "tip", "fee", "rent", "sponsored")}
FIELDS |= {"beside": "beside_sol"}
COUNTED = ("positions", "won", "return")
# Fields of an entry as text. `say`: the word for an address.
SHOWN = {
    "via": lambda entry, say: entry.venue,
    "mint": lambda entry, say: say(entry.mint),
    "explained": lambda entry, say: _show(entry.explained_percent),
    "created": lambda entry, say: " ".join(map(say, entry.created)),
    "pool": lambda entry, say: " ".join(entry.pool[:1]),
    "with": lambda entry, say: " ".join(map(say, entry.counterparties)),
    "swapped": lambda entry, say: _join(f"{say(m)} {n}" for m, n, _ in entry.venue_tokens),
    "moved": lambda entry, say: _join(f"{say(m)} {n}" for m, n, _ in entry.tokens),
    "held": lambda entry, say: _join(
        f"{say(one.address)} {say(one.mint)} {one.before}>{one.after}"
        f" {one.lamports_before}>{one.lamports_after}"
        for one in entry.balances
        if one.mint
    ),
    "parked": lambda entry, say: _join(f"{say(a)} {say(m)} {n}" for a, m, n in entry.parked),
    "others": lambda entry, say: _join(f"{say(a)} {say(m)} {b}>{c}" for a, m, b, c in entry.others),
}
TABLE, THOUSAND, PLENTY, BEGINS = table(), 1_000, 10**15, 5_000_000
CALL = re.compile(r"(\w+)(?:\.(\w+))?\(([^)]*)\)\{")
MOVE = re.compile(r"([\w']+)(~?>)([\w']+) ([\d.]+)(?:-(\d+))?(?: ([A-Z]+))?")
HOOKED = re.compile(MOVE.pattern + r"\{")
TRADE = re.compile(r"(\w+) (buys|sells|swaps) (\d+) (\w+) for ([\d.]+)(?: (\w+))??(?: at (\w+))?")
ACCOUNT = re.compile(r"([+-])(\w+) (\w+)(?: (?:by|to) (\w+))?")
PREFIX = re.compile(r"(fail|same|hidden|flat|blind|plain|old|readonly|([\w+]+):)\s+")


def read_file(name):
    """Return [(title, history), ...] of a file, with each variant of a history numbered. `[[a //
    b]]` means either; so does `NAME` after lines `NAME = a // b`, the same one throughout the
    history.
    """
    text, found = Path(__file__).with_name(name).read_text(), []
    for title, body in re.findall(r"^# (.+)\n((?:(?!#).*\n?)*)", text, re.M):
        choices = {}
        for names, values in re.findall(r"^([A-Z, ]+) = (.+)$", body, re.M):
            choices.setdefault(names, []).extend(values.split(" // "))
        ways = [re.sub(r"^[A-Z, ]+ = .+$", "", body, flags=re.M)]
        while any(more := [_choose_one(way, choices) for way in ways]):
            ways = [one for way, told in zip(ways, more, strict=True) for one in told or [way]]
        titles = [title] if len(ways) == 1 else [f"{title} {n}" for n in range(1, len(ways) + 1)]
        found += zip(titles, ways, strict=True)
    return found


def _choose_one(way, choices):
    """Return the variants for a text's first choice, if it has one."""
    if found := re.search(r"\[\[(.*?)\]\]", way):
        return [way[: found.start()] + one + way[found.end() :] for one in found[1].split(" // ")]
    for names, values in choices.items():
        if re.search(rf"\b{names.split(', ')[0]}\b", way):
            return [_replace(way, names.split(", "), value.split(", ")) for value in values]
    return []


def _replace(way, names, values):
    for name, value in zip(names, values, strict=True):
        way = re.sub(rf"\b{name}\b", lambda _, value=value: value, way)
    return way


def lamports(text):
    """Return the lamports of an arithmetic expression in thousands."""
    assert re.fullmatch(r"[\d.+*/() -]+", text), text
    value = eval(re.sub(r"[\d.]+", lambda n: f"Fraction('{n[0]}')", text), {"Fraction": Fraction})
    assert (value * THOUSAND).denominator == 1, f"{text} is not a whole number of lamports"
    return int(value * THOUSAND)


def amount(text, money):
    """Lamports, or raw units of a stablecoin."""
    return lamports(text) if money == SOL else lamports(text) // THOUSAND


class TextHistory(Scene):
    """The transactions of a text. `rows`: the node's list; `checks`: (signature, expected)."""

    rent, token_2022, decimals = 2_000 * THOUSAND, ("PYUSD", "FEE"), {"NFT": 0, "COIN": 1}

    def __init__(self, text, name="", begins=BEGINS):
        super().__init__()
        self.known = {**Scene.known, **STABLE, "tip": TIP}
        self.words = {None: "-"} | {found: word for word, found in self.known.items()}
        self.name, self.slot, self.place, self.time = name, BEGIN, 0, BEGIN_TIME
        self.listed, self.hidden, self.checks, self.spans, self.end = [], set(), [], [], []
        self.window, self.siblings, self.table = 0, (), TABLE
        first = [f"bank: bank>ada {begins}"] if begins else []
        for line in [*first, *text.strip().splitlines()]:
            told, _, expected = line.strip().partition("=>")
            if told.startswith("end "):
                self.end += [one.strip() for one in told[4:].split("|")]
            elif told.strip() == "window":
                self.window = len(self.listed)
            elif told.startswith("together "):
                self.siblings = told.split()[1:]
            elif told.startswith("marker "):
                self.table = table([PROGRAMS[told.split()[1]]])
            elif told.strip() in ("connect", "disconnect"):
                self._turn(told.strip())
            elif told.strip() and not told.startswith("#"):
                self._transact(told.strip(), expected)

    def address(self, word):
        found = self.known.get(word) or address(f"{self.name} {word}")
        self.words[found] = word.replace("'s ", "'")
        return found

    # ---- one line --------------------------------------------------------------------------------
    def _turn(self, verb):
        now = (self.time + 1) * 1_000
        if verb == "connect":
            self.spans.append([now, None])
        else:
            self.spans[-1][1] = now

    def _transact(self, text, expected):
        self.rows, self.names, self.height, self._before, self.taxes = [], [], 1, None, []
        self.slot, self.time, place, payer, words = self.slot + 2, self.time + 60, 0, None, set()
        while found := PREFIX.match(text):
            text, word = text[found.end() :], found[1].split()[0]
            words.add(word)
            payer = found[2] or payer
            if word == "same":
                self.slot, place = self.slot - 2, self.place + 1
        self.place = place
        self.payer, *signers = (payer or re.search(r"\b(ada|bob|eve)\b", text)[0]).split("+")
        self._stock(self.payer)
        self._begin()
        self._play(text)
        told = self.receipt(
            self.payer,
            *signers,
            fails="fail" in words,
            heights="flat" not in words,
            readonly=("ada",) if "readonly" in words else (),
        )
        told["meta"]["rewards"] = self.taxes
        if "plain" in words:
            _forget_mints(told)
        for balance in _list_balances(told) if "old" in words else ():
            del balance["owner"], balance["programId"]
        if "blind" in words:
            told["meta"]["innerInstructions"] = None
        signature = b58encode(hashlib.sha512(f"{self.name} {len(self.listed)}".encode()).digest())
        told |= {"slot": self.slot, "blockTime": self.time, "transactionIndex": self.place}
        told["transaction"]["signatures"] = [signature]
        self.listed.append(Row(signature, self.slot, self.place, told))
        if "hidden" in words:
            self.hidden.add(signature)
        self.checks.append((signature, expected.strip()))

    def _stock(self, word):
        """Give everyone except people plenty of lamports before the history begins."""
        if _is_new(word) or word in self.lamports or word in self.tokens:
            return
        self.lamports[word] = PLENTY
        if self._before:
            self._before[0][word] = PLENTY

    def _find(self, word):
        """`ada'CAT` is ada's account of CAT."""
        if "'" in word:
            return self._hold(*word.split("'"))
        self._stock(word)
        return word

    def _hold(self, owner, mint):
        """Return a token account. The payer opens a person's; others exist already."""
        word = owner if owner in self.tokens else account_of(owner, mint)
        if word in self.tokens:
            return word
        if _is_new(owner):
            self.open(self.payer, owner, mint)
        else:
            self.holds(owner, mint, PLENTY)
            lamports, tokens = self._before
            lamports[word], tokens[word] = self.lamports[word], list(self.tokens[word])
        return word

    def _play(self, text):
        text = text.strip("; ")
        while text:
            if found := CALL.match(text):
                inside, text = _close_brace(text[found.end() :])
                self._run(found, inside)
            elif found := HOOKED.match(text):
                inside, text = _close_brace(text[found.end() :])
                self._move_told(*found.groups())
                self.height += 1
                self._play(inside)
                self.height -= 1
            else:
                one, _, text = text.partition(";")
                self._do(one.strip())
            text = text.strip("; ")

    def _run(self, found, inside):
        program, name, words = found[1], found[2], [self._find(one) for one in found[3].split()]
        where = len(self.rows)
        data = b58encode(hashlib.sha256(f"global:{name}".encode()).digest()[:8] + b"\1\2")
        data = data if name else ""
        with self.call(PROGRAMS.get(program) or address(program), *words, data=data):
            began = len(self.names)
            self._play(inside)
        accounts = dict.fromkeys([*words, *self.names[began:]])
        self.rows[where][1]["accounts"] = [self.address(word) for word in accounts]

    def _do(self, text):
        if found := TRADE.fullmatch(text):
            self._trade(*found.groups())
        elif found := MOVE.fullmatch(text):
            self._move_told(*found.groups())
        elif found := ACCOUNT.fullmatch(text):
            sign, owner, mint, other = found.groups()
            self._stock(other or owner)
            if sign == "+":
                self.open(other or owner, owner, mint)
            else:
                self.close(account_of(owner, mint), other or owner)
        else:
            verb, *words = text.split()
            getattr(self, f"_{verb}_told")(*words)

    def _move_told(self, source, sign, target, amount, withheld, mint):
        source, target = self._find(source), self._find(target)
        if mint in (None, "SOL"):
            amount = lamports(amount)
        if sign == "~>":
            self.shift(source, target, amount)
        elif mint is None:
            self.pay(source, target, amount)
        else:
            source, target = self._hold(source, mint), self._hold(target, mint)
            self.send(mint, source, target, int(amount), withheld=int(withheld or 0))

    def _trade(self, who, verb, raw, mint, amount, money, place):
        """Trade at a curve of lamports (pump) or a pool of token accounts (cpmm)."""
        place = place or ("pool" if money else "curve")
        self._hold(who, mint)
        if money:
            self._hold(who, money)
        give, get = f"{raw} {mint}", f"{amount} {money or ''}".strip()
        if verb == "buys":
            give, get = get, give
        sign = "~>" if verb == "sells" and not money else ">"
        program = "cpmm" if money else "pump"
        self._play(f"{program}({who} {place}){{{who}>{place} {give}; {place}{sign}{who} {get}}}")

    # Verbs with their own handling.
    def _wrap_told(self, owner, amount):
        self._hold(owner, "SOL")
        self.wrap(owner, lamports(amount))

    def _burn_told(self, owner, raw, mint):
        self.burn(mint, owner, int(raw))

    def _mint_told(self, owner, raw, mint):
        self._hold(owner, mint)
        self.mint(mint, owner, int(raw), "minter")

    def _spend_told(self, spender, owner, target, raw, mint):
        """Send from an account whose owner approved the spender."""
        self.send(mint, owner, self._hold(target, mint), int(raw), authority=spender)

    def _approve_told(self, owner, mint):
        words = {"source": account_of(owner, mint), "delegate": "app", "owner": owner}
        self._say(self._program(mint), "approve", amount="1", **words)

    def _allocate_told(self, word):
        self.names.append(word)
        self._say(SYSTEM, "allocate", account=word)

    def _tax_told(self, word, amount):
        word, amount = self._find(word), lamports(amount)
        self.names.append(word)
        self.lamports[word] -= amount
        row = {"pubkey": self.address(word), "lamports": -amount, "rewardType": "Rent"}
        self.taxes.append(row)

    def _become_told(self, word, owner, mint, raw=0):
        self.tokens[word] = [mint, owner, int(raw)]

    def _sync_told(self, word):
        """Set a SOL account's amount to its lamports."""
        self.tokens[account_of(word, "SOL")][2] = self.lamports[account_of(word, "SOL")] - self.rent
        self._say(self._program("SOL"), "syncNative", account=account_of(word, "SOL"))

    def _do_told(self, verb, *words):
        self._stock(words[1 if verb == "withdraw" else 0])
        told = [lamports(one) if one[0].isdigit() else one.replace("_", " ") for one in words]
        getattr(self, verb)(*told)

    def _say(self, program, kind, **info):
        super()._say(program, kind, **info)
        words = [one for one in info.values() if isinstance(one, str)]
        self.names += [one for one in words if one in self.lamports]

    # ---- what the ledger says --------------------------------------------------------------------
    def read(self, who="ada"):
        others = defaultdict(list)
        for sibling in self.siblings:
            for one in self._read_entries(sibling) if sibling != who else ():
                others[one.signature].append(one)
        entries = [mark_own(one, others[one.signature]) for one in self._read_entries(who)]
        spans = Spans(tuple(Span(n, *times) for n, times in enumerate(self.spans, 1)))
        told = self._apply(entries, Ledger(spans=spans))
        return self._apply(entries, told.ledger.restart()) if told.ledger.stale else told

    def _read_entries(self, who):
        address = self.address(who)
        own = {address, *(key for row in self.listed for key in _list_accounts(row, address))}
        return order_entries(
            read_entry(parse_receipt(row.receipt), address, self.table)
            for row in self.listed
            if own & set(row.keys) and row.signature not in self.hidden
        )

    def _apply(self, entries, ledger):
        told, before = Told(entries, ledger), {row.signature for row in self.listed[: self.window]}
        for one in entries:
            told.booked[one.signature] = told.ledger.apply(one)
            if one.signature in before:
                told.begun[:] = [told.ledger.accounts[SOL, ALL_HISTORY].sums]
            told.lots[one.signature] = {
                (money, mint): show_lots(told.ledger, mint, money)
                for money, inventory in told.ledger.inventories.items()
                for mint in inventory.lots
            }
        return told

    def check(self, healed=False):
        """Compare every line with the ledgers; list all differences at once."""
        told, wrong = {"ada": self.read()}, []
        for number, (signature, expected) in enumerate(self.checks):
            who = "ada"
            for section in _choose(expected, healed) if signature not in self.hidden else ():
                if found := re.match(r"(ada|bob|eve): ", section):
                    who, section = found[1], section[found.end() :]
                told[who] = told.get(who) or self.read(who)
                found, wanted = self._see(section, signature, told[who])
                if found != wanted:
                    wrong.append(f"{number} {who}: expected {section!r}, got {found}")
        for section in self.end:
            found, wanted = self._see_end(section, told["ada"])
            if found != wanted:
                wrong.append(f"end: expected {section!r}, got {found}")
        for who, one in told.items():
            books = one.ledger.reconcile()
            if books.difference and not self.hidden:
                wrong.append(f"the books of {who} don't close: {books}")
        assert not wrong, "\n".join(wrong)

    def _see_end(self, text, told):
        where, name, value = f"SOL {text}".split(" ")[-3:]
        money = STABLE.get(where, SOL)
        if name not in SUMMED:
            return getattr(told.ledger.reconcile(money), name), amount(value, money)
        sums = told.ledger.accounts[money, ALL_HISTORY].sums
        if where == "window":
            sums = sums.minus(*told.begun)
        wanted = int(value) if name in COUNTED else amount(value, money)
        return getattr(sums, SUMMED[name]), wanted

    def _see(self, section, signature, told):
        """(found, wanted)"""
        (entry,) = [one for one in told.entries if one.signature == signature]
        word, _, rest = section.partition(" ")
        money, view = SOL, ALL_HISTORY
        if word == "since":
            view = len(self.spans)
        elif word in STABLE and not re.match(r"\d+@|-", rest):
            money = STABLE[word]
        if (money, view) != WHOLE:
            word, _, rest = rest.partition(" ")
        made = told.booked[signature].get((money, view))
        flags = {*entry.flags, *(made.flags if made else ())}
        if word in ("matched", "partial", "unmatched"):
            result = amount(rest, money) if rest else None
            return made and (made.status, made.result), (word, result)
        if word == "unpriced":
            return made and made.result, None
        if word in ("post", "unverified"):
            moved = [mint for mint, *_ in entry.venue_tokens]
            post, _ = judge(entry.kind, flags, moved, None, entry.explained_percent)
            return (post, rest) if rest else (post == "verified", False)
        if word in FIELDS:
            return getattr(entry, FIELDS[word]), lamports(rest)
        if word == "gift":
            raw, mint = rest.split()
            found = {mint: n for mint, n, _ in entry.beside_tokens}
            return found.get(self.address(mint)), int(raw)
        if word == "flag":
            return flags & {rest}, {rest}
        if word in SHOWN:
            return SHOWN[word](entry, self.words.get) or "-", rest
        if word.isupper():
            lots = told.lots[signature].get((money, self.address(word)))
            return lots or "-", " ".join(_read_lot(one, money) for one in rest.split())
        if rest == "[*]":
            return entry.kind, word
        return (entry.kind, FLAGS & flags), (word, set(re.findall(r"\w+", rest)))


@dataclass
class Told:
    """A wallet's ledger: by signature the applied results (by currency and view) and the lots after
    it (by currency and mint); `begun` has the sums before the window.
    """

    entries: list
    ledger: Ledger
    booked: dict = field(default_factory=dict)
    lots: dict = field(default_factory=dict)
    begun: list = field(default_factory=list)


def _list_accounts(row, owner):
    for balance in _list_balances(row.receipt):
        if balance.get("owner") == owner:
            yield row.keys[balance["accountIndex"]]


def _list_balances(receipt):
    return receipt["meta"]["preTokenBalances"] + receipt["meta"]["postTokenBalances"]


def _choose(expected, healed):
    """Return the expected sections; a line whose gap is repaired has others."""
    sections = [one for one in map(str.strip, expected.split("|")) if one]
    after = [one[7:] for one in sections if one.startswith("healed ")]
    return after if healed and after else [s for s in sections if not s.startswith("healed ")]


def _is_new(word):
    return word in PEOPLE or word.startswith("order")


def _show(number):
    return "-" if number is None else str(number)


def _join(parts):
    return ", ".join(sorted(parts))


def _forget_mints(receipt):
    """Tell checked transfers as plain ones, which name no mint."""
    groups = [receipt["transaction"]["message"], *receipt["meta"]["innerInstructions"]]
    for row in (one for group in groups for one in group["instructions"]):
        if row.get("parsed", {}).get("type") == "transferChecked":
            info = row["parsed"]["info"]
            info["amount"] = info.pop("tokenAmount")["amount"]
            del info["mint"]
            row["parsed"]["type"] = "transfer"


def _read_lot(text, money):
    """Write a lot like show_lots."""
    raw, _, cost = text.partition("@")
    return f"{raw}@{cost if cost == '?' else amount(cost, money)}" if cost else text


def _close_brace(text):
    """Return (the content, the rest) of a text after an opening brace."""
    depth = 1
    for place, sign in enumerate(text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if not depth:
            return text[:place], text[place + 1 :]
    raise AssertionError(f"no closing brace: {text}")
