"""One transaction, built step by step: who has what, and which call moves what. `receipt()` is its
finalized receipt. Lamports are conserved, and no one can spend more than they have.

    scene = Scene(ada=10**9, curve=10**9).holds("ada", "CAT", 1_000)
    with scene.call(PUMP, "ada", "curve"):
        scene.send("CAT", "ada", "curve", 100)
        scene.shift("curve", "ada", 5_000)          # a program's own move: no instruction shows it
    scene.receipt("ada")

People and accounts are words; a token account of ada is "ada's CAT".
"""

import hashlib
from collections import defaultdict
from contextlib import contextmanager

from chain.addresses import (
    ASSOCIATED,
    STAKE,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    VOTE,
    WRAPPED_SOL,
    b58encode,
)

FEE, RENT, DECIMALS = 5_000, 2_039_280, 6

PROGRAM_NAMES = {
    ASSOCIATED: "spl-associated-token-account",
    STAKE: "stake",
    SYSTEM: "system",
    TOKEN: "spl-token",
    TOKEN_2022: "spl-token",
    VOTE: "vote",
}


def address(word):
    return b58encode(hashlib.sha256(word.encode()).digest())


def account_of(owner, mint):
    """The name of an owner's token account of a mint."""
    return f"{owner}'s {mint}"


