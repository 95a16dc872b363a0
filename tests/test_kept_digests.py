"""Digests that are kept are those of what is there now, whatever changed it and whoever did.

The oracle is the same document, made with nothing kept.
"""

import itertools
import random

import ground
import orjson
import pytest
from lookout import Lookout
from node import FakeNode
from story import address, market

import storage
from accounts import departures, posts
from chain.programs import table
from chain.standing_store import read_rows
from evidence import document, keeper, kept, openings, pages
from evidence.digests import DigestLog
from evidence.keeper import Keeper
from evidence.posts import POSTS
from evidence.receipts import RECEIPTS
from evidence.tables import KeptDigest
from models import Bot, Owner, Post, Trade, Wallet
from observing import entries, rebuilding
from operate import inspection

ADA, EVE = address("ada"), address("eve")
PAGE = 3
PROGRAMS = table()


@pytest.fixture
def seen(settings, db, monkeypatch):
    """Two observed wallets whose bots said something about some of their trades, in short pages."""
    monkeypatch.setattr(pages, "PAGE_SIZE", PAGE)
    seen = Lookout.begin(settings, FakeNode(market(3, ("ada", "eve"), 48)), wallets=[ADA, EVE])
    seen.settle()
    for wallet in seen.wallets:
        for number, trade in enumerate(seen.trades(wallet.address)[:8]):
            say(seen, wallet.bot_id, f"e{number}", trade.signature)
    return seen.settle()


def say(seen, bot, event, signature=None):
    """A bot says something about a transaction."""
    said = {"eventId": event, "body": f"words {event}"}
    if signature:
        said["signature"] = signature
    return posts.publish(bot, posts.parse_post(said).body, seen.now)


def run(sql, *values):
    return storage.database.execute_sql(sql, values)


def keep_all():
    """Let the job work until nothing is missing."""
    job = Keeper()
    for _ in range(40):
        if not any(list_missing()):
            return
        job.run_tick(0)
    raise AssertionError("the job does not come to an end")


def list_missing():
    for one in ("wallet", "bot"):
        for (owner,) in run(f"SELECT id FROM {one}").fetchall():
            yield from keeper.list_missing(one, owner)


def show():
    """All documents and pages, as bytes."""
    shown = []
    for wallet in Wallet.select().order_by(Wallet.id):
        shown.append(orjson.dumps(document.make_document(wallet.bot_id, wallet.id, PROGRAMS).told))
        shown.append(document.digest_wallet(wallet.id).encode())
        for paged, owner in ((RECEIPTS, wallet.id), (POSTS, wallet.bot_id)):
            number = 1
            while (page := pages.read_page(read_rows, paged, owner, number)).lines:
                shown.append(page.body)
                number += 1
    return shown


class Undone(Exception):
    """What was written goes away with it."""


def show_anew():
    """The same, with nothing kept."""
    try:
        with storage.writing():
            run("DELETE FROM kept_digest")
            shown = show()
            raise Undone
    except Undone:
        return shown


def count_kept():
    return KeptDigest.select().where(KeptDigest.digest.is_null(False)).count()


# ---- what is kept --------------------------------------------------------------------------------
def test_documents_made_with_what_is_kept_are_those_made_without(seen):
    before = show()
    assert count_kept() == 0
    keep_all()
    trades, said = Trade.select().count(), Post.select().count()
    assert trades > 20 and said == 16
    full = sum(
        count // PAGE
        for sql in ("trade GROUP BY wallet_id", "post GROUP BY bot_id")
        for (count,) in run(f"SELECT COUNT(*) FROM {sql}").fetchall()
    )
    # Of two wallets: hours, seconds of a span, and risk and tokens of the span and of all.
    assert count_kept() == full + 2 * 6
    assert show() == before == show_anew()


def test_a_full_page_that_is_kept_is_not_read(seen, monkeypatch):
    keep_all()
    wallet = seen.wallets[0]
    made = document.make_document(wallet.bot_id, wallet.id, PROGRAMS)
    assert (made.work.pages, made.work.totals) == (0, 0) and len(made.told["receiptPages"]) > 3
    run("DELETE FROM kept_digest WHERE number = 2")
    assert document.make_document(wallet.bot_id, wallet.id, PROGRAMS).work.pages == 2
    read = []
    monkeypatch.setattr(pages, "read_after", lambda *given: read.append(given))
    pages.read_page(read_rows, RECEIPTS, wallet.id, 4)
    ((_, _, _, number, after),) = read
    place = KeptDigest.get(
        KeptDigest.kind == "receipts", KeptDigest.owner == wallet.id, KeptDigest.number == 3
    ).place
    assert (number, after) == (4, place)


