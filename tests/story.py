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
from contextlib import nullcontext

from node import Chain, Row
from scene import RENT, Scene, account_of, address

from chain.addresses import b58encode

# A program of the swap family.
VENUE = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"
# Slot and Unix second of the first transaction: minutes before a Lookout begins.
BEGIN, BEGIN_TIME = (
    300_000_000,
    1_793_880_500,
)
PLENTY = 10**15


ADA = address("ada")


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
            fails=True,
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
    def transact(self, payer, moves, venue=None, fails=False, mentions=(), beside=(), data=""):
        """Add one transaction; return its signature. `moves`: ("lamports", source, target, amount)
        or ("tokens", mint, source, target, raw amount). `venue`: the program whose call, with
        `data`, makes them; `beside`: separate moves after it.
        """
        self.slot, self._index = (
            self.slot + self._apart,
            self._index if self.rows and self.rows[-1].slot == self.slot + self._apart else 0,
        )
        for kind, mint, *_ in (*moves, *beside):
            if kind == "tokens":
                self._stock(mint)
        scene = Scene()
        scene.lamports, scene.tokens = self.lamports, self.tokens
        names = [*list_names(payer, (*moves, *beside)), *mentions]
        with scene.call(venue, *names, data=data) if venue else nullcontext():
            for move in moves:
                self._move(scene, payer, move)
        for move in beside:
            self._move(scene, payer, move)
        scene.names += names
        receipt = scene.receipt(payer, fails=fails)
        signature = b58encode(hashlib.sha512(f"{len(self.rows)} {payer}".encode()).digest())
        receipt["transaction"]["signatures"] = [signature]
        receipt |= {"slot": self.slot, "blockTime": BEGIN_TIME + self.slot - BEGIN}
        self.rows.append(Row(signature, self.slot, self._index, receipt))
        return signature

    def _move(self, scene, payer, move):
        kind, *what = move
        if kind == "lamports":
            scene.pay(*what)
            return
        mint, *owners, raw = what
        for owner in owners:
            word = account_of(owner, mint)
            if word not in self.tokens:
                scene.create(payer, word, RENT)
                self.tokens[word] = [mint, owner, 0]
        scene.send(mint, *owners, raw)

    def _stock(self, mint):
        """The maker had plenty of everything before the story."""
        word = account_of("maker", mint)
        if word not in self.tokens:
            self.tokens[word], self.lamports[word] = [mint, "maker", PLENTY], RENT


def list_names(payer, moves):
    """The payer and every account whose contents move."""
    names = [payer]
    for kind, *what in moves:
        if kind == "lamports":
            names += what[:2]
        else:
            mint, source, target, _ = what
            names += [account_of(source, mint), account_of(target, mint)]
    return names


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
