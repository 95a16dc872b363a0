"""Responses match the OpenAPI document in both directions, checked on the demo."""

import re
import time
from datetime import datetime

import ground
import orjson
import pytest
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend
from openapi_spec_validator import validate
from quoted import RAW, derive, observe_quote, quote_trade
from service import address, make_season, signature
from test_demo import chain, recording, show, staged  # noqa: F401  the demonstration, filled

import models
from accounts import traders as accounts
from chain.reading.currencies import find_stablecoin
from paper import results
from paper import tables as paper_tables
from web.api import openapi

SECTION = "#/components/schemas/"
# Members that don't occur in this story, with the test that covers each.
ELSEWHERE = {
    # If the database is PostgreSQL.
    "database.postgresql",
    # While nothing has been discovered (test_v1).
    "MarketList.note",
    # 429 (test_ratelimit)
    "Problem.window",
    # test_quotas
    *(f"Problem.{one}" for one in ("quota", "setting", "limit", "used")),
}
# Bodies, and shapes that tests/accounts/test_registration.py covers.
UNSEEN = ("PostBody.", "RegistrationBody.", "Challenge.", "Registered.")


# ---- what the document allows --------------------------------------------------------------------
def close(schema, is_extended=False):
    """A copy of a schema in which objects have the described members only."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: close(one) for name, one in schema.items() if name != "allOf"}
    if "allOf" in schema:
        made["allOf"] = [close(one, is_extended=True) for one in schema["allOf"]]
    is_object = {"$ref", "allOf"} & schema.keys() or schema.get("type") == "object"
    if is_object and not is_extended:
        made["unevaluatedProperties"] = False
    return made


def list_objects(schema, name):
    """(name, schema) of this shape and of the inline objects in it."""
    yield name, schema
    inner = [schema.get("items"), schema.get("additionalProperties")]
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), *inner):
        yield from list_objects(part, name) if isinstance(part, dict) else ()
    for member, part in schema.get("properties", {}).items():
        yield from list_objects(part, member)


def is_time(value):
    whole = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"
    return bool(re.fullmatch(whole, value)) and bool(datetime.fromisoformat(value))


def check_type(validator, kind, value, schema):
    """A time is described as one, and only a time."""
    yield from Draft202012Validator.VALIDATORS["type"](validator, kind, value, schema)
    if isinstance(value, str) and is_time(value) != (schema.get("format") == "date-time"):
        yield ValidationError(f"{value!r}: a time, or described as a time, but not both")


class Shapes:
    """Checks responses against the document's shapes. `members`: all of them; `seen`: those that
    occurred.
    """

    def __init__(self, document):
        shapes = document["components"]["schemas"].items()
        self.schemas = {name: close(shape, is_extended=True) for name, shape in shapes}
        objects = [one for name, shape in self.schemas.items() for one in list_objects(shape, name)]
        self.names = {id(schema): name for name, schema in objects}
        self.members = {
            f"{name}.{one}" for name, schema in objects for one in schema.get("properties", ())
        }
        self.seen = set()
        checks = {"properties": self.note_members, "type": check_type}
        self.validator = extend(Draft202012Validator, checks)

    def note_members(self, validator, properties, value, schema):
        if isinstance(value, dict) and id(schema) in self.names:
            name = self.names[id(schema)]
            self.seen |= {f"{name}.{one}" for one in value.keys() & properties.keys()}
        yield from Draft202012Validator.VALIDATORS["properties"](
            validator, properties, value, schema
        )

    def check(self, value, schema, place):
        whole = {**close(schema), "components": {"schemas": self.schemas}}
        fault = best_match(self.validator(whole).iter_errors(value))
        assert fault is None, f"{place}: {fault.json_path}: {fault.message}"


# ---- responses -----------------------------------------------------------------------------------
def list_answers(show):  # noqa: F811
    """(operation, JSON response) of every route, with existing IDs, page after page."""
    key = show.keys.read_key
    ids = {
        "bot": [bot["id"] for bot in show.get("/api/v1/bots?limit=100", key).json["data"]],
        "post": [show.get("/api/v1/feed", key).json["data"][0]["id"]],
        "trader": [one["id"] for one in show.get("/api/traders").json["data"]],
        "season": [one["id"] for one in show.get("/api/v1/seasons", key).json["data"]],
    }
    ids["season"] = ids["season"] or [make_season().uid]
    mint = show.get("/api/v1/trades", key).json["data"][0]["mint"]
    for operation in openapi.OPERATIONS:
        if operation.method != "get" or operation.answer is None:
            continue
        known = {one["name"]: one["description"] for one in openapi.list_parameters(operation)}
        uids = ids[known["id"].removeprefix("ID of the ")] if "id" in known else [""]
        paths = [operation.path.replace("{id}", uid) for uid in uids]
        # Another list's parameter is an error.
        query = {name: text for name, text in {"mint": mint, "q": "the"}.items() if name in known}
        for path in paths:
            yield operation, show.get(path, key, query_string=query)
        if operation.name == "getLeaderboard":
            yield operation, show.get(operation.path, key, query_string={"currency": "USDC"})
        query["limit"] = 100
        for _ in range(20 if "cursor" in known else 0):
            answer = show.get(paths[0], key, query_string=query)
            yield operation, answer
            query["cursor"] = answer.json["nextCursor"]
            if not query["cursor"]:
                break


@pytest.fixture(scope="module")
def document():
    return openapi.build_document("http://127.0.0.1:8000", demonstration=True)


def add_rare_things(show, now):  # noqa: F811
    """Things that a demonstration lacks: a gap, a receipt from which nothing could be derived, a
    wallet with an error and near a limit, an imbalance, a gift during a trade, pending orders, a
    pause and a lesson.
    """
    with show.database.connection_context():
        held = models.Attachment.detached_at.is_null()
        wallet = models.Wallet.select().join(models.Attachment).where(held).first()
        budgets = {"dexscreener": {"day": 0, "requests": 1, "allowed": 2}}
        job = {"name": "scout", "state": "ok", "details": dump({"budgets": budgets})}
        models.Job.insert(**job).on_conflict_ignore().execute()
        gap = {"fromSlot": 1, "toSlot": 2, "reason": "the node has forgotten"}
        coverage = orjson.loads(wallet.coverage) | {"gaps": [gap]}
        trouble = {"trouble": "the node does not answer", "trouble_at": now, "trouble_tries": 1}
        imbalance = {
            "imbalance": 1,
            "stablecoin_imbalance": dump({find_stablecoin("USDC").mint: 1}),
        }
        changed = models.Wallet.update(coverage=dump(coverage), filled=81, **trouble, **imbalance)
        changed.where(models.Wallet.id == wallet.id).execute()
        mint = models.Trade.select().where(models.Trade.kind == "buy").first().mint
        gifted = models.Trade.update(beside_sol=1, beside_tokens=dump([[mint, "1", 0]]))
        gifted.where(models.Trade.mint == mint).execute()
        seen = {"signature": signature("rare"), "slot": 1, "seen_at": now}
        models.WalletSignature.create(wallet=wallet, problem="it is no receipt", **seen)
        add_quote(wallet)
        add_follower(wallet)
        settings = {"bot": models.Bot.get().uid}
        accounts.create_trader("Copycat", "copy", now, settings=settings)
        add_paper(paper_tables.Period.get(paper_tables.Period.closed_at.is_null()), now)


def dump(value):
    return orjson.dumps(value).decode()


def add_follower(wallet):
    """A bot with computed copying results."""
    paper_tables.CopyTotal.delete().execute()
    shares = {"spent": 5, "received": 6, "sales": 12, "used": 10, "covered": 83, "tokens": 3}
    returns = {"return_bps": 1_410, "worst_bps": 800, "bot_bps": 1_560, "kept": 90}
    paper_tables.CopyTotal.create(
        bot=wallet.bot_id, size=10**9, mark="", at=0, excluded='[["route", 2]]', **shares, **returns
    )


def add_quote(wallet):
    """Trades against a stablecoin, and its reconciliation."""
    trades = models.Trade.select().where(models.Trade.wallet == wallet)
    trade = trades.order_by(models.Trade.slot.desc()).first()
    quote_trade(trade.uid, change=5, status="matched", result=-3, proceeds=5, cost=8)
    observe_quote(wallet.address, realized=-3, trades=4, matched=3)
    usdc = find_stablecoin("USDC").mint
    lines = dict.fromkeys(RAW, "0") | {"costLeftReceipts": 0}
    derive(wallet.address, {usdc: {"reconciliation": lines, "averageCost": None, "positions": []}})


def add_paper(period, now):
    token = {"mint": address("rare"), "symbol": "RARE", "decimals": 6, "amount": "1"}
    times = {"decided_on": 1, "decided_at": now, "due_at": now, "expires_at": now}
    order = {"period": period, "reason": "flow", "state": "open", **token, **times}
    for number, side in enumerate(("buy", "sell"), 90_000):
        paper_tables.PaperOrder.create(number=number, side=side, **order)
    until, day, rates = now + 86_400_000, 86_400_000, results.describe_rates([])
    pause = {"what": "begun", "id": "p", "rule": "stop_cluster", "effect": "no_entry", "n": 3}
    pause |= {"windowMs": day, "numbers": "3 stops", "until": until}
    lesson = {"what": "lesson", "key": "k", "text": "Of 8 closes 2 won.", "n": 8, "windowMs": day}
    lesson |= {"closeIds": ["close_1"], "expiresAt": until}
    lesson["evidence"] = {**rates, "randomEntry": rates}
    for kind, said in (("pause", pause), ("lesson", lesson)):
        facts = orjson.dumps(said).decode()
        paper_tables.DiaryEntry.create(period=period, at=now, kind=kind, facts=facts)


def list_refusals(show):  # noqa: F811
    """One error of each kind that has its own members."""
    key = show.keys.publish_keys[0]
    show.post({"eventId": "shapes", "body": "one"}, key)
    yield show.post({"eventId": "shapes", "body": "two"}, key), 409
    yield show.post({"eventId": "shapes"}, key), 422
    yield show.get("/api/v1/bots?limit=x", key), 400


# a demonstration is a file, whatever engine the tests run on
@ground.sqlite_only
def test_every_response_has_exactly_the_documented_fields(show, document):  # noqa: F811
    add_rare_things(show, time.time_ns() // 1_000_000)
    shapes, count = Shapes(document), 0
    for operation, answer in list_answers(show):
        assert answer.status_code == 200, (operation.path, answer.json)
        found = document["paths"][operation.path]["get"]["responses"]["200"]["content"]
        shapes.check(answer.json, found["application/json"]["schema"], operation.path)
        count += 1
    said = {"eventId": "published", "body": "one"}
    published = show.post(said, show.keys.publish_keys[0])
    shapes.check(published.json, {"$ref": f"{SECTION}Post"}, "POST /api/v1/posts")
    for answer, status in list_refusals(show):
        assert answer.status_code == status
        shapes.check(answer.json, {"$ref": f"{SECTION}Problem"}, f"a refusal, {status}")
    assert count >= len(openapi.OPERATIONS) - 4
    # The demonstration's own members are in lists only.
    wanted = {one for one in shapes.members if not one.startswith(UNSEEN)}
    assert {one for one in wanted if not one.endswith(".demonstration")} - shapes.seen == ELSEWHERE


def test_a_real_instance_does_not_mention_demonstrations():
    shown = orjson.dumps(openapi.build_document("http://127.0.0.1:8000")["components"])
    assert b'"demonstration":' not in shown


# ---- what generators of clients stumble over -----------------------------------------------------
def list_schemas(value):
    """Every object of the document, at any depth."""
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    for one in value if isinstance(value, list) else ():
        yield from list_schemas(one)


def test_the_schema_has_no_constants_or_null_defaults(document):
    for one in list_schemas(document):
        assert "const" not in one and one.get("default", 0) is not None, one
    members = document["components"]["schemas"]["Trade"]["properties"]
    assert members["realized"]["$ref"].endswith("/Realized")
    assert "errors" not in document["components"]["schemas"]["Problem"]["required"]


def test_every_operation_and_shape_has_a_description(document):
    operations = [one for item in document["paths"].values() for one in item.values()]
    told = {tag["name"] for tag in document["tags"] if tag["description"]}
    assert {tag for one in operations for tag in one["tags"]} == told
    parameters = [one for each in openapi.OPERATIONS for one in openapi.list_parameters(each)]
    for one in (*document["components"]["schemas"].values(), *parameters):
        assert one["description"]
    names = [one["operationId"] for one in operations if one["summary"]]
    assert len({*names}) == len(operations)
    for name in names:
        assert re.fullmatch("[a-z]+([A-Z][a-z]+)*", name)


def test_the_down_state_of_health_is_documented(document):
    answers = document["paths"]["/api/health"]["get"]["responses"]
    assert answers["503"]["content"].keys() == {"application/problem+json", "application/json"}


def test_the_document_is_valid_openapi(document):
    validate(document)
