"""Hypothesis strategies for plain values, shared by the tests of the session core."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from perdure.core.session.values import DURATION_MAX, DURATION_MIN, Ref

NAIVE = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)

integers = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, -1, -32, -33, 127, 128, 2**63 - 1, 2**63, 2**64 - 1])
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e16, 5e-324])
texts = st.text(max_size=20)
keys = st.sampled_from(["a", "b", "$", "$$", "$bytes", "$time", "é", "\U0001f600", ""]) | st.text(max_size=8)
times = st.datetimes(timezones=st.just(UTC))
durations = st.timedeltas(DURATION_MIN, DURATION_MAX) | st.just(timedelta(0))
refs = st.builds(Ref, uri=st.text(min_size=1, max_size=20), sha256=st.binary(min_size=32, max_size=32))

leaves = st.none() | st.booleans() | integers | floats | texts | st.binary(max_size=20) | times | durations | refs
small = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, -0.0, 1.0, "a", "b", b"a"])
elements = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=4
)
sets = st.sets(elements, max_size=4) | st.frozensets(elements, max_size=4)


def boxes_of(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Lists, tuples and maps of something."""
    listed = st.lists(inner, max_size=4)
    return listed | listed.map(tuple) | st.dictionaries(keys, inner, max_size=4)


values = st.recursive(leaves | sets, boxes_of, max_leaves=12)
documents = st.dictionaries(keys, values, max_size=5)

# Few leaves and few keys, so that two drawn values often have much in common.
small_sets = st.frozensets(st.integers(0, 3) | st.sampled_from(["x", True]), max_size=3)
similar = st.recursive(
    small | small_sets,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=10,
)
similar_documents = st.dictionaries(st.sampled_from("abcd"), similar, max_size=4)
