"""The only place that wires things: which store, which ambient, which services."""

import os

import msgspec

from perdure.ambient import Ids, RealAmbient
from perdure.core.errors import Invalid
from perdure.ports.ambient import Ambient
from perdure.ports.store import Store
from perdure.services.branches import Branches
from perdure.services.checkpoints import Checkpoints
from perdure.services.erasure import Erasure
from perdure.services.exporting import Exporting
from perdure.services.finding import Finding
from perdure.services.lifecycle import Lifecycle
from perdure.services.loading import SnapshotPolicy
from perdure.services.merging import Merging
from perdure.services.sessions import Identity, Sessions
from perdure.services.verifying import Verifying
from perdure.stores.sqlite import SqliteStore
from perdure.stores.volatile import VolatileStore

VOLATILE = ":memory:"
MAX_NAME = 256


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an edge calls."""

    store: Store
    sessions: Sessions
    checkpoints: Checkpoints
    branches: Branches
    merging: Merging
    erasure: Erasure
    lifecycle: Lifecycle
    finding: Finding
    exporting: Exporting
    verifying: Verifying


def open_store(path: str | os.PathLike[str], ambient: Ambient, *, read_only: bool = False) -> Store:
    """The store behind a path: a SQLite file, or RAM for `:memory:`."""
    spelled = os.fspath(path)
    if not spelled or "\0" in spelled:
        raise Invalid(f"{path!r} is not a path to a store", path=str(path))
    if "://" in spelled:
        raise Invalid(f"{spelled.split('://')[0]}:// is not a store this version knows; give the path of a file")
    return VolatileStore() if spelled == VOLATILE else SqliteStore(spelled, ambient, read_only=read_only)


def compose(store: Store, ambient: Ambient, identity: Identity, snapshots: SnapshotPolicy) -> Services:
    """The services over a store."""
    sessions = Sessions(store, ambient, Ids(ambient).fresh, identity, snapshots)
    checkpoints = Checkpoints(sessions)
    return Services(
        store=store,
        sessions=sessions,
        checkpoints=checkpoints,
        branches=Branches(sessions, checkpoints),
        merging=Merging(sessions),
        erasure=Erasure(sessions, checkpoints),
        lifecycle=Lifecycle(sessions),
        finding=Finding(sessions),
        exporting=Exporting(sessions),
        verifying=Verifying(sessions),
    )


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
        if not 0 < len(value) <= MAX_NAME:
            raise Invalid(f"{name} is a text of 1 to {MAX_NAME} characters", value=value)
    chance = ambient or RealAmbient()
    store = open_store(path, chance, read_only=read_only)
    return compose(store, chance, Identity(tenant=tenant, actor=actor), snapshots or SnapshotPolicy())
