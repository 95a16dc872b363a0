"""Two wallets of one bot with made-up histories, and their stored data."""

import random

from lookout import BEGIN, ledger_of, watch
from story import VENUE, Story, account_of, address
from test_ledger_store import DONE

from accounts.auto_posts import update_posts
from chain.reading.entries import read_entry
from chain.reading.programs import table
from chain.reading.receipts import digest_receipt, pack, parse_receipt
from chain.stored.store import LedgerStore
from models import Address, Attachment, Receipt, Wallet, WalletSignature
from operate import inspection, schema
from operate.inspection import Reader

PROGRAMS = table()
PEOPLE = {"ada": address("ada"), "eve": address("eve")}


def two_people(seed, length=40, people=tuple(PEOPLE)):
    """Two wallets, or more, trade, receive gifts from strangers, send each other tokens, and trade
    with each other in one transaction.
    """
    dice, story = random.Random(seed), Story()
    for person in people:
        story.fund(person, 10**10)
    while len(story.rows) < length:
        person, other = dice.sample(people, 2)
        mint, some = dice.choice(["CAT", "DOG"]), dice.randint(1, 1_000)
        held = story.tokens.get(account_of(person, mint), [0, 0, 0])[2]
        price = dice.randint(200_000, 9_000_000)
        verb = dice.choice(["buy", "sell", "send", "pay", "receive", "swap", "fail", "for", "own"])
        if verb in ("sell", "send", "swap", "own") and held < some:
            continue
        if dice.random() < 0.25:
            story.same_slot()
        if verb == "send":
            story.transact(person, [("tokens", mint, person, other, some)])
        elif verb == "own":
            exchange(story, other, person, mint, some, price)
        elif verb == "pay":
            story.transact(person, [("lamports", person, other, price)])
        elif verb == "for":
            # Payer and receiver differ.
            moves = [("lamports", person, "maker", price), ("tokens", mint, "maker", other, some)]
            story.transact(person, moves, venue=VENUE)
        elif verb == "swap":
            story.swap(person, mint, some, "FOX", dice.randint(1, 500))
        elif verb == "fail":
            story.fail(person)
        elif verb == "receive":
            story.receive(person, mint, some)
        else:
            getattr(story, verb)(person, mint, some, price)
    return story


def exchange(story, buyer, seller, mint, some, price):
    """The seller's tokens for the buyer's lamports, inside one call of a known venue."""
    moves = [("lamports", buyer, seller, price), ("tokens", mint, seller, buyer, some)]
    return story.transact(buyer, moves, venue=VENUE)


def begin(since=0):
    """An empty database with a bot that has ada's wallet and, from this Unix ms on, eve's."""
    for model in reversed(schema.TABLES):
        model.delete().execute()
    watch_both(since)
    Wallet.update(backfilled=True, polled_at=BEGIN).execute()
    return {person: Wallet.get(Wallet.address == PEOPLE[person]) for person in PEOPLE}


def watch_both(since):
    """Give a new bot ada's wallet and, from this Unix ms on, eve's."""
    ada = watch(PEOPLE["ada"])
    Attachment.update(attached_at=0, ownership="proven").execute()
    eve = Wallet.create(address=PEOPLE["eve"], bot=ada.bot, created_at=BEGIN)
    Address.create(wallet=eve, address=eve.address)
    Attachment.create(bot=ada.bot_id, wallet=eve, ownership="proven", attached_at=since)


def list_rows(rows):
    """(person, row of the chain)... of everything that involves one of them."""
    return [
        (person, row)
        for row in rows
        for person, one in PEOPLE.items()
        if read_entry(parse_receipt(row.receipt), one, PROGRAMS).balances
    ]


def store(wallets, found):
    """Store the entries of each person, as fetching does; return them by person."""
    new = {person: [] for person in PEOPLE}
    for person, row in found:
        raw = {**row.receipt, "transactionIndex": row.index}
        receipt = parse_receipt(raw)
        entry = read_entry(receipt, PEOPLE[person], PROGRAMS)
        columns = {"signature": row.signature, "slot": row.slot, "tx_index": row.index}
        kept = {"body": pack(raw), "digest": digest_receipt(receipt)}
        times = {"block_time": raw["blockTime"], "endpoint": ""}
        Receipt.insert(**columns, **kept, **times).on_conflict_ignore().execute()
        seen_at, wallet = BEGIN * 10, wallets[person]
        state = {"state": "stored", "entry": entry.dump(), "seen_at": seen_at}
        WalletSignature.create(wallet=wallet, **columns, **state)
        new[person].append(entry._replace(seen_at=seen_at))
    return new


def publish(ledgers, wallets, new=None):
    """Apply the new entries of each wallet, then publish each."""
    for person, wallet in wallets.items():
        ledgers.apply(wallet, new[person] if new else ())
    for wallet in wallets.values():
        ledgers.publish(wallet, DONE, BEGIN)


def rebuild(wallets, found):
    """Store everything, and return the result of a rebuild."""
    store(wallets, found)
    publish(LedgerStore(update_posts), wallets)
    return ledger_of(PEOPLE.values())


def find_differences(settings, wallets):
    """The doctor's findings about these wallets; the transactions here have no log of addresses."""
    reader = Reader(settings)
    with reader.snapshot():
        found = [
            one
            for wallet in wallets.values()
            for one in inspection.check_wallet(reader, wallet.id, PROGRAMS)
        ]
    reader.close()
    return [one for one in found if one.level == "wrong"]