def test_the_job_does_a_bounded_part_at_a_time_and_all_in_the_end(seen, monkeypatch):
    monkeypatch.setattr(keeper, "MAX_PARTS", 4)
    job, counts = Keeper(), [0]
    while any(list_missing()):
        job.run_tick(0)
        counts.append(count_kept())
    steps = [after - before for before, after in itertools.pairwise(counts)]
    # Of wallets and of bots.
    assert steps[0] == 8 and max(steps) == 8 and min(steps) > 0
    before = run("SELECT * FROM kept_digest ORDER BY kind, owner, place").fetchall()
    job.run_tick(0)
    assert run("SELECT * FROM kept_digest ORDER BY kind, owner, place").fetchall() == before


def test_posts_are_kept_while_wallets_take_all_there_is_time_for(seen, monkeypatch):
    monkeypatch.setattr(keeper, "MAX_PARTS", 1)
    monkeypatch.setattr(keeper, "MAX_SECONDS", 0)
    job = Keeper()
    for _ in range(8):
        job.run_tick(0)
        run("DELETE FROM kept_digest WHERE kind <> 'posts'")
    full = {bot.id: Post.select().where(Post.bot == bot).count() // PAGE for bot in Bot.select()}
    assert sum(full.values()) == 4 == count_kept()


def test_owners_are_looked_at_in_turn(seen, monkeypatch):
    monkeypatch.setattr(keeper, "NEXT", keeper.NEXT.replace("LIMIT 50", "LIMIT 1"))
    monkeypatch.setattr(keeper, "MAX_OWNERS", 1)
    job = Keeper()
    for _ in range(2):
        job.run_tick(0)
    assert not any(list_missing())


# ---- what changes while a digest is worked out ---------------------------------------------------
@pytest.mark.parametrize("again", [False, True])
def test_what_changes_while_a_digest_is_worked_out_is_not_kept(seen, monkeypatch, again):
    """`again`: another process has claimed the same page since."""
    work_out, first = keeper.work_out, Trade.select().order_by(Trade.id).first()
    wallet = first.wallet_id

    def interrupted(part):
        digest = work_out(part)
        if (part.kind, part.number) == ("receipts", 1):
            run("UPDATE trade SET fee = fee + 1 WHERE id = ?", first.id)
            if again:
                with storage.writing():
                    kept.claim([part])
        return digest

    monkeypatch.setattr(keeper, "work_out", interrupted)
    keeper.keep_some("wallet", wallet, 50)
    found = KeptDigest.select(KeptDigest.digest).where(
        KeptDigest.kind == "receipts", KeptDigest.owner == wallet, KeptDigest.number == 1
    )
    assert [row.digest for row in found] == ([None] if again else [])
    assert show() == show_anew()
    monkeypatch.setattr(keeper, "work_out", work_out)
    keep_all()
    assert show() == show_anew()


def test_what_another_version_kept_is_not_believed(seen, monkeypatch):
    keep_all()
    run("UPDATE kept_digest SET digest = ?, version = '0.1.9'", "0" * 64)
    assert show() == show_anew()
    keep_all()
    assert count_kept() == KeptDigest.select().where(KeptDigest.version != "0.1.9").count()
    assert show() == show_anew()


# ---- each kind of change, by each trigger --------------------------------------------------------
def take(name, condition, *values):
    """Take a row away; return the statement that puts it back."""
    cursor = run(f"SELECT * FROM {name} WHERE {condition}", *values)
    columns = [one[0] for one in cursor.description]
    (row,) = cursor.fetchall()
    run(f"DELETE FROM {name} WHERE {condition}", *values)
    marks = ", ".join("?" * len(row))
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})", row


