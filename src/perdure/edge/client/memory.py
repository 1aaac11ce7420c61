"""A space of memories at a server, held as one of an open store is."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from perdure.core.errors import NotFound
from perdure.core.memory.lines import Line
from perdure.core.memory.parts import Memory, MemoryType, Space, Status
from perdure.core.memory.requests import BEGUN, Changing, Keeping, Seeking, must_change, must_keep, must_seek
from perdure.edge.asked import id_of
from perdure.edge.client.asking import Request, piece_of, target
from perdure.edge.client.documents import given as named
from perdure.edge.client.refining import MEMORY, Refining, memory_of, telling
from perdure.edge.client.transport import Transport
from perdure.edge.given import Progress
from perdure.edge.memory import PAGE, AsyncMemorySpace
from perdure.edge.recollecting import Imported, documents
from perdure.edge.sharing import Permissions, no_clade
from perdure.services.memories import Page, Scored, Stats
from perdure.services.sharing import Shared

MOVES: Final = {Status.ARCHIVED: "archive", Status.QUARANTINED: "quarantine", Status.LIVE: "live"}


class RemoteMemorySpace(Refining, AsyncMemorySpace):
    """One space of memories at a server: an agent's vault, a clade, or lethe. A vault is the caller's own, or one of
    its agents'; a clade is whose it was made, and of those it lets in.
    """

    def __init__(self, transport: Transport, space: Space, place: dict[str, str]) -> None:
        """`place` says which space it is, in the server's words."""
        self._transport = transport
        self._space = space
        self._place = place

    async def get(self, id: str) -> Memory:
        """One memory, whatever its status; `NotFound` if there is none."""
        return memory_of(await self._found(id))

    async def history(self, id: str) -> tuple[Memory, ...]:
        """Every form that a memory has had, oldest first: what it superseded, itself, and what superseded it."""
        return tuple(map(memory_of, (await self._found(id, "/history"))["items"]))

    async def stats(self) -> Stats:
        """What the space holds and was asked."""
        found = await self._transport.get(f"{MEMORY}/stats", self._place)
        return msgspec.convert({**found, "version": found["log_version"]}, Stats)

    async def _found(self, id: str, more: str = "") -> Any:
        wanted = id_of(id)
        with telling(self._space, memory=wanted):
            return await self._transport.get(_path(wanted, more), self._place)

    async def _keep(self, asked: Sequence[Keeping], key: str | None) -> tuple[Memory, ...]:
        for one in asked:
            must_keep(one)
        body = {**self._place, "items": [_kept(one) for one in asked], **_exactly(*asked)}
        found = await self._transport.send("POST", f"{MEMORY}/batch", body, key=key, keyed=True)
        return tuple(map(memory_of, found["items"]))

    async def _imported(self, lines: Sequence[Line], trusted: bool, told: Progress | None) -> Imported:
        done, found = 0, Imported()
        for count, body in documents(lines):
            where = target(f"{MEMORY}/import", {**self._place, "trusted": "true" if trusted else None})
            headers = {"Content-Type": "application/x-ndjson"}
            reply = await self._transport.call(Request(method="POST", target=where, body=body, headers=headers))
            found += msgspec.convert(reply.document, Imported)
            done += count
            if told is not None:
                told(done, len(lines))
        return found

    async def _change(self, id: str, asked: Changing) -> Memory:
        must_change(asked)
        body = {**self._place, **named(**msgspec.to_builtins(asked)), **_exactly(asked)}
        with telling(self._space, memory=id):
            return memory_of(await self._transport.send("PATCH", _path(id), body))

    async def _forgotten(self, ids: Sequence[str], reason: str) -> int:
        count = 0
        for id in dict.fromkeys(ids):
            with suppress(NotFound):
                path = target(_path(id), {**self._place, "reason": reason})
                count += (await self._transport.send("DELETE", path, again=True))["forgotten"]
        return count

    async def _move(self, ids: Sequence[str], status: Status, reason: str) -> int:
        count = 0
        for id in dict.fromkeys(ids):
            body = {**self._place, "to": MOVES[status], "reason": reason}
            with telling(self._space, memory=id):
                count += (await self._transport.send("POST", _path(id, "/move"), body, again=True))["moved"]
        return count

    async def _search(self, asked: Seeking) -> tuple[Scored, ...]:
        must_seek(asked)
        body = {**self._place, **named(**msgspec.to_builtins(asked))}
        found = await self._transport.send("POST", f"{MEMORY}/search", body, again=True)
        return tuple(map(scored_of, found["items"]))

    async def _page(
        self, types: tuple[MemoryType, ...], statuses: tuple[Status, ...], session: str, after: str
    ) -> Page:
        asked = {
            **self._place,
            "type": [kind.value for kind in types],
            "status": [status.value for status in statuses],
            "session": session or None,
            "limit": PAGE,
            "cursor": after or None,
        }
        found = await self._transport.get(MEMORY, asked)
        return Page(items=tuple(map(memory_of, found["items"])), next=found["cursor"] or "")

    async def _planned(self, name: str) -> None:
        await self._transport.send("PUT", f"{MEMORY}/plan", {**self._place, "plan": name}, again=True)

    async def _shared(self) -> Shared:
        try:
            found = await self._transport.get(self._clade())
        except NotFound:
            raise no_clade(self._space) from None
        return _shared(found)

    async def _share(self, users: tuple[str, ...] | None, agents: Permissions) -> Shared:
        body = named(users=users, agents=None if agents is None else dict(agents))
        try:
            return _shared(await self._transport.send("PATCH", self._clade(), body, again=True))
        except NotFound:
            made = {"name": self._space.name, **body}
            return _shared(await self._transport.send("POST", f"{MEMORY}/clades", made))

    def _clade(self) -> str:
        return f"{MEMORY}/clades/{piece_of(self._space.name)}"

    def _allowed(self, path: str) -> str:
        return path


def _shared(found: dict[str, Any]) -> Shared:
    """Whom a clade lets in; of somebody else's only that it lets in whoever asks."""
    told = named(owner=found["owner"], users=found["users"], agents=found["agents"])
    return msgspec.convert({"space": found["space"], "owner": "", **told}, Shared)


def _path(id: str, more: str = "") -> str:
    return f"{MEMORY}/{piece_of(id) or '-'}{more}"


def _kept(asked: Keeping) -> dict[str, Any]:
    return named(**msgspec.to_builtins(asked))


def _exactly(*asked: Keeping | Changing) -> dict[str, bool]:
    """What tells the server that times before 1973 are meant: here, numbers that look like seconds were refused."""
    times = (time for one in asked for time in (one.valid_from, one.valid_to) if time is not None)
    return {"exact": True} if any(0 < time < BEGUN for time in times) else {}


def scored_of(document: dict[str, Any]) -> Scored:
    """What was found, as the server tells of it."""
    return Scored(**{**document, "memory": memory_of(document["memory"])})
