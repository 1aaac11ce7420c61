"""A session's life at a server: moves, waking, recovering, its time, its checkpoints."""

from datetime import datetime
from typing import Any

from perdure.core.session.waking import WakePolicy
from perdure.core.session.woken import Woken
from perdure.edge import given
from perdure.edge.client import documents, reading
from perdure.edge.client.asking import piece_of
from perdure.edge.client.refusing import apart
from perdure.edge.client.transport import Transport
from perdure.edge.life import policy_of
from perdure.edge.timing import Seconds, moment_of, seconds_of
from perdure.services.checkpoints import CheckpointInfo, Restored
from perdure.services.lifecycle import Recovered


class Living:
    """The part of a handle that moves a session through its life."""

    _transport: Transport
    _path: str

    async def move(self, event: str, reason: str = "", *, expected: int | None = None, key: str | None = None) -> int:
        """Move along the lifecycle table."""
        name, seen = given.text_of(event, "a move"), given.maybe_number(expected, "expected")
        body = {"event": name, "reason": reason}
        found = await self._transport.send(
            "POST", f"{self._path}/transitions", body, expected=seen, key=key, keyed=True
        )
        version: int = found["version"]
        return version

    async def archive(self) -> int:
        """Put an ended session away: to cold storage, if the server has some. Again, it finishes."""
        version: int = (await self._transport.send("POST", f"{self._path}/archive"))["version"]
        return version

    async def thaw(self) -> bool:
        """Bring the log of an archived session back from cold storage; False when it does not lie there."""
        thawed: bool = (await self._transport.send("POST", f"{self._path}/thaw"))["thawed"]
        return thawed

    async def wake(
        self, policy: WakePolicy | None = None, *, expected: int | None = None, key: str | None = None
    ) -> Woken:
        """Have this suspended session go on, with the tools and the memory that the server has."""
        seen, how = given.maybe_number(expected, "expected"), policy_of(policy)
        body = {} if how is None else {"policy": documents.plain(how)}
        found = await self._transport.send("POST", f"{self._path}/resume", body, expected=seen, key=key, keyed=True)
        return reading.woken_of(found["woken"])

    async def recover(self) -> Recovered | None:
        """Close a turn whose writer died, naming the tools to retry; None when no turn is open."""
        return reading.recovered_of((await self._transport.send("POST", f"{self._path}/recover"))["recovered"])

    async def renew(self, ttl: Seconds | None = None, *, until: datetime | int | None = None) -> int:
        """Let the session live for so long from now, or until a moment; the moment that was granted."""
        wanted = None if ttl is None else seconds_of(ttl, "ttl")
        moment = None if until is None else moment_of(until, "until")
        body = documents.given(ttl=wanted, until=moment)
        granted: int = (await self._transport.send("POST", f"{self._path}/renew", body))["expires_at"]
        return granted

    async def checkpoint(
        self, label: str = "", metadata: dict[str, Any] | None = None, *, key: str | None = None
    ) -> CheckpointInfo:
        """Make the present state one that can be resumed from."""
        body = {"label": given.text_of(label, "label"), "metadata": given.document_of(metadata, "metadata")}
        found = await self._transport.send("POST", f"{self._path}/checkpoint", body, key=key, keyed=True)
        return reading.checkpoint_of(found)

    async def checkpoints(self) -> tuple[CheckpointInfo, ...]:
        """The checkpoints that can be used, oldest first."""
        found = await self._transport.get(f"{self._path}/checkpoints")
        return tuple(map(reading.checkpoint_of, found["items"]))

    def _checkpoint(self, checkpoint: str) -> str:
        return f"{self._path}/checkpoints/{piece_of(given.text_of(checkpoint, 'checkpoint')) or '-'}"

    async def pin(self, checkpoint: str) -> CheckpointInfo:
        """Keep a checkpoint for as long as the session lives."""
        path = f"{self._checkpoint(checkpoint)}/pin"
        return reading.checkpoint_of(await self._transport.send("PUT", path, again=True))

    async def unpin(self, checkpoint: str) -> CheckpointInfo:
        """Let a checkpoint expire again."""
        path = f"{self._checkpoint(checkpoint)}/pin"
        return reading.checkpoint_of(await self._transport.send("DELETE", path, again=True))

    async def drop_checkpoint(self, checkpoint: str) -> None:
        """Make a checkpoint's id unusable now."""
        await self._transport.send("DELETE", self._checkpoint(checkpoint))

    async def restore(self, checkpoint: str) -> Restored:
        """The state a checkpoint holds; a damaged copy is rebuilt from the log, and says so."""
        return reading.restored_of(await self._transport.get(self._checkpoint(checkpoint)))

    compensate: Any = apart("running compensations", "the server runs those it knows when a session is terminated")
    clean_up: Any = apart("cleaning a session up", "the server's sweeper does it when the session's time has come")
