"""What a signed head says about a log, for every log and every head."""

from hypothesis import given
from hypothesis import strategies as some

from perdure.core.session.heads import Stands, stands

VERSIONS = some.integers(1, 1000)
DIGESTS = some.binary(min_size=32, max_size=32)


@given(some.lists(DIGESTS, min_size=1, max_size=30), some.data())
def test_a_log_stands_whole_to_every_head_it_ever_had(log: list[bytes], data: some.DataObject) -> None:
    version = data.draw(some.integers(1, len(log)))
    assert stands((version, log[version - 1]), len(log), log[version - 1]) is Stands.WHOLE


@given(VERSIONS, VERSIONS, DIGESTS, some.none() | DIGESTS, some.integers(0, 1000))
def test_a_log_that_ends_before_its_head_was_cut_whatever_else_is_said(
    signed: int, behind: int, digest: bytes, found: bytes | None, anchor: int
) -> None:
    assert stands((signed + behind, digest), signed, found, anchor) is Stands.CUT


@given(VERSIONS, some.integers(0, 1000), DIGESTS, some.none() | DIGESTS)
def test_only_the_signed_digest_stands_for_the_signed_log(
    version: int, more: int, digest: bytes, found: bytes | None
) -> None:
    expected = Stands.WHOLE if found == digest else Stands.OTHER
    assert stands((version, digest), version + more, found) is expected
    assert stands((version, digest), version + more, found, version) is expected, "the anchor's own digest is kept"


@given(VERSIONS, VERSIONS, some.integers(0, 1000), DIGESTS)
def test_what_was_pruned_since_speaks_neither_way(version: int, pruned: int, more: int, digest: bytes) -> None:
    anchor = version + pruned
    assert stands((version, digest), anchor + more, None, anchor) is Stands.PRUNED
