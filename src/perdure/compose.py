"""The only place that wires things: which store, which ambient, which services.

Services are made when they are first used, and their modules loaded then: `import perdure` stays light.
"""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from perdure.ambient import Ids, RealAmbient
from perdure.core.errors import Invalid
from perdure.core.session.values import check
from perdure.ports.ambient import Ambient
from perdure.ports.store import Store
from perdure.services.loading import SnapshotPolicy
from perdure.services.sessions import Identity, Sessions

if TYPE_CHECKING:
    from perdure.services.branches import Branches
    from perdure.services.checkpoints import Checkpoints
    from perdure.services.erasure import Erasure
    from perdure.services.exporting import Exporting
    from perdure.services.finding import Finding
    from perdure.services.importing import Importing
    from perdure.services.lifecycle import Lifecycle
    from perdure.services.merging import Merging
    from perdure.services.mirroring import Mirroring
    from perdure.services.verifying import Verifying

VOLATILE = ":memory:"
MAX_NAME = 256


class Services:
    """Everything an edge calls."""

    def __init__(self, store: Store, sessions: Sessions) -> None:
        self.store = store
        self.sessions = sessions

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        from perdure.services.checkpoints import Checkpoints

        return Checkpoints(self.sessions)

    @cached_property
    def branches(self) -> "Branches":
        from perdure.services.branches import Branches

        return Branches(self.sessions, self.checkpoints)

    @cached_property
    def merging(self) -> "Merging":
        from perdure.services.merging import Merging

        return Merging(self.sessions)

    @cached_property
    def erasure(self) -> "Erasure":
        from perdure.services.erasure import Erasure

        return Erasure(self.sessions, self.checkpoints)

    @cached_property
    def lifecycle(self) -> "Lifecycle":
        from perdure.services.lifecycle import Lifecycle

        return Lifecycle(self.sessions)

    @cached_property
    def finding(self) -> "Finding":
        from perdure.services.finding import Finding

        return Finding(self.sessions)

    @cached_property
    def exporting(self) -> "Exporting":
        from perdure.services.exporting import Exporting

        return Exporting(self.sessions)

    @cached_property
    def importing(self) -> "Importing":
        from perdure.services.importing import Importing

        return Importing(self.sessions)

    @cached_property
    def mirroring(self) -> "Mirroring":
        from perdure.services.mirroring import Mirroring

        return Mirroring(self.sessions)

    @cached_property
    def verifying(self) -> "Verifying":
        from perdure.services.verifying import Verifying

        return Verifying(self.sessions)


def open_store(path: str | os.PathLike[str], ambient: Ambient, *, read_only: bool = False) -> Store:
    """The store behind a path: a SQLite file, or RAM for `:memory:`."""
    spelled = os.fspath(path)
    if not spelled or "\0" in spelled:
        raise Invalid(f"{path!r} is not a path to a store", path=str(path))
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not a store this version knows; give the path of a file")
    if spelled == VOLATILE:
        from perdure.stores.volatile import VolatileStore

        return VolatileStore()
    from perdure.stores.sqlite import SqliteStore

    return SqliteStore(spelled, ambient, read_only=read_only)


def compose(store: Store, ambient: Ambient, identity: Identity, snapshots: SnapshotPolicy) -> Services:
    """The services over a store."""
    return Services(store, Sessions(store, ambient, Ids(ambient).fresh, identity, snapshots))


def embedded(
    path: str | os.PathLike[str],
    *,
    tenant: str = "local",
    actor: str = "local",
    read_only: bool = False,
    ambient: Ambient | None = None,
    snapshots: SnapshotPolicy | None = None,
) -> Services:
    """The services over the store at a path."""
    for name, value in (("tenant", tenant), ("actor", actor)):
        if type(value) is not str or not 0 < len(value) <= MAX_NAME:
            raise Invalid(f"{name} is a text of 1 to {MAX_NAME} characters, not {value!r:.80}")
        check(value)
    chance = ambient or RealAmbient()
    store = open_store(path, chance, read_only=read_only)
    return compose(store, chance, Identity(tenant=tenant, actor=actor), snapshots or SnapshotPolicy())
