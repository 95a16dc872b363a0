"""Setting the stage: a DATA_DIR that says it is a demonstration's, the influencers in it, and what they posted before anybody looked."""
import dataclasses
from dataclasses import dataclass

import apsw

import config as settings
import keeping
import models
from demo import cast
from web import accounts, posts

DISPOSABLE = ("app.db*", "ratelimit.db*")                 # of an earlier demonstration: each one begins anew


@dataclass(frozen=True)
class Stage:
    """Publishing keys by place in cast.BOTS, and a key for whoever wants to read the interface."""

    publish_keys: tuple
    read_key: str


def clear_folder(data_dir):
    """Make way in a demonstration's DATA_DIR; Refused where it holds real data, or where a server runs."""
    with keeping.alone(data_dir):
        database = data_dir / "app.db"
        if database.exists() and not settings.is_demonstration(database):
            raise keeping.Refused(f"{data_dir} holds real data: a demonstration needs a DATA_DIR of its own")
        for pattern in DISPOSABLE:
            for path in data_dir.glob(pattern):
                path.unlink()
        with apsw.Connection(str(database)) as db:
            db.pragma("application_id", int.from_bytes(settings.DEMONSTRATION_ID))
        db.close()


def fill_database(config, recording, lines, start):
    """Migrate and people the database: Stage. `lines`: the posts before `start` (Unix seconds)."""
    models.migrate(models.connect(dataclasses.replace(config, demonstration=True)))
    try:
        with models.database.connection_context():
            began = (start + recording["transactions"][0]["at"]) * 1000
            bots = [_create(config, member, recording["wallets"], began) for member in cast.BOTS]
            for line in lines:
                _publish(bots[line.bot], line, (start + line.at) * 1000)
            return Stage(tuple(made.publish_key.text for made in bots), accounts.create_key(bots[0].owner, "read", start * 1000, "demonstration").text)
    finally:
        models.database.close_all()
        models.leave()


def _create(config, member, wallets, now):
    wallet = None if member.who is None else wallets[member.who]
    return accounts.create_bot(config, member.name, now, wallet, voice=member.voice, bio=member.bio)


def _publish(made, line, now):
    body, sanitized = posts.parse_post(line.fields)
    posts.publish(made.bot.id, body, now, "api", made.publish_key.key.id, sanitized)
