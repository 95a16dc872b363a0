"""What verifies a post, with equal results from the service, `doctor --deep` and an audit, for one
wallet and for two of one bot.
"""

import ground
import pytest
from auditing import audit
from lookout import BEGIN, Lookout
from node import FakeNode
from service import Service
from story import ADA, BEGIN_TIME, VENUE, Story, account_of, address

from accounts import influencers, posts, wallets
from chain.base58 import b58encode
from chain.reading.kinds import discriminators
from models import Address, Attachment, Bot, Post, Trade, Wallet
from operate import inspection

# An audit asks the application itself. tests/accounts/test_verification.py asks both engines.
pytestmark = ground.sqlite_only


def observe_one(config, chain):
    seen = Lookout.begin(config, FakeNode(chain), wallets=[ADA])
    Attachment.update(attached_at=0, ownership="proven").execute()
    return seen.settle()


def observe_two(config, chain):
    """The bot holds eve's wallet too."""
    seen = Lookout.begin(config, FakeNode(chain), wallets=[ADA])
    eve = Wallet.create(address=address("eve"), bot=Bot.get(), created_at=BEGIN)
    Address.create(wallet=eve, address=eve.address)
    Attachment.create(bot=Bot.get(), wallet=eve, attached_at=CAME)
    Attachment.update(ownership="proven").execute()
    Attachment.update(attached_at=0).where(Attachment.wallet != eve).execute()
    seen.wallets.append(eve)
    return seen.settle()


OTHER = ("mismatch", "other_wallet")
# A Unix ms while the story goes on.
CAME = (BEGIN_TIME + 5) * 1_000


def judge(seen, told):
    """(status, reason) of posts on each (signature, mint), as they stand after another poll."""
    for number, (signature, mint) in enumerate(told):
        body = posts.PostBody(
            eventId=f"e{number}", body="Mine.", signature=signature, mint=mint and address(mint)
        )
        posts.publish(Bot.get().id, body, max(BEGIN, CAME + 3_600_000) + number, "api")
    seen.look(2)
    return [(post.status, post.status_reason) for post in Post.select().order_by(Post.id)]


def find_differences(service, seen, chain):
    """What an audit by a node of its own calls different, and the doctor of posts and trades."""
    report = audit(service, FakeNode(chain))
    assert report.verdict in ("same", "different")
    found = inspection.inspect(seen.config, seen.now, False, sleep=lambda _: None)
    # Attachments were moved into the past behind the log's back.
    return [*report.differences, *(one for one in found if one.table in ("post", "trade"))]


@pytest.mark.parametrize("observe", [observe_one, observe_two])
def test_a_token_that_only_came_beside_a_sale_verifies_nothing(tmp_path, observe):
    """Ada sells 60 of her 100 CAT; a stranger sends her 7 DOG in the same transaction."""
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    sold = story.transact(
        "ada",
        [("tokens", "CAT", "ada", "maker", 60), ("lamports", "maker", "ada", 400_000)],
        venue=VENUE,
        beside=[("tokens", "DOG", "maker", "ada", 7)],
    )
    chain, service = story.chain(), Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = observe(service.config, chain)
    assert judge(seen, [(sold, "CAT"), (sold, "DOG"), (sold, None)]) == [
        ("verified", None),
        ("mismatch", "mint_not_in_trade"),
        ("verified", None),
    ]
    assert find_differences(service, seen, chain) == []
    service.close()


@pytest.mark.parametrize("observe", [observe_one, observe_two])
def test_a_purchase_of_two_tokens_with_gifts_verifies_nothing(tmp_path, observe):
    """Ada pays once for CAT and FOX; a stranger sends her 7 DOG in the same transaction, and eve,
    whose wallet the bot may hold too, sends her 5 ELK.
    """
    story = Story()
    story.fund("ada", 10**9)
    story.fund("eve", 10**9)
    story.receive("eve", "ELK", 5)
    bought = story.transact(
        "ada",
        [
            ("lamports", "ada", "maker", 400_000),
            ("tokens", "CAT", "maker", "ada", 60),
            ("tokens", "FOX", "maker", "ada", 60),
        ],
        venue=VENUE,
        beside=[("tokens", "DOG", "maker", "ada", 7), ("tokens", "ELK", "eve", "ada", 5)],
    )
    chain, service = story.chain(), Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = observe(service.config, chain)
    kinds = Trade.select(Trade.kind).where(Trade.signature == bought).order_by(Trade.id)
    assert [kind for (kind,) in kinds.tuples()] == ["other", "transfer_out"][: len(seen.wallets)]
    told = [(bought, mint) for mint in ("CAT", "FOX", None, "DOG", "ELK")]
    assert judge(seen, told) == [("none", "ambiguous")] * 5
    assert find_differences(service, seen, chain) == []
    service.close()


LIMIT = "j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X"


@pytest.mark.parametrize("observe", [observe_one, observe_two])
@pytest.mark.parametrize(
    "brought, verdict", [(7, ("verified", None)), (0, ("mismatch", "not_a_trade"))]
)
def test_a_fill_that_brought_nothing_verifies_nothing(tmp_path, observe, brought, verdict):
    """Somebody fills ada's order with 7 DOG, or names her in a call that moves nothing."""
    (fill,) = discriminators("flash_fill_order")
    story = Story()
    story.fund("ada", 10**9)
    story.receive("ada", "DOG", 1)
    moves = [("tokens", "DOG", "maker", "ada", brought)] if brought else []
    filled = story.transact(
        "maker",
        moves,
        venue=LIMIT,
        data=b58encode(fill),
        mentions=["ada", account_of("ada", "DOG")],
    )
    chain, service = story.chain(), Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = observe(service.config, chain)
    assert Trade.get(Trade.signature == filled).kind == "order_fill"
    assert judge(seen, [(filled, None)]) == [verdict]
    assert find_differences(service, seen, chain) == []
    service.close()


@pytest.mark.parametrize("since, verdict", [(0, ("verified", None)), (1, OTHER)])
def test_an_earlier_bots_sale_verifies_nothing_of_a_later_claim(tmp_path, since, verdict):
    """Another bot held the wallet before: until its first transaction, or until its last one."""
    story = Story()
    story.fund("ada", 10**9)
    story.buy("ada", "CAT", 100, 500_000)
    sold = story.sell("ada", "CAT", 60, 400_000)
    chain, service = story.chain(), Service(tmp_path / "data", evidence_per_minute=10**6)
    seen = Lookout.begin(service.config, FakeNode(chain), wallets=[ADA])
    late = (BEGIN_TIME + 3_600) * 1_000 * since
    old = influencers.create_bot(service.config, "Old", BEGIN).bot
    Attachment.update(bot=old, attached_at=0, detached_at=late).execute()
    Attachment.create(bot=Bot.get(), wallet=Wallet.get(), ownership="claimed", attached_at=late)
    wallets.share_history(Wallet.get().id, Bot.get().id)
    seen.settle()
    assert judge(seen, [(sold, "CAT"), (sold, None)]) == [verdict] * 2
    assert find_differences(service, seen, chain) == []
    service.close()
