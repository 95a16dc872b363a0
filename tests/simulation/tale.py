"""What happened on the chain, and its meaning: a ledger computed from the story itself, without
chain/ and any receipt.
"""

from collections import Counter

from oracles import Oracle
from scene import FEE, RENT, account_of, address
from story import Story

# Most tales are short and have one person and one token, which is enough for most bugs.
PEOPLE, MINTS = (("ada",), ("ada",), ("ada", "bob")), (("CAT",), ("CAT",), ("CAT", "DOG"))
LENGTHS = range(4, 11)
# The common beginning of most tales has the same first transactions.
COMMON = 3


class Tale:
    """A chain of random transactions, and the `books` of its people, one Oracle each.

    `is_common`: it begins like all common tales, with transactions of the first person only.
    """

    def __init__(self, dice, is_common, people=None):
        self._dice, self._story, self.is_common = dice, Story(), is_common
        self.people, self._mints = people or dice.choice(PEOPLE), dice.choice(MINTS)
        length = dice.choice(LENGTHS)
        self.books = {person: Oracle() for person in self.people}
        self._last = None
        # signature -> {person: (mints that moved)} of each trade.
        self.trades = {}
        begun = self._begin_common() if is_common else 0
        for person in self.people[begun:]:
            self._story.fund(person, 10**10)
        while len(self._story.rows) < length:
            self._go_on()
        self.chain = self._story.chain()

    def _begin_common(self):
        self._story.fund(PEOPLE[0][0], 10**10)
        for amount in range(100, 100 + COMMON - 1):
            self._buy(PEOPLE[0][0], MINTS[0][0], amount, 1_000_000)
        return 1

    def positions(self, person):
        """{mint address: raw amount} of what a person holds."""
        held = Counter()
        for mint, _, _, left, *_ in self.books[person].piles:
            held[address(mint)] += left
        return dict(+held)

    def closing(self, person):
        """All of a person's final lamports, including rent in token accounts."""
        accounts = [word for word, (_, owner, _) in self._story.tokens.items() if owner == person]
        return self._story.lamports[person] + RENT * len(accounts)

    def verifies(self, signature, wallets, mint):
        """Whether this is a trade by one of the wallets that moved the mint, if one is given."""
        moved = [of for wallet, of in self.trades.get(signature, {}).items() if wallet in wallets]
        return any(mint is None or mint in of for of in moved)

    def _go_on(self):
        dice, story = self._dice, self._story
        person, mint = dice.choice(self.people), dice.choice(self._mints)
        held = story.tokens.get(account_of(person, mint), (0, 0, 0))[2]
        amount, price = dice.randint(1, 1_000), dice.randint(200_000, 9_000_000)
        verbs = ["buy", "buy", "sell", "sell", "swap", "receive", "give", "fail"]
        verb = dice.choice(verbs + ["pass_on"] * 2 * (len(self.people) > 1))
        if verb in ("sell", "swap", "give", "pass_on"):
            if not held:
                return
            amount = dice.choice((held, dice.randint(1, held)))
        if dice.random() < (0.25 if person == self._last else 0.05):
            story.same_slot()
        self._last = person
        getattr(self, f"_{verb}")(person, mint, amount, price)

    def _note(self, signature, person, *mints):
        self.trades[signature] = {address(person): {address(mint) for mint in mints}}

    def _buy(self, person, mint, amount, price):
        self._note(self._story.buy(person, mint, amount, price), person, mint)
        self.books[person].add(mint, amount, price + FEE)

    def _sell(self, person, mint, amount, price):
        self._note(self._story.sell(person, mint, amount, price), person, mint)
        self.books[person].sell(mint, amount, price - FEE)

    def _swap(self, person, mint, amount, price):
        got = amount + price % 500
        self._note(self._story.swap(person, mint, amount, "FOX", got), person, mint, "FOX")
        self.books[person].swap(mint, amount, "FOX", got, FEE)

    def _receive(self, person, mint, amount, price):
        self._story.receive(person, mint, amount)
        self.books[person].add(mint, amount, None)

    def _give(self, person, mint, amount, price):
        self._story.give(person, mint, amount)
        self.books[person].cut(mint, amount)

    def _pass_on(self, person, mint, amount, price):
        """To another of these people, at unknown cost."""
        other = next(one for one in self.people if one != person)
        self._story.transact(person, [("tokens", mint, person, other, amount)])
        self.books[person].cut(mint, amount)
        self.books[other].add(mint, amount, None)

    def _fail(self, person, mint, amount, price):
        self._story.fail(person, mint)
