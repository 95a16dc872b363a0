"""Registration by agents: what a wallet signs, what the agent receives, who becomes the owner; and
at a running instance, with skill.md and a shell, and with MCP tools.
"""

import json
import shutil
from types import SimpleNamespace

import ground
import orjson
import pytest
from live import Live
from service import NOW, address
from solders.keypair import Keypair
from test_admin_pages import log_in
from test_guides import read_blocks, run
from test_mcp import call, talk_as

from accounts import acts, influencers, registration
from accounts.keys import make_key
from accounts.tables import AdminAct, Ban, Registration
from chain.addresses import b58encode
from models import Attachment, Bot, Owner, Session

AGENT = Keypair.from_seed(bytes(32))
SECONDS, DAY_MS = 1000, 86_400_000
ANSWER = ("bot", "publishKey", "claimUrl", "claimExpiresAt")


@pytest.fixture
def clock(monkeypatch):
    """clock.now: UTC ms of every request."""

    class Clock:
        now = NOW

    monkeypatch.setattr("web.server.gate.time.time_ns", lambda: Clock.now * 1_000_000)
    return Clock


@pytest.fixture
def opened(serve, clock):
    return serve(self_registration="on")


def send(service, path, body, **more):
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return service.ask("POST", path, data=raw, **{"content_type": "application/json", **more})


def challenge(service, agent=AGENT, **more):
    answer = send(service, "/api/v1/bots/challenge", {"wallet": str(agent.pubkey())}, **more)
    assert answer.status_code == 200, answer.text
    return answer.json


def sign(agent, text):
    return str(agent.sign_message(text.encode()))


def fill(service, agent=AGENT, name="Nell", **more):
    """A valid registration's body, except for `more`."""
    given = challenge(service, agent)
    signed = {"signature": sign(agent, given["text"]), "nonce": given["nonce"]}
    return {"name": name, "wallet": str(agent.pubkey()), **signed, **more}


def make_agent(number):
    return Keypair.from_seed(number.to_bytes(32))


def register(service, agent=AGENT, name="Nell", body=None, **more):
    return send(service, "/api/v1/bots", body or fill(service, agent, name), **more)


def code_of(answer):
    return answer.json["claimUrl"].partition("#")[2]


def check_refused(answer, field, why=""):
    assert answer.status_code == 422, answer.text
    assert answer.json["errors"][0]["field"] == field and why in answer.json["detail"]


# ---- from nothing to a bot -----------------------------------------------------------------------
def test_an_agent_registers_posts_and_gets_a_proven_wallet(opened):
    given = challenge(opened)
    assert given["expiresAt"] == "2026-11-05T12:05:00Z"
    for part in (opened.config.base_url, str(AGENT.pubkey()), given["nonce"], "12:05:00Z"):
        assert part in given["text"]
    voice = {"tone": "dry", "topics": ["winter"]}
    answer = register(opened, body=fill(opened, bio="Few  arrows.", voice=voice))
    assert answer.status_code == 201
    assert answer.json.keys() == {*ANSWER}
    bot = answer.json["bot"]
    assert answer.headers["Location"] == f"/api/v1/bots/{bot['id']}"
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.json["claimExpiresAt"] == "2026-12-05T12:00:00Z"
    check_bot(bot, bot["id"])
    assert bot["bio"] == "Few arrows."
    assert {**bot["voice"], **voice} == bot["voice"] and bot["voice"]["style"] == []
    posted = opened.post({"eventId": "1", "body": "Hello."}, answer.json["publishKey"])
    assert posted.status_code == 201 and posted.json["botId"] == bot["id"]
    # Nobody can sign in to the account.
    assert Session.select().count() == 0
    assert "recovery" not in answer.text.lower()


def check_bot(bot, uid):
    held = bot["wallet"]["address"], bot["wallet"]["ownership"]
    assert (bot["id"], bot["name"], *held) == (uid, "Nell", str(AGENT.pubkey()), "proven")


def test_a_closed_instance_refuses_agents_and_names_the_setting(serve, clock):
    closed = register(serve(self_registration="on", registration="closed"))
    assert Bot.select().count() == 0
    service, body = serve(), {"wallet": str(AGENT.pubkey())}
    off = [send(service, f"/api/v1/bots{path}", body) for path in ("", "/challenge")]
    assert all("SELF_REGISTRATION" in one.json["detail"] for one in off)
    told = {(one.status_code, one.json["code"]) for one in (closed, *off)}
    assert told == {(403, "registration_closed")} and Bot.select().count() == 0


