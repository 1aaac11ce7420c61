"""What is made of memories at a server: consolidation, learning from sessions, telling others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from perdure.core.errors import NotFound, Refused
from perdure.core.memory.extracting import Refused as Unkept
from perdure.core.memory.parts import Memory, Space
from perdure.core.memory.retelling import Did
from perdure.core.memory.shelf import Proposal, Run
from perdure.core.session.ids import SessionId
from perdure.edge.client.asking import piece_of
from perdure.edge.client.documents import given as named
from perdure.edge.client.transport import Transport
from perdure.edge.given import Progress
from perdure.services.extracting import Extracted
from perdure.services.reembedding import Reembedded

MEMORY: Final = "/v1/memory"


class Refining:
    """The part of a space's handle that works on what is there, at the server."""

    _transport: Transport
    _space: Space
    _place: dict[str, str]

    async def _consolidate(self, dry: bool, told: Progress | None) -> Run:
        """How far it is, is told when it is over: a request has one answer. One that gets none is asked again, and goes
        on where it was.
        """
        body = {**self._place, "dry": dry}
        with telling(self._space):
            run = run_of(await self._transport.send("POST", f"{MEMORY}/consolidate", body, again=True))
        if told is not None:
            done = sum(run.found.values())
            told(done, done)
        return run

    async def _reembed(self, told: Progress | None) -> Reembedded:
        """How far it is, is told after each part that the server does: one answer is not kept waiting for all."""
        made, found = 0, None
        while found is None or (found["left"] and found["made"]):
            with telling(self._space):
                found = await self._transport.send("POST", f"{MEMORY}/reembed", self._place, again=True)
            made += found["made"]
            if told is not None:
                told(found["memories"] - found["left"], found["memories"])
        return Reembedded(
            space=str(self._space),
            embedder=found["embedder"],
            made=made,
            left=found["left"],
            memories=found["memories"],
        )

    async def _runs(self) -> tuple[Run, ...]:
        return tuple(map(run_of, (await self._transport.get(f"{MEMORY}/runs", self._place))["items"]))

    async def _steps(self, run: str) -> tuple[Did, ...]:
        with telling(self._space, run=run):
            found = await self._transport.get(f"{MEMORY}/runs/{piece_of(run) or '-'}", self._place)
        return tuple(msgspec.convert(_step_of(step), Did) for step in found["steps"])

    async def _undo(self, run: str) -> int:
        path = f"{MEMORY}/runs/{piece_of(run) or '-'}/undo"
        with telling(self._space, run=run):
            restored: int = (await self._transport.send("POST", path, self._place, again=True))["restored"]
        return restored

    async def _extract(self, session: SessionId, dry: bool) -> Extracted:
        """Of what it proposes only the ids are told."""
        body = {**self._place, "session_id": session, "dry": dry}
        found = await self._transport.send("POST", f"{MEMORY}/extract", body, again=True)
        return Extracted(
            session=found["session_id"],
            space=str(self._space),
            kept=tuple(map(memory_of, found["kept"])),
            refused=tuple(msgspec.convert({**one, "version": one["log_version"]}, Unkept) for one in found["refused"]),
            proposed=tuple(Proposal(id=id) for id in found["proposed"]),
            upto=found["upto"],
            dry=found["dry"],
            by=found["by"],
            cost=found["cost"],
        )

    async def _propose(self, id: str, to: Space, evidence: tuple[str, ...], ttl: float | None) -> Proposal:
        body = {**self._place, **named(memory_id=id, to=str(to), evidence=list(evidence), ttl=ttl)}
        with telling(self._space, memory=id):
            return proposal_of(await self._transport.send("POST", f"{MEMORY}/promote", body, again=True))

    async def _proposals(self, reviewed: bool) -> tuple[Proposal, ...]:
        asked = {**self._target(), "reviewed": "true" if reviewed else "false"}
        return tuple(map(proposal_of, (await self._transport.get(f"{MEMORY}/proposals", asked))["items"]))

    async def _review(self, proposal: str, accept: bool, reason: str) -> Proposal:
        path = f"{MEMORY}/proposals/{piece_of(proposal) or '-'}/review"
        body = {**self._target(), "accept": accept, "reason": reason}
        with telling(self._space, proposal=proposal):
            return proposal_of(await self._transport.send("POST", path, body, again=True))

    async def _allow(self, auto: bool) -> None:
        with telling(self._space):
            await self._transport.send("PUT", f"{MEMORY}/auto-accept", {**self._target(), "auto": auto}, again=True)

    async def _allows(self) -> bool:
        found: bool = (await self._transport.get(f"{MEMORY}/auto-accept", self._target()))["auto"]
        return found

    def _target(self) -> dict[str, str]:
        """The space that something is proposed to, in the server's words."""
        if self._space.namespace == "vault":
            told = "what is proposed to a vault is reviewed where the store is, not over a connection"
            raise Refused(f"{told}; propose to lethe or to a clade", space=str(self._space))
        return {"clade": self._space.name} if self._space.namespace == "clade" else {}


@contextmanager
def telling(space: Space, *, memory: str = "", run: str = "", proposal: str = "") -> Iterator[None]:
    """Say of what is not there what the embedded library says."""
    try:
        yield
    except NotFound as missing:
        if type(missing) is not NotFound:
            raise
        if memory:
            told = f"there is no memory {memory[:80]!r} in {space}; list or search shows those there are"
            raise NotFound(told, memory=memory[:80]) from None
        if run:
            told = f"there is no run {run[:80]!r} in {space}; runs lists those there are"
            raise NotFound(told, run=run[:80]) from None
        if proposal:
            told = f"there is no proposal {proposal[:80]!r} to {space}; its queue shows those there are"
            raise NotFound(told, proposal=proposal[:80]) from None
        raise NotFound(f"nothing is remembered in {space}; keep something first", space=str(space)) from None


def memory_of(document: dict[str, Any]) -> Memory:
    """A memory, as the server tells of it."""
    return msgspec.convert({**document, "type": document["memory_type"], "version": document["log_version"]}, Memory)


def run_of(document: dict[str, Any]) -> Run:
    """A consolidation, as the server tells of it."""
    return msgspec.convert({**document, "would": [*map(_step_of, document.get("would", ()))]}, Run)


def _step_of(document: dict[str, Any]) -> dict[str, Any]:
    """A step of one, with its version as the library calls it."""
    return {**document, "version": document["log_version"]}


def proposal_of(document: dict[str, Any]) -> Proposal:
    """A proposal, as the server tells of it: without where it comes from."""
    return msgspec.convert({**document, "type": document["memory_type"]}, Proposal)
