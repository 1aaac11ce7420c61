"""Restore: a store brought back from a backup, proven before it gets its name.

An interrupted restore goes on where it stopped. What was at the place before is set aside, never overwritten.
"""

import os
import tempfile
from typing import Final

import msgspec

from perdure.core.errors import DiskFull, Invalid, StoreBusy, Tampered, WorldError
from perdure.core.session.ids import SessionId
from perdure.ports.backup import Copies
from perdure.services import dumping
from perdure.services import manifests as files
from perdure.services.copies import (
    SCRATCH,
    Copy,
    Held,
    Reached,
    Stages,
    Wiring,
    check_level,
    clear,
    refuse_existing,
    refuse_odd,
    unseen,
    verified,
)
from perdure.services.disk import sync_folder, translated
from perdure.services.manifests import PARTIAL, Manifest, Verified
from perdure.services.signing import set_back
from perdure.waiting import aside

REPLACED: Final = ".replaced"
VAULT_SUFFIX: Final = ".keys"


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was brought back, or would be; `replaced` is where the one lies now that was there before. `erased`
    sessions cannot be read since they were erased after the backup, `bereft` branches not up to where they left one.
    """

    path: str
    manifest: Manifest
    verified: Verified
    replaced: str | None
    done: bool
    remarks: tuple[str, ...]
    erased: tuple[SessionId, ...]
    bereft: tuple[SessionId, ...]


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
        the backup is not what its manifest says; `Invalid` when it is one of another engine.
        """
        check_level(verify)
        backup, target = files.absolute(backup), files.absolute(target)
        if not files.is_server(target):
            refuse_odd(self._wiring, target, target)
        candidates = files.found(backup)
        _refuse_foreign(candidates, backup, target)
        if dry_run:
            return await self._rehearsed(backup, target, candidates, overwrite, verify, stages)
        if files.is_server(target):
            return await self._into_server(backup, target, candidates, verify, stages)
        partial = target + PARTIAL
        with files.claimed(partial):
            refuse_existing(target, overwrite)
            manifest = await self._fetched(backup, partial, candidates, stages)
            facts = await aside(self._wiring.engine_of(partial).facts)
            copy = _copy(backup, target, path=partial, scratch=partial + SCRATCH)
            reached = await verified(self._wiring, verify, copy, facts, stages)
            clear(partial, keep=True)
            replaced = await aside(lambda: self._set_aside(target))
            await aside(lambda: _name(partial, target))
        signed = await set_back(self._wiring, target, manifest)
        return self._outcome(target, target, manifest, reached, *signed, replaced=replaced)

    async def _into_server(
        self, backup: str, target: str, candidates: tuple[Manifest, ...], verify: str, stages: Stages
    ) -> Restored:
        """A store in an empty database: all of it in one transaction, and proven after."""
        manifest = await self._compared(backup, candidates, stages)
        engine = self._wiring.engine_of(target)
        await aside(lambda: dumping.load(engine, backup, stages("loading")))
        facts = await aside(engine.facts)
        taken = f"It is in {engine.place} now: drop the schema perdure there, and take another backup"
        copy = msgspec.structs.replace(_copy(backup, target, path=target, scratch=""), advice=taken)
        reached = await verified(self._wiring, verify, copy, facts, stages)
        signed = await set_back(self._wiring, target, manifest)
        return self._outcome(target, engine.place, manifest, reached, *signed)

    async def _rehearsed(
        self, backup: str, target: str, candidates: tuple[Manifest, ...], overwrite: bool, verify: str, stages: Stages
    ) -> Restored:
        """Everything but writing; for a full proof, in a folder that goes afterwards."""
        if not files.is_server(target):
            refuse_existing(target, overwrite)
        manifest = await self._compared(backup, candidates, stages)
        with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
            try:
                reached = await self._tried(backup, target, manifest, os.path.join(folder, "store"), verify, stages)
            except DiskFull as full:
                raise DiskFull(
                    f"no space left in {folder} to make a store of {backup} and prove it; name a larger folder with "
                    "TMPDIR, or verify quick",
                    path=folder,
                ) from full
        said = f"when it was made it was verified: {manifest.verified}"
        shown = self._wiring.engine_of(target).place if files.is_server(target) else target
        return self._outcome(target, shown, manifest, reached, said, done=False)

    async def _tried(
        self, backup: str, target: str, manifest: Manifest, place: str, verify: str, stages: Stages
    ) -> Reached:
        """Prove a backup without a trace beside it."""
        if manifest.kind == "portable":
            path, facts = backup, await aside(lambda: dumping.announced(backup))
        else:
            engine = self._wiring.engine_of(backup)
            facts = await aside(engine.examine if isinstance(engine, Copies) else engine.facts)
            if verify != "full":
                return Reached(verified="none" if verify == "none" else "quick")
            path = place
            await aside(lambda: files.taken_over(backup, place, stages("copying")))
        return await verified(
            self._wiring, verify, _copy(backup, target, path=path, scratch=place + SCRATCH), facts, stages
        )

    async def _compared(self, backup: str, candidates: tuple[Manifest, ...], stages: Stages) -> Manifest:
        """The manifest that a backup fits."""
        sha, size = await aside(lambda: files.digest_of(backup, stages("reading")))
        return _fitting(candidates, backup, sha, size)

    async def _fetched(self, backup: str, partial: str, candidates: tuple[Manifest, ...], stages: Stages) -> Manifest:
        """The store that a backup holds, under the name it has until it is proven; the manifest that fits."""
        if await aside(lambda: dumping.is_portable(backup)):
            manifest = await self._compared(backup, candidates, stages)
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
        with translated(target):
            if moved is not None:
                os.replace(target, moved)
            if os.path.exists(target + "-wal"):  # never to be read into another file
                os.replace(target + "-wal", _free((moved or target + REPLACED) + "-wal"))
            files.discard(target + "-shm", target + "-journal")
            sync_folder(target)
        return moved

    def _outcome(
        self,
        target: str,
        shown: str,
        manifest: Manifest,
        reached: Reached,
        *said: str,
        replaced: str | None = None,
        done: bool = True,
    ) -> Restored:
        held = self._wiring.keys(target) if done and manifest.sealed else None
        return Restored(
            path=shown,
            manifest=manifest,
            verified=reached.verified,
            replaced=replaced,
            done=done,
            remarks=(*said, *reached.remarks, *_needs(manifest, held), *self._shared(target, manifest)),
            erased=reached.erased,
            bereft=reached.bereft,
        )

    def _shared(self, target: str, manifest: Manifest) -> tuple[str, ...]:
        """A remark when the vault lies beside another store, which then erases with this one."""
        places = self._wiring.key_places(target) if manifest.sealed else ()
        others = [path.removesuffix(VAULT_SUFFIX) for path in places if path.endswith(VAULT_SUFFIX)]
        return tuple(
            f"its vault serves {other} as well: what is erased in one is gone from both; for a copy beside it, give "
            f"vault= a copy of its own (perdure keys backup FILE --store {other})"
            for other in others
            if os.path.isfile(other) and os.path.realpath(other) != os.path.realpath(target)
        )


