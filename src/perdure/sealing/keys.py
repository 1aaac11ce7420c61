"""What people do with keys: look, rotate, forget, back up, check."""

from typing import Any

import msgspec

from perdure.core.errors import KeyMissing, Refused, Tampered
from perdure.core.session.ids import SessionId
from perdure.ports.ambient import Ambient
from perdure.ports.seal import Salted
from perdure.ports.store import Store
from perdure.ports.vault import Masters, Minting, Vault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.rotation import Progress, Rotated, forget, rotate

PAGE = 500


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A master key: whether it is current, when it was made if its place tells, and what lies under it."""

    id: str
    current: bool
    there: bool
    made_at: int | None
    salts: int
    condemned: int


class Trouble(msgspec.Struct, frozen=True):
    """A session that cannot be opened, and why."""

    session: SessionId
    what: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found: sessions seen, how many are sealed, and those that cannot be opened."""

    sessions: int
    sealed: int
    troubles: tuple[Trouble, ...]


class Keys:
    """The master keys and the vault of a store."""

    def __init__(self, masters: Masters, vault: Vault, ambient: Ambient) -> None:
        self.masters = masters
        self.vault = vault
        self._ambient = ambient

    def show(self) -> tuple[Shown, ...]:
        """Every master key that is there or that a salt lies under, the current one first."""
        current = self.vault.current()
        counts = {count.master: count for count in self.vault.census()}
        made = self.masters.made() if isinstance(self.masters, KeyFile) else {}
        there = self.masters.ids()
        return tuple(
            Shown(
                id=key,
                current=key == current,
                there=key in there,
                made_at=made.get(key),
                salts=counts[key].salts if key in counts else 0,
                condemned=counts[key].condemned if key in counts else 0,
            )
            for key in sorted({*there, *counts}, key=lambda key: (key != current, key))
        )

    def rotate(self, *, resume: bool = False, progress: Progress | None = None) -> Rotated:
        """Bring everything under a new master key, or finish that."""
        return rotate(self.masters, self.vault, self._ambient, resume=resume, progress=progress)

    @property
    def keeps_keys(self) -> bool:
        """Whether the place of the master keys can make and forget them; else their owner does."""
        return isinstance(self.masters, Minting)

    def forget(self, key: str) -> str:
        """Destroy a master key that nothing needs, named by its id or a beginning only it has; its id."""
        return forget(self.masters, self.vault, key)

    @property
    def copies_vault(self) -> bool:
        """Whether `backup` can copy the vault; else its owner does."""
        return hasattr(self.vault, "copy")

    def backup(self, path: str) -> None:
        """A copy of the vault as of one moment, while others work on."""
        copy: Any = getattr(self.vault, "copy", None)
        if copy is None:
            raise Refused(f"the vault at {self.vault.place} is no file; back it up with the tools of its server")
        copy(path)

    async def check(self, store: Store, progress: Progress | None = None) -> Checked:
        """Whether every session's salt is there and opens its latest record."""
        if not isinstance(store, Salted):
            raise Refused("this store cannot tell its salts; verify its sessions instead")
        sessions = sealed = 0
        troubles: list[Trouble] = []
        after: SessionId | None = None
        while found := await store.salts(after, PAGE):
            for session, salt in found:
                sessions += 1
                sealed += salt is not None
                if salt is not None and (what := await self._trouble(store, session, salt)):
                    troubles.append(Trouble(session, what))
                if progress is not None:
                    progress(sessions, sessions)
            after = found[-1][0]
        return Checked(sessions=sessions, sealed=sealed, troubles=tuple(troubles))

    async def _trouble(self, store: Any, session: SessionId, salt: bytes) -> str | None:
        if self.vault.get(salt) is None:
            return "its salt is not in the vault: it was erased, or the vault is older than the store"
        try:
            head = await store.head(session)
            if head is not None:
                await store.run(session, after=head.row.version - 1, upto=head.row.version, limit=1, newest=True)
        except (KeyMissing, Tampered) as error:
            return error.message
        return None

    def close(self) -> None:
        """Let go of the vault."""
        self.vault.close()
