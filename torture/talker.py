"""A process that carries on turns with a model and tools until it is killed: `python -m torture.talker` is told on its
command line where, and says on standard output what was acknowledged to it, a line of JSON each.
"""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec

from perdure.compose import Services, embedded
from perdure.compose.talking import Common, Talk
from perdure.core.errors import PerdureError
from perdure.core.session.ids import SessionId
from perdure.core.talk.children import SpawnRequest
from perdure.core.talk.routes import Models, Upstream
from perdure.core.talk.turning import TurnRequest

HANDS = 6
MODEL = "tool:mark+tokens-12+slow-2ms"


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What a talker is told."""

    store: str
    port: int
    marks: str
    sessions: tuple[str, ...]
    seed: int
    settle: bool = False
    """Only close what others left open, and say something once more."""


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that was answered to whoever asked for it."""

    session: str
    turn: int
    status: str
    cost: int
    version: int
    said: str


def services_of(errand: Errand) -> Services:
    """The services, with a tool that leaves a mark each time it runs."""
    upstream = Upstream(name="up", kind="anthropic", base_url=f"http://127.0.0.1:{errand.port}", key="k")
    models = Models(upstreams={"up": upstream}, default=f"up/{MODEL}", cheap=f"up/{MODEL}")
    services = embedded(errand.store)
    services.common_of = lambda: Common(Talk(models=models), services.sessions.ambient)

    def mark(note: str, *, key: str) -> str:
        """Leave a mark."""
        with Path(errand.marks).open("ab", buffering=0) as file:
            file.write(f"{key}\n".encode())
            os.fsync(file.fileno())
        return f"marked {note}"

    services.common.tooling.register("mark", mark)
    return services


async def carry_on(errand: Errand) -> None:
    """Turns without end, in several sessions at once."""
    services, rng = services_of(errand), random.Random(errand.seed)
    sessions = [SessionId(session) for session in errand.sessions]
    if errand.settle:
        for session in sessions:
            count = (await services.sessions.loader.load(session)).state.turns.count
            if count:
                await services.talking.outcome(session, count)
            await services.spawning.recover(session)
            await services.spawning.wait(session)
            outcome = await services.talking.run(session, TurnRequest(content="the end", model="up/echo"))
            say({"settled": session, "status": outcome.status})
        await services.quiet()
        await services.common.close()
        return
    say({"ready": True})
    await asyncio.gather(*(_hand(services, sessions, random.Random(rng.random()), errand.seed) for _ in range(HANDS)))


async def _hand(services: Services, sessions: list[SessionId], rng: random.Random, seed: int) -> None:
    talking = services.talking
    while True:
        session, said = rng.choice(sessions), f"{seed}-{rng.getrandbits(48):x}"
        busy: Any = rng.choice(("reject", "enqueue", "enqueue", "interrupt", "rollback"))
        request = TurnRequest(content=msgspec.json.encode({"note": said}).decode(), busy=busy, max_tokens=200, key=said)
        try:
            chance = rng.random()
            if chance < 0.1:
                await _quietly(talking.steer(session, f"steer {said}"))
                continue
            if chance < 0.2:
                share = rng.choice((None, 30_000))
                task = SpawnRequest(task=f"task {said}", max_tokens=200, max_cost=share)
                await _quietly(services.spawning.spawn(session, task, key=f"spawn {said}"))
                continue
            outcome = await talking.run(session, request)
        except PerdureError:
            await asyncio.sleep(0)
            continue
        told = Acknowledged(
            session=session,
            turn=outcome.turn,
            status=outcome.status,
            cost=outcome.cost,
            version=outcome.version,
            said=said,
        )
        say(msgspec.to_builtins(told))


async def _quietly(work: Awaitable[object]) -> None:
    try:
        await work
    except PerdureError:
        pass


def say(document: dict[str, Any]) -> None:
    """A line on standard output, whole or not at all."""
    os.write(1, msgspec.json.encode(document) + b"\n")


if __name__ == "__main__":
    asyncio.run(carry_on(msgspec.json.decode(sys.argv[1], type=Errand)))
