"""Keeping a whole store, as async callers do it: ended sessions put away and taken back, backups."""

import os
from datetime import datetime
from typing import TYPE_CHECKING

from perdure.compose import Services, copying
from perdure.core.errors import Refused
from perdure.edge import given
from perdure.edge.files import refused_own

if TYPE_CHECKING:
    from perdure.services.archiving import Archived, NotArchived
    from perdure.services.backup import BackedUp


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

        The keys of a sealed store are not in it. `perdure restore` brings it back.
        """
        from perdure import __version__
        from perdure.services.backup import Backups

        opened = self._services.opened
        if opened is None:
            raise Refused("this store was not opened by its path; back it up with perdure backup")
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
