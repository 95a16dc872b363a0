"""A client for Solana nodes: rate-limited JSON-RPC with deadlines.

Each endpoint has one keep-alive connection. Endpoints are tried in order of preference. Their URLs
may contain tokens, so logs and errors call them `endpoint 1`, `endpoint 2`...
"""

import base64
import contextlib
import io
import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from http.client import HTTPResponse
from typing import Any, NamedTuple, NoReturn, TypeGuard
from urllib.parse import unquote

import orjson
from requests.certs import where
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.exceptions import HTTPError
from urllib3.util import make_headers, parse_url

from chain.addresses import TOKEN_PROGRAMS, b58encode, is_address
from chain.reading.flows import Holding
from chain.reading.receipts import LATEST_TIME, SIGNATURE, BadReceipt, Receipt, parse_receipt

# For a whole response, because a read timeout doesn't stop a slow trickle.
DEADLINE_SECONDS = 15.0
# Don't start another try after this, so two hanging nodes don't cost more than one.
CALL_SECONDS = 20.0
TIMEOUT = Timeout(connect=5, read=DEADLINE_SECONDS)
MAX_ANSWER_BYTES = 16 * 2**20
# Per call, over all endpoints.
MAX_TRIES = 4
# How long a call waits for paused endpoints.
MAX_WAIT_SECONDS = 3.0
# After a 429 without Retry-After, and after a 403.
THROTTLED_SECONDS = 10.0
FORBIDDEN_SECONDS = 600.0
MAX_REST_SECONDS = 300.0
# How long not to retry an optional method after an endpoint refused it, and after it failed.
NOT_OFFERED_SECONDS, BROKEN_SECONDS = 86_400.0, 300.0
# Consecutive failures that pause an endpoint.
FAILURES_TO_REST = 3
THROTTLE_CODES = {429, -32005, -32029}
OUR_FAULT_CODES = {-32600, -32602, -32015}
# Some providers don't have all methods, so try another endpoint.
UNKNOWN_METHOD = -32601
# Codes for a block that is pruned, skipped or not available yet, or for an unknown `before`.
NOT_FOUND_CODES = {-32001, -32004, -32007, -32009, -32014, -32020}


class RpcError(Exception):
    """The message is safe for health and logs: it doesn't contain a URL or token."""


class Unavailable(RpcError):
    """No endpoint could respond. `retry_in` is the seconds until one may."""

    def __init__(self, message: str, retry_in: float = 0.0) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class Resting(Unavailable):
    """Every endpoint is paused, so none was queried."""


class Refused(RpcError):
    """The node says that the request is invalid. Retrying won't help."""


class BadAnswer(RpcError):
    """The last response failed the caller's check, or the node doesn't have the requested data."""


class _Failure(Exception):
    """A failed try.

    `rest` is how long to pause the whole endpoint, in seconds. If it is 0, it is paused only after
    several consecutive failures. `ends_as` is what the call raises if this was its last try.
    `elsewhere` is whether to try another endpoint.
    """

    def __init__(
        self,
        message: str,
        rest: float = 0.0,
        ends_as: type[RpcError] = Unavailable,
        elsewhere: bool = True,
    ) -> None:
        super().__init__(message)
        self.rest, self.ends_as, self.elsewhere = rest, ends_as, elsewhere


class _Forbidden(_Failure):
    """HTTP 403: the key doesn't allow this request, or the node blocks us."""


