"""One thread or task of a worker: picks an operation, tells what it tries, does it, tells what came of it.

Invariant: `ack` is said only after the library has returned, except under the planted bug that says it before.
The code is written once, as coroutines; against the blocking library none of them ever suspends.
"""

import asyncio
import contextlib
import random
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from inspect import isawaitable
from typing import Any

from perdure import errors
from torture.content import Shape, compose, fingerprint, shape
from torture.line import Task, Voice


async def settled(value: Any) -> Any:
    """The result of a call of either library."""
    return await value if isawaitable(value) else value


class Lane:
    """A sequence of operations from one seed, on sessions of its own and on shared ones."""

    def __init__(self, task: Task, number: int, db: Any, voice: Voice, *, blocking: bool) -> None:
        self.db = db
        self.voice = voice
        self.blocking = blocking
        self._task = task
        self._number = number
        self._rng = random.Random(f"{task.seed}/{number}")
        self._count = 0
        self._own: Any = None
        self._branch: Any = None
        self._shared: list[Any] = []
        self._sent: list[tuple[Any, str, Shape, str, int]] = []

    async def run(self) -> None:
        """Steps until the task's number of them is done; whatever is not foreseen is raised and ends the worker."""
        await self._begin()
        for _ in range(self._task.steps):
            await self._pick()()

    def _pick(self) -> Callable[[], Awaitable[None]]:
        """An operation by weight; half of all are plain appends."""
        if self._task.plant == "early-ack":
            return self._acknowledge_early
        if self._task.plant == "double-apply" and self._rng.random() < 0.2:
            return self._apply_twice
        choices: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (50, self._append),
            (6, self._repeat),
            (4, self._stale),
            (3, self._reuse),
            (5, self._checkpoint),
            (4, self._fork),
            (3, self._merge),
            (4, self._redact),
            (3, self._nap),
            (4, self._note),
            (5, self._look),
            (6, self._turn if self.blocking else self._cancel),
        ]
        weights = [weight for weight, _ in choices]
        return self._rng.choices([choice for _, choice in choices], weights)[0]

    async def _begin(self) -> None:
        """Sessions: the shared ones, and an own one, inherited from a dead worker or new."""
        self._shared = [await settled(self.db.session(each)) for each in self._task.shared]
        if self._number < len(self._task.own):
            self._own = await settled(self.db.session(self._task.own[self._number]))
            await settled(self._own.recover())
            if (await settled(self._own.info())).phase in ("suspended", "resumed"):
                await settled(self._own.resume())
            return
        key = self._fresh("create")
        self.voice.say("try", op="create", name=key)
        self._own = await settled(self.db.create(title=key, key=key, tags=("torture",)))
        self.voice.say("mark", op="create", name=key, session=self._own.id, last=1)

    def _fresh(self, prefix: str = "x") -> str:
        self._count += 1
        return f"{prefix}.{self._task.name}.{self._number}.{self._count}"

    def _target(self) -> Any:
        """A session to write to."""
        if self._branch is not None and self._rng.random() < 0.2:
            return self._branch
        return self._rng.choice(self._shared) if self._shared and self._rng.random() < 0.6 else self._own

    # ── appends ──

    async def _append(self) -> None:
        """A turn in one append, with or without a key and an expected version."""
        rng, session, name = self._rng, self._target(), self._fresh()
        form = shape(rng, bulky=self._task.bulky)
        key = f"key:{name}" if rng.random() < 0.6 else None
        expected = await settled(session.version()) if rng.random() < 0.4 else None
        await self._send(session, name, form, key, expected)

    async def _send(self, session: Any, name: str, form: Shape, key: str | None, expected: int | None) -> int | None:
        """One append, told before and after; the version, or None when it was refused as stale."""
        events = compose(name, form)
        self.voice.say("try", op="append", name=name, session=session.id, key=key, expected=expected, shape=form)
        try:
            version: int = await settled(session.append(events, expected=expected, key=key))
        except errors.VersionConflict as conflict:
            if expected is None:
                raise
            self.voice.say("no", name=name, error="VersionConflict", found=conflict.fields.get("found", -1))
            return None
        self.acknowledge(session, name, form, key, version)
        return version

    def acknowledge(self, session: Any, name: str, form: Shape, key: str | None, version: int) -> None:
        """Say that the library said yes."""
        said = fingerprint(compose(name, form))
        self.voice.say("ack", name=name, session=session.id, key=key, last=version, hash=said)
        if key is not None:
            self._sent = [*self._sent[-20:], (session, name, form, key, version)]

    async def _repeat(self) -> None:
        """The same request again: the same answer."""
        if self._sent:
            session, name, form, key, version = self._rng.choice(self._sent)
            again = await settled(session.append(compose(name, form), key=key))
            if again != version:
                self.voice.say("bad", name=name, error=f"key {key} answered {version} first and {again} later")

    async def _reuse(self) -> None:
        """The same key for something else: refused."""
        if self._sent:
            session, name, form, key, _ = self._rng.choice(self._sent)
            try:
                await settled(session.append(compose(f"other.{name}", form), key=key))
            except errors.KeyReused:
                return
            self.voice.say("bad", name=name, error=f"key {key} was accepted for another body")

    async def _stale(self) -> None:
        """An append that expects the past: refused, naming the present."""
        session, name = self._target(), self._fresh("stale")
        version = await settled(session.version())
        try:
            await settled(session.append(compose(name, Shape(1, 8, False)), expected=version - 1))
        except errors.VersionConflict as conflict:
            if conflict.fields.get("found", -1) < version:
                self.voice.say("bad", name=name, error=f"conflict at {version} names {conflict.fields}")
            return
        self.voice.say("bad", name=name, error=f"an append expecting {version - 1} was accepted at {version}")

    async def _cancel(self) -> None:
        """An append whose task is cancelled midway, then sent again under its key."""
        session, name = self._target(), self._fresh()
        form, key = shape(self._rng), f"key:{name}"
        self.voice.say("try", op="append", name=name, session=session.id, key=key, shape=form)
        going = asyncio.ensure_future(session.append(compose(name, form), key=key))
        for _ in range(self._rng.randrange(6)):
            await asyncio.sleep(0)
        going.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await going
        await self._send(session, name, form, key, None)

    async def _turn(self) -> None:
        """A turn as a block: every step is durable by itself, and a crash inside leaves it open."""
        name = self._fresh("step")
        self.voice.say("try", op="turn", name=name, session=self._own.id)
        with self._own.turn(f"{name}#0", model=name) as turn:
            call = turn.ask("look_up", {"of": name}, call=f"{name}/call")
            turn.start(call, key=call)
            turn.finish(call, result=f"{name}#1")
            turn.answer(f"{name}#2")
        self.voice.say("mark", op="turn", name=name, session=self._own.id, last=await settled(self._own.version()))

    # ── everything else that writes ──

    async def _checkpoint(self) -> None:
        session, name = self._target(), self._fresh("check")
        made = await settled(session.checkpoint(name))
        self.voice.say("mark", op="checkpoint", name=name, session=session.id, id=made.id, last=made.version)

    async def _fork(self) -> None:
        parent, name = self._target(), self._fresh("fork")
        self._branch = await settled(parent.branch(name=name, title=name))
        row = await settled(self._branch.info())
        at = row.branched_at
        self.voice.say("mark", op="branch", name=name, session=row.session, id=parent.id, at=at, last=at + 1)

    async def _merge(self) -> None:
        if self._branch is not None:
            name, target, source = self._fresh("merge"), self._own, self._branch
            self._branch = None
            await settled(source.write_scratchpad(name))
            report = await settled(target.merge(source, policy="last_writer_wins"))
            self.voice.say("mark", op="merge", name=name, session=target.id, last=report.version)

    async def _redact(self) -> None:
        """Destroy one message of an append whose place is known."""
        if not self._sent:
            return
        session, name, form, _, version = self._rng.choice(self._sent)
        wanted = version - (len(compose(name, form)) - 2)
        self.voice.say("try", op="redact", name=name, session=session.id, at=wanted)
        done = await settled(session.redact(wanted, "torture"))
        self.voice.say("mark", op="redact", name=name, session=session.id, at=wanted, last=done)

    async def _nap(self) -> None:
        name = self._fresh("nap")
        slept = await settled(self._own.suspend(name))
        self.voice.say("mark", op="suspend", name=name, session=self._own.id, last=slept)
        await settled(self._own.resume())
        woke = await settled(self._own.version())
        self.voice.say("mark", op="resume", name=name, session=self._own.id, last=woke)

    async def _note(self) -> None:
        name = self._fresh("note")
        version = await settled(self._own.patch_vars(note=name))
        self.voice.say("mark", op="vars", name=name, session=self._own.id, last=version)

    async def _look(self) -> None:
        """Reading while others write."""
        turns = await settled(self._target().turns(last=3))
        if any(turn.number < 1 for turn in turns):
            self.voice.say("bad", error="a turn without a number")
        await settled(self.db.find(limit=5))

    # ── planted bugs ──

    async def _acknowledge_early(self) -> None:
        """PLANTED: the acknowledgement goes out before the append is durable."""
        name, form = self._fresh(), shape(self._rng)
        key, before = f"key:{name}", await settled(self._own.version())
        self.voice.say("try", op="append", name=name, session=self._own.id, key=key, shape=form)
        self.acknowledge(self._own, name, form, key, before + len(compose(name, form)))
        await settled(self._own.append(compose(name, form), key=key))

    async def _apply_twice(self) -> None:
        """PLANTED: a retry after a lost acknowledgement uses a new key, so it is a second append."""
        name, form = self._fresh(), shape(self._rng)
        await settled(self._own.append(compose(name, form), key=f"lost:{name}"))
        await self._send(self._own, name, form, f"key:{name}", None)


def plainly(work: Coroutine[Any, Any, None]) -> None:
    """Run a lane against the blocking library: it never suspends."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise RuntimeError("the blocking library waited on an event loop")


def together(lanes: Sequence[Lane]) -> None:
    """Each lane on a thread of its own; a failure is told at once and raised when all have ended."""
    failures: list[BaseException] = []

    def work(lane: Lane) -> None:
        try:
            plainly(lane.run())
        except BaseException as failure:  # raised below, in the caller's thread
            lane.voice.say("bad", error=traceback.format_exc()[-3000:])
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