class Scene:
    rent = RENT
    # Names of existing addresses, of mints with different decimals, and of Token-2022 mints.
    known, decimals, token_2022 = {"SOL": WRAPPED_SOL}, {}, ()

    def __init__(self, **lamports):
        self.lamports = defaultdict(int, lamports)
        # account word -> [mint word, owner word, raw amount].
        self.tokens = {}
        # (height, instruction)
        self.rows = []
        self.height = 1
        self.names = list(lamports)

    # ---- before ----------------------------------------------------------------------------------
    def holds(self, owner, mint, raw, word=None):
        """Before the transaction: an open token account; wrapped SOL by its lamports."""
        word = word or account_of(owner, mint)
        self.tokens[word] = [mint, owner, raw]
        self.lamports[word] = self.rent + (raw if mint == "SOL" else 0)
        self.names.append(word)
        return self

    # ---- calls -----------------------------------------------------------------------------------
    @contextmanager
    def call(self, program, *names, data=""):
        """Inside, this program's instruction is active; `names` are its accounts."""
        self._begin()
        accounts = [self.address(self._account(name)) for name in names]
        self.rows.append((self.height, {"programId": program, "accounts": accounts, "data": data}))
        self.height += 1
        yield
        self.height -= 1

    def noop(self, program, *names, data=""):
        with self.call(program, *names, data=data):
            pass

    def shift(self, source, target, lamports):
        """A program changes accounts' lamports without an instruction."""
        self._begin()
        self._move(source, target, lamports)

    # ---- native instructions ---------------------------------------------------------------------
    def pay(self, source, target, lamports, seed=None):
        """`seed`: the name of the base account, if the source is derived from one."""
        self._begin()
        self._move(source, target, lamports)
        kind, base = ("transferWithSeed", {"sourceBase": seed}) if seed else ("transfer", {})
        self._say(SYSTEM, kind, source=source, destination=target, lamports=lamports, **base)

    def withdraw(self, kind, source, target, lamports):
        self._begin()
        self._move(source, target, lamports)
        program, name, field = {
            "nonce": (SYSTEM, "withdrawFromNonce", "nonceAccount"),
            "stake": (STAKE, "withdraw", "stakeAccount"),
            "vote": (VOTE, "withdraw", "voteAccount"),
        }[kind]
        self._say(program, name, **{field: source}, destination=target, lamports=lamports)

    def send(self, mint, source, target, raw, authority=None, withheld=0):
        """Raw units, or lamports of wrapped SOL, between two owners' token accounts. `withheld`:
        the token's transfer fee, which isn't in any balance.
        """
        self._begin()
        source, target = self._token(source, mint), self._token(target, mint)
        self.tokens[source][2] -= raw
        self.tokens[target][2] += raw - withheld
        assert self.tokens[source][2] >= 0, "nobody gives what he does not have"
        if mint == "SOL":
            self._move(source, target, raw)
        fee = {"feeAmount": {"amount": str(withheld)}} if withheld else {}
        self._say(
            self._program(mint),
            "transferCheckedWithFee" if fee else "transferChecked",
            source=source,
            destination=target,
            authority=authority or self.tokens[source][1],
            mint=self.address(mint),
            tokenAmount={"amount": str(raw)},
            **fee,
        )

    def mint(self, mint, target, raw, authority):
        self._begin()
        target = self._token(target, mint)
        self.tokens[target][2] += raw
        self._say(
            self._program(mint),
            "mintTo",
            mint=self.address(mint),
            account=target,
            mintAuthority=authority,
            amount=str(raw),
        )

    def burn(self, mint, source, raw):
        self._begin()
        word = self._token(source, mint)
        self.tokens[word][2] -= raw
        assert self.tokens[word][2] >= 0, "nobody burns what he does not have"
        self._say(
            self._program(mint),
            "burn",
            mint=self.address(mint),
            account=word,
            authority=self.tokens[word][1],
            amount=str(raw),
        )

    def open(self, payer, owner, mint, word=None):
        """Open an associated account; the payer pays its rent."""
        self._begin()
        word = word or account_of(owner, mint)
        self.tokens[word] = [mint, owner, 0]
        self.names.append(word)
        self._say(
            ASSOCIATED, "create", source=payer, account=word, wallet=owner, mint=self.address(mint)
        )
        self.height += 1
        self.create(payer, word, self.rent)
        self.height -= 1

    def create(self, payer, word, lamports):
        """The payer opens an account, which need not have tokens."""
        self._begin()
        self._move(payer, word, lamports)
        self._say(SYSTEM, "createAccount", source=payer, newAccount=word, lamports=lamports)

    def wrap(self, owner, lamports):
        """The owner moves lamports into its wrapped SOL account."""
        self.pay(owner, account_of(owner, "SOL"), lamports)
        self.tokens[account_of(owner, "SOL")][2] += lamports
        self._say(TOKEN, "syncNative", account=account_of(owner, "SOL"))

    def adopt(self, word, owner):
        """Open wrapped SOL at an address that somebody funded before; nobody pays for it now."""
        self._begin()
        self.names.append(word)
        self.tokens[word] = ["SOL", owner, self.lamports[word] - self.rent]
        self._say(SYSTEM, "allocate", account=word)
        self._say(TOKEN, "initializeAccount3", account=word, owner=owner, mint=WRAPPED_SOL)

    def close(self, word, target):
        """Close a token account; all its lamports go to the target."""
        self._begin()
        owner = self.tokens.pop(word)[1]
        self._move(word, target, self.lamports[word])
        self._say(TOKEN, "closeAccount", account=word, destination=target, owner=owner)

    def hand_over(self, word, owner):
        """Transfer a token account with its contents to another owner."""
        self._begin()
        before = self.tokens[word][1]
        self.tokens[word][1] = owner
        self._say(
            TOKEN,
            "setAuthority",
            account=word,
            authority=before,
            authorityType="accountOwner",
            newAuthority=owner,
        )

    # ---- the receipt -----------------------------------------------------------------------------
    def receipt(self, payer, *signers, heights=True, readonly=(), fails=False):
        """The result of getTransaction; `payer` pays the fee and signs, as do `signers`. With
        `fails`, only the fee moved.
        """
        self._begin()
        if fails:
            self.lamports.update({name: self._before[0].get(name, 0) for name in self.lamports})
            self.tokens = {word: list(account) for word, account in self._before[1].items()}
        before, held = self._before
        names = list(dict.fromkeys([payer, *signers, *self.names]))
        self.lamports[payer] -= FEE
        assert all(self.lamports[name] >= 0 for name in names), "nobody spends what he has not"
        top, groups = [], []
        for height, row in self.rows:
            row = {**row, "stackHeight": height if heights else None}
            if height == 1:
                top.append(row)
            elif groups and groups[-1]["index"] == len(top) - 1:
                groups[-1]["instructions"].append(row)
            else:
                groups.append({"index": len(top) - 1, "instructions": [row]})
        error = {"InstructionError": [0, {"Custom": 1}]}
        return {
            "slot": 300_000_000,
            "blockTime": 1_793_880_500,
            "version": "legacy",
            "meta": {
                "err": error if fails else None,
                "status": {"Err": error} if fails else {"Ok": None},
                "fee": FEE,
                "innerInstructions": groups,
                "preBalances": [before.get(name, 0) for name in names],
                "postBalances": [self.lamports[name] for name in names],
                "preTokenBalances": self._balances(names, held),
                "postTokenBalances": self._balances(names, self.tokens),
            },
            "transaction": {
                "signatures": [b58encode(hashlib.sha512(repr(self.rows).encode()).digest())],
                "message": {
                    "accountKeys": [
                        {
                            "pubkey": self.address(name),
                            "signer": name in (payer, *signers),
                            "writable": name not in readonly,
                        }
                        for name in names
                    ],
                    "instructions": top,
                    "recentBlockhash": SYSTEM,
                },
            },
        }

    _before = None

    def _begin(self):
        if self._before is None:
            self._before = (
                dict(self.lamports),
                {word: list(account) for word, account in self.tokens.items()},
            )

    def _move(self, source, target, lamports):
        self.lamports[source] -= lamports
        self.lamports[target] += lamports
        assert self.lamports[source] >= 0, f"{source} has too little"
        self.names += [source, target]

    def _token(self, name, mint):
        return name if name in self.tokens else account_of(name, mint)

    def _account(self, name):
        self.names.append(name)
        return name

    def _say(self, program, kind, **info):
        words = ("lamports", "amount", "mint", "tokenAmount", "feeAmount", "authorityType")
        told = {
            field: value if field in words else self.address(value) for field, value in info.items()
        }
        parsed = {"type": kind, "info": told}
        row = {"programId": program, "program": PROGRAM_NAMES[program], "parsed": parsed}
        self.rows.append((self.height, row))

    def address(self, word):
        return self.known.get(word) or address(word)

    def _program(self, mint):
        return TOKEN_2022 if mint in self.token_2022 else TOKEN

    def _balances(self, names, tokens):
        return [
            {
                "accountIndex": place,
                "mint": self.address(tokens[name][0]),
                "owner": self.address(tokens[name][1]),
                "programId": self._program(tokens[name][0]),
                "uiTokenAmount": {
                    "amount": str(tokens[name][2]),
                    "decimals": self.decimals.get(tokens[name][0], DECIMALS),
                    "uiAmount": None,
                    "uiAmountString": str(tokens[name][2]),
                },
            }
            for place, name in enumerate(names)
            if name in tokens
        ]