class Rpc:
    """All endpoints. Only one request runs at a time."""

    def __init__(
        self,
        urls: Iterable[str],
        requests_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.endpoints = [
            Endpoint(url, f"endpoint {n}", requests_per_second, clock)
            for n, url in enumerate(urls, 1)
        ]
        self._clock, self._sleep, self._ids = clock, sleep, itertools.count(1)
        self._asked: deque[float] = deque()
        self._asking_since: float | None = None
        # Grows while nodes are reachable.
        self.answers = 0
        self._lock = threading.Lock()

    def is_reachable(self) -> bool:
        before = self.answers
        with contextlib.suppress(RpcError), self._lock:
            self._call("getSlot", [], lambda result: result, None, len(self.endpoints))
        return self.answers > before

    def call(
        self,
        method: str,
        params: list[Any],
        check: Callable[[Any], Any] = lambda result: result,
        avoid: str | None = None,
    ) -> tuple[Any, str]:
        """Return (what `check` returned, the endpoint's label), retrying if `check` raises
        ValueError.

        `avoid` is the label of an endpoint to skip if there is another one. Raises Unavailable,
        Refused or BadAnswer.
        """
        with self._lock:
            return self._call(method, params, check, avoid, MAX_TRIES)

    def call_optional(
        self, method: str, params: list[Any], check: Callable[[Any], Any]
    ) -> tuple[Any, str] | None:
        """Call, once, a method that only some nodes have. Return None if no endpoint responds.

        An endpoint that fails here isn't used for this method for a while. Only throttling pauses
        it for other methods.
        """
        with self._lock:
            now = self._clock()
            endpoint = next((e for e in self.endpoints if e.may_offer(method, now)), None)
            if endpoint is None:
                return None
            self._take_turn(endpoint, method, now)
            self._count()
            try:
                return self._ask(endpoint, method, params, check), endpoint.label
            except ValueError:
                endpoint.set_aside(method, BROKEN_SECONDS)
                self._note_answer()
                return None
            except _Failure as failure:
                is_refused = failure.ends_as is Refused or isinstance(failure, _Forbidden)
                endpoint.set_aside(method, NOT_OFFERED_SECONDS if is_refused else BROKEN_SECONDS)
                if failure.rest and not is_refused:
                    endpoint.note_failure(failure.rest)
                return None

    def _call(
        self,
        method: str,
        params: list[Any],
        check: Callable[[Any], Any],
        avoid: str | None,
        tries: int,
    ) -> tuple[Any, str]:
        tried, begun = {avoid}, self._clock()
        for _ in range(tries):
            endpoint = self._choose(method, tried)
            self._count()
            try:
                return self._try(endpoint, method, params, check), endpoint.label
            except _Failure as error:
                failure = error
            tried.add(endpoint.label)
            if self._clock() - begun >= CALL_SECONDS or not failure.elsewhere:
                break
            if failure.ends_as is Refused and all(e.label in tried for e in self.endpoints):
                break
        raise failure.ends_as(f"{method}: {endpoint.label}: {failure}")

    def _try(
        self, endpoint: "Endpoint", method: str, params: list[Any], check: Callable[[Any], Any]
    ) -> Any:
        try:
            return self._ask(endpoint, method, params, check)
        except ValueError as error:
            self._note_answer()
            endpoint.note_failure(0)
            raise _Failure(str(error), ends_as=BadAnswer) from error
        except _Failure as failure:
            # After any other outcome, the endpoint itself works.
            if failure.ends_as is Unavailable:
                endpoint.note_failure(failure.rest)
            else:
                self._note_answer()
            raise

    def _ask(
        self, endpoint: "Endpoint", method: str, params: list[Any], check: Callable[[Any], Any]
    ) -> Any:
        """Raises _Failure, or ValueError if the result fails `check`."""
        answer = _check(check, endpoint.ask(method, params, next(self._ids)))
        self._note_answer()
        endpoint.failures = 0
        return answer

    def _choose(self, method: str, tried: Container[str | None]) -> "Endpoint":
        """Wait for the preferred untried endpoint. Use a paused one only if all are paused."""
        now = self._clock()
        endpoint = min(
            self.endpoints,
            key=lambda e: (e.rest(now) > MAX_WAIT_SECONDS, e.label in tried, e.rest(now)),
        )
        if endpoint.rest(now) > MAX_WAIT_SECONDS:
            raise Resting(f"{method}: every endpoint is paused", endpoint.rest(now))
        self._take_turn(endpoint, method, now)
        return endpoint

    def _take_turn(self, endpoint: "Endpoint", method: str, now: float) -> None:
        # Even sleep(0) yields the CPU.
        if (seconds := endpoint.wait(method, now)) > 0:
            self._sleep(seconds)
        endpoint.take_turn(method)

    def _note_answer(self) -> None:
        self.answers, self._asking_since = self.answers + 1, None

    def silent_for(self) -> float:
        """Return the seconds since the first unanswered request, or 0.0 after a response."""
        since = self._asking_since
        return 0.0 if since is None else self._clock() - since

    def _count(self) -> None:
        if self._asking_since is None:
            self._asking_since = self._clock()
        self._asked.append(self._clock())
        while self._asked and self._asked[0] < self._clock() - 60:
            self._asked.popleft()

    def report(self) -> dict[str, Any]:
        """Return the last minute's requests, and the endpoints' remaining pauses in seconds."""
        now = self._clock()
        resting = {
            e.label: round(e.rests_until - now, 1) for e in self.endpoints if e.rests_until > now
        }
        return {
            "requestsLastMinute": sum(t > now - 60 for t in list(self._asked)),
            "endpoints": len(self.endpoints),
            "resting": resting,
        }


def _check(check: Callable[[Any], Any], result: Any) -> Any:
    """Any error but ValueError means that the result is malformed in an unforeseen way."""
    try:
        return check(result)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"a malformed response ({type(error).__name__})") from error


