"""PostgreSQL itself through psycopg: one insert of a turn's JSON per commit, and the same over many connections."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import psycopg

from bench import postgres
from bench.clock import Sample, Stopwatch
from bench.corpus import Corpus, Turn, compact
from bench.worker import compare

_TABLE = """
CREATE TABLE IF NOT EXISTS turns (id bigserial PRIMARY KEY, session text NOT NULL, body text NOT NULL)
"""
_INSERT = "INSERT INTO turns (session, body) VALUES (%s, %s)"
_ALL = "SELECT body FROM turns WHERE session = %s ORDER BY id"


class Contender:
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def open(self, folder: Path) -> None:
        self._dsn = postgres.database(folder.name)
        self._db = self._connect()
        self._db.execute(_TABLE)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._dsn, autocommit=True)

    def append(self, turns: list[Turn]) -> None:
        for one in turns:
            self._db.execute(_INSERT, ("s", compact(one)))

    def concurrent(self, sessions: int, each: int) -> Sample:
        """As many connections as sessions, each inserting its turns one commit after the other."""
        connections = [self._connect() for _ in range(sessions)]
        work = [self._corpus.turns(n * each, (n + 1) * each) for n in range(sessions)]

        def write(number: int) -> None:
            for one in work[number]:
                connections[number].execute(_INSERT, (f"s{number}", compact(one)))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(sessions)]
        with Stopwatch() as watch:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number, connection in enumerate(connections):
            compare(self._read(f"s{number}"), self._corpus, number * each, (number + 1) * each)
            connection.close()
        return watch.sample()

    def _read(self, session: str) -> list[Turn]:
        return [json.loads(body) for (body,) in self._db.execute(_ALL, (session,))]

    def read(self) -> list[Turn]:
        return self._read("s")

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        return {"version": f"psycopg {psycopg.__version__}", "commits per turn": "1"}