def _copy(backup: str, target: str, *, path: str, scratch: str) -> Copy:
    """What is in a backup, lying at a path, to be proven with the keys of the store it becomes."""
    return Copy(
        path=path,
        original=target,
        scratch=scratch,
        named=f"the backup {backup}",
        since="after this backup",
        advice="Take another backup",
    )


def _refuse_foreign(candidates: tuple[Manifest, ...], backup: str, target: str) -> None:
    """Refuse a place of another kind than the store came from: keys and indexes are kept otherwise there."""
    server = files.is_server(target)
    if all((manifest.engine == "postgres") == server for manifest in candidates):
        return
    came, goes = ("a file", "a file") if server else ("PostgreSQL", "an empty database, postgresql://…")
    wanted = "PostgreSQL" if server else "a file"
    raise Invalid(
        f"{backup} is the backup of a store in {came}: restore it to {goes}. To have its sessions in {wanted}, export "
        "them from the restored store and import them (perdure sessions export, perdure sessions import)",
        path=backup,
        engine=candidates[0].engine,
    )


def _free(name: str) -> str:
    """A name that nothing has: this one, or with a number behind it."""
    found, number = name, 1
    while os.path.exists(found):
        number += 1
        found = f"{name}.{number}"
    return found


def _name(partial: str, target: str) -> None:
    with translated(target):
        os.replace(partial, target)
        sync_folder(target)


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


def _needs(manifest: Manifest, held: Held | None) -> tuple[str, ...]:
    """What a restored store needs besides; without its keys here, the manifest tells which they were."""
    if held is not None:
        keys = f"master key {', '.join(held.ids)}"
    else:
        keys = f"the master key of that: when it was backed up, {', '.join(manifest.keys) or 'unknown'}"
    sealed = f"it is sealed: it opens with its vault and {keys}"
    cold = f"{manifest.cold} archived sessions are read from the cold storage they were archived to"
    return (*((sealed,) if manifest.sealed else ()), *((cold,) if manifest.cold else ()))
