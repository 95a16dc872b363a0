"""Play the story on a running Surfpool and write down what the chain says of it: `python -m
demo.record.record NODE_FILE demo/chain.json.gz`.

One maker deals with everybody: both sides sign, each trade is one transaction that moves SOL one
way and tokens the other. No exchange's program runs there, so a Memo (version 1) marks the trades,
and the demonstration counts that program as a venue. README.md beside this file tells how to run it
and what is repaired.
"""

import base64
import gzip
import json
import sys
import time
import urllib.request

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, TransferParams, create_account, transfer
from solders.transaction import VersionedTransaction
from spl.token import instructions as token
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.models import (
    AuthorityType,
    CloseAccountParams,
    InitializeMint2Params,
    InitializeTransferFeeConfigParams,
    MintToParams,
    SetAuthorityParams,
    SyncNativeParams,
    TransferCheckedParams,
)

from demo.market import BY_SYMBOL, TOKENS
from demo.record.story import INVENTORY, OLD_HAND, TEMPERS, Story

VENUE = Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo")
# A tip account of Jito's.
TIPS = Pubkey.from_string("96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5")
SOL, SUPPLY = 10**9, 10**18
# Authorities that were not given up.
MINTABLE, FREEZABLE = (
    {"WICK", "SORREL", "COBALT"},
    {"RUST", "PEBBLE"},
)
# Basis points: Token-2022.
TRANSFER_FEES = {"ZEPHYR": 100, "NIMBUS": 1_500}
MINT_BYTES, FEE_MINT_BYTES = 82, 278
FINALIZED = {"commitment": "finalized"}


