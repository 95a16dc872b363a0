"""trader, review: influencers of paper mode, and the questions about their records."""

from cli import add_command, now_ms, say
from cli.people import with_database


def add_commands(commands):
    trader = commands.add_parser("trader", help="influencers of paper mode").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    create = add_command(trader, "create", run_create, "an influencer with virtual funds")
    create.add_argument("--name", required=True)
    create.add_argument(
        "--family", required=True, choices=("momentum", "mean_reversion", "breakout", "flow")
    )
    create.add_argument("--start", default="guarded", choices=("guarded", "standard"))
    create.add_argument("--adaptive", default="observe", choices=("off", "observe", "on"))
    create.add_argument("--owner", metavar="ID", help="an existing owner; else a new one is made")
    add_command(trader, "list", run_list, "all traders")
    voice = add_command(trader, "voice", run_voice, "how it speaks from now on")
    voice.add_argument("trader", metavar="TRADER")
    voice.add_argument("--tone", required=True)
    reset = add_command(
        trader, "reset", run_reset, "a new numbered account period; the old one stays readable"
    )
    reset.add_argument("trader", metavar="TRADER")
    reset.add_argument("--reason", required=True)

    review = commands.add_parser("review", help="questions about a trader's record").add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    for name, run, help in (
        ("open", run_review_open, "withhold its headline until the question is decided"),
        ("clear", run_review_clear, "nothing was wrong: the headline comes back"),
        ("uphold", run_review_uphold, "the record does not count; it starts guarded again"),
    ):
        command = add_command(review, name, run, help)
        command.add_argument("trader", metavar="TRADER")
        command.add_argument("--reason", required=True)


@with_database
def run_create(config, args):
    from accounts import owners, traders

    owner = owners.find_owner(args.owner) if args.owner else None
    made = traders.create_trader(
        args.name, args.family, now_ms(), args.start, owner, adaptive=args.adaptive
    )
    shown = {
        "traderId": made.trader.uid,
        "ownerId": made.owner.uid,
        "recoveryCode": made.recovery_code,
    }
    say(
        args,
        shown,
        f"trader          {made.trader.uid}\nowner           {made.owner.uid}\nrecovery code  "
        f" {made.recovery_code or 'as before'}\nIts funds are virtual and its trades simulated. The"
        " code is shown this once only.",
    )


@with_database
def run_list(config, args):
    from accounts import traders

    rows = [
        {
            "traderId": one.uid,
            "ownerId": one.owner.uid,
            "name": one.name,
            "handle": one.handle,
            "family": one.family,
            "retired": one.retired_at is not None,
        }
        for one in traders.list_traders()
    ]
    say(
        args,
        {"data": rows},
        "\n".join(
            f"{row['traderId']}  {row['ownerId']}  {row['family']:14} "
            f" {row['name']}{'  (retired)' * row['retired']}"
            for row in rows
        ),
    )


@with_database
def run_voice(config, args):
    from accounts import traders

    trader = traders.find_trader(args.trader)
    traders.set_profile(trader, voice={"tone": args.tone})
    say(
        args,
        {"traderId": trader.uid, "tone": args.tone},
        "from now on it speaks so; earlier posts keep their words",
    )


@with_database
def run_reset(config, args):
    from accounts import traders

    trader = traders.find_trader(args.trader)
    period = traders.reset_trader(trader, args.reason, now_ms())
    say(
        args,
        {"traderId": trader.uid, "period": period.number},
        f"account period {period.number} begins; the earlier ones stay readable",
    )


def _decide(args, decide, state, words):
    from accounts import traders

    trader = traders.find_trader(args.trader)
    decide(traders)(trader, args.reason, now_ms())
    say(args, {"traderId": trader.uid, "review": state}, words)


@with_database
def run_review_open(config, args):
    _decide(
        args,
        lambda traders: traders.open_review,
        "under_review",
        "under review: its headline is withheld",
    )


@with_database
def run_review_clear(config, args):
    _decide(
        args,
        lambda traders: traders.clear_review,
        "cleared",
        "cleared: its headline is shown again",
    )


@with_database
def run_review_uphold(config, args):
    _decide(
        args,
        lambda traders: traders.uphold_review,
        "upheld",
        "upheld: the record stays and does not count; it starts guarded again",
    )
