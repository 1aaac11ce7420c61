"""Upgrade: a store brought to today's format, with a backup first and a proof after."""

import msgspec

from perdure.core.errors import Invalid
from perdure.services import manifests as files
from perdure.services.backup import Backups
from perdure.services.copies import Stages, Wiring, chains, living, unseen
from perdure.services.manifests import Verified
from perdure.waiting import aside


class Upgraded(msgspec.Struct, frozen=True, kw_only=True):
    """A store that has today's format; `found` is the one it had, `backup` where it was backed up first."""

    path: str
    found: int
    format: int
    backup: str | None
    verified: Verified
    remarks: tuple[str, ...]


class Upgrades:
    """Bringing stores to today's format."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    async def upgrade(
        self, store: str, *, backup: str | None = None, skip_backup: bool = False, stages: Stages = unseen
    ) -> Upgraded:
        """Back a store up, migrate it, prove everything. One that has today's format is only proven.

        `NewerStore` when a newer perdure wrote it; nothing is changed then.
        """
        engine = self._wiring.engine_of(store)
        found, saved = await aside(engine.facts), None
        if found.format < engine.latest:
            if not skip_backup:
                if backup is None and files.is_server(store):
                    raise Invalid("name the file to back up to first (--backup FILE), or skip the backup (--no-backup)")
                target = backup or f"{files.absolute(store)}.format-{found.format}.backup"
                copied = await Backups(self._wiring).back_up(store, target, overwrite=backup is None, stages=stages)
                saved = copied.path
            await self._wiring.open_once(store)
        now = await aside(engine.facts)
        reached = await chains(self._wiring, living(engine.place, store, store), now, stages)
        return Upgraded(
            path=engine.place,
            found=found.format,
            format=now.format,
            backup=saved,
            verified=reached.verified,
            remarks=reached.remarks,
        )
