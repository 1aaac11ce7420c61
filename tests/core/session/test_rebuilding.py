"""The machine that reads an export hands out proven records, and knows a session only when it has read all of it."""

import pytest

from perdure.core.errors import BadExport
from perdure.core.session import jsonl, record
from perdure.core.session.jsonl import Footer, Header, Part
from perdure.core.session.rebuilding import Rebuilder
from perdure.core.session.record import Record
from perdure.testing import Builder, FixedAmbient, Made
from perdure.testing.building import said


def events(*chapters: Made) -> list[bytes]:
    return [
        jsonl.written(jsonl.event_line(event))
        for made in chapters
        for event in record.read(made.commit.record, made.state.tenant, made.start)
    ]


def export(*chapters: Made) -> list[bytes]:
    """The lines of a session that these commits made."""
    last = chapters[-1]
    header = Header(session=last.session, tenant=last.state.tenant, version=last.version, digest=last.digest.hex())
    footer = Footer(events=last.version, digest=last.digest.hex())
    return [jsonl.written(header), *events(*chapters), jsonl.written(footer)]


def fed(lines: list[bytes]) -> tuple[Rebuilder, list[tuple[Record, bytes]]]:
    rebuilder = Rebuilder()
    found = [rebuilder.take(line) for line in lines]
    return rebuilder, [item for item in found if item is not None]


def story() -> list[Made]:
    make = Builder(FixedAmbient())
    first = make.create(said("a"), title="it")
    second = make.append(first, said("b"), said("c"))
    return [first, second, make.append(second, said("d"))]


def test_records_are_handed_out_once_the_next_one_begins() -> None:
    chapters = story()
    rebuilder, found = fed(export(*chapters))
    assert found == [(made.commit.record, made.digest) for made in chapters]
    assert rebuilder.finished
    assert rebuilder.state == chapters[-1].state
    assert (rebuilder.version, rebuilder.events, rebuilder.digest) == (5, 5, chapters[-1].digest)


def test_nothing_is_finished_before_the_last_line() -> None:
    rebuilder, _ = fed(export(*story())[:-1])
    assert not rebuilder.finished
    with pytest.raises(BadExport, match="cut"):
        rebuilder.cut_short()


def test_a_file_that_was_begun_earlier_may_be_longer_than_its_header_says() -> None:
    chapters = story()
    rebuilder, _ = fed([export(*chapters[:1])[0], *export(*chapters)[1:]])
    assert rebuilder.version == 5


def test_a_file_may_not_be_shorter_than_its_header_says() -> None:
    chapters = story()
    with pytest.raises(BadExport, match="speaks of 5"):
        fed([export(*chapters)[0], *export(*chapters[:-1])[1:]])


def test_only_the_wanted_tenant_is_read() -> None:
    lines = export(*story())
    assert Rebuilder("tenant").take(lines[0]) is None
    with pytest.raises(BadExport, match="tenant"):
        Rebuilder("other").take(lines[0])


def branch_lines(upto: int) -> list[bytes]:
    make = Builder(FixedAmbient())
    parent = make.create(said("a"), said("b"), said("c"))
    branch = make.branch(parent, said("d"), version=3)
    (segment,) = branch.segments
    header = Header(
        session=branch.session,
        tenant=branch.state.tenant,
        version=branch.version,
        digest=branch.digest.hex(),
        segments=(Part(origin=parent.session, upto=upto, digest=segment.digest.hex()),),
    )
    footer = Footer(events=branch.version, digest=branch.digest.hex())
    return [jsonl.written(header), *events(parent)[:3], *events(branch), jsonl.written(footer)]


def test_a_branch_inside_a_record_gets_as_much_of_it_as_it_shares() -> None:
    rebuilder, found = fed(branch_lines(3))
    assert [(item.first, item.last) for item, _ in found] == [(1, 3), (4, 5)]
    assert rebuilder.segments[0].upto == 3


@pytest.mark.parametrize("upto", [1, 2, 4, 5, 9])
def test_a_segment_that_ends_elsewhere_is_refused(upto: int) -> None:
    with pytest.raises(BadExport):
        fed(branch_lines(upto))


def test_a_branch_without_its_segments_is_refused() -> None:
    lines = branch_lines(3)
    head = jsonl.read(lines[0], 1)
    assert isinstance(head, Header)
    bare = Header(session=head.session, tenant=head.tenant, version=head.version, digest=head.digest)
    with pytest.raises(BadExport):
        fed([jsonl.written(bare), *lines[1:]])


def test_another_session_cannot_be_slipped_into_an_export() -> None:
    ours, theirs = export(*story()), export(Builder(FixedAmbient(seed=b"other")).create(said("x"), said("y")))
    with pytest.raises(BadExport):
        fed([ours[0], *theirs[1:-1], ours[-1]])
