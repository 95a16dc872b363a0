"""Receipts with arbitrary values in any place."""

from hypothesis import strategies as st
from story import account_of, address


def at(raw, path):
    for step in path[:-1]:
        raw = raw[step]
    return raw, path[-1]


def paths_of(value, path=()):
    yield path
    steps = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in steps:
        yield from paths_of(inner, (*path, step))


JSON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=50),
    st.just([]),
    st.just({}),
    st.sampled_from(
        [
            address("ada"),
            address(account_of("ada", "CAT")),
            "9" * 25,
            "So11111111111111111111111111111111111111112",
        ]
    ),
)
