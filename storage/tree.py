"""The log's Merkle tree (RFC 6962): hashes, proofs, and tiles (C2SP tlog-tiles). Pure.

A tree is given as `read(level, index)`, which returns the hash of the complete subtree of 256^level
leaves starting at leaf `index * 256^level`. Level 0 contains the leaves.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

TILE_WIDTH = 256
HASH_BYTES = 32
# The root of the empty tree.
EMPTY_ROOT = hashlib.sha256().digest()
# No log is larger than 256^6 leaves.
MAX_LEVEL = 5
ReadHash = Callable[[int, int], bytes]


class BadProof(ValueError):
    """A proof, tile or bundle is invalid."""


def hash_leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def hash_children(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


# ---- roots ---------------------------------------------------------------------------------------
def hash_range(read: ReadHash, start: int, end: int) -> bytes:
    """Hash the leaves from `start` up to, but not including, `end`.

    There must be at least one leaf. `start` is a multiple of the smallest power of two that is at
    least the number of leaves.
    """
    size = end - start
    height = size.bit_length() - 1
    if size == 1 << height and height % 8 == 0:
        return read(height // 8, start >> height)
    middle = start + _split(size)
    return hash_children(hash_range(read, start, middle), hash_range(read, middle, end))


def find_root(read: ReadHash, size: int) -> bytes:
    return hash_range(read, 0, size) if size else EMPTY_ROOT


def hash_tile(hashes: Sequence[bytes]) -> bytes:
    while len(hashes) > 1:
        hashes = [hash_children(*hashes[n : n + 2]) for n in range(0, len(hashes), 2)]
    return hashes[0]


# ---- proofs --------------------------------------------------------------------------------------
def prove_inclusion(read: ReadHash, index: int, size: int) -> list[bytes]:
    """Return the inclusion proof of leaf `index`, from the bottom up."""
    start, end, path = 0, size, []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(hash_range(read, middle, end))
            end = middle
        else:
            path.append(hash_range(read, start, middle))
            start = middle
    return path[::-1]


def prove_consistency(read: ReadHash, old: int, size: int) -> list[bytes]:
    """Return the proof that the tree of `size` leaves extends the tree of `old` leaves."""
    start, end, path = 0, size, []
    # The verifier already has this hash if the old tree is a node of the new one.
    known = True
    while 0 < old - start < end - start:
        middle = start + _split(end - start)
        if old <= middle:
            path.append(hash_range(read, middle, end))
            end = middle
        else:
            path.append(hash_range(read, start, middle))
            start, known = middle, False
    if not known:
        path.append(hash_range(read, start, end))
    return path[::-1]


def follow_inclusion(leaf: bytes, index: int, size: int, path: Iterable[bytes]) -> bytes:
    """Return the root that an inclusion proof computes from a leaf's hash.

    Raises BadProof if the proof has the wrong length. See RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size:
        raise BadProof("the leaf is outside the tree")
    found = leaf
    for one, is_left in _climb(index, size - 1, path):
        found = hash_children(one, found) if is_left else hash_children(found, one)
    return found


def _climb(place: int, last: int, path: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the path's hashes, and whether each is a left sibling. Raises BadProof.

    `place` and `last` are the indexes, at the bottom, of the node and of the tree's last node.
    """
    for one in path:
        if not last:
            raise BadProof("the path is too long")
        is_left = bool(place & 1) or place == last
        yield one, is_left
        while is_left and place and not place & 1:
            place, last = place >> 1, last >> 1
        place, last = place >> 1, last >> 1
    if last:
        raise BadProof("the path is too short")


def check_consistency(
    old: int, old_root: bytes, size: int, root: bytes, path: Sequence[bytes]
) -> None:
    """Raise BadProof unless the proof shows that one tree extends another.

    The trees are `old_root` with `old` leaves and `root` with `size` leaves. See RFC 9162, section
    2.1.4.2.
    """
    if old > size:
        raise BadProof("the tree shrank")
    if old in (0, size):
        if path or old_root != (root if old == size else EMPTY_ROOT):
            raise BadProof("the roots differ")
        return
    # If the old tree is complete, the proof omits its hash, which would come first.
    path = [old_root, *path] if old & (old - 1) == 0 else list(path)
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    if not path:
        raise BadProof("the path is too short")
    was = found = path[0]
    for one, is_left in _climb(place, last, path[1:]):
        if is_left:
            was, found = hash_children(one, was), hash_children(one, found)
        else:
            found = hash_children(found, one)
    if was != old_root:
        raise BadProof("the tree doesn't begin with the old one")
    if found != root:
        raise BadProof("the path leads to a different root")


# ---- tiles ---------------------------------------------------------------------------------------
def write_index(number: int) -> str:
    """Return the index as it appears in a path: 1234067 is `x001/x234/067`."""
    parts = [f"{number % 1000:03}"]
    while number := number // 1000:
        parts.append(f"x{number % 1000:03}")
    return "/".join(reversed(parts))


def read_index(text: str) -> int | None:
    """Return None if the text isn't in the format of `write_index`."""
    if not re.fullmatch(r"(x\d{3}/){0,4}\d{3}", text, re.ASCII):
        return None
    number = int(text.replace("x", "").replace("/", ""))
    return number if write_index(number) == text else None


def find_width(size: int, level: int, number: int) -> int:
    """Return how many hashes, 0 to 256, the tile has in a tree of `size` leaves."""
    return max(0, min(TILE_WIDTH, (size >> (8 * level)) - number * TILE_WIDTH))


def write_path(level: int | str, number: int, width: int) -> str:
    """Return the path relative to the log's URL. The level `entries` is for leaves."""
    partial = "" if width == TILE_WIDTH else f".p/{width}"
    return f"tile/{level}/{write_index(number)}{partial}"


def read_tiles(size: int, fetch: Callable[[int, int, int], list[bytes]]) -> ReadHash:
    """`fetch(level, number, width)` returns a tile's hashes, and is called once per tile."""
    tiles: dict[tuple[int, int], list[bytes]] = {}

    def read(level: int, index: int) -> bytes:
        number, place = divmod(index, TILE_WIDTH)
        if (level, number) not in tiles:
            tiles[level, number] = fetch(level, number, find_width(size, level, number))
        return tiles[level, number][place]

    return read


def cut_tile(tile: bytes, width: int) -> list[bytes]:
    if len(tile) != width * HASH_BYTES:
        raise BadProof(f"a tile of {width} hashes has {len(tile)} bytes")
    return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]


def write_bundle(leaves: Iterable[bytes]) -> bytes:
    """Each leaf is preceded by its length in two bytes."""
    return b"".join(len(leaf).to_bytes(2, "big") + leaf for leaf in leaves)


def cut_bundle(bundle: bytes, width: int) -> list[bytes]:
    """Raises BadProof if there aren't `width` leaves."""
    leaves: list[bytes] = []
    at = 0
    while at < len(bundle) and len(leaves) < width:
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        leaves.append(bundle[at + 2 : end])
        at = end
    if at != len(bundle) or len(leaves) != width:
        raise BadProof(f"a bundle of {width} leaves is malformed")
    return leaves
