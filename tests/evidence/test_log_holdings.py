"""The times at which bots had wallets match the log, or are reported."""

import pytest
from auditing import ask_service, audit_log, show_early
from node import FakeNode
from service import NOW, Service
from story import Story
from test_attachments import A, B, C, D, E

from accounts import influencers, wallets
from evidence import log
from models import Attachment, Bot, Wallet


@pytest.fixture
def told(tmp_path):
    """A bot that proved A, added B and C, took D instead of them, and added B again."""
    service = Service(tmp_path / "data", evidence_per_minute=10**6, max_wallet_changes_per_day=99)
    bot = service.make_bot("Ada", A).bot
    wallets.attach_wallet(service.config, bot, A, NOW + 1, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 2)
    wallets.add_wallet(service.config, bot, C, NOW + 3)
    wallets.remove_wallet(bot, A, NOW + 4)
    wallets.remove_wallet(bot, B, NOW + 5)
    wallets.attach_wallet(service.config, bot, D, NOW + 6, "proven")
    wallets.add_wallet(service.config, bot, B, NOW + 7)
    yield service
    service.close()


def audit(service, **more):
    return audit_log(service, FakeNode(Story().chain()), **more)


def fields(report):
    return {one.field for one in report.differences if one.field.startswith("held.")}


def test_attachments_match_the_log(told):
    assert audit(told).differences == []
    influencers.retire_bot(Bot.get(), NOW + 8)
    assert audit(told).differences == []


def test_a_concealed_attachment_is_named_even_when_the_log_size_was_understated(told):
    Attachment.delete().where(Attachment.attached_at == NOW + 7).execute()
    for ask in (ask_service(told), show_early(told)):
        assert f"held.{B}" in fields(audit(told, ask=ask))


def test_earlier_logs_are_compared_too(told):
    """All its times with a wallet began before the new log; then one begins."""
    log.renew_log("operator", NOW + 8)
    wallets.add_wallet(told.config, Bot.get(), E, NOW + 9)
    wallets.remove_wallet(Bot.get(), B, NOW + 10)
    assert audit(told).differences == []
    Attachment.update(attached_at=NOW + 1).where(Attachment.attached_at == NOW + 2).execute()
    assert fields(audit(told)) == {f"held.{B}"}


def test_an_unlogged_attachment_is_named(told):
    wallet = Wallet.create(address=A[::-1], bot=Bot.get(), created_at=NOW)
    Attachment.create(bot=Bot.get(), wallet=wallet, attached_at=NOW - 2, detached_at=NOW - 1)
    assert fields(audit(told)) == {f"held.{A[::-1]}"}


def test_changes_during_the_audit_are_not_differences(told):
    ask, left = ask_service(told), ["a", "b"]

    def restless(path):
        if left and "wallet=" in path:
            left.pop()
            wallets.remove_wallet(Bot.get(), B, NOW + 9)
            wallets.add_wallet(told.config, Bot.get(), B, NOW + 10)
        return ask(path)

    assert audit(told, ask=restless).differences == []
    assert not left
