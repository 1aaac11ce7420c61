"""Consolidation of memory spaces: run in batches, resumed after a crash, looked at, and undone.

One at a time works on a run; who comes while somebody is at it goes on with it instead, and the other one waits for
its end. No step is taken twice, whoever takes it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cache, partial
from typing import Any, Final

import msgspec

from perdure.core.errors import NotFound, PerdureError, Refused
from perdure.core.memory import plans
from perdure.core.memory.cadence import FRESH, OPEN, due_at
from perdure.core.memory.comparing import holds
from perdure.core.memory.consolidating import planned
from perdure.core.memory.parts import TAG, Memory, Space, space_of
from perdure.core.memory.rereading import CERTAIN
from perdure.core.memory.retelling import Did, intended, retold
from perdure.core.memory.settling import Settled
from perdure.core.memory.shelf import Run, Shelf
from perdure.core.memory.statements import Reading, read
from perdure.core.memory.stepping import Bench, Taken, Trace
from perdure.core.memory.steps import NOTHING, PHASES, Apart, Phase, Planned, Step
from perdure.core.memory.tracing import brought
from perdure.core.memory.whom import about
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryMoved, MemoryRun
from perdure.ports.store import Head, Query, Row
from perdure.services.asking import Asking
from perdure.services.judging import Judging
from perdure.services.memories import Memories
from perdure.services.runs import Chosen, Lost, Runs
from perdure.services.shelves import Known
from perdure.services.weighing import Weighed, Weighing
from perdure.waiting import aside

BATCH: Final = 100
"""Steps of one append."""
BACK: Final = 2_000
"""Events of one append when a run is undone."""
PAGE: Final = 500


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has got: steps done and known of in this phase, and all that was found so far."""

    run: str
    phase: str
    done: int
    total: int
    found: dict[str, int]


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep did: runs by space, and what failed."""

    ran: dict[str, Run] = {}
    failed: dict[str, str] = {}


class Consolidating:
    """What edges call. Without a judge, rules and vectors decide alone."""

    def __init__(
        self,
        memories: Memories,
        judging: Judging | None = None,
        *,
        weighing: Weighing | None = None,
        batch: int = BATCH,
        fresh: int = FRESH,
        scheduled: bool = True,
    ):
        """Unless `scheduled`, sweeps run nothing."""
        self._shelves = memories.shelves
        self._sessions = memories.shelves.sessions
        self._runs = Runs(memories.shelves, fresh)
        self._asking = Asking(memories.shelves, self._runs, judging, batch)
        self._weighing = weighing
        self._batch = batch
        self._scheduled = scheduled
        self._due: dict[Space, tuple[bytes, int | None]] = {}

    # ── running ──

    async def run(
        self,
        space: Space,
        *,
        trigger: str = "demand",
        dry: bool = False,
        told: Callable[[Progress], None] | None = None,
        at: int | None = None,
    ) -> Run:
        """Consolidate a space; a run that is not over is gone on with. `QuotaReached` when the plan has none on demand.
        A dry one, which every plan has, writes nothing, and says what would be found and done. One on schedule does
        nothing unless it is due, `at` some other time than now.
        """
        shelf = (await self._shelves.look(space)).shelf
        if not shelf.version:
            raise NotFound(f"nothing is remembered in {space}; keep something first", space=str(space))
        if dry:
            return await self._tried(space, trigger)
        if trigger == "demand":
            plans.must_consolidate(plans.plan_of(shelf.plan), str(space))
        for stopped in [run.id for run in shelf.runs.values() if run.phase == "undoing"]:
            with suppress(Refused):
                await self.undo(space, stopped)
        run, ours = await self._runs.begun(space, trigger, asks=self._asking.can, due=at)
        while run.phase in OPEN and (ours or trigger == "demand" or not self._runs.is_busy(run)):
            try:
                return await self._went_on(space, run if ours else await self._runs.claimed(space, run), told)
            except Lost:
                look = self._runs.seen if trigger == "schedule" else self._runs.awaited
                run, ours = await look(space, run), False
        return run

    async def preview(self, space: Space) -> tuple[Step, ...]:
        """The steps that a run would take now, as far as rules and vectors decide."""
        return tuple(step for step, _ in await self._previewed(space))

    async def _tried(self, space: Space, trigger: str) -> Run:
        now, found, would = self._sessions.ambient.now(), dict[str, int](), list[Did]()
        for step, did in await self._previewed(space):
            found[step.phase] = found.get(step.phase, 0) + 1
            would.append(did)
        return Run(id="", phase="dry", trigger=trigger, found=found, began_at=now, at=now, would=tuple(would))

    async def _previewed(self, space: Space) -> list[tuple[Step, Did]]:
        """The steps that a run would take, and how they are told."""
        known, now = await self._shelves.look(space), self._sessions.ambient.now()
        bench = Bench(dict(known.shelf.memories), "", now, about(known.shelf))
        apart = await self._apart(known)
        taken, reading = list[tuple[Step, Did]](), cache(read)
        settled = (await self._weighed(known, {}, reading)).settled
        since = _last(known.shelf)
        for phase in PHASES:
            steps = (await self._planned(phase, [*bench], settled, since, apart, reading)).steps
            for step in steps:
                memory, by = bench.get(step.id), bench.get(step.by)
                if memory is not None and bench.take(step):
                    taken.append((step, intended(step, memory, by, now)))
        return taken

    async def _went_on(self, space: Space, run: Run, told: Callable[[Progress], None] | None) -> Run:
        known = await self._shelves.look(space)
        apart, reading = await self._apart(known), cache(read)
        begin = run.place.partition(":")[0]
        before = (await self._traced(space, run.id)).before if run.place else {}
        weighed, since = await self._weighed(known, before, reading), _last(known.shelf)
        run = await self._runs.lacked(space, run, weighed.lacking)

        def tell(phase: Phase, run: Run, done: int, total: int) -> None:
            if told is not None:
                told(Progress(run=run.id, phase=phase, done=done, total=total, found=run.found))

        for phase in PHASES[PHASES.index(begin) if begin in PHASES else 0 :]:
            known = await self._shelves.look(space)
            plan = await self._planned(
                phase, [*known.shelf], weighed.settled, since, apart, reading, CERTAIN if run.asks else 0.0
            )
            for first in range(0, len(plan.steps), self._batch):
                some = plan.steps[first : first + self._batch]
                run = await self._runs.stepped(space, run, phase, _plainly(some))
                tell(phase, run, first + len(some), len(plan.steps))
            if plan.doubts:
                run = await self._asking.over(space, run, plan.doubts, partial(tell, phase))
        return await self._runs.ended(space, run)

    async def _planned(
        self,
        phase: Phase,
        memories: Sequence[Memory],
        settled: Sequence[Settled],
        since: int,
        apart: Apart,
        reading: Reading,
        certain: float = 0.0,
    ) -> Planned:
        now = self._sessions.ambient.now()
        return await aside(
            lambda: planned(
                phase, memories, now, settled=settled, certain=certain, since=since, apart=apart, reading=reading
            )
        )

    async def _weighed(self, known: Known, before: Mapping[str, Memory], reading: Reading) -> Weighed:
        """What is settled about pairs of which at least one came since the last run, as memories were before this one;
        by words alone where there are no vectors.
        """
        weighing, embedder = self._weighing, self._shelves.embedder()
        if weighing is None:
            return Weighed()
        now, since = self._sessions.ambient.now(), _last(known.shelf)
        memories = [memory for each in known.shelf if holds(memory := before.get(each.id, each), now)]
        return await aside(lambda: weighing.settled(memories, since, embedder, reading))

    # ── looking back ──

    async def runs(self, space: Space) -> tuple[Run, ...]:
        """The runs there were, oldest first."""
        return tuple((await self._shelves.look(space)).shelf.runs.values())

    async def steps(self, space: Space, run: str) -> tuple[Did, ...]:
        """What a run did, and what was done to take it back."""
        trace = await self._traced(space, run)
        return retold(trace.did, trace.shelf.memories)

    async def undo(self, space: Space, run: str) -> int:
        """Take a run back: every memory it touched is as it was before; how many there were. What was forgotten since
        stays so. `Refused` names what others have changed since in the same places. `QuotaReached`, and nothing is
        changed, when more would come back than the plan has room for.
        """
        restored = set[str]()
        while True:
            trace = await self._traced(space, run)
            if trace.shelf.runs[run].phase == "undone":
                return len(restored)
            if others := trace.others():
                raise Refused(
                    f"memories that run {run} changed were changed since by others: {', '.join(others[:5])}"
                    f"{f' and {len(others) - 5} more' if len(others) > 5 else ''}; undo those changes first",
                    run=run,
                    memories=list(others),
                )
            if await self._took_back(space, run, trace, restored):
                return len(restored)

    async def _took_back(self, space: Space, run: str, trace: Trace, restored: set[str]) -> bool:
        """Write the next of what takes a run back; whether that was the last. Nothing if the log has grown."""
        payloads = trace.back()
        last = len(payloads) <= BACK
        spent = {"model": trace.shelf.runs[run].model, "cost": trace.shelf.runs[run].cost}
        marked = MemoryRun(id=run, phase="undone" if last else "undoing", **spent)  # type: ignore[arg-type]
        wanted: list[Payload] = [*payloads[:BACK], marked]

        def decide(shelf: Shelf) -> Sequence[Payload]:
            if shelf.version != trace.shelf.version:
                return []
            if shelf.runs[run].phase != "undoing":  # what is begun comes to its end
                plans.must_hold_again(plans.plan_of(shelf.plan), shelf.count(), brought(payloads), str(space))
            return wanted

        _, outcome = await self._shelves.write(space, decide)
        written = [event.data for event in outcome.events]
        restored |= {data.id for data in written if isinstance(data, MemoryMoved | MemoryChanged)}
        return last and bool(written)

    async def _traced(self, space: Space, run: str) -> Trace:
        known = await self._shelves.look(space)
        if run not in known.shelf.runs:
            raise NotFound(f"there is no run {run[:80]!r} in {space}; runs lists those there are", run=run[:80])
        return await self._sessions.log.steadily(known.session, lambda head: self._read(head, Trace(run)))

    async def _apart(self, known: Known) -> Apart:
        """Steps of runs that were undone: nobody wants them taken again. So too those of a run that is not over; and
        what a model was asked about by any.
        """
        runs = known.shelf.runs.values()
        taken_by = {run.id for run in runs if run.phase in ("undone", "undoing") or (run.phase in OPEN and run.place)}
        if not taken_by and not any(run.model for run in runs):
            return NOTHING
        taken: Taken = await self._sessions.log.steadily(known.session, lambda head: self._read(head, Taken(taken_by)))
        return taken.apart()

    async def _read(self, head: Head, reader: "Any") -> "Any":
        pages = self._sessions.log.pages(head, head.anchor_version)
        async with aclosing(pages):
            async for page in pages:
                reader.take(page)
        return reader

    # ── on schedule ──

    async def due(self, now: int, failed: dict[str, str] | None = None) -> list[Space]:
        """Spaces whose plan's cadence is over; none unless that is done here. What cannot be read is told of in
        `failed`, if that is given, and keeps no other from its turn.
        """
        found: list[Space] = []
        if not self._scheduled:
            return found
        after: tuple[int, Any] | None = None
        while True:
            query = Query(tenant=self._sessions.identity.tenant, tags=(TAG,), limit=PAGE, after=after)
            rows = await self._sessions.store.find(query)
            for row in rows:
                try:
                    at = await self._due_at(row)
                except PerdureError as error:
                    if failed is None:
                        raise
                    failed[row.title] = str(error)
                    continue
                if at is not None and at[1] <= now:
                    found.append(at[0])
            if len(rows) < PAGE:
                return found
            after = (rows[-1].created_at, rows[-1].session)

    async def _due_at(self, row: Row) -> tuple[Space, int] | None:
        space = space_of(row.tenant, row.session, row.title)
        if space is None:
            return None
        known = self._due.get(space)
        if known is None or known[0] != row.digest:
            try:
                shelf = await self._sessions.log.steadily(
                    row.session, lambda head: self._read(head, Shelf(self._shelves.plan))
                )
            except NotFound:
                return None
            known = self._due[space] = (row.digest, due_at(shelf, self._runs.fresh))
        return None if known[1] is None else (space, known[1])

    async def sweep(self, now: int | None = None) -> Swept:
        """Run what is due. What another node is at is left to it; what fails keeps no other from its turn."""
        ran, failed = dict[str, Run](), dict[str, str]()
        for space in await self.due(self._sessions.ambient.now() if now is None else now, failed):
            try:
                run = await self.run(space, trigger="schedule", at=now)
            except PerdureError as error:
                failed[str(space)] = str(error)
            else:
                if run.id and run.phase not in OPEN:
                    ran[str(space)] = run
        return Swept(ran=ran, failed=failed)


def _last(shelf: Shelf) -> int:
    """When the last run began that came to its end and lacked nothing; what was kept before was looked at."""
    return max((run.began_at for run in shelf.runs.values() if run.phase == "ended" and not run.place), default=-1)


def _plainly(steps: Sequence[Step]) -> Callable[[Mapping[str, Memory]], list[Chosen]]:
    """All of them, whoever is asked or not."""
    return lambda _: [(step, None) for step in steps]
