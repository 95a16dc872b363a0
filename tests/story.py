"""A made-up chain for tests: methods that append transactions with realistic receipts that conserve
lamports.

    story = Story()
    story.fund("ada", 10_000_000)
    story.buy("ada", "CAT", 1_000, 250_000)
    story.chain()                       # a node.Chain

People, mints and accounts are named by words; `address(word)` is their address in receipts.
"""

import hashlib
import random
from collections import defaultdict

from node import Chain, Row

from chain.addresses import SYSTEM, TOKEN, b58encode

# A program of the swap family.
VENUE = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
FEE, RENT, DECIMALS = 5_000, 2_039_280, 6
# Slot and Unix second of the first transaction: minutes before a Lookout begins.
BEGIN, BEGIN_TIME = (
    300_000_000,
    1_793_880_500,
)
PLENTY = 10**15


def address(word):
    return b58encode(hashlib.sha256(word.encode()).digest())


ADA = address("ada")


def account_of(owner, mint):
    """The name of an owner's token account of a mint."""
    return f"{owner}'s {mint}"


class Story:
    """Each of `people` begins with 1 SOL."""

    def __init__(self, *people, slots_apart=2):
        self.rows, self.slot, self._apart, self._index = [], BEGIN - slots_apart, slots_apart, 0
        self.lamports = defaultdict(int, {"bank": PLENTY, "maker": PLENTY})
        # account word -> [mint word, owner word, amount].
        self.tokens = {}
        for person in people:
            self.fund(person, 10**9)

    def chain(self):
        return Chain(self.rows)

    # ---- what happens ----------------------------------------------------------------------------
    def fund(self, person, lamports):
        return self.transact("bank", [("lamports", "bank", person, lamports)])

    def buy(self, person, mint, raw, lamports):
        """`lamports` is the price; the person also pays the fee and, the first time, the rent of
        the account.
        """
        return self.transact(
            person,
            [("lamports", person, "maker", lamports), ("tokens", mint, "maker", person, raw)],
            venue=VENUE,
        )

    def sell(self, person, mint, raw, lamports):
        return self.transact(
            person,
            [("tokens", mint, person, "maker", raw), ("lamports", "maker", person, lamports)],
            venue=VENUE,
        )

    def swap(self, person, mint, raw, other, other_raw):
        return self.transact(
            person,
            [("tokens", mint, person, "maker", raw), ("tokens", other, "maker", person, other_raw)],
            venue=VENUE,
        )

    def receive(self, person, mint, raw):
        """Tokens from a stranger; the receipt contains the person's token account and, once that
        exists, not the person.
        """
        return self.transact("maker", [("tokens", mint, "maker", person, raw)])

    def give(self, person, mint, raw):
        return self.transact(person, [("tokens", mint, person, "maker", raw)])

    def fail(self, person, mint="CAT"):
        """A failed swap: only the fee moved."""
        return self.transact(
            person,
            [],
            venue=VENUE,
            error={"InstructionError": [0, {"Custom": 1}]},
            mentions=[account_of(person, mint)],
        )

    def mention(self, person):
        """Somebody else's transaction that mentions the person without changing her balances."""
        return self.transact("bank", [], mentions=[person])

    def same_slot(self):
        """The next transaction is in the same slot as the last one."""
        self.slot -= self._apart
        self._index += 1

    # ---- how a receipt is made -------------------------------------------------------------------
    def transact(self, payer, moves, venue=None, error=None, mentions=(), beside=(), data=""):
        """Add one transaction; return its signature. `moves`: ("lamports", source, target, amount)
        or ("tokens", mint, source, target, raw amount). `venue`: the program whose call, with
        `data`, makes them; `beside`: separate moves after it.
        """
        self.slot, self._index = (
            self.slot + self._apart,
            self._index if self.rows and self.rows[-1].slot == self.slot + self._apart else 0,
        )
        for move in (*moves, *beside):
            if move[0] == "tokens":
                self._stock(move[1])
        before, held = (
            dict(self.lamports),
            {word: tuple(account) for word, account in self.tokens.items()},
        )
        names, instructions = [payer], []
        for move in moves:
            self._move(payer, move, names, instructions)
        apart = []
        for move in beside:
            self._move(payer, move, names, apart)
        self.lamports[payer] -= FEE
        names = list(dict.fromkeys([*names, *mentions]))
        assert all(self.lamports[name] >= 0 for name in names), (
            "nobody spends what he does not have"
        )
        inner = []
        if venue:
            accounts = [address(name) for name in names]
            call = {"programId": venue, "accounts": accounts, "data": data, "stackHeight": None}
            moved = [{**one, "stackHeight": 2} for one in instructions]
            instructions, inner = [call], [{"index": 0, "instructions": moved}]
        instructions += apart
        signature = b58encode(hashlib.sha512(f"{len(self.rows)} {payer}".encode()).digest())
        meta = {
            "err": error,
            "status": {"Err": error} if error else {"Ok": None},
            "fee": FEE,
            "innerInstructions": inner,
            "logMessages": [],
            "preBalances": [before.get(n, 0) for n in names],
            "postBalances": [self.lamports[n] for n in names],
            "preTokenBalances": self._balances(names, held),
            "postTokenBalances": self._balances(names, self.tokens),
        }
        keys = [
            {
                "pubkey": address(name),
                "signer": name == payer,
                "writable": True,
                "source": "transaction",
            }
            for name in names
        ]
        receipt = {
            "slot": self.slot,
            "blockTime": BEGIN_TIME + self.slot - BEGIN,
            "version": "legacy",
            "meta": meta,
            "transaction": {
                "signatures": [signature],
                "message": {
                    "accountKeys": keys,
                    "instructions": instructions,
                    "recentBlockhash": SYSTEM,
                },
            },
        }
        self.rows.append(Row(signature, self.slot, self._index, receipt))
        return signature

    def _move(self, payer, move, names, instructions):
        if move[0] == "lamports":
            _, source, target, amount = move
            self._send_lamports(source, target, amount)
            names += [source, target]
            info = {"source": address(source), "destination": address(target), "lamports": amount}
            instructions.append(
                {
                    "programId": SYSTEM,
                    "program": "system",
                    "parsed": {"type": "transfer", "info": info},
                    "stackHeight": None,
                }
            )
            return
        _, mint, source, target, raw = move
        for owner in (source, target):
            self._open(payer, owner, mint, instructions)
            names.append(account_of(owner, mint))
        self.tokens[account_of(source, mint)][2] -= raw
        self.tokens[account_of(target, mint)][2] += raw
        assert self.tokens[account_of(source, mint)][2] >= 0, "nobody gives what he does not have"
        info = {
            "source": address(account_of(source, mint)),
            "destination": address(account_of(target, mint)),
            "authority": address(source),
            "amount": str(raw),
        }
        instructions.append(
            {
                "programId": TOKEN,
                "program": "spl-token",
                "parsed": {"type": "transfer", "info": info},
                "stackHeight": None,
            }
        )

    def _stock(self, mint):
        """The maker had plenty of everything before the story."""
        word = account_of("maker", mint)
        if word not in self.tokens:
            self.tokens[word], self.lamports[word] = [mint, "maker", PLENTY], RENT

    def _open(self, payer, owner, mint, instructions):
        word = account_of(owner, mint)
        if word in self.tokens:
            return
        self.tokens[word] = [mint, owner, 0]
        self._send_lamports(payer, word, RENT)
        info = {
            "source": address(payer),
            "newAccount": address(word),
            "lamports": RENT,
            "owner": TOKEN,
            "space": 165,
        }
        instructions.append(
            {
                "programId": SYSTEM,
                "program": "system",
                "parsed": {"type": "createAccount", "info": info},
                "stackHeight": None,
            }
        )

    def _send_lamports(self, source, target, amount):
        self.lamports[source] -= amount
        self.lamports[target] += amount

    @staticmethod
    def _balances(names, tokens):
        rows = []
        for place, name in enumerate(names):
            if name in tokens:
                mint, owner, amount = tokens[name]
                ui = {
                    "amount": str(amount),
                    "decimals": DECIMALS,
                    "uiAmount": None,
                    "uiAmountString": str(amount),
                }
                rows.append(
                    {
                        "accountIndex": place,
                        "mint": address(mint),
                        "owner": address(owner),
                        "programId": TOKEN,
                        "uiTokenAmount": ui,
                    }
                )
        return rows


def market(seed=1, people=("ada",), length=40):
    """A chain of `length` random transactions: purchases, sales, swaps, gifts, failures and
    mentions of these people.
    """
    dice, story = random.Random(seed), Story()
    for person in people:
        story.fund(person, 10**10)
    while len(story.rows) < length:
        person, mint = dice.choice(people), dice.choice(["CAT", "DOG"])
        held = story.tokens.get(account_of(person, mint), [0, 0, 0])[2]
        some, price = dice.randint(1, 1_000), dice.randint(200_000, 9_000_000)
        verb = dice.choice(
            ["buy", "buy", "sell", "sell", "swap", "receive", "give", "fail", "mention"]
        )
        if verb in ("sell", "swap", "give") and held < some:
            continue
        how = {
            "buy": (mint, some, price),
            "sell": (mint, some, price),
            "swap": (mint, some, "FOX", dice.randint(1, 500)),
            "receive": (mint, some),
            "give": (mint, some),
            "fail": (),
            "mention": (),
        }[verb]
        if dice.random() < 0.25:
            story.same_slot()
        getattr(story, verb)(person, *how)
    return story.chain()
