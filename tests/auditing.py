"""An audit in this process: the application as the instance, fake nodes as the auditor's."""

import hashlib
import json
import time

from node import connect

from chain.reading.programs import table
from evidence import log
from evidence.audit import Auditor
from evidence.claims import Instance
from evidence.memory import Memory
from evidence.view import Node
from market.failures import FetchError
from models import Bot, Wallet
from storage import database, writing


def ask_service(service):
    """An Instance's client that uses a Service's test client."""

    def ask(path):
        answer = service.get(path)
        if answer.status_code != 200:
            raise FetchError(f"returned HTTP {answer.status_code}", status=answer.status_code)
        return answer.data

    return ask


def show_early(service):
    """Like ask_service, but the first signed checkpoint covers only the log's first leaf."""
    ask, shown, one = ask_service(service), [], log.find_log()
    text = log.make_checkpoint(one._replace(size=1)).write()

    def early(path):
        if path != "/log/checkpoint" or shown:
            return ask(path)
        shown.append(path)
        return service.app.log_signer.sign_note(one.origin, text).encode()

    return early


def make_auditor(ask, *nodes, memory=None, accepts=False, own=None, reads_log=False):
    """An Auditor for the responses of `ask` and these nodes, with a stopped clock."""
    line = connect(*nodes)
    return Auditor(
        Instance("http://instance.invalid", ask, lambda seconds: None),
        Node(line, line._sleep),
        memory or Memory(None),
        accepts,
        own or table(),
        lambda text: None,
        reads_log,
    )


def find_first():
    """The first bot; without an order, PostgreSQL returns the rows as they are stored."""
    return Bot.select().order_by(Bot.id).first()


def audit(service, *nodes, bot=None, ask=None, **more):
    """A Report on a bot of a Service, by default the first."""
    auditor = make_auditor(ask or ask_service(service), *nodes, **more)
    begun = time.monotonic()
    report = auditor.audit(bot or find_first().uid)
    assert time.monotonic() - begun < 60
    return report


def audit_log(service, *nodes, **more):
    return audit(service, *nodes, reads_log=True, **more)


def edit(sql, *values):
    """Edit the database as an operator could."""
    with writing():
        assert database.execute_sql(f"{sql} RETURNING 1", values).fetchall(), sql


def change_coverage(wallet=None, **changes):
    """Change members of the coverage of a wallet, by default the only one."""
    row = Wallet.get(Wallet.address == wallet) if wallet else Wallet.get()
    row.coverage = write_json(json.loads(row.coverage) | changes).decode()
    row.save()


def digest_as_documented(told, pages):
    """Compute an evidence document's digest from docs/check.md only, without our code. `pages`: the
    bytes of its full receipt pages.
    """
    tail = {"page": len(pages) + 1, "receipts": told["receipts"]}
    names = [hashlib.sha256(one).hexdigest() for one in (*pages, write_json(tail))]
    wallet = dict(told["wallet"], coverage=_drop_polls(told["wallet"]["coverage"]))
    whole = write_json(["candor-evidence/1", wallet, names], sort_keys=True)
    return hashlib.sha256(whole).hexdigest()


def _drop_polls(coverage):
    if coverage is None:
        return None
    return {
        name: value for name, value in coverage.items() if name not in ("observedTo", "checkedAt")
    }


def write_json(value, **options):
    """JSON without whitespace, in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, **options).encode()
