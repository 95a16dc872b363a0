"""Signed notes, checkpoints and cosignatures with Ed25519, as specified by C2SP. Pure.

See signed-note, tlog-checkpoint and tlog-cosignature.
"""

import base64
import binascii
import functools
import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

SIGNATURE, COSIGNATURE = 1, 4
MAX_NOTE_BYTES = 16_384
MAX_SIGNATURES = 32
MAX_SIZE = 2**48
BEGIN = "\N{EM DASH} "


class BadNote(ValueError):
    """A note is malformed or not signed by the expected key."""


def encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def decode(text: str) -> bytes:
    """Decode canonical base64. Raises BadNote for other text."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadNote("not base64") from None
    if encode(raw) != text:
        raise BadNote("not base64")
    return raw


def name_origin(uid: str) -> str:
    """Return the first line of a log's checkpoints, wherever the log is served."""
    return f"candor/{uid}"


# ---- keys ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Verifier:
    """A public key with a name. `kind` is SIGNATURE for a log, or COSIGNATURE for a witness."""

    name: str
    kind: int
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "Verifier":
        """Parse the format of `str`. Raises BadNote."""
        found = re.fullmatch(r"([^\s+]{1,255})\+([0-9a-f]{8})\+([A-Za-z0-9+/=]{44})", text)
        if not found:
            raise BadNote("not a verifier key")
        name, key_id, key = found.groups()
        raw = decode(key)
        made = cls(name, raw[0], raw[1:])
        if made.kind not in (SIGNATURE, COSIGNATURE) or made.id.hex() != key_id:
            raise BadNote("not a verifier key")
        return made

    @property
    def id(self) -> bytes:
        told = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return hashlib.sha256(told).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encode(bytes([self.kind]) + self.public)}"

    def check(self, message: bytes, signature: bytes) -> None:
        try:
            VerifyKey(self.public).verify(message, signature)
        except (BadSignatureError, ValueError):
            raise BadNote(f"the signature by {self.name} is invalid") from None


@dataclass(frozen=True, repr=False)
class Signer:
    """A log's signing key, from 32 secret bytes.

    The instance's witness signs with another key derived from the same bytes, because a key must
    not sign two kinds of statements.
    """

    seed: bytes

    @functools.cached_property
    def _keys(self) -> dict[int, SigningKey]:
        """Cached, because deriving a key takes longer than signing."""
        told = hashlib.sha256(b"candor witness key\n" + self.seed).digest()
        return {SIGNATURE: SigningKey(self.seed), COSIGNATURE: SigningKey(told)}

    def verifier(self, name: str, kind: int = SIGNATURE) -> Verifier:
        return Verifier(name, kind, bytes(self._keys[kind].verify_key))

    @property
    def witness_name(self) -> str:
        return f"candor/witness_{bytes(self._keys[COSIGNATURE].verify_key).hex()[:16]}"

    def sign(self, message: bytes) -> bytes:
        return self._keys[SIGNATURE].sign(message).signature

    def promise(self, uid: str, leaf: str) -> str:
        """Return a signature, in base64, that promises that this leaf is in the log `uid`."""
        text = f"candor-log-promise/v1\n{name_origin(uid)}\n{leaf}\n"
        return encode(self.sign(text.encode()))

    def sign_note(self, name: str, text: str) -> str:
        signature = self.verifier(name).id + self.sign(text.encode())
        return f"{text}\n{BEGIN}{name} {encode(signature)}\n"

    def cosign(self, name: str, text: str, seconds: int) -> str:
        """Return the witness's line for a checkpoint that was consistent at this time."""
        cosigned = f"cosignature/v1\ntime {seconds}\n{text}".encode()
        signature = self._keys[COSIGNATURE].sign(cosigned).signature
        told = self.verifier(name, COSIGNATURE).id + seconds.to_bytes(8, "big") + signature
        return f"{BEGIN}{name} {encode(told)}\n"


# ---- notes ---------------------------------------------------------------------------------------
class Line(NamedTuple):
    name: str
    id: bytes
    signature: bytes


class Note(NamedTuple):
    text: str
    lines: list[Line]

    def find(self, verifier: Verifier) -> bytes | None:
        for line in self.lines:
            if (line.name, line.id) == (verifier.name, verifier.id):
                return line.signature
        return None


def parse_note(raw: bytes) -> Note:
    if len(raw) > MAX_NOTE_BYTES:
        raise BadNote("the note is too long")
    try:
        whole = raw.decode()
    except UnicodeDecodeError:
        raise BadNote("the note is not UTF-8") from None
    text, blank, rest = whole.rpartition("\n\n")
    if not blank or not rest.endswith("\n") or re.search(r"[\0-\x09\x0b-\x1f]", whole):
        raise BadNote("not a signed note")
    lines = rest[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise BadNote("the note has too many signatures")
    return Note(text + "\n", [_parse_line(line) for line in lines])


def _parse_line(line: str) -> Line:
    found = re.fullmatch(rf"{BEGIN}([^\s+]+) (\S+)", line)
    if not found:
        raise BadNote("not a signature line")
    name, signed = found.groups()
    raw = decode(signed)
    if len(raw) < 5:
        raise BadNote("not a signature line")
    return Line(name, raw[:4], raw[4:])


def check_note(note: Note, verifier: Verifier) -> None:
    signature = note.find(verifier)
    if signature is None:
        raise BadNote(f"{verifier.name} didn't sign it with the known key")
    verifier.check(note.text.encode(), signature)


# ---- checkpoints ---------------------------------------------------------------------------------
class Checkpoint(NamedTuple):
    origin: str
    size: int
    root: bytes

    def write(self) -> str:
        return f"{self.origin}\n{self.size}\n{encode(self.root)}\n"


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse a checkpoint's text, ignoring further lines. Raises BadNote."""
    found = re.fullmatch(r"([^\n]*)\n(0|[1-9]\d{0,14})\n([^\n]*)\n", text, re.ASCII)
    if not found:
        raise BadNote("not a checkpoint")
    origin, digits, encoded = found.groups()
    size, root = int(digits), decode(encoded)
    if not origin or len(origin) > 255 or len(root) != 32 or size > MAX_SIZE:
        raise BadNote("not a checkpoint")
    return Checkpoint(origin, size, root)
