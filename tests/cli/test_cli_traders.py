"""trader, review, rebuild --trader on the command line."""

import pytest
from test_cli import cli, shown  # noqa: F401  (a fixture)

from paper.tables import Period, Trader


def test_a_trader_is_created_and_listed(cli):  # noqa: F811
    made = shown(cli, "trader", "create", "--name", "Ada Paper", "--family", "momentum")
    assert set(made) == {"traderId", "ownerId", "recoveryCode"} and made["recoveryCode"]
    more = ("--start", "standard", "--owner", made["ownerId"])
    second = shown(cli, "trader", "create", "--name", "Bo", "--family", "flow", *more)
    assert second["ownerId"] == made["ownerId"] and second["recoveryCode"] is None
    rows = shown(cli, "trader", "list")["data"]
    assert [(row["name"], row["family"], row["retired"]) for row in rows] == [
        ("Ada Paper", "momentum", False),
        ("Bo", "flow", False),
    ]
    voice = shown(cli, "trader", "voice", made["traderId"], "--tone", "solemn")
    assert voice["tone"] == "solemn"
    assert '"tone":"solemn"' in Trader.get(Trader.uid == made["traderId"]).voice


def test_a_review_is_opened_cleared_and_withholds_a_reset(cli):  # noqa: F811
    trader = shown(cli, "trader", "create", "--name", "Ada", "--family", "breakout")["traderId"]
    assert shown(cli, "review", "open", trader, "--reason", "a look")["review"] == "under_review"
    assert cli("review", "open", trader, "--reason", "again")[0] == 1
    assert cli("trader", "reset", trader, "--reason", "early")[0] == 1
    assert shown(cli, "review", "clear", trader, "--reason", "fine")["review"] == "cleared"
    code, _, err = cli("review", "uphold", trader, "--reason", "late")
    assert code == 1 and "no open review" in err
    assert shown(cli, "trader", "reset", trader, "--reason", "fresh")["period"] == 2
    assert Period.select().where(Period.twin == 0).count() == 2


def test_rebuild_of_a_new_trader_changes_nothing(cli):  # noqa: F811
    trader = shown(cli, "trader", "create", "--name", "Ada", "--family", "momentum")["traderId"]
    code, out, _ = cli("rebuild", "--trader", trader)
    assert code == 0 and "nothing changed" in out


@pytest.mark.parametrize(
    "argv, code",
    [
        (("trader", "create", "--name", "Ada", "--family", "astrology"), 2),
        (("trader", "create", "--name", "", "--family", "flow"), 1),
        (("trader", "create", "--name", "Ada"), 2),
        (("trader", "create", "--name", "Ada", "--family", "flow", "--owner", "owner_x"), 1),
        (("trader", "voice", "trader_x", "--tone", "dry"), 1),
        (("review", "clear", "trader_x", "--reason", "x"), 1),
        (("review", "clear", "trader_x"), 2),
        (("rebuild", "--trader", "trader_x"), 1),
    ],
)
def test_a_refused_command_creates_no_trader(cli, argv, code):  # noqa: F811
    assert cli(*argv)[0] == code and not Trader.select().exists()
