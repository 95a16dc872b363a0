"""The instance's users: a bot that posts and repeats itself, and readers that follow.

They outlive all its processes, and remember what was acknowledged.
"""

from notify.client import Answer
from simulation.machinery import apart, demand
from storage import database
from web.api import stream

# For posts of a hook's owner.
HEARD = """
SELECT a.id FROM arrival a JOIN post p ON p.id = a.post_id JOIN bot b ON b.id = p.bot_id
JOIN hook h ON h.owner_id = b.owner_id WHERE h.id = ? ORDER BY a.id"""


class Poster:
    """Sends posts. `sent`: {event ID: (bot, body)}; `told`: acknowledged ones, {event ID: post ID};
    `held`: the addresses its bot had at each attempt so far, {event ID: [addresses, ...]}.
    """

    def __init__(self, world, bots):
        self._world, self._bots = world, bots
        self.key = bots[0].publish_key.text
        self.sent, self.told, self.hidden, self.held = {}, {}, set(), {}

    def send_new(self, bot, **named):
        number = len(self.sent)
        event = f"event {number}"
        said = {name: value for name, value in named.items() if value is not None}
        self.sent[event] = bot, {"eventId": event, "body": f"words of {number}", **said}
        self._send(event)

    def repeat(self, place, altered):
        """Send something again: the response is the same; other text for it is refused."""
        if not self.sent:
            return
        event = list(self.sent)[place % len(self.sent)]
        if altered and event in self.told:
            answer = self._ask(event, body="other words")
            demand(answer.status_code == 409, f"other words were answered {answer.status_code}")
        else:
            self._send(event)

    def hide(self, place, hide):
        if not self.told:
            return
        event = list(self.told)[place % len(self.told)]
        # The next request shows whether a kill came before or after.
        self.hidden.add(event)
        hide(self.told[event])

    def _send(self, event):
        if event not in self.told:
            held = self._world.list_held(self._bots[self.sent[event][0]].bot)
            self.held.setdefault(event, []).append(held)
        answer = self._ask(event)
        known = self.told.get(event)
        demand(answer.status_code in ((200,) if known else (200, 201)), f"{event}: {answer.data}")
        demand(known in (None, answer.json["id"]), f"{event} is another post now")
        self.told[event] = answer.json["id"]

    def _ask(self, event, **changes):
        bot, body = self.sent[event]
        key = self._bots[bot].publish_key.text
        return self._world.ask("POST", "/api/v1/posts", key, json={**body, **changes})


class Follower:
    """Polls the feed from a cursor."""

    # Everything must arrive once, in order of arrival.
    TRUE = """
    SELECT p.uid FROM arrival a JOIN post p ON p.id = a.post_id WHERE a.kind = 'post' ORDER BY a.id
    """

    def __init__(self, world):
        self._world, self.got = world, []
        answer = world.ask("GET", "/api/v1/feed", world.poster.key)
        self._cursor = answer.json["newestCursor"]

    def read(self, limit):
        path = f"/api/v1/feed?since={self._cursor}&limit={limit}"
        answer = self._world.ask("GET", path, self._world.poster.key).json
        self.got += [post["id"] for post in answer["data"]]
        self._cursor = answer["newestCursor"]
        return len(answer["data"])

    def read_all(self):
        while self.read(50):
            pass

    def check(self):
        true = [one for (one,) in database.execute_sql(self.TRUE)]
        demand(self.got == true, f"a {type(self).__name__} got something else")


class StreamReader(Follower):
    """Reads streams, and resumes after every disconnect."""

    TRUE = "SELECT id FROM arrival ORDER BY id"

    def read(self, limit):
        secret, base_url = self._world.app.secret, self._world.config.base_url
        with apart(), database.connection_context():
            after = self.got[-1] if self.got else 0
            events = stream.read_events(secret, base_url, after, limit)
        self.got += [event.arrival for event in events]
        return len(events)


class Receiver:
    """A webhook receiver. `taken`: accepted arrivals; `is_told`: it answered the last one."""

    def __init__(self):
        self.behavior, self.taken, self.is_told = "well", [], False

    def take(self, message, private):
        """Replaces notify.client.post."""
        told = message.headers["webhook-id"]
        self.is_told = self.behavior == "well"
        if "_ping_" not in told and self.behavior in ("well", "lost"):
            self._note(int(told.rpartition("_")[2]))
        if self.behavior == "well":
            return Answer(204, None)
        if self.behavior == "lost":
            return Answer(None, "did not respond in time")
        return Answer(503, "returned HTTP 503", 120 if self.behavior == "busy" else 0)

    def _note(self, arrival):
        """Record it. An event may come again after a lost response or a kill, but never early."""
        if arrival not in self.taken:
            newest = max(self.taken, default=0)
            demand(arrival > newest, f"arrival {arrival} came after {newest}")
            self.taken.append(arrival)

    def list_missing(self, hook_id):
        """Events since the hook was added that didn't arrive here."""
        rows = database.execute_sql(HEARD, (hook_id,)).fetchall()
        demand(set(self.taken) <= {number for (number,) in rows}, "the hook was told of nothing")
        return [number for (number,) in rows if number not in self.taken]