# ---- once more -----------------------------------------------------------------------------------
def test_a_lost_response_does_no_harm(opened, clock):
    first = register(opened)
    clock.now += 1
    again = register(opened, name="Another name")
    assert again.status_code == 200 and "Location" not in again.headers
    check_bot(again.json["bot"], first.json["bot"]["id"])
    assert Bot.select().count() == 1
    post = {"eventId": "1", "body": "Hello."}
    assert opened.post(post, first.json["publishKey"]).status_code == 401
    assert opened.post(post, again.json["publishKey"]).status_code == 201
    assert registration.find_claim(code_of(first), clock.now) is None
    assert registration.find_claim(code_of(again), clock.now).bot.name == "Nell"


@pytest.mark.parametrize("set_back", [0, 60 * SECONDS])
def test_a_nonce_works_once_even_if_the_clock_jumps(opened, clock, set_back):
    body = fill(opened)
    clock.now -= set_back
    assert register(opened, body=body).status_code == 201
    check_refused(register(opened, body=body), "nonce", "already used")


def test_a_refused_name_does_not_use_up_the_nonce(opened):
    opened.make_bot("Nell")
    body = fill(opened)
    check_refused(register(opened, body=body), "name")
    assert register(opened, body={**body, "name": "Otto"}).status_code == 201


@pytest.mark.parametrize("end", ["bot_retired", "owner_banned", "wallet_banned"])
def test_a_retired_bot_stays_retired_and_a_banned_one_until_the_ban_ends(opened, clock, end):
    first = register(opened).json["bot"]["id"]
    row = Registration.get()
    banned = {"owner_banned": row.bot.owner.uid, "wallet_banned": row.wallet}.get(end)
    if banned:
        ban = acts.ban_owner if end == "owner_banned" else acts.ban_wallet
        ban(banned, "me", "spam", NOW)
    else:
        influencers.retire_bot(row.bot, NOW)
    clock.now += 1
    assert register(opened).json["code"] == end and Bot.select().count() == 1
    if banned:
        acts.lift_ban(end.partition("_")[0], banned, "me", "a mistake", NOW)
        clock.now += 1
        check_bot(register(opened).json["bot"], first)


# ---- what is refused -----------------------------------------------------------------------------
OTHER, MALLORY = (Keypair.from_seed(bytes([n]) * 32) for n in (2, 3))
ELSEWHERE = "https://elsewhere.example"


def forge_challenge(service, secret=None, **changes):
    """A valid proof, except for the secret of its nonce or the settings of its instance."""
    config = ground.change(service.config, **changes)
    wallet = str(AGENT.pubkey())
    given = registration.make_challenge(config, secret or service.app.secret, wallet, NOW)
    return {"nonce": given.nonce, "signature": sign(AGENT, given.text)}


def sign_otherwise(service, signer=AGENT, old="", new=""):
    given = challenge(service)
    text = given["text"].replace(old, new) if old else given["text"]
    return {"nonce": given["nonce"], "signature": sign(signer, text)}


# What differs from a valid body, by what the error names.
FORGED = {
    "nonce": {
        "another wallet": lambda service, body: {"wallet": str(OTHER.pubkey())},
        "another wallet's": lambda service, body: {"nonce": challenge(service, OTHER)["nonce"]},
        "another instance": lambda service, body: forge_challenge(service, base_url=ELSEWHERE),
        "another secret": lambda service, body: forge_challenge(service, "x" * 64),
        "an invented time": lambda _, body: {"nonce": f"{NOW + 1:011x}{body['nonce'][11:]}"},
    },
    "signature": {
        "another signer": lambda service, body: sign_otherwise(service, MALLORY),
        "another text": lambda service, body: {"signature": sign(AGENT, "I own this wallet.")},
        "another base URL": lambda service, body: sign_otherwise(
            service, old=service.config.base_url, new=ELSEWHERE
        ),
    },
}


@pytest.mark.parametrize(
    ("field", "name"), [(field, name) for field, forgeries in FORGED.items() for name in forgeries]
)
def test_a_forged_proof_is_refused_with_the_reason(opened, field, name):
    body = fill(opened)
    body |= FORGED[field][name](opened, body)
    answer = register(opened, body=body)
    check_refused(answer, field)
    assert len(answer.json["errors"]) == 1
    assert body["signature"] not in answer.text and body["nonce"] not in answer.text
    assert Bot.select().count() == 0


