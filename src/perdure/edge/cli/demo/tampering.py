"""The last act: the store is whole, and one flipped bit in a copy of it does not stay hidden."""

import os
import shutil

from perdure.edge.cli import output
from perdure.edge.cli.demo.acts import Trip
from perdure.edge.cli.demo.stage import Stage
from perdure.edge.cli.text import one_line


def tampering(stage: Stage, trip: Trip, folder: str) -> None:
    """Verify the store, then a copy in which one bit is flipped."""
    import perdure

    stage.act(6, "One bit")
    stage.tell("Every event is chained to the one before it, so that verifying finds what was changed, whoever did it.")
    stage.code("db.verify()")
    with perdure.open(trip.store, read_only=True) as db:
        digest = db.session(trip.session).events()[1].digest
        report = db.verify()
    stage.claim("the store verifies, every byte of every session", report.ok)
    copy = os.path.join(folder, "copy.db")
    shutil.copyfile(trip.store, copy)
    place = flip_one_bit(copy, digest)
    stage.show(output.styled(f"  flipped the lowest bit of byte {place:,} in a copy of the file", "yellow"))
    with perdure.open(copy, read_only=True) as db:
        damaged = db.verify()
    for problem in damaged.problems[:2]:
        stage.show(output.styled(f"  {one_line(str(problem), 150)}", "red"))
    stage.claim("the flipped bit is found", not damaged.ok)


def flip_one_bit(path: str, stored: bytes) -> int:
    """Flip the lowest bit of the first of these bytes in a file; where that is. `ValueError` if they are not there."""
    with open(path, "r+b") as file:
        place = file.read().index(stored)
        file.seek(place)
        file.write(bytes([stored[0] ^ 1]))
    return place
