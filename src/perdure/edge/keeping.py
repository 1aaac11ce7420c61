"""Keeping a whole store: ended sessions put away and taken back, backups, and stores brought back from those."""

import os
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.compose import Services, copying
from perdure.core.errors import Refused
from perdure.edge import given
from perdure.edge.files import refused_own
from perdure.sealing.given import Given, KeyGiven, VaultGiven
from perdure.waiting import drive

if TYPE_CHECKING:
    from perdure.services.archiving import Archived, NotArchived
    from perdure.services.backup import BackedUp
    from perdure.services.heads import HeadsReport, SignReport
    from perdure.services.restore import Restored


class Keeping:
    """The part of an open store that keeps what has ended, and copies of everything."""

    _services: Services

    async def archive(self, id: str) -> "Archived":
        """Put an ended session away: to cold storage, if the store was opened with some. Again, it finishes."""
        return await self._services.archiving.archive(given.id_of(id))

    async def archive_ended(
        self, before: datetime | int, *, progress: given.Progress | None = None
    ) -> "tuple[list[Archived], list[NotArchived]]":
        """Put every ended session away that was last active before a time; those done, and those that would not go."""
        from perdure.services.archiving import Archived

        done: list[Archived] = []
        failed: list[NotArchived] = []
        at = given.micros_of(before, "before")
        async for item in self._services.archiving.sweep(at, given.progress_of(progress)):
            if isinstance(item, Archived):
                done.append(item)
            else:
                failed.append(item)
        return done, failed

    async def archived_size(self, id: str) -> int | None:
        """How many bytes an archived session takes in cold storage; None when it is not there."""
        row = (await self._services.sessions.log.head(given.id_of(id))).row
        return await self._services.archiving.size(row)

    async def restore_archived(self, id: str) -> bool:
        """Bring an archived session's log back from cold storage; False when it does not lie there."""
        return await self._services.archiving.thaw(given.id_of(id))

    async def sign_heads(self, *, accept: str | None = None, progress: given.Progress | None = None) -> "SignReport":
        """Vouch, in the vault, for how far every session goes; sweeps and backups do it by themselves. A session whose
        log does not go on from what was signed before is refused; `accept`, a reason, signs it as it is.
        """
        accepted = None if accept is None else given.text_of(accept, "accept")
        return await self._services.heads.sign_all(accept=accepted, progress=given.progress_of(progress))

    async def check_heads(self) -> "HeadsReport":
        """Whether every session goes as far as was signed, by what the store says of it; `verify` reads the logs."""
        return await self._services.heads.check()

    async def backup(
        self,
        target: str | os.PathLike[str],
        *,
        portable: bool = False,
        overwrite: bool = False,
        verify: str = "full",
        progress: given.Progress | None = None,
    ) -> "BackedUp":
        """Copy the store to a file while it is in use, as of one moment and proven, with a manifest beside it.

        The keys of a sealed store are not in it. `perdure.restore` brings it back.
        """
        from perdure import __version__
        from perdure.services.backup import Backups

        opened = self._services.opened
        if opened is None:
            raise Refused("several tiers are several stores; open each one by its own path and back that up")
        told = given.progress_of(progress)
        wiring = copying(__version__, opened.keys, opened.cold, self._services.sessions.ambient)
        return await Backups(wiring).back_up(
            opened.path,
            refused_own(self._services, given.path_of(target)),
            portable=given.flag_of(portable, "portable"),
            overwrite=given.flag_of(overwrite, "overwrite"),
            verify=given.text_of(verify, "verify"),
            stages=lambda _: told,
        )


async def arestore(
    backup: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    verify: str = "full",
    key: KeyGiven = None,
    vault: VaultGiven = None,
    cold: str | os.PathLike[str] | None = None,
    progress: given.Progress | None = None,
) -> "Restored":
    """`restore`, for async callers."""
    from perdure import __version__
    from perdure.services.restore import Restores

    told = given.progress_of(progress)
    return await Restores(copying(__version__, Given(None, key, vault), cold)).restore(
        given.path_of(backup),
        given.path_of(target),
        overwrite=given.flag_of(overwrite, "overwrite"),
        dry_run=given.flag_of(dry_run, "dry_run"),
        verify=given.text_of(verify, "verify"),
        stages=lambda _: told,
    )


def restore(
    backup: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    verify: str = "full",
    key: KeyGiven = None,
    vault: VaultGiven = None,
    cold: str | os.PathLike[str] | None = None,
    progress: given.Progress | None = None,
) -> "Restored":
    """Bring a store back from a backup to a new place, proven before it gets its name; a database for `postgresql://…`.

    A sealed store is proven with its keys, at `key` and `vault` or beside the target. Sessions erased after the backup
    cannot be read any more: they are told, as `erased`. What was at the target is set aside if it may be replaced.
    """
    return drive(
        arestore(
            backup,
            target,
            overwrite=overwrite,
            dry_run=dry_run,
            verify=verify,
            key=key,
            vault=vault,
            cold=cold,
            progress=progress,
        )
    )
