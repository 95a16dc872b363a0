"""Fetch and check an instance's claims. They are untrusted, so everything is bounded."""

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evidence.document import FORMAT, digest_claims
from evidence.lines import (
    ADDRESS,
    DIGEST,
    ID,
    MOMENT,
    NAME,
    PAGE_SIZE,
    RAW,
    SIGNATURE,
    SLOT,
    TEXT,
    ClaimedPost,
    ClaimedReceipt,
    Json,
)
from market.failures import FetchError
from market.fetch import Limits, fetch, open_session

# Per document. 1,000 posts of maximum length use half of it.
MAX_BYTES = 64_000_000
LIMITS = Limits(connect_seconds=10, read_seconds=30, answer_seconds=120, max_bytes=MAX_BYTES)
MAX_PAGES, MAX_BOTS, MAX_ADDRESSES, MAX_SPANS = 1_000, 100_000, 100_000, 10_000
MAX_SEASONS = 10_000
# Per bot. Data about each wallet is kept until all of them were read.
MAX_WALLETS = 200
MAX_TRIES, PAUSE_SECONDS, MAX_WAIT_SECONDS = 4, 2.0, 90.0
# How often to read a document again because one of its pages changed.
MAX_READINGS = 3


class Nonsense(Exception):
    """An instance sent unusable evidence. The message says what is wrong with it."""


class Changed(Exception):
    """A page no longer matches the digest in its document. Both must be read again."""


class ClaimedUntouched(BaseModel):
    # The digest covers all claims, so extra members are allowed.
    model_config = ConfigDict(extra="allow")

    address: ADDRESS
    mint: ADDRESS
    amountRaw: RAW
    decimals: Annotated[int, Field(ge=0, le=255, strict=True)]


class ClaimedSpan(BaseModel):
    """A period in which a bot had the wallet. Derived data is in additional members."""

    model_config = ConfigDict(extra="allow")

    botId: ID | None = None
    ownership: Annotated[str, Field(max_length=20)] | None = None
    attachedAtMs: SLOT
    detachedAtMs: SLOT | None
    # None if nothing was published since the period began.
    openPositions: Annotated[str, Field(max_length=40)] | None


class ClaimedWallet(BaseModel):
    model_config = ConfigDict(extra="allow")

    address: ADDRESS
    rules: Annotated[str, Field(max_length=100)]
    backfilled: bool
    addresses: Annotated[list[ADDRESS], Field(max_length=MAX_ADDRESSES)]
    untouched: Annotated[list[ClaimedUntouched], Field(max_length=MAX_ADDRESSES)]
    coverage: dict[str, Any] | None
    sums: dict[str, Any]
    past: dict[str, Any]
    spans: Annotated[list[ClaimedSpan], Field(max_length=MAX_SPANS)]


class ClaimedProfile(BaseModel):
    owner: DIGEST
    createdAtMs: SLOT
    retiredAtMs: SLOT | None
    salt: Annotated[str, Field(max_length=80)]
    said: dict[str, TEXT | None]


class ClaimedTerms(BaseModel):
    name: Annotated[str, Field(max_length=200)]
    rule: NAME
    currency: Annotated[str, Field(max_length=44)]
    symbol: NAME
    decimals: Annotated[int, Field(ge=0, le=18, strict=True)]
    wallets: NAME
    minTrades: SLOT
    startsAtMs: MOMENT
    endsAtMs: MOMENT


class ClaimedSeason(BaseModel):
    """A bot's row in a season's frozen standings. Integers are text."""

    terms: ClaimedTerms
    frozenAtMs: MOMENT
    rules: Annotated[str, Field(max_length=200)]
    standing: dict[NAME, NAME | None]


class ClaimedBot(ClaimedProfile):
    # When windows end, in hours since 1970.
    hour: Annotated[int, Field(ge=0, lt=10**7, strict=True)]
    standings: dict[str, Any]
    pace: dict[str, Any] | None
    seasons: Annotated[dict[ID, ClaimedSeason], Field(max_length=MAX_SEASONS)]


class NamedPage(BaseModel):
    page: Annotated[int, Field(ge=1, le=MAX_PAGES, strict=True)]
    digest: DIGEST


class AddedProgram(BaseModel):
    id: ADDRESS
    name: Annotated[str, Field(max_length=100)]
    family: Annotated[str, Field(max_length=20)]
    source: Annotated[str, Field(max_length=400)]


class AddedCurrency(BaseModel):
    mint: ADDRESS
    symbol: Annotated[str, Field(max_length=12)]
    decimals: Annotated[int, Field(ge=0, le=9, strict=True)]


class Pending(BaseModel):
    signature: SIGNATURE
    slot: SLOT


class ClaimedLeaf(BaseModel):
    log: ID
    leaf: SLOT
    digest: DIGEST
    loggedAtMs: SLOT


class Claims(BaseModel):
    format: str
    version: Annotated[str, Field(max_length=40)]
    reading: int
    programTable: Annotated[str, Field(max_length=80)]
    rules: Annotated[str, Field(max_length=80)]
    addedPrograms: Annotated[list[AddedProgram], Field(max_length=10_000)]
    markers: Annotated[list[ADDRESS], Field(max_length=10_000)]
    addedCurrencies: Annotated[list[AddedCurrency], Field(max_length=100)]
    bot: ClaimedBot
    wallets: Annotated[list[ADDRESS], Field(max_length=MAX_SPANS)]
    wallet: ClaimedWallet | None
    pending: Annotated[list[Pending], Field(max_length=PAGE_SIZE)]
    pendingCount: SLOT
    receiptPages: Annotated[list[NamedPage], Field(max_length=MAX_PAGES)]
    receipts: Annotated[list[dict[str, Any]], Field(max_length=PAGE_SIZE)]
    postPages: Annotated[list[NamedPage], Field(max_length=MAX_PAGES)]
    posts: Annotated[list[dict[str, Any]], Field(max_length=PAGE_SIZE)]
    digest: DIGEST | None
    log: ClaimedLeaf | None


