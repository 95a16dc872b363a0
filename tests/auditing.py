"""An audit in this process: the application as the instance, fake nodes as the auditor's."""

import time

from node import connect

from chain.programs import table
from evidence.audit import Auditor
from evidence.claims import Instance
from evidence.memory import Memory
from evidence.view import Node
from market.failures import FetchError
from models import Bot


def ask_service(service):
    """What Instance asks with, over the test client of a Service."""

    def ask(path):
        answer = service.get(path)
        if answer.status_code != 200:
            raise FetchError(f"answered HTTP {answer.status_code}", status=answer.status_code)
        return answer.data

    return ask


def make_auditor(ask, *nodes, memory=None, accepts=False, own=None, reads_log=False):
    """An Auditor over what `ask` answers and these nodes; no time passes."""
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


def audit(service, *nodes, bot=None, **more):
    """The Report on a bot of a Service, the first one."""
    auditor = make_auditor(ask_service(service), *nodes, **more)
    begun = time.monotonic()
    report = auditor.audit(bot or Bot.select().order_by(Bot.id).first().uid)
    assert time.monotonic() - begun < 60
    return report
