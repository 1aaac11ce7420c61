"""The services over a store: made when they are first used, and their modules loaded then, so importing stays light."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from perdure.ambient import Ids, RealAmbient
from perdure.compose.making import made_once
from perdure.compose.opening import StoreGiven, open_cold, open_store
from perdure.core.errors import Invalid, ReadOnly, StoreClosed
from perdure.core.session.ids import SessionId
from perdure.core.session.lifecycle import Moved
from perdure.core.session.origin import Timeouts
from perdure.core.session.timeouts import OFF
from perdure.core.session.values import check
from perdure.ports.ambient import Ambient
from perdure.ports.cold import Cold
from perdure.ports.store import Store
from perdure.sealing.given import AS_FOUND, Given

if TYPE_CHECKING:
    from perdure.compose.memory import MemorySettings
    from perdure.compose.talking import Common, Talk
    from perdure.ports.memory import Embedder
    from perdure.services.acting import Identity
    from perdure.services.allowance import Allowance
    from perdure.services.archiving import Archiving
    from perdure.services.blobs import Blobs
    from perdure.services.branches import Branches
    from perdure.services.checkpoints import Checkpoints
    from perdure.services.cleanup import Cleanup
    from perdure.services.consolidating import Consolidating
    from perdure.services.cooling import CoolingStore
    from perdure.services.desk import Desk
    from perdure.services.erasure import Erasure
    from perdure.services.exporting import Exporting
    from perdure.services.extracting import Extracting
    from perdure.services.finding import Finding
    from perdure.services.gateway import Gateway
    from perdure.services.grounding import Grounding
    from perdure.services.heads import HeadKeeper
    from perdure.services.homes import Home
    from perdure.services.importing import Importing
    from perdure.services.lifecycle import Lifecycle
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.memories import Memories
    from perdure.services.merging import Merging
    from perdure.services.mirroring import Mirroring
    from perdure.services.promoting import Promoting
    from perdure.services.recording import Recording
    from perdure.services.remembering import Remembering
    from perdure.services.sessions import Sessions
    from perdure.services.sourcing import Sourcing
    from perdure.services.spawning import Spawning
    from perdure.services.talking import Talking
    from perdure.services.timeouts import Timekeeper
    from perdure.services.verifying import Verifying
    from perdure.services.waking import Waking

MAX_NAME = 256


class Opened(msgspec.Struct, frozen=True):
    """How a store was opened: where it is, with which keys, with which cold storage."""

    path: str
    keys: Given
    cold: str | os.PathLike[str] | None


class Services:
    """Everything an edge calls."""

    opened: Opened | None = None
    talk: "Talk | None" = None
    """How sessions talk to models; what is built in, if nobody says."""
    memory: "MemorySettings | None" = None
    """How memories are kept and found; what is installed, if nobody says."""

    def __init__(self, store: "CoolingStore", sessions: "Sessions") -> None:
        self.store = store
        self.sessions = sessions
        self.common_of: Callable[[], Common] = self._own_common
        """Where what all tenants share for their turns comes from."""
        self.allowance_of: Callable[[], Allowance] = self._own_allowance
        """Where the room for memories comes from, which all tenants share."""
        self.embedder_of: Callable[[], Embedder | None] = self._own_embedder
        """Where what makes vectors comes from, which all tenants share."""

    def _own_common(self) -> "Common":
        from perdure.compose.talking import Common, Talk
        from perdure.services.tooling import Tooling

        return Common(self.talk or Talk(), self.sessions.ambient, Tooling(self.waking.toolbox))

    def _own_allowance(self) -> "Allowance":
        from perdure.compose.memory import allowance_of

        return allowance_of(self.memory)

    def _own_embedder(self) -> "Embedder | None":
        from perdure.compose.memory import MemorySettings, embedder_for

        return embedder_for(self.memory or MemorySettings(), self.sessions.ambient.now)

    @made_once
    def home(self) -> "Home":
        from perdure.services.homes import Home

        return Home(self.forget_turns)

    def forget_turns(self) -> None:
        """Begin anew with turns: on another event loop, or in the child of a fork, where none of them runs."""
        common = self.__dict__.pop("common", None)
        for name in ("spawning", "talking", "gateway", "consolidating", "desk"):
            self.__dict__.pop(name, None)
        if common is not None:
            self.__dict__["common"] = common.anew()

    @made_once
    def common(self) -> "Common":
        return self.common_of()

    @made_once
    def desk(self) -> "Desk":
        from perdure.compose.talking import desk

        return desk(self.sessions, self.lifecycle, self.common, lambda: self.remembering)

    @made_once
    def memories(self) -> "Memories":
        from perdure.compose.memory import MemorySettings, memories

        settings = self.memory or MemorySettings()
        return memories(self.sessions, self.erasure, settings, self.allowance_of(), self.embedder_of)

    @property
    def owes(self) -> bool:
        """Whether something was counted that is not written down yet."""
        return "memories" in self.__dict__ and self.memories.shelves.owes

    def let_go(self) -> None:
        """Keep nothing at hand any more: whoever asks next makes services anew."""
        if "memories" in self.__dict__:
            self.memories.shelves.forget()

    @made_once
    def consolidating(self) -> "Consolidating":
        from perdure.compose.memory import MemorySettings, consolidating

        return consolidating(self.memories, self.common, self.memory or MemorySettings())

    @made_once
    def extracting(self) -> "Extracting":
        from perdure.compose.memory import extracting

        return extracting(self.memories, lambda: self.common)

    @made_once
    def promoting(self) -> "Promoting":
        from perdure.services.promoting import Promoting

        return Promoting(self.memories)

    @made_once
    def sourcing(self) -> "Sourcing":
        from perdure.services.sourcing import Sourcing

        return Sourcing(self.memories, self.erasure)

    @made_once
    def remembering(self) -> "Remembering":
        from perdure.services.remembering import Remembering

        return Remembering(self.memories)

    @made_once
    def grounding(self) -> "Grounding":
        from perdure.services.grounding import Grounding

        return Grounding(self.remembering, self.checkpoints)

    @made_once
    def talking(self) -> "Talking":
        from perdure.services.talking import Talking

        return Talking(self.desk)

    @made_once
    def spawning(self) -> "Spawning":
        from perdure.services.spawning import Spawning

        return Spawning(self.desk, self.talking)

    @made_once
    def gateway(self) -> "Gateway":
        from perdure.services.gateway import Gateway

        return Gateway(self.desk, self.branches)

    async def silence(self) -> None:
        """End the turns of this library, and the thread that blocking callers' turns run on."""
        if "home" in self.__dict__:
            await self.home.close(self._leave)

    async def _leave(self) -> None:
        await self.quiet()
        if "common" in self.__dict__:
            await self.common.close()

    async def jot(self) -> None:
        """Write down what was counted of memories, where that can be written."""
        if "memories" in self.__dict__:
            with suppress(ReadOnly, StoreClosed):
                await self.memories.close()

    async def quiet(self) -> None:
        """End the turns that run here, in good order."""
        if "spawning" in self.__dict__:
            await self.spawning.close()
        if "talking" in self.__dict__:
            await self.talking.close()
        if "gateway" in self.__dict__:
            await self.gateway.close()

    @made_once
    def archiving(self) -> "Archiving":
        from perdure.services.archiving import Archiving

        return Archiving(self.sessions, self.lifecycle, self.store)

    @made_once
    def recording(self) -> "Recording":
        from perdure.services.recording import Recording

        return Recording(self.sessions)

    @made_once
    def checkpoints(self) -> "Checkpoints":
        from perdure.services.checkpoints import Checkpoints

        return Checkpoints(self.sessions, self.heads.reached)

    @made_once
    def branches(self) -> "Branches":
        from perdure.services.branches import Branches

        return Branches(self.sessions, self.checkpoints)

    @made_once
    def blobs(self) -> "Blobs":
        from perdure.services.blobs import Blobs

        return Blobs(self.sessions)

    @made_once
    def merging(self) -> "Merging":
        from perdure.services.merging import Merging

        return Merging(self.sessions)

    @made_once
    def erasure(self) -> "Erasure":
        from perdure.services.erasure import Erasure

        return Erasure(self.sessions, self.checkpoints)

    @made_once
    def lifecycle(self) -> "Lifecycle":
        from perdure.services.lifecycle import Lifecycle

        made = Lifecycle(self.sessions)
        made.hook("after", "complete", self._completed)
        if self.heads.kept:
            from perdure.services.heads import MOVES

            for move in MOVES:
                made.hook("after", move, self.heads.moved)
        if self.store.cold is not None:
            made.hook("after", "archive", self._archived)
        return made

    async def _completed(self, session: SessionId, moved: Moved) -> None:
        if (await self.sessions.loader.load(session)).state.config.memory is not None:
            await self.extracting.moved(session, moved)

    async def _archived(self, session: SessionId, moved: Moved) -> None:
        await self.archiving.moved(session, moved)

    @made_once
    def cleanup(self) -> "Cleanup":
        from perdure.services.cleanup import Cleanup

        return Cleanup(self.sessions, self.erasure)

    @made_once
    def timeouts(self) -> "Timekeeper":
        from perdure.compose.memory import remembering
        from perdure.services.timeouts import Timekeeper

        after = remembering(self.sessions, lambda: self.consolidating, lambda: self.home)
        return Timekeeper(self.sessions, self.lifecycle, self.cleanup, self.erasure, self.heads.catch_up, after)

    @made_once
    def waking(self) -> "Waking":
        from perdure.services.waking import Waking

        return Waking(self.sessions, self.lifecycle)

    @made_once
    def finding(self) -> "Finding":
        from perdure.services.finding import Finding

        return Finding(self.sessions)

    @made_once
    def exporting(self) -> "Exporting":
        from perdure.services.exporting import Exporting

        return Exporting(self.sessions)

    @made_once
    def importing(self) -> "Importing":
        from perdure.services.importing import Importing

        return Importing(self.sessions)

    @made_once
    def mirroring(self) -> "Mirroring":
        from perdure.services.mirroring import Mirroring

        return Mirroring(self.sessions)

    @made_once
    def verifying(self) -> "Verifying":
        from perdure.services.verifying import Verifying

        return Verifying(self.sessions, self.heads)

    @made_once
    def heads(self) -> "HeadKeeper":
        from perdure.services.heads import HeadKeeper

        return HeadKeeper(self.sessions)