def test_a_challenge_expires_after_five_minutes(opened, clock):
    body = fill(opened)
    clock.now = NOW + 300 * SECONDS
    check_refused(register(opened, body=body), "nonce", "expired")
    clock.now -= 1
    assert register(opened, body=body).status_code == 201


HOSTILE = {
    "name": (5, "x" * 60_000, make_key("claim")),
    "bio": (["a"],),
    "voice": ("dry", {"mood": "dry"}, {"tone": ["dry"]}),
    "wallet": (7, address("nobody's curve")[:20]),
    "signature": ("1" * 60_000,),
    "nonce": ("%s%n", "\u0661" * 59),
    "owner": ("owner_1",),
}


@pytest.mark.parametrize("field", HOSTILE)
def test_hostile_fields_are_refused_and_named(opened, field):
    body = fill(opened)
    for wrong in HOSTILE[field]:
        named = "tone" if wrong == {"tone": ["dry"]} else field
        check_refused(register(opened, body={**body, field: wrong}), named)
    assert Bot.select().count() == 0 and Owner.select().count() == 0


def test_an_address_without_a_key_is_refused_before_signing(opened):
    # A derived address is off the curve (RFC 8032, 5.1.3: y = 2 has no x).
    off_curve = b58encode(b"\x02" + bytes(31))
    wrong = {off_curve: "cannot be proven", str(AGENT): "secret key"}
    for wallet, why in wrong.items():
        answer = send(opened, "/api/v1/bots/challenge", {"wallet": wallet})
        check_refused(answer, "wallet", why)
        assert str(AGENT) not in answer.text


# ---- a thousand wallets --------------------------------------------------------------------------
def test_registrations_per_address_are_limited(serve, clock):
    """One a minute for 20 minutes, then none until the next day."""
    service, made = serve(self_registration="on", creations_per_minute=1), 0
    for _minute in range(25):
        for _ in range(2):
            answer = register(service, make_agent(made), f"Bot {made:x} of many")
            made += answer.status_code == 201
        assert answer.json["code"] == "rate_limited"
        clock.now += 60 * SECONDS
    assert made == 20 and answer.json["window"] == "registrations_day"
    assert int(answer.headers["Retry-After"]) > 3600
    elsewhere = register(service, make_agent(made), "Elsewhere", peer="192.0.2.9")
    assert elsewhere.status_code == 201
    clock.now += DAY_MS
    assert register(service, make_agent(made + 1), "Tomorrow").status_code == 201


def test_wrong_signatures_count_as_failed_authentication(serve, clock):
    service = serve(self_registration="on", failed_auth_per_minute=2)
    body = fill(service, signature=sign(AGENT, "something else"))
    codes = [register(service, body=body).json["code"] for _ in range(3)]
    assert codes == ["validation_failed", "validation_failed", "rate_limited"]


def test_the_operator_bans_all_accounts_from_a_source(opened, clock, monkeypatch):
    """Seven agents, the last one from elsewhere. The first was claimed by a new owner, who then
    claimed the second too; Ada's account has the third. Three bots at once, oldest first.
    """
    monkeypatch.setattr("web.site.admin.changes.MAX_BANNED", 3)
    agents, made = [make_agent(n) for n in range(1, 8)], []
    addresses = [str(agent.pubkey()) for agent in agents]
    for n, agent in enumerate(agents):
        peer = "192.0.2.1" if n < 6 else "192.0.2.2"
        clock.now += 60 * SECONDS
        made.append(register(opened, agent, f"Bot {'abcdefg'[n] * 3}", peer=peer))
    ada = influencers.create_bot(opened.config, "Ada", NOW).owner

    def claim(n, owner):
        return registration.claim(opened.config, code_of(made[n]), owner, NOW).owner

    kept = claim(0, None)
    claim(1, kept)
    claim(2, ada)
    source = Registration.get(Registration.wallet == addresses[0]).source
    assert len(source) == 12 and "192" not in source
    operator = log_in(opened)
    page = operator.get("/admin/registrations").text
    assert all(one in page for one in addresses) and "claimed by an owner" in page
    few = operator.get(f"/admin/registrations?source={source}").text
    assert [one in few for one in addresses] == [True] * 6 + [False]
    path = f"/admin/registrations/{source}/ban"

    def list_banned(kind):
        return {ban.target for ban in Ban.select().where(Ban.kind == kind)}

    # Claimed bots are included if they stayed in the source's account; Ada's is not.
    for banned in ((0, 1, 3), (0, 1, 3, 4, 5)):
        assert operator.send(path, page=path, reason="a farm").status_code == 302
        assert list_banned("wallet") == {addresses[n] for n in banned}
    owners = list_banned("owner")
    assert len(owners) == 4 and kept.uid in owners and ada.uid not in owners
    assert AdminAct.select().where(AdminAct.reason == "a farm").count() == 9
    held = Attachment.select().where(Attachment.detached_at.is_null())
    assert {one.wallet.address for one in held} == {addresses[2], addresses[6]}
    again = operator.send(path, page=path, reason="again")
    assert "Nothing changed" in operator.get(again.headers["Location"]).text
    clock.now += 1
    assert register(opened, agents[3], "Once more").json["code"] == "owner_banned"


