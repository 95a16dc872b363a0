"""Change an instance's database by hand; an audit must name each change by signature and field.

By default it samples one wallet. With --full it changes every number, row, sum, running total,
verification and post of all three wallets, in half an hour.
"""

import orjson
import pytest
from auditing import audit
from corpus import read_history
from lookout import Lookout
from node import Chain, FakeNode
from service import Service

import storage
from accounts import posts
from chain.reading.programs import table
from chain.stored.tables import TradeMint
from evidence.memory import Memory
from models import Bot, Post, Trade, Wallet
from operate import inspection

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


@pytest.fixture(scope="module")
def every(full):
    """Try every Nth row."""
    return 1 if full else 120


@pytest.fixture(scope="module")
def trial(tmp_path_factory, full):
    made = Trial(tmp_path_factory.mktemp("trial"), [1, 2, 3] if full else [3])
    yield made
    made.close()


@pytest.fixture(scope="module", params=range(3))
def wallet(request, trial):
    """The trial, turned to each of its wallets."""
    if request.param >= len(trial.wallets):
        pytest.skip("only with --full")
    trial.turn_to(request.param)
    return trial


def test_an_untouched_database_is_the_same(wallet):
    assert wallet.audit(wallet.bot.uid).verdict == "same"


def test_every_number_of_every_transaction_is_named(wallet, full):
    tried, missed = wallet.change_lamports(LAMPORTS if full else ["sol_change", "result"])
    assert tried > wallet.count and not missed


def test_transactions_left_out_are_named(wallet, every):
    tried, missed = wallet.leave_out(every)
    assert tried == -(-wallet.count // every) and not missed


def test_sums_and_running_totals_are_named(wallet, full, every):
    if not full:
        pytest.skip("only with --full")
    for tried, missed in (wallet.change_sums(), wallet.change_totals(every)):
        assert tried and not missed


def test_moved_verifications_and_changed_words_are_named(wallet, full):
    every, statuses = (1, STATUSES) if full else (40, ("none",))
    tried, missed = wallet.move_verifications(every, statuses)
    assert tried >= 6 and not missed
    # The log names each post when its words change.
    count, missed = wallet.change_words()
    assert count >= 6 and not missed


class Trial:
    """An instance that observed the recorded history by an honest node, and its auditor's node."""

    def __init__(self, folder, numbers):

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

    def close(self):
        self.memory.close()
        self.service.close()

    def audit(self, bot):
        return audit(self.service, self.node, bot=bot, own=self.own, memory=self.memory)

    def turn_to(self, place):
        """Choose the wallet at this place of the list."""
        self.wallet = Wallet.get(Wallet.address == self.wallets[place])
        self.bot = Bot.get_by_id(self.wallet.bot_id)
        self.mine = Trade.wallet == self.wallet.id
        self.count = Trade.select().where(self.mine).count()

    def find_named(self):
        """What an audit names now, by signature and field."""
        return {(one.signature, one.field) for one in self.audit(self.bot.uid).differences}

    def change_lamports(self, columns):
        """Change a column of every row; each row is named, and only for that column."""
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
        tried = missed = 0
        for name, column, view in (
            ("running_total", "realized", "view"),
            ("risk_total", "best", "view"),
            ("token_total", "realized", "view"),
        ):
            where = f"WHERE wallet_id = {self.wallet.id} AND {view} = 0"
            rows = storage.database.execute_sql(f"SELECT rowid FROM {name} {where}").fetchall()
            for (number,) in rows[::every]:
                sql = f"UPDATE {name} SET {column} = {column} + ? WHERE rowid = ?"
                storage.database.execute_sql(sql, (1, number))
                missed += len(self.find_named()) != 1
                storage.database.execute_sql(sql, (-1, number))
                tried += 1
        return tried, missed

    def move_verifications(self, every, statuses):
        """Let a post name every Nth transaction, then move each of them to every other status."""
        for trade in list(Trade.select().where(self.mine))[::every]:
            self._say(trade)
        self.lookout.look(2)
        own = list(Post.select().where(Post.wallet == self.wallet.id))
        tried = missed = 0
        if self.find_named():
            missed += 1
        for status in statuses:
            moved = [post for post in own if post.status != status]
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
        body = posts.PostBody(eventId=f"e{trade.id}", body="Words", signature=trade.signature)
        posts.publish(self.bot.id, body, self.lookout.now, "api")

    def change_words(self):
        """Change the words of every post; the audit and what compares the log with the tables name
        each.
        """
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
        asked = {"bot": self.bot.uid, "own": self.own, "memory": self.memory, "reads_log": True}
        return {one.field for one in audit(self.service, self.node, **asked).differences}

    def find_unlogged(self):
        """The posts that are not as the log has them."""
        reader = inspection.Reader(self.service.config)
        try:
            with reader.snapshot():
                found = list(inspection.check_log(reader))
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
