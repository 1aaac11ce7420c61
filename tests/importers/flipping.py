"""Files whose bytes flipped: what an import does with them must be a report or a typed error, and the dry run's too."""

import random
from pathlib import Path
from typing import Any

import msgspec

import perdure
from perdure import errors

TIMES = 40


def flipped(source: Path, importing: Any, file: Path | None = None) -> None:
    """Import a file, or a folder with this file in it, again and again with other bytes in other places."""
    chance = random.Random(7)
    file = file or source
    whole = file.read_bytes()
    for number in range(TIMES):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 40)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data[: chance.randrange(len(data))] if number % 5 == 0 else data)
        with perdure.open(":memory:") as db:
            tried, found = (_outcome(importing(db, str(source), dry_run=dry)) for dry in (True, False))
            assert tried == found, number
            for row in db.find(limit=100).items:
                assert db.session(row.session).verify().ok
            again = _outcome(importing(db, str(source)))
            if not isinstance(again, str):
                assert again.items == 0, (number, again)


def _outcome(importing: Any) -> Any:
    try:
        return msgspec.structs.replace(perdure.drive(importing), dry_run=False)
    except errors.PerdureError as error:
        return str(error)
