"""The forward record and the owner's counts in the API, in lamports."""

from service import NOW, address

from accounts import influencers, wallets
from models import Bot, Owner
from web.api.bots import round_to_two_digits

W, OTHER = address("w"), address("other")


def show(service, made):
    return service.get(f"/api/v1/bots/{made.bot.uid}", made.publish_key.text).json


def move(service, made, wallet):
    wallets.attach_wallet(service.config, Bot.get_by_id(made.bot.id), wallet, NOW + 5_000)


def describe_owner(bots=1, retired=0, tried=1, detached=0, realized=None):
    return {
        "influencers": bots,
        "retired": retired,
        "walletsTried": tried,
        "walletsDetached": detached,
        "realizedLamportsOfAll": realized,
    }


def test_the_record_has_the_results_fields_once_observed(service, bot):
    shown = show(service, bot)
    assert (shown["record"], shown["owner"]) == (None, describe_owner())
    service.observe_results(W, 9)
    service.observe_span(
        W, 2, open_cost=40, realized=-5, volume=250, trades=3, matched=1, winning=0, cost_left=4
    )
    shown = show(service, bot)
    record = shown["record"]
    assert set(record) == set(shown["results"])
    assert record["since"] == shown["wallet"]["attachedAt"]
    names = ("realizedLamports", "realizedSol", "volumeLamports", "costLeftLamports")
    assert [record[name] for name in names] == ["-5", "-0.000000005", "250", "4"]
    names = ("observedTrades", "matchedSells", "openPositions")
    assert [record[name] for name in names] == [3, 1, 2]


def test_a_replaced_losing_wallet_stays_in_the_record(service, bot):
    """-4 SOL with the first, 0.5 SOL of whose cost was still held, then 1 SOL with the second: -3
    in all, also in the owner's total.
    """
    service.observe_span(W, open_cost=5 * 10**8, open_positions=1, realized=-4 * 10**9, matched=4)
    move(service, bot, OTHER)
    record = show(service, bot)["record"]
    assert record["realizedLamports"] == str(-4 * 10**9)
    assert (record["costLeftLamports"], record["openPositions"]) == (str(5 * 10**8), 0)
    service.observe_span(OTHER, realized=10**9, matched=1, open_positions=1)
    shown = show(service, bot)
    assert shown["record"]["realizedLamports"] == str(-3 * 10**9)
    assert (shown["record"]["matchedSells"], shown["record"]["openPositions"]) == (5, 1)
    assert shown["owner"] == describe_owner(tried=2, detached=1, realized=str(-3 * 10**9))


def test_an_owners_totals_cover_all_bots(service, bot):
    """Ada lost 2.34 SOL and is retired; Bob gained 0.1: -2.24, shown as -2.2."""
    service.observe_span(W, realized=-2_340_000_000)
    owner = Owner.get_by_id(bot.bot.owner_id)
    bob = influencers.create_bot(service.config, "Bob", NOW, OTHER, owner=owner)
    influencers.retire_bot(Bot.get_by_id(bot.bot.id), NOW + 9_000)
    service.observe_span(OTHER, realized=100_000_000)
    owner = describe_owner(bots=2, retired=1, tried=2, detached=1, realized="-2200000000")
    assert show(service, bob)["owner"] == owner
    rows = service.get("/api/v1/bots", bob.publish_key.text).json["data"]
    assert [row["record"]["realizedLamports"] for row in rows] == ["100000000", "-2340000000"]


def test_two_digits_are_kept():
    told = {0: 0, 7: 7, -99: -99, 104: 100, 105: 110, -105: -110, 9_960: 10_000}
    assert {lamports: round_to_two_digits(lamports) for lamports in told} == told
