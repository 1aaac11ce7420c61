"""Backup: a whole store copied while it is in use, and proven.

A backup is written under another name and gets its own only when it is complete, durable and proven. An interrupted one
is begun anew, since it is to hold all that was acknowledged before it was asked for. Not in it, on purpose: the vault
with the salts, without which a sealed one cannot be read, so that destroying a session's salt erases it from every
backup; and the bundles of archived sessions, which lie in cold storage.
"""

import msgspec

from perdure.ports.backup import Copies, Engine, Facts
from perdure.services import dumping
from perdure.services import manifests as files
from perdure.services.copies import (
    Held,
    Reached,
    Stages,
    Wiring,
    check_level,
    clear,
    living,
    refuse_existing,
    refuse_odd,
    unseen,
    verified,
)
from perdure.services.manifests import PARTIAL, Kind, Manifest
from perdure.services.signing import vouched_for
from perdure.waiting import aside


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made."""

    path: str
    manifest: Manifest
    remarks: tuple[str, ...]


class Backups:
    """Making copies of stores."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    async def back_up(
        self,
        source: str,
        target: str,
        *,
        portable: bool = False,
        overwrite: bool = False,
        verify: str = "full",
        stages: Stages = unseen,
    ) -> BackedUp:
        """Copy a store into a new file while others work on it.

        `AlreadyExists` when the file is there and may not be replaced; `Damaged` when the copy does not verify.
        """
        check_level(verify)
        engine, target = self._wiring.engine_of(source), files.absolute(target)
        refuse_odd(self._wiring, target, source)
        files.refuse_own(target, [engine.place])
        partial = target + PARTIAL
        with files.claimed(partial):
            refuse_existing(target, overwrite)
            clear(partial)
            try:
                made = await self._made(engine, source, target, portable, verify, stages)
            except BaseException:
                clear(partial)  # half a copy serves nobody, and may fill the disk that the store lives on
                raise
        return made

    async def _made(
        self, engine: Engine, source: str, target: str, portable: bool, verify: str, stages: Stages
    ) -> BackedUp:
        partial = target + PARTIAL
        made_at = self._wiring.ambient.now()
        unsigned = await vouched_for(self._wiring, source)
        kind: Kind = "portable"
        if portable or not isinstance(engine, Copies):
            facts = await aside(lambda: dumping.dump(engine, partial, made_at, stages("dumping")))
        else:
            kind, copies = "file", engine
            facts = await aside(lambda: copies.copy(partial, stages("copying")))
        reached = await verified(self._wiring, verify, living(engine.place, partial, source), facts, stages)
        sha, size = await aside(lambda: files.digest_of(partial, stages("hashing")))
        held = self._wiring.keys(source) if facts.sealed else None
        manifest = self._manifest(held, facts, kind, made_at, reached, sha, size)
        await aside(lambda: _finish(target, manifest))
        remarks = (*reached.remarks, *unsigned, *_remarks(manifest, engine.place, held))
        return BackedUp(path=target, manifest=manifest, remarks=remarks)

    def _manifest(
        self, held: Held | None, facts: Facts, kind: Kind, made_at: int, reached: Reached, sha: str, size: int
    ) -> Manifest:
        return Manifest(
            version=self._wiring.version,
            engine=facts.engine,
            kind=kind,
            store_format=facts.format,
            made_at=made_at,
            position=facts.position,
            sessions=facts.sessions,
            records=facts.records,
            cold=facts.cold,
            sealed=facts.sealed,
            keys=() if held is None else held.ids,
            bytes=size,
            sha256=sha,
            verified=reached.verified,
            unreadable=len(reached.erased) + len(reached.bereft),
        )


def _finish(target: str, manifest: Manifest) -> None:
    files.drafted(target, manifest)
    clear(target + PARTIAL, keep=True)
    files.in_place(target)


def _remarks(manifest: Manifest, source: str, held: Held | None) -> tuple[str, ...]:
    """What is not in a backup and has to be kept besides."""
    way = f"perdure keys backup FILE --store {source}"
    if held is not None and not held.copied:
        way = f"back up {held.vault} with the tools of its server"
    sealed = f"it is sealed, and its keys are not in it: keep the vault and the master key apart from it ({way})"
    cold = f"{manifest.cold} archived sessions lie in cold storage and are not in it: keep that as well"
    return (*((sealed,) if manifest.sealed else ()), *((cold,) if manifest.cold else ()))
