"""The last act: the store is whole, and one flipped bit in a copy of it does not stay hidden."""

import os
import shutil
from collections.abc import Iterable

from perdure.edge.cli import output
from perdure.edge.cli.demo.acts import Trip
from perdure.edge.cli.demo.crash import SAID
from perdure.edge.cli.demo.stage import Stage


def tampering(stage: Stage, trip: Trip, folder: str) -> None:
    """Verify the store, then a copy in which one bit is flipped."""
    import perdure

    stage.act(6, "One bit")
    stage.tell("Every event is chained to the one before it, so that verifying finds what was changed in it.")
    stage.code("db.verify()")
    with perdure.open(trip.store, read_only=True) as db:
        digests = [event.digest for event in db.session(trip.session).events()]
        report = db.verify()
    stage.claim(f"the store verifies: {report.sessions} sessions, {report.events} events, every byte", report.ok)
    copy = copied(trip.store, os.path.join(folder, "copy.db"))
    # What was said stands in the file in plain letters if the store is not sealed; a digest always does.
    place = flip_one_bit(copy, [SAID.encode(), *digests])
    stage.show(output.styled(f"flipped one bit of byte {place} in a copy of the file", "yellow"))
    with perdure.open(copy, read_only=True) as db:
        found = db.verify()
    named = [item for damaged in found.damaged if damaged.session == trip.session for item in damaged.problems]
    for item in named[:1]:
        versions = f", versions {item.versions[0]} to {item.versions[1]}" if item.versions else ""
        stage.show(output.styled(f"{item.place}{versions}: {item.what}", "red"))
    stage.claim("the flipped bit is found, and the events it lies in are named", place is not None and named)


def copied(store: str, copy: str) -> str:
    """A copy of a store at rest, its write-ahead log folded in, with its key and its vault."""
    import perdure

    for suffix in ("", "-wal", ".master", ".keys", ".keys-wal"):
        if os.path.exists(store + suffix):
            shutil.copy(store + suffix, copy + suffix)
    perdure.open(copy).close()
    return copy


def flip_one_bit(path: str, candidates: Iterable[bytes]) -> int | None:
    """Flip the lowest bit of the first of these bytes that stand in a file; where, or None if none do."""
    with open(path, "r+b") as file:
        content = file.read()
        for wanted in candidates:
            place = content.find(wanted)
            if place >= 0:
                file.seek(place)
                file.write(bytes([wanted[0] ^ 1]))
                return place
    return None