class Node:
    def __init__(self, url):
        self.url = url

    def ask(self, method, *params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.url, body, {"Content-Type": "application/json"}), timeout=30
        ) as answer:
            said = json.load(answer)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']}")
        return said["result"]

    def send(self, instructions, *signers):
        """Sign, send without a rehearsal (failures belong to the story) and wait until it is
        confirmed: the signature.
        """
        recent = Hash.from_string(self.ask("getLatestBlockhash", FINALIZED)["value"]["blockhash"])
        signed = VersionedTransaction(
            MessageV0.try_compile(signers[0].pubkey(), instructions, [], recent), signers
        )
        signature = self.ask(
            "sendTransaction",
            base64.b64encode(bytes(signed)).decode(),
            {"encoding": "base64", "skipPreflight": True},
        )
        self._await(
            lambda: (
                (self.ask("getSignatureStatuses", [signature])["value"][0] or {}).get(
                    "confirmationStatus"
                )
                in ("confirmed", "finalized")
            ),
            signature,
        )
        return signature

    def find_receipt(self, signature):
        return self._await(
            lambda: self.ask(
                "getTransaction",
                signature,
                {**FINALIZED, "encoding": "jsonParsed", "maxSupportedTransactionVersion": 0},
            ),
            signature,
        )

    def _await(self, look, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := look():
                return found
            time.sleep(0.02)
        raise TimeoutError(what)


class Chain:
    """The maker, the stranger, the bots and the mints, and what each step of the story is in
    instructions.
    """

    def __init__(self, node, payer):
        self.node, self.payer = node, payer
        self.maker, self.stranger = Keypair(), Keypair()
        self.bots = [Keypair() for _ in TEMPERS]
        self.mints = {one.symbol: Keypair() for one in TOKENS}
        self.open, self.count = set(), 0

    # ---- before the story ------------------------------------------------------------------------
    def prepare(self):
        for who, sol in ((self.maker, 20_000), (self.stranger, 2_000)):
            self.node.send([self._pay(self.payer, who.pubkey(), sol * SOL)], self.payer)
        self.node.send([self._pay(self.payer, TIPS, SOL)], self.payer)
        for one in TOKENS:
            self._make_mint(one.symbol, one.decimals)
        old = self.bots[OLD_HAND]
        self.node.send([self._pay(self.payer, old.pubkey(), 60 * SOL)], self.payer)
        for symbol, raw in INVENTORY.items():
            self.node.send(
                [*self._opening(old, symbol), self._move(symbol, self.maker, old.pubkey(), raw)],
                old,
                self.maker,
            )

    def _make_mint(self, symbol, decimals):
        """Make a token: its account, all of its supply for the maker, then its rights given up."""
        maker, mint, program = self.maker.pubkey(), self.mints[symbol], self._program(symbol)
        begin = token.initialize_mint2(
            InitializeMint2Params(
                decimals=decimals,
                program_id=program,
                mint=mint.pubkey(),
                mint_authority=maker,
                freeze_authority=maker if symbol in FREEZABLE else None,
            )
        )
        opening = [self._allocate_mint(symbol), *self._withhold_fees(symbol), begin]
        self.node.send(opening, self.maker, mint)
        account = token.create_associated_token_account(maker, maker, mint.pubkey(), program)
        supply = token.mint_to(
            MintToParams(
                program_id=program,
                mint=mint.pubkey(),
                dest=self._account(maker, symbol),
                mint_authority=maker,
                amount=SUPPLY,
            )
        )
        self.node.send([account, supply, *self._give_up_minting(symbol)], self.maker)

    def _allocate_mint(self, symbol):
        space = FEE_MINT_BYTES if symbol in TRANSFER_FEES else MINT_BYTES
        return create_account(
            CreateAccountParams(
                from_pubkey=self.maker.pubkey(),
                to_pubkey=self.mints[symbol].pubkey(),
                lamports=self.node.ask("getMinimumBalanceForRentExemption", space),
                space=space,
                owner=self._program(symbol),
            )
        )

    def _withhold_fees(self, symbol):
        """The instructions by which a token with a transfer fee withholds it; none for others."""
        if symbol not in TRANSFER_FEES:
            return []
        maker = self.maker.pubkey()
        config = InitializeTransferFeeConfigParams(
            program_id=self._program(symbol),
            mint=self.mints[symbol].pubkey(),
            transfer_fee_config_authority=maker,
            withdraw_withheld_authority=maker,
            transfer_fee_basis_points=TRANSFER_FEES[symbol],
            maximum_fee=2**63,
        )
        return [token.initialize_transfer_fee_config(config)]

    def _give_up_minting(self, symbol):
        """The instructions after which nobody can mint more; none for tokens that stay mintable."""
        if symbol in MINTABLE:
            return []
        nobody = SetAuthorityParams(
            program_id=self._program(symbol),
            account=self.mints[symbol].pubkey(),
            authority=AuthorityType.MINT_TOKENS,
            current_authority=self.maker.pubkey(),
            new_authority=None,
        )
        return [token.set_authority(nobody)]

    def fund(self, who):
        """The first receipt of a bot that begins with nothing."""
        return self.node.send(
            [self._pay(self.stranger, self.bots[who].pubkey(), 400 * SOL)], self.stranger
        )

    # ---- the story -------------------------------------------------------------------------------
    def play(self, step):
        """Send a step: its signature."""
        bot = self.bots[step.who]
        instructions, signers = getattr(self, f"_{step.kind}")(step, bot)
        # No two transactions are alike.
        self.count += 1
        extras = [set_compute_unit_limit(200_000 + self.count)] + (
            [set_compute_unit_price(step.hurry)] if step.hurry else []
        )
        tips = [self._pay(bot, TIPS, step.tip)] if step.tip else []
        return self.node.send(extras + instructions + tips, *signers)

    def _buy(self, step, bot):
        return [
            venue(),
            self._pay(bot, self.maker.pubkey(), step.lamports),
            *self._opening(bot, step.symbol),
            self._move(step.symbol, self.maker, bot.pubkey(), step.raw),
        ], (bot, self.maker)

    def _sell(self, step, bot):
        return [
            venue(),
            self._move(step.symbol, bot, self.maker.pubkey(), step.raw),
            self._pay(self.maker, bot.pubkey(), step.lamports),
        ], (bot, self.maker)

    def _swap(self, step, bot):
        return [
            venue(),
            self._move(step.other, bot, self.maker.pubkey(), step.other_raw),
            *self._opening(bot, step.symbol),
            self._move(step.symbol, self.maker, bot.pubkey(), step.raw),
        ], (bot, self.maker)

    def _failed(self, step, bot):
        return [
            venue(),
            self._pay(bot, self.maker.pubkey(), step.lamports),
            self._move(step.symbol, bot, self.maker.pubkey(), SUPPLY),
        ], (bot,)

    def _gift(self, step, bot):
        return [
            *self._opening(bot, step.symbol, self.maker),
            self._move(step.symbol, self.maker, bot.pubkey(), step.raw),
        ], (self.maker,)

    def _send(self, step, bot):
        return [self._move(step.symbol, bot, self.maker.pubkey(), step.raw)], (bot,)

    def _pay_out(self, step, bot):
        return [self._pay(bot, self.stranger.pubkey(), step.lamports)], (bot,)

    def _income(self, step, bot):
        return [self._pay(self.stranger, bot.pubkey(), step.lamports)], (self.stranger,)

    def _wrap(self, step, bot):
        own = token.get_associated_token_address(bot.pubkey(), WRAPPED_SOL_MINT)
        return [
            token.create_associated_token_account(bot.pubkey(), bot.pubkey(), WRAPPED_SOL_MINT),
            self._pay(bot, own, step.lamports),
            token.sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=own)),
        ], (bot,)

    def _unwrap(self, step, bot):
        return [
            self._end(token.get_associated_token_address(bot.pubkey(), WRAPPED_SOL_MINT), bot)
        ], (bot,)

    def _close(self, step, bot):
        self.open.discard((bot.pubkey(), step.symbol))
        return [self._end(self._account(bot.pubkey(), step.symbol), bot)], (bot,)

    # ---- instructions ----------------------------------------------------------------------------
    def _program(self, symbol):
        return TOKEN_2022_PROGRAM_ID if symbol in TRANSFER_FEES else TOKEN_PROGRAM_ID

    def _account(self, owner, symbol):
        return token.get_associated_token_address(
            owner, self.mints[symbol].pubkey(), self._program(symbol)
        )

    def _opening(self, bot, symbol, payer=None):
        """What opens the bot's account of a token, where it is not open."""
        if (bot.pubkey(), symbol) in self.open:
            return []
        self.open.add((bot.pubkey(), symbol))
        return [
            token.create_associated_token_account(
                (payer or bot).pubkey(),
                bot.pubkey(),
                self.mints[symbol].pubkey(),
                self._program(symbol),
            )
        ]

    def _move(self, symbol, source, target, raw):
        owner, program = source.pubkey(), self._program(symbol)
        return token.transfer_checked(
            TransferCheckedParams(
                program_id=program,
                source=self._account(owner, symbol),
                mint=self.mints[symbol].pubkey(),
                dest=self._account(target, symbol),
                owner=owner,
                amount=raw,
                decimals=BY_SYMBOL[symbol].decimals,
            )
        )

    def _pay(self, source, target, lamports):
        return transfer(
            TransferParams(from_pubkey=source.pubkey(), to_pubkey=target, lamports=lamports)
        )

    def _end(self, account, owner):
        return token.close_account(
            CloseAccountParams(
                program_id=TOKEN_PROGRAM_ID,
                account=account,
                dest=owner.pubkey(),
                owner=owner.pubkey(),
            )
        )


