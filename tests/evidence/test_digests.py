"""Digests of evidence in the log: one for each wallet whose evidence changed."""

import json

import pytest
from lookout import Lookout
from node import FakeNode
from story import address, market

from evidence import log
from evidence.document import DigestLog, digest_wallet

ADA, EVE = address("ada"), address("eve")


def told():
    """[(wallet, digest)] of the log."""
    one = log.find_log()
    leaves = map(json.loads, log.read_leaves(one, 0, one.size)) if one else ()
    return [(leaf["wallet"], leaf["digest"]) for leaf in leaves if leaf["kind"] == "evidence"]


@pytest.fixture
def seen(settings, db):
    chain = market(3, ("ada", "eve"), 24)
    return Lookout.begin(settings, FakeNode(chain), wallets=[ADA, EVE]).settle()


def test_a_digest_is_logged_once_and_again_when_it_changes(seen):
    digests = [(one.address, digest_wallet(one.id)) for one in seen.wallets]
    job = DigestLog()
    for later in (0, 1):
        job.run_tick(seen.now + later)
        assert told() == digests
    # Another process finds what was logged.
    DigestLog().run_tick(seen.now + 2)
    assert told() == digests
    wallet = seen.wallets[0]
    coverage = {**json.loads(type(wallet).get_by_id(wallet.id).coverage), "receipts": 1}
    type(wallet).update(coverage=json.dumps(coverage)).where(type(wallet).id == wallet.id).execute()
    job.run_tick(seen.now + 3)
    assert told()[2:] == [(wallet.address, digest_wallet(wallet.id))]
    assert told()[2] != digests[0]
