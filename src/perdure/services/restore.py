"""Restore: a store brought back from a backup, proven before it gets its name.

An interrupted restore goes on where it stopped. What was at the place before is set aside, never overwritten.
"""

import os
from typing import Final

import msgspec

from perdure.core.errors import Invalid, StoreBusy, Tampered, WorldError
from perdure.ports.backup import Copies
from perdure.services import dumping
from perdure.services import manifests as files
from perdure.services.copies import Stages, Wiring, check_level, clear, refuse_existing, unseen, verified
from perdure.services.manifests import PARTIAL, Manifest, Verified
from perdure.waiting import aside

REPLACED: Final = ".replaced"


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was brought back, or would be; `replaced` is where the one lies now that was there before."""

    path: str
    manifest: Manifest
    verified: Verified
    replaced: str | None
    done: bool
    remarks: tuple[str, ...]


class Restores:
    """Coming back from backups."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    async def restore(
        self,
        backup: str,
        target: str,
        *,
        overwrite: bool = False,
        dry_run: bool = False,
        verify: str = "full",
        stages: Stages = unseen,
    ) -> Restored:
        """Bring a store back from a backup. What was there before is set aside.

        `AlreadyExists` when a store is there and may not be replaced, `StoreBusy` when it is in use; `Tampered` when
        the backup is not what its manifest says.
        """
        check_level(verify)
        backup, target = files.absolute(backup), files.absolute(target)
        candidates = files.found(backup)
        if dry_run:
            return await self._rehearsed(backup, target, candidates, overwrite, stages)
        if files.is_server(target):
            return await self._into_server(backup, target, candidates, verify, stages)
        partial = target + PARTIAL
        with files.claimed(partial):
            refuse_existing(target, overwrite)
            manifest = await self._fetched(backup, partial, candidates, stages)
            facts = await aside(self._wiring.engine_of(partial).facts)
            reached, remarks = await verified(self._wiring, verify, partial, target, facts, stages)
            clear(partial, keep=True)
            replaced = await aside(lambda: self._set_aside(target))
            await aside(lambda: _name(partial, target))
        return Restored(
            path=target,
            manifest=manifest,
            verified=reached,
            replaced=replaced,
            done=True,
            remarks=(*remarks, *_needs(manifest)),
        )

    async def _into_server(
        self, backup: str, target: str, candidates: tuple[Manifest, ...], verify: str, stages: Stages
    ) -> Restored:
        """A store in an empty database: all of it in one transaction, and proven after."""
        sha, size = await aside(lambda: files.digest_of(backup, stages("reading")))
        manifest = _fitting(candidates, backup, sha, size)
        if manifest.kind != "portable":
            raise Invalid(f"{backup} is a file of {manifest.engine}; restore it to a file, not to a server")
        engine = self._wiring.engine_of(target)
        await aside(lambda: dumping.load(engine, backup, stages("loading")))
        facts = await aside(engine.facts)
        reached, remarks = await verified(self._wiring, verify, target, target, facts, stages)
        return Restored(
            path=engine.place,
            manifest=manifest,
            verified=reached,
            replaced=None,
            done=True,
            remarks=(*remarks, *_needs(manifest)),
        )

    async def _rehearsed(
        self, backup: str, target: str, candidates: tuple[Manifest, ...], overwrite: bool, stages: Stages
    ) -> Restored:
        """Everything but writing."""
        if not files.is_server(target):
            refuse_existing(target, overwrite)
        sha, size = await aside(lambda: files.digest_of(backup, stages("reading")))
        manifest = _fitting(candidates, backup, sha, size)
        if manifest.kind == "portable":
            await aside(lambda: dumping.examine(backup, stages("reading back")))
        elif isinstance(engine := self._wiring.engine_of(backup), Copies):
            await aside(engine.examine)
        said = f"when it was made it was verified: {manifest.verified}"
        return Restored(
            path=target,
            manifest=manifest,
            verified="quick",
            replaced=None,
            done=False,
            remarks=(said, *_needs(manifest)),
        )

    async def _fetched(self, backup: str, partial: str, candidates: tuple[Manifest, ...], stages: Stages) -> Manifest:
        """The store that a backup holds, under the name it has until it is proven; the manifest that fits."""
        if await aside(lambda: dumping.is_portable(backup)):
            sha, size = await aside(lambda: files.digest_of(backup, stages("reading")))
            manifest = _fitting(candidates, backup, sha, size)
            clear(partial)
            await aside(lambda: dumping.load(self._wiring.engine_of(partial), backup, stages("loading")))
            return manifest
        clear(partial, keep=True)
        sha, size = await aside(lambda: files.taken_over(backup, partial, stages("copying")))
        try:
            return _fitting(candidates, backup, sha, size)
        except Tampered:
            clear(partial)
            raise

    def _set_aside(self, target: str) -> str | None:
        """Move away what is at a place, its log as well; where to, if there was something."""
        moved = _free(target + REPLACED) if os.path.exists(target) else None
        if moved is not None:
            engine = self._wiring.engine_of(target)
            try:
                free = not isinstance(engine, Copies) or engine.release()
            except WorldError:  # it is damaged, which may be why it is to be replaced
                free = True
            if not free:
                raise StoreBusy(f"somebody has {target} open; stop that and try again", path=target)
        with files.translated(target):
            if moved is not None:
                os.replace(target, moved)
            if os.path.exists(target + "-wal"):  # never to be read into another file
                os.replace(target + "-wal", _free((moved or target + REPLACED) + "-wal"))
            files.discard(target + "-shm", target + "-journal")
            files.sync_folder(target)
        return moved


def _free(name: str) -> str:
    """A name that nothing has: this one, or with a number behind it."""
    found, number = name, 1
    while os.path.exists(found):
        number += 1
        found = f"{name}.{number}"
    return found


def _name(partial: str, target: str) -> None:
    with files.translated(target):
        os.replace(partial, target)
        files.sync_folder(target)


def _fitting(candidates: tuple[Manifest, ...], backup: str, sha: str, size: int) -> Manifest:
    for manifest in candidates:
        if (manifest.sha256, manifest.bytes) == (sha, size):
            return manifest
    raise Tampered(
        f"{backup} is not what its manifest says (SHA-256 {sha}, {size} bytes); take another copy",
        path=backup,
        found=sha,
        expected=candidates[0].sha256,
    )


def _needs(manifest: Manifest) -> tuple[str, ...]:
    """What a restored store needs besides."""
    sealed = f"it is sealed: it opens with its vault and master key {', '.join(manifest.keys) or '(unknown)'}"
    cold = f"{manifest.cold} archived sessions are read from the cold storage they were archived to"
    return (*((sealed,) if manifest.sealed else ()), *((cold,) if manifest.cold else ()))
