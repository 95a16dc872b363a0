"""The Merkle tree, checked against the published vectors of RFC 6962's reference implementation and
against the independent pymerkle.
"""

import re

import pymerkle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import tree

# certificate-transparency's merkletree tests: leaves, and the roots of the first n.
LEAVES = [b"", b"\0", b"\x10", b" !", b"01", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"]
ROOTS = """
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d
fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125
aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77
d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7
4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4
76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef
ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c
5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328
""".split()
# old size, size, path
CONSISTENCY = """
1 1
1 8 96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7
    5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e
    6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4
6 8 0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a
    ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0
    d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7
2 5 5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e
    bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b
"""


def reader(leaves):
    """A `read` function for these leaves, level by level, as in the tiles."""
    levels = [[tree.hash_leaf(leaf) for leaf in leaves]]
    while len(levels[-1]) >= tree.TILE_WIDTH:
        below = levels[-1]
        full = range(0, len(below) - tree.TILE_WIDTH + 1, tree.TILE_WIDTH)
        levels.append([tree.hash_tile(below[at : at + tree.TILE_WIDTH]) for at in full])
    return lambda level, index: levels[level][index]


# ---- published vectors ---------------------------------------------------------------------------
def test_roots_match_the_reference():
    assert [tree.find_root(reader(LEAVES), size).hex() for size in range(9)] == ROOTS


@pytest.mark.parametrize("proof", re.split(r"\n(?=\d \d)", CONSISTENCY.strip()))
def test_consistency_proofs_match_the_reference(proof):
    (old, size), path = map(int, proof.split()[:2]), list(map(bytes.fromhex, proof.split()[2:]))
    roots = list(map(bytes.fromhex, ROOTS))
    assert tree.prove_consistency(reader(LEAVES), old, size) == path
    tree.check_consistency(old, roots[old], size, roots[size], path)


ADDRESSES = {0: "000", 67: "067", 1234067: "x001/x234/067", 1000: "x001/000"}
NO_ADDRESSES = "0 0000 x000/001 001/002 x001/x002 x001/x002/ ٠٠٠ -01".split()


def test_addresses_match_tlog_tiles():
    for number, text in ADDRESSES.items():
        assert tree.write_index(number) == text and tree.read_index(text) == number
    assert not any(tree.read_index(text) is not None for text in (*NO_ADDRESSES, "", "000\n"))


def test_tiles_of_70_000_leaves_match_the_specification():
    # "273 full level 0 tiles, one partial level 0 tile of width 112, one full level 1 tile, one
    # partial level 1 tile of width 17, and one partial level 2 tile of width 1"
    width = lambda level, number: tree.find_width(70_000, level, number)  # noqa: E731
    assert [width(0, 272), width(0, 273), width(0, 274)] == [256, 112, 0]
    assert [width(1, 0), width(1, 1), width(1, 2), width(2, 0), width(3, 0)] == [256, 17, 0, 1, 0]
    assert tree.find_width(256, 0, 0) == 256 and tree.find_width(256, 1, 0) == 1
    assert tree.write_path(0, 273, 112) == "tile/0/273.p/112"
    assert tree.write_path("entries", 1234067, 256) == "tile/entries/x001/x234/067"


# ---- a second implementation ---------------------------------------------------------------------
BIG = [b"leaf %d" % n for n in range(700)]
OTHER = pymerkle.InmemoryTree(algorithm="sha256")
for one in BIG:
    OTHER.append_entry(one)
READ = reader(BIG)
sizes = st.integers(1, len(BIG))


@given(sizes, st.data())
def test_roots_and_proofs_match_pymerkle(size, data):
    root = OTHER.get_state(size)
    assert tree.find_root(READ, size) == root
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    path = tree.prove_inclusion(READ, index, size)
    theirs = OTHER.prove_inclusion(index + 1, size).serialize()
    assert {one.hex() for one in path} <= set(theirs["path"])
    assert tree.follow_inclusion(tree.hash_leaf(BIG[index]), index, size, path) == root
    was = OTHER.get_state(old) if old else tree.EMPTY_ROOT
    tree.check_consistency(old, was, size, root, tree.prove_consistency(READ, old, size))


# ---- what is false is refused --------------------------------------------------------------------
@given(st.integers(2, len(BIG)), st.data())
def test_a_changed_path_or_leaf_gives_another_root(size, data):
    index = data.draw(st.integers(0, size - 1))
    path = tree.prove_inclusion(READ, index, size)
    place = data.draw(st.integers(0, len(path) - 1))
    changed = [*path[:place], bytes(32), *path[place + 1 :]]
    root, leaf = tree.find_root(READ, size), tree.hash_leaf(BIG[index])
    assert tree.follow_inclusion(leaf, index, size, changed) != root
    assert tree.follow_inclusion(tree.hash_leaf(b"edited"), index, size, path) != root
    for wrong in (path[:-1], [*path, bytes(32)]):
        with pytest.raises(tree.BadProof):
            tree.follow_inclusion(leaf, index, size, wrong)


@given(st.integers(2, len(BIG)), st.data())
def test_a_fork_is_refused(size, data):
    old = data.draw(st.integers(1, size))
    edited = data.draw(st.integers(0, old - 1))
    forked = reader([*BIG[:edited], b"edited", *BIG[edited + 1 :]])
    was, now = tree.find_root(READ, old), tree.find_root(forked, size)
    for read in (READ, forked):
        with pytest.raises(tree.BadProof):
            tree.check_consistency(old, was, size, now, tree.prove_consistency(read, old, size))


def test_an_invalid_proof_is_refused():
    for old, size, length in ((9, 8, 0), (0, 8, 1), (8, 8, 1), (3, 8, 0), (3, 8, 1), (3, 8, 9)):
        path = [bytes(32)] * length
        with pytest.raises(tree.BadProof):
            tree.check_consistency(old, tree.EMPTY_ROOT, size, bytes(32), path)
    # A leaf outside the tree.
    for index in (-1, 8):
        with pytest.raises(tree.BadProof):
            tree.follow_inclusion(bytes(32), index, 8, [bytes(32)] * 3)


@given(st.lists(st.binary(max_size=300), max_size=20), st.binary(max_size=50))
def test_bundles_and_tiles_contain_exactly_their_leaves(leaves, noise):
    tile = bytes(32 * len(leaves))
    assert tree.cut_tile(tile, len(leaves)) == [bytes(32)] * len(leaves)
    bundle = tree.write_bundle(leaves)
    assert tree.cut_bundle(bundle, len(leaves)) == leaves
    for broken in (bundle + noise + b"\1", bundle[:-1]) if leaves else (b"\0",):
        with pytest.raises(tree.BadProof):
            tree.cut_bundle(broken, len(leaves))
    for broken in (tile + noise + b"\1", tile[:-1]) if leaves else (b"\0",):
        with pytest.raises(tree.BadProof):
            tree.cut_tile(broken, len(leaves))