class Endpoint:
    """One node: a connection, a rate limit per method, and pauses after throttling and failures."""

    def __init__(
        self, url: str, label: str, requests_per_second: float, clock: Callable[[], float]
    ) -> None:
        self.label, self.rests_until = label, 0.0
        self._interval, self._clock = 1 / requests_per_second, clock
        self._free_at: dict[str, float] = {}
        # When to try the optional methods again that this endpoint refused or failed.
        self._aside_until: dict[str, float] = {}
        self.failures = 0
        self._target, self._headers = _read_target(url)
        self._pool = _open_pool(url)

    def rest(self, now: float) -> float:
        return max(0.0, self.rests_until - now)

    def wait(self, method: str, now: float) -> float:
        return max(self.rest(now), self._free_at.get(method, 0.0) - now)

    def may_offer(self, method: str, now: float) -> bool:
        is_aside = now < self._aside_until.get(method, 0.0)
        return not is_aside and self.rest(now) <= MAX_WAIT_SECONDS

    def set_aside(self, method: str, seconds: float) -> None:
        self._aside_until[method] = self._clock() + seconds

    def take_turn(self, method: str) -> None:
        self._free_at[method] = self._clock() + self._interval

    def note_failure(self, rest: float) -> None:
        """Pause the endpoint after several failures. Each further failure doubles the pause."""
        self.failures += 1
        if not rest and self.failures >= FAILURES_TO_REST:
            rest = min(MAX_REST_SECONDS, 2.0 ** (self.failures - FAILURES_TO_REST))
        self.rests_until = max(self.rests_until, self._clock() + rest)

    def ask(self, method: str, params: list[Any], ident: int) -> Any:
        status, headers, body = self._post(
            {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        )
        answer = _parse(status, headers, body)
        if "error" in answer:
            _raise_error(answer["error"], headers)
        if answer.get("id") != ident or "result" not in answer:
            raise _Failure("the response belongs to another request")
        return answer["result"]

    def _post(self, payload: dict[str, Any]) -> tuple[int, Any, bytes]:
        try:
            # No proxy, netrc or cookies: only the settings affect requests.
            response = self._pool.urlopen(
                *("POST", self._target, orjson.dumps(payload), self._headers),
                timeout=TIMEOUT,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
            )
            with contextlib.closing(response):
                return response.status, response.headers, _read(response)
        # The error's message contains the URL.
        except (HTTPError, OSError) as error:
            raise _Failure(type(error).__name__) from None


def _read(raw: Any) -> bytes:
    body = bytearray()
    while chunk := raw.read(65536, decode_content=True):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise _Failure("the response is larger than 16 MB", ends_as=BadAnswer)
    return bytes(body)


def _parse(status: int, headers: Any, body: bytes) -> dict[str, Any]:
    if status == 429:
        raise _Failure("HTTP 429", _retry_after(headers))
    if status == 403:
        raise _Forbidden("HTTP 403", FORBIDDEN_SECONDS)
    if status != 200:
        raise _Failure(f"HTTP {status}")
    try:
        answer = orjson.loads(body)
    except ValueError:
        raise _Failure("the response is not JSON") from None
    if not isinstance(answer, dict):
        raise _Failure("the response is not an object")
    return answer


def _raise_error(error: Any, headers: Any) -> NoReturn:
    code = error.get("code") if isinstance(error, dict) else None
    code = code if type(code) is int else None
    if code in THROTTLE_CODES:
        raise _Failure(f"error {code}", _retry_after(headers))
    if code in OUR_FAULT_CODES:
        raise _Failure(f"error {code}", ends_as=Refused, elsewhere=False)
    ends_as: type[RpcError] = Unavailable
    if code in NOT_FOUND_CODES:
        ends_as = BadAnswer
    elif code == UNKNOWN_METHOD:
        ends_as = Refused
    raise _Failure(f"error {'unknown' if code is None else code}", ends_as=ends_as)


def _retry_after(headers: Any) -> float:
    value = headers.get("Retry-After") or ""
    # Python refuses to parse huge numbers.
    seconds = int(value[:9]) if value.isdecimal() else THROTTLED_SECONDS
    return float(min(seconds, MAX_REST_SECONDS))


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket) -> None:
        self._socket, self._file = sock, sock.makefile("rb", buffering=0)
        self._ends_at = time.monotonic() + DEADLINE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._socket.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock))