def compose(
    store: Store,
    ambient: Ambient,
    identity: "Identity",
    snapshots: "SnapshotPolicy",
    cold: Cold | None = None,
    timeouts: Timeouts = OFF,
) -> Services:
    """The services over a store, and over cold storage if there is one."""
    from perdure.services.cooling import CoolingStore
    from perdure.services.sessions import Sessions

    cooling = CoolingStore(store, cold, ambient)
    return Services(cooling, Sessions(cooling, ambient, Ids(ambient).fresh, identity, snapshots, timeouts))


def embedded(
    path: StoreGiven,
    *,
    tenant: str = "local",
    actor: str = "local",
    read_only: bool = False,
    ambient: Ambient | None = None,
    snapshots: "SnapshotPolicy | None" = None,
    cold: str | os.PathLike[str] | None = None,
    keys: Given = AS_FOUND,
    timeouts: Timeouts = OFF,
    talk: "Talk | None" = None,
    memory: "MemorySettings | None" = None,
) -> Services:
    """The services over the store at a path."""
    for name, value in (("tenant", tenant), ("actor", actor)):
        if type(value) is not str or not 0 < len(value) <= MAX_NAME:
            raise Invalid(f"{name} is a text of 1 to {MAX_NAME} characters, not {value!r:.80}")
        check(value)
    from perdure.services.acting import Identity
    from perdure.services.loading import SnapshotPolicy

    chance = ambient or RealAmbient()
    archive = open_cold(cold)
    store = open_store(path, chance, read_only=read_only, keys=keys)
    identity = Identity(tenant=tenant, actor=actor)
    services = compose(store, chance, identity, snapshots or SnapshotPolicy(), archive, timeouts)
    services.talk, services.memory = talk, memory
    if not isinstance(path, Mapping):
        services.opened = Opened(os.fspath(path), keys, cold)
    return services