class ListedBot(BaseModel):
    botId: ID


class BotList(BaseModel):
    bots: Annotated[list[ListedBot], Field(max_length=PAGE_SIZE)]
    next: ID | None


class Instance:
    """An instance that is queried without a key.

    `ask(path)` returns a response body or raises FetchError. Methods raise Nonsense. Those that
    read pages also raise Changed.
    """

    def __init__(
        self,
        url: str,
        ask: Callable[[str], bytes] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._session, self._sleep = open_session(), sleep
        self._ask = ask or self._fetch

    def _fetch(self, path: str) -> bytes:
        return fetch(self._session, "GET", f"{self.url}{path}", LIMITS)

    def list_bots(self) -> Iterator[str]:
        after, count = "", 0
        while True:
            page = self._read(BotList, f"/evidence.json?{urlencode({'after': after})}")
            yield from (one.botId for one in page.bots)
            count += len(page.bots)
            if page.next is None:
                return
            if not page.bots or count > MAX_BOTS or page.next == after:
                raise Nonsense("its list of bots never ends")
            after = page.next

    def read_claims(self, bot: str, wallet: str | None = None) -> Claims:
        """Read a bot's document for one of its wallets (None: the current one)."""
        claims: Claims = self._read(Claims, _address(bot, wallet))
        if claims.format != FORMAT:
            raise Nonsense(f"its evidence isn't in the format {FORMAT}")
        if claims.wallet and wallet not in (None, claims.wallet.address):
            raise Nonsense("its evidence is about another wallet")
        return claims

    def read_receipts(
        self, bot: str, wallet: ClaimedWallet, claims: Claims
    ) -> Iterator[list[Json]]:
        tail = orjson.dumps({"page": len(claims.receiptPages) + 1, "receipts": claims.receipts})
        digests = [one.digest for one in claims.receiptPages]
        digests.append(hashlib.sha256(tail).hexdigest())
        if digest_claims(wallet.model_dump(exclude_unset=True), digests) != claims.digest:
            raise Nonsense("its digest doesn't match its claims")
        path = _address(bot, wallet.address)
        for lines in self._read_pages(path, claims.receiptPages, "page", "receipts"):
            yield _check_receipts(lines)
        yield _check_receipts(claims.receipts)

    def read_posts(self, bot: str, claims: Claims) -> Iterator[list[ClaimedPost]]:
        for lines in self._read_pages(_address(bot), claims.postPages, "posts", "posts"):
            yield [check_shape(ClaimedPost, one) for one in lines]
        yield [check_shape(ClaimedPost, one) for one in claims.posts]

    def read_log(self, path: str) -> bytes:
        return self._get(f"/log/{path}")

    def _read_pages(
        self, path: str, pages: list[NamedPage], name: str, member: str
    ) -> Iterator[list[Json]]:
        for number, page in enumerate(pages, 1):
            if page.page != number:
                raise Nonsense("its pages aren't numbered consecutively")
            query = urlencode({name: number, "digest": page.digest})
            body = self._get(f"{path}{'&' if '?' in path else '?'}{query}", changing=True)
            if hashlib.sha256(body).hexdigest() != page.digest:
                raise Nonsense(f"page {number} doesn't match its digest")
            made = _parse(body)
            lines = made.get(member) if isinstance(made, dict) else None
            if not isinstance(lines, list) or len(lines) > PAGE_SIZE:
                raise Nonsense(f"page {number} isn't a list of {member}")
            yield lines

    def _read(self, shape: Any, path: str) -> Any:
        return check_shape(shape, _parse(self._get(path)))

    def _get(self, path: str, changing: bool = False) -> bytes:
        """Fetch a path, with retries. With `changing`, a 404 means that the page has changed."""
        for left in reversed(range(MAX_TRIES)):
            try:
                return self._ask(path)
            except FetchError as error:
                if changing and error.status == 404:
                    raise Changed from None
                if not left or error.status in (400, 404, 421):
                    raise Nonsense(f"the instance {error}") from None
                wait_seconds = PAUSE_SECONDS if error.wait_seconds is None else error.wait_seconds
                self._sleep(min(MAX_WAIT_SECONDS, wait_seconds))
        raise AssertionError("unreachable")


def _address(bot: str, wallet: str | None = None) -> str:
    return f"/bots/{bot}/evidence.json" + (f"?wallet={wallet}" if wallet else "")


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        raise Nonsense("the instance sent invalid JSON") from None


def check_shape(shape: Any, value: Any) -> Any:
    try:
        return shape.model_validate(value)
    except (ValidationError, RecursionError) as error:
        named = error.errors()[0]["loc"] if isinstance(error, ValidationError) else ("depth",)
        place = ".".join(map(str, named))
        raise Nonsense(f"its evidence has an invalid field: {place:.80}") from None


def _check_receipts(lines: list[Any]) -> list[Json]:
    for one in lines:
        check_shape(ClaimedReceipt, one)
    return lines
