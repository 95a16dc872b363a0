"""What must always hold, and what must hold once all faults have ended."""

import orjson
from story import address

import jobs
from models import Wallet
from observing.rebuilding import rebuild
from operate import inspection
from simulation.machinery import demand
from storage import database
from web.api.health import check_health

POSTS = """
SELECT p.event_id, p.uid, p.body, p.hidden_at, p.status, p.mint, p.signature, p.wallet_id,
       t.signature, w.address
FROM post p LEFT JOIN trade t ON t.id = p.trade_id LEFT JOIN wallet w ON w.id = t.wallet_id
ORDER BY p.id"""
STORED = "SELECT signature FROM sighting WHERE wallet_id = ? AND state = 'stored'"
LEFT_OVER = """
SELECT address, imbalance FROM wallet
WHERE imbalance <> 0 AND coverage LIKE '{"state":"complete"%'"""
CLAIMED_WITH_OTHERS = """
SELECT bot_id FROM attachment WHERE detached_at IS NULL GROUP BY bot_id
HAVING COUNT(*) > 1 AND COUNT(CASE WHEN ownership <> 'proven' THEN 1 END) > 0"""
TRADES = "SELECT signature FROM trade WHERE wallet_id = ?"


# ---- after every step ----------------------------------------------------------------------------
def check(world):
    """Check that nothing acknowledged is lost, nothing is verified without its trade, each of
    several wallets is proven, and sums reconcile.
    """
    _check_posts(world)
    demand(not _read(CLAIMED_WITH_OTHERS), "one of several wallets is only claimed")
    world.market.check()
    left_over = _read(LEFT_OVER)
    demand(not left_over, f"complete, and lamports are left over: {left_over}")


def _check_posts(world):
    found, poster = {}, world.poster
    for event, uid, body, hidden, status, mint, signature, _, traded, whose in _read(POSTS):
        demand(event not in found, f"{event} is there twice")
        demand(event in poster.sent, f"{event} was never sent")
        found[event] = uid
        said = poster.sent[event][1]["body"]
        demand(hidden or body == said, f"{event} says something else")
        demand(not hidden or (event in poster.hidden and not body), f"{event} is half hidden")
        if status == "verified":
            is_own = any(whose in held for held in poster.held[event])
            demand(traded == signature and is_own, f"{event} is verified without its trade")
            is_true = world.tale.verifies(signature, {whose}, mint)
            demand(is_true, f"{event} is verified, and no such trade happened")
    lost = {event: uid for event, uid in poster.told.items() if found.get(event) != uid}
    demand(not lost, f"acknowledged and lost: {lost}")


def check_pass(world, problem):
    """Check that a pass reports no problem while nodes work, and publishes everything stored."""
    if world.clock() >= world.faulty_until:
        demand(problem is None, f"health is failing while nodes are well: {problem}")
    state = world.observer.state
    for wallet in Wallet.select():
        troubled = wallet.trouble or wallet.id in state.troubled | state.skipped
        demand("internal" not in (wallet.trouble or ""), f"{wallet.address}: {wallet.trouble}")
        if not troubled and read_coverage(wallet)["state"] == "complete":
            stored, shown = (
                {signature for (signature,) in _read(sql, wallet.id)} for sql in (STORED, TRADES)
            )
            demand(stored == shown, f"{wallet.address}: trades missing {stored ^ shown}")


# ---- at the end ----------------------------------------------------------------------------------
def list_unsettled(world):
    """List differences from what really happened, in sentences."""
    left = [one for person in world.tale.people for one in _compare_wallet(world, person)]
    left += _compare_posts(world)
    health = check_health(world.config, world.clock.now())
    if health["status"] != "ok" or health["walletObserver"]["troubled"]:
        left.append(f"health is {health['status']}: {health['walletObserver']['lastError']}")
    return left


def _compare_wallet(world, person):
    """List differences of a wallet with its own expected ledger."""
    book, wallet = world.tale.books[person], Wallet.get(Wallet.address == address(person))
    coverage = read_coverage(wallet)
    if coverage["state"] != "complete":
        return [f"{person}: {coverage['state']}, {coverage['note']} {coverage['gaps']}"]
    if None in (wallet.results, wallet.reconciliation):
        return [f"{person}: complete, and without results"]
    results, money = orjson.loads(wallet.results), orjson.loads(wallet.reconciliation)
    positions = orjson.loads(wallet.positions)
    told = {
        "realized": int(results["realizedLamports"]),
        "matched": results["matchedSells"],
        "partial": results["partialSells"],
        "unmatched": results["unmatchedSells"],
        "closing": int(money["closingLamports"]),
        "difference": int(money["differenceLamports"]),
        "positions": {one["mint"]: int(one["amountRaw"]) for one in positions},
    }
    true = {
        **{name: book.sums[name] for name in ("realized", "matched", "partial", "unmatched")},
        "closing": world.tale.closing(person),
        "difference": 0,
        "positions": world.tale.positions(person),
    }
    return [
        f"{name} of {person} is {told[name]}, and really {true[name]}"
        for name in true
        if told[name] != true[name]
    ]


def _compare_posts(world):
    left, tale = [], world.tale
    for event, _, _, _, status, mint, signature, wallet, *_ in _read(POSTS):
        right = {"none"}
        if signature and wallet:
            held = world.poster.held[event]
            right = set().union(*(_judge(tale, signature, one, mint) for one in held))
        if status not in right:
            left.append(f"{event} is {status} instead of {sorted(right)}")
    return left


def _judge(tale, signature, wallets, mint):
    """The possible final states of a post by a bot with these wallets."""
    if tale.verifies(signature, wallets, mint):
        return {"verified"}
    return {"mismatch"} if signature in tale.chain.by_signature else {"pending", "not_found"}


def check_end(world):
    """Check that followers got everything, the log matches, and a rebuild changes nothing."""
    for one in world.followers:
        one.check()
    missing = world.receiver.list_missing(world.hook.id)
    demand(not missing, f"a hook that works was never told of {missing}")
    world.market.check_end()
    reader = inspection.Reader(world.config)
    with reader.snapshot():
        different = list(inspection.check_log(reader))
    reader.close()
    demand(not different, f"log and tables differ: {different}")
    with jobs.observer_lock():
        for one in rebuild(world.observer.state, Wallet.select(), world.clock.now()):
            demand(not one.changes, f"derived again, something differs: {one}")


def read_coverage(wallet):
    return orjson.loads(wallet.coverage or b'{"state": "none", "note": null, "gaps": []}')


def _read(sql, *values):
    return database.execute_sql(sql, values).fetchall()
