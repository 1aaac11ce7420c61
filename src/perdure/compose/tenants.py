"""One store, many tenants: a server opens a store once and acts in it for whoever asks."""

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from perdure.ambient import Ids, RealAmbient
from perdure.compose.making import made_once
from perdure.compose.opening import StoreGiven, open_cold, open_store
from perdure.compose.wiring import Opened, Services
from perdure.core.session.origin import Timeouts
from perdure.core.session.timeouts import OFF
from perdure.ports.ambient import Ambient
from perdure.sealing.given import AS_FOUND, Given

if TYPE_CHECKING:
    from perdure.compose.memory import MemorySettings
    from perdure.compose.talking import Common, Talk
    from perdure.ports.memory import Embedder
    from perdure.services.allowance import Allowance
    from perdure.services.auditing import Auditing
    from perdure.services.cooling import CoolingStore
    from perdure.services.directory import Directory
    from perdure.services.loading import SnapshotPolicy
    from perdure.services.people import People
    from perdure.services.posting import Posting

SYSTEM: Final = "_perdure"
"""The tenant in whose sessions a server keeps its own affairs: who may do what, tokens, the audit log."""
SERVER: Final = "server "
"""Who acts where nobody asked: with a space at its end it is no name that a principal can have."""
KEPT: Final = 256
"""How many tenants' services are kept at hand; those of others are made again when they are asked for."""


class Tenants:
    """The services of every tenant over one store, made when they are first asked for."""

    def __init__(
        self,
        store: "CoolingStore",
        ambient: Ambient,
        snapshots: "SnapshotPolicy",
        timeouts: Timeouts = OFF,
        opened: Opened | None = None,
        masks: str | None = None,
        *,
        private: bool = False,
    ) -> None:
        self.store = store
        self.ambient = ambient
        self._snapshots = snapshots
        self._timeouts = timeouts
        self._opened = opened
        self._masks = masks
        self._private = private
        self.talk: Talk | None = None
        """How sessions talk to models; what is built in, if nobody says."""
        self.memory: MemorySettings | None = None
        """How memories are kept and found; what is installed, if nobody says."""
        self._made: OrderedDict[str, Services] = OrderedDict()

    def services(self, tenant: str) -> Services:
        """The services for one tenant's sessions."""
        found = self._made.get(tenant)
        if found is None:
            from perdure.services.acting import Identity
            from perdure.services.sessions import Sessions

            who = Identity(tenant=tenant, actor=SERVER)
            fresh = Ids(self.ambient).fresh
            timeouts = OFF if tenant == SYSTEM else self._timeouts
            found = Services(self.store, Sessions(self.store, self.ambient, fresh, who, self._snapshots, timeouts))
            found.opened = self._opened
            found.common_of = lambda: self.common
            found.allowance_of = lambda: self.allowance
            found.embedder_of = lambda: self.embedder
            found.memory = self.memory
            found.sessions.masks = None if tenant == SYSTEM else self._masks
            self._made[tenant] = found
            if len(self._made) > KEPT:
                self._let_one_go()
        self._made.move_to_end(tenant)
        return found

    def _let_one_go(self) -> None:
        """The services of who asked longest ago; of those who have something to write down yet only if there are very
        many.
        """
        paid = (tenant for tenant, services in self._made.items() if not services.owes)
        gone = next(paid, next(iter(self._made)) if len(self._made) > 2 * KEPT else None)
        if gone is not None:
            self._made.pop(gone).let_go()

    @made_once
    def common(self) -> "Common":
        """What all tenants share for their turns."""
        from perdure.compose.talking import Common, Talk

        return Common(self.talk or Talk(), self.ambient)

    @made_once
    def allowance(self) -> "Allowance":
        """What all tenants share for their memories."""
        from perdure.compose.memory import allowance_of

        return allowance_of(self.memory)

    @made_once
    def embedder(self) -> "Embedder | None":
        """What makes vectors for all tenants: what one of them has found away, none of them asks again soon."""
        from perdure.compose.memory import MemorySettings, embedder_for

        return embedder_for(self.memory or MemorySettings(), self.ambient.now)

    @made_once
    def directory(self) -> "Directory":
        """Who may come in, and with what."""
        from perdure.services.directory import Directory

        system = self.services(SYSTEM)
        return Directory(system.sessions, system.heads)

    @made_once
    def auditing(self) -> "Auditing":
        """The audit logs of all tenants."""
        from perdure.services.auditing import Auditing

        system = self.services(SYSTEM)
        return Auditing(system.sessions, self.directory, system.verifying, system.heads)

    @made_once
    def people(self) -> "People":
        """Erasing whatever there is of a person."""
        from perdure.services.people import People

        return People(self.services, self.directory, self.services(SYSTEM).erasure)

    @made_once
    def posting(self) -> "Posting":
        """Telling webhooks what happens to sessions."""
        from perdure.services.outbound import Outbound
        from perdure.services.posting import Posting

        outbound = Outbound(private=self._private)
        sessions = self.services(SYSTEM).sessions
        return Posting(
            sessions, lambda tenant: self.services(tenant).sessions.log, self.directory, self.auditing, outbound
        )

    async def close(self) -> None:
        """Write what the audit logs still lack and let go of the store; harmless when repeated."""
        try:
            if "auditing" in self.__dict__:
                await self.auditing.flush()
            for services in self._made.values():
                await services.quiet()
                await services.jot()
                await services.sessions.loader.flush()
            if "common" in self.__dict__:
                await self.common.close()
        finally:
            await self.store.close()


def tenants(
    path: StoreGiven,
    *,
    ambient: Ambient | None = None,
    snapshots: "SnapshotPolicy | None" = None,
    cold: str | os.PathLike[str] | None = None,
    keys: Given = AS_FOUND,
    timeouts: Timeouts = OFF,
    read_only: bool = False,
    masks: str | None = None,
    private: bool = False,
) -> Tenants:
    """Open the store at a path for many tenants; `masks` says what of their content never reaches the disk, `private`
    whether their webhooks may be at private addresses.
    """
    from perdure.services.cooling import CoolingStore
    from perdure.services.loading import SnapshotPolicy

    chance = ambient or RealAmbient()
    archive = open_cold(cold)
    store = CoolingStore(open_store(path, chance, read_only=read_only, keys=keys, hasty=False), archive, chance)
    opened = None if isinstance(path, Mapping) else Opened(os.fspath(path), keys, cold)
    return Tenants(store, chance, snapshots or SnapshotPolicy(), timeouts, opened, masks, private=private)