def _read_target(url: str) -> tuple[str, dict[str, str]]:
    parsed = parse_url(url)
    auth = unquote(parsed.auth) if parsed.auth else None
    headers = make_headers(accept_encoding="gzip,deflate", user_agent="candor", basic_auth=auth)
    return parsed.request_uri, {**headers, "Content-Type": "application/json"}


def _open_pool(url: str) -> HTTPConnectionPool:
    parsed = parse_url(url)
    pool: HTTPConnectionPool
    if parsed.scheme == "https":
        pool = HTTPSConnectionPool(
            parsed.host or "", parsed.port, maxsize=1, cert_reqs="CERT_REQUIRED", ca_certs=where()
        )
    else:
        pool = HTTPConnectionPool(parsed.host or "", parsed.port, maxsize=1)
    kind: Any = pool.ConnectionCls
    pool.ConnectionCls = type("TimedConnection", (kind,), {"response_class": _TimedResponse})
    return pool


# ---- checks of answers ---------------------------------------------------------------------------
# One more than the largest signed 64-bit integer.
MAX_BIGINT = 2**63


class ListedSignature(NamedTuple):
    """A finalized transaction that mentions an address. `tx_index` is None if the node omits it."""

    signature: str
    slot: int
    tx_index: int | None


def check_page(result: Any) -> list[ListedSignature]:
    """Check getSignaturesForAddress. Return the unique signatures, newest first."""
    if not isinstance(result, list):
        raise ValueError("the response is not a list of signatures")
    rows = {row.signature: row for row in map(_check_listed, result)}
    return sorted(rows.values(), key=lambda row: (-row.slot, -(row.tx_index or 0)))


def _check_listed(one: Any) -> ListedSignature:
    if not isinstance(one, dict):
        raise ValueError("a malformed signature entry")
    signature, slot, index = (one.get(n) for n in ("signature", "slot", "transactionIndex"))
    if not (
        isinstance(signature, str)
        and SIGNATURE.fullmatch(signature)
        and is_number(slot)
        and (index is None or is_number(index, 2**31))
    ):
        raise ValueError("a malformed signature entry")
    return ListedSignature(signature, slot, index)


def is_number(value: Any, limit: int = MAX_BIGINT) -> TypeGuard[int]:
    """Whether this is an integer from 0 to below the limit. A bool isn't."""
    return type(value) is int and 0 <= value < limit


def check_receipt(result: Any, signature: str) -> tuple[Any, Receipt | None]:
    """Check getTransaction. Return (raw JSON, Receipt), or (None, None) if unknown."""
    return (None, None) if result is None else (result, parse_receipt(result, signature))