class Scene:
    """Rows of the first wallet and bot by which changes are made; some are taken away, to be
    inserted later.
    """

    def __init__(self, seen):
        wallet = seen.wallets[0]
        self.wallet, self.bot, self.other = wallet.id, wallet.bot_id, seen.wallets[1].bot_id
        run("DELETE FROM arrival")
        trades = [
            trade.id for trade in Trade.select().where(Trade.wallet == wallet.id).order_by(Trade.id)
        ]
        said = [post.id for post in Post.select().where(Post.bot == self.bot).order_by(Post.id)]
        self.trade, self.gone, self.post = trades[0], trades[3], said[0]
        self.leaf = Post.get_by_id(self.post).leaf_id
        self.named = Post.get(Post.bot == self.bot, Post.trade.is_null(False)).trade_id
        signatures = [Trade.get_by_id(one).signature for one in trades]
        self.signature, self.unfetched = signatures[0], signatures[4]
        self.early = signatures[2]
        run("UPDATE sighting SET seen_at = 1 WHERE signature = ?", self.early)
        self.taken = {
            "trade": take("trade", "id = ?", trades[1]),
            "post": take("post", "id = ?", said[1]),
            "receipt": take("receipt", "signature = ?", self.unfetched),
        }
        self.span = run("SELECT id FROM attachment WHERE wallet_id = ?", wallet.id).fetchone()[0]

    def put_back(self, name):
        sql, row = self.taken[name]
        run(sql, *row)


def change_total(name, owner, number):
    """Insert, update and delete rows of a table of totals: [(name of the trigger, statement)]."""
    rows = f"FROM {name} WHERE {owner} = {number}"
    first = {"hour_total": "hour", "forward_total": "time", "risk_total": "begins"}.get(name)
    copied = f"{first} - 1" if first else "'copied'"
    columns = [column.name for column in storage.database.get_columns(name)]
    moved = ", ".join(copied if one == (first or "mint") else one for one in columns)
    least = f"(SELECT MIN({first or 'mint'}) {rows})"
    where = f"WHERE {owner} = {number} AND {first or 'mint'} = {least}"
    return [
        (
            f"{name}_insert",
            f"INSERT INTO {name} ({', '.join(columns)}) SELECT {moved} FROM {name} {where}",
        ),
        (f"{name}_update", f"UPDATE {name} SET realized = realized + 1 {where}"),
        (f"{name}_delete", f"DELETE FROM {name} {where}"),
    ]


def list_changes(scene):
    """[(name of the trigger that notices it, statement, values)]."""
    yield from [
        ("trade_insert", *scene.taken["trade"]),
        ("trade_update", "UPDATE trade SET fee = fee + 1 WHERE id = ?", (scene.trade,)),
        ("trade_delete", "DELETE FROM trade WHERE id = ?", (scene.trade,)),
        ("trade_moved", "UPDATE trade SET uid = 'trade_x' WHERE id = ?", (scene.named,)),
        ("post_insert", *scene.taken["post"]),
        ("post_update", "UPDATE post SET checked_at = 5000 WHERE id = ?", (scene.post,)),
        ("post_delete", "DELETE FROM post WHERE id = ?", (scene.post,)),
        (
            "post_moved",
            "UPDATE post SET bot_id = ?, event_id = 'moved' WHERE id = ?",
            (scene.other, scene.post),
        ),
        ("receipt_insert", *scene.taken["receipt"]),
        (
            "receipt_update",
            "UPDATE receipt SET digest = 'another' WHERE signature = ?",
            (scene.signature,),
        ),
        ("receipt_delete", "DELETE FROM receipt WHERE signature = ?", (scene.signature,)),
        (
            "sighting_update",
            "UPDATE sighting SET seen_at = 1 WHERE signature = ?",
            (scene.signature,),
        ),
        ("sighting_delete", "DELETE FROM sighting WHERE signature = ?", (scene.early,)),
        ("wallet_moved", "UPDATE wallet SET address = 'other' WHERE id = ?", (scene.wallet,)),
        (
            "log_insert",
            "INSERT INTO log (uid, opened_at, first_leaf) VALUES ('log_x', 1, ?)",
            (scene.leaf,),
        ),
        ("log_update", "UPDATE log SET uid = 'log_x'", ()),
        ("log_delete", "DELETE FROM log", ()),
        ("leaf_delete", "DELETE FROM log_leaf WHERE id = ?", (scene.leaf,)),
    ]
    for name, owner, number in (
        ("hour_total", "wallet_id", scene.wallet),
        ("forward_total", "attachment_id", scene.span),
        ("risk_total", "wallet_id", scene.wallet),
        ("token_total", "wallet_id", scene.wallet),
    ):
        yield from ((trigger, sql, ()) for trigger, sql in change_total(name, owner, number))


