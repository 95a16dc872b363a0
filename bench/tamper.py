"""Every recorded receipt's numbers changed by one lamport, every row left out, every verification
moved by hand, every word changed, in the database of an instance; then an audit of it.

    python -m bench tamper [--every N] [--wallet 1|2|3]

All of it takes about half an hour.

Right is: each is named, by signature and field, and nothing else is. Untouched, the verdict is
`same`. Exit 1 where not.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))
# Columns of lamports of a trade, and the fields of evidence that show them.
LAMPORTS = {
    "sol_change": "solChangeLamports",
    "fee": "feeLamports",
    "tip": "tipLamports",
    "rent": "rentLamports",
    "beside_sol": "besideLamports",
    "result": "result",
    "proceeds": "proceeds",
    "cost": "cost",
    "cost_left": "costLeftLamports",
}
SUMS = ("results", "positions", "reconciliation", "average_cost")
STATUSES = ("none", "pending", "verified", "mismatch", "not_found")


def main(arguments):
    parser = argparse.ArgumentParser(prog="bench tamper")
    parser.add_argument("--every", type=int, default=1, help="leave out only every Nth row")
    parser.add_argument("--wallet", type=int, help="only this one of the three")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        numbers = [given.wallet] if given.wallet else [1, 2, 3]
        with Trial(Path(folder), numbers) as trial:
            return int(any([trial.try_wallet(place, given.every) for place in range(len(numbers))]))


class Trial:
    """An instance that observed the recorded history by an honest node, and its auditor's node."""

    def __init__(self, folder, numbers):
        from corpus import read_history
        from lookout import Lookout
        from node import Chain, FakeNode
        from service import Service

        from chain.reading.programs import table
        from evidence.memory import Memory

        history = read_history()
        self.own = table((history["venue"],))
        self.service = Service(
            folder / "data", extra_swap_programs=(history["venue"],), evidence_per_minute=10**8
        )
        self.node = FakeNode(Chain.recorded(history))
        self.wallets, self.memory = [history["wallets"][n - 1] for n in numbers], Memory(None)
        self.lookout = Lookout.begin(self.service.config, self.node, wallets=self.wallets)
        # Nobody sees a transaction before it happened.
        ends = max(row.receipt["blockTime"] or 0 for row in self.node.chain.rows)
        self.lookout.clock.sleep(max(0, ends - self.lookout.now // 1000))
        self.lookout.settle()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.memory.close()
        self.service.close()

    def audit(self, bot):
        from auditing import audit

        return audit(self.service, self.node, bot=bot, own=self.own, memory=self.memory)

    # ---- one wallet ------------------------------------------------------------------------------
    def turn_to(self, place):
        """Turn to the wallet at this place of the list."""
        from models import Bot, Trade, Wallet

        self.wallet = Wallet.get(Wallet.address == self.wallets[place])
        self.bot = Bot.get_by_id(self.wallet.bot_id)
        self.mine = Trade.wallet == self.wallet.id

    def try_wallet(self, place, every):
        """Try everything on a wallet and print what was named; whether anything was not."""
        from models import Trade

        self.turn_to(place)
        begun, short = time.monotonic(), self.audit(self.bot.uid).verdict != "same"
        count = Trade.select().where(self.mine).count()
        print(
            f"{self.wallet.address}: {count} receipts, untouched {'NOT ' * short}same", flush=True
        )
        for name, attempt in (
            ("numbers changed by one lamport", self.change_lamports),
            ("rows left out", lambda: self.leave_out(every)),
            ("members of sums changed", self.change_sums),
            ("rows of running totals changed", lambda: self.change_totals(every)),
            ("verifications moved", self.move_verifications),
            ("words changed", self.change_words),
        ):
            tried, missed = attempt()
            verdict = f"{missed} NOT named" if missed else "all named"
            print(f"  {tried:5} {name}: {verdict}", flush=True)
            short = short or missed or not tried
        print(f"  {time.monotonic() - begun:.0f} s", flush=True)
        return bool(short)

    def find_named(self):
        """What an audit names now, by signature and field."""
        return {(one.signature, one.field) for one in self.audit(self.bot.uid).differences}

    def change_lamports(self, columns=LAMPORTS):
        """Change a column of every row; each row is named, and only for that column."""
        from models import Trade

        tried = missed = 0
        for column in columns:
            field, name = getattr(Trade, column), LAMPORTS[column]
            changed = self.mine & field.is_null(False)
            expected = {(row.signature, name) for row in Trade.select().where(changed)}
            Trade.update({field: field + 1}).where(changed).execute()
            missed += len(expected ^ self.find_named())
            Trade.update({field: field - 1}).where(changed).execute()
            tried += len(expected)
        return tried, missed

    def leave_out(self, every):
        """Delete each row alone; it is named, and nothing else is but which tokens the wallet's
        trades moved, and the forward record if it has to be known when the receipt was listed.
        """
        from chain.stored.tables import TradeMint
        from models import Trade

        tried = missed = 0
        for row in list(Trade.select().where(self.mine).order_by(Trade.id).dicts())[::every]:
            moved = list(TradeMint.select().where(TradeMint.trade == row["id"]).dicts())
            Trade.delete().where(Trade.id == row["id"]).execute()
            named = self.find_named()
            others = named - {(row["signature"], "receipt"), (None, "tradeMint")}
            told = all(field.startswith("spans.") for _, field in others)
            missed += not (told and (row["signature"], "receipt") in named)
            Trade.insert(row).execute()
            TradeMint.insert_many(moved).execute()
            tried += 1
        return tried, missed

    def change_sums(self):
        """Change every number of the stored sums of the wallet."""
        import orjson

        from models import Wallet

        tried = missed = 0
        for column in SUMS:
            whole = getattr(Wallet.get_by_id(self.wallet.id), column)
            for changed in list_changed(orjson.loads(whole)):
                text = orjson.dumps(changed).decode()
                Wallet.update({column: text}).where(Wallet.id == self.wallet.id).execute()
                missed += len(self.find_named()) != 1
                tried += 1
            Wallet.update({column: whole}).where(Wallet.id == self.wallet.id).execute()
        for column in ("last_trade_at", "forward_realized"):
            before = getattr(self.wallet, column)
            # Times are shown in whole seconds.
            more = 1_000 if column.endswith("_at") else 1
            Wallet.update({column: before + more}).where(Wallet.id == self.wallet.id).execute()
            missed += len(self.find_named()) != 1
            Wallet.update({column: before}).where(Wallet.id == self.wallet.id).execute()
            tried += 1
        return tried, missed

    def change_totals(self, every):
        """Change a lamport or a count in rows of totals of all history, each alone."""
        from storage import database

        tried = missed = 0
        for table, column, view in (
            ("running_total", "realized", "view"),
            ("risk_total", "best", "view"),
            ("token_total", "realized", "view"),
        ):
            where = f"WHERE wallet_id = {self.wallet.id} AND {view} = 0"
            rows = database.execute_sql(f"SELECT rowid FROM {table} {where}").fetchall()
            for (number,) in rows[::every]:
                sql = f"UPDATE {table} SET {column} = {column} + ? WHERE rowid = ?"
                database.execute_sql(sql, (1, number))
                missed += len(self.find_named()) != 1
                database.execute_sql(sql, (-1, number))
                tried += 1
        return tried, missed

    def move_verifications(self, every=1):
        """Let a post name every Nth transaction, then move each of them to every other status."""
        from models import Post, Trade

        for trade in list(Trade.select().where(self.mine))[::every]:
            self._say(trade)
        self.lookout.look(2)
        posts = list(Post.select().where(Post.wallet == self.wallet.id))
        tried = missed = 0
        if self.find_named():
            missed += 1
        for status in STATUSES:
            moved = [post for post in posts if post.status != status]
            Post.update(status=status).where(Post.id.in_([post.id for post in moved])).execute()
            expected = {(post.signature, f"posts.{post.uid}.status") for post in moved}
            # The bot's pace follows from them.
            named = {one for one in self.find_named() if one[1].endswith(".status")}
            missed += len(expected ^ named)
            tried += len(moved)
            for post in moved:
                Post.update(status=post.status).where(Post.id == post.id).execute()
        return tried, missed

    def _say(self, trade):
        from accounts import posts

        body = posts.PostBody(eventId=f"e{trade.id}", body="Words", signature=trade.signature)
        posts.publish(self.bot.id, body, self.lookout.now, "api")

    def change_words(self):
        """Change the words of every post; the audit and what compares the log with the tables name
        each.
        """
        from models import Post

        changed = Post.bot == self.bot.id
        expected = {post.uid for post in Post.select().where(changed)}
        named = {f"posts.{uid}.logged.words" for uid in expected}
        missed = len(self.find_unlogged()) + len(self.find_logged())
        Post.update(body="Other words").where(changed).execute()
        missed += len(expected ^ self.find_unlogged()) + len(named ^ self.find_logged())
        Post.update(body="Words").where(changed).execute()
        return len(expected), missed

    def find_logged(self):
        """The fields that an audit with the log names now."""
        from auditing import audit

        asked = {"bot": self.bot.uid, "own": self.own, "memory": self.memory, "reads_log": True}
        return {one.field for one in audit(self.service, self.node, **asked).differences}

    def find_unlogged(self):
        """The posts that are not as the log has them."""
        from operate import log_checks, readers

        reader = readers.open_reader(self.service.config)
        try:
            with reader.snapshot():
                found = list(log_checks.check_log(reader))
                return {one.what.split()[0] for one in found if one.table == "post"}
        finally:
            reader.close()


def list_changed(value):
    """Yield the value with one of its numbers changed, for each of them."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: other} for other in list_changed(one))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            for other in list_changed(one):
                yield [*value[:place], other, *value[place + 1 :]]
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, str) and value.lstrip("-").isdigit():
        yield str(int(value) + 1)
