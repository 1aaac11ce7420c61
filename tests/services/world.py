"""A small world for tests of services: a store, everything wired over it, and sessions with a life behind them."""

from collections.abc import Iterable
from typing import Any

from perdure.ambient import Ids
from perdure.core.session import codec
from perdure.core.session import commands as do
from perdure.core.session import state as states
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from perdure.edge.files import DiskFiles
from perdure.ports.store import Store
from perdure.services.acting import Identity
from perdure.services.branches import Branches, BranchRequest
from perdure.services.checkpoints import Checkpoints
from perdure.services.erasure import Erasure
from perdure.services.exporting import Exporting
from perdure.services.importing import Importing, ImportReport
from perdure.services.loading import SnapshotPolicy
from perdure.services.mirroring import Mirroring
from perdure.services.sessions import Sessions
from perdure.services.verifying import Verifying
from perdure.testing import FixedAmbient


class World:
    """Every service over one store."""

    def __init__(
        self, store: Store, *, seed: bytes = b"world", snapshots: SnapshotPolicy | None = None, tenant: str = "local"
    ) -> None:
        self.store = store
        self.ambient = FixedAmbient(seed=seed)
        identity = Identity(tenant=tenant, actor="someone")
        self.sessions = Sessions(store, self.ambient, Ids(self.ambient).fresh, identity, snapshots or SnapshotPolicy())
        self.checkpoints = Checkpoints(self.sessions)
        self.branches = Branches(self.sessions, self.checkpoints)
        self.erasure = Erasure(self.sessions, self.checkpoints)
        self.exporting = Exporting(self.sessions)
        self.importing = Importing(self.sessions)
        self.mirroring = Mirroring(self.sessions)
        self.verifying = Verifying(self.sessions)
        self.files = DiskFiles()

    async def create(self, **fields: Any) -> SessionId:
        outcome = await self.sessions.create(do.Create(activate=True, **fields))
        return outcome.session

    async def append(self, session: SessionId, *payloads: Payload) -> int:
        self.ambient.advance(1)
        drafts = tuple(Draft(payload) for payload in payloads)
        return (await self.sessions.handle(session, do.Append(drafts=drafts))).version

    async def turn(self, session: SessionId, text: Any = "hello") -> int:
        """Two appends: what is asked, with a tool call begun, and what is answered."""
        await self.append(
            session,
            TurnStarted(model="m"),
            Message(role="user", content=text),
            ToolAsked(call="c", name="look", arguments={"for": text}),
            ToolStarted(call="c", key="k"),
        )
        answer = Message(role="assistant", content=f"re: {text}")
        return await self.append(
            session, ToolFinished(call="c", result={"call": "c", "found": text}), answer, TurnFinished(tokens_in=3)
        )

    async def set_vars(self, session: SessionId, document: dict[str, Any]) -> int:
        return (await self.sessions.handle(session, do.SetVars(document=document))).version

    async def branch(self, session: SessionId, at: int | None = None) -> SessionId:
        return (await self.branches.branch(session, at, BranchRequest())).session

    async def events(self, session: SessionId) -> list[Event]:
        head = await self.sessions.log.head(session)
        return await self.sessions.log.events(head, head.anchor_version)

    async def told(self, session: SessionId) -> list[Any]:
        """Everything there is to know of every event."""
        return [told(event) for event in await self.events(session)]

    async def versions_of(self, session: SessionId, kind: str) -> list[int]:
        return [event.version for event in await self.events(session) if event.kind == kind]

    async def states(self, session: SessionId) -> list[bytes]:
        """The bytes of the state at every version that can still be asked for."""
        head = await self.sessions.log.head(session)
        versions = range(max(1, head.anchor_version), head.row.version + 1)
        return [states.to_bytes(await self.sessions.loader.state_at(session, version)) for version in versions]

    async def lines(self, session: SessionId) -> list[bytes]:
        return [line async for line in self.exporting.export(session)]

    async def take(self, lines: Iterable[bytes]) -> ImportReport:
        return await self.importing.import_lines(lines)

    async def story(self) -> SessionId:
        """A session with turns, vars, a checkpoint of each sort, and a redaction."""
        session = await self.create(
            title="a story", owner="ada", tags=("x", "y"), metadata={"n": 1, "d": b"\x00"}, account="a"
        )
        await self.turn(session, "first")
        await self.set_vars(session, {"count": 1, "$odd": {"nested": [1, 2.0, None]}})
        await self.checkpoints.take(session, "full")
        await self.turn(session, "second")
        await self.checkpoints.take(session, "delta", {"why": "test"})
        await self.set_vars(session, {"count": 2})
        await self.erasure.redact(session, await self.versions_of(session, "message"), "asked for")
        await self.turn(session, "third")
        return session


def told(event: Event) -> Any:
    """Everything there is to know of an event, in a form that compares."""
    return (event.digest, event.version, event.id, event.session, event.tenant, event.at, event.actor, event.epoch,
            event.key, event.entry, event.redacted, event.data)  # fmt: skip


def edited(line: bytes, **changes: Any) -> bytes:
    """A line with some of its fields changed; None takes a field away."""
    document = codec.from_json(line) | changes
    return codec.to_json({name: value for name, value in document.items() if value is not None}) + b"\n"
