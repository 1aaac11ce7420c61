"""A process to be killed: `python -m torture.worker '<task as JSON>' <pipe>` opens the store and works until it dies.

Modes: `single` is one thread, `threads` several on one handle, `tasks` several tasks on the async library, `ailing`
one thread on a failing disk, `opener` only opens the store and reads, `closer` works and then closes it in order.
"""

import asyncio
import os
import sys
import time
import traceback
from typing import Any

import msgspec

import perdure
from torture.ailing import Ailing
from torture.lane import Lane, plainly, together
from torture.line import Task, Voice
from torture.sealing import seal_of


def main(task: Task, voice: Voice) -> None:
    """Do the task; anything that is raised is told to the parent before this process ends."""
    voice.say("pid", at=os.getpid())
    try:
        if task.mode == "ailing":
            Ailing(task, lambda: opened(task, voice), voice).run()
        elif task.mode == "tasks":
            asyncio.run(with_tasks(task, voice))
        elif task.mode == "opener":
            with opened(task, voice) as db:
                sum(len(db.session(row.session).events()) for row in db.find(limit=20).items)
        else:
            with_threads(task, voice)
    except BaseException:
        voice.say("bad", error=traceback.format_exc()[-3000:])
        raise
    voice.say("end")


def opened(task: Task, voice: Voice) -> Any:
    """The store, with the time it took."""
    voice.say("opening")
    started = time.perf_counter()
    db = perdure.open(task.store, seal=seal_of(task.store))
    voice.say("opened", ms=(time.perf_counter() - started) * 1000)
    return db


def with_threads(task: Task, voice: Voice) -> None:
    """Several threads on one handle; a single lane stays on the main thread."""
    with opened(task, voice) as db:
        lanes = [Lane(task, number, db, voice, blocking=True) for number in range(task.lanes)]
        if len(lanes) == 1:
            plainly(lanes[0].run())
        else:
            together(lanes)


async def with_tasks(task: Task, voice: Voice) -> None:
    """Several tasks on one handle of the async library."""
    voice.say("opening")
    started = time.perf_counter()
    async with await perdure.aopen(task.store, seal=seal_of(task.store)) as db:
        voice.say("opened", ms=(time.perf_counter() - started) * 1000)
        lanes = [Lane(task, number, db, voice, blocking=False) for number in range(task.lanes)]
        await asyncio.gather(*(lane.run() for lane in lanes))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Task), Voice(int(sys.argv[2])))
