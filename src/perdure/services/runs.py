"""Runs of a consolidation as they are written: begun, claimed, stepped, ended.

Each batch of steps is one append together with how far the run has got, decided on the space as it stands then. So a
run that is killed anywhere has done each of its steps wholly or not at all. Whoever goes on with a run claims it; who
was at it finds out with the next thing that is to be written, and lets go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from perdure.core.errors import NotFound
from perdure.core.memory.cadence import OPEN, due_at, open_run
from perdure.core.memory.parts import Memory, Space
from perdure.core.memory.shelf import Run, Shelf
from perdure.core.memory.stepping import Bench
from perdure.core.memory.steps import PHASES, Phase, Step
from perdure.core.memory.whom import about
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryRun
from perdure.services.shelves import Shelves

PAUSE: Final = 0.2
"""Seconds between two looks at a run that somebody else is at."""
FIRST: Final = f"{PHASES[0]}:0"
"""How far a run has got that has done nothing yet."""
Chosen = tuple[Step | None, tuple[str, str] | None]
"""A step to take, and the pair it is about if somebody was asked: where it is not taken, that is left as it is."""
Choosing = Callable[[Mapping[str, Memory]], Iterable[Chosen]]


class Lost(Exception):
    """The run is over, or somebody else is at it."""


class Spent(Exception):
    """There is not enough left for another question."""


class Runs:
    """What a consolidation writes of its runs."""

    def __init__(self, shelves: Shelves, fresh: int) -> None:
        self._shelves = shelves
        self._ambient = shelves.sessions.ambient
        self._fresh_id = shelves.sessions.fresh_id
        self.fresh = fresh
        """Microseconds after its last step during which a run is taken to be under way somewhere."""

    async def begun(self, space: Space, trigger: str, *, asks: bool, due: int | None = None) -> tuple[Run, bool]:
        """The run that is to be gone on with, or a new one, and whether it is; on schedule, the last one when none is
        `due` at that time, or now.
        """
        id, worker, now = self._fresh_id(), self._fresh_id(), self._ambient.now() if due is None else due

        def decide(shelf: Shelf) -> Sequence[Payload]:
            if open_run(shelf) is not None or (trigger == "schedule" and not self._is_due(shelf, now)):
                return []
            return [MemoryRun(id=id, phase="began", trigger=trigger, worker=worker, asks=asks)]

        shelf = (await self._shelves.write(space, decide))[0].shelf
        run = shelf.runs.get(id) or open_run(shelf) or next(reversed(shelf.runs.values()), None)
        return run or Run(id="", phase="ended", trigger=trigger), id in shelf.runs

    def _is_due(self, shelf: Shelf, now: int) -> bool:
        at = due_at(shelf, self.fresh)
        return at is not None and at <= now

    def is_busy(self, run: Run) -> bool:
        """Whether somebody seems to be at it."""
        return run.phase in OPEN and self._ambient.now() - run.at < self.fresh

    async def claimed(self, space: Space, run: Run) -> Run:
        """A run that somebody else was at, to be gone on with here. Raises `Lost`."""
        worker = self._fresh_id()

        def decide(shelf: Shelf) -> Sequence[Payload]:
            now = _at(shelf, run)
            return [_told(now, worker=worker)] if now.phase in OPEN else []

        return await self._written(space, Run(id=run.id, phase=run.phase, worker=worker), decide)

    async def set_aside(self, space: Space, run: Run, cost: int, most: int) -> Run:
        """Have it cost so much more, as long as that is no more than it may. Raises `Spent`, or `Lost`."""

        def decide(shelf: Shelf) -> Sequence[Payload]:
            at = _at(shelf, run)
            if not _is_held(run, at):
                return []
            if at.cost + cost > most:
                raise Spent
            return [_told(at, phase="stepped", place=at.place or FIRST, cost=at.cost + cost)]

        return await self._written(space, run, decide)

    async def stepped(
        self, space: Space, run: Run, phase: Phase, choose: Choosing, *, model: str = "", cost: int = 0
    ) -> Run:
        """Take some steps, as far as they still fit, and write how far the run has got: all in one append. `cost`
        is what was spent beside what was set aside. Raises `Lost`; what was spent is written all the same.
        """
        now = self._ambient.now()

        def decide(shelf: Shelf) -> Sequence[Payload]:
            at = _at(shelf, run)
            named, spent = model or at.model, at.cost + cost
            if not _is_held(run, at):
                return [_told(at, model=named, cost=spent)] if cost else []
            bench = Bench(shelf.memories, run.id, now, about(shelf))
            found, apart = dict(at.found), list[tuple[str, str]]()
            for step, pair in choose(shelf.memories):
                if step is not None and bench.take(step):
                    found[step.phase] = found.get(step.phase, 0) + 1
                elif pair is not None:
                    apart.append(pair)
            payloads = bench.events()
            if not payloads and not apart and not cost and named == at.model:
                return []
            place = f"{phase}:{sum(found.values())}"
            marked = {"phase": "stepped", "place": place, "found": found, "apart": tuple(apart)}
            return [*payloads, _told(at, model=named, cost=spent, **marked)]

        return await self._written(space, run, decide)

    async def lacked(self, space: Space, run: Run, lacking: str) -> Run:
        """Say who should have had a say and failed. Raises `Lost`."""
        if not lacking or lacking in run.lacking:
            return run

        def decide(shelf: Shelf) -> Sequence[Payload]:
            at = _at(shelf, run)
            told = f"{at.lacking}; {lacking}" if at.lacking else lacking
            return [_told(at, lacking=told)] if _is_held(run, at) else []

        return await self._written(space, run, decide)

    async def ended(self, space: Space, run: Run) -> Run:
        """Say that it has come to its end. Raises `Lost`."""

        def decide(shelf: Shelf) -> Sequence[Payload]:
            at = _at(shelf, run)
            return [_told(at, phase="ended", place=at.lacking)] if _is_held(run, at) else []

        at = _at((await self._shelves.write(space, decide))[0].shelf, run)
        if at.worker != run.worker:
            raise Lost
        return at

    async def seen(self, space: Space, run: Run) -> Run:
        """A run as it is now. `NotFound` when what is remembered was erased meanwhile."""
        found = (await self._shelves.look(space)).shelf.runs.get(run.id)
        if found is None:
            raise NotFound(f"what was remembered in {space} was erased while it was consolidated", space=str(space))
        return found

    async def awaited(self, space: Space, run: Run) -> Run:
        """A run that somebody else is at, when it is over or nobody seems to be at it any more."""
        while True:
            run = await self.seen(space, run)
            if not self.is_busy(run):
                return run
            await self._ambient.sleep(PAUSE)

    async def _written(self, space: Space, run: Run, decide: Callable[[Shelf], Sequence[Payload]]) -> Run:
        at = _at((await self._shelves.write(space, decide))[0].shelf, run)
        if not _is_held(run, at):
            raise Lost
        return at


def _at(shelf: Shelf, run: Run) -> Run:
    """A run as the log tells it. `Lost` when that is gone."""
    if run.id not in shelf.runs:
        raise Lost
    return shelf.runs[run.id]


def _is_held(run: Run, now: Run) -> bool:
    """Whether who has `run` is still at it."""
    return now.phase in OPEN and now.worker == run.worker


def _told(run: Run, **changed: object) -> MemoryRun:
    """A run as it is to be, for the log."""
    names = ("id", "phase", "place", "found", "model", "cost", "worker", "asks", "lacking")
    fields = {name: getattr(run, name) for name in names} | changed
    return MemoryRun(**fields)
