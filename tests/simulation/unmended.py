"""Fixed bugs, reintroduced: the simulation must find each (tests/test_simulation.py).

Each function receives pytest's monkeypatch and removes one fix.
"""

from accounts import verification
from accounts.verification import Judgment
from chain.stored import store
from models import Post, Trade, Wallet


def read_addresses_lazily(patch):
    """The observer writes with a query open: another process's commit makes that fail."""
    patch.setattr("observing.listing.list", iter, raising=False)


def write_and_drop(patch):
    """A transaction that is reread between publications is written and then dropped."""
    dropped, rebuild, replace = {}, store._rebuild, store.replace_trades

    def rebuild_and_note(wallet, pending):
        rebuild(wallet, pending)
        gone = {signature for signature, row in pending.rows.items() if row is None}
        dropped.setdefault(wallet.id, set()).update(gone)

    def replace_and_drop(wallet_id, rows):
        changed, gone = replace(wallet_id, rows), sorted(dropped.pop(wallet_id, ()))
        Trade.delete().where(Trade.wallet == wallet_id, Trade.signature.in_(gone)).execute()
        return changed | set(gone)

    patch.setattr(store, "_rebuild", rebuild_and_note)
    patch.setattr(store, "replace_trades", replace_and_drop)


def leave_as_it_was(patch):
    """A bug: a post whose trade is gone keeps its label."""
    judge = verification.judge_post

    def judge_or_leave(post: Post, wallet: Wallet) -> Judgment:
        judged = judge(post, wallet)
        if judged.status == "pending":
            return Judgment(post.status, post.status_reason, None)
        return judged

    patch.setattr(verification, "judge_post", judge_or_leave)
