"""SQLite itself through apsw: the limit nothing built on SQLite can pass.

(b) is one insert of a turn's JSON per commit, (d) many inserts per commit. WAL, synchronous=FULL. The JSON is
encoded by msgspec, the fastest at hand, so that the limit is SQLite's and not the standard library's; it is
decoded by `json.loads`, which is what a reader of such a table would call.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import msgspec

from bench import durability
from bench.clock import Sample, Stopwatch, repeat
from bench.corpus import Corpus, Turn
from bench.worker import Differs, compare

_TABLE = """
CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, session TEXT NOT NULL, body TEXT NOT NULL)
"""
_INSERT = "INSERT INTO turns (session, body) VALUES (?, ?)"
_LAST = "SELECT body FROM turns ORDER BY id DESC LIMIT ?"
_ALL = "SELECT body FROM turns WHERE session = ? ORDER BY id"


class Contender:
    @staticmethod
    def encoded(one: Turn) -> str:
        return msgspec.json.encode(one).decode()

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._session = "s"

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = str(folder / "raw.db")
        self._db = self._connect()
        self._db.execute(_TABLE)

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(self._path)
        db.set_busy_timeout(60_000)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        return db

    def become(self, session: str) -> None:
        """Write as another session from now on, so that two processes do not mix theirs."""
        self._session = session

    def append(self, turns: list[Turn]) -> None:
        for one in turns:
            self._db.execute(_INSERT, (self._session, self.encoded(one)))

    def fill(self, first: int, last: int) -> None:
        """Append without a commit each: only to reach a length, never measured."""
        with self._db:
            turns = self._corpus.iterate(first, last)
            self._db.executemany(_INSERT, ((self._session, self.encoded(one)) for one in turns))

    def concurrent(self, sessions: int, each: int) -> Sample:
        """(d): every session's next turn in one commit, `each` times."""
        rounds = [[self._corpus[s * each + n] for s in range(sessions)] for n in range(each)]
        with Stopwatch() as watch:
            for turns in rounds:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(_INSERT, ((f"s{s}", self.encoded(one)) for s, one in enumerate(turns)))
                self._db.execute("COMMIT")
        for s in range(sessions):
            found = [json.loads(body) for (body,) in self._db.execute(_ALL, (f"s{s}",))]
            compare(found, self._corpus, s * each, (s + 1) * each)
        return watch.sample()

    def handed(self, commits: int) -> Sample:
        """So many inserts, each committed by another thread while an event loop waits: the least an async store does
        that does not stop its loop. A turn is cut into four rows, as a framework hands it over.
        """
        whole = [self.encoded(one) for one in self._corpus.iterate(0, commits // 4)]
        pieces = [body[part * len(body) // 4 : (part + 1) * len(body) // 4] for body in whole for part in range(4)]

        async def one_by_one() -> Sample:
            loop = asyncio.get_running_loop()
            with Stopwatch() as watch:
                for body in pieces:
                    await loop.run_in_executor(pool, self._db.execute, _INSERT, ("handed", body))
            return watch.sample()

        with ThreadPoolExecutor(1) as pool:
            sample = asyncio.run(one_by_one())
        found = [body for (body,) in self._db.execute(_ALL, ("handed",))]
        if found[-len(pieces) :] != pieces:
            raise Differs("the rows handed to another thread differ from what was stored")
        return sample

    def ready(self, last: int, times: int) -> dict[str, list[Sample]]:
        """The last turns: from a fresh connection, from an open one, and the bare rows without decoding."""

        def rows(db: apsw.Connection) -> list[Any]:
            return db.execute(_LAST, (last,)).fetchall()

        def fresh() -> tuple[apsw.Connection, list[Any]]:
            db = self._connect()
            return db, [json.loads(body) for (body,) in rows(db)]

        return {
            "fresh": repeat(fresh, times, after=lambda opened: opened[0].close()),
            "open": repeat(lambda: [json.loads(body) for (body,) in rows(self._db)], times),
            "select": repeat(lambda: rows(self._db), times),
        }

    def history(self, times: int) -> dict[str, list[Sample]]:
        """Everything, decoded and as bare rows."""

        def rows() -> list[Any]:
            return self._db.execute(_ALL, (self._session,)).fetchall()

        return {
            "decoded": repeat(lambda: [json.loads(body) for (body,) in rows()], times),
            "select": repeat(rows, times),
        }

    def read(self) -> list[Turn]:
        return [json.loads(body) for (body,) in self._db.execute(_ALL, (self._session,))]

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        place = Path(f"{Path(self._path).parent}-counted")
        return {
            "version": f"apsw {apsw.apsw_version()}",
            "sqlite": apsw.sqlite_lib_version(),
            "durability": durability.counted(type(self)(self._corpus), place, self._corpus.turns(0, 10)),
            "commits per turn": "1",
        }
