"""Read an archive that anybody may have made: all of it is checked before anything is stored.

Refused whole, with the file and the line: what is damaged, larger than any export, of another
format, or holds what this instance would refuse from its own owners.
"""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from accounts import influencers, traders
from accounts.archive_lines import BotLine, Head, PostLine, TraderLine
from accounts.archives import (
    BOTS,
    FORMAT,
    HEAD,
    MAX_BOTS,
    MAX_ROWS,
    MAX_TRADERS,
    NAMES,
    POSTS,
    TRADERS,
    VERSION,
    read_time,
)
from accounts.fields import check_wallet, has_control, holds_secret
from accounts.json_body import parse_json
from accounts.posts import PostBody, parse_post
from accounts.problem import Problem

MAX_ARCHIVE_BYTES = 500_000_000
# Of all entries together, unpacked.
MAX_BYTES = 1_000_000_000
MAX_HEAD_BYTES, MAX_LINE_BYTES = 100_000, 65_536
MAX_TEXT = 200
MAX_ENTRIES = 64
# Of one entry in the directory at the end of a zip file: its record, its name, its extra fields.
MAX_RECORD_BYTES = 1_000
END, END_64 = b"PK\x05\x06", b"PK\x06\x07"
END_RECORD = struct.Struct("<4s4H2LH")
# How far ahead of this instance's clock another's may be.
DAY_MS = 86_400_000
# Candor did not exist before.
FIRST_MS = 1_500_000_000_000
CHUNK = 1 << 20
# What the library says of an entry that is damaged; an encoded name of one is a UnicodeError.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, UnicodeError)


class BadArchive(Exception):
    """An archive cannot be taken: a sentence that names the file and the line."""


class GivenBot(NamedTuple):
    """A bot of an archive, checked but for its name: another may be chosen for it. `wallet`: the
    one it held at the end, if any.
    """

    line: int
    uid: str
    name: str
    bio: str
    voice: dict[str, Any]
    is_retired: bool
    wallet: str | None


class Origin(NamedTuple):
    """Where something first stood, as the archive says: its id there, and since when in ms."""

    uid: str
    at: int
    instance: str


class GivenPost(NamedTuple):
    """A post of an archive, checked."""

    bot: str
    body: PostBody
    sanitized: bool
    wallet: str | None
    origin: Origin


class GivenTrader(NamedTuple):
    """A paper trader of an archive, checked but for its name and what this instance has to play it
    by.
    """

    line: int
    uid: str
    name: str
    bio: str
    voice: dict[str, Any]
    family: str
    settings: dict[str, int]
    start_mode: str
    adaptive: str
    is_retired: bool
    origin: Origin


class Archive(NamedTuple):
    """An archive that was read to its end and found good. `gone`: posts whose words were gone."""

    path: Path
    instance: str
    exported_at: int
    bots: list[GivenBot]
    traders: list[GivenTrader]
    posts: int
    gone: int


Line = TypeVar("Line", bound=BaseModel)


def read_archive(path: Path, now: int) -> Archive:
    """Read and check all of an archive; `now` in ms. BadArchive says what is wrong, and where."""
    with open_zip(path) as archive:
        head = _read_head(archive)
        exported_at = _check_head(head, now)
        bots = _read_bots(archive)
        given = _read_traders(archive, head.instance, exported_at)
        _read_others(archive)
    found = Archive(path, head.instance, exported_at, bots, given, 0, 0)
    count = sum(1 for _ in list_posts(found))
    return found._replace(posts=count, gone=_count_lines(path) - count)


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive whose entries have the names and sizes that an export's can have."""
    try:
        with open(path, "rb") as file:
            _check_end(file)
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise BadArchive(f"{path}: {error.strerror}") from None
    except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error):
        raise BadArchive(f"{path} is damaged, or no zip file") from None
    try:
        _check_entries(archive)
    except BadArchive:
        archive.close()
        raise
    return archive


def _check_end(file: IO[bytes]) -> None:
    """Refuse what would take much memory to list, before it is listed."""
    size = file.seek(0, os.SEEK_END)
    if size > MAX_ARCHIVE_BYTES:
        raise BadArchive(f"the archive is larger than {MAX_ARCHIVE_BYTES:,} bytes")
    file.seek(max(0, size - 65_557))
    tail = file.read()
    at = tail.rfind(END)
    if at < 0:
        raise zipfile.BadZipFile
    *_, count, directory, _, _ = END_RECORD.unpack_from(tail, at)
    is_64 = tail[max(0, at - 20) : at].startswith(END_64)
    if is_64 or count > MAX_ENTRIES or directory > MAX_ENTRIES * MAX_RECORD_BYTES:
        raise BadArchive(f"the archive has more entries than an export: {len(NAMES)}")


def _check_entries(archive: zipfile.ZipFile) -> None:
    seen: set[str] = set()
    for entry in archive.infolist():
        if entry.filename not in NAMES:
            raise BadArchive(f"{entry.filename[:60]!a} is no file of an export")
        if entry.filename in seen:
            raise BadArchive(f"{entry.filename} is in the archive twice")
        if entry.flag_bits & 1:
            raise BadArchive(f"{entry.filename} is encrypted")
        # Others take memory as the archive pleases, and have errors of their own.
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadArchive(f"{entry.filename} is compressed in another way than zip's usual one")
        seen.add(entry.filename)
    if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
        raise BadArchive(f"the archive unpacks to more than {MAX_BYTES:,} bytes")
    for name in (HEAD, BOTS, POSTS, TRADERS):
        if name not in seen:
            raise BadArchive(f"{name} is missing: this is no export of Candor, or a damaged one")


# ---- lines ---------------------------------------------------------------------------------------
def _read_lines(archive: zipfile.ZipFile, name: str, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of an entry with their numbers from 1; its checksum is right at the end."""
    number = 0
    try:
        with io.BufferedReader(archive.open(name)) as entry:  # type: ignore[type-var]
            while line := entry.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise BadArchive(_place(name, number, f"is over {MAX_LINE_BYTES:,} bytes"))
                if number > most:
                    raise BadArchive(_place(name, number, f"has more than {most:,} lines"))
                yield number, line
    except DAMAGED:
        raise BadArchive(_place(name, number + 1, "is damaged")) from None


def _place(name: str, line: int, what: str) -> str:
    return f"{name}, line {line}: {what}"


def _parse(kind: type[Line], name: str, number: int, raw: bytes) -> Line:
    try:
        return kind.model_validate(parse_json(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(one) for one in first["loc"])
        known = field.isascii() and field.replace(".", "").isalnum() and len(field) <= 40
        what = f"{field if known else '(unknown)'}: {first['msg'].lower()}"
        raise BadArchive(_place(name, number, what)) from None
    except Problem as problem:
        raise BadArchive(_place(name, number, problem.detail)) from None


def _read_others(archive: zipfile.ZipFile) -> None:
    """Read what no import takes, so that a damaged archive is refused whole."""
    for entry in archive.infolist():
        try:
            with archive.open(entry) as opened:
                while opened.read(CHUNK):
                    pass
        except DAMAGED:
            raise BadArchive(f"{entry.filename} is damaged") from None


def _count_lines(path: Path) -> int:
    with open_zip(path) as archive:
        return sum(1 for _ in _read_lines(archive, POSTS, MAX_ROWS))


# ---- the head ------------------------------------------------------------------------------------
def _read_head(archive: zipfile.ZipFile) -> Head:
    if archive.getinfo(HEAD).file_size > MAX_HEAD_BYTES:
        raise BadArchive(f"{HEAD} is over {MAX_HEAD_BYTES:,} bytes")
    try:
        raw = archive.read(HEAD)
    except DAMAGED:
        raise BadArchive(f"{HEAD} is damaged") from None
    try:
        given = parse_json(raw)
    except Problem as problem:
        raise BadArchive(_place(HEAD, 1, problem.detail)) from None
    if given.get("format") != FORMAT:
        raise BadArchive(_place(HEAD, 1, f"format is not {FORMAT}: another program's archive"))
    if given.get("version") != VERSION:
        raise BadArchive(_place(HEAD, 1, f"version is not {VERSION}, the one this Candor reads"))
    return _parse(Head, HEAD, 1, orjson.dumps(given))


def _check_head(head: Head, now: int) -> int:
    """Return when it was exported, in ms."""
    _check_instance(HEAD, 1, head.instance)
    return _read_moment(HEAD, 1, "exportedAt", head.exportedAt, now + DAY_MS)


def _check_instance(name: str, line: int, text: str) -> None:
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= MAX_TEXT
    if not plain or not text.startswith(("http://", "https://")) or holds_secret(text):
        raise BadArchive(_place(name, line, "the instance is no plain web address"))


def _read_moment(name: str, line: int, field: str, text: str, latest: int) -> int:
    try:
        at = read_time(text)
    except ValueError:
        raise BadArchive(_place(name, line, f"{field} is no time in UTC")) from None
    if not FIRST_MS <= at <= latest:
        raise BadArchive(_place(name, line, f"{field} is before Candor, or after the export"))
    return at


# ---- bots ----------------------------------------------------------------------------------------
def _read_bots(archive: zipfile.ZipFile) -> list[GivenBot]:
    found: list[GivenBot] = []
    seen: set[str] = set()
    for number, raw in _read_lines(archive, BOTS, MAX_BOTS):
        line = _parse(BotLine, BOTS, number, raw)
        try:
            bot = _check_bot(number, line)
        except Problem as problem:
            raise BadArchive(_place(BOTS, number, problem.detail)) from None
        # A retired bot's wallet is free, so None says nothing.
        marks = {bot.uid, bot.wallet or bot.uid}
        if marks & seen:
            raise BadArchive(_place(BOTS, number, "a bot before it has this id or wallet"))
        seen |= marks
        found.append(bot)
    return found


def _check_bot(number: int, line: BotLine) -> GivenBot:
    """Problem where this instance would refuse such a bot of its own owners."""
    if not _is_id("bot", line.id):
        raise Problem("validation_failed", "id: is no id of a bot")
    voice = line.voice.model_dump()
    influencers.check_voice(voice)
    held = [one.wallet for one in line.wallets if one.detachedAt is None]
    for one in line.wallets:
        check_wallet(one.wallet)
    return GivenBot(
        number,
        line.id,
        line.name,
        influencers.check_bio(line.bio),
        voice,
        line.retiredAt is not None,
        held[0] if held and line.retiredAt is None else None,
    )


def _is_id(kind: str, text: str) -> bool:
    prefix, _, digits = text.partition("_")
    return prefix == kind and len(digits) == 24 and set(digits) <= set("0123456789abcdef")


# ---- posts ---------------------------------------------------------------------------------------
def list_posts(archive: Archive) -> Iterator[GivenPost]:
    """Yield the posts of an archive that still have their words, in the order of its lines."""
    bots = {bot.uid for bot in archive.bots}
    ids: set[str] = set()
    events: set[tuple[str, str]] = set()
    with open_zip(archive.path) as opened:
        for number, raw in _read_lines(opened, POSTS, MAX_ROWS):
            line = _parse(PostLine, POSTS, number, raw)
            event = (line.botId, line.eventId)
            if not _is_id("post", line.id) or line.botId not in bots:
                raise BadArchive(_place(POSTS, number, "names no bot of the archive, or has no id"))
            if line.id in ids or event in events:
                raise BadArchive(_place(POSTS, number, "a post before it has this id or event id"))
            ids.add(line.id)
            events.add(event)
            if line.hiddenAt is None:
                yield _check_post(archive, number, line)


def _check_post(archive: Archive, number: int, line: PostLine) -> GivenPost:
    """BadArchive where this instance would refuse such a post of its own bots."""
    names = ("eventId", "body", "mint", "symbol", "signature", "reason")
    said = {name: value for name in names if (value := getattr(line, name)) is not None}
    try:
        body, sanitized = parse_post(said)
        wallet = check_wallet(line.wallet) if line.wallet is not None else None
    except Problem as problem:
        raise BadArchive(_place(POSTS, number, problem.detail)) from None
    if has_control(line.source + line.channel):
        raise BadArchive(_place(POSTS, number, "source: must not contain control characters"))
    origin = _find_origin(POSTS, number, line, archive.instance, archive.exported_at)
    return GivenPost(line.botId, body, sanitized or line.sanitized, wallet, origin)


# ---- paper traders -------------------------------------------------------------------------------
def _read_traders(archive: zipfile.ZipFile, instance: str, exported_at: int) -> list[GivenTrader]:
    found: list[GivenTrader] = []
    seen: set[str] = set()
    for number, raw in _read_lines(archive, TRADERS, MAX_TRADERS):
        line = _parse(TraderLine, TRADERS, number, raw)
        origin = _find_origin(TRADERS, number, line, instance, exported_at)
        try:
            trader = _check_trader(number, line, origin)
        except Problem as problem:
            raise BadArchive(_place(TRADERS, number, problem.detail)) from None
        if trader.uid in seen:
            raise BadArchive(_place(TRADERS, number, "a trader before it has this id"))
        seen.add(trader.uid)
        found.append(trader)
    return found


def _check_trader(number: int, line: TraderLine, origin: Origin) -> GivenTrader:
    """Problem where this instance would refuse such a trader of its own owners, whatever strategy
    it has.
    """
    if not _is_id("trader", line.id):
        raise Problem("validation_failed", "id: is no id of a paper trader")
    # A refusal names a setting.
    if not all(name.isascii() and name.isidentifier() for name in line.settings):
        raise Problem("validation_failed", "settings: has what is no setting of any family")
    voice = line.voice.model_dump()
    influencers.check_voice(voice)
    return GivenTrader(
        number,
        line.id,
        line.name,
        influencers.check_bio(line.bio),
        voice,
        line.family,
        line.settings,
        traders.check_choice("startMode", line.startMode, traders.START_MODES),
        traders.check_choice("adaptive", line.adaptive, traders.ADAPTIVE),
        line.retiredAt is not None,
        origin,
    )


# ---- where something first stood -----------------------------------------------------------------
def _find_origin(
    name: str, number: int, line: PostLine | TraderLine, instance: str, latest: int
) -> Origin:
    """Return where something first stood. Of what was imported there, too, it is what its archive
    said of it.
    """
    uid, at = line.id, line.createdAt
    if line.originalId and line.originallyAt and line.originalInstance:
        uid, at, instance = line.originalId, line.originallyAt, line.originalInstance
        _check_instance(name, number, instance)
        kind = "post" if name == POSTS else "trader"
        if not _is_id(kind, uid):
            raise BadArchive(_place(name, number, f"originalId: is no id of a {kind}"))
    return Origin(uid, _read_moment(name, number, "createdAt", at, latest), instance)