def test_the_command_line_lists_and_bans_by_source(opened, capsys):
    from app import main

    register(opened)
    row = Registration.get()
    with pytest.MonkeyPatch.context() as patch:
        ground.enter(patch, opened.config.data_dir)
        assert main(["owner", "registered", "--json"]) == 0
        (shown,) = orjson.loads(capsys.readouterr().out)["data"]
        told = shown["wallet"], shown["source"], shown["claimedAt"]
        assert told == (row.wallet, row.source, None)
        # Deleted accounts have no source, and aren't banned together.
        assert acts.ban_source("", "me", "spam", NOW) == 0
        assert main(["owner", "ban", "--source", row.source, "--reason", "spam", "--json"]) == 0
        assert orjson.loads(capsys.readouterr().out) == {"banned": 1}
        assert main(["owner", "ban"]) == 1 and "not both" in capsys.readouterr().err


# ---- at a running instance -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def live(tmp_path_factory):
    server = Live(tmp_path_factory.mktemp("agents"), SELF_REGISTRATION="on")
    yield server
    server.stop()


@pytest.mark.skipif(not shutil.which("curl"), reason="the examples use curl")
def test_an_agent_registers_and_posts_with_only_skill_md(live):
    agent = Keypair.from_seed(bytes([1]) * 32)
    asking, registering, who, posting, _ = read_blocks(live, "/skill.md")
    # Nothing else of the server's environment.
    shell = SimpleNamespace(environ={"PATH": live.environ["PATH"]})
    environ = {"WALLET": str(agent.pubkey()), "NAME": "Shell"}

    def answer(script, **more):
        environ.update(more)
        done = run(shell, script, **environ)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    given = answer(asking)
    proof = str(agent.sign_message(given["text"].encode()))
    made = answer(registering, PROOF=proof, NONCE=given["nonce"])
    assert tuple(made) == ANSWER
    assert answer(who, CANDOR_KEY=made["publishKey"])["botId"] == made["bot"]["id"]
    transaction = str(Keypair.from_seed(bytes([2]) * 32).sign_message(b"a transaction"))
    done = run(shell, posting, **environ, SIGNATURE=transaction, MINT=str(agent.pubkey()))
    assert done.returncode == 0, done.stderr
    posts = [post for post in live.feed()["data"] if post["botId"] == made["bot"]["id"]]
    assert [post["verification"]["status"] for post in posts] == ["pending", "none"]


def test_an_agent_registers_over_stdin_and_continues_with_its_key(live):
    agent, words = Keypair.from_seed(bytes([3]) * 32), {"eventId": "1", "body": "b"}

    async def ask(client):
        before = await call(client, "publish_post", **words)
        wallet = {"wallet": str(agent.pubkey())}
        given = (await call(client, "request_challenge", **wallet))[1]["answer"]
        signature = str(agent.sign_message(given["text"].encode()))
        proof = {**wallet, "signature": signature, "nonce": given["nonce"]}
        made = await call(client, "register_bot", name="Stdin", **proof)
        return before, made, await call(client, "publish_post", **words)

    (refused, text), (failed, made), (unread, post) = talk_as(live, ask, CANDOR_KEY="")
    assert refused and "missing_key" in text
    assert not failed and made["answer"]["bot"]["name"] == "Stdin"
    assert made["answer"]["claimUrl"].startswith(f"{live.url}/claim#cnd_claim_")
    assert not unread and post["answer"]["botId"] == made["answer"]["bot"]["id"]