def venue():
    """The mark of a trade. It names no account: it speaks of the whole transaction."""
    return Instruction(VENUE, b"trade", [])


# ---- writing it down -----------------------------------------------------------------------------
def repair(receipt):
    """Two things Surfpool 1.5.0 tells otherwise than a validator: the priority fee is missing in
    the fee, and closed accounts keep token balances.
    """
    meta = receipt["meta"]
    meta["fee"] = sum(meta["preBalances"]) - sum(meta["postBalances"])
    for tokens, lamports in (
        ("preTokenBalances", "preBalances"),
        ("postTokenBalances", "postBalances"),
    ):
        meta[tokens] = [one for one in meta[tokens] if meta[lamports][one["accountIndex"]]]
    return receipt


def list_holdings(node, address):
    """What the node itself says a wallet holds: {"lamports", "tokens": {mint: raw}}."""
    accounts = node.ask(
        "getTokenAccountsByOwner",
        address,
        {"programId": str(TOKEN_PROGRAM_ID)},
        {**FINALIZED, "encoding": "jsonParsed"},
    )["value"]
    infos = [account["account"]["data"]["parsed"]["info"] for account in accounts]
    return {
        "lamports": str(node.ask("getBalance", address, FINALIZED)["value"]),
        "tokens": {info["mint"]: info["tokenAmount"]["amount"] for info in infos},
    }


def record(node, chain):
    """The whole recording as one JSON value."""
    steps, signatures = list(Story().plan()), []
    signatures.extend(
        (steps[0].at - len(TEMPERS) + who, who, "income", chain.fund(who))
        for who in range(len(TEMPERS))
        if who != OLD_HAND
    )
    for number, step in enumerate(steps, 1):
        signatures.append((step.at, step.who, step.kind, chain.play(step)))
        if number % 50 == 0:
            print(f"{number} of {len(steps)}", flush=True)
    rows = [
        {"at": at, "who": who, "kind": kind, "receipt": repair(node.find_receipt(signature))}
        for at, who, kind, signature in signatures
    ]
    for row in rows:
        if (row["receipt"]["meta"]["err"] is not None) != (row["kind"] == "failed"):
            raise SystemExit(
                f"{row['kind']}: {row['receipt']['meta']['err']}"
                f" {row['receipt']['meta']['logMessages'][-4:]}"
            )
    mints = {symbol: str(pair.pubkey()) for symbol, pair in chain.mints.items()}
    accounts = {
        mint: node.ask("getAccountInfo", mint, {**FINALIZED, "encoding": "base64"})["value"]
        for mint in mints.values()
    }
    wallets = [str(bot.pubkey()) for bot in chain.bots]
    return {
        "venue": str(VENUE),
        "wallets": wallets,
        "mints": mints,
        "accounts": accounts,
        "transactions": rows,
        "holdings": {wallet: list_holdings(node, wallet) for wallet in wallets},
    }


def main(node_file, target):
    with open(node_file) as file:
        info = json.load(file)
    node = Node(info["rpc"])
    chain = Chain(node, Keypair.from_bytes(bytes(info["payer"])))
    chain.prepare()
    recording = record(node, chain)
    with (
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file,
    ):
        file.write(json.dumps(recording, separators=(",", ":")).encode())
    print(len(recording["transactions"]), "transactions")


if __name__ == "__main__":
    main(*sys.argv[1:])
