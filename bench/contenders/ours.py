"""perdure: one `append` of a turn's four events, acknowledged once it is on disk."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import apsw

import perdure
from bench import durability
from bench.clock import Sample, Stopwatch, repeat
from bench.corpus import Corpus, Turn
from bench.worker import Differs, compare
from perdure import events as e


def _events(one: Turn) -> list[Any]:
    return [
        e.TurnStarted(content=one["user"]),
        e.ToolAsked(call=one["call"], name=one["tool"], arguments=one["arguments"]),
        e.ToolFinished(call=one["call"], result=one["result"]),
        e.TurnFinished(content=one["answer"]),
    ]


def _turns(history: list[Any]) -> list[Turn]:
    """The corpus' form of a session's log."""
    found: list[Turn] = []
    for event in history:
        data = event.data
        if isinstance(data, e.TurnStarted):
            found.append({"user": data.content})
        elif isinstance(data, e.TurnFinished):
            found[-1]["answer"] = data.content
        elif isinstance(data, e.ToolAsked):
            found[-1].update(call=data.call, tool=data.name, arguments=data.arguments)
        elif isinstance(data, e.ToolFinished):
            found[-1]["result"] = data.result
    return found


def _check_tail(turns: list[Any], corpus: Corpus, first: int, last: int) -> None:
    """Raises `Differs` unless these are the turns `first..last`, by the question and the answer of each."""
    if len(turns) != last - first:
        raise Differs(f"{len(turns)} turns came back, {last - first} asked for")
    for index, one in enumerate(turns, start=first):
        said = [message.content for message in one.messages if message.role in ("user", "assistant")]
        if said[0] != corpus[index]["user"] or said[-1] != corpus[index]["answer"]:
            raise Differs(f"turn {index} read back differs from what was stored")


class Contender:
    seal = False

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._session: Any = None

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = str(folder / "perdure.db")
        self._db = perdure.open(self._path, seal=self.seal)
        self._session = self._db.create(title="bench")
        self._versions: list[Any] = []

    def resume(self, folder: str, session: str, versions: list[Any]) -> None:
        """Open a store that another worker, or this one, filled before."""
        self._path = str(Path(folder) / "perdure.db")
        self._db = perdure.open(self._path)
        self._session = self._db.session(session)
        self._versions = list(versions)

    def where(self) -> dict[str, Any]:
        """What `resume` needs to go on from here."""
        return {"session": str(self._session.id), "versions": self._versions}

    def append(self, turns: list[Turn]) -> None:
        session, versions = self._session, self._versions
        for one in turns:
            versions.append(session.append(_events(one)))

    def concurrent(self, sessions: int, each: int) -> Sample:
        """Many sessions at once in one event loop, each appending its turns one after the other."""
        return asyncio.run(self._concurrent(sessions, each))

    async def _concurrent(self, sessions: int, each: int) -> Sample:
        db = await perdure.aopen(self._path)
        try:
            handles = [await db.create(title=f"bench {n}") for n in range(sessions)]
            work = [self._corpus.turns(n * each, (n + 1) * each) for n in range(sessions)]

            async def one_session(handle: Any, turns: list[Turn]) -> None:
                for one in turns:
                    await handle.append(_events(one))

            with Stopwatch() as watch:
                await asyncio.gather(*map(one_session, handles, work))
            for n, handle in enumerate(handles):
                compare(_turns(list(await handle.events())), self._corpus, n * each, (n + 1) * each)
        finally:
            await db.close()
        return watch.sample()

    def ready(self, last: int, times: int) -> dict[str, list[Sample]]:
        """State and last turns: from a database opened afresh, and from a fresh handle on an open one."""
        identity, end = self._session.id, len(self._versions)

        def load(db: Any) -> tuple[Any, list[Any]]:
            session = db.session(identity)
            session.state()
            return db, list(session.turns(last=last))

        def check(loaded: tuple[Any, list[Any]]) -> None:
            _check_tail(loaded[1], self._corpus, end - last, end)

        def check_and_close(loaded: tuple[Any, list[Any]]) -> None:
            check(loaded)
            loaded[0].close()

        return {
            "fresh": repeat(lambda: load(perdure.open(self._path)), times, after=check_and_close),
            "open": repeat(lambda: load(self._db), times, after=check),
        }

    def history(self, times: int) -> dict[str, list[Sample]]:
        """The whole log, its chain verified, from a fresh handle."""
        identity, end = self._session.id, len(self._versions)

        def check(history: list[Any]) -> None:
            compare(_turns(history), self._corpus, 0, end)

        return {"verified": repeat(lambda: list(self._db.session(identity).events()), times, after=check)}

    def forks(self, times: int) -> dict[str, list[Sample]]:
        """Forks at the midpoint and durable appends of one turn, in alternation."""
        middle = len(self._versions) // 2
        fresh = itertools.count(len(self._versions))
        samples: dict[str, list[Sample]] = {"fork": [], "append": []}

        def check(branch: Any) -> None:
            _check_tail(list(branch.turns(last=1)), self._corpus, middle - 1, middle)

        at = self._versions[middle - 1]
        for _ in range(times):
            samples["fork"] += repeat(lambda: self._session.branch(at=at), 1, after=check)
            payload = _events(self._corpus[next(fresh)])
            samples["append"] += repeat(partial(self._session.append, payload), 1)
        return samples

    def fork_many(self, count: int) -> None:
        """`count` forks at the midpoint, to weigh them."""
        at = self._versions[len(self._versions) // 2 - 1]
        for _ in range(count):
            self._session.branch(at=at)

    def populate(self, sessions: int) -> None:
        """Many small sessions, for listing."""
        asyncio.run(self._populate(sessions))

    async def _populate(self, sessions: int) -> None:
        db = await perdure.aopen(self._path)
        try:
            for first in range(0, sessions, 64):
                numbers = range(first, min(sessions, first + 64))
                await asyncio.gather(*(db.create(title=f"bench {n}") for n in numbers))
        finally:
            await db.close()

    def page(self, limit: int, times: int) -> list[Sample]:
        """The first page of all sessions."""

        def check(page: Any) -> None:
            found = len(list(getattr(page, "items", page)))
            if found != limit:
                raise Differs(f"{found} sessions on a page of {limit}")

        return repeat(lambda: self._db.find(limit=limit), times, after=check)

    def read(self) -> list[Turn]:
        return _turns(list(self._session.events()))

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, str]:
        place = Path(f"{Path(self._path).parent}-counted")
        try:
            installed = version("perdure")
        except PackageNotFoundError:
            installed = "from source"
        return {
            "version": f"perdure {installed}",
            "sqlite": apsw.sqlite_lib_version(),
            "durability": durability.counted(type(self)(self._corpus), place, self._corpus.turns(0, 10)),
            "commits per turn": "1",
        }