def check_transactions(
    result: Any, wanted: Mapping[str, ListedSignature]
) -> dict[str, tuple[Any, Receipt]]:
    """Check getTransactionsForAddress. Return {signature: (raw JSON, Receipt)}.

    Only wanted and valid transactions in the listed slot are returned. The caller fetches the
    others one by one. Raises ValueError if that is more than half.
    """
    found = {}
    for raw in result["data"]:
        signature = raw["transaction"]["signatures"][0]
        if signature in wanted and signature not in found:
            with contextlib.suppress(BadReceipt):
                receipt = parse_receipt(raw, signature)
                if _is_where_listed(receipt, wanted[signature]):
                    found[signature] = raw, receipt
    if 2 * len(found) < len(wanted):
        raise ValueError("most of the requested transactions are missing")
    return found


def _is_where_listed(receipt: Receipt, listed: ListedSignature) -> bool:
    indexes = {receipt.tx_index, listed.tx_index} - {None}
    return receipt.slot == listed.slot and len(indexes) <= 1


def check_accounts(result: Any) -> list[str]:
    """Check getTokenAccountsByOwner. Return the addresses."""
    try:
        addresses = [row["pubkey"] for row in result["value"]]
    except (TypeError, KeyError) as error:
        raise ValueError("the response is not a list of token accounts") from error
    if not all(map(is_address, addresses)):
        raise ValueError("a malformed address")
    return addresses


def check_holdings(result: Any, owned: Sequence[tuple[str, str]]) -> tuple[int, list[Holding]]:
    """Check getMultipleAccounts (base64, 72 bytes). `owned`: (wallet, address) in order."""
    try:
        slot, accounts = result["context"]["slot"], result["value"]
        if not is_number(slot) or len(accounts) != len(owned):
            raise ValueError("the number of results doesn't match the number of accounts")
        return slot, [
            _read_holding(account, *pair, slot)
            for pair, account in zip(owned, accounts, strict=False)
        ]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("the response is not a list of accounts") from error


def _read_holding(account: Any, wallet: str, address: str, slot: int) -> Holding:
    """The first 72 bytes of a token account are mint, owner and amount."""
    if account is None:
        return Holding(slot, 0, 0)
    if not is_number(account["lamports"], 2**64):
        raise ValueError("no lamports")
    if address == wallet:
        return Holding(slot, 0, account["lamports"], executable=account.get("executable") is True)
    data = base64.b64decode(account["data"][0])
    if account["owner"] not in TOKEN_PROGRAMS or len(data) < 72 or b58encode(data[32:64]) != wallet:
        return Holding(slot, 0, 0)
    amount = int.from_bytes(data[64:72], "little")
    mint = b58encode(data[:32]) if amount else None
    return Holding(slot, amount, account["lamports"], mint)


def check_decimals(result: Any, mints: list[str]) -> dict[str, int]:
    """Check byte 44 of each of `mints`. Return {mint: decimals} of valid mints."""
    try:
        if len(result["value"]) != len(mints):
            raise ValueError("the number of results doesn't match the number of accounts")
        read = [_read_decimals(account) for account in result["value"]]
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError("the response is not a list of accounts") from error
    return {
        mint: decimals for mint, decimals in zip(mints, read, strict=False) if decimals is not None
    }


def _read_decimals(account: Any) -> int | None:
    if account is None or account["owner"] not in TOKEN_PROGRAMS:
        return None
    data = base64.b64decode(account["data"][0])
    return data[0] if len(data) == 1 else None


def check_block(result: Any) -> dict[str, int]:
    """Check getBlock with transactionDetails `signatures`. Return {signature: position}."""
    try:
        return {signature: place for place, signature in enumerate(result["signatures"])}
    except (TypeError, KeyError) as error:
        raise ValueError("the response is not a list of signatures") from error


def check_time(result: Any) -> int | None:
    """Check getBlockTime. Return Unix seconds, or None."""
    if result is None or is_number(result, LATEST_TIME):
        return result
    raise ValueError("no block time")