def list_triggers():
    """{name: table} of those that drop what is kept."""
    if ground.SERVER:
        sql = "SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        rows = run(f"{sql} WHERE t.tgname LIKE 'kept%'").fetchall()
    else:
        rows = run(
            "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'kept%'"
        ).fetchall()
    return {name.removeprefix("kept_"): named for name, named in rows}


def test_each_trigger_drops_what_its_change_makes_wrong(seen):
    scene = Scene(seen)
    keep_all()
    before, triggers = show(), list_triggers()
    assert before == show_anew()
    changes = list(list_changes(scene))
    assert sorted(name for name, _, _ in changes) == sorted(triggers)
    for name, sql, values in changes:
        for is_dropped in (False, True):
            try:
                with storage.writing():
                    if is_dropped:
                        on = f" ON {triggers[name]}" if ground.SERVER else ""
                        run(f"DROP TRIGGER kept_{name}{on}")
                    run(sql, *values)
                    # Without the trigger the document would be wrong: the change is of that kind.
                    assert (show() == show_anew()) is not is_dropped, (name, is_dropped)
                    assert is_dropped or show() != before, name
                    raise Undone
            except Undone:
                assert show() == before


def test_a_change_drops_its_page_alone_and_one_that_shifts_lines_all_from_there(seen):
    keep_all()
    wallet = seen.wallets[0].id

    def numbers():
        same = KeptDigest.kind == "receipts", KeptDigest.owner == wallet
        return [one.number for one in KeptDigest.select().where(*same).order_by(KeptDigest.number)]

    def others():
        return (
            KeptDigest.select()
            .where((KeptDigest.kind != "receipts") | (KeptDigest.owner != wallet))
            .count()
        )

    trades = list(Trade.select().where(Trade.wallet == wallet).order_by(Trade.id))
    full, beside = list(range(1, len(trades) // PAGE + 1)), others()
    assert numbers() == full and len(full) > 4
    run("UPDATE trade SET fee = fee + 1 WHERE id = ?", trades[PAGE].id)
    assert numbers() == [1, *full[2:]]
    run("DELETE FROM trade WHERE id = ?", trades[3 * PAGE].id)
    assert numbers() == [1, 3]
    # No other wallet's, and of this one's bot only posts about that trade.
    assert beside - others() <= 1
    assert show() == show_anew()


def test_a_page_is_not_kept_while_a_trade_of_it_is_listed_in_another_slot(seen):
    """A change of its transaction would not be noticed: it is found through the listed slot."""
    keep_all()
    wallet = seen.wallets[0].id
    trade = Trade.select().where(Trade.wallet == wallet).order_by(Trade.id).first()
    run("UPDATE sighting SET slot = slot + 1 WHERE signature = ?", trade.signature)
    keeper.keep_some("wallet", wallet, 50)
    assert not find_kept(wallet, 1) and find_kept(wallet, 2)
    run("UPDATE receipt SET digest = 'another' WHERE signature = ?", trade.signature)
    assert show() == show_anew()
    run("UPDATE sighting SET slot = slot - 1 WHERE signature = ?", trade.signature)
    keep_all()
    assert find_kept(wallet, 1) and show() == show_anew()


def find_kept(wallet, number):
    """The digest that is kept of a page of receipts, if there is one."""
    same = KeptDigest.kind == "receipts", KeptDigest.owner == wallet, KeptDigest.number == number
    return KeptDigest.select(KeptDigest.digest).where(*same).scalar()


# ---- in the words of the program -----------------------------------------------------------------
def hide_one(seen, dice):
    posts.hide(pick(dice, Post).uid, seen.now)


def pick(dice, model):
    return dice.choice(list(model.select().order_by(model.id)))


def say_more(seen, dice):
    trade = pick(dice, Trade)
    bot = pick(dice, Bot)
    if bot.retired_at is None:
        say(seen, bot.id, f"more {dice.random()}", dice.choice([trade.signature, None]))


def go_on(seen, dice):
    rows = seen.nodes[0].chain.rows
    tip = seen.nodes[0].tip
    seen.nodes[0].tip = next((row.slot for row in rows if row.slot > tip), tip)
    seen.look(dice.randint(1, 3))


def rebuild(seen, dice):
    rebuilding.rebuild(seen.observer.state, list(Wallet.select()), seen.now)


def damage(seen, dice):
    """A row that a rebuild makes right again."""
    run("UPDATE trade SET result = 7 WHERE id = ?", pick(dice, Trade).id)


def lose_receipt(seen, dice):
    """A transaction that the observer fetches again."""
    run("DELETE FROM receipt WHERE signature = ?", pick(dice, Trade).signature)
    entries.refetch_missing(seen.wallets[0])
    seen.look(2)


def withhold(seen, dice):
    node = seen.nodes[0]
    node.withhold(dice.choice(node.chain.rows).signature)
    seen.look()


def give(seen, dice):
    seen.nodes[0].restore()
    seen.look(2)


def log_digest(seen, dice):
    DigestLog().run_tick(seen.now)


def renew_log(seen, dice):
    openings.renew_log("operator", seen.now)


def restart(seen, dice):
    seen.restart()
    seen.look()


def tick(seen, dice):
    Keeper().run_tick(seen.now)


def delete_account(seen, dice):
    if dice.random() < 0.2:
        departures.delete_owner(pick(dice, Owner), seen.now)


DONE = [
    *(hide_one, say_more, go_on, go_on, go_on, rebuild, damage, lose_receipt),
    *(withhold, give, log_digest, renew_log, restart, tick, tick, delete_account),
]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_documents_are_those_made_with_nothing_kept(
    settings, db, monkeypatch, seed
):
    monkeypatch.setattr(pages, "PAGE_SIZE", PAGE)
    dice = random.Random(seed)
    chain = market(10 + seed, ("ada", "eve"), 60)
    node = FakeNode(chain, tip=chain.rows[20].slot)
    seen = Lookout.begin(settings, node, wallets=[ADA, EVE]).settle()
    for wallet in seen.wallets:
        for number, trade in enumerate(seen.trades(wallet.address)[:4]):
            say(seen, wallet.bot_id, f"e{number}", trade.signature)
    most = 0
    for step in range(40):
        done = dice.choice(DONE)
        done(seen, dice)
        assert show() == show_anew(), (step, done.__name__)
        if dice.random() < 0.5:
            keep_all()
            most = max(most, count_kept())
            assert show() == show_anew(), (step, done.__name__)
    assert most > 20


# ---- doctor --------------------------------------------------------------------------------------
def test_doctor_names_whose_kept_digest_is_not_that_of_its_part(seen):
    keep_all()

    def told():
        return [str(one) for one in inspection.inspect(seen.config, seen.now, False)]

    assert told() == []
    bot = seen.wallets[1].bot.uid
    wrong = "the digest that is kept is not that of"
    for kind, owner, number, said in (
        ("receipts", seen.wallets[0].id, 2, f"wallet {ADA}: {wrong} page 2 of receipts"),
        ("posts", seen.wallets[1].bot_id, 1, f"field bot {bot}: {wrong} page 1 of posts"),
        ("hours", seen.wallets[1].id, 0, f"wallet {EVE}: {wrong} hours"),
    ):
        same = (KeptDigest.kind == kind) & (KeptDigest.owner == owner)
        same &= KeptDigest.number == number
        right = KeptDigest.get(same).digest
        KeptDigest.update(digest="0" * 64).where(same).execute()
        assert told() == [f"kept_digest: {said}"]
        KeptDigest.update(digest=right).where(same).execute()
    # A page beyond the last.
    with storage.writing():
        kept.claim([kept.Part("receipts", seen.wallets[0].id, 10**9, 500)])
    KeptDigest.update(digest="0" * 64).where(KeptDigest.number == 500).execute()
    assert told() == [f"kept_digest: wallet {ADA}: {wrong} page 500 of receipts"]
    kept.forget_all()
    assert told() == []


def test_doctor_compares_the_leaf_that_is_noted_with_the_log(seen):
    DigestLog().run_tick(seen.now)
    assert not list(inspection.inspect(seen.config, seen.now, False))
    run("UPDATE logged_wallet SET leaf_id = leaf_id - 1 WHERE wallet_id = ?", seen.wallets[0].id)
    (one,) = inspection.inspect(seen.config, seen.now, False)
    assert (one.table, one.wallet) == ("logged_wallet", ADA)
