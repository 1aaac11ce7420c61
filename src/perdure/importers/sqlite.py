"""Other programs' SQLite files, opened so that reading them changes nothing and leaves nothing beside them."""

import sqlite3
from pathlib import Path
from typing import Final

UNREADABLE: Final = (sqlite3.Error, UnicodeError)
"""What comes of reading a file that was damaged: SQLite's own words about it may be no text, either."""
_MODES: Final = 18
"""Where the header says how the file is written: 2 is a write-ahead log."""


def reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. A file with a write-ahead log that nobody has open is read as it lies: to take
    part in the log would make two files beside it. Texts that are no UTF-8 are read with lone surrogates in them.
    """
    with path.open("rb") as file:
        header = file.read(20)
    logged = header[_MODES:] == b"\x02\x02"
    alone = logged and not Path(f"{path}-wal").exists()
    how = "mode=ro&immutable=1" if alone else "mode=ro"
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection
